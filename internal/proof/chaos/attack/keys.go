package attack

import (
	"context"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/apikey"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
)

// guess tries a key of the right form that does not exist.
func guess(ctx context.Context, _ *worker, at Listener) string {
	k, err := apikey.New()
	if err != nil {
		return err.Error()
	}
	return call(ctx, at, k.Reveal(), list)
}

func useRevoked(ctx context.Context, w *worker, at Listener) string {
	return call(ctx, at, w.keys.Revoked, list)
}

// exceedScope writes with a key that may only read.
func exceedScope(ctx context.Context, w *worker, at Listener) string {
	return call(ctx, at, w.keys.Read, func(ctx context.Context, api *fleet.API) error {
		_, err := api.Jobs.ScheduleJob(ctx, &fireoncev1.ScheduleJobRequest{IdempotencyKey: "not-allowed"})
		return err
	})
}

func list(ctx context.Context, api *fleet.API) error {
	_, err := api.Jobs.ListJobs(ctx, &fireoncev1.ListJobsRequest{PageSize: 500})
	return err
}
