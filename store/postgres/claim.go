package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - a claim reads the ready rows whose time has come, those that wait longest
//     first, and gives each an equal share, then the rest to whoever has more. A row
//     that was served goes behind the others;
//   - a row that is held, or whose connection is at a bound, has no runnable_at or a
//     later one: it costs nothing until that changes;
//   - what counts against a connection's bounds is read and written under the lock
//     of its claim row (its turn), which claims take as they find it free. A claim
//     that finds none free waits for one: nobody comes away empty-handed for ever;
//   - jobs are locked only when they are free, and so a claim waits for no job. One
//     whose newest event is not before this transaction in the log is left for the
//     next claim;
//   - a connection is set aside as saturated only after its turn was closed: results
//     that are being written have committed then and are counted, and later ones
//     wait and find the mark. Ready rows are locked last (see ready.go).

// Claim implements store.Store.
func (s *Store) Claim(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	return leasing(ctx, s, "claim", func(ctx context.Context, t *tx) ([]store.Leased, error) {
		if err := t.refuseQuarantined(); err != nil {
			return nil, err
		}
		c := &claimer{tx: t, p: p, left: int64(page(p.Limit))}
		if err := c.open(ctx); err != nil {
			return nil, err
		}
		for active := c.rows; len(active) > 0 && c.left > 0; {
			var err error
			if active, err = c.share(ctx, active); err != nil {
				return nil, err
			}
		}
		if err := c.leave(ctx); err != nil {
			return nil, err
		}
		return c.leased(ctx, c.jobs)
	})
}

// claimer is one claim under way.
type claimer struct {
	*tx
	p     store.ClaimParams
	left  int64
	rows  []*readyRow
	turns map[job.ID]*turn
	jobs  []job.ID
}

// readyRow is a ready row whose connection's turn the claim has.
type readyRow struct {
	readyKey
	turn   *turn
	served bool
}

// turn is a connection, and how much more of it this claim may take.
type turn struct {
	bucket    store.Bucket
	room      int64
	took      int64
	saturated bool
}

// open reads the ready rows and takes the turns of their connections.
func (c *claimer) open(ctx context.Context) error {
	rows, err := c.q.ReadyRows(ctx, pgdb.ReadyRowsParams{Now: &c.now, MaxRows: int32(c.left)})
	if err != nil {
		return fmt.Errorf("ready rows: %w", err)
	}
	if len(rows) == 0 {
		return nil
	}
	ids := make([]pgtype.UUID, len(rows))
	for i, r := range rows {
		ids[i] = r.ConnectionID
	}
	free, err := c.q.TakeTurns(ctx, ids)
	if err != nil {
		return fmt.Errorf("turns: %w", err)
	}
	if len(free) == 0 {
		one, err := c.q.AwaitTurn(ctx, ids[0])
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%w: connection %s has no claim row", store.ErrUnavailable, toID(ids[0]))
		}
		if err != nil {
			return fmt.Errorf("turn: %w", err)
		}
		free = append(free, one)
	}
	if err := c.measure(ctx, free); err != nil {
		return err
	}
	for _, r := range rows {
		if t, ok := c.turns[toID(r.ConnectionID)]; ok {
			c.rows = append(c.rows, &readyRow{readyKey: readyKey{toID(r.ConnectionID), r.HoldKey}, turn: t})
		}
	}
	return nil
}

// measure finds how much may be taken of each connection.
func (c *claimer) measure(ctx context.Context, free []pgdb.ConnectionClaim) error {
	c.turns = make(map[job.ID]*turn, len(free))
	ids := make([]pgtype.UUID, len(free))
	for i, f := range free {
		c.turns[toID(f.ConnectionID)] = &turn{bucket: store.Bucket{At: f.BucketAt}}
		ids[i] = f.ConnectionID
	}
	bounds, err := c.q.Bounds(ctx, ids)
	if err != nil {
		return fmt.Errorf("bounds: %w", err)
	}
	for _, b := range bounds {
		t := c.turns[toID(b.ID)]
		t.room = c.free(b)
		t.bucket.PerMinute = b.MaxPerMinute
		if b.MaxPerMinute > 0 {
			t.room = min(t.room, t.bucket.Tokens(c.now.UnixMicro()))
		}
	}
	return nil
}

// free is how many more jobs of a connection may be under way.
func (c *claimer) free(b pgdb.BoundsRow) int64 {
	limit := b.MaxInFlight
	if limit == 0 {
		limit = int64(c.s.opts.MaxInFlight)
	}
	return limit - b.Busy
}

// share gives each row its part of what is left, and gives back those that may
// have more.
func (c *claimer) share(ctx context.Context, active []*readyRow) ([]*readyRow, error) {
	part, left := max(1, c.left/int64(len(active))), c.left
	want := make(map[readyKey]int64, len(active))
	room := make(map[*turn]int64, len(c.turns))
	p := pgdb.LockDueParams{Now: &c.now, Base: c.base}
	for _, r := range active {
		n := min(part, left, r.turn.room-room[r.turn])
		if n <= 0 {
			continue
		}
		want[r.readyKey], room[r.turn], left, r.served = n, room[r.turn]+n, left-n, true
		p.Connections = append(p.Connections, fromID(r.conn))
		p.HoldKeys = append(p.HoldKeys, r.hold)
		p.Most = append(p.Most, n)
	}
	if len(want) == 0 {
		return nil, nil
	}
	due, err := c.q.LockDue(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("due jobs: %w", err)
	}
	got := make(map[readyKey]int64, len(want))
	for _, d := range due {
		got[readyKey{toID(d.ConnectionID), d.HoldKey}]++
	}
	if err := c.take(ctx, due); err != nil {
		return nil, err
	}
	c.left -= int64(len(due))
	var more []*readyRow
	for _, r := range active {
		n := got[r.readyKey]
		r.turn.room, r.turn.took = r.turn.room-n, r.turn.took+n
		if n == want[r.readyKey] {
			more = append(more, r)
		}
	}
	return more, nil
}

// take leases the jobs that were locked.
func (c *claimer) take(ctx context.Context, due []pgdb.LockDueRow) error {
	if len(due) == 0 {
		return nil
	}
	end := c.now.Add(c.p.Lease)
	p := pgdb.ClaimJobsParams{Now: &c.now, Worker: c.p.Worker, LeaseEnd: someTime(end), Cause: int16(job.CauseClaimed)}
	for _, d := range due {
		position, err := c.next()
		if err != nil {
			return err
		}
		c.jobs = append(c.jobs, toID(d.JobID))
		p.Jobs = append(p.Jobs, d.JobID)
		p.Versions = append(p.Versions, d.Version)
		p.Tokens = append(p.Tokens, fromID(randomID()))
		p.Positions = append(p.Positions, position)
		p.States = append(p.States, d.State)
	}
	if err := c.q.ClaimJobs(ctx, p); err != nil {
		return fmt.Errorf("claim jobs: %w", err)
	}
	return nil
}

// leave writes the tokens that were used, sets connections at a bound aside,
// and the rows that were served behind the others.
func (c *claimer) leave(ctx context.Context) error {
	now := c.now.UnixMicro()
	var buckets pgdb.SetBucketsParams
	var full []pgtype.UUID
	for id, t := range c.turns {
		if t.bucket.PerMinute > 0 && t.took > 0 {
			t.bucket = t.bucket.Take(now, t.took)
			buckets.Connections = append(buckets.Connections, fromID(id))
			buckets.Ats = append(buckets.Ats, t.bucket.At)
		}
		if t.room <= 0 && !t.paced(now) {
			full = append(full, fromID(id))
		}
	}
	if len(buckets.Ats) > 0 {
		if err := c.q.SetBuckets(ctx, buckets); err != nil {
			return fmt.Errorf("token buckets: %w", err)
		}
	}
	if err := c.saturate(ctx, full); err != nil {
		return err
	}
	p := pgdb.ServedParams{Now: c.now}
	for _, r := range c.rows {
		paced := r.turn.room <= 0 && r.turn.paced(now)
		if !r.served && !paced && !r.turn.saturated {
			continue
		}
		var until time.Time
		if paced {
			until = time.UnixMicro(r.turn.bucket.At).UTC()
		}
		p.Connections = append(p.Connections, fromID(r.conn))
		p.HoldKeys = append(p.HoldKeys, r.hold)
		p.Served = append(p.Served, r.served)
		p.Saturated = append(p.Saturated, r.turn.saturated)
		p.PacedUntils = append(p.PacedUntils, until)
	}
	if len(p.Connections) == 0 {
		return nil
	}
	if err := c.q.LockReady(ctx, pgdb.LockReadyParams{Connections: p.Connections, HoldKeys: p.HoldKeys}); err != nil {
		return fmt.Errorf("ready rows: %w", err)
	}
	if err := c.q.Served(ctx, p); err != nil {
		return fmt.Errorf("ready rows: %w", err)
	}
	return nil
}

// paced tells whether the token bucket is empty.
func (t *turn) paced(now int64) bool { return t.bucket.PerMinute > 0 && t.bucket.Tokens(now) == 0 }

// saturate closes the turns of connections that seem to have as many jobs under
// way as they may, and counts again.
func (c *claimer) saturate(ctx context.Context, full []pgtype.UUID) error {
	if len(full) == 0 {
		return nil
	}
	if err := c.q.CloseTurns(ctx, full); err != nil {
		return fmt.Errorf("turns: %w", err)
	}
	bounds, err := c.q.Bounds(ctx, full)
	if err != nil {
		return fmt.Errorf("bounds: %w", err)
	}
	for _, b := range bounds {
		c.turns[toID(b.ID)].saturated = c.free(b) <= 0
	}
	return nil
}

// leased reads jobs with what preparing them needs, in the order of the ids.
func (t *tx) leased(ctx context.Context, ids []job.ID) ([]store.Leased, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	snaps, err := t.view().snapshots(ctx, ids, true)
	if err != nil {
		return nil, err
	}
	var conns, replies []job.ID
	for _, s := range snaps {
		conns = append(conns, s.Connection)
		if !s.ReplyTo.IsZero() {
			replies = append(replies, s.ReplyTo)
		}
	}
	connections, err := t.view().connections(ctx, conns)
	if err != nil {
		return nil, err
	}
	answered := make(map[job.ID]string, len(replies))
	if len(replies) > 0 {
		rows, err := t.q.ReplyIDs(ctx, fromIDs(replies))
		if err != nil {
			return nil, fmt.Errorf("effects replied to: %w", err)
		}
		for _, r := range rows {
			answered[toID(r.JobID)] = r.ExternalID
		}
	}
	out := make([]store.Leased, len(ids))
	for i, id := range ids {
		s := snaps[id]
		out[i] = store.Leased{Snapshot: s, Connection: connections[s.Connection], ReplyTo: answered[s.ReplyTo]}
	}
	return out, nil
}
