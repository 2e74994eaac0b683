package server

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// PauseConnection implements the RPC. Nothing starts on a deleted connection anyway.
func (s *connectionService) PauseConnection(ctx context.Context, req *connectionsv1.PauseConnectionRequest) (*connectionsv1.PauseConnectionResponse, error) {
	reason := req.GetReason()
	out, err := s.change(ctx, connectionChange{
		of:      req,
		inPlace: alreadyIf(func(c store.Connection) bool { return !c.PausedAt.IsZero() || !c.Deleted.IsZero() }),
		change:  fixedChange(store.ConnectionChange{Pause: &reason}),
	})
	return &connectionsv1.PauseConnectionResponse{Connection: out}, err
}

// ResumeConnection implements the RPC. What was missed expires while the connection
// is still paused, so that none of it is started meanwhile. If that is cut short, the
// connection stays paused, and a repeat goes on.
func (s *connectionService) ResumeConnection(ctx context.Context, req *connectionsv1.ResumeConnectionRequest) (*connectionsv1.ResumeConnectionResponse, error) {
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
	return &connectionsv1.ResumeConnectionResponse{Connection: out}, err
}

// expireMissed ends the jobs that fell due in a pause, batch by batch.
func (s *connectionService) expireMissed(ctx context.Context, conn store.Connection) error {
	actor := callerOf(ctx).actor
	return store.DecidePages(ctx, s.store,
		func() ([]job.Snapshot, error) {
			missed, err := s.store.Missed(ctx, conn.Project, conn.ID, store.MaxBatch)
			if err != nil {
				return nil, fmt.Errorf("read the missed jobs: %w", err)
			}
			return missed, nil
		},
		func(snap job.Snapshot, c *store.Change) (bool, error) {
			c.Actor = actor
			write, err := c.Decide(&snap, job.Traits{Class: snap.Class}, 0, job.Missed{Since: conn.PausedAt})
			if err != nil {
				err = fmt.Errorf("decide: %w", err)
			}
			return write, err
		},
		func(_ job.Snapshot, _ *store.Change, a *store.Applied) error {
			if a.Err == nil {
				s.cfg.Metrics.Ended(0, a.Snapshot)
			}
			return nil
		})
}
