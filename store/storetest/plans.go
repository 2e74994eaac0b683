package storetest

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var planTests = []test{
	{"a plan is stored with its pages", planStored},
	{"a start", planStart},
	{"a page is finished once", planFinish},
	{"plans that run", planRunning},
	{"a restore ends plans", planRestored},
	{"old plans are removed", planOld},
	{"bounds", planBounds},
}

func planItems(f *fixture, n int, outcome store.PlanOutcome) []store.PlanItem {
	out := make([]store.PlanItem, n)
	for i := range out {
		out[i] = store.PlanItem{Job: f.id(), Version: int64(i) + 7, Outcome: outcome}
	}
	return out
}

func (f *fixture) plan(items []store.PlanItem, edit ...func(*store.Plan)) store.Plan {
	f.Helper()
	p := store.Plan{
		ID: f.id(), Project: project, Op: store.PlanResolve, Ruling: job.RuleNotSent, Override: true, Incident: "inc", Note: "why",
		CreatedBy: "ann", Cut: true,
	}
	for _, e := range edit {
		e(&p)
	}
	out, err := f.s.CreatePlan(f.ctx, p, items)
	f.ok(err)
	return out
}

func (f *fixture) readPlan(p store.Plan) store.Plan {
	f.Helper()
	out, err := f.s.Plan(f.ctx, p.Project, p.ID)
	f.ok(err)
	return out
}

func (f *fixture) startPlan(p store.Plan) store.Plan {
	f.Helper()
	out, err := f.s.StartPlan(f.ctx, p.Project, p.ID, "bob")
	f.ok(err)
	return out
}

// finish finishes a page: its jobs are changed.
func (f *fixture) finish(p store.Plan, page int) store.Plan {
	f.Helper()
	items, _, err := f.s.PlanPage(f.ctx, p.ID, page)
	f.ok(err)
	for i := range items {
		if items[i].Outcome == store.PlanActs {
			items[i].Outcome = store.PlanChanged
		}
	}
	out, err := f.s.FinishPage(f.ctx, p.ID, page, items)
	f.ok(err)
	return out
}

func (f *fixture) running(idle time.Duration) []job.ID {
	f.Helper()
	plans, err := f.s.RunningPlans(f.ctx, idle, 10)
	f.ok(err)
	var out []job.ID
	for _, p := range plans {
		out = append(out, p.ID)
	}
	return out
}

func planStored(f *fixture) {
	items := append(planItems(f, store.MaxBatch, store.PlanActs), planItems(f, 2, store.PlanCandidates)...)
	items[store.MaxBatch].Outcome, items[store.MaxBatch].Reason = store.PlanRefused, 500
	p := f.plan(items)
	f.is(f.readPlan(p), p, "plan")
	f.is([]any{p.State, p.Pages, p.Jobs, p.Planned, p.Created}, []any{store.PlanDry, 2, store.MaxBatch + 2, store.MaxBatch, start.UTC()}, "plan")
	for page, want := range [][]store.PlanItem{items[:store.MaxBatch], items[store.MaxBatch:]} {
		got, finished, err := f.s.PlanPage(f.ctx, p.ID, page)
		f.ok(err)
		f.is(got, want, "page %d", page)
		f.is(finished, false, "finished")
	}
	_, _, err := f.s.PlanPage(f.ctx, p.ID, 2)
	f.fails(err, store.ErrNotFound)
	_, err = f.s.Plan(f.ctx, "other", p.ID)
	f.fails(err, store.ErrNotFound)
	f.clock.advance(time.Second)
	retry := f.plan(nil, func(p *store.Plan) { p.Op, p.Ruling, p.Pace = store.PlanRetry, 0, 250*time.Millisecond })
	f.is(f.readPlan(retry), retry, "a plan of retries")
	list, err := f.s.ListPlans(f.ctx, project, 10)
	f.ok(err)
	f.is(list, []store.Plan{retry, p}, "plans")
	list, err = f.s.ListPlans(f.ctx, project, 1)
	f.ok(err)
	f.is(len(list), 1, "plans, one at most")
}

func planStart(f *fixture) {
	p := f.plan(planItems(f, 1, store.PlanActs))
	f.clock.advance(time.Minute)
	started := f.startPlan(p)
	f.is([]any{started.State, started.StartedBy, started.Started}, []any{store.PlanRunning, "bob", f.clock.now().UTC()}, "started")
	f.clock.advance(2 * store.PlanKept)
	again, err := f.s.StartPlan(f.ctx, project, p.ID, "carl")
	f.ok(err)
	f.is(again, started, "a second start")
	f.is(f.readPlan(p), started, "stored")
	_, err = f.s.StartPlan(f.ctx, "other", p.ID, "bob")
	f.fails(err, store.ErrNotFound)
	empty := f.startPlan(f.plan(nil))
	f.is([]any{empty.State, empty.Ended, f.readPlan(empty)}, []any{store.PlanDone, f.clock.now().UTC(), empty}, "a plan without jobs")
	late := f.plan(planItems(f, 1, store.PlanActs))
	f.clock.advance(store.PlanKept + time.Microsecond)
	_, err = f.s.StartPlan(f.ctx, project, late.ID, "bob")
	f.fails(err, store.ErrPlanOver)
	fresh := f.plan(nil)
	f.ok(f.s.Quarantine(f.ctx, reason))
	_, err = f.s.StartPlan(f.ctx, project, fresh.ID, "bob")
	f.fails(err, store.ErrQuarantined)
}

func planFinish(f *fixture) {
	items := append(planItems(f, store.MaxBatch, store.PlanActs), planItems(f, 1, store.PlanActs)...)
	items = append(items, planItems(f, 1, store.PlanContrary)...)
	p := f.plan(items)
	changed := append([]store.PlanItem(nil), items[store.MaxBatch:]...)
	changed[0].Outcome = store.PlanStale
	_, err := f.s.FinishPage(f.ctx, p.ID, 1, changed)
	f.fails(err, store.ErrIllegal) // it was not started
	f.startPlan(p)
	f.clock.advance(time.Second)
	p, err = f.s.FinishPage(f.ctx, p.ID, 1, changed)
	f.ok(err)
	f.is([]any{p.State, p.Changed, p.LeftOut, p.Advanced}, []any{store.PlanRunning, 0, 1, f.clock.now().UTC()}, "after a page")
	f.clock.advance(time.Second)
	f.is(f.finish(p, 1), p, "the page a second time")
	got, finished, err := f.s.PlanPage(f.ctx, p.ID, 1)
	f.ok(err)
	f.is([]any{got, finished}, []any{changed, true}, "the finished page")
	for _, wrong := range [][]store.PlanItem{
		items[:3], items[:store.MaxBatch], append([]store.PlanItem{{Job: f.id(), Outcome: store.PlanChanged}}, items[1:store.MaxBatch]...),
	} {
		_, err = f.s.FinishPage(f.ctx, p.ID, 0, wrong)
		f.fails(err, store.ErrIllegal)
	}
	p = f.finish(p, 0)
	f.is([]any{p.State, p.Changed, p.LeftOut, p.Ended}, []any{store.PlanDone, store.MaxBatch, 1, f.clock.now().UTC()}, "after the last page")
	f.is(f.readPlan(p), p, "stored")
	_, err = f.s.FinishPage(f.ctx, f.id(), 0, nil)
	f.fails(err, store.ErrNotFound)
}

func planRunning(f *fixture) {
	first := f.startPlan(f.plan(planItems(f, store.MaxBatch+1, store.PlanActs)))
	f.plan(planItems(f, 1, store.PlanActs)) // it was not started
	f.clock.advance(time.Second)
	second := f.startPlan(f.plan(planItems(f, 1, store.PlanActs), func(p *store.Plan) { p.Project = "other" }))
	f.is(f.running(0), []job.ID{first.ID, second.ID}, "running")
	f.is(f.running(time.Second), []job.ID{first.ID}, "running and idle")
	f.finish(first, 0)
	f.is(len(f.running(time.Second)), 0, "running and idle, after a page")
	f.finish(first, 1)
	f.is(f.running(0), []job.ID{second.ID}, "running, after the end of one")
}

func planRestored(f *fixture) {
	running, dry := f.startPlan(f.plan(planItems(f, 1, store.PlanActs))), f.plan(planItems(f, 1, store.PlanActs))
	f.restore()
	f.is(len(f.running(0)), 0, "running after a restore")
	for _, p := range []store.Plan{running, dry} {
		_, err := f.s.StartPlan(f.ctx, project, p.ID, "bob")
		f.fails(err, store.ErrPlanOver)
	}
	next := f.startPlan(f.plan(planItems(f, 1, store.PlanActs)))
	f.is(f.running(0), []job.ID{next.ID}, "running, made after the restore")
}

func planOld(f *fixture) {
	done := f.startPlan(f.plan(nil))
	running := f.startPlan(f.plan(planItems(f, 1, store.PlanActs)))
	var dry []store.Plan
	for range store.MostDryPlans + 1 {
		f.clock.advance(time.Second)
		dry = append(dry, f.plan(planItems(f, 1, store.PlanActs)))
	}
	has := func(p store.Plan) bool {
		_, err := f.s.Plan(f.ctx, project, p.ID)
		return err == nil
	}
	f.is([]bool{has(dry[0]), has(dry[1]), has(done), has(running)}, []bool{false, true, true, true}, "kept")
	_, _, err := f.s.PlanPage(f.ctx, dry[0].ID, 0)
	f.fails(err, store.ErrNotFound)
	f.clock.advance(store.DonePlanKept + time.Second)
	f.plan(nil)
	f.is([]bool{has(dry[1]), has(done), has(running)}, []bool{false, false, true}, "kept later")
}

func planBounds(f *fixture) {
	_, err := f.s.CreatePlan(f.ctx, store.Plan{ID: f.id(), Project: project, Op: store.PlanRetry}, make([]store.PlanItem, store.MostPlanJobs+1))
	f.fails(err, store.ErrIllegal)
	_, err = f.s.CreatePlan(f.ctx, store.Plan{ID: f.id(), Project: project, Op: store.PlanRetry, Ruling: job.RuleSent}, nil)
	f.fails(err, store.ErrIllegal)
	_, err = f.s.CreatePlan(f.ctx, store.Plan{ID: f.id(), Project: project, Op: store.PlanResolve}, nil)
	f.fails(err, store.ErrIllegal)
}
