package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/hostclock"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file:
//   - all times are the process's belief in the machine's wall clock (see store.Timeline). It
//     is saved with commits that happen anyway, so that the next process continues from it;
//   - a step of the believed time is a transaction of its own, between two groups. No call
//     sees times of before the step and rows of after it.

const (
	// saveEvery is how often the belief is saved with other writes.
	saveEvery = time.Second
	// clockReadEvery is how often the clock is read when there are no calls.
	clockReadEvery = time.Second
)

// clock is the process's belief in the time.
type clock struct {
	read   func() store.ClockReading
	belief *store.Clock
	bootID string
	// Readers hold steps as long as they use one time, and a step holds it.
	steps sync.RWMutex
	saved time.Duration // on the boot clock; the writer's
}

// openClock continues from the belief of the database's last process.
func (s *Store) openClock(ctx context.Context) error {
	c := &clock{read: s.opts.Clock.Read, bootID: hostclock.BootID(), saved: -saveEvery}
	switch {
	case c.read != nil:
	case s.opts.Now != nil:
		c.read, c.bootID = manualClock(s.opts.Now), ""
	default:
		c.read = c.machine
	}
	row, err := sqlitedb.New(dialect{s.db}).GetClock(ctx)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("read what is believed of the time: %w", err)
	}
	line := store.Timeline{}
	if s.opts.Now == nil {
		line = store.Resume(store.SavedClock{
			BootID: row.BootID, At: row.At, Boot: row.Boot, Since: row.Since, Off: row.Off, Floor: row.Floor,
		}, c.bootID, c.read().Boot)
	}
	c.belief = store.NewClock(s.opts.Clock, line)
	s.clock = c
	return nil
}

// manualClock reads a clock that is always right.
func manualClock(now func() time.Time) func() store.ClockReading {
	start := now()
	return func() store.ClockReading {
		t := now()
		return store.ClockReading{Wall: t.UnixMicro(), Boot: t.Sub(start)}
	}
}

// machine reads this machine's clocks. It asks the kernel only while the clock is suspect.
func (c *clock) machine() store.ClockReading {
	r := store.ClockReading{Boot: hostclock.Boot()}
	r.Wall = hostclock.Wall().UnixMicro()
	r.Took = hostclock.Boot() - r.Boot
	if c.belief != nil && c.belief.Suspect().Why != "" && hostclock.Synchronized() {
		r.Proof = "the kernel says that its clock is synchronized"
	}
	return r
}

func (c *clock) moment() store.ClockMoment { return c.belief.Read(c.read()) }

// watchClock detects a clock change when there are no calls, and makes the writer follow it.
func (s *Store) watchClock() {
	ticker := time.NewTicker(clockReadEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.closed:
			return
		case <-ticker.C:
		}
		if s.clock.moment().Step == nil {
			continue
		}
		// An operation that does nothing: the writer steps before each group. It reports a
		// failure itself.
		_, _ = write(context.Background(), s, "clock", func(context.Context, *tx) (struct{}, error) { return struct{}{}, nil })
	}
}

// stepClock follows the clock before a group, if it is believed to have changed. Where
// that fails, the belief stays as it was, and a later group tries again.
func (w *writer) stepClock(ctx context.Context) {
	c := w.s.clock
	m := c.moment()
	if m.Step == nil {
		return
	}
	c.steps.Lock()
	defer c.steps.Unlock()
	if err := w.follow(ctx, m); err != nil {
		c.belief.Failed(m, c.read().Boot-m.Boot, err)
		return
	}
	w.cache = newCache()
	c.belief.Follow(*m.Step)
	w.s.hints.Notify(store.WatchKinds{store.WatchWork: true})
}

// follow makes a step durable, or fails with nothing of it written.
func (w *writer) follow(ctx context.Context, m store.ClockMoment) error {
	before, err := w.q.GetClock(ctx)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("read how many steps were written: %w", err)
	}
	if err := w.writeStep(ctx, m); err != nil {
		w.undo(ctx)
		// Only a commit leaves open whether it is durable.
		if after, rerr := w.q.GetClock(ctx); rerr != nil || after.Steps == before.Steps {
			return errors.Join(err, rerr)
		}
	}
	return nil
}

func (w *writer) writeStep(ctx context.Context, m store.ClockMoment) error {
	if err := w.ses.control(ctx, begin); err != nil {
		return err
	}
	return sqlstore.InSequence(ctx, append(w.stepParts(m), w.commit)...)
}

// stepParts are the statements of a step.
func (w *writer) stepParts(m store.ClockMoment) []func(context.Context) error {
	step, q := *m.Step, w.q
	over, unknown := min(step.From, step.To), store.AgeUnknown.UnixMicro()
	parts := []func(context.Context) error{
		sqlstore.With(q.SaveClock, w.s.clock.row(store.SavedClock{At: step.To, Boot: m.Boot.Microseconds()})),
		sqlstore.With(q.BeginStep, step.By),
	}
	if step.By != 0 {
		parts = append(parts,
			sqlstore.With(q.StepAttempts, sqlitedb.StepAttemptsParams{By: step.By, Unknown: unknown, Over: over}),
			sqlstore.With(q.StepBuckets, step.By),
		)
	}
	if step.AgesUnknown {
		parts = append(parts, sqlstore.With(q.ForgetKeyAges, unknown))
	}
	return append(append(parts, sqlstore.StepParts(w.sq, step)...), q.EndStep)
}

// saveClock saves the belief now and then, with what a group has written.
func (w *writer) saveClock(ctx context.Context) error {
	c := w.s.clock
	m := c.moment()
	if w.s.opts.Now != nil || m.Boot-c.saved < saveEvery {
		return nil
	}
	c.saved = m.Boot
	return w.q.SaveClock(ctx, c.row(c.belief.Save()))
}

func (c *clock) row(saved store.SavedClock) sqlitedb.SaveClockParams {
	return sqlitedb.SaveClockParams{BootID: c.bootID, At: saved.At, Boot: saved.Boot, Since: saved.Since, Off: saved.Off, Floor: saved.Floor}
}
