package memory

import (
	"context"

	"github.com/fireonce/fireonce/store"
)

// StoredJobs implements store.Store.
func (s *Store) StoredJobs(ctx context.Context, project string) (store.StoredJobs, error) {
	return call(ctx, s, "stored jobs", func(t *tx) (store.StoredJobs, error) {
		var out store.StoredJobs
		for _, r := range t.all {
			if r.job.Project == project {
				out.Jobs++
				out.Bytes += int64(len(r.job.Payload))
				for _, a := range r.attempts {
					out.Bytes += int64(len(a.Answer.Encode()))
				}
			}
		}
		for _, c := range t.schedules {
			if c.Project != project {
				continue
			}
			for _, i := range c.items {
				out.Bytes += int64(len(i.Payload))
			}
		}
		return out, nil
	})
}

// Holdings implements store.Store.
func (s *Store) Holdings(ctx context.Context, project string) (store.Holdings, error) {
	return call(ctx, s, "holdings", func(t *tx) (store.Holdings, error) { return t.holdings(project), nil })
}

func (t *tx) holdings(project string) store.Holdings {
	var out store.Holdings
	for _, c := range t.connOrder {
		if c.Project == project && c.Deleted.IsZero() {
			out.Connections++
		}
	}
	for _, k := range t.apiKeys {
		if k.Project == project && t.apiKey(k).Live() {
			out.APIKeys++
		}
	}
	for _, l := range t.logins {
		if l.Project == project && l.Expires.After(t.now) {
			out.Logins++
		}
	}
	for _, c := range t.schedules {
		if c.Project == project && c.State != store.ScheduleDeleted {
			out.Schedules++
		}
	}
	for _, c := range t.subscriptions {
		if c.Project == project && c.State != store.SubscriptionDeleted && !c.Callbacks {
			out.Subscriptions++
		}
	}
	return out
}
