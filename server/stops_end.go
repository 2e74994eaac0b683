package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/store"
)

// EndPause implements the RPC. The operator ends the pauses of every project.
func (s *pauseService) EndPause(ctx context.Context, req *adminv1.EndPauseRequest) (*adminv1.EndPauseResponse, error) {
	who := callerOf(ctx)
	id, err := idFromWire("pause_id", req.GetPauseId())
	if err != nil {
		return nil, err
	}
	project := who.project
	if who.all {
		project = ""
	}
	stop, err := s.store.EndStop(ctx, project, id, who.actor)
	if errors.Is(err, store.ErrNotFound) {
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_PAUSE_NOT_FOUND,
			"no pause "+id.String()+" in this project; one of all projects is ended by the operator", "pause_id", id.String())
	}
	if err != nil {
		return nil, fmt.Errorf("end the pause: %w", err)
	}
	s.metaCache.Delete(struct{}{})
	s.logStopChange(ctx, "pause ended", stop)
	now, err := s.storeNow(ctx)
	if err != nil {
		return nil, err
	}
	return &adminv1.EndPauseResponse{Pause: pauseToWire(stop, now)}, nil
}

// ListPauses implements the RPC.
func (s *pauseService) ListPauses(ctx context.Context, req *adminv1.ListPausesRequest) (*adminv1.ListPausesResponse, error) {
	who := callerOf(ctx)
	p, err := s.tokens.readPage(pausePages, who.project, withoutPage(req), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	q := store.StopQuery{Project: who.project, Ended: req.GetShowEnded(), After: p.after.id, Limit: pageSize(req.GetPageSize())}
	if who.all {
		q.Project = ""
	}
	page, err := s.store.ListStops(ctx, q)
	if errors.Is(err, store.ErrNotFound) {
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID, "page_token is of a pause that is listed no longer; begin again", "field", "page_token")
	}
	if err != nil {
		return nil, fmt.Errorf("list the pauses: %w", err)
	}
	now, err := s.storeNow(ctx)
	if err != nil {
		return nil, err
	}
	out := &adminv1.ListPausesResponse{Pauses: convertAll(page.Stops, func(stop store.Stop) *adminv1.Pause { return pauseToWire(stop, now) })}
	left := maxPausesPreviewed
	for i, stop := range page.Stops {
		if !req.GetShowPreview() || left == 0 || !stop.Open(now) {
			continue
		}
		left--
		if out.Pauses[i].Preview, err = s.previewOf(ctx, stop); err != nil {
			return nil, err
		}
	}
	if page.More {
		out.NextPageToken = p.nextToken(page.Stops[len(page.Stops)-1].ID, 0)
	}
	return out, nil
}

// logStopChange logs the creation or the end of a pause, with its actor.
func (s *Server) logStopChange(ctx context.Context, what string, of store.Stop, more ...any) {
	s.log.InfoContext(ctx, what, append([]any{
		"request_id", requestID(ctx), "by", callerOf(ctx).actor, "pause", of.ID.String(), "of", stopName(of), "project", of.Project,
	}, more...)...)
}
