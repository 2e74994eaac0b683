package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// ListFirings implements the RPC.
func (s *scheduleService) ListFirings(ctx context.Context, req *schedulesv1.ListFiringsRequest) (*schedulesv1.ListFiringsResponse, error) {
	of, err := s.readSchedule(ctx, req)
	if err != nil {
		return nil, err
	}
	p, err := s.tokens.readPage(firingPages, of.Project, &schedulesv1.ListFiringsRequest{
		Schedule: &schedulesv1.ListFiringsRequest_ScheduleId{ScheduleId: idToWire(of.ID)}, Outcomes: req.GetOutcomes(),
	}, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	page, err := s.store.Firings(ctx, store.FiringQuery{
		Project: of.Project, Schedule: of.ID, Outcomes: castAll[store.FiringOutcome](req.GetOutcomes()),
		Before: p.after.at, Limit: pageSize(req.GetPageSize()),
	})
	if err != nil {
		return nil, notFoundAs(fmt.Errorf("list firings: %w", err), scheduleNotFound(store.Ref{ID: of.ID}))
	}
	return &schedulesv1.ListFiringsResponse{
		Firings: convertAll(page.Firings, firingToWire), NextPageToken: p.nextToken(job.ID{}, page.Next),
	}, nil
}

// firingNamed reads one firing of the ledger; nil: there is none of that name.
func (s *Server) firingNamed(ctx context.Context, project string, of job.ID, name string) (*store.Firing, error) {
	page, err := s.store.Firings(ctx, store.FiringQuery{Project: project, Schedule: of, Name: name, Limit: 1})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil // erased since
	case err != nil:
		return nil, fmt.Errorf("read the firing: %w", err)
	case len(page.Firings) == 0:
		return nil, nil
	default:
		return &page.Firings[0], nil
	}
}

// madeBy reads the firing that made a job; nil: none, or it is not kept any more.
func (s *Server) madeBy(ctx context.Context, snap job.Snapshot) (*fireoncev1.Firing, error) {
	name, named := strings.CutPrefix(snap.Key, store.FiringKey(snap.Schedule, ""))
	if snap.Schedule.IsZero() || !named {
		return nil, nil
	}
	f, err := s.firingNamed(ctx, snap.Project, snap.Schedule, name)
	if err != nil || f == nil || f.Job != snap.ID {
		return nil, err
	}
	return firingToWire(*f), nil
}
