package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Connections keeps accounts and their sealed credentials. Every write raises the
// connection's Version, its etag. Holds, which jobs and platforms cause, do not.
type Connections interface {
	// CreateConnection stores a connection and, if Sealed is set, version 1 of its
	// credential. A bound idempotency key returns the bound connection with created=false,
	// and the caller compares the fingerprints. ErrQuota, but never for a bound key.
	CreateConnection(ctx context.Context, c NewConnection) (conn Connection, created bool, err error)
	// Connection reads a connection by id, or by the key under which it was created when
	// Ref.Key is set. A deleted connection is found, and keeps its key. ErrNotFound.
	Connection(ctx context.Context, ref Ref) (Connection, error)
	// Hold reads what holds one hold key of a connection. The connection itself has the
	// oldest AuthHoldAt and the longest RateLimitedUntil of all its hold keys. A hold key
	// that nothing holds, or that is unknown, has a zero Hold.
	Hold(ctx context.Context, connection job.ID, holdKey string) (Hold, error)
	// ListConnections reads a page, newest first. It looks at MaxConnectionScan connections
	// at most, whatever the query selects. ErrNotFound when the connection to read on after
	// does not exist.
	ListConnections(ctx context.Context, q ConnectionQuery) (ConnectionPage, error)
	// ChangeConnection writes one change. Jobs that it releases may be claimed immediately.
	// Jobs that it holds back are not leased any more, nor armed with a claim. An arm of an
	// earlier lease that is being written at that moment may complete, and a job that was
	// leased before continues with the connection as it was leased. A deleted connection is
	// not changed.
	//
	//   - ErrNotFound: no such connection in the project.
	//   - ErrStale: another version than the named one. Read and decide again.
	//   - ErrInUse: the change deletes it, and a job that is not terminal uses it.
	//   - ErrIllegal: it is deleted; the credential is not the next version; or the change
	//     concerns what the present credential is sealed for, and has no new seal.
	ChangeConnection(ctx context.Context, c ConnectionChange) (Connection, error)
	// Missed reads jobs that fell due since a connection was paused and wait for nothing
	// else: SCHEDULED or RETRYING, with an open window. It reads none when the connection is
	// not paused. The caller that ends a pause reads them batch by batch.
	Missed(ctx context.Context, project string, id job.ID, limit int) ([]job.Snapshot, error)
	// Credential reads the newest sealed credential and, as of the same moment, what its
	// connection is sealed for. ErrNotFound when there is none.
	Credential(ctx context.Context, id job.ID) (Sealed, error)
}

// NewConnection is a connection to store.
type NewConnection struct {
	// Connection.CreatedBy is the caller that creates it, and UpdatedBy the same.
	Connection  Connection
	Key         string
	Fingerprint job.Fingerprint
	Sealed      *Sealed
	// Most, when positive, bounds the connections of the project that are not deleted, also
	// under concurrent calls.
	Most int64
}

// ErrInUse: jobs that are not terminal use the connection.
var ErrInUse = errors.New("connection in use")

// ConnectionChange is one change of a connection, decided on the version that was read. A nil
// field changes nothing.
type ConnectionChange struct {
	Project string
	ID      job.ID
	Version int64 // that was read
	// Actor is the caller that wants the change. Empty: the server itself, which renews
	// tokens; Connection.UpdatedBy then stays as it is.
	Actor string

	DisplayName *string
	// Labels, when not nil, replace all labels.
	Labels map[string]string
	Target *ConnectionTarget
	Limits *ConnectionLimits
	// Retry replaces what the connection states of how its jobs are tried again.
	Retry    *job.RetryPolicy
	Identity *string
	// Pause holds every hold key of the connection, present and future, until Resume. A
	// connection that is paused already keeps the time of its pause.
	Pause  *string
	Resume bool
	// Credential replaces the present one, which is erased: every look and request from now
	// on uses the new one. Its Version is one more than CredentialVersion. It lifts every
	// auth hold of the connection, and a refusal of an older version holds nothing from then
	// on. Where there was such a hold, blocked looks and polls are due immediately, except
	// those that are leased at that moment. This is no change of their jobs: no version, no
	// event.
	Credential *Sealed
	// Seal replaces the seal of the present credential, which keeps its version. A change of
	// settings or identity without a new credential needs one, because the credential is
	// sealed for both.
	Seal *Seal
	// Delete erases the credential. The row stays, and jobs are neither stored on it nor
	// restarted any more. A pause and holds end with it.
	Delete bool
}

// ConnectionTarget describes a connection's target.
type ConnectionTarget struct {
	Settings  []byte
	Class     job.Class // for jobs without an attempt
	KeyWindow time.Duration
}

// ConnectionLimits are a connection's bounds. They count from now on: a connection that had
// reached an old bound is not held back by it.
type ConnectionLimits struct {
	MaxInFlight, MaxPerMinute int
	CoolDown                  time.Duration
}

// Changed returns the connection as a change leaves it at now, or the error of
// ChangeConnection. What the store knows of its jobs is not judged here.
func (c ConnectionChange) Changed(conn Connection, now time.Time) (Connection, error) {
	if err := c.check(conn); err != nil {
		return conn, err
	}
	before := conn.SealedFor()
	if c.DisplayName != nil {
		conn.DisplayName = *c.DisplayName
	}
	if c.Labels != nil {
		conn.Labels = nil
		if len(c.Labels) > 0 {
			conn.Labels = maps.Clone(c.Labels)
		}
	}
	if t := c.Target; t != nil {
		conn.Settings, conn.Class, conn.KeyWindow = t.Settings, t.Class, t.KeyWindow.Truncate(time.Microsecond)
	}
	if l := c.Limits; l != nil {
		conn.MaxInFlight, conn.MaxPerMinute, conn.CoolDown = l.MaxInFlight, l.MaxPerMinute, l.CoolDown.Truncate(time.Microsecond)
	}
	if c.Retry != nil {
		conn.Retry = *c.Retry
	}
	if c.Identity != nil {
		conn.AccountIdentity = *c.Identity
	}
	if !c.seals() && conn.CredentialVersion > 0 && !conn.SealedFor().Equal(before) {
		return conn, fmt.Errorf("%w: the credential would be sealed for another target", ErrIllegal)
	}
	if s := c.Credential; s != nil {
		conn.CredentialVersion, conn.CredentialFingerprint = s.Version, s.Fingerprint
		conn.CredentialExpires, conn.CredentialRenews = job.Micros(s.Expires), s.Renews
	}
	if c.Pause != nil {
		conn.PausedReason = *c.Pause
		if conn.PausedAt.IsZero() {
			conn.PausedAt = now
		}
	}
	if c.Resume || c.Delete {
		conn.PausedAt, conn.PausedReason = time.Time{}, ""
	}
	if c.Delete {
		conn.Deleted, conn.CredentialVersion, conn.CredentialFingerprint = now, 0, ""
		conn.CredentialExpires, conn.CredentialRenews = time.Time{}, false
	}
	conn.Version, conn.Updated = conn.Version+1, now
	if c.Actor != "" {
		conn.UpdatedBy = c.Actor
	}
	return conn, nil
}

// None reports whether a change changes no part of a connection.
func (c ConnectionChange) None() bool {
	return c.DisplayName == nil && c.Labels == nil && c.Target == nil && c.Limits == nil && c.Retry == nil && c.Identity == nil &&
		c.Pause == nil && !c.Resume && c.Credential == nil && c.Seal == nil && !c.Delete
}

// check refuses a change that the connection in its present state does not allow.
func (c ConnectionChange) check(conn Connection) error {
	switch {
	case conn.Version != c.Version:
		return fmt.Errorf("%w: version %d, now %d", ErrStale, c.Version, conn.Version)
	case !conn.Deleted.IsZero():
		return fmt.Errorf("%w: the connection is deleted", ErrIllegal)
	case c.Credential != nil && c.Credential.Version != conn.CredentialVersion+1:
		return fmt.Errorf("%w: version %d of the credential after %d", ErrIllegal, c.Credential.Version, conn.CredentialVersion)
	case c.Pause != nil && c.Resume, c.Delete && (c.Credential != nil || c.Pause != nil),
		c.Seal != nil && (c.Credential != nil || c.Delete || conn.CredentialVersion == 0):
		return fmt.Errorf("%w: a change that contradicts itself", ErrIllegal)
	}
	return nil
}

// seals reports whether a change leaves no credential under the present seal.
func (c ConnectionChange) seals() bool { return c.Credential != nil || c.Seal != nil || c.Delete }

// Hold is what holds one hold key of a connection.
type Hold struct {
	// AuthAt is since when a credential holds it; zero: none does.
	AuthAt time.Time
	// Auth is the cause, and Reason explains it to a user.
	Auth   job.AuthCause
	Reason string
	// LimitedUntil is the end of its last rate limit, possibly in the past.
	LimitedUntil time.Time
}

// Connection is an account on a platform, without its credential.
type Connection struct {
	ID          job.ID
	Project     string
	Connector   string
	DisplayName string
	// Settings is the contract's settings message, encoded.
	Settings []byte
	Class    job.Class
	// KeyWindow is how long the target remembers an effect key; zero unless KEYED.
	KeyWindow       time.Duration
	AccountIdentity string
	// MaxInFlight bounds CLAIMED and SENDING jobs, on all servers; 0: 100.
	MaxInFlight int
	// MaxPerMinute bounds claims, by a token bucket; 0: no bound.
	MaxPerMinute int
	// CoolDown is how long after the last arm of another job of the connection no job is
	// armed, at most job.MaxCoolDown; 0: no such bound. Arms count from when it is set.
	CoolDown time.Duration
	// Retry is what the connection states of how its jobs are tried again.
	Retry                 job.RetryPolicy
	PausedAt              time.Time
	PausedReason          string
	AuthHoldAt            time.Time
	AuthHoldReason        string
	AuthHoldCause         job.AuthCause // 0: no hold
	RateLimitedUntil      time.Time
	CredentialVersion     int // 0: no credential
	CredentialFingerprint string
	CredentialExpires     time.Time
	CredentialRenews      bool // it is renewed before its end, without a person
	// Key is the key under which the connection was created. It stays bound to the connection
	// even after a deletion.
	Key         string
	Fingerprint job.Fingerprint
	// Labels are nil when there are none.
	Labels           map[string]string
	Version          int64
	Created, Updated time.Time
	Deleted          time.Time
	// CreatedBy and UpdatedBy are the actors of the connection's creation and of its last
	// change with an actor.
	CreatedBy, UpdatedBy string
}

// SealedFor returns what a credential of the connection is sealed for.
func (c Connection) SealedFor() SealedFor {
	return SealedFor{Project: c.Project, Connector: c.Connector, Settings: c.Settings, AccountIdentity: c.AccountIdentity}
}

// SealedFor is what a connection's credential is sealed for, beside the connection's id
// and the credential's version: who owns it, where it may be sent, and whose it is.
type SealedFor struct {
	Project, Connector string
	Settings           []byte
	AccountIdentity    string
}

// Equal reports whether two seals are for the same connection data.
func (f SealedFor) Equal(g SealedFor) bool {
	return f.Project == g.Project && f.Connector == g.Connector && f.AccountIdentity == g.AccountIdentity &&
		bytes.Equal(f.Settings, g.Settings)
}

// Seal is how a credential is encrypted.
type Seal struct {
	KeyID string
	Data  []byte
}

// Sealed is an encrypted credential.
type Sealed struct {
	Version int
	KeyID   string
	// Data is the ciphertext that the vault made for its connection, its version and For.
	Data        []byte
	Fingerprint string
	Expires     time.Time
	// Renews reports that the credential is renewed before its end, without a person. Reads do
	// not set it: Connection.CredentialRenews has it.
	Renews bool
	// For is what the connection is sealed for. Reads set it, and writes ignore it.
	For SealedFor
}
