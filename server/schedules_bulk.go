package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1/schedulesv1connect"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/store"
)

// bulkFor bounds the time in which a call on many schedules begins with another one.
const bulkFor = 5 * time.Second

// bulkSchedules is a change of many schedules that a client asks for.
type bulkSchedules struct {
	// item is the procedure that does the same to one.
	item string
	// acts is the state that the call acts on.
	acts     store.ScheduleState
	revision scheduleChange
	dryRun   bool
}

// BulkPauseSchedules implements the RPC.
func (s *scheduleService) BulkPauseSchedules(ctx context.Context, req *schedulesv1.BulkPauseSchedulesRequest) (*schedulesv1.BulkPauseSchedulesResponse, error) {
	out, err := s.bulk(ctx, req, bulkSchedules{
		item: schedulesv1connect.ScheduleServicePauseScheduleProcedure, acts: store.ScheduleActive,
		revision: s.pausing("", req.GetNote()), dryRun: req.GetDryRun(),
	})
	return &schedulesv1.BulkPauseSchedulesResponse{Result: out}, err
}

// BulkResumeSchedules implements the RPC.
func (s *scheduleService) BulkResumeSchedules(ctx context.Context, req *schedulesv1.BulkResumeSchedulesRequest) (*schedulesv1.BulkResumeSchedulesResponse, error) {
	out, err := s.bulk(ctx, req, bulkSchedules{
		item: schedulesv1connect.ScheduleServiceResumeScheduleProcedure, acts: store.SchedulePaused,
		revision: s.resuming("", req.GetNote()), dryRun: req.GetDryRun(),
	})
	return &schedulesv1.BulkResumeSchedulesResponse{Result: out}, err
}

var errSelectedNoMore = errors.New("the filter selects the schedule no more")

// bulk runs one call on one page, one schedule after the other: each is a write of its own.
func (s *scheduleService) bulk(
	ctx context.Context, req bulkRequest[*schedulesv1.ScheduleFilter], b bulkSchedules,
) (*schedulesv1.BulkScheduleResult, error) {
	project, out := callerOf(ctx).project, &schedulesv1.BulkScheduleResult{}
	p, err := s.tokens.readPage(bulkSchedulePages, project, withoutPage(req), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	q, err := s.scheduleSelection(ctx, project, req.GetFilter())
	if err != nil {
		return nil, err
	}
	if len(q.States) > 0 && !slices.Contains(q.States, b.acts) {
		return out, nil
	}
	q.States, q.After, q.Limit = []store.ScheduleState{b.acts}, p.after.id, maxPage
	page, err := s.schedulePage(ctx, q)
	if err != nil {
		return nil, err
	}
	next, begun := page.Next, time.Now()
	for i, of := range page.Schedules {
		if i > 0 && time.Since(begun) > bulkFor {
			next = page.Schedules[i-1].ID
			break
		}
		if err := s.bulkOne(ctx, b, q, of, out); err != nil {
			return nil, err
		}
	}
	out.NextPageToken = p.nextToken(next, 0)
	return out, nil
}

// bulkOne changes one schedule that was selected, unless it is selected no more.
func (s *scheduleService) bulkOne(ctx context.Context, b bulkSchedules, q store.ScheduleQuery, of store.Schedule, out *schedulesv1.BulkScheduleResult) error {
	ctx = recur.WithMeter(ctx, int64(s.cfg.Limits.Steps)) // one that is costly is no other one's failure
	r := b.revision
	r.inPlace = func(was store.Schedule) (bool, error) {
		if !q.Selects(was) {
			return false, errSelectedNoMore
		}
		return false, nil
	}
	if b.dryRun {
		r.dry = true
		r.change = func(ctx context.Context, c *store.ScheduleChange) error {
			return cmp.Or(b.revision.change(ctx, c), errDryRun)
		}
	}
	_, err := s.changeAt(ctx, store.Ref{Project: of.Project, ID: of.ID}, r)
	switch f := new(fault); {
	case errors.Is(err, errSelectedNoMore):
		return nil
	case errors.As(err, &f):
		out.Failures = append(out.Failures, &schedulesv1.BulkScheduleFailure{
			ScheduleId: idToWire(of.ID), IdempotencyKey: of.Key, Error: s.itemError(ctx, b.item, err),
		})
	case err != nil && !errors.Is(err, errDryRun):
		return err
	default:
		out.Changed++
		out.ChangedScheduleIds = append(out.ChangedScheduleIds, idToWire(of.ID))
		out.ChangedKeys = append(out.ChangedKeys, of.Key)
	}
	out.Matched++
	return nil
}

// errDryRun ends a change that is not to be written.
var errDryRun = errors.New("dry run")
