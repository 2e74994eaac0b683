package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Owners implements store.Store.
func (s *Store) Owners(context.Context, job.ID, int, []string) (map[string]job.ID, error) {
	return nil, errors.ErrUnsupported
}

// Doubtful implements store.Store.
func (s *Store) Doubtful(context.Context, time.Time, int) ([]job.Snapshot, error) {
	return nil, errors.ErrUnsupported
}

// Stats implements store.Store.
func (s *Store) Stats(context.Context, store.StatsQuery) (store.Stats, error) {
	return store.Stats{}, errors.ErrUnsupported
}
