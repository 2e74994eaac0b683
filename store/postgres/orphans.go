package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a server holds a lock for each of its workers on the connection that
// listens, and PostgreSQL releases it when that session ends. A free lock is a hint that the
// server is gone, and no proof: its session may be lost alone, while it keeps sending.

// workerLock is hashed into the locks of workers, to separate them from other locks.
const workerLock = 0x66697265

const (
	// settled is how long this process's session must have lasted before another worker's
	// absence counts: the longest back-off of the others' listening connections, and a margin
	// for connecting.
	settled = lastRetry + time.Second
	// missedFor is how long a worker must be absent to count as gone.
	missedFor = time.Second
)

const (
	holdLock = "SELECT pg_advisory_lock_shared(hashtextextended($1, $2))"
	// absentSQL is in no query file because sqlc does not know pg_locks.
	absentSQL = `SELECT w.worker FROM unnest($1::text[]) AS w (worker) WHERE NOT EXISTS (
		SELECT 1 FROM pg_locks AS l
		WHERE l.locktype = 'advisory' AND l.mode = 'ShareLock' AND l.granted AND l.objsubid = 1
			AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
			AND ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended(w.worker, $2)
	)`
)

// workerRegistry has the live workers as far as this process knows.
type workerRegistry struct {
	mu sync.Mutex
	// enlisted are this process's own; held is closed once one's lock is held.
	enlisted []string
	held     map[string]chan struct{}
	// news ends the wait of the connection that holds the locks.
	news chan struct{}
	now  func() time.Time
	// since is when the session that holds this process's locks began; zero: there is none.
	since time.Time
	// missing has when the last call of Orphans, or an earlier one, first found a worker
	// without a lock.
	missing map[string]time.Time
}

func newWorkerRegistry() *workerRegistry {
	return &workerRegistry{held: make(map[string]chan struct{}), news: make(chan struct{}, 1), now: time.Now}
}

// began and ended record the session that holds the locks, at first those of n workers.
func (r *workerRegistry) began(n int) {
	r.mu.Lock()
	r.since = r.now()
	r.mu.Unlock()
	r.holds(n) // after it, so that what is enlisted is in a session that has begun
}

func (r *workerRegistry) ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = time.Time{}
}

// add enlists a worker, and returns a channel that is closed when its lock is held.
func (r *workerRegistry) add(worker string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	held, known := r.held[worker]
	if !known {
		held = make(chan struct{})
		r.held[worker] = held
		r.enlisted = append(r.enlisted, worker)
		select {
		case r.news <- struct{}{}:
		default:
		}
	}
	return held
}

// names returns the workers of this process.
func (r *workerRegistry) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.enlisted...) // never nil, which SQL takes for NULL
}

// holds records that the locks of the first n workers are held.
func (r *workerRegistry) holds(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, worker := range r.enlisted[:n] {
		select {
		case <-r.held[worker]:
		default:
			close(r.held[worker])
		}
	}
}

// take takes the locks on a connection that has those of the first n workers already, and
// returns how many it has then.
func (r *workerRegistry) take(ctx context.Context, conn *pgx.Conn, n int) (int, error) {
	for _, worker := range r.names()[n:] {
		if _, err := conn.Exec(ctx, holdLock, worker, workerLock); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// missed returns the workers that were absent for long enough. When PostgreSQL restarts or
// fails over, all servers lose their sessions together, and an absence proves nothing until
// all had the time to reconnect. This process's own locks show when that was.
func (r *workerRegistry) missed(absent []string) (gone []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	own := slices.ContainsFunc(r.enlisted, func(w string) bool { return slices.Contains(absent, w) })
	if own || r.since.IsZero() || now.Sub(r.since) < settled {
		r.missing = nil
		return nil
	}
	missing := make(map[string]time.Time)
	for _, w := range absent {
		first, known := r.missing[w]
		if !known {
			first = now
		}
		missing[w] = first
		if now.Sub(first) >= missedFor {
			gone = append(gone, w)
		}
	}
	r.missing = missing
	return gone
}

// enlist announces a worker, and returns when its lock is held.
func (s *Store) enlist(ctx context.Context, worker string) error {
	select {
	case <-s.registry.add(worker):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("enlist: %w: %w", store.ErrUnavailable, ctx.Err())
	case <-s.closed:
		return fmt.Errorf("enlist: %w: closed", store.ErrUnavailable)
	}
}

// Gone implements sqlstore.Reading.
func (v sharedView) Gone(ctx context.Context, workers []string) ([]string, error) {
	own := v.s.registry.names()
	others := slices.DeleteFunc(workers, func(w string) bool { return slices.Contains(own, w) })
	if len(others) == 0 {
		return v.s.registry.missed(nil), nil
	}
	absent, err := v.Absent(ctx, append(others, own...))
	if err != nil {
		return nil, err
	}
	return v.s.registry.missed(absent), nil
}

// Absent implements sqlstore.Reading.
func (v sharedView) Absent(ctx context.Context, workers []string) ([]string, error) {
	if len(workers) == 0 {
		return nil, nil
	}
	rows, err := v.conn.Query(ctx, absentSQL, workers, workerLock)
	if err != nil {
		return nil, fmt.Errorf("locks: %w", err)
	}
	absent, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("locks: %w", err)
	}
	return absent, nil
}
