package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a call that makes jobs counts them against the project's quotas as a
// submit does, and a repeat is answered from the ledger before anything is counted.

// TriggerSchedule implements the RPC.
func (s *scheduleService) TriggerSchedule(ctx context.Context, req *schedulesv1.TriggerScheduleRequest) (*schedulesv1.TriggerScheduleResponse, error) {
	of, err := s.readSchedule(ctx, req)
	if err != nil {
		return nil, err
	}
	known, err := s.firingNamed(ctx, of.Project, of.ID, firing.TriggerName(req.GetTriggerKey()))
	if err != nil {
		return nil, err
	}
	if known != nil {
		return &schedulesv1.TriggerScheduleResponse{Firing: firingToWire(*known)}, nil
	}
	in := s.newValidator(ctx)
	defer in.settle()
	if err := in.count(ctx, sizeOf(1, contentSize(of))); err != nil {
		return nil, err
	}
	f, created, err := s.cfg.Scheduler.Trigger(ctx, store.Ref{Project: of.Project, ID: of.ID}, req.GetTriggerKey(), req.GetAllowOverlap())
	if created || errors.Is(err, store.ErrUnconfirmed) {
		in.kept = in.taken
	}
	if err != nil {
		return nil, s.firingFault(of, err)
	}
	if created {
		s.logScheduleChange(ctx, "a schedule was triggered", of)
	}
	return &schedulesv1.TriggerScheduleResponse{Firing: firingToWire(f), Created: created}, nil
}

// contentSize is about what the content of a job that a client asks for adds to the project's
// bytes. That of a queue counts already.
func contentSize(of store.Schedule) int {
	if of.Queued {
		return 0
	}
	return len(of.Template)
}

// firingFault converts the errors of Trigger and Backfill.
func (s *scheduleService) firingFault(of store.Schedule, err error) error {
	id := of.ID.String()
	var blocked *firing.BlockedError
	switch {
	case errors.As(err, &blocked):
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_FIRING_BLOCKED,
			fmt.Sprintf("job %s of schedule %s has not ended; nothing was stored", blocked.Job, id), "schedule_id", id, "job_id", blocked.Job.String())
	case errors.Is(err, firing.ErrDoubtful):
		f := scheduleState(of, err.Error())
		f.metadata["pause_cause"] = causeName(store.PausedByRestore) // also of one that has ended
		return f
	case errors.Is(err, schedule.ErrRefused):
		return scheduleState(of, fmt.Sprintf("firings whose time has come cannot be decided: %d decisions in a row were refused. "+
			"PauseSchedule passes those firings, then repeat the call; the server's log has the error", of.RefusedDecisions))
	case errors.Is(err, schedule.ErrUndecided), errors.Is(err, store.ErrUndecided):
		f := refuse(fireoncev1.ErrorReason_ERROR_REASON_FIRING_BLOCKED,
			fmt.Sprintf("schedule %s is about to decide about firings whose time has come; repeat the call", id), "schedule_id", id)
		f.retry = time.Second
		return f
	case errors.As(err, new(*schedule.NoZoneError)):
		f := refuse(fireoncev1.ErrorReason_ERROR_REASON_FIRING_BLOCKED,
			fmt.Sprintf("schedule %s: %v; another server may have it: repeat the call", id, err), "schedule_id", id)
		f.retry = time.Second
		return f
	case errors.Is(err, firing.ErrNoContent):
		return scheduleState(of, err.Error())
	case errors.Is(err, firing.ErrEnded):
		return scheduleState(of, "max_firings is reached")
	case errors.Is(err, schedule.ErrDeleted):
		of.State = store.ScheduleDeleted
		return scheduleState(of, "the schedule was deleted")
	case errors.Is(err, schedule.ErrRange):
		return backfillRange("end_time", "the range has more firings than can be searched for; take a shorter one")
	case errors.Is(err, schedule.ErrNoConnection), errors.As(err, new(*schedule.NoConnectorError)):
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_DISABLED,
			fmt.Sprintf("connection %s: %v", of.Connection, err), "connection_id", of.Connection.String())
	case errors.Is(err, schedule.ErrTooLarge):
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_TOO_LARGE, err.Error(), "limit", strconv.Itoa(job.MaxPayload))
	case errors.Is(err, store.ErrStale):
		return scheduleChanged(of)
	case errors.As(err, new(*connector.InputError)), errors.As(err, new(*schedule.UnreadableError)), errors.Is(err, recur.ErrTooCostly):
		return evaluated(of, err)
	default:
		return notFoundAs(fmt.Errorf("fire schedule %s: %w", id, err), scheduleNotFound(store.Ref{ID: of.ID}))
	}
}
