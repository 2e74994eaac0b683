package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/internal/incident"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a plan is made of jobs as they were read, each with its version, and each
// judged as the change itself would judge it. What is left out is in the plan, too, behind the others.

const (
	// plannedExamples bounds the jobs that the answer to a plan shows.
	plannedExamples = 20
	// longestPace bounds the time that all jobs of a plan take together.
	longestPace = 7 * 24 * time.Hour
)

// ResolveIncident implements the RPC.
func (s *incidentService) ResolveIncident(ctx context.Context, req *adminv1.ResolveIncidentRequest) (*adminv1.ResolveIncidentResponse, error) {
	if req.GetPlanId() != "" {
		out, err := s.startPlan(ctx, req.GetPlanId(), store.PlanResolve)
		return &adminv1.ResolveIncidentResponse{Plan: out}, err
	}
	who := callerOf(ctx)
	r, err := s.readIncidents(ctx, who.project, []incident.Kind{incident.Unknown}, time.Time{})
	if err != nil {
		return nil, err
	}
	in, err := r.find(req.GetIncidentId())
	if err != nil {
		return nil, err
	}
	p := store.Plan{
		Op: store.PlanResolve, Ruling: job.Ruling(req.GetDecision()), Override: req.GetOverrideReconciler(),
		Incident: req.GetIncidentId(), Note: req.GetNote(), Cut: r.more[store.TroubleUnknown],
	}
	shown, err := s.wholeIncident(ctx, r, in)
	if err != nil {
		return nil, err
	}
	out, err := s.makePlan(ctx, p, in.Jobs, func(t *store.Trouble) store.PlanOutcome { return incident.Resolve(t, p.Ruling, p.Override) })
	return &adminv1.ResolveIncidentResponse{Plan: out, Incident: shown}, err
}

// RedeliverJobs implements the RPC.
func (s *incidentService) RedeliverJobs(ctx context.Context, req *adminv1.RedeliverJobsRequest) (*adminv1.RedeliverJobsResponse, error) {
	if req.GetPlanId() != "" {
		out, err := s.startPlan(ctx, req.GetPlanId(), store.PlanRetry)
		return &adminv1.RedeliverJobsResponse{Plan: out}, err
	}
	project := callerOf(ctx).project
	since, err := s.failedSince(req.GetEndTimeFrom())
	if err != nil {
		return nil, err
	}
	selects, err := s.redelivered(ctx, req)
	if err != nil {
		return nil, err
	}
	q := store.TroubleQuery{Project: project, Kind: store.TroubleFailed, Since: since}
	page, err := s.store.Troubles(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("read failed jobs: %w", err)
	}
	jobs := slices.DeleteFunc(page.Jobs, func(t store.Trouble) bool { return !selects(&t, page.Now) })
	incident.OldestFirst(jobs)
	p := store.Plan{Op: store.PlanRetry, Pace: submit.Duration(req.GetPace()), Note: req.GetNote(), Cut: page.More}
	if ids := req.GetIncidentIds(); len(ids) > 0 {
		if len(jobs) == 0 {
			return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_INCIDENT_NOT_FOUND,
				"no job is in these incidents any more; list the incidents again", "incident_id", ids[0])
		}
		if len(ids) == 1 {
			p.Incident = ids[0]
		}
	}
	if p.Pace > 0 && time.Duration(len(jobs)) > longestPace/p.Pace {
		return nil, badField("pace", "too_slow", fmt.Sprintf("is too slow for %d jobs: together they would take longer than 7 days", len(jobs)))
	}
	out := &adminv1.RedeliverJobsResponse{}
	if out.Plan, err = s.makePlan(ctx, p, jobs, incident.Redeliver); err != nil {
		return nil, err
	}
	return out, s.addUnproven(ctx, q, jobs, out)
}

// redelivered returns what selects the failed jobs of a request.
func (s *incidentService) redelivered(ctx context.Context, req *adminv1.RedeliverJobsRequest) (func(*store.Trouble, time.Time) bool, error) {
	project := callerOf(ctx).project
	if len(req.GetIncidentIds()) > 0 {
		return func(t *store.Trouble, now time.Time) bool {
			k, ok := incident.KeyOf(t, now)
			return ok && slices.Contains(req.GetIncidentIds(), k.ID(project))
		}, nil
	}
	conn, err := s.connectionID(ctx, store.Ref{Project: project, Key: req.GetConnectionKey()})
	if err != nil {
		return nil, err
	}
	// Jobs that a ruling ended are selected, too, and then left out where they are seen.
	return func(t *store.Trouble, _ time.Time) bool {
		return t.Connection == conn && (req.GetDestination() == "" || t.HoldKey == req.GetDestination())
	}, nil
}

// addUnproven lists the jobs at the same destinations that count as sent without a proof.
func (s *incidentService) addUnproven(ctx context.Context, q store.TroubleQuery, jobs []store.Trouble, out *adminv1.RedeliverJobsResponse) error {
	at := make(map[holdKey]bool)
	for i := range jobs {
		at[holdKey{jobs[i].Connection, jobs[i].HoldKey}] = true
	}
	page, err := s.store.Unproven(ctx, q)
	if err != nil {
		return fmt.Errorf("read jobs without a proof: %w", err)
	}
	found := slices.DeleteFunc(page.Jobs, func(t store.Trouble) bool { return !at[holdKey{t.Connection, t.HoldKey}] })
	out.UnprovenCount, out.UnprovenIncomplete = int32(len(found)), page.More
	found = found[:min(len(found), plannedExamples)]
	names, err := s.jobNames(ctx, q.Project, convertAll(found, func(t store.Trouble) job.ID { return t.Job }))
	out.UnprovenExamples = examplesToWire(found, names)
	return err
}

// makePlan judges jobs and stores the plan of what is to be done with them.
func (s *incidentService) makePlan(
	ctx context.Context, p store.Plan, jobs []store.Trouble, judge func(*store.Trouble) store.PlanOutcome,
) (*adminv1.Plan, error) {
	who := callerOf(ctx)
	p.ID, p.Project, p.CreatedBy = s.cfg.NewID(), who.project, who.actor
	if len(jobs) > store.MostPlanJobs {
		jobs, p.Cut = jobs[:store.MostPlanJobs], true
	}
	items := make([]store.PlanItem, len(jobs))
	for i := range jobs {
		items[i] = store.PlanItem{Job: jobs[i].Job, Version: jobs[i].Version, Outcome: judge(&jobs[i])}
	}
	run := planRun{jobs: s.jobService, plan: p}
	for page := range slices.Chunk(items, store.MaxBatch) {
		if err := run.judge(ctx, page); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(items, func(a, b store.PlanItem) int {
		return int(min(a.Outcome, store.PlanChanged)) - int(min(b.Outcome, store.PlanChanged))
	})
	p, err := s.store.CreatePlan(ctx, p, items)
	if err != nil {
		return nil, fmt.Errorf("store the plan: %w", err)
	}
	out := planToWire(p)
	planned, leftOut := items[:p.Planned], items[p.Planned:]
	if out.PlannedExamples, err = s.planJobs(ctx, p.Project, planned[:min(len(planned), plannedExamples)]); err != nil {
		return nil, err
	}
	out.LeftOutExamples, err = s.planJobs(ctx, p.Project, leftOut[:min(len(leftOut), plannedExamples)])
	return out, err
}

// startPlan starts a plan of an operation, and goes on with it as far as it comes in a call.
func (s *incidentService) startPlan(ctx context.Context, text string, op store.PlanOp) (*adminv1.Plan, error) {
	p, err := s.plan(ctx, text)
	if err != nil {
		return nil, err
	}
	if p.Op != op { // the other call needs another scope
		return nil, planNotFound(text)
	}
	p, err = s.store.StartPlan(ctx, p.Project, p.ID, callerOf(ctx).actor)
	switch {
	case errors.Is(err, store.ErrPlanOver):
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_PLAN_OVER,
			"the plan is older than 24 h, or the database was restored since; plan again and look at the new list", "plan_id", text)
	case err != nil:
		return nil, notFoundAs(fmt.Errorf("start the plan: %w", err), planNotFound(text))
	}
	p, err = s.advancePlan(ctx, p, s.cfg.Now().Add(planPatience))
	if err != nil {
		return nil, err
	}
	return planToWire(p), nil
}

// plan reads a plan of the caller's project.
func (s *incidentService) plan(ctx context.Context, text string) (store.Plan, error) {
	id, err := job.ParseID(text)
	if err != nil {
		return store.Plan{}, planNotFound(text)
	}
	p, err := s.store.Plan(ctx, callerOf(ctx).project, id)
	if err != nil {
		return p, notFoundAs(fmt.Errorf("read the plan: %w", err), planNotFound(text))
	}
	return p, nil
}

func planNotFound(id string) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_PLAN_NOT_FOUND, "no plan "+id+"; one that was not started is stored for 24 h", "plan_id", id)
}

// GetPlan implements the RPC.
func (s *incidentService) GetPlan(ctx context.Context, req *adminv1.GetPlanRequest) (*adminv1.GetPlanResponse, error) {
	p, err := s.plan(ctx, req.GetPlanId())
	if err != nil {
		return nil, err
	}
	return &adminv1.GetPlanResponse{Plan: planToWire(p)}, nil
}

// ListPlans implements the RPC.
func (s *incidentService) ListPlans(ctx context.Context, req *adminv1.ListPlansRequest) (*adminv1.ListPlansResponse, error) {
	list, err := s.store.ListPlans(ctx, callerOf(ctx).project, pageSize(req.GetMaxPlans()))
	if err != nil {
		return nil, fmt.Errorf("list plans: %w", err)
	}
	return &adminv1.ListPlansResponse{Plans: convertAll(list, planToWire)}, nil
}

// ListPlanJobs implements the RPC. Its pages are those of the store.
func (s *incidentService) ListPlanJobs(ctx context.Context, req *adminv1.ListPlanJobsRequest) (*adminv1.ListPlanJobsResponse, error) {
	p, err := s.plan(ctx, req.GetPlanId())
	if err != nil {
		return nil, err
	}
	token, err := s.tokens.readPage(planPages, p.Project, withoutPage(req), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	out, page := &adminv1.ListPlanJobsResponse{}, int(token.after.at)
	if page >= p.Pages {
		return out, nil
	}
	items, _, err := s.store.PlanPage(ctx, p.ID, page)
	if err != nil {
		return nil, notFoundAs(fmt.Errorf("read a page of the plan: %w", err), planNotFound(req.GetPlanId()))
	}
	if len(req.GetOutcomes()) > 0 {
		items = slices.DeleteFunc(items, func(i store.PlanItem) bool { return !slices.Contains(req.GetOutcomes(), planOutcomes[i.Outcome]) })
	}
	if out.Jobs, err = s.planJobs(ctx, p.Project, items); err != nil {
		return nil, err
	}
	if page+1 < p.Pages {
		out.NextPageToken = token.nextToken(p.ID, int64(page)+1)
	}
	return out, nil
}

// planItem is the procedure that does to one job what a plan does to each.
func planItem(op store.PlanOp) string {
	if op == store.PlanResolve {
		return fireoncev1connect.JobServiceResolveJobProcedure
	}
	return fireoncev1connect.JobServiceRetryJobProcedure
}
