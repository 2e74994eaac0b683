package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: firings change the version of a schedule, too. After a restore, the firings
// that may have taken place in the state that was lost are decided before anything is changed.

// scheduleChange is a change of one schedule that a client asks for.
type scheduleChange struct {
	etag string
	// inPlace reports whether a schedule has the change already.
	inPlace func(store.Schedule) (bool, error)
	// from are the states that it can be changed in.
	from []store.ScheduleState
	// settles: so can a queue that a person has to look at after a restore, in any state.
	settles bool
	// dry: it is decided, and nothing is written.
	dry bool
	// deletes: it is carried out also where no server can decide about the schedule.
	deletes bool
	// change makes the change in a copy, which is written.
	change func(ctx context.Context, c *store.ScheduleChange) error
	// what is the line in the log.
	what string
}

// living are the states that are not for good.
var living = []store.ScheduleState{store.ScheduleActive, store.SchedulePaused, store.ScheduleEnded}

// changeSchedule makes a change of the schedule that a request is about, and converts the result.
func (s *scheduleService) changeSchedule(ctx context.Context, of scheduleNamed, r scheduleChange) (*schedulesv1.Schedule, error) {
	after, err := s.change(ctx, of, r)
	if err != nil {
		return nil, err
	}
	return s.scheduleWire(ctx, after)
}

// change makes a change of the schedule that a request is about.
func (s *scheduleService) change(ctx context.Context, of scheduleNamed, r scheduleChange) (store.Schedule, error) {
	ref, err := subjectSchedule.ref(ctx, of.GetScheduleId(), of.GetIdempotencyKey())
	if err != nil {
		return store.Schedule{}, err
	}
	return s.changeAt(ctx, ref, r)
}

func (s *scheduleService) changeAt(ctx context.Context, ref store.Ref, r scheduleChange) (store.Schedule, error) {
	return decideAgain(func() (store.Schedule, error) {
		was, err := s.store.Schedule(ctx, ref)
		if err != nil {
			return was, notFoundAs(fmt.Errorf("read the schedule: %w", err), scheduleNotFound(ref))
		}
		if done, err := r.inPlace(was); err != nil || done {
			return was, err
		}
		if err := checkEtag(r.etag, "schedule", was.ID, was.Version); err != nil {
			return was, err
		}
		if store.Settled(was.State, was.HeldUntil, was.State) != nil && !r.dry {
			switch err := s.cfg.Scheduler.Settle(ctx, store.Ref{Project: was.Project, ID: was.ID}); {
			case err == nil:
				return was, store.ErrStale
			case !r.deletes:
				return was, s.firingFault(was, err)
			}
		}
		if !slices.Contains(r.from, was.State) && !(r.settles && was.Doubtful()) {
			return was, scheduleState(was, "the schedule is "+stateName(was))
		}
		c := store.ScheduleChange{Schedule: was.Clone(), Actor: callerOf(ctx).actor}
		if err := r.change(ctx, &c); err != nil {
			return was, err
		}
		after, err := s.store.ChangeSchedule(ctx, c)
		switch {
		case errors.Is(err, store.ErrStale), errors.Is(err, store.ErrUndecided):
			return was, store.ErrStale
		case err != nil:
			return was, notFoundAs(fmt.Errorf("change the schedule: %w", err), scheduleNotFound(ref))
		}
		s.logScheduleChange(ctx, r.what, after)
		return after, nil
	}, scheduleChanged)
}

func scheduleChanged(s store.Schedule) error { return etagMismatch("schedule", s.ID, s.Version) }

// scheduleState is the error for a change that a schedule's state does not allow.
func scheduleState(s store.Schedule, why string) *fault {
	f := refuse(fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_STATE,
		fmt.Sprintf("not possible with schedule %s: %s", s.ID, why), "schedule_id", s.ID.String(), "state", stateName(s))
	if cause := s.Cause(); cause != 0 {
		f.metadata["pause_cause"] = causeName(cause)
	}
	return f
}

// causeName is the contract's name of why a schedule is paused, without its prefix.
func causeName(c store.PauseCause) string {
	return schedulesv1.SchedulePauseCause(c).String()[len("SCHEDULE_PAUSE_CAUSE_"):]
}

// stateName is the contract's name of a schedule's state, without its prefix.
func stateName(s store.Schedule) string {
	return schedulesv1.ScheduleState(s.State).String()[len("SCHEDULE_STATE_"):]
}

// missBuffered takes the firing that waits out of a schedule: it makes no job.
func missBuffered(c *store.ScheduleChange, reason string) {
	if c.Schedule.Buffered == nil {
		return
	}
	f := *c.Schedule.Buffered
	f.Outcome, f.Reason = store.FiringMissed, reason
	c.Schedule.Buffered = nil
	c.Schedule.Counts.Missed++
	c.Firings = append(c.Firings, f)
}

// passDue takes the firings out of an ACTIVE schedule whose times have come and that no server
// has decided about: they make no job. That the next decision is later does not mean that there are
// none: those of a catch-up wait their turn. Where the schedule cannot be evaluated, they stay
// unknown.
func (s *scheduleService) passDue(ctx context.Context, c *store.ScheduleChange, reason string) error {
	if c.Schedule.State != store.ScheduleActive {
		return nil
	}
	now, err := s.storeNow(ctx)
	if err != nil {
		return err
	}
	plan, err := s.cfg.Scheduler.Plan(c.Schedule)
	if err != nil {
		s.unreadable(ctx, c.Schedule, err)
		return nil
	}
	passed, firings, err := firing.Pass(ctx, c.Schedule, plan.Times, now, reason)
	if err != nil {
		s.unreadable(ctx, c.Schedule, err)
		return nil
	}
	c.Schedule = passed
	c.Firings = append(c.Firings, firings...)
	return nil
}

// begin puts a schedule where it fires after an instant, which passed returned. What waits in the
// buffer stays there, unless no job may be made any more.
func (s *scheduleService) begin(ctx context.Context, c *store.ScheduleChange, times *recur.Schedule, maxFirings int64, from time.Time) error {
	to := &c.Schedule
	cursor, next, left, err := schedule.Begin(ctx, times, maxFirings, to.Run, from)
	if err != nil {
		return fmt.Errorf("begin: %w", evaluated(*to, err))
	}
	to.Cursor, to.Next = cursor, time.Time{}
	if maxFirings > 0 && to.Run >= maxFirings {
		missBuffered(c, "max_firings is reached.")
	}
	switch {
	case to.State == store.SchedulePaused:
	case left:
		to.State, to.Next = store.ScheduleActive, next
	case to.Buffered == nil:
		to.State = store.ScheduleEnded
	}
	return nil
}

// passed is the time up to which a schedule's times are passed: now, or, where the store's clock
// was set back, the newest nominal time that made a job or may have made one in a state that was
// lost. Under another version of the spec that time has another name, and would make a second
// job. The change is written only if the schedule has not fired since it was read.
func (s *scheduleService) passed(ctx context.Context, of store.Schedule) (time.Time, error) {
	now, err := s.storeNow(ctx)
	if err != nil {
		return now, err
	}
	page, err := s.store.Firings(ctx, store.FiringQuery{
		Project: of.Project, Schedule: of.ID, Outcomes: []store.FiringOutcome{store.FiringFired}, Limit: newestFirings,
	})
	if err != nil {
		return now, fmt.Errorf("read the newest firings: %w", err)
	}
	for _, f := range page.Firings {
		if f.Nominal.After(now) {
			now = f.Nominal
		}
	}
	if b := of.Buffered; b != nil && b.Nominal.After(now) {
		now = b.Nominal
	}
	if of.HeldUntil.After(now) {
		now = of.HeldUntil
	}
	return now, nil
}

// newestFirings are the firings among which the newest nominal time is: one decision makes
// that many jobs at most.
const newestFirings = store.MaxFiringJobs
