package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// searchedFirings is how many firings to come SkipFiring looks through.
const searchedFirings = 1000

// SkipFiring implements the RPC.
func (s *scheduleService) SkipFiring(ctx context.Context, req *schedulesv1.SkipFiringRequest) (*schedulesv1.SkipFiringResponse, error) {
	name, undo := req.GetName(), req.GetUndo()
	after, err := s.change(ctx, req, scheduleChange{
		from: []store.ScheduleState{store.ScheduleActive, store.SchedulePaused}, what: "a firing was skipped, or put back",
		inPlace: func(was store.Schedule) (bool, error) {
			return !undo && slices.Contains(was.Skips, name), nil
		},
		change: func(ctx context.Context, c *store.ScheduleChange) error {
			to := &c.Schedule
			if at := slices.Index(to.Skips, name); at >= 0 {
				to.Skips = slices.Delete(to.Skips, at, at+1)
				return nil
			}
			now, err := s.storeNow(ctx)
			if err != nil {
				return err
			}
			if err := s.mayComeYet(ctx, *to, name, now); err != nil {
				return err
			}
			if undo {
				return errInPlace
			}
			return s.skip(ctx, to, name, now)
		},
	})
	if err != nil && !errors.Is(err, errInPlace) {
		return nil, err
	}
	out, next, err := s.withNext(ctx, after)
	return &schedulesv1.SkipFiringResponse{Schedule: out, NextFirings: next}, err
}

// errInPlace ends a change that turns out to be made already.
var errInPlace = errors.New("nothing to change")

// mayComeYet refuses a name that no firing to come has.
func (s *scheduleService) mayComeYet(ctx context.Context, of store.Schedule, name string, now time.Time) error {
	next, err := s.cfg.Scheduler.Upcoming(ctx, of, now, searchedFirings)
	if err != nil {
		return evaluated(of, err)
	}
	if slices.ContainsFunc(next, func(p schedule.Planned) bool { return p.Name == name }) {
		return nil
	}
	decided := of.Buffered != nil && of.Buffered.Name == name
	if !decided {
		known, err := s.firingNamed(ctx, of.Project, of.ID, name)
		if err != nil {
			return err
		}
		plan, err := s.cfg.Scheduler.Plan(of)
		if err != nil {
			return evaluated(of, err)
		}
		at := now
		if len(next) > 0 && next[0].Fire.Before(at) {
			at = next[0].Fire.Add(-1) // what follows it is not decided, although its time has come
		}
		passed, err := schedule.Passed(ctx, plan.Times, name, at)
		if err != nil {
			return evaluated(of, err)
		}
		decided = known != nil || passed
	}
	if decided {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_FIRING_DECIDED,
			fmt.Sprintf("the time of firing %s has passed", name), "schedule_id", of.ID.String(), "name", name)
	}
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_FIRING_NOT_FOUND,
		fmt.Sprintf("the next %d firings of schedule %s have no %s", searchedFirings, of.ID, name), "schedule_id", of.ID.String(), "name", name)
}

// skip takes a firing out. Of a paused schedule's skips those go whose time has passed.
func (s *scheduleService) skip(ctx context.Context, to *store.Schedule, name string, now time.Time) error {
	left, err := s.skipsLeft(ctx, *to, now)
	if err != nil {
		return evaluated(*to, err)
	}
	if n := len(left); n >= store.MaxSkips {
		f := overQuota(quotaSkips, int64(n), store.MaxSkips)
		f.metadata["schedule_id"] = to.ID.String()
		return f
	}
	to.Skips = append(left, name)
	return nil
}

// skipsLeft returns the skips of a schedule whose times are after an instant.
func (s *scheduleService) skipsLeft(ctx context.Context, of store.Schedule, passed time.Time) ([]string, error) {
	if len(of.Skips) == 0 || of.State == store.ScheduleActive {
		return of.Skips, nil
	}
	plan, err := s.cfg.Scheduler.Plan(of)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, name := range of.Skips {
		gone, err := schedule.Passed(ctx, plan.Times, name, passed)
		if err != nil {
			return nil, err
		}
		if !gone {
			left = append(left, name)
		}
	}
	return left, nil
}
