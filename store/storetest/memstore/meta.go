package memstore

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/store"
)

// Meta implements store.Store.
func (s *Store) Meta(ctx context.Context) (store.Meta, error) {
	return call(ctx, s, "meta", func(t *tx) (store.Meta, error) { return t.meta, nil })
}

// Quarantine implements store.Store.
func (s *Store) Quarantine(ctx context.Context, reason string) error {
	_, err := call(ctx, s, "quarantine", func(t *tx) (struct{}, error) {
		if reason == "" {
			return struct{}{}, fmt.Errorf("%w: without a reason", store.ErrIllegal)
		}
		t.meta.Quarantined = reason
		t.meta.Incarnation++
		return struct{}{}, nil
	})
	return err
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context) error {
	_, err := call(ctx, s, "release", func(t *tx) (struct{}, error) {
		t.meta.Quarantined = ""
		t.hint[store.WatchWork] = true
		return struct{}{}, nil
	})
	return err
}

// refuseQuarantined guards the calls that lead to sending.
func (t *tx) refuseQuarantined() error {
	if t.meta.Quarantined != "" {
		return fmt.Errorf("%w: %s", store.ErrQuarantined, t.meta.Quarantined)
	}
	return nil
}
