package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/incident"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: an incident is computed from the jobs as they are. Its cost is that of what
// store.MostTroubles bounds, whatever else is stored.

const (
	// failedFor is how far back failures are read if the request does not say.
	failedFor = 24 * time.Hour
	// listedExamples and shownExamples bound the examples of an incident, in a list and alone.
	listedExamples = 3
	shownExamples  = 20
)

// incidentService answers fireonce.admin.v1.IncidentService.
type incidentService struct {
	adminv1connect.UnimplementedIncidentServiceHandler
	*jobService
}

// ListIncidents implements the RPC.
func (s *incidentService) ListIncidents(ctx context.Context, req *adminv1.ListIncidentsRequest) (*adminv1.ListIncidentsResponse, error) {
	project := callerOf(ctx).project
	since, err := s.failedSince(req.GetEndTimeFrom())
	if err != nil {
		return nil, err
	}
	kinds := convertAll(req.GetKinds(), func(k adminv1.IncidentKind) incident.Kind { return incident.Kind(k) })
	if len(kinds) == 0 {
		kinds = incident.Kinds
	}
	var only job.ID
	if key := req.GetConnectionKey(); key != "" {
		if only, err = s.connectionID(ctx, store.Ref{Project: project, Key: key}); err != nil {
			return nil, err
		}
	}
	r, err := s.readIncidents(ctx, project, kinds, since)
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(r.all, func(in *incident.Incident) bool {
		return !slices.Contains(kinds, in.Kind) || !only.IsZero() && in.Connection != only
	})
	shown := all[:min(len(all), pageSize(req.GetMaxIncidents()))]
	out := &adminv1.ListIncidentsResponse{
		IncidentCount: int32(len(all)), ReadTime: timeToWire(r.now),
	}
	for _, more := range r.more {
		out.Incomplete = out.Incomplete || more
	}
	out.Incidents, err = s.incidentsToWire(ctx, r, shown, listedExamples)
	return out, err
}

// GetIncident implements the RPC.
func (s *incidentService) GetIncident(ctx context.Context, req *adminv1.GetIncidentRequest) (*adminv1.GetIncidentResponse, error) {
	since, err := s.failedSince(req.GetEndTimeFrom())
	if err != nil {
		return nil, err
	}
	r, err := s.readIncidents(ctx, callerOf(ctx).project, incident.Kinds, since)
	if err != nil {
		return nil, err
	}
	in, err := r.find(req.GetIncidentId())
	if err != nil {
		return nil, err
	}
	out, err := s.wholeIncident(ctx, r, in)
	return &adminv1.GetIncidentResponse{Incident: out, ReadTime: timeToWire(r.now)}, err
}

// wholeIncident converts an incident with what GetIncident alone has of it.
func (s *incidentService) wholeIncident(ctx context.Context, r *incidentRead, in *incident.Incident) (*adminv1.Incident, error) {
	list, err := s.incidentsToWire(ctx, r, []*incident.Incident{in}, shownExamples)
	if err != nil {
		return nil, err
	}
	out := list[0]
	out.Risks = convertAll(in.Risks(), riskToWire)
	return out, s.addErrors(ctx, r.project, out.GetExamples())
}

// failedSince returns since when failures are read.
func (s *incidentService) failedSince(asked *timestamppb.Timestamp) (time.Time, error) {
	if asked == nil {
		return s.cfg.Now().Add(-failedFor), nil
	}
	return timeFromWire("end_time_from", asked)
}

// incidentRead are the incidents of a project as they were read.
type incidentRead struct {
	project string
	now     time.Time
	all     []*incident.Incident
	// more has the kinds of trouble of which not all jobs were read.
	more map[store.TroubleKind]bool
}

// readIncidents reads the jobs that may be in incidents of some kinds, and groups them.
func (s *incidentService) readIncidents(ctx context.Context, project string, kinds []incident.Kind, since time.Time) (*incidentRead, error) {
	r := &incidentRead{project: project, more: make(map[store.TroubleKind]bool)}
	var lists [][]store.Trouble
	for _, kind := range kinds {
		trouble := kind.Trouble()
		if _, done := r.more[trouble]; done {
			continue
		}
		page, err := s.store.Troubles(ctx, store.TroubleQuery{Project: project, Kind: trouble, Since: since})
		if err != nil {
			return nil, fmt.Errorf("read jobs in trouble: %w", err)
		}
		r.now, r.more[trouble] = page.Now, page.More
		if trouble == store.TroubleWaiting {
			if err := s.addPauses(ctx, project, page.Jobs); err != nil {
				return nil, err
			}
		}
		lists = append(lists, page.Jobs)
	}
	r.all = incident.Group(r.now, lists...)
	return r, nil
}

// addPauses notes which of the jobs that nothing else holds are held by a pause. One of a label puts
// its jobs off one by one, so none of them is due.
func (s *jobService) addPauses(ctx context.Context, project string, jobs []store.Trouble) error {
	if meta, err := s.meta(ctx); err != nil || meta.Stops == 0 {
		return err
	}
	held := make(map[holdKey]*store.Stop)
	connectors := make(map[job.ID]string)
	for i := range jobs {
		if jobs[i].Hold == "" {
			held[holdKey{jobs[i].Connection, jobs[i].HoldKey}] = nil
			connectors[jobs[i].Connection] = ""
		}
	}
	found, err := connectionsOf(ctx, s.store, project, slices.Collect(maps.Keys(connectors)))
	if err != nil {
		return err
	}
	for _, c := range found {
		connectors[c.ID] = c.Connector
	}
	for keys := range slices.Chunk(slices.Collect(maps.Keys(held)), store.MaxBatch) {
		targets := convertAll(keys, func(k holdKey) store.StopTarget {
			return store.StopTarget{Project: project, Connector: connectors[k.connection], Connection: k.connection, HoldKey: k.key}
		})
		over, err := s.store.StopsOver(ctx, targets)
		if err != nil {
			return fmt.Errorf("read the pauses of jobs: %w", err)
		}
		for i, stop := range over {
			held[keys[i]] = stop
		}
	}
	for i := range jobs {
		t := &jobs[i]
		if stop := held[holdKey{t.Connection, t.HoldKey}]; t.Hold == "" && stop != nil {
			t.Hold, t.HeldSince, t.HeldUntil = store.HoldPaused, stop.Begin, stop.End
			if stop.Breaker() {
				t.Hold, t.HeldUntil = store.HoldBreaker, time.Time{} // until a probe succeeds
			}
		}
	}
	return nil
}

// find returns an incident by its id.
func (r *incidentRead) find(id string) (*incident.Incident, error) {
	for _, in := range r.all {
		if in.ID(r.project) == id {
			return in, nil
		}
	}
	return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_INCIDENT_NOT_FOUND,
		"no job is in incident "+id+" any more; list the incidents again", "incident_id", id)
}

// addErrors adds their last errors to examples.
func (s *incidentService) addErrors(ctx context.Context, project string, examples []*adminv1.IncidentExample) error {
	var ids []job.ID
	at := make(map[job.ID]*adminv1.IncidentExample, len(examples))
	for _, e := range examples {
		id, err := job.ParseID(e.GetJobId())
		if err != nil {
			return fmt.Errorf("example: %w", err)
		}
		at[id], ids = e, append(ids, id)
	}
	if len(ids) == 0 {
		return nil
	}
	page, err := s.store.List(ctx, store.JobQuery{Project: project, Jobs: ids, Limit: maxPage})
	if err != nil {
		return fmt.Errorf("read examples: %w", err)
	}
	for i := range page.Jobs {
		at[page.Jobs[i].ID].LastError = errorToWire(page.Jobs[i].LastError)
	}
	return nil
}

// incidentOf returns the id of the incident that a job is in; empty: it is in none.
func (s *jobService) incidentOf(ctx context.Context, snap job.Snapshot) (string, error) {
	q := store.TroubleQuery{Project: snap.Project, Job: snap.ID, Limit: 1}
	switch snap.State {
	case job.NeedsResolution, job.Ambiguous:
		q.Kind = store.TroubleUnknown
	case job.Failed, job.Expired:
		q.Kind = store.TroubleFailed
	case job.Scheduled, job.Retrying:
		if snap.NextAt.After(snap.Now) {
			return "", nil
		}
		q.Kind = store.TroubleWaiting
	default:
		return "", nil
	}
	page, err := s.store.Troubles(ctx, q)
	if err != nil {
		return "", fmt.Errorf("read the job's incident: %w", err)
	}
	if q.Kind == store.TroubleWaiting {
		if err := s.addPauses(ctx, snap.Project, page.Jobs); err != nil {
			return "", err
		}
	}
	for i := range page.Jobs {
		if k, ok := incident.KeyOf(&page.Jobs[i], page.Now); ok {
			return k.ID(snap.Project), nil
		}
	}
	return "", nil
}
