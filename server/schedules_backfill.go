package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// BackfillSchedule implements the RPC.
func (s *scheduleService) BackfillSchedule(ctx context.Context, req *schedulesv1.BackfillScheduleRequest) (*schedulesv1.BackfillScheduleResponse, error) {
	of, err := s.readSchedule(ctx, req)
	if err != nil {
		return nil, err
	}
	from, until, err := s.backfillSpan(ctx, req)
	if err != nil {
		return nil, err
	}
	p, err := s.tokens.readPage(backfillPages, of.Project, withoutPage(req), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	if at := p.after.time(); at.After(from) {
		from = at
	}
	items, err := s.waitingItems(ctx, of)
	if err != nil {
		return nil, err
	}
	done, err := scan(ctx, s.store, of.Project, func() (schedule.Backfilled, error) { // it reads the ledger
		return s.backfill(ctx, of, from, until, items, req.GetDryRun())
	})
	if err != nil {
		return nil, s.firingFault(of, err)
	}
	taken := itemsTaken(p.after.id)
	switch {
	case !req.GetDryRun() && len(done.Firings) > 0:
		s.logScheduleChange(ctx, "a schedule was backfilled", of, "jobs", len(done.Firings))
	case req.GetDryRun() && of.Queued:
		done.Share(max(0, items-taken))
		taken += len(done.Firings)
	}
	out := &schedulesv1.BackfillScheduleResponse{
		Firings: convertAll(done.Firings, firingToWire), Present: int32(done.Present), WithoutContent: convertAll(done.Empty, firingToWire),
	}
	if !done.Next.IsZero() {
		out.NextPageToken = p.nextToken(idOfTaken(taken), done.Next.UnixMicro())
	}
	return out, nil
}

// backfill makes the jobs of one page of a backfill, and counts them against the project's
// quotas. items is how many wait in the schedule's queue: it makes no more jobs.
func (s *scheduleService) backfill(
	ctx context.Context, of store.Schedule, from, until time.Time, items int, dry bool,
) (done schedule.Backfilled, err error) {
	ref := store.Ref{Project: of.Project, ID: of.ID}
	if dry {
		return s.cfg.Scheduler.Backfill(ctx, ref, from, until, nil)
	}
	in := s.newValidator(ctx)
	defer in.settle()
	done, err = s.cfg.Scheduler.Backfill(ctx, ref, from, until, func(jobs int) error {
		if in.taken.Jobs > 0 {
			return nil // counted before the schedule changed
		}
		if of.Queued {
			jobs = min(jobs, items)
		}
		return in.count(ctx, sizeOf(jobs, contentSize(of)))
	})
	switch {
	case errors.Is(err, store.ErrUnconfirmed):
		in.kept = in.taken
	case err == nil:
		in.kept = sizeOf(len(done.Firings), contentSize(of))
	}
	return done, err
}

// waitingItems is how many items of a schedule's queue wait; 0 where it has none.
func (s *scheduleService) waitingItems(ctx context.Context, of store.Schedule) (int, error) {
	if !of.Queued {
		return 0, nil
	}
	page, err := s.store.Items(ctx, store.ItemQuery{
		Project: of.Project, Schedule: of.ID, States: []store.ItemState{store.ItemWaiting}, Limit: 1,
	})
	if err != nil {
		return 0, notFoundAs(fmt.Errorf("read the queue: %w", err), scheduleNotFound(store.Ref{ID: of.ID}))
	}
	return page.Waiting, nil
}

// idOfTaken encodes, for a page token of a dry run, how many items the pages before have taken:
// the queue itself has them all.
func idOfTaken(items int) (id job.ID) {
	binary.BigEndian.PutUint64(id[8:], uint64(items))
	return id
}

func itemsTaken(id job.ID) int { return int(binary.BigEndian.Uint64(id[8:])) }

// backfillSpan reads the range of a backfill.
func (s *scheduleService) backfillSpan(ctx context.Context, req *schedulesv1.BackfillScheduleRequest) (from, until time.Time, err error) {
	if from, err = timeFromWire("start_time", req.GetStartTime()); err != nil {
		return from, until, err
	}
	if until, err = timeFromWire("end_time", req.GetEndTime()); err != nil {
		return from, until, err
	}
	now, err := s.storeNow(ctx)
	switch {
	case err != nil:
		return from, until, err
	case until.After(now):
		return from, until, backfillRange("end_time", "end_time is in the future")
	case !from.Before(until):
		return from, until, backfillRange("end_time", "end_time must be after start_time")
	case from.Before(now.Add(-schedule.BackfillKept)):
		return from, until, backfillRange("start_time", fmt.Sprintf("start_time is more than %d days ago", int(schedule.BackfillKept/(24*time.Hour))))
	default:
		return from, until, nil
	}
}

func backfillRange(field, msg string) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_BACKFILL_RANGE, msg, "field", field)
}
