package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/sleep"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - the start time is taken before the arm is queued, so that the local
//     deadlines end before the stored ones;
//   - nothing is sent unless the intent is certainly durable.

// armAndSend writes the intent and, if it is certainly durable, sends.
func (a *attempt) armAndSend() {
	step := a.work.Step(tracing.Arm)
	a.makeIntent()
	a.start = a.e.Clock.Read()
	armed, err := a.arm()
	if err != nil {
		step.Failed()
		a.closeSession() // the wait for the store may be long
		a.resolveUnconfirmed(err)
		return
	}
	if armed.Err != nil {
		step.Failed()
		a.closeSession()
		a.armRefused(armed.Err)
		return
	}
	step.End(0)
	a.armed = armed
	if a.keyOverdue() {
		a.closeSession()
		a.settleUnsent(a.armed, "the receiver may have forgotten the key before this repeat ends; it was not sent")
		return
	}
	a.send()
}

// keyOverdue reports whether the receiver may forget a replay's key before the replay
// ends: a slow store may have used up the time for which the key is known.
func (a *attempt) keyOverdue() bool {
	if a.first == nil {
		return false
	}
	s := a.armed.Snapshot.Of(a.leased.Spec)
	return !s.View(a.e.traits(&a.leased.Connection, a.leased.Class), 0).KeyKnown()
}

// settleUnsent settles an armed attempt of which nothing was sent.
func (a *attempt) settleUnsent(armed *store.Armed, why string) {
	s := armed.Snapshot.Of(a.leased.Spec)
	a.settle(&s, job.Outcome{
		Attempt: armed.Attempt.Number, Result: job.ResultNotSent, Kind: job.FailTransient, Message: why,
	}, job.ID{})
}

// makeIntent fills in what is written before the job is sent.
func (a *attempt) makeIntent() {
	l, replay := a.leased, a.first != nil
	sendBy, answerBy := a.sendTimes()
	a.wait, answerBy = answerBy, a.traits.ActsFor(sendBy, answerBy)
	fence := answerBy + a.e.Grace
	if replay {
		// An attempt before this one may act for longer than it, and its sender may be alive.
		fence = max(fence, l.Fence.Sub(l.Now))
	}
	digest := sha256.Sum256(a.prepared.Frozen)
	a.intent = store.Arm{
		Job: l.ID, Version: l.Version, Claim: l.ClaimToken, Token: a.e.NewID(), Worker: a.e.Worker,
		Class: a.traits.Class, Rearm: replay, EffectKey: a.key,
		Digest: digest[:], Frozen: a.prepared.Frozen,
		CredentialVersion: a.credentialVersion, AccountIdentity: a.account, Watermark: a.watermark, Gate: a.prepared.Gate, Looked: a.looked,
		Span: a.work.SentAs(), SendBy: sendBy, AnswerBy: answerBy, Fence: fence,
		KeepTrying: l.Retry.Over(a.e.Connectors.Retry(l.Connection.Connector, l.Connection.Retry)).Keep(),
	}
}

// longKeyWindow is how long a KEYED target must know a key for an upload to get more
// than the usual time: it goes out in the window's first half, and must not come
// to the end of the second.
const longKeyWindow = 24 * job.MaxSendTimeout

// sendTimes returns how long after the arm the last byte must be written, and the
// answer be there. An upload has more time; the answer to it has no less.
func (a *attempt) sendTimes() (sendBy, answerBy time.Duration) {
	answerBy = a.leased.Retry.Timeout()
	sendBy = min(job.SendTimeout, answerBy)
	up, ok := a.session.(connector.Uploader)
	if !ok || a.traits.Class == job.Keyed && a.traits.KeyWindow < longKeyWindow {
		return sendBy, answerBy
	}
	more := max(0, min(up.SendTime(), job.MaxSendTimeout)-sendBy)
	return sendBy + more, answerBy + more
}

// errNotArmed means that an arm failed and is certainly not durable.
var errNotArmed = errors.New("the intent was not written")

// minArmTime keeps a send window that no commit can meet from looking like a
// store that fails: that costs no attempt, so the job would be tried without end.
// What is armed too late for its window is not sent, and that counts.
const minArmTime = time.Second

// arm writes the intent. After an unconfirmed commit it reads back, as long as the send
// window lasts. An error means that the arm may be durable or not; then nothing may be
// sent.
func (a *attempt) arm() (*store.Armed, error) {
	ctx, cancel := context.WithTimeout(a.e.hard, max(a.intent.SendBy, minArmTime))
	defer cancel()
	armed, err := a.e.Store.Arm(ctx, []store.Arm{a.intent})
	if err == nil {
		return &armed[0], nil
	}
	return a.readBack(ctx, err)
}

// readBack asks, for as long as ctx allows, whether the intent is durable. Its commit
// failed with cause.
func (a *attempt) readBack(ctx context.Context, cause error) (*store.Armed, error) {
	for ctx.Err() == nil {
		back, readErr := a.e.Store.ArmedBy(ctx, a.intent.Job, a.intent.Token)
		switch {
		case readErr == nil:
			return &back, nil
		case errors.Is(readErr, store.ErrNotFound):
			return &store.Armed{Err: errNotArmed}, nil
		}
		sleep.For(ctx, 100*time.Millisecond)
	}
	return nil, fmt.Errorf("store the intent: %w", cause)
}

// resolveUnconfirmed ends an arm that may be durable or not. Nothing was sent, so as soon
// as the store answers, the attempt, if there is one, is settled as not sent.
func (a *attempt) resolveUnconfirmed(err error) {
	e, item := a.e, &a.intent
	e.Log.ErrorContext(a.work.Context(), "an intent could not be confirmed; nothing was sent", logged(&a.leased.Snapshot, &a.leased.Connection), "err", err)
	for e.hard.Err() == nil {
		ctx, cancel := context.WithTimeout(e.hard, storeTimeout)
		back, err := e.Store.ArmedBy(ctx, item.Job, item.Token)
		cancel()
		switch {
		case err == nil:
			a.settleUnsent(&back, "the intent could not be confirmed in time; this try sent nothing")
			return
		case errors.Is(err, store.ErrNotFound):
			a.armRefused(errNotArmed)
			return
		}
		sleep.For(e.hard, time.Second)
	}
	e.Log.ErrorContext(a.work.Context(), "shut down with an unconfirmed intent; nothing was sent, and the attempt is given up when its time is over",
		logged(&a.leased.Snapshot, &a.leased.Connection), "intent", item.Token.String())
}

// armRefused handles an intent that the store's guards refused: nothing was sent.
func (a *attempt) armRefused(why error) {
	l := a.leased
	d := job.Deferred{Kind: job.FailHeld, RetryAfter: time.Second}
	switch {
	case errors.Is(why, store.ErrStale), errors.Is(why, store.ErrNotFound):
		// Canceled, swept or taken over: the job is another worker's. But a cancel, or the
		// outcome of an earlier attempt, leaves a replay's lease, and what comes next need not
		// wait for it.
		if l.State == job.Claimed || !a.isLeased() {
			return
		}
	case errors.Is(why, store.ErrWindowOver):
		if l.State == job.Claimed {
			return // the sweep ends it, unless a stop holds its window
		}
	case errors.Is(why, errNotArmed):
		// The store failed, not the job: waiting for the lease to run out would count as a
		// worker's death.
		d.RetryAfter = 5 * time.Second
		if !a.isLeased() {
			return
		}
	case errors.Is(why, store.ErrStopped):
		stopped, _ := errors.AsType[*store.StoppedError](why)
		d = stoppedFor(l, &stopped.By)
	case errors.Is(why, store.ErrHeld):
		d.Message = "the target is held"
		d.RetryAfter = heldFor(l)
	case errors.Is(why, store.ErrLookAgain):
		// What was armed meanwhile can be seen after the read lag.
		d.Message, d.RetryAfter = "the same content was sent while this job looked for it; it looks again", max(time.Second, a.traits.ReadLag)
	case errors.Is(why, store.ErrCoolDown):
		d.Message, d.RetryAfter = job.ConnectionCoolsDown, time.Minute
		if cool, ok := errors.AsType[*store.CoolDownError](why); ok {
			d.RetryAfter = cool.Left
			if cool.Schedule {
				d.Message = job.ScheduleCoolsDown
			}
		}
	case errors.Is(why, store.ErrGated):
		var gated *store.GatedError
		var holder job.ID
		if errors.As(why, &gated) {
			holder = gated.By
		}
		a.waitBehind(a.e.hard, holder)
		return
	default:
		a.e.Log.ErrorContext(a.work.Context(), "the store refused an intent", logged(&l.Snapshot, &l.Connection), "err", why)
		d = job.Deferred{Kind: job.FailTransient, Message: "internal error before sending; this try sent nothing"}
	}
	a.work.GivenBack(d.Kind)
	a.settleLeased(d)
}

// isLeased reads whether the lease is held. A lease that was to be written with the intent
// may not be durable either, and then another worker wrote what has its version.
func (a *attempt) isLeased() bool {
	for a.e.hard.Err() == nil {
		now, err := a.e.read(a.leased.ID)
		if err == nil || errors.Is(err, store.ErrNotFound) {
			return err == nil && now.State == a.leased.State && now.ClaimToken == a.leased.ClaimToken
		}
		sleep.For(a.e.hard, time.Second)
	}
	return false
}

// stoppedFor returns how a job that a stop covers is given back: until the stop ends by itself, or
// for a while. Repeats under a key are due first then. A stop that a person ends makes the job due.
func stoppedFor(l *store.Leased, by *store.Stop) job.Deferred {
	const least, most = time.Minute, 10 * time.Minute
	d := job.Deferred{Kind: job.FailHeld, Message: job.Stopped, RetryAfter: patience(l, least, most)}
	if by.Breaker() && l.State != job.Claimed {
		return d // each probe that fails makes one repeat due as the next one
	}
	if left := by.Until().Sub(l.Now); !by.Until().IsZero() && left < d.RetryAfter {
		if d.RetryAfter = left; l.State == job.Claimed {
			d.RetryAfter += store.StopHeadStart
		}
	}
	d.RetryAfter = max(d.RetryAfter, time.Second)
	return d
}

// heldFor returns how long a held target is left alone: until its rate limit ends,
// as far as that is known. A pause and a refused credential, which end when a
// person ends them, are asked about once a minute and ever more rarely.
func heldFor(l *store.Leased) time.Duration {
	const least, most, heldMost = time.Second, 5 * time.Minute, 10 * time.Minute
	if !l.Connection.AuthHoldAt.IsZero() || !l.Connection.PausedAt.IsZero() {
		return patience(l, time.Minute, heldMost)
	}
	return min(max(l.Connection.RateLimitedUntil.Sub(l.Now), least), most)
}
