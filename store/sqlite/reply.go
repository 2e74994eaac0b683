package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/gen/litedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a job that replies has waits_for set until the job that it
// replies to has SUCCEEDED, whatever becomes of either meanwhile. Who waits is
// in no ready row and in no index that a claim reads.

// awaitReply lets a new job wait for the one that it replies to.
func (t *tx) awaitReply(ctx context.Context, j litedb.Job, st *litedb.JobState) error {
	if j.ReplyTo == nil {
		return nil
	}
	other, err := t.q.GetState(ctx, j.ReplyTo)
	if errors.Is(err, sql.ErrNoRows) || err == nil && other.Project != j.Project {
		return fmt.Errorf("%w: %s", store.ErrReplyTo, toID(j.ReplyTo))
	}
	if err != nil {
		return fmt.Errorf("job to reply to: %w", err)
	}
	if job.State(other.State) != job.Succeeded {
		st.WaitsFor = j.ReplyTo
	}
	return nil
}

// letGo lets those start that waited for a job.
func (t *tx) letGo(ctx context.Context, id []byte) error {
	if some, err := t.anyWaits(ctx); err != nil || !some {
		return err
	}
	rows, err := t.q.WaitingRows(ctx, id)
	if err != nil {
		return fmt.Errorf("waiting jobs: %w", err)
	}
	if err := t.q.LetGo(ctx, id); err != nil {
		return fmt.Errorf("waiting jobs: %w", err)
	}
	for _, r := range rows {
		err := t.makeReady(ctx, litedb.JobState{ConnectionID: r.ConnectionID, HoldKey: r.HoldKey, NextAt: someMicros(r.NextAt)})
		if err != nil {
			return err
		}
	}
	return nil
}

// leased adds what preparing a job needs beside its own rows.
func (v view) leased(ctx context.Context, snap job.Snapshot, conn store.Connection) (store.Leased, error) {
	l := store.Leased{Snapshot: snap, Connection: conn}
	if snap.ReplyTo.IsZero() {
		return l, nil
	}
	e, err := v.q.GetEffect(ctx, fromID(snap.ReplyTo))
	if errors.Is(err, sql.ErrNoRows) {
		return l, nil
	}
	l.ReplyTo = e.ExternalID
	return l, err
}
