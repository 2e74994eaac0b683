package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// stateSize is the size of a login's state, in bytes.
const stateSize = 32

// StartLogin implements store.Store.
func (s *Store) StartLogin(ctx context.Context, l store.Login, ttl time.Duration) error {
	_, err := call(ctx, s, "start login", func(t *tx) (struct{}, error) {
		if err := store.OneMore(t.holdings(l.Project).Logins, l.Most); err != nil {
			return struct{}{}, err
		}
		for state, old := range t.logins {
			if !old.Expires.After(t.now) {
				delete(t.logins, state)
			}
		}
		state := string(l.State)
		if _, taken := t.logins[state]; taken || len(state) != stateSize {
			return struct{}{}, fmt.Errorf("%w: the state is not new", store.ErrIllegal)
		}
		kept := l
		kept.Most = 0
		kept.State, kept.Target, kept.Sealed = some(l.State), some(l.Target), some(l.Sealed)
		kept.Expires = t.now.Add(ttl.Truncate(time.Microsecond))
		t.logins[state] = kept
		return struct{}{}, nil
	})
	return err
}

// ReadLogin implements store.Store.
func (s *Store) ReadLogin(ctx context.Context, state []byte) (store.Login, error) {
	return call(ctx, s, "read login", func(t *tx) (store.Login, error) {
		l, ok := t.logins[string(state)]
		if !ok || !l.Expires.After(t.now) {
			return store.Login{}, store.ErrNotFound
		}
		return l, nil
	})
}

// TakeLogin implements store.Store.
func (s *Store) TakeLogin(ctx context.Context, project string, state []byte) (store.Login, error) {
	return call(ctx, s, "take login", func(t *tx) (store.Login, error) {
		l, ok := t.logins[string(state)]
		if !ok || project != "" && l.Project != project || !l.Expires.After(t.now) {
			return store.Login{}, store.ErrNotFound
		}
		delete(t.logins, string(state))
		return l, nil
	})
}

// BeginRenewal implements store.Store.
func (s *Store) BeginRenewal(ctx context.Context, p store.RenewalParams) (store.Renewal, error) {
	return call(ctx, s, "begin renewal", func(t *tx) (store.Renewal, error) {
		if err := t.refuseQuarantined(); err != nil {
			return store.Renewal{}, err
		}
		c, ok := t.conns[p.Connection]
		if !ok {
			return store.Renewal{}, store.ErrNotFound
		}
		row, lease, err := p.Grant(t.renewals[p.Connection], c.CredentialVersion, t.now)
		if err == nil && lease.Granted {
			t.renewals[p.Connection] = row
		}
		return lease, err
	})
}

// EndRenewal implements store.Store.
func (s *Store) EndRenewal(ctx context.Context, connection, owner job.ID, rest time.Duration, unspent bool) error {
	_, err := call(ctx, s, "end renewal", func(t *tx) (struct{}, error) {
		if row := t.renewals[connection]; row.Owner == owner && !owner.IsZero() {
			if unspent {
				row.Tries--
			}
			row.Owner, row.Until = job.ID{}, t.now.Add(rest)
			t.renewals[connection] = row
		}
		return struct{}{}, nil
	})
	return err
}
