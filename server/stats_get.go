package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/store"
)

const (
	// statsMaxAge is how old an answer of GetStats may be.
	statsMaxAge = 5 * time.Second
	// maxStatsCached bounds the answers that are cached, maxStatsMeasurements the
	// measurements that run concurrently.
	maxStatsCached, maxStatsMeasurements = 256, 2
	// maxStatsPauses bounds the pauses of an answer.
	maxStatsPauses = 20
	// defaultStatsWindow is GetStatsRequest.window when unset.
	defaultStatsWindow = 24 * time.Hour
)

// statsService answers fireonce.admin.v1.StatsService.
type statsService struct {
	adminv1connect.UnimplementedStatsServiceHandler
	*Server
	answers *cache.TTL[store.StatsQuery, *adminv1.GetStatsResponse]
}

func newStatsService(s *Server) *statsService {
	return &statsService{
		Server: s,
		answers: cache.New[store.StatsQuery, *adminv1.GetStatsResponse](cache.Options{
			Max: maxStatsCached, Age: statsMaxAge, Timeout: s.cfg.Limits.MaxDeadline, Concurrent: maxStatsMeasurements, Now: s.cfg.Now,
		}),
	}
}

// GetStats implements the RPC.
func (s *statsService) GetStats(ctx context.Context, req *adminv1.GetStatsRequest) (*adminv1.GetStatsResponse, error) {
	if err := noUnknown(req); err != nil {
		return nil, err
	}
	ref, err := ownerRef(callerOf(ctx).project, req)
	if err != nil {
		return nil, err
	}
	conn, err := s.connectionID(ctx, ref)
	if err != nil {
		return nil, err
	}
	q := store.StatsQuery{Project: callerOf(ctx).project, Connection: conn, Window: defaultStatsWindow}
	if req.GetWindow() != nil {
		q.Window = submit.Duration(req.GetWindow())
	}
	// Callers share the answer: it is never written to.
	out, err := s.answers.Load(ctx, q, func(ctx context.Context) (*adminv1.GetStatsResponse, error) { return s.measure(ctx, q) })
	if errors.Is(err, cache.ErrFull) {
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_QUOTA_EXCEEDED, "too many different measurements are asked for at once")
	}
	return out, err
}

func (s *statsService) measure(ctx context.Context, q store.StatsQuery) (*adminv1.GetStatsResponse, error) {
	if !q.Connection.IsZero() {
		if _, err := s.store.Connection(ctx, store.Ref{Project: q.Project, ID: q.Connection}); err != nil {
			return nil, notFoundAs(fmt.Errorf("read the connection: %w", err), ofConnection.noConnection(store.Ref{ID: q.Connection}))
		}
	}
	st, err := s.store.Stats(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("measure: %w", err)
	}
	meta, err := s.store.Meta(ctx)
	if err != nil {
		return nil, fmt.Errorf("describe the database: %w", err)
	}
	out := statsToWire(st, meta)
	if meta.Stops > 0 {
		page, err := s.store.ListStops(ctx, store.StopQuery{Project: q.Project, Limit: maxStatsPauses})
		if err != nil {
			return nil, fmt.Errorf("pauses: %w", err)
		}
		for _, stop := range page.Stops {
			if stop.InForce(meta.Now) {
				out.Pauses = append(out.Pauses, pauseToWire(stop, meta.Now))
			}
		}
	}
	if q.Connection.IsZero() {
		if out.Quotas, err = s.quotaUse(ctx, q.Project); err != nil {
			return nil, err
		}
	}
	return out, nil
}
