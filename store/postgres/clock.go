package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/hostclock"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file: the database's clock decides, and each server compares it with its own
// boot clock (see store.Timeline).
//   - A server to which the clock is suspect claims, sweeps and removes nothing: its own time
//     may be the wrong one, as that of a paused virtual machine. It continues to store and
//     read, by its own line.
//   - The clock is believed again when another server believes it, when this machine's clock,
//     which is another one, agrees with it, or when store.ClockOptions.SuspectFor has passed.
//     The table clock_doubts prevents a server that starts meanwhile from believing the clock
//     as it is (clock_doubts.go).
//   - A step changes what is stored once, whichever server writes it: its number is in meta,
//     which every writing transaction reads and so locks. The other servers then believe the
//     clock as it is.

const (
	// watchEvery is how often a server stores its belief, and reads that of the others.
	watchEvery = time.Second
	// mostApart is how far the database's clock may be from this machine's synchronized one
	// when a server starts.
	mostApart = 5 * time.Second
	// skewTolerance is how far the difference of two clocks may change without counting as a
	// change.
	skewTolerance = 250 * time.Millisecond
	// stepTimeout bounds the transaction of a step, which writes to every open job.
	stepTimeout = 30 * time.Minute
)

// stepSettings are the settings of a step's transaction. Its statements read whole tables,
// without the time limit of all others, under which a step of a large database would never be
// written.
const stepSettings = "SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on"

// clock is this server's belief in the database's clock.
type clock struct {
	belief *store.Clock

	mu sync.Mutex
	// steps is the number of the last step that is part of the belief.
	steps int64
	// suspectSince is the database's time at the first reading of a suspect clock; zero: the
	// clock is believed.
	suspectSince time.Time
	// skew is how far the believed database's clock was ahead of this machine's believed one;
	// apart counts the readings in a row that differed from it since.
	skew      time.Duration
	skewKnown bool
	apart     int
	doubts    doubts
}

// reading returns a reading of the database's clock that was requested when the boot clock
// showed begun.
func (s *Store) reading(server time.Time, begun time.Duration) store.ClockReading {
	switch {
	case s.opts.Clock.Read != nil:
		return s.opts.Clock.Read()
	case s.opts.Now != nil:
		now := s.opts.Now()
		return store.ClockReading{Wall: now.UnixMicro(), Boot: now.Sub(s.began)}
	default:
		return store.ClockReading{Wall: server.UnixMicro(), Boot: begun, Took: hostclock.Boot() - begun}
	}
}

// real reports that the clocks are those of machines, and not a test's.
func (s *Store) real() bool { return s.opts.Clock.Read == nil && s.opts.Now == nil }

// openClock begins to believe a clock, as far as the beliefs of other servers allow it.
func (s *Store) openClock(ctx context.Context, conn *pgx.Conn) error {
	begun := hostclock.Boot()
	row, err := pgdb.New(conn).GetClock(ctx)
	if err != nil {
		return fmt.Errorf("read what is believed of the time: %w", err)
	}
	line := store.Suspending()
	if s.opts.Now == nil {
		line = line.After(max(0, row.At.UnixMicro()))
	}
	// A clock that another server suspects, or that differs from this machine's synchronized
	// one, is not believed as it is.
	differs := s.real() && hostclock.Synchronized() && row.Now.Sub(hostclock.Wall()).Abs() > mostApart
	if row.Doubted || differs {
		line = line.Suspect()
	}
	s.clock.doubts = newDoubts(row.Doubted && !differs)
	s.clock.belief, s.clock.steps = store.NewClock(s.opts.Clock, line), row.ClockSteps
	m := s.moment(row.Now, begun, row.ClockSteps)
	if s.real() {
		s.proof(row.Now.Sub(hostclock.Wall()), m.Suspect.Why != "")
	}
	if s.opts.Now != nil || m.Suspect.Why != "" {
		return nil
	}
	// Immediately: this process may end before its first comparison.
	return pgdb.New(conn).BelieveClock(ctx, pgdb.BelieveClockParams{Now: time.UnixMicro(m.Now), Steps: row.ClockSteps})
}

// unknownStep is the number of the last step where it was not read.
const unknownStep = -1

// moment judges a reading of the database's clock. steps is the value in meta in the same
// transaction.
func (s *Store) moment(server time.Time, begun time.Duration, steps int64) store.ClockMoment {
	return s.judge(s.reading(server, begun), steps)
}

func (s *Store) judge(r store.ClockReading, steps int64) store.ClockMoment {
	c := &s.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	var m store.ClockMoment
	if steps > c.steps {
		c.steps = steps
		m = c.belief.Adopt(r, "another server has followed the clock")
	} else {
		m = c.belief.Read(r)
	}
	switch {
	case m.Suspect.Why == "":
		c.suspectSince = time.Time{}
	case c.suspectSince.IsZero() || m.Jumped:
		c.suspectSince = time.UnixMicro(r.Wall)
	}
	if !m.Late {
		s.lead.Store(m.Now - r.Wall)
	}
	return m
}

// present returns the time that counts as now when the server's clock shows at.
func (s *Store) present(at time.Time, begun time.Duration) time.Time {
	return time.UnixMicro(s.moment(at, begun, unknownStep).Now).UTC()
}

// due returns what counts as now in statements that are sent before a transaction knows its
// time: a time, or how far the believed time was ahead of the server's at the last reading.
func (s *Store) due() (at time.Time, lead time.Duration) {
	if !s.real() {
		at = s.present(time.Time{}, 0)
	}
	return at, time.Duration(s.lead.Load()) * time.Microsecond
}

// watchClock compares the beliefs of the servers; tests do so themselves. Other calls report a
// failure of the database too. A failure of a step is reported where it happens.
func (s *Store) watchClock() *background {
	if !s.real() {
		return nil
	}
	return repeat(watchEvery, func(ctx context.Context) { _ = s.compareClocks(ctx) })
}

// compareClocks stores this server's belief, or looks for what ends its suspicion.
func (s *Store) compareClocks(ctx context.Context) error {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	q := pgdb.New(s.pool)
	begun := hostclock.Boot()
	row, err := q.GetClock(ctx)
	if err != nil {
		return err
	}
	r := s.reading(row.Now, begun)
	m := s.judge(r, row.ClockSteps)
	if s.real() {
		skew := row.Now.Sub(hostclock.Wall())
		if r.Proof = s.proof(skew, m.Suspect.Why != ""); r.Proof != "" {
			m = s.judge(r, row.ClockSteps)
		}
	}
	switch {
	case m.Step != nil:
		err := s.stepClock(whole, *m.Step, row.ClockSteps)
		if err != nil {
			s.clock.belief.Failed(m, hostclock.Boot()-begun, err)
		}
		return err
	case m.Suspect.Why == "":
		return q.BelieveClock(ctx, pgdb.BelieveClockParams{Now: time.UnixMicro(m.Now), Steps: row.ClockSteps})
	case s.othersBelieve(row, r):
		return nil
	default:
		return s.doubt(ctx, q, row, m.Suspect, r)
	}
}

// proof returns why the database's clock is right: this machine's clock agrees with it. If
// that one is not synchronized, it must be known to be another clock: setting one clock
// changes every reading of it.
func (s *Store) proof(skew time.Duration, suspect bool) string {
	c := &s.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if !suspect {
		c.skew, c.skewKnown, c.apart = skew, true, 0
		return ""
	}
	const twice = 2
	if c.apart < twice {
		if c.skewKnown && (skew-c.skew).Abs() > skewTolerance {
			c.apart++
		} else {
			c.apart = 0
		}
	}
	switch {
	case skew.Abs() > store.ClockAgreement:
		return ""
	case hostclock.Synchronized():
		return "this machine's clock, which is synchronized, agrees"
	case c.apart == twice:
		return "this machine's clock agrees"
	default:
		return ""
	}
}

// othersBelieve adopts what another server has believed since the clock became suspect here:
// a time that only the clock as it is now has shown.
func (s *Store) othersBelieve(row pgdb.GetClockRow, r store.ClockReading) bool {
	c := &s.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.UnixMicro(r.Wall).Add(r.Took + skewTolerance)
	if row.Doubted || c.suspectSince.IsZero() || row.At.Before(c.suspectSince) || row.At.After(now) {
		return false
	}
	c.belief.Adopt(r, "another server believes the clock")
	c.suspectSince = time.Time{}
	return true
}

// errStepped: another server has written the step.
var errStepped = errors.New("another server was first")

// stepClock writes a step. Later writes wait for it, and it waits for those in progress.
func (s *Store) stepClock(ctx context.Context, step store.ClockStep, steps int64) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "LOCK TABLE meta IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, stepSettings); err != nil {
			return err
		}
		q := pgdb.New(tx)
		n, err := q.BeginStep(ctx, pgdb.BeginStepParams{By: step.By, Steps: steps})
		if err == nil && n == 0 {
			err = errStepped
		}
		if err != nil {
			return err
		}
		parts := append(stepParts(q, shareddb.New(tx), step), q.EndDoubts, sqlstore.With(q.EndStep, time.UnixMicro(step.To)))
		return sqlstore.InSequence(ctx, parts...)
	})
	if errors.Is(err, errStepped) {
		return nil
	}
	if err != nil { // also of an unanswered COMMIT: the next comparison reads the number
		return fmt.Errorf("follow the clock: %w", err)
	}
	s.stepped(step, steps+1)
	s.notify(store.WatchKinds{store.WatchWork: true})
	return nil
}

// stepped follows a step that is durable, unless a transaction has followed it already.
func (s *Store) stepped(step store.ClockStep, steps int64) {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	if s.clock.steps < steps {
		s.clock.steps, s.clock.suspectSince = steps, time.Time{}
		s.clock.belief.Follow(step)
	}
}

// stepParts returns the statements of a step.
func stepParts(q *pgdb.Queries, shared *shareddb.Queries, step store.ClockStep) []func(context.Context) error {
	over, by := time.UnixMicro(min(step.From, step.To)), time.Duration(step.By)*time.Microsecond
	parts := []func(context.Context) error{q.AllowStep}
	if step.By != 0 {
		parts = append(parts,
			sqlstore.With(q.StepAttempts, pgdb.StepAttemptsParams{By: by, Unknown: store.AgeUnknown, Over: over}),
			sqlstore.With(q.StepBuckets, step.By),
			sqlstore.With(q.StepRetention, pgdb.StepRetentionParams{By: by, Over: over}),
			sqlstore.With(q.StepRoll, pgdb.StepRollParams{By: by, Over: over}),
		)
	}
	if step.AgesUnknown {
		parts = append(parts, sqlstore.With(q.ForgetKeyAges, store.AgeUnknown))
	}
	return append(parts, sqlstore.StepParts(shared, step)...)
}
