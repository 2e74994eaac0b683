package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Claim implements store.Store. Like every engine it walks the due runnable rows, those that
// wait longest first, and serves each an equal share. The rest goes to rows that have more
// jobs.
func (s *Store) Claim(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	return call(ctx, s, "claim", func(t *tx) ([]store.Leased, error) {
		if err := t.refuseClosed(); err != nil {
			return nil, err
		}
		var out []store.Leased
		queues, room := t.queues(), p.Room.Clone()
		for left := rules.Page(p.Limit); left > 0; left = rules.Page(p.Limit) - len(out) {
			due := t.due(queues, room)
			if len(due) == 0 {
				break
			}
			part := int(rules.Share(int64(left), int64(len(due))))
			for _, q := range due {
				out = append(out, t.serve(q, min(part, rules.Page(p.Limit)-len(out)), p, room)...)
			}
		}
		return out, nil
	})
}

// due returns the queues that a claim takes jobs of, in their order.
func (t *tx) due(queues []*queue, room *store.Room) []*queue {
	type timed struct {
		*queue
		at time.Time
	}
	var list []timed
	for _, q := range queues {
		at, ok := t.runnableAt(q)
		if ok && !at.After(t.now) && room.Left(q.conn.Project, q.conn.ID, 1) > 0 && slices.ContainsFunc(q.jobs, t.claimable) {
			list = append(list, timed{q, at})
		}
	}
	slices.SortStableFunc(list, func(a, b timed) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.turn, b.turn))
	})
	out := make([]*queue, len(list))
	for i, q := range list {
		out[i] = q.queue
	}
	return out
}

// claimable reports whether the times of a queue's job let it be claimed now.
func (t *tx) claimable(r *record) bool {
	switch {
	case r.job.NextAt.After(t.now):
		return false
	case !r.job.StartDeadline.After(t.now):
		return false
	default:
		return true
	}
}

// serve claims up to n jobs of a queue.
func (t *tx) serve(q *queue, n int, p store.ClaimParams, room *store.Room) []store.Leased {
	n = int(room.Left(q.conn.Project, q.conn.ID, min(int64(min(n, t.capacity(q.conn))), q.most)))
	if n <= 0 || q.stoppedUntil.After(t.now) {
		return nil
	}
	if q.stops.Probed(t.now) {
		q.stoppedUntil = q.stops.SetAside(t.now, true)
	}
	var out []store.Leased
	var rest []*record
	for _, r := range q.jobs {
		if len(out) == n || !t.claimable(r) {
			rest = append(rest, r)
			continue
		}
		out = append(out, t.claim(r, p))
	}
	q.jobs = rest
	room.Take(q.conn.Project, q.conn.ID, int64(len(out)))
	t.turn++
	q.servedAt, q.turn = t.now, t.turn
	q.conn.bucketAt = rules.Take(q.conn.bucket(), t.now.UnixMicro(), int64(len(out))).At
	return out
}

// claim leases one job.
func (t *tx) claim(r *record, p store.ClaimParams) store.Leased {
	next := rules.Claimed(r.job, &p, t.opts.NewID(), t.now)
	from := r.job.State
	r.claimedAt = t.now
	t.put(r, next)
	t.event(r, job.Event{From: from, Cause: job.CauseClaimed, Actor: p.Worker})
	l := t.leased(r)
	l.Armed = t.intended(l, p)
	return l
}

// intended arms a job with its claim, if that is wanted and every guard of an arm holds.
// Otherwise it only leases the job.
func (t *tx) intended(l store.Leased, p store.ClaimParams) *store.Armed {
	if p.Intent == nil {
		return nil
	}
	a := p.Intent(l)
	if a == nil || !a.Intended(l) {
		return nil
	}
	out, err := t.arm(*a)
	if err != nil {
		return nil
	}
	return &out
}

// leased adds what preparing a job needs beyond its own record.
func (t *tx) leased(r *record) store.Leased {
	l := store.Leased{
		Snapshot: r.snapshot(t.now), Connection: t.public(t.conns[r.job.Connection]), Stopped: t.stopOver(&r.job.Spec),
	}
	if other := t.jobs[r.job.ReplyTo]; other != nil && other.effect != nil {
		l.ReplyTo = other.effect.ExternalID
	}
	return l
}
