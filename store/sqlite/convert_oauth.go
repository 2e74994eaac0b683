package sqlite

import (
	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

func startLoginParams(l store.Login, expires int64) sqlitedb.StartLoginParams {
	return sqlitedb.StartLoginParams{
		State: l.State, Project: l.Project, Actor: l.Actor, App: l.App, Target: fromBytes(l.Target), KeyID: l.KeyID,
		Sealed: fromBytes(l.Sealed), RedirectUrl: l.RedirectURL, ReturnUrl: l.ReturnURL, ExpiresAt: expires,
	}
}

func toLogin(r sqlitedb.OauthLogin) store.Login {
	return store.Login{
		State: r.State, Project: r.Project, Actor: r.Actor, App: r.App, Target: r.Target, KeyID: r.KeyID,
		Sealed: r.Sealed, RedirectURL: r.RedirectUrl, ReturnURL: r.ReturnUrl, Expires: fromMicros(r.ExpiresAt),
	}
}

func toRenewal(r sqlitedb.OauthRenewal) store.RenewalRow {
	return store.RenewalRow{
		Version: int(r.Version), Owner: toID(r.Owner), Until: fromMicros(r.Until), Tries: int(r.Tries),
		Begun: fromNullMicros(r.BegunAt), Before: fromNullMicros(r.BeforeAt),
	}
}

func setRenewalParams(connection job.ID, r store.RenewalRow) sqlitedb.SetRenewalParams {
	return sqlitedb.SetRenewalParams{
		ConnectionID: fromID(connection), Version: int64(r.Version), Owner: fromOptionalID(r.Owner),
		Until: r.Until.UnixMicro(), Tries: int64(r.Tries), BegunAt: toMicros(r.Begun), BeforeAt: toMicros(r.Before),
	}
}
