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
	"github.com/fireonce/fireonce/store/rules"
)

// Create implements store.Store. The key is looked up in the same transaction
// that binds it, by the only writer there is.
func (s *Store) Create(ctx context.Context, items []store.NewJob) ([]store.Created, error) {
	return batch(ctx, s, "create", items, (*tx).create, func(err error) store.Created { return store.Created{Err: err} })
}

func (t *tx) create(ctx context.Context, n store.NewJob) (store.Created, error) {
	conn, err := t.getConnection(ctx, n.Spec.Connection)
	none := errors.Is(err, store.ErrNotFound)
	if err != nil && !none {
		return store.Created{}, err
	}
	made, unfit := rules.NewJob(&n, conn.Class, fromMicros(t.now))
	if err := rules.MayCreate(&n.Spec, conn.Project, none || !conn.Deleted.IsZero()); err != nil {
		unfit = err
	}
	if unfit != nil || !n.Spec.ReplyTo.IsZero() || n.Spec.OwnEffectKey != "" {
		// It may be refused. A bound key is reported first, and before the first write.
		if bound, ok, err := t.bound(ctx, n.Spec); ok || err != nil {
			return bound, err
		}
	}
	if unfit != nil {
		return store.Created{}, unfit
	}
	if err := t.freeEffectKey(ctx, n.EffectKey); err != nil {
		return store.Created{}, err
	}
	if made, err = t.awaitReply(ctx, made); err != nil {
		return store.Created{}, err
	}
	j, st := newRows(made)
	took, err := t.bind(ctx, j, n)
	if err != nil {
		return store.Created{}, err
	}
	if !took {
		bound, _, err := t.bound(ctx, n.Spec)
		return bound, err
	}
	woken := t.hint[store.WatchWork]
	if err := t.insertJob(ctx, j, st, n); err != nil {
		return store.Created{}, err
	}
	snap := job.Snapshot{Job: made, Now: made.Created}
	started, err := t.start(ctx, st, n.Start)
	if started != nil {
		t.hint[store.WatchWork] = woken // no worker has to be woken for it
	}
	return store.Created{Snapshot: snap, Started: started, Created: true}, err
}

// bind binds a job's key, and its own effect key if it has one; false: the key is bound.
func (t *tx) bind(ctx context.Context, j sqlitedb.Job, n store.NewJob) (took bool, err error) {
	rows, err := t.q.InsertKey(ctx, sqlitedb.InsertKeyParams{Digest: digestOf(j.Project, j.IdemKey), JobID: j.ID})
	if err != nil {
		return false, fmt.Errorf("key: %w", err)
	}
	if rows == 0 || n.Spec.OwnEffectKey == "" {
		return rows > 0, nil
	}
	if _, err := t.w.sq.TakeEffectKey(ctx, shareddb.TakeEffectKeyParams{Digest: n.EffectKey[:], JobID: n.Spec.ID}); err != nil {
		return false, fmt.Errorf("effect key: %w", err)
	}
	return true, nil
}

// start claims a job that has just been stored, if it is the next of its runnable row.
func (t *tx) start(ctx context.Context, st sqlitedb.JobState, p *store.ClaimParams) (*store.Leased, error) {
	if p == nil || st.WaitsFor != nil || st.NextAt.Int64 > t.now {
		return nil, nil
	}
	s, err := t.suspension(ctx)
	if err != nil || s.Suspended() {
		return nil, err
	}
	row, err := t.runnableRow(ctx, st.ConnectionID, st.HoldKey)
	if err != nil {
		return nil, fmt.Errorf("runnable row: %w", err)
	}
	if !row.RunnableAt.Valid || row.RunnableAt.Int64 > t.now {
		return nil, nil
	}
	first, err := t.q.DueJobs(ctx, sqlitedb.DueJobsParams{
		ConnectionID: st.ConnectionID, HoldKey: st.HoldKey, Now: someMicros(t.now), MaxRows: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("due jobs: %w", err)
	}
	if len(first) == 0 || toID(first[0].ID) != toID(st.JobID) {
		return nil, nil
	}
	c := &claimer{tx: t, p: *p, left: 1, conns: make(map[job.ID]*claimed)}
	if _, err := c.serve(ctx, sqlitedb.RunnableRowsRow{ConnectionID: st.ConnectionID, HoldKey: st.HoldKey}, 1); err != nil || len(c.out) == 0 {
		return nil, err
	}
	return &c.out[0], nil
}

// bound returns the job to which the key is bound, if it is.
func (t *tx) bound(ctx context.Context, s job.Spec) (store.Created, bool, error) {
	owner, err := t.w.sq.KeyOwner(ctx, digestOf(s.Project, s.Key))
	if errors.Is(err, sql.ErrNoRows) {
		return store.Created{}, false, nil
	}
	if err != nil {
		return store.Created{}, false, err
	}
	snap, err := t.view().snapshot(ctx, fromID(owner))
	if errors.Is(err, store.ErrNotFound) {
		err = &store.RemovedError{Job: owner}
	}
	return store.Created{Snapshot: snap}, true, err
}

func (t *tx) insertJob(ctx context.Context, j sqlitedb.Job, st sqlitedb.JobState, n store.NewJob) error {
	if err := t.q.InsertJob(ctx, sqlitedb.InsertJobParams(j)); err != nil {
		return fmt.Errorf("job: %w", err)
	}
	st.History = t.noteFirst(j.ScheduleID, &st, job.Event{Cause: job.CauseSubmitted, Actor: n.Actor})
	if err := t.q.InsertState(ctx, insertStateParams(st)); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if err := t.w.usage.add(ctx, t, j.Project, 1, int64(len(j.Payload))); err != nil {
		return err
	}
	if err := t.shared().AddRecipients(ctx, n.Spec, n.Recipients); err != nil {
		return err
	}
	if st.WaitsFor != nil {
		t.w.cache.waiting = nil
	}
	if err := t.followJob(ctx, j.ScheduleID, j.ID, 0, job.Scheduled); err != nil {
		return err
	}
	return t.makeRunnable(ctx, st)
}

// makeRunnable lowers the runnable row's due time to that of a job that has become runnable,
// unless the job waits for another one.
func (t *tx) makeRunnable(ctx context.Context, st sqlitedb.JobState) error {
	if st.WaitsFor != nil {
		return nil
	}
	if st.NextAt.Int64 < t.now+store.HintAhead.Microseconds() {
		t.hint[store.WatchWork] = true
	}
	row, err := t.runnableRow(ctx, st.ConnectionID, st.HoldKey)
	if err == nil && row.NextAt.Valid && row.NextAt.Int64 <= st.NextAt.Int64 {
		return nil
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("runnable row: %w", err)
	}
	return named("runnable row", t.q.MakeRunnable(ctx, sqlitedb.MakeRunnableParams{
		ConnectionID: st.ConnectionID, HoldKey: st.HoldKey, NextAt: st.NextAt,
	}))
}

// freeEffectKey refuses a used effect key before the first write.
func (t *tx) freeEffectKey(ctx context.Context, digest [32]byte) error {
	if digest == ([32]byte{}) {
		return nil
	}
	taken, err := t.q.EffectKeyTaken(ctx, digest[:])
	if err == nil && taken == 1 {
		err = store.ErrEffectKeyTaken
	}
	return err
}
