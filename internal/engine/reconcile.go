package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/store"
)

// sweepBatch bounds one sweep; the next one follows at once while it is full.
const sweepBatch = 100

// restLeast is the least time between two rounds of a sweep or of the looks. Both
// are about what has waited for seconds at least, while hints come with every
// submit: their questions to the store must not stand in the way of its claims.
const restLeast = 50 * time.Millisecond

// sweeps puts jobs whose time is over where they belong. It is a loop of its
// own: takeLooks waits for free lookers, and nobody may wait for a slow target
// to learn that his lease, fence or window is over.
func (e *Engine) sweeps(ctx context.Context) {
	e.again(ctx, func() (int, bool) {
		n := e.sweep(ctx)
		return n, n == sweepBatch
	})
}

// looks looks at unknown outcomes, as many at once as there are lookers.
func (e *Engine) looks(ctx context.Context) {
	e.again(ctx, func() (int, bool) { return e.takeLooks(ctx) })
}

// again does one thing whenever something may be due, until ctx ends. do tells
// how much it did and whether there is surely more.
func (e *Engine) again(ctx context.Context, do func() (did int, more bool)) {
	work, stop := e.Store.Watch(store.WatchWork)
	defer stop()
	idle := newPacer(e.Poll)
	for ctx.Err() == nil {
		begun := time.Now()
		did, more := do()
		if more {
			continue
		}
		idle.wait(ctx, work, e.nextDue, did > 0)
		if rest := restLeast - time.Since(begun); rest > 0 {
			sleep(ctx, rest)
		}
	}
}

// sweep puts overdue jobs where they belong. It moves nothing by time alone
// that was armed: SENDING becomes AMBIGUOUS, never SCHEDULED.
func (e *Engine) sweep(ctx context.Context) int {
	overdue, err := e.Store.Overdue(ctx, sweepBatch)
	if err != nil {
		e.trouble.store(ctx, opSweep, err)
		return 0
	}
	changes, before := make([]store.Change, 0, len(overdue)), make([]job.Snapshot, 0, len(overdue))
	for _, s := range overdue {
		d, err := job.Decide(s.View(job.Traits{Class: s.Class}, e.Jitter()), overdueEvidence(s))
		if err != nil {
			e.Log.Error("no decision about an overdue job", "job", s.ID.String(), "err", err)
			continue
		}
		if d.Action == job.ActWrite {
			changes, before = append(changes, store.Change{Job: s.ID, Version: s.Version, Decision: d, Actor: e.Worker}), append(before, s)
		}
	}
	var applied []store.Applied
	if len(changes) > 0 {
		applied, err = e.Store.Apply(ctx, changes)
	}
	e.trouble.store(ctx, opSweep, err)
	if err != nil || len(changes) == 0 {
		return 0
	}
	for i, a := range applied {
		switch {
		case a.Err == nil:
			e.wrote(nil, "", &before[i], &a.Snapshot, &changes[i].Decision)
		case !errors.Is(a.Err, store.ErrStale): // stale: its worker came first
			e.Log.Error("an overdue job could not be swept", "job", changes[i].Job.String(), "err", a.Err)
		}
	}
	failpoint.Hit(failpoint.Swept)
	return len(changes)
}

func overdueEvidence(s job.Snapshot) job.Evidence {
	switch {
	case s.State == job.Sending:
		return job.FenceOver{}
	case s.State.Runnable() && s.PredecessorEnd != 0:
		return job.PredecessorEnded{}
	case s.State == job.Claimed && s.StartDeadline.After(s.Now):
		return job.LeaseOver{}
	default:
		return job.WindowOver{}
	}
}

// look does what Decide asks for about one unknown or accepted job, which was
// leased at begun or later.
func (e *Engine) look(ctx context.Context, l *store.Leased, begun Reading) {
	failpoint.Hit(failpoint.LookTaken)
	e.looking.Add(1)
	defer e.looking.Add(-1)
	traits := e.traits(&l.Connection, l.Class)
	d, err := job.Decide(l.View(traits, e.Jitter()), job.LookDue{})
	if err != nil {
		e.Log.Error("no decision about a look", "job", l.ID.String(), "err", err)
		return
	}
	switch held := !l.Connection.AuthHoldAt.IsZero(); {
	case d.Action == job.ActWrite:
		e.traced(tracing.Decide, l, func(w *tracing.Work) { e.settle(w, &l.Snapshot, &l.Connection, job.LookDue{}, l.ClaimToken) })
	case held && d.Action != job.ActNothing:
		e.waitForLogin(l)
	case d.Action == job.ActRearm:
		e.traced(tracing.Attempt, l, func(w *tracing.Work) { e.replay(ctx, w, l, begun) })
	case d.Action == job.ActObserve, d.Action == job.ActPoll:
		e.traced(kindOf(d.Action), l, func(w *tracing.Work) { e.lookOrPoll(ctx, w, l, d.Action) })
	default: // it moved on; its look's lease is dropped with it
	}
}

// traced does some work on a job, with spans of a kind.
func (e *Engine) traced(kind string, l *store.Leased, do func(*tracing.Work)) {
	var begun time.Time
	if e.Tracer != nil {
		begun = time.Now()
	}
	w := e.Tracer.Begin(kind, l, begun)
	defer w.End()
	do(w)
}

// kindOf is what spans call a look or a poll.
func kindOf(what job.Action) string {
	if what == job.ActPoll {
		return tracing.Poll
	}
	return tracing.Look
}

// loginMost is the longest wait for a credential to be replaced.
const loginMost = time.Hour

// waitForLogin leaves a job alone whose credential is refused: asking with it again
// tells nothing. A new credential makes the job due (store.ChangeConnection). That it is
// asked about before then is for one that was leased at that moment.
func (e *Engine) waitForLogin(l *store.Leased) {
	e.settle(nil, &l.Snapshot, &l.Connection, job.Deferred{
		Kind: job.FailHeld, RetryAfter: patience(l, time.Minute, loginMost), Message: cmp.Or(l.Connection.AuthHoldReason, "the credential was refused"),
	}, l.ClaimToken)
}

// replay repeats an unknown KEYED attempt: the same key, the same bytes.
func (e *Engine) replay(ctx context.Context, w *tracing.Work, l *store.Leased, begun Reading) {
	attempts, err := e.Store.Attempts(ctx, store.Ref{ID: l.ID}, 0, job.MaxAttempts)
	if err != nil || len(attempts) == 0 {
		e.Log.ErrorContext(w.Context(), "the attempts of a replay could not be read", "job", l.ID.String(), "err", err)
		return // the look's lease ends and it is taken again
	}
	first := roundFirst(attempts, l.Round)
	lease := e.keepLease(ctx, l)
	w.About(attempts[first.Number-1:]...)
	r, refused := e.prepareTraced(lease.ctx, w, l, &first)
	lost := lease.stop()
	if refused != nil {
		if !lost && ctx.Err() == nil {
			e.settle(w, &l.Snapshot, &l.Connection, e.renewDeferred(ctx, &l.Connection, *refused), l.ClaimToken)
		}
		return
	}
	defer r.session.Close()
	if lost || ctx.Err() != nil {
		return
	}
	if !e.stillReplays(l, begun) {
		e.settle(w, &l.Snapshot, &l.Connection, job.Deferred{Kind: job.FailHeld, RetryAfter: time.Second}, l.ClaimToken)
		return
	}
	e.armAndSend(l, &r, true, nil)
}

// stillReplays asks again whether a repeat is safe, now that it is prepared:
// the key grew older meanwhile, and the store's guards do not know its age.
func (e *Engine) stillReplays(l *store.Leased, begun Reading) bool {
	gone, err := begun.elapsed(e.Clock.Read())
	if err != nil {
		return false
	}
	v := l.View(e.traits(&l.Connection, l.Class), 0)
	v.KeyAge, v.WindowLeft = v.KeyAge+gone, v.WindowLeft-gone
	d, err := job.Decide(v, job.LookDue{})
	return err == nil && d.Action == job.ActRearm
}
