package engine

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/sleep"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a job whose outcome is unknown or not final is leased, and
// job.Decide chooses what to do: look, poll, repeat a KEYED attempt with its key, or wait.

// lookers bounds the looks, polls and replays under way.
type lookers struct {
	permits permits
	shares  *fairShares
	// looking counts the lookers that have a job: takeLooks acquires some before it knows
	// how many jobs it gets.
	looking atomic.Int64
}

func newLookers(n int) *lookers { return &lookers{permits: newPermits(n), shares: newFairShares(n)} }

// lookLoop looks at unknown outcomes until ctx ends, as many concurrently as there are
// lookers.
func (e *Engine) lookLoop(ctx context.Context) {
	e.newPacer().repeat(ctx, func() (int, bool) { return e.takeLooks(ctx) })
}

// takeLooks leases due looks, at most as many as there are free lookers, and
// starts those that their connection's share allows. It returns how many it
// started, and whether more may be due.
func (e *Engine) takeLooks(ctx context.Context) (started int, more bool) {
	free := e.lookers.permits.acquire(ctx, store.MaxBatch)
	if free == 0 {
		return 0, false
	}
	begun := e.Clock.Read() // before the store's clock is read
	leased, err := e.Store.ClaimLooks(ctx, store.ClaimParams{Worker: e.Worker, Lease: e.Lease, Limit: free})
	e.storeLog.note(ctx, opClaimLooks, err)
	if err != nil {
		e.lookers.permits.release(free)
		sleep.For(ctx, e.storeLog.pauseAfter(err))
		return 0, false
	}
	back := make(map[owner][]store.LeaseRef)
	var owners []owner // of those, in their order
	for i := range leased {
		l := &leased[i]
		of := owner{l.Owner(), l.Connection.ID}
		if !e.lookers.shares.take(of) {
			if len(back[of]) == 0 {
				owners = append(owners, of)
			}
			back[of] = append(back[of], store.LeaseRef{Job: l.ID, Token: l.ClaimToken})
			continue
		}
		started++
		e.busy.Go(func() {
			defer e.lookers.permits.release(1)
			defer func() {
				now := e.Clock.Read().Time
				e.lookers.shares.release(of, now.Sub(begun.Time), now)
			}()
			o := look{task: task{e: e, leased: l}, begun: begun}
			o.run(ctx)
		})
	}
	e.lookers.permits.release(free - started)
	for _, of := range owners {
		e.handBack(ctx, of, back[of])
	}
	return started, len(leased) == free
}

// handBack ends leases early that no looker works under. The job is due again when
// the connection has had time for it; a lease writes no event.
func (e *Engine) handBack(ctx context.Context, of owner, refs []store.LeaseRef) {
	wait := e.lookers.shares.wait(of, len(refs), e.Clock.Read().Time)
	if _, err := e.Store.Renew(ctx, wait, refs); err != nil && ctx.Err() == nil {
		e.Log.Debug("looks could not be handed back; their leases run out", "connection", of.conn.String(), "err", err)
	}
}

// look is the work on one unknown or accepted job. The job was leased at begun or later.
type look struct {
	task
	begun Reading
}

// run does what job.Decide asks for.
func (o *look) run(ctx context.Context) {
	failpoint.Hit(failpoint.LookTaken)
	e, l := o.e, o.leased
	e.lookers.looking.Add(1)
	defer e.lookers.looking.Add(-1)
	d, err := job.Decide(l.View(e.traits(&l.Connection, l.Class), e.Jitter()), job.LookDue{})
	if err != nil {
		e.Log.Error("no decision about a look", logged(&l.Snapshot, &l.Connection), "err", err)
		return
	}
	switch held := !l.Connection.AuthHoldAt.IsZero(); {
	case d.Action == job.ActWrite:
		o.traced(tracing.Decide, func() { o.settleLeased(job.LookDue{}) })
	case held && d.Action != job.ActNothing:
		o.waitForLogin()
	case d.Action == job.ActRearm && l.Stopped != nil && !l.Stopped.LetsRepeat(l.Now):
		o.settleLeased(stoppedFor(l, l.Stopped))
	case d.Action == job.ActRearm:
		o.traced(tracing.Attempt, func() { o.replay(ctx) })
	case d.Action == job.ActObserve:
		o.traced(tracing.Look, func() { o.observe(ctx, d.Action) })
	case d.Action == job.ActPoll:
		o.traced(tracing.Poll, func() { o.observe(ctx, d.Action) })
	default: // it moved on; its look's lease is dropped with it
	}
}

// traced does the work with spans of a kind.
func (o *look) traced(kind string, do func()) {
	var begun time.Time
	if o.e.Tracer != nil {
		begun = time.Now()
	}
	o.work = o.e.Tracer.Begin(kind, o.leased, begun)
	defer o.work.End()
	do()
}

// maxLoginWait is the longest wait for a credential to be replaced.
const maxLoginWait = time.Hour

// waitForLogin leaves a job alone whose credential is refused: a look with it would be
// refused as well. A new credential makes the job due (store.ChangeConnection). The job is
// asked about before then because it may have been leased at that moment.
func (o *look) waitForLogin() {
	o.settleLeased(job.Deferred{
		Kind: job.FailHeld, RetryAfter: patience(o.leased, time.Minute, maxLoginWait),
		Message: cmp.Or(o.leased.Connection.AuthHoldReason, "the credential was refused"),
	})
}

// replay repeats an unknown KEYED attempt: the same key, the same bytes.
func (o *look) replay(ctx context.Context) {
	e, l := o.e, o.leased
	attempts, err := e.Store.Attempts(ctx, store.Ref{ID: l.ID}, 0, job.MaxAttempts)
	if err != nil || len(attempts) == 0 {
		e.Log.ErrorContext(o.work.Context(), "the attempts of a replay could not be read", logged(&l.Snapshot, &l.Connection), "err", err)
		return // the look's lease ends and it is taken again
	}
	first := roundFirst(attempts, l.Round)
	a := &attempt{task: o.task, first: &first}
	if l.Stopped != nil {
		if !a.takeProbe(ctx, l.Stopped) {
			o.settleLeased(stoppedFor(l, l.Stopped))
			return
		}
		defer a.endProbe(store.ProbeUndecided, "")
	}
	lease := a.keepLease(ctx)
	o.work.About(attempts[first.Number-1:]...)
	defer a.closeSession()
	refused := a.prepare(lease.ctx)
	lost := lease.stop()
	if refused != nil {
		if !lost && ctx.Err() == nil {
			o.settleLeased(e.credentials.renewDeferred(ctx, &l.Connection, *refused))
			a.sawRefusal(ctx)
		}
		return
	}
	if lost || ctx.Err() != nil {
		return
	}
	if !o.stillReplays() {
		o.settleLeased(job.Deferred{Kind: job.FailHeld, RetryAfter: time.Second})
		return
	}
	if !a.sawOpen(ctx) {
		o.settleLeased(stoppedFor(l, l.Stopped))
		return
	}
	a.armAndSend()
}

// stillReplays decides again whether a replay is safe, now that it is prepared:
// the key grew older meanwhile, and the store's guards do not know its age.
func (o *look) stillReplays() bool {
	gone, err := o.begun.elapsed(o.e.Clock.Read())
	if err != nil {
		return false
	}
	v := o.leased.View(o.e.traits(&o.leased.Connection, o.leased.Class), 0)
	v.KeyAge, v.WindowLeft = v.KeyAge+gone, v.WindowLeft-gone
	d, err := job.Decide(v, job.LookDue{})
	return err == nil && d.Action == job.ActRearm
}
