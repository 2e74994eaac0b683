package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file (group commit):
//   - every writing call is one operation, run in a transaction that it shares with the
//     operations that came at the same time;
//   - one commit, one fsync, answers all of them, and none is answered before it;
//   - an operation that is refused before its first write undoes nothing. Most refusals are of
//     that kind, so the group runs without savepoints, for which SQLite would copy every page
//     that it changes. A refusal is an answer too: what it saw of the group must be what its
//     caller reads next;
//   - when an operation fails later, the transaction is rolled back and the group runs once
//     more with savepoints: each operation, and each item of a batch, in a savepoint of its own,
//     so that a failure undoes only itself;
//   - an operation whose caller gave up while it was queued never runs. An operation that has
//     begun runs to its end, and its caller waits for the commit;
//   - no operation begins while the clock requires a step: it is the first one of the next
//     group, before which the step is written.

// maxGroup bounds the operations of one commit.
const maxGroup = 256

// Statements that begin and end transactions.
const (
	begin      = "BEGIN IMMEDIATE"
	commit     = "COMMIT"
	rollback   = "ROLLBACK"
	rollbackOp = "ROLLBACK TO op"
)

// op is a queued operation.
type op = sqlstore.Call[operation]

type operation struct {
	run func(context.Context, *tx) error
	// refused is its own error, where it was refused in a group that wrote before.
	refused error
}

// writer owns the one connection that writes.
type writer struct {
	s     *Store
	conn  *sql.Conn
	ses   *session
	cache *cache
	log   *eventLog
	usage *usage
	q     *sqlitedb.Queries
	sq    *shareddb.Queries
	queue *sqlstore.Queue[operation]

	// commit is a field so that a test can make it fail.
	commit func(context.Context) error
	// check, when a test sets it, is called after each operation.
	check  func(context.Context, *tx)
	served int64
	// newest is the position of the last event at the last look (see compare).
	newest int64
	// logLimit is the length of the log above which it is written back.
	logLimit int64
}

func (s *Store) newWriter(ctx context.Context) (*writer, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("writer: %w", err)
	}
	w := &writer{s: s, conn: conn, queue: sqlstore.NewQueue[operation](), logLimit: maxLog}
	w.cache, w.log, w.usage = newCache(), &eventLog{base: unknownPosition}, newUsage()
	w.ses = newSession(conn, w)
	w.q, w.sq = sqlitedb.New(dialect{w.ses}), shareddb.New(dialect{w.ses})
	w.commit = func(ctx context.Context) error { return w.ses.control(ctx, commit) }
	if w.served, err = w.q.LastTurn(ctx); err != nil {
		return nil, fmt.Errorf("writer: %w", err)
	}
	return w, nil
}

// write runs fn as one operation and returns its value once it is durable.
func write[T any](ctx context.Context, s *Store, name string, fn func(context.Context, *tx) (T, error)) (T, error) {
	var v, zero T
	err := s.loss.failed()
	if err == nil {
		err = s.writer.queue.Do(ctx, sqlstore.NewCall(operation{run: func(ctx context.Context, t *tx) (err error) {
			v, err = fn(ctx, t)
			return err
		}}))
	}
	if err != nil {
		return zero, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// writeOnly is write for an operation without a value.
func writeOnly(ctx context.Context, s *Store, name string, fn func(context.Context, *tx) error) error {
	_, err := write(ctx, s, name, func(ctx context.Context, t *tx) (struct{}, error) { return struct{}{}, fn(ctx, t) })
	return err
}

// batch runs a call's items, each with its own verdict. refused returns the result of one
// that is refused.
func batch[I, R any](
	ctx context.Context, s *Store, name string, items []I, run func(*tx, context.Context, I) (R, error), refused func(error) R,
) ([]R, error) {
	if err := rules.Bounded(len(items)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return write(ctx, s, name, func(ctx context.Context, t *tx) ([]R, error) {
		out := make([]R, len(items))
		for i, item := range items {
			verdict, fatal := t.runItem(ctx, len(items), func() (err error) {
				out[i], err = run(t, ctx, item)
				return err
			})
			if fatal != nil {
				return nil, fatal
			}
			if verdict != nil {
				out[i] = refused(verdict)
			}
		}
		return out, nil
	})
}

// close writes the content of the log file into the database file and closes the connection.
// SQLite writes it back only for a connection without statements.
func (w *writer) close() error {
	_, err := w.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
	return errors.Join(err, w.ses.close(), w.conn.Close())
}

func (w *writer) run() {
	defer w.queue.End()
	for o := w.queue.Next(); o != nil; o = w.queue.Next() {
		for o != nil {
			o = w.runGroup(o)
			w.shorten()
		}
	}
}

// runGroup runs the first operation and those that are queued behind it, commits, and answers.
// It returns the operation that begins the next group, if it has taken one from the queue.
func (w *writer) runGroup(first *op) (following *op) {
	// Operations run without their callers' contexts: ending one must not interrupt the
	// others' transaction.
	ctx := context.Background()
	w.stepClock(ctx)
	if err := w.begin(ctx); err != nil {
		first.Done <- w.because(fmt.Errorf("%w: begin: %w", store.ErrUnavailable, err))
		return nil
	}
	t := w.newTx(false)
	var ran []*op
	taken := 0 // refused ones count too: the others wait for the commit, which must not be delayed forever
	for o := first; o != nil; o = w.nextOp(taken) {
		taken++
		if t.setTime() && o != first {
			following = o
			break
		}
		spoiled, err := w.runOp(ctx, t, o)
		if spoiled {
			return w.rerunGroup(ctx, append(ran, o), taken, nil)
		}
		if err != nil && len(ran) == 0 {
			o.Done <- err // it saw what is durable
			continue
		}
		o.Of.refused = err
		ran = append(ran, o)
	}
	if w.usage.flush(ctx, w.q) != nil {
		return w.rerunGroup(ctx, ran, taken, following)
	}
	w.finish(ctx, t, ran)
	return following
}

// begin begins a transaction, and reads where the log ends, if that is unknown.
func (w *writer) begin(ctx context.Context) error {
	if err := w.ses.control(ctx, begin); err != nil || w.log.base != unknownPosition {
		return err
	}
	newest, err := w.q.LastPosition(ctx)
	if err != nil {
		w.undo(ctx)
		return fmt.Errorf("end of the log: %w", err)
	}
	w.log.base = newest
	return nil
}

// runOp runs an operation at the time that was set. spoiled reports that it failed after it had
// written something, or in a way after which SQLite may have ended the transaction.
func (w *writer) runOp(ctx context.Context, t *tx, o *op) (spoiled bool, err error) {
	hints, mark := t.hint, w.log.mark()
	w.ses.dirty = false
	if err = translate(o.Of.run(ctx, t)); err != nil {
		t.hint = hints
		w.log.cut(mark)
	}
	spoiled = err != nil && (w.ses.dirty || errors.Is(err, store.ErrUnavailable))
	if w.check != nil && !spoiled {
		w.check(ctx, t)
	}
	return spoiled, err
}

// rerunGroup runs a spoiled group again, each operation in its savepoint, and continues unless the
// next group has its beginning. It returns the operation that begins the next group.
func (w *writer) rerunGroup(ctx context.Context, ops []*op, taken int, following *op) *op {
	w.undo(ctx)
	if err := w.begin(ctx); err != nil {
		w.abandon(ctx, ops, fmt.Errorf("begin: %w", err))
		return following
	}
	t := w.newTx(true)
	var ran []*op
	var fresh *op // it has not run before
	for len(ops) > 0 {
		o := ops[0]
		if t.setTime() && o == fresh {
			following = o
			break
		}
		err, lost := w.runInSavepoint(ctx, t, o)
		if lost != nil {
			// SQLite ended the transaction by itself, as it does when the disk is full. What
			// ran before in this group was rolled back.
			w.abandon(ctx, append(ran, ops...), lost)
			return following
		}
		if err != nil {
			err = w.because(err)
		}
		if err != nil && len(ran) == 0 {
			o.Done <- err
		} else {
			o.Of.refused = err
			ran = append(ran, o)
		}
		if ops = ops[1:]; len(ops) == 0 && following == nil {
			if fresh = w.nextOp(taken); fresh != nil {
				taken++
				ops = append(ops, fresh)
			}
		}
	}
	w.finish(ctx, t, ran)
	return following
}

// nextOp returns the next operation of the group, nil when the group must be committed.
func (w *writer) nextOp(size int) *op {
	if size < maxGroup {
		return w.queue.NextQueued()
	}
	return nil
}

// runInSavepoint runs an operation in its savepoint, at the time that was set. lost reports that the
// transaction itself is gone.
func (w *writer) runInSavepoint(ctx context.Context, t *tx, o *op) (err, lost error) {
	if err := w.ses.control(ctx, "SAVEPOINT op"); err != nil {
		return nil, fmt.Errorf("savepoint: %w", err)
	}
	hints, mark := t.hint, w.log.mark()
	err = translate(o.Of.run(ctx, t))
	if err != nil {
		t.hint, w.cache = hints, newCache()
		w.log.cut(mark)
		if rerr := w.ses.control(ctx, rollbackOp); rerr != nil {
			return nil, fmt.Errorf("%w (after %w)", rerr, err)
		}
	}
	if rerr := w.ses.control(ctx, "RELEASE op"); rerr != nil {
		return nil, fmt.Errorf("release: %w", rerr)
	}
	if w.check != nil {
		w.check(ctx, t)
	}
	return err, nil
}

// undo rolls the transaction back.
func (w *writer) undo(ctx context.Context) {
	w.cache = newCache()
	w.log.forget()
	w.newest = 0 // lost events may have been counted
	w.usage.forget()
	// Where SQLite has ended the transaction by itself, this fails.
	_ = w.ses.control(ctx, rollback)
}

func (w *writer) writeLog(ctx context.Context) error { return w.log.write(ctx, w.q) }

func (w *writer) abandon(ctx context.Context, ops []*op, cause error) {
	w.undo(ctx)
	for _, o := range ops {
		o.Done <- w.because(fmt.Errorf("%w: %w", store.ErrUnavailable, cause))
	}
}

func (w *writer) finish(ctx context.Context, t *tx, ops []*op) {
	if err := w.stillOurs(); err != nil {
		w.abandon(ctx, ops, err)
		return
	}
	for _, last := range []func(context.Context) error{w.saveClock, w.writeLog} {
		if err := last(ctx); err != nil {
			w.abandon(ctx, ops, err)
			return
		}
	}
	err := w.commit(ctx)
	if err != nil {
		err = fmt.Errorf("%w: %w", store.ErrUnconfirmed, err)
		w.undo(ctx)
		w.log.base = unknownPosition
	} else {
		w.log.committed()
	}
	w.note()
	// Hints go first, so that a caller that has its answer finds its own hint.
	w.s.hints.Notify(t.hint)
	for _, o := range ops {
		o.Done <- cmp.Or(err, o.Of.refused)
	}
}

// tx is what an operation sees: the shared transaction, and the one time that counts as now
// for the whole operation.
type tx struct {
	w   *writer
	q   *sqlitedb.Queries
	now time.Time
	// suspect describes a clock that is not believed.
	suspect store.SuspectClock
	hint    store.WatchKinds
	// savepoints reports that operations and items have savepoints.
	savepoints bool
	// overwrites reports that SQLite overwrites what is deleted.
	overwrites bool
}

func (w *writer) newTx(savepoints bool) *tx {
	return &tx{w: w, q: w.q, savepoints: savepoints}
}

// setTime sets the time of an operation, and reports whether the clock requires a step.
func (t *tx) setTime() (step bool) {
	m := t.w.s.clock.moment()
	t.now, t.suspect = fromMicros(m.Now), m.Suspect
	return m.Step != nil
}

func (t *tx) view() view {
	return view{s: t.w.s, q: t.q, sq: t.w.sq, conn: t.w.ses, now: t.now, suspect: t.suspect}
}

// runItem runs one of n items of a batch and returns its verdict. With a verdict nothing of the
// item is written. fatal is a failure of the whole call, or a verdict that came too late to
// be returned without a savepoint.
func (t *tx) runItem(ctx context.Context, n int, fn func() error) (verdict, fatal error) {
	if t.savepoints {
		return t.itemInSavepoint(ctx, n, fn)
	}
	ses := t.w.ses
	before, mark := ses.dirty, t.w.log.mark()
	ses.dirty = false
	err := translate(fn())
	wrote := ses.dirty
	ses.dirty = wrote || before
	if err != nil {
		t.w.log.cut(mark)
	}
	if err != nil && (wrote || !rules.Verdict(err)) {
		return nil, err
	}
	return err, nil
}

// itemInSavepoint runs an item in a savepoint of its own. A single item uses its operation's.
func (t *tx) itemInSavepoint(ctx context.Context, n int, fn func() error) (verdict, fatal error) {
	ses, undo := t.w.ses, rollbackOp
	if n > 1 {
		undo = "ROLLBACK TO item"
		if err := ses.control(ctx, "SAVEPOINT item"); err != nil {
			return nil, err
		}
	}
	mark := t.w.log.mark()
	err := translate(fn())
	if err != nil {
		t.w.log.cut(mark)
	}
	if err != nil && !rules.Verdict(err) {
		return nil, err
	}
	if err != nil {
		t.w.cache = newCache()
		if rerr := ses.control(ctx, undo); rerr != nil {
			return nil, rerr
		}
	}
	if n > 1 {
		if rerr := ses.control(ctx, "RELEASE item"); rerr != nil {
			return nil, rerr
		}
	}
	return err, nil
}
