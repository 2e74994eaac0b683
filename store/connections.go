package store

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Connections keeps accounts and their sealed credentials. Every write raises
// the connection's Version, its etag.
type Connections interface {
	// CreateConnection stores a connection and, if Sealed is set, version 1 of
	// its credential. A bound idempotency key returns the bound connection with
	// created=false; the caller compares the fingerprints.
	CreateConnection(ctx context.Context, c NewConnection) (conn Connection, created bool, err error)
	// Connection reads one. ErrNotFound.
	Connection(ctx context.Context, project string, id job.ID) (Connection, error)
	// ListConnections reads a page, newest first, after the id (zero: from the top).
	ListConnections(ctx context.Context, project string, after job.ID, limit int) ([]Connection, error)
	// Credential reads the newest sealed credential. ErrNotFound when there is none.
	Credential(ctx context.Context, id job.ID) (Sealed, error)
	// CredentialKeys lists, in order and each once, the ids of the keys that
	// credentials are sealed with.
	CredentialKeys(ctx context.Context) ([]string, error)
}

// NewConnection is a connection to store.
type NewConnection struct {
	Connection  Connection
	Key         string
	Fingerprint job.Fingerprint
	Sealed      *Sealed
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
	// KeyWindow is how long the target remembers our key; zero unless KEYED.
	KeyWindow       time.Duration
	AccountIdentity string
	// MaxInFlight bounds CLAIMED and SENDING jobs; 0: the engine's default.
	MaxInFlight int
	// MaxPerMinute bounds claims, by a token bucket; 0: no bound.
	MaxPerMinute          int
	PausedAt              time.Time
	PausedReason          string
	AuthHoldAt            time.Time
	AuthHoldReason        string
	RateLimitedUntil      time.Time
	CredentialVersion     int // 0: no credential
	CredentialFingerprint string
	CredentialExpires     time.Time
	Key                   string
	Fingerprint           job.Fingerprint
	Version               int64
	Created, Updated      time.Time
	Deleted               time.Time
}

// Sealed is an encrypted credential.
type Sealed struct {
	Version int
	KeyID   string
	// Data is nonce and ciphertext; project, connection and version are its
	// associated data.
	Data        []byte
	Fingerprint string
	Expires     time.Time
}
