package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Sealing lets the key that seals credentials be replaced while servers run. It changes what
// seals a credential, and not the credential: neither the connection's Version nor the
// credential's own rises.
type Sealing interface {
	// KeyUse counts what each key seals, in the order of the keys' ids.
	KeyUse(ctx context.Context) ([]KeyUse, error)
	// CredentialKeys lists, in order and each once, the ids of the keys that seal
	// credentials. Every start of a server calls it, so it counts nothing.
	CredentialKeys(ctx context.Context) ([]string, error)
	// CredentialsOfOthers reads credentials that another key than the named one seals, in
	// their order and after one; the zero place is the start.
	CredentialsOfOthers(ctx context.Context, keyID string, after SealedPlace, limit int) ([]SealedAt, error)
	// Reseal replaces seals, and reports for each whether it did. It does not where the
	// credential has another seal than the one that was read, or is gone.
	Reseal(ctx context.Context, items []Reseal) ([]bool, error)
}

// KeyUse counts what a key seals.
type KeyUse struct {
	KeyID       string
	Credentials int64
	// Logins may still be completed. They are not resealed, because they end soon.
	Logins int64
}

// SumKeyUse adds up the entries of the same key, in the order of the ids.
func SumKeyUse(parts []KeyUse) []KeyUse {
	slices.SortStableFunc(parts, func(a, b KeyUse) int { return cmp.Compare(a.KeyID, b.KeyID) })
	var out []KeyUse
	for _, p := range parts {
		if last := len(out) - 1; last < 0 || out[last].KeyID != p.KeyID {
			out = append(out, p)
		} else {
			out[last].Credentials += p.Credentials
			out[last].Logins += p.Logins
		}
	}
	return out
}

// SealedPlace names a credential.
type SealedPlace struct {
	Connection job.ID
	Version    int
}

// SealedAt is a sealed credential and its place.
type SealedAt struct {
	SealedPlace
	// For is what the connection is sealed for, as of the same moment.
	For   SealedFor
	KeyID string
	Data  []byte
}

// Reseal is a new seal for a credential that was read.
type Reseal struct {
	Old SealedAt
	// KeyID and Data are the new seal's.
	KeyID string
	Data  []byte
}

// APIKeys keeps records of clients' keys, and never a key itself.
type APIKeys interface {
	// CreateAPIKey stores a key.
	//
	//   - ErrNotFound: its project does not exist, and NewProject is not set.
	//   - ErrIllegal: the id is taken.
	//   - ErrNameTaken: a live key of the project has the name. An empty name is never taken.
	//     Of concurrent calls with one name, one succeeds.
	//   - ErrQuota: the project has as many live keys as it may. It comes before the others.
	CreateAPIKey(ctx context.Context, k NewAPIKey) (APIKey, error)
	// APIKey reads a key in any state. ErrNotFound.
	APIKey(ctx context.Context, id string) (APIKey, error)
	// ListAPIKeys reads keys of a project, or of all projects when it is empty, in the order
	// of their ids and after one. It includes revoked and expired keys.
	ListAPIKeys(ctx context.Context, project, after string, limit int) ([]APIKey, error)
	// RevokeAPIKey ends a key. A repeat keeps the time of the first call. ErrNotFound.
	RevokeAPIKey(ctx context.Context, id string) (APIKey, error)
	// Projects reads projects in the order of their ids, after one.
	Projects(ctx context.Context, after string, limit int) ([]Project, error)
	// TouchAPIKey records that a key is used now, unless a use less than gap ago was
	// recorded, and reports whether it did. It ignores a key that does not exist.
	TouchAPIKey(ctx context.Context, id string, gap time.Duration) (bool, error)
}

// ErrNameTaken: a live key of the project has the name.
var ErrNameTaken = errors.New("name taken")

// Project is a part of the database whose API keys see no other part. It is never removed.
type Project struct {
	ID      string
	Created time.Time
	// Erased is when it was last erased, by the actor ErasedBy; zero: never.
	Erased   time.Time
	ErasedBy string
}

// NewAPIKey is a key to store.
type NewAPIKey struct {
	ID      string
	Project string
	// NewProject creates the project if it does not exist.
	NewProject bool
	Name       string
	// Hash is the SHA-256 of the key itself, 32 bytes.
	Hash []byte
	// Scopes are words without spaces. The store does not interpret them.
	Scopes []string
	// Lifetime counts from now; 0: the key does not expire.
	Lifetime time.Duration
	// Most, when positive, bounds the live keys of the project, also under concurrent calls.
	Most int64
}

// APIKey is the record of a key.
type APIKey struct {
	ID      string
	Project string
	Name    string
	Hash    []byte
	Scopes  []string
	Created time.Time
	// Expires, LastUsed and Revoked may be zero. LastUsed is coarse.
	Expires, LastUsed, Revoked time.Time
	// Now is the store's clock when the key was read.
	Now time.Time
}

// Live reports whether the key was neither revoked nor expired when it was read.
func (k APIKey) Live() bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || k.Expires.After(k.Now))
}
