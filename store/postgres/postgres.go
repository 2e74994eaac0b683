// Package postgres keeps a store in one PostgreSQL database, for any number of
// processes at once.
//
// Rules of this package:
//
//   - One method is one short transaction at READ COMMITTED; batches are one
//     statement a step, and concurrent calls share a transaction (coalesce.go).
//   - Locks are taken in one order: a connection's claim row, jobs by id, gates and
//     effects by their keys, ready rows by connection and hold key. Claims wait for
//     no job.
//   - Times are the database's, in microseconds.
//   - An event's position is its transaction's id and its number in it. Readers of
//     the whole log stop at the horizon: before the oldest transaction that is
//     still under way.
//   - Conversions between rows and values live in convert.go only.
package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fireonce/fireonce/internal/job"
)

// Options say which database to open and how.
type Options struct {
	// URL is a connection string, as pgx takes it.
	URL string
	// Migrate brings an older schema up to date first. Without it, Open refuses
	// a schema that is not the present one.
	Migrate bool
	// Now replaces the server's clock, for tests; nil means the server's.
	Now func() time.Time
	// MaxInFlight is the bound for connections that state none; 0 means 100.
	MaxInFlight int
}

const defaultMaxInFlight = 100

// Store is one open database.
type Store struct {
	opts  Options
	pool  *pgxpool.Pool
	hints hints

	clockMu sync.Mutex
	latest  time.Time

	closeOnce sync.Once
	closed    chan struct{}
}

// Open connects to the database.
func Open(ctx context.Context, opts Options) (*Store, error) {
	if opts.MaxInFlight <= 0 {
		opts.MaxInFlight = defaultMaxInFlight
	}
	pool, err := pgxpool.New(ctx, opts.URL)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return &Store{opts: opts, pool: pool, closed: make(chan struct{})}, nil
}

// present is the time that counts as now where the server's clock says at. It
// never goes backwards in this process.
func (s *Store) present(at time.Time) time.Time {
	if s.opts.Now != nil {
		at = s.opts.Now()
	}
	at = job.Micros(at)
	s.clockMu.Lock()
	defer s.clockMu.Unlock()
	if at.After(s.latest) {
		s.latest = at
	}
	return s.latest
}

// give wakes this process's watchers.
func (s *Store) give(kinds [2]bool) { s.hints.give(kinds) }

// Close ends all work.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closed)
		s.pool.Close()
	})
	return nil
}
