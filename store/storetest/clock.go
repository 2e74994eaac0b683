package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the store's clock is set, and a true clock beside it shows what must not
// happen. While the clock is suspect, an engine may continue by its own line or refuse with
// ErrClockSuspect; what it must not do is the same for all engines.

// Clocked opens stores whose clocks can be set.
type Clocked struct {
	// Open makes a new, empty store.
	Open func(t *testing.T, opts store.ClockOptions) store.Store
	// Restart ends a store's process without a close, and opens the store of the next one.
	Restart func(t *testing.T, s store.Store, opts store.ClockOptions) store.Store
}

// RunClock runs the part of the suite that sets the clock.
func RunClock(t *testing.T, engine Clocked) {
	for _, tt := range []struct {
		name string
		run  func(*clockFixture)
	}{
		{"a jump starts and ends nothing", clockJump},
		{"a jump leaves no mark when it is over", clockBack},
		{"what was made of a duration moves with a step forward", clockStepForward},
		{"what was made of a duration moves with a step back", clockStepBack},
		{"a cool-down moves with a step", clockCoolDown},
		{"a client's own time stays where it is", clockOwnTime},
		{"a job without a requested time, and a step forward", clockUnaskedForward},
		{"a job without a requested time, and a step back", clockUnaskedBack},
		{"a retry without a requested time", clockRetried},
		{"a job that has begun, and a step forward", clockTryingForward},
		{"a job that has begun, and a step back", clockTryingBack},
		{"a repeated request after a step", clockEcho},
		{"the steady clock", clockSteady},
		{"what happened stays in the past", clockPast},
		{"a look under way proves nothing after a step", clockLook},
		{"a jump that lasts is followed", clockBound},
		{"a restart in one run of the machine", clockRestart},
		{"a restart after a downtime", clockDowntime},
		{"a start with an earlier time", clockEarlier},
		{"a start with an earlier time and an operator's word", clockTrusted},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(newClockFixture(t, engine)) })
	}
}

// clockFixture is a fixture whose clock has the true time, beside the store's.
type clockFixture struct {
	*fixture
	engine  Clocked
	machine *Machine
}

func newClockFixture(t *testing.T, engine Clocked) *clockFixture {
	c := &clockFixture{fixture: &fixture{T: t, ctx: t.Context()}, engine: engine, machine: NewMachine(start)}
	c.fixture.clock = c.machine.true
	c.s = engine.Open(t, c.options())
	t.Cleanup(func() { _ = c.s.Close() })
	c.conn = c.connect(store.Connection{Class: job.Keyed, KeyWindow: 24 * time.Hour})
	return c
}

func (c *clockFixture) options() store.ClockOptions { return store.ClockOptions{Read: c.machine.Read} }

// restart opens the store again. In another run of the machine the boot clock has begun
// again.
func (c *clockFixture) restart(sameRun bool, edit ...func(*store.ClockOptions)) {
	c.Helper()
	opts := c.options()
	for _, e := range edit {
		e(&opts)
	}
	if !sameRun {
		c.machine.Boot(time.Minute)
	}
	c.s = c.engine.Restart(c.T, c.s, opts)
}

// step makes the store follow its clock.
func (c *clockFixture) step() {
	c.Helper()
	c.machine.Prove("the test knows it")
	_, err := c.s.ClaimLooks(c.ctx, store.ClaimParams{Worker: "nobody", Lease: lease, Limit: 0})
	if err != nil && !errors.Is(err, store.ErrClockSuspect) {
		c.Fatal(err)
	}
	c.machine.Prove("")
	c.is(c.meta().Clock.Why, "", "doubt after the step")
}

// tried claims what can be claimed.
func (c *clockFixture) tried() []store.Leased {
	c.Helper()
	out, err := c.s.Claim(c.ctx, store.ClaimParams{Worker: "worker", Lease: lease, Limit: 10})
	if err != nil && !errors.Is(err, store.ErrClockSuspect) {
		c.Fatal(err)
	}
	return out
}

// quiet fails if a job is started or ended.
func (c *clockFixture) quiet(when string) {
	c.Helper()
	c.is(len(c.tried()), 0, "jobs claimed %s", when)
	over, err := c.s.Overdue(c.ctx, 10)
	c.ok(err)
	c.is(len(over), 0, "jobs overdue %s", when)
	looks, err := c.s.ClaimLooks(c.ctx, store.ClaimParams{Worker: "looker", Lease: lease, Limit: 10})
	if err != nil && !errors.Is(err, store.ErrClockSuspect) {
		c.Fatal(err)
	}
	c.is(len(looks), 0, "looks claimed %s", when)
	_, err = c.s.NextDue(c.ctx, time.Minute)
	c.ok(err)
}

func clockJump(c *clockFixture) {
	c.sending()
	c.submit(at(start.Add(10 * time.Minute)))
	c.submit(at(start.Add(24*time.Hour)), func(n *store.NewJob) { n.Spec.StartWindow = time.Hour })
	c.is(c.meta().Clock, store.SuspectClock{}, "doubt before the jump")
	const ahead = 7 * 24 * time.Hour
	c.machine.Set(ahead)
	c.quiet("after the jump")
	c.is(c.meta().Clock.Off, ahead, "how far the clock is off")
	c.is(c.meta().Clock.Since.Sub(start).Abs() < time.Second, true, "since when")
	suspect, err := c.s.Meta(c.ctx)
	c.ok(err)
	c.is(suspect.Now.Sub(start).Abs() < time.Minute, true, "the time in meta is the one that is believed")
	c.fixture.clock.advance(2 * time.Second)
	c.machine.Set(0)
	c.quiet("after it was set back")
	c.is(c.meta().Clock, store.SuspectClock{}, "doubt after it was set back")
	c.fixture.clock.advance(10*time.Minute - 2*time.Second)
	c.is(len(c.tried()), 1, "jobs claimed in time")
}

// A connection that was served while the clock was ahead is served again immediately, and a
// job that was submitted meanwhile is due at its time.
func clockBack(c *clockFixture) {
	c.submit()
	c.is(len(c.tried()), 1, "jobs claimed before")
	c.machine.Set(time.Hour)
	c.submit()
	c.tried() // an engine may continue
	c.machine.Set(0)
	c.fixture.clock.advance(2 * lease)
	c.submit()
	got := c.tried()
	if len(got) == 0 {
		c.Fatal("the connection stands still")
	}
	c.restart(true)
	c.submit()
	if got := c.tried(); len(got) == 0 {
		c.Fatal("the connection stands still after a restart")
	}
}

// durations are the remaining durations in a store.
type durations struct{ fence, lease, backoff, age time.Duration }

// durable makes a job in mid-send, one that waits after a failure, and one that is claimed.
func (c *clockFixture) durable() (left func() durations) {
	c.Helper()
	failed := c.sending(holding("another-account"), at(start.Add(-90*time.Minute)))
	c.apply(failed.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailTransient, Message: "later"})
	sent := c.sending()
	want := c.submit(holding("a-third-account"))
	c.is(len(c.tried()), 1, "jobs claimed")
	return func() durations {
		c.Helper()
		s, w, f := c.job(sent.Snapshot.ID), c.job(want.ID), c.job(failed.Snapshot.ID)
		c.is(s.NextAt, s.Fence, "due of a job in mid-send")
		c.is(w.State, job.Claimed, "state of the claimed job")
		c.is(f.State, job.Retrying, "state of the failed job")
		v := s.View(c.traits(s), 0)
		return durations{fence: v.FenceLeft, age: v.KeyAge, lease: w.NextAt.Sub(w.Now), backoff: f.NextAt.Sub(f.Now)}
	}
}

func clockStepForward(c *clockFixture) {
	left := c.durable()
	before := left()
	soon := c.submit(at(start.Add(30 * time.Minute)))
	// The time of a reply is its client's, also while it waits.
	reply := c.submit(replying(soon.ID), at(start.Add(5*time.Hour)))
	c.machine.Set(time.Hour)
	c.step()
	stepped := c.job(reply.ID)
	c.is([]time.Time{stepped.NextAt, stepped.StartDeadline}, []time.Time{reply.NextAt, reply.StartDeadline}, "times of a reply that waits")
	c.is(left(), before, "durations after the step")
	c.is(c.job(soon.ID).Now.Sub(start), time.Hour, "now")
	got := c.tried()
	c.is(len(got), 1, "jobs claimed")
	c.is(got[0].ID, soon.ID, "what has become due")
	c.fixture.clock.advance(fence)
	over, err := c.s.Overdue(c.ctx, 10)
	c.ok(err)
	c.is(len(over) > 0 && over[0].Now.Sub(start) == time.Hour+fence, true, "what is over is so by the new time")
}

func clockCoolDown(c *clockFixture) {
	for _, by := range []time.Duration{90 * time.Minute, 0} {
		conn := c.connect(store.Connection{CoolDown: coolFor})
		c.submit(on(conn))
		c.submit(on(conn))
		got := c.leases(2)
		c.arm(got[0])
		c.fixture.clock.advance(time.Second)
		c.machine.Set(by)
		c.step()
		c.cools(c.intent(got[1]), conn.ID, got[0].ID, coolFor-time.Second)
	}
}

func clockStepBack(c *clockFixture) {
	left := c.durable()
	before := left()
	soon := c.submit(at(start.Add(-30*time.Minute)), holding("a-fourth-account"))
	c.machine.Set(-time.Hour)
	c.step()
	c.is(left(), before, "durations after the step")
	c.is(c.job(soon.ID).Now.Sub(start), -time.Hour, "now")
	c.is(len(c.tried()), 0, "jobs claimed before their time")
	fresh := c.submit()
	got := c.tried()
	c.is(len(got), 1, "jobs claimed of a connection that was served before the step")
	c.is(got[0].ID, fresh.ID, "what was claimed")
	c.fixture.clock.advance(30 * time.Minute)
	for _, l := range c.tried() {
		if l.ID == soon.ID {
			return
		}
	}
	c.Error("a job is not started at its time")
}

func clockOwnTime(c *clockFixture) {
	s := c.sending()
	failed := c.apply(s.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent, Message: "no"})
	wanted := start.Add(30 * time.Minute)
	again := c.apply(failed.Snapshot, job.RetryAsked{At: wanted})
	c.is(again.Snapshot.NextAt, wanted, "due before the step")
	c.machine.Set(-10 * time.Minute)
	c.step()
	c.is(c.job(s.Snapshot.ID).NextAt, wanted, "due after the step")
}

func clockLook(c *clockFixture) {
	c.conn = c.connect(store.Connection{Class: job.Observable})
	first := c.ambiguous()
	c.fixture.clock.advance(2 * fence)
	l := c.looks()[0]
	c.is(l.ID, first.ID, "look")
	c.machine.Set(-time.Hour)
	c.step()
	got := c.job(first.ID)
	c.is(got.ClaimToken, job.ID{}, "lease of the look")
	c.is(got.Version, l.Version, "version")
}

func clockBound(c *clockFixture) {
	soon := c.submit(at(start.Add(30 * time.Minute)))
	c.machine.Set(time.Hour)
	c.quiet("after the jump")
	c.fixture.clock.advance(store.DefaultSuspectFor - time.Second)
	c.quiet("before the bound")
	c.fixture.clock.advance(time.Second)
	c.tried() // this one may only follow the clock
	c.is(c.meta().Clock.Why, "", "doubt after the bound")
	_ = c.tried()
	c.is(c.job(soon.ID).State, job.Claimed, "state after the bound")
}

func clockRestart(c *clockFixture) {
	s := c.sending()
	c.fixture.clock.advance(10 * time.Second)
	c.machine.Set(-time.Hour)
	c.restart(true)
	c.quiet("after the restart")
	if got := c.job(s.Snapshot.ID).View(c.traits(s.Snapshot), 0); got.KeyAge < 0 {
		c.Errorf("the key's age is %v", got.KeyAge)
	}
	c.machine.Set(0)
	c.fixture.clock.advance(fence)
	c.tried()
	over, err := c.s.Overdue(c.ctx, 10)
	c.ok(err)
	c.is(len(over), 1, "jobs past their fence once the clock is right")
	if got := over[0].View(c.traits(s.Snapshot), 0); got.KeyAge < 10*time.Second+fence {
		c.Errorf("the key's age is %v", got.KeyAge)
	}
}

func clockDowntime(c *clockFixture) {
	s := c.sending()
	c.fixture.clock.advance(time.Hour)
	c.restart(false)
	c.is(c.meta().Clock, store.SuspectClock{}, "doubt")
	over, err := c.s.Overdue(c.ctx, 10)
	c.ok(err)
	c.is(len(over), 1, "jobs past their fence")
	c.is(over[0].View(c.traits(s.Snapshot), 0).KeyAge, time.Hour, "the key's age")
}

// clockEarlier: how long the machine was down is unknown, and so is the age of a key.
func clockEarlier(c *clockFixture) {
	s := c.ambiguous()
	// Its key is still that of its round, and may be repeated after its next attempt.
	waits := c.sending(holding("a-waiting-account"))
	c.apply(waits.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailTransient, Message: "later"})
	late := c.submit(holding("another-account"), func(n *store.NewJob) { n.Spec.StartWindow = 5 * time.Second })
	age := c.job(s.ID).View(c.traits(s), 0).KeyAge
	c.machine.Set(-110 * time.Second)
	c.fixture.clock.advance(time.Second)
	c.restart(false)
	_, err := c.s.Claim(c.ctx, store.ClaimParams{Worker: "worker", Lease: lease, Limit: 10})
	c.fails(err, store.ErrClockSuspect)
	_, err = c.s.ClaimLooks(c.ctx, store.ClaimParams{Worker: "looker", Lease: lease, Limit: 10})
	c.fails(err, store.ErrClockSuspect)
	_, err = c.s.Retain(c.ctx, store.RetainParams{Keep: keeping, Owner: job.ID{1}, Lease: time.Minute})
	c.fails(err, store.ErrClockSuspect)
	_, _, err = c.s.Fire(c.ctx, store.FireParams{Decide: c.beat})
	c.fails(err, store.ErrClockSuspect)
	c.is(c.meta().Clock.Suspends, true, "everything stands still")
	c.submit(holding("a-third-account"))
	c.fixture.clock.advance(time.Minute)
	c.quiet("in the doubt")
	c.is(c.job(late.ID).State, job.Scheduled, "state of a job whose window would be over")

	c.fixture.clock.advance(time.Minute)
	got := c.tried()
	if len(got) == 0 {
		got = c.tried()
	}
	c.is(c.meta().Clock.Why, "", "doubt once the clock has passed the newest time")
	found := false
	for _, l := range got {
		found = found || l.ID == late.ID
	}
	c.is(found, true, "a job whose window was open when everything stood still is claimed")
	v := c.job(s.ID).View(c.traits(s), 0)
	if v.KeyAge < v.Traits.KeyWindow {
		c.Errorf("the key's age is %v, and was %v before nobody knows how long", v.KeyAge, age)
	}
	for _, id := range []job.ID{s.ID, waits.Snapshot.ID} {
		if at := c.attempts(id)[0].ArmedAt; !at.Equal(store.AgeUnknown) {
			c.Errorf("job %v: armed at %v", id, at)
		}
	}
}

func clockTrusted(c *clockFixture) {
	s := c.ambiguous()
	c.machine.Set(-time.Hour)
	c.restart(false, func(o *store.ClockOptions) { o.Trust = true })
	c.submit(holding("another-account"))
	c.is(len(c.tried()) > 0, true, "jobs are claimed")
	c.is(c.meta().Clock.Why, "", "doubt")
	if v := c.job(s.ID).View(c.traits(s), 0); v.KeyAge < v.Traits.KeyWindow {
		c.Errorf("the key's age is %v", v.KeyAge)
	}
	c.machine.Set(time.Hour)
	c.quiet("after a later jump")
}
