package postgres

import (
	"context"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - each transaction that stores, removes or changes jobs or items of schedules adds a row
//     to project_use, in the statement that does so. No row is ever updated, so transactions
//     of one project do not wait for each other;
//   - a read replaces many rows by their sum;
//   - exact counts are made under a lock of the project and the kind, which is the first lock
//     that its transaction takes.

const (
	// mostParts is how many rows of project_use a reader leaves unfolded.
	mostParts = 100
	// foldRows bounds the rows that one transaction replaces.
	foldRows = 10_000
)

// Kinds that are counted exactly: the first number of their advisory locks.
const (
	countedConnections = 0x66_6f_71_01 // "foq" and a number
	countedAPIKeys     = 0x66_6f_71_02
	countedLogins      = 0x66_6f_71_03
	countedSchedules   = 0x66_6f_71_04
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
	return writeOnly(ctx, s, "fold the use of a project", func(ctx context.Context, t *tx) error {
		return t.q.FoldUse(ctx, pgdb.FoldUseParams{Project: project, MaxRows: foldRows})
	})
}

// Holdings implements store.Store.
func (s *Store) Holdings(ctx context.Context, project string) (store.Holdings, error) {
	return read(ctx, s, "holdings", func(ctx context.Context, v view) (store.Holdings, error) {
		return v.counts(project).Holdings(ctx)
	})
}

// counts returns the counts of a project. In a transaction that holds the kind's lock, a
// count stays valid until the commit.
func (v view) counts(project string) store.Counts {
	return store.Counts{
		Connections: func(ctx context.Context) (int64, error) { return v.q.CountConnections(ctx, project) },
		APIKeys: func(ctx context.Context) (int64, error) {
			return v.q.CountAPIKeys(ctx, pgdb.CountAPIKeysParams{Project: project, Now: v.now})
		},
		Logins: func(ctx context.Context) (int64, error) {
			return v.q.CountLogins(ctx, pgdb.CountLoginsParams{Project: project, Now: v.now})
		},
		Schedules: func(ctx context.Context) (int64, error) { return v.q.CountSchedules(ctx, project) },
	}
}

// lockCount waits until no other transaction adds an object of the kind to the project, and
// delays others until this one ends. Without a limit it does nothing.
func (t *tx) lockCount(ctx context.Context, kind int32, project string, most int64) error {
	if most <= 0 {
		return nil
	}
	return named("count lock", t.q.LockUse(ctx, pgdb.LockUseParams{Kind: kind, Project: project}))
}
