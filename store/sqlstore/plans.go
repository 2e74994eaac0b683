package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: it locks the row of one plan, and nothing else.

// CreatePlan implements store.Store.
func (r *Roles) CreatePlan(ctx context.Context, p store.Plan, items []store.PlanItem) (store.Plan, error) {
	if err := store.CheckPlan(p, items); err != nil {
		return store.Plan{}, named("create plan", err)
	}
	return write(ctx, r, "create plan", func(ctx context.Context, t Tx) (store.Plan, error) {
		log, err := t.LogEnd(ctx)
		if err != nil {
			return store.Plan{}, err
		}
		if err := t.Q.DropPlans(ctx, shareddb.DropPlansParams{
			Project: p.Project, DryBefore: t.Now.Add(-store.PlanKept), DoneBefore: t.Now.Add(-store.DonePlanKept), MostDry: store.MostDryPlans - 1,
		}); err != nil {
			return store.Plan{}, named("old plans", err)
		}
		p := p
		p.State, p.Created, p.Incarnation = store.PlanDry, t.Now, log.Incarnation
		p.Count(items)
		if err := t.Q.InsertPlan(ctx, shareddb.InsertPlanParams{
			ID: p.ID, Project: p.Project, Op: int16(p.Op), Ruling: p.Ruling, Override: p.Override, Pace: p.Pace.Microseconds(),
			Incident: p.Incident, Note: p.Note, CreatedBy: p.CreatedBy, Pages: int64(p.Pages), Jobs: int64(p.Jobs),
			Planned: int64(p.Planned), Incarnation: p.Incarnation, Cut: p.Cut, CreatedAt: p.Created,
		}); err != nil {
			return store.Plan{}, err
		}
		pages := make([]shareddb.InsertPlanPageParams, p.Pages)
		for i := range pages {
			of := items[i*store.MaxBatch : min((i+1)*store.MaxBatch, len(items))]
			pages[i] = shareddb.InsertPlanPageParams{PlanID: p.ID, Number: int64(i), Items: store.EncodePlanItems(of)}
		}
		return p, named("pages", inBatch(t.Q.InsertPlanPage(ctx, pages).Exec))
	})
}

// Plan implements store.Store.
func (r *Roles) Plan(ctx context.Context, project string, id job.ID) (store.Plan, error) {
	return readOne(ctx, r, "plan", func(ctx context.Context, v View) (store.Plan, error) {
		row, err := v.Q.GetPlan(ctx, id)
		return ownPlan(row, project, err)
	})
}

// ListPlans implements store.Store.
func (r *Roles) ListPlans(ctx context.Context, project string, limit int) ([]store.Plan, error) {
	return readOne(ctx, r, "list plans", func(ctx context.Context, v View) ([]store.Plan, error) {
		rows, err := v.Q.ListPlans(ctx, shareddb.ListPlansParams{Project: project, MaxRows: r.most(limit)})
		return store.Converted(rows, err, toPlan)
	})
}

// PlanPage implements store.Store.
func (r *Roles) PlanPage(ctx context.Context, id job.ID, page int) (items []store.PlanItem, finished bool, err error) {
	type read struct {
		items    []store.PlanItem
		finished bool
	}
	out, err := readOne(ctx, r, "page of a plan", func(ctx context.Context, v View) (read, error) {
		items, finished, err := v.planPage(ctx, id, page)
		return read{items, finished}, err
	})
	return out.items, out.finished, err
}

func (v View) planPage(ctx context.Context, id job.ID, page int) (items []store.PlanItem, finished bool, err error) {
	row, err := v.Q.GetPlanPage(ctx, shareddb.GetPlanPageParams{PlanID: id, Number: int64(page)})
	if err != nil {
		return nil, false, orNotFound(err)
	}
	items, err = store.DecodePlanItems(row.Items)
	return items, row.Finished, err
}

// StartPlan implements store.Store.
func (r *Roles) StartPlan(ctx context.Context, project string, id job.ID, actor string) (store.Plan, error) {
	return write(ctx, r, "start plan", func(ctx context.Context, t Tx) (store.Plan, error) {
		if err := t.RefuseQuarantined(ctx); err != nil {
			return store.Plan{}, err
		}
		row, err := t.Q.LockPlan(ctx, id)
		p, err := ownPlan(row, project, err)
		if err != nil {
			return store.Plan{}, err
		}
		log, err := t.LogEnd(ctx)
		if err != nil {
			return store.Plan{}, err
		}
		if write, err := p.Start(actor, log.Incarnation, t.Now); !write {
			return p, err
		}
		if err := t.Q.StartPlan(ctx, shareddb.StartPlanParams{Actor: actor, Now: t.Now, ID: id}); err != nil {
			return store.Plan{}, err
		}
		if p.State == store.PlanDone {
			err = t.Q.EndPlan(ctx, shareddb.EndPlanParams{Now: t.Now, ID: id})
		}
		return p, err
	})
}

// FinishPage implements store.Store.
func (r *Roles) FinishPage(ctx context.Context, id job.ID, page int, items []store.PlanItem) (store.Plan, error) {
	return write(ctx, r, "finish page of a plan", func(ctx context.Context, t Tx) (store.Plan, error) {
		row, err := t.Q.LockPlan(ctx, id)
		if err != nil {
			return store.Plan{}, orNotFound(err)
		}
		p := toPlan(row)
		if p.State == store.PlanDry {
			return store.Plan{}, fmt.Errorf("%w: the plan was not started", store.ErrIllegal)
		}
		before, finished, err := t.planPage(ctx, id, page)
		if err != nil || finished {
			return p, err
		}
		changed, leftOut, err := store.Finished(before, items)
		if err != nil {
			return store.Plan{}, err
		}
		if err := t.Q.FinishPlanPage(ctx, shareddb.FinishPlanPageParams{PlanID: id, Number: int64(page), Items: store.EncodePlanItems(items)}); err != nil {
			return store.Plan{}, named("page", err)
		}
		left, err := t.Q.UnfinishedPages(ctx, id)
		if err != nil {
			return store.Plan{}, named("pages", err)
		}
		p.Finish(changed, leftOut, left == 0, t.Now)
		err = t.Q.AdvancePlan(ctx, shareddb.AdvancePlanParams{Changed: int64(changed), LeftOut: int64(leftOut), Now: t.Now, ID: id})
		if err == nil && p.State == store.PlanDone {
			err = t.Q.EndPlan(ctx, shareddb.EndPlanParams{Now: t.Now, ID: id})
		}
		return p, err
	})
}

// RunningPlans implements store.Store.
func (r *Roles) RunningPlans(ctx context.Context, idle time.Duration, limit int) ([]store.Plan, error) {
	return read(ctx, r, "running plans", func(ctx context.Context, v View) ([]store.Plan, error) {
		log, err := v.LogEnd(ctx)
		if err != nil {
			return nil, err
		}
		rows, err := v.Q.RunningPlans(ctx, shareddb.RunningPlansParams{
			Incarnation: log.Incarnation, Before: v.Now.Add(-idle), MaxRows: r.most(limit),
		})
		return store.Converted(rows, err, toPlan)
	})
}

// ownPlan returns a plan of the project.
func ownPlan(row shareddb.Plan, project string, err error) (store.Plan, error) {
	if err == nil && row.Project != project {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Plan{}, orNotFound(err)
	}
	return toPlan(row), nil
}

func toPlan(r shareddb.Plan) store.Plan {
	return store.Plan{
		ID: r.ID, Project: r.Project, Op: store.PlanOp(r.Op), Ruling: r.Ruling, Override: r.Override,
		Pace: time.Duration(r.Pace) * time.Microsecond, Incident: r.Incident, Note: r.Note, CreatedBy: r.CreatedBy, StartedBy: r.StartedBy,
		State: store.PlanState(r.State), Pages: int(r.Pages), Jobs: int(r.Jobs), Planned: int(r.Planned), Changed: int(r.Changed),
		LeftOut: int(r.LeftOut), Incarnation: r.Incarnation, Cut: r.Cut, Created: r.CreatedAt, Started: r.StartedAt,
		Advanced: r.AdvancedAt, Ended: r.EndedAt,
	}
}
