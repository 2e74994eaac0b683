package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Job implements store.Store.
func (s *Store) Job(ctx context.Context, ref store.Ref) (job.Snapshot, error) {
	return readOne(ctx, s, "job", func(ctx context.Context, v view) (job.Snapshot, error) {
		id, err := v.resolve(ctx, ref)
		if err != nil {
			return job.Snapshot{}, err
		}
		snap, err := v.snapshot(ctx, id)
		if errors.Is(err, store.ErrNotFound) && ref.Key != "" {
			return job.Snapshot{}, &store.RemovedError{Job: id}
		}
		if err == nil && ref.Project != "" && snap.Project != ref.Project {
			return job.Snapshot{}, store.ErrNotFound
		}
		return snap, err
	})
}

// resolve returns the id that a ref names, which may not exist. A key stays bound until it is
// forgotten, after its job, so the result needs no transaction with the next read.
func (v view) resolve(ctx context.Context, ref store.Ref) (job.ID, error) {
	if ref.Key == "" {
		return ref.ID, nil
	}
	id, err := v.q.KeyOwner(ctx, digestOf(ref.Project, ref.Key))
	return id, err
}

// own resolves a ref and checks that the job belongs to the project, which a job never
// changes.
func (v view) own(ctx context.Context, ref store.Ref) (job.ID, error) {
	id, err := v.resolve(ctx, ref)
	if err != nil {
		return id, err
	}
	project, err := v.q.ProjectOf(ctx, id)
	if err == nil && ref.Project != "" && project != ref.Project {
		return id, store.ErrNotFound
	}
	return id, err
}

// Attempts implements store.Store.
func (s *Store) Attempts(ctx context.Context, ref store.Ref, after, limit int) ([]job.Attempt, error) {
	return readOne(ctx, s, "attempts", func(ctx context.Context, v view) ([]job.Attempt, error) {
		id, err := v.own(ctx, ref)
		if err != nil {
			return nil, err
		}
		rows, err := v.q.ListAttempts(ctx, pgdb.ListAttemptsParams{
			JobID: id, After: after, MaxRows: int32(rules.Page(limit)),
		})
		if err != nil {
			return nil, err
		}
		out := make([]job.Attempt, len(rows))
		for i, a := range rows {
			if out[i], err = toAttempt(a); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}

// Observations implements store.Store.
func (s *Store) Observations(ctx context.Context, ref store.Ref, before, limit int) ([]job.Observation, error) {
	return read(ctx, s, "observations", func(ctx context.Context, v view) ([]job.Observation, error) {
		id, err := v.own(ctx, ref)
		if err != nil {
			return nil, err
		}
		count, err := v.q.CountObservations(ctx, id)
		if err != nil {
			return nil, err
		}
		newest := count
		if before > 0 {
			newest = min(newest, int64(before)-1)
		}
		rows, err := v.q.ListObservations(ctx, pgdb.ListObservationsParams{
			JobID: id, MaxRows: int32(rules.Page(limit)), Skip: int32(count - newest),
		})
		if err != nil {
			return nil, err
		}
		out := make([]job.Observation, len(rows))
		for i, o := range rows {
			out[i] = toObservation(o)
			out[i].Number = int(newest) - i
		}
		return out, nil
	})
}

// Snapshots implements sqlstore.Reading.
func (v view) Snapshots(ctx context.Context, ids []job.ID, payload bool) ([]job.Snapshot, error) {
	all, err := v.snapshots(ctx, ids, payload)
	if err != nil {
		return nil, err
	}
	var out []job.Snapshot
	for _, id := range ids {
		if s, ok := all[id]; ok {
			out = append(out, s)
		}
	}
	return out, nil
}

// snapshots reads whole jobs in one statement, with or without their payloads. Missing jobs
// are left out.
func (v view) snapshots(ctx context.Context, ids []job.ID, payload bool) (map[job.ID]job.Snapshot, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := v.q.Snapshots(ctx, pgdb.SnapshotsParams{WithPayload: payload, Ids: ids})
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	return v.whole(rows)
}

// fill reads the parts of jobs that their locked rows do not have.
func (t *tx) fill(ctx context.Context, ids []job.ID, got func(job.ID, job.Snapshot)) error {
	snaps, err := t.view().snapshots(ctx, distinct(ids), false)
	if err != nil {
		return err
	}
	for id, s := range snaps {
		got(id, s)
	}
	return nil
}

func (v view) whole(rows []pgdb.SnapshotsRow) (map[job.ID]job.Snapshot, error) {
	out := make(map[job.ID]job.Snapshot, len(rows))
	for _, r := range rows {
		s, err := toSnapshot(r, v.at(r.Now))
		if err != nil {
			return nil, err
		}
		out[s.ID] = s
	}
	return out, nil
}

// snapshot reads a whole job.
func (v view) snapshot(ctx context.Context, id job.ID) (job.Snapshot, error) {
	all, err := v.snapshots(ctx, []job.ID{id}, true)
	if err != nil {
		return job.Snapshot{}, err
	}
	s, ok := all[id]
	if !ok {
		return job.Snapshot{}, store.ErrNotFound
	}
	return s, nil
}
