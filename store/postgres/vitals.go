package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Vitals implements store.Store.
func (s *Store) Vitals(ctx context.Context) (store.Vitals, error) {
	return read(ctx, s, "vitals", func(ctx context.Context, v view) (store.Vitals, error) {
		m := vitals{view: v}
		out := store.Vitals{Now: v.now}
		for _, fill := range []func(context.Context, *store.Vitals) error{m.due, m.underWay, m.unknown, m.holds, m.firings} {
			if err := fill(ctx, &out); err != nil {
				return store.Vitals{}, err
			}
		}
		return out, nil
	})
}

type vitals struct{ view }

// age returns how long ago a moment was; the epoch is no moment.
func (m vitals) age(at time.Time) time.Duration { return measure{view: m.view}.age(at) }

func (m vitals) due(ctx context.Context, out *store.Vitals) (err error) {
	if out.Waiting, err = m.q.VitalWaiting(ctx, store.VitalsWaiting); err != nil {
		return err
	}
	out.Due, err = m.q.VitalDue(ctx, pgdb.VitalDueParams{Now: &m.now, MaxRows: store.VitalsRows, Most: store.VitalsCounted})
	if err != nil || out.Due == 0 {
		return err
	}
	oldest, err := m.q.VitalOldestDue(ctx, pgdb.VitalOldestDueParams{Now: &m.now, MaxRows: store.VitalsRows})
	out.OldestDue = m.age(oldest)
	return err
}

func (m vitals) underWay(ctx context.Context, out *store.Vitals) (err error) {
	if out.InFlight, err = m.q.VitalInFlight(ctx, store.VitalsCounted); err != nil {
		return err
	}
	out.Accepted, err = m.q.VitalAccepted(ctx, store.VitalsCounted)
	return err
}

func (m vitals) unknown(ctx context.Context, out *store.Vitals) error {
	for state, to := range map[job.State]*int64{job.Ambiguous: &out.Ambiguous, job.NeedsResolution: &out.NeedsResolution} {
		u, err := m.q.VitalUnknown(ctx, pgdb.VitalUnknownParams{State: int16(state), Most: store.VitalsCounted})
		if err != nil {
			return err
		}
		*to, out.OldestUnknown = u.Jobs, max(out.OldestUnknown, m.age(u.Since))
	}
	return nil
}

func (m vitals) holds(ctx context.Context, out *store.Vitals) error {
	var held []store.Held
	add := func(id pgtype.UUID, connector string, cause store.HoldCause) {
		held = append(held, store.Held{HeldBy: store.HeldBy{Connector: connector, Cause: cause}, Connection: toID(id)})
	}
	refused, err := m.q.VitalRefused(ctx, store.VitalsCounted)
	if err != nil {
		return err
	}
	for _, r := range refused {
		add(r.ConnectionID, r.Connector, store.HoldAuth)
	}
	limited, err := m.q.VitalLimited(ctx, store.VitalsCounted)
	if err != nil {
		return err
	}
	for _, r := range limited {
		if r.RateLimitedUntil.After(m.now) {
			add(r.ConnectionID, r.Connector, store.HoldRateLimit)
		}
	}
	paused, err := m.q.VitalPaused(ctx, store.VitalsCounted)
	for _, r := range paused {
		add(r.ConnectionID, r.Connector, store.HoldPaused)
	}
	out.Holds = store.CountHolds(held)
	return err
}

func (m vitals) firings(ctx context.Context, out *store.Vitals) error {
	at, err := m.q.VitalFiring(ctx)
	if err != nil {
		return err
	}
	out.OldestFiring = m.age(at)
	out.RefusedSchedules, err = m.q.VitalRefusedSchedules(ctx, store.VitalsCounted)
	return err
}

// Saturation returns how many connections of the pool are in use, and how many there may be.
func (s *Store) Saturation() (busy, limit int) {
	stat := s.pool.Stat()
	return int(stat.AcquiredConns()), int(stat.MaxConns())
}
