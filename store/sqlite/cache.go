package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file: the file has one writer, so the writer need not read again what it has
// written or read.
//   - The cache guards nothing. Every write names the version, the token and the times that
//     it was decided on, and SQLite compares them with the row. An intent or a decision on a
//     row that has changed is refused.
//   - A query that changes a row drops it from the cache (see drops), or its caller updates
//     the cached row. Every rollback drops everything.
//   - Everything has a bound. A full map drops any entry for a new one: Go's order of maps is
//     random. Jobs end and leave; only of them a full cache takes no more.

const (
	// maxCached bounds what is cached, by number of each kind, and maxCachedBytes the payloads
	// of the cached jobs.
	maxCached      = 4096
	maxCachedBytes = 16 << 20
)

// cache is the writer's cache. Nil maps and pointers are unknown.
type cache struct {
	meta *sqlitedb.Meta
	// conns has connections, and rate limits of them that are over.
	conns map[job.ID]store.Connection
	// runnable has runnable rows; loose has connections none of whose rows is saturated.
	runnable  map[job.ID]map[string]sqlitedb.ConnectionReady
	readyRows int
	loose     map[job.ID]bool
	// underWay counts the jobs CLAIMED and SENDING of each connection that has any.
	underWay map[job.ID]int64
	// waiting reports whether any job waits for another one.
	waiting *bool
	jobs    map[job.ID]*cachedJob
	bytes   int
}

// cachedJob is a job under way, as its rows are.
type cachedJob struct {
	job.Job
	claimedAt time.Time
	// effectAttempt is the attempt whose effect the job's own row has, and resolution the row of
	// its newest ruling; 0: none.
	effectAttempt int
	resolution    int64
	// attempts are the views of all its attempts, and account is what the newest one acted on;
	// nil: it was not read.
	attempts rules.AttemptViews
	account  *string
}

// at returns the job as it is at a time.
func (h *cachedJob) at(now time.Time) job.Snapshot {
	s := job.Snapshot{Job: h.Job, Now: now}
	h.attempts.Complete(&s)
	return s
}

func newCache() *cache {
	return &cache{
		conns: make(map[job.ID]store.Connection), runnable: make(map[job.ID]map[string]sqlitedb.ConnectionReady),
		loose: make(map[job.ID]bool), jobs: make(map[job.ID]*cachedJob),
	}
}

// keepConnection caches a connection.
func (c *cache) keepConnection(conn store.Connection) {
	makeRoom(c.conns)
	c.conns[conn.ID] = conn
}

// keepLoose records that no row of a connection is saturated.
func (c *cache) keepLoose(id job.ID) {
	makeRoom(c.loose)
	c.loose[id] = true
}

// keepRunnable caches a runnable row. If there are too many, it drops those of any connection.
func (c *cache) keepRunnable(id job.ID, r sqlitedb.ConnectionReady) {
	for other := range c.runnable {
		if c.readyRows < maxCached {
			break
		}
		c.forgetRunnableOf(other)
	}
	if c.runnable[id] == nil {
		c.runnable[id] = make(map[string]sqlitedb.ConnectionReady)
	}
	c.runnable[id][r.HoldKey] = r
	c.readyRows++
}

// makeRoom drops entries until there is room for one more.
func makeRoom[V any](of map[job.ID]V) {
	for id := range of {
		if len(of) < maxCached {
			return
		}
		delete(of, id)
	}
}

// forgetRunnable drops a runnable row that the change did not make saturated.
func (c *cache) forgetRunnable(id job.ID, hold string) {
	if _, ok := c.runnable[id][hold]; ok {
		delete(c.runnable[id], hold)
		c.readyRows--
	}
}

// forgetRunnableOf drops all runnable rows of a connection.
func (c *cache) forgetRunnableOf(id job.ID) {
	delete(c.loose, id)
	c.readyRows -= len(c.runnable[id])
	delete(c.runnable, id)
}

// forgetJobs drops all cached jobs.
func (c *cache) forgetJobs() {
	clear(c.jobs)
	c.bytes, c.underWay, c.waiting = 0, nil, nil
}

// keep caches a job; drop removes it.
func (c *cache) keep(h *cachedJob) {
	c.drop(h.ID)
	if len(c.jobs) >= maxCached || c.bytes+len(h.Payload) > maxCachedBytes {
		return
	}
	c.jobs[h.ID] = h
	c.bytes += len(h.Payload)
}

func (c *cache) drop(id job.ID) {
	if h, ok := c.jobs[id]; ok {
		c.bytes -= len(h.Payload)
		delete(c.jobs, id)
	}
}

// moved counts a job of a connection that moved from one state to another.
func (c *cache) moved(id job.ID, from, to job.State) {
	if c.underWay == nil || from.InFlight() == to.InFlight() {
		return
	}
	if to.InFlight() {
		c.underWay[id]++
	} else if c.underWay[id]--; c.underWay[id] == 0 {
		delete(c.underWay, id)
	}
}

// load returns a job as it is. A caller changes it only together with its rows.
func (t *tx) load(ctx context.Context, id job.ID) (*cachedJob, error) {
	if h, ok := t.w.cache.jobs[id]; ok {
		return h, nil
	}
	rows, err := t.w.sq.Snapshots(ctx, shareddb.SnapshotsParams{WithPayload: true, Ids: []job.ID{id}})
	if err != nil || len(rows) == 0 {
		return nil, cmp.Or(err, store.ErrNotFound)
	}
	snap, err := sqlstore.ToSnapshot(&rows[0], t.now)
	st := &rows[0].JobHead
	h := &cachedJob{Job: snap.Job, claimedAt: st.ClaimedAt, effectAttempt: st.EffectAttempt, resolution: st.ResolutionID}
	if err != nil || st.Attempt == 0 {
		return h, err
	}
	if st.Attempt > 1 {
		earlier, err := t.q.AttemptViews(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("attempts: %w", err)
		}
		for _, r := range earlier {
			h.attempts = append(h.attempts, rules.AttemptView{
				Number: r.Number, Round: r.Round, Result: r.Result, ArmedAt: r.ArmedAt, Fence: r.FenceAt,
				PeerEnded: r.PeerEnded, Handle: r.Handle, EffectKey: r.EffectKey, Digest: string(r.RequestDigest),
			})
		}
	}
	h.attempts = append(h.attempts, *sqlstore.NewestView(st))
	return h, nil
}

// meta returns the database's own row.
func (t *tx) meta(ctx context.Context) (sqlitedb.Meta, error) {
	if m := t.w.cache.meta; m != nil {
		return *m, nil
	}
	m, err := t.q.GetMeta(ctx)
	if err == nil {
		t.w.cache.meta = &m
	}
	return m, err
}

// getConnection returns a connection; store.ErrNotFound: there is none.
func (t *tx) getConnection(ctx context.Context, id job.ID) (store.Connection, error) {
	c, ok := t.w.cache.conns[id]
	if !ok {
		var err error
		if c, err = (sqlstore.View{Q: t.w.sq}).Connection(ctx, id); err != nil {
			return c, err
		}
		t.w.cache.keepConnection(c)
	}
	if !c.RateLimitedUntil.After(t.now) {
		c.RateLimitedUntil = time.Time{}
	}
	return c, nil
}

// runnableRow returns a runnable row; sql.ErrNoRows: there is none yet.
func (t *tx) runnableRow(ctx context.Context, id job.ID, hold string) (sqlitedb.ConnectionReady, error) {
	c := t.w.cache
	if r, ok := c.runnable[id][hold]; ok {
		return r, nil
	}
	r, err := t.q.GetRunnable(ctx, sqlitedb.GetRunnableParams{ConnectionID: id, HoldKey: hold})
	if err == nil {
		c.keepRunnable(id, r)
	}
	return r, err
}

// underWay counts a connection's jobs that are CLAIMED or SENDING.
func (t *tx) underWay(ctx context.Context, conn job.ID) (int64, error) {
	c := t.w.cache
	if c.underWay == nil {
		all, err := t.q.InFlight(ctx)
		if err != nil {
			return 0, err
		}
		c.underWay = make(map[job.ID]int64)
		for _, id := range all {
			c.underWay[id]++
		}
	}
	return c.underWay[conn], nil
}

// anyWaits reports whether any job waits for another one.
func (t *tx) anyWaits(ctx context.Context) (bool, error) {
	c := t.w.cache
	if c.waiting == nil {
		_, err := t.q.AnyWaiting(ctx)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return false, err
		}
		some := err == nil
		c.waiting = &some
	}
	return *c.waiting, nil
}

// unsaturate makes a connection's rows runnable again after its bound, and reports whether
// that changed anything.
func (t *tx) unsaturate(ctx context.Context, id job.ID) (bool, error) {
	if t.w.cache.loose[id] {
		return false, nil
	}
	freed, err := t.q.Unsaturate(ctx, id)
	if err != nil {
		return false, fmt.Errorf("runnable row: %w", err)
	}
	t.w.cache.keepLoose(id)
	return freed > 0, nil
}

// refuseClosed guards the calls that lead to sending, and those that end or remove something
// because its time is over.
func (t *tx) refuseClosed(ctx context.Context) error {
	s, err := t.suspension(ctx)
	if err != nil {
		return err
	}
	return s.Refuse()
}

// refuseQuarantined refuses calls that another copy of the database may be making too.
func (t *tx) refuseQuarantined(ctx context.Context) error {
	s, err := t.suspension(ctx)
	if err != nil {
		return err
	}
	return s.RefuseQuarantined()
}

// suspension returns why no job may start.
func (t *tx) suspension(ctx context.Context) (rules.Suspension, error) {
	m, err := t.meta(ctx)
	if err != nil {
		return rules.Suspension{}, fmt.Errorf("meta: %w", err)
	}
	return t.view().suspension(m), nil
}
