package remote

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectorv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file:
//   - one Publish call for each attempt. That nothing was sent is ours to say only
//     if no byte of it was written; after the first byte only the service can;
//   - an RPC error is UNKNOWN whatever its code: it may come from a proxy, or from a
//     handler that failed after it had acted.

// Limits of what a service returns.
const (
	maxExternalID = 512
	maxHandle     = 4 << 10
)

// Open implements connector.Connector.
func (c *Connector) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	r, content, err := thaw(o.Prepared.Frozen)
	if err != nil {
		return nil, kit.UnreadableFrozen("request", err)
	}
	who, sec, err := c.account(o)
	if err != nil {
		return nil, err
	}
	s := &session{c: c, request: r, content: content, account: who, secret: sec, job: o.Job, class: o.Class}
	if err := s.Connect(ctx, c.sender, o, transport.TargetOf(c.base)); err != nil {
		return nil, err
	}
	return s, nil
}

// session is one connection with one request for it.
type session struct {
	kit.Link

	c       *Connector
	request request
	content *connectorv1.Content
	account *connectorv1.Account
	secret  secret
	job     job.ID
	class   job.Class
}

// Publish implements connector.Session.
func (s *session) Publish(c connector.Commit) job.Outcome {
	o := s.publish(c)
	o.Attempt, o.CredentialVersion = c.Attempt, s.Version
	return o
}

func (s *session) publish(c connector.Commit) job.Outcome {
	conn, handle := s.Conn, ""
	if s.class == job.Handle {
		var ended *job.Outcome
		if conn, handle, ended = s.stage(c); ended != nil {
			return *ended
		}
		defer conn.Close()
	}
	within := time.Until(c.AnswerBy)
	call, err := s.c.call("Publish", &connectorv1.PublishRequest{
		Account: s.account, JobId: s.job.String(), EffectKey: c.EffectKey, Attempt: int32(c.Attempt), EffectClass: classToWire(s.class),
		Content: s.content, Frozen: s.request.own, Handle: handle,
		SendWithin: left(c.SendBy), AnswerWithin: left(s.answerBy(c)),
	}, within)
	if err != nil {
		return notSent("this try sent nothing: the call cannot be encoded")
	}
	call.Headers = kit.Traced(c, call.Headers)
	o := s.classify(conn.Exchange(call, transport.Bounds{SendBy: c.SendBy, AnswerBy: c.AnswerBy, MaySend: c.MaySend}))
	if o.Result == job.ResultAccepted {
		o.Handle = handle
	}
	return o
}

// answerBy leaves the last tenth of the time for the answer's way back.
func (*session) answerBy(c connector.Commit) time.Time {
	return c.AnswerBy.Add(-time.Until(c.AnswerBy) / 10)
}

// left is the time until then, never negative.
func left(until time.Time) *durationpb.Duration { return durationpb.New(max(0, time.Until(until))) }

func classToWire(class job.Class) fireoncev1.EffectClass {
	for wire, known := range classes {
		if known == class {
			return wire
		}
	}
	return fireoncev1.EffectClass_EFFECT_CLASS_UNSPECIFIED
}

func notSent(why string) job.Outcome {
	return job.Outcome{Result: job.ResultNotSent, Kind: job.FailTransient, Message: transport.Clean(why, transport.MaxMessage)}
}

// stage makes the object, which is not visible yet, stores its handle, and opens a
// connection to publish it with. A failure here had no effect.
func (s *session) stage(c connector.Commit) (*transport.Conn, string, *job.Outcome) {
	ended := func(o job.Outcome) (*transport.Conn, string, *job.Outcome) { return nil, "", &o }
	call, err := s.c.call("Stage", &connectorv1.StageRequest{
		Account: s.account, JobId: s.job.String(), EffectKey: c.EffectKey, Attempt: int32(c.Attempt), Content: s.content,
		Frozen: s.request.own, Within: left(c.SendBy),
	}, time.Until(c.SendBy))
	if err != nil {
		return ended(notSent("this try sent nothing: the call cannot be encoded"))
	}
	a := s.Conn.Exchange(call, transport.Bounds{SendBy: c.SendBy, AnswerBy: c.SendBy, MaySend: c.MaySend})
	var out connectorv1.StageResponse
	if err := parse(a, &out); err != nil {
		return ended(notSent("nothing was published: " + s.c.unread(a, "Stage", s.secret.hide)))
	}
	if refused := out.GetRefused(); refused != nil {
		if o := s.c.rejected(refused, s.secret.hide); o.Result == job.ResultRejected {
			o.BytesWritten = a.Written
			return ended(o)
		}
	}
	handle := out.GetStaged().GetHandle()
	if handle == "" || len(handle) > maxHandle || strings.ContainsRune(handle, 0) { // no database keeps a zero in a text
		return ended(notSent("nothing was published: " + s.c.who + " answered Stage without a handle of 1 to 4096 bytes, none of them zero"))
	}
	if handle != s.secret.hide.Redact(handle) { // attempts show it
		return ended(notSent("nothing was published: " + s.c.who + " answered Stage with a handle that has a secret in it"))
	}
	if err := c.SaveHandle(handle); err != nil {
		return ended(notSent("nothing was published: the handle could not be stored"))
	}
	ctx, cancel := context.WithDeadline(context.Background(), c.SendBy)
	defer cancel()
	conn, err := s.c.sender.Open(ctx, transport.TargetOf(s.c.base), true)
	if err != nil {
		why := "the connection could not be opened"
		var r *connector.Refusal
		if errors.As(err, &r) {
			why = r.Msg
		}
		return ended(notSent("nothing was published: " + why))
	}
	return conn, handle, nil
}

// classify judges the answer to Publish.
func (s *session) classify(a transport.Response) job.Outcome {
	o := transport.Classify(a, s.c.who, s.secret.hide)
	o.PeerEnded, o.Down = false, false // the service ended the exchange, not the platform
	if a.Written == 0 || !a.Complete {
		return o // not sent, or unknown
	}
	unknown := job.Outcome{Result: job.ResultUnknown, Kind: job.FailAmbiguous, HTTPStatus: a.Status, BytesWritten: a.Written}
	var out connectorv1.PublishResponse
	if err := parse(a, &out); err != nil {
		unknown.Message = transport.Clean(s.c.unread(a, "Publish", s.secret.hide)+"; it may have acted", transport.MaxMessage)
		transport.Postpone(&unknown, a)
		return unknown
	}
	o = s.typed(&out)
	kept := s.kept(out.GetAnswer())
	if o.Result == 0 {
		unknown.Answer = kept
		unknown.Message = s.c.who + " answered with no result that this version can use; it may have acted"
		return unknown
	}
	if o.Result != job.ResultNotSent {
		o.BytesWritten, o.Answer = a.Written, kept
	}
	return o
}

// kept returns what is kept of the platform's answer; nil: the service returned none.
func (s *session) kept(in *connectorv1.Answer) *job.Answer {
	if in == nil {
		return nil
	}
	told := job.Answer{Status: status(in.GetHttpStatus()), Body: in.GetBody()}
	for _, h := range in.GetHeaders() {
		told.Headers = append(told.Headers, job.AnswerHeader{Name: h.GetName(), Value: h.GetValue()})
	}
	return kit.KeepTold(told, s.secret.hide)
}

// typed reads a result that the service has set; a zero Result: it cannot be used.
func (s *session) typed(out *connectorv1.PublishResponse) job.Outcome {
	hide := s.secret.hide
	switch r := out.GetResult().(type) {
	case *connectorv1.PublishResponse_Published:
		o := s.c.published(r.Published, hide)
		if o.ExternalID == "" && s.class == job.Observable {
			// Only the id lets later looks identify the job of this object.
			return job.Outcome{}
		}
		return o
	case *connectorv1.PublishResponse_Accepted:
		if s.class != job.Handle {
			return job.Outcome{}
		}
		return job.Outcome{Result: job.ResultAccepted, Message: s.c.who + " says that the platform works on it"}
	case *connectorv1.PublishResponse_Rejected:
		return s.c.rejected(r.Rejected, hide)
	case *connectorv1.PublishResponse_NotSent:
		return notSent("this try sent nothing, says " + s.c.who + ": " + orNothing(words(r.NotSent.GetMessage(), hide)))
	case *connectorv1.PublishResponse_Unknown:
		wait, _ := waitOf(r.Unknown.GetRetryAfter())
		return job.Outcome{
			Result: job.ResultUnknown, Kind: job.FailAmbiguous, RetryAfter: wait, HTTPStatus: status(r.Unknown.GetHttpStatus()),
			PeerEnded: r.Unknown.GetPlatformEnded(),
			Message:   transport.Clean(s.c.who+" does not know: "+orNothing(words(r.Unknown.GetMessage(), hide)), transport.MaxMessage),
		}
	default:
		return job.Outcome{}
	}
}

func orNothing(text string) string {
	if text == "" {
		return "it does not say why"
	}
	return text
}

// published is the platform's word that the effect exists.
func (c *Connector) published(p *connectorv1.Published, hide transport.Secrets) job.Outcome {
	o := job.Outcome{
		Result: job.ResultSucceeded, Message: c.who + " says that it was published", HTTPStatus: status(p.GetHttpStatus()),
		ExternalURL: c.webURL(p.GetExternalUrl(), hide),
	}
	if id := p.GetExternalId(); id == "" || c.nameable(id, hide) {
		o.ExternalID = id
	} else {
		o.Message += ", under a name that cannot be stored"
	}
	return o
}

// nameable reports whether an object's name can be stored and shown: the platform may
// have made it from the request.
func (c *Connector) nameable(id string, hide transport.Secrets) bool {
	return id != "" && len(id) <= maxExternalID && id == transport.Clean(id, maxExternalID) && id == hide.Redact(id)
}

// webURL returns a URL that can be shown to a user, or nothing.
func (c *Connector) webURL(raw string, hide transport.Secrets) string {
	if raw = kit.WebURL(raw); raw != hide.Redact(raw) {
		return ""
	}
	return raw
}

func status(code int32) int {
	if code < 100 || code > 999 {
		return 0
	}
	return int(code)
}

var refusalKinds = map[connectorv1.Refusal_Kind]job.FailureKind{
	connectorv1.Refusal_KIND_AUTH:         job.FailAuth,
	connectorv1.Refusal_KIND_PERMANENT:    job.FailPermanent,
	connectorv1.Refusal_KIND_RATE_LIMITED: job.FailRateLimited,
	connectorv1.Refusal_KIND_TRANSIENT:    job.FailTransient,
}

// rejected is a definite refusal. One of a kind that is not known here returns a zero
// Result.
func (c *Connector) rejected(r *connectorv1.Refusal, hide transport.Secrets) job.Outcome {
	kind, ok := refusalKinds[r.GetKind()]
	if !ok {
		return job.Outcome{}
	}
	o := job.Outcome{
		Result: job.ResultRejected, Kind: kind, Message: words(r.GetMessage(), hide), HTTPStatus: status(r.GetHttpStatus()),
	}
	if o.Message == "" {
		o.Message = "refused, says " + c.who + ", and does not say why"
	}
	if kind == job.FailRateLimited {
		var said bool
		if o.RetryAfter, said = waitOf(r.GetRetryAfter()); !said {
			o.RetryAfter = transport.DefaultRetryAfter
		}
	}
	return o
}

// waitOf clamps what a platform asks for.
func waitOf(d *durationpb.Duration) (wait time.Duration, said bool) {
	if d == nil || d.CheckValid() != nil {
		return 0, false
	}
	return min(max(d.AsDuration(), transport.MinRetryAfter), transport.MaxRetryAfter), true
}
