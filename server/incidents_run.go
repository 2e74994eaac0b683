package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - each job of a plan is judged alone, by what decides the call on one job (jobs_change.go), at
//     the version that the plan has, and written by compare-and-set;
//   - a page's changes come before the page is finished. If the server dies in between, or two
//     servers work on one page, a job is found changed: by this plan if the event behind its version
//     names it, and otherwise by something else;
//   - a plan acts for the key that started it, and for no longer than that one is good;
//   - any server goes on with a plan of which no page was finished for a while.

const (
	// planPatience is how long the call that starts a plan works on it itself.
	planPatience = 10 * time.Second
	// planEvery is how often a server looks for plans to go on with, and planIdle how long no page of
	// such a plan was finished.
	planEvery = 5 * time.Second
	planIdle  = 15 * time.Second
	// planBatch bounds the plans that one look takes on.
	planBatch = 10
)

// RunPlans goes on with plans that were started and that no server works on, until ctx ends.
func (s *Server) RunPlans(ctx context.Context) {
	ticks := time.NewTicker(planEvery)
	defer ticks.Stop()
	for {
		if err := s.resumePlans(ctx, planIdle); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "plans cannot go on", "cause", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// resumePlans goes on with plans of which no page was finished for a while.
func (s *Server) resumePlans(ctx context.Context, idle time.Duration) error {
	if meta, err := s.meta(ctx); err != nil || meta.Quarantined != "" {
		return err
	}
	plans, err := s.cfg.Store.RunningPlans(ctx, idle, planBatch)
	if err != nil {
		return fmt.Errorf("read running plans: %w", err)
	}
	jobs := &jobService{Server: s}
	for _, p := range plans {
		s.log.InfoContext(ctx, "a plan goes on", "plan_id", p.ID.String(), "project", p.Project, "changed", p.Changed, "planned", p.Planned)
		if _, err := jobs.advancePlan(ctx, p, time.Time{}); err != nil {
			return fmt.Errorf("plan %s: %w", p.ID, err)
		}
	}
	return nil
}

// advancePlan works on a plan, page by page, until it is done or, if until is not zero, that time has
// come. It returns the plan as it is then.
func (s *jobService) advancePlan(ctx context.Context, p store.Plan, until time.Time) (store.Plan, error) {
	run := planRun{jobs: s, plan: p, acts: true}
	for page := 0; page < p.Pages && p.State == store.PlanRunning; page++ {
		if !until.IsZero() && page > 0 && s.cfg.Now().After(until) {
			break
		}
		items, finished, err := s.store.PlanPage(ctx, p.ID, page)
		if err != nil {
			return p, fmt.Errorf("read a page of the plan: %w", err)
		}
		run.before = page * store.MaxBatch
		if finished {
			continue
		}
		if run.over, err = s.keyIsOver(ctx, p.StartedBy); err != nil {
			return p, err
		}
		if err := run.judge(ctx, items); err != nil {
			return p, err
		}
		if p, err = s.store.FinishPage(ctx, p.ID, page, items); err != nil {
			return p, fmt.Errorf("finish a page of the plan: %w", err)
		}
	}
	return p, nil
}

// planRun is work on a plan: the plan is made, or with acts carried out.
type planRun struct {
	jobs *jobService
	plan store.Plan
	acts bool
	// over: the key that started the plan is no longer good.
	over bool
	// before is the number of items before the page.
	before int
}

// plannedJob is a job of a plan as it is now.
type plannedJob struct {
	job.Snapshot
	item *store.PlanItem
	// place is the number of the job in the plan, from 0.
	place int
}

// judge judges the items of a page that are to be changed, as their jobs are now, and sets their
// outcomes. With acts it changes the jobs.
func (r *planRun) judge(ctx context.Context, items []store.PlanItem) error {
	jobs, err := r.read(ctx, items)
	if err != nil {
		return err
	}
	if !r.acts {
		for _, j := range jobs {
			if r.decide(ctx, j, &store.Change{}) {
				j.item.Outcome = store.PlanActs
			}
		}
		return nil
	}
	moved, err := store.Decide(ctx, r.jobs.store, jobs,
		func(j plannedJob, c *store.Change) (bool, error) { return r.decide(ctx, j, c), nil },
		func(j plannedJob, c *store.Change, a *store.Applied) error {
			switch a.Err {
			case nil:
				j.item.Outcome = store.PlanChanged
				r.jobs.cfg.Metrics.Ended(j.State, a.Snapshot)
			default:
				r.refuse(ctx, j, r.jobs.notWritten(ctx, store.Ref{Project: r.plan.Project, ID: j.ID}, j.Snapshot, c, a.Err))
			}
			return nil
		})
	if err != nil {
		return err
	}
	for _, j := range moved {
		if err := r.changedSince(ctx, j.item); err != nil {
			return err
		}
	}
	return nil
}

// read reads the jobs of items that are to be changed, and sets the outcomes of those that are gone or
// have changed.
func (r *planRun) read(ctx context.Context, items []store.PlanItem) ([]plannedJob, error) {
	at := make(map[job.ID]int, len(items))
	var ids []job.ID
	for i := range items {
		if items[i].Outcome == store.PlanActs {
			at[items[i].Job], ids = i, append(ids, items[i].Job)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	page, err := r.jobs.store.List(ctx, store.JobQuery{Project: r.plan.Project, Jobs: ids, Limit: maxPage})
	if err != nil {
		return nil, fmt.Errorf("read the jobs of a plan: %w", err)
	}
	found := make(map[job.ID]job.Snapshot, len(page.Jobs))
	for _, snap := range page.Jobs {
		found[snap.ID] = snap
	}
	var out []plannedJob
	for _, id := range ids {
		i := at[id]
		item := &items[i]
		switch snap, ok := found[id]; {
		case !ok:
			item.Outcome = store.PlanGone
		case snap.Version != item.Version:
			if err := r.changedSince(ctx, item); err != nil {
				return nil, err
			}
		default:
			out = append(out, plannedJob{snap, item, r.before + i})
		}
	}
	return out, nil
}

// decide judges a job. It reports whether the job is to be changed, and fills in the change.
func (r *planRun) decide(ctx context.Context, j plannedJob, c *store.Change) bool {
	if r.over {
		j.item.Outcome = store.PlanStopped
		return false
	}
	c.Actor = r.plan.StartedBy
	write, err := r.jobs.decide(ctx, jobChange{reason: r.plan.Note, ask: r.evidence(j)}, j.Snapshot, c)
	switch {
	case err != nil:
		r.refuse(ctx, j, err)
	case !write:
		j.item.Outcome = store.PlanStale // the result is in place already
	default:
		c.Decision.Detail = strings.TrimSuffix(r.signature()+"; "+c.Decision.Detail, "; ")
	}
	return write && err == nil
}

// evidence returns what the plan asks of a job.
func (r *planRun) evidence(j plannedJob) func(job.Snapshot) job.Evidence {
	if r.plan.Op == store.PlanResolve {
		return always(job.Resolved{Ruling: r.plan.Ruling, Actor: r.plan.StartedBy, Note: r.plan.Note, Override: r.plan.Override})
	}
	at := r.plan.Started.Add(time.Duration(j.place) * r.plan.Pace)
	if !r.acts || r.plan.Pace == 0 || !at.After(j.Now) {
		at = time.Time{} // now
	}
	return always(job.RetryAsked{At: at})
}

// refuse notes why a job is left out.
func (r *planRun) refuse(ctx context.Context, j plannedJob, err error) {
	j.item.Outcome = store.PlanRefused
	if f := new(fault); errors.As(inRequest(err, planItem(r.plan.Op)), &f) {
		j.item.Reason = uint32(f.reason)
		return
	}
	j.item.Reason = uint32(r.jobs.itemError(ctx, planItem(r.plan.Op), err).GetDetail().GetReason())
}

// signature begins the detail of each event that the plan writes, and of no other one.
func (r *planRun) signature() string { return "by plan " + r.plan.ID.String() }

// changedSince sets the outcome of an item whose job is at another version: the plan changed it, in a
// run whose page was not finished, or something else did.
func (r *planRun) changedSince(ctx context.Context, item *store.PlanItem) error {
	item.Outcome = store.PlanStale
	if !r.acts {
		return nil
	}
	page, err := r.jobs.store.Events(ctx, store.EventQuery{Project: r.plan.Project, Job: item.Job, After: item.Version, Limit: 1})
	if errors.Is(err, store.ErrNotFound) {
		item.Outcome = store.PlanGone
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the event of a job: %w", err)
	}
	for _, e := range page.Events {
		if e.Sequence == item.Version+1 && strings.HasPrefix(e.Detail, r.signature()) {
			item.Outcome = store.PlanChanged
		}
	}
	return nil
}
