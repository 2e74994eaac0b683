package memory

import (
	"context"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/rules"
)

// Overdue implements store.Store.
func (s *Store) Overdue(ctx context.Context, limit int) ([]job.Snapshot, error) {
	return call(ctx, s, "overdue", func(t *tx) ([]job.Snapshot, error) {
		var ended, over, left []*record
		if t.suspect.Suspends {
			return nil, nil
		}
		for _, r := range t.active {
			j := &r.job
			shut := t.meta.Quarantined != ""
			if j.State.InFlight() && !j.NextAt.After(t.now) && (!shut || j.State == job.Sending) {
				ended = append(ended, r)
			}
			if windowed(j.State) && !j.StartDeadline.After(t.now) && !shut {
				over = append(over, r)
			}
			if leftBehind(*j) && !shut {
				left = append(left, r)
			}
		}
		slices.SortStableFunc(ended, byDue)
		slices.SortStableFunc(over, byDeadline)
		slices.SortStableFunc(left, func(a, b *record) int { return a.job.Updated.Compare(b.job.Updated) })
		var out []job.Snapshot
		// Neither kind may delay the other.
		for _, r := range rules.Interleave(rules.Page(limit), ended, over, left) {
			snap := r.snapshot(t.now)
			snap.WindowHeld = windowed(snap.State) && t.windowHeld(&snap.Job)
			out = append(out, snap)
		}
		return out, nil
	})
}

// leftBehind reports whether what a job waits for can no longer happen.
func leftBehind(j job.Job) bool { return j.State.Runnable() && j.PredecessorEnd != 0 }

// windowed reports whether a job in a state may still miss its window.
func windowed(s job.State) bool { return s.Runnable() || s == job.Claimed }

func byDeadline(a, b *record) int { return a.job.StartDeadline.Compare(b.job.StartDeadline) }

// Doubtful implements store.Store.
func (s *Store) Doubtful(ctx context.Context, since time.Time, limit int) ([]job.Snapshot, error) {
	return call(ctx, s, "doubtful", func(t *tx) ([]job.Snapshot, error) {
		var list []*record
		for _, r := range t.active {
			j := &r.job
			due := j.State == job.Claimed || !j.NextAt.After(t.now)
			if windowed(j.State) && !j.IsNotice() && due && j.StartDeadline.After(since) {
				list = append(list, r)
			}
		}
		slices.SortStableFunc(list, byDeadline)
		var out []job.Snapshot
		for _, r := range list[:min(len(list), rules.Page(limit))] {
			out = append(out, r.snapshot(t.now))
		}
		return out, nil
	})
}

// NextDue implements store.Store. A quarantined store claims nothing and ends no window, so
// neither counts.
func (s *Store) NextDue(ctx context.Context, limit time.Duration) (time.Duration, error) {
	return call(ctx, s, "next due", func(t *tx) (time.Duration, error) {
		if t.suspension().Suspended() {
			return limit, nil
		}
		next := limit
		at := func(when time.Time) { next = min(next, max(0, when.Sub(t.now))) }
		for _, r := range t.active {
			if !r.job.State.Runnable() {
				at(r.job.NextAt)
			}
			if windowed(r.job.State) {
				at(r.job.StartDeadline)
			}
			if leftBehind(r.job) {
				at(t.now)
			}
		}
		for _, q := range t.queues() {
			if when, ok := t.runnableAt(q); ok {
				at(when)
			}
		}
		return next, nil
	})
}
