package server_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

const (
	deleteJob    = jobsPath + "DeleteJob"
	eraseProject = accessPath + "EraseProject"
)

func deleteByID(id string) *fireoncev1.DeleteJobRequest {
	return &fireoncev1.DeleteJobRequest{Job: &fireoncev1.DeleteJobRequest_JobId{JobId: id}}
}

func deleteByKey(key string) *fireoncev1.DeleteJobRequest {
	return &fireoncev1.DeleteJobRequest{Job: &fireoncev1.DeleteJobRequest_IdempotencyKey{IdempotencyKey: key}}
}

// sent is a job that had its effect.
func (f *fixture) sent(key string) *fireoncev1.Job {
	f.tb.Helper()
	j := f.schedule(f.request(key))
	f.learn(f.arm().ID, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: "post-1"})
	return j
}

func TestDeleteJob(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		start := c.open(t).first(t).GetCursor()
		j := f.sent("welcome:ann")
		try := func(req *fireoncev1.DeleteJobRequest) (*fireoncev1.ErasedJob, error) {
			res, err := ask[fireoncev1.DeleteJobResponse](t, c, deleteJob, req)
			return res.GetJob(), err
		}
		_, err := try(deleteByID(j.GetJobId()))
		early := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_RETENTION_NOT_REACHED)
		allowed := f.clock.Now().Add(time.Hour).Format(time.RFC3339Nano)
		if retryOf(early) != time.Hour || early.detail.GetMetadata()["delete_allowed_time"] != allowed {
			t.Errorf("too early: retry in %v, %v", retryOf(early), early.detail)
		}
		f.clock.advance(time.Hour)
		stale := deleteByID(j.GetJobId())
		stale.Etag = j.GetEtag()
		_, err = try(stale)
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH)
		got, err := try(deleteByKey("welcome:ann"))
		f.must(err)
		digest := job.KeyDigest(server.DefaultProject, "welcome:ann")
		if got.GetJobId() != j.GetJobId() || string(got.GetIdempotencyKeyDigest()) != string(digest[:]) || got.GetActor() != "api" ||
			got.GetState() != fireoncev1.JobState_JOB_STATE_SUCCEEDED || got.GetProof() != fireoncev1.Effect_PROOF_RESPONSE ||
			string(got.GetExternalIdDigest()) != string(store.ObjectDigest(f.id(j.GetJobId()), "post-1")) ||
			!got.GetEraseTime().AsTime().Equal(f.clock.Now()) || got.GetAttemptCount() != 1 {
			t.Errorf("erased: %v", got)
		}
		// Repeats are answered equally, also with an etag that was right once.
		for _, again := range []*fireoncev1.DeleteJobRequest{deleteByKey("welcome:ann"), deleteByID(j.GetJobId()), stale} {
			if got2, err := try(again); err != nil || !proto.Equal(got2, got) {
				t.Errorf("a repeat: %v, %v", got2, err)
			}
		}
		_, err = ask[fireoncev1.GetJobResponse](t, c, jobsPath+"GetJob", &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: j.GetJobId()}})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND)
		err = c.call(t.Context(), scheduleJob, f.request("welcome:ann"), &fireoncev1.ScheduleJobResponse{})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
		// Old cursors go on working; the words are gone.
		changes, _ := c.open(t, afterCursor(start)).changes(t, 4)
		for _, e := range changes {
			if e.GetJobId() != j.GetJobId() || e.GetReason()+e.GetDetail() != "" || e.GetAttempt() != nil {
				t.Errorf("event: %v", e)
			}
		}
		if !strings.Contains(f.logs.String(), `"msg":"a job was erased"`) {
			t.Error("no line of the log names the actor that erased the job")
		}
	})
}

func TestDeleteJobRefuses(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		a := f.sent("post")
		b := f.schedule(f.request("reply", replyTo(a.GetJobId()), func(r *scheduleRequest) {
			r.ScheduleTime = timestamppb.New(f.clock.Now().Add(day))
		}))
		f.clock.advance(time.Hour)
		_, err := ask[fireoncev1.DeleteJobResponse](t, c, deleteJob, deleteByID(a.GetJobId()))
		e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_JOB_HAS_REPLIES)
		if e.detail.GetMetadata()["reply_job_id"] != b.GetJobId() || retryOf(e) != 0 {
			t.Errorf("refused: %v, %v", e.detail, retryOf(e))
		}
		_, err = ask[fireoncev1.DeleteJobResponse](t, c, deleteJob, deleteByID(b.GetJobId()))
		e = wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_JOB_STATE)
		if allowed := e.detail.GetStateConflict().GetAllowedStates(); len(allowed) != 4 {
			t.Errorf("allowed: %v", allowed)
		}
		for _, req := range []*fireoncev1.DeleteJobRequest{deleteByID(absent), deleteByKey("nothing")} {
			_, err = ask[fireoncev1.DeleteJobResponse](t, c, deleteJob, req)
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND)
		}
		f.must(f.store.Quarantine(t.Context(), "why"))
		other := f.schedule(f.request("other"))
		f.learn(f.id(other.GetJobId()), job.CancelAsked{})
		f.clock.advance(time.Hour)
		_, err = ask[fireoncev1.DeleteJobResponse](t, c, deleteJob, deleteByID(other.GetJobId()))
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_QUARANTINED)
	})
}

// TestEraseProject: a project without live keys is erased, and the answer about what stays says
// when to repeat the call.
func TestEraseProject(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, func(c *server.Config) { c.APIKey = "operator"; c.Keep = store.Keep{Keys: job.KeyKept} })
			c := dial(f)
			operator := bring(t.Context(), "operator")
			key := f.issue("shop", server.Scopes())
			shop := bring(t.Context(), key.Reveal())
			try := func(token string) (*adminv1.EraseProjectResponse, error) {
				return askWith[adminv1.EraseProjectResponse](operator, c, eraseProject, &adminv1.EraseProjectRequest{ProjectId: "shop", PageToken: token})
			}
			_, id := f.inProject(shop, t, "shop", c)
			f.schedule2(operator, c, "here")
			_, err := try("")
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PROJECT_IN_USE)
			_, err = askWith[adminv1.EraseProjectResponse](shop, c, eraseProject, &adminv1.EraseProjectRequest{ProjectId: "shop"})
			wantReason(t, err, operatorRequired)
			_, err = askWith[adminv1.EraseProjectResponse](operator, c, eraseProject, &adminv1.EraseProjectRequest{ProjectId: "nowhere"})
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PROJECT_NOT_FOUND)
			_, err = f.store.RevokeAPIKey(t.Context(), key.ID)
			f.must(err)
			for _, token := range []string{"nonsense", base64.RawURLEncoding.EncodeToString([]byte(store.ErasePlace{Project: "mall", Phase: store.EraseHoldings}.String()))} {
				_, err = try(token)
				wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID)
			}

			got, err := try("")
			f.must(err)
			if got.GetDone() || got.GetOpenJobCount() != 1 || got.GetNextPageToken() != "" || got.GetRetryTime() != nil || got.GetErasedConnectionCount() != 0 {
				t.Errorf("with an open job: %v", got)
			}
			ender := f.issue("shop", []string{server.ScopeJobsWrite})
			f.must(c.call(bring(t.Context(), ender.Reveal()), jobsPath+"CancelJob",
				&fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: id}}, &fireoncev1.CancelJobResponse{}))
			_, err = f.store.RevokeAPIKey(t.Context(), ender.ID)
			f.must(err)
			got, err = try("")
			f.must(err)
			if got.GetDone() || got.GetKeptJobCount() != 1 || !got.GetRetryTime().AsTime().Equal(f.clock.Now().Add(time.Hour)) {
				t.Errorf("too early: %v", got)
			}
			f.clock.advance(time.Hour)
			want := &adminv1.EraseProjectResponse{
				Done: true, ErasedJobCount: 1, BlankedEventCount: 2, ErasedConnectionCount: 1, ErasedApiKeyCount: 2,
			}
			if got, err = try(""); err != nil || !proto.Equal(got, want) {
				t.Errorf("erased: %v, %v", got, err)
			}
			if got, err = try(""); err != nil || !proto.Equal(got, &adminv1.EraseProjectResponse{Done: true}) {
				t.Errorf("a repeat: %v, %v", got, err)
			}
			// Its idempotency keys stay bound for later API keys of the project.
			again := bring(t.Context(), f.issue("shop", server.Scopes()).Reveal())
			_, err = askWith[fireoncev1.GetJobResponse](again, c, jobsPath+"GetJob", &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: id}})
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND)
			_, err = f.store.Job(t.Context(), store.Ref{Project: "shop", Key: "own"})
			if r := new(store.RemovedError); !errors.As(err, &r) || r.Job.String() != id {
				t.Errorf("the key is bound to %v", err)
			}
			if _, err := askWith[fireoncev1.GetJobResponse](operator, c, jobsPath+"GetJob", &fireoncev1.GetJobRequest{
				Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: "here"},
			}); err != nil {
				t.Errorf("a job of another project: %v", err)
			}
		})
	}
}

// TestEraseProjectForgetsConnections: a submit right after an erasure sees that the
// connection is gone.
func TestEraseProjectForgetsConnections(t *testing.T) {
	calls := map[string]int{}
	inBubble(t, func(t *testing.T, f *fixture) {
		c, operator := overConnect(f), bring(t.Context(), "operator")
		key := f.issue("shop", server.Scopes())
		shop := bring(t.Context(), key.Reveal())
		conn, id := f.inProject(shop, t, "shop", c)
		f.must(c.call(shop, jobsPath+"CancelJob",
			&fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: id}}, &fireoncev1.CancelJobResponse{}))
		_, err := f.store.RevokeAPIKey(t.Context(), key.ID)
		f.must(err)
		f.clock.advance(time.Hour)
		got, err := askWith[adminv1.EraseProjectResponse](operator, c, eraseProject, &adminv1.EraseProjectRequest{ProjectId: "shop"})
		if err != nil || got.GetErasedConnectionCount() != 1 {
			t.Fatalf("erased: %v, %v", got, err)
		}
		again := bring(t.Context(), f.issue("shop", server.Scopes()).Reveal())
		clear(calls)
		err = c.call(again, scheduleJob, f.request("new", on(conn)), &fireoncev1.ScheduleJobResponse{})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND)
		if calls["Connection"] != 1 || calls["Create"] != 0 {
			t.Errorf("%v calls of the store, want one read of the connection alone", calls)
		}
	}, func(c *server.Config) {
		c.APIKey = "operator"
		c.Keep = store.Keep{Keys: job.KeyKept}
		c.Store = counting{Store: c.Store, mu: &sync.Mutex{}, calls: calls}
	})
}

// schedule2 stores a job with a caller's context.
func (f *fixture) schedule2(ctx context.Context, c client, key string) {
	f.tb.Helper()
	f.must(c.call(ctx, scheduleJob, f.request(key), &fireoncev1.ScheduleJobResponse{}))
}

// observable has the next jobs go to a target that can be looked at.
func (f *fixture) observable() {
	f.tb.Helper()
	looked := store.Connection{ID: job.ID{7}, Project: server.DefaultProject, Connector: "stub", Class: job.Observable, AccountIdentity: "me"}
	_, _, err := f.store.CreateConnection(f.tb.Context(), store.NewConnection{Connection: looked})
	f.must(err)
	f.conn = looked.ID.String()
}

// TestContentTable: the table of content names fields of the contract, and every message
// of an answer that has a payload or a target's answer is in it.
func TestContentTable(t *testing.T) {
	carries := map[protoreflect.FullName]bool{"fireonce.v1.Payload": true, "fireonce.v1.Answer": true}
	seen := map[protoreflect.FullName]bool{}
	var walk func(m protoreflect.MessageDescriptor)
	walk = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] {
			return
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			field := m.Fields().Get(i)
			inner := field.Message()
			if inner == nil {
				continue
			}
			if carries[inner.FullName()] && !server.IsContent(field) {
				t.Errorf("%s is content: add it to contentOf", field.FullName())
			}
			walk(inner)
		}
	}
	for m := range server.Methods() {
		walk(m.Output())
	}
	for _, wrong := range server.MisnamedContent(func(name protoreflect.FullName) bool { return seen[name] }) {
		t.Errorf("contentOf: %s", wrong)
	}
	if !seen["fireonce.v1.Job"] || !seen["fireonce.v1.JobChanged"] {
		t.Errorf("the test reads the contract wrongly: %v", seen)
	}
}

// TestContentNeedsItsScope: no answer and no event shows content to a key with every scope
// but payloads:read, and each message says that it had some.
func TestContentNeedsItsScope(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, requireKey)
			c := dial(f)
			seeing := bring(t.Context(), f.issue(server.DefaultProject, []string{server.ScopeJobsRead, server.ScopeJobsWrite, server.ScopePayloadsRead}).Reveal())
			blind := bring(t.Context(), f.issue(server.DefaultProject, without(server.ScopePayloadsRead)).Reveal())
			f.observable()
			submit := f.request("k", func(r *scheduleRequest) { r.Payload = custom(canary+"/v1", canary) })
			res, err := askWith[fireoncev1.ScheduleJobResponse](seeing, c, scheduleJob, submit)
			f.must(err)
			id := res.GetJob().GetJobId()
			snap := f.arm()
			snap = f.learn(snap.ID, job.Outcome{
				Attempt: 1, Result: job.ResultUnknown, Kind: job.FailAmbiguous, Message: canary, HTTPStatus: 503,
				Answer: &job.Answer{Status: 503, Body: canary},
			})
			f.learn(snap.ID, job.Looked{Observation: job.Observation{Attempt: 1, Verdict: job.SawInconclusive, Detail: canary}})
			byJob := &fireoncev1.EventFilter{JobIds: []string{id}}
			for procedure, req := range map[string]proto.Message{
				scheduleJob:                    submit,
				jobsPath + "BatchScheduleJobs": &fireoncev1.BatchScheduleJobsRequest{Requests: []*scheduleRequest{submit}},
				jobsPath + "GetJob":            &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: id}},
				jobsPath + "CancelJob":         &fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: id}},
				jobsPath + "ListJobs":          &fireoncev1.ListJobsRequest{},
				jobsPath + "ListJobAttempts":   &fireoncev1.ListJobAttemptsRequest{Job: &fireoncev1.ListJobAttemptsRequest_JobId{JobId: id}},
				jobsPath + "ListJobObservations": &fireoncev1.ListJobObservationsRequest{
					Job: &fireoncev1.ListJobObservationsRequest_JobId{JobId: id},
				},
				jobsPath + "ListJobEvents": &fireoncev1.ListJobEventsRequest{Filter: byJob, IncludeJob: true},
				jobsPath + "StreamJobEvents": &fireoncev1.StreamJobEventsRequest{
					Filter: byJob, Start: &fireoncev1.StreamJobEventsRequest_FromBeginning{FromBeginning: true},
					IncludeJob: true, MaxDuration: durationpb.New(900e9),
				},
			} {
				short := procedure[strings.LastIndex(procedure, "/")+1:]
				text, err := invoke(blind, c, procedure, req, "ANSWERED")
				f.must(err)
				if strings.Contains(text, canary) || strings.Contains(text, canaryInBase64) {
					t.Errorf("%s shows content: %s", short, text)
				}
				if !strings.Contains(text, "contentWithheld") {
					t.Errorf("%s does not say that content is withheld: %s", short, text)
				}
				text, err = invoke(seeing, c, procedure, req, "ANSWERED")
				f.must(err)
				if !strings.Contains(text, canary) && !strings.Contains(text, canaryInBase64) || strings.Contains(text, "contentWithheld") {
					t.Errorf("%s with the scope: %s", short, text)
				}
			}
		})
	}
}

// TestBlockedReasonsQuoteNobody: without payloads:read a job's blocked_reason has no words of
// the platform, whichever way it was put off.
func TestBlockedReasonsQuoteNobody(t *testing.T) {
	for name, tt := range map[string]struct {
		kind    fireoncev1.BlockedReason_Kind
		putOff  func(f *fixture)
		withSay bool
	}{
		"a refused credential": {fireoncev1.BlockedReason_KIND_CREDENTIAL, func(f *fixture) {
			f.learn(f.arm().ID, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailAuth, Message: canary, HTTPStatus: 401})
		}, true},
		"a refused credential before the attempt": {fireoncev1.BlockedReason_KIND_CREDENTIAL, func(f *fixture) {
			f.learn(f.claim().ID, job.Deferred{Kind: job.FailAuth, Message: canary})
		}, true},
		"held": {fireoncev1.BlockedReason_KIND_PUT_OFF, func(f *fixture) {
			f.learn(f.claim().ID, job.Deferred{Kind: job.FailHeld, Message: canary, RetryAfter: time.Minute})
		}, true},
		"a look that was not made": {fireoncev1.BlockedReason_KIND_PUT_OFF, func(f *fixture) {
			snap := f.learn(f.arm().ID, job.Outcome{Attempt: 1, Result: job.ResultUnknown, Kind: job.FailAmbiguous, Message: "lost"})
			f.learn(snap.ID, job.Deferred{Kind: job.FailHeld, Message: canary, RetryAfter: time.Minute})
		}, true},
		"the job's connection is paused": {fireoncev1.BlockedReason_KIND_CONNECTION_PAUSED, func(f *fixture) {
			conn, err := f.store.Connection(t.Context(), store.Ref{Project: server.DefaultProject, ID: f.id(f.conn)})
			f.must(err)
			pause := canary
			_, err = f.store.ChangeConnection(t.Context(), store.ConnectionChange{Project: conn.Project, ID: conn.ID, Version: conn.Version, Pause: &pause})
			f.must(err)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, requireKey)
			c := overGRPC(f)
			f.observable()
			seeing := bring(t.Context(), f.issue(server.DefaultProject, server.Scopes()).Reveal())
			blind := bring(t.Context(), f.issue(server.DefaultProject, without(server.ScopePayloadsRead)).Reveal())
			f.schedule2(seeing, c, "k")
			tt.putOff(f)
			read := func(ctx context.Context) *fireoncev1.BlockedReason {
				res, err := askWith[fireoncev1.GetJobResponse](ctx, c, jobsPath+"GetJob", &fireoncev1.GetJobRequest{
					Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: "k"},
				})
				f.must(err)
				return res.GetJob().GetBlockedReason()
			}
			if b := read(seeing); b.GetKind() != tt.kind || !strings.Contains(b.GetMessage(), canary) || b.GetContentWithheld() {
				t.Errorf("with the scope: %v", b)
			}
			b := read(blind)
			if b.GetKind() != tt.kind || b.GetMessage() == "" || strings.Contains(b.GetMessage(), canary) == tt.withSay || b.GetContentWithheld() != tt.withSay {
				t.Errorf("without the scope: %v", b)
			}
		})
	}
}

// TestSharedEventsStayWhole: a stream without the scope takes nothing from one that has it,
// although both are sent the same messages.
func TestSharedEventsStayWhole(t *testing.T) {
	f := start(t, requireKey)
	c := overGRPC(f)
	seeing := bring(t.Context(), f.issue(server.DefaultProject, []string{server.ScopeJobsRead, server.ScopePayloadsRead}).Reveal())
	blind := bring(t.Context(), f.issue(server.DefaultProject, []string{server.ScopeJobsRead}).Reveal())
	submitter := bring(t.Context(), f.issue(server.DefaultProject, []string{server.ScopeJobsWrite}).Reveal())
	req := &fireoncev1.StreamJobEventsRequest{IncludeJob: true}
	var streams []feed
	for _, ctx := range []context.Context{blind, seeing, blind} {
		s := c.stream(ctx, req)
		defer s.close()
		if _, err := s.next(); err != nil { // from now on
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	f.schedule2(submitter, c, "k")
	snap := f.arm()
	f.learn(snap.ID, job.Outcome{Attempt: 1, Result: job.ResultUnknown, Kind: job.FailAmbiguous, Message: canary})
	for i, s := range streams {
		for {
			m, err := s.next()
			f.must(err)
			if m.GetJobChanged().GetCause() != fireoncev1.EventCause_EVENT_CAUSE_ANSWERED {
				continue
			}
			a := m.GetJobChanged().GetAttempt()
			if whole := i == 1; (a.GetDetail() == canary) != whole || a.GetContentWithheld() == whole {
				t.Errorf("stream %d: %v", i, a)
			}
			break
		}
	}
}

// TestStateReasonsQuoteNobody: without payloads:read a connection has no words of its platform,
// and says so; the words of the person who paused it stay. The same holds for a test.
func TestStateReasonsQuoteNobody(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, requireKey, withSocial(nil))
			c := dial(f)
			seeing := bring(t.Context(), f.issue(server.DefaultProject, server.Scopes()).Reveal())
			blind := bring(t.Context(), f.issue(server.DefaultProject, without(server.ScopePayloadsRead)).Reveal())
			made, err := askWith[connectionsv1.CreateConnectionResponse](seeing, c, connsPath+"CreateConnection", &connectionsv1.CreateConnectionRequest{
				IdempotencyKey: "k", Credential: token("refused-1"), Connection: &connectionsv1.Connection{Connector: "social"},
			})
			f.must(err)
			id := made.GetConnection().GetConnectionId()
			submit := f.request("job", on(id))
			_, err = askWith[fireoncev1.ScheduleJobResponse](seeing, c, scheduleJob, submit)
			f.must(err)
			f.learn(f.claim().ID, job.Deferred{Kind: job.FailAuth, Auth: job.AuthLoginEnded, Message: canary, CredentialVersion: 1})
			read := func(ctx context.Context) []*connectionsv1.Connection {
				one, err := askWith[connectionsv1.GetConnectionResponse](ctx, c, connsPath+"GetConnection", &connectionsv1.GetConnectionRequest{
					Connection: &connectionsv1.GetConnectionRequest_ConnectionId{ConnectionId: id},
				})
				f.must(err)
				all, err := askWith[connectionsv1.ListConnectionsResponse](ctx, c, connsPath+"ListConnections", &connectionsv1.ListConnectionsRequest{
					Filter: &connectionsv1.ConnectionFilter{ConnectionIds: []string{id}},
				})
				f.must(err)
				return append(all.GetConnections(), one.GetConnection())
			}
			const refused = fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_LOGIN_ENDED
			for _, got := range read(seeing) {
				if got.GetStateCause() != refused || !strings.Contains(got.GetStateReason(), canary) || got.GetContentWithheld() {
					t.Errorf("with the scope: %v", got)
				}
			}
			for _, got := range read(blind) {
				if got.GetStateCause() != refused || got.GetStateReason() == "" || strings.Contains(got.String(), canary) || !got.GetContentWithheld() {
					t.Errorf("without the scope: %v", got)
				}
			}
			test := func(ctx context.Context) *connectionsv1.TestConnectionResponse {
				res, err := askWith[connectionsv1.TestConnectionResponse](ctx, c, connsPath+"TestConnection", &connectionsv1.TestConnectionRequest{
					Connection: &connectionsv1.TestConnectionRequest_ConnectionId{ConnectionId: id},
				})
				f.must(err)
				return res
			}
			if res := test(seeing); res.GetDetail() == "" || res.GetContentWithheld() {
				t.Errorf("with the scope: %v", res)
			}
			if res := test(blind); res.GetDetail() != "" || !res.GetContentWithheld() || res.GetFailureKind() == 0 {
				t.Errorf("without the scope: %v", res)
			}
			if _, err := askWith[connectionsv1.PauseConnectionResponse](seeing, c, connsPath+"PauseConnection", &connectionsv1.PauseConnectionRequest{
				Connection: &connectionsv1.PauseConnectionRequest_ConnectionId{ConnectionId: f.conn}, Reason: "holiday",
			}); err != nil {
				t.Fatal(err)
			}
			id = f.conn
			for _, got := range read(blind) {
				if got.GetStateReason() != "holiday" || got.GetContentWithheld() {
					t.Errorf("paused: %v", got)
				}
			}
		})
	}
}
