package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file: it locks its own tables only, and one row of them.

// StartLogin implements store.Store.
func (s *Store) StartLogin(ctx context.Context, l store.Login, ttl time.Duration) error {
	return writeOnly(ctx, s, "start login", func(ctx context.Context, t *tx) error {
		if err := t.lockCount(ctx, sqlstore.CountedLogins, l.Project, l.Most); err != nil {
			return err
		}
		if err := t.shared().Counts(l.Project).Logins.OneMore(ctx, l.Most); err != nil {
			return err
		}
		if err := t.q.DropOldLogins(ctx, t.now); err != nil {
			return fmt.Errorf("old logins: %w", err)
		}
		return t.q.StartLogin(ctx, startLoginParams(l, t.now.Add(ttl)))
	})
}

// ReadLogin implements store.Store.
func (s *Store) ReadLogin(ctx context.Context, state []byte) (store.Login, error) {
	return read(ctx, s, "read login", func(ctx context.Context, v view) (store.Login, error) {
		row, err := v.q.GetLogin(ctx, state)
		switch {
		case err != nil:
			return store.Login{}, orNotFound(err)
		case !row.ExpiresAt.After(v.now):
			return store.Login{}, store.ErrNotFound
		}
		return toLogin(row), nil
	})
}

// TakeLogin implements store.Store.
func (s *Store) TakeLogin(ctx context.Context, project string, state []byte) (store.Login, error) {
	return write(ctx, s, "take login", func(ctx context.Context, t *tx) (store.Login, error) {
		row, err := t.q.TakeLogin(ctx, pgdb.TakeLoginParams{State: state, Project: project})
		if err != nil {
			return store.Login{}, orNotFound(err)
		}
		if !row.ExpiresAt.After(t.now) {
			return store.Login{}, store.ErrNotFound
		}
		return toLogin(row), nil
	})
}

// BeginRenewal implements store.Store. It reads the credential's version after it locks the
// row: the previous owner has stored the next version by then.
func (s *Store) BeginRenewal(ctx context.Context, p store.RenewalParams) (store.Renewal, error) {
	return write(ctx, s, "begin renewal", func(ctx context.Context, t *tx) (store.Renewal, error) {
		if err := t.refuseQuarantined(); err != nil {
			return store.Renewal{}, err
		}
		id := fromID(p.Connection)
		if _, err := t.q.CredentialVersion(ctx, id); err != nil {
			return store.Renewal{}, orNotFound(err)
		}
		if err := t.q.AddRenewal(ctx, id); err != nil {
			return store.Renewal{}, fmt.Errorf("add: %w", err)
		}
		row, err := t.q.LockRenewal(ctx, id)
		if err != nil {
			return store.Renewal{}, fmt.Errorf("lock: %w", err)
		}
		present, err := t.q.CredentialVersion(ctx, id)
		if err != nil {
			return store.Renewal{}, orNotFound(err)
		}
		next, lease, err := p.Grant(toRenewal(row), int(present), t.now)
		if err != nil || !lease.Granted {
			return lease, err
		}
		return lease, named("renewal", t.q.SetRenewal(ctx, setRenewalParams(p.Connection, next)))
	})
}

// EndRenewal implements store.Store.
func (s *Store) EndRenewal(ctx context.Context, connection, owner job.ID, rest time.Duration, unspent bool) error {
	return writeOnly(ctx, s, "end renewal", func(ctx context.Context, t *tx) error {
		row, err := t.q.LockRenewal(ctx, fromID(connection))
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		next, his := toRenewal(row).Ended(owner, rest, unspent, t.now)
		if !his {
			return nil
		}
		return named("renewal", t.q.SetRenewal(ctx, setRenewalParams(connection, next)))
	})
}
