package sqlstore

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/store"
)

// Vitals implements store.Store.
func (r *Roles) Vitals(ctx context.Context) (store.Vitals, error) {
	return read(ctx, r, "vitals", func(ctx context.Context, v View) (store.Vitals, error) {
		m, err := v.Q.Vitals(ctx, shareddb.VitalsParams{
			Now: v.Now, MostWaiting: store.VitalsWaiting, MaxRows: store.VitalsRows, Most: store.VitalsCounted,
		})
		if err != nil {
			return store.Vitals{}, err
		}
		rows, err := v.Q.Held(ctx, shareddb.HeldParams{Now: v.Now, Most: store.VitalsCounted})
		held, err := store.Converted(rows, err, func(r shareddb.HeldRow) store.Held {
			return store.Held{HeldBy: store.HeldBy{Connector: r.Connector, Cause: store.HoldCause(r.Cause)}, Connection: r.ConnectionID}
		})
		if err != nil {
			return store.Vitals{}, err
		}
		out := store.Vitals{
			Now: v.Now, Waiting: m.Waiting, Due: m.Due, OldestDue: v.age(m.OldestDue), InFlight: m.InFlight,
			Accepted: m.Accepted, Ambiguous: m.Ambiguous, NeedsResolution: m.NeedsResolution,
			OldestUnknown: v.age(m.OldestUnknown), Holds: store.CountHolds(held), OldestFiring: v.age(m.OldestFiring),
			RefusedSchedules: m.RefusedSchedules, OldestQuestion: v.age(m.OldestQuestion), Schedules: m.Schedules,
			PausedSchedules: make(map[store.PauseCause]int64), Connections: make(map[string]int64), Expiring: make(map[string]int64),
		}
		return out, v.groups(ctx, &out)
	})
}

// groups counts what Vitals has by groups.
func (v View) groups(ctx context.Context, out *store.Vitals) error {
	paused, err := v.Q.PausedSchedules(ctx, store.VitalsCounted)
	if err != nil {
		return fmt.Errorf("paused schedules: %w", err)
	}
	for _, r := range paused {
		out.PausedSchedules[r.PauseCause] = r.N
	}
	s, err := v.Q.SubscriptionVitals(ctx, shareddb.SubscriptionVitalsParams{MostWaiting: store.VitalsWaiting, Most: store.VitalsCounted, Now: v.Now})
	if err != nil {
		return fmt.Errorf("subscriptions: %w", err)
	}
	out.Subscriptions, out.FailingSubscriptions, out.PausedSubscriptions = s.Subscriptions, s.Failing, s.Paused
	out.OldestNotice = v.age(s.OldestDue)
	connections, err := v.Q.ConnectionCounts(ctx, shareddb.ConnectionCountsParams{MostWaiting: store.VitalsWaiting, Most: store.VitalsCounted})
	if err != nil {
		return fmt.Errorf("connections: %w", err)
	}
	for _, r := range connections {
		out.Connections[r.Connector] = r.N
	}
	expiring, err := v.Q.ExpiringCredentials(ctx, shareddb.ExpiringCredentialsParams{
		Now: v.Now, Soon: v.Now.Add(store.VitalsSoon), Most: store.VitalsCounted,
	})
	if err != nil {
		return fmt.Errorf("credentials that expire: %w", err)
	}
	for _, r := range expiring {
		out.Expiring[r.Connector] = r.N
	}
	return nil
}
