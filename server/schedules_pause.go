package server

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// PauseSchedule implements the RPC.
func (s *scheduleService) PauseSchedule(ctx context.Context, req *schedulesv1.PauseScheduleRequest) (*schedulesv1.PauseScheduleResponse, error) {
	out, err := s.changeSchedule(ctx, req, s.pausing(req.GetEtag(), req.GetNote()))
	return &schedulesv1.PauseScheduleResponse{Schedule: out}, err
}

// pausing is the change that pauses a schedule.
func (s *scheduleService) pausing(etag, note string) scheduleChange {
	return scheduleChange{
		etag: etag, from: []store.ScheduleState{store.ScheduleActive, store.SchedulePaused}, what: "a schedule was paused",
		inPlace: func(was store.Schedule) (bool, error) {
			return was.State == store.SchedulePaused && (note == "" || note == was.Note), nil
		},
		change: func(ctx context.Context, c *store.ScheduleChange) error {
			to := &c.Schedule
			to.Note = note
			if to.State == store.ScheduleActive {
				const reason = "The schedule was paused."
				missBuffered(c, reason)
				if err := s.passDue(ctx, c, reason); err != nil {
					return err
				}
				to.State, to.PauseCause, to.Next = store.SchedulePaused, store.PausedByPerson, time.Time{}
			}
			return nil
		},
	}
}

// ResumeSchedule implements the RPC.
func (s *scheduleService) ResumeSchedule(ctx context.Context, req *schedulesv1.ResumeScheduleRequest) (*schedulesv1.ResumeScheduleResponse, error) {
	out, err := s.changeSchedule(ctx, req, s.resuming(req.GetEtag(), req.GetNote()))
	return &schedulesv1.ResumeScheduleResponse{Schedule: out}, err
}

// resuming is the change that makes a schedule fire again.
func (s *scheduleService) resuming(etag, note string) scheduleChange {
	return scheduleChange{
		etag: etag, from: []store.ScheduleState{store.SchedulePaused}, settles: true, what: "a schedule was resumed",
		inPlace: func(was store.Schedule) (bool, error) {
			// The word of a person who has not seen that it pauses after a restore does not count.
			return was.State == store.ScheduleActive || was.State == store.ScheduleEnded && !was.Doubtful(), nil
		},
		change: func(ctx context.Context, c *store.ScheduleChange) error {
			to := &c.Schedule
			plan, err := s.cfg.Scheduler.Plan(*to)
			if err != nil {
				return evaluated(*to, err)
			}
			from, err := s.passed(ctx, *to)
			if err != nil {
				return err
			}
			left, err := s.skipsLeft(ctx, *to, from)
			if err != nil {
				return evaluated(*to, err)
			}
			to.State, to.PauseCause, to.Note, to.Skips = store.ScheduleActive, 0, note, left
			to.HeldUntil = time.Time{} // begin passes the lost time
			return s.begin(ctx, c, plan.Times, plan.Spec.GetMaxFirings(), from)
		},
	}
}

// cheaper is what a client can do about times that are too costly.
const cheaper = "Ask for fewer firings, or for earlier ones; or give the spec fewer exclusions and sources, and rules without COUNT or with a later start"

// evaluated is the error for a change that needs the times of a schedule that cannot be
// evaluated.
func evaluated(of store.Schedule, err error) error {
	if costly, ok := errors.AsType[*recur.CostError](err); ok {
		return scheduleState(of, costly.Error()+". "+cheaper)
	}
	if bad := new(schedule.UnreadableError); errors.As(err, &bad) {
		return scheduleState(of, "it cannot be evaluated: "+bad.Error()+". UpdateSchedule with another spec")
	}
	return err
}
