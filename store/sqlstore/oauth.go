package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/column"
)

// Rules of this file: it locks its own tables only, and one row of them.

// StartLogin implements store.Store.
func (r *Roles) StartLogin(ctx context.Context, l store.Login, ttl time.Duration) error {
	return writeOnly(ctx, r, "start login", func(ctx context.Context, t Tx) error {
		if err := t.oneMore(ctx, CountedLogins, l.Project, t.Counts(l.Project).Logins, l.Most); err != nil {
			return err
		}
		if err := t.Q.DropOldLogins(ctx, t.Now); err != nil {
			return fmt.Errorf("old logins: %w", err)
		}
		return t.Q.StartLogin(ctx, shareddb.StartLoginParams{
			State: l.State, Project: l.Project, Actor: l.Actor, App: l.App, Target: filled(l.Target), KeyID: l.KeyID,
			Sealed: filled(l.Sealed), RedirectUrl: l.RedirectURL, ReturnUrl: l.ReturnURL, ExpiresAt: t.Now.Add(ttl),
		})
	})
}

// ReadLogin implements store.Store.
func (r *Roles) ReadLogin(ctx context.Context, state []byte) (store.Login, error) {
	return read(ctx, r, "read login", func(ctx context.Context, v View) (store.Login, error) {
		row, err := v.Q.GetLogin(ctx, shareddb.GetLoginParams{State: state, Now: v.Now})
		return toLogin(row), orNotFound(err)
	})
}

// TakeLogin implements store.Store.
func (r *Roles) TakeLogin(ctx context.Context, project string, state []byte) (store.Login, error) {
	return write(ctx, r, "take login", func(ctx context.Context, t Tx) (store.Login, error) {
		row, err := t.Q.TakeLogin(ctx, shareddb.TakeLoginParams{State: state, Project: project, Now: t.Now})
		return toLogin(row), orNotFound(err)
	})
}

func toLogin(r shareddb.OauthLogin) store.Login {
	return store.Login{
		State: r.State, Project: r.Project, Actor: r.Actor, App: r.App, Target: r.Target, KeyID: r.KeyID,
		Sealed: r.Sealed, RedirectURL: r.RedirectUrl, ReturnURL: r.ReturnUrl, Expires: r.ExpiresAt,
	}
}

// BeginRenewal implements store.Store. It reads the credential's version after it locks the
// row: the previous owner has stored the next version by then.
func (r *Roles) BeginRenewal(ctx context.Context, p store.RenewalParams) (store.Renewal, error) {
	return write(ctx, r, "begin renewal", func(ctx context.Context, t Tx) (store.Renewal, error) {
		if err := t.RefuseQuarantined(ctx); err != nil {
			return store.Renewal{}, err
		}
		row, err := t.Q.LockRenewal(ctx, shareddb.LockRenewalParams{ConnectionID: p.Connection, Until: time.Unix(0, 0)})
		if err != nil {
			return store.Renewal{}, named("lock", orNotFound(err))
		}
		present, err := t.Q.CredentialVersion(ctx, p.Connection)
		if err != nil {
			return store.Renewal{}, err
		}
		next, lease, err := p.Grant(store.RenewalRow{
			Version: int(row.Version), Owner: job.ID(row.Owner), Until: row.Until, Tries: int(row.Tries),
			Begun: row.BegunAt, Before: row.BeforeAt,
		}, int(present), t.Now)
		if err != nil || !lease.Granted {
			return lease, err
		}
		return lease, named("renewal", t.Q.SetRenewal(ctx, shareddb.SetRenewalParams{
			ConnectionID: p.Connection, Version: int64(next.Version), Owner: column.OptionalID(next.Owner),
			Until: next.Until, Tries: int64(next.Tries), BegunAt: next.Begun, BeforeAt: next.Before,
		}))
	})
}

// EndRenewal implements store.Store.
func (r *Roles) EndRenewal(ctx context.Context, connection, owner job.ID, rest time.Duration, unspent bool) error {
	return writeOnly(ctx, r, "end renewal", func(ctx context.Context, t Tx) error {
		p := shareddb.EndRenewalParams{ConnectionID: connection, Owner: column.OptionalID(owner), Until: t.Now.Add(rest)}
		if unspent {
			p.Unspent = 1
		}
		return t.Q.EndRenewal(ctx, p)
	})
}
