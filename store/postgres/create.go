package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - an item that cannot be stored never binds its key, so what it refers to is
//     read before the keys are bound;
//   - who loses the race for a key waits for the winner's commit and then reads
//     what it bound, in a second statement: the first one cannot see it;
//   - predecessors are locked, in the order of their ids, before the keys, which
//     are sorted too; ready rows come last.

// Create implements store.Store. Concurrent calls share a transaction.
func (s *Store) Create(ctx context.Context, items []store.NewJob) ([]store.Created, error) {
	out, err := s.creates.do(ctx, items)
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	return out, nil
}

// createAll stores a batch in one transaction. What the database itself refuses when
// jobs are started is no fault of theirs: they are stored without.
func (s *Store) createAll(ctx context.Context, items []store.NewJob) ([]store.Created, error) {
	out, err := s.createOnce(ctx, items)
	if !errors.Is(err, store.ErrIllegal) || !slices.ContainsFunc(items, func(n store.NewJob) bool { return n.Start != nil }) {
		return out, err
	}
	items = slices.Clone(items)
	for i := range items {
		items[i].Start = nil
	}
	return s.createOnce(ctx, items)
}

// createOnce stores a batch. Where nothing replies, the keys are bound on the way of
// the BEGIN: two round trips and the COMMIT.
func (s *Store) createOnce(ctx context.Context, items []store.NewJob) ([]store.Created, error) {
	plain := !slices.ContainsFunc(items, func(n store.NewJob) bool { return !n.Spec.ReplyTo.IsZero() })
	var asked *asking
	return writeAfter(ctx, s, "create", func(ctx context.Context, t *tx) {
		asked = new(asking)
		if !plain || !asked.all(items) {
			asked.queueProspects(ctx, t, items)
		}
		if plain {
			asked.queueKeys(ctx, t, bindings(items))
			asked.queueTurns(ctx, t, items)
		}
	}, func(ctx context.Context, t *tx) ([]store.Created, error) {
		b := &submissions{tx: t, items: items, out: make([]store.Created, len(items)), asked: asked}
		if err := b.take(ctx, plain); err != nil {
			return nil, err
		}
		if sent, err := b.send(ctx); err != nil || sent {
			return b.out, err
		}
		for _, step := range []func(context.Context) error{b.insert, b.start, b.answer} {
			if err := step(ctx); err != nil {
				return nil, err
			}
		}
		return b.out, nil
	})
}

// take finds the jobs that are to be stored. In a plain batch their keys are bound
// already.
func (b *submissions) take(ctx context.Context, plain bool) error {
	if err := b.look(ctx); err != nil {
		return err
	}
	if !plain {
		b.asked.queueKeys(ctx, b.tx, b.bindings())
		b.asked.queueTurns(ctx, b.tx, b.items)
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	return b.bind()
}

// asking is what a batch asks of the connections and the keys, and where jobs are to
// be started, what that depends on, with the turns that are free.
type asking struct {
	conns []pgdb.ProspectsRow
	bound []pgtype.UUID
	free  []pgdb.ConnectionClaim
	start []pgdb.StartingRow
}

// all tells whether every job is to be started: then what that asks of the
// connections is enough.
func (a *asking) all(items []store.NewJob) bool {
	return !slices.ContainsFunc(items, func(n store.NewJob) bool { return n.Start == nil })
}

// prospects gives the connections of the batch.
func (a *asking) prospects() map[job.ID]pgdb.ProspectsRow {
	out := make(map[job.ID]pgdb.ProspectsRow, len(a.conns)+len(a.start))
	for _, r := range a.conns {
		out[toID(r.ID)] = r
	}
	for _, r := range a.start {
		c := r.Connection
		out[toID(c.ID)] = pgdb.ProspectsRow{ID: c.ID, Project: c.Project, Class: c.Class, Deleted: c.DeletedAt != nil}
	}
	return out
}

// queueTurns comes after the keys: who has a turn waits for nobody.
func (a *asking) queueTurns(ctx context.Context, t *tx, items []store.NewJob) {
	var keys []readyKey
	for i := range items {
		if n := &items[i]; n.Start != nil {
			keys = append(keys, readyKey{n.Spec.Connection, n.Spec.HoldKey})
		}
	}
	if len(keys) == 0 {
		return
	}
	var of []job.ID
	var p pgdb.StartingParams
	for _, k := range sortedKeys(keys) {
		of = append(of, k.conn)
		p.Connections, p.HoldKeys = append(p.Connections, fromID(k.conn)), append(p.HoldKeys, k.hold)
	}
	turns := fromIDs(distinct(of))
	t.queue(ctx, func(ctx context.Context, db pgdb.DBTX) (err error) {
		a.free, err = pgdb.New(db).FreeTurns(ctx, turns)
		return named("turns", err)
	})
	t.queue(ctx, func(ctx context.Context, db pgdb.DBTX) (err error) {
		a.start, err = pgdb.New(db).Starting(ctx, p)
		return named("connections", err)
	})
}

func (a *asking) queueProspects(ctx context.Context, t *tx, items []store.NewJob) {
	ids := make([]job.ID, len(items))
	for i := range items {
		ids[i] = items[i].Spec.Connection
	}
	of := fromIDs(distinct(ids))
	t.queue(ctx, func(ctx context.Context, db pgdb.DBTX) (err error) {
		a.conns, err = pgdb.New(db).Prospects(ctx, of)
		return named("connections", err)
	})
}

func (a *asking) queueKeys(ctx context.Context, t *tx, p pgdb.BindKeysParams) {
	if len(p.Jobs) == 0 {
		return
	}
	t.queue(ctx, func(ctx context.Context, db pgdb.DBTX) (err error) {
		a.bound, err = pgdb.New(db).BindKeys(ctx, p)
		return named("keys", err)
	})
}

// bindings asks for the keys of jobs, in the order of the locks; of two that are the
// same, for the first one's first.
func bindings(items []store.NewJob) pgdb.BindKeysParams {
	sorted := make([]*job.Spec, len(items))
	for i := range items {
		sorted[i] = &items[i].Spec
	}
	slices.SortStableFunc(sorted, func(x, y *job.Spec) int {
		return cmp.Or(cmp.Compare(x.Project, y.Project), cmp.Compare(x.Key, y.Key))
	})
	p := pgdb.BindKeysParams{
		Projects: make([]string, 0, len(items)), IdemKeys: make([]string, 0, len(items)),
		Jobs: make([]pgtype.UUID, 0, len(items)), Connections: make([]pgtype.UUID, 0, len(items)),
	}
	for _, n := range sorted {
		p.Projects = append(p.Projects, n.Project)
		p.IdemKeys = append(p.IdemKeys, n.Key)
		p.Jobs = append(p.Jobs, fromID(n.ID))
		p.Connections = append(p.Connections, fromID(n.Connection))
	}
	return p
}

// refusedCreate is the verdict on an item that the database itself refuses.
func refusedCreate(err error) store.Created { return store.Created{Err: err} }

// keyOf names a job's key.
type keyOf struct{ project, key string }

// submission is one job that is to be stored.
type submission struct {
	item     int
	snapshot job.Snapshot
	position int64
}

// submissions is one batch under way.
type submissions struct {
	*tx
	items []store.NewJob
	out   []store.Created
	jobs  []submission
	asked *asking
	// deleted are connections that were deleted since they were asked for.
	deleted map[job.ID]bool
}

// look finds out which items could be stored, as if each came after the one
// before it.
func (b *submissions) look(ctx context.Context) error {
	conns := b.asked.prospects()
	others, err := b.predecessors(ctx)
	if err != nil {
		return err
	}
	keys := make(map[keyOf]bool, len(b.items))
	b.jobs = make([]submission, 0, len(b.items))
	for i := range b.items {
		n := &b.items[i]
		conn, ok := conns[n.Spec.Connection]
		if !ok || conn.Deleted || b.deleted[n.Spec.Connection] || conn.Project != n.Spec.Project {
			b.out[i].Err = fmt.Errorf("connection %s: %w", n.Spec.Connection, store.ErrNotFound)
			continue
		}
		key := keyOf{n.Spec.Project, n.Spec.Key}
		if keys[key] {
			continue // bound by an item before
		}
		snap := newSnapshot(n, job.Class(conn.Class), b.now)
		if !n.Spec.ReplyTo.IsZero() {
			other, ok := others[n.Spec.ReplyTo]
			if !ok || other.project != n.Spec.Project {
				b.out[i].Err = fmt.Errorf("%w: %s", store.ErrReplyTo, n.Spec.ReplyTo)
				continue
			}
			if other.state != job.Succeeded {
				snap.WaitsFor = n.Spec.ReplyTo
			}
		}
		keys[key] = true
		others[snap.ID] = predecessor{project: snap.Project, state: job.Scheduled}
		b.jobs = append(b.jobs, submission{item: i, snapshot: snap})
	}
	return nil
}

type predecessor struct {
	project string
	state   job.State
}

func (b *submissions) predecessors(ctx context.Context) (map[job.ID]predecessor, error) {
	var ids, conns []job.ID
	for i := range b.items {
		if to := b.items[i].Spec.ReplyTo; !to.IsZero() {
			ids, conns = append(ids, to), append(conns, b.items[i].Spec.Connection)
		}
	}
	out := make(map[job.ID]predecessor)
	if len(ids) == 0 {
		return out, nil
	}
	rows, err := b.q.LockPredecessors(ctx, fromIDs(distinct(ids)))
	if err != nil {
		return nil, fmt.Errorf("jobs to reply to: %w", err)
	}
	// What waits has no ready row that would keep its connection.
	if b.deleted, err = b.keep(ctx, conns); err != nil {
		return nil, err
	}
	for _, r := range rows {
		out[toID(r.JobID)] = predecessor{project: r.Project, state: job.State(r.State)}
	}
	return out, nil
}

// newSnapshot is a job as it is stored, before anything happened to it. The class
// is the connection's unless the request knows better.
func newSnapshot(n *store.NewJob, class job.Class, now time.Time) job.Snapshot {
	s := job.Snapshot{Now: now}
	s.Spec = n.Spec
	s.Spec.Created = now
	s.StartWindow = fromMicros(micros(s.StartWindow))
	s.Retry.MinBackoff = fromMicros(micros(s.Retry.MinBackoff))
	s.Retry.MaxBackoff = fromMicros(micros(s.Retry.MaxBackoff))
	s.Retry.AttemptTimeout = fromMicros(micros(s.Retry.AttemptTimeout))
	s.Payload = toBytes(s.Payload)
	s.Policy = cmp.Or(s.Policy, job.Hold)
	if len(s.Labels) == 0 {
		s.Labels = nil
	}
	due := now
	if !n.ScheduledFor.IsZero() {
		due = job.Micros(n.ScheduledFor)
	}
	s.Status = job.Status{
		State: job.Scheduled, Version: 1, Round: 1, ScheduledFor: due, NextAt: due,
		StartDeadline: due.Add(cmp.Or(s.StartWindow, job.DefaultWindow)),
		Class:         cmp.Or(n.Class, class), Updated: now,
	}
	return s
}

// bindings asks for the keys of the jobs that could be stored.
func (b *submissions) bindings() pgdb.BindKeysParams {
	items := make([]store.NewJob, len(b.jobs))
	for i, n := range b.jobs {
		items[i] = b.items[n.item]
	}
	return bindings(items)
}

// bind keeps the jobs that got their keys. A key that was bound for a job which cannot
// be stored tells that its connection was made, or taken away, in this moment.
func (b *submissions) bind() error {
	won := make(map[job.ID]bool, len(b.asked.bound))
	for _, id := range b.asked.bound {
		won[toID(id)] = true
	}
	b.jobs = slices.DeleteFunc(b.jobs, func(n submission) bool { return !won[n.snapshot.ID] })
	for i := range b.jobs {
		delete(won, b.jobs[i].snapshot.ID)
	}
	if len(won) > 0 {
		return errRestart
	}
	return nil
}

// insert writes the jobs, their first events, and their ready rows.
func (b *submissions) insert(ctx context.Context) error {
	if len(b.jobs) == 0 {
		return nil
	}
	ready := make(readyRows)
	for i := range b.jobs {
		n := &b.jobs[i]
		var err error
		if n.position, err = b.next(); err != nil {
			return err
		}
		s := &n.snapshot
		if s.WaitsFor.IsZero() {
			ready.due(readyKey{s.Connection, s.HoldKey}, s.NextAt)
		}
		b.out[n.item] = store.Created{Snapshot: *s, Created: true}
	}
	p, err := jobColumns(b.jobs, b.items, b.now)
	if err != nil {
		return err
	}
	b.queue(ctx, func(ctx context.Context, db pgdb.DBTX) error {
		if err := pgdb.New(db).InsertJobs(ctx, p); err != nil {
			return fmt.Errorf("jobs: %w", err)
		}
		return nil
	})
	b.makeReady(ctx, ready, nil)
	if b.starts() != nil {
		return nil // goes with what start asks
	}
	return b.flush(ctx)
}

// answer completes the items that were not stored: those whose key was bound
// before them get the job that it is bound to.
func (b *submissions) answer(ctx context.Context) error {
	var p pgdb.KeyOwnersParams
	for i := range b.items {
		if n := &b.items[i]; !b.out[i].Created {
			p.Projects = append(p.Projects, n.Spec.Project)
			p.IdemKeys = append(p.IdemKeys, n.Spec.Key)
		}
	}
	if len(p.Projects) == 0 {
		return nil
	}
	here := make(map[keyOf]int, len(b.jobs))
	for i := range b.jobs {
		n := &b.jobs[i]
		here[keyOf{n.snapshot.Project, n.snapshot.Key}] = n.item
	}
	rows, err := b.q.KeyOwners(ctx, p)
	if err != nil {
		return fmt.Errorf("bound keys: %w", err)
	}
	owners := make(map[keyOf]job.ID, len(rows))
	var ids []job.ID
	for _, r := range rows {
		owners[keyOf{r.Project, r.IdemKey}] = toID(r.JobID)
		ids = append(ids, toID(r.JobID))
	}
	bound, err := b.view().snapshots(ctx, distinct(ids), true)
	if err != nil {
		return err
	}
	for i, n := range b.items {
		key := keyOf{n.Spec.Project, n.Spec.Key}
		snap, ok := bound[owners[key]]
		by, now := here[key]
		later := now && by > i // bound by an item after this one
		switch {
		case b.out[i].Created:
		case ok && !later:
			b.out[i] = store.Created{Snapshot: snap}
		case !owners[key].IsZero() && !later:
			b.out[i].Err = &store.RemovedError{Job: owners[key]}
		case b.out[i].Err == nil:
			return errRestart // the key was freed in this moment
		}
	}
	return nil
}
