package postgres

import (
	"context"

	"github.com/fireonce/fireonce/internal/job"
)

// fill reads the parts of jobs that their locked rows do not have.
func (t *tx) fill(ctx context.Context, ids []job.ID, got func(job.ID, job.Snapshot)) error {
	snaps, err := t.shared().SnapshotsByID(ctx, distinct(ids), false)
	if err != nil {
		return err
	}
	for id, s := range snaps {
		got(id, s)
	}
	return nil
}
