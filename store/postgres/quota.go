package postgres

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - project_use gets a row from each transaction that stores, removes or changes jobs, in
//     the statement that does so. No row is ever updated: transactions of one project
//     wait for nobody;
//   - many rows are replaced by their sum when somebody reads them;
//   - what is counted exactly is counted under a lock of the project and the kind, which is
//     the first lock that its transaction takes.

const (
	// mostParts is how many rows of project_use a reader leaves as they are.
	mostParts = 100
	// foldRows bounds the rows that one transaction replaces.
	foldRows = 10_000
)

// Kinds of things that are counted exactly: the first number of their advisory locks.
const (
	countedConnections = 0x66_6f_71_01 // "foq" and a number
	countedAPIKeys     = 0x66_6f_71_02
	countedLogins      = 0x66_6f_71_03
)

// StoredJobs implements store.Store.
func (s *Store) StoredJobs(ctx context.Context, project string) (store.StoredJobs, error) {
	row, err := readOne(ctx, s, "stored jobs", func(ctx context.Context, v view) (pgdb.StoredJobsRow, error) {
		return v.q.StoredJobs(ctx, project)
	})
	if err != nil {
		return store.StoredJobs{}, err
	}
	if row.Parts > mostParts {
		if err := s.foldUse(ctx, project); err != nil {
			return store.StoredJobs{}, err
		}
	}
	return store.StoredJobs{Jobs: row.Jobs, Bytes: row.Bytes}, nil
}

// foldUse replaces rows of project_use by their sum.
func (s *Store) foldUse(ctx context.Context, project string) error {
	_, err := write(ctx, s, "fold the use of a project", func(ctx context.Context, t *tx) (struct{}, error) {
		return struct{}{}, t.q.FoldUse(ctx, pgdb.FoldUseParams{Project: project, MaxRows: foldRows})
	})
	return err
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
	n, err := v.q.CountAPIKeys(ctx, pgdb.CountAPIKeysParams{Project: project, Now: v.now})
	if err != nil {
		return 0, fmt.Errorf("API keys: %w", err)
	}
	return n, nil
}

func (v view) loginsOf(ctx context.Context, project string) (int64, error) {
	n, err := v.q.CountLogins(ctx, pgdb.CountLoginsParams{Project: project, Now: v.now})
	if err != nil {
		return 0, fmt.Errorf("logins: %w", err)
	}
	return n, nil
}

// takeTurn has the transaction wait for those that add the same kind of thing to the
// project. Without a limit there is nothing to wait for.
func (t *tx) takeTurn(ctx context.Context, kind int32, project string, most int64) error {
	if most <= 0 {
		return nil
	}
	return named("turn", t.q.LockUse(ctx, pgdb.LockUseParams{Kind: kind, Project: project}))
}

// oneMore refuses what a project has as many of as it may. The transaction has its
// turn, and has not added anything yet.
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
