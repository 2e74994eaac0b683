package server

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// CountJobs implements the RPC.
func (s *statsService) CountJobs(ctx context.Context, req *adminv1.CountJobsRequest) (*adminv1.CountJobsResponse, error) {
	if err := noUnknown(req); err != nil {
		return nil, err
	}
	q, err := s.selection(ctx, callerOf(ctx).project, req.GetFilter())
	if err != nil {
		return nil, err
	}
	counts, err := s.store.Count(ctx, q, groupings[req.GetGroupBy()])
	if err != nil {
		return nil, fmt.Errorf("count jobs: %w", err)
	}
	keys, err := s.keys.keys(ctx, q.Project, convertAll(counts.Groups, func(g store.JobGroup) job.ID { return g.Connection }), nil)
	return countsToWire(q, groupings[req.GetGroupBy()], counts, keys), err
}

var groupings = map[adminv1.CountDimension]store.GroupBy{
	adminv1.CountDimension_COUNT_DIMENSION_CONNECTION:   store.ByConnection,
	adminv1.CountDimension_COUNT_DIMENSION_EFFECT_CLASS: store.ByClass,
	adminv1.CountDimension_COUNT_DIMENSION_ERROR_KIND:   store.ByErrorKind,
}
