package memory

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Count implements store.Store.
func (s *Store) Count(ctx context.Context, q store.JobQuery, by store.GroupBy) (store.JobCounts, error) {
	return call(ctx, s, "count", func(t *tx) (store.JobCounts, error) {
		if by < store.ByNothing || by > store.ByErrorKind {
			return store.JobCounts{}, fmt.Errorf("%w: group by %d", store.ErrIllegal, by)
		}
		out := store.JobCounts{Now: t.now, States: make(map[job.State]store.StateCount)}
		for _, state := range q.CountedStates() {
			out.States[state] = store.StateCount{}
		}
		groups := make(map[store.JobGroup]int64)
		for _, r := range t.all {
			if !t.selected(q, r) {
				continue
			}
			n := out.States[r.job.State]
			n.Count++
			out.States[r.job.State] = n
			var g store.JobGroup
			switch by {
			case store.ByNothing:
				continue
			case store.ByConnection:
				g.Connection = r.job.Connection
			case store.ByClass:
				g.Class = r.job.Class
			case store.ByErrorKind:
				g.ErrorKind = errorKind(r)
			}
			groups[g]++
		}
		for g, n := range groups {
			g.Count = n
			out.Groups = append(out.Groups, g)
		}
		out.Groups = store.LargestGroups(out.Groups)
		return out, nil
	})
}
