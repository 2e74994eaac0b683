package postgres

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a job may change while its schedule is decided about. The decision has
// not seen the change, and the change does not wait for the decision: it holds the job's
// lock, and schedules come first in the lock order. So the schedule is made due afterwards,
// in a transaction of its own, which holds nothing and waits. If a crash or an error loses
// that, the schedule is due after store.BufferedLook.

// maxBusy bounds the schedules that wait in a waker.
const maxBusy = 10_000

// waker makes schedules due that were busy when one of their jobs changed, one after the
// other.
type waker struct {
	wake func(context.Context, job.ID)
	more chan struct{}
	end  context.CancelFunc
	done chan struct{}

	mu   sync.Mutex
	busy map[job.ID]bool
}

func newWaker(wake func(context.Context, job.ID)) *waker {
	ctx, end := context.WithCancel(context.Background())
	w := &waker{wake: wake, more: make(chan struct{}, 1), end: end, done: make(chan struct{}), busy: make(map[job.ID]bool)}
	go w.run(ctx)
	return w
}

// add adds schedules. Those that do not fit are dropped.
func (w *waker) add(ids []job.ID) {
	if len(ids) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if len(w.busy) < maxBusy {
			w.busy[id] = true
		}
	}
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func (w *waker) run(ctx context.Context) {
	defer close(w.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.more:
		}
		for id, ok := w.take(); ok && ctx.Err() == nil; id, ok = w.take() {
			w.wake(ctx, id)
		}
	}
}

// take takes a schedule before it is woken, so that a change that comes meanwhile adds it again.
func (w *waker) take() (id job.ID, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.busy {
		delete(w.busy, id)
		return id, true
	}
	return id, false
}

// close drops the remaining schedules, and waits for the transaction in progress.
func (w *waker) close() {
	w.end()
	<-w.done
}

// wakeSchedule makes a schedule with a buffered firing due, after the transactions that
// decide about it or change it now.
func (s *Store) wakeSchedule(ctx context.Context, id job.ID) {
	_ = writeOnly(ctx, s, "wake schedule", func(ctx context.Context, t *tx) error {
		if _, err := t.shared().Q.LockSchedule(ctx, shareddb.LockScheduleParams{ID: id}); err != nil {
			if errors.Is(err, pgx.ErrNoRows) {
				err = nil
			}
			return err
		}
		n, err := t.q.WakeSchedule(ctx, pgdb.WakeScheduleParams{ID: id, Now: t.now})
		t.hint[store.WatchSchedules] = n > 0
		return err
	})
}
