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

// Rules of this file: a job that replies has waits_for set until the job that it replies to
// has SUCCEEDED, whatever happens to either meanwhile. If that job ends otherwise,
// predecessor_end is its state until it goes on. Waiting jobs are in no runnable row and in
// no index that a claim reads.

// awaitReply returns a new job as it waits for the one that it replies to, if it does.
func (t *tx) awaitReply(ctx context.Context, j job.Job) (job.Job, error) {
	if j.ReplyTo.IsZero() {
		return j, nil
	}
	other, err := t.q.GetState(ctx, fromID(j.ReplyTo))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return j, fmt.Errorf("job to reply to: %w", err)
	}
	waiting, err := t.q.CountWaiting(ctx, fromID(j.ReplyTo))
	if err != nil {
		return j, fmt.Errorf("waiting jobs: %w", err)
	}
	return rules.Await(j, rules.Predecessor{Project: other.Project, State: job.State(other.State), Waiting: waiting})
}

// notifyReplies updates the jobs that wait for a job that has ended, or that goes on after
// its end. This is no change of theirs: no version, no event.
func (t *tx) notifyReplies(ctx context.Context, id []byte, state job.State) error {
	some, err := t.anyWaits(ctx)
	switch {
	case err != nil || !some:
		return err
	case state == job.Succeeded:
		return t.releaseReplies(ctx, id)
	}
	err = t.q.SetPredecessorEnd(ctx, sqlitedb.SetPredecessorEndParams{PredecessorEnd: int64(state.BadEnd()), WaitsFor: id})
	if err != nil {
		return fmt.Errorf("waiting jobs: %w", err)
	}
	t.hint[store.WatchWork] = t.hint[store.WatchWork] || state.BadEnd() != 0
	return nil
}

// releaseReplies makes the jobs that waited for a job runnable.
func (t *tx) releaseReplies(ctx context.Context, id []byte) error {
	rows, err := t.q.WaitingRows(ctx, id)
	if err != nil {
		return fmt.Errorf("waiting jobs: %w", err)
	}
	replies, err := t.q.WaitingJobs(ctx, id)
	if err != nil {
		return fmt.Errorf("waiting jobs: %w", err)
	}
	for _, r := range replies {
		free := rules.ReplyAfter(toReply(r), job.Succeeded, fromMicros(t.now))
		err := t.q.ReleaseReply(ctx, sqlitedb.ReleaseReplyParams{JobID: r.JobID, StartDeadline: free.StartDeadline.UnixMicro()})
		if err != nil {
			return fmt.Errorf("waiting jobs: %w", err)
		}
	}
	for _, r := range rows {
		err := t.makeRunnable(ctx, sqlitedb.JobState{ConnectionID: r.ConnectionID, HoldKey: r.HoldKey, NextAt: someMicros(r.NextAt)})
		if err != nil {
			return err
		}
	}
	return nil
}

// leased adds what preparing a job needs beyond its own rows.
func (v view) leased(ctx context.Context, snap job.Snapshot, conn store.Connection) (store.Leased, error) {
	l := store.Leased{Snapshot: snap, Connection: conn}
	answered, err := v.shared().Answered(ctx, []job.ID{snap.ReplyTo})
	l.ReplyTo = answered[snap.ReplyTo]
	return l, err
}
