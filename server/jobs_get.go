package server

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

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

// GetJob implements the RPC.
func (s *jobService) GetJob(ctx context.Context, req *fireoncev1.GetJobRequest) (*fireoncev1.GetJobResponse, error) {
	ref, err := jobRef(ctx, req)
	if err != nil {
		return nil, err
	}
	log, err := logEnd(ctx, s.store, ref.Project)
	if err != nil {
		return nil, err
	}
	snap, err := s.store.Job(ctx, ref)
	if err != nil {
		return nil, notFoundAs(fmt.Errorf("read the job: %w", err), jobNotFound(ref))
	}
	out, err := s.wholeJob(ctx, snap)
	if err != nil {
		return nil, err
	}
	if req.GetOmitPayload() {
		out.Payload = nil
	}
	if out.Firing, err = s.madeBy(ctx, snap); err != nil {
		return nil, err
	}
	return &fireoncev1.GetJobResponse{Job: out, EventsCursor: s.cursor(ref.Project, log.Incarnation, log.End)}, nil
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
		out.LastAttempt = answeredAttemptToWire(a)
	}
	return out, nil
}

// ListJobs implements the RPC.
func (s *jobService) ListJobs(ctx context.Context, req *fireoncev1.ListJobsRequest) (*fireoncev1.ListJobsResponse, error) {
	project := callerOf(ctx).project
	q, err := s.selection(ctx, project, req.GetFilter())
	if err != nil {
		return nil, err
	}
	q.Order, q.Limit = orders[req.GetOrder()], pageSize(req.GetPageSize())
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
	if page.More {
		out.NextPageToken = place{kind: jobPages, owner: owner, id: page.Next.ID, at: page.Next.At.UnixMicro()}.String()
	}
	return out, nil
}

// selection makes the query of what a filter selects.
func (s *Server) selection(ctx context.Context, project string, f *fireoncev1.JobFilter) (store.JobQuery, error) {
	if f.GetRecipient() != "" && !callerOf(ctx).has(ScopePayloadsRead) {
		return store.JobQuery{}, refuse(fireoncev1.ErrorReason_ERROR_REASON_SCOPE_MISSING,
			"a filter by recipient tells what payloads have; this API key lacks the scope "+ScopePayloadsRead, "scope", ScopePayloadsRead)
	}
	q, err := filterFromWire(project, f)
	if err != nil {
		return q, err
	}
	q.Connections, err = s.andNamed(ctx, project, q.Connections, f.GetConnectionKeys())
	return q, err
}

// ListJobAttempts implements the RPC.
func (s *jobService) ListJobAttempts(ctx context.Context, req *fireoncev1.ListJobAttemptsRequest) (*fireoncev1.ListJobAttemptsResponse, error) {
	ref, err := jobRef(ctx, req)
	if err != nil {
		return nil, err
	}
	owner := s.owner(ref.Project, []byte("attempts"), ref.ID[:], []byte(ref.Key))
	after, err := parsePage(tryPages, owner, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	out := &fireoncev1.ListJobAttemptsResponse{}
	limit, size, last := pageSize(req.GetPageSize()), 0, int(after.at)
	for len(out.GetAttempts()) < limit {
		// One more than asked for would exceed the store's limit at 500, so the last
		// page may be an empty one.
		step := min(limit-len(out.GetAttempts()), attemptStep)
		attempts, err := s.store.Attempts(ctx, ref, last, step)
		if err != nil {
			return nil, notFoundAs(fmt.Errorf("list attempts: %w", err), jobNotFound(ref))
		}
		for _, a := range attempts {
			wire := answeredAttemptToWire(a)
			if size += proto.Size(wire); size > maxAnswerBytes && len(out.GetAttempts()) > 0 {
				limit = len(out.GetAttempts())
				break
			}
			out.Attempts, last = append(out.Attempts, wire), a.Number
		}
		if len(attempts) < step && len(out.GetAttempts()) < limit {
			return out, nil
		}
	}
	out.NextPageToken = place{kind: tryPages, owner: owner, at: int64(last)}.String()
	return out, nil
}

// attemptStep bounds the attempts that are read at a time: each may have a large answer.
const attemptStep = 50

// ListJobObservations implements the RPC.
func (s *jobService) ListJobObservations(ctx context.Context, req *fireoncev1.ListJobObservationsRequest) (*fireoncev1.ListJobObservationsResponse, error) {
	ref, err := jobRef(ctx, req)
	if err != nil {
		return nil, err
	}
	owner := s.owner(ref.Project, []byte("observations"), ref.ID[:], []byte(ref.Key))
	after, err := parsePage(lookPages, owner, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	looks, err := s.store.Observations(ctx, ref, int(after.at), pageSize(req.GetPageSize()))
	if err != nil {
		return nil, notFoundAs(fmt.Errorf("list observations: %w", err), jobNotFound(ref))
	}
	out := &fireoncev1.ListJobObservationsResponse{}
	size, last := 0, 0
	for _, o := range looks {
		wire := observationToWire(o)
		if size += proto.Size(wire); size > maxAnswerBytes && len(out.GetObservations()) > 0 {
			break
		}
		out.Observations, last = append(out.Observations, wire), o.Number
	}
	if last > 1 {
		out.NextPageToken = place{kind: lookPages, owner: owner, at: int64(last)}.String()
	}
	return out, nil
}
