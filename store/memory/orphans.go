package memory

import (
	"context"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Dismiss treats a worker as gone, as after the end of its process or its session.
func (s *Store) Dismiss(worker string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.enlisted, worker)
}

// Orphans implements store.Store.
func (s *Store) Orphans(ctx context.Context, after store.Place, limit int) ([]store.Leased, error) {
	return call(ctx, s, "orphans", func(t *tx) ([]store.Leased, error) {
		if t.suspension().Suspended() {
			return nil, nil
		}
		var list []*record
		for _, r := range t.active {
			if isOrphan(r.job) && !t.enlisted[r.job.Worker] && byPlace(orphanPlace(r), after) > 0 {
				list = append(list, r)
			}
		}
		slices.SortFunc(list, func(a, b *record) int { return byPlace(orphanPlace(a), orphanPlace(b)) })
		var out []store.Leased
		for _, r := range list[:min(len(list), rules.Page(limit))] {
			out = append(out, t.leased(r))
		}
		return out, nil
	})
}

// isOrphan reports whether a job is an orphan if its worker is gone.
func isOrphan(j job.Job) bool {
	if j.State == job.Claimed {
		return j.Claims == 0
	}
	return j.State == job.Sending && j.Class == job.Keyed && j.CancelAsked.IsZero()
}

// orphanPlace returns the place of an orphan in the order of Orphans.
func orphanPlace(r *record) store.Place { return store.Place{At: r.job.NextAt, ID: r.job.ID} }

func byPlace(a, b store.Place) int { return store.ByScheduledAsc.Compare(a, b) }
