package engine

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a job that can be prepared without I/O is armed in the transaction
// that claims it, which saves a commit.
//   - It is the first attempt of a round, whose effect key is derived and not read, at a
//     KEYED target. Its credential is cached, its request waits for no other job, and an
//     idle connection is taken for it before its intent is handed to the store. Every
//     other job is claimed, prepared and armed in steps.
//   - The start time is taken before the claim is asked for, so that the local
//     deadlines end before the stored ones.
//   - Nothing is sent unless the store has confirmed that the intent is durable.
//   - A job that kills the process while it is prepared must not do so forever, and a
//     lease that is not durable is not counted. So a process that has just begun, which has
//     no idle connection, prepares under a lease, and so it does with any job that may have
//     killed a worker.

// claimAndArm is one claim, with the attempts that it may arm.
type claimAndArm struct {
	e     *Engine
	start Reading
	most  int
	// begun and ended are the claim's, for its spans; zero where there are none.
	begun, ended time.Time

	mu       sync.Mutex
	over     bool
	attempts map[job.ID]*attempt
}

// newClaimAndArm begins a claim for as many permits.
func (e *Engine) newClaimAndArm(most int) *claimAndArm {
	c := &claimAndArm{e: e, start: e.Clock.Read(), most: most, attempts: make(map[job.ID]*attempt)}
	if e.Tracer != nil {
		c.begun = time.Now()
	}
	return c
}

// intend is store.ClaimParams.Intent. What it returned for a job before does not count:
// the transaction was run again.
func (c *claimAndArm) intend(l store.Leased) *store.Arm {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil
	}
	if before, ok := c.attempts[l.ID]; ok {
		before.closeSession()
		delete(c.attempts, l.ID)
	}
	if len(c.attempts) >= c.most {
		return nil
	}
	r, ok := c.prepareWithoutIO(&l)
	if !ok {
		return nil
	}
	leased := l // on the heap only if it is armed
	a := &attempt{task: task{e: c.e, leased: &leased}, ready: r, start: c.start}
	a.work = c.e.Tracer.Begin(tracing.Attempt, a.leased, c.begun) // without an end, if the intent is not written
	a.makeIntent()
	if gone, err := c.start.elapsed(c.e.Clock.Read()); err != nil || gone >= a.intent.SendBy/2 {
		// So slow a claim may leave no time to send, and what is armed and not sent
		// costs an attempt.
		a.closeSession()
		return nil
	}
	c.attempts[l.ID] = a
	return &a.intent
}

// end closes the claim, and puts back the connections of attempts that it has not armed.
// After a commit whose outcome is unknown it returns the attempts whose intents may be
// durable.
func (c *claimAndArm) end(leased []store.Leased, err error) (unconfirmed []*attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.e.Tracer != nil {
		c.ended = time.Now()
	}
	armed := make(map[job.ID]bool, len(c.attempts))
	for i := range leased {
		armed[leased[i].ID] = leased[i].Armed != nil
	}
	for id, a := range c.attempts {
		switch {
		case errors.Is(err, store.ErrUnconfirmed):
			unconfirmed = append(unconfirmed, a)
		case !armed[id]:
			a.closeSession()
			delete(c.attempts, id)
		}
	}
	return unconfirmed
}

// attempt returns the attempt for a job that the claim has leased: the one that it has
// armed, or a new one.
func (c *claimAndArm) attempt(l *store.Leased) *attempt {
	if l.Armed == nil {
		return &attempt{task: task{e: c.e, leased: l}}
	}
	a := c.attempts[l.ID]
	a.armed = l.Armed
	return a
}

// run runs an attempt that the claim has leased, and perhaps armed.
func (c *claimAndArm) run(ctx context.Context, a *attempt) {
	if a.armed != nil {
		a.work.Claimed(c.begun, c.ended, true)
		a.runArmed()
		return
	}
	a.work = c.e.Tracer.Begin(tracing.Attempt, a.leased, c.begun)
	defer a.work.End()
	a.work.Claimed(c.begun, c.ended, false)
	a.run(ctx)
}

// prepareWithoutIO is prepare for a job that needs no I/O to be sent. It returns false for
// one that does, and for one that cannot be sent: prepare returns the reason.
func (c *claimAndArm) prepareWithoutIO(l *store.Leased) (r ready, ok bool) {
	e := c.e
	defer func() {
		if p := recover(); p != nil {
			e.Log.Error("panic while preparing", logged(&l.Snapshot, &l.Connection), "panic", p, "stack", string(debug.Stack()))
			ok = false
		}
	}()
	conn, _ := e.Connectors.Get(l.Connection.Connector)
	idler, keeps := conn.(connector.Idler)
	if !keeps || !idler.HasIdle() || l.Stopped != nil || l.Claims > 0 || l.CoolsDown() || l.SkipIfPresent > 0 {
		return ready{}, false
	}
	if _, waits := e.contents.holder(l); waits || !l.Spec.ReplyTo.IsZero() && l.ReplyTo == "" {
		return ready{}, false
	}
	cred, capability, known := e.credentials.known(&l.Connection, conn)
	if !known {
		return ready{}, false
	}
	to := newTarget(conn, l, cred, capability)
	if to.capability.Class != job.Keyed {
		return ready{}, false
	}
	key := e.effectKey(l)
	prepared, err := conn.Prepare(connector.Request{
		EffectKey: key, Settings: l.Connection.Settings, PayloadKind: l.PayloadKind,
		Payload: l.Payload, ReplyTo: l.ReplyTo, Due: l.ScheduleTime,
	})
	if err != nil || len(prepared.Gate) > 0 {
		return ready{}, false
	}
	to.opening.Prepared = prepared
	r = ready{
		key: key, prepared: prepared, traits: to.capability.Traits, account: to.capability.Identity, credentialVersion: cred.Version,
	}
	r.session = idler.OpenIdle(to.opening)
	return r, r.session != nil
}

// runArmed sends a job that was armed as it was claimed. It reaches the failpoints of a
// claim and of a preparation, which are done by now.
func (a *attempt) runArmed() {
	defer a.closeSession()
	defer a.work.End()
	failpoint.Hit(failpoint.Claimed)
	failpoint.Hit(failpoint.Prepared)
	a.send()
}

// runUnconfirmed finds out whether an intent is durable that was to be written with a
// claim, whose commit failed with cause. It sends only then.
func (a *attempt) runUnconfirmed(cause error) {
	ctx, cancel := context.WithTimeout(a.e.hard, max(a.intent.SendBy, minArmTime))
	armed, err := a.readBack(ctx, cause)
	cancel()
	switch {
	case err != nil:
		a.closeSession()
		a.resolveUnconfirmed(err)
	case armed.Err != nil:
		// Not armed, but leased perhaps: if so, the lease is given back.
		a.closeSession()
		a.armRefused(armed.Err)
	default:
		a.armed = armed
		a.runArmed()
	}
}
