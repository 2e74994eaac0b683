package server

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
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
	if out.IncidentId, err = s.incidentOf(ctx, snap); err != nil {
		return nil, err
	}
	if out.Callback, err = s.callbackOf(ctx, snap); err != nil {
		return nil, err
	}
	return &fireoncev1.GetJobResponse{Job: out, EventsCursor: s.tokens.cursor(ref.Project, log.Incarnation, log.End)}, nil
}

// wholeJob converts a job with its payload and its newest attempt.
func (s *jobService) wholeJob(ctx context.Context, snap job.Snapshot) (*fireoncev1.Job, error) {
	out, err := withPayload(s.newJobConverter(ctx, snap.Project).job(ctx, snap), snap.Payload)
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
