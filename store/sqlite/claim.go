package sqlite

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/column"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file:
//   - a claim walks the due runnable rows, those that wait longest first, and serves each an
//     equal share, then the rows that have more jobs;
//   - a row that was served goes behind the others, so that small claims alternate too;
//   - a row that is held, or whose connection is at a bound, has no runnable_at or a later
//     one: claims do not read it until that changes;
//   - a row that a stop covers is set aside until a time. Notices in it that pass the stop are
//     claimed: the row is not set aside while one is due, and is looked at again soon while one
//     is under way.

// Claim implements store.Store.
func (s *Store) Claim(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	return write(ctx, s, "claim", func(ctx context.Context, t *tx) ([]store.Leased, error) {
		if err := t.refuseClosed(ctx); err != nil {
			return nil, err
		}
		c := &claimer{tx: t, p: p, left: int64(rules.Page(p.Limit)), conns: make(map[job.ID]*claimed), room: p.Room.Clone()}
		for c.left > 0 {
			rows, err := c.runnable(ctx)
			if err != nil {
				return nil, fmt.Errorf("runnable rows: %w", err)
			}
			if len(rows) == 0 {
				break
			}
			took, err := c.share(ctx, rows)
			if err != nil {
				return nil, err
			}
			if took == 0 && c.idle(rows) || c.aside >= store.MaxBatch {
				break
			}
		}
		if p.Room != nil {
			p.Room.SetAside = c.aside > 0
		}
		return c.out, nil
	})
}

// claimer is one claim in progress.
type claimer struct {
	*tx
	p    store.ClaimParams
	left int64
	// starts: it takes nothing but a job that was just made.
	starts bool
	conns  map[job.ID]*claimed
	// aside counts the rows that were set aside by a stop.
	aside int
	// open has the notices under way by connections that have stopped rows.
	open map[job.ID][]shareddb.OpenNoticesRow
	// empty has the rows without a job to claim although they were due.
	empty map[runnableKey]bool
	room  *store.Room
	out   []store.Leased
}

// runnable reads the due rows that the claim has room for.
func (c *claimer) runnable(ctx context.Context) ([]sqlitedb.RunnableRowsRow, error) {
	conns, projects := c.room.Full()
	return c.q.RunnableRows(ctx, sqlitedb.RunnableRowsParams{
		Now: c.now, Connections: hexList(conns), Projects: list(projects), MaxRows: c.left,
	})
}

type runnableKey struct {
	conn job.ID
	hold string
}

// claimed is a connection, and how many more of its jobs this claim may take.
type claimed struct {
	store.Connection
	bucket   store.Bucket
	capacity int64
}

// idle reports whether none of these rows had a job to claim before: their due jobs are past
// their window and wait for the sweep.
func (c *claimer) idle(rows []sqlitedb.RunnableRowsRow) bool {
	if c.empty == nil {
		c.empty = make(map[runnableKey]bool)
	}
	all := true
	for _, r := range rows {
		k := runnableKey{r.ConnectionID, r.HoldKey}
		all = all && c.empty[k]
		c.empty[k] = true
	}
	return all
}

// share divides what is left among the rows. What a row cannot use stays for the next walk.
func (c *claimer) share(ctx context.Context, rows []sqlitedb.RunnableRowsRow) (int64, error) {
	part := rules.Share(c.left, int64(len(rows)))
	var took int64
	for _, r := range rows {
		n, err := c.serve(ctx, r, min(part, c.left))
		if err != nil {
			return took, err
		}
		took += n
		c.left -= n
	}
	return took, nil
}

// serve claims up to n jobs of one row.
func (c *claimer) serve(ctx context.Context, r sqlitedb.RunnableRowsRow, n int64) (int64, error) {
	conn, err := c.connection(ctx, r.ConnectionID)
	if err != nil {
		return 0, err
	}
	stops, err := c.stops(ctx, conn.ID, r.HoldKey)
	if err != nil {
		return 0, err
	}
	of := store.StopTarget{Project: conn.Project, Connector: conn.Connector, Connection: conn.ID, HoldKey: r.HoldKey}
	over := store.StopsOverRow(stops, of, c.now)
	n, notices := over.Lets(n, c.now)
	if over.All != nil {
		if c.starts {
			return 0, nil // another job may be due, a notice too
		}
		if n == 0 || notices {
			return c.serveStopped(ctx, r, n, conn, stops, over)
		}
		if err := c.setAside(ctx, r, over, false); err != nil {
			return 0, err
		}
	}
	n = c.room.Left(conn.Project, conn.ID, min(n, conn.capacity))
	if n <= 0 {
		return 0, nil
	}
	due, err := c.w.sq.DueJobs(ctx, shareddb.DueJobsParams{
		ConnectionID: r.ConnectionID, HoldKey: r.HoldKey, Now: c.now, MaxRows: int32(n),
	})
	if err != nil {
		return 0, fmt.Errorf("due jobs: %w", err)
	}
	for i := range due {
		h, err := c.read(ctx, &due[i])
		if err != nil {
			return 0, fmt.Errorf("read job: %w", err)
		}
		if err := c.take(ctx, h, conn, stops); err != nil {
			return 0, err
		}
	}
	took := int64(len(due))
	return took, c.served(ctx, r, conn, took)
}

// served moves a row of which jobs were claimed behind the others, and counts them.
func (c *claimer) served(ctx context.Context, r sqlitedb.RunnableRowsRow, conn *claimed, took int64) error {
	c.w.served = max(c.w.served+1, c.now.UnixMicro())
	err := c.q.Served(ctx, sqlitedb.ServedParams{
		ConnectionID: r.ConnectionID, HoldKey: r.HoldKey, Now: c.now, Turn: c.w.served,
	})
	if err != nil {
		return fmt.Errorf("runnable row: %w", err)
	}
	conn.capacity -= took
	c.room.Take(conn.Project, conn.ID, took)
	return c.bound(ctx, conn, took)
}

// serveStopped claims up to n of the notices in a row that pass the stop over it, and sets the row aside
// unless more are due that may be taken now.
func (c *claimer) serveStopped(
	ctx context.Context, r sqlitedb.RunnableRowsRow, n int64, conn *claimed, stops []store.Stop, over store.RowStops,
) (int64, error) {
	var open bool
	var due []*shareddb.OpenNoticesRow
	if over.Passed(c.now) {
		var err error
		if open, due, err = c.notices(ctx, r); err != nil {
			return 0, err
		}
	}
	n = max(0, c.room.Left(conn.Project, conn.ID, min(n, conn.capacity, int64(len(due)))))
	for _, o := range due[:n] {
		h, err := c.load(ctx, o.JobID)
		if err != nil {
			return 0, fmt.Errorf("read job: %w", err)
		}
		if err := c.take(ctx, h, conn, stops); err != nil {
			return 0, err
		}
		o.State = job.Claimed
	}
	if n > 0 {
		if err := c.served(ctx, r, conn, n); err != nil {
			return n, err
		}
	}
	if n < int64(len(due)) && !over.Probed(c.now) {
		return n, nil
	}
	return n, c.setAside(ctx, r, over, open)
}

// setAside sets a row aside that a stop covers. open reports that notices are under way which pass it.
func (c *claimer) setAside(ctx context.Context, r sqlitedb.RunnableRowsRow, over store.RowStops, open bool) error {
	c.aside++
	return named("runnable row", c.q.SetAside(ctx, sqlitedb.SetAsideParams{
		ConnectionID: r.ConnectionID, HoldKey: r.HoldKey, StoppedUntil: over.SetAside(c.now, open),
	}))
}

// notices reports whether a notice is under way in a row, and returns those that are due.
func (c *claimer) notices(ctx context.Context, r sqlitedb.RunnableRowsRow) (open bool, due []*shareddb.OpenNoticesRow, err error) {
	of, ok := c.open[r.ConnectionID]
	if !ok {
		if of, err = c.w.sq.OpenNotices(ctx, []job.ID{r.ConnectionID}); err != nil {
			return false, nil, fmt.Errorf("open notices: %w", err)
		}
		if c.open == nil {
			c.open = make(map[job.ID][]shareddb.OpenNoticesRow)
		}
		c.open[r.ConnectionID] = of
	}
	for i := range of {
		if o := &of[i]; o.HoldKey == r.HoldKey {
			if open = true; sqlstore.NoticeDue(*o, c.now) {
				due = append(due, o)
			}
		}
	}
	return open, due, nil
}

// take leases a job, and arms it, if that is wanted and every guard of an arm holds.
func (c *claimer) take(ctx context.Context, h *cachedJob, conn *claimed, stops []store.Stop) error {
	from := h.State
	h.Job, h.claimedAt = rules.Claimed(h.Job, &c.p, randomID(), c.now), c.now
	l, err := c.leased(ctx, h.at(c.now), conn.Connection)
	if err != nil {
		return err
	}
	l.Stopped = store.StopOver(stops, store.StopTargetOf(&l.Spec, conn.Connector), c.now)
	a := c.intent(l)
	if a != nil && !c.savepoints {
		l.Armed, err = c.atOnce(ctx, from, h, &l.Snapshot, a)
		a = nil
	}
	if err == nil && l.Armed == nil {
		l.Armed, err = c.inSteps(ctx, from, h, a)
	}
	c.out = append(c.out, l)
	return err
}

// read returns a due job with its attempts and its ruling, which most do not have.
func (c *claimer) read(ctx context.Context, due *shareddb.DueJobsRow) (*cachedJob, error) {
	if due.Attempt > 0 || due.ResolutionID != 0 {
		h, err := c.load(ctx, due.JobID)
		return h, err
	}
	j, err := sqlstore.ToDueJob(due)
	return &cachedJob{Job: j}, err
}

// lease writes a claim that does not arm.
func (c *claimer) lease(ctx context.Context, from job.State, h *cachedJob) error {
	n, err := c.q.ClaimJob(ctx, sqlitedb.ClaimJobParams{
		ClaimToken: column.OptionalID(h.ClaimToken), Now: c.now, Worker: c.p.Worker, LeaseEnd: h.NextAt,
		JobID: h.ID, Version: h.Version - 1, History: c.noteClaim(from, h),
	})
	if err != nil {
		return fmt.Errorf("claim job: %w", err)
	}
	if n != 1 {
		return fmt.Errorf("claim job %s: %w: read as due, but not so when written", h.ID, store.ErrIllegal)
	}
	c.w.cache.moved(h.Connection, from, job.Claimed)
	c.w.cache.keep(h)
	return nil
}

// noteClaim adds the event of a claim; h is the job that it leaves.
func (c *claimer) noteClaim(from job.State, h *cachedJob) []byte {
	return c.note(&h.Job, job.Event{From: from, Cause: job.CauseClaimed, Actor: c.p.Worker})
}

// connection reads a connection once per claim and computes how many jobs it may take.
func (c *claimer) connection(ctx context.Context, id job.ID) (*claimed, error) {
	if conn, ok := c.conns[id]; ok {
		return conn, nil
	}
	var err error
	conn := &claimed{}
	if conn.Connection, err = c.getConnection(ctx, id); err != nil {
		return nil, fmt.Errorf("connection: %w", err)
	}
	if conn.bucket.PerMinute = int64(conn.MaxPerMinute); conn.MaxPerMinute > 0 {
		if conn.bucket.At, err = c.q.BucketOf(ctx, id); err != nil {
			return nil, fmt.Errorf("token bucket: %w", err)
		}
	}
	busy, err := c.underWay(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("in flight: %w", err)
	}
	conn.capacity = rules.Bounds{
		MaxInFlight: int64(conn.MaxInFlight), Default: int64(c.w.s.opts.MaxInFlight), Busy: busy, Bucket: conn.bucket,
	}.Capacity(c.now.UnixMicro())
	c.conns[id] = conn
	return conn, c.bound(ctx, conn, 0)
}

// bound takes the tokens that were used, and sets the connection's rows aside when it has
// reached one of its bounds.
func (c *claimer) bound(ctx context.Context, conn *claimed, took int64) error {
	now := c.now.UnixMicro()
	b := rules.Take(conn.bucket, now, took)
	if b.At != conn.bucket.At {
		conn.bucket = b
		if err := c.q.SetBucket(ctx, sqlitedb.SetBucketParams{BucketAt: b.At, ID: conn.ID}); err != nil {
			return fmt.Errorf("token bucket: %w", err)
		}
	}
	if conn.capacity > 0 {
		return nil
	}
	if rules.Paced(b, now) {
		return named("token bucket", c.q.Pace(ctx, sqlitedb.PaceParams{PacedUntil: fromMicros(b.At), ConnectionID: conn.ID}))
	}
	return named("bound", c.q.Saturate(ctx, conn.ID))
}
