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
	"github.com/fireonce/fireonce/store/logpage"
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
	made, unfit := rules.NewJob(&n, conn.Class, t.now)
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
	took, err := t.bind(ctx, n)
	if err != nil {
		return store.Created{}, err
	}
	if !took {
		bound, _, err := t.bound(ctx, n.Spec)
		return bound, err
	}
	woken := t.hint[store.WatchWork]
	if err := t.insertJob(ctx, &made, n); err != nil {
		return store.Created{}, err
	}
	snap := job.Snapshot{Job: made, Now: made.Created}
	started, err := t.start(ctx, &made, n.Start)
	if started != nil {
		t.hint[store.WatchWork] = woken // no worker has to be woken for it
	}
	return store.Created{Snapshot: snap, Started: started, Created: true}, err
}

// bind binds a job's key, and its own effect key if it has one; false: the key is bound.
func (t *tx) bind(ctx context.Context, n store.NewJob) (took bool, err error) {
	rows, err := t.q.InsertKey(ctx, sqlitedb.InsertKeyParams{Digest: digestOf(n.Spec), JobID: n.Spec.ID})
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
func (t *tx) start(ctx context.Context, j *job.Job, p *store.ClaimParams) (*store.Leased, error) {
	if p == nil || !j.WaitsFor.IsZero() || j.NextAt.After(t.now) {
		return nil, nil
	}
	s, err := t.suspension(ctx)
	if err != nil || s.Suspended() {
		return nil, err
	}
	row, err := t.runnableRow(ctx, j.Connection, j.HoldKey)
	if err != nil {
		return nil, fmt.Errorf("runnable row: %w", err)
	}
	if row.RunnableAt.IsZero() || row.RunnableAt.After(t.now) {
		return nil, nil
	}
	first, err := t.w.sq.DueJobs(ctx, shareddb.DueJobsParams{ConnectionID: j.Connection, HoldKey: j.HoldKey, Now: t.now, MaxRows: 1})
	if err != nil {
		return nil, fmt.Errorf("due jobs: %w", err)
	}
	if len(first) == 0 || first[0].JobID != j.ID {
		return nil, nil
	}
	c := &claimer{tx: t, p: *p, left: 1, starts: true, conns: make(map[job.ID]*claimed)}
	if _, err := c.serve(ctx, sqlitedb.RunnableRowsRow{ConnectionID: j.Connection, HoldKey: j.HoldKey}, 1); err != nil || len(c.out) == 0 {
		return nil, err
	}
	return &c.out[0], nil
}

// bound returns the job to which the key is bound, if it is.
func (t *tx) bound(ctx context.Context, s job.Spec) (store.Created, bool, error) {
	owner, err := t.w.sq.KeyOwner(ctx, digestOf(s))
	if errors.Is(err, sql.ErrNoRows) {
		return store.Created{}, false, nil
	}
	if err != nil {
		return store.Created{}, false, err
	}
	all, err := t.shared().SnapshotsByID(ctx, []job.ID{owner}, true)
	snap, ok := all[owner]
	if err == nil && !ok {
		err = &store.RemovedError{Job: owner}
	}
	return store.Created{Snapshot: snap}, true, err
}

func (t *tx) insertJob(ctx context.Context, j *job.Job, n store.NewJob) error {
	s := &j.Spec
	err := t.q.InsertJob(ctx, sqlitedb.InsertJobParams{
		ID: s.ID, Project: s.Project, IdemKey: s.Key, OwnEffectKey: s.OwnEffectKey, ConnectionID: s.Connection,
		HoldKey: s.HoldKey, PayloadKind: s.PayloadKind, StartWindow: s.StartWindow, Retry: s.Retry.Encode(),
		AttemptTimeout: s.Retry.AttemptTimeout,
		Delivery:       s.Delivery, Labels: column.Labels(store.EncodeLabels(s.Labels)), TimeZone: s.TimeZone,
		ReplyTo: column.OptionalID(s.ReplyTo), ScheduleID: column.OptionalID(s.Schedule), Fingerprint: s.Fingerprint.Bytes(),
		CreatedAt: s.Created, Payload: fromBytes(s.Payload), CoolDown: s.CoolDown, SkipIfPresent: s.SkipIfPresent, Trace: s.Trace,
	})
	if err != nil {
		return fmt.Errorf("job: %w", err)
	}
	first := t.noted(j, job.Event{Cause: job.CauseSubmitted, Actor: n.Actor})
	err = t.q.InsertState(ctx, sqlitedb.InsertStateParams{
		JobID: j.ID, Project: j.Project, ConnectionID: j.Connection, HoldKey: j.HoldKey, ScheduleTime: j.ScheduleTime,
		Unasked: j.Unasked, StartDeadline: j.StartDeadline, NextAt: j.NextAt, Class: j.Class,
		WaitsFor: column.OptionalID(j.WaitsFor), PredecessorEnd: j.PredecessorEnd, WaitWindow: j.WaitWindow,
		CreatedAt: j.Created, UpdatedAt: j.Created, StateSince: j.Created,
		History: logpage.AppendHistory(nil, first.Event, first.Texts),
	})
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if err := t.w.usage.add(ctx, t, j.Project, 1, int64(len(j.Payload))); err != nil {
		return err
	}
	if err := t.shared().AddRecipients(ctx, n.Spec, n.Recipients); err != nil {
		return err
	}
	if err := t.shared().AddCallback(ctx, n.Spec.ID, n.Callback); err != nil {
		return err
	}
	if !j.WaitsFor.IsZero() {
		t.w.cache.waiting = nil
	}
	if err := t.followJob(ctx, j, 0); err != nil {
		return err
	}
	return t.makeRunnable(ctx, j)
}

// makeRunnable lowers the runnable row's due time to that of a job that has become runnable,
// unless the job waits for another one.
func (t *tx) makeRunnable(ctx context.Context, j *job.Job) error {
	if !j.WaitsFor.IsZero() {
		return nil
	}
	if j.NextAt.Before(t.now.Add(store.HintAhead)) {
		t.hint[store.WatchWork] = true
	}
	row, err := t.runnableRow(ctx, j.Connection, j.HoldKey)
	if err == nil && !row.NextAt.IsZero() && !row.NextAt.After(j.NextAt) {
		return nil
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("runnable row: %w", err)
	}
	return named("runnable row", t.q.MakeRunnable(ctx, sqlitedb.MakeRunnableParams{
		ConnectionID: j.Connection, HoldKey: j.HoldKey, NextAt: j.NextAt,
	}))
}

// freeEffectKey refuses a used effect key before the first write.
func (t *tx) freeEffectKey(ctx context.Context, digest [32]byte) error {
	if digest == ([32]byte{}) {
		return nil
	}
	taken, err := t.w.sq.EffectKeyTaken(ctx, digest[:])
	if err == nil && taken {
		err = store.ErrEffectKeyTaken
	}
	return err
}

// digestOf returns the digest under which a job's key is bound.
func digestOf(s job.Spec) []byte {
	sum := job.KeyDigest(s.Project, s.Key)
	return sum[:]
}

// fromBytes keeps empty bytes apart from NULL.
func fromBytes(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
