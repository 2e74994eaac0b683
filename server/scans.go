package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/inflight"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: reads whose cost depends on how much is stored (lists, searches, counts,
// statistics, pages of the event log) are scans. They are bounded here and nowhere else, for the
// whole server and for each project, below the readers that every store has. So point look-ups,
// which submits and sends need, never wait behind them. A scan waits for a bounded time; then its
// call fails with SERVER_BUSY. A handler holds no scan while it asks for another.

const (
	// maxScans bounds the scans that run concurrently. One project has at most half of them.
	maxScans = 2
	// scanWait is how long a scan waits for others to end.
	scanWait = 3 * time.Second
)

// scanStore is a Store whose scans are bounded.
type scanStore struct {
	Store
	scans *inflight.Budget
}

func newScanStore(s Store) *scanStore {
	return &scanStore{Store: s, scans: inflight.New(maxScans, scanWait)}
}

// scan runs a read when few enough others run, for a project; empty: the operator.
func scan[T any](ctx context.Context, s *scanStore, project string, read func() (T, error)) (T, error) {
	var zero T
	hold, err := s.scans.Take(ctx, project, 1)
	if errors.Is(err, inflight.ErrBusy) {
		return zero, refuse(fireoncev1.ErrorReason_ERROR_REASON_SERVER_BUSY, fmt.Sprintf(
			"the server makes as many lists, searches and counts as it may, and this call waited for %v at most; repeat it unchanged", scanWait))
	}
	if err != nil {
		return zero, err
	}
	defer hold.Release()
	return read()
}

// List implements store.Jobs. Jobs that are named by their ids are no scan.
func (s *scanStore) List(ctx context.Context, q store.JobQuery) (store.JobPage, error) {
	if len(q.Jobs) > 0 {
		return s.Store.List(ctx, q)
	}
	return scan(ctx, s, q.Project, func() (store.JobPage, error) { return s.Store.List(ctx, q) })
}

// Count implements store.Jobs.
func (s *scanStore) Count(ctx context.Context, q store.JobQuery, by store.GroupBy) (store.JobCounts, error) {
	return scan(ctx, s, q.Project, func() (store.JobCounts, error) { return s.Store.Count(ctx, q, by) })
}

// Troubles implements store.Incidents. That of one job is no scan.
func (s *scanStore) Troubles(ctx context.Context, q store.TroubleQuery) (store.TroublePage, error) {
	if !q.Job.IsZero() {
		return s.Store.Troubles(ctx, q)
	}
	return scan(ctx, s, q.Project, func() (store.TroublePage, error) { return s.Store.Troubles(ctx, q) })
}

// Unproven implements store.Incidents.
func (s *scanStore) Unproven(ctx context.Context, q store.TroubleQuery) (store.TroublePage, error) {
	return scan(ctx, s, q.Project, func() (store.TroublePage, error) { return s.Store.Unproven(ctx, q) })
}

// Stats implements store.Statistics.
func (s *scanStore) Stats(ctx context.Context, q store.StatsQuery) (store.Stats, error) {
	return scan(ctx, s, q.Project, func() (store.Stats, error) { return s.Store.Stats(ctx, q) })
}

// Series implements store.Statistics.
func (s *scanStore) Series(ctx context.Context, q store.SeriesQuery) (store.Series, error) {
	return scan(ctx, s, q.Project, func() (store.Series, error) { return s.Store.Series(ctx, q) })
}

// Events implements store.EventLog. Looks at the log's end and at one job's history are no
// scans.
func (s *scanStore) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	if !q.Job.IsZero() || q.After == math.MaxInt64 {
		return s.Store.Events(ctx, q)
	}
	return scan(ctx, s, q.Project, func() (store.EventPage, error) { return s.Store.Events(ctx, q) })
}

// nextEvents is Events for a stream that is under way: it waits until ctx ends.
func (s *scanStore) nextEvents(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	for {
		page, err := s.Events(ctx, q)
		if f := new(fault); ctx.Err() == nil && errors.As(err, &f) && f.reason == fireoncev1.ErrorReason_ERROR_REASON_SERVER_BUSY {
			continue // it has waited for scanWait
		}
		return page, err
	}
}

// ListSchedules implements store.Schedules.
func (s *scanStore) ListSchedules(ctx context.Context, q store.ScheduleQuery) (store.SchedulePage, error) {
	return scan(ctx, s, q.Project, func() (store.SchedulePage, error) { return s.Store.ListSchedules(ctx, q) })
}

// Firings implements store.Schedules. Looks at one firing and at the last ones are no scans.
func (s *scanStore) Firings(ctx context.Context, q store.FiringQuery) (store.FiringPage, error) {
	if q.Name != "" || q.Limit <= shownFirings && len(q.Outcomes) == 0 {
		return s.Store.Firings(ctx, q)
	}
	return scan(ctx, s, q.Project, func() (store.FiringPage, error) { return s.Store.Firings(ctx, q) })
}

// Items implements store.ScheduleItems. A look at the queue's first items is no scan.
func (s *scanStore) Items(ctx context.Context, q store.ItemQuery) (store.ItemPage, error) {
	if q.Limit <= shownFirings+1 && q.After.IsZero() {
		return s.Store.Items(ctx, q)
	}
	return scan(ctx, s, q.Project, func() (store.ItemPage, error) { return s.Store.Items(ctx, q) })
}

// PreviewStop implements store.Stops.
func (s *scanStore) PreviewStop(ctx context.Context, stop store.Stop, limit int) (store.StopPreview, error) {
	return scan(ctx, s, stop.Project, func() (store.StopPreview, error) { return s.Store.PreviewStop(ctx, stop, limit) })
}

// ListConnections implements store.Connections. Connections that are named are no scan.
func (s *scanStore) ListConnections(ctx context.Context, q store.ConnectionQuery) (store.ConnectionPage, error) {
	if len(q.Connections) > 0 {
		return s.Store.ListConnections(ctx, q)
	}
	return scan(ctx, s, q.Project, func() (store.ConnectionPage, error) { return s.Store.ListConnections(ctx, q) })
}

// ListSubscriptions implements store.Subscriptions.
func (s *scanStore) ListSubscriptions(ctx context.Context, project string, after job.ID, limit int) ([]store.Subscription, error) {
	return scan(ctx, s, project, func() ([]store.Subscription, error) { return s.Store.ListSubscriptions(ctx, project, after, limit) })
}

// ListAPIKeys implements store.APIKeys.
func (s *scanStore) ListAPIKeys(ctx context.Context, project, after string, limit int) ([]store.APIKey, error) {
	return scan(ctx, s, project, func() ([]store.APIKey, error) { return s.Store.ListAPIKeys(ctx, project, after, limit) })
}

// Projects implements store.APIKeys.
func (s *scanStore) Projects(ctx context.Context, after string, limit int) ([]store.Project, error) {
	return scan(ctx, s, "", func() ([]store.Project, error) { return s.Store.Projects(ctx, after, limit) })
}

// KeyUse implements store.Sealing.
func (s *scanStore) KeyUse(ctx context.Context) ([]store.KeyUse, error) {
	return scan(ctx, s, "", func() ([]store.KeyUse, error) { return s.Store.KeyUse(ctx) })
}

// CredentialsOfOthers implements store.Sealing.
func (s *scanStore) CredentialsOfOthers(ctx context.Context, keyID string, after store.SealedPlace, limit int) ([]store.SealedAt, error) {
	return scan(ctx, s, "", func() ([]store.SealedAt, error) { return s.Store.CredentialsOfOthers(ctx, keyID, after, limit) })
}
