package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1/schedulesv1connect"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a stored schedule whose times can no longer be evaluated is shown without
// them, and with everything else.

// scheduleService answers fireonce.schedules.v1.ScheduleService.
type scheduleService struct {
	schedulesv1connect.UnimplementedScheduleServiceHandler
	*Server
}

// shownFirings is how many firings, past ones and ones to come, an answer has with its schedule.
const shownFirings = 10

// storeNow returns the time by which schedules fire. All handlers of schedules use it: a time that has
// passed by this server's own clock may not have fired.
func (s *Server) storeNow(ctx context.Context) (time.Time, error) {
	meta, err := s.store.Meta(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask for the time: %w", err)
	}
	return meta.Now, nil
}

// fewest is n, or a limit that is set and smaller.
func fewest(n int, limit int64) int {
	if limit > 0 && limit < int64(n) {
		return int(limit)
	}
	return n
}

// GetSchedule implements the RPC.
func (s *scheduleService) GetSchedule(ctx context.Context, req *schedulesv1.GetScheduleRequest) (*schedulesv1.GetScheduleResponse, error) {
	found, err := s.readSchedule(ctx, req)
	if err != nil {
		return nil, err
	}
	out, next, err := s.withNext(ctx, found)
	if err != nil {
		return nil, err
	}
	if req.GetOmitPayload() && out.GetJobTemplate() != nil {
		out.JobTemplate.Content = nil
	}
	last, err := s.store.Firings(ctx, store.FiringQuery{Project: found.Project, Schedule: found.ID, Limit: shownFirings})
	if err != nil {
		return nil, notFoundAs(fmt.Errorf("read the last firings: %w", err), scheduleNotFound(store.Ref{ID: found.ID}))
	}
	return &schedulesv1.GetScheduleResponse{Schedule: out, NextFirings: next, RecentFirings: convertAll(last.Firings, firingToWire)}, nil
}

// readSchedule reads the schedule that a request is about.
func (s *scheduleService) readSchedule(ctx context.Context, req scheduleNamed) (store.Schedule, error) {
	return s.scheduleNamed(ctx, subjectSchedule, req.GetScheduleId(), req.GetIdempotencyKey())
}

// scheduleNamed reads the schedule that has an id or a key, which fields of a request name.
func (s *scheduleService) scheduleNamed(ctx context.Context, fields names, id, key string) (store.Schedule, error) {
	ref, err := fields.ref(ctx, id, key)
	if err != nil {
		return store.Schedule{}, err
	}
	found, err := s.store.Schedule(ctx, ref)
	if err != nil {
		return found, notFoundAs(fmt.Errorf("read the schedule: %w", err), fields.noSchedule(ref))
	}
	return found, nil
}

// withNext converts a schedule, with its next firings.
func (s *scheduleService) withNext(ctx context.Context, of store.Schedule) (*schedulesv1.Schedule, []*schedulesv1.PlannedFiring, error) {
	now, err := s.storeNow(ctx)
	if err != nil {
		return nil, nil, err
	}
	out, err := s.scheduleAt(ctx, of, now)
	if err != nil {
		return nil, nil, err
	}
	next, err := s.cfg.Scheduler.Upcoming(ctx, of, now, shownFirings)
	if err != nil {
		s.unreadable(ctx, of, err)
	}
	if err := s.assign(ctx, of, next); err != nil {
		return nil, nil, err
	}
	return out, convertAll(next, plannedToWire), nil
}

// assign returns which items of a schedule's queue its next firings take.
func (s *scheduleService) assign(ctx context.Context, of store.Schedule, next []schedule.Planned) error {
	if !of.Queued || len(next) == 0 {
		return nil
	}
	q := store.ItemQuery{Project: of.Project, Schedule: of.ID, States: []store.ItemState{store.ItemWaiting}, Limit: min(len(next)+1, store.MaxBatch)}
	var items []job.ID
	for len(items) <= len(next) { // a buffered firing takes one, too
		page, err := s.store.Items(ctx, q)
		if err != nil {
			return notFoundAs(fmt.Errorf("read the queue: %w", err), scheduleNotFound(store.Ref{ID: of.ID}))
		}
		for _, i := range page.Items {
			items = append(items, i.ID)
		}
		if q.After = page.Next; q.After.IsZero() {
			break
		}
	}
	if err := s.cfg.Scheduler.AssignItems(of, next, items); err != nil {
		s.unreadable(ctx, of, err)
	}
	return nil
}

// scheduleWire converts a schedule as it is now.
func (s *scheduleService) scheduleWire(ctx context.Context, of store.Schedule) (*schedulesv1.Schedule, error) {
	now, err := s.storeNow(ctx)
	if err != nil {
		return nil, err
	}
	return s.scheduleAt(ctx, of, now)
}

// scheduleAt converts a schedule as it is at a time.
func (s *scheduleService) scheduleAt(ctx context.Context, of store.Schedule, now time.Time) (*schedulesv1.Schedule, error) {
	out, err := scheduleToWire(of)
	if err != nil {
		return nil, fmt.Errorf("read the stored schedule %s: %w", of.ID, err)
	}
	if err := s.nameConnections(ctx, of, out); err != nil {
		return nil, err
	}
	if of.State == store.ScheduleActive {
		out.NextFireTime = timeToWire(s.nextFire(ctx, of, now))
		if !of.Next.IsZero() && now.Sub(of.Next) > firing.Late {
			out.OverdueTime = timeToWire(of.Next)
		}
	}
	return out, nil
}

// nameConnections adds the keys of the connections of a schedule, of which it has the ids.
func (s *scheduleService) nameConnections(ctx context.Context, of store.Schedule, out *schedulesv1.Schedule) error {
	ids := []job.ID{of.Connection}
	callback := out.GetJobTemplate().GetCallback()
	if callback != "" {
		to, err := job.ParseID(callback)
		if err != nil {
			return fmt.Errorf("read the stored callback of schedule %s: %w", of.ID, err)
		}
		ids = append(ids, to)
	}
	keys, err := s.keys.keys(ctx, of.Project, ids, nil)
	if err != nil {
		return err
	}
	if out.ConnectionKey = keys[of.Connection]; callback != "" {
		out.JobTemplate.Callback = keys[ids[1]]
	}
	return nil
}

// nextFire is when the next firing of an ACTIVE schedule that is not skipped is due; zero: not
// known. Mostly that is when the schedule is decided about next.
func (s *scheduleService) nextFire(ctx context.Context, of store.Schedule, now time.Time) time.Time {
	if of.Buffered == nil && len(of.Skips) == 0 && of.Next.After(now) {
		return of.Next
	}
	next, err := s.cfg.Scheduler.Upcoming(ctx, of, now, len(of.Skips)+1)
	if err != nil {
		s.unreadable(ctx, of, err)
	}
	for _, p := range next {
		if !p.Skipped {
			return p.Fire
		}
	}
	return time.Time{}
}

// unreadable logs that a schedule's times cannot be evaluated. An answer leaves them out, also
// those that would take too many steps, or that no caller waits for any more: these are no news.
func (s *scheduleService) unreadable(ctx context.Context, of store.Schedule, err error) {
	if errors.Is(err, recur.ErrTooCostly) || ctx.Err() != nil {
		return
	}
	s.log.LogAttrs(ctx, slog.LevelWarn, "a schedule cannot be evaluated", slog.String("schedule", of.Key), slog.String("schedule_id", of.ID.String()),
		slog.String("project", of.Project), slog.String("error", err.Error()))
}
