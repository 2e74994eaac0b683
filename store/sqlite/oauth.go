package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// StartLogin implements store.Store.
func (s *Store) StartLogin(ctx context.Context, l store.Login, ttl time.Duration) error {
	return writeOnly(ctx, s, "start login", func(ctx context.Context, t *tx) error {
		if err := t.shared().Counts(l.Project).Logins.OneMore(ctx, l.Most); err != nil {
			return err
		}
		if err := t.q.DropOldLogins(ctx, t.now); err != nil {
			return err
		}
		return t.q.StartLogin(ctx, startLoginParams(l, t.now+micros(ttl)))
	})
}

// ReadLogin implements store.Store.
func (s *Store) ReadLogin(ctx context.Context, state []byte) (store.Login, error) {
	return read(ctx, s, "read login", func(ctx context.Context, v view) (store.Login, error) {
		row, err := v.q.GetLogin(ctx, state)
		switch {
		case err != nil:
			return store.Login{}, orNotFound(err)
		case row.ExpiresAt <= v.now:
			return store.Login{}, store.ErrNotFound
		}
		return toLogin(row), nil
	})
}

// TakeLogin implements store.Store.
func (s *Store) TakeLogin(ctx context.Context, project string, state []byte) (store.Login, error) {
	return write(ctx, s, "take login", func(ctx context.Context, t *tx) (store.Login, error) {
		row, err := t.q.GetLogin(ctx, state)
		switch {
		case err != nil:
			return store.Login{}, orNotFound(err)
		case project != "" && row.Project != project, row.ExpiresAt <= t.now:
			return store.Login{}, store.ErrNotFound
		}
		// The driver reuses its bytes at the next statement.
		row.State, row.Target, row.Sealed = bytes.Clone(row.State), bytes.Clone(row.Target), bytes.Clone(row.Sealed)
		return toLogin(row), t.q.DropLogin(ctx, state)
	})
}

// BeginRenewal implements store.Store.
func (s *Store) BeginRenewal(ctx context.Context, p store.RenewalParams) (store.Renewal, error) {
	return write(ctx, s, "begin renewal", func(ctx context.Context, t *tx) (store.Renewal, error) {
		if err := t.refuseQuarantined(ctx); err != nil {
			return store.Renewal{}, err
		}
		present, err := t.q.CredentialVersion(ctx, fromID(p.Connection))
		if err != nil {
			return store.Renewal{}, orNotFound(err)
		}
		row, err := t.renewal(ctx, p.Connection)
		if err != nil {
			return store.Renewal{}, err
		}
		row, lease, err := p.Grant(row, int(present), fromMicros(t.now))
		if err != nil || !lease.Granted {
			return lease, err
		}
		return lease, t.q.SetRenewal(ctx, setRenewalParams(p.Connection, row))
	})
}

// EndRenewal implements store.Store.
func (s *Store) EndRenewal(ctx context.Context, connection, owner job.ID, rest time.Duration, unspent bool) error {
	return writeOnly(ctx, s, "end renewal", func(ctx context.Context, t *tx) error {
		row, err := t.renewal(ctx, connection)
		if err != nil {
			return err
		}
		row, his := row.Ended(owner, rest, unspent, fromMicros(t.now))
		if !his {
			return nil
		}
		return t.q.SetRenewal(ctx, setRenewalParams(connection, row))
	})
}

// renewal reads a row; without one it returns the zero row.
func (t *tx) renewal(ctx context.Context, connection job.ID) (store.RenewalRow, error) {
	row, err := t.q.GetRenewal(ctx, fromID(connection))
	if errors.Is(err, sql.ErrNoRows) {
		return store.RenewalRow{}, nil
	}
	return toRenewal(row), err
}
