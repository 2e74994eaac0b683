package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/hostclock"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file:
//   - a caller's context ends the wait for a connection; a transaction that has begun runs to
//     its end, under a time limit of its own, so that its outcome is known;
//   - an error before COMMIT was sent means that nothing was written; only an unanswered
//     COMMIT is unconfirmed;
//   - reading calls, whose number and duration clients control, leave some connections to
//     writing calls: results and leases do not wait for lists;
//   - a transaction that lost to another one, or was overtaken, runs again. fn must therefore
//     start afresh each time it is called.

const (
	// callTimeout bounds one transaction, with its round trips and lock waits. It is above
	// the server's own statement and lock timeouts, which end work more gently, and is only
	// reached on a dead network.
	callTimeout = 30 * time.Second
	// maxTries bounds how often a transaction that lost runs.
	maxTries = 10
	// firstPause is the pause before the second try; each further one doubles it.
	firstPause = 2 * time.Millisecond
	maxPause   = 200 * time.Millisecond
	// maxOrdinal is the number of events that one transaction has positions for.
	maxOrdinal = 1<<20 - 1
)

// tx is one transaction in progress.
type tx struct {
	s    *Store
	conn *pgx.Conn
	q    *pgdb.Queries
	// now counts as the present for the whole transaction.
	now time.Time
	// suspect describes a clock that is not believed.
	suspect store.SuspectClock
	// quarantined is why claims are off; empty: they are on.
	quarantined string
	// stops is how many stops may be in force now or later; 0: nothing is stopped.
	stops int64
	// base is below every event position of this transaction and not below any of
	// a transaction whose id is lower.
	base    int64
	ordinal int64
	// log is what the COMMIT writes of the event log.
	log log
	// hint has the kinds of Watch that are woken after the commit.
	hint store.WatchKinds

	// busy are schedules for the waker, after the commit.
	busy []job.ID

	// batch is sent with the next flush. asks reports that one of its steps reads a result.
	batch *pgx.Batch
	steps []step
	asks  bool
}

// inOrder refuses to write behind a job's newest event: a transaction has its id, and so its
// place in the log, before it has all its locks. Call it with the position of every job that
// was locked to be changed.
func (t *tx) inOrder(position int64) error {
	if position >= t.base {
		return errRestart
	}
	return nil
}

// refuseClosed guards the calls that lead to sending, and those that end or remove something
// because its time is over.
func (t *tx) refuseClosed() error { return t.suspension().Refuse() }

// refuseQuarantined refuses calls that another copy of the database may be making too. A
// quarantine that is committed while such a call runs stops the next one.
func (t *tx) refuseQuarantined() error { return t.suspension().RefuseQuarantined() }

// suspension returns why no job may start.
func (t *tx) suspension() rules.Suspension {
	return rules.Suspension{Quarantined: t.quarantined, Clock: t.suspect}
}

// write runs fn in one transaction and returns its value once that is durable.
func write[T any](ctx context.Context, s *Store, name string, fn func(context.Context, *tx) (T, error)) (T, error) {
	return writeAfter(ctx, s, name, nil, fn)
}

// writeOnly is write for a transaction without a value.
func writeOnly(ctx context.Context, s *Store, name string, fn func(context.Context, *tx) error) error {
	_, err := write(ctx, s, name, func(ctx context.Context, t *tx) (struct{}, error) { return struct{}{}, fn(ctx, t) })
	return err
}

// writeAfter is write for a transaction whose first statements are known before it begins:
// first queues them, and they are sent with its BEGIN. They know no time.
func writeAfter[T any](
	ctx context.Context, s *Store, name string, first func(context.Context, *tx), fn func(context.Context, *tx) (T, error),
) (T, error) {
	var zero T
	for try := 1; ; try++ {
		v, err := writeOnce(ctx, s, first, fn)
		if err == nil {
			return v, nil
		}
		if !repeatable(err) || try == maxTries {
			return zero, fmt.Errorf("%s: %w", name, translate(err))
		}
		if err := s.pause(ctx, try); err != nil {
			return zero, fmt.Errorf("%s: %w", name, err)
		}
	}
}

// pause waits before a further try, between half the back-off and all of it.
func (s *Store) pause(ctx context.Context, try int) error {
	most := min(firstPause<<(try-1), maxPause)
	timer := time.NewTimer(most/2 + rand.N(most/2)) //nolint:gosec // jitter
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closed:
		return sqlstore.ErrClosed
	}
}

func writeOnce[T any](
	ctx context.Context, s *Store, first func(context.Context, *tx), fn func(context.Context, *tx) (T, error),
) (v T, err error) {
	var zero T
	conn, err := s.acquire(ctx)
	if err != nil {
		return zero, err
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	t, err := s.begin(ctx, conn.Conn(), first)
	if err != nil {
		return zero, aborted(ctx, conn.Conn(), err)
	}
	ended := false
	defer func() {
		if !ended { // fn panicked
			_ = aborted(ctx, conn.Conn(), nil)
		}
	}()
	if v, err = fn(ctx, t); err == nil && t.asks {
		err = t.flush(ctx)
	}
	ended = true
	if err != nil {
		return zero, aborted(ctx, conn.Conn(), err)
	}
	if err := t.commit(ctx); err != nil {
		return zero, err
	}
	s.confirmed(t.log.newest())
	s.waker.add(t.busy)
	// Hints go first, so that a caller that has its answer finds its own hint.
	s.notify(t.hint)
	return v, nil
}

// acquire takes a connection of the pool.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-s.closed:
		return nil, sqlstore.ErrClosed
	default:
	}
	if s.opts.Clock.Read != nil {
		if err := s.compareClocks(ctx); err != nil {
			return nil, unavailable(ctx, err)
		}
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	return conn, nil
}

// unavailable returns an error before a transaction began: the caller's own when its context
// ended.
func unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// beginning reads what a writing transaction must know, together with its BEGIN. It takes the
// transaction's id and so its place in the log. It also checks whether the tables, and what
// this process has confirmed, still exist: an older state may be loaded while sessions are
// open, which ends none of them.
const beginning = `SELECT clock_timestamp(),
	(pg_current_xact_id()::text::bigint + m.xid_offset) << 20, m.quarantined,
	m.tableoid::bigint = m.relation_oid
		AND ($1::bigint <= m.events_from OR EXISTS (SELECT 1 FROM event_pages AS e WHERE e.position = $1)),
	m.clock_steps, m.namespace, m.armed_before, m.stops
FROM meta AS m WHERE m.id = 1`

// keepNamespace is added to beginning until an attempt was armed: the namespace, which the
// first attempt fixes, does not change between the keys that the transaction makes and their
// commit. Only SetNamespace locks the row against it.
const keepNamespace = ` FOR KEY SHARE OF m`

func (s *Store) begin(ctx context.Context, conn *pgx.Conn, first func(context.Context, *tx)) (*tx, error) {
	t := &tx{s: s, conn: conn, q: pgdb.New(conn)}
	var same, armed bool
	var steps int64
	var namespace string
	ask := beginning
	if !s.armed.Load() {
		ask += keepNamespace
	}
	begun := hostclock.Boot()
	t.queue(ctx, func(ctx context.Context, db pgdb.DBTX) error {
		_, err := db.Exec(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
		return err
	})
	t.queue(ctx, func(ctx context.Context, db pgdb.DBTX) error {
		return db.QueryRow(ctx, ask, s.durable.Load()).Scan(&t.now, &t.base, &t.quarantined, &same, &steps, &namespace, &armed, &t.stops)
	})
	if first != nil {
		first(ctx, t)
	}
	if err := t.flush(ctx); err != nil {
		return nil, err
	}
	s.armed.Store(same && armed)
	if !same {
		// The next session compares the database again (see settle). Decisions on its earlier
		// state are not written.
		s.pool.Reset()
		return nil, fmt.Errorf("%w: another state was put in place of the database", store.ErrUnavailable)
	}
	if mine := *s.namespace.Load(); t.quarantined == "" && namespace != mine {
		// This process would make keys of another installation.
		t.quarantined = "the namespace was changed from " + mine + " to " + namespace + " under this server: start it again"
	}
	m := s.moment(t.now, begun, steps)
	t.now, t.suspect = time.UnixMicro(m.Now).UTC(), m.Suspect
	return t, nil
}

// aborted ends a transaction without a commit and returns err. A connection on which even
// that fails is closed, and the server rolls back.
func aborted(ctx context.Context, conn *pgx.Conn, err error) error {
	if conn.PgConn().TxStatus() != 'I' {
		if _, rerr := conn.Exec(ctx, "ROLLBACK"); rerr != nil {
			_ = conn.Close(ctx)
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

// completionUnknown is statement_completion_unknown; poolers may return it.
const completionUnknown = "40003"

// definite reports whether the server itself reported that it did not commit. A server that
// is ending the connection may have committed before (classes 57 and 08), and an error of the
// driver proves nothing: pgx 5.12 calls the loss of a COMMIT's answer "conn closed", and safe
// to retry (see TestLostCommit).
func definite(err error) bool {
	var known *pgconn.PgError
	if !errors.As(err, &known) || known.Severity != "ERROR" && known.SeverityUnlocalized != "ERROR" {
		return false
	}
	class := known.Code[:min(2, len(known.Code))]
	return class != "57" && class != "08" && known.Code != completionUnknown
}

// view is what a reading method sees: one state of the whole database.
type view struct {
	s    *Store
	q    *pgdb.Queries
	conn *pgx.Conn
	now  time.Time
	// suspect describes a clock that is not believed.
	suspect store.SuspectClock
	// begun is when the call began, on the boot clock.
	begun time.Duration
}

// At implements sqlstore.Reading: it returns the time that counts as now, for a row that was read at a time of the server's
// clock.
func (v view) At(server time.Time) time.Time {
	if v.now.IsZero() {
		return v.s.present(server, v.begun)
	}
	return v.now
}

func (t *tx) view() view { return view{s: t.s, q: t.q, conn: t.conn, now: t.now, suspect: t.suspect} }

// read runs fn on one state of the database.
func read[T any](ctx context.Context, s *Store, name string, fn func(context.Context, view) (T, error)) (T, error) {
	return reading(ctx, s, name, func(ctx context.Context, conn *pgx.Conn) (T, error) {
		var zero T
		v := view{s: s, q: pgdb.New(conn), conn: conn, begun: hostclock.Boot()}
		var steps int64
		b := &pgx.Batch{}
		b.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
		b.Queue("SELECT clock_timestamp(), clock_steps FROM meta WHERE id = 1").QueryRow(func(row pgx.Row) error { return row.Scan(&v.now, &steps) })
		if err := conn.SendBatch(ctx, b).Close(); err != nil {
			return zero, aborted(ctx, conn, err)
		}
		m := s.moment(v.now, v.begun, steps)
		v.now, v.suspect = time.UnixMicro(m.Now).UTC(), m.Suspect
		ended := false
		defer func() {
			if !ended { // fn panicked
				_ = aborted(ctx, conn, nil)
			}
		}()
		out, err := fn(ctx, v)
		ended = true
		if err != nil {
			return zero, aborted(ctx, conn, err)
		}
		if _, err := conn.Exec(ctx, "COMMIT"); err != nil {
			return zero, aborted(ctx, conn, err)
		}
		return out, nil
	})
}

// readOne is read for a method that runs a single statement, which needs no transaction. The
// statement itself must read the time (see present).
func readOne[T any](ctx context.Context, s *Store, name string, fn func(context.Context, view) (T, error)) (T, error) {
	return reading(ctx, s, name, func(ctx context.Context, conn *pgx.Conn) (T, error) {
		v, err := fn(ctx, view{s: s, q: pgdb.New(conn), conn: conn, begun: hostclock.Boot()})
		if err != nil {
			return v, aborted(ctx, conn, err)
		}
		return v, nil
	})
}

func reading[T any](ctx context.Context, s *Store, name string, fn func(context.Context, *pgx.Conn) (T, error)) (T, error) {
	var zero T
	select {
	case s.readers <- struct{}{}:
		defer func() { <-s.readers }()
	case <-ctx.Done():
		return zero, fmt.Errorf("%s: %w", name, ctx.Err())
	case <-s.closed:
		return zero, fmt.Errorf("%s: %w", name, sqlstore.ErrClosed)
	}
	conn, err := s.acquire(ctx)
	if err != nil {
		return zero, fmt.Errorf("%s: %w", name, err)
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	v, err := fn(ctx, conn.Conn())
	if err != nil {
		return zero, fmt.Errorf("%s: %w", name, translate(err))
	}
	return v, nil
}
