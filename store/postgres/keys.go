package postgres

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// KeyUse implements store.Store.
func (s *Store) KeyUse(ctx context.Context) ([]store.KeyUse, error) {
	return read(ctx, s, "key use", func(ctx context.Context, v view) ([]store.KeyUse, error) {
		rows, err := v.q.KeyUse(ctx)
		if err != nil {
			return nil, err
		}
		logins, err := v.q.LoginKeyUse(ctx, v.now)
		if err != nil {
			return nil, err
		}
		var out []store.KeyUse
		for _, r := range rows {
			out = append(out, store.KeyUse{KeyID: r.KeyID, Credentials: r.Credentials})
		}
		for _, r := range logins {
			out = append(out, store.KeyUse{KeyID: r.KeyID, Logins: r.Logins})
		}
		return store.SumKeyUse(out), nil
	})
}

// CredentialsOfOthers implements store.Store.
func (s *Store) CredentialsOfOthers(ctx context.Context, keyID string, after store.SealedPlace, limit int) ([]store.SealedAt, error) {
	return read(ctx, s, "credentials of other keys", func(ctx context.Context, v view) ([]store.SealedAt, error) {
		rows, err := v.q.CredentialsOfOthers(ctx, pgdb.CredentialsOfOthersParams{
			ConnectionID: fromID(after.Connection), Version: int64(after.Version), KeyID: keyID,
			MaxRows: int32(rules.Page(limit)),
		})
		return store.Converted(rows, err, toSealedAt)
	})
}

// Reseal implements store.Store. It locks the credentials in their order, whatever the order
// of the items is.
func (s *Store) Reseal(ctx context.Context, items []store.Reseal) ([]bool, error) {
	if len(items) > store.MaxBatch {
		return nil, fmt.Errorf("reseal: %w: %d items, at most %d", store.ErrIllegal, len(items), store.MaxBatch)
	}
	return write(ctx, s, "reseal", func(ctx context.Context, t *tx) ([]bool, error) {
		out := make([]bool, len(items))
		for _, i := range inOrder(items) {
			n, err := t.q.Reseal(ctx, resealParams(items[i]))
			if err != nil {
				return nil, err
			}
			out[i] = n == 1
		}
		return out, nil
	})
}

// inOrder returns the indexes of items in the order of the credentials' locks.
func inOrder(items []store.Reseal) []int {
	out := every(len(items))
	slices.SortStableFunc(out, func(x, y int) int {
		a, b := items[x].Old, items[y].Old
		return cmp.Or(bytes.Compare(a.Connection[:], b.Connection[:]), cmp.Compare(a.Version, b.Version))
	})
	return out
}

// CreateAPIKey implements store.Store.
func (s *Store) CreateAPIKey(ctx context.Context, k store.NewAPIKey) (store.APIKey, error) {
	return write(ctx, s, "create API key", func(ctx context.Context, t *tx) (store.APIKey, error) {
		if err := t.lockCount(ctx, countedAPIKeys, k.Project, k.Most); err != nil {
			return store.APIKey{}, err
		}
		if err := t.view().counts(k.Project).APIKeys.OneMore(ctx, k.Most); err != nil {
			return store.APIKey{}, err
		}
		if k.NewProject {
			if err := t.q.InsertProject(ctx, pgdb.InsertProjectParams{ID: k.Project, Now: t.now}); err != nil {
				return store.APIKey{}, fmt.Errorf("project: %w", err)
			}
		}
		// Of concurrent calls one locks the project at a time, so the next one sees its name.
		switch n, err := t.q.LockProject(ctx, k.Project); {
		case err != nil:
			return store.APIKey{}, err
		case n == 0:
			return store.APIKey{}, fmt.Errorf("project %s: %w", k.Project, store.ErrNotFound)
		}
		switch taken, err := t.q.NameTaken(ctx, pgdb.NameTakenParams{Project: k.Project, Name: k.Name, Now: t.now}); {
		case err != nil:
			return store.APIKey{}, err
		case taken:
			return store.APIKey{}, fmt.Errorf("name %q: %w", k.Name, store.ErrNameTaken)
		}
		if err := t.q.InsertAPIKey(ctx, insertAPIKeyParams(k, t.now)); err != nil {
			return store.APIKey{}, err
		}
		return t.view().apiKey(ctx, k.ID)
	})
}

func (v view) apiKey(ctx context.Context, id string) (store.APIKey, error) {
	row, err := v.q.GetAPIKey(ctx, id)
	if err != nil {
		return store.APIKey{}, err
	}
	return toAPIKey(row, v.now), nil
}

// APIKey implements store.Store.
func (s *Store) APIKey(ctx context.Context, id string) (store.APIKey, error) {
	return read(ctx, s, "API key", func(ctx context.Context, v view) (store.APIKey, error) { return v.apiKey(ctx, id) })
}

// ListAPIKeys implements store.Store.
func (s *Store) ListAPIKeys(ctx context.Context, project, after string, limit int) ([]store.APIKey, error) {
	return read(ctx, s, "list API keys", func(ctx context.Context, v view) ([]store.APIKey, error) {
		rows, err := v.q.ListAPIKeys(ctx, pgdb.ListAPIKeysParams{After: after, Project: project, MaxRows: int32(rules.Page(limit))})
		return store.Converted(rows, err, func(row pgdb.ApiKey) store.APIKey { return toAPIKey(row, v.now) })
	})
}

// RevokeAPIKey implements store.Store.
func (s *Store) RevokeAPIKey(ctx context.Context, id string) (store.APIKey, error) {
	return write(ctx, s, "revoke API key", func(ctx context.Context, t *tx) (store.APIKey, error) {
		if err := t.q.RevokeAPIKey(ctx, pgdb.RevokeAPIKeyParams{ID: id, Now: t.now}); err != nil {
			return store.APIKey{}, err
		}
		return t.view().apiKey(ctx, id)
	})
}

// TouchAPIKey implements store.Store.
func (s *Store) TouchAPIKey(ctx context.Context, id string, gap time.Duration) (bool, error) {
	return write(ctx, s, "touch API key", func(ctx context.Context, t *tx) (bool, error) {
		n, err := t.q.TouchAPIKey(ctx, touchAPIKeyParams(id, gap, t.now))
		return n == 1, err
	})
}
