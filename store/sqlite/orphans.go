package sqlite

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: this process has the file for itself, by a lock that ends with it. So
// any other worker that claimed a job which is still CLAIMED, or armed one which is still
// SENDING, is dead.

// enlisted has the workers of this process.
type enlisted struct {
	mu    sync.Mutex
	names []string
}

// Enlist implements store.Store.
func (s *Store) Enlist(_ context.Context, worker string) error {
	select {
	case <-s.closed:
		return fmt.Errorf("enlist: %w: closed", store.ErrUnavailable)
	default:
	}
	s.enlisted.mu.Lock()
	defer s.enlisted.mu.Unlock()
	if !slices.Contains(s.enlisted.names, worker) {
		s.enlisted.names = append(s.enlisted.names, worker)
	}
	return nil
}

// list returns the names as a JSON list.
func (e *enlisted) list() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return asJSON(append([]string{}, e.names...))
}

// Orphans implements store.Store.
func (s *Store) Orphans(ctx context.Context, after store.Place, limit int) ([]store.Leased, error) {
	return read(ctx, s, "orphans", func(ctx context.Context, v view) ([]store.Leased, error) {
		m, err := v.q.GetMeta(ctx)
		if err != nil || v.suspension(m).Suspended() {
			return nil, err
		}
		ids, err := v.q.OrphanIDs(ctx, sqlitedb.OrphanIDsParams{
			Workers: s.enlisted.list(), AfterAt: someMicros(after.At.UnixMicro()), AfterID: fromID(after.ID), MaxRows: page(limit),
		})
		if err != nil {
			return nil, err
		}
		snaps, err := v.snapshots(ctx, ids)
		if err != nil {
			return nil, err
		}
		out := make([]store.Leased, len(snaps))
		for i, snap := range snaps {
			conn, err := v.connection(ctx, fromID(snap.Connection))
			if err != nil {
				return nil, err
			}
			if out[i], err = v.leased(ctx, snap, conn); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}
