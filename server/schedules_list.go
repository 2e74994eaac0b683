package server

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/store"
)

// ListSchedules implements the RPC.
func (s *scheduleService) ListSchedules(ctx context.Context, req *schedulesv1.ListSchedulesRequest) (*schedulesv1.ListSchedulesResponse, error) {
	project := callerOf(ctx).project
	p, err := s.tokens.readPage(schedulePages, project, withoutPage(req), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	q, err := s.scheduleSelection(ctx, project, req.GetFilter())
	if err != nil {
		return nil, err
	}
	q.After, q.Limit = p.after.id, pageSize(req.GetPageSize())
	page, err := s.schedulePage(ctx, q)
	if err != nil {
		return nil, err
	}
	now, err := s.storeNow(ctx)
	if err != nil {
		return nil, err
	}
	// Read together here, the keys are in the cache below.
	connections := convertAll(page.Schedules, func(of store.Schedule) job.ID { return of.Connection })
	if _, err := s.keys.keys(ctx, project, connections, nil); err != nil {
		return nil, err
	}
	out, size := &schedulesv1.ListSchedulesResponse{}, 0
	for i, of := range page.Schedules {
		// Each has a share of the steps, so that a costly one leaves the others theirs.
		wire, err := s.scheduleAt(recur.WithMeter(ctx, recur.MaxSteps/int64(len(page.Schedules))), of, now)
		if err != nil {
			return nil, err
		}
		if size += proto.Size(wire); size > maxAnswerBytes && i > 0 {
			page.Next = page.Schedules[i-1].ID
			break
		}
		out.Schedules = append(out.Schedules, wire)
	}
	out.NextPageToken = p.nextToken(page.Next, 0)
	return out, nil
}

// schedulePage reads a page of schedules. It refuses a token whose schedule was erased since.
func (s *scheduleService) schedulePage(ctx context.Context, q store.ScheduleQuery) (store.SchedulePage, error) {
	page, err := s.store.ListSchedules(ctx, q)
	if err != nil {
		return page, notFoundAs(fmt.Errorf("list schedules: %w", err), refuse(fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID,
			"the schedule at which page_token goes on was erased; start from the first page", "field", "page_token"))
	}
	return page, nil
}

// scheduleSelection makes the query of what a filter selects.
func (s *scheduleService) scheduleSelection(ctx context.Context, project string, f *schedulesv1.ScheduleFilter) (store.ScheduleQuery, error) {
	q, err := schedulesFromWire(project, f)
	if err != nil {
		return q, err
	}
	q.Connections, err = s.addNamedConnections(ctx, project, q.Connections, f.GetConnectionKeys())
	return q, err
}
