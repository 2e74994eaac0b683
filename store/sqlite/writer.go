package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fireonce/fireonce/gen/litedb"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file (group commit):
//   - every writing call is one operation, run in a savepoint of a transaction
//     that it shares with the operations that came at the same time;
//   - one commit, one fsync, answers all of them; nobody is answered before;
//   - an operation that fails rolls back to its savepoint and fails no other;
//   - an operation whose caller gave up while it was queued never runs; one that
//     has begun runs to its end, and its caller waits for the commit.

const (
	// maxQueued bounds the operations that wait; further callers wait outside.
	maxQueued = 1024
	// maxGroup bounds the operations of one commit.
	maxGroup = 256
)

// What became of an operation's turn.
const (
	opQueued int32 = iota
	opBegun
	opAbandoned
)

type op struct {
	run  func(context.Context, *tx) error
	turn atomic.Int32
	done chan error
}

// writer owns the one connection that writes.
type writer struct {
	s     *Store
	conn  *sql.Conn
	q     *litedb.Queries
	queue chan *op
	ended chan struct{}
	quit  chan struct{}
	once  sync.Once

	begin, save, release, rollbackTo    *sql.Stmt
	itemSave, itemRelease, itemRollback *sql.Stmt
	stmts                               []*sql.Stmt
	// commit is a field so that a test can make it fail.
	commit func(context.Context) error
	turn   int64
	// logLimit is the length of the log above which it is written back.
	logLimit int64
}

func (s *Store) newWriter(ctx context.Context) (*writer, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("writer: %w", err)
	}
	w := &writer{
		s: s, conn: conn, queue: make(chan *op, maxQueued),
		ended: make(chan struct{}), quit: make(chan struct{}), logLimit: maxLog,
	}
	if w.q, err = litedb.Prepare(ctx, conn); err != nil {
		return nil, fmt.Errorf("writer: %w", err)
	}
	var commit *sql.Stmt
	for _, p := range []struct {
		to  **sql.Stmt
		sql string
	}{
		{&w.begin, "BEGIN IMMEDIATE"}, {&w.save, "SAVEPOINT op"}, {&w.release, "RELEASE op"},
		{&w.rollbackTo, "ROLLBACK TO op"}, {&w.itemSave, "SAVEPOINT item"},
		{&w.itemRelease, "RELEASE item"}, {&w.itemRollback, "ROLLBACK TO item"}, {&commit, "COMMIT"},
	} {
		stmt, err := conn.PrepareContext(ctx, p.sql) //nolint:sqlclosecheck // closed with the writer
		if err != nil {
			return nil, fmt.Errorf("writer: %w", err)
		}
		*p.to, w.stmts = stmt, append(w.stmts, stmt)
	}
	w.commit = func(ctx context.Context) error {
		_, err := commit.ExecContext(ctx)
		return err
	}
	if w.turn, err = w.q.LastTurn(ctx); err != nil {
		return nil, fmt.Errorf("writer: %w", err)
	}
	return w, nil
}

// write runs fn as one operation and gives its value once it is durable.
func write[T any](ctx context.Context, s *Store, name string, fn func(context.Context, *tx) (T, error)) (T, error) {
	var v, zero T
	o := &op{done: make(chan error, 1)}
	o.run = func(ctx context.Context, t *tx) (err error) {
		v, err = fn(ctx, t)
		return err
	}
	if err := s.writer.do(ctx, o); err != nil {
		return zero, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

func (w *writer) do(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-w.quit:
		return fmt.Errorf("%w: closed", store.ErrUnavailable)
	default:
	}
	select {
	case w.queue <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.quit:
		return fmt.Errorf("%w: closed", store.ErrUnavailable)
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		if o.turn.CompareAndSwap(opQueued, opAbandoned) {
			return ctx.Err()
		}
		return <-o.done
	case <-w.ended:
		// The writer may have answered just before it ended.
		select {
		case err := <-o.done:
			return err
		default:
			return fmt.Errorf("%w: closed", store.ErrUnavailable)
		}
	}
}

// stop ends the writer after the group under way.
func (w *writer) stop() {
	w.once.Do(func() { close(w.quit) })
	<-w.ended
}

// close puts what is in the log file into the database file and gives the
// connection back. SQLite does so only for a connection without statements.
func (w *writer) close() error {
	_, err := w.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
	for _, stmt := range w.stmts {
		err = errors.Join(err, stmt.Close())
	}
	return errors.Join(err, w.q.Close(), w.conn.Close())
}

func (w *writer) run() {
	defer close(w.ended)
	for {
		select {
		case <-w.quit:
			return
		case o := <-w.queue:
			w.group(o)
			w.shorten()
		}
	}
}

// group runs the first operation and whatever is queued behind it, commits,
// and answers.
func (w *writer) group(first *op) {
	// Operations run without their callers' contexts: ending one must not
	// interrupt the others' transaction.
	ctx := context.Background()
	if !first.turn.CompareAndSwap(opQueued, opBegun) {
		return
	}
	if _, err := w.begin.ExecContext(ctx); err != nil {
		first.done <- fmt.Errorf("%w: begin: %w", store.ErrUnavailable, err)
		return
	}
	t := &tx{w: w, q: w.q, conn: w.conn}
	var answered []*op
	for o := first; o != nil; o = w.next(len(answered)) {
		err, lost := w.one(ctx, t, o)
		if lost != nil {
			// SQLite ended the transaction by itself, as it does when the disk is
			// full. What ran before in this group is gone, and surely so.
			w.abandon(ctx, append(answered, o), lost)
			return
		}
		if err != nil {
			o.done <- err
			continue
		}
		answered = append(answered, o)
	}
	w.finish(ctx, t, answered)
}

// next gives the next operation of the group, nil when it is to be committed.
func (w *writer) next(size int) *op {
	for size < maxGroup {
		select {
		case o := <-w.queue:
			if o.turn.CompareAndSwap(opQueued, opBegun) {
				return o
			}
		default:
			return nil
		}
	}
	return nil
}

// one runs an operation in its savepoint. lost says that the transaction
// itself is gone.
func (w *writer) one(ctx context.Context, t *tx, o *op) (err, lost error) {
	if _, err := w.save.ExecContext(ctx); err != nil {
		return nil, fmt.Errorf("savepoint: %w", err)
	}
	hints := t.hint
	t.now = w.s.clock.now()
	err = translate(o.run(ctx, t))
	if err != nil {
		t.hint = hints
		if _, rerr := w.rollbackTo.ExecContext(ctx); rerr != nil {
			return nil, fmt.Errorf("%w (after %w)", rerr, err)
		}
	}
	if _, rerr := w.release.ExecContext(ctx); rerr != nil {
		return nil, fmt.Errorf("release: %w", rerr)
	}
	return err, nil
}

func (w *writer) abandon(ctx context.Context, ops []*op, cause error) {
	// There is nothing left to roll back, or it is rolled back now.
	_, _ = w.conn.ExecContext(ctx, "ROLLBACK")
	for _, o := range ops {
		o.done <- fmt.Errorf("%w: %w", store.ErrUnavailable, cause)
	}
}

func (w *writer) finish(ctx context.Context, t *tx, ops []*op) {
	err := w.commit(ctx)
	if err != nil {
		err = fmt.Errorf("%w: %w", store.ErrUnconfirmed, err)
		_, _ = w.conn.ExecContext(ctx, "ROLLBACK")
	}
	// Hints go first, so that a caller who has its answer finds its own hint given.
	w.s.hints.Give(t.hint)
	for _, o := range ops {
		o.done <- err
	}
}

// tx is what an operation sees: the shared transaction, and the one time that
// counts as now for all that it does.
type tx struct {
	w    *writer
	q    *litedb.Queries
	conn *sql.Conn
	now  int64
	hint [2]bool
}

func (t *tx) view() view { return view{q: t.q, conn: t.conn, now: t.now} }

// item runs one of n items of a batch and gives its verdict, nothing of it
// being written then; fatal is trouble that concerns the whole call. An item
// has a savepoint of its own, but an only one can do with its operation's.
func (t *tx) item(ctx context.Context, n int, fn func() error) (verdict, fatal error) {
	if n > 1 {
		if _, err := t.w.itemSave.ExecContext(ctx); err != nil {
			return nil, err
		}
	}
	err := translate(fn())
	if err != nil && !isVerdict(err) {
		return nil, err
	}
	undo := t.w.itemRollback
	if n == 1 {
		undo = t.w.rollbackTo
	}
	if err != nil {
		if _, rerr := undo.ExecContext(ctx); rerr != nil {
			return nil, rerr
		}
	}
	if n > 1 {
		if _, rerr := t.w.itemRelease.ExecContext(ctx); rerr != nil {
			return nil, rerr
		}
	}
	return err, nil
}
