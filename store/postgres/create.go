package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file:
//   - an item that cannot be stored never binds its key, so what it refers to is read before the
//     keys are bound. If that changed meanwhile, the transaction runs again;
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
		return t.create(ctx, items, asked, noReplies)
	})
}

// create stores a batch. asked has its connections and, without replies, its bound keys.
func (t *tx) create(ctx context.Context, items []store.NewJob, asked *batchReads, noReplies bool) ([]store.Created, error) {
	b := &jobCreator{tx: t, items: items, out: make([]store.Created, len(items)), reads: asked}
	if err := b.take(ctx, noReplies); err != nil {
		return nil, err
	}
	return b.out, sqlstore.InSequence(ctx, b.insert, b.start, b.answer)
}

// MakeJobs implements sqlstore.Writing.
func (w writing) MakeJobs(ctx context.Context, items []store.NewJob) (out []store.Created, err error) {
	if len(items) == 0 {
		return nil, nil
	}
	reads := new(batchReads)
	reads.queueProspects(ctx, w.t, items)
	if err = w.t.flush(ctx); err == nil {
		out, err = w.t.create(ctx, items, reads, false)
	}
	if err == nil {
		err = w.t.flush(ctx)
	}
	return out, err
}

// take finds the jobs to store. In a batch without replies their keys are bound already.
func (b *jobCreator) take(ctx context.Context, noReplies bool) error {
	if err := b.look(ctx, noReplies); err != nil {
		return err
	}
	if noReplies {
		return b.bind()
	}
	b.reads.queueKeys(ctx, b.tx, b.bindings())
	if err := b.flush(ctx); err != nil {
		return err
	}
	judged := len(b.jobs)
	if err := b.bind(); err != nil {
		return err
	}
	if len(b.jobs) < judged { // a key was bound concurrently
		return errRestart
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
		p.Projects = append(p.Projects, n.Owner())
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
func (b *jobCreator) look(ctx context.Context, noReplies bool) error {
	conns := b.reads.prospects()
	others := make(map[job.ID]rules.Predecessor)
	used := make(map[string]bool) // digests of keys
	if !noReplies {
		if err := b.predecessors(ctx, others); err != nil {
			return err
		}
		if err := b.used(ctx, used); err != nil {
			return err
		}
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
		if keys[key] || !noReplies && used[string(digestOf(n.Spec.Project, n.Spec.Key))] {
			continue // bound before
		}
		made, err := rules.NewJob(n, conn.Class, b.now)
		if err == nil && !made.ReplyTo.IsZero() {
			made, err = rules.Await(made, others[made.ReplyTo])
		}
		if err == nil && n.Spec.OwnEffectKey != "" && used[string(n.EffectKey[:])] {
			err = store.ErrEffectKeyTaken
		}
		if err != nil {
			b.out[i].Err = err
			continue
		}
		keys[key] = true
		if n.Spec.OwnEffectKey != "" {
			used[string(n.EffectKey[:])] = true
		}
		if p := others[made.WaitsFor]; !made.WaitsFor.IsZero() {
			p.Waiting++
			others[made.WaitsFor] = p
		}
		others[made.ID] = rules.Predecessor{Project: made.Project, State: job.Scheduled}
		b.jobs = append(b.jobs, creation{item: i, snapshot: job.Snapshot{Job: made, Now: b.now}})
	}
	return nil
}

// predecessors adds the jobs that others of the batch reply to, with how many jobs wait for
// each.
func (b *jobCreator) predecessors(ctx context.Context, others map[job.ID]rules.Predecessor) error {
	var ids, conns []job.ID
	for i := range b.items {
		if to := b.items[i].Spec.ReplyTo; !to.IsZero() {
			ids, conns = append(ids, to), append(conns, b.items[i].Spec.Connection)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := b.q.LockPredecessors(ctx, distinct(ids))
	if err != nil {
		return fmt.Errorf("jobs to reply to: %w", err)
	}
	// A waiting job has no runnable row that would keep its connection.
	if b.deleted, err = b.keep(ctx, conns); err != nil {
		return err
	}
	counts, err := b.q.CountWaiting(ctx, distinct(ids))
	if err != nil {
		return fmt.Errorf("waiting jobs: %w", err)
	}
	waiting := make(map[job.ID]int64, len(counts))
	for _, r := range counts {
		waiting[job.ID(r.WaitsFor)] = r.Waiting
	}
	for _, r := range rows {
		others[r.JobID] = rules.Predecessor{Project: r.Project, State: r.State, Waiting: waiting[r.JobID]}
	}
	return nil
}

// used adds the digests of the items' keys, and of the callers' own effect keys, that are used.
func (b *jobCreator) used(ctx context.Context, used map[string]bool) error {
	var keys, effects [][]byte
	for i := range b.items {
		n := &b.items[i]
		keys = append(keys, digestOf(n.Spec.Project, n.Spec.Key))
		if n.Spec.OwnEffectKey != "" {
			effects = append(effects, n.EffectKey[:])
		}
	}
	owners, err := b.q.KeyOwners(ctx, keys)
	if err != nil {
		return fmt.Errorf("bound keys: %w", err)
	}
	for _, r := range owners {
		used[string(r.Digest)] = true
	}
	if len(effects) == 0 {
		return nil
	}
	taken, err := b.q.TakenEffectKeys(ctx, effects)
	if err != nil {
		return fmt.Errorf("effect keys: %w", err)
	}
	for _, digest := range taken {
		used[string(digest)] = true
	}
	return nil
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

// takeEffectKeys takes the callers' own effect keys for the jobs that got their keys.
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
	took, err := b.q.TakeEffectKeys(ctx, p)
	if err == nil && took < int64(len(p.Jobs)) {
		err = errRestart // one was taken concurrently
	}
	return named("effect keys", err)
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
	b.addCallbacks(ctx)
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

// addCallbacks stores by which connections the ends of jobs are reported.
func (b *jobCreator) addCallbacks(ctx context.Context) {
	var p pgdb.AddCallbacksParams
	for i := range b.jobs {
		n := &b.jobs[i]
		if to := b.items[n.item].Callback; !to.IsZero() {
			p.Ids, p.Connections = append(p.Ids, n.snapshot.ID), append(p.Connections, to)
		}
	}
	b.execRows(ctx, len(p.Ids), statement("callbacks", (*pgdb.Queries).AddCallbacks, p))
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
	bound, err := b.shared().SnapshotsByID(ctx, distinct(ids), true)
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
