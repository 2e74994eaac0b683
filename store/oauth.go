package store

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Logins keeps logins that are under way.
type Logins interface {
	// StartLogin stores a login, which expires after ttl. ErrQuota; then ErrIllegal: the
	// state is not new.
	StartLogin(ctx context.Context, l Login, ttl time.Duration) error
	// ReadLogin returns a login and does not change it. ErrNotFound, also for one that has
	// expired.
	ReadLogin(ctx context.Context, state []byte) (Login, error)
	// TakeLogin returns a login of the project, or of any project if that is empty, and
	// removes it: at most one caller ever gets it. ErrNotFound, also for one that has
	// expired.
	TakeLogin(ctx context.Context, project string, state []byte) (Login, error)
}

// Login is a login that was started and has not been completed.
type Login struct {
	// State is the SHA-256 of the state, 32 bytes. A browser that has the state itself comes
	// from the platform.
	State   []byte
	Project string
	// Actor is the caller that started it.
	Actor string
	App   string
	// Target is the use of the tokens, encoded by the server.
	Target []byte
	// KeyID and Sealed are the sealed PKCE verifier.
	KeyID       string
	Sealed      []byte
	RedirectURL string
	ReturnURL   string
	Expires     time.Time // set by the store
	// Most, when positive, bounds the logins of the project that may still be completed, also
	// under concurrent calls. Only StartLogin uses it. It is not stored.
	Most int64
}

// Renewals leases the renewal of a connection's tokens to one server at a time. A platform
// that replaces refresh tokens takes the second use of one for theft, and ends the login.
type Renewals interface {
	// BeginRenewal requests the lease to renew a connection's tokens. One of several callers
	// gets it, until EndRenewal or the end of the lease.
	//
	//   - ErrStale: the connection has another credential version than the named one, or
	//     none. Read it again.
	//   - ErrNotFound: no such connection.
	//   - ErrQuarantined: another copy of the database may be renewing the tokens.
	BeginRenewal(ctx context.Context, p RenewalParams) (Renewal, error)
	// EndRenewal ends a lease that its owner still has. No caller gets the next one for the
	// same version before rest has passed. unspent states that the platform cannot have seen
	// the refresh token: the lease is not counted in Renewal.Tries.
	EndRenewal(ctx context.Context, connection, owner job.ID, rest time.Duration, unspent bool) error
}

// RenewalParams requests a lease.
type RenewalParams struct {
	Connection job.ID
	// Version is the credential's whose tokens are to be renewed.
	Version int
	// Owner names the caller. An owner that has the lease and requests it again extends it.
	Owner job.ID
	Lease time.Duration
	// Apart, when set, refuses a lease that begins sooner than this after the last one for an
	// earlier version (Renewal.TooSoon).
	Apart time.Duration
}

// Renewal is the answer to a request for a lease.
type Renewal struct {
	// Granted: the caller has the lease.
	Granted bool
	// Tries counts the earlier leases for this version, without those that spent nothing: the
	// platform may have seen the refresh token.
	Tries int
	// Resting: no caller has the lease, and none gets it before Left has passed.
	Resting bool
	// TooSoon: see RenewalParams.Apart.
	TooSoon bool
	// Left is how long another owner may keep the lease, or the rest lasts.
	Left time.Duration
}

// RenewalRow is what engines keep of a connection's renewals.
type RenewalRow struct {
	Version int
	// Owner is zero when no caller has the lease. Until is the end of the lease, or of the
	// rest.
	Owner job.ID
	Until time.Time
	// Tries counts the leases for Version, the present one included.
	Tries int
	// Begun is when the last lease began, Before when the last one for an earlier version
	// did.
	Begun, Before time.Time
}

// Grant judges a request at now, and returns the row that results. present is the
// connection's credential version.
func (p RenewalParams) Grant(row RenewalRow, present int, now time.Time) (RenewalRow, Renewal, error) {
	if present == 0 || present != p.Version {
		return row, Renewal{}, fmt.Errorf("%w: credential version %d, now %d", ErrStale, p.Version, present)
	}
	if row.Version != p.Version {
		row = RenewalRow{Version: p.Version, Before: row.Begun, Until: now}
	}
	switch left := row.Until.Sub(now); {
	case !row.Owner.IsZero() && row.Owner == p.Owner && left > 0:
		row.Until = now.Add(p.Lease)
		return row, Renewal{Granted: true, Tries: row.Tries - 1}, nil
	case left > 0:
		return row, Renewal{Resting: row.Owner.IsZero(), Tries: row.Tries, Left: left}, nil
	case p.Apart > 0 && now.Sub(row.Before) < p.Apart:
		return row, Renewal{TooSoon: true, Tries: row.Tries}, nil
	}
	row.Owner, row.Until, row.Begun = p.Owner, now.Add(p.Lease), now
	row.Tries++
	return row, Renewal{Granted: true, Tries: row.Tries - 1}, nil
}
