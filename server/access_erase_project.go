package server

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// eraseFor bounds the time in which one EraseProject begins steps, and eraseStep the
// objects of one.
const (
	eraseFor  = 2 * time.Second
	eraseStep = 100
)

// erasePages are page tokens of EraseProject.
var erasePages = base64.RawURLEncoding

// EraseProject implements the RPC.
func (s *accessService) EraseProject(ctx context.Context, req *adminv1.EraseProjectRequest) (*adminv1.EraseProjectResponse, error) {
	who, project := callerOf(ctx), req.GetProjectId()
	if !who.all {
		return nil, operatorRequired("projects are erased")
	}
	after, err := erasePages.DecodeString(req.GetPageToken())
	if err == nil {
		_, err = store.ParseErasePlace(project, string(after))
	}
	if err != nil {
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID, "page_token is not one of this project's erasure", "field", "page_token")
	}
	p := store.EraseProjectParams{Project: project, Keep: s.cfg.Keep, Actor: eraseActor(who), After: string(after), Limit: eraseStep}
	out, begun := &adminv1.EraseProjectResponse{}, time.Now()
	for time.Since(begun) < eraseFor && ctx.Err() == nil {
		step, err := s.store.EraseProject(ctx, p)
		if err != nil {
			return nil, eraseFault(project, err)
		}
		addErased(out, step)
		for _, id := range step.Live {
			if err := s.deleteToErase(ctx, project, id); err != nil {
				return nil, fmt.Errorf("delete a connection: %w", err)
			}
		}
		if p.After = step.Next; step.Done {
			s.putRest(out, step.Rest)
			break
		}
	}
	out.NextPageToken = erasePages.EncodeToString([]byte(p.After))
	s.log.InfoContext(ctx, "a project was erased, or a part of it", "request_id", requestID(ctx), "by", who.actor, "project", project,
		"jobs", out.GetErasedJobCount(), "connections", out.GetErasedConnectionCount(), "api_keys", out.GetErasedApiKeyCount(),
		"logins", out.GetErasedLoginCount(), "schedules", out.GetErasedScheduleCount(), "firings", out.GetErasedFiringCount(), "done", out.GetDone())
	return out, nil
}

func eraseFault(project string, err error) error {
	if errors.Is(err, store.ErrProjectLive) {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_PROJECT_IN_USE,
			"an API key of project "+project+" is live; revoke all of its keys first", "project_id", project)
	}
	return notFoundAs(fmt.Errorf("erase the project: %w", err),
		refuse(fireoncev1.ErrorReason_ERROR_REASON_PROJECT_NOT_FOUND, "no project "+project, "project_id", project))
}

func addErased(out *adminv1.EraseProjectResponse, step store.ProjectErasure) {
	out.ErasedJobCount += int32(step.Jobs)
	out.BlankedEventCount += int32(step.Events)
	out.ErasedConnectionCount += int32(step.Connections)
	out.ErasedLoginCount += int32(step.Logins)
	out.ErasedApiKeyCount += int32(step.APIKeys)
	out.ErasedScheduleCount += int32(step.Schedules)
	out.ErasedFiringCount += int32(step.Firings)
}

func (s *accessService) putRest(out *adminv1.EraseProjectResponse, rest store.ProjectRest) {
	out.OpenJobCount, out.KeptJobCount = int32(rest.Open), int32(rest.Kept)
	out.Done = rest.Open+rest.Kept == 0
	if rest.Wait > 0 {
		out.RetryTime = timeToWire(job.Micros(s.cfg.Now().Add(rest.Wait)))
	}
}

// deleteToErase deletes a connection of a project in which no job is left. The next step sees
// what another caller changes meanwhile.
func (s *accessService) deleteToErase(ctx context.Context, project string, id job.ID) error {
	conn, err := s.store.Connection(ctx, store.Ref{Project: project, ID: id})
	if err != nil {
		return ignoring(err, store.ErrNotFound)
	}
	change := store.ConnectionChange{Project: project, ID: id, Version: conn.Version, Actor: callerOf(ctx).actor, Delete: true}
	after, err := s.changeConnection(ctx, change)
	if err != nil {
		return ignoring(err, store.ErrNotFound, store.ErrStale, store.ErrInUse)
	}
	s.logConnectionChange(ctx, "a connection was deleted", after, "erased", true)
	return nil
}

// ignoring is err, unless it is one of some.
func ignoring(err error, some ...error) error {
	for _, e := range some {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}
