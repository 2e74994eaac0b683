package server

import (
	"context"

	"github.com/fireonce/fireonce/store"
)

// Store is what the server needs of a store.Store: all but the work on jobs, the loops
// that clean and count, and what is the operator's.
type Store interface {
	store.Jobs
	store.EventLog
	store.Statistics
	store.Notifier
	store.Schedules
	store.ScheduleItems
	store.Subscriptions
	store.DueSchedules // for Config.Scheduler, where none is given
	store.Connections
	store.Stops
	store.Sealing
	store.Logins
	store.APIKeys
	store.Quotas
	store.Erasure
	store.Incidents
	store.Plans
	Meta(ctx context.Context) (store.Meta, error)
	Servers(ctx context.Context) ([]store.Server, error)
}

// Creator stores jobs that are submitted; see store.Jobs.
type Creator interface {
	Create(ctx context.Context, items []store.NewJob) ([]store.Created, error)
}
