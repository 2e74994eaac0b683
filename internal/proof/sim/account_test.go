package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the platform knows logins, the store their versions. A login is
// good until it is revoked or has ended, whichever server holds it. The platform remembers
// by the version that was shown why it refused a login.

// account is a target's side of its connection.
type account struct {
	conn job.ID
	// second is another connection to the account; the same one: there is none.
	second job.ID
	// versions are the credentials that the connection has had; the last one is the
	// present one. A connection without a credential has version 0 and no login.
	versions  []*credential
	renewable bool          // its logins end, and can be renewed
	life      time.Duration // of such a login
	logins    int
	// paused and limits are what people have made of the connection.
	paused time.Time
	limits store.ConnectionLimits
	// starts are its jobs' claims since the limits were set.
	starts []moment
	// limited is the end of the longest wait that the platform has asked for, by connection:
	// what it answers to one connection holds no other, not even of the same account.
	limited map[job.ID]moment
}

// credential is one version.
type credential struct {
	version int
	login   *login
	refused bool // the platform has refused it
}

// login is what a credential holds.
type login struct {
	name    string
	revoked bool
	dead    bool      // the platform has said that it is not renewed any more
	ends    time.Time // zero: never
}

func (l *login) good() bool { return !l.revoked && (l.ends.IsZero() || time.Now().Before(l.ends)) }

func (a *account) present() *credential { return a.versions[len(a.versions)-1] }

func (a *account) version(n int) *credential {
	i := slices.IndexFunc(a.versions, func(c *credential) bool { return c.version == n })
	return a.versions[i]
}

// refuses reports whether the platform refuses a version, for its login or by a fault of
// its own, and remembers that.
func (w *simWorld) refuses(t *target, version int, by fault) bool {
	c := t.account.version(version)
	if c.login.good() && !w.hit(by) {
		return false
	}
	c.refused = true
	return true
}

// newLogin is a new one of the same account.
func (a *account) newLogin() *login {
	a.logins++
	l := &login{name: fmt.Sprint("login ", a.logins)}
	if a.renewable {
		l.ends = time.Now().Add(a.life)
	}
	return l
}

// sealed is a login as the store keeps it.
func (l *login) sealed(version int) *store.Sealed {
	return &store.Sealed{Version: version, KeyID: "k", Data: []byte(l.name), Expires: l.ends}
}

// openAccount draws what a target's account is like.
func (w *simWorld) openAccount(t *target) (first *store.Sealed) {
	a := &t.account
	a.limited = make(map[job.ID]moment)
	kind := max(0, w.upTo(8)-4)
	switch {
	case w.doubled:
		kind = 0 // neither connection has a credential of its own
	case w.renewals:
		kind = 3
	case w.cared:
		kind = 1 + w.upTo(2)
	}
	switch kind {
	default:
		a.versions = []*credential{{login: &login{}}}
		return nil
	case 1, 2:
	case 3:
		a.renewable = true
		a.life = w.oneOf(2*time.Minute, 10*time.Minute, time.Hour)
	}
	c := &credential{version: 1, login: a.newLogin()}
	a.versions = []*credential{c}
	return c.login.sealed(1)
}

// change writes a change of a target's connection, as a person or a server does.
func (w *simWorld) change(t *target, c store.ConnectionChange) {
	conn := w.connection(t)
	c.Project, c.ID, c.Version = conn.Project, conn.ID, conn.Version
	if _, err := w.store.ChangeConnection(context.Background(), c); err != nil {
		w.t.Error(err)
	}
}

func (w *simWorld) connection(t *target) store.Connection {
	conn, err := w.store.Connection(context.Background(), store.Ref{ID: t.account.conn})
	if err != nil {
		w.t.Error(err)
	}
	return conn
}

// replace stores a login as the connection's next version.
func (w *simWorld) replace(t *target, l *login) {
	a := &t.account
	next := &credential{version: a.present().version + 1, login: l}
	w.change(t, store.ConnectionChange{Credential: l.sealed(next.version)})
	a.versions = append(a.versions, next)
	w.holdIsTrue(t, w.jobs[0])
}

// tend lets people do what they do with connections, and plans their next deed.
func (w *simWorld) tend() {
	if !w.plagued.Load() {
		return
	}
	w.director.plan(time.Duration(w.upTo(int(2*w.care))), "tend", w.tend)
	t := w.targets[w.upTo(len(w.targets))]
	if w.down || w.allSettled() {
		return
	}
	tends := []fault{faultRevoked, faultRotate, faultPause, faultResume, faultLimits}
	if w.theme != nil && w.theme.tends != nil {
		tends = w.theme.tends
	}
	f := tends[w.upTo(len(tends))]
	switch held := !w.connection(t).AuthHoldAt.IsZero(); {
	case held && w.upTo(3) > 0:
		f = faultRotate
	case f == faultResume && t.account.paused.IsZero():
		f = faultPause
	case f == faultPause && !t.account.paused.IsZero():
		f = faultResume
	case f == faultHaltEnd && len(w.halts) == 0, f == faultHalt && len(w.halts) > 2:
		return
	}
	a := &t.account
	if f == faultRevoked && a.present().version == 0 || f == faultRotate && a.present().version == 0 && w.upTo(4) > 0 {
		return
	}
	w.stats.faults[f]++
	w.note("client", faultNames[f], job.ID{}, 0, t.name)
	switch f {
	case faultRevoked:
		a.present().login.revoked = true
	case faultRotate:
		w.rotate(t)
	case faultPause:
		why := "a person paused it"
		w.change(t, store.ConnectionChange{Pause: &why})
		a.paused = w.connection(t).PausedAt
	case faultResume:
		w.resume(t)
	case faultHalt:
		w.halt(t)
	case faultHaltEnd:
		w.endHalt(w.upTo(len(w.halts)))
	case faultLimits:
		a.limits = store.ConnectionLimits{
			MaxInFlight: w.upTo(2) * (1 + w.upTo(3)), MaxPerMinute: []int{0, 1, 2, 6, 20, 60}[w.upTo(6)],
		}
		a.starts = nil // a bound counts from when it was set
		w.change(t, store.ConnectionChange{Limits: &a.limits})
	default:
	}
}

// rotate returns the connection a new login, or the same once more.
func (w *simWorld) rotate(t *target) {
	l := t.account.present().login
	if w.upTo(4) > 0 || l.name == "" {
		l = t.account.newLogin()
	}
	w.replace(t, l)
}

// resume ends a pause. What was missed runs, or expires before the pause ends.
func (w *simWorld) resume(t *target) {
	a := &t.account
	if expire := w.upTo(2) == 0; expire {
		w.expireMissed(t)
	}
	a.paused = time.Time{}
	w.change(t, store.ConnectionChange{Resume: true})
}

// expireMissed ends what fell due in a pause and waits for nothing else.
func (w *simWorld) expireMissed(t *target) {
	ctx := context.Background()
	conn := w.connection(t)
	missed, err := w.store.Missed(ctx, conn.Project, conn.ID, store.MaxBatch)
	if err != nil {
		w.t.Error(err)
		return
	}
	for _, s := range missed {
		d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), job.Missed{Since: conn.PausedAt})
		if err != nil || d.Action != job.ActWrite {
			continue
		}
		j := w.byID[s.ID]
		if s.State.Runnable() && s.WaitsFor.IsZero() && !s.NextAt.Before(t.account.paused) && !s.NextAt.After(s.Now) {
			j.missed = true
		}
		w.note("client", "missed", j.id, 0, "")
		applied, err := w.store.Apply(ctx, []store.Change{{Job: s.ID, Version: s.Version, Decision: d, Actor: "client"}})
		if err != nil || applied[0].Err != nil {
			w.t.Error(err, applied)
		}
	}
	w.missedHasEnded(t)
}

// reconnect makes a target usable once the faults are over: people look after most
// connections, and some stay as they are.
func (w *simWorld) reconnect(t *target) {
	a := &t.account
	if c := a.present(); !c.login.good() || c.refused {
		if w.upTo(3) > 0 {
			w.rotate(t)
			a.present().login.revoked = false
			a.present().login.dead = false
		}
	}
	if !a.paused.IsZero() && w.upTo(2) == 0 {
		w.resume(t)
	}
}

// simRefresher renews logins as the platform and the seed say. What it returns is
// stored before.
type simRefresher struct{ *node }

// renewEarly is how long before its end a login is renewed.
func (a *account) renewEarly() time.Duration { return a.life / 10 }

func (r simRefresher) Due(conn store.Connection) bool {
	a := &r.w.targets[int(conn.Settings[0])].account
	return a.renewable && time.Until(conn.CredentialExpires) < a.renewEarly()
}

func (r simRefresher) Fresh(ctx context.Context, conn store.Connection, cred connector.Credential) (connector.Credential, error) {
	fresh, err := r.renew(ctx, conn, cred.Version, false)
	var refusal *connector.Refusal
	if errors.As(err, &refusal) && refusal.Kind == job.FailHeld && time.Until(conn.CredentialExpires) > 0 && conn.CredentialVersion == cred.Version {
		return cred, nil // it lasts for now
	}
	return fresh, err
}

func (r simRefresher) Refused(ctx context.Context, conn store.Connection, version int) (bool, error) {
	if !r.w.targets[int(conn.Settings[0])].account.renewable {
		return false, nil
	}
	_, err := r.renew(ctx, conn, version, true)
	var refusal *connector.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Kind == job.FailAuth:
		return false, nil
	default:
		return err == nil, err
	}
}

// renew asks the platform for a newer login than a version's; refused says that the
// platform does not take it, whatever its end.
func (r simRefresher) renew(ctx context.Context, conn store.Connection, version int, refused bool) (connector.Credential, error) {
	w, t := r.w, r.w.targets[int(conn.Settings[0])]
	a := &t.account
	var out connector.Credential
	detail := fmt.Sprint(t.name, " ", refused)
	err := r.asked(call{op: "Renew", n: int64(version), detail: detail, ctx: ctx, act: func() error {
		c := a.present()
		if c.version == version {
			switch {
			case c.login.dead || w.hit(faultLoginDead):
				c.login.dead, c.login.revoked = true, true
				return &connector.Refusal{Kind: job.FailAuth, Msg: "Reconnect this account."}
			case w.hit(faultNotRenewed):
				return &connector.Refusal{
					Kind: job.FailHeld, Msg: "the login could not be renewed", RetryAfter: w.oneOf(time.Second, 15*time.Second, time.Minute),
				}
			}
			w.stats.renewals++
			old := c.login
			w.replace(t, a.newLogin())
			old.revoked = w.upTo(2) == 0
			c = a.present()
		}
		out = connector.Credential{Version: c.version, Data: []byte(c.login.name)}
		return nil
	}})
	var refusal *connector.Refusal
	if err != nil && !errors.As(err, &refusal) {
		err = &connector.Refusal{Kind: job.FailHeld, Msg: "the login is being renewed", RetryAfter: time.Second}
	}
	return out, err
}
