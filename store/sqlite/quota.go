package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/gen/litedb"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: project_use is changed in the transaction that changes the jobs.
// The changes of a group are added up and written once, before its commit: one row for
// each project, not one for each job.

// usage is what a group changes of the projects' use.
type usage struct {
	waiting map[string]store.StoredJobs
}

func newUsage() *usage { return &usage{waiting: make(map[string]store.StoredJobs)} }

// add takes a change. In a careful transaction, where an item may be rolled back alone,
// it is written immediately.
func (u *usage) add(ctx context.Context, t *tx, project string, jobs, bytes int64) error {
	if t.careful {
		return useAdded(t.q.AddUse(ctx, litedb.AddUseParams{Project: project, Jobs: jobs, Bytes: bytes}))
	}
	t.w.ses.dirty = true
	sum := u.waiting[project]
	u.waiting[project] = store.StoredJobs{Jobs: sum.Jobs + jobs, Bytes: sum.Bytes + bytes}
	return nil
}

// flush writes what waits.
func (u *usage) flush(ctx context.Context, q *litedb.Queries) error {
	for project, sum := range u.waiting {
		if err := useAdded(q.AddUse(ctx, litedb.AddUseParams{Project: project, Jobs: sum.Jobs, Bytes: sum.Bytes})); err != nil {
			return err
		}
	}
	u.forget()
	return nil
}

// forget drops what waits.
func (u *usage) forget() { clear(u.waiting) }

func useAdded(err error) error {
	if err != nil {
		return fmt.Errorf("use of the project: %w", err)
	}
	return nil
}

// StoredJobs implements store.Store.
func (s *Store) StoredJobs(ctx context.Context, project string) (store.StoredJobs, error) {
	return read(ctx, s, "stored jobs", func(ctx context.Context, v view) (store.StoredJobs, error) {
		row, err := v.q.StoredJobs(ctx, project)
		if errors.Is(err, sql.ErrNoRows) {
			return store.StoredJobs{}, nil
		}
		return store.StoredJobs(row), err
	})
}

// Holdings implements store.Store.
func (s *Store) Holdings(ctx context.Context, project string) (store.Holdings, error) {
	return read(ctx, s, "holdings", func(ctx context.Context, v view) (out store.Holdings, err error) {
		if out.Connections, err = v.q.CountConnections(ctx, project); err != nil {
			return out, fmt.Errorf("connections: %w", err)
		}
		if out.APIKeys, err = v.apiKeysOf(ctx, project); err != nil {
			return out, err
		}
		out.Logins, err = v.loginsOf(ctx, project)
		return out, err
	})
}

func (v view) apiKeysOf(ctx context.Context, project string) (int64, error) {
	n, err := v.q.CountAPIKeys(ctx, litedb.CountAPIKeysParams{Project: project, Now: someMicros(v.now)})
	if err != nil {
		return 0, fmt.Errorf("API keys: %w", err)
	}
	return n, nil
}

func (v view) loginsOf(ctx context.Context, project string) (int64, error) {
	n, err := v.q.CountLogins(ctx, litedb.CountLoginsParams{Project: project, Now: v.now})
	if err != nil {
		return 0, fmt.Errorf("logins: %w", err)
	}
	return n, nil
}

// oneMore refuses what a project has as many of as it may. The only writer counts, so
// the count is the one of the commit.
func oneMore(ctx context.Context, most int64, count func(context.Context) (int64, error)) error {
	if most <= 0 {
		return nil
	}
	used, err := count(ctx)
	if err != nil {
		return err
	}
	return store.OneMore(used, most)
}
