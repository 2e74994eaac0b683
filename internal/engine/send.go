package engine

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/tracing"
)

// Rules of this file: after the arm no caller's context reaches the send, and every way
// out settles an outcome for (job, attempt).

// send sends what is armed, and settles the outcome.
func (a *attempt) send() {
	failpoint.Hit(failpoint.Armed)
	e, l, armed := a.e, a.leased, a.armed
	number, class := armed.Attempt.Number, armed.Snapshot.Class
	if !l.IsNotice() {
		e.Metrics.Armed(l.Connection.Connector, class, number, armed.Attempt.ArmedAt.Sub(l.ScheduleTime))
	}
	// Before the first byte: the store's clock may be set, and the job be taken for
	// one past its fence, while the request is under way.
	e.notBefore.set(l.ID, a.start.Time.Add(a.intent.Fence+a.traits.ReadLag), a.start.Time)
	e.holds.armed(a.work.Context(), l, a.start.Time)
	a.work.Armed(number, class, a.intent.Rearm)
	step := a.work.Step(tracing.Send)
	outcome := a.publish()
	step.Sent(number, outcome)
	a.freeRequest()
	if class == job.Keyed {
		a.permit.freeSender() // what a crash would leave unknown, a repeat settles
	}
	failpoint.Hit(failpoint.Answered)
	outcome = e.credentials.renewOutcome(e.hard, &l.Connection, outcome)
	if outcome.Result != job.ResultUnknown {
		e.notBefore.forget(l.ID)
	}
	a.work.Saw(outcome)
	armed.Snapshot.Complete(&l.Spec)
	a.settle(&armed.Snapshot, outcome, job.ID{})
	a.sawOutcome(&outcome)
	failpoint.Hit(failpoint.Settled)
}

// freeRequest frees the request after the send: more jobs wait for the store than are
// sent concurrently, and none needs its request.
func (a *attempt) freeRequest() {
	a.closeSession()
	a.leased.Payload = nil
	a.prepared, a.intent.Frozen = connector.Prepared{}, nil
}

// publish makes the commit request. A panic after the arm is an unknown outcome.
func (a *attempt) publish() (out job.Outcome) {
	number := a.armed.Attempt.Number
	defer func() {
		if p := recover(); p != nil {
			a.e.Log.ErrorContext(a.work.Context(), "panic while sending",
				logged(&a.leased.Snapshot, &a.leased.Connection), "attempt", number, "panic", p, "stack", string(debug.Stack()))
			out = job.Outcome{Result: job.ResultUnknown, Kind: job.FailAmbiguous, Message: "internal error while sending"}
		}
		out.Attempt = number
		if out.Result == 0 {
			out.Result, out.Kind = job.ResultUnknown, job.FailAmbiguous
		}
		out.CredentialVersion = a.intent.CredentialVersion
	}()
	traceparent, tracestate := a.work.Headers()
	return a.session.Publish(connector.Commit{
		Attempt: number, EffectKey: a.intent.EffectKey, Traceparent: traceparent, Tracestate: tracestate,
		SendBy: a.start.Time.Add(a.intent.SendBy), AnswerBy: a.start.Time.Add(a.wait),
		MaySend: a.maySend, SaveHandle: a.saveHandle,
	})
}

// maySend fails when the send window has passed, or the clocks cannot be trusted.
func (a *attempt) maySend() error {
	gone, err := a.start.elapsed(a.e.Clock.Read())
	if err != nil {
		return err
	}
	if gone >= a.intent.SendBy {
		return fmt.Errorf("the send window of %v passed before the first byte", a.intent.SendBy)
	}
	failpoint.Hit(failpoint.Checked)
	return nil
}

// saveHandle makes the handle of a prepare step durable before the next step acts.
func (a *attempt) saveHandle(handle string) error {
	ctx, cancel := context.WithTimeout(a.e.hard, storeTimeout)
	defer cancel()
	return a.e.Store.SaveHandle(ctx, a.leased.ID, a.armed.Attempt.Number, handle)
}
