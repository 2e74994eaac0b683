package server

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/incident"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// incidentsToWire converts incidents with examples, the oldest jobs.
func (s *incidentService) incidentsToWire(ctx context.Context, r *incidentRead, list []*incident.Incident, examples int) ([]*adminv1.Incident, error) {
	connections := make(map[job.ID]bool)
	var shown []job.ID
	for _, in := range list {
		connections[in.Connection] = true
		for _, t := range in.Jobs[:min(len(in.Jobs), examples)] {
			shown = append(shown, t.Job)
		}
	}
	found, err := connectionsOf(ctx, s.store, r.project, slices.Collect(maps.Keys(connections)))
	if err != nil {
		return nil, err
	}
	of := make(map[job.ID]store.Connection, len(found))
	for _, c := range found {
		of[c.ID] = c
	}
	names, err := s.jobNames(ctx, r.project, shown)
	if err != nil {
		return nil, err
	}
	return convertAll(list, func(in *incident.Incident) *adminv1.Incident {
		out := incidentToWire(in, r)
		out.ConnectionKey, out.Connector = of[in.Connection].Key, of[in.Connection].Connector
		out.Examples = examplesToWire(in.Jobs[:min(len(in.Jobs), examples)], names)
		return out
	}), nil
}

// jobNames reads the names of jobs, however many.
func (s *Server) jobNames(ctx context.Context, project string, ids []job.ID) (map[job.ID]store.JobName, error) {
	out := make(map[job.ID]store.JobName, len(ids))
	for batch := range slices.Chunk(ids, maxPage) {
		names, err := s.store.JobNames(ctx, project, batch)
		if err != nil {
			return nil, fmt.Errorf("read the keys of jobs: %w", err)
		}
		maps.Copy(out, names)
	}
	return out, nil
}

func incidentToWire(in *incident.Incident, r *incidentRead) *adminv1.Incident {
	states, classes := in.Counts()
	out := &adminv1.Incident{
		IncidentId: in.ID(r.project), Kind: adminv1.IncidentKind(in.Kind), ConnectionId: in.Connection.String(), Destination: text(in.Destination),
		Cause: incidentCauseToWire(in.Key), BeginTime: timeToWire(in.Since), LastTime: timeToWire(in.Last),
		JobCount: int32(len(in.Jobs)), Incomplete: r.more[in.Kind.Trouble()], Advice: in.Advice(),
	}
	for _, state := range job.States {
		if n := states[state]; n > 0 {
			out.StateCounts = append(out.StateCounts, &adminv1.IncidentStateCount{State: stateToWire(state), JobCount: int32(n)})
		}
	}
	for class := job.Keyed; class <= job.Opaque; class++ {
		if n := classes[class]; n > 0 {
			out.ClassCounts = append(out.ClassCounts, &adminv1.IncidentClassCount{EffectClass: classToWire(class), JobCount: int32(n)})
		}
	}
	switch in.Kind {
	case incident.Unknown:
		out.Looks, out.NextLookTime = looksToWire(in.Looks()), timeToWire(in.NextLook())
	case incident.Held:
		out.HoldBeginTime, out.HoldEndTime = timeToWire(in.HeldSince()), timeToWire(in.HeldUntil())
	case incident.Failed, incident.Late:
	}
	return out
}

// incidentCauseToWire converts a cause. A restore has no kind of failure: nothing failed.
func incidentCauseToWire(k incident.Key) *adminv1.IncidentCause {
	out := &adminv1.IncidentCause{
		FailureKind: failureToWire(k.Cause.Kind), HttpStatus: int32(k.Cause.HTTPStatus), Restored: k.Cause.Restored, Summary: k.Summary(),
	}
	switch k.Cause.Hold {
	case store.HoldAuth:
		out.Hold = authCauseToWire(k.Cause.Auth)
	case store.HoldPaused, store.HoldBreaker:
		out.Hold = fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_PAUSED
	case store.HoldRateLimit:
		out.Hold = fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_RATE_LIMITED
	}
	return out
}

func looksToWire(l incident.Looks) *adminv1.IncidentLooks {
	return &adminv1.IncidentLooks{
		NoneCount: int32(l.None), InconclusiveCount: int32(l.Inconclusive), AbsentCount: int32(l.Absent),
		CandidatesCount: int32(l.Candidates), PresentCount: int32(l.Present), LastLookTime: timeToWire(l.Last),
	}
}

func riskToWire(r incident.DecisionRisk) *adminv1.DecisionRisk {
	return &adminv1.DecisionRisk{
		Decision: fireoncev1.Resolution_Decision(r.Ruling), EffectClass: classToWire(r.Class), Risk: adminv1.Risk(r.Risk), Summary: r.Summary,
		LeftOutCount: int32(r.LeftOut),
	}
}

func examplesToWire(jobs []store.Trouble, names map[job.ID]store.JobName) []*adminv1.IncidentExample {
	return convertAll(jobs, func(t store.Trouble) *adminv1.IncidentExample {
		return &adminv1.IncidentExample{
			IdempotencyKey: names[t.Job].Key, JobId: t.Job.String(), State: stateToWire(t.State), BeginTime: timeToWire(t.Since),
		}
	})
}

func planToWire(p store.Plan) *adminv1.Plan {
	out := &adminv1.Plan{
		PlanId: p.ID.String(), State: adminv1.PlanState(p.State), Decision: fireoncev1.Resolution_Decision(p.Ruling), OverrideReconciler: p.Override,
		IncidentId: p.Incident, Note: p.Note, JobCount: int32(p.Jobs), PlannedCount: int32(p.Planned),
		ChangedCount: int32(p.Changed), LeftOutCount: int32(p.LeftOut), Incomplete: p.Cut, CreateActor: p.CreatedBy, StartActor: p.StartedBy,
		CreateTime: timeToWire(p.Created), StartTime: timeToWire(p.Started), EndTime: timeToWire(p.Ended),
	}
	if p.Op == store.PlanRetry {
		out.Pace = durationToWire(p.Pace)
	}
	return out
}

// planOutcomes is the whole table of outcomes.
var planOutcomes = map[store.PlanOutcome]adminv1.PlanOutcome{
	store.PlanActs:       adminv1.PlanOutcome_PLAN_OUTCOME_PLANNED,
	store.PlanChanged:    adminv1.PlanOutcome_PLAN_OUTCOME_CHANGED,
	store.PlanStale:      adminv1.PlanOutcome_PLAN_OUTCOME_STALE,
	store.PlanGone:       adminv1.PlanOutcome_PLAN_OUTCOME_GONE,
	store.PlanRefused:    adminv1.PlanOutcome_PLAN_OUTCOME_REFUSED,
	store.PlanCandidates: adminv1.PlanOutcome_PLAN_OUTCOME_CANDIDATES,
	store.PlanContrary:   adminv1.PlanOutcome_PLAN_OUTCOME_CONTRARY,
	store.PlanLooking:    adminv1.PlanOutcome_PLAN_OUTCOME_LOOKING,
	store.PlanUnproven:   adminv1.PlanOutcome_PLAN_OUTCOME_UNPROVEN,
	store.PlanStopped:    adminv1.PlanOutcome_PLAN_OUTCOME_STOPPED,
}

// planJobs converts items of a plan, with the jobs' keys.
func (s *Server) planJobs(ctx context.Context, project string, items []store.PlanItem) ([]*adminv1.PlanJob, error) {
	names, err := s.jobNames(ctx, project, convertAll(items, func(i store.PlanItem) job.ID { return i.Job }))
	if err != nil {
		return nil, err
	}
	return convertAll(items, func(i store.PlanItem) *adminv1.PlanJob {
		return &adminv1.PlanJob{
			JobId: i.Job.String(), IdempotencyKey: names[i.Job].Key, Sequence: i.Version, Outcome: planOutcomes[i.Outcome],
			ErrorReason: fireoncev1.ErrorReason(i.Reason),
		}
	}), nil
}
