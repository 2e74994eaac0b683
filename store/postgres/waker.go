package postgres

import (
	"context"
	"errors"

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
	busy chan job.ID
	end  context.CancelFunc
	done chan struct{}
}

func newWaker(wake func(context.Context, job.ID)) *waker {
	ctx, end := context.WithCancel(context.Background())
	w := &waker{busy: make(chan job.ID, maxBusy), end: end, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for {
			select {
			case <-ctx.Done():
				return
			case id := <-w.busy:
				ids := []job.ID{id} // a change that comes from here on adds its schedule again
				for len(w.busy) > 0 {
					ids = append(ids, <-w.busy)
				}
				for _, id := range distinct(ids) {
					wake(ctx, id)
				}
			}
		}
	}()
	return w
}

// add adds schedules. Those that do not fit are dropped.
func (w *waker) add(ids []job.ID) {
	for _, id := range ids {
		select {
		case w.busy <- id:
		default:
		}
	}
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
