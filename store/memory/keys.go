package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// KeyUse implements store.Store.
func (s *Store) KeyUse(ctx context.Context) ([]store.KeyUse, error) {
	return call(ctx, s, "key use", func(t *tx) ([]store.KeyUse, error) {
		var out []store.KeyUse
		for _, c := range t.connOrder {
			if c.sealed != nil {
				out = append(out, store.KeyUse{KeyID: c.sealed.KeyID, Credentials: 1})
			}
		}
		for _, l := range t.logins {
			if l.Expires.After(t.now) {
				out = append(out, store.KeyUse{KeyID: l.KeyID, Logins: 1})
			}
		}
		return store.SumKeyUse(out), nil
	})
}

// CredentialsOfOthers implements store.Store.
func (s *Store) CredentialsOfOthers(ctx context.Context, keyID string, after store.SealedPlace, limit int) ([]store.SealedAt, error) {
	return call(ctx, s, "credentials of other keys", func(t *tx) ([]store.SealedAt, error) {
		var out []store.SealedAt
		for _, c := range t.connOrder {
			if c.sealed == nil || c.sealed.KeyID == keyID {
				continue
			}
			at := store.SealedPlace{Connection: c.ID, Version: c.sealed.Version}
			if compare(at, after) > 0 {
				out = append(out, store.SealedAt{
					SealedPlace: at, For: t.public(c).SealedFor(), KeyID: c.sealed.KeyID, Data: slices.Clone(c.sealed.Data),
				})
			}
		}
		slices.SortFunc(out, func(a, b store.SealedAt) int { return compare(a.SealedPlace, b.SealedPlace) })
		return out[:min(len(out), rules.Page(limit))], nil
	})
}

func compare(a, b store.SealedPlace) int {
	return cmp.Or(bytes.Compare(a.Connection[:], b.Connection[:]), cmp.Compare(a.Version, b.Version))
}

// Reseal implements store.Store.
func (s *Store) Reseal(ctx context.Context, items []store.Reseal) ([]bool, error) {
	return batch(ctx, s, "reseal", items, func(t *tx, r store.Reseal) bool {
		c, ok := t.conns[r.Old.Connection]
		if !ok || c.sealed == nil || c.sealed.Version != r.Old.Version ||
			c.sealed.KeyID != r.Old.KeyID || !bytes.Equal(c.sealed.Data, r.Old.Data) {
			return false
		}
		c.sealed.KeyID, c.sealed.Data = r.KeyID, some(r.Data)
		return true
	})
}

// hashSize is that of SHA-256.
const hashSize = 32

// CreateAPIKey implements store.Store.
func (s *Store) CreateAPIKey(ctx context.Context, k store.NewAPIKey) (store.APIKey, error) {
	return call(ctx, s, "create API key", func(t *tx) (store.APIKey, error) {
		if err := store.OneMore(t.holdings(k.Project).APIKeys, k.Most); err != nil {
			return store.APIKey{}, err
		}
		_, taken := t.apiKeys[k.ID]
		switch {
		case k.ID == "" || k.Project == "" || taken || len(k.Hash) != hashSize:
			return store.APIKey{}, fmt.Errorf("%w: an API key without a new id, a project and a hash", store.ErrIllegal)
		case !k.NewProject && t.projects[k.Project] == nil:
			return store.APIKey{}, fmt.Errorf("project %s: %w", k.Project, store.ErrNotFound)
		case k.Name != "" && t.nameTaken(k):
			return store.APIKey{}, fmt.Errorf("name %q: %w", k.Name, store.ErrNameTaken)
		}
		if t.projects[k.Project] == nil {
			t.projects[k.Project] = &store.Project{ID: k.Project, Created: t.now}
		}
		made := &store.APIKey{
			ID: k.ID, Project: k.Project, Name: k.Name, Hash: some(k.Hash), Scopes: slices.Clone(k.Scopes), Created: t.now,
		}
		if k.Lifetime > 0 {
			made.Expires = micros(t.now.Add(k.Lifetime))
		}
		t.apiKeys[k.ID] = made
		return t.apiKey(made), nil
	})
}

// nameTaken reports whether a live key of the project has the name of a new one.
func (t *tx) nameTaken(n store.NewAPIKey) bool {
	for _, k := range t.apiKeys {
		if k.Project == n.Project && k.Name == n.Name && t.apiKey(k).Live() {
			return true
		}
	}
	return false
}

func (t *tx) apiKey(k *store.APIKey) store.APIKey {
	out := *k
	out.Hash, out.Scopes, out.Now = slices.Clone(k.Hash), slices.Clone(k.Scopes), t.now
	return out
}

// APIKey implements store.Store.
func (s *Store) APIKey(ctx context.Context, id string) (store.APIKey, error) {
	return call(ctx, s, "API key", func(t *tx) (store.APIKey, error) {
		k, ok := t.apiKeys[id]
		if !ok {
			return store.APIKey{}, store.ErrNotFound
		}
		return t.apiKey(k), nil
	})
}

// ListAPIKeys implements store.Store.
func (s *Store) ListAPIKeys(ctx context.Context, project, after string, limit int) ([]store.APIKey, error) {
	return call(ctx, s, "list API keys", func(t *tx) ([]store.APIKey, error) {
		var out []store.APIKey
		for _, id := range slices.Sorted(maps.Keys(t.apiKeys)) {
			k := t.apiKeys[id]
			if id > after && (project == "" || k.Project == project) && len(out) < rules.Page(limit) {
				out = append(out, t.apiKey(k))
			}
		}
		return out, nil
	})
}

// Projects implements store.Store.
func (s *Store) Projects(ctx context.Context, after string, limit int) ([]store.Project, error) {
	return call(ctx, s, "projects", func(t *tx) ([]store.Project, error) {
		var out []store.Project
		for _, id := range slices.Sorted(maps.Keys(t.projects)) {
			if id > after && len(out) < rules.Page(limit) {
				out = append(out, *t.projects[id])
			}
		}
		return out, nil
	})
}

// RevokeAPIKey implements store.Store.
func (s *Store) RevokeAPIKey(ctx context.Context, id string) (store.APIKey, error) {
	return call(ctx, s, "revoke API key", func(t *tx) (store.APIKey, error) {
		k, ok := t.apiKeys[id]
		if !ok {
			return store.APIKey{}, store.ErrNotFound
		}
		if k.Revoked.IsZero() {
			k.Revoked = t.now
		}
		return t.apiKey(k), nil
	})
}

// TouchAPIKey implements store.Store.
func (s *Store) TouchAPIKey(ctx context.Context, id string, gap time.Duration) (bool, error) {
	return call(ctx, s, "touch API key", func(t *tx) (bool, error) {
		k, ok := t.apiKeys[id]
		if !ok || !k.LastUsed.IsZero() && k.LastUsed.After(t.now.Add(-gap)) {
			return false, nil
		}
		k.LastUsed = t.now
		return true, nil
	})
}

// CredentialKeys implements store.Store.
func (s *Store) CredentialKeys(ctx context.Context) ([]string, error) {
	return call(ctx, s, "credential keys", func(t *tx) ([]string, error) {
		var out []string
		for _, c := range t.connOrder {
			if c.sealed != nil {
				out = append(out, c.sealed.KeyID)
			}
		}
		slices.Sort(out)
		return slices.Compact(out), nil
	})
}
