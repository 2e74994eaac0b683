package webhook

import (
	"bytes"
	"strconv"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// session is one connection with one webhook for it.
type session struct {
	kit.Link

	message kit.Message
	cred    credential
	keyed   bool
	quote   bool // answers may be quoted
	keep    *kit.Keep
	now     func() time.Time
}

// Publish implements connector.Session.
func (s *session) Publish(c connector.Commit) job.Outcome {
	return s.Commit(c, s.call(c), s.classify)
}

// hidden are the secrets that the receiver may repeat.
func (s *session) hidden() transport.Secrets { return s.message.Hide(s.cred.hidden) }

func (s *session) call(c connector.Commit) transport.Request {
	m := s.message
	at := s.now().Unix()
	const most = 5 + 2 // ours, and those of a trace
	headers := append(make([]transport.Header, 0, most+len(s.cred.headers)+len(m.Headers)),
		transport.Header{Name: "Content-Type", Value: m.ContentType},
		transport.Header{Name: "Webhook-Id", Value: c.EffectKey},
		transport.Header{Name: "Webhook-Timestamp", Value: strconv.FormatInt(at, 10)},
	)
	if len(s.cred.keys) > 0 {
		headers = append(headers, transport.Header{Name: "Webhook-Signature", Value: sign(s.cred.keys, c.EffectKey, at, m.Body)})
	}
	if s.keyed {
		// For receivers that know the IETF draft and not Standard Webhooks. Our sender
		// cannot send again, whatever the headers say.
		headers = append(headers, transport.Header{Name: "Idempotency-Key", Value: c.EffectKey})
	}
	call := transport.Request{
		Method: "POST", URL: m.URL, Headers: kit.Traced(c, m.Under(headers, s.cred.headers)), Body: bytes.NewReader(m.Body), Length: int64(len(m.Body)),
	}
	if s.keep != nil {
		call.Keep = s.keep.BodyLimit(transport.MaxExcerpt, s.hidden())
	}
	return call
}

// classify narrows the rules of transport.ClassifyNamed, and only this: 410 means
// that the receiver is gone for good (Standard Webhooks 1.0).
func (s *session) classify(a transport.Response) job.Outcome {
	var hide func() transport.Secrets
	if s.quote {
		hide = s.hidden
	}
	o := transport.ClassifyNamed(a, "the receiver", hide, s.keyed)
	if a.Complete && a.Written > 0 && a.Status == 410 {
		o.Message = "the receiver answered 410 Gone: this webhook is no longer wanted; remove the URL or ask its owner"
	}
	o.Answer = s.keep.Of(a, s.hidden)
	return o
}
