package server_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/apikey"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

const (
	scopeMissing     = fireoncev1.ErrorReason_ERROR_REASON_SCOPE_MISSING
	operatorRequired = fireoncev1.ErrorReason_ERROR_REASON_OPERATOR_REQUIRED
	keyNotFound      = fireoncev1.ErrorReason_ERROR_REASON_API_KEY_NOT_FOUND
)

func requireKey(c *server.Config) { c.RequireKey = true }

// issue stores an API key, and returns it as its holder has it.
func (f *fixture) issue(project string, scopes []string, edit ...func(*store.NewAPIKey)) apikey.Key {
	f.tb.Helper()
	key, err := apikey.New()
	f.must(err)
	hash := key.Hash()
	n := store.NewAPIKey{ID: key.ID, Project: project, NewProject: true, Hash: hash[:], Scopes: scopes}
	for _, e := range edit {
		e(&n)
	}
	_, err = f.store.CreateAPIKey(f.tb.Context(), n)
	f.must(err)
	return key
}

func without(scope string) []string {
	return slices.DeleteFunc(server.Scopes(), func(s string) bool { return s == scope })
}

// invoke calls any procedure of the contract and returns its answer as JSON; of a stream its
// first messages, up to the one that holds until.
func invoke(ctx context.Context, c client, procedure string, req proto.Message, until string) (string, error) {
	if stream, ok := req.(*fireoncev1.StreamJobEventsRequest); ok {
		s := c.stream(ctx, stream)
		defer s.close()
		var text strings.Builder
		for {
			m, err := s.next()
			if errors.Is(err, io.EOF) {
				return text.String(), nil
			}
			if err != nil {
				return text.String(), err
			}
			text.WriteString(protojson.Format(m))
			if until == "" || strings.Contains(text.String(), until) {
				return text.String(), nil
			}
		}
	}
	name := strings.TrimSuffix(string(req.ProtoReflect().Descriptor().FullName()), "Request") + "Response"
	found, err := protoregistry.GlobalTypes.FindMessageByURL(name)
	if err != nil {
		return "", err
	}
	res := found.New().Interface()
	err = c.call(ctx, procedure, req, res)
	return protojson.Format(res), err
}

// reaching is a request of every RPC of the contract, by its procedure, each of
// which names a project, a job, a connection, an API key and a schedule as well as it can.
func reaching(project, jobID, connID, apiKey, jobKey, scheduleID, subscriptionID string) map[string]proto.Message {
	byJob := &fireoncev1.JobFilter{JobIds: []string{jobID}}
	now := timestamppb.Now()
	schedule := &fireoncev1.ScheduleJobRequest{IdempotencyKey: "reaching", Connection: onConnection(connID), Payload: custom("good/v1", "x")}
	sent := fireoncev1.Resolution_DECISION_SENT
	return map[string]proto.Message{
		jobsPath + "ScheduleJob":       schedule,
		jobsPath + "BatchScheduleJobs": &fireoncev1.BatchScheduleJobsRequest{Requests: []*fireoncev1.ScheduleJobRequest{schedule}},
		jobsPath + "GetJob":            &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: jobID}},
		jobsPath + "ListJobs":          &fireoncev1.ListJobsRequest{},
		jobsPath + "StreamJobEvents": &fireoncev1.StreamJobEventsRequest{
			Start:      &fireoncev1.StreamJobEventsRequest_FromBeginning{FromBeginning: true},
			IncludeJob: true, MaxDuration: durationpb.New(900e9),
		},
		jobsPath + "UpdateJob": &fireoncev1.UpdateJobRequest{
			Job: &fireoncev1.UpdateJobRequest_JobId{JobId: jobID}, Etag: "1", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels"}},
		},
		jobsPath + "CancelJob":          &fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: jobID}},
		jobsPath + "DeleteJob":          deleteByID(jobID),
		jobsPath + "RescheduleJob":      &fireoncev1.RescheduleJobRequest{Job: &fireoncev1.RescheduleJobRequest_JobId{JobId: jobID}, ScheduleTime: timestamppb.New(now.AsTime().AddDate(1, 0, 0))},
		jobsPath + "RunJobNow":          &fireoncev1.RunJobNowRequest{Job: &fireoncev1.RunJobNowRequest_JobId{JobId: jobID}},
		jobsPath + "RetryJob":           &fireoncev1.RetryJobRequest{Job: &fireoncev1.RetryJobRequest_JobId{JobId: jobID}, Etag: "1"},
		jobsPath + "ResolveJob":         &fireoncev1.ResolveJobRequest{Job: &fireoncev1.ResolveJobRequest_JobId{JobId: jobID}, Etag: "1", Decision: sent, Note: "n"},
		bulkPath + "BulkCancelJobs":     &adminv1.BulkCancelJobsRequest{Filter: byJob},
		bulkPath + "BulkRetryJobs":      &adminv1.BulkRetryJobsRequest{Filter: byJob, DryRun: true},
		bulkPath + "BulkRescheduleJobs": &adminv1.BulkRescheduleJobsRequest{Filter: byJob, DryRun: true, Delay: durationpb.New(3600e9)},
		bulkPath + "BulkResolveJobs":    &adminv1.BulkResolveJobsRequest{Filter: byJob, DryRun: true, Decision: sent, Note: "n"},
		jobsPath + "ListJobObservations": &fireoncev1.ListJobObservationsRequest{
			Job: &fireoncev1.ListJobObservationsRequest_JobId{JobId: jobID},
		},
		jobsPath + "ListJobEvents":   &fireoncev1.ListJobEventsRequest{Filter: &fireoncev1.EventFilter{JobIds: []string{jobID}}},
		jobsPath + "ListJobAttempts": &fireoncev1.ListJobAttemptsRequest{Job: &fireoncev1.ListJobAttemptsRequest_JobId{JobId: jobID}},

		connsPath + "CreateConnection": &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: jobKey, Connection: &connectionsv1.Connection{Connector: "stub", DisplayName: "reaching"},
		},
		connsPath + "GetConnection":   &connectionsv1.GetConnectionRequest{Connection: &connectionsv1.GetConnectionRequest_ConnectionId{ConnectionId: connID}},
		connsPath + "ListConnections": &connectionsv1.ListConnectionsRequest{Filter: &connectionsv1.ConnectionFilter{ShowDeleted: true}},
		connsPath + "UpdateConnection": &connectionsv1.UpdateConnectionRequest{
			Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: connID}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"display_name"}}, DisplayName: "reached",
		},
		connsPath + "RotateCredential": &connectionsv1.RotateCredentialRequest{
			Connection: &connectionsv1.RotateCredentialRequest_ConnectionId{ConnectionId: connID}, Credential: &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: "reaching"}}},
		},
		connsPath + "TestConnection":   &connectionsv1.TestConnectionRequest{Connection: &connectionsv1.TestConnectionRequest_ConnectionId{ConnectionId: connID}},
		connsPath + "PauseConnection":  &connectionsv1.PauseConnectionRequest{Connection: &connectionsv1.PauseConnectionRequest_ConnectionId{ConnectionId: connID}},
		connsPath + "ResumeConnection": &connectionsv1.ResumeConnectionRequest{Connection: &connectionsv1.ResumeConnectionRequest_ConnectionId{ConnectionId: connID}},
		connsPath + "DeleteConnection": &connectionsv1.DeleteConnectionRequest{Connection: &connectionsv1.DeleteConnectionRequest_ConnectionId{ConnectionId: connID}},
		connsPath + "ListConnectors":   &connectionsv1.ListConnectorsRequest{},
		connsPath + "StartOAuth": &connectionsv1.StartOAuthRequest{
			App: "reaching", Target: &connectionsv1.StartOAuthRequest_ConnectionId{ConnectionId: connID},
		},
		connsPath + "CompleteOAuth": &connectionsv1.CompleteOAuthRequest{State: "reaching", Code: "reaching"},

		incidentsPath + "ListIncidents":   &adminv1.ListIncidentsRequest{},
		incidentsPath + "GetIncident":     &adminv1.GetIncidentRequest{IncidentId: "inc_reaching"},
		incidentsPath + "ResolveIncident": &adminv1.ResolveIncidentRequest{PlanId: jobID},
		incidentsPath + "RedeliverJobs":   &adminv1.RedeliverJobsRequest{IncidentIds: []string{"inc_reaching"}},
		incidentsPath + "GetPlan":         &adminv1.GetPlanRequest{PlanId: jobID},
		incidentsPath + "ListPlans":       &adminv1.ListPlansRequest{},
		incidentsPath + "ListPlanJobs":    &adminv1.ListPlanJobsRequest{PlanId: jobID},

		statsPath + "GetStats":  &adminv1.GetStatsRequest{Connection: &adminv1.GetStatsRequest_ConnectionId{ConnectionId: connID}},
		statsPath + "CountJobs": &adminv1.CountJobsRequest{},
		statsPath + "QueryStats": &adminv1.QueryStatsRequest{
			Bucket: adminv1.StatsBucket_STATS_BUCKET_HOUR, StartTime: now,
		},

		schedsPath + "CreateSchedule": &schedulesv1.CreateScheduleRequest{
			IdempotencyKey: "reaching", Spec: everyHour(), JobTemplate: templateOn(connID),
		},
		schedsPath + "GetSchedule":   &schedulesv1.GetScheduleRequest{Schedule: &schedulesv1.GetScheduleRequest_ScheduleId{ScheduleId: scheduleID}},
		schedsPath + "ListSchedules": &schedulesv1.ListSchedulesRequest{Filter: &schedulesv1.ScheduleFilter{States: []schedulesv1.ScheduleState{1, 2, 3, 4}}},
		schedsPath + "UpdateSchedule": &schedulesv1.UpdateScheduleRequest{
			Schedule: &schedulesv1.UpdateScheduleRequest_ScheduleId{ScheduleId: scheduleID}, Etag: "1", UpdateMask: mask("labels"),
		},
		schedsPath + "DeleteSchedule":      &schedulesv1.DeleteScheduleRequest{Schedule: &schedulesv1.DeleteScheduleRequest_ScheduleId{ScheduleId: scheduleID}},
		schedsPath + "PauseSchedule":       &schedulesv1.PauseScheduleRequest{Schedule: &schedulesv1.PauseScheduleRequest_ScheduleId{ScheduleId: scheduleID}},
		schedsPath + "ResumeSchedule":      &schedulesv1.ResumeScheduleRequest{Schedule: &schedulesv1.ResumeScheduleRequest_ScheduleId{ScheduleId: scheduleID}},
		schedsPath + "BulkPauseSchedules":  &schedulesv1.BulkPauseSchedulesRequest{Filter: anySchedule()},
		schedsPath + "BulkResumeSchedules": &schedulesv1.BulkResumeSchedulesRequest{Filter: anySchedule()},
		schedsPath + "TriggerSchedule":     &schedulesv1.TriggerScheduleRequest{Schedule: &schedulesv1.TriggerScheduleRequest_ScheduleId{ScheduleId: scheduleID}, TriggerKey: "t"},
		schedsPath + "SkipFiring":          &schedulesv1.SkipFiringRequest{Schedule: &schedulesv1.SkipFiringRequest_ScheduleId{ScheduleId: scheduleID}, Name: "2026-07-01T13:00:00/1"},
		schedsPath + "ListFirings":         &schedulesv1.ListFiringsRequest{Schedule: &schedulesv1.ListFiringsRequest_ScheduleId{ScheduleId: scheduleID}},
		schedsPath + "PreviewSchedule":     &schedulesv1.PreviewScheduleRequest{Subject: &schedulesv1.PreviewScheduleRequest_ScheduleId{ScheduleId: scheduleID}},
		schedsPath + "BackfillSchedule": &schedulesv1.BackfillScheduleRequest{
			Schedule:  &schedulesv1.BackfillScheduleRequest_ScheduleId{ScheduleId: scheduleID},
			StartTime: timestamppb.New(time.Date(2026, 6, 30, 0, 0, 0, 0, time.UTC)), EndTime: timestamppb.New(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)),
		},
		schedsPath + "AddScheduleItem": &schedulesv1.AddScheduleItemRequest{
			Schedule: &schedulesv1.AddScheduleItemRequest_ScheduleId{ScheduleId: scheduleID}, IdempotencyKey: "reaching", Payload: letter(),
		},
		schedsPath + "ListScheduleItems": &schedulesv1.ListScheduleItemsRequest{Schedule: &schedulesv1.ListScheduleItemsRequest_ScheduleId{ScheduleId: scheduleID}},
		schedsPath + "UpdateScheduleItem": &schedulesv1.UpdateScheduleItemRequest{
			Schedule: &schedulesv1.UpdateScheduleItemRequest_ScheduleId{ScheduleId: scheduleID}, ItemId: scheduleID, Payload: letter(),
		},
		schedsPath + "MoveScheduleItem": &schedulesv1.MoveScheduleItemRequest{
			Schedule: &schedulesv1.MoveScheduleItemRequest_ScheduleId{ScheduleId: scheduleID}, ItemId: scheduleID, To: &schedulesv1.MoveScheduleItemRequest_End{End: true},
		},
		schedsPath + "RemoveScheduleItem": &schedulesv1.RemoveScheduleItemRequest{
			Schedule: &schedulesv1.RemoveScheduleItemRequest_ScheduleId{ScheduleId: scheduleID}, ItemId: scheduleID,
		},

		subsPath + "GetSubscription":    &subscriptionsv1.GetSubscriptionRequest{Subscription: &subscriptionsv1.GetSubscriptionRequest_SubscriptionId{SubscriptionId: subscriptionID}},
		subsPath + "DeleteSubscription": &subscriptionsv1.DeleteSubscriptionRequest{Subscription: &subscriptionsv1.DeleteSubscriptionRequest_SubscriptionId{SubscriptionId: subscriptionID}},
		subsPath + "PauseSubscription":  &subscriptionsv1.PauseSubscriptionRequest{Subscription: &subscriptionsv1.PauseSubscriptionRequest_SubscriptionId{SubscriptionId: subscriptionID}},
		subsPath + "ResumeSubscription": &subscriptionsv1.ResumeSubscriptionRequest{Subscription: &subscriptionsv1.ResumeSubscriptionRequest_SubscriptionId{SubscriptionId: subscriptionID}},
		subsPath + "TestSubscription":   &subscriptionsv1.TestSubscriptionRequest{Subscription: &subscriptionsv1.TestSubscriptionRequest_SubscriptionId{SubscriptionId: subscriptionID}},
		subsPath + "CreateSubscription": &subscriptionsv1.CreateSubscriptionRequest{IdempotencyKey: "reaching", Connection: &subscriptionsv1.CreateSubscriptionRequest_ConnectionId{ConnectionId: connID}},
		subsPath + "ListSubscriptions":  &subscriptionsv1.ListSubscriptionsRequest{},
		subsPath + "ListNotices":        &subscriptionsv1.ListNoticesRequest{Subscription: &subscriptionsv1.ListNoticesRequest_SubscriptionId{SubscriptionId: subscriptionID}},
		subsPath + "UpdateSubscription": &subscriptionsv1.UpdateSubscriptionRequest{
			Subscription: &subscriptionsv1.UpdateSubscriptionRequest_SubscriptionId{SubscriptionId: subscriptionID}, Etag: "1", UpdateMask: mask("display_name"),
		},
		subsPath + "RedeliverNotices": &subscriptionsv1.RedeliverNoticesRequest{
			Subscription: &subscriptionsv1.RedeliverNoticesRequest_SubscriptionId{SubscriptionId: subscriptionID}, From: &subscriptionsv1.RedeliverNoticesRequest_Number{Number: 1},
		},

		accessPath + "CreateApiKey": &adminv1.CreateApiKeyRequest{ProjectId: project, Scopes: []string{server.ScopeAdmin}},
		accessPath + "ListApiKeys":  &adminv1.ListApiKeysRequest{ProjectId: project},
		accessPath + "RevokeApiKey": &adminv1.RevokeApiKeyRequest{ApiKeyId: apiKey},
		// Of all projects, and the operator's.
		accessPath + "ListSealingKeys":  &adminv1.ListSealingKeysRequest{},
		accessPath + "RotateSealingKey": &adminv1.RotateSealingKeyRequest{},
		accessPath + "ListProjects":     &adminv1.ListProjectsRequest{},
		accessPath + "EraseProject":     &adminv1.EraseProjectRequest{ProjectId: cmp.Or(project, "scoped")},
		serversPath + "ListServers":     &adminv1.ListServersRequest{},
		serversPath + "RunDue":          &adminv1.RunDueRequest{},
		pausesPath + "CreatePause": &adminv1.CreatePauseRequest{
			Target: &adminv1.PauseTarget{Target: &adminv1.PauseTarget_ConnectionId{ConnectionId: connID}}, BeginTime: timestamppb.New(now.AsTime().AddDate(0, 1, 0)),
		},
		pausesPath + "EndPause":   &adminv1.EndPauseRequest{PauseId: scheduleID},
		pausesPath + "ListPauses": &adminv1.ListPausesRequest{},
	}
}

// listing are RPCs that name no object, and those whose filter just selects nothing.
var listing = []string{
	"ListJobs", "StreamJobEvents", "BulkCancelJobs", "BulkRetryJobs", "BulkRescheduleJobs", "BulkResolveJobs", "BatchScheduleJobs",
	"ListConnections", "ListConnectors", "CreateConnection", "CountJobs", "QueryStats", "ListIncidents", "ListPlans",
	"ListSchedules", "BulkPauseSchedules", "BulkResumeSchedules", "ListSubscriptions",
	"ListPauses",
	"RunDue", // works for all projects, and names none
}

// procedures are those of the contract, each with a request.
func procedures(t *testing.T, requests map[string]proto.Message) []string {
	t.Helper()
	var out []string
	for m := range server.Methods() {
		p := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
		if requests[p] == nil {
			t.Errorf("no request for %s", p)
			continue
		}
		if server.ScopeOf(p) == "" {
			t.Errorf("%s needs no scope: no key may call it", p)
		}
		out = append(out, p)
	}
	if len(out) < 33 || len(out) > len(requests) {
		t.Errorf("only %d procedures", len(out))
	}
	return out
}

// TestProjectsApart: a key of one project finds nothing of another one, changes nothing of it,
// and does not reveal that it exists.
func TestProjectsApart(t *testing.T) {
	const canary = "only-for-the-default-project"
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, requireKey)
			c := dial(f)
			their := f.issue(server.DefaultProject, server.Scopes())
			theirs := bring(t.Context(), their.Reveal())
			mine := bring(t.Context(), f.issue("other", server.Scopes()).Reveal())
			var made fireoncev1.ScheduleJobResponse
			f.must(c.call(theirs, scheduleJob, f.request(canary, func(r *scheduleRequest) {
				r.Payload, r.Labels = custom("good/v1", canary), map[string]string{"label": canary}
			}), &made))
			victim := made.GetJob().GetJobId()
			f.must(c.call(theirs, scheduleJob, f.request("second"), &fireoncev1.ScheduleJobResponse{})) // for a second page
			page, err := askWith[fireoncev1.ListJobsResponse](theirs, c, jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{PageSize: 1})
			f.must(err)
			ownConn, own := f.inProject(mine, t, "other", c)
			sched := f.recurring(bring(t.Context(), their.Reveal()), c, f.newSchedule(canary, labelled(canary)))
			sub := f.subscribed(t)
			before, conn, sat := f.snapshot(victim), f.asStored(f.conn), f.satSchedule(sched.GetScheduleId())

			requests := reaching(server.DefaultProject, victim, f.conn, their.ID, "fixture", sched.GetScheduleId(), sub.ID.String())
			for _, p := range procedures(t, requests) {
				short := p[strings.LastIndex(p, "/")+1:]
				text, err := invoke(mine, c, p, requests[p], own)
				var e *wireError
				switch {
				case err == nil && !slices.Contains(listing, short):
					t.Errorf("%s succeeded: %s", short, text)
				case err != nil && (!errors.As(err, &e) || e.code != connect.CodeNotFound && e.detail.GetReason() != operatorRequired):
					t.Errorf("%s: %v", short, err)
				case strings.Contains(text, sched.GetScheduleId()) || strings.Contains(text, victim) || strings.Contains(text, their.ID) || strings.Contains(text, f.conn) && short != "BatchScheduleJobs" ||
					strings.Contains(text, canary) || strings.Contains(text, "the fixture's"):
					t.Errorf("%s reveals another project: %s", short, text)
				}
			}
			if got := f.snapshot(victim); got.Version != before.Version {
				t.Errorf("the job was changed: %+v", got)
			}
			if got := f.asStored(f.conn); got.Version != conn.Version {
				t.Errorf("the connection was changed: %+v", got)
			}
			if got := f.satSchedule(sched.GetScheduleId()); got.Revision != sat.Revision {
				t.Errorf("the schedule was changed: %+v", got)
			}
			if got, err := f.store.Subscription(t.Context(), store.Ref{ID: sub.ID}); err != nil || got.Revision != sub.Revision {
				t.Errorf("the subscription was changed: %+v, %v", got, err)
			}
			if k, err := f.store.APIKey(t.Context(), their.ID); err != nil || !k.Live() {
				t.Errorf("the API key was changed: %+v, %v", k, err)
			}
			f.otherWays(mine, t, c, victim, ownConn, canary, page)
		})
	}
}

// otherWays are keys, replies, tokens and cursors of another project.
func (f *fixture) otherWays(mine context.Context, t *testing.T, c client, victim, ownConn, canary string, page *fireoncev1.ListJobsResponse) {
	t.Helper()
	for what, try := range map[string]struct {
		procedure string
		req       proto.Message
		want      fireoncev1.ErrorReason
	}{
		"a key": {
			jobsPath + "GetJob", &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: canary}},
			fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND,
		},
		"a reply": {
			scheduleJob, f.request("reply", func(r *scheduleRequest) { r.Connection, r.ReplyTo = onConnection(ownConn), replyingTo(victim) }),
			fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND,
		},
		"a cursor": {
			jobsPath + "StreamJobEvents", &fireoncev1.StreamJobEventsRequest{
				Start: &fireoncev1.StreamJobEventsRequest_AfterCursor{AfterCursor: page.GetEventsCursor()},
			}, fireoncev1.ErrorReason_ERROR_REASON_CURSOR_INVALID,
		},
		"a page token": {
			jobsPath + "ListJobs", &fireoncev1.ListJobsRequest{PageToken: page.GetNextPageToken()},
			fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID,
		},
	} {
		_, err := invoke(mine, c, try.procedure, try.req, "")
		if err == nil {
			t.Errorf("%s of another project was taken", what)
			continue
		}
		wantReason(t, err, try.want)
	}
	// The same key is free in each project.
	var res fireoncev1.ScheduleJobResponse
	f.must(c.call(mine, scheduleJob, f.request(canary, func(r *scheduleRequest) { r.Connection = onConnection(ownConn) }), &res))
	if !res.GetCreated() || res.GetJob().GetJobId() == victim || res.GetJob().GetProjectId() != "other" {
		t.Errorf("the key gave %v", res.GetJob())
	}
}

// askWith is ask with a context.
func askWith[Res any, Message interface {
	*Res
	proto.Message
}](ctx context.Context, c client, procedure string, req proto.Message) (Message, error) {
	res := Message(new(Res))
	err := c.call(ctx, procedure, req, res)
	return res, err
}

// inProject makes a connection and two jobs of a project.
func (f *fixture) inProject(ctx context.Context, t *testing.T, project string, c client) (conn, jobID string) {
	t.Helper()
	made, err := askWith[connectionsv1.CreateConnectionResponse](ctx, c, connsPath+"CreateConnection", &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: "own", Connection: &connectionsv1.Connection{Connector: "stub", DisplayName: "own"},
	})
	f.must(err)
	conn = made.GetConnection().GetConnectionId()
	if got := made.GetConnection().GetProjectId(); got != project {
		t.Errorf("a connection of project %q", got)
	}
	res, err := askWith[fireoncev1.ScheduleJobResponse](ctx, c, scheduleJob, f.request("own", func(r *scheduleRequest) { r.Connection = onConnection(conn) }))
	f.must(err)
	if got := res.GetJob().GetProjectId(); got != project {
		t.Errorf("a job of project %q", got)
	}
	return conn, res.GetJob().GetJobId()
}

func (f *fixture) asStored(text string) store.Connection {
	f.tb.Helper()
	conn, err := f.store.Connection(f.tb.Context(), store.Ref{ID: f.id(text)})
	f.must(err)
	return conn
}

// subscribed stores a subscription of the fixture's project.
func (f *fixture) subscribed(t *testing.T) store.Subscription {
	t.Helper()
	s := store.Subscription{ID: job.ID(uuid.Must(uuid.NewV7())), Project: server.DefaultProject, Key: "told", Connection: f.id(f.conn), DisplayName: "the fixture's"}
	out, _, err := f.store.CreateSubscription(t.Context(), store.NewSubscription{Subscription: s})
	f.must(err)
	return out
}

// TestScopes: every RPC refuses a key with all scopes but the one that it needs, before its
// request is read, and serves a key with that one alone.
func TestScopes(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, requireKey)
			c := dial(f)
			requests := reaching("", absent, absent, strings.Repeat("0", 16), "scoped", absent, absent)
			lacking, having := map[string]context.Context{}, map[string]context.Context{}
			for _, scope := range server.Scopes() {
				lacking[scope] = bring(t.Context(), f.issue("scoped", without(scope)).Reveal())
				having[scope] = bring(t.Context(), f.issue("scoped", []string{scope}).Reveal())
			}
			for _, p := range procedures(t, requests) {
				scope := server.ScopeOf(p)
				_, err := invoke(lacking[scope], c, p, requests[p], "")
				if name == "curl" && strings.HasSuffix(p, "/StreamJobEvents") {
					if err == nil { // it has no frames before the error
						t.Errorf("%s without %s", p, scope)
					}
				} else if e := wantReason(t, err, scopeMissing); e.detail.GetMetadata()["scope"] != scope {
					t.Errorf("%s: %v", p, e.detail)
				}
				_, err = invoke(having[scope], c, p, requests[p], "")
				var e *wireError
				if errors.As(err, &e) && (e.detail.GetReason() == scopeMissing || e.code == connect.CodeUnauthenticated) {
					t.Errorf("%s with %s: %v", p, scope, err)
				}
			}
			if keys, err := f.store.ListAPIKeys(t.Context(), "scoped", "", store.MaxBatch); err != nil || len(keys) != 2*len(server.Scopes())+1 {
				t.Errorf("%d API keys, %v", len(keys), err) // one was made by who may
			}
			if page, err := f.store.List(t.Context(), store.JobQuery{Project: "scoped", Limit: store.MaxBatch}); err != nil || len(page.Jobs) != 0 {
				t.Errorf("%d jobs, %v", len(page.Jobs), err)
			}
		})
	}
}

// TestScopesOfStatus: only the operator reads the state that all projects share.
func TestScopesOfStatus(t *testing.T) {
	f := start(t, requireKey)
	for scope, want := range map[string]int{server.ScopeAdmin: http.StatusOK, server.ScopeJobsRead: http.StatusForbidden} {
		res, text := f.do(http.MethodGet, "/status", "", map[string]string{
			"Authorization": "Bearer " + f.issue("other", []string{scope}).Reveal(),
		})
		if res.StatusCode != want || want != http.StatusOK && strings.Contains(text, "store_id") {
			t.Errorf("%s: %d %s", scope, res.StatusCode, text)
		}
	}
	if got, err := server.ParseScopes("admin,jobs:read,admin"); err != nil || !slices.Equal(got, []string{"jobs:read", "admin"}) {
		t.Errorf("scopes %v, %v", got, err)
	}
	for _, bad := range []string{"", "jobs", "jobs:read,", "all,admin", " jobs:read"} {
		if got, err := server.ParseScopes(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
	if got, err := server.ParseScopes("all"); err != nil || len(got) != len(server.Scopes()) {
		t.Errorf("all: %v, %v", got, err)
	}
}
