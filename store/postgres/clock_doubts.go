package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a server to which the clock is suspect keeps servers that start from
// believing it.
//   - It has a row in clock_doubts, and raises the row's beats with each comparison. It removes
//     the row when it is closed. A server that believes the clock removes all rows.
//   - A row counts while its server lives: while its session holds a lock (orphans.go), or its
//     beats rise. A session that is lost alone ends no doubt, because beats go through the
//     pool. Stored times show nothing here: the clock in doubt is the one that would be
//     compared with them.
//   - A server that starts while there are rows believes nothing. It adds no row for that
//     reason, or two such servers would wait for each other. When the server of every row has
//     been gone for goneFor, it judges the clock as a server does that starts alone.

const (
	// goneFor is how long a server must be without a lock and without a beat to count as
	// gone, by the boot clock of the server that waits for it. It is some times the back-off of
	// a lost session and the interval of beats.
	goneFor = 10 * time.Second
	// watchGap is the longest interval between two comparisons in which another server's
	// absence counts: while the database cannot be reached, every server is absent.
	watchGap = 3 * time.Second
	// endDoubtFor bounds the removal of the own row at the end.
	endDoubtFor = time.Second
)

// doubts is what this server knows of the doubts of all.
type doubts struct {
	// server names this server. enlisted reports that it has had a row, and so a lock.
	server   string
	enlisted bool
	// borrowed reports that the clock is suspect only because other servers suspect it.
	borrowed bool
	// others have the rows of other servers, and watched is when they were read last.
	others  map[string]otherDoubt
	watched time.Duration
}

// otherDoubt is another server's row.
type otherDoubt struct {
	beats int64
	// seen is when the server was last known to live, on the boot clock.
	seen time.Duration
}

func newDoubts(borrowed bool) doubts {
	return doubts{server: "clock:" + randomID().String(), borrowed: borrowed}
}

// doubt writes that the clock is suspect to this server, or waits for the servers to which it
// is.
func (s *Store) doubt(ctx context.Context, q *pgdb.Queries, row pgdb.GetClockRow, why store.SuspectClock, r store.ClockReading) error {
	c := &s.clock
	c.mu.Lock()
	borrowed := c.doubts.borrowed && why.Kind == store.SuspectElsewhere
	if !borrowed {
		c.doubts.enlisted = true
	}
	server := c.doubts.server
	c.mu.Unlock()
	if borrowed {
		return s.awaitDoubters(ctx, q, r)
	}
	s.registry.add(server)
	return q.DoubtClock(ctx, pgdb.DoubtClockParams{Server: server, Steps: row.ClockSteps})
}

// awaitDoubters removes the rows of servers that are gone, and releases the clock when there
// are none left.
func (s *Store) awaitDoubters(ctx context.Context, q *pgdb.Queries, r store.ClockReading) error {
	rows, err := q.ClockDoubts(ctx)
	if err != nil {
		return fmt.Errorf("read who doubts the clock: %w", err)
	}
	servers := make([]string, len(rows))
	for i, row := range rows {
		servers[i] = row.Server
	}
	found, err := s.pool.Query(ctx, absentSQL, servers, workerLock)
	if err != nil {
		return fmt.Errorf("read locks: %w", err)
	}
	absent, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("read locks: %w", err)
	}
	left := int64(len(rows))
	for _, row := range s.clock.goneDoubters(rows, absent, r.Boot) {
		n, err := q.EndDoubt(ctx, pgdb.EndDoubtParams(row))
		if err != nil {
			return fmt.Errorf("end the doubt of a server that is gone: %w", err)
		}
		left -= n
	}
	if left == 0 {
		s.clock.release()
	}
	return nil
}

// release records that no other server suspects the clock.
func (c *clock) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubts.borrowed = false
	c.belief.Release()
}

func (c *clock) goneDoubters(rows []pgdb.ClockDoubt, absent []string, now time.Duration) []pgdb.ClockDoubt {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubts.gone(rows, absent, now)
}

// gone returns the rows whose servers are gone, as of a comparison on the boot clock.
func (d *doubts) gone(rows []pgdb.ClockDoubt, absent []string, now time.Duration) (gone []pgdb.ClockDoubt) {
	interrupted := now-d.watched > watchGap
	others := make(map[string]otherDoubt)
	for _, row := range rows {
		last, known := d.others[row.Server]
		if !known || interrupted || row.Beats != last.beats || !slices.Contains(absent, row.Server) {
			last = otherDoubt{beats: row.Beats, seen: now}
		}
		others[row.Server] = last
		if now-last.seen >= goneFor {
			gone = append(gone, row)
		}
	}
	d.others, d.watched = others, now
	return gone
}

// endDoubt removes this server's row at its end. What it cannot remove counts until goneFor
// has passed for a server that waits for it.
func (s *Store) endDoubt() {
	s.clock.mu.Lock()
	server, enlisted := s.clock.doubts.server, s.clock.doubts.enlisted
	s.clock.mu.Unlock()
	if !enlisted {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endDoubtFor)
	defer cancel()
	_ = pgdb.New(s.pool).EndOwnDoubt(ctx, server)
}
