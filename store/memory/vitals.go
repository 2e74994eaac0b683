package memory

import (
	"context"
	"slices"

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
		t.countConnections(&out)
		t.countSchedules(&out)
		t.countSubscriptions(&out)
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
		out.OldestQuestion = max(out.OldestQuestion, t.now.Sub(r.job.Updated))
	default:
	}
	out.OldestUnknown = max(out.OldestUnknown, t.unknownFor(r))
}

func (t *tx) countConnections(out *store.Vitals) {
	out.Connections, out.Expiring = make(map[string]int64), make(map[string]int64)
	for _, c := range t.conns {
		if !c.Deleted.IsZero() {
			continue
		}
		out.Connections[c.Connector]++
		if !c.CredentialRenews && c.CredentialExpires.After(t.now) && c.CredentialExpires.Before(t.now.Add(store.VitalsSoon)) {
			out.Expiring[c.Connector]++
		}
	}
}

func (t *tx) countSchedules(out *store.Vitals) {
	out.PausedSchedules = make(map[store.PauseCause]int64)
	for _, c := range t.schedules {
		if !c.Next.IsZero() && c.Next.Before(t.now) {
			out.OldestFiring = max(out.OldestFiring, t.now.Sub(c.Next))
		}
		switch {
		case c.State == store.SchedulePaused && c.PauseCause != store.PausedByPerson:
			out.PausedSchedules[c.PauseCause]++
			out.Schedules++
		case c.State == store.ScheduleActive, c.State == store.SchedulePaused:
			out.Schedules++
		}
		if c.RefusedDecisions > 1 && !c.PostponedUntil.IsZero() {
			out.RefusedSchedules++
		}
	}
}

func (t *tx) countSubscriptions(out *store.Vitals) {
	for _, c := range t.subscriptions {
		switch {
		case c.State == store.SubscriptionDeleted:
			continue
		case c.State == store.SubscriptionActive && c.Failed != 0:
			out.FailingSubscriptions++
		case c.PauseCause == store.SubscriptionPausedByFailures:
			out.PausedSubscriptions++
		}
		out.Subscriptions++
		if c.State != store.SubscriptionActive || c.Open != 0 {
			continue
		}
		if !c.Next.IsZero() {
			out.OldestNotice = max(out.OldestNotice, t.now.Sub(c.Next))
		}
		if c.Failed != 0 || c.OnlyThen && !(c.Callbacks && c.LastError != "") {
			continue
		}
		behind := t.log[min(c.Position, int64(len(t.log))):]
		if i := slices.IndexFunc(behind, func(e job.Event) bool { return e.Project == c.Project }); i >= 0 {
			out.OldestNotice = max(out.OldestNotice, t.now.Sub(behind[i].At))
		}
	}
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
	for i := range t.stops {
		if b := &t.stops[i]; b.Breaker() && b.InForce(t.now) {
			if c := t.conns[b.Connection]; c != nil {
				add(c, store.HoldBreaker)
			}
		}
	}
	return store.CountHolds(held)
}
