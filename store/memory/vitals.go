package memory

import (
	"context"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Vitals implements store.Store. The counts here never come near the bounds.
func (s *Store) Vitals(ctx context.Context) (store.Vitals, error) {
	return call(ctx, s, "vitals", func(t *tx) (store.Vitals, error) {
		out := store.Vitals{Now: t.now}
		queues := t.queues()
		for _, q := range queues {
			if at, ok := t.runnableAt(q); !ok || at.After(t.now) {
				continue
			}
			for _, r := range q.jobs {
				if !r.job.NextAt.After(t.now) {
					out.Due++
					out.OldestDue = max(out.OldestDue, t.now.Sub(r.job.NextAt))
				}
			}
		}
		for _, r := range t.all {
			switch j := &r.job; j.State {
			case job.Scheduled, job.Retrying:
				out.Waiting++
			case job.Claimed, job.Sending:
				out.InFlight++
			case job.Accepted:
				out.Accepted++
			default:
			}
			t.unknowns(r, &out)
		}
		out.Holds = t.holds()
		for _, c := range t.schedules {
			if !c.Next.IsZero() && c.Next.Before(t.now) {
				out.OldestFiring = max(out.OldestFiring, t.now.Sub(c.Next))
			}
			if c.RefusedDecisions > 1 && !c.PostponedUntil.IsZero() {
				out.RefusedSchedules++
			}
		}
		return out, nil
	})
}

// unknowns counts a job whose outcome is unknown, unless it is a notice, which needs no person.
func (t *tx) unknowns(r *record, out *store.Vitals) {
	if r.job.IsNotice() {
		return
	}
	switch r.job.State {
	case job.Ambiguous:
		out.Ambiguous++
	case job.NeedsResolution:
		out.NeedsResolution++
	default:
	}
	out.OldestUnknown = max(out.OldestUnknown, t.unknownFor(r))
}

// holds counts connections by the causes of their holds.
func (t *tx) holds() map[store.HeldBy]int64 {
	var held []store.Held
	add := func(c *connection, cause store.HoldCause) {
		if c.Deleted.IsZero() {
			held = append(held, store.Held{HeldBy: store.HeldBy{Connector: c.Connector, Cause: cause}, Connection: c.ID})
		}
	}
	for k, r := range t.rows {
		if !r.authHoldAt.IsZero() {
			add(t.conns[k.conn], store.HoldAuth)
		}
		if r.rateLimitedUntil.After(t.now) {
			add(t.conns[k.conn], store.HoldRateLimit)
		}
	}
	for _, c := range t.conns {
		if !c.PausedAt.IsZero() {
			add(c, store.HoldPaused)
		}
	}
	return store.CountHolds(held)
}
