package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// CreateStop implements store.Store.
func (s *Store) CreateStop(ctx context.Context, n store.NewStop) (store.Stop, bool, error) {
	created := false
	stop, err := call(ctx, s, "create stop", func(t *tx) (store.Stop, error) {
		made, err := n.At(t.now)
		if err != nil {
			return made, err
		}
		if made.Scope == store.StopConnection {
			if c, ok := t.conns[made.Connection]; !ok || c.Project != made.Project || !c.Deleted.IsZero() {
				return made, store.ErrNotFound
			}
		}
		t.stops = slices.DeleteFunc(t.stops, func(s store.Stop) bool { return stopForgotten(&s, t.now) })
		open, most := 0, store.MaxNarrowStops
		if made.Scope.Wide() {
			most = store.MaxWideStops
		}
		for i := range t.stops {
			other := &t.stops[i]
			if !other.Open(t.now) {
				continue
			}
			if other.Same(&made) {
				other.Note = made.Note
				return *other, nil
			}
			if other.Scope.Wide() == made.Scope.Wide() {
				open++
			}
		}
		if open >= most {
			return made, fmt.Errorf("%w: %d stops have not ended", store.ErrQuota, open)
		}
		if slices.ContainsFunc(t.stops, func(s store.Stop) bool { return s.ID == made.ID }) {
			return made, fmt.Errorf("%w: the id %s is taken", store.ErrIllegal, made.ID)
		}
		t.stops, created = append(t.stops, made), true
		return made, nil
	})
	return stop, created, err
}

// stopForgotten reports whether a stop has ended so long ago that it is listed no longer.
func stopForgotten(s *store.Stop, now time.Time) bool {
	return !s.Open(now) && s.Over().Before(now.Add(-store.StopsKept))
}

// EndStop implements store.Store.
func (s *Store) EndStop(ctx context.Context, project string, id job.ID, actor string) (store.Stop, error) {
	return call(ctx, s, "end stop", func(t *tx) (store.Stop, error) {
		for i := range t.stops {
			stop := &t.stops[i]
			if stop.ID != id || project != "" && stop.Project != project {
				continue
			}
			if stop.Open(t.now) {
				stop.Ended, stop.EndedBy = t.now, actor
				t.wakeStopped()
			}
			return *stop, nil
		}
		return store.Stop{}, store.ErrNotFound
	})
}

// wakeStopped makes due what stops have put off, repeats first. What another stop covers is put
// off again.
func (t *tx) wakeStopped() {
	start := t.now
	for _, r := range t.active {
		j := r.job
		if j.Blocked != job.Stopped || !j.ClaimToken.IsZero() || !j.NextAt.After(t.now) || !j.WaitsFor.IsZero() {
			continue
		}
		if j.State == job.Ambiguous {
			start = t.now.Add(store.StopHeadStart)
		}
		j.NextAt = t.now
		t.put(r, j)
	}
	for _, row := range t.rows {
		row.stoppedUntil = start
	}
	t.hint[store.WatchWork] = true
}

// stopOver returns the stop in force over a job.
func (t *tx) stopOver(s *job.Spec) *store.Stop {
	return store.StopOver(t.stops, store.StopTargetOf(s, t.conns[s.Connection].Connector), t.now)
}

// windowHeld reports whether the window of a job is over and begins again.
func (t *tx) windowHeld(j *job.Job) bool {
	return !j.StartDeadline.After(t.now) && store.WindowHeld(t.stops, store.StopTargetOf(&j.Spec, t.conns[j.Connection].Connector), j)
}

// ListStops implements store.Store.
func (s *Store) ListStops(ctx context.Context, q store.StopQuery) (store.StopPage, error) {
	return call(ctx, s, "list stops", func(t *tx) (store.StopPage, error) {
		list := slices.Clone(t.stops)
		slices.SortFunc(list, func(a, b store.Stop) int {
			return -cmp.Or(a.Created.Compare(b.Created), slices.Compare(a.ID[:], b.ID[:]))
		})
		if !q.After.IsZero() {
			i := slices.IndexFunc(list, func(s store.Stop) bool { return s.ID == q.After })
			if i < 0 {
				return store.StopPage{}, store.ErrNotFound
			}
			list = list[i+1:]
		}
		list = slices.DeleteFunc(list, func(s store.Stop) bool {
			return q.Project != "" && s.Project != "" && s.Project != q.Project || !q.Ended && !s.Open(t.now)
		})
		n := min(len(list), rules.Page(q.Limit))
		return store.StopPage{Stops: list[:n:n], More: len(list) > n}, nil
	})
}

// StopsOver implements store.Store.
func (s *Store) StopsOver(ctx context.Context, targets []store.StopTarget) ([]*store.Stop, error) {
	return call(ctx, s, "stops over", func(t *tx) ([]*store.Stop, error) {
		out := make([]*store.Stop, len(targets))
		for i := range targets {
			out[i] = store.StopOver(t.stops, targets[i], t.now)
		}
		return out, nil
	})
}

// PreviewStop implements store.Store.
func (s *Store) PreviewStop(ctx context.Context, stop store.Stop, limit int) (store.StopPreview, error) {
	return call(ctx, s, "preview stop", func(t *tx) (store.StopPreview, error) {
		end := stop.PreviewEnd(t.now)
		var out store.StopPreview
		var over []*record
		for _, r := range t.active {
			j := &r.job
			target := store.StopTargetOf(&j.Spec, t.conns[j.Connection].Connector)
			switch {
			case !stop.Covers(&target):
			case j.State == job.Sending:
				out.UnderWay = min(out.UnderWay+1, store.StopCounted)
			case j.State.Runnable():
				if j.WaitsFor.IsZero() {
					out.Waiting = min(out.Waiting+1, store.StopCounted)
				}
				if j.StartDeadline.After(t.now) && !j.StartDeadline.After(end) {
					over = append(over, r)
				}
			case j.State == job.Ambiguous && j.Class == job.Keyed && j.CancelAsked.IsZero():
				out.Repeats = min(out.Repeats+1, store.StopCounted)
				if len(out.KeyEnds) < store.MaxBatch {
					out.KeyEnds = append(out.KeyEnds, r.snapshot(t.now))
				}
			}
		}
		slices.SortStableFunc(over, byDeadline)
		out.Windows = min(int64(len(over)), store.StopCounted)
		for _, r := range over[:min(len(over), rules.Page(limit))] {
			out.WindowEnds = append(out.WindowEnds, r.snapshot(t.now))
		}
		return out, nil
	})
}
