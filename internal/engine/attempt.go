package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - before the arm nothing that has an effect is sent, and every failure is
//     provably unsent (job.Deferred);
//   - the start time is taken before the arm is queued, so that the local
//     deadlines end before the stored ones;
//   - after the arm no caller's context reaches the send, and every way out
//     settles an outcome for (job, attempt).

// ready is a job that can be armed.
type ready struct {
	session *line
	// key is the effect key: the one that the round's first attempt went under, if it has one.
	key      string
	prepared connector.Prepared
	traits   job.Traits
	identity string
	credVer  int
	mark     string
	// content is what is reserved for the job while it is worked on; behind the
	// job that works on the same content already.
	content string
	behind  job.ID
	// seen is the job's content, which is there already.
	seen *job.AlreadyPresent
	// work has the spans; nil: there are none.
	work *tracing.Work
}

// line is a session that is let go, with the request that it holds, as it is closed.
type line struct{ connector.Session }

// Close implements connector.Session.
func (l *line) Close() {
	if l.Session != nil {
		l.Session.Close()
		l.Session = nil
	}
}

// work takes one claimed job through its attempt.
func (e *Engine) work(ctx context.Context, w *tracing.Work, l *store.Leased, s *seat) {
	failpoint.Hit(failpoint.Claimed)
	if holder, waits := e.gates.holder(l); waits && e.inTheWay(ctx, holder) {
		e.waitBehind(ctx, w, l, holder)
		return
	}
	lease := e.keepLease(ctx, l)
	if l.Attempt > 0 && l.Class == job.Observable {
		var on bool
		if on = e.lookFirst(ctx, w, lease, l); !on {
			lease.stop()
			return
		}
	}
	r, refused := e.prepareTraced(lease.ctx, w, l, nil)
	if r.content != "" {
		defer e.gates.release(r.content, l.ID)
	}
	lost := lease.stop()
	switch {
	case lost && (refused != nil || r.seen != nil):
		return // somebody else decides about this job now
	case !r.behind.IsZero():
		e.waitBehind(ctx, w, l, r.behind)
		return
	case refused != nil:
		e.giveBack(ctx, w, l, *refused)
		return
	case r.seen != nil:
		e.settle(w, &l.Snapshot, &l.Connection, *r.seen, l.ClaimToken)
		return
	}
	defer r.session.Close()
	if lost {
		return
	}
	if ctx.Err() != nil {
		e.giveBack(ctx, w, l, job.Deferred{Kind: job.FailHeld})
		return
	}
	failpoint.Hit(failpoint.Prepared)
	e.armAndSend(l, &r, false, s)
}

// giveBack writes why a lease ended without an intent. A shutdown or a lost
// race costs the job nothing.
func (e *Engine) giveBack(ctx context.Context, w *tracing.Work, l *store.Leased, d job.Deferred) {
	d = e.renewDeferred(ctx, &l.Connection, d)
	if ctx.Err() != nil && d.Kind != job.FailPermanent && d.Kind != job.FailEgressDenied {
		d = job.Deferred{Kind: job.FailHeld}
	}
	w.GivenBack(d.Kind)
	e.settle(w, &l.Snapshot, &l.Connection, d, l.ClaimToken)
}

// prepareTraced is prepare, as a step of the work.
func (e *Engine) prepareTraced(ctx context.Context, w *tracing.Work, l *store.Leased, first *job.Attempt) (ready, *job.Deferred) {
	step := w.Step(tracing.Prepare)
	r, refused := e.prepare(ctx, l, first)
	r.work = w
	var kind job.FailureKind
	if refused != nil {
		kind = refused.Kind
	}
	step.End(kind)
	return r, refused
}

// prepare makes everything ready for the one commit. first is the round's first
// attempt for a replay, whose frozen bytes are sent again; otherwise nil.
func (e *Engine) prepare(ctx context.Context, l *store.Leased, first *job.Attempt) (r ready, refused *job.Deferred) {
	defer func() {
		if p := recover(); p != nil {
			e.Log.Error("panic while preparing", "job", l.ID.String(), "panic", p, "stack", string(debug.Stack()))
			refused = &job.Deferred{Kind: job.FailTransient, Message: "internal error while preparing; nothing was sent"}
		}
	}()
	lease := ctx
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()

	c, opening, cp, refused := e.opening(ctx, l)
	if refused != nil {
		return ready{}, refused
	}
	if first == nil && !l.Spec.ReplyTo.IsZero() && l.ReplyTo == "" {
		return ready{}, &job.Deferred{
			Kind: job.FailPermanent,
			Message: "the job that this one replies to has no known id at the platform: it was taken as sent " +
				"without a proof, or the platform gave none; nothing was sent",
		}
	}
	before := first
	if before == nil {
		if before, refused = e.roundBefore(ctx, l); refused != nil {
			return ready{}, refused
		}
	}
	key := e.effectKey(l)
	prepared, err := c.Prepare(connector.Request{
		EffectKey: key, Settings: l.Connection.Settings, PayloadKind: l.PayloadKind, Payload: l.Payload,
		ReplyTo: l.ReplyTo, Due: l.ScheduleTime,
	})
	if err != nil {
		return ready{}, refusal(err, job.FailPermanent, opening.Credential)
	}
	if first != nil {
		prepared.Frozen = first.Frozen
	} else if refused = sameAsBefore(l, before, prepared); refused != nil {
		return ready{}, refused
	}
	if cp.Class != job.Observable {
		prepared.Gate = nil // the target was found to dedupe
	}
	opening.Prepared = prepared
	r = ready{key: key, prepared: prepared, traits: cp.Traits, identity: cp.Identity, credVer: opening.Credential.Version}
	if content := contentOf(l, cp.Identity, prepared); content != "" {
		if holder := e.gates.reserve(content, l.ID); holder != l.ID {
			r.behind = holder
			return r, &job.Deferred{Kind: job.FailHeld}
		}
		r.content = content
	}
	if refused = e.mark(ctx, c, opening, l, &r); refused != nil {
		return r, refused
	}
	if r.seen, refused = e.presence(lease, c, opening, l, &r); refused != nil || r.seen != nil {
		return r, refused
	}
	if d := ownOpenTime(l, prepared); d > 0 {
		ctx, cancel = context.WithTimeout(lease, d)
		defer cancel()
	}
	session, err := c.Open(ctx, opening)
	if err != nil {
		return r, refusal(err, job.FailTransient, opening.Credential)
	}
	r.session = &line{session}
	if refused = owner(l, first, &r); refused != nil {
		r.session.Close()
	}
	return r, refused
}

// ownOpenTime is how long a line may take to open that has not only what is left of the
// time for preparing; 0: it has. Uploads take longer, and a look has taken some of it.
func ownOpenTime(l *store.Leased, p connector.Prepared) time.Duration {
	if p.OpenTime <= openTimeout && l.SkipIfPresent == 0 {
		return 0
	}
	return max(openTimeout, min(p.OpenTime, job.MaxOpenTimeout))
}

// mark reads the watermark of an OBSERVABLE job, and whose it is.
func (e *Engine) mark(ctx context.Context, c connector.Connector, o connector.Opening, l *store.Leased, r *ready) (refused *job.Deferred) {
	if r.traits.Class != job.Observable {
		return nil
	}
	if r.mark, refused = e.watermark(ctx, c, o); refused != nil {
		return refused
	}
	if i, ok := c.(connector.Identifier); ok && r.identity == "" {
		r.identity = i.AccountOf(r.mark)
		return sameAccount(l, nil, r)
	}
	return nil
}

// owner takes over whose account the line is for, where the platform told.
func owner(l *store.Leased, first *job.Attempt, r *ready) *job.Deferred {
	owned, ok := r.session.Session.(connector.Owned)
	if !ok || r.identity != "" {
		return nil
	}
	r.identity = owned.Account()
	return sameAccount(l, first, r)
}

// sameAccount refuses to send with a credential that turned out to be another
// account's: of a connection whose account is known, or for a repeat, which is harmless
// at the account of the attempt before only. r.identity was learnt from the platform.
func sameAccount(l *store.Leased, first *job.Attempt, r *ready) *job.Deferred {
	known := l.Connection.AccountIdentity
	if first != nil && first.AccountIdentity != "" {
		known = first.AccountIdentity
	}
	if known == "" || r.identity == "" || known == r.identity {
		return nil
	}
	return &job.Deferred{
		Kind: job.FailAuth, Auth: job.AuthOtherAccount, CredentialVersion: r.credVer,
		Message: "the credential leads to another account than this connection's: reconnect the account " + known,
	}
}

// effectKey is the key of the job's round: that of its first attempt, also where the
// namespace is another one by now.
func (e *Engine) effectKey(l *store.Leased) string {
	return cmp.Or(l.RoundKey, l.EffectKey(e.Namespace))
}

// roundBefore gives the first attempt of an OBSERVABLE job's round; nil: the round has
// none yet, or its bytes do not matter.
func (e *Engine) roundBefore(ctx context.Context, l *store.Leased) (*job.Attempt, *job.Deferred) {
	if l.Class != job.Observable || l.Attempt == 0 || l.RoundArmed.IsZero() {
		return nil, nil
	}
	attempts, err := e.Store.Attempts(ctx, store.Ref{ID: l.ID}, 0, job.MaxAttempts)
	if err != nil || len(attempts) == 0 {
		return nil, &job.Deferred{Kind: job.FailHeld, RetryAfter: time.Second, Message: "the attempts could not be read"}
	}
	first := roundFirst(attempts, l.Round)
	return &first, nil
}

// sameAsBefore refuses to arm an OBSERVABLE job with other bytes than its round's
// first attempt: looks look for those, and would not see what is sent now. A reply
// has others when what it replies to turned out to be another object.
func sameAsBefore(l *store.Leased, before *job.Attempt, p connector.Prepared) *job.Deferred {
	if before == nil || l.Class != job.Observable || bytes.Equal(before.Frozen, p.Frozen) {
		return nil
	}
	return &job.Deferred{
		Kind: job.FailPermanent,
		Message: "the request is another one than at the first try: the object that it replies to has changed, or how " +
			"this server writes it; nothing was sent again, submit a new job",
	}
}

// armAndSend writes the intent and, if it is surely durable, sends.
func (e *Engine) armAndSend(l *store.Leased, r *ready, rearm bool, s *seat) {
	step := r.work.Step(tracing.Arm)
	item := e.intent(l, r, rearm)
	start := e.Clock.Read()
	armed, err := e.arm(item)
	if err != nil {
		step.Failed()
		e.undecided(r.work, l, item, err)
		return
	}
	if armed.Err != nil {
		step.Failed()
		e.refusedArm(r.work, l, armed.Err)
		return
	}
	step.End(0)
	// A slow store may have taken up the time for which the key is known.
	if s := armed.Snapshot.Of(l.Spec); rearm && !s.View(e.traits(&l.Connection, l.Class), 0).KeyKnown() {
		r.session.Close()
		e.settle(r.work, &s, &l.Connection, job.Outcome{
			Attempt: armed.Attempt.Number, Result: job.ResultNotSent, Kind: job.FailTransient,
			Message: "the receiver may have forgotten the key before this repeat ends; it was not sent",
		}, job.ID{})
		return
	}
	e.sendArmed(l, r, &item, &armed, start, s)
}

// intent is what is written before a job is sent.
func (e *Engine) intent(l *store.Leased, r *ready, rearm bool) store.Arm {
	sendBy, answerBy := sendTimes(l, r)
	fence := answerBy + e.Grace
	if rearm {
		// An attempt before this one may act for longer than it, and its sender may be alive.
		fence = max(fence, l.Fence.Sub(l.Now))
	}
	digest := sha256.Sum256(r.prepared.Frozen)
	return store.Arm{
		Job: l.ID, Version: l.Version, Claim: l.ClaimToken, Token: e.NewID(), Worker: e.Worker,
		Class: r.traits.Class, Rearm: rearm, EffectKey: r.key,
		Digest: digest[:], Frozen: r.prepared.Frozen,
		CredentialVersion: r.credVer, AccountIdentity: r.identity, Watermark: r.mark, Gate: r.prepared.Gate, Span: r.work.SentAs(),
		SendBy: sendBy, AnswerBy: answerBy, Fence: fence,
	}
}

// longKeyWindow is how long a KEYED target must know a key to be sent an upload in
// more than the usual time: it goes out in the window's first half, and must not come
// to the end of the second.
const longKeyWindow = 24 * job.MaxSendTimeout

// sendTimes are how long after the arm the last byte must be written, and the
// answer be there. What is uploaded has more time; the answer to it has no less.
func sendTimes(l *store.Leased, r *ready) (sendBy, answerBy time.Duration) {
	answerBy = l.Retry.Timeout()
	sendBy = min(job.SendTimeout, answerBy)
	up, ok := r.session.Session.(connector.Uploader)
	if !ok || r.traits.Class == job.Keyed && r.traits.KeyWindow < longKeyWindow {
		return sendBy, answerBy
	}
	more := max(0, min(up.SendTime(), job.MaxSendTimeout)-sendBy)
	return sendBy + more, answerBy + more
}

// sendArmed sends what is armed. start was read before the arm was asked for.
func (e *Engine) sendArmed(l *store.Leased, r *ready, item *store.Arm, armed *store.Armed, start Reading, s *seat) {
	failpoint.Hit(failpoint.Armed)
	e.Metrics.Armed(l.Connection.Connector, armed.Snapshot.Class, armed.Attempt.Number, armed.Attempt.ArmedAt.Sub(l.ScheduleTime))
	// Before the first byte: the store's clock may be set, and the job be taken for
	// one past its fence, while the request is under way.
	e.early.set(l.ID, start.Time.Add(item.Fence+r.traits.ReadLag), start.Time)
	e.tellHoldOver(r.work.Context(), l, start.Time)
	r.work.Armed(armed.Attempt.Number, armed.Snapshot.Class, item.Rearm)
	step := r.work.Step(tracing.Send)
	outcome := e.send(r.work, armed.Attempt.Number, r.session, item, start)
	step.Sent(armed.Attempt.Number, outcome)
	// More jobs wait for the store than are sent at once, and none needs its request.
	r.session.Close()
	l.Payload = nil
	if armed.Snapshot.Class == job.Keyed {
		s.answered() // what a crash would leave unknown, a repeat settles
	}
	failpoint.Hit(failpoint.Answered)
	outcome = e.renewOutcome(&l.Connection, outcome)
	if outcome.Result != job.ResultUnknown {
		e.early.forget(l.ID)
	}
	r.work.Saw(outcome)
	armed.Snapshot.Complete(&l.Spec)
	e.settle(r.work, &armed.Snapshot, &l.Connection, outcome, job.ID{})
	failpoint.Hit(failpoint.Settled)
}

// errNotArmed says that an arm failed and is surely not durable.
var errNotArmed = errors.New("the intent was not written")

// minArmTime keeps a send window that no commit can meet from looking like a
// store that fails: that costs no attempt, so the job would be tried without end.
// What is armed too late for its window is not sent, and that counts.
const minArmTime = time.Second

// arm writes one intent. After an unconfirmed commit it reads back, as long as
// the send window lasts; an error means that nobody knows, and nothing may be sent.
func (e *Engine) arm(item store.Arm) (store.Armed, error) {
	ctx, cancel := context.WithTimeout(e.hard, max(item.SendBy, minArmTime))
	defer cancel()
	armed, err := e.Store.Arm(ctx, []store.Arm{item})
	if err == nil {
		return armed[0], nil
	}
	return e.readBack(ctx, item, err)
}

// readBack asks, for as long as ctx allows, whether an intent is durable whose
// commit gave cause.
func (e *Engine) readBack(ctx context.Context, item store.Arm, cause error) (store.Armed, error) {
	for ctx.Err() == nil {
		back, readErr := e.Store.ArmedBy(ctx, item.Job, item.Token)
		switch {
		case readErr == nil:
			return back, nil
		case errors.Is(readErr, store.ErrNotFound):
			return store.Armed{Err: errNotArmed}, nil
		}
		sleep(ctx, 100*time.Millisecond)
	}
	return store.Armed{}, fmt.Errorf("arm: %w", cause)
}

// undecided ends an arm of which nobody knows whether it is durable: nothing
// was sent, so as soon as the store answers, the attempt, if there is one, is
// settled as not sent.
func (e *Engine) undecided(w *tracing.Work, l *store.Leased, item store.Arm, err error) {
	e.Log.ErrorContext(w.Context(), "an arm could not be confirmed; nothing was sent", "job", l.ID.String(), "err", err)
	for e.hard.Err() == nil {
		ctx, cancel := context.WithTimeout(e.hard, storeTimeout)
		back, err := e.Store.ArmedBy(ctx, item.Job, item.Token)
		cancel()
		switch {
		case err == nil:
			s := back.Snapshot.Of(l.Spec)
			e.settle(w, &s, &l.Connection, job.Outcome{
				Attempt: back.Attempt.Number, Result: job.ResultNotSent, Kind: job.FailTransient,
				Message: "the intent could not be confirmed in time; nothing was sent",
			}, job.ID{})
			return
		case errors.Is(err, store.ErrNotFound):
			e.refusedArm(w, l, errNotArmed)
			return
		}
		sleep(e.hard, time.Second)
	}
	e.Log.ErrorContext(w.Context(), "shut down with an unconfirmed arm; nothing was sent, the fence decides", "job", l.ID.String(), "arm", item.Token.String())
}

// refusedArm handles an intent that the store's guards refused: nothing was sent.
func (e *Engine) refusedArm(w *tracing.Work, l *store.Leased, why error) {
	d := job.Deferred{Kind: job.FailHeld, RetryAfter: time.Second}
	switch {
	case errors.Is(why, store.ErrStale), errors.Is(why, store.ErrNotFound):
		// Canceled, swept or taken over: the job is somebody else's. But a cancel, or word of
		// an earlier attempt, leaves a repeat's lease, and what is next need not wait for it.
		if l.State == job.Claimed || !e.isLeased(l) {
			return
		}
	case errors.Is(why, store.ErrWindowOver):
		if l.State == job.Claimed {
			e.settle(w, &l.Snapshot, &l.Connection, job.WindowOver{}, l.ClaimToken)
			return
		}
	case errors.Is(why, errNotArmed):
		// The store's trouble, not the job's: waiting for the lease to run out
		// would count as a worker's death.
		d.RetryAfter = 5 * time.Second
		if !e.isLeased(l) {
			return
		}
	case errors.Is(why, store.ErrHeld):
		d.Message = "the target is held"
		d.RetryAfter = heldFor(l)
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
		e.waitBehind(e.hard, w, l, holder)
		return
	default:
		e.Log.ErrorContext(w.Context(), "the store refused an arm", "job", l.ID.String(), "err", why)
		d = job.Deferred{Kind: job.FailTransient, Message: "internal error before sending; nothing was sent"}
	}
	w.GivenBack(d.Kind)
	e.settle(w, &l.Snapshot, &l.Connection, d, l.ClaimToken)
}

// isLeased asks whether a lease is held. One that was to be written with the intent
// may be as little durable, and what came under its version is another's doing.
func (e *Engine) isLeased(l *store.Leased) bool {
	for e.hard.Err() == nil {
		now, err := e.read(l.ID)
		if err == nil || errors.Is(err, store.ErrNotFound) {
			return err == nil && now.State == l.State && now.ClaimToken == l.ClaimToken
		}
		sleep(e.hard, time.Second)
	}
	return false
}

// heldFor is how long to leave a held target alone: until its rate limit ends,
// as far as that is known; a pause and a refused credential, which end when a
// person ends them, are asked about once a minute and ever more rarely.
func heldFor(l *store.Leased) time.Duration {
	const least, most, heldMost = time.Second, 5 * time.Minute, 10 * time.Minute
	if !l.Connection.AuthHoldAt.IsZero() || !l.Connection.PausedAt.IsZero() {
		return patience(l, time.Minute, heldMost)
	}
	return min(max(l.Connection.RateLimitedUntil.Sub(l.Now), least), most)
}

// send makes the commit request of attempt n. A panic after the arm is an unknown outcome.
func (e *Engine) send(w *tracing.Work, n int, s connector.Session, item *store.Arm, start Reading) (out job.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			e.Log.ErrorContext(w.Context(), "panic while sending", "job", item.Job.String(), "attempt", n, "panic", p, "stack", string(debug.Stack()))
			out = job.Outcome{Result: job.ResultUnknown, Kind: job.FailAmbiguous, Message: "internal error while sending"}
		}
		out.Attempt = n
		if out.Result == 0 {
			out.Result, out.Kind = job.ResultUnknown, job.FailAmbiguous
		}
		out.CredentialVersion = item.CredentialVersion
	}()
	traceparent, tracestate := w.Headers()
	return s.Publish(connector.Commit{
		Attempt: n, EffectKey: item.EffectKey, Traceparent: traceparent, Tracestate: tracestate,
		SendBy: start.Time.Add(item.SendBy), AnswerBy: start.Time.Add(item.AnswerBy),
		MaySend: func() error {
			gone, err := start.elapsed(e.Clock.Read())
			if err != nil {
				return err
			}
			if gone >= item.SendBy {
				return fmt.Errorf("the send window of %v passed before the first byte", item.SendBy)
			}
			failpoint.Hit(failpoint.Checked)
			return nil
		},
		SaveHandle: func(handle string) error {
			ctx, cancel := context.WithTimeout(e.hard, storeTimeout)
			defer cancel()
			return e.Store.SaveHandle(ctx, item.Job, n, handle)
		},
	})
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
