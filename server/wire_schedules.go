package server

import (
	"errors"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// This file converts schedules and their firings. The numbers of states, causes, marks,
// origins and outcomes are the contract's (TestNumbersMeanTheSame).

// encoded is a part of a schedule as the store has it.
func encoded(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// scheduleToWire converts a stored schedule, less next_fire_time and connection_key.
func scheduleToWire(s store.Schedule) (*schedulesv1.Schedule, error) {
	out := &schedulesv1.Schedule{
		ScheduleId: idToWire(s.ID), ProjectId: s.Project, IdempotencyKey: s.Key, DisplayName: s.DisplayName,
		ConnectionId: idToWire(s.Connection),
		Spec:         &schedulesv1.ScheduleSpec{}, Policies: &schedulesv1.SchedulePolicies{}, Labels: s.Labels,
		State: schedulesv1.ScheduleState(s.State), PauseCause: schedulesv1.SchedulePauseCause(s.Cause()),
		Note: text(s.Note), RefusedDecisions: s.RefusedDecisions, PauseTime: timeToWire(s.PausedAt), SkippedNames: s.Skips, Counts: firingCountsToWire(s.Counts),
		CreateTime: timeToWire(s.Created), UpdateTime: timeToWire(s.Updated), DeleteTime: timeToWire(s.Deleted),
		CreatedBy: s.CreatedBy, UpdatedBy: s.UpdatedBy,
	}
	if s.Version > 0 {
		out.Etag = etagOf(s.ID, s.Version)
	}
	if b := s.Buffered; b != nil {
		out.BufferedFiring = firingToWire(*b)
	}
	err := errors.Join(proto.Unmarshal(s.Spec, out.GetSpec()), proto.Unmarshal(s.Policies, out.GetPolicies()))
	if s.Template != nil {
		out.JobTemplate = &schedulesv1.JobTemplate{}
		err = errors.Join(err, proto.Unmarshal(s.Template, out.GetJobTemplate()))
	}
	out.Policies = policiesInForce(out.GetPolicies(), out.GetSpec())
	return out, err
}

// policiesInForce are a schedule's policies with their defaults.
func policiesInForce(p *schedulesv1.SchedulePolicies, spec *schedulesv1.ScheduleSpec) *schedulesv1.SchedulePolicies {
	in := schedule.PoliciesOf(p, spec).Filled()
	out := &schedulesv1.SchedulePolicies{}
	if p != nil {
		out = proto.CloneOf(p)
	}
	out.Overlap, out.WhileUnresolved = schedulesv1.OverlapPolicy(in.Overlap), schedulesv1.OverlapPolicy(in.WhileUnresolved)
	out.CatchUp, out.CatchUpWindow = schedulesv1.CatchUpPolicy(in.CatchUp), durationpb.New(in.CatchUpWindow)
	return out
}

func firingCountsToWire(c store.ScheduleCounts) *schedulesv1.FiringCounts {
	return &schedulesv1.FiringCounts{
		Fired: c.Fired, SkippedByOverlap: c.SkippedByOverlap, SkippedByRequest: c.SkippedByPerson,
		Missed: c.Missed, Coalesced: c.Coalesced, Refused: c.Refused, Held: c.Held,
		NoContent: c.NoContent, SkippedByLimit: c.SkippedByLimit,
	}
}

func firingToWire(f store.Firing) *fireoncev1.Firing {
	return &fireoncev1.Firing{
		Name: f.Name, NominalTime: timeToWire(f.Nominal), LocalTime: f.LocalTime, Mark: fireoncev1.TimeMark(f.Mark),
		Origin: fireoncev1.FiringOrigin(f.Origin), Outcome: fireoncev1.FiringOutcome(f.Outcome), Reason: text(f.Reason),
		JobId: idToWire(f.Job), BlockingJobId: idToWire(f.Blocking), Run: f.Run, DecideTime: timeToWire(f.Decided),
	}
}

// plannedToWire converts a firing to come.
func plannedToWire(p schedule.Planned) *schedulesv1.PlannedFiring {
	return &schedulesv1.PlannedFiring{
		Name: p.Name, NominalTime: timeToWire(p.Instant), FireTime: timeToWire(p.Fire),
		LocalTime: p.Instant.In(time.FixedZone("", p.Offset)).Format(time.RFC3339),
		Mark:      fireoncev1.TimeMark(p.Mark), Source: schedule.SourcePath(p.Source), Skipped: p.Skipped,
		ItemId: idToWire(p.Item), StartDeadline: timeToWire(p.Deadline),
	}
}

// schedulesFromWire makes the query of what a filter selects, less the connections that it
// names by key.
func schedulesFromWire(project string, f *schedulesv1.ScheduleFilter) (store.ScheduleQuery, error) {
	q := store.ScheduleQuery{
		Project: project, Labels: f.GetLabels(), States: castAll[store.ScheduleState](f.GetStates()),
		PauseCauses: castAll[store.PauseCause](f.GetPauseCauses()),
	}
	var err error
	q.Connections, err = idsFromWire("filter.connection_ids", f.GetConnectionIds())
	return q, err
}

// The parts of a schedule that an update may name, as it has them.
const (
	partName     = "display_name"
	partSpec     = "spec"
	partTemplate = "job_template"
	partPolicies = "policies"
	partLabels   = "labels"
)
