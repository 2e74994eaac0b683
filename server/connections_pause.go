package server

import (
	"context"
	"fmt"
	"slices"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// PauseConnection implements the RPC. Of a deleted connection nothing starts anyway.
func (s *connectionService) PauseConnection(ctx context.Context, req *fireoncev1.PauseConnectionRequest) (*fireoncev1.PauseConnectionResponse, error) {
	reason := req.GetReason()
	out, err := s.change(ctx, connectionChange{
		of:      req,
		inPlace: alreadyIf(func(c store.Connection) bool { return !c.PausedAt.IsZero() || !c.Deleted.IsZero() }),
		change:  fixedChange(store.ConnectionChange{Pause: &reason}),
	})
	return &fireoncev1.PauseConnectionResponse{Connection: out}, err
}

// ResumeConnection implements the RPC. What was missed expires while the connection
// is still paused, so that none of it is started meanwhile. If that is cut short, the
// connection stays paused, and a repeat goes on.
func (s *connectionService) ResumeConnection(ctx context.Context, req *fireoncev1.ResumeConnectionRequest) (*fireoncev1.ResumeConnectionResponse, error) {
	out, err := s.change(ctx, connectionChange{
		of:      req,
		inPlace: alreadyIf(func(c store.Connection) bool { return c.PausedAt.IsZero() }),
		change: func(ctx context.Context, conn store.Connection) (store.ConnectionChange, error) {
			if req.GetExpireMissed() {
				if err := s.expireMissed(ctx, conn); err != nil {
					return store.ConnectionChange{}, err
				}
			}
			return store.ConnectionChange{Resume: true}, nil
		},
	})
	return &fireoncev1.ResumeConnectionResponse{Connection: out}, err
}

// expireMissed ends the jobs that fell due in a pause, batch by batch.
func (s *connectionService) expireMissed(ctx context.Context, conn store.Connection) error {
	for idle := 0; idle < maxDecisions; {
		missed, err := s.store.Missed(ctx, conn.Project, conn.ID, store.MaxBatch)
		if err != nil {
			return fmt.Errorf("read what was missed: %w", err)
		}
		var changes []store.Change
		for _, snap := range missed {
			d, err := job.Decide(snap.View(job.Traits{Class: snap.Class}, 0), job.Missed{Since: conn.PausedAt})
			if err != nil {
				return fmt.Errorf("decide: %w", err)
			}
			if d.Action == job.ActWrite {
				changes = append(changes, store.Change{
					Job: snap.ID, Version: snap.Version, Decision: d, Actor: callerOf(ctx).actor,
				})
			}
		}
		if len(changes) == 0 {
			return nil
		}
		applied, err := s.store.Apply(ctx, changes)
		if err != nil {
			return fmt.Errorf("write the decisions: %w", err)
		}
		for _, a := range applied {
			if a.Err == nil {
				s.cfg.Metrics.Ended(0, a.Snapshot)
			}
		}
		idle++
		if slices.ContainsFunc(applied, func(a store.Applied) bool { return a.Err == nil }) {
			idle = 0
		}
	}
	return fmt.Errorf("decided %d times: %w", maxDecisions, store.ErrStale)
}
