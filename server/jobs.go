package server

import (
	"context"
	"fmt"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/gen/fireonce/v1/fireoncev1connect"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// jobService answers fireonce.v1.JobService.
type jobService struct {
	fireoncev1connect.UnimplementedJobServiceHandler
	*Server
}

// maxObservations is how many looks ListJobAttempts shows.
const maxObservations = 100

// GetJob implements the RPC.
func (s *jobService) GetJob(ctx context.Context, req *fireoncev1.GetJobRequest) (*fireoncev1.GetJobResponse, error) {
	project := callerOf(ctx).project
	id, err := idFromWire("job_id", req.GetJobId())
	if err != nil {
		return nil, err
	}
	ref, name := store.Ref{Project: project, ID: id, Key: req.GetIdempotencyKey()}, id.String()
	if ref.Key != "" {
		name = "with this idempotency key"
	}
	log, err := logEnd(ctx, s.store, project)
	if err != nil {
		return nil, err
	}
	snap, err := s.store.Job(ctx, ref)
	if err != nil {
		return nil, notFoundAs(fmt.Errorf("read the job: %w", err), jobNotFound(name))
	}
	out, err := s.wholeJob(ctx, snap)
	if err != nil {
		return nil, err
	}
	if req.GetOmitPayload() {
		out.Payload = nil
	}
	return &fireoncev1.GetJobResponse{Job: out, EventsCursor: s.cursor(project, log.Incarnation, log.End)}, nil
}

// wholeJob converts a job with its payload and its newest attempt.
func (s *jobService) wholeJob(ctx context.Context, snap job.Snapshot) (*fireoncev1.Job, error) {
	out, err := withPayload(s.shown(ctx, snap.Project).job(ctx, snap), snap.Payload)
	if err != nil || snap.Attempt == 0 {
		return out, err
	}
	last, err := s.store.Attempts(ctx, store.Ref{Project: snap.Project, ID: snap.ID}, snap.Attempt-1, 1)
	if err != nil {
		return nil, fmt.Errorf("read the last attempt: %w", err)
	}
	for _, a := range last {
		out.LastAttempt = attemptToWire(a)
	}
	return out, nil
}

// ListJobs implements the RPC.
func (s *jobService) ListJobs(ctx context.Context, req *fireoncev1.ListJobsRequest) (*fireoncev1.ListJobsResponse, error) {
	project := callerOf(ctx).project
	q, err := queryFromWire(project, req)
	if err != nil {
		return nil, err
	}
	owner, err := s.pageOwner(project, &fireoncev1.ListJobsRequest{Filter: req.GetFilter(), Order: req.GetOrder()})
	if err != nil {
		return nil, err
	}
	after, err := parsePage(jobPages, owner, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	q.AfterTime, q.AfterID = after.time(), after.id
	page, err := s.store.List(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	out := &fireoncev1.ListJobsResponse{EventsCursor: s.cursor(project, page.Incarnation, page.Position)}
	view := s.shown(ctx, project)
	for _, snap := range page.Jobs {
		out.Jobs = append(out.Jobs, view.job(ctx, snap))
	}
	if n := len(page.Jobs); n > 0 && page.More {
		at, id := placeOf(q.Order, page.Jobs[n-1].Job)
		out.NextPageToken = place{kind: jobPages, owner: owner, id: id, at: at.UnixMicro()}.String()
	}
	return out, nil
}

// ListJobAttempts implements the RPC.
func (s *jobService) ListJobAttempts(ctx context.Context, req *fireoncev1.ListJobAttemptsRequest) (*fireoncev1.ListJobAttemptsResponse, error) {
	project := callerOf(ctx).project
	id, err := idFromWire("job_id", req.GetJobId())
	if err != nil {
		return nil, err
	}
	owner := s.owner(project, []byte("attempts"), id[:])
	after, err := parsePage(tryPages, owner, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	// One more than asked for would exceed the store's limit at 500, so the last
	// page may be an empty one.
	ref, limit := store.Ref{Project: project, ID: id}, pageSize(req.GetPageSize())
	attempts, err := s.store.Attempts(ctx, ref, int(after.at), limit)
	if err != nil {
		return nil, notFoundAs(fmt.Errorf("list attempts: %w", err), jobNotFound(id.String()))
	}
	out := &fireoncev1.ListJobAttemptsResponse{}
	for _, a := range attempts {
		out.Attempts = append(out.Attempts, attemptToWire(a))
	}
	if len(attempts) == limit {
		last := attempts[limit-1].Number
		out.NextPageToken = place{kind: tryPages, owner: owner, at: int64(last)}.String()
	}
	if req.GetPageToken() != "" {
		return out, nil
	}
	looks, err := s.store.Observations(ctx, ref, maxObservations)
	if err != nil {
		return nil, fmt.Errorf("list observations: %w", err)
	}
	for _, o := range looks {
		out.Observations = append(out.Observations, observationToWire(o))
	}
	return out, nil
}
