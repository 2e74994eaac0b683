package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file:
//   - an item that cannot be stored never binds its key, so the rows that it refers to are
//     read before the keys are bound;
//   - the loser of a race for a key waits for the winner's commit and then reads what it
//     bound, in a second statement, because the first one cannot see it;
//   - predecessors are locked, in the order of their ids, before the keys, which are sorted
//     too; callers' effect keys follow, by digest; runnable rows come last.

// Create implements store.Store. Concurrent calls share a transaction.
func (s *Store) Create(ctx context.Context, items []store.NewJob) ([]store.Created, error) {
	out, err := s.creates.do(ctx, items)
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	return out, nil
}

// createAll stores a batch in one transaction. If the database itself refuses something when
// jobs are started, the jobs are stored without being started.
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

// createOnce stores a batch. Without replies, the keys are bound with the BEGIN, and all
// writes are sent with the COMMIT: two round trips.
func (s *Store) createOnce(ctx context.Context, items []store.NewJob) ([]store.Created, error) {
	noReplies := !slices.ContainsFunc(items, func(n store.NewJob) bool {
		return !n.Spec.ReplyTo.IsZero() || n.Spec.OwnEffectKey != "" || rules.MayStore(&n) != nil
	})
	var asked *batchReads
	return writeAfter(ctx, s, "create", func(ctx context.Context, t *tx) {
		asked = new(batchReads)
		if !noReplies || !asked.all(items) {
			asked.queueProspects(ctx, t, items)
		}
		if noReplies {
			asked.queueKeys(ctx, t, bindings(items))
			asked.queueClaimLocks(ctx, t, items)
		}
	}, func(ctx context.Context, t *tx) ([]store.Created, error) {
		b := &jobCreator{tx: t, items: items, out: make([]store.Created, len(items)), reads: asked}
		if err := b.take(ctx, noReplies); err != nil {
			return nil, err
		}
		return b.out, sqlstore.InSequence(ctx, b.insert, b.start, b.answer)
	})
}

// take finds the jobs to store. In a batch without replies their keys are bound already.
func (b *jobCreator) take(ctx context.Context, noReplies bool) error {
	if err := b.look(ctx); err != nil {
		return err
	}
	if noReplies {
		return b.bind()
	}
	b.reads.queueKeys(ctx, b.tx, b.bindings())
	if err := b.flush(ctx); err != nil {
		return err
	}
	if err := b.bind(); err != nil {
		return err
	}
	if err := b.boundReplies(ctx); err != nil {
		return err
	}
	if err := b.takeEffectKeys(ctx); err != nil {
		return err
	}
	b.reads.queueClaimLocks(ctx, b.tx, b.items)
	return b.flush(ctx)
}

// batchReads are a batch's reads of connections and keys, and, for jobs to be started, of
// what that depends on, with the free claim locks.
type batchReads struct {
	conns []pgdb.ProspectsRow
	bound []job.ID
	free  []pgdb.ConnectionClaim
	start []pgdb.StartingRow
}

// all reports whether every job is to be started: then the rows that starts need include the
// connections.
func (a *batchReads) all(items []store.NewJob) bool {
	return !slices.ContainsFunc(items, func(n store.NewJob) bool { return n.Start == nil })
}

// prospects returns the connections of the batch.
func (a *batchReads) prospects() map[job.ID]pgdb.ProspectsRow {
	out := make(map[job.ID]pgdb.ProspectsRow, len(a.conns)+len(a.start))
	for _, r := range a.conns {
		out[r.ID] = r
	}
	for _, r := range a.start {
		c := r.Connection
		out[c.ID] = pgdb.ProspectsRow{ID: c.ID, Project: c.Project, Class: c.Class, Deleted: !c.DeletedAt.IsZero()}
	}
	return out
}

// queueClaimLocks comes after the keys and the callers' effect keys: a transaction that holds
// a connection's claim lock, which others need, waits for no other lock.
func (a *batchReads) queueClaimLocks(ctx context.Context, t *tx, items []store.NewJob) {
	var keys []runnableKey
	for i := range items {
		if n := &items[i]; n.Start != nil {
			keys = append(keys, runnableKey{n.Spec.Connection, n.Spec.HoldKey})
		}
	}
	if len(keys) == 0 {
		return
	}
	var of []job.ID
	var p pgdb.StartingParams
	for _, k := range sortedKeys(keys) {
		of = append(of, k.conn)
		p.Connections, p.HoldKeys = append(p.Connections, k.conn), append(p.HoldKeys, k.hold)
	}
	locks := distinct(of)
	t.queue(ctx, query("claim locks", (*pgdb.Queries).TakeFreeClaimLocks, locks, &a.free))
	t.queue(ctx, query("connections", (*pgdb.Queries).Starting, p, &a.start))
}

func (a *batchReads) queueProspects(ctx context.Context, t *tx, items []store.NewJob) {
	ids := make([]job.ID, len(items))
	for i := range items {
		ids[i] = items[i].Spec.Connection
	}
	of := distinct(ids)
	t.queue(ctx, query("connections", (*pgdb.Queries).Prospects, of, &a.conns))
}

func (a *batchReads) queueKeys(ctx context.Context, t *tx, p pgdb.BindKeysParams) {
	if len(p.Jobs) == 0 {
		return
	}
	t.queue(ctx, query("keys", (*pgdb.Queries).BindKeys, p, &a.bound))
}

// bindings returns the bindings of jobs' keys, in the order of the locks; of two equal keys,
// the first job's comes first.
func bindings(items []store.NewJob) pgdb.BindKeysParams {
	sorted := make([]*job.Spec, len(items))
	for i := range items {
		sorted[i] = &items[i].Spec
	}
	slices.SortStableFunc(sorted, func(x, y *job.Spec) int {
		return cmp.Or(cmp.Compare(x.Project, y.Project), cmp.Compare(x.Key, y.Key))
	})
	p := pgdb.BindKeysParams{
		Projects: make([]string, 0, len(items)), Digests: make([][]byte, 0, len(items)),
		Jobs: make([]job.ID, 0, len(items)), Connections: make([]job.ID, 0, len(items)),
	}
	for _, n := range sorted {
		p.Projects = append(p.Projects, n.Project)
		p.Digests = append(p.Digests, digestOf(n.Project, n.Key))
		p.Jobs = append(p.Jobs, n.ID)
		p.Connections = append(p.Connections, n.Connection)
	}
	return p
}

// refusedCreate returns the verdict on an item that the database itself refuses.
func refusedCreate(err error) store.Created { return store.Created{Err: err} }

// keyOf names a job's key.
type keyOf struct{ project, key string }

// creation is one job to be stored.
type creation struct {
	item     int
	snapshot job.Snapshot
	history  []byte
}

// jobCreator is one batch in progress.
type jobCreator struct {
	*tx
	items []store.NewJob
	out   []store.Created
	jobs  []creation
	reads *batchReads
	// deleted are connections that were deleted since they were read.
	deleted map[job.ID]bool
}

// look finds the items that could be stored, as if each came after the one before it.
func (b *jobCreator) look(ctx context.Context) error {
	conns := b.reads.prospects()
	others, err := b.predecessors(ctx)
	if err != nil {
		return err
	}
	keys := make(map[keyOf]bool, len(b.items))
	b.jobs = make([]creation, 0, len(b.items))
	for i := range b.items {
		n := &b.items[i]
		conn, ok := conns[n.Spec.Connection]
		if err := rules.MayCreate(&n.Spec, conn.Project, !ok || conn.Deleted || b.deleted[n.Spec.Connection]); err != nil {
			b.out[i].Err = err
			continue
		}
		key := keyOf{n.Spec.Project, n.Spec.Key}
		if keys[key] {
			continue // bound by an item before
		}
		made, err := rules.NewJob(n, conn.Class, b.now)
		if err == nil && !made.ReplyTo.IsZero() {
			made, err = rules.Await(made, others[made.ReplyTo])
		}
		if err != nil {
			b.out[i].Err = err
			continue
		}
		keys[key] = true
		others[made.ID] = rules.Predecessor{Project: made.Project, State: job.Scheduled}
		b.jobs = append(b.jobs, creation{item: i, snapshot: job.Snapshot{Job: made, Now: b.now}})
	}
	return nil
}

// predecessors returns the jobs that others of the batch reply to. The jobs that wait for
// each are counted when the keys are bound.
func (b *jobCreator) predecessors(ctx context.Context) (map[job.ID]rules.Predecessor, error) {
	var ids, conns []job.ID
	for i := range b.items {
		if to := b.items[i].Spec.ReplyTo; !to.IsZero() {
			ids, conns = append(ids, to), append(conns, b.items[i].Spec.Connection)
		}
	}
	out := make(map[job.ID]rules.Predecessor)
	if len(ids) == 0 {
		return out, nil
	}
	rows, err := b.q.LockPredecessors(ctx, distinct(ids))
	if err != nil {
		return nil, fmt.Errorf("jobs to reply to: %w", err)
	}
	// A waiting job has no runnable row that would keep its connection.
	if b.deleted, err = b.keep(ctx, conns); err != nil {
		return nil, err
	}
	for _, r := range rows {
		out[r.JobID] = rules.Predecessor{Project: r.Project, State: r.State}
	}
	return out, nil
}

// bindings returns the bindings of the keys of the jobs that could be stored.
func (b *jobCreator) bindings() pgdb.BindKeysParams {
	items := make([]store.NewJob, len(b.jobs))
	for i, n := range b.jobs {
		items[i] = b.items[n.item]
	}
	return bindings(items)
}

// bind keeps the jobs that got their keys. A key that was bound for a job which cannot be
// stored shows that its connection was created or deleted concurrently.
func (b *jobCreator) bind() error {
	won := setOf(b.reads.bound)
	b.jobs = slices.DeleteFunc(b.jobs, func(n creation) bool { return !won[n.snapshot.ID] })
	for i := range b.jobs {
		delete(won, b.jobs[i].snapshot.ID)
	}
	if len(won) > 0 {
		return errRestart
	}
	return nil
}

// takeEffectKeys takes the callers' own effect keys for the jobs that got their keys, and
// frees the keys of jobs whose effect key is used.
func (b *jobCreator) takeEffectKeys(ctx context.Context) error {
	var p pgdb.TakeEffectKeysParams
	for _, n := range b.jobs {
		if item := &b.items[n.item]; item.Spec.OwnEffectKey != "" {
			p.Digests, p.Jobs = append(p.Digests, item.EffectKey[:]), append(p.Jobs, item.Spec.ID)
		}
	}
	if len(p.Jobs) == 0 {
		return nil
	}
	rows, err := b.q.TakeEffectKeys(ctx, p)
	if err != nil {
		return fmt.Errorf("effect keys: %w", err)
	}
	took := setOf(rows)
	return b.giveBack(ctx, func(n creation) error {
		if s := &b.items[n.item].Spec; s.OwnEffectKey != "" && !took[s.ID] {
			return store.ErrEffectKeyTaken
		}
		return nil
	})
}

// boundReplies refuses jobs that would wait for a job for which store.MaxReplies jobs wait.
func (b *jobCreator) boundReplies(ctx context.Context) error {
	var ids []job.ID
	for _, n := range b.jobs {
		if to := n.snapshot.WaitsFor; !to.IsZero() {
			ids = append(ids, to)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := b.q.CountWaiting(ctx, distinct(ids))
	if err != nil {
		return fmt.Errorf("waiting jobs: %w", err)
	}
	waiting := make(map[job.ID]int64, len(rows))
	for _, r := range rows {
		waiting[job.ID(r.WaitsFor)] = r.Waiting
	}
	return b.giveBack(ctx, func(n creation) error {
		to := n.snapshot.WaitsFor
		if to.IsZero() {
			return nil
		}
		if err := rules.MayWait(to, waiting[to]); err != nil {
			return err
		}
		waiting[to]++
		return nil
	})
}

// giveBack drops refused jobs, with those of the batch that reply to them, and frees their
// keys.
func (b *jobCreator) giveBack(ctx context.Context, refuse func(creation) error) error {
	var back shareddb.RemoveKeysParams
	var effects pgdb.GiveBackEffectKeysParams
	failed := make(map[keyOf]error)
	gone := make(map[job.ID]bool)
	b.jobs = slices.DeleteFunc(b.jobs, func(n creation) bool {
		s := &b.items[n.item].Spec
		err := refuse(n)
		if gone[s.ReplyTo] {
			err = fmt.Errorf("%w: %s", store.ErrReplyTo, s.ReplyTo)
		}
		if err == nil {
			return false
		}
		failed[keyOf{s.Project, s.Key}], gone[s.ID] = err, true
		back.Digests, back.Ids = append(back.Digests, digestOf(s.Project, s.Key)), append(back.Ids, s.ID)
		if s.OwnEffectKey != "" {
			effects.Digests, effects.Jobs = append(effects.Digests, b.items[n.item].EffectKey[:]), append(effects.Jobs, s.ID)
		}
		return true
	})
	for i := range b.items { // repeats in the same batch too
		if s := &b.items[i].Spec; failed[keyOf{s.Project, s.Key}] != nil {
			b.out[i].Err = failed[keyOf{s.Project, s.Key}]
		}
	}
	if len(back.Ids) == 0 {
		return nil
	}
	if _, err := b.shared().Q.RemoveKeys(ctx, back); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if len(effects.Jobs) == 0 {
		return nil
	}
	return named("effect keys", b.q.GiveBackEffectKeys(ctx, effects))
}

// insert writes the jobs, their first events, and their runnable rows.
func (b *jobCreator) insert(ctx context.Context) error {
	if len(b.jobs) == 0 {
		return nil
	}
	ready, before := make(runnableRows), b.last()
	for i := range b.jobs {
		n := &b.jobs[i]
		s := &n.snapshot
		e := eventOf(&s.Job, job.Event{Cause: job.CauseSubmitted, Actor: b.items[n.item].Actor})
		if err := b.place(&e); err != nil {
			return err
		}
		b.add(e)
		n.history = logpage.AppendHistory(nil, e.Event, e.Texts)
		if s.WaitsFor.IsZero() {
			ready.due(runnableKey{s.Connection, s.HoldKey}, s.NextAt)
		}
		b.out[n.item] = store.Created{Snapshot: *s, Created: true}
	}
	b.exec(ctx, statement("jobs", (*pgdb.Queries).InsertJobs, jobColumns(b.jobs, before, b.now)))
	b.addRecipients(ctx)
	b.makeRunnable(ctx, ready, nil)
	return nil
}

// addRecipients stores the recipients of the jobs' payloads, behind the statement that stores
// the jobs.
func (b *jobCreator) addRecipients(ctx context.Context) {
	var p pgdb.AddRecipientsParams
	for i := range b.jobs {
		n := &b.jobs[i]
		for _, who := range b.items[n.item].Recipients {
			p.Ids, p.Projects = append(p.Ids, n.snapshot.ID), append(p.Projects, n.snapshot.Project)
			p.Recipients = append(p.Recipients, who)
		}
	}
	b.execRows(ctx, len(p.Ids), statement("recipients", (*pgdb.Queries).AddRecipients, p))
}

// answer completes the items that were not stored: those whose key was bound before get the
// job that it is bound to.
func (b *jobCreator) answer(ctx context.Context) error {
	var digests [][]byte
	for i := range b.items {
		if n := &b.items[i]; !b.out[i].Created {
			digests = append(digests, digestOf(n.Spec.Project, n.Spec.Key))
		}
	}
	if len(digests) == 0 {
		return nil
	}
	if err := b.flush(ctx); err != nil {
		return err
	}
	here := make(map[keyOf]int, len(b.jobs))
	for i := range b.jobs {
		n := &b.jobs[i]
		here[keyOf{n.snapshot.Project, n.snapshot.Key}] = n.item
	}
	rows, err := b.q.KeyOwners(ctx, digests)
	if err != nil {
		return fmt.Errorf("bound keys: %w", err)
	}
	owners := make(map[string]job.ID, len(rows))
	var ids []job.ID
	for _, r := range rows {
		owners[string(r.Digest)] = r.JobID
		ids = append(ids, r.JobID)
	}
	bound, err := b.view().snapshots(ctx, distinct(ids), true)
	if err != nil {
		return err
	}
	for i, n := range b.items {
		key := keyOf{n.Spec.Project, n.Spec.Key}
		owner := owners[string(digestOf(n.Spec.Project, n.Spec.Key))]
		snap, ok := bound[owner]
		by, now := here[key]
		later := now && by > i // bound by an item after this one
		switch {
		case b.out[i].Created:
		case ok && !later:
			b.out[i] = store.Created{Snapshot: snap}
		case !owner.IsZero() && !later:
			b.out[i].Err = &store.RemovedError{Job: owner}
		case b.out[i].Err == nil:
			return errRestart // the key was freed concurrently
		}
	}
	return nil
}
