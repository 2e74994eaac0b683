// Package postgres keeps a store in one PostgreSQL database, for any number of processes.
//
// Rules of this package:
//
//   - One method is one short transaction at READ COMMITTED; batches are one statement a
//     step, and concurrent calls share a transaction (coalesce.go).
//   - Locks are taken in one order (lock_order.go): jobs by id, claim locks by connection,
//     gates and effects by their keys, runnable rows by connection and hold key. Claims wait
//     for no job.
//   - Times are the database's, in microseconds.
//   - An event's position is its transaction's id and its number in it. Readers of the whole
//     log stop at the horizon: before the oldest transaction in progress.
//   - Conversions between rows and values are in convert*.go only.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fireonce/fireonce/internal/redact"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Options configure which database to open, and how.
type Options struct {
	redact.All

	// URL is a connection string as pgx accepts it, a URL or a list of settings, including
	// several hosts, sslmode, target_session_attrs and pool_max_conns (12 if unset). The
	// server is PostgreSQL 14 or later, reached directly or through a pooler that keeps a
	// session for each connection.
	URL string
	// Migrate brings an older schema up to date first. Without it, Open refuses
	// a schema that is not the present one.
	Migrate bool
	// SynchronousStandby declares that a failover only ever goes to a standby that
	// had every confirmed commit: a new timeline of the same cluster is then
	// accepted. Without it, one quarantines the database.
	SynchronousStandby bool
	// Namespace is the namespace of a database that has none yet. Empty: a new one.
	Namespace string
	// StateDir is a folder outside of the database in which its newest seen state is noted,
	// so that an older state in its place is detected. Empty: none.
	StateDir string
	// NoteFailed is called when a note in StateDir fails, and with nil when notes work again.
	// It must not block. nil: failures are not reported.
	NoteFailed func(error)
	// Now replaces the server's clock by one that is always right, for tests; nil means the
	// server's.
	Now func() time.Time
	// Clock configures how a clock that changes is treated.
	Clock store.ClockOptions
	// MaxInFlight is the bound for connections that state none; 0 means rules.DefaultMaxInFlight.
	MaxInFlight int
}

// Store is one open database. It implements store.Store.
type Store struct {
	sqlstore.Roles
	opts Options
	pool *pgxpool.Pool
	// readers bounds the connections of reading calls.
	readers  chan struct{}
	hints    store.Hints
	notifier *notifier
	registry *workerRegistry

	// Calls that share transactions, by kind.
	creates *coalescer[store.NewJob, store.Created]
	work    work

	clock clock
	began time.Time
	// lead is how far the believed time was ahead of the server's, in microseconds.
	lead atomic.Int64

	// namespace is part of the keys of this process's attempts.
	namespace atomic.Pointer[string]
	// armed reports that an attempt was ever committed: the namespace is fixed.
	armed atomic.Bool
	// durable is the position of an event that is known to be durable.
	durable atomic.Int64
	// known is the newest incarnation that was noted outside of the database; 0: none.
	known      atomic.Int64
	memory     *memory
	identityMu sync.Mutex
	seen       identity
	// settleMu lets one session at a time store a change of the database's identity.
	settleMu sync.Mutex

	growth  *background
	watched *background
	waker   *waker

	closeOnce sync.Once
	closed    chan struct{}
}

// Open connects to the database. It fails with ErrSchema when its schema is not the one that
// this program knows, with ErrUnsafe when the server could lose what it confirms or is
// read-only, with ErrRefused when it refuses the connection, and with store.ErrUnavailable
// when it cannot be reached for now.
func Open(ctx context.Context, opts Options) (*Store, error) {
	s, err := open(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return s, nil
}

func open(ctx context.Context, opts Options) (*Store, error) {
	if opts.MaxInFlight <= 0 {
		opts.MaxInFlight = rules.DefaultMaxInFlight
	}
	config, err := parse(opts)
	if err != nil {
		return nil, err
	}
	s := &Store{opts: opts, closed: make(chan struct{}), registry: newWorkerRegistry()}
	s.Roles = s.shared()
	if opts.Now != nil {
		s.registry.now = opts.Now
		s.began = opts.Now()
	}
	s.notifier = newNotifier(s, config.ConnConfig)
	conn, err := s.prepare(ctx, s.notifier.config)
	if err != nil {
		return nil, err
	}
	config.AfterConnect = s.greet
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, errors.Join(opening(ctx, err), conn.Close(context.WithoutCancel(ctx)))
	}
	s.readers = make(chan struct{}, max(1, config.MaxConns-config.MaxConns/4))
	s.notifier.start(conn)
	s.creates = newCoalescer(context.Background(), 1, s.createAll, refusedCreate)
	s.waker = newWaker(s.wakeSchedule) // before any work can end a job
	s.startWork(context.Background())
	s.growth, s.watched = s.watchGrowth(), s.watchClock()
	if err := within(ctx, s.watchNewest); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// prepare checks the server and the schema, on a connection that then listens.
func (s *Store) prepare(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, opening(ctx, err)
	}
	if err := s.prepareOn(ctx, conn); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return conn, nil
}

func (s *Store) prepareOn(ctx context.Context, conn *pgx.Conn) error {
	if err := within(ctx, func(ctx context.Context) error { return checkServer(ctx, conn) }); err != nil {
		return err
	}
	// A migration may rewrite tables: it has no limit of time.
	if err := prepareSchema(ctx, conn, s.opts.Migrate); err != nil {
		return err
	}
	return within(ctx, func(ctx context.Context) error {
		if err := s.createMeta(ctx, conn); err != nil {
			return opening(ctx, err)
		}
		if err := s.recall(ctx, conn); err != nil {
			return err
		}
		if err := s.greet(ctx, conn); err != nil {
			return opening(ctx, err)
		}
		if err := s.openClock(ctx, conn); err != nil {
			return unavailable(ctx, err)
		}
		return nil
	})
}

// greet prepares a new connection.
func (s *Store) greet(ctx context.Context, conn *pgx.Conn) error {
	writeValues(conn)
	writeColumns(conn)
	if err := session(ctx, conn); err != nil {
		return err
	}
	return s.settle(ctx, conn)
}

// notify wakes this process's watchers, and the other servers'.
func (s *Store) notify(kinds store.WatchKinds) {
	s.hints.Notify(kinds)
	s.notifier.request(kinds)
}

// Close ends all work. Calls in progress end first; later ones fail with ErrUnavailable.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closed)
		s.creates.close()
		s.work.end()
		s.waker.close()
		s.notifier.close()
		s.growth.close()
		s.endNotes()
		s.watched.close()
		s.endDoubt()
		s.pool.Close()
	})
	return nil
}

// Watch implements store.Store.
func (s *Store) Watch(kind store.WatchKind) (<-chan struct{}, func()) { return s.hints.Watch(kind) }

// Saturation returns how many connections of the pool are in use, and how many there may be.
func (s *Store) Saturation() (busy, limit int) {
	stat := s.pool.Stat()
	return int(stat.AcquiredConns()), int(stat.MaxConns())
}
