package storetest

import (
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Traces of which jobs and attempts are a part.
var traceTests = []test{
	{"a job's", traceOfJob},
	{"bounds", traceBounds},
	{"an attempt's", traceOfAttempt},
	{"an attempt's that its claim began", traceIntended},
	{"of a job that is started as it is stored", traceStarted},
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

var sent = job.Span{TraceID: [16]byte{1, 15: 2}, SpanID: [8]byte{3, 7: 4}}

func traced(trace string) func(*store.NewJob) {
	return func(n *store.NewJob) { n.Spec.Trace = trace }
}

func traceOfJob(f *fixture) {
	n := f.new(traced(traceparent + " a=b"))
	f.is(f.create(n)[0].Snapshot.Trace, traceparent+" a=b", "as it is stored")
	again := f.new(traced(traceparent))
	again.Spec.Key = n.Spec.Key
	c := f.create(again)[0]
	f.is([]any{c.Created, c.Snapshot.Trace}, []any{false, traceparent + " a=b"}, "of a repeat")
	f.is(f.job(n.Spec.ID).Trace, traceparent+" a=b", "as it is read")
	p, err := f.s.List(f.ctx, store.JobQuery{Project: project, Limit: 10})
	f.ok(err)
	f.is(p.Jobs[0].Trace, traceparent+" a=b", "as it is listed")
	l := f.claim()
	f.is(l.Trace, traceparent+" a=b", "as it is claimed")
	a := f.arm(l)
	f.is(a.Attempt.Span, job.Span{}, "of an attempt without one")
	f.apply(a.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultUnknown})
	f.clock.advance(fence)
	f.is(f.looks()[0].Trace, traceparent+" a=b", "as it is leased for a look")
	f.is(f.submit().Trace, "", "of another job")
}

func traceBounds(f *fixture) {
	f.submit(traced(traceparent + " " + strings.Repeat("x", job.MaxTrace-len(traceparent)-1)))
	for _, trace := range []string{traceparent[1:], strings.Repeat("x", job.MaxTrace+1)} {
		out, err := f.s.Create(f.ctx, []store.NewJob{f.new(traced(trace))})
		if err == nil {
			err = out[0].Err
		}
		f.fails(err, store.ErrIllegal)
	}
}

func spanned(a *store.Arm) { a.Span = sent }

func traceOfAttempt(f *fixture) {
	f.submit()
	a := f.arm(f.claim(), spanned)
	f.is(a.Attempt.Span, sent, "as it is armed")
	f.is(f.attempts(a.Snapshot.ID)[0].Span, sent, "as it is read")
	back, err := f.s.ArmedBy(f.ctx, a.Snapshot.ID, a.Attempt.ArmToken)
	f.ok(err)
	f.is(back.Attempt.Span, sent, "as it is read back")
	s := f.apply(a.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient}).Snapshot
	f.clock.advance(s.NextAt.Sub(f.clock.now()))
	f.arm(f.claim(), func(a *store.Arm) { a.Span = job.Span{TraceID: sent.TraceID, SpanID: [8]byte{9}} })
	got := f.attempts(s.ID)
	f.is([]job.Span{got[0].Span, got[1].Span}, []job.Span{sent, {TraceID: sent.TraceID, SpanID: [8]byte{9}}}, "of two attempts")
}

func traceIntended(f *fixture) {
	f.submit()
	out, _ := f.claimArming(spanned)
	if out[0].Armed == nil {
		return
	}
	f.is(out[0].Armed.Attempt.Span, sent, "as it is armed")
	f.is(f.attempts(out[0].ID)[0].Span, sent, "as it is read")
}

// The second one finds its runnable row, as a start in one statement needs.
func traceStarted(f *fixture) {
	for range 2 {
		f.clock.advance(time.Second)
		c := f.started(traced(traceparent), func(n *store.NewJob) {
			n.Start.Intent = func(l store.Leased) *store.Arm {
				f.is(l.Trace, traceparent, "as it is shown")
				a := f.intent(l, spanned)
				return &a
			}
		})
		f.is(f.job(c.Snapshot.ID).Trace, traceparent, "as it is read")
		if c.Started == nil || c.Started.Armed == nil {
			continue
		}
		f.is(f.attempts(c.Snapshot.ID)[0].Span, sent, "of the attempt")
		f.end(c.Snapshot.ID)
	}
}
