package server_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// The golden file has each reason as it crosses the wire in each protocol. To write it:
//
//	FIREONCE_WRITE_GOLDEN=1 go test ./server -run TestErrorsGolden
const (
	errorsGolden = "testdata/errors.golden"
	errorsPage   = "../docs/errors.md"
	writeGolden  = "FIREONCE_WRITE_GOLDEN"
)

// wrongCall is a call that fails.
type wrongCall struct {
	procedure string
	request   proto.Message
	key       string // the API key that it brings
}

// callAt is a call that fails at a server of its own.
type callAt struct {
	at *fixture
	wrongCall
}

// raising is a store that fails to read jobs while it has an error.
type raising struct {
	server.Store
	mu  sync.Mutex
	err error
}

func (r *raising) raise(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *raising) Job(ctx context.Context, ref store.Ref) (job.Snapshot, error) {
	r.mu.Lock()
	err := r.err
	r.mu.Unlock()
	if err != nil {
		return job.Snapshot{}, err
	}
	return r.Store.Job(ctx, ref)
}

func TestErrorsGolden(t *testing.T) {
	t.Parallel()
	from := &raising{}
	f := start(t, requireKey, func(c *server.Config) {
		from.Store, c.Store = c.Store, from
		c.Limits.Request, c.Limits.Batch = 300<<10, 400<<10
	})
	operator := f.issue(server.DefaultProject, server.Scopes(), func(n *store.NewAPIKey) { n.NewProject = false })
	calls := wrongCalls(f, operator.Reveal())
	elsewhere := callsElsewhere(t)
	samples := server.Samples()
	var got bytes.Buffer
	for _, reason := range everyReason() {
		name := strings.TrimPrefix(reason.String(), "ERROR_REASON_")
		call, provoked := calls[reason]
		at := f
		if e, own := elsewhere[reason]; own {
			call, at, provoked = e.wrongCall, e.at, true
		}
		if !provoked {
			sample, has := samples[reason]
			if !has {
				t.Errorf("%s: nothing provokes it; add it to wrongCalls, or to Samples", name)
				continue
			}
			from.raise(sample)
			call = wrongCall{procedure: jobsPath + "GetJob", request: &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: absent}}, key: operator.Reveal()}
		}
		fmt.Fprintf(&got, "== %s\n", name)
		at.inEachProtocol(t, &got, name, call)
		from.raise(nil)
	}
	if os.Getenv(writeGolden) != "" {
		if err := os.WriteFile(errorsGolden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(errorsGolden)
	if err != nil {
		t.Fatal(err)
	}
	if was, is, line := firstDifference(string(want), got.String()); line > 0 {
		t.Errorf("%s, line %d:\n was %s\n is  %s\nIf that is meant: %s=1 go test ./server -run TestErrorsGolden", errorsGolden, line, was, is, writeGolden)
	}
}

// wrongCalls are calls that fail, each for its reason.
func wrongCalls(f *fixture, key string) map[fireoncev1.ErrorReason]wrongCall {
	ctx := context.WithValue(f.tb.Context(), keyBrought{}, key)
	c := overConnect(f)
	schedule := func(edit func(*scheduleRequest)) wrongCall {
		return wrongCall{procedure: scheduleJob, request: f.request("k", edit), key: key}
	}
	create := func(edit func(*connectionsv1.CreateConnectionRequest)) wrongCall {
		r := &connectionsv1.CreateConnectionRequest{IdempotencyKey: "new", Connection: &connectionsv1.Connection{Connector: "stub"}}
		edit(r)
		return wrongCall{procedure: connsPath + "CreateConnection", request: r, key: key}
	}
	byID := func(id string) *fireoncev1.GetJobRequest {
		return &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: id}}
	}
	ended := func(key string) string {
		j, err := askWith[fireoncev1.ScheduleJobResponse](ctx, c, scheduleJob, f.request(key))
		f.must(err)
		f.learn(f.id(j.GetJob().GetJobId()), job.CancelAsked{})
		return j.GetJob().GetJobId()
	}
	answered := ended("answered")
	f.must(c.call(ctx, scheduleJob, f.request("answer", replyTo(answered)), &fireoncev1.ScheduleJobResponse{}))
	f.clock.advance(store.LeastKept)
	var bound fireoncev1.ScheduleJobResponse
	f.must(c.call(ctx, scheduleJob, f.request("bound", func(r *scheduleRequest) {
		r.ScheduleTime = timestamppb.New(f.clock.Now().Add(time.Hour))
	}), &bound))
	var replies []*scheduleRequest
	for i := range store.MaxReplies {
		replies = append(replies, f.request(fmt.Sprint("reply", i), replyTo(bound.GetJob().GetJobId())))
	}
	f.must(c.call(ctx, jobsPath+"BatchScheduleJobs", &fireoncev1.BatchScheduleJobsRequest{Requests: replies}, &fireoncev1.BatchScheduleJobsResponse{}))
	keyed := f.keyed(server.DefaultProject)
	f.must(c.call(ctx, scheduleJob, f.charge(keyed, "charge", "ch_1"), &fireoncev1.ScheduleJobResponse{}))
	var gone connectionsv1.CreateConnectionResponse
	f.must(c.call(ctx, connsPath+"CreateConnection", &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: "gone", Connection: &connectionsv1.Connection{Connector: "stub"},
	}, &gone))
	f.must(c.call(ctx, connsPath+"DeleteConnection", deletion(gone.GetConnection().GetConnectionId()),
		&connectionsv1.DeleteConnectionResponse{}))
	reader := f.issue(server.DefaultProject, []string{server.ScopeConnectionsRead}, func(n *store.NewAPIKey) { n.NewProject = false })
	large := func(n int) *fireoncev1.Payload { return custom("good/v1", strings.Repeat("x", n)) }
	labels := make(map[string]string)
	for i := range 40 {
		labels[fmt.Sprint("label", i)] = ""
	}
	return map[fireoncev1.ErrorReason]wrongCall{
		fireoncev1.ErrorReason_ERROR_REASON_TIME_IN_PAST: schedule(func(r *scheduleRequest) { r.ScheduleTime = timestamppb.New(time.Unix(1, 0)) }),
		fireoncev1.ErrorReason_ERROR_REASON_TIME_TOO_FAR: schedule(func(r *scheduleRequest) { r.ScheduleTime = timestamppb.New(time.Unix(1<<33, 0)) }),
		fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_TOO_LARGE: schedule(func(r *scheduleRequest) {
			r.Payload = &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{
				Sender: "a@example.org", To: []string{"b@example.org"}, TextBody: strings.Repeat("x", 140<<10), HtmlBody: strings.Repeat("x", 140<<10),
			}}}
		}),
		fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_CONNECTION_MISMATCH: schedule(func(r *scheduleRequest) {
			r.Payload = &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{Sender: "a@example.org", To: []string{"b@example.org"}}}}
		}),
		fireoncev1.ErrorReason_ERROR_REASON_HEADER_NOT_ALLOWED: schedule(func(r *scheduleRequest) { r.Payload = custom("header/v1", "") }),
		fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID: {jobsPath + "ListJobs", &fireoncev1.ListJobsRequest{PageToken: "nonsense"}, key},
		fireoncev1.ErrorReason_ERROR_REASON_KEY_RESERVED:       schedule(func(r *scheduleRequest) { r.IdempotencyKey = "fireonce:mine" }),
		fireoncev1.ErrorReason_ERROR_REASON_BATCH_TOO_LARGE: {jobsPath + "BatchScheduleJobs", &fireoncev1.BatchScheduleJobsRequest{
			Requests: []*scheduleRequest{{Payload: large(200 << 10)}, {Payload: large(200 << 10)}, {Payload: large(200 << 10)}},
		}, key},
		fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID: schedule(func(r *scheduleRequest) { r.Payload = custom("bad/v1", "") }),
		fireoncev1.ErrorReason_ERROR_REASON_CONNECTOR_UNKNOWN: create(func(r *connectionsv1.CreateConnectionRequest) {
			r.Connection.Connector = "carrier-pigeon"
		}),
		fireoncev1.ErrorReason_ERROR_REASON_SETTINGS_INVALID: create(func(r *connectionsv1.CreateConnectionRequest) { r.Connection.Settings = webhookSettings() }),
		fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_MISMATCH: create(func(r *connectionsv1.CreateConnectionRequest) {
			r.Credential = &connectionsv1.Credential{Kind: &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: "u", Password: "p"}}}
		}),
		fireoncev1.ErrorReason_ERROR_REASON_OAUTH_APP_UNKNOWN: {connsPath + "StartOAuth", &connectionsv1.StartOAuthRequest{
			App: "x", Target: &connectionsv1.StartOAuthRequest_Create{Create: &connectionsv1.CreateConnectionRequest{
				IdempotencyKey: "login", Connection: &connectionsv1.Connection{Connector: "stub"},
			}},
		}, key},
		fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_ELEMENTS: schedule(func(r *scheduleRequest) { r.Labels = labels }),
		fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID: schedule(func(r *scheduleRequest) {
			r.IdempotencyKey, r.Connection, r.Payload = "a b", onConnection("orders"), nil
			r.Labels = map[string]string{"Team": "blue"}
		}),
		fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED: schedule(func(r *scheduleRequest) { r.IdempotencyKey = "bound" }),
		fireoncev1.ErrorReason_ERROR_REASON_EFFECT_KEY_TAKEN:       {scheduleJob, f.charge(keyed, "k", "ch_1"), key},
		fireoncev1.ErrorReason_ERROR_REASON_PAUSE_NOT_FOUND:        {pausesPath + "EndPause", &adminv1.EndPauseRequest{PauseId: absent}, key},
		fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND:          {jobsPath + "GetJob", byID(absent), key},
		fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND:   schedule(func(r *scheduleRequest) { r.Connection = onConnection(absent) }),
		fireoncev1.ErrorReason_ERROR_REASON_OAUTH_LOGIN_NOT_FOUND: {connsPath + "CompleteOAuth", &connectionsv1.CompleteOAuthRequest{
			State: strings.Repeat("s", 43), Code: "code",
		}, key},
		fireoncev1.ErrorReason_ERROR_REASON_JOB_STATE: {jobsPath + "RetryJob", &fireoncev1.RetryJobRequest{
			Job: &fireoncev1.RetryJobRequest_JobId{JobId: bound.GetJob().GetJobId()}, Etag: bound.GetJob().GetEtag(),
		}, key},
		fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_DISABLED: schedule(func(r *scheduleRequest) { r.Connection = onConnection(gone.GetConnection().GetConnectionId()) }),
		fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_IN_USE:   {connsPath + "DeleteConnection", deletion(f.conn), key},
		fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH: {jobsPath + "CancelJob", &fireoncev1.CancelJobRequest{
			Job: &fireoncev1.CancelJobRequest_JobId{JobId: bound.GetJob().GetJobId()}, Etag: "v99",
		}, key},
		fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_REPLIES:      schedule(replyTo(bound.GetJob().GetJobId())),
		fireoncev1.ErrorReason_ERROR_REASON_RETENTION_NOT_REACHED: {deleteJob, deleteByID(ended("just-ended")), key},
		fireoncev1.ErrorReason_ERROR_REASON_JOB_HAS_REPLIES:       {deleteJob, deleteByID(answered), key},
		fireoncev1.ErrorReason_ERROR_REASON_REQUEST_TOO_LARGE:     schedule(func(r *scheduleRequest) { r.Payload = large(400 << 10) }),
		fireoncev1.ErrorReason_ERROR_REASON_SCOPE_MISSING:         {jobsPath + "GetJob", byID(absent), reader.Reveal()},
		fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_INVALID:    {jobsPath + "GetJob", byID(absent), ""},
		fireoncev1.ErrorReason_ERROR_REASON_OPERATOR_REQUIRED:     {accessPath + "RotateSealingKey", &adminv1.RotateSealingKeyRequest{}, key},
	}
}

// callsElsewhere are calls that fail at servers of their own, each made so that its reason
// is true of it.
func callsElsewhere(t *testing.T) map[fireoncev1.ErrorReason]callAt {
	t.Helper()
	out := make(map[fireoncev1.ErrorReason]callAt)

	bare := start(t)
	out[fireoncev1.ErrorReason_ERROR_REASON_CURSOR_INVALID] = callAt{bare, wrongCall{
		procedure: jobsPath + "ListJobEvents", request: &fireoncev1.ListJobEventsRequest{AfterCursor: "nonsense"},
	}}

	restored := start(t)
	page, err := ask[fireoncev1.ListJobsResponse](t, overConnect(restored), jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{})
	restored.must(err)
	restored.must(restored.store.Quarantine(t.Context(), "restored")) // cursors of before mean nothing
	out[fireoncev1.ErrorReason_ERROR_REASON_CURSOR_EXPIRED] = callAt{restored, wrongCall{
		procedure: jobsPath + "ListJobEvents", request: &fireoncev1.ListJobEventsRequest{AfterCursor: page.GetEventsCursor()},
	}}

	full := start(t, limitedTo("jobs=1"))
	full.schedule(full.request("first"))
	out[fireoncev1.ErrorReason_ERROR_REASON_QUOTA_EXCEEDED] = callAt{full, wrongCall{procedure: scheduleJob, request: full.request("second")}}

	fenced := start(t)
	fenced.schedule(fenced.request("k"))
	open := fenced.arm()
	fenced.learn(open.ID, job.Outcome{Attempt: open.Attempt, Result: job.ResultUnknown, Kind: job.FailAmbiguous})
	out[fireoncev1.ErrorReason_ERROR_REASON_RESEND_TOO_EARLY] = callAt{fenced, wrongCall{
		procedure: jobsPath + "ResolveJob", request: &fireoncev1.ResolveJobRequest{
			Job:  &fireoncev1.ResolveJobRequest_JobId{JobId: open.ID.String()},
			Etag: fenced.read(overConnect(fenced), open.ID.String()).GetEtag(), Decision: fireoncev1.Resolution_DECISION_RESEND,
			Note: "I looked", OverrideReconciler: true,
		},
	}}

	access := start(t, withOperator)
	create := func(project, name string, fresh bool) *adminv1.CreateApiKeyRequest {
		return &adminv1.CreateApiKeyRequest{ProjectId: project, CreateProject: fresh, Name: name, Scopes: []string{server.ScopeJobsRead}}
	}
	_, err = askWith[adminv1.CreateApiKeyResponse](bring(t.Context(), operatorKey), overConnect(access), accessPath+"CreateApiKey", create("shop", "till", true))
	access.must(err)
	for reason, call := range map[fireoncev1.ErrorReason]wrongCall{
		fireoncev1.ErrorReason_ERROR_REASON_API_KEY_NAME_TAKEN: {procedure: accessPath + "CreateApiKey", request: create("shop", "till", false)},
		fireoncev1.ErrorReason_ERROR_REASON_PROJECT_NOT_FOUND:  {procedure: accessPath + "CreateApiKey", request: create("nowhere", "till", false)},
		fireoncev1.ErrorReason_ERROR_REASON_API_KEY_NOT_FOUND: {
			procedure: accessPath + "RevokeApiKey", request: &adminv1.RevokeApiKeyRequest{ApiKeyId: strings.Repeat("0", 16)},
		},
	} {
		call.key = operatorKey
		out[reason] = callAt{access, call}
	}

	out[fireoncev1.ErrorReason_ERROR_REASON_PROJECT_IN_USE] = callAt{access, wrongCall{
		procedure: eraseProject, request: &adminv1.EraseProjectRequest{ProjectId: "shop"}, key: operatorKey,
	}}

	troubled := start(t)
	troubled.schedule(troubled.request("k"))
	troubled.needResolution()
	made, err := troubled.resolveIncident(overConnect(troubled), &adminv1.ResolveIncidentRequest{
		IncidentId: troubled.incident(overConnect(troubled), unknownKind).GetIncidentId(), Decision: notSent, Note: "n",
	})
	troubled.must(err)
	troubled.clock.advance(store.PlanKept + time.Second)
	for reason, call := range map[fireoncev1.ErrorReason]wrongCall{
		fireoncev1.ErrorReason_ERROR_REASON_INCIDENT_NOT_FOUND: {procedure: incidentsPath + "GetIncident", request: &adminv1.GetIncidentRequest{IncidentId: "inc_aaaaaaaaaaaaaaaa"}},
		fireoncev1.ErrorReason_ERROR_REASON_PLAN_NOT_FOUND:     {procedure: incidentsPath + "GetPlan", request: &adminv1.GetPlanRequest{PlanId: "00000000-0000-0000-0000-000000000001"}},
		fireoncev1.ErrorReason_ERROR_REASON_PLAN_OVER:          {procedure: incidentsPath + "ResolveIncident", request: &adminv1.ResolveIncidentRequest{PlanId: made.GetPlanId()}},
	} {
		out[reason] = callAt{troubled, call}
	}

	copied := start(t)
	old := copied.schedule(copied.request("old"))
	copied.learn(copied.id(old.GetJobId()), job.CancelAsked{})
	copied.clock.advance(store.LeastKept)
	copied.must(copied.store.Quarantine(t.Context(), "a copy"))
	out[fireoncev1.ErrorReason_ERROR_REASON_QUARANTINED] = callAt{copied, wrongCall{procedure: deleteJob, request: deleteByID(old.GetJobId())}}

	for reason, call := range callsOfSubscriptions(t) {
		out[reason] = call
	}
	for reason, call := range callsOfSchedules(t) {
		out[reason] = call
	}

	_, oauthApps := withOAuth(t)
	login := newMember("login")
	login.RedirectUrl = "https://evil.example/"
	out[fireoncev1.ErrorReason_ERROR_REASON_REDIRECT_NOT_ALLOWED] = callAt{start(t, oauthApps), wrongCall{procedure: connsPath + "StartOAuth", request: login}}

	out[fireoncev1.ErrorReason_ERROR_REASON_CONNECTOR_UNAVAILABLE] = callAt{bare, wrongCall{
		procedure: connsPath + "CreateConnection", request: &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: "away", Connection: &connectionsv1.Connection{Connector: "stub", Settings: customOf("away")},
		},
	}}

	social := start(t, withSocial(func() {}))
	c := overConnect(social)
	ann, err := social.rotate(c, social.connect(c, "c", "ann-1"), "ann-2", "")
	social.must(err)
	out[fireoncev1.ErrorReason_ERROR_REASON_IDENTITY_MISMATCH] = callAt{social, wrongCall{
		procedure: connsPath + "RotateCredential", request: &connectionsv1.RotateCredentialRequest{
			Connection: &connectionsv1.RotateCredentialRequest_ConnectionId{ConnectionId: ann.GetConnectionId()}, Credential: token("bob-1"), Etag: ann.GetEtag(),
		},
	}}
	out[fireoncev1.ErrorReason_ERROR_REASON_PLATFORM_UNAVAILABLE] = callAt{social, wrongCall{
		procedure: connsPath + "RotateCredential", request: &connectionsv1.RotateCredentialRequest{
			Connection: &connectionsv1.RotateCredentialRequest_ConnectionId{ConnectionId: ann.GetConnectionId()}, Credential: token("down-1"), Etag: ann.GetEtag(),
		},
	}}
	return out
}

// callsOfSubscriptions are calls about subscriptions that fail.
func callsOfSubscriptions(t *testing.T) map[fireoncev1.ErrorReason]callAt {
	t.Helper()
	f := start(t)
	c := overConnect(f)
	conn := f.told(t.Context(), c, "told", "https://told.example/x")
	f.newSubscriptionAt(t.Context(), c, newSubscription(conn, "s"))
	f.newSubscriptionAt(t.Context(), c, newSubscription(conn, "gone"))
	_, err := askWith[subscriptionsv1.DeleteSubscriptionResponse](t.Context(), c, subsPath+"DeleteSubscription", &subscriptionsv1.DeleteSubscriptionRequest{
		Subscription: &subscriptionsv1.DeleteSubscriptionRequest_IdempotencyKey{IdempotencyKey: "gone"},
	})
	f.must(err)
	out := make(map[fireoncev1.ErrorReason]callAt)
	for reason, call := range map[fireoncev1.ErrorReason]wrongCall{
		fireoncev1.ErrorReason_ERROR_REASON_SUBSCRIPTION_NOT_FOUND: {procedure: subsPath + "GetSubscription", request: &subscriptionsv1.GetSubscriptionRequest{
			Subscription: &subscriptionsv1.GetSubscriptionRequest_IdempotencyKey{IdempotencyKey: "nobody"},
		}},
		fireoncev1.ErrorReason_ERROR_REASON_NOTICE_NOT_FOUND: {procedure: subsPath + "RedeliverNotices", request: &subscriptionsv1.RedeliverNoticesRequest{
			Subscription: &subscriptionsv1.RedeliverNoticesRequest_IdempotencyKey{IdempotencyKey: "s"}, From: &subscriptionsv1.RedeliverNoticesRequest_Number{Number: 7},
		}},
		fireoncev1.ErrorReason_ERROR_REASON_SUBSCRIPTION_STATE: {procedure: subsPath + "PauseSubscription", request: &subscriptionsv1.PauseSubscriptionRequest{
			Subscription: &subscriptionsv1.PauseSubscriptionRequest_IdempotencyKey{IdempotencyKey: "gone"},
		}},
		fireoncev1.ErrorReason_ERROR_REASON_SUBSCRIPTION_CONNECTION: {
			procedure: subsPath + "CreateSubscription", request: newSubscription(f.told(t.Context(), c, "plain", ""), "new"),
		},
	} {
		out[reason] = callAt{f, call}
	}
	return out
}

// callsOfSchedules are calls about schedules that fail.
func callsOfSchedules(t *testing.T) map[fireoncev1.ErrorReason]callAt {
	t.Helper()
	f := start(t)
	c := overConnect(f)
	id := f.recurring(t.Context(), c, f.newSchedule("s")).GetScheduleId()
	gone := f.recurring(t.Context(), c, f.newSchedule("gone")).GetScheduleId()
	_, err := f.deleteSchedule(c, gone, "")
	f.must(err)
	_, err = f.trigger(c, id, "first", false)
	f.must(err)
	skip := func(name string) *schedulesv1.SkipFiringRequest {
		return &schedulesv1.SkipFiringRequest{Schedule: &schedulesv1.SkipFiringRequest_ScheduleId{ScheduleId: id}, Name: name}
	}
	queue := f.recurring(t.Context(), c, f.newSchedule("queue", fromQueue)).GetScheduleId()
	used := f.addItem(c, queue, "used", custom("good/v1", "x")).GetItem()
	_, err = f.trigger(c, queue, "first", false)
	f.must(err)
	out := make(map[fireoncev1.ErrorReason]callAt)
	for reason, call := range map[fireoncev1.ErrorReason]wrongCall{
		fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_ITEM_STATE: {procedure: schedsPath + "RemoveScheduleItem", request: removeItem(used)},
		fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_ITEM_NOT_FOUND: {
			procedure: schedsPath + "RemoveScheduleItem", request: removeItem(&schedulesv1.ScheduleItem{ScheduleId: queue, ItemId: queue}),
		},
		fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_SPEC_INVALID: {procedure: schedsPath + "CreateSchedule", request: f.newSchedule("new", func(r *createScheduleRequest) {
			r.Spec.TimeZone, r.Spec.CronExpressions = "Europe/Wien", []string{"0 * * * *", "61 * * * *"}
		})},
		fireoncev1.ErrorReason_ERROR_REASON_BACKFILL_RANGE: {procedure: schedsPath + "BackfillSchedule", request: &schedulesv1.BackfillScheduleRequest{
			Schedule:  &schedulesv1.BackfillScheduleRequest_ScheduleId{ScheduleId: id},
			StartTime: timestamppb.New(f.clock.Now()), EndTime: timestamppb.New(f.clock.Now().Add(time.Hour)),
		}},
		fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_NOT_FOUND: {procedure: schedsPath + "GetSchedule", request: &schedulesv1.GetScheduleRequest{
			Schedule: &schedulesv1.GetScheduleRequest_IdempotencyKey{IdempotencyKey: "nobody"},
		}},
		fireoncev1.ErrorReason_ERROR_REASON_FIRING_NOT_FOUND: {procedure: schedsPath + "SkipFiring", request: skip("2026-07-02T15:30:00/1")},
		fireoncev1.ErrorReason_ERROR_REASON_FIRING_DECIDED:   {procedure: schedsPath + "SkipFiring", request: skip("2026-07-01T13:00:00/1")},
		fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_STATE: {procedure: schedsPath + "PauseSchedule", request: &schedulesv1.PauseScheduleRequest{
			Schedule: &schedulesv1.PauseScheduleRequest_ScheduleId{ScheduleId: gone},
		}},
		fireoncev1.ErrorReason_ERROR_REASON_FIRING_BLOCKED: {procedure: schedsPath + "TriggerSchedule", request: &schedulesv1.TriggerScheduleRequest{
			Schedule: &schedulesv1.TriggerScheduleRequest_ScheduleId{ScheduleId: id}, TriggerKey: "second",
		}},
	} {
		out[reason] = callAt{f, call}
	}
	return out
}

func deletion(id string) *connectionsv1.DeleteConnectionRequest {
	return &connectionsv1.DeleteConnectionRequest{Connection: &connectionsv1.DeleteConnectionRequest_ConnectionId{ConnectionId: id}}
}

// wireForm is an error as one protocol has it.
type wireForm struct {
	status string // of the transport
	body   *spb.Status
}

// inEachProtocol makes a call in four protocols, and writes down what comes back. All must
// say the same.
func (f *fixture) inEachProtocol(t *testing.T, w io.Writer, name string, call wrongCall) {
	t.Helper()
	var first string
	for _, p := range []struct {
		name string
		call func(*fixture, *testing.T, wrongCall) wireForm
	}{{"connect-json", (*fixture).rawJSON}, {"connect-proto", (*fixture).rawProto}, {"grpc", (*fixture).rawGRPC}, {"grpc-web", (*fixture).rawGRPCWeb}} {
		form := p.call(f, t, call)
		fmt.Fprintf(w, "%-14s %s\n", p.name, form.status)
		switch said := rendered(t, form.body); {
		case first == "":
			first = said
		case said != first:
			t.Errorf("%s: %s says\n%s\nand another protocol\n%s", name, p.name, said, first)
		}
	}
	_, _ = io.WriteString(w, first)
	reason := `"reason":"ERROR_REASON_` + name + `"`
	if !strings.Contains(first, reason) || !strings.Contains(first, `"reason":"`+name+`"`) {
		t.Errorf("%s: %s", name, first)
	}
}

// anyID is what differs from run to run: ids of jobs, and keys.
var anyID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// anyEtag follows from the id.
var anyEtag = regexp.MustCompile(`(etag is now |"etag":")[A-Za-z0-9_-]{16}`)

// anySize is what differs from protocol to protocol.
var anySize = regexp.MustCompile(`request has \d+ bytes|"size":"\d+"`)

// rendered writes an error's message and details, one line each.
func rendered(t *testing.T, st *spb.Status) string {
	t.Helper()
	lines := []string{fmt.Sprintf("code           %d", st.GetCode()), "message        " + st.GetMessage()}
	for _, d := range st.GetDetails() {
		m, err := d.UnmarshalNew()
		if err != nil {
			t.Fatalf("a detail that is not known: %v", err)
		}
		raw, err := protojson.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := json.Compact(&out, raw); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%-14s %s", m.ProtoReflect().Descriptor().Name(), out.String()))
	}
	text := anyID.ReplaceAllString(strings.Join(lines, "\n"), "ID")
	return anySize.ReplaceAllString(anyEtag.ReplaceAllString(text, "${1}ETAG"), "SIZE") + "\n\n"
}

func firstDifference(want, got string) (was, is string, line int) {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(a), len(b)) {
		was, is = "(nothing)", "(nothing)"
		if i < len(a) {
			was = a[i]
		}
		if i < len(b) {
			is = b[i]
		}
		if was != is {
			return was, is, i + 1
		}
	}
	return "", "", 0
}

// raw posts a body and reads the whole answer.
func (f *fixture) raw(t *testing.T, call wrongCall, contentType string, body []byte) (*http.Response, []byte) {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	if contentType == "application/grpc" {
		transport.Protocols.SetUnencryptedHTTP2(true)
	} else {
		transport.Protocols.SetHTTP1(true)
	}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.addr+call.procedure, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Te", "trailers")
	if call.key != "" {
		r.Header.Set("Authorization", "Bearer "+call.key)
	}
	res, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, answer
}

func (f *fixture) rawJSON(t *testing.T, call wrongCall) wireForm {
	t.Helper()
	body, err := protojson.Marshal(call.request)
	if err != nil {
		t.Fatal(err)
	}
	return connectForm(t, f, call, "application/json", body)
}

func (f *fixture) rawProto(t *testing.T, call wrongCall) wireForm {
	t.Helper()
	return connectForm(t, f, call, "application/proto", encoded(t, call.request))
}

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// connectForm reads an error of Connect: JSON, whatever the request was.
func connectForm(t *testing.T, f *fixture, call wrongCall, contentType string, body []byte) wireForm {
	t.Helper()
	res, answer := f.raw(t, call, contentType, body)
	var e *wireError
	if err := jsonError(answer); !asWire(err, &e) {
		t.Fatalf("%s answers %d %s", call.procedure, res.StatusCode, answer)
	}
	st := &spb.Status{Code: int32(e.code), Message: e.msg}
	for _, d := range e.details {
		packed, err := anypb.New(d)
		if err != nil {
			t.Fatal(err)
		}
		st.Details = append(st.Details, packed)
	}
	return wireForm{fmt.Sprintf("HTTP %d %s", res.StatusCode, e.code), st}
}

func (f *fixture) rawGRPC(t *testing.T, call wrongCall) wireForm {
	t.Helper()
	res, _ := f.raw(t, call, "application/grpc", inFrame(encoded(t, call.request)))
	trailer := res.Trailer
	if len(trailer.Get("Grpc-Status")) == 0 {
		trailer = res.Header // an answer of trailers only
	}
	return grpcForm(t, res, trailer)
}

func (f *fixture) rawGRPCWeb(t *testing.T, call wrongCall) wireForm {
	t.Helper()
	res, answer := f.raw(t, call, "application/grpc-web+proto", inFrame(encoded(t, call.request)))
	trailer := res.Header
	if len(answer) > 5 && answer[0]&0x80 != 0 {
		trailer = http.Header{}
		for line := range strings.SplitSeq(string(answer[5:]), "\r\n") {
			if name, value, ok := strings.Cut(line, ":"); ok {
				trailer.Set(name, strings.TrimSpace(value))
			}
		}
	}
	return grpcForm(t, res, trailer)
}

func inFrame(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
}

// grpcForm reads an error from trailers.
func grpcForm(t *testing.T, res *http.Response, trailer http.Header) wireForm {
	t.Helper()
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(trailer.Get("Grpc-Status-Details-Bin"), "="))
	st := &spb.Status{}
	if err != nil || proto.Unmarshal(raw, st) != nil {
		t.Fatalf("trailers %v: %v", trailer, err)
	}
	return wireForm{fmt.Sprintf("HTTP %d, grpc-status %s", res.StatusCode, trailer.Get("Grpc-Status")), st}
}

// everyReason lists the reasons of the contract in their order.
func everyReason() (out []fireoncev1.ErrorReason) {
	for n := range fireoncev1.ErrorReason_name {
		if n != 0 {
			out = append(out, fireoncev1.ErrorReason(n))
		}
	}
	slices.Sort(out)
	return out
}

// TestEveryReasonHasItsSection: docs/errors.md describes each reason, and no other.
func TestEveryReasonHasItsSection(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(errorsPage)
	if err != nil {
		t.Fatal(err)
	}
	sections := make(map[string]string)
	for _, part := range strings.Split(string(page), "\n### ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		if _, twice := sections[name]; twice {
			t.Errorf("%s has two sections", name)
		}
		sections[name] = text
	}
	for _, reason := range everyReason() {
		name := strings.TrimPrefix(reason.String(), "ERROR_REASON_")
		code := strings.ToUpper(server.ReasonCode(reason).String())
		if text, has := sections[name]; !has {
			t.Errorf("%s has no section %q", errorsPage, "### "+name)
		} else if !strings.Contains(text, code) || !strings.Contains(text, "**Do:**") {
			t.Errorf("%s: the section names no %s, or does not say what to do", name, code)
		}
		delete(sections, name)
	}
	for name := range sections {
		t.Errorf("%s describes %s, which is no reason of the contract", errorsPage, name)
	}
}
