package webhook

import (
	"bytes"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// session is one line with one webhook for it.
type session struct {
	line    *connector.Line
	message message
	cred    credential
	version int
	keyed   bool
	now     func() time.Time
}

// Close implements connector.Session.
func (s *session) Close() { s.line.Close() }

// Publish implements connector.Session.
func (s *session) Publish(c connector.Commit) job.Outcome {
	answer := s.line.Exchange(s.call(c), connector.Bounds{SendBy: c.SendBy, AnswerBy: c.AnswerBy, MaySend: c.MaySend})
	o := s.classify(answer)
	o.Attempt = c.Attempt
	o.CredentialVersion = s.version
	return o
}

func (s *session) call(c connector.Commit) connector.Call {
	m := s.message
	at := s.now().Unix()
	headers := []connector.Header{
		{Name: "Content-Type", Value: m.contentType},
		{Name: "Webhook-Id", Value: c.EffectKey},
		{Name: "Webhook-Timestamp", Value: strconv.FormatInt(at, 10)},
	}
	if len(s.cred.keys) > 0 {
		headers = append(headers, connector.Header{Name: "Webhook-Signature", Value: sign(s.cred.keys, c.EffectKey, at, m.body)})
	}
	if s.keyed {
		// For receivers that know the IETF draft and not Standard Webhooks. Our sender
		// cannot send again, whatever the headers say.
		headers = append(headers, connector.Header{Name: "Idempotency-Key", Value: c.EffectKey})
	}
	headers = append(headers, s.cred.headers...)
	for _, h := range m.headers {
		ours := func(o connector.Header) bool { return strings.EqualFold(o.Name, h.Name) }
		if !slices.ContainsFunc(s.cred.headers, ours) { // the credential's value wins
			headers = append(headers, h)
		}
	}
	return connector.Call{
		Method: "POST", URL: m.url, Headers: headers, Body: bytes.NewReader(m.body), Length: int64(len(m.body)),
	}
}

// classify narrows the default rules, and only these:
//
//   - 307 and 308 are refusals. They ask for this same request, method and body
//     unchanged, at another place (RFC 9110, sections 15.4.8 and 15.4.9), so it was
//     not acted on here; Standard Webhooks 1.0 calls every 3xx a failure. The other
//     3xx stay unknown: 303, and 302 as it is used, is what applications answer to a
//     POST that they *have* acted on (RFC 9110, section 15.4.4).
//   - 401 is no hold: another URL behind the same host and port may take another
//     secret. It is permanent for the job.
//   - 409 to a KEYED request may mean "the same key is in progress" (IETF draft
//     idempotency-key-header, section 2.7): unknown, and asked again later.
//   - 410 says that the receiver is gone for good (Standard Webhooks 1.0).
func (s *session) classify(a connector.Answer) job.Outcome {
	o := connector.Classify(a, "the receiver", s.secrets())
	if !a.Complete || a.Written == 0 {
		return o
	}
	switch a.Status {
	case 307, 308:
		o.Result, o.Kind, o.RetryAfter = job.ResultRejected, job.FailPermanent, 0
		o.Message += "; redirects are not followed, use the final URL"
	case 300, 301, 302, 303:
		o.Message += "; redirects are not followed and it may have acted, use the final URL"
	case 401:
		o.Kind = job.FailPermanent
	case 409:
		if s.keyed {
			o.Result, o.Kind = job.ResultUnknown, job.FailAmbiguous
			if wait, said := connector.RetryAfter(a.Header, a.At); said {
				o.RetryAfter = wait
			} else {
				o.RetryAfter = connector.DefaultRetryAfter
			}
			o.Message += "; an earlier request with the same key may be in progress"
		}
	case 410:
		o.Message = "the receiver answered 410 Gone: this webhook is no longer wanted; remove the URL or ask its owner"
	}
	o.Message = connector.Clean(o.Message, connector.MaxMessage)
	return o
}

// longPart is the length from which a part of a path is taken for a secret.
const longPart = 16

// secrets are the texts that a receiver may echo and a message must not show:
// the credential's, what the URL's query holds, long parts of its path, and the
// values of the user's headers.
func (s *session) secrets() connector.Secrets {
	u := s.message.url
	hide := []string{u.RawQuery}
	for _, pair := range strings.FieldsFunc(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		_, value, _ := strings.Cut(pair, "=")
		hide = append(hide, value)
		if plain, err := url.QueryUnescape(value); err == nil {
			hide = append(hide, plain)
		}
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if len(part) >= longPart {
			hide = append(hide, part)
		}
	}
	for _, h := range s.message.headers {
		hide = append(hide, h.Value)
	}
	return s.cred.hidden.With(hide...)
}
