package oauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/sleep"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - One at a time renews the tokens of a connection: in this process by a flight,
//     over all processes by a turn in the store.
//   - New tokens are stored, as the credential's next version, before any caller gets them.
//     Storing is retried until it succeeds: the old tokens are spent.
//   - A renewal whose answer is lost is repeated once, immediately: the platform may not have
//     seen the first request, and some platforms accept a repeat. After that, and after every
//     failure that does not end the login, the turn rests.
//   - Only a platform's answer ends a login. While a platform cannot be reached, jobs use the
//     old token until it expires, and then wait.

const (
	// early is how long before its end a token is renewed, or a tenth of its life if that is less.
	early = 5 * time.Minute
	// margin is the last part of a token's life, in which it is not sent any more.
	margin = 15 * time.Second
	// turnLease is how long the turn of a dead owner lasts: longer than two requests and a slow
	// store.
	turnLease = time.Minute
	// apart is the time after a renewal in which a refusal of the new token means that
	// renewing does not help.
	apart = time.Minute
	// restLeast and restMost bound the pause after a renewal that failed.
	restLeast = 15 * time.Second
	restMost  = 10 * time.Minute
	// restApp is the pause when the app itself is refused.
	restApp = time.Minute
	// waitPoll is how often a waiting renewal reads whether another server is done.
	waitPoll = 250 * time.Millisecond
	// waitMost bounds that wait.
	waitMost = 15 * time.Second
	// storeTime bounds one call to the store; storePause is after the first try to store
	// new tokens that failed, and grows to storePauseMost.
	storeTime      = 15 * time.Second
	storePause     = 250 * time.Millisecond
	storePauseMost = 5 * time.Second
	// mostRefused bounds the refused versions in memory.
	mostRefused = 1024
)

// Store is what a Renewer needs of a store.Store.
type Store interface {
	store.Renewals
	Connection(ctx context.Context, ref store.Ref) (store.Connection, error)
	Credential(ctx context.Context, id job.ID) (store.Sealed, error)
	ChangeConnection(ctx context.Context, c store.ConnectionChange) (store.Connection, error)
}

// Config makes a Renewer.
type Config struct {
	Apps   *Apps
	Client *Client
	Store  Store
	Vault  seal.Vault
	Log    *slog.Logger
	NewID  func() job.ID
	// Now is the clock that the ends of tokens are compared with; nil: time.Now.
	Now func() time.Time
}

// Renewer keeps the tokens of connections fresh. It is an engine's Refresher.
type Renewer struct {
	Config
	// hard is canceled when the process must end: storing new tokens goes on until then.
	hard context.Context
	kill context.CancelFunc

	mu      sync.Mutex
	flights map[job.ID]*flight
	closed  bool
	busy    sync.WaitGroup
	// refused are the versions that a platform has refused before their time.
	refused *cache.TTL[job.ID, refusedVersion]
}

// refusedVersion is a version that a platform has refused before its end. dead is set if the
// refresh token is refused, too.
type refusedVersion struct {
	version int
	dead    *connector.Refusal
}

// flight is one renewal. It goes on when its callers stop waiting.
type flight struct {
	version int
	done    chan struct{}
	cred    connector.Credential
	err     error
}

// NewRenewer makes a Renewer.
func NewRenewer(c Config) (*Renewer, error) {
	if c.Client == nil || c.Store == nil || c.Vault == nil || c.Log == nil || c.NewID == nil {
		return nil, errors.New("oauth: client, store, vault, log and ids are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	r := &Renewer{
		Config: c, flights: make(map[job.ID]*flight),
		refused: cache.New[job.ID, refusedVersion](cache.Options{Max: mostRefused}),
	}
	r.hard, r.kill = context.WithCancel(context.Background())
	return r, nil
}

// Close lets renewals under way end and be stored, for as long as ctx allows. None is
// begun after it.
func (r *Renewer) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	defer r.kill()
	ended := make(chan struct{})
	go func() { r.busy.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	r.kill()
	<-ended
	return fmt.Errorf("oauth: a renewal was cut short: %w", ctx.Err())
}

// Due reports whether a connection's credential may need to be renewed before it is used. It makes
// no call.
func (r *Renewer) Due(conn store.Connection) bool {
	if conn.CredentialVersion == 0 {
		return false
	}
	if !conn.CredentialExpires.IsZero() && conn.CredentialExpires.Sub(r.Now()) < early {
		return true
	}
	return r.isRefused(conn.ID, conn.CredentialVersion)
}

// Fresh returns the credential to use: the given one, or a newer one, which is stored. It fails
// with *connector.Refusal.
func (r *Renewer) Fresh(ctx context.Context, conn store.Connection, cred connector.Credential) (connector.Credential, error) {
	token, ok := tokenOf(cred)
	if !ok || token.GetRefreshToken() == "" {
		return cred, nil
	}
	left := r.left(token)
	refused := r.isRefused(conn.ID, cred.Version)
	if !refused && left >= threshold(token) {
		return cred, nil
	}
	fresh, err := r.renewed(ctx, conn, cred.Version, 0)
	var transient *connector.Refusal
	if errors.As(err, &transient) && transient.Kind == job.FailHeld && !refused && left > margin {
		return cred, nil // it lasts for now
	}
	return fresh, err
}

// Refused handles the refusal of a version of a connection's credential by the platform. It reports
// true if a newer one is stored. It fails with *connector.Refusal: of kind job.FailAuth when the
// login has ended, otherwise when there may be a newer one later. Else the refusal stands.
func (r *Renewer) Refused(ctx context.Context, conn store.Connection, version int) (renewed bool, err error) {
	cred, err := r.present(ctx, conn)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return false, wait(storeRest, "the credential could not be read")
	case cred.Version != version:
		return cred.Version > version, nil
	}
	token, ok := tokenOf(cred)
	if !ok || token.GetRefreshToken() == "" {
		return false, nil
	}
	r.refuse(conn.ID, version, nil)
	notWithin := apart
	if r.left(token) <= 0 {
		notWithin = 0 // it has just ended: that is what it was refused for
	}
	_, err = r.renewed(ctx, conn, version, notWithin)
	return err == nil, err
}

// storeRest is how long a job waits for a store that does not answer.
const storeRest = time.Second

// wait is a refusal that costs the job no attempt.
func wait(after time.Duration, msg string) *connector.Refusal {
	return &connector.Refusal{Kind: job.FailHeld, Msg: msg, RetryAfter: after, Shared: true}
}

func (r *Renewer) left(t *connectionsv1.OAuth2Token) time.Duration {
	if t.GetExpireTime() == nil {
		return early // not known: it is used until it is refused
	}
	return t.GetExpireTime().AsTime().Sub(r.Now())
}

// threshold is how long before its end a token is renewed.
func threshold(t *connectionsv1.OAuth2Token) time.Duration {
	if t.GetIssueTime() == nil || t.GetExpireTime() == nil {
		return early
	}
	life := t.GetExpireTime().AsTime().Sub(t.GetIssueTime().AsTime())
	return max(0, min(early, life/10))
}

func (r *Renewer) isRefused(id job.ID, version int) bool {
	v, ok := r.refused.Get(id)
	return ok && v.version == version
}

// refuse records that a version is refused. A record that it is dead stays.
func (r *Renewer) refuse(id job.ID, version int, dead *connector.Refusal) {
	r.refused.Update(id, func(known refusedVersion, _ bool) refusedVersion {
		if known.version == version && known.dead != nil {
			return known
		}
		return refusedVersion{version, dead}
	})
}

// tokenOf reads an OAuth token out of a credential.
func tokenOf(cred connector.Credential) (*connectionsv1.OAuth2Token, bool) {
	if len(cred.Data) == 0 {
		return nil, false
	}
	var pb connectionsv1.Credential
	if err := proto.Unmarshal(cred.Data, &pb); err != nil {
		return nil, false
	}
	token := pb.GetOauth2()
	return token, token != nil
}

// present opens the newest credential.
func (r *Renewer) present(ctx context.Context, conn store.Connection) (connector.Credential, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	sealed, err := r.Store.Credential(ctx, conn.ID)
	if err != nil {
		return connector.Credential{}, fmt.Errorf("read the credential: %w", err)
	}
	data, err := seal.Open(r.Vault, conn, sealed)
	if err != nil {
		return connector.Credential{}, err
	}
	return connector.Credential{Version: sealed.Version, Data: data}, nil
}

// renewed waits for a newer credential than version. One flight serves all callers of this process.
func (r *Renewer) renewed(ctx context.Context, conn store.Connection, version int, notWithin time.Duration) (connector.Credential, error) {
	f, err := r.join(conn, version, notWithin)
	if err != nil {
		return connector.Credential{}, err
	}
	select {
	case <-f.done:
		return f.cred, f.err
	case <-ctx.Done():
		return connector.Credential{}, wait(storeRest, "the login is being renewed")
	}
}

func (r *Renewer) join(conn store.Connection, version int, notWithin time.Duration) (*flight, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, _ := r.refused.Get(conn.ID); known.version == version && known.dead != nil {
		return nil, known.dead
	}
	if f, ok := r.flights[conn.ID]; ok && f.version == version {
		return f, nil
	} else if ok || r.closed {
		return nil, wait(storeRest, "the login is being renewed")
	}
	f := &flight{version: version, done: make(chan struct{})}
	r.flights[conn.ID] = f
	r.busy.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				r.Log.Error("panic while renewing tokens", "connection", conn.ID.String(), "panic", p)
				f.err = wait(restLeast, "internal error while renewing the login")
			}
			r.mu.Lock()
			delete(r.flights, conn.ID)
			r.mu.Unlock()
			close(f.done)
		}()
		f.cred, f.err = r.fly(r.hard, conn, version, notWithin)
	})
	return f, nil
}

// fly requests the turn until it has it, or another server is done, or the turn rests.
func (r *Renewer) fly(ctx context.Context, conn store.Connection, version int, notWithin time.Duration) (connector.Credential, error) {
	end := time.Now().Add(waitMost)
	owner := r.NewID()
	for {
		turn, err := r.begin(ctx, conn, version, owner, notWithin)
		switch {
		case errors.Is(err, store.ErrStale), errors.Is(err, store.ErrNotFound):
			cred, err := r.present(ctx, conn)
			if err != nil || cred.Version <= version {
				return connector.Credential{}, wait(storeRest, "the credential was changed")
			}
			return cred, nil
		case err != nil:
			r.Log.Warn("no turn to renew tokens", "connection", conn.ID.String(), "err", err)
			return connector.Credential{}, wait(storeRest, "the login could not be renewed: the store does not answer")
		case turn.Granted:
			return r.renew(ctx, conn, version, owner, turn.Tries)
		case turn.TooSoon:
			return connector.Credential{}, r.dead(conn, version, false)
		case turn.Resting:
			return connector.Credential{}, wait(turn.Left, r.unreached(conn))
		case !time.Now().Before(end):
			return connector.Credential{}, wait(min(turn.Left, storeRest), "the login is being renewed by another server")
		}
		sleep.For(ctx, min(turn.Left, waitPoll))
	}
}

func (r *Renewer) begin(ctx context.Context, conn store.Connection, version int, owner job.ID, notWithin time.Duration) (store.Renewal, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	return r.Store.BeginRenewal(ctx, store.RenewalParams{
		Connection: conn.ID, Version: version, Owner: owner, Lease: turnLease, Apart: notWithin,
	})
}

// renew runs while it holds the turn. tries counts the turns for this version whose end is unknown.
func (r *Renewer) renew(ctx context.Context, conn store.Connection, version int, owner job.ID, tries int) (connector.Credential, error) {
	cred, err := r.present(ctx, conn)
	if err != nil || cred.Version != version {
		r.end(ctx, conn, owner, 0, true)
		return connector.Credential{}, wait(storeRest, "the credential could not be read")
	}
	token, _ := tokenOf(cred)
	app, known := r.Apps.Find(token.GetApp(), conn.Connector)
	if !known || !app.Serves(conn.Settings) { // the name may be a user's
		r.end(ctx, conn, owner, restApp, true)
		return connector.Credential{}, wait(restApp, fmt.Sprintf(
			"this server has no OAuth app %q for %s; its operator has to configure it", token.GetApp(), r.Apps.Title(conn.Connector)))
	}
	got, err := r.Client.Refresh(ctx, app, token.GetRefreshToken())
	var failed *TokenError
	lost := errors.As(err, &failed) && failed.Fate == Lost
	if lost {
		r.Log.Warn("the answer to a renewal is lost; asking once more", "connection", conn.ID.String(), "app", app.Name, "err", err)
		got, err = r.Client.Refresh(ctx, app, token.GetRefreshToken())
	}
	if err != nil {
		return connector.Credential{}, r.failed(ctx, conn, version, owner, app, ending{tries: tries, lost: lost}, err)
	}
	return r.keep(ctx, conn, cred, owner, got)
}

// ending describes a turn that ends without tokens.
type ending struct {
	// tries counts the earlier turns whose end is unknown.
	tries int
	// lost: an answer of this turn is lost.
	lost bool
}

// failed ends a turn without tokens.
func (r *Renewer) failed(
	ctx context.Context, conn store.Connection, version int, owner job.ID, app App, e ending, err error,
) error {
	failed := &TokenError{Fate: Lost}
	errors.As(err, &failed)
	attrs := []any{"connection", conn.ID.String(), "app", app.Name, "err", err}
	switch failed.Fate {
	case Refused:
		r.Log.Warn("a login has ended", attrs...)
		r.end(ctx, conn, owner, 0, false)
		return r.dead(conn, version, e.lost || e.tries > 0)
	case Misconfigured:
		r.Log.Error("a platform refuses an OAuth app; are its client id and secret right?", attrs...)
		r.end(ctx, conn, owner, restApp, !e.lost)
		return wait(restApp, fmt.Sprintf("%s does not accept this server's OAuth app %q; its operator has to put that right",
			r.Apps.Title(conn.Connector), app.Name))
	default:
		r.Log.Warn("tokens could not be renewed", attrs...)
		rest := min(restLeast<<min(e.tries, 10), restMost)
		r.end(ctx, conn, owner, rest, !e.lost && failed.Fate != Lost)
		return wait(rest, r.unreached(conn))
	}
}

func (r *Renewer) unreached(conn store.Connection) string {
	return fmt.Sprintf("the login has to be renewed, and %s could not be reached for it", r.Apps.Title(conn.Connector))
}

// dead is the refusal after the end of a login, in a user's words.
func (r *Renewer) dead(conn store.Connection, version int, lost bool) *connector.Refusal {
	name := r.Apps.Title(conn.Connector)
	msg := fmt.Sprintf("Reconnect this %s account: %s does not accept its login any more.", name, name)
	why := job.AuthLoginEnded
	if lost {
		why = job.AuthRenewalLost
		msg = fmt.Sprintf("Reconnect this %s account: its login was being renewed when an answer of %s was lost, "+
			"and %s does not accept the old login any more.", name, name, name)
	}
	dead := &connector.Refusal{Kind: job.FailAuth, Auth: why, Msg: msg}
	r.refuse(conn.ID, version, dead)
	return dead
}

// end releases the turn. If that fails, its lease expires.
func (r *Renewer) end(ctx context.Context, conn store.Connection, owner job.ID, rest time.Duration, unspent bool) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if err := r.Store.EndRenewal(ctx, conn.ID, owner, rest, unspent); err != nil {
		r.Log.Warn("a turn to renew tokens was not given back", "connection", conn.ID.String(), "err", err)
	}
}
