package postgres

import (
	"context"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - each transaction that stores, removes or changes jobs or items of schedules adds a row
//     to project_use. No row is ever updated, so transactions of one project do not wait for
//     each other;
//   - a read replaces many rows by their sum;
//   - exact counts are made under a lock of the project and the kind, which is the first lock
//     that its transaction takes.

const (
	// mostParts is how many rows of project_use a reader leaves unfolded.
	mostParts = 100
	// foldRows bounds the rows that one transaction replaces.
	foldRows = 10_000
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
