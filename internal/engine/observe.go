package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - a look is read-only, and a look that fails proves nothing about the effect;
//   - a credential that is refused in a look is renewed once, where that is possible,
//     and holds the account otherwise. No look was made then, and none is counted;
//   - a look reads back to its round's first watermark, however many attempts followed;
//   - what another job owns is no candidate. If the owners cannot be read, the look saw
//     nothing;
//   - an object that was seen is evidence even if another worker holds the lease by then;
//     every other verdict counts only under the look's own lease.

// observe makes one read-only look or poll and settles what it saw.
func (o *look) observe(ctx context.Context, what job.Action) {
	e, l := o.e, o.leased
	// A poll of an unknown outcome may prove that there is no effect, as a look may.
	unknown := what == job.ActObserve || l.State == job.Ambiguous
	if wait := e.notBefore.wait(l); wait > 0 && unknown {
		// The store's clock ran ahead of ours; a look now could be too early.
		o.settleLeased(job.Deferred{Kind: job.FailHeld, RetryAfter: wait})
		return
	}
	lease := o.keepLease(ctx)
	ev := o.ask(lease.ctx, what)
	o.work.Saw(ev)
	lost := lease.stop()
	switch refused := ev.(type) {
	case job.Deferred:
		ev = e.credentials.renewDeferred(ctx, &l.Connection, refused)
	case job.Outcome:
		ev = e.credentials.renewOutcome(e.hard, &l.Connection, refused)
	}
	token := l.ClaimToken
	switch {
	case present(ev):
		token = job.ID{}
	case lost || ctx.Err() != nil:
		return
	}
	now := e.Clock.Read().Time
	after, stored := o.settle(&l.Snapshot, ev, token)
	if stored && after.State == job.Ambiguous && after.Negatives > l.Negatives {
		e.notBefore.set(l.ID, now.Add(e.traits(&l.Connection, l.Class).Spacing), now)
	}
}

// lookFirst makes the look that comes before each later arm of an OBSERVABLE
// job, under its claim. It leaves the job as it is then, and reports whether to go on.
func (a *attempt) lookFirst(ctx context.Context, held *lease) bool {
	l := a.leased
	step := a.work.Step(tracing.Look)
	ev := a.ask(held.ctx, job.ActObserve)
	step.Saw(ev)
	token := l.ClaimToken
	refused, deferred := ev.(job.Deferred)
	switch {
	case present(ev):
		token = job.ID{}
	case held.lost.Load():
		return false
	case deferred:
		a.giveBack(ctx, refused)
		return false
	case ctx.Err() != nil:
		a.giveBack(ctx, job.Deferred{Kind: job.FailHeld})
		return false
	}
	after, stored := a.settle(&l.Snapshot, ev, token)
	if !stored || after.State != job.Claimed || after.ClaimToken != l.ClaimToken {
		return false
	}
	l.Snapshot = *after
	return true
}

func present(ev job.Evidence) bool {
	looked, ok := ev.(job.Looked)
	return ok && looked.Verdict == job.SawPresent
}

// ask asks the platform for the job's effect. A failure proves nothing about the effect.
func (t *task) ask(ctx context.Context, what job.Action) (ev job.Evidence) {
	e, l := t.e, t.leased
	defer func() {
		if p := recover(); p != nil {
			e.Log.ErrorContext(t.work.Context(), "panic while looking", logged(&l.Snapshot, &l.Connection), "panic", p, "stack", string(debug.Stack()))
			ev = blind(l, "internal error while looking")
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, e.Lease)
	defer cancel()
	to, refused := e.credentials.open(ctx, l)
	if refused != nil {
		return *refused
	}
	if what == job.ActPoll {
		return poll(ctx, to, l)
	}
	observer, ok := to.connector.(connector.Observer)
	if !ok {
		return blind(l, "this connector cannot look at its platform")
	}
	attempts, err := e.Store.Attempts(ctx, store.Ref{ID: l.ID}, 0, job.MaxAttempts)
	if err != nil || len(attempts) == 0 {
		return blind(l, "the attempts could not be read")
	}
	first := lookFrom(l, attempts)
	t.work.About(attempts[first.Number-1:]...)
	fence := lookTo(l, attempts[first.Number-1:], e.Grace)
	look := connector.Look{First: first, Attempts: attempts[first.Number-1:], Fence: fence, Now: l.Now}
	looked := t.see(ctx, look, func(look connector.Look) job.Observation {
		return observer.Observe(ctx, to.opening, look)
	})
	if looked.Verdict == job.SawInconclusive && looked.Kind == job.FailAuth && !looked.Sighted {
		return job.Deferred{Kind: job.FailAuth, Auth: looked.Auth, Message: looked.Detail, CredentialVersion: to.opening.Credential.Version}
	}
	looked.Refused = allRefused(attempts[first.Number-1:])
	return looked
}

// poll asks the platform for the state of the job's handle.
func poll(ctx context.Context, to target, l *store.Leased) job.Evidence {
	poller, ok := to.connector.(connector.Poller)
	if !ok {
		return blind(l, "this connector cannot poll")
	}
	out := poller.Poll(ctx, to.opening, l.Handle)
	if out.Result == job.ResultUnknown && out.Kind == job.FailAuth {
		// It proves nothing about the handle. The hold keeps the account's other jobs from
		// being refused too.
		return job.Deferred{Kind: job.FailAuth, Auth: out.Auth, Message: out.Message, CredentialVersion: to.opening.Credential.Version}
	}
	out.Attempt, out.Polled, out.CredentialVersion = l.Attempt, true, to.opening.Credential.Version
	return out
}

// blind is a look that saw nothing.
func blind(l *store.Leased, why string) job.Evidence {
	return job.Looked{Observation: job.Observation{
		Attempt: l.Attempt, Verdict: job.SawInconclusive, Detail: why, BegunAt: l.Now,
	}}
}

// see makes a look, and lowers a verdict to inconclusive where the look lacks what the
// verdict needs.
func (t *task) see(ctx context.Context, look connector.Look, observe func(connector.Look) job.Observation) job.Looked {
	l := t.leased
	var unread atomic.Bool
	look.Taken = func(ctx context.Context, ids []string) (map[string]bool, error) {
		taken, err := t.ownedByOthers(ctx, ids)
		if err != nil {
			unread.Store(true)
		}
		return taken, err
	}
	seen := observe(look)
	sighted := unread.Load() || seen.Verdict == job.SawPresent && seen.ExternalID == ""
	seen.Attempt, seen.BegunAt = l.Attempt, l.Now // the store sets the end
	inconclusive := func(why string) {
		seen.Verdict, seen.Detail, seen.ExternalID, seen.ExternalURL = job.SawInconclusive, why, "", ""
	}
	switch {
	case ctx.Err() != nil && seen.Verdict == job.SawAbsent:
		inconclusive("the look was cut short")
	case unread.Load():
		inconclusive("other jobs' effects could not be read")
	case seen.Verdict == job.SawPresent && seen.ExternalID == "":
		inconclusive("an object without an id was seen; it could be another job's")
	case seen.Verdict < job.SawPresent || seen.Verdict > job.SawHandle:
		inconclusive(seen.Detail)
	}
	return job.Looked{Observation: seen, Sighted: sighted}
}

// ownedByOthers returns which of these ids are other jobs' effects.
func (t *task) ownedByOthers(ctx context.Context, ids []string) (map[string]bool, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if len(ids) > store.MaxBatch {
		return nil, fmt.Errorf("asked for the owners of %d objects, at most %d at a time", len(ids), store.MaxBatch)
	}
	owners, err := t.e.Store.Owners(ctx, t.leased.ID, t.leased.Attempt, ids)
	if err != nil {
		return nil, fmt.Errorf("owners: %w", err)
	}
	out := make(map[string]bool, len(owners))
	for id := range owners {
		out[id] = true
	}
	return out, nil
}

// lookFrom returns the attempt whose watermark a look reads back to: the first of
// the job's round. In a round that has none yet, it is the oldest attempt that
// sent the same bytes as the round before: what was sent in earlier rounds may
// have had an effect too.
func lookFrom(l *store.Leased, attempts []job.Attempt) job.Attempt {
	round := attempts[len(attempts)-1].Round
	first := roundFirst(attempts, round)
	if round == l.Round {
		return first
	}
	for _, a := range attempts {
		if string(a.Frozen) == string(first.Frozen) {
			return a
		}
	}
	return first
}

// roundFirst returns the first attempt of a round that has one.
func roundFirst(attempts []job.Attempt, round int) job.Attempt {
	for _, a := range attempts {
		if a.Round == round {
			return a
		}
	}
	return attempts[0]
}

// lookTo returns the moment from which none of the attempts could act: the fence, or
// the end of one that was refused or not sent, if that came first. What is learned
// late does not make an attempt act longer.
func lookTo(l *store.Leased, attempts []job.Attempt, grace time.Duration) time.Time {
	var last time.Time
	for _, a := range attempts {
		end := a.AnswerDeadline.Add(grace)
		if a.Number == l.Attempt {
			end = l.Fence
		}
		// An end before the arm is a time of before the clock was set right.
		if denied(a) && !a.EndedAt.IsZero() && a.EndedAt.Before(end) && !a.EndedAt.Before(a.ArmedAt) {
			end = a.EndedAt
		}
		if end.After(last) {
			last = end
		}
	}
	return last
}

// allRefused reports whether each attempt was denied.
func allRefused(attempts []job.Attempt) bool {
	return !slices.ContainsFunc(attempts, func(a job.Attempt) bool { return !denied(a) })
}

// denied reports whether the attempt certainly had no effect: the platform rejected it, or
// nothing was sent.
func denied(a job.Attempt) bool {
	return a.Result == job.ResultRejected || a.Result == job.ResultNotSent
}
