package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/server"
)

// guarded are the messages that a read scope guards, wherever they are in an answer.
var guarded = map[protoreflect.FullName]string{
	"fireonce.v1.Job": server.ScopeJobsRead, "fireonce.v1.JobEvent": server.ScopeJobsRead,
	"fireonce.v1.Attempt": server.ScopeJobsRead, "fireonce.v1.Observation": server.ScopeJobsRead,
	"fireonce.admin.v1.BulkResult": server.ScopeJobsRead, "fireonce.v1.Payload": server.ScopeJobsRead,
	"fireonce.admin.v1.Incident": server.ScopeJobsRead, "fireonce.admin.v1.Plan": server.ScopeJobsRead, "fireonce.admin.v1.PlanJob": server.ScopeJobsRead,
	"fireonce.connections.v1.Connection":             server.ScopeConnectionsRead,
	"fireonce.connections.v1.TestConnectionResponse": server.ScopeConnectionsRead,

	"fireonce.schedules.v1.Schedule": server.ScopeSchedulesRead, "fireonce.v1.Firing": server.ScopeSchedulesRead,
	"fireonce.schedules.v1.ScheduleItem":  server.ScopeSchedulesRead,
	"fireonce.schedules.v1.PlannedFiring": server.ScopeSchedulesRead, "fireonce.schedules.v1.BulkScheduleResult": server.ScopeSchedulesRead,
}

// guards returns the read scopes that an answer needs.
func guards(m protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) (out []string) {
	if seen[m.FullName()] {
		return nil
	}
	seen[m.FullName()] = true
	if scope := guarded[m.FullName()]; scope != "" {
		return []string{scope}
	}
	for i := range m.Fields().Len() {
		if inner := m.Fields().Get(i).Message(); inner != nil {
			out = append(out, guards(inner, seen)...)
		}
	}
	return out
}

// TestEveryAnswerIsClassified: an RPC that is added to the contract states what its
// answer shows, and an answer with a guarded message needs that message's read scope.
func TestEveryAnswerIsClassified(t *testing.T) {
	classified := 0
	for m := range server.Methods() {
		p := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
		scope, known := server.ReceiptOf(p)
		if !known {
			t.Errorf("%s has no receipt: say in auth_receipts.go what its answer shows", p)
			continue
		}
		classified++
		if scope == "" {
			scope = server.ScopeOf(p) // every caller sees all
		}
		for _, need := range guards(m.Output(), map[protoreflect.FullName]bool{}) {
			if need != scope {
				t.Errorf("%s shows what %s guards to callers with %s", p, need, scope)
			}
		}
		if wrong := server.MisnamedKept(p, m.Output()); len(wrong) > 0 {
			t.Errorf("the receipt of %s keeps fields that there are not: %v", p, wrong)
		}
		if own, _ := server.ReceiptOf(p); m.IsStreamingServer() && own != "" {
			t.Errorf("%s is a stream: nothing withholds its fields", p)
		}
	}
	if classified < 33 {
		t.Errorf("%d RPCs: the test reads the contract wrongly", classified)
	}
}

// canary is in everything that a read scope guards.
const canary, canaryInBase64 = "canary", "Y2FuYXJ5"

// exposure prepares objects full of canaries, and calls on them.
type exposure struct {
	*fixture
	t   *testing.T
	all context.Context //nolint:containedctx // the key with every scope
	c   client
	n   int
}

// expose starts a server, and returns the context of a key with some scopes.
func expose(t *testing.T, dial func(*fixture) client, scopes []string) (*exposure, context.Context) {
	t.Helper()
	f := start(t, withSocial(nil), requireKey)
	all := bring(t.Context(), f.issue(server.DefaultProject, server.Scopes()).Reveal())
	return &exposure{fixture: f, t: t, all: all, c: dial(f)}, bring(t.Context(), f.issue(server.DefaultProject, scopes).Reveal())
}

// job makes a job that is due after a time.
func (e *exposure) job(after time.Duration) string {
	e.t.Helper()
	res, err := askWith[fireoncev1.ScheduleJobResponse](e.all, e.c, scheduleJob, e.submit(after))
	e.must(err)
	return res.GetJob().GetJobId()
}

func (e *exposure) submit(after time.Duration) *fireoncev1.ScheduleJobRequest {
	e.n++
	return e.request(fmt.Sprintf("key-%d", e.n), func(r *scheduleRequest) {
		r.Payload, r.Labels = custom(canary+"/v1", canary), map[string]string{"label": canary}
		r.ScheduleTime = timestamppb.New(e.clock.Now().Add(after))
	})
}

// again returns a submit that is stored already.
func (e *exposure) again() *fireoncev1.ScheduleJobRequest {
	req := e.submit(time.Hour)
	_, err := askWith[fireoncev1.ScheduleJobResponse](e.all, e.c, scheduleJob, req)
	e.must(err)
	return req
}

// account makes a connection whose account is the canary.
func (e *exposure) account() string {
	e.t.Helper()
	res, err := askWith[connectionsv1.CreateConnectionResponse](e.all, e.c, connsPath+"CreateConnection", e.newAccount())
	e.must(err)
	return res.GetConnection().GetConnectionId()
}

func (e *exposure) newAccount() *connectionsv1.CreateConnectionRequest {
	e.n++
	return &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: fmt.Sprintf("account-%d", e.n), Credential: token(canary + "-1"),
		Connection: &connectionsv1.Connection{
			Connector: "social", DisplayName: canary, Settings: &connectionsv1.Connection_Custom{Custom: settingsOf(canary)},
		},
	}
}

func (e *exposure) paused() string {
	id := e.account()
	_, err := askWith[connectionsv1.PauseConnectionResponse](e.all, e.c, connsPath+"PauseConnection",
		&connectionsv1.PauseConnectionRequest{Connection: &connectionsv1.PauseConnectionRequest_ConnectionId{ConnectionId: id}, Reason: canary})
	e.must(err)
	return id
}

// schedule makes a schedule that has the canary in all its texts, and a label of its own.
func (e *exposure) schedule() *schedulesv1.Schedule {
	e.t.Helper()
	e.n++
	return e.recurring(e.all, e.c, e.newSchedule(fmt.Sprintf("schedule-%d", e.n), labelled(canary), func(r *createScheduleRequest) { r.Spec = daily() }))
}

// queue is a schedule that has its content from a queue.
func (e *exposure) queue() string {
	e.t.Helper()
	e.n++
	return e.recurring(e.all, e.c, e.newSchedule(fmt.Sprintf("queue-%d", e.n), fromQueue)).GetScheduleId()
}

func (e *exposure) item() *schedulesv1.ScheduleItem {
	e.t.Helper()
	res, err := askWith[schedulesv1.AddScheduleItemResponse](e.all, e.c, schedsPath+"AddScheduleItem", addItem(e.queue(), canary, custom("good/v1", canary)))
	e.must(err)
	return res.GetItem()
}

func (e *exposure) ofSchedule() *schedulesv1.ScheduleFilter {
	return &schedulesv1.ScheduleFilter{Labels: map[string]string{"label": canary}}
}

func named(ids ...string) *fireoncev1.JobFilter { return &fireoncev1.JobFilter{JobIds: ids} }

// exposures are requests that succeed, of every RPC whose answer is withheld from
// callers without a read scope. ids are what an answer must not name.
var exposures = map[string]func(e *exposure) (req proto.Message, ids []string){
	jobsPath + "ScheduleJob": func(e *exposure) (proto.Message, []string) { return e.again(), nil },
	jobsPath + "BatchScheduleJobs": func(e *exposure) (proto.Message, []string) {
		return &fireoncev1.BatchScheduleJobsRequest{Requests: []*scheduleRequest{e.again(), e.submit(time.Hour)}}, nil
	},
	jobsPath + "UpdateJob": func(e *exposure) (proto.Message, []string) {
		waits := e.job(time.Hour)
		return &fireoncev1.UpdateJobRequest{
			Job: &fireoncev1.UpdateJobRequest_JobId{JobId: waits}, Etag: server.EtagOf(e.id(waits), 1), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels"}}, Labels: map[string]string{"label": canary},
		}, nil
	},
	jobsPath + "CancelJob": func(e *exposure) (proto.Message, []string) {
		return &fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: e.job(time.Hour)}}, nil
	},
	jobsPath + "RescheduleJob": func(e *exposure) (proto.Message, []string) {
		return &fireoncev1.RescheduleJobRequest{Job: &fireoncev1.RescheduleJobRequest_JobId{JobId: e.job(time.Hour)}, ScheduleTime: timestamppb.New(e.clock.Now().Add(time.Hour))}, nil
	},
	jobsPath + "RunJobNow": func(e *exposure) (proto.Message, []string) {
		id := e.job(0)
		snap := e.needResolution() // what is over is answered as it is
		_, err := askWith[fireoncev1.ResolveJobResponse](e.all, e.c, jobsPath+"ResolveJob", &fireoncev1.ResolveJobRequest{
			Job: &fireoncev1.ResolveJobRequest_JobId{JobId: snap.ID.String()}, Etag: server.EtagOf(snap.ID, snap.Version), Decision: fireoncev1.Resolution_DECISION_SENT, ExternalId: canary, Note: canary,
		})
		e.must(err)
		return &fireoncev1.RunJobNowRequest{Job: &fireoncev1.RunJobNowRequest_JobId{JobId: id}}, nil
	},
	jobsPath + "RetryJob": func(e *exposure) (proto.Message, []string) {
		id := e.job(0)
		snap := e.fail()
		return &fireoncev1.RetryJobRequest{Job: &fireoncev1.RetryJobRequest_JobId{JobId: id}, Etag: server.EtagOf(snap.ID, snap.Version)}, nil
	},
	jobsPath + "ResolveJob": func(e *exposure) (proto.Message, []string) {
		id := e.job(0)
		snap := e.needResolution()
		return &fireoncev1.ResolveJobRequest{
			Job: &fireoncev1.ResolveJobRequest_JobId{JobId: id}, Etag: server.EtagOf(snap.ID, snap.Version), Decision: fireoncev1.Resolution_DECISION_SENT, ExternalId: canary, Note: canary,
		}, nil
	},
	bulkPath + "BulkCancelJobs": func(e *exposure) (proto.Message, []string) {
		id := e.job(time.Hour)
		return &adminv1.BulkCancelJobsRequest{Filter: named(id), DryRun: true}, []string{id}
	},
	bulkPath + "BulkRetryJobs": func(e *exposure) (proto.Message, []string) {
		id := e.job(0)
		e.fail()
		return &adminv1.BulkRetryJobsRequest{Filter: named(id), AsOfTime: timestamppb.New(e.clock.Now())}, []string{id}
	},
	bulkPath + "BulkRescheduleJobs": func(e *exposure) (proto.Message, []string) {
		id := e.job(time.Hour)
		return &adminv1.BulkRescheduleJobsRequest{Filter: named(id), DryRun: true, Delay: durationpb.New(time.Hour)}, []string{id}
	},
	bulkPath + "BulkResolveJobs": func(e *exposure) (proto.Message, []string) {
		running := e.job(time.Hour)
		return &adminv1.BulkResolveJobsRequest{ // is refused, job by job
			Filter: &fireoncev1.JobFilter{JobIds: []string{running}, States: []fireoncev1.JobState{fireoncev1.JobState_JOB_STATE_SCHEDULED}},
			DryRun: true, Decision: fireoncev1.Resolution_DECISION_SENT, Note: "n",
		}, []string{running}
	},

	incidentsPath + "ResolveIncident": func(e *exposure) (proto.Message, []string) {
		id := e.job(0)
		e.needResolution()
		list, err := askWith[adminv1.ListIncidentsResponse](e.all, e.c, incidentsPath+"ListIncidents", &adminv1.ListIncidentsRequest{})
		e.must(err)
		return &adminv1.ResolveIncidentRequest{
			IncidentId: list.GetIncidents()[0].GetIncidentId(), Decision: fireoncev1.Resolution_DECISION_SENT, Note: canary,
		}, []string{id}
	},
	incidentsPath + "RedeliverJobs": func(e *exposure) (proto.Message, []string) {
		id := e.job(0)
		e.fail()
		return &adminv1.RedeliverJobsRequest{ConnectionKey: "fixture", Note: canary}, []string{id}
	},

	schedsPath + "CreateSchedule": func(e *exposure) (proto.Message, []string) {
		e.n++
		return e.newSchedule(fmt.Sprintf("schedule-%d", e.n), labelled(canary)), nil
	},
	schedsPath + "UpdateSchedule": func(e *exposure) (proto.Message, []string) {
		s := e.schedule()
		return &updateScheduleRequest{
			Schedule: &schedulesv1.UpdateScheduleRequest_ScheduleId{ScheduleId: s.GetScheduleId()}, Etag: s.GetEtag(),
			UpdateMask: mask("spec"), Spec: everyHour(),
		}, nil
	},
	schedsPath + "DeleteSchedule": func(e *exposure) (proto.Message, []string) {
		return &schedulesv1.DeleteScheduleRequest{Schedule: &schedulesv1.DeleteScheduleRequest_ScheduleId{ScheduleId: e.schedule().GetScheduleId()}}, nil
	},
	schedsPath + "PauseSchedule": func(e *exposure) (proto.Message, []string) {
		return &schedulesv1.PauseScheduleRequest{Schedule: &schedulesv1.PauseScheduleRequest_ScheduleId{ScheduleId: e.schedule().GetScheduleId()}}, nil
	},
	schedsPath + "ResumeSchedule": func(e *exposure) (proto.Message, []string) {
		return &schedulesv1.ResumeScheduleRequest{Schedule: &schedulesv1.ResumeScheduleRequest_ScheduleId{ScheduleId: e.schedule().GetScheduleId()}}, nil
	},
	schedsPath + "SkipFiring": func(e *exposure) (proto.Message, []string) {
		return &schedulesv1.SkipFiringRequest{
			Schedule: &schedulesv1.SkipFiringRequest_ScheduleId{ScheduleId: e.schedule().GetScheduleId()}, Name: "2026-07-02T09:30:00/1",
		}, nil
	},
	schedsPath + "AddScheduleItem": func(e *exposure) (proto.Message, []string) {
		e.n++
		r := addItem(e.queue(), fmt.Sprintf("item-%d", e.n), custom("good/v1", canary))
		r.Labels = map[string]string{"label": canary}
		return r, nil
	},
	schedsPath + "UpdateScheduleItem": func(e *exposure) (proto.Message, []string) {
		i := e.item()
		return &schedulesv1.UpdateScheduleItemRequest{
			Schedule: &schedulesv1.UpdateScheduleItemRequest_ScheduleId{ScheduleId: i.GetScheduleId()}, ItemId: i.GetItemId(),
			Payload: custom("good/v1", canary+"2"),
		}, nil
	},
	schedsPath + "MoveScheduleItem": func(e *exposure) (proto.Message, []string) {
		return moveItem(e.item(), nil), nil
	},
	schedsPath + "RemoveScheduleItem": func(e *exposure) (proto.Message, []string) { return removeItem(e.item()), nil },
	schedsPath + "BulkPauseSchedules": func(e *exposure) (proto.Message, []string) {
		id := e.schedule().GetScheduleId()
		return &schedulesv1.BulkPauseSchedulesRequest{Filter: e.ofSchedule()}, []string{id}
	},
	schedsPath + "BulkResumeSchedules": func(e *exposure) (proto.Message, []string) {
		id := e.schedule().GetScheduleId()
		_, err := askWith[schedulesv1.BulkPauseSchedulesResponse](e.all, e.c, schedsPath+"BulkPauseSchedules", &schedulesv1.BulkPauseSchedulesRequest{Filter: e.ofSchedule()})
		e.must(err)
		return &schedulesv1.BulkResumeSchedulesRequest{Filter: e.ofSchedule()}, []string{id}
	},
	schedsPath + "TriggerSchedule": func(e *exposure) (proto.Message, []string) {
		return &schedulesv1.TriggerScheduleRequest{
			Schedule: &schedulesv1.TriggerScheduleRequest_ScheduleId{ScheduleId: e.schedule().GetScheduleId()}, TriggerKey: "mine",
		}, []string{"localTime"}
	},
	schedsPath + "BackfillSchedule": func(e *exposure) (proto.Message, []string) {
		return &schedulesv1.BackfillScheduleRequest{
			Schedule:  &schedulesv1.BackfillScheduleRequest_ScheduleId{ScheduleId: e.schedule().GetScheduleId()},
			StartTime: timestamppb.New(e.clock.Now().Add(-24 * time.Hour)), EndTime: timestamppb.New(e.clock.Now()),
		}, []string{"localTime"}
	},

	subsPath + "DeleteSubscription": func(e *exposure) (proto.Message, []string) {
		of := e.subscription() // its filter is erased; its key stays
		return &subscriptionsv1.DeleteSubscriptionRequest{Subscription: &subscriptionsv1.DeleteSubscriptionRequest_SubscriptionId{SubscriptionId: of.GetSubscriptionId()}}, []string{of.GetIdempotencyKey()}
	},
	subsPath + "PauseSubscription": func(e *exposure) (proto.Message, []string) {
		return &subscriptionsv1.PauseSubscriptionRequest{Subscription: &subscriptionsv1.PauseSubscriptionRequest_SubscriptionId{SubscriptionId: e.subscription().GetSubscriptionId()}}, nil
	},
	subsPath + "ResumeSubscription": func(e *exposure) (proto.Message, []string) {
		return &subscriptionsv1.ResumeSubscriptionRequest{Subscription: &subscriptionsv1.ResumeSubscriptionRequest_SubscriptionId{SubscriptionId: e.subscription().GetSubscriptionId()}}, nil
	},
	subsPath + "TestSubscription": func(e *exposure) (proto.Message, []string) {
		return &subscriptionsv1.TestSubscriptionRequest{Subscription: &subscriptionsv1.TestSubscriptionRequest_SubscriptionId{SubscriptionId: e.subscription().GetSubscriptionId()}}, nil
	},
	subsPath + "CreateSubscription": func(e *exposure) (proto.Message, []string) { return e.asSubscription(), nil },
	subsPath + "UpdateSubscription": func(e *exposure) (proto.Message, []string) {
		s := e.subscription()
		return &subscriptionsv1.UpdateSubscriptionRequest{
			Subscription: &subscriptionsv1.UpdateSubscriptionRequest_SubscriptionId{SubscriptionId: s.GetSubscriptionId()}, Etag: s.GetEtag(), UpdateMask: mask("rules"),
		}, nil
	},
	subsPath + "RedeliverNotices": func(e *exposure) (proto.Message, []string) {
		s := e.subscription()
		return &subscriptionsv1.RedeliverNoticesRequest{
			Subscription: &subscriptionsv1.RedeliverNoticesRequest_SubscriptionId{SubscriptionId: s.GetSubscriptionId()},
			From:         &subscriptionsv1.RedeliverNoticesRequest_AfterCursor{AfterCursor: s.GetCursor()},
		}, nil
	},
	pausesPath + "CreatePause": func(e *exposure) (proto.Message, []string) {
		return &adminv1.CreatePauseRequest{Target: pauseOfLabel("label", canary), Note: canary, BeginTime: timestamppb.New(e.clock.Now().Add(time.Hour))}, nil
	},
	pausesPath + "EndPause": func(e *exposure) (proto.Message, []string) {
		made, err := askWith[adminv1.CreatePauseResponse](e.all, e.c, pausesPath+"CreatePause", &adminv1.CreatePauseRequest{Target: pauseOfLabel("label", canary), Note: canary})
		e.must(err)
		return &adminv1.EndPauseRequest{PauseId: made.GetPause().GetPauseId()}, nil
	},

	connsPath + "CreateConnection": func(e *exposure) (proto.Message, []string) { return e.newAccount(), nil },
	connsPath + "UpdateConnection": func(e *exposure) (proto.Message, []string) {
		return &connectionsv1.UpdateConnectionRequest{Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: e.account()}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"limits"}}}, nil
	},
	connsPath + "RotateCredential": func(e *exposure) (proto.Message, []string) {
		return &connectionsv1.RotateCredentialRequest{Connection: &connectionsv1.RotateCredentialRequest_ConnectionId{ConnectionId: e.account()}, Credential: token(canary + "-2")}, nil
	},
	connsPath + "TestConnection": func(e *exposure) (proto.Message, []string) {
		return &connectionsv1.TestConnectionRequest{Connection: &connectionsv1.TestConnectionRequest_ConnectionId{ConnectionId: e.account()}}, nil
	},
	connsPath + "PauseConnection": func(e *exposure) (proto.Message, []string) {
		return &connectionsv1.PauseConnectionRequest{Connection: &connectionsv1.PauseConnectionRequest_ConnectionId{ConnectionId: e.paused()}}, nil
	},
	connsPath + "ResumeConnection": func(e *exposure) (proto.Message, []string) {
		return &connectionsv1.ResumeConnectionRequest{Connection: &connectionsv1.ResumeConnectionRequest_ConnectionId{ConnectionId: e.paused()}}, nil
	},
}

// TestReceipts: of every RPC that changes something, a key with the RPC's own scope and
// every scope but the one that reads gets an answer without content; with that scope,
// too, it gets the content.
func TestReceipts(t *testing.T) {
	const login = connsPath + "CompleteOAuth" // has a test of its own
	for m := range server.Methods() {
		p := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
		if scope, _ := server.ReceiptOf(p); scope != "" && exposures[p] == nil && p != login {
			t.Errorf("no request that would expose something by %s", p)
		}
	}
	for _, name := range []string{"connect", "native"} { // one for each listener
		dial := protocols[name]
		t.Run(name, func(t *testing.T) {
			for p, prepare := range exposures {
				t.Run(p[strings.LastIndex(p, "/")+1:], func(t *testing.T) {
					scope, _ := server.ReceiptOf(p)
					e, blind := expose(t, dial, without(scope))
					req, ids := prepare(e)
					text, err := invoke(blind, e.c, p, req, "")
					e.must(err)
					for _, id := range append(ids, canary, canaryInBase64) {
						if strings.Contains(text, id) {
							t.Errorf("without %s it shows %q: %s", scope, id, text)
						}
					}
					if !strings.Contains(text, "etag") && !strings.Contains(text, "matched") && !strings.Contains(text, `"ok"`) && !strings.Contains(text, `"decideTime"`) && !strings.Contains(text, `"planId"`) && !strings.Contains(text, `"pauseId"`) {
						t.Errorf("without %s it answers %s: no receipt", scope, text)
					}
					e, seeing := expose(t, dial, []string{server.ScopeOf(p), scope})
					req, ids = prepare(e)
					text, err = invoke(seeing, e.c, p, req, "")
					e.must(err)
					for _, id := range ids {
						if !strings.Contains(text, id) {
							t.Errorf("with %s it answers without %s: %s", scope, id, text)
						}
					}
					if len(ids) == 0 && !strings.Contains(text, canary) {
						t.Errorf("with %s it answers without content: %s", scope, text)
					}
				})
			}
		})
	}
}

// TestReceiptOfLogin: the connection that a login makes is the only one that a caller
// cannot make without a person.
func TestReceiptOfLogin(t *testing.T) {
	_, edit := withOAuth(t)
	f := start(t, edit, requireKey)
	for scope, want := range map[string]bool{server.ScopeConnectionsRead: true, server.ScopeJobsRead: false} {
		ctx := bring(t.Context(), f.issue(server.DefaultProject, []string{server.ScopeConnectionsWrite, scope}).Reveal())
		c := overGRPC(f)
		begin := newMember("login-" + strings.ReplaceAll(scope, ":", "-"))
		begin.RedirectUrl = ownURL
		login, err := askWith[connectionsv1.StartOAuthResponse](ctx, c, connsPath+"StartOAuth", begin)
		f.must(err)
		text, err := invoke(ctx, c, connsPath+"CompleteOAuth", &connectionsv1.CompleteOAuthRequest{State: login.GetState(), Code: canary + scope[:1], RedirectUrl: ownURL}, "")
		f.must(err)
		if got := strings.Contains(text, canary) || strings.Contains(text, "Ann"); got != want {
			t.Errorf("with %s: %s", scope, text)
		}
	}
}

// TestAccountIsNotTold: the account that a connection is of is in no refusal either.
func TestAccountIsNotTold(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, withSocial(nil), requireKey)
			everything := bring(t.Context(), f.issue(server.DefaultProject, server.Scopes()).Reveal())
			e := &exposure{fixture: f, t: t, all: everything, c: dial(f)}
			id := e.account()
			_, err := askWith[connectionsv1.TestConnectionResponse](everything, e.c, connsPath+"TestConnection", &connectionsv1.TestConnectionRequest{Connection: &connectionsv1.TestConnectionRequest_ConnectionId{ConnectionId: id}})
			f.must(err) // the account is known now
			for scope, want := range map[string]bool{server.ScopeConnectionsRead: true, server.ScopeJobsRead: false} {
				ctx := bring(t.Context(), f.issue(server.DefaultProject, []string{server.ScopeConnectionsWrite, scope}).Reveal())
				_, err := invoke(ctx, e.c, connsPath+"RotateCredential", &connectionsv1.RotateCredentialRequest{Connection: &connectionsv1.RotateCredentialRequest_ConnectionId{ConnectionId: id}, Credential: token("mallory-1")}, "")
				refused := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDENTITY_MISMATCH)
				if got := strings.Contains(refused.msg+fmt.Sprint(refused.detail), canary); got != want {
					t.Errorf("with %s: %v %v", scope, refused, refused.detail)
				}
			}
		})
	}
}

// TestStoredCredentialIsNotQuoted: only callers that may read connections see what a platform
// says of a stored credential, also when it makes a change fail.
func TestStoredCredentialIsNotQuoted(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, requireKey, withSocial(nil))
			c := dial(f)
			change := func(to string, scopes ...string) error {
				ctx := bring(t.Context(), f.issue(server.DefaultProject, scopes).Reveal())
				made, err := askWith[connectionsv1.CreateConnectionResponse](ctx, c, connsPath+"CreateConnection", &connectionsv1.CreateConnectionRequest{
					IdempotencyKey: "refused" + to, Credential: token("refused-1"),
					Connection: &connectionsv1.Connection{Connector: "social", Settings: &connectionsv1.Connection_Custom{Custom: settingsOf("one")}},
				})
				f.must(err)
				_, err = askWith[connectionsv1.UpdateConnectionResponse](ctx, c, connsPath+"UpdateConnection", &connectionsv1.UpdateConnectionRequest{
					Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: made.GetConnection().GetConnectionId()}, Settings: &connectionsv1.UpdateConnectionRequest_Custom{Custom: settingsOf(to)}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"custom"}},
				})
				wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_MISMATCH)
				return err
			}
			const words = "Reconnect this account"
			if err := change("two", server.ScopeConnectionsWrite); strings.Contains(err.Error(), words) {
				t.Errorf("without the scope to read: %v", err)
			}
			if err := change("three", server.ScopeConnectionsWrite, server.ScopeConnectionsRead); !strings.Contains(err.Error(), words) {
				t.Errorf("with the scope to read: %v", err)
			}
		})
	}
}
