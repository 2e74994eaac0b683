package memory

import (
	"context"
	"maps"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// find returns the record that a ref names.
func (t *tx) find(ref store.Ref) (*record, error) {
	r, ok := t.jobs[ref.ID]
	if ref.Key != "" {
		bound := key{ref.Project, ref.Key}
		if err := t.removed(bound); err != nil {
			return nil, err
		}
		r, ok = t.keys[bound]
	}
	if !ok || ref.Project != "" && r.job.Project != ref.Project {
		return nil, store.ErrNotFound
	}
	return r, nil
}

// Job implements store.Store.
func (s *Store) Job(ctx context.Context, ref store.Ref) (job.Snapshot, error) {
	return call(ctx, s, "job", func(t *tx) (job.Snapshot, error) {
		r, err := t.find(ref)
		if err != nil {
			return job.Snapshot{}, err
		}
		return r.snapshot(t.now), nil
	})
}

// JobNames implements store.Store.
func (s *Store) JobNames(ctx context.Context, project string, ids []job.ID) (map[job.ID]store.JobName, error) {
	return call(ctx, s, "job names", func(t *tx) (map[job.ID]store.JobName, error) {
		out := make(map[job.ID]store.JobName, len(ids))
		for _, id := range ids {
			if r, err := t.find(store.Ref{Project: project, ID: id}); err == nil {
				out[id] = store.JobName{Key: r.job.Key, Labels: maps.Clone(r.job.Labels), Callback: r.callback}
			}
		}
		return out, nil
	})
}

// Attempts implements store.Store.
func (s *Store) Attempts(ctx context.Context, ref store.Ref, after, limit int) ([]job.Attempt, error) {
	return call(ctx, s, "attempts", func(t *tx) ([]job.Attempt, error) {
		r, err := t.find(ref)
		if err != nil {
			return nil, err
		}
		rest := r.attempts[min(max(0, after), len(r.attempts)):]
		out := make([]job.Attempt, min(len(rest), rules.Page(limit)))
		for i := range out {
			out[i] = rest[i].public()
		}
		return out, nil
	})
}

// Observations implements store.Store.
func (s *Store) Observations(ctx context.Context, ref store.Ref, before, limit int) ([]job.Observation, error) {
	return call(ctx, s, "observations", func(t *tx) ([]job.Observation, error) {
		r, err := t.find(ref)
		if err != nil {
			return nil, err
		}
		out := slices.Clone(r.looks)
		for i := range out {
			out[i].Number = i + 1
		}
		if before > 0 {
			out = out[:min(len(out), before-1)]
		}
		slices.Reverse(out)
		return out[:min(len(out), rules.Page(limit))], nil
	})
}
