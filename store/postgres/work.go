package postgres

import (
	"context"

	"github.com/fireonce/fireonce/store"
)

// work has the calls of this process that share transactions, by kind.
type work struct {
	arms    *coalescer[store.Arm, store.Armed]
	changes *coalescer[store.Change, store.Applied]
	renews  *coalescer[renewal, bool]
}

// startWork starts the workers. One of each kind is best: a second one halves the batches,
// and each commit costs the same.
func (s *Store) startWork(ctx context.Context) {
	s.work = work{
		arms: newCoalescer(ctx, 1, s.armBatch, func(err error) store.Armed { return store.Armed{Err: err} }),
		changes: newCoalescer(ctx, 1, s.applyBatch, func(err error) store.Applied {
			return store.Applied{Err: err}
		}),
		renews: newCoalescer(ctx, 1, s.renewBatch, func(error) bool { return false }),
	}
}

// end waits for the batches in progress; queued calls fail with ErrUnavailable.
func (w *work) end() {
	w.arms.close()
	w.changes.close()
	w.renews.close()
}
