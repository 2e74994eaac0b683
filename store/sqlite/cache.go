package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

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
	job sqlitedb.Job
	st  sqlitedb.JobState
	// attempts are the views of all its attempts, account is the newest one's. Of the newest
	// one, values that st has may be missing.
	attempts rules.AttemptViews
	account  string
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
func (c *cache) forgetRunnable(conn []byte, hold string) {
	id := toID(conn)
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
	c.drop(toID(h.st.JobID))
	if len(c.jobs) >= maxCached || c.bytes+len(h.job.Payload) > maxCachedBytes {
		return
	}
	c.jobs[toID(h.st.JobID)] = h
	c.bytes += len(h.job.Payload)
}

func (c *cache) drop(id job.ID) {
	if h, ok := c.jobs[id]; ok {
		c.bytes -= len(h.job.Payload)
		delete(c.jobs, id)
	}
}

// moved counts a job of a connection that moved from one state to another.
func (c *cache) moved(conn []byte, from, to job.State) {
	if c.underWay == nil || from.InFlight() == to.InFlight() {
		return
	}
	id := toID(conn)
	if to.InFlight() {
		c.underWay[id]++
	} else if c.underWay[id]--; c.underWay[id] == 0 {
		delete(c.underWay, id)
	}
}

// load returns a job as it is. A caller changes it only together with its rows.
func (t *tx) load(ctx context.Context, id []byte) (*cachedJob, error) {
	if h, ok := t.w.cache.jobs[toID(id)]; ok {
		return h, nil
	}
	row, err := t.q.GetJob(ctx, id)
	if err != nil {
		return nil, orNotFound(err)
	}
	return t.whole(ctx, row.Job, row.JobState)
}

// whole adds its attempts to a job's rows.
func (t *tx) whole(ctx context.Context, j sqlitedb.Job, st sqlitedb.JobState) (*cachedJob, error) {
	h := &cachedJob{job: j, st: st}
	if st.Attempt == 0 {
		return h, nil
	}
	newest := attemptOf(st)
	if st.ArmToken == nil { // a claim does not read it with its jobs
		row, err := t.q.LatestAttempt(ctx, st.JobID)
		if err != nil {
			return nil, fmt.Errorf("newest attempt: %w", err)
		}
		newest = sqlitedb.Attempt(row)
	}
	var err error
	h.account = newest.AccountIdentity
	h.attempts, err = t.view().attemptViews(ctx, st.JobID, toView(newest))
	return h, err
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
	if !c.RateLimitedUntil.After(fromMicros(t.now)) {
		c.RateLimitedUntil = time.Time{}
	}
	return c, nil
}

// runnableRow returns a runnable row; sql.ErrNoRows: there is none yet.
func (t *tx) runnableRow(ctx context.Context, conn []byte, hold string) (sqlitedb.ConnectionReady, error) {
	c, id := t.w.cache, toID(conn)
	if r, ok := c.runnable[id][hold]; ok {
		return r, nil
	}
	r, err := t.q.GetRunnable(ctx, sqlitedb.GetRunnableParams{ConnectionID: conn, HoldKey: hold})
	if err == nil {
		c.keepRunnable(id, r)
	}
	return r, err
}

// underWay counts a connection's jobs that are CLAIMED or SENDING.
func (t *tx) underWay(ctx context.Context, conn []byte) (int64, error) {
	c := t.w.cache
	if c.underWay == nil {
		all, err := t.q.InFlight(ctx)
		if err != nil {
			return 0, err
		}
		c.underWay = make(map[job.ID]int64)
		for _, id := range all {
			c.underWay[toID(id)]++
		}
	}
	return c.underWay[toID(conn)], nil
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
func (t *tx) unsaturate(ctx context.Context, conn []byte) (bool, error) {
	id := toID(conn)
	if t.w.cache.loose[id] {
		return false, nil
	}
	freed, err := t.q.Unsaturate(ctx, conn)
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
