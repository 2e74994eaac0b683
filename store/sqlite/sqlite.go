// Package sqlite keeps a store in one SQLite file, for one process at a time.
//
// Rules of this package:
//
//   - One process has the file, for the process's life and under every name, by a lock on the
//     file itself and one on a lock file beside it (file_unix.go).
//   - All writes go through one goroutine, which runs many calls in one transaction with one
//     fsync for all of them (see writer.go). Reads have connections of their own and never
//     wait for a write.
//   - Times are the process's, in microseconds, and only a step moves them backwards
//     (clock.go).
//   - Rows have the domain's types (dialect.go), and store/sqlstore makes jobs of them.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Options configure which database to open, and how.
type Options struct {
	// Path is the database file. Beside it, after symbolic links are resolved (see
	// Resolve), are PATH-wal, PATH-shm and PATH.lock.
	Path string
	// Migrate brings an older schema up to date first. Without it, Open refuses
	// a schema that is not the present one.
	Migrate bool
	// Namespace is the namespace of a database that has none yet. Empty: a new one.
	Namespace string
	// StateDir is a folder elsewhere, in which the newest state that was seen is recorded as
	// in PATH.lock, so that an older state in its place is detected. Empty: none.
	StateDir string
	// NoteFailed is called when a note in StateDir fails, and with nil when notes work again.
	// It must not block. nil: failures are not reported.
	NoteFailed func(error)
	// Now replaces the machine's clocks by one that is always right, for tests.
	Now func() time.Time
	// Clock configures how a clock that changes is treated.
	Clock store.ClockOptions
	// Host names this machine, to detect a database that was copied to another one; empty
	// means the machine id, or the host's name.
	Host string
	// MaxInFlight is the bound for connections that state none; 0 means rules.DefaultMaxInFlight.
	MaxInFlight int
	// WatchEvery is how often an idle process compares the file with its record, to detect
	// that it was replaced; 0 means a second. Every commit compares them too.
	WatchEvery time.Duration
	// Readers is the number of connections for reading; 0 means 4.
	Readers int
}

const (
	defaultReaders = 4
	// busyTimeout only matters for other programs that read the file.
	busyTimeout = 5 * time.Second
)

// Store is one open database. It implements store.Store.
type Store struct {
	sqlstore.Roles
	opts   Options
	clock  *clock
	lock   *fileLock
	db     *sql.DB
	writer *writer
	// readers holds the idle reading connections.
	readers chan *reader
	hints   store.Hints
	// enlisted has the live workers: those of this process.
	enlisted enlisted

	// noted is the record in the lock file, and watched what must not change under this
	// process; only the writer uses both while it runs.
	noted   lockMark
	memory  memory
	watched *watched
	loss    *loss
	watches sync.WaitGroup

	closeOnce sync.Once
	closeErr  error
	closed    chan struct{}
}

var _ store.Store = (*Store)(nil)

// reader is a connection that only reads.
type reader struct {
	ses *session
	q   *sqlitedb.Queries
	sq  *shareddb.Queries
}

// Open takes the database for this process. It fails with ErrLocked when
// another process has it, with ErrLost when the file is gone and its lock file is not, unless
// Options.Namespace is set, with ErrLinked when the file has several names, and with
// ErrSchema when its schema is not the one that this program knows.
func Open(ctx context.Context, opts Options) (_ *Store, err error) {
	if opts.MaxInFlight <= 0 {
		opts.MaxInFlight = rules.DefaultMaxInFlight
	}
	if opts.Readers <= 0 {
		opts.Readers = defaultReaders
	}
	if opts.WatchEvery <= 0 {
		opts.WatchEvery = defaultWatchEvery
	}
	lock, err := takeLock(opts.Path, opts.Namespace != "")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", opts.Path, err)
	}
	s := &Store{
		opts: opts, lock: lock,
		readers: make(chan *reader, opts.Readers), closed: make(chan struct{}), loss: newLoss(),
		watched: &watched{lock: lock, log: lock.path + "-wal", epoch: newEpoch()},
	}
	s.Roles = s.shared()
	s.memory.reporter.Report = opts.NoteFailed
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open %s: %w", opts.Path, err), s.release())
		}
	}()
	if s.db, err = sql.Open("sqlite", dsn(lock.path)); err != nil {
		return nil, err
	}
	if err := prepareSchema(ctx, s.db, opts.Migrate); err != nil {
		return nil, err
	}
	if err := s.openClock(ctx); err != nil {
		return nil, err
	}
	if s.writer, err = s.newWriter(ctx); err != nil {
		return nil, err
	}
	go s.writer.run()
	for range opts.Readers {
		r, err := newReader(ctx, s.db)
		if err != nil {
			return nil, err
		}
		s.readers <- r
	}
	if err := s.takeOver(ctx); err != nil {
		return nil, err
	}
	s.watches.Go(s.keepWatch)
	if opts.Now == nil && opts.Clock.Read == nil {
		s.watches.Go(s.watchClock)
	}
	return s, nil
}

// dsn names the file and the settings that every connection to it needs.
// FULL makes a commit wait for its fsync: an answer means durable. On macOS an fsync stops at
// the disk's own cache; fullfsync asks for more there, and changes nothing elsewhere.
func dsn(path string) string {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath()}
	u.RawQuery = url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		"journal_mode(WAL)", "synchronous(FULL)", "fullfsync(ON)", "checkpoint_fullfsync(ON)", "foreign_keys(ON)",
		"cache_size(-65536)", "temp_store(MEMORY)",
		fmt.Sprintf("wal_autocheckpoint(%d)", writeBackPages),
	}}.Encode()
	return u.String()
}

func newReader(ctx context.Context, db *sql.DB) (*reader, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("reader: %w", err)
	}
	if _, err := conn.ExecContext(ctx, "PRAGMA query_only = ON"); err != nil {
		return nil, fmt.Errorf("reader: %w", err)
	}
	ses := newSession(conn, nil)
	return &reader{ses: ses, q: sqlitedb.New(dialect{ses}), sq: shareddb.New(dialect{ses})}, nil
}

// view is what a reading method sees: one state of the whole database.
type view struct {
	s    *Store
	q    *sqlitedb.Queries
	sq   *shareddb.Queries
	conn runner
	now  time.Time
	// suspect describes a clock that is not believed.
	suspect store.SuspectClock
}

// suspension returns why no job may start.
func (v view) suspension(m sqlitedb.Meta) rules.Suspension {
	return rules.Suspension{Quarantined: m.Quarantined, Clock: v.suspect}
}

// read runs fn on one state of the database. fn's statements are short and
// bounded, so they run without the caller's context: a context that can end
// costs the driver a goroutine per statement.
func read[T any](ctx context.Context, s *Store, name string, fn func(context.Context, view) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, fmt.Errorf("%s: %w", name, err)
	}
	select {
	case <-s.closed:
		return zero, fmt.Errorf("%s: %w", name, sqlstore.ErrClosed)
	default:
	}
	if err := s.loss.failed(); err != nil {
		return zero, fmt.Errorf("%s: %w", name, err)
	}
	var r *reader
	select {
	case r = <-s.readers:
	case <-ctx.Done():
		return zero, fmt.Errorf("%s: %w", name, ctx.Err())
	case <-s.closed:
		return zero, fmt.Errorf("%s: %w", name, sqlstore.ErrClosed)
	}
	defer func() { s.readers <- r }()
	ctx = context.WithoutCancel(ctx)
	if err := r.ses.control(ctx, "BEGIN"); err != nil {
		return zero, fmt.Errorf("%s: %w", name, translate(err))
	}
	ended := false
	defer func() {
		if !ended { // fn panicked: a reader that is left in a transaction is of no use
			_ = r.ses.control(ctx, "ROLLBACK")
		}
	}()
	s.clock.steps.RLock()
	defer s.clock.steps.RUnlock()
	m := s.clock.moment()
	v, err := fn(ctx, view{s: s, q: r.q, sq: r.sq, conn: r.ses.conn, now: fromMicros(m.Now), suspect: m.Suspect})
	cerr := r.ses.control(ctx, "COMMIT")
	ended = cerr == nil
	if err == nil {
		err = cerr
	}
	if err != nil {
		return zero, fmt.Errorf("%s: %w", name, translate(err))
	}
	return v, nil
}

// Close answers the queued calls, with ErrUnavailable where they have not begun, and releases
// the file.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closed)
		s.watches.Wait()
		s.writer.queue.Close()
		all := make([]*reader, cap(s.readers))
		for i := range all {
			all[i] = <-s.readers // each comes back once its call has ended
		}
		for _, r := range all {
			s.readers <- r
		}
		s.markClosed()
		s.closeErr = s.release()
	})
	return s.closeErr
}

// release undoes what Open has done, in the reverse order. It leaves a lost database as it
// is, because closing it would write its log into another state.
func (s *Store) release() error {
	if s.loss.failed() != nil {
		return s.lock.release()
	}
	var err error
	for len(s.readers) > 0 {
		r := <-s.readers
		err = errors.Join(err, r.ses.close(), r.ses.conn.Close())
	}
	if s.writer != nil {
		s.writer.queue.Close()
		err = errors.Join(err, s.writer.close())
	}
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	return errors.Join(err, s.lock.release())
}

// Watch implements store.Store.
func (s *Store) Watch(kind store.WatchKind) (<-chan struct{}, func()) { return s.hints.Watch(kind) }

// Saturation returns how many operations wait for the writer, and how many may.
func (s *Store) Saturation() (busy, limit int) { return s.writer.queue.Length() }
