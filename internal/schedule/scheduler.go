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
	"github.com/fireonce/fireonce/internal/metrics"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/store"
)

const (
	// idle is the longest time between two reads of due schedules; hints cause earlier reads.
	idle = 5 * time.Second
	// afterFailure is the time until the next read when the store failed, or fires no schedule
	// because it is quarantined or its clock is suspect.
	afterFailure = time.Second
	// lockedPause is the time until the next read when other servers have locked all due
	// schedules.
	lockedPause = 50 * time.Millisecond
	// leastDecided is the least number of schedules for which one read asks.
	leastDecided = 16
	// callTimeout bounds one call of the store.
	callTimeout = 30 * time.Second
)

// Config configures a Scheduler. All fields but Log and Metrics are required.
type Config struct {
	Store      Store
	Connectors *connector.Registry
	Zones      *recur.Zones
	// Namespace is the installation's part of every effect key (store.Meta).
	Namespace string
	NewID     func() job.ID
	// Log gets a line when a schedule pauses itself, and when the store fails; nil: none.
	Log *slog.Logger
	// Metrics counts firings; nil: they are not counted.
	Metrics *metrics.Metrics
}

// Store is the part of store.Store that a Scheduler needs.
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
	// limit is the number of schedules for which the next read asks.
	limit atomic.Int64
}

// New returns a Scheduler. Run starts it.
func New(c Config) *Scheduler {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Scheduler{cfg: c, plans: newPlans(c.Zones)}
	s.left.until, s.left.zones = make(map[job.ID]time.Time), make(map[string]bool)
	s.left.connectors = make(map[string]bool)
	s.limit.Store(store.MaxBatch)
	return s
}

// Zones returns the zones with which schedules are evaluated.
func (s *Scheduler) Zones() *recur.Zones { return s.cfg.Zones }

// Plan returns the plan of a stored schedule. It fails for one whose zone is no longer known.
func (s *Scheduler) Plan(sched store.Schedule) (*Plan, error) { return s.plans.of(sched) }

// Run fires due schedules until ctx ends.
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
			wait = max(wait, lockedPause) // other servers have locked the due schedules
		}
		s.logFailing(ctx, err, &failing)
		select {
		case <-ctx.Done():
		case <-hints:
		case <-time.After(wait):
		}
	}
}

// Next returns how long no schedule will be due for this server, at most limit. It fails as
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

// logFailing logs when firing begins to fail, and when it works again.
func (s *Scheduler) logFailing(ctx context.Context, err error, failing *bool) {
	switch was := *failing; {
	case ctx.Err() != nil:
	case err == nil:
		if *failing = false; was {
			s.cfg.Log.InfoContext(ctx, "schedules fire again")
		}
	case errors.Is(err, store.ErrQuarantined), errors.Is(err, store.ErrClockSuspect): // the store logs these itself
	default:
		if *failing = true; !was {
			s.cfg.Log.WarnContext(ctx, "schedules cannot fire; trying again", "error", err)
		}
	}
}

// Once fires due schedules, at most store.MaxBatch. more reports whether others are due. It
// fails as store.DueSchedules.Fire does.
func (s *Scheduler) Once(ctx context.Context) (fired int, more bool, err error) {
	fired, _, more, err = s.once(ctx)
	return fired, more, err
}

// once also returns how many schedules were decided. After an outage each may have so much to
// write that only a few fit into one transaction. The next read then asks for no more than that,
// so that no schedule is locked and decided for nothing.
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
	switch {
	case err == nil:
		s.limit.Store(int64(nextLimit(limit, len(out)+left, more)))
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		s.limit.Store(int64(max(leastDecided, limit/2))) // so many may be too many for one call
	}
	s.count(out)
	for _, f := range out {
		s.logFired(ctx, f)
		if b := f.Schedule.Buffered; f.Err == nil && b != nil && waits[f.Schedule.ID] {
			s.cfg.Log.WarnContext(ctx, "a schedule waits until the outcome of a job is known",
				"schedule", f.Schedule.Key, "schedule_id", f.Schedule.ID.String(), "project_id", f.Schedule.Project, "job_id", b.Blocking.String())
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

// nextLimit returns the number of schedules to ask for after a read that asked for limit of them
// and of which some were decided.
func nextLimit(limit, decided int, more bool) int {
	if more && decided < limit {
		return max(leastDecided, 2*decided)
	}
	return min(2*limit, store.MaxBatch)
}

// settleRounds bounds the decisions of one Settle. Each passes thousands of times.
const settleRounds = 16

// Settle decides about the firings of one schedule that may have taken place in a state of the
// database that was lost. Other changes of the schedule come after it. It fails as
// store.DueSchedules.Fire does, with store.ErrUndecided if firings are left, to a later call or to
// other servers, or with the reason for which a decision was refused.
func (s *Scheduler) Settle(ctx context.Context, ref store.Ref) error {
	for range settleRounds {
		out, _, err := s.cfg.Store.Fire(ctx, store.FireParams{Only: ref, Limit: 1, Decide: s.decide})
		if err != nil {
			return err
		}
		s.count(out)
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

// decideDue is decide for a schedule that is due. It leaves a schedule whose connector this
// server lacks to other servers. Only firings that a restore left open are settled without the
// connector.
func (s *Scheduler) decideDue(due store.DueSchedule) store.FireDecision {
	if conn := due.Connection; !conn.ID.IsZero() && conn.Deleted.IsZero() && due.Schedule.HeldUntil.IsZero() {
		if _, known := s.cfg.Connectors.Get(conn.Connector); !known {
			return s.leaveConnector(due)
		}
	}
	return s.decide(due)
}

// decide decides about a schedule. It leaves a schedule whose zone this server lacks to other
// servers. It pauses a schedule that cannot be read for another reason: its times are unknown,
// and it must not stop other schedules.
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

// count counts the firings of decisions.
func (s *Scheduler) count(out []store.Fired) {
	for _, f := range out {
		s.cfg.Metrics.Fired(f)
	}
}

// logFired logs results that need an action by an operator or a user. The schedule was ACTIVE
// before: only ACTIVE schedules are due or settled.
func (s *Scheduler) logFired(ctx context.Context, f store.Fired) {
	sched := f.Schedule
	switch {
	case f.Err != nil:
		level := slog.LevelWarn
		if sched.RefusedDecisions > 0 {
			level = slog.LevelError // again: it does not fire
		}
		s.cfg.Log.Log(ctx, level, "a schedule's decision was not written; it is made again within a minute",
			"schedule", sched.Key, "schedule_id", sched.ID.String(), "project_id", sched.Project, "refused_before", sched.RefusedDecisions, "error", f.Err)
	case sched.State == store.SchedulePaused:
		s.cfg.Log.WarnContext(ctx, "a schedule paused itself",
			"schedule", sched.Key, "schedule_id", sched.ID.String(), "project_id", sched.Project, "cause", int(sched.Cause()))
	}
}
