package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// plan is a stored plan with its pages.
type plan struct {
	store.Plan
	pages []planPage
}

type planPage struct {
	items    []store.PlanItem
	finished bool
}

// plansOf returns the plans of a project that the filter selects, the newest first.
func (t *tx) plansOf(selected func(*plan) bool) []*plan {
	var out []*plan
	for _, p := range t.plans {
		if selected(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *plan) int {
		return cmp.Or(b.Created.Compare(a.Created), bytes.Compare(b.ID[:], a.ID[:]))
	})
	return out
}

// CreatePlan implements store.Store.
func (s *Store) CreatePlan(ctx context.Context, p store.Plan, items []store.PlanItem) (store.Plan, error) {
	return call(ctx, s, "create plan", func(t *tx) (store.Plan, error) {
		if err := store.CheckPlan(p, items); err != nil {
			return store.Plan{}, err
		}
		dry := 0
		for _, o := range t.plansOf(func(o *plan) bool { return o.Project == p.Project }) {
			if o.State == store.PlanDry {
				dry++
			}
			old := o.State == store.PlanDry && (dry >= store.MostDryPlans || o.Created.Before(t.now.Add(-store.PlanKept)))
			if old || o.State == store.PlanDone && o.Ended.Before(t.now.Add(-store.DonePlanKept)) {
				delete(t.plans, o.ID)
			}
		}
		p.State, p.Created, p.Incarnation = store.PlanDry, t.now, t.meta.Incarnation
		p.Count(items)
		stored := &plan{Plan: p}
		for page := range slices.Chunk(items, store.MaxBatch) {
			stored.pages = append(stored.pages, planPage{items: slices.Clone(page)})
		}
		t.plans[p.ID] = stored
		return p, nil
	})
}

func (t *tx) planOf(project string, id job.ID) (*plan, error) {
	p, ok := t.plans[id]
	if !ok || p.Project != project {
		return nil, store.ErrNotFound
	}
	return p, nil
}

// Plan implements store.Store.
func (s *Store) Plan(ctx context.Context, project string, id job.ID) (store.Plan, error) {
	return call(ctx, s, "plan", func(t *tx) (store.Plan, error) {
		p, err := t.planOf(project, id)
		if err != nil {
			return store.Plan{}, err
		}
		return p.Plan, nil
	})
}

// ListPlans implements store.Store.
func (s *Store) ListPlans(ctx context.Context, project string, limit int) ([]store.Plan, error) {
	return call(ctx, s, "list plans", func(t *tx) ([]store.Plan, error) {
		return firstPlans(t.plansOf(func(p *plan) bool { return p.Project == project }), limit), nil
	})
}

func firstPlans(plans []*plan, limit int) []store.Plan {
	var out []store.Plan
	for _, p := range plans[:min(len(plans), rules.Page(limit))] {
		out = append(out, p.Plan)
	}
	return out
}

// PlanPage implements store.Store.
func (s *Store) PlanPage(ctx context.Context, id job.ID, page int) (items []store.PlanItem, finished bool, err error) {
	out, err := call(ctx, s, "page of a plan", func(t *tx) (planPage, error) {
		p, ok := t.plans[id]
		if !ok || page < 0 || page >= len(p.pages) {
			return planPage{}, store.ErrNotFound
		}
		return p.pages[page], nil
	})
	return slices.Clone(out.items), out.finished, err
}

// StartPlan implements store.Store.
func (s *Store) StartPlan(ctx context.Context, project string, id job.ID, actor string) (store.Plan, error) {
	return call(ctx, s, "start plan", func(t *tx) (store.Plan, error) {
		if err := t.refuseQuarantined(); err != nil {
			return store.Plan{}, err
		}
		p, err := t.planOf(project, id)
		if err != nil {
			return store.Plan{}, err
		}
		if _, err := p.Start(actor, t.meta.Incarnation, t.now); err != nil {
			return store.Plan{}, err
		}
		return p.Plan, nil
	})
}

// FinishPage implements store.Store.
func (s *Store) FinishPage(ctx context.Context, id job.ID, page int, items []store.PlanItem) (store.Plan, error) {
	return call(ctx, s, "finish page of a plan", func(t *tx) (store.Plan, error) {
		p, ok := t.plans[id]
		switch {
		case !ok:
			return store.Plan{}, store.ErrNotFound
		case p.State == store.PlanDry:
			return store.Plan{}, fmt.Errorf("%w: the plan was not started", store.ErrIllegal)
		case page < 0 || page >= len(p.pages):
			return store.Plan{}, store.ErrNotFound
		case p.pages[page].finished:
			return p.Plan, nil
		}
		changed, leftOut, err := store.Finished(p.pages[page].items, items)
		if err != nil {
			return store.Plan{}, err
		}
		p.pages[page] = planPage{items: slices.Clone(items), finished: true}
		open := slices.ContainsFunc(p.pages, func(g planPage) bool { return !g.finished })
		p.Finish(changed, leftOut, !open, t.now)
		return p.Plan, nil
	})
}

// RunningPlans implements store.Store.
func (s *Store) RunningPlans(ctx context.Context, idle time.Duration, limit int) ([]store.Plan, error) {
	return call(ctx, s, "running plans", func(t *tx) ([]store.Plan, error) {
		list := t.plansOf(func(p *plan) bool {
			return p.State == store.PlanRunning && p.Incarnation == t.meta.Incarnation && !p.Advanced.After(t.now.Add(-idle))
		})
		slices.SortFunc(list, func(a, b *plan) int {
			return cmp.Or(a.Advanced.Compare(b.Advanced), bytes.Compare(a.ID[:], b.ID[:]))
		})
		return firstPlans(list, limit), nil
	})
}
