package sqlstore

import (
	"context"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/store"
)

// CountedKind is a kind of objects that is counted exactly. The number is that of
// PostgreSQL's advisory locks of the kind: "foq" and a number.
type CountedKind int32

// The kinds.
const (
	CountedConnections   CountedKind = 0x66_6f_71_01
	CountedAPIKeys       CountedKind = 0x66_6f_71_02
	CountedLogins        CountedKind = 0x66_6f_71_03
	CountedSchedules     CountedKind = 0x66_6f_71_04
	CountedSubscriptions CountedKind = 0x66_6f_71_05
	CountedStops         CountedKind = 0x66_6f_71_06
)

// mostParts is how many rows of project_use a reader leaves unfolded.
const mostParts = 100

// StoredJobs implements store.Store.
func (r *Roles) StoredJobs(ctx context.Context, project string) (store.StoredJobs, error) {
	row, err := readOne(ctx, r, "stored jobs", func(ctx context.Context, v View) (shareddb.StoredJobsRow, error) {
		return v.Q.StoredJobs(ctx, project)
	})
	if err == nil && row.Parts > mostParts {
		err = writeOnly(ctx, r, "fold the use of a project", func(ctx context.Context, t Tx) error { return t.FoldUse(ctx, project) })
	}
	return store.StoredJobs{Jobs: row.Jobs, Bytes: row.Bytes}, err
}

// Holdings implements store.Store.
func (r *Roles) Holdings(ctx context.Context, project string) (store.Holdings, error) {
	return read(ctx, r, "holdings", func(ctx context.Context, v View) (store.Holdings, error) {
		return v.Counts(project).Holdings(ctx)
	})
}

// Counts returns the counts of a project. In a transaction that has LockCount's lock of a
// kind, its count stays valid until the commit.
func (v View) Counts(project string) store.Counts {
	return store.Counts{
		Connections: func(ctx context.Context) (int64, error) { return v.Q.CountConnections(ctx, project) },
		APIKeys: func(ctx context.Context) (int64, error) {
			return v.Q.CountAPIKeys(ctx, shareddb.CountAPIKeysParams{Project: project, Now: v.Now})
		},
		Logins: func(ctx context.Context) (int64, error) {
			return v.Q.CountLogins(ctx, shareddb.CountLoginsParams{Project: project, Now: v.Now})
		},
		Schedules:     func(ctx context.Context) (int64, error) { return v.Q.CountSchedules(ctx, project) },
		Subscriptions: func(ctx context.Context) (int64, error) { return v.Q.CountSubscriptions(ctx, project) },
	}
}

// oneMore refuses an object of a kind for which the project has no room. Without a limit
// (most is 0) it takes no lock.
func (t Tx) oneMore(ctx context.Context, kind CountedKind, project string, count store.Count, most int64) error {
	if most > 0 {
		if err := t.LockCount(ctx, kind, project); err != nil {
			return err
		}
	}
	return count.OneMore(ctx, most)
}
