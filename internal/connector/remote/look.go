package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/connectorv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

const (
	maxWatermark  = 64 << 10
	maxCandidates = 100
)

// mark is a watermark as it is stored.
type mark struct {
	Account string `json:"account,omitempty"`
	Mark    string `json:"mark"`
}

// Watermark implements connector.Observer. It fails with *connector.Refusal.
func (c *Connector) Watermark(ctx context.Context, o connector.Opening) (string, error) {
	r, content, err := thaw(o.Prepared.Frozen)
	if err != nil {
		return "", kit.UnreadableFrozen("request", err)
	}
	who, sec, err := c.account(o)
	if err != nil {
		return "", err
	}
	var out connectorv1.WatermarkResponse
	in := &connectorv1.WatermarkRequest{Account: who, JobId: o.Job.String(), Content: content, Frozen: r.own}
	if err := c.ask(ctx, "Watermark", readTime, in, &out, sec.hide); err != nil {
		return "", err
	}
	read := out.GetRead()
	if read == nil || len(read.GetWatermark()) > maxWatermark {
		return "", c.refusal("Watermark", out.GetRefused(), sec.hide)
	}
	text, err := json.Marshal(mark{Account: c.identity(read.GetAccountIdentity(), sec.hide), Mark: read.GetWatermark()})
	return string(text), err
}

// refusal returns why a read failed: in the platform's words, or that no usable word came.
func (c *Connector) refusal(method string, r *connectorv1.Refusal, hide transport.Secrets) *connector.Refusal {
	if o := c.rejected(r, hide); o.Result == job.ResultRejected {
		return &connector.Refusal{Kind: o.Kind, Msg: o.Message, RetryAfter: o.RetryAfter}
	}
	return &connector.Refusal{Kind: job.FailTransient, Msg: c.who + " answered " + method + " with no result that this version can use"}
}

func parseMark(text string) (mark, error) {
	var m *mark
	if err := json.Unmarshal([]byte(text), &m); err != nil || m == nil {
		return mark{}, errors.New("the stored watermark is not readable")
	}
	return *m, nil
}

// AccountOf implements connector.Identifier.
func (*Connector) AccountOf(watermark string) string {
	m, err := parseMark(watermark)
	if err != nil {
		return ""
	}
	return m.Account
}

// Observe implements connector.Observer.
func (c *Connector) Observe(ctx context.Context, o connector.Opening, l connector.Look) job.Observation {
	if o.Class == job.Handle {
		// A staged attempt has a handle, and is polled. Publish comes after the handle is
		// stored, and a handle is stored before the fence or never.
		return lookup.Saw(job.SawAbsent, "nothing was staged, so nothing was published")
	}
	seen, err := c.see(ctx, o, l)
	if err != nil {
		return lookup.Unseen(err)
	}
	return verdict(seen)
}

// see asks for candidates, and drops those that are other jobs' effects. A look that
// proves nothing is an error.
func (c *Connector) see(ctx context.Context, o connector.Opening, l connector.Look) ([]*connectorv1.Candidate, error) {
	r, content, err := thaw(l.First.Frozen)
	if err != nil {
		return nil, err
	}
	m, err := parseMark(l.First.Watermark)
	if err != nil {
		return nil, err
	}
	who, sec, err := c.account(o)
	if err != nil {
		return nil, err
	}
	var out connectorv1.ObserveResponse
	if err := c.ask(ctx, "Observe", readTime, &connectorv1.ObserveRequest{
		Account: who, JobId: o.Job.String(), EffectKey: l.First.EffectKey, Content: content, Frozen: r.own, Watermark: m.Mark,
		NotBefore: timestamppb.New(l.First.ArmedAt), NotAfter: timestamppb.New(l.Fence),
	}, &out, sec.hide); err != nil {
		return nil, err
	}
	switch said := out.GetResult().(type) {
	case *connectorv1.ObserveResponse_Seen:
		return c.mine(ctx, said.Seen, l, sec.hide)
	case *connectorv1.ObserveResponse_Unread:
		return nil, errors.New(c.who + " could not read: " + orNothing(words(said.Unread.GetMessage(), sec.hide)))
	case *connectorv1.ObserveResponse_Refused:
		return nil, c.refusal("Observe", said.Refused, sec.hide)
	default:
		return nil, errors.New(c.who + " answered Observe with no result that this version knows")
	}
}

// mine are the candidates that are no other job's.
func (c *Connector) mine(ctx context.Context, s *connectorv1.Seen, l connector.Look, hide transport.Secrets) ([]*connectorv1.Candidate, error) {
	if !s.GetComplete() {
		return nil, errors.New(c.who + " did not read everything")
	}
	var ids []string
	for _, candidate := range s.GetCandidates() {
		id := candidate.GetExternalId()
		if !c.nameable(id, hide) || slices.Contains(ids, id) {
			return nil, errors.New(c.who + " names an object in a way that cannot be used")
		}
		candidate.ExternalUrl = c.webURL(candidate.GetExternalUrl(), hide)
		ids = append(ids, id)
	}
	if len(ids) > maxCandidates {
		return nil, fmt.Errorf("%s names more than %d objects", c.who, maxCandidates)
	}
	if l.Taken == nil || len(ids) == 0 {
		return s.GetCandidates(), nil
	}
	taken, err := l.Taken(ctx, ids)
	if err != nil {
		return nil, errors.New("it could not be read which objects are other jobs'")
	}
	return slices.DeleteFunc(slices.Clone(s.GetCandidates()), func(x *connectorv1.Candidate) bool { return taken[x.GetExternalId()] }), nil
}

// verdict is the result of a complete look.
func verdict(seen []*connectorv1.Candidate) job.Observation {
	switch {
	case len(seen) == 0:
		return lookup.Saw(job.SawAbsent, "everything since the send was read, and it is not there")
	case len(seen) == 1 && seen[0].GetSure():
		o := lookup.Saw(job.SawPresent, "found as "+seen[0].GetExternalId())
		o.ExternalID, o.ExternalURL = seen[0].GetExternalId(), seen[0].GetExternalUrl()
		return o
	}
	var ids []string
	for _, x := range seen {
		ids = append(ids, x.GetExternalId())
	}
	return lookup.Saw(job.SawCandidates, fmt.Sprintf("%d objects could be this effect; is it one of them? %s", len(ids), strings.Join(ids, ", ")))
}

// Poll implements connector.Poller.
func (c *Connector) Poll(ctx context.Context, o connector.Opening, handle string) job.Outcome {
	unknown := func(why string) job.Outcome {
		return job.Outcome{Result: job.ResultUnknown, Kind: job.FailAmbiguous, Message: transport.Clean(why, transport.MaxMessage)}
	}
	who, sec, err := c.account(o)
	if err != nil {
		return unknown(err.Error())
	}
	var out connectorv1.PollResponse
	if err := c.ask(ctx, "Poll", readTime, &connectorv1.PollRequest{Account: who, JobId: o.Job.String(), Handle: handle}, &out, sec.hide); err != nil {
		var r *connector.Refusal
		if errors.As(err, &r) {
			return unknown(r.Msg)
		}
		return unknown(c.who + " could not be asked")
	}
	switch r := out.GetResult().(type) {
	case *connectorv1.PollResponse_Published:
		return c.published(r.Published, sec.hide)
	case *connectorv1.PollResponse_Pending:
		return job.Outcome{
			Result: job.ResultAccepted, Handle: handle,
			Message: transport.Clean("the platform works on it. "+words(r.Pending.GetMessage(), sec.hide), transport.MaxMessage),
		}
	case *connectorv1.PollResponse_Rejected:
		switch o := c.rejected(r.Rejected, sec.hide); o.Kind {
		case job.FailPermanent, job.FailTransient:
			return o
		case job.FailAuth, job.FailRateLimited:
			return unasked(o) // a refused question proves nothing about the handle
		default:
		}
	case *connectorv1.PollResponse_Refused:
		if o := c.rejected(r.Refused, sec.hide); o.Result == job.ResultRejected {
			return unasked(o)
		}
	case *connectorv1.PollResponse_Unread:
		return unknown(c.who + " could not read: " + orNothing(words(r.Unread.GetMessage(), sec.hide)))
	}
	return unknown(c.who + " answered Poll with no result that this version can use")
}

// unasked is a question that was refused: it proves nothing about the object of the
// question.
func unasked(o job.Outcome) job.Outcome {
	o.Result = job.ResultUnknown
	if o.Kind != job.FailAuth {
		o.Kind = job.FailAmbiguous
	}
	return o
}

// Test implements connector.Tester.
func (c *Connector) Test(ctx context.Context, o connector.Opening) (connector.Tested, error) {
	who, sec, err := c.account(o)
	if err != nil {
		return connector.Tested{}, err
	}
	var out connectorv1.TestResponse
	if err := c.ask(ctx, "Test", readTime, &connectorv1.TestRequest{Account: who}, &out, sec.hide); err != nil {
		return connector.Tested{}, err
	}
	if out.GetTested() == nil {
		return connector.Tested{}, c.refusal("Test", out.GetRefused(), sec.hide)
	}
	return connector.Tested{
		Identity: c.identity(out.GetTested().GetAccountIdentity(), sec.hide), Detail: words(out.GetTested().GetDetail(), sec.hide),
	}, nil
}
