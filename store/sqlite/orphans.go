package sqlite

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file: this process has the file for itself, by a lock that ends with it. So
// any other worker that claimed a job which is still CLAIMED, or armed one which is still
// SENDING, is dead.

// enlisted has the workers of this process.
type enlisted struct {
	mu    sync.Mutex
	names []string
}

// enlist remembers a worker of this process.
func (s *Store) enlist(_ context.Context, worker string) error {
	select {
	case <-s.closed:
		return fmt.Errorf("enlist: %w", sqlstore.ErrClosed)
	default:
	}
	s.enlisted.mu.Lock()
	defer s.enlisted.mu.Unlock()
	if !slices.Contains(s.enlisted.names, worker) {
		s.enlisted.names = append(s.enlisted.names, worker)
	}
	return nil
}

// Gone implements sqlstore.Reading.
func (v sharedView) Gone(ctx context.Context, workers []string) ([]string, error) {
	return v.Absent(ctx, workers)
}

// Absent implements sqlstore.Reading.
func (v sharedView) Absent(_ context.Context, workers []string) ([]string, error) {
	v.s.enlisted.mu.Lock()
	defer v.s.enlisted.mu.Unlock()
	return slices.DeleteFunc(workers, func(w string) bool { return slices.Contains(v.s.enlisted.names, w) }), nil
}
