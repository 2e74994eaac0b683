package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Troubles implements store.Store.
func (s *Store) Troubles(ctx context.Context, q store.TroubleQuery) (store.TroublePage, error) {
	return call(ctx, s, "troubles", func(t *tx) (store.TroublePage, error) {
		out := store.TroublePage{Now: t.now}
		for _, state := range troubleStates(q.Kind) {
			var walk []*record
			for _, r := range t.all {
				if r.job.Project == q.Project && r.job.State == state && (t.walks(q, r) && q.Job.IsZero() || r.job.ID == q.Job) {
					walk = append(walk, r)
				}
			}
			slices.SortFunc(walk, func(a, b *record) int {
				if q.Kind == store.TroubleFailed {
					return cmp.Or(b.job.Ended.Compare(a.job.Ended), bytes.Compare(b.job.ID[:], a.job.ID[:]))
				}
				return cmp.Or(a.job.ScheduleTime.Compare(b.job.ScheduleTime), bytes.Compare(a.job.ID[:], b.job.ID[:]))
			})
			out.More = out.More || len(walk) >= q.Walked()
			for _, r := range walk[:min(len(walk), q.Walked())] {
				if q.Kind == store.TroubleWaiting && (!r.job.WaitsFor.IsZero() || r.job.NextAt.After(t.now)) {
					continue
				}
				f := t.facts(r, q.Kind)
				out.Jobs = append(out.Jobs, f.Of(q.Kind, t.now))
			}
		}
		if troubleStates(q.Kind) == nil {
			return out, fmt.Errorf("%w: trouble of kind %d", store.ErrIllegal, q.Kind)
		}
		return out, nil
	})
}

func troubleStates(kind store.TroubleKind) []job.State {
	switch kind {
	case store.TroubleUnknown:
		return []job.State{job.NeedsResolution, job.Ambiguous}
	case store.TroubleFailed:
		return []job.State{job.Failed, job.Expired}
	case store.TroubleWaiting:
		return []job.State{job.Scheduled, job.Retrying}
	default:
		return nil
	}
}

// walks reports whether a walk meets a job in one of its states.
func (t *tx) walks(q store.TroubleQuery, r *record) bool {
	switch q.Kind {
	case store.TroubleFailed:
		return !r.job.Ended.Before(q.From())
	case store.TroubleWaiting:
		return !r.job.ScheduleTime.After(t.now)
	default:
		return true
	}
}

// facts returns what is stored of a job in trouble.
func (t *tx) facts(r *record, kind store.TroubleKind) store.TroubleFacts {
	j := &r.job
	f := store.TroubleFacts{Updated: j.Updated, Ended: j.Ended, Trouble: store.Trouble{
		Job: j.ID, Version: j.Version, State: j.State, Connection: j.Connection, HoldKey: j.HoldKey, Class: j.Class, Looks: j.Looks,
		NextAt: j.NextAt,
	}}
	if j.LastError != nil {
		f.Last = store.TroubleCause{Kind: j.LastError.Kind, HTTPStatus: j.LastError.HTTPStatus}
	}
	if j.Resolution != nil {
		f.Ruling, f.RuledAt = j.Resolution.Ruling, j.Resolution.At
	}
	row, c := t.row(runnableKey{j.Connection, j.HoldKey}), t.conns[j.Connection]
	f.Paused, f.AuthAt, f.Cause, f.LimitedUntil = c.PausedAt, row.authHoldAt, row.authHoldCause, row.rateLimitedUntil
	t.attemptFacts(r, kind, &f)
	for _, o := range r.looks {
		f.SeenLast, f.SeenAt = o.Verdict, o.EndedAt
		if o.Attempt > 0 && o.Attempt >= cmp.Or(f.FirstNumber, f.Newest) {
			f.Seen |= 1 << o.Verdict
		}
	}
	return f
}

func (t *tx) attemptFacts(r *record, kind store.TroubleKind, f *store.TroubleFacts) {
	n := len(r.attempts)
	if n == 0 {
		return
	}
	newest := r.attempts[n-1]
	f.Newest, f.NewestResult, f.NewestArmed, f.Fence = newest.Number, newest.Result, newest.ArmedAt, newest.Fence
	f.NewestCause = store.TroubleCause{Kind: newest.Kind, HTTPStatus: newest.HTTPStatus}
	for _, a := range r.attempts[:n-1] {
		same := a.Round == newest.Round
		if same && f.Earlier == 0 {
			f.EarlierArmed = a.ArmedAt
		}
		if same {
			f.Earlier++
		}
		if kind == store.TroubleFailed || kind == store.TroubleUnknown && same {
			f.Results |= 1 << a.Result
		}
		first := kind == store.TroubleFailed || kind == store.TroubleUnknown && (a.Result.Open() || a.Result == job.ResultAccepted)
		if same && first && f.FirstNumber == 0 {
			f.FirstNumber, f.FirstCause = a.Number, store.TroubleCause{Kind: a.Kind, HTTPStatus: a.HTTPStatus}
		}
	}
}

// Unproven implements store.Store.
func (s *Store) Unproven(ctx context.Context, q store.TroubleQuery) (store.TroublePage, error) {
	return call(ctx, s, "unproven", func(t *tx) (store.TroublePage, error) {
		out := store.TroublePage{Now: t.now}
		var walk []*record
		for _, r := range t.all {
			e := r.effect
			if e != nil && (e.Proof == job.ProofOperator || e.Proof == job.ProofAssumed) && !e.At.Before(q.From()) {
				walk = append(walk, r)
			}
		}
		slices.SortFunc(walk, func(a, b *record) int {
			return cmp.Or(b.effect.At.Compare(a.effect.At), bytes.Compare(b.job.ID[:], a.job.ID[:]))
		})
		out.More = len(walk) >= q.Walked()
		for _, r := range walk[:min(len(walk), q.Walked())] {
			if j := &r.job; j.Project == q.Project && j.State == job.Succeeded {
				out.Jobs = append(out.Jobs, store.Trouble{
					Job: j.ID, Version: j.Version, State: j.State, Connection: j.Connection, HoldKey: j.HoldKey, Class: j.Class,
					Since: r.effect.At, Proof: r.effect.Proof,
				})
			}
		}
		return out, nil
	})
}
