package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/store"
)

const (
	// idle is the longest time between two looks for due schedules: hints come sooner.
	idle = 5 * time.Second
	// afterFailure is the time until the next look when the store failed, or fires nothing
	// because it is quarantined or doubts the time.
	afterFailure = time.Second
	// lockedPause is the time until the next look when others have all that is due.
	lockedPause = 50 * time.Millisecond
	// leastDecided bounds from below how many schedules one look asks for.
	leastDecided = 16
	// callTimeout bounds one call of the store.
	callTimeout = 30 * time.Second
)

// Config is what a Scheduler works with. All but Log are required.
type Config struct {
	Store      Store
	Connectors *connector.Registry
	Zones      *recur.Zones
	// Namespace is the installation's part of every effect key (store.Meta).
	Namespace string
	NewID     func() job.ID
	// Log gets a line when a schedule pauses itself, and when the store fails; nil: none.
	Log *slog.Logger
}

// Store is what a Scheduler needs of store.Store.
type Store interface {
	store.DueSchedules
	store.Notifier
	Schedule(ctx context.Context, ref store.Ref) (store.Schedule, error)
	Firings(ctx context.Context, q store.FiringQuery) (store.FiringPage, error)
}

// Scheduler fires the schedules of a store. Any number of them may work on one database.
type Scheduler struct {
	cfg   Config
	plans plans
	left  left
	// limit is how many schedules the next look asks for.
	limit atomic.Int64
}

// New makes a Scheduler. It does nothing by itself: see Run.
func New(c Config) *Scheduler {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Scheduler{cfg: c, plans: plans{zones: c.Zones, kept: make(map[job.ID]keptPlan)}}
	s.left.until, s.left.zones = make(map[job.ID]time.Time), make(map[string]bool)
	s.left.connectors = make(map[string]bool)
	s.limit.Store(store.MaxBatch)
	return s
}

// Zones are those that schedules are evaluated with.
func (s *Scheduler) Zones() *recur.Zones { return s.cfg.Zones }

// Plan reads a stored schedule. It fails for one whose zone is not known any more.
func (s *Scheduler) Plan(sched store.Schedule) (*Plan, error) { return s.plans.of(sched) }

// Run fires what is due until ctx ends.
func (s *Scheduler) Run(ctx context.Context) {
	hints, stop := s.cfg.Store.Watch(store.WatchSchedules)
	defer stop()
	failing := false
	for ctx.Err() == nil {
		_, decided, more, err := s.once(ctx)
		wait := afterFailure
		if err == nil {
			if more {
				continue
			}
			wait, err = s.Next(ctx, idle)
		}
		if decided == 0 {
			wait = max(wait, lockedPause) // what is due is another server's at the moment
		}
		s.logFailing(ctx, err, &failing)
		select {
		case <-ctx.Done():
		case <-hints:
		case <-time.After(wait):
		}
	}
}

// Next is how long nothing will be due for this server, at most limit. It fails as
// store.DueSchedules.NextFiring does.
func (s *Scheduler) Next(ctx context.Context, limit time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	wait, err := s.cfg.Store.NextFiring(ctx, limit, s.left.ids(time.Now()))
	if err != nil {
		return afterFailure, err
	}
	return wait, nil
}

// logFailing logs when firing begins to fail, and when it goes on.
func (s *Scheduler) logFailing(ctx context.Context, err error, failing *bool) {
	switch was := *failing; {
	case ctx.Err() != nil:
	case err == nil:
		if *failing = false; was {
			s.cfg.Log.InfoContext(ctx, "schedules fire again")
		}
	case errors.Is(err, store.ErrQuarantined), errors.Is(err, store.ErrClockSuspect): // the store says so itself
	default:
		if *failing = true; !was {
			s.cfg.Log.WarnContext(ctx, "schedules cannot fire; trying again", "error", err)
		}
	}
}

// Once fires due schedules, at most store.MaxBatch. more says that others are due. It fails
// as store.DueSchedules.Fire does.
func (s *Scheduler) Once(ctx context.Context) (fired int, more bool, err error) {
	fired, _, more, err = s.once(ctx)
	return fired, more, err
}

// once also returns how many schedules were decided. After an outage each may have so much to
// write that only few fit into one transaction: the next look asks for no more than that, so
// that nothing is decided and locked in vain.
func (s *Scheduler) once(ctx context.Context) (fired, decided int, more bool, err error) {
	limit := int(s.limit.Load())
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	left, waits := 0, make(map[job.ID]bool)
	out, more, err := s.cfg.Store.Fire(ctx, store.FireParams{
		Limit: limit, Except: s.left.ids(time.Now()), Decide: func(due store.DueSchedule) store.FireDecision {
			d := s.decideDue(due)
			if d.Leave {
				left++
			}
			waits[due.Schedule.ID] = unresolved(d.Schedule.Buffered) && !unresolved(due.Schedule.Buffered)
			return d
		},
	})
	if err == nil {
		s.limit.Store(int64(nextLimit(limit, len(out)+left, more)))
	}
	for _, f := range out {
		s.logFired(ctx, f)
		if b := f.Schedule.Buffered; f.Err == nil && b != nil && waits[f.Schedule.ID] {
			s.cfg.Log.WarnContext(ctx, "a schedule waits until the outcome of a job is known",
				"schedule_id", f.Schedule.ID.String(), "project_id", f.Schedule.Project, "job_id", b.Blocking.String())
		}
		for _, one := range f.Firings {
			if one.Firing.Outcome == store.FiringFired && !one.Repeat {
				fired++
			}
		}
	}
	if fired > 0 {
		failpoint.Hit(failpoint.Fired)
	}
	return fired, len(out) + left, more, err
}

// unresolved reports whether a buffered firing waits until a job's outcome is known.
func unresolved(buffered *store.Firing) bool {
	return buffered != nil && buffered.Reason == firing.ReasonUnresolved
}

// nextLimit is how many schedules to ask for after a look that asked for limit and got some
// decided.
func nextLimit(limit, decided int, more bool) int {
	if more && decided < limit {
		return max(leastDecided, 2*decided)
	}
	return min(2*limit, store.MaxBatch)
}

// settleRounds bounds the decisions of one Settle. Each passes thousands of times.
const settleRounds = 16

// Settle decides about the firings of one schedule that may have taken place in a state of the
// database that was lost, before anything else is done with it. It fails as
// store.DueSchedules.Fire does, with store.ErrUndecided if further ones are left, also to other
// servers, or with what a decision was refused for.
func (s *Scheduler) Settle(ctx context.Context, ref store.Ref) error {
	for range settleRounds {
		out, _, err := s.cfg.Store.Fire(ctx, store.FireParams{Only: ref, Limit: 1, Decide: s.decide})
		if err != nil {
			return err
		}
		if len(out) == 0 {
			return store.ErrUndecided // left to a server that has its zone
		}
		for _, f := range out {
			s.logFired(ctx, f)
			if f.Err != nil {
				return f.Err
			}
			if store.Settled(f.Schedule.State, f.Schedule.HeldUntil, f.Schedule.State) == nil {
				return nil
			}
		}
	}
	return store.ErrUndecided
}

// decideDue is decide for a schedule that is due. One whose connector this server does not have
// is left to others; only what a restore left open is settled without it.
func (s *Scheduler) decideDue(due store.DueSchedule) store.FireDecision {
	if conn := due.Connection; !conn.ID.IsZero() && conn.Deleted.IsZero() && due.Schedule.HeldUntil.IsZero() {
		if _, known := s.cfg.Connectors.Get(conn.Connector); !known {
			return s.leaveConnector(due)
		}
	}
	return s.decide(due)
}

// decide is what a schedule does now. One whose zone this server lacks is left to others. One
// that cannot be read for another reason pauses: its times are not known, and other schedules
// go on.
func (s *Scheduler) decide(due store.DueSchedule) store.FireDecision {
	plan, err := s.plans.of(due.Schedule)
	if lacks, ok := errors.AsType[*NoZoneError](err); ok {
		return s.leave(due, lacks)
	}
	if err != nil {
		return firing.Halt(due, fmt.Sprintf("The schedule cannot be evaluated: %v. ResumeSchedule goes on from now.", err))
	}
	d := firing.Decide(due, s.firingPlan(plan, due))
	if len(d.Firings) > 0 {
		failpoint.Hit(failpoint.Decided)
	}
	return d
}

// logFired logs what an operator or a user has to do something about. The schedule was ACTIVE
// before: no other one is due, or to be settled.
func (s *Scheduler) logFired(ctx context.Context, f store.Fired) {
	sched := f.Schedule
	switch {
	case f.Err != nil:
		s.cfg.Log.WarnContext(ctx, "a schedule's decision was not written; it is made again within a minute",
			"schedule_id", sched.ID.String(), "project_id", sched.Project, "error", f.Err)
	case sched.State == store.SchedulePaused:
		s.cfg.Log.WarnContext(ctx, "a schedule paused itself",
			"schedule_id", sched.ID.String(), "project_id", sched.Project, "cause", int(sched.Cause()))
	}
}
