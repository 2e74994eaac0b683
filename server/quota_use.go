package server

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/clients/go/adminv1"
)

// quotaUse returns every quota of a project and how much of it is used.
func (s *Server) quotaUse(ctx context.Context, project string) ([]*adminv1.GetStatsResponse_QuotaUse, error) {
	stored, err := s.store.StoredJobs(ctx, project)
	if err != nil {
		return nil, fmt.Errorf("measure what the project stores: %w", err)
	}
	has, err := s.store.Holdings(ctx, project)
	if err != nil {
		return nil, fmt.Errorf("count what the project has: %w", err)
	}
	used := map[Quota]int64{
		QuotaJobs: stored.Jobs, QuotaBytes: stored.Bytes, QuotaConnections: has.Connections, QuotaAPIKeys: has.APIKeys,
		QuotaLogins: has.Logins, QuotaSchedules: has.Schedules, QuotaSubscriptions: has.Subscriptions, QuotaStreams: s.streams.of(project),
		QuotaCalls: s.auth.callsUsed(project, s.quotas.limit(project, QuotaCalls)),
	}
	var out []*adminv1.GetStatsResponse_QuotaUse
	for _, d := range quotaDefaults {
		if !d.name.ofPeer() {
			out = append(out, &adminv1.GetStatsResponse_QuotaUse{
				Name: string(d.name), Limit: s.quotas.limit(project, d.name), Used: used[d.name],
			})
		}
	}
	return out, nil
}
