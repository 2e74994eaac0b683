package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Fire implements store.Store.
func (s *Store) Fire(ctx context.Context, p store.FireParams) (fired []store.Fired, more bool, err error) {
	fired, err = call(ctx, s, "fire", func(t *tx) ([]store.Fired, error) {
		if err := t.refuseClosed(); err != nil {
			return nil, err
		}
		due, err := t.dueSchedules(p)
		if err != nil {
			return nil, err
		}
		more = p.Only.ID.IsZero() && len(due) == rules.Page(p.Limit)
		var out []store.Fired
		var budget store.FireBudget
		for _, c := range due {
			r := t.decide(c, p)
			if r.Left() {
				continue
			}
			if !budget.Take(r) {
				more = true
				break
			}
			out = append(out, t.fire(c, r, !p.Only.ID.IsZero()))
		}
		return out, nil
	})
	return fired, more && err == nil, err
}

// dueSchedules returns the schedules to decide about.
func (t *tx) dueSchedules(p store.FireParams) ([]*schedule, error) {
	if !p.Only.ID.IsZero() {
		c, ok := t.schedules[p.Only.ID]
		if !ok || c.Project != p.Only.Project {
			return nil, store.ErrNotFound
		}
		return []*schedule{c}, nil
	}
	var due []*schedule
	for _, c := range t.schedules {
		if at := c.DecisionTime(); !at.IsZero() && !at.After(t.now) && !slices.Contains(p.Except, c.ID) {
			due = append(due, c)
		}
	}
	slices.SortFunc(due, func(a, b *schedule) int {
		return cmp.Or(a.DecisionTime().Compare(b.DecisionTime()), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return due[:min(len(due), rules.Page(p.Limit))], nil
}

// decide calls Decide until a decision is final.
func (t *tx) decide(c *schedule, p store.FireParams) *store.FireRound {
	r := &store.FireRound{Due: store.DueSchedule{Schedule: c.Clone(), Now: t.now, HeldUntil: t.released}}
	r.Due.Open = t.openJobs(c.ID)
	for _, f := range slices.Backward(c.firings) {
		j, there := t.jobs[f.Job]
		if there && j.job.State.Terminal() && len(r.Due.Ended) < min(c.PauseAfterFailures, store.MaxEndedJobs) {
			r.Due.Ended = append(r.Due.Ended, store.EndedJob{ID: f.Job, State: j.job.State, Decided: f.Decided})
		}
	}
	if conn, ok := t.conns[c.Connection]; ok && conn.Project == c.Project {
		r.Due.Connection = t.public(conn)
	}
	if c.Queued {
		c.head(&r.Due)
	}
	for !r.Final() {
		r.Ask(p)
		for _, name := range r.Names() {
			if f, known := c.firing(name); known {
				r.AddKnown(f)
			}
		}
		for _, f := range r.Jobs() {
			if err := t.refusal(*f.Job); err != nil {
				r.AddRefused(f.Firing.Name, err)
			}
		}
	}
	return r
}

// openJobs returns DueSchedule.Open of a schedule.
func (t *tx) openJobs(schedule job.ID) (out []store.OpenJob) {
	var newest [2]store.OpenJob
	for _, r := range t.all {
		at := &newest[0]
		if r.job.State.Unresolved() {
			at = &newest[1]
		}
		if r.job.Schedule == schedule && !r.job.State.Terminal() && byID(r, at.ID) > 0 {
			*at = store.OpenJob{ID: r.job.ID, State: r.job.State}
		}
	}
	for _, o := range newest {
		if !o.ID.IsZero() {
			out = append(out, o)
		}
	}
	return out
}

// refusal returns why a job cannot be made.
func (t *tx) refusal(n store.NewJob) error {
	bound := key{n.Spec.Project, n.Spec.Key}
	if _, ok := t.keys[bound]; ok || t.removed(bound) != nil {
		return nil //nolint:nilerr // the job exists already: its firing names it
	}
	conn, ok := t.conns[n.Spec.Connection]
	if !ok || conn.Project != n.Spec.Project || !conn.Deleted.IsZero() {
		return fmt.Errorf("connection %s: %w", n.Spec.Connection, store.ErrNotFound)
	}
	if n.Spec.OwnEffectKey != "" && t.effectKeys[n.EffectKey] {
		return store.ErrEffectKeyTaken
	}
	return nil
}

// illegal returns why the tables of a database would refuse a job.
func (t *tx) illegal(jobs []store.FiringDecision) error {
	ids := make(map[job.ID]bool)
	for _, f := range jobs {
		n := *f.Job
		bound := key{n.Spec.Project, n.Spec.Key}
		if _, ok := t.keys[bound]; ok || t.removed(bound) != nil {
			continue
		}
		if _, err := t.newJob(n, t.conns[n.Spec.Connection].Class); err != nil {
			return err
		}
		if t.jobs[n.Spec.ID] != nil || ids[n.Spec.ID] {
			return fmt.Errorf("%w: the id %s is taken", store.ErrIllegal, n.Spec.ID)
		}
		ids[n.Spec.ID] = true
	}
	return nil
}

// fire writes a decision.
func (t *tx) fire(c *schedule, r *store.FireRound, only bool) store.Fired {
	jobs := r.Jobs()
	if r.Err == nil {
		r.Err = t.illegal(jobs)
	}
	if r.Err != nil {
		if !only && !c.Next.IsZero() {
			c.PostponedUntil = t.now.Add(store.BufferedLook)
			c.RefusedDecisions++
		}
		out, _ := r.Fired(nil)
		return out
	}
	made := make([]store.Created, len(jobs))
	for n, j := range jobs {
		var err error
		if made[n], err = t.create(*j.Job); err != nil {
			made[n] = store.Created{Err: err}
		}
	}
	out, _ := r.Fired(made)
	c.Schedule = out.Schedule.Clone()
	for _, e := range r.Items(out) {
		c.end(e, t.now)
	}
	for _, f := range out.Firings {
		if !f.Repeat {
			c.add(f.Firing)
		}
	}
	return out
}

// wakeSchedule makes a schedule due if its buffered firing may have waited for a change of a
// job.
func (t *tx) wakeSchedule(from, to job.State, id job.ID) {
	c, ok := t.schedules[id]
	if !ok || !store.MayRelease(from, to) || c.Buffered == nil || !c.Next.After(t.now) {
		return
	}
	c.Next = t.now
	t.hint[store.WatchSchedules] = true
}

// pruneFirings removes firings that were decided long ago.
func (t *tx) pruneFirings() (removed int) {
	before := t.now.Add(-store.FiringsKept)
	for _, c := range t.schedules {
		n := len(c.firings)
		c.firings = slices.DeleteFunc(c.firings, func(f numbered) bool { return f.Decided.Before(before) })
		if n -= len(c.firings); n > 0 {
			removed += n
			if c.LedgerBegin.Before(before) {
				c.LedgerBegin = before
			}
		}
	}
	return removed
}
