package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/store"
)

// task is the work on one leased job.
type task struct {
	e      *Engine
	leased *store.Leased
	// work has the spans; nil: there are none.
	work *tracing.Work
}

// attempt is one attempt under way.
type attempt struct {
	task
	permit sendPermit
	// first is the round's first attempt for a replay, which sends the same bytes again; nil: this
	// is no replay.
	first *job.Attempt
	ready
	// start is read before the arm is asked for; the deadlines of intent count from it.
	start  Reading
	intent store.Arm
	// wait is how long the answer is waited for; intent.AnswerBy may be later (see
	// job.Traits.MaxHandling).
	wait time.Duration
	// armed is the store's answer to the intent.
	armed *store.Armed
	// probe is set while the attempt is the probe of a breaker.
	probe *breakerProbe
	// down reports that the target could not be reached.
	down bool
}

// ready is what prepare has made ready for the arm and the send.
type ready struct {
	// session has the request, and a connection to the target; nil: none is open.
	session connector.Session
	// key is the effect key: that of the round's first attempt, if the round has one.
	key      string
	prepared connector.Prepared
	traits   job.Traits
	// account is the identity of the account at the platform; empty: not known.
	account           string
	credentialVersion int
	watermark         string
	// content is reserved for the job while the attempt is under way; behind is the job
	// that has reserved the same content already.
	content string
	behind  job.ID
	// looked is how many attempts with the content had been armed before the look for it began;
	// nil: the job made no such look.
	looked *int64
	// present is set when the job's content is at the platform already.
	present *job.AlreadyPresent
}

// run takes a claimed job through its attempt.
func (a *attempt) run(ctx context.Context) {
	failpoint.Hit(failpoint.Claimed)
	if stop := a.leased.Stopped; stop != nil {
		if !a.takeProbe(ctx, stop) {
			a.giveBack(ctx, stoppedFor(a.leased, stop)) // without a request to its target
			return
		}
		defer a.endProbe(store.ProbeUndecided, "")
	}
	if holder, waits := a.e.contents.holder(a.leased); waits && a.e.contents.blocks(ctx, holder) {
		a.waitBehind(ctx, holder)
		return
	}
	lease := a.keepLease(ctx)
	if a.leased.Attempt > 0 && a.leased.Class == job.Observable && !a.lookFirst(ctx, lease) {
		lease.stop()
		return
	}
	defer a.closeSession()
	refused := a.prepare(lease.ctx)
	if a.content != "" {
		defer a.e.contents.release(a.content, a.leased.ID)
	}
	lost := lease.stop()
	switch {
	case lost && (refused != nil || a.present != nil):
		return // another worker decides about this job now
	case !a.behind.IsZero():
		a.waitBehind(ctx, a.behind)
		return
	case refused != nil:
		a.giveBack(ctx, *refused)
		a.sawRefusal(ctx)
		return
	case a.present != nil:
		a.settleLeased(*a.present)
		return
	}
	if lost {
		return
	}
	if ctx.Err() != nil {
		a.giveBack(ctx, job.Deferred{Kind: job.FailHeld})
		return
	}
	failpoint.Hit(failpoint.Prepared)
	if !a.sawOpen(ctx) {
		a.giveBack(ctx, stoppedFor(a.leased, a.leased.Stopped))
		return
	}
	a.armAndSend()
}

// closeSession puts back or closes the connection, and frees the request.
func (a *attempt) closeSession() {
	if a.session != nil {
		a.session.Close()
		a.session = nil
	}
}

// giveBack writes why a lease ended without an intent. A shutdown or a lost
// race costs the job nothing.
func (t *task) giveBack(ctx context.Context, d job.Deferred) {
	d = t.e.credentials.renewDeferred(ctx, &t.leased.Connection, d)
	if ctx.Err() != nil && d.Kind != job.FailPermanent && d.Kind != job.FailEgressDenied {
		d = job.Deferred{Kind: job.FailHeld}
	}
	t.work.GivenBack(d.Kind)
	t.settleLeased(d)
}

// waitBehind returns a claim until another job with the same content has
// ended. If the holder is not known, only the growing wait is left.
func (t *task) waitBehind(ctx context.Context, holder job.ID) {
	t.giveBack(ctx, job.Deferred{
		Kind: job.FailHeld, RetryAfter: patience(t.leased, contentWaitLeast, contentWaitMost),
		Message: job.WaitsForContent,
	})
	if !holder.IsZero() {
		t.e.contents.add(holder, t.leased)
	}
}

// patience is a wait that grows with how long the job has been waiting: half of
// that, between least and most. What waits for a person or for another job's
// end is then asked about, and written down, ever more rarely.
func patience(l *store.Leased, least, most time.Duration) time.Duration {
	since := l.StartDeadline.Add(-cmp.Or(l.KeepTrying, l.Window()))
	if l.State != job.Claimed {
		since = l.Fence
	}
	if since.IsZero() {
		return least
	}
	return min(max(l.Now.Sub(since)/2, least), most)
}
