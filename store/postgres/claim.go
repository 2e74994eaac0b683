package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file:
//   - a claim reads the due runnable rows, those that wait longest first, and serves each an
//     equal share, then the rows that have more jobs. A row that was served goes behind the
//     others;
//   - a row that is held, or whose connection is at a bound, has no runnable_at or a later
//     one: claims do not read it until that changes;
//   - a row that a stop covers is set aside until a time, under a lock of the stop, so that its
//     end finds the row. Notices in it that pass the stop are claimed: the row is not set aside
//     while one is due, and is looked at again soon while one is under way. A breaker whose probe
//     is due lets one job of its row through;
//   - the use of a connection's bounds is read and written under its claim lock, a row of
//     connection_claims, which claims take if it is free. A claim that finds none free waits
//     for one, so that no claim stays without jobs forever;
//   - jobs are locked only when they are free, so a claim waits for no job. A job whose
//     newest event is not before this transaction in the log is left for the next claim;
//   - a connection is set aside as saturated only after its claim lock was taken alone:
//     results that were being written have committed then and are counted, and later ones
//     wait and find the connection set aside. Runnable rows are locked last (see
//     runnable.go).

// Claim implements store.Store. Most claims take three round trips: the due rows, with the
// BEGIN; the jobs; and the writes, with the COMMIT. If the database itself refuses an intent,
// the claim is repeated without intents.
func (s *Store) Claim(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	out, err := s.claim(ctx, p)
	if p.Intent != nil && errors.Is(err, store.ErrIllegal) && !errors.Is(err, store.ErrUnconfirmed) {
		p.Intent = nil
		return s.claim(ctx, p)
	}
	return out, err
}

func (s *Store) claim(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	return leasing(ctx, s, "claim", func(ctx context.Context, d *dueRows, t *tx) {
		d.queue(ctx, t, rules.Page(p.Limit), p.Room)
	}, func(ctx context.Context, d *dueRows, t *tx) ([]store.Leased, error) {
		if err := t.refuseClosed(); err != nil {
			return nil, err
		}
		c := &claimer{tx: t, p: p, left: int64(rules.Page(p.Limit)), room: p.Room.Clone()}
		if err := c.open(ctx, d); err != nil {
			return nil, err
		}
		active, err := c.unstopped(ctx)
		if err != nil {
			return nil, err
		}
		if err := c.passNotices(ctx); err != nil {
			return nil, err
		}
		for len(active) > 0 && c.left > 0 {
			if active, err = c.share(ctx, active); err != nil {
				return nil, err
			}
		}
		if err := c.leave(ctx); err != nil {
			return nil, err
		}
		if p.Room != nil {
			p.Room.Unread = c.left > 0 && len(d.rows) == rules.Page(p.Limit)
			p.Room.SetAside = c.aside
		}
		return c.out, nil
	})
}

// claimer is one claim in progress.
type claimer struct {
	*tx
	p     store.ClaimParams
	left  int64
	rows  []*runnableRow
	locks map[job.ID]*claimLock
	conns map[job.ID]store.Connection
	// held has held runnable rows, among those with jobs that may be armed.
	held map[runnableKey]bool
	room *store.Room
	// stops may be over the jobs of the rows, and aside reports that a row was set aside by one.
	stops []store.Stop
	aside bool
	out   []store.Leased
}

// dueRows is what is due when a claim begins: runnable rows, their connections, and those of
// their claim locks that are free.
type dueRows struct {
	rows  []pgdb.RunnableRowsRow
	conns []pgdb.RunnableConnectionsRow
	free  []pgdb.ConnectionClaim
}

// queue queues the reads of these rows with the BEGIN. Each statement sees what was committed
// before it: jobs are counted after the claim locks are taken.
func (d *dueRows) queue(ctx context.Context, t *tx, most int, room *store.Room) {
	at, lead := t.s.due()
	conns, projects := room.Full()
	p := pgdb.RunnableRowsParams{
		At: at, Lead: lead, MaxRows: int32(most),
		FullConnections: sqlstore.Listed(conns), FullProjects: sqlstore.Listed(projects),
	}
	t.queue(ctx, query("claim locks", (*pgdb.Queries).TakeClaimLocks, pgdb.TakeClaimLocksParams(p), &d.free))
	t.queue(ctx, query("runnable rows", (*pgdb.Queries).RunnableRows, p, &d.rows))
	t.queue(ctx, query("connections", (*pgdb.Queries).RunnableConnections, pgdb.RunnableConnectionsParams(p), &d.conns))
}

// named adds the name of the failed part to an error.
func named(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// runnableRow is a runnable row whose claim lock the claim holds.
type runnableRow struct {
	runnableKey
	lock   *claimLock
	served bool
	// stops are in force over all of its jobs. notices reports that notices are under way which pass them,
	// and due has those that are due.
	stops   store.RowStops
	notices bool
	due     []job.ID
}

// claimLock is a connection, and how many more of its jobs this claim may take.
type claimLock struct {
	bucket    store.Bucket
	capacity  int64
	took      int64
	saturated bool
}

// open keeps the runnable rows whose claim locks it holds. If it holds none, it waits for
// one.
func (c *claimer) open(ctx context.Context, d *dueRows) error {
	if len(d.rows) == 0 {
		return nil
	}
	if len(d.free) == 0 {
		id := d.rows[0].ConnectionID
		one, err := c.q.AwaitClaimLock(ctx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%w: connection %s has no claim row", store.ErrUnavailable, id)
		}
		if err != nil {
			return fmt.Errorf("claim lock: %w", err)
		}
		d.free = append(d.free, one)
		now, err := c.q.Bounds(ctx, []job.ID{id})
		if err != nil {
			return fmt.Errorf("bounds: %w", err)
		}
		for i := range d.conns {
			for _, b := range now {
				if d.conns[i].Connection.ID == b.ID {
					d.conns[i].Busy = b.Busy
					d.conns[i].Connection.MaxInFlight, d.conns[i].Connection.MaxPerMinute = b.MaxInFlight, b.MaxPerMinute
				}
			}
		}
	}
	if err := c.measure(d); err != nil {
		return err
	}
	for _, r := range d.rows {
		if t, ok := c.locks[r.ConnectionID]; ok {
			c.rows = append(c.rows, &runnableRow{runnableKey: runnableKey{r.ConnectionID, r.HoldKey}, lock: t})
		}
	}
	return nil
}

// measure computes how many jobs may be taken of each connection. A connection that became
// due after the claim locks were taken has none; the lock of one that has no more due jobs is
// not used.
func (c *claimer) measure(d *dueRows) error {
	buckets := make(map[job.ID]int64, len(d.free))
	for _, f := range d.free {
		buckets[f.ConnectionID] = f.BucketAt
	}
	c.locks = make(map[job.ID]*claimLock, len(d.free))
	c.conns = make(map[job.ID]store.Connection, len(d.conns))
	for _, r := range d.conns {
		conn, err := sqlstore.ToConnection(shareddb.ConnectionsRow{
			Connection: shareddb.Connection(r.Connection), AuthHoldAt: r.AuthHoldAt, AuthHoldReason: r.AuthHoldReason,
			AuthHoldCause: r.AuthHoldCause, LimitedUntil: r.LimitedUntil,
		}, c.now)
		if err != nil {
			return err
		}
		at, ok := buckets[conn.ID]
		if !ok {
			continue
		}
		t := &claimLock{bucket: store.Bucket{At: at, PerMinute: r.Connection.MaxPerMinute}}
		t.capacity = c.bounds(r.Connection.MaxInFlight, r.Busy, t.bucket).Capacity(c.now.UnixMicro())
		c.locks[conn.ID], c.conns[conn.ID] = t, conn
	}
	return nil
}

// bounds returns a connection's bounds and their use.
func (c *claimer) bounds(limit, busy int64, bucket store.Bucket) rules.Bounds {
	return rules.Bounds{MaxInFlight: limit, Default: int64(c.s.opts.MaxInFlight), Busy: busy, Bucket: bucket}
}

// findStops reads the stops that may be over the jobs of these rows.
func (c *claimer) findStops(ctx context.Context, keys []runnableKey) (err error) {
	if c.tx.stops == 0 || len(keys) == 0 {
		return nil
	}
	var conns []job.ID
	var holds []string
	for _, k := range keys {
		conns, holds = append(conns, k.conn), append(holds, k.hold)
	}
	c.stops, err = c.shared().StopsFor(ctx, distinct(conns), holds)
	return err
}

// stopOver returns the stop that is in force over all jobs of a row; nil: none is.
func (c *claimer) stopOver(k runnableKey) *store.Stop {
	return store.StopOver(c.stops, c.target(k), c.now)
}

// target returns the jobs of a row as stops see them.
func (c *claimer) target(k runnableKey) store.StopTarget {
	conn := c.conns[k.conn]
	return store.StopTarget{Project: conn.Project, Connector: conn.Connector, Connection: k.conn, HoldKey: k.hold}
}

// findNotices finds the notices under way that pass the stops of their rows.
func (c *claimer) findNotices(ctx context.Context) error {
	var conns []job.ID
	for _, r := range c.rows {
		if r.stops.Passed(c.now) {
			conns = append(conns, r.conn)
		}
	}
	if len(conns) == 0 {
		return nil
	}
	if err := c.flush(ctx); err != nil {
		return err
	}
	all, err := c.shared().Q.OpenNotices(ctx, distinct(conns))
	if err != nil {
		return fmt.Errorf("open notices: %w", err)
	}
	open, due := make(map[runnableKey]bool, len(all)), make(map[runnableKey][]job.ID)
	for _, n := range all {
		k := runnableKey{n.ConnectionID, n.HoldKey}
		if open[k] = true; sqlstore.NoticeDue(n, c.now) {
			due[k] = append(due[k], n.JobID)
		}
	}
	for _, r := range c.rows {
		if r.notices, r.due = false, nil; r.stops.Passed(c.now) {
			r.notices, r.due = open[r.runnableKey], due[r.runnableKey]
		}
	}
	return nil
}

// passNotices claims the notices that pass the stops of their rows, of each row no more than its share.
func (c *claimer) passNotices(ctx context.Context) error {
	part := rules.Share(c.left, int64(max(1, len(c.rows))))
	want := make(map[runnableKey]int64)
	p := pgdb.LockNoticesParams{Now: c.now, Base: c.base}
	var conns []job.ID
	var holds []string
	for _, r := range c.rows {
		n, _ := r.stops.Lets(min(part, c.left, r.lock.capacity, int64(len(r.due))), c.now)
		if n = c.room.Left(c.conns[r.conn].Project, r.conn, n); n <= 0 {
			continue
		}
		c.reserve(r, n)
		want[r.runnableKey] = n
		p.Jobs = append(p.Jobs, r.due[:n]...)
		conns, holds = append(conns, r.conn), append(holds, r.hold)
	}
	if len(want) == 0 {
		return nil
	}
	var rows []pgdb.LockNoticesRow
	c.queue(ctx, query("due notices", (*pgdb.Queries).LockNotices, p, &rows))
	if err := c.flushHolds(ctx, conns, holds); err != nil {
		return err
	}
	due := make([]pgdb.LockDueRow, len(rows))
	got := make(map[runnableKey]int64)
	for i, r := range rows {
		due[i] = pgdb.LockDueRow(r)
		got[runnableKey{r.ConnectionID, r.HoldKey}]++
	}
	for _, r := range c.rows {
		c.reserve(r, got[r.runnableKey]-want[r.runnableKey])
		r.served = got[r.runnableKey] > 0
	}
	return c.take(ctx, due)
}

// reserve counts n jobs of a row as taken; a negative n puts them back.
func (c *claimer) reserve(r *runnableRow, n int64) {
	c.room.Take(c.conns[r.conn].Project, r.conn, n)
	c.left, r.lock.capacity, r.lock.took = c.left-n, r.lock.capacity-n, r.lock.took+n
}

// unstopped returns the rows that no stop covers, and those of which one job is let through.
func (c *claimer) unstopped(ctx context.Context) ([]*runnableRow, error) {
	keys := make([]runnableKey, len(c.rows))
	for i, r := range c.rows {
		keys[i] = r.runnableKey
	}
	if err := c.findStops(ctx, keys); err != nil || len(c.stops) == 0 {
		return c.rows, err
	}
	var active []*runnableRow
	for _, r := range c.rows {
		r.stops = store.StopsOverRow(c.stops, c.target(r.runnableKey), c.now)
		if most, notices := r.stops.Lets(1, c.now); most > 0 && !notices {
			active = append(active, r)
		}
	}
	return active, c.findNotices(ctx)
}

// keepStops locks the stops by which rows are set aside. A row whose stop has ended meanwhile is
// not set aside.
func (c *claimer) keepStops(ctx context.Context) error {
	var ids []job.ID
	for _, r := range c.rows {
		for _, stop := range []*store.Stop{r.stops.All, r.stops.Notices} {
			if stop != nil {
				ids = append(ids, stop.ID)
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	kept, err := c.q.KeepStops(ctx, distinct(ids))
	if err != nil {
		return fmt.Errorf("stops: %w", err)
	}
	in := setOf(kept)
	for _, r := range c.rows {
		if s := r.stops.Notices; s != nil && !in[s.ID] {
			r.stops.Notices = nil
		}
		if s := r.stops.All; s != nil && !in[s.ID] {
			r.stops = store.RowStops{}
		}
	}
	return nil
}

// share divides what is left among the rows, and returns the rows that may have more jobs.
func (c *claimer) share(ctx context.Context, active []*runnableRow) ([]*runnableRow, error) {
	part, left := rules.Share(c.left, int64(len(active))), c.left
	want := make(map[runnableKey]int64, len(active))
	reserved := make(map[*claimLock]int64, len(c.locks))
	p := pgdb.LockDueParams{Now: c.now, Base: c.base}
	for _, r := range active {
		project := c.conns[r.conn].Project
		n, _ := r.stops.Lets(min(part, left, r.lock.capacity-reserved[r.lock]), c.now)
		if n = c.room.Left(project, r.conn, n); n <= 0 {
			continue
		}
		c.room.Take(project, r.conn, n)
		want[r.runnableKey], reserved[r.lock], left, r.served = n, reserved[r.lock]+n, left-n, true
		p.Connections = append(p.Connections, r.conn)
		p.HoldKeys = append(p.HoldKeys, r.hold)
		p.Most = append(p.Most, n)
	}
	if len(want) == 0 {
		return nil, nil
	}
	due, err := c.lockDue(ctx, p)
	if err != nil {
		return nil, err
	}
	got := make(map[runnableKey]int64, len(want))
	for _, d := range due {
		got[runnableKey{d.ConnectionID, d.HoldKey}]++
	}
	if err := c.take(ctx, due); err != nil {
		return nil, err
	}
	c.left -= int64(len(due))
	var more []*runnableRow
	for _, r := range active {
		n := got[r.runnableKey]
		c.room.Take(c.conns[r.conn].Project, r.conn, n-want[r.runnableKey])
		r.lock.capacity, r.lock.took = r.lock.capacity-n, r.lock.took+n
		if n == want[r.runnableKey] && r.stops.All == nil {
			more = append(more, r)
		}
	}
	return more, nil
}

// lockDue sends the writes of the round before and locks jobs.
func (c *claimer) lockDue(ctx context.Context, p pgdb.LockDueParams) (due []pgdb.LockDueRow, err error) {
	c.queue(ctx, query("due jobs", (*pgdb.Queries).LockDue, p, &due))
	return due, c.flushHolds(ctx, p.Connections, p.HoldKeys)
}

// flushHolds reads which rows are held, if jobs may be armed, together with what is queued.
func (c *claimer) flushHolds(ctx context.Context, conns []job.ID, holds []string) error {
	var held []pgdb.HeldRowsRow
	if c.p.Intent != nil {
		keys := pgdb.HeldRowsParams{Connections: conns, HoldKeys: holds}
		c.queue(ctx, query("holds", (*pgdb.Queries).HeldRows, keys, &held))
	}
	if err := c.flush(ctx); err != nil {
		return err
	}
	c.holds(held)
	return nil
}

// take leases the locked jobs, arms those that have an intent, and queues the writes.
func (c *claimer) take(ctx context.Context, due []pgdb.LockDueRow) error {
	if len(due) == 0 {
		return nil
	}
	leased, err := c.leased(ctx, due)
	if err != nil {
		return err
	}
	if err := c.armClaimed(ctx, leased, due); err != nil {
		return err
	}
	if err := c.lease(ctx, leased, due); err != nil {
		return err
	}
	c.out = append(c.out, leased...)
	return nil
}

// lease queues the writes of the jobs that are only leased.
func (c *claimer) lease(ctx context.Context, leased []store.Leased, due []pgdb.LockDueRow) error {
	p := pgdb.ClaimJobsParams{Now: c.now, Worker: c.p.Worker, LeaseEnd: leased[0].NextAt}
	for i, d := range due {
		if leased[i].Armed != nil {
			continue
		}
		history, err := c.note(c.claimEvent(&leased[i].Job, d.State))
		if err != nil {
			return err
		}
		p.Jobs = append(p.Jobs, d.JobID)
		p.Versions = append(p.Versions, d.Version)
		p.Tokens = append(p.Tokens, leased[i].ClaimToken)
		p.Positions = append(p.Positions, c.last())
		p.Histories = append(p.Histories, history)
	}
	c.execRows(ctx, len(p.Jobs), statement("claim jobs", (*pgdb.Queries).ClaimJobs, p))
	return nil
}

// claimEvent returns the event of the claim that left a job like j.
func (c *claimer) claimEvent(j *job.Job, from job.State) logpage.Entry {
	return eventOf(j, job.Event{From: from, Cause: job.CauseClaimed, Actor: c.p.Worker})
}

// leased returns the jobs as the claim leaves them, with the data that their preparation
// needs. It reads what rows only refer to.
func (c *claimer) leased(ctx context.Context, due []pgdb.LockDueRow) ([]store.Leased, error) {
	out := make([]store.Leased, len(due))
	var more []job.ID
	replies := make([]job.ID, 0, len(due))
	for i, d := range due {
		due := shareddb.DueJobsRow(d)
		j, err := sqlstore.ToDueJob(&due)
		if err != nil {
			return nil, err
		}
		j = rules.Claimed(j, &c.p, randomID(), c.now)
		out[i] = store.Leased{Snapshot: job.Snapshot{Job: j, Now: c.now}, Connection: c.conns[j.Connection]}
		if d.Attempt > 0 || d.ResolutionID != 0 {
			more = append(more, j.ID)
		}
		replies = append(replies, j.ReplyTo)
	}
	snaps, err := c.shared().SnapshotsByID(ctx, more, false)
	if err != nil {
		return nil, err
	}
	answered, err := c.shared().Answered(ctx, replies)
	if err != nil {
		return nil, err
	}
	for i := range out {
		l := &out[i]
		l.ReplyTo = answered[l.Snapshot.ReplyTo]
		if len(c.stops) > 0 {
			l.Stopped = store.StopOver(c.stops, store.StopTargetOf(&l.Spec, l.Connection.Connector), c.now)
		}
		if s, ok := snaps[l.ID]; ok {
			l.Open, l.Fence, l.RoundArmed, l.RoundKey = s.Open, s.Fence, s.RoundArmed, s.RoundKey
			l.Handle, l.Resolution = s.Handle, s.Resolution
			l.PeerEnded, l.EarlierFence = s.PeerEnded, s.EarlierFence
		}
	}
	return out, nil
}

// leave writes the tokens that were used, sets connections at a bound aside, and moves served
// rows behind the others.
func (c *claimer) leave(ctx context.Context) error {
	now := c.now.UnixMicro()
	var buckets pgdb.SetBucketsParams
	var full []job.ID
	for id, t := range c.locks {
		if bucket := rules.Take(t.bucket, now, t.took); bucket != t.bucket {
			t.bucket = bucket
			buckets.Connections = append(buckets.Connections, id)
			buckets.Ats = append(buckets.Ats, t.bucket.At)
		}
		if t.capacity <= 0 && !rules.Paced(t.bucket, now) {
			full = append(full, id)
		}
	}
	c.execRows(ctx, len(buckets.Ats), statement("token buckets", (*pgdb.Queries).SetBuckets, buckets))
	if err := c.saturate(ctx, full); err != nil {
		return err
	}
	if err := c.keepStops(ctx); err != nil {
		return err
	}
	p := pgdb.ServedParams{Now: c.now}
	var left []*runnableRow
	for _, r := range c.rows {
		paced := r.lock.capacity <= 0 && rules.Paced(r.lock.bucket, now)
		if !r.served && !paced && !r.lock.saturated && r.stops.All == nil {
			continue
		}
		var until time.Time
		if paced {
			until = time.UnixMicro(r.lock.bucket.At).UTC()
		}
		left = append(left, r)
		p.Connections = append(p.Connections, r.conn)
		p.HoldKeys = append(p.HoldKeys, r.hold)
		p.Served = append(p.Served, r.served)
		p.Saturated = append(p.Saturated, r.lock.saturated)
		p.PacedUntils = append(p.PacedUntils, until)
	}
	lock := pgdb.LockRunnableParams{Connections: p.Connections, HoldKeys: p.HoldKeys}
	c.execRows(ctx, len(left), statement("runnable rows", (*pgdb.Queries).LockRunnable, lock))
	// A notice that was made meanwhile is found now, or it waits for this lock and then wakes the row.
	if err := c.findNotices(ctx); err != nil {
		return err
	}
	p.StoppedUntils = make([]time.Time, len(left))
	for i, r := range left {
		if r.stops.All != nil && (len(r.due) == 0 || r.stops.Probed(c.now)) {
			p.StoppedUntils[i], c.aside = r.stops.SetAside(c.now, r.notices), true
		}
	}
	c.execRows(ctx, len(left), statement("runnable rows", (*pgdb.Queries).Served, p))
	return nil
}

// saturate takes the claim locks of connections that seem to have reached their bound alone,
// and counts again.
func (c *claimer) saturate(ctx context.Context, full []job.ID) error {
	if len(full) == 0 {
		return nil
	}
	c.queue(ctx, statement("claim locks", (*pgdb.Queries).CloseClaimLocks, full))
	c.queue(ctx, func(ctx context.Context, db pgdb.DBTX) error {
		bounds, err := pgdb.New(db).Bounds(ctx, full)
		if err != nil {
			return fmt.Errorf("bounds: %w", err)
		}
		for _, b := range bounds {
			c.locks[b.ID].saturated = c.bounds(b.MaxInFlight, b.Busy, store.Bucket{}).Free() <= 0
		}
		return nil
	})
	return c.flush(ctx)
}
