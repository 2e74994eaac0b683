package postgres

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
)

// Snapshots implements sqlstore.Reading.
func (v view) Snapshots(ctx context.Context, ids []job.ID, payload bool) ([]job.Snapshot, error) {
	all, err := v.snapshots(ctx, ids, payload)
	if err != nil {
		return nil, err
	}
	var out []job.Snapshot
	for _, id := range ids {
		if s, ok := all[id]; ok {
			out = append(out, s)
		}
	}
	return out, nil
}

// snapshots reads whole jobs in one statement, with or without their payloads. Missing jobs
// are left out.
func (v view) snapshots(ctx context.Context, ids []job.ID, payload bool) (map[job.ID]job.Snapshot, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := v.q.Snapshots(ctx, pgdb.SnapshotsParams{WithPayload: payload, Ids: ids})
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	out := make(map[job.ID]job.Snapshot, len(rows))
	for _, r := range rows {
		s, err := toSnapshot(r, v.at(r.Now))
		if err != nil {
			return nil, err
		}
		out[s.ID] = s
	}
	return out, nil
}

// fill reads the parts of jobs that their locked rows do not have.
func (t *tx) fill(ctx context.Context, ids []job.ID, got func(job.ID, job.Snapshot)) error {
	snaps, err := t.view().snapshots(ctx, distinct(ids), false)
	if err != nil {
		return err
	}
	for id, s := range snaps {
		got(id, s)
	}
	return nil
}
