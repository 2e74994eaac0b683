package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a database that is replaced under the process is lost. The state in its
// place may be an older one, and the process's memory belongs to the lost one. From the
// moment of detection nothing is committed, so nothing is sent; every call fails; and the
// newest state is recorded in the lock file, so that the next process does not take an older
// state for it. The process can only end.

// defaultWatchEvery is how often an idle process compares the database with the one it
// opened. A busy process does so before every commit.
const defaultWatchEvery = time.Second

// loss records once that the database is lost.
type loss struct {
	once     sync.Once
	err      error         // why, after gone
	gone     chan struct{} // closed with the loss
	reported chan error
}

func newLoss() *loss { return &loss{gone: make(chan struct{}), reported: make(chan error, 1)} }

func (l *loss) set(err error) {
	l.once.Do(func() {
		l.err = err
		l.reported <- err
		close(l.gone)
	})
}

// failed returns why every call fails; nil: the database is not lost.
func (l *loss) failed() error {
	select {
	case <-l.gone:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, l.err)
	default:
		return nil
	}
}

// Lost delivers one error when the database was replaced under this process. Then all calls
// fail with store.ErrUnavailable, and the process should end.
func (s *Store) Lost() <-chan error { return s.loss.reported }

// stillOurs fails when the database is lost. The writer calls it before a commit.
func (w *writer) stillOurs() error {
	if w.s.loss.failed() != nil {
		return w.s.loss.err
	}
	err := w.s.watched.check()
	if err == nil {
		return nil
	}
	// The lock file may have been overwritten with the database.
	if merr := w.s.lock.setMark(w.s.noted); merr != nil {
		err = fmt.Errorf("%w; %w", err, merr)
	}
	w.s.loss.set(err)
	return w.s.loss.err
}

// because returns why an operation failed. A replaced database may look damaged before the
// files are compared, and the caller's next call may come before the group ends.
func (w *writer) because(err error) error {
	if !errors.Is(err, store.ErrUnavailable) {
		return err
	}
	if lost := w.stillOurs(); lost != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, lost)
	}
	return err
}

// keepWatch runs until the store is closed or lost.
func (s *Store) keepWatch() {
	ticker := time.NewTicker(s.opts.WatchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.closed:
			return
		case <-s.loss.gone:
			return
		case <-ticker.C:
			s.look()
		}
	}
}

// look runs an operation like any other, so its commit compares the files.
func (s *Store) look() {
	_, _ = write(context.Background(), s, "watch", s.compare)
}

// compare detects a state that SQLite itself put in place (.restore), and keeps the record in
// the lock file near the newest event. The loss is set before the operation ends, because
// other operations of its group must not be committed.
func (s *Store) compare(ctx context.Context, t *tx) (struct{}, error) {
	m, err := t.q.GetMeta(ctx)
	if err != nil {
		return struct{}{}, err
	}
	if m.Generation != s.noted.generation || m.StoreID != s.noted.store {
		s.loss.set(fmt.Errorf("%w: another state was restored into it", ErrReplaced))
		return struct{}{}, s.loss.err
	}
	t.w.newest, err = t.q.LastPosition(ctx)
	return struct{}{}, err
}

// note writes the newest committed position into the lock file, without waiting for the disk:
// it only helps to detect a restore.
func (w *writer) note() {
	if w.newest > w.s.noted.position {
		w.s.noted.position = w.newest
		_ = w.s.lock.setMark(w.s.noted)
	}
	// This also runs without new events: the last note may have been too soon for it.
	w.s.memory.follow(w.s.noted)
}
