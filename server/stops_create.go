package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/weburl"
	"github.com/fireonce/fireonce/store"
)

const (
	// maxPausePreviewed bounds each list of a preview.
	maxPausePreviewed = 100
	// maxPausesPreviewed bounds the previews of a page of pauses.
	maxPausesPreviewed = 10
)

// pauseService answers fireonce.admin.v1.PauseService.
type pauseService struct{ *Server }

// CreatePause implements the RPC.
func (s *pauseService) CreatePause(ctx context.Context, req *adminv1.CreatePauseRequest) (*adminv1.CreatePauseResponse, error) {
	n, err := s.newStop(ctx, req)
	if err != nil {
		return nil, err
	}
	now, err := s.storeNow(ctx)
	if err != nil {
		return nil, err
	}
	made, err := n.At(now)
	switch {
	case errors.Is(err, store.ErrIllegal) && !made.End.IsZero() && !made.End.After(now):
		return nil, badField("end_time", "gt", "end_time has passed")
	case errors.Is(err, store.ErrIllegal) && !made.End.IsZero() && !made.End.After(made.Begin):
		return nil, badField("end_time", "gt", "end_time is not after begin_time")
	case err != nil:
		return nil, err
	case req.GetDryRun():
		preview, err := s.preview(ctx, made)
		if err != nil {
			return nil, err
		}
		made.ID = job.ID{}
		return &adminv1.CreatePauseResponse{Pause: pauseToWire(made, now), Preview: preview}, nil
	}
	stop, created, err := s.store.CreateStop(ctx, n)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, ofConnection.noConnection(store.Ref{ID: n.Connection, Key: req.GetTarget().GetConnectionKey()})
	case errors.Is(err, store.ErrQuota):
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_QUOTA_EXCEEDED, "too many pauses have not ended; end some: "+err.Error())
	case err != nil:
		return nil, fmt.Errorf("store the pause: %w", err)
	}
	s.metaCache.Delete(struct{}{})
	if stop.Created.After(now) {
		now = stop.Created // it began after the time was read
	}
	s.logStopChange(ctx, "pause", stop, "created", created)
	return &adminv1.CreatePauseResponse{Pause: pauseToWire(stop, now), Created: created}, nil
}

// newStop reads the pause that a request wants.
func (s *pauseService) newStop(ctx context.Context, req *adminv1.CreatePauseRequest) (store.NewStop, error) {
	who := callerOf(ctx)
	stop := store.Stop{
		ID: s.cfg.NewID(), Project: who.project, Cause: store.StoppedByPerson, Note: req.GetNote(), CreatedBy: who.actor,
		HoldWindows: req.GetHoldWindows(),
	}
	var err error
	if stop.Begin, err = timeFromWire("begin_time", req.GetBeginTime()); err != nil {
		return store.NewStop{}, err
	}
	if stop.End, err = timeFromWire("end_time", req.GetEndTime()); err != nil {
		return store.NewStop{}, err
	}
	t := req.GetTarget()
	switch of := t.GetTarget().(type) {
	case *adminv1.PauseTarget_Everything:
		stop.Scope, stop.Project = store.StopEverything, ""
	case *adminv1.PauseTarget_Project:
		stop.Scope = store.StopProject
	case *adminv1.PauseTarget_Connector:
		stop.Scope, stop.Connector = store.StopConnector, of.Connector
	case *adminv1.PauseTarget_ConnectionId, *adminv1.PauseTarget_ConnectionKey:
		ref, err := ownerRef(who.project, t)
		if err != nil {
			return store.NewStop{}, err
		}
		stop.Scope = store.StopConnection
		if stop.Connection, err = s.connectionID(ctx, ref); err != nil {
			return store.NewStop{}, err
		}
	case *adminv1.PauseTarget_Destination:
		u, err := weburl.Parse(of.Destination)
		if err != nil {
			return store.NewStop{}, badField("target.destination", "origin",
				"target.destination is no scheme, host and port, such as https://api.example.com; an account is paused by its connection: "+err.Error())
		}
		stop.Scope, stop.Destination = store.StopDestination, originOf(u)
	case *adminv1.PauseTarget_Label:
		stop.Scope, stop.Label, stop.Value = store.StopLabel, of.Label.GetName(), of.Label.GetValue()
	}
	if t.GetAllProjects() {
		if stop.Scope != store.StopConnector && stop.Scope != store.StopDestination && stop.Scope != store.StopEverything {
			return store.NewStop{}, badField("target.all_projects", "target", "target.all_projects goes with connector and destination")
		}
		stop.Project = ""
	}
	if stop.Project == "" && !who.all {
		return store.NewStop{}, operatorRequired("all projects are paused")
	}
	return store.NewStop{Stop: stop}, nil
}

// preview counts what a pause would hold back.
func (s *pauseService) preview(ctx context.Context, stop store.Stop) (*adminv1.PausePreview, error) {
	if stop.Scope == store.StopConnection {
		c, err := s.store.Connection(ctx, store.Ref{Project: stop.Project, ID: stop.Connection})
		if err == nil && !c.Deleted.IsZero() {
			err = store.ErrNotFound
		}
		if err != nil {
			return nil, notFoundAs(fmt.Errorf("read the connection: %w", err), ofConnection.noConnection(store.Ref{ID: stop.Connection}))
		}
	}
	return s.previewOf(ctx, stop)
}

// previewOf counts what a stored pause holds back.
func (s *pauseService) previewOf(ctx context.Context, stop store.Stop) (*adminv1.PausePreview, error) {
	p, err := s.store.PreviewStop(ctx, stop, maxPausePreviewed)
	if err != nil {
		return nil, fmt.Errorf("preview: %w", err)
	}
	out := &adminv1.PausePreview{WaitingCount: p.Waiting, RepeatCount: p.Repeats, WindowEndCount: p.Windows, UnderWayCount: p.UnderWay}
	shown := callerOf(ctx).has(ScopeJobsRead)
	if !shown {
		p.WindowEnds = nil
	}
	for _, snap := range p.WindowEnds {
		out.WindowEnds = append(out.WindowEnds, pausedJob(snap, snap.StartDeadline))
	}
	for _, snap := range p.KeyEnds {
		conn, err := s.store.Connection(ctx, store.Ref{ID: snap.Connection})
		if err != nil {
			continue // it was erased meanwhile
		}
		if end := repeatEnd(snap, conn, stop.HoldWindows); !end.After(stop.PreviewEnd(snap.Now)) {
			out.KeyEndCount++
			if shown && len(out.GetKeyEnds()) < maxPausePreviewed {
				out.KeyEnds = append(out.KeyEnds, pausedJob(snap, end))
			}
		}
	}
	return out, nil
}

// repeatEnd returns until when a job may be repeated under its key, or a little later: within half
// of the key window, and its time to keep trying unless that is held (job.View.KeyKnown has the exact
// rule).
func repeatEnd(snap job.Snapshot, conn store.Connection, held bool) time.Time {
	end := snap.RoundArmed.Add(conn.KeyWindow / 2)
	if !held && snap.StartDeadline.Before(end) {
		return snap.StartDeadline
	}
	return end
}

func pausedJob(snap job.Snapshot, end time.Time) *adminv1.PausedJob {
	return &adminv1.PausedJob{IdempotencyKey: snap.Key, JobId: snap.ID.String(), EndTime: timeToWire(end)}
}
