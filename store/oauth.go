package store

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Logins keeps logins under way.
type Logins interface {
	// StartLogin stores a login, which ends by itself after ttl. ErrIllegal: the state
	// is not new; ErrQuota, which comes first.
	StartLogin(ctx context.Context, l Login, ttl time.Duration) error
	// ReadLogin returns a login and leaves it as it is. ErrNotFound, also when its time is
	// over.
	ReadLogin(ctx context.Context, state []byte) (Login, error)
	// TakeLogin gives a login of the project, any project's if that is empty, and
	// removes it: at most one caller ever gets it. ErrNotFound, also when its time is
	// over.
	TakeLogin(ctx context.Context, project string, state []byte) (Login, error)
}

// Login is a login that was started and has not come back.
type Login struct {
	// State is the SHA-256 of the state, 32 bytes. Who has the state itself comes from
	// the platform.
	State   []byte
	Project string
	// Actor is who started it.
	Actor string
	App   string
	// Target is what is to be done with the tokens, encoded by the server.
	Target []byte
	// KeyID and Sealed are the sealed PKCE verifier.
	KeyID       string
	Sealed      []byte
	RedirectURL string
	ReturnURL   string
	Expires     time.Time // set by the store
	// Most, when positive, bounds the logins of the project that may still come back, also
	// under concurrent calls. It is StartLogin's, and is not stored.
	Most int64
}

// Renewals keeps whose turn it is to renew the tokens of a connection: a platform that
// replaces refresh tokens takes the second use of one for theft, and ends the login.
type Renewals interface {
	// BeginRenewal asks for the turn to renew a connection's tokens. Of several who
	// ask, one has it, until EndRenewal or the end of its lease.
	//
	//   - ErrStale: the connection has another credential than the version named, or
	//     none. Read it again.
	//   - ErrNotFound: no such connection.
	//   - ErrQuarantined: the tokens may be another database's to renew.
	BeginRenewal(ctx context.Context, p RenewalParams) (Renewal, error)
	// EndRenewal gives a turn back that its owner still has, and lets nobody have the
	// next one for the same version before rest is over. unspent says that the platform
	// cannot have seen the refresh token: the turn is not counted in Renewal.Tries.
	EndRenewal(ctx context.Context, connection, owner job.ID, rest time.Duration, unspent bool) error
}

// RenewalParams asks for a turn.
type RenewalParams struct {
	Connection job.ID
	// Version is the credential's whose tokens are to be renewed.
	Version int
	// Owner names who asks; who has the turn and asks again has it for longer.
	Owner job.ID
	Lease time.Duration
	// Apart, when set, refuses a turn that comes sooner after the one for an earlier
	// version (Renewal.TooSoon).
	Apart time.Duration
}

// Renewal is the answer to who asks for a turn.
type Renewal struct {
	// Granted: the turn is the caller's.
	Granted bool
	// Tries counts the turns for this version before, less those that spent nothing:
	// the platform may have seen the refresh token.
	Tries int
	// Resting: nobody has the turn, and nobody gets it before Left is over.
	Resting bool
	// TooSoon: see RenewalParams.Apart.
	TooSoon bool
	// Left is how long another owner may have the turn, or the rest lasts.
	Left time.Duration
}

// RenewalRow is what engines keep of a connection's renewals.
type RenewalRow struct {
	Version int
	// Owner is zero when nobody has the turn. Until is the end of his lease, or of the
	// rest.
	Owner job.ID
	Until time.Time
	// Tries are the turns for Version, the present one included.
	Tries int
	// Begun is when the last turn was given, Before when the last one for an earlier
	// version was.
	Begun, Before time.Time
}

// Turn judges who asks for a turn at now, and gives the row as it is then. present is
// the connection's credential version.
func (p RenewalParams) Turn(row RenewalRow, present int, now time.Time) (RenewalRow, Renewal, error) {
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

// Ended gives the row after its owner's turn; false: the turn is not his any more.
func (r RenewalRow) Ended(owner job.ID, rest time.Duration, unspent bool, now time.Time) (RenewalRow, bool) {
	if r.Owner != owner || owner.IsZero() {
		return r, false
	}
	if unspent {
		r.Tries--
	}
	r.Owner, r.Until = job.ID{}, now.Add(rest)
	return r, true
}
