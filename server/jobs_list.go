package server

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/store"
)

// ListJobs implements the RPC.
func (s *jobService) ListJobs(ctx context.Context, req *fireoncev1.ListJobsRequest) (*fireoncev1.ListJobsResponse, error) {
	project := callerOf(ctx).project
	q, err := s.selection(ctx, project, req.GetFilter())
	if err != nil {
		return nil, err
	}
	q.Order, q.Limit = orders[req.GetOrder()], pageSize(req.GetPageSize())
	p, err := s.tokens.readPage(jobPages, project, withoutPage(req), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	q.AfterTime, q.AfterID = p.after.time(), p.after.id
	page, err := s.store.List(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	out := &fireoncev1.ListJobsResponse{
		Jobs: s.newJobConverter(ctx, project).jobs(ctx, page.Jobs), EventsCursor: s.tokens.cursor(project, page.Incarnation, page.Position),
	}
	if page.More {
		out.NextPageToken = p.nextToken(page.Next.ID, page.Next.At.UnixMicro())
	}
	return out, nil
}

// selection makes the query of a filter.
func (s *Server) selection(ctx context.Context, project string, f *fireoncev1.JobFilter) (store.JobQuery, error) {
	if f.GetRecipient() != "" && !callerOf(ctx).has(ScopePayloadsRead) {
		return store.JobQuery{}, refuse(fireoncev1.ErrorReason_ERROR_REASON_SCOPE_MISSING,
			"a filter by recipient tells what payloads have; this API key lacks the scope "+ScopePayloadsRead, "scope", ScopePayloadsRead)
	}
	q, err := filterFromWire(project, f)
	if err != nil {
		return q, err
	}
	if q.Schedule, err = s.namedSchedule(ctx, project, q.Schedule, f.GetScheduleKey()); err != nil {
		return q, err
	}
	q.Connections, err = s.addNamedConnections(ctx, project, q.Connections, f.GetConnectionKeys())
	return q, err
}
