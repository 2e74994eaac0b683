package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/column"
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
	other, err := t.q.Predecessor(ctx, j.ReplyTo)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return j, fmt.Errorf("job to reply to: %w", err)
	}
	return rules.Await(j, rules.Predecessor(other))
}

// notifyReplies updates the jobs that wait for a job that has ended, or that goes on after
// its end. This is no change of theirs: no version, no event.
func (t *tx) notifyReplies(ctx context.Context, id job.ID, state job.State) error {
	some, err := t.anyWaits(ctx)
	switch {
	case err != nil || !some:
		return err
	case state == job.Succeeded:
		return t.releaseReplies(ctx, id)
	}
	err = t.q.SetPredecessorEnd(ctx, sqlitedb.SetPredecessorEndParams{PredecessorEnd: state.BadEnd(), WaitsFor: column.OptionalID(id)})
	if err != nil {
		return fmt.Errorf("waiting jobs: %w", err)
	}
	t.hint[store.WatchWork] = t.hint[store.WatchWork] || state.BadEnd() != 0
	return nil
}

// releaseReplies makes the jobs that waited for a job runnable.
func (t *tx) releaseReplies(ctx context.Context, id job.ID) error {
	replies, err := t.q.WaitingJobs(ctx, column.OptionalID(id))
	if err != nil {
		return fmt.Errorf("waiting jobs: %w", err)
	}
	for _, r := range replies {
		free := rules.ReplyAfter(job.Job{
			Spec:   job.Spec{Connection: r.ConnectionID, HoldKey: r.HoldKey, StartWindow: r.StartWindow},
			Status: job.Status{State: r.State, ScheduleTime: r.ScheduleTime, StartDeadline: r.StartDeadline, NextAt: r.NextAt},
		}, job.Succeeded, t.now)
		err := t.w.sq.NotifyReply(ctx, shareddb.NotifyReplyParams{JobID: r.JobID, StartDeadline: free.StartDeadline})
		if err != nil {
			return fmt.Errorf("waiting jobs: %w", err)
		}
		if !r.State.Runnable() {
			continue
		}
		if err := t.makeRunnable(ctx, &free); err != nil {
			return err
		}
	}
	return nil
}

// leased adds what preparing a job needs beyond its own rows.
func (t *tx) leased(ctx context.Context, snap job.Snapshot, conn store.Connection) (store.Leased, error) {
	l := store.Leased{Snapshot: snap, Connection: conn}
	answered, err := t.shared().Answered(ctx, []job.ID{snap.ReplyTo})
	l.ReplyTo = answered[snap.ReplyTo]
	return l, err
}
