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

// Rules of this file: a job whose send needs nothing but what is at hand is armed
// in the transaction that claims it, which saves a commit.
//   - Only the first attempt of a round, whose effect key is derived and not read, of
//     a job of a KEYED target, whose credential is known, whose request waits
//     for no other job, and for which an idle line is taken before the intent is
//     given. Every other goes the usual way: claimed, prepared, armed.
//   - The start time is taken before the claim is asked for, so that the local
//     deadlines end before the stored ones.
//   - Nothing is sent unless the store has said that the intent is durable.
//   - A job that kills the process while it is prepared must not do so for ever, and
//     a lease that is not durable is not counted. So a process that has just begun,
//     which has no idle line, prepares under a lease, and so is any job that may have
//     been the death of a worker.

// fused is one claim, and the intents that it may write.
type fused struct {
	e     *Engine
	start Reading
	most  int
	// begun and ended are the claim's, for its spans; zero where there are none.
	begun, ended time.Time

	mu      sync.Mutex
	over    bool
	intents map[job.ID]*intent
}

// intent is what a job is armed with by its claim, and the line for it.
type intent struct {
	store.Arm
	leased store.Leased
	ready  ready
	start  Reading
}

// fuse begins a claim for so many senders.
func (e *Engine) fuse(most int) *fused {
	f := &fused{e: e, start: e.Clock.Read(), most: most, intents: make(map[job.ID]*intent)}
	if e.Tracer != nil {
		f.begun = time.Now()
	}
	return f
}

// intend is store.ClaimParams.Intent. What it gave for a job before counts for
// nothing: the transaction runs anew.
func (f *fused) intend(l store.Leased) *store.Arm {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return nil
	}
	if before, ok := f.intents[l.ID]; ok {
		before.ready.session.Close()
		delete(f.intents, l.ID)
	}
	if len(f.intents) >= f.most {
		return nil
	}
	r, ok := f.e.atHand(&l)
	if !ok {
		return nil
	}
	in := &intent{leased: l, ready: r, start: f.start}
	in.ready.work = f.e.Tracer.Begin(tracing.Attempt, &in.leased, f.begun) // without an end, if the intent is not written
	in.Arm = f.e.intent(&in.leased, &in.ready, false)
	if gone, err := f.start.elapsed(f.e.Clock.Read()); err != nil || gone >= in.SendBy/2 {
		// So slow a claim may leave no time to send, and what is armed and not sent
		// costs an attempt.
		r.session.Close()
		return nil
	}
	f.intents[l.ID] = in
	return &in.Arm
}

// end tells that the claim has ended, and puts back the lines that nothing is sent
// on. After a commit whose outcome is unknown it gives the intents that may be
// durable.
func (f *fused) end(leased []store.Leased, err error) (inDoubt []*intent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	if f.e.Tracer != nil {
		f.ended = time.Now()
	}
	armed := make(map[job.ID]bool, len(f.intents))
	for _, l := range leased {
		armed[l.ID] = l.Armed != nil
	}
	for id, in := range f.intents {
		switch {
		case errors.Is(err, store.ErrUnconfirmed):
			inDoubt = append(inDoubt, in)
		case !armed[id]:
			in.ready.session.Close()
			delete(f.intents, id)
		}
	}
	return inDoubt
}

// atHand is prepare for a job that needs no I/O to be sent; false: it does, or it
// cannot be sent, which prepare finds words for.
func (e *Engine) atHand(l *store.Leased) (r ready, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			e.Log.Error("panic while preparing", "job", l.ID.String(), "panic", p, "stack", string(debug.Stack()))
			ok = false
		}
	}()
	c, _ := e.Connectors.Get(l.Connection.Connector)
	idler, keeps := c.(connector.Idler)
	if !keeps || !idler.HasIdle() || l.Claims > 0 || l.CoolsDown() || l.SkipIfPresent > 0 {
		return ready{}, false
	}
	if _, waits := e.gates.holder(l); waits || !l.Spec.ReplyTo.IsZero() && l.ReplyTo == "" {
		return ready{}, false
	}
	cred, cp, known := e.knownDoor(&l.Connection, c)
	if !known {
		return ready{}, false
	}
	opening, cp := openingOf(l, cred, cp)
	if cp.Class != job.Keyed {
		return ready{}, false
	}
	key := e.effectKey(l)
	prepared, err := c.Prepare(connector.Request{
		EffectKey: key, Settings: l.Connection.Settings, PayloadKind: l.PayloadKind,
		Payload: l.Payload, ReplyTo: l.ReplyTo, Due: l.ScheduleTime,
	})
	if err != nil || len(prepared.Gate) > 0 {
		return ready{}, false
	}
	opening.Prepared = prepared
	r = ready{key: key, prepared: prepared, traits: cp.Traits, identity: cp.Identity, credVer: cred.Version}
	session := idler.OpenIdle(opening)
	if session == nil {
		return ready{}, false
	}
	r.session = &line{session}
	return r, true
}

// knownDoor gives what is known of a connection without asking the store. One
// without a credential is always known.
func (e *Engine) knownDoor(conn *store.Connection, c connector.Connector) (connector.Credential, connector.Capability, bool) {
	now := e.Clock.Read().Time
	cred, cp, known := e.doors.find(conn, now)
	if known && e.due(conn) {
		return cred, cp, false
	}
	if known || conn.CredentialVersion != 0 {
		return cred, cp, known
	}
	cp, err := c.Check(conn.Settings, cred)
	if err != nil || cp.Unsure {
		return cred, cp, false // whoever prepares it asks the target
	}
	e.doors.keep(conn, cred, cp, now)
	return cred, cp, true
}

// workArmed takes a job that was armed as it was claimed through its attempt. It
// meets the places of a claim and of a preparation, which are behind it.
func (e *Engine) workArmed(in *intent, armed *store.Armed, s *seat) {
	defer in.ready.session.Close()
	defer in.ready.work.End()
	failpoint.Hit(failpoint.Claimed)
	failpoint.Hit(failpoint.Prepared)
	e.sendArmed(&in.leased, &in.ready, &in.Arm, armed, in.start, s)
}

// workInDoubt finds out whether an intent is durable that was to be written with a
// claim, and sends only then.
func (e *Engine) workInDoubt(in *intent, cause error, s *seat) {
	ctx, cancel := context.WithTimeout(e.hard, max(in.SendBy, minArmTime))
	armed, err := e.readBack(ctx, in.Arm, cause)
	cancel()
	switch {
	case err != nil:
		in.ready.session.Close()
		e.undecided(in.ready.work, &in.leased, in.Arm, err)
	case armed.Err != nil:
		// Not armed, but leased perhaps: if so, the lease is given back.
		in.ready.session.Close()
		e.refusedArm(in.ready.work, &in.leased, armed.Err)
	default:
		e.workArmed(in, &armed, s)
	}
}
