package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// KeyUse implements store.Store.
func (r *Roles) KeyUse(ctx context.Context) ([]store.KeyUse, error) {
	return read(ctx, r, "key use", func(ctx context.Context, v View) ([]store.KeyUse, error) {
		rows, err := v.Q.KeyUse(ctx)
		if err != nil {
			return nil, err
		}
		logins, err := v.Q.LoginKeyUse(ctx, v.Now)
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

// CredentialKeys implements store.Store.
func (r *Roles) CredentialKeys(ctx context.Context) ([]string, error) {
	return readOne(ctx, r, "credential keys", func(ctx context.Context, v View) ([]string, error) {
		keys, err := v.Q.CredentialKeys(ctx)
		slices.Sort(keys) // PostgreSQL has an order of its own for texts
		return keys, err
	})
}

// CredentialsOfOthers implements store.Store.
func (r *Roles) CredentialsOfOthers(ctx context.Context, keyID string, after store.SealedPlace, limit int) ([]store.SealedAt, error) {
	return read(ctx, r, "credentials of other keys", func(ctx context.Context, v View) ([]store.SealedAt, error) {
		rows, err := v.Q.CredentialsOfOthers(ctx, shareddb.CredentialsOfOthersParams{
			ConnectionID: after.Connection, Version: int64(after.Version), KeyID: keyID, MaxRows: int32(rules.Page(limit)),
		})
		return store.Converted(rows, err, func(row shareddb.CredentialsOfOthersRow) store.SealedAt {
			return store.SealedAt{
				SealedPlace: store.SealedPlace{Connection: row.ConnectionID, Version: int(row.Version)},
				For:         sealedFor(row.Project, row.Connector, row.Settings, row.AccountIdentity),
				KeyID:       row.KeyID, Data: bytesOf(row.Data),
			}
		})
	})
}

func sealedFor(project, connector string, settings []byte, identity string) store.SealedFor {
	return store.SealedFor{Project: project, Connector: connector, Settings: bytesOf(settings), AccountIdentity: identity}
}

// Reseal implements store.Store. It locks the credentials in their order, whatever the order
// of the items is.
func (r *Roles) Reseal(ctx context.Context, items []store.Reseal) ([]bool, error) {
	if len(items) > store.MaxBatch {
		return nil, fmt.Errorf("reseal: %w: %d items, at most %d", store.ErrIllegal, len(items), store.MaxBatch)
	}
	return write(ctx, r, "reseal", func(ctx context.Context, t Tx) ([]bool, error) {
		out := make([]bool, len(items))
		for _, i := range inOrder(items) {
			item := items[i]
			n, err := t.Q.Reseal(ctx, shareddb.ResealParams{
				NewKeyID: item.KeyID, NewData: filled(item.Data), ConnectionID: item.Old.Connection,
				Version: int64(item.Old.Version), KeyID: item.Old.KeyID, Data: filled(item.Old.Data),
			})
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
	out := make([]int, len(items))
	for i := range out {
		out[i] = i
	}
	slices.SortStableFunc(out, func(x, y int) int {
		a, b := items[x].Old, items[y].Old
		return cmp.Or(bytes.Compare(a.Connection[:], b.Connection[:]), cmp.Compare(a.Version, b.Version))
	})
	return out
}

// CreateAPIKey implements store.Store.
func (r *Roles) CreateAPIKey(ctx context.Context, k store.NewAPIKey) (store.APIKey, error) {
	return write(ctx, r, "create API key", func(ctx context.Context, t Tx) (store.APIKey, error) {
		if err := t.oneMore(ctx, CountedAPIKeys, k.Project, t.Counts(k.Project).APIKeys, k.Most); err != nil {
			return store.APIKey{}, err
		}
		if k.NewProject {
			if err := t.Q.InsertProject(ctx, shareddb.InsertProjectParams{ID: k.Project, Now: t.Now}); err != nil {
				return store.APIKey{}, fmt.Errorf("project: %w", err)
			}
		}
		// Of concurrent calls one has the project's row at a time, so the next one sees its name.
		if err := t.LockProject(ctx, k.Project); err != nil {
			return store.APIKey{}, err
		}
		switch taken, err := t.Q.NameTaken(ctx, shareddb.NameTakenParams{Project: k.Project, Name: k.Name, Now: t.Now}); {
		case err != nil:
			return store.APIKey{}, err
		case taken:
			return store.APIKey{}, fmt.Errorf("name %q: %w", k.Name, store.ErrNameTaken)
		}
		p := shareddb.InsertAPIKeyParams{
			ID: k.ID, Project: k.Project, Name: k.Name, Hash: filled(k.Hash), Scopes: strings.Join(k.Scopes, " "), Now: t.Now,
		}
		if k.Lifetime > 0 {
			p.ExpiresAt = job.Micros(t.Now.Add(k.Lifetime))
		}
		if err := t.Q.InsertAPIKey(ctx, p); err != nil {
			return store.APIKey{}, err
		}
		return t.apiKey(ctx, k.ID)
	})
}

// LockProject keeps the project's row, so that no key of it is created meanwhile.
// store.ErrNotFound: there is none.
func (t Tx) LockProject(ctx context.Context, project string) error {
	_, err := t.Q.LockProject(ctx, project)
	return named("project "+project, orNotFound(err))
}

func (v View) apiKey(ctx context.Context, id string) (store.APIKey, error) {
	row, err := v.Q.GetAPIKey(ctx, id)
	if err != nil {
		return store.APIKey{}, orNotFound(err)
	}
	return v.toAPIKey(row), nil
}

func (v View) toAPIKey(k shareddb.ApiKey) store.APIKey {
	return store.APIKey{
		ID: k.ID, Project: k.Project, Name: k.Name, Hash: bytesOf(k.Hash), Scopes: strings.Fields(k.Scopes),
		Created: k.CreatedAt, Expires: k.ExpiresAt, LastUsed: k.LastUsedAt, Revoked: k.RevokedAt, Now: v.Now,
	}
}

// APIKey implements store.Store.
func (r *Roles) APIKey(ctx context.Context, id string) (store.APIKey, error) {
	return read(ctx, r, "API key", func(ctx context.Context, v View) (store.APIKey, error) { return v.apiKey(ctx, id) })
}

// ListAPIKeys implements store.Store.
func (r *Roles) ListAPIKeys(ctx context.Context, project, after string, limit int) ([]store.APIKey, error) {
	return read(ctx, r, "list API keys", func(ctx context.Context, v View) ([]store.APIKey, error) {
		rows, err := v.Q.ListAPIKeys(ctx, shareddb.ListAPIKeysParams{After: after, Project: project, MaxRows: int32(rules.Page(limit))})
		return store.Converted(rows, err, v.toAPIKey)
	})
}

// RevokeAPIKey implements store.Store.
func (r *Roles) RevokeAPIKey(ctx context.Context, id string) (store.APIKey, error) {
	return write(ctx, r, "revoke API key", func(ctx context.Context, t Tx) (store.APIKey, error) {
		if err := t.Q.RevokeAPIKey(ctx, shareddb.RevokeAPIKeyParams{ID: id, Now: t.Now}); err != nil {
			return store.APIKey{}, err
		}
		return t.apiKey(ctx, id)
	})
}

// Projects implements store.Store.
func (r *Roles) Projects(ctx context.Context, after string, limit int) ([]store.Project, error) {
	return read(ctx, r, "projects", func(ctx context.Context, v View) ([]store.Project, error) {
		rows, err := v.Q.Projects(ctx, shareddb.ProjectsParams{After: after, MaxRows: int32(rules.Page(limit))})
		return store.Converted(rows, err, func(p shareddb.ProjectsRow) store.Project {
			return store.Project{ID: p.ID, Created: p.CreatedAt, Erased: p.ErasedAt, ErasedBy: p.ErasedBy}
		})
	})
}

// TouchAPIKey implements store.Store.
func (r *Roles) TouchAPIKey(ctx context.Context, id string, gap time.Duration) (bool, error) {
	return write(ctx, r, "touch API key", func(ctx context.Context, t Tx) (bool, error) {
		n, err := t.Q.TouchAPIKey(ctx, shareddb.TouchAPIKeyParams{ID: id, Now: t.Now, Before: t.Now.Add(-gap)})
		return n == 1, err
	})
}
