package server_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
)

const (
	jobsPath    = "/fireonce.v1.JobService/"
	connsPath   = "/fireonce.connections.v1.ConnectionService/"
	bulkPath    = "/fireonce.admin.v1.BulkService/"
	statsPath   = "/fireonce.admin.v1.StatsService/"
	accessPath  = "/fireonce.admin.v1.AccessService/"
	schedsPath  = "/fireonce.schedules.v1.ScheduleService/"
	subsPath    = "/fireonce.subscriptions.v1.SubscriptionService/"
	serversPath = "/fireonce.admin.v1.ServerService/"
	pausesPath  = "/fireonce.admin.v1.PauseService/"

	incidentsPath = "/fireonce.admin.v1.IncidentService/"
)

// served are the RPCs that this server implements.
var served = []string{
	jobsPath + "ScheduleJob", jobsPath + "GetJob", jobsPath + "ListJobs", jobsPath + "StreamJobEvents",
	jobsPath + "CancelJob", jobsPath + "ResolveJob", jobsPath + "ListJobAttempts", jobsPath + "BatchScheduleJobs",
	jobsPath + "ListJobObservations", jobsPath + "ListJobEvents", jobsPath + "DeleteJob",
	jobsPath + "UpdateJob", jobsPath + "RescheduleJob", jobsPath + "RunJobNow", jobsPath + "RetryJob",
	bulkPath + "BulkCancelJobs", bulkPath + "BulkRetryJobs", bulkPath + "BulkRescheduleJobs", bulkPath + "BulkResolveJobs", statsPath + "GetStats",
	serversPath + "ListServers", serversPath + "RunDue",
	pausesPath + "CreatePause", pausesPath + "EndPause", pausesPath + "ListPauses",
	incidentsPath + "ListIncidents", incidentsPath + "GetIncident", incidentsPath + "ResolveIncident", incidentsPath + "RedeliverJobs",
	incidentsPath + "GetPlan", incidentsPath + "ListPlans", incidentsPath + "ListPlanJobs",
	statsPath + "CountJobs", statsPath + "QueryStats",
	connsPath + "CreateConnection", connsPath + "GetConnection", connsPath + "ListConnections",
	connsPath + "UpdateConnection", connsPath + "RotateCredential", connsPath + "TestConnection",
	connsPath + "PauseConnection", connsPath + "ResumeConnection", connsPath + "DeleteConnection",
	connsPath + "ListConnectors", connsPath + "StartOAuth", connsPath + "CompleteOAuth",
	accessPath + "CreateApiKey", accessPath + "ListApiKeys", accessPath + "RevokeApiKey",
	schedsPath + "CreateSchedule", schedsPath + "GetSchedule", schedsPath + "ListSchedules", schedsPath + "UpdateSchedule",
	schedsPath + "DeleteSchedule", schedsPath + "PauseSchedule", schedsPath + "ResumeSchedule", schedsPath + "BulkPauseSchedules",
	schedsPath + "BulkResumeSchedules", schedsPath + "TriggerSchedule", schedsPath + "SkipFiring", schedsPath + "ListFirings",
	schedsPath + "PreviewSchedule", schedsPath + "BackfillSchedule", schedsPath + "AddScheduleItem", schedsPath + "ListScheduleItems",
	schedsPath + "UpdateScheduleItem", schedsPath + "MoveScheduleItem", schedsPath + "RemoveScheduleItem",
	subsPath + "CreateSubscription", subsPath + "GetSubscription", subsPath + "ListSubscriptions", subsPath + "UpdateSubscription", subsPath + "PauseSubscription",
	subsPath + "ResumeSubscription", subsPath + "DeleteSubscription", subsPath + "TestSubscription", subsPath + "RedeliverNotices", subsPath + "ListNotices",
	accessPath + "ListProjects", accessPath + "ListSealingKeys", accessPath + "RotateSealingKey", accessPath + "EraseProject",
}

// TestEveryRPCIsServedOrListed calls every RPC of the contract. What is not in
// served must answer UNIMPLEMENTED, and nothing else may.
func TestEveryRPCIsServedOrListed(t *testing.T) {
	f := start(t)
	c := overGRPC(f)
	want := map[string]bool{}
	for _, p := range served {
		want[p] = true
	}
	total := 0
	for m := range server.Methods() {
		total++
		procedure := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
		if m.IsStreamingServer() {
			continue // has tests of its own
		}
		err := c.call(t.Context(), procedure, dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output()))
		var wire *wireError
		no := errors.As(err, &wire) && wire.code == connect.CodeUnimplemented
		if no == want[procedure] {
			t.Errorf("%s: answered %v; listed as served: %t", procedure, err, want[procedure])
		}
	}
	if total < 33 {
		t.Errorf("the contract has %d RPCs: the test reads it wrongly", total)
	}
}

// TestEveryRPCOverEveryProtocol calls each served RPC as a user would.
func TestEveryRPCOverEveryProtocol(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		call := func(procedure string, req, res proto.Message) {
			t.Helper()
			if err := c.call(t.Context(), procedure, req, res); err != nil {
				t.Fatalf("%s: %v", procedure, err)
			}
		}

		var made connectionsv1.CreateConnectionResponse
		call(connsPath+"CreateConnection", &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: "c1",
			Connection: &connectionsv1.Connection{
				Connector: "webhook", DisplayName: "Hooks", Settings: webhookSettings(),
				Limits: &connectionsv1.ConnectionLimits{MaxInFlight: 3, MaxPerMinute: 60, CoolDown: durationpb.New(time.Hour)},
			},
			Credential: &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: "sesame-open"}}},
		}, &made)
		conn := made.GetConnection()
		if !made.GetCreated() || conn.GetConnector() != "webhook" || conn.GetLimits().GetMaxPerMinute() != 60 || conn.GetLimits().GetCoolDown().AsDuration() != time.Hour ||
			conn.GetCredentialFingerprint() == "" || conn.GetWebhook().GetKeyWindow().GetSeconds() != 3600 ||
			conn.GetState() != connectionsv1.ConnectionState_CONNECTION_STATE_ACTIVE || conn.GetEtag() == "" ||
			conn.GetEffectClass() != fireoncev1.EffectClass_EFFECT_CLASS_OPAQUE || conn.GetAccountIdentity() != "account-1" {
			t.Errorf("CreateConnection: %v", &made)
		}

		var got connectionsv1.GetConnectionResponse
		call(connsPath+"GetConnection", &connectionsv1.GetConnectionRequest{Connection: &connectionsv1.GetConnectionRequest_ConnectionId{ConnectionId: strings.ToUpper(conn.GetConnectionId())}}, &got)
		if !proto.Equal(got.GetConnection(), conn) {
			t.Errorf("GetConnection: %v, want %v", got.GetConnection(), conn)
		}
		var conns connectionsv1.ListConnectionsResponse
		call(connsPath+"ListConnections", &connectionsv1.ListConnectionsRequest{}, &conns)
		if len(conns.GetConnections()) != 2 || conns.GetNextPageToken() != "" {
			t.Errorf("ListConnections: %v", &conns)
		}

		var scheduled fireoncev1.ScheduleJobResponse
		call(jobsPath+"ScheduleJob", f.request("k1", func(r *fireoncev1.ScheduleJobRequest) {
			r.Connection = onConnection(conn.GetConnectionId())
			r.Labels = map[string]string{"user": "ada"}
			r.TimeZone = "Europe/Vienna"
		}), &scheduled)
		j := scheduled.GetJob()
		if !scheduled.GetCreated() || j.GetState() != fireoncev1.JobState_JOB_STATE_SCHEDULED || j.GetSequence() != 1 ||
			string(j.GetPayload().GetCustom().GetData()) != "hello" || !j.GetScheduleTime().AsTime().Equal(f.clock.Now()) ||
			j.GetDelivery() != fireoncev1.Delivery_DELIVERY_ONCE_OR_ASK || j.GetProjectId() != "default" ||
			j.GetStartWindow().GetSeconds() != 7200 || j.GetLabels()["user"] != "ada" || j.GetTimeZone() != "Europe/Vienna" {
			t.Errorf("ScheduleJob: %v", &scheduled)
		}

		var byID, byKey fireoncev1.GetJobResponse
		call(jobsPath+"GetJob", &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: j.GetJobId()}}, &byID)
		call(jobsPath+"GetJob", &fireoncev1.GetJobRequest{
			Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: "k1"}, OmitPayload: true,
		}, &byKey)
		if !proto.Equal(byID.GetJob(), j) || byKey.GetJob().GetJobId() != j.GetJobId() || byKey.GetJob().GetPayload() != nil {
			t.Errorf("GetJob: %v and %v", &byID, &byKey)
		}

		var jobs fireoncev1.ListJobsResponse
		call(jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{Filter: &fireoncev1.JobFilter{
			Labels: map[string]string{"user": "ada"}, ConnectionIds: []string{conn.GetConnectionId()},
		}}, &jobs)
		if len(jobs.GetJobs()) != 1 || jobs.GetJobs()[0].GetPayload() != nil || jobs.GetEventsCursor() != byID.GetEventsCursor() {
			t.Errorf("ListJobs: %v", &jobs)
		}

		stream := c.stream(t.Context(), &fireoncev1.StreamJobEventsRequest{
			Start: &fireoncev1.StreamJobEventsRequest_FromBeginning{FromBeginning: true}, IncludeJob: true,
		})
		first, err := stream.next()
		if err != nil || first.GetHeartbeat() == nil || first.GetCursor() == "" {
			t.Errorf("first message: %v, %v", first, err)
		}
		second, err := stream.next()
		changed := second.GetJobChanged()
		if err != nil || changed.GetJobId() != j.GetJobId() || changed.GetSequence() != 1 ||
			changed.GetCause() != fireoncev1.EventCause_EVENT_CAUSE_SUBMITTED || changed.GetActor() != "api" ||
			changed.GetJob().GetJobId() != j.GetJobId() || changed.GetJob().GetPayload() != nil {
			t.Errorf("second message: %v, %v", second, err)
		}
		stream.close()

		snap := f.needResolution()
		var tries fireoncev1.ListJobAttemptsResponse
		call(jobsPath+"ListJobAttempts", &fireoncev1.ListJobAttemptsRequest{Job: &fireoncev1.ListJobAttemptsRequest_JobId{JobId: j.GetJobId()}}, &tries)
		if len(tries.GetAttempts()) != 1 || tries.GetAttempts()[0].GetOutcome() != fireoncev1.AttemptOutcome_ATTEMPT_OUTCOME_UNKNOWN {
			t.Errorf("ListJobAttempts: %v", &tries)
		}
		var current fireoncev1.GetJobResponse
		call(jobsPath+"GetJob", &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: j.GetJobId()}}, &current)
		if !proto.Equal(current.GetJob().GetLastAttempt(), tries.GetAttempts()[0]) || current.GetJob().GetSequence() != snap.Version {
			t.Errorf("GetJob: %v", &current)
		}
		var resolved fireoncev1.ResolveJobResponse
		call(jobsPath+"ResolveJob", &fireoncev1.ResolveJobRequest{
			Job: &fireoncev1.ResolveJobRequest_JobId{JobId: j.GetJobId()}, Etag: current.GetJob().GetEtag(), Note: "it is there",
			Decision: fireoncev1.Resolution_DECISION_SENT, ExternalId: "post-1",
		}, &resolved)
		if done := resolved.GetJob(); done.GetState() != fireoncev1.JobState_JOB_STATE_SUCCEEDED ||
			done.GetEffect().GetExternalId() != "post-1" || done.GetResolution().GetActor() != "api" || done.GetPayload() == nil {
			t.Errorf("ResolveJob: %v", &resolved)
		}

		other := f.schedule(f.request("k2"))
		var canceled fireoncev1.CancelJobResponse
		call(jobsPath+"CancelJob", &fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: other.GetJobId()}, Etag: other.GetEtag(), Reason: "no"}, &canceled)
		if canceled.GetJob().GetState() != fireoncev1.JobState_JOB_STATE_CANCELED || !canceled.GetPrevented() {
			t.Errorf("CancelJob: %v", &canceled)
		}
	})
}

// TestEveryChangeOverEveryProtocol calls the RPCs that change jobs, and those
// for many jobs, as a user would.
func TestEveryChangeOverEveryProtocol(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		results := f.batch(c, f.request("a", at(f.clock.Now().Add(time.Hour))), f.request("b", at(f.clock.Now().Add(time.Hour))))
		a, b := results[0].GetSuccess().GetJob(), results[1].GetSuccess().GetJob()
		updated, err := f.update(c, a, newPayload(custom("good/v2", "better")))
		f.must(err)
		moved, err := f.reschedule(c, &fireoncev1.RescheduleJobRequest{
			Job: &fireoncev1.RescheduleJobRequest_JobId{JobId: a.GetJobId()}, Etag: updated.GetEtag(), ScheduleTime: timestamppb.New(f.clock.Now().Add(2 * time.Hour)),
		})
		f.must(err)
		due, err := f.runNow(c, &fireoncev1.RunJobNowRequest{Job: &fireoncev1.RunJobNowRequest_JobId{JobId: a.GetJobId()}, Etag: moved.GetEtag()})
		f.must(err)
		if due.GetSequence() != 4 || !proto.Equal(due.GetScheduleTime(), moved.GetScheduleTime()) {
			t.Errorf("job %v", due)
		}
		if failed := f.fail(); failed.ID.String() != a.GetJobId() || !strings.Contains(string(f.snapshot(a.GetJobId()).Payload), "better") {
			t.Errorf("sent job %s", failed.ID)
		}
		again, err := f.retry(c, &fireoncev1.RetryJobRequest{Job: &fireoncev1.RetryJobRequest_JobId{JobId: a.GetJobId()}, Etag: f.read(c, a.GetJobId()).GetEtag()})
		if err != nil || again.GetState() != fireoncev1.JobState_JOB_STATE_RETRYING {
			t.Errorf("retried job %v, %v", again, err)
		}
		f.fail()
		stats, err := ask[adminv1.GetStatsResponse](t, c, getStats, &adminv1.GetStatsRequest{Connection: &adminv1.GetStatsRequest_ConnectionId{ConnectionId: f.conn}})
		f.must(err)
		counts := map[fireoncev1.JobState]int64{}
		for _, n := range stats.GetStateCounts() {
			counts[n.GetState()] = n.GetCount()
		}
		if len(counts) != 11 || counts[fireoncev1.JobState_JOB_STATE_FAILED] != 1 || counts[fireoncev1.JobState_JOB_STATE_SCHEDULED] != 1 ||
			stats.GetStartedCount() != 1 || stats.GetAsOfTime() == nil {
			t.Errorf("stats %v", stats)
		}
		retried, err := f.bulkRetry(c, &adminv1.BulkRetryJobsRequest{Filter: anyJob(), AsOfTime: stats.GetAsOfTime()})
		f.must(err)
		wantCounts(t, retried, 1, 1, 0)
		unknown := f.needResolution()
		ruled, err := f.bulkResolve(c, &adminv1.BulkResolveJobsRequest{
			Filter: anyJob(), AsOfTime: timestamppb.New(f.clock.Now()), Decision: fireoncev1.Resolution_DECISION_SENT, Note: "seen",
		})
		f.must(err)
		wantCounts(t, ruled, 1, 1, 0)
		if got := f.snapshot(unknown.ID.String()); got.State != job.Succeeded || got.ID.String() != a.GetJobId() {
			t.Errorf("job %+v", got.Status)
		}
		canceled, err := f.bulkCancel(c, &adminv1.BulkCancelJobsRequest{Filter: anyJob()})
		f.must(err)
		wantCounts(t, canceled, 1, 1, 0)
		if canceled.GetChangedJobIds()[0] != b.GetJobId() {
			t.Errorf("cancelled %v, want %s", canceled.GetChangedJobIds(), b.GetJobId())
		}
	})
}
