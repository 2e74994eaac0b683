package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

type createSubscriptionRequest = subscriptionsv1.CreateSubscriptionRequest

// storedSubscription reads a subscription from the store.
func storedSubscription(f *fixture, id string) store.Subscription {
	f.tb.Helper()
	s, err := f.store.Subscription(f.tb.Context(), store.Ref{ID: f.id(id)})
	f.must(err)
	return s
}

// told makes a webhook connection for notices, and returns its id.
func (f *fixture) told(ctx context.Context, c client, key, url string) string {
	f.tb.Helper()
	settings := webhookSettings()
	settings.Webhook.CallbackUrl = url
	res, err := askWith[connectionsv1.CreateConnectionResponse](ctx, c, connsPath+"CreateConnection", &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: key, Connection: &connectionsv1.Connection{Connector: "webhook", Settings: settings},
	})
	f.must(err)
	return res.GetConnection().GetConnectionId()
}

func newSubscription(conn, key string, edit ...func(*createSubscriptionRequest)) *createSubscriptionRequest {
	r := &createSubscriptionRequest{
		IdempotencyKey: key, Connection: &subscriptionsv1.CreateSubscriptionRequest_ConnectionId{ConnectionId: conn},
		Filter: &subscriptionsv1.NoticeFilter{Labels: map[string]string{"label": canary}},
	}
	for _, e := range edit {
		e(r)
	}
	return r
}

func (f *fixture) newSubscriptionAt(ctx context.Context, c client, r *createSubscriptionRequest) *subscriptionsv1.Subscription {
	f.tb.Helper()
	res, err := askWith[subscriptionsv1.CreateSubscriptionResponse](ctx, c, subsPath+"CreateSubscription", r)
	f.must(err)
	return res.GetSubscription()
}

// subscription makes a subscription with the canary in its filter.
func (e *exposure) subscription() *subscriptionsv1.Subscription {
	e.t.Helper()
	return e.newSubscriptionAt(e.all, e.c, e.asSubscription())
}

func (e *exposure) asSubscription() *createSubscriptionRequest {
	e.n++
	key := fmt.Sprintf("told-%d", e.n)
	return newSubscription(e.told(e.all, e.c, key, "https://told.example/x"), key)
}

// TestSubscriptions: a subscription is created once, read, changed under its etag, and deleted.
func TestSubscriptions(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		ctx := t.Context()
		conn := f.told(ctx, c, "told", "https://told.example/x")
		req := newSubscription(conn, "s", func(r *createSubscriptionRequest) { r.DisplayName = "Pager" })
		made, err := askWith[subscriptionsv1.CreateSubscriptionResponse](ctx, c, subsPath+"CreateSubscription", req)
		f.must(err)
		s := made.GetSubscription()
		if !made.GetCreated() || s.GetState() != subscriptionsv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE || s.GetConnectionKey() != "told" || s.GetCursor() == "" {
			t.Fatalf("created: %v", made)
		}
		again, err := askWith[subscriptionsv1.CreateSubscriptionResponse](ctx, c, subsPath+"CreateSubscription", req)
		f.must(err)
		if again.GetCreated() || again.GetSubscription().GetSubscriptionId() != s.GetSubscriptionId() {
			t.Errorf("repeated: %v", again)
		}
		_, err = askWith[subscriptionsv1.CreateSubscriptionResponse](ctx, c, subsPath+"CreateSubscription", newSubscription(conn, "s", func(r *createSubscriptionRequest) {
			r.Filter = nil
		}))
		if e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED); e.detail.GetIdempotencyConflict().GetSubscriptionId() != s.GetSubscriptionId() {
			t.Errorf("a reused key: %v", e.detail)
		}
		id := &subscriptionsv1.UpdateSubscriptionRequest_SubscriptionId{SubscriptionId: s.GetSubscriptionId()}
		update := &subscriptionsv1.UpdateSubscriptionRequest{
			Subscription: id, Etag: s.GetEtag(), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"rules"}}, Rules: &subscriptionsv1.NoticeRules{Recovered: true},
		}
		updated, err := askWith[subscriptionsv1.UpdateSubscriptionResponse](ctx, c, subsPath+"UpdateSubscription", update)
		f.must(err)
		if got := updated.GetSubscription(); !got.GetRules().GetRecovered() || got.GetFilter().GetLabels()["label"] != canary || got.GetEtag() == s.GetEtag() {
			t.Errorf("updated: %v", got)
		}
		_, err = askWith[subscriptionsv1.UpdateSubscriptionResponse](ctx, c, subsPath+"UpdateSubscription", update)
		f.must(err) // it is in place
		update.Rules = nil
		_, err = askWith[subscriptionsv1.UpdateSubscriptionResponse](ctx, c, subsPath+"UpdateSubscription", update)
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH)
		paused, err := askWith[subscriptionsv1.PauseSubscriptionResponse](ctx, c, subsPath+"PauseSubscription", &subscriptionsv1.PauseSubscriptionRequest{
			Subscription: &subscriptionsv1.PauseSubscriptionRequest_IdempotencyKey{IdempotencyKey: "s"}, Note: "lunch",
		})
		f.must(err)
		if got := paused.GetSubscription(); got.GetPauseCause() != subscriptionsv1.SubscriptionPauseCause_SUBSCRIPTION_PAUSE_CAUSE_REQUEST || got.GetNote() != "lunch" {
			t.Errorf("paused: %v", got)
		}
		resumed, err := askWith[subscriptionsv1.ResumeSubscriptionResponse](ctx, c, subsPath+"ResumeSubscription", &subscriptionsv1.ResumeSubscriptionRequest{
			Subscription: &subscriptionsv1.ResumeSubscriptionRequest_IdempotencyKey{IdempotencyKey: "s"},
		})
		f.must(err)
		if got := resumed.GetSubscription(); got.GetState() != subscriptionsv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE || got.GetNote() != "" {
			t.Errorf("resumed: %v", got)
		}
		_, err = askWith[subscriptionsv1.TestSubscriptionResponse](ctx, c, subsPath+"TestSubscription", &subscriptionsv1.TestSubscriptionRequest{
			Subscription: &subscriptionsv1.TestSubscriptionRequest_IdempotencyKey{IdempotencyKey: "s"},
		})
		f.must(err)
		if got := storedSubscription(f, s.GetSubscriptionId()); got.Asked != store.AskedTest {
			t.Errorf("a test: %+v", got)
		}
		_, err = askWith[subscriptionsv1.RedeliverNoticesResponse](ctx, c, subsPath+"RedeliverNotices", &subscriptionsv1.RedeliverNoticesRequest{
			Subscription: &subscriptionsv1.RedeliverNoticesRequest_IdempotencyKey{IdempotencyKey: "s"}, From: &subscriptionsv1.RedeliverNoticesRequest_Number{Number: 1},
		})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_NOTICE_NOT_FOUND)
		_, err = askWith[subscriptionsv1.RedeliverNoticesResponse](ctx, c, subsPath+"RedeliverNotices", &subscriptionsv1.RedeliverNoticesRequest{
			Subscription: &subscriptionsv1.RedeliverNoticesRequest_IdempotencyKey{IdempotencyKey: "s"}, From: &subscriptionsv1.RedeliverNoticesRequest_AfterCursor{AfterCursor: s.GetCursor()},
		})
		f.must(err)
		list, err := askWith[subscriptionsv1.ListSubscriptionsResponse](ctx, c, subsPath+"ListSubscriptions", &subscriptionsv1.ListSubscriptionsRequest{})
		f.must(err)
		notices, err := askWith[subscriptionsv1.ListNoticesResponse](ctx, c, subsPath+"ListNotices", &subscriptionsv1.ListNoticesRequest{
			Subscription: &subscriptionsv1.ListNoticesRequest_IdempotencyKey{IdempotencyKey: "s"},
		})
		f.must(err)
		if len(list.GetSubscriptions()) != 1 || len(notices.GetNotices()) != 0 {
			t.Errorf("%d subscriptions, %d notices", len(list.GetSubscriptions()), len(notices.GetNotices()))
		}
		deleted, err := askWith[subscriptionsv1.DeleteSubscriptionResponse](ctx, c, subsPath+"DeleteSubscription", &subscriptionsv1.DeleteSubscriptionRequest{
			Subscription: &subscriptionsv1.DeleteSubscriptionRequest_IdempotencyKey{IdempotencyKey: "s"},
		})
		f.must(err)
		if got := deleted.GetSubscription(); got.GetDeleteTime() == nil || got.GetFilter() != nil {
			t.Errorf("deleted: %v", got)
		}
		_, err = askWith[subscriptionsv1.PauseSubscriptionResponse](ctx, c, subsPath+"PauseSubscription", &subscriptionsv1.PauseSubscriptionRequest{
			Subscription: &subscriptionsv1.PauseSubscriptionRequest_IdempotencyKey{IdempotencyKey: "s"},
		})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_SUBSCRIPTION_STATE)
	})
}

// TestSubscriptionRefused: what cannot be reported is refused when it is asked for.
func TestSubscriptionRefused(t *testing.T) {
	f := start(t, requireKey)
	c := overConnect(f)
	all := bring(t.Context(), f.issue(server.DefaultProject, server.Scopes()).Reveal())
	blind := bring(t.Context(), f.issue(server.DefaultProject, without(server.ScopePayloadsRead)).Reveal())
	conn, plain := f.told(all, c, "told", "https://told.example/x"), f.told(all, c, "plain", "")
	content := func(r *createSubscriptionRequest) { r.IncludeContent = true }
	for what, try := range map[string]struct {
		ctx  context.Context
		req  *createSubscriptionRequest
		want fireoncev1.ErrorReason
	}{
		"no callback_url":           {all, newSubscription(plain, "a"), fireoncev1.ErrorReason_ERROR_REASON_SUBSCRIPTION_CONNECTION},
		"a connector of jobs alone": {all, newSubscription(f.conn, "a"), fireoncev1.ErrorReason_ERROR_REASON_SUBSCRIPTION_CONNECTION},
		"a target beside the URL": {all, newSubscription(conn, "a", func(r *createSubscriptionRequest) {
			r.Target = &subscriptionsv1.NoticeTarget{Kind: &subscriptionsv1.NoticeTarget_SlackChannel{SlackChannel: "C1"}}
		}), fireoncev1.ErrorReason_ERROR_REASON_SUBSCRIPTION_CONNECTION},
		"no connection": {all, newSubscription(uuid.NewString(), "a"), fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND},
		"a schedule that is none": {all, newSubscription(conn, "a", func(r *createSubscriptionRequest) {
			r.Filter.ScheduleKeys = []string{"none"}
		}), fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_NOT_FOUND},
		"content without its scope": {blind, newSubscription(conn, "a", content), fireoncev1.ErrorReason_ERROR_REASON_SCOPE_MISSING},
		"a reserved key":            {all, newSubscription(conn, "fireonce:a"), fireoncev1.ErrorReason_ERROR_REASON_KEY_RESERVED},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := askWith[subscriptionsv1.CreateSubscriptionResponse](try.ctx, c, subsPath+"CreateSubscription", try.req)
			wantReason(t, err, try.want)
		})
	}
	f.newSubscriptionAt(all, c, newSubscription(conn, "b", content))
}

// TestCallback: a job names a connection that takes callbacks, and shows it; its callbacks are a
// subscription that no call shows.
func TestCallback(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		ctx := t.Context()
		f.told(ctx, c, "plain", "")
		conn := f.told(ctx, c, "told", "https://told.example/x")
		for key, want := range map[string]fireoncev1.ErrorReason{
			"none": fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND, "plain": fireoncev1.ErrorReason_ERROR_REASON_SUBSCRIPTION_CONNECTION,
		} {
			_, err := askWith[fireoncev1.ScheduleJobResponse](ctx, c, scheduleJob, f.request("refused", func(r *scheduleRequest) { r.Callback = key }))
			wantReason(t, err, want)
		}
		req := f.request("a", func(r *scheduleRequest) { r.Callback = "told" })
		made, err := askWith[fireoncev1.ScheduleJobResponse](ctx, c, scheduleJob, req)
		f.must(err)
		got, err := askWith[fireoncev1.GetJobResponse](ctx, c, jobsPath+"GetJob", &fireoncev1.GetJobRequest{
			Job: &fireoncev1.GetJobRequest_JobId{JobId: made.GetJob().GetJobId()},
		})
		f.must(err)
		if got.GetJob().GetCallback() != "told" {
			t.Errorf("the job's callback is %q", got.GetJob().GetCallback())
		}
		_, err = askWith[fireoncev1.ScheduleJobResponse](ctx, c, scheduleJob, f.request("a"))
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
		kept, err := f.store.Subscription(ctx, store.Ref{Project: server.DefaultProject, Key: job.ReservedKeyPrefix + "callbacks/" + conn})
		f.must(err)
		list, err := askWith[subscriptionsv1.ListSubscriptionsResponse](ctx, c, subsPath+"ListSubscriptions", &subscriptionsv1.ListSubscriptionsRequest{})
		f.must(err)
		_, err = askWith[subscriptionsv1.GetSubscriptionResponse](ctx, c, subsPath+"GetSubscription", &subscriptionsv1.GetSubscriptionRequest{
			Subscription: &subscriptionsv1.GetSubscriptionRequest_SubscriptionId{SubscriptionId: kept.ID.String()},
		})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_SUBSCRIPTION_NOT_FOUND)
		if !kept.Callbacks || len(list.GetSubscriptions()) != 0 {
			t.Errorf("kept %+v, %d listed", kept, len(list.GetSubscriptions()))
		}
	})
}

// TestSilenceNeedsNoEvent: the wait for a silence begins when a subscription is made, in a project
// where nothing has happened yet, and again when it skips what it has not read.
func TestSilenceNeedsNoEvent(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		ctx := t.Context()
		s := f.newSubscriptionAt(ctx, c, newSubscription(f.told(ctx, c, "told", "https://told.example/x"), "s",
			func(r *createSubscriptionRequest) {
				r.Rules = &subscriptionsv1.NoticeRules{Silence: durationpb.New(time.Hour)}
			}))
		due := func(when string) {
			list, _, err := f.store.DueSubscriptions(ctx, job.ID{}, 10, time.Minute)
			f.must(err)
			if len(list) != 1 || list[0].Subscription.ID != f.id(s.GetSubscriptionId()) {
				t.Errorf("%s, due: %v", when, list)
			}
		}
		due("made")
		of := &subscriptionsv1.PauseSubscriptionRequest_SubscriptionId{SubscriptionId: s.GetSubscriptionId()}
		_, err := askWith[subscriptionsv1.PauseSubscriptionResponse](ctx, c, subsPath+"PauseSubscription", &subscriptionsv1.PauseSubscriptionRequest{Subscription: of})
		f.must(err)
		_, err = askWith[subscriptionsv1.ResumeSubscriptionResponse](ctx, c, subsPath+"ResumeSubscription", &subscriptionsv1.ResumeSubscriptionRequest{
			Subscription: &subscriptionsv1.ResumeSubscriptionRequest_SubscriptionId{SubscriptionId: s.GetSubscriptionId()}, SkipToNow: true,
		})
		f.must(err)
		due("resumed")
	})
}

// TestHolds: a subscription to holds is due immediately, and reports how its connections are, with the words of the
// platform only with content.
func TestHolds(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		ctx := t.Context()
		told := f.told(ctx, c, "told", "https://told.example/x")
		of := func(conns ...string) func(*createSubscriptionRequest) {
			return func(r *createSubscriptionRequest) {
				r.Filter = &subscriptionsv1.NoticeFilter{Holds: true, ConnectionIds: conns}
			}
		}
		for what, try := range map[string]struct {
			edit []func(*createSubscriptionRequest)
			want fireoncev1.ErrorReason
		}{
			"no connection": {[]func(*createSubscriptionRequest){of()}, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID},
			"a state beside it": {[]func(*createSubscriptionRequest){of(f.conn), func(r *createSubscriptionRequest) {
				r.Filter.States = []fireoncev1.JobState{fireoncev1.JobState_JOB_STATE_FAILED}
			}}, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID},
			"a rule beside it": {[]func(*createSubscriptionRequest){of(f.conn), func(r *createSubscriptionRequest) {
				r.Rules = &subscriptionsv1.NoticeRules{Recovered: true}
			}}, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID},
			"of the connection that reports": {[]func(*createSubscriptionRequest){of(f.conn, told)}, fireoncev1.ErrorReason_ERROR_REASON_SUBSCRIPTION_CONNECTION},
		} {
			_, err := askWith[subscriptionsv1.CreateSubscriptionResponse](ctx, c, subsPath+"CreateSubscription", newSubscription(told, "s", try.edit...))
			if err == nil {
				t.Errorf("%s: it was taken", what)
				continue
			}
			wantReason(t, err, try.want)
		}
		s := f.newSubscriptionAt(ctx, c, newSubscription(told, "s", of(f.conn)))
		due, _, err := f.store.DueSubscriptions(ctx, job.ID{}, 10, time.Minute)
		f.must(err)
		if len(due) != 1 || due[0].Subscription.ID != f.id(s.GetSubscriptionId()) {
			t.Errorf("due: %v", due)
		}
		_, err = askWith[subscriptionsv1.UpdateSubscriptionResponse](ctx, c, subsPath+"UpdateSubscription", &subscriptionsv1.UpdateSubscriptionRequest{
			Subscription: &subscriptionsv1.UpdateSubscriptionRequest_SubscriptionId{SubscriptionId: s.GetSubscriptionId()},
			UpdateMask:   &fieldmaskpb.FieldMask{Paths: []string{"filter"}}, Filter: &subscriptionsv1.NoticeFilter{ConnectionIds: []string{f.conn}},
		})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID)
		is := func(content bool) *subscriptionsv1.ConnectionChange {
			t.Helper()
			all, err := f.server.NoticeConnections(ctx, server.DefaultProject, []job.ID{f.id(f.conn)}, content)
			f.must(err)
			if len(all) != 1 {
				t.Fatalf("%d connections", len(all))
			}
			return all[0]
		}
		if got := is(false); got.GetCause() != 0 || got.GetConnectionId() != f.conn {
			t.Errorf("it sends: %v", got)
		}
		now := f.clock.Now()
		stop, _, err := f.store.CreateStop(ctx, store.NewStop{Stop: store.Stop{
			ID: job.ID{1}, Scope: store.StopProject, Project: server.DefaultProject, Cause: store.StoppedByPerson, CreatedBy: "ann",
			Note: "an internal note", End: now.Add(time.Hour),
		}})
		f.must(err)
		if got := is(false); got.GetCause() != fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_PAUSED || !got.GetStartTime().AsTime().Equal(now) ||
			got.GetReason() != "Paused until "+now.Add(time.Hour).Format(time.RFC3339)+"." {
			t.Errorf("its project is paused: %v", got)
		}
		_, err = f.store.EndStop(ctx, server.DefaultProject, stop.ID, "ann")
		f.must(err)
		if got := is(false); got.GetCause() != 0 || got.GetReason() != "" {
			t.Errorf("the pause has ended: %v", got)
		}
		f.schedule(f.request("k"))
		f.clock.advance(time.Minute)
		f.learn(f.claim().ID, job.Deferred{Kind: job.FailAuth, Message: canary})
		quiet, full := is(false), is(true)
		if full.GetReason() != canary || quiet.GetReason() != "" || quiet.GetCause() == 0 || quiet.GetStartTime() == nil {
			t.Errorf("on hold: %v, with content %v", quiet, full)
		}
	})
}

// TestCallbackOfASchedule: each job of a schedule has the callback that its template names by a key, which
// answers show again; what cannot take callbacks is refused as for a job.
func TestCallbackOfASchedule(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		ctx := t.Context()
		f.told(ctx, c, "plain", "")
		conn := f.told(ctx, c, "told", "https://told.example/x")
		to := func(key string) func(*createScheduleRequest) {
			return func(r *createScheduleRequest) { r.JobTemplate.Callback = key }
		}
		create := func(r *createScheduleRequest) (*schedulesv1.CreateScheduleResponse, error) {
			return askWith[schedulesv1.CreateScheduleResponse](ctx, c, schedsPath+"CreateSchedule", r)
		}
		for key, want := range map[string]fireoncev1.ErrorReason{
			"none": fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND, "plain": fireoncev1.ErrorReason_ERROR_REASON_SUBSCRIPTION_CONNECTION,
		} {
			_, err := create(f.newSchedule("s", to(key)))
			wantReason(t, err, want)
		}
		kept := store.Ref{Project: server.DefaultProject, Key: job.ReservedKeyPrefix + "callbacks/" + conn}
		dry, err := create(f.newSchedule("s", to("told"), func(r *createScheduleRequest) { r.ValidateOnly = true }))
		f.must(err)
		if _, err := f.store.Subscription(ctx, kept); !errors.Is(err, store.ErrNotFound) || dry.GetSchedule().GetJobTemplate().GetCallback() != "told" {
			t.Errorf("a dry run: %v, and %v is kept", dry.GetSchedule().GetJobTemplate(), err)
		}
		made, err := create(f.newSchedule("s", to("told")))
		f.must(err)
		again, err := create(f.newSchedule("s", to("told")))
		f.must(err)
		if again.GetCreated() || again.GetSchedule().GetJobTemplate().GetCallback() != "told" {
			t.Errorf("repeated: %v", again)
		}
		_, err = create(f.newSchedule("s"))
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
		if s, err := f.store.Subscription(ctx, kept); err != nil || !s.Callbacks {
			t.Errorf("kept: %+v, %v", s, err)
		}
		callback := func(key, want string) {
			t.Helper()
			fired, err := f.trigger(c, made.GetSchedule().GetScheduleId(), key, true)
			f.must(err)
			got, err := askWith[fireoncev1.GetJobResponse](ctx, c, jobsPath+"GetJob", &fireoncev1.GetJobRequest{
				Job: &fireoncev1.GetJobRequest_JobId{JobId: fired.GetFiring().GetJobId()},
			})
			f.must(err)
			if got.GetJob().GetCallback() != want {
				t.Errorf("the job's callback is %q, not %q", got.GetJob().GetCallback(), want)
			}
		}
		callback("now", "told")
		seen := f.getSchedule(c, made.GetSchedule().GetScheduleId()).GetSchedule()
		if seen.GetJobTemplate().GetCallback() != "told" {
			t.Errorf("read: %v", seen.GetJobTemplate())
		}
		same, err := f.updateSchedule(c, seen, func(r *updateScheduleRequest) { r.JobTemplate = seen.GetJobTemplate() }, "job_template")
		f.must(err)
		if same.GetSchedule().GetEtag() != seen.GetEtag() {
			t.Error("the template that was read changes the schedule")
		}
		_, err = f.updateSchedule(c, seen, func(r *updateScheduleRequest) {
			r.JobTemplate = proto.CloneOf(seen.GetJobTemplate())
			r.JobTemplate.Callback = ""
		}, "job_template")
		f.must(err)
		callback("then", "")
	})
}
