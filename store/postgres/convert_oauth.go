package postgres

import (
	"time"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

func startLoginParams(l store.Login, expires time.Time) pgdb.StartLoginParams {
	return pgdb.StartLoginParams{
		State: l.State, Project: l.Project, Actor: l.Actor, App: l.App, Target: fromBytes(l.Target), KeyID: l.KeyID,
		Sealed: fromBytes(l.Sealed), RedirectUrl: l.RedirectURL, ReturnUrl: l.ReturnURL, ExpiresAt: expires,
	}
}

func toLogin(r pgdb.OauthLogin) store.Login {
	return store.Login{
		State: r.State, Project: r.Project, Actor: r.Actor, App: r.App, Target: r.Target, KeyID: r.KeyID,
		Sealed: r.Sealed, RedirectURL: r.RedirectUrl, ReturnURL: r.ReturnUrl, Expires: r.ExpiresAt.UTC(),
	}
}

func toRenewal(r pgdb.OauthRenewal) store.RenewalRow {
	return store.RenewalRow{
		Version: int(r.Version), Owner: toID(r.Owner), Until: r.Until.UTC(), Tries: int(r.Tries),
		Begun: toTime(r.BegunAt), Before: toTime(r.BeforeAt),
	}
}

func setRenewalParams(connection job.ID, r store.RenewalRow) pgdb.SetRenewalParams {
	return pgdb.SetRenewalParams{
		ConnectionID: fromID(connection), Version: int64(r.Version), Owner: optionalID(r.Owner), Until: job.Micros(r.Until),
		Tries: int64(r.Tries), BegunAt: fromTime(r.Begun), BeforeAt: fromTime(r.Before),
	}
}
