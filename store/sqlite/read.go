package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

func orNotFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrNotFound
	}
	return err
}

// snapshot reads a whole job.
func (v view) snapshot(ctx context.Context, id []byte) (job.Snapshot, error) {
	row, err := v.q.GetJob(ctx, id)
	if err != nil {
		return job.Snapshot{}, orNotFound(err)
	}
	return v.complete(ctx, row.Job, row.JobState)
}

// Snapshots implements sqlstore.Reading.
func (v view) Snapshots(ctx context.Context, ids []job.ID, payload bool) ([]job.Snapshot, error) {
	read := v.snapshot
	if !payload {
		read = v.withoutPayload
	}
	out := make([]job.Snapshot, 0, len(ids))
	for _, id := range ids {
		snap, err := read(ctx, fromID(id))
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return nil, err
		default:
			out = append(out, snap)
		}
	}
	return out, nil
}

func (v view) withoutPayload(ctx context.Context, id []byte) (job.Snapshot, error) {
	row, err := v.q.ListedJob(ctx, id)
	if err != nil {
		return job.Snapshot{}, orNotFound(err)
	}
	st, err := v.q.GetState(ctx, id)
	if err != nil {
		return job.Snapshot{}, err
	}
	return v.complete(ctx, sqlitedb.Job(row), st)
}

// newSnapshot returns a job without attempts and proofs.
func newSnapshot(j sqlitedb.Job, st sqlitedb.JobState, now int64) (job.Snapshot, error) {
	spec, err := toSpec(j, st)
	if err != nil {
		return job.Snapshot{}, err
	}
	return job.Snapshot{Job: job.Job{Spec: spec, Status: toStatus(st)}, Now: fromMicros(now)}, nil
}

// complete adds to a job what other tables have. Its state shows that most jobs have nothing
// there.
func (v view) complete(ctx context.Context, j sqlitedb.Job, st sqlitedb.JobState) (job.Snapshot, error) {
	h := &cachedJob{job: j, st: st}
	if st.Attempt > 0 {
		var err error
		if h.attempts, err = v.attemptViews(ctx, st.JobID, toView(attemptOf(st))); err != nil {
			return job.Snapshot{}, err
		}
	}
	return v.completed(ctx, h, nil)
}

// completed is complete for callers that have the attempts, and perhaps the effect.
func (v view) completed(ctx context.Context, h *cachedJob, effect *sqlitedb.PutEffectParams) (job.Snapshot, error) {
	st := h.st
	snap, err := newSnapshot(h.job, st, v.now)
	if err != nil {
		return snap, err
	}
	h.attempts.Complete(&snap)
	switch {
	case snap.State == job.Succeeded && effect != nil:
		snap.Effect = toEffect(effectOf(*effect))
	case snap.State == job.Succeeded && st.EffectAttempt.Valid:
		snap.Effect = ownEffect(st)
	case snap.State == job.Succeeded:
		e, err := v.q.GetEffect(ctx, st.JobID)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return snap, fmt.Errorf("effect: %w", err)
		}
		if err == nil {
			snap.Effect = toEffect(e)
		}
	}
	if st.ResolutionID.Valid {
		r, err := v.q.GetResolution(ctx, st.ResolutionID.Int64)
		if err != nil {
			return snap, fmt.Errorf("resolution: %w", err)
		}
		snap.Resolution = toResolution(r)
	}
	return snap, nil
}

// attemptViews returns the parts of a job's attempts that the rules read. Most jobs have only
// the newest attempt, which is in their row.
func (v view) attemptViews(ctx context.Context, id []byte, newest rules.AttemptView) (rules.AttemptViews, error) {
	if newest.Number == 1 {
		return rules.AttemptViews{newest}, nil
	}
	rows, err := v.q.AttemptViews(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("attempts: %w", err)
	}
	return append(toViews(rows), newest), nil
}

// attempt reads an attempt of a job; sql.ErrNoRows: it was never armed.
func (v view) attempt(ctx context.Context, id []byte, number int64) (sqlitedb.Attempt, error) {
	newest, err := v.q.LatestAttempt(ctx, id)
	if err == nil && newest.Number != number {
		return v.q.GetAttempt(ctx, sqlitedb.GetAttemptParams{JobID: id, Number: number})
	}
	return sqlitedb.Attempt(newest), err
}

// page bounds a limit; none means the most there is.
func page(limit int) int64 { return int64(rules.Page(limit)) }
