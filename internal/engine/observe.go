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
//   - a look is read-only, and whatever goes wrong in it says nothing of the effect;
//   - a credential that is refused in a look is renewed once, where that is possible,
//     and holds the account otherwise. No look was made then, and none is counted;
//   - it reads back to its round's first watermark, however many attempts followed;
//   - what another job owns is no candidate, and if that cannot be asked, nothing
//     was seen;
//   - an object that was seen is evidence whoever holds the lease by then; every
//     other verdict is worth as much as its lease.

// lookOrPoll makes one read-only look or poll and settles what it saw.
func (e *Engine) lookOrPoll(ctx context.Context, w *tracing.Work, l *store.Leased, what job.Action) {
	// A poll of an unknown outcome may prove that there is no effect, as a look may.
	unknown := what == job.ActObserve || l.State == job.Ambiguous
	if wait := e.tooEarly(l); wait > 0 && unknown {
		// The store's clock ran ahead of ours; a look now could be too early.
		e.settle(w, &l.Snapshot, &l.Connection, job.Deferred{Kind: job.FailHeld, RetryAfter: wait}, l.ClaimToken)
		return
	}
	lease := e.keepLease(ctx, l)
	ev := e.ask(lease.ctx, w, l, what)
	w.Saw(ev)
	lost := lease.stop()
	switch refused := ev.(type) {
	case job.Deferred:
		ev = e.renewDeferred(ctx, &l.Connection, refused)
	case job.Outcome:
		ev = e.renewOutcome(&l.Connection, refused)
	}
	token := l.ClaimToken
	switch {
	case present(ev):
		token = job.ID{}
	case lost || ctx.Err() != nil:
		return
	}
	now := e.Clock.Read().Time
	after, stored := e.settle(w, &l.Snapshot, &l.Connection, ev, token)
	if stored && after.State == job.Ambiguous && after.Negatives > l.Negatives {
		e.early.set(l.ID, now.Add(e.traits(&l.Connection, l.Class).Spacing), now)
	}
}

// lookFirst makes the look that comes before each later arm of an OBSERVABLE
// job, under its claim. It leaves the job as it is then, and reports whether to go on.
func (e *Engine) lookFirst(ctx context.Context, w *tracing.Work, held *lease, l *store.Leased) bool {
	step := w.Step(tracing.Look)
	ev := e.ask(held.ctx, w, l, job.ActObserve)
	step.Saw(ev)
	token := l.ClaimToken
	refused, deferred := ev.(job.Deferred)
	switch {
	case present(ev):
		token = job.ID{}
	case held.lost.Load():
		return false
	case deferred:
		e.giveBack(ctx, w, l, refused)
		return false
	case ctx.Err() != nil:
		e.giveBack(ctx, w, l, job.Deferred{Kind: job.FailHeld})
		return false
	}
	after, stored := e.settle(w, &l.Snapshot, &l.Connection, ev, token)
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

// ask talks to the platform. Whatever goes wrong says nothing about the effect.
func (e *Engine) ask(ctx context.Context, w *tracing.Work, l *store.Leased, what job.Action) (ev job.Evidence) {
	defer func() {
		if p := recover(); p != nil {
			e.Log.ErrorContext(w.Context(), "panic while looking", "job", l.ID.String(), "panic", p, "stack", string(debug.Stack()))
			ev = blind(l, "internal error while looking")
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, e.Lease)
	defer cancel()
	c, opening, _, refused := e.opening(ctx, l)
	if refused != nil {
		return *refused
	}
	if what == job.ActPoll {
		poller, ok := c.(connector.Poller)
		if !ok {
			return blind(l, "this connector cannot poll")
		}
		out := poller.Poll(ctx, opening, l.Handle)
		if out.Result == job.ResultUnknown && out.Kind == job.FailAuth {
			// It says nothing of the handle, and the account's other jobs need not find out.
			return job.Deferred{Kind: job.FailAuth, Auth: out.Auth, Message: out.Message, CredentialVersion: opening.Credential.Version}
		}
		out.Attempt, out.Polled, out.CredentialVersion = l.Attempt, true, opening.Credential.Version
		return out
	}
	observer, ok := c.(connector.Observer)
	if !ok {
		return blind(l, "this connector cannot look at its platform")
	}
	attempts, err := e.Store.Attempts(ctx, store.Ref{ID: l.ID}, 0, job.MaxAttempts)
	if err != nil || len(attempts) == 0 {
		return blind(l, "the attempts could not be read")
	}
	first := lookFrom(l, attempts)
	w.About(attempts[first.Number-1:]...)
	fence := e.lookTo(l, attempts[first.Number-1:])
	look := connector.Look{First: first, Attempts: attempts[first.Number-1:], Fence: fence, Now: l.Now}
	looked := e.see(ctx, l, look, func(look connector.Look) job.Observation {
		return observer.Observe(ctx, opening, look)
	})
	if looked.Verdict == job.SawInconclusive && looked.Kind == job.FailAuth && !looked.Sighted {
		return job.Deferred{Kind: job.FailAuth, Auth: looked.Auth, Message: looked.Detail, CredentialVersion: opening.Credential.Version}
	}
	looked.Refused = allRefused(attempts[first.Number-1:])
	return looked
}

// blind is a look that saw nothing.
func blind(l *store.Leased, why string) job.Evidence {
	return job.Looked{Observation: job.Observation{
		Attempt: l.Attempt, Verdict: job.SawInconclusive, Detail: why, BegunAt: l.Now,
	}}
}

// see makes a look and holds what it reports against what a verdict needs.
func (e *Engine) see(
	ctx context.Context, l *store.Leased, look connector.Look, observe func(connector.Look) job.Observation,
) job.Looked {
	var unasked atomic.Bool
	look.Taken = func(ctx context.Context, ids []string) (map[string]bool, error) {
		taken, err := e.taken(ctx, l, ids)
		if err != nil {
			unasked.Store(true)
		}
		return taken, err
	}
	seen := observe(look)
	sighted := unasked.Load() || seen.Verdict == job.SawPresent && seen.ExternalID == ""
	seen.Attempt, seen.BegunAt = l.Attempt, l.Now // the store sets the end
	doubt := func(why string) {
		seen.Verdict, seen.Detail, seen.ExternalID, seen.ExternalURL = job.SawInconclusive, why, "", ""
	}
	switch {
	case ctx.Err() != nil && seen.Verdict == job.SawAbsent:
		doubt("the look was cut short")
	case unasked.Load():
		doubt("other jobs' effects could not be read")
	case seen.Verdict == job.SawPresent && seen.ExternalID == "":
		doubt("an object without an id was seen; it could be another job's")
	case seen.Verdict < job.SawPresent || seen.Verdict > job.SawHandle:
		doubt(seen.Detail)
	}
	return job.Looked{Observation: seen, Sighted: sighted}
}

// taken tells which of these ids are other jobs' effects.
func (e *Engine) taken(ctx context.Context, l *store.Leased, ids []string) (map[string]bool, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if len(ids) > store.MaxBatch {
		return nil, fmt.Errorf("asked for the owners of %d objects, at most %d at once", len(ids), store.MaxBatch)
	}
	owners, err := e.Store.Owners(ctx, l.ID, l.Attempt, ids)
	if err != nil {
		return nil, fmt.Errorf("owners: %w", err)
	}
	out := make(map[string]bool, len(owners))
	for id := range owners {
		out[id] = true
	}
	return out, nil
}

// lookFrom gives the attempt whose watermark a look reads back to: the first of
// the job's round. In a round that has none yet, that is the oldest attempt that
// sent the same bytes as the round before; what was sent in earlier rounds may
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

// roundFirst gives the first attempt of a round that has one.
func roundFirst(attempts []job.Attempt, round int) job.Attempt {
	for _, a := range attempts {
		if a.Round == round {
			return a
		}
	}
	return attempts[0]
}

// lookTo gives the moment from which none of the attempts could act: the fence, or
// the end of one that was refused or not sent, if that came first. What is learnt
// late makes no attempt act longer.
func (e *Engine) lookTo(l *store.Leased, attempts []job.Attempt) time.Time {
	var last time.Time
	for _, a := range attempts {
		end := a.AnswerDeadline.Add(e.Grace)
		if a.Number == l.Attempt {
			end = l.Fence
		}
		if denied(a) && !a.EndedAt.IsZero() && a.EndedAt.Before(end) {
			end = a.EndedAt
		}
		if end.After(last) {
			last = end
		}
	}
	return last
}

// allRefused tells whether each attempt was denied.
func allRefused(attempts []job.Attempt) bool {
	return !slices.ContainsFunc(attempts, func(a job.Attempt) bool { return !denied(a) })
}

// denied tells whether the platform itself said, or we know, that the attempt
// had no effect.
func denied(a job.Attempt) bool {
	return a.Result == job.ResultRejected || a.Result == job.ResultNotSent
}
