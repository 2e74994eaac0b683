package server_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

func (f *fixture) incidents(c client, kinds ...adminv1.IncidentKind) []*adminv1.Incident {
	f.tb.Helper()
	res, err := ask[adminv1.ListIncidentsResponse](f.tb, c, incidentsPath+"ListIncidents", &adminv1.ListIncidentsRequest{Kinds: kinds})
	f.must(err)
	return res.GetIncidents()
}

// incident returns the only one of a kind.
func (f *fixture) incident(c client, kind adminv1.IncidentKind) *adminv1.Incident {
	f.tb.Helper()
	list := f.incidents(c, kind)
	if len(list) != 1 {
		f.tb.Fatalf("%d incidents, want 1: %v", len(list), list)
	}
	return list[0]
}

func (f *fixture) resolveIncident(c client, req *adminv1.ResolveIncidentRequest) (*adminv1.Plan, error) {
	res, err := ask[adminv1.ResolveIncidentResponse](f.tb, c, incidentsPath+"ResolveIncident", req)
	return res.GetPlan(), err
}

func (f *fixture) redeliver(c client, req *adminv1.RedeliverJobsRequest) (*adminv1.RedeliverJobsResponse, error) {
	return ask[adminv1.RedeliverJobsResponse](f.tb, c, incidentsPath+"RedeliverJobs", req)
}

// planJobs reads all jobs of a plan, by key.
func (f *fixture) planJobs(c client, id string, outcomes ...adminv1.PlanOutcome) map[string]adminv1.PlanOutcome {
	f.tb.Helper()
	out := make(map[string]adminv1.PlanOutcome)
	for req := (&adminv1.ListPlanJobsRequest{PlanId: id, Outcomes: outcomes}); ; {
		res, err := ask[adminv1.ListPlanJobsResponse](f.tb, c, incidentsPath+"ListPlanJobs", req)
		f.must(err)
		for _, j := range res.GetJobs() {
			out[j.GetIdempotencyKey()] = j.GetOutcome()
		}
		if req.PageToken = res.GetNextPageToken(); req.GetPageToken() == "" {
			return out
		}
	}
}

const (
	unknownKind = adminv1.IncidentKind_INCIDENT_KIND_UNKNOWN
	failedKind  = adminv1.IncidentKind_INCIDENT_KIND_FAILED
	notSent     = fireoncev1.Resolution_DECISION_NOT_SENT
)

func exampleKeys(list []*adminv1.IncidentExample) (out []string) {
	for _, e := range list {
		out = append(out, e.GetIdempotencyKey())
	}
	return out
}

// TestIncident in every protocol: unknown jobs are found as one incident with their keys, understood,
// and decided with three calls. One job changes in between, and one has candidates.
func TestIncident(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		began := f.clock.Now()
		var ids []job.ID
		for i := range 4 {
			f.schedule(f.request(fmt.Sprintf("payment-%d", i)))
			ids = append(ids, f.needResolution().ID)
		}
		f.learn(ids[2], job.Looked{Observation: job.Observation{Attempt: 1, Verdict: job.SawPresent}}) // no longer unknown
		in := f.incident(c, unknownKind)
		if in.GetJobCount() != 3 || in.GetConnectionKey() != "fixture" || in.GetDestination() != "hold of good/v1" || in.GetConnector() != "stub" ||
			!in.GetBeginTime().AsTime().Equal(began) || in.GetIncomplete() || in.GetNextLookTime() != nil ||
			in.GetCause().GetFailureKind() != fireoncev1.FailureKind_FAILURE_KIND_AMBIGUOUS || in.GetCause().GetSummary() == "" ||
			!slices.Equal(exampleKeys(in.GetExamples()), []string{"payment-0", "payment-1", "payment-3"}) || len(in.GetRisks()) != 0 {
			t.Errorf("incident %v", in)
		}
		one, err := ask[adminv1.GetIncidentResponse](t, c, incidentsPath+"GetIncident", &adminv1.GetIncidentRequest{IncidentId: in.GetIncidentId()})
		f.must(err)
		risks := one.GetIncident().GetRisks()
		if len(risks) != 4 || risks[2].GetDecision() != fireoncev1.Resolution_DECISION_RESEND || risks[2].GetRisk() != adminv1.Risk_RISK_DUPLICATE ||
			risks[2].GetEffectClass() != fireoncev1.EffectClass_EFFECT_CLASS_OPAQUE || one.GetIncident().GetLooks().GetNoneCount() != 3 ||
			one.GetIncident().GetExamples()[0].GetLastError().GetMessage() != "reset" {
			t.Errorf("incident alone %v", one)
		}

		plan, err := f.resolveIncident(c, &adminv1.ResolveIncidentRequest{IncidentId: in.GetIncidentId(), Decision: notSent, Note: "the receiver has none"})
		f.must(err)
		if plan.GetState() != adminv1.PlanState_PLAN_STATE_DRY || plan.GetJobCount() != 3 || plan.GetPlannedCount() != 3 || len(plan.GetPlannedExamples()) != 3 ||
			plan.GetPlannedExamples()[0].GetIdempotencyKey() != "payment-0" || f.snapshot(ids[0].String()).State != job.NeedsResolution {
			t.Errorf("plan %v", plan)
		}
		_, err = f.resolve(&fireoncev1.ResolveJobRequest{
			Job: &fireoncev1.ResolveJobRequest_JobId{JobId: ids[1].String()}, Etag: f.read(c, ids[1].String()).GetEtag(),
			Decision: fireoncev1.Resolution_DECISION_SENT, Note: "seen",
		})
		f.must(err)
		done, err := f.resolveIncident(c, &adminv1.ResolveIncidentRequest{PlanId: plan.GetPlanId()})
		f.must(err)
		if done.GetState() != adminv1.PlanState_PLAN_STATE_DONE || done.GetChangedCount() != 2 || done.GetLeftOutCount() != 1 || done.GetEndTime() == nil {
			t.Errorf("done %v", done)
		}
		for i, want := range map[int]job.State{0: job.Failed, 1: job.Succeeded, 2: job.Succeeded, 3: job.Failed} {
			if got := f.snapshot(ids[i].String()); got.State != want {
				t.Errorf("job %d is %s, want %s", i, got.State, want)
			}
		}
		if got := f.snapshot(ids[0].String()).Resolution; got == nil || got.Ruling != job.RuleNotSent || got.Note != "the receiver has none" || got.Actor == "" {
			t.Errorf("resolution %+v", got)
		}
		if got, want := f.planJobs(c, plan.GetPlanId()), (map[string]adminv1.PlanOutcome{
			"payment-0": adminv1.PlanOutcome_PLAN_OUTCOME_CHANGED, "payment-1": adminv1.PlanOutcome_PLAN_OUTCOME_STALE,
			"payment-3": adminv1.PlanOutcome_PLAN_OUTCOME_CHANGED,
		}); !mapsEqual(got, want) {
			t.Errorf("jobs of the plan %v", got)
		}
		again, err := f.resolveIncident(c, &adminv1.ResolveIncidentRequest{PlanId: plan.GetPlanId()})
		if err != nil || !proto.Equal(again, done) {
			t.Errorf("again %v, %v", again, err)
		}
		if left := f.incidents(c); len(left) != 0 {
			t.Errorf("incidents are left: %v; a job that a person ruled not sent is no failure", left)
		}
		list, err := ask[adminv1.ListPlansResponse](t, c, incidentsPath+"ListPlans", &adminv1.ListPlansRequest{})
		f.must(err)
		got, err := ask[adminv1.GetPlanResponse](t, c, incidentsPath+"GetPlan", &adminv1.GetPlanRequest{PlanId: plan.GetPlanId()})
		f.must(err)
		if len(list.GetPlans()) != 1 || !proto.Equal(list.GetPlans()[0], done) || !proto.Equal(got.GetPlan(), done) {
			t.Errorf("plans %v and %v", list, got)
		}
	})
}

func mapsEqual[K comparable, V comparable](a, b map[K]V) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// TestIncidentLeavesOut: candidates, what was seen against the decision, jobs that are still looked for,
// and jobs that do not allow it are in the plan, and stay as they are.
func TestIncidentLeavesOut(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	observe := func(key string, verdicts ...job.Verdict) job.ID {
		f.schedule(f.request(key))
		snap := f.arm()
		f.learn(snap.ID, job.Outcome{Attempt: 1, Result: job.ResultUnknown, Kind: job.FailAmbiguous})
		for _, v := range verdicts {
			at := f.clock.Now()
			f.learn(snap.ID, job.Looked{Observation: job.Observation{Attempt: 1, Verdict: v, BegunAt: at, EndedAt: at}})
			f.clock.advance(time.Hour)
		}
		if f.snapshot(snap.ID.String()).State == job.Ambiguous {
			f.clock.advance(2 * time.Minute)
		}
		return snap.ID
	}
	looking := observe("looking", job.SawInconclusive, job.SawInconclusive)
	candidates := observe("candidates", job.SawInconclusive, job.SawCandidates)
	absent := observe("absent", job.SawAbsent)
	f.learn(absent, job.LookDue{})
	unseen := observe("unseen")
	f.learn(unseen, job.LookDue{})

	in := f.incident(c, unknownKind)
	if looks := in.GetLooks(); in.GetJobCount() != 4 || looks.GetCandidatesCount() != 1 || looks.GetAbsentCount() != 1 || looks.GetInconclusiveCount() != 1 || looks.GetNoneCount() != 1 ||
		in.GetNextLookTime() == nil {
		t.Errorf("incident %v", in)
	}
	for _, tt := range []struct {
		decision fireoncev1.Resolution_Decision
		override bool
		want     map[string]adminv1.PlanOutcome
	}{
		{fireoncev1.Resolution_DECISION_SENT, false, map[string]adminv1.PlanOutcome{
			"looking": adminv1.PlanOutcome_PLAN_OUTCOME_LOOKING, "candidates": adminv1.PlanOutcome_PLAN_OUTCOME_CANDIDATES,
			"absent": adminv1.PlanOutcome_PLAN_OUTCOME_CONTRARY, "unseen": adminv1.PlanOutcome_PLAN_OUTCOME_PLANNED,
		}},
		{notSent, true, map[string]adminv1.PlanOutcome{
			"looking": adminv1.PlanOutcome_PLAN_OUTCOME_PLANNED, "candidates": adminv1.PlanOutcome_PLAN_OUTCOME_CANDIDATES,
			"absent": adminv1.PlanOutcome_PLAN_OUTCOME_PLANNED, "unseen": adminv1.PlanOutcome_PLAN_OUTCOME_PLANNED,
		}},
	} {
		plan, err := f.resolveIncident(c, &adminv1.ResolveIncidentRequest{
			IncidentId: in.GetIncidentId(), Decision: tt.decision, Note: "n", OverrideReconciler: tt.override,
		})
		f.must(err)
		if got := f.planJobs(c, plan.GetPlanId()); !mapsEqual(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.decision, got, tt.want)
		}
		if int(plan.GetPlannedCount()) != len(f.planJobs(c, plan.GetPlanId(), adminv1.PlanOutcome_PLAN_OUTCOME_PLANNED)) || len(plan.GetLeftOutExamples()) == 0 {
			t.Errorf("plan %v", plan)
		}
		done, err := f.resolveIncident(c, &adminv1.ResolveIncidentRequest{PlanId: plan.GetPlanId()})
		f.must(err)
		if done.GetChangedCount() != done.GetPlannedCount() {
			t.Errorf("done %v", done)
		}
		if tt.decision == fireoncev1.Resolution_DECISION_SENT && f.snapshot(unseen.String()).State != job.Succeeded {
			t.Error("the unseen job was not decided")
		}
		delete(tt.want, "unseen")
		if tt.decision == fireoncev1.Resolution_DECISION_SENT {
			break
		}
	}
	for id, want := range map[job.ID]job.State{looking: job.Ambiguous, candidates: job.NeedsResolution, absent: job.NeedsResolution} {
		if got := f.snapshot(id.String()).State; got != want {
			t.Errorf("job is %s, want %s", got, want)
		}
	}
}

// TestIncidentResendEarly: RESEND is refused while the last attempt may act, and the plan shows why.
func TestIncidentResendEarly(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	f.schedule(f.request("early"))
	snap := f.arm()
	f.learn(snap.ID, job.Outcome{Attempt: 1, Result: job.ResultUnknown, Kind: job.FailAmbiguous})
	f.learn(snap.ID, job.LookDue{})
	plan, err := f.resolveIncident(c, &adminv1.ResolveIncidentRequest{
		IncidentId: f.incident(c, unknownKind).GetIncidentId(), Decision: fireoncev1.Resolution_DECISION_RESEND, Note: "n",
	})
	f.must(err)
	if len(plan.GetLeftOutExamples()) != 1 || plan.GetLeftOutExamples()[0].GetOutcome() != adminv1.PlanOutcome_PLAN_OUTCOME_REFUSED ||
		plan.GetLeftOutExamples()[0].GetErrorReason() != fireoncev1.ErrorReason_ERROR_REASON_RESEND_TOO_EARLY {
		t.Errorf("plan %v", plan)
	}
	done, err := f.resolveIncident(c, &adminv1.ResolveIncidentRequest{PlanId: plan.GetPlanId()})
	if err != nil || done.GetState() != adminv1.PlanState_PLAN_STATE_DONE || done.GetChangedCount() != 0 {
		t.Errorf("done %v, %v", done, err)
	}
}

// TestRedeliver: what failed at a receiver is tried again, paced, under its own keys; what was closed
// without a proof is listed apart.
func TestRedeliver(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		var failed []job.Snapshot
		for i := range 3 {
			f.schedule(f.request(fmt.Sprintf("hook-%d", i)))
			failed = append(failed, f.fail())
			f.clock.advance(time.Second)
		}
		rule := func(key string, decision fireoncev1.Resolution_Decision) {
			f.schedule(f.request(key))
			id := f.needResolution().ID.String()
			_, err := f.resolve(&fireoncev1.ResolveJobRequest{
				Job: &fireoncev1.ResolveJobRequest_JobId{JobId: id}, Etag: f.read(c, id).GetEtag(), Decision: decision, Note: "n",
			})
			f.must(err)
		}
		rule("ruled-not-sent", notSent)
		rule("ruled-sent", fireoncev1.Resolution_DECISION_SENT)
		in := f.incident(c, failedKind)
		if in.GetJobCount() != 3 || in.GetCause().GetHttpStatus() != 400 || in.GetCause().GetSummary() != "the target answered 400 Bad Request" {
			t.Errorf("incident %v", in)
		}
		res, err := f.redeliver(c, &adminv1.RedeliverJobsRequest{ConnectionKey: "fixture", Destination: "hold of good/v1", Pace: durationpb.New(10 * time.Second)})
		f.must(err)
		if res.GetUnprovenCount() != 1 || !slices.Equal(exampleKeys(res.GetUnprovenExamples()), []string{"ruled-sent"}) || res.GetPlan().GetPlannedCount() != 3 ||
			len(res.GetPlan().GetLeftOutExamples()) != 1 || res.GetPlan().GetLeftOutExamples()[0].GetIdempotencyKey() != "ruled-not-sent" ||
			res.GetPlan().GetLeftOutExamples()[0].GetOutcome() != adminv1.PlanOutcome_PLAN_OUTCOME_UNPROVEN {
			t.Errorf("plan %v", res)
		}
		if _, err := f.resolveIncident(c, &adminv1.ResolveIncidentRequest{PlanId: res.GetPlan().GetPlanId()}); err == nil {
			t.Error("a plan of retries was started by the call that needs another scope")
		}
		started := f.clock.Now()
		done, err := f.redeliver(c, &adminv1.RedeliverJobsRequest{PlanId: res.GetPlan().GetPlanId()})
		f.must(err)
		if done.GetPlan().GetState() != adminv1.PlanState_PLAN_STATE_DONE || done.GetPlan().GetChangedCount() != 3 {
			t.Errorf("done %v", done)
		}
		for i, was := range failed {
			is := f.snapshot(was.ID.String())
			if is.State != job.Retrying || is.Round != was.Round || !is.NextAt.Equal(started.Add(time.Duration(i)*10*time.Second)) {
				t.Errorf("job %d: %s, round %d, due %v after the start", i, is.State, is.Round, is.NextAt.Sub(started))
			}
		}
		if list := f.incidents(c, failedKind); len(list) != 0 {
			t.Errorf("incidents %v", list)
		}
	})
}

// TestRedeliverIncidents: several incidents in one plan, and limits.
func TestRedeliverIncidents(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	f.schedule(f.request("a"))
	f.fail()
	f.schedule(f.request("b", func(r *scheduleRequest) { r.Payload = custom("good/v2", "x") }))
	f.fail()
	list := f.incidents(c, failedKind)
	if len(list) != 2 {
		t.Fatalf("incidents %v", list)
	}
	res, err := f.redeliver(c, &adminv1.RedeliverJobsRequest{IncidentIds: []string{list[0].GetIncidentId(), list[1].GetIncidentId()}})
	f.must(err)
	if res.GetPlan().GetPlannedCount() != 2 || res.GetPlan().GetIncidentId() != "" {
		t.Errorf("plan %v", res)
	}
	since := timestamppb.New(f.clock.Now().Add(time.Second))
	_, err = f.redeliver(c, &adminv1.RedeliverJobsRequest{IncidentIds: []string{list[0].GetIncidentId()}, EndTimeFrom: since})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_INCIDENT_NOT_FOUND)
	for _, req := range []*adminv1.RedeliverJobsRequest{
		{}, {IncidentIds: []string{"inc_1"}, ConnectionKey: "fixture"}, {Destination: "d"}, {PlanId: "x"},
		{PlanId: res.GetPlan().GetPlanId(), ConnectionKey: "fixture"}, {ConnectionKey: "fixture", Pace: durationpb.New(2 * time.Hour)},
	} {
		_, err := f.redeliver(c, req)
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID)
	}
	for _, req := range []*adminv1.ResolveIncidentRequest{
		{}, {IncidentId: "inc_1", Note: "n"}, {IncidentId: "inc_1", Decision: notSent}, {PlanId: res.GetPlan().GetPlanId(), Note: "n"},
	} {
		_, err := f.resolveIncident(c, req)
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID)
	}
}

// TestIncidentsHeld: a pause and a job that is late, with their keys.
func TestIncidentsHeld(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	f.schedule(f.request("first"))
	f.clock.advance(59 * time.Second)
	if list := f.incidents(c); len(list) != 0 {
		t.Errorf("before a minute: %v", list)
	}
	f.clock.advance(time.Second)
	if in := f.incident(c, adminv1.IncidentKind_INCIDENT_KIND_LATE); !slices.Equal(exampleKeys(in.GetExamples()), []string{"first"}) || in.GetAdvice() == "" {
		t.Errorf("late %v", in)
	}
	f.pause(c, f.conn, "maintenance")
	in := f.incident(c, adminv1.IncidentKind_INCIDENT_KIND_HELD)
	if in.GetCause().GetHold() != fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_PAUSED || in.GetHoldBeginTime() == nil || in.GetJobCount() != 1 {
		t.Errorf("held %v", in)
	}
	if list := f.incidents(c, adminv1.IncidentKind_INCIDENT_KIND_LATE); len(list) != 0 {
		t.Errorf("late, too: %v", list)
	}
	var none connectionsv1.CreateConnectionResponse
	f.must(c.call(t.Context(), connsPath+"CreateConnection", &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: "idle", Connection: &connectionsv1.Connection{Connector: "stub", DisplayName: "idle"},
	}, &none))
	res, err := ask[adminv1.ListIncidentsResponse](t, c, incidentsPath+"ListIncidents", &adminv1.ListIncidentsRequest{ConnectionKey: "idle"})
	if err != nil || len(res.GetIncidents()) != 0 || res.GetReadTime() == nil {
		t.Errorf("of an idle connection: %v, %v", res, err)
	}
	_, err = ask[adminv1.ListIncidentsResponse](t, c, incidentsPath+"ListIncidents", &adminv1.ListIncidentsRequest{ConnectionKey: "nowhere"})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND)
}

// killedStore is a store under a server that dies at a place in a plan.
type killedStore struct {
	store.Store
	at    string
	calls int
}

var errKilled = errors.New("killed")

func (k *killedStore) FinishPage(ctx context.Context, id job.ID, page int, items []store.PlanItem) (store.Plan, error) {
	k.calls++
	if k.at == "before the end of a page" && k.calls == 2 {
		return store.Plan{}, errKilled
	}
	p, err := k.Store.FinishPage(ctx, id, page, items)
	if k.at == "behind the end of a page" && k.calls == 1 {
		return store.Plan{}, errKilled
	}
	return p, err
}

// TestIncidentsOfPauses: what a pause of more than a connection holds is held, not late.
func TestIncidentsOfPauses(t *testing.T) {
	for name, target := range map[string]*adminv1.PauseTarget{
		"everything": pauseEverything(),
		"project":    {Target: &adminv1.PauseTarget_Project{Project: true}},
		"connector":  {Target: &adminv1.PauseTarget_Connector{Connector: "stub"}},
		"another":    {Target: &adminv1.PauseTarget_Connector{Connector: "webhook"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			c := overConnect(f)
			f.schedule(f.request("first"))
			f.clock.advance(time.Minute)
			var made adminv1.CreatePauseResponse
			f.must(c.call(t.Context(), createPause, &adminv1.CreatePauseRequest{Target: target, Note: "maintenance"}, &made))
			if name == "another" {
				f.incident(c, adminv1.IncidentKind_INCIDENT_KIND_LATE)
				return
			}
			in := f.incident(c, adminv1.IncidentKind_INCIDENT_KIND_HELD)
			if in.GetCause().GetHold() != fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_PAUSED || in.GetHoldBeginTime() == nil || in.GetJobCount() != 1 {
				t.Errorf("held %v", in)
			}
			if list := f.incidents(c, adminv1.IncidentKind_INCIDENT_KIND_LATE); len(list) != 0 {
				t.Errorf("late, too: %v", list)
			}
			f.must(c.call(t.Context(), endPause, &adminv1.EndPauseRequest{PauseId: made.GetPause().GetPauseId()}, &adminv1.EndPauseResponse{}))
			f.incident(c, adminv1.IncidentKind_INCIDENT_KIND_LATE)
		})
	}
}

// TestPlanSurvivesItsServer: wherever the server dies, another one goes on, each job is decided once, and
// the counts are those of a plan without a crash.
func TestPlanSurvivesItsServer(t *testing.T) {
	const n = store.MaxBatch + 3
	for _, at := range []string{"before the end of a page", "behind the end of a page", "before the first page"} {
		t.Run(at, func(t *testing.T) {
			var killed *killedStore
			f := start(t, func(cfg *server.Config) {
				killed = &killedStore{Store: cfg.Store.(store.Store), at: at}
				cfg.Store = killed
			})
			c := overConnect(f)
			ids := f.unknownJobs(n)
			plan, err := f.resolveIncident(c, &adminv1.ResolveIncidentRequest{
				IncidentId: f.incident(c, unknownKind).GetIncidentId(), Decision: notSent, Note: "n",
			})
			f.must(err)
			if plan.GetPlannedCount() != n {
				t.Fatalf("plan %v", plan)
			}
			if at == "before the first page" {
				_, err = f.store.StartPlan(t.Context(), server.DefaultProject, f.id(plan.GetPlanId()), "api")
				f.must(err)
			} else if _, err := f.resolveIncident(c, &adminv1.ResolveIncidentRequest{PlanId: plan.GetPlanId()}); err == nil {
				t.Fatal("the server was not killed")
			}
			f.must(f.server.ResumePlans(t.Context(), time.Minute)) // another server may still work on it
			if running, err := f.store.Plan(t.Context(), server.DefaultProject, f.id(plan.GetPlanId())); err != nil || running.State != store.PlanRunning {
				t.Fatalf("plan %+v, %v", running, err)
			}
			f.clock.advance(time.Minute)
			f.must(f.server.ResumePlans(t.Context(), time.Minute))
			got, err := ask[adminv1.GetPlanResponse](t, c, incidentsPath+"GetPlan", &adminv1.GetPlanRequest{PlanId: plan.GetPlanId()})
			f.must(err)
			if got.GetPlan().GetState() != adminv1.PlanState_PLAN_STATE_DONE || got.GetPlan().GetChangedCount() != n || got.GetPlan().GetLeftOutCount() != 0 {
				t.Errorf("plan %v", got)
			}
			for _, id := range ids {
				rulings := 0
				for _, e := range f.history(id.String()) {
					if e.Cause == job.CauseResolved {
						rulings++
					}
				}
				if rulings != 1 {
					t.Fatalf("job %s was ruled on %d times", id, rulings)
				}
			}
		})
	}
}

// TestPlanStopsWithItsKey: a plan does nothing more once the key that started it is revoked or expires,
// and says so of each job that is left.
func TestPlanStopsWithItsKey(t *testing.T) {
	const n = store.MaxBatch + 3
	revoke := func(f *fixture, id string) {
		_, err := f.store.RevokeAPIKey(f.tb.Context(), id)
		f.must(err)
	}
	for name, tt := range map[string]struct {
		at      string
		over    func(*fixture, string)
		stopped int
	}{
		"revoked after a page":          {"behind the end of a page", revoke, 3},
		"expired after a page":          {"behind the end of a page", func(f *fixture, _ string) { f.clock.advance(time.Hour) }, 3},
		"revoked after the last change": {"before the end of a page", revoke, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, func(cfg *server.Config) { cfg.Store = &killedStore{Store: cfg.Store.(store.Store), at: tt.at} })
			c := overConnect(f)
			f.unknownJobs(n)
			key := f.issue(server.DefaultProject, server.Scopes(), func(k *store.NewAPIKey) { k.Name, k.Lifetime = "night/shift", time.Hour })
			plan, err := f.resolveIncident(c, &adminv1.ResolveIncidentRequest{
				IncidentId: f.incident(c, unknownKind).GetIncidentId(), Decision: notSent, Note: "n",
			})
			f.must(err)
			_, err = f.store.StartPlan(t.Context(), server.DefaultProject, f.id(plan.GetPlanId()), "api:night/shift/"+key.ID)
			f.must(err)
			if err := f.server.ResumePlans(t.Context(), 0); err == nil {
				t.Fatal("the server was not killed")
			}
			tt.over(f, key.ID)
			f.must(f.server.ResumePlans(t.Context(), 0))
			got, err := ask[adminv1.GetPlanResponse](t, c, incidentsPath+"GetPlan", &adminv1.GetPlanRequest{PlanId: plan.GetPlanId()})
			f.must(err)
			if p := got.GetPlan(); p.GetState() != adminv1.PlanState_PLAN_STATE_DONE || int(p.GetChangedCount()) != n-tt.stopped || int(p.GetLeftOutCount()) != tt.stopped {
				t.Errorf("plan %v", got)
			}
			if jobs := f.planJobs(c, plan.GetPlanId(), adminv1.PlanOutcome_PLAN_OUTCOME_STOPPED); len(jobs) != tt.stopped {
				t.Errorf("stopped: %v", jobs)
			}
			left := 0
			for _, in := range f.incidents(c, unknownKind) {
				left += int(in.GetJobCount())
			}
			if left != tt.stopped {
				t.Errorf("%d jobs are undecided, want %d", left, tt.stopped)
			}
		})
	}
}

// TestPlanOwnsItsChanges: what its starter does beside a plan, although it is the same, is not the plan's.
func TestPlanOwnsItsChanges(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	ids := f.unknownJobs(3)
	plan, err := f.resolveIncident(c, &adminv1.ResolveIncidentRequest{
		IncidentId: f.incident(c, unknownKind).GetIncidentId(), Decision: notSent, Note: "n",
	})
	f.must(err)
	_, err = f.store.StartPlan(t.Context(), server.DefaultProject, f.id(plan.GetPlanId()), "api")
	f.must(err)
	alone, err := ask[fireoncev1.GetJobResponse](t, c, jobsPath+"GetJob", &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: ids[1].String()}})
	f.must(err)
	f.must(c.call(t.Context(), jobsPath+"ResolveJob", &fireoncev1.ResolveJobRequest{
		Job: &fireoncev1.ResolveJobRequest_JobId{JobId: ids[1].String()}, Etag: alone.GetJob().GetEtag(), Decision: notSent, Note: "n",
	}, &fireoncev1.ResolveJobResponse{}))
	f.must(f.server.ResumePlans(t.Context(), 0))
	want := map[string]adminv1.PlanOutcome{
		"order-0": adminv1.PlanOutcome_PLAN_OUTCOME_CHANGED, "order-1": adminv1.PlanOutcome_PLAN_OUTCOME_STALE, "order-2": adminv1.PlanOutcome_PLAN_OUTCOME_CHANGED,
	}
	if got := f.planJobs(c, plan.GetPlanId()); !maps.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
	if events := f.history(ids[0].String()); events[len(events)-1].Detail != "by plan "+plan.GetPlanId() {
		t.Errorf("event %+v", events[len(events)-1])
	}
}

// unknownJobs makes jobs in NEEDS_RESOLUTION, many at a time.
func (f *fixture) unknownJobs(n int) (out []job.ID) {
	f.tb.Helper()
	apply := func(ids []job.ID, e job.Evidence) {
		changes := make([]store.Change, len(ids))
		page, err := f.store.List(f.tb.Context(), store.JobQuery{Project: server.DefaultProject, Jobs: ids, Limit: store.MaxBatch})
		f.must(err)
		for i, s := range page.Jobs {
			d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), e)
			f.must(err)
			changes[i] = store.Change{Job: s.ID, Version: s.Version, Decision: d, Actor: "worker"}
		}
		applied, err := f.store.Apply(f.tb.Context(), changes)
		f.must(err)
		for _, a := range applied {
			f.must(a.Err)
		}
	}
	for len(out) < n {
		m := min(n-len(out), store.MaxBatch)
		items := make([]store.NewJob, m)
		ids := make([]job.ID, m)
		for i := range items {
			k := len(out) + i
			ids[i] = job.ID{2, 14: byte(k >> 8), 15: byte(k)}
			items[i] = store.NewJob{Class: job.Opaque, Spec: job.Spec{
				ID: ids[i], Project: server.DefaultProject, Key: fmt.Sprintf("order-%d", k), Connection: f.id(f.conn), HoldKey: "h",
				PayloadKind: "custom", Payload: []byte{}, StartWindow: time.Hour, Delivery: job.OnceOrAsk,
			}}
		}
		created, err := f.store.Create(f.tb.Context(), items)
		f.must(err)
		for _, c := range created {
			f.must(c.Err)
		}
		apply(ids, job.Restored{Since: f.clock.Now()})
		out = append(out, ids...)
	}
	return out
}

// TestPlanAfterRestore: a plan of the time before a restore is over, and nothing goes on with one that
// was running.
func TestPlanAfterRestore(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	f.unknownJobs(2)
	in := f.incident(c, unknownKind)
	if !in.GetCause().GetRestored() || !strings.Contains(in.GetCause().GetSummary(), "restored") {
		t.Errorf("incident %v", in)
	}
	plan := func() *adminv1.Plan {
		out, err := f.resolveIncident(c, &adminv1.ResolveIncidentRequest{IncidentId: in.GetIncidentId(), Decision: notSent, Note: "n"})
		f.must(err)
		return out
	}
	running, dry := plan(), plan()
	_, err := f.store.StartPlan(t.Context(), server.DefaultProject, f.id(running.GetPlanId()), "api")
	f.must(err)
	f.must(f.store.Quarantine(t.Context(), "a copy"))
	_, err = f.resolveIncident(c, &adminv1.ResolveIncidentRequest{PlanId: dry.GetPlanId()})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_QUARANTINED)
	f.must(f.store.Release(t.Context()))
	f.clock.advance(time.Hour)
	f.must(f.server.ResumePlans(t.Context(), 0))
	for _, p := range []*adminv1.Plan{running, dry} {
		_, err = f.resolveIncident(c, &adminv1.ResolveIncidentRequest{PlanId: p.GetPlanId()})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PLAN_OVER)
	}
	if got := f.incident(c, unknownKind); got.GetJobCount() != 2 || got.GetIncidentId() != in.GetIncidentId() {
		t.Errorf("incident %v", got)
	}
	_, err = ask[adminv1.GetPlanResponse](t, c, incidentsPath+"GetPlan", &adminv1.GetPlanRequest{PlanId: "00000000-0000-0000-0000-000000000001"})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PLAN_NOT_FOUND)
	_, err = ask[adminv1.GetIncidentResponse](t, c, incidentsPath+"GetIncident", &adminv1.GetIncidentRequest{IncidentId: "inc_none"})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_INCIDENT_NOT_FOUND)
}
