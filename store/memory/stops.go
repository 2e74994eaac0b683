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
		var open int64
		for i := range t.stops {
			other := &t.stops[i]
			if !other.Open(t.now) {
				continue
			}
			if other.Same(&made) {
				if !made.Breaker() {
					other.Note = made.Note
				}
				return *other, nil
			}
			if other.Scope.Wide() == made.Scope.Wide() && other.Breaker() == made.Breaker() {
				open++
			}
		}
		if open >= made.MostOpen() {
			return made, fmt.Errorf("%w: %d stops have not ended", store.ErrQuota, open)
		}
		if made.Breaker() {
			t.replaceBreaker(&made)
		}
		if slices.ContainsFunc(t.stops, func(s store.Stop) bool { return s.ID == made.ID }) {
			return made, fmt.Errorf("%w: the id %s is taken", store.ErrIllegal, made.ID)
		}
		t.stops, created = append(t.stops, made), true
		return made, nil
	})
	return stop, created, err
}

// replaceBreaker removes the last breaker of a destination.
func (t *tx) replaceBreaker(made *store.Stop) {
	t.stops = slices.DeleteFunc(t.stops, func(last store.Stop) bool {
		of := last.Breaker() && last.Destination == made.Destination && last.Connection == made.Connection
		if of {
			made.Reopen(&last, t.now)
		}
		return of
	})
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
				t.endStop(stop)
			}
			return *stop, nil
		}
		return store.Stop{}, store.ErrNotFound
	})
}

// endStop makes due what stops have put off, repeats first: under a breaker's hold key, or all. What
// another stop covers is put off again.
func (t *tx) endStop(stop *store.Stop) {
	start := t.now
	for _, r := range t.active {
		j := r.job
		if !t.wakes(r) || stop.Breaker() && !isOf(stop, j.Connection, j.HoldKey) {
			continue
		}
		if j.State == job.Ambiguous {
			start = t.now.Add(store.StopHeadStart)
		}
		j.NextAt = t.now
		t.put(r, j)
	}
	for k, row := range t.rows {
		if !stop.Breaker() || isOf(stop, k.conn, k.hold) {
			row.stoppedUntil = start
		}
	}
	t.hint[store.WatchWork] = true
}

// wakes reports whether a job waits for the end of a stop, and may be made due.
func (t *tx) wakes(r *record) bool {
	j := &r.job
	return j.Blocked == job.Stopped && j.ClaimToken.IsZero() && j.NextAt.After(t.now) && j.WaitsFor.IsZero()
}

// setAside has claims leave the rows of a breaker's destination alone until a time.
func (t *tx) setAside(stop *store.Stop, until time.Time) {
	for k, row := range t.rows {
		if isOf(stop, k.conn, k.hold) {
			row.stoppedUntil = until
		}
	}
}

// isOf reports whether a breaker is of a connection's destination.
func isOf(breaker *store.Stop, conn job.ID, hold string) bool {
	return breaker.Connection == conn && breaker.Destination == hold
}

// TakeProbe implements store.Store.
func (s *Store) TakeProbe(ctx context.Context, p store.Probe) (bool, error) {
	return call(ctx, s, "take probe", func(t *tx) (bool, error) {
		i := slices.IndexFunc(t.stops, func(s store.Stop) bool { return s.ID == p.Breaker })
		return i >= 0 && t.stops[i].TakeProbe(p, t.now), nil
	})
}

// EndProbe implements store.Store.
func (s *Store) EndProbe(ctx context.Context, r store.ProbeResult) (store.Stop, bool, error) {
	counts := false
	stop, err := call(ctx, s, "end probe", func(t *tx) (store.Stop, error) {
		i := slices.IndexFunc(t.stops, func(s store.Stop) bool { return s.ID == r.Breaker })
		if i < 0 {
			return store.Stop{}, store.ErrNotFound
		}
		stop := &t.stops[i]
		switch counts = stop.EndProbe(r, t.now); {
		case !counts:
		case r.Verdict == store.ProbeWell:
			t.endStop(stop)
		default:
			t.awaitProbe(stop)
		}
		return *stop, nil
	})
	return stop, counts, err
}

// awaitProbe makes a repeat under a key due as the next probe.
func (t *tx) awaitProbe(stop *store.Stop) {
	var next *record
	for _, r := range t.active {
		j := &r.job
		if t.wakes(r) && j.State == job.Ambiguous && isOf(stop, j.Connection, j.HoldKey) && (next == nil || j.NextAt.Before(next.job.NextAt)) {
			next = r
		}
	}
	if next != nil {
		j := next.job
		j.NextAt = stop.Repeats()
		t.put(next, j)
	}
	t.setAside(stop, stop.Rows())
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
