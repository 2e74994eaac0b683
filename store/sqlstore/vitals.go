package sqlstore

import (
	"context"

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
		return store.Vitals{
			Now: v.Now, Waiting: m.Waiting, Due: m.Due, OldestDue: v.age(m.OldestDue), InFlight: m.InFlight,
			Accepted: m.Accepted, Ambiguous: m.Ambiguous, NeedsResolution: m.NeedsResolution,
			OldestUnknown: v.age(m.OldestUnknown), Holds: store.CountHolds(held), OldestFiring: v.age(m.OldestFiring),
			RefusedSchedules: m.RefusedSchedules,
		}, err
	})
}
