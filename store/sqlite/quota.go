package sqlite

import (
	"context"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: project_use is changed in the transaction that changes the jobs, or the
// items of schedules. The changes of a group are added up and written once, before its
// commit: one row for each project, not one for each job.

const useOfProject = "use of the project"

// usage is the change of the projects' use by a group.
type usage struct {
	waiting map[string]store.StoredJobs
}

func newUsage() *usage { return &usage{waiting: make(map[string]store.StoredJobs)} }

// add records a change. In a transaction with savepoints, where an item may be rolled back alone, it
// writes the change immediately.
func (u *usage) add(ctx context.Context, t *tx, project string, jobs, bytes int64) error {
	if t.savepoints {
		return named(useOfProject, t.q.AddUse(ctx, sqlitedb.AddUseParams{Project: project, Jobs: jobs, Bytes: bytes}))
	}
	t.w.ses.dirty = true
	sum := u.waiting[project]
	u.waiting[project] = store.StoredJobs{Jobs: sum.Jobs + jobs, Bytes: sum.Bytes + bytes}
	return nil
}

// flush writes the recorded changes.
func (u *usage) flush(ctx context.Context, q *sqlitedb.Queries) error {
	for project, sum := range u.waiting {
		if err := q.AddUse(ctx, sqlitedb.AddUseParams{Project: project, Jobs: sum.Jobs, Bytes: sum.Bytes}); err != nil {
			return named(useOfProject, err)
		}
	}
	u.forget()
	return nil
}

// forget drops the recorded changes.
func (u *usage) forget() { clear(u.waiting) }
