package server

import (
	"context"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// CancelJob implements the RPC.
func (s *jobService) CancelJob(ctx context.Context, req *fireoncev1.CancelJobRequest) (*fireoncev1.CancelJobResponse, error) {
	snap, err := s.change(ctx, jobChange{
		of: req, etag: req.GetEtag(), ask: always(job.CancelAsked{}), reason: req.GetReason(),
	})
	if err != nil {
		return nil, err
	}
	out, err := s.wholeJob(ctx, snap)
	if err != nil {
		return nil, err
	}
	prevented, err := s.nothingSent(ctx, snap)
	return &fireoncev1.CancelJobResponse{Job: out, Prevented: prevented}, err
}

// nothingSent reports whether a job is canceled and no byte of it was sent, as far as the database
// can know. A job that needed a person's ruling may have been sent, and so may every job of a
// quarantined database.
func (s *jobService) nothingSent(ctx context.Context, snap job.Snapshot) (bool, error) {
	if snap.State != job.Canceled || snap.Resolution != nil {
		return false, nil
	}
	if meta, err := s.meta(ctx); err != nil || meta.Quarantined != "" {
		return false, err
	}
	if snap.Attempt == 0 {
		return true, nil
	}
	attempts, err := s.store.Attempts(ctx, store.Ref{Project: snap.Project, ID: snap.ID}, 0, store.MaxBatch)
	if err != nil {
		return false, fmt.Errorf("read the attempts: %w", err)
	}
	sent := slices.ContainsFunc(attempts, func(a job.Attempt) bool { return a.Result != job.ResultNotSent })
	return !sent && len(attempts) == snap.Attempt, nil
}
