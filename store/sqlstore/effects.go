package sqlstore

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/rules"
)

// Owners implements store.Store.
func (r *Roles) Owners(ctx context.Context, id job.ID, attempt int, externalIDs []string) (map[string]job.ID, error) {
	if err := rules.Bounded(len(externalIDs)); err != nil {
		return nil, fmt.Errorf("owners: %w", err)
	}
	return readOne(ctx, r, "owners", func(ctx context.Context, v View) (map[string]job.ID, error) {
		s, err := v.Q.ObjectSpace(ctx, shareddb.ObjectSpaceParams{JobID: id, Attempt: int64(attempt)})
		if err != nil {
			return nil, orNotFound(err)
		}
		rows, err := v.Q.OwnedObjects(ctx, shareddb.OwnedObjectsParams{
			Account:   rules.Account(s.ConnectionID, s.HoldKey, s.Acted, s.AccountIdentity),
			Namespace: s.Connector, ExternalIds: externalIDs,
		})
		out := make(map[string]job.ID, len(rows))
		for _, r := range rows {
			if owner := rules.Another(rules.Owner{Job: r.JobID}, id, r.ExternalID); !owner.Job.IsZero() {
				out[r.ExternalID] = owner.Job
			}
		}
		return out, err
	})
}
