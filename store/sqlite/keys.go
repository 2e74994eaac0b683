package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/store"
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
		rows, err := v.q.CredentialsOfOthers(ctx, sqlitedb.CredentialsOfOthersParams{
			ConnectionID: fromID(after.Connection), Version: int64(after.Version), KeyID: keyID, MaxRows: page(limit),
		})
		return store.Converted(rows, err, toSealedAt)
	})
}

// Reseal implements store.Store.
func (s *Store) Reseal(ctx context.Context, items []store.Reseal) ([]bool, error) {
	if len(items) > store.MaxBatch {
		return nil, fmt.Errorf("reseal: %w: %d items, at most %d", store.ErrIllegal, len(items), store.MaxBatch)
	}
	return write(ctx, s, "reseal", func(ctx context.Context, t *tx) ([]bool, error) {
		out := make([]bool, len(items))
		for i, item := range items {
			n, err := t.q.Reseal(ctx, resealParams(item))
			if err != nil {
				return nil, err
			}
			out[i] = n == 1
		}
		return out, nil
	})
}

// CreateAPIKey implements store.Store.
func (s *Store) CreateAPIKey(ctx context.Context, k store.NewAPIKey) (store.APIKey, error) {
	return write(ctx, s, "create API key", func(ctx context.Context, t *tx) (store.APIKey, error) {
		if err := t.view().counts(k.Project).APIKeys.OneMore(ctx, k.Most); err != nil {
			return store.APIKey{}, err
		}
		if k.NewProject {
			if err := t.q.InsertProject(ctx, sqlitedb.InsertProjectParams{ID: k.Project, Now: t.now}); err != nil {
				return store.APIKey{}, fmt.Errorf("project: %w", err)
			}
		}
		switch there, err := t.q.ProjectExists(ctx, k.Project); {
		case err != nil:
			return store.APIKey{}, err
		case there == 0:
			return store.APIKey{}, fmt.Errorf("project %s: %w", k.Project, store.ErrNotFound)
		}
		switch taken, err := t.q.NameTaken(ctx, sqlitedb.NameTakenParams{Project: k.Project, Name: k.Name, Now: someMicros(t.now)}); {
		case err != nil:
			return store.APIKey{}, err
		case taken != 0:
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
		return store.APIKey{}, orNotFound(err)
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
		rows, err := v.q.ListAPIKeys(ctx, sqlitedb.ListAPIKeysParams{After: after, Project: project, MaxRows: page(limit)})
		return store.Converted(rows, err, func(row sqlitedb.ApiKey) store.APIKey { return toAPIKey(row, v.now) })
	})
}

// RevokeAPIKey implements store.Store.
func (s *Store) RevokeAPIKey(ctx context.Context, id string) (store.APIKey, error) {
	return write(ctx, s, "revoke API key", func(ctx context.Context, t *tx) (store.APIKey, error) {
		if err := t.q.RevokeAPIKey(ctx, sqlitedb.RevokeAPIKeyParams{ID: id, Now: someMicros(t.now)}); err != nil {
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
