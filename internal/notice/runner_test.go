package notice

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/webhook"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	simulated "github.com/fireonce/fireonce/store/memory"
)

// world is a store in memory, a runner over it, and a clock that the test moves. The test plays the
// engine: it ends the jobs of notices.
type world struct {
	*testing.T
	now  time.Time
	s    *simulated.Store
	r    *Runner
	conn store.Connection
	ids  uint64
}

// plainWire converts events to their job and state alone.
type plainWire struct{}

func (plainWire) NoticeEvents(_ context.Context, _ string, page store.EventPage, _ bool) ([]*fireoncev1.JobEvent, error) {
	var out []*fireoncev1.JobEvent
	for _, e := range page.Events {
		out = append(out, &fireoncev1.JobEvent{Event: &fireoncev1.JobEvent_JobChanged{JobChanged: &fireoncev1.JobChanged{
			JobId: e.Job.String(), NewState: fireoncev1.JobState(e.To), Sequence: e.Sequence,
		}}})
	}
	return out, nil
}

func (plainWire) NoticeCursor(_ string, incarnation, position int64) string {
	return fmt.Sprint(incarnation, "/", position)
}

func (plainWire) NoticeCause(job.Cause) fireoncev1.EventCause { return 0 }

// standingOf are how connections are, by their ids, as a test says.
var standingOf = map[string]fireoncev1.ConnectionStateCause{}

func (plainWire) NoticeConnections(_ context.Context, _ string, ids []job.ID, _ bool) (out []*subscriptionsv1.ConnectionChange, _ error) {
	for _, id := range ids {
		out = append(out, &subscriptionsv1.ConnectionChange{ConnectionId: id.String(), Cause: standingOf[id.String()]})
	}
	return out, nil
}

func (plainWire) ConnectionKeys(context.Context, string, []job.ID) (map[job.ID]string, error) {
	return nil, nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, now: start}
	w.s = simulated.Open(simulated.Options{Now: func() time.Time { return w.now }, NewID: w.id})
	t.Cleanup(func() { _ = w.s.Close() })
	registry, err := connector.NewRegistry(webhook.New(webhook.Config{}))
	w.ok(err)
	w.r = New(Config{Store: w.s, Wire: plainWire{}, Connectors: registry, NewID: w.id, Worker: "worker"})
	settings, err := proto.Marshal(&connectionsv1.WebhookSettings{
		ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(48 * time.Hour),
		CallbackUrl: "https://told.example/x",
	})
	w.ok(err)
	w.conn, _, err = w.s.CreateConnection(t.Context(), store.NewConnection{Connection: store.Connection{
		ID: w.id(), Project: "default", Connector: "webhook", Class: job.Keyed, KeyWindow: 48 * time.Hour, Settings: settings,
	}})
	w.ok(err)
	return w
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) id() (id job.ID) {
	w.ids++
	binary.BigEndian.PutUint64(id[8:], w.ids)
	return id
}

func (w *world) subscribe(stated *subscriptionsv1.Subscription) job.ID {
	w.Helper()
	return w.subscribeAs(stated, false)
}

// subscribeAs makes a subscription, or the one for callbacks.
func (w *world) subscribeAs(stated *subscriptionsv1.Subscription, callbacks bool) job.ID {
	w.Helper()
	spec, err := EncodeSpec(stated)
	w.ok(err)
	s, _, err := w.s.CreateSubscription(w.Context(), store.NewSubscription{Subscription: store.Subscription{
		ID: w.id(), Project: "default", Key: "told", Connection: w.conn.ID, Spec: spec, CreatedBy: "ann", Callbacks: callbacks,
	}})
	w.ok(err)
	return s.ID
}

// fail makes a job that fails.
func (w *world) fail() job.ID {
	w.Helper()
	id := w.armed()
	w.apply(id, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent, Message: "no"})
	return id
}

// armed makes a job whose request is under way.
func (w *world) armed() job.ID {
	w.Helper()
	out, err := w.s.Create(w.Context(), []store.NewJob{{Spec: job.Spec{
		ID: w.id(), Project: "default", Key: fmt.Sprint("job-", w.ids), Connection: w.conn.ID, HoldKey: "jobs", PayloadKind: "webhook",
		StartWindow: time.Hour, Delivery: job.OnceOrAsk,
	}}})
	w.ok(err)
	w.arm(out[0].Snapshot.ID)
	return out[0].Snapshot.ID
}

// end claims a job, arms it, and settles it by evidence.
func (w *world) end(id job.ID, e job.Evidence) {
	w.Helper()
	w.arm(id)
	w.apply(id, e)
}

// arm claims and arms a job.
func (w *world) arm(id job.ID) {
	w.Helper()
	leased, err := w.s.Claim(w.Context(), store.ClaimParams{Worker: "engine", Lease: time.Minute, Limit: 100})
	w.ok(err)
	if len(leased) != 1 || leased[0].ID != id {
		w.Fatalf("job %s is not the only one that is due: %v", id, leased)
	}
	l := leased[0]
	out, err := w.s.Arm(w.Context(), []store.Arm{{
		Job: l.ID, Version: l.Version, Claim: l.ClaimToken, Token: w.id(), Worker: "engine", Class: l.Class, EffectKey: l.EffectKey("ns"),
		Digest: []byte("d"), Frozen: []byte("f"), SendBy: time.Second, AnswerBy: 2 * time.Second, Fence: 3 * time.Second, KeepTrying: time.Hour,
	}})
	w.ok(err)
	w.ok(out[0].Err)
}

func (w *world) apply(id job.ID, e job.Evidence) {
	w.Helper()
	snap, err := w.s.Job(w.Context(), store.Ref{ID: id})
	w.ok(err)
	d, err := job.Decide(snap.View(job.Traits{Class: snap.Class, KeyWindow: 48 * time.Hour}, 0), e)
	w.ok(err)
	out, err := w.s.Apply(w.Context(), []store.Change{{Job: id, Version: snap.Version, Decision: d, Actor: "engine"}})
	w.ok(err)
	w.ok(out[0].Err)
}

// run makes all steps that are due.
func (w *world) run() {
	w.Helper()
	for range 20 {
		wait, err := w.r.Once(w.Context())
		w.ok(err)
		if wait > 0 {
			return
		}
	}
	w.Fatal("the steps do not end")
}

func (w *world) read(id job.ID) store.Subscription {
	w.Helper()
	s, err := w.s.Subscription(w.Context(), store.Ref{ID: id})
	w.ok(err)
	return s
}

// under returns the job of the notice that is under way.
func (w *world) under(id job.ID) job.Snapshot {
	w.Helper()
	s := w.read(id)
	if s.Open == 0 {
		w.Fatalf("no notice is under way: %+v", s)
	}
	snap, err := w.s.Job(w.Context(), store.Ref{Project: job.NoticeProject("default"), ID: s.OpenJob})
	w.ok(err)
	return snap
}

// body returns the events of a notice's job, by their jobs.
func (w *world) body(snap job.Snapshot) (number string, jobs []string) {
	w.Helper()
	p := new(fireoncev1.Payload)
	w.ok(proto.Unmarshal(snap.Payload, p))
	var n struct {
		Data struct {
			Number string
			Events []struct {
				JobChanged struct {
					JobID string `json:"jobId"`
				}
			}
		}
	}
	w.ok(json.Unmarshal([]byte(p.GetWebhook().GetBodyText()), &n))
	for _, e := range n.Data.Events {
		jobs = append(jobs, e.JobChanged.JobID)
	}
	return n.Data.Number, jobs
}

// counted is a digest as a receiver reads it.
type counted struct {
	Count  string `json:"eventCount"`
	Groups []struct {
		Count string `json:"eventCount"`
	}
	Examples []json.RawMessage
}

// digest returns the counts of a notice's job.
func (w *world) digest(snap job.Snapshot) (number string, d counted) {
	w.Helper()
	p := new(fireoncev1.Payload)
	w.ok(proto.Unmarshal(snap.Payload, p))
	var n struct {
		Data struct {
			Number string
			Digest counted
		}
	}
	w.ok(json.Unmarshal([]byte(p.GetWebhook().GetBodyText()), &n))
	return n.Data.Number, n.Data.Digest
}

var (
	arrived = job.Outcome{Attempt: 1, Result: job.ResultSucceeded}
	refused = job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent, Message: "down", HTTPStatus: 500}
	gone    = job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent, Message: "gone", HTTPStatus: 410}
)

// TestReportedInOrder: what happens while a notice is under way is in the next one, and a notice
// cannot cause another one.
func TestReportedInOrder(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe(&subscriptionsv1.Subscription{Filter: &subscriptionsv1.NoticeFilter{States: []fireoncev1.JobState{
		fireoncev1.JobState_JOB_STATE_FAILED, fireoncev1.JobState_JOB_STATE_CANCELED,
	}}})
	first := w.fail()
	w.run()
	one := w.under(id)
	second, third := w.cancel(), w.cancel()
	w.run()
	if again := w.under(id); again.ID != one.ID {
		t.Fatal("a second notice is under way")
	}
	w.end(one.ID, refused) // the failure of a notice is no event of the project
	w.run()
	w.now = w.now.Add(time.Minute)
	w.run()
	w.end(w.under(id).ID, arrived)
	w.run()
	two := w.under(id)
	if n, jobs := w.body(one); n != "1" || strings.Join(jobs, " ") != first.String() {
		t.Errorf("notice %s has %v", n, jobs)
	}
	if n, jobs := w.body(two); n != "2" || strings.Join(jobs, " ") != second.String()+" "+third.String() {
		t.Errorf("notice %s has %v, want %s %s", n, jobs, second, third)
	}
	w.end(two.ID, arrived)
	w.run()
	if s := w.read(id); s.Open != 0 || s.Number != 2 || s.Delivered.IsZero() {
		t.Errorf("%+v", s)
	}
}

// cancel makes a job that is canceled before its time.
func (w *world) cancel() job.ID {
	w.Helper()
	out, err := w.s.Create(w.Context(), []store.NewJob{{Spec: job.Spec{
		ID: w.id(), Project: "default", Key: fmt.Sprint("job-", w.ids), Connection: w.conn.ID, HoldKey: "jobs", PayloadKind: "webhook",
		StartWindow: time.Hour, Delivery: job.OnceOrAsk,
	}, ScheduleTime: w.now.Add(time.Hour)}})
	w.ok(err)
	w.apply(out[0].Snapshot.ID, job.CancelAsked{})
	return out[0].Snapshot.ID
}

// TestSubscriberDownForDays: a notice whose jobs fail is sent again under one effect key, first of
// all; after three days the subscription pauses itself, and goes on with the same notice.
func TestSubscriberDownForDays(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe(&subscriptionsv1.Subscription{})
	w.fail()
	w.run()
	key, payload := w.under(id).EffectKey("ns"), string(w.under(id).Payload)
	began := w.now
	tries := 0
	for w.read(id).State == store.SubscriptionActive {
		if tries++; tries > 1000 {
			t.Fatal("it never pauses itself")
		}
		snap := w.under(id)
		if snap.EffectKey("ns") != key || string(snap.Payload) != payload {
			t.Fatal("another effect key or payload")
		}
		w.end(snap.ID, refused)
		w.run()
		s := w.read(id)
		if s.State == store.SubscriptionPaused {
			break
		}
		if s.Failed != 1 || s.LastError != "down" || s.Next.Sub(w.now) > maxBackoff {
			t.Fatalf("failing: %+v", s)
		}
		w.now = s.Next
		w.run()
	}
	s := w.read(id)
	if s.PauseCause != store.SubscriptionPausedByFailures || s.Note != "down" || w.now.Sub(began) < GiveUp {
		t.Errorf("after %s: %+v", w.now.Sub(began), s)
	}
	w.fail()
	w.run()
	if s := w.read(id); s.Open != 0 || s.Number != 1 {
		t.Errorf("a notice was made in the pause: %+v", s)
	}
	s = w.read(id)
	s.State, s.PauseCause, s.Note, s.UpdatedBy, s.Next, s.OnlyThen = store.SubscriptionActive, 0, "", "ann", s.PausedAt, true
	_, err := w.s.ChangeSubscription(t.Context(), s)
	w.ok(err)
	w.run()
	if snap := w.under(id); snap.EffectKey("ns") != key {
		t.Error("it goes on with another notice")
	}
	w.end(w.under(id).ID, arrived)
	w.run()
	if s := w.read(id); s.Number != 2 || s.Failed != 0 {
		t.Errorf("it did not go on: %+v", s)
	}
	notices, err := w.s.Notices(t.Context(), store.Ref{ID: id}, 0, 0)
	w.ok(err)
	if n := notices[len(notices)-1]; n.Outcome != job.Succeeded || n.Tries < 3 {
		t.Errorf("the notice is %+v", n)
	}
}

// TestGone: a receiver that answers 410 wants no more.
func TestGone(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe(&subscriptionsv1.Subscription{})
	w.fail()
	w.run()
	w.end(w.under(id).ID, gone)
	w.run()
	if s := w.read(id); s.State != store.SubscriptionPaused || s.PauseCause != store.SubscriptionPausedByFailures || s.Failed != 1 {
		t.Errorf("%+v", s)
	}
}

// TestAsked: a test and a redelivery go first, of a paused subscription too, and no event is lost by
// them.
func TestAsked(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe(&subscriptionsv1.Subscription{})
	w.fail()
	w.run()
	key := w.under(id).EffectKey("ns")
	w.end(w.under(id).ID, arrived)
	w.run()
	ask := func(what int64, state store.SubscriptionState, cause store.SubscriptionPause) {
		s := w.read(id)
		s.Asked, s.State, s.PauseCause, s.UpdatedBy = what, state, cause, "ann"
		_, err := w.s.ChangeSubscription(t.Context(), s)
		w.ok(err)
		w.run()
	}
	ask(store.AskedTest, store.SubscriptionPaused, store.SubscriptionPausedByPerson)
	if n, jobs := w.body(w.under(id)); n != "2" || len(jobs) != 0 {
		t.Errorf("the test is notice %s with %v", n, jobs)
	}
	w.end(w.under(id).ID, refused)
	w.run()
	if s := w.read(id); s.Failed != 0 || s.LastError != "down" {
		t.Errorf("after a test that failed: %+v", s)
	}
	w.fail()
	ask(1, store.SubscriptionActive, 0)
	if w.under(id).EffectKey("ns") != key {
		t.Error("the redelivery is another notice")
	}
	w.end(w.under(id).ID, arrived)
	w.run()
	if n, jobs := w.body(w.under(id)); n != "3" || len(jobs) != 1 {
		t.Errorf("then comes notice %s with %v", n, jobs)
	}
}

// TestNoConnection: a subscription whose connection is deleted pauses itself, and states the reason.
func TestNoConnection(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe(&subscriptionsv1.Subscription{})
	w.fail()
	_, err := w.s.ChangeConnection(t.Context(), store.ConnectionChange{Project: "default", ID: w.conn.ID, Version: w.conn.Version, Delete: true})
	w.ok(err)
	w.run()
	if s := w.read(id); s.State != store.SubscriptionPaused || s.Number != 0 || !strings.Contains(s.Note, "deleted") {
		t.Errorf("%+v", s)
	}
}

// TestNoPersonIsAsked: a notice whose outcome stays unknown ends as not sent, and is sent again.
func TestNoPersonIsAsked(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe(&subscriptionsv1.Subscription{})
	w.fail()
	w.run()
	snap := w.under(id)
	key := snap.EffectKey("ns")
	w.end(snap.ID, job.Outcome{Attempt: 1, Result: job.ResultUnknown, Kind: job.FailAmbiguous})
	w.now = w.now.Add(100 * time.Hour) // past everything that a repeat needs
	w.apply(snap.ID, job.LookDue{})
	if got := w.under(id).State; got != job.NeedsResolution {
		t.Fatalf("the job is %s", got)
	}
	w.run()
	w.now = w.now.Add(time.Hour)
	w.run()
	again := w.under(id)
	if again.ID == snap.ID || again.EffectKey("ns") != key {
		t.Errorf("%s is under way, it was %s", again.ID, snap.ID)
	}
}

// TestDeletedIsCanceled: the notice under way of a subscription that is deleted, as the erasure of a project
// does it, is not sent; one whose request is under way ends with it.
func TestDeletedIsCanceled(t *testing.T) {
	for name, sending := range map[string]bool{"waits": false, "is sent": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.subscribe(&subscriptionsv1.Subscription{})
			w.fail()
			w.run()
			snap := w.under(id)
			if sending {
				w.arm(snap.ID)
			}
			s := w.read(id)
			s.State, s.UpdatedBy = store.SubscriptionDeleted, "ann"
			_, err := w.s.ChangeSubscription(t.Context(), s)
			w.ok(err)
			w.run()
			if sending {
				if got := w.under(id); got.State != job.Sending || got.CancelAsked.IsZero() {
					t.Errorf("the notice is %s, its cancel was asked at %s", got.State, got.CancelAsked)
				}
				w.apply(snap.ID, job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient})
				w.run()
			}
			got, err := w.s.Job(t.Context(), store.Ref{ID: snap.ID})
			w.ok(err)
			if s := w.read(id); got.State != job.Canceled || s.Open != 0 || s.Failed != 0 {
				t.Errorf("the notice is %s: %+v", got.State, s)
			}
		})
	}
}

// TestMovedOn: a notice under way that goes on since its subscription was found due is left alone.
func TestMovedOn(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe(&subscriptionsv1.Subscription{})
	w.fail()
	w.run()
	was := w.under(id)
	_, err := w.r.step(t.Context(), store.DueSubscription{Subscription: w.read(id), Job: &was, Connection: w.conn, Now: w.now})
	w.ok(err)
	if got := w.under(id); got.Version != was.Version {
		t.Errorf("the notice is %s, its cancel was asked at %s", got.State, got.CancelAsked)
	}
}

// TestWords: words for people have what happened, where, how often, a job's key and the link.
func TestWords(t *testing.T) {
	event := func(key string, state fireoncev1.JobState) *fireoncev1.JobEvent {
		return &fireoncev1.JobEvent{Event: &fireoncev1.JobEvent_JobChanged{JobChanged: &fireoncev1.JobChanged{IdempotencyKey: key, NewState: state}}}
	}
	const need, failed = fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION, fireoncev1.JobState_JOB_STATE_FAILED
	n := &subscriptionsv1.NoticeData{
		SubscriptionKey: "pager", ProjectId: "default", Number: 7, Kind: subscriptionsv1.NoticeKind_NOTICE_KIND_DIGEST,
		Digest: &subscriptionsv1.NoticeDigest{
			EventCount: 12, Groups: []*subscriptionsv1.NoticeGroup{{ConnectionKey: "shop", NewState: need, EventCount: 10}, {ConnectionKey: "mail", NewState: failed, EventCount: 2}},
			Examples: []*fireoncev1.JobEvent{event("order-1", need), event("letter-1", failed)},
		},
	}
	subject, text := words(n, "", "https://dash.example")
	if subject != "10 jobs waiting for your decision: connection shop, and 2 others" {
		t.Errorf("the subject is %q", subject)
	}
	for _, want := range []string{subject, "order-1", "2 failed: connection mail", "fireonce incidents", "https://dash.example", "may arrive twice"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	n.Digest = &subscriptionsv1.NoticeDigest{EventCount: 1, Groups: n.GetDigest().GetGroups()[1:], Examples: []*fireoncev1.JobEvent{event("letter-1", failed)}}
	if subject, _ = words(n, "", ""); subject != "Job letter-1 failed: connection mail" {
		t.Errorf("the subject is %q", subject)
	}
}

// TestHolds: a subscription to holds reports a connection that is on hold, once, and that it works again,
// and no job.
func TestHolds(t *testing.T) {
	w := newWorld(t)
	other := w.id()
	t.Cleanup(func() { delete(standingOf, other.String()) })
	spec, err := EncodeSpec(&subscriptionsv1.Subscription{Filter: &subscriptionsv1.NoticeFilter{Holds: true, ConnectionIds: []string{other.String()}}})
	w.ok(err)
	s, _, err := w.s.CreateSubscription(t.Context(), store.NewSubscription{Subscription: store.Subscription{
		ID: w.id(), Project: "default", Key: "owner", Connection: w.conn.ID, Spec: spec, CreatedBy: "ann", Next: w.now,
	}})
	w.ok(err)
	look := func() {
		w.now = w.now.Add(holdLook)
		w.run()
	}
	w.run()
	w.fail()
	look()
	if got := w.read(s.ID); got.Open != 0 || got.Number != 0 {
		t.Fatalf("a notice of a connection that works, or of a job: %+v", got)
	}
	standingOf[other.String()] = fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_LOGIN_ENDED
	look()
	w.end(w.under(s.ID).ID, arrived)
	w.run()
	look()
	if got := w.read(s.ID); got.Open != 0 || got.Number != 1 {
		t.Fatalf("the hold is not one notice: %+v", got)
	}
	delete(standingOf, other.String())
	look()
	snap := w.under(s.ID)
	p := new(fireoncev1.Payload)
	w.ok(proto.Unmarshal(snap.Payload, p))
	if body := p.GetWebhook().GetBodyText(); !strings.Contains(body, "fireonce.notice.connections") || strings.Contains(body, "CAUSE_LOGIN_ENDED") {
		t.Errorf("the notice of a connection that works again is %s", body)
	}
}

// TestConnectionWords: the owner of a connection reads what it is and what to do, without words of operators.
func TestConnectionWords(t *testing.T) {
	since := timestamppb.New(start)
	for _, c := range []struct {
		change  *subscriptionsv1.ConnectionChange
		subject string
		want    []string
	}{
		{
			&subscriptionsv1.ConnectionChange{
				ConnectionKey: "shop", AccountIdentity: "@shop@example.social", StartTime: since,
				Cause: fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_LOGIN_ENDED,
			},
			"@shop@example.social is logged out", []string{"Log in again.", "waits", minute(start), "https://dash.example"},
		},
		{
			&subscriptionsv1.ConnectionChange{ConnectionKey: "shop", CredentialExpireTime: since},
			"shop has a login that ends at " + minute(start), []string{"Log in again before that."},
		},
		{&subscriptionsv1.ConnectionChange{ConnectionKey: "shop"}, "shop works again", nil},
	} {
		subject, text := words(&subscriptionsv1.NoticeData{
			SubscriptionKey: "owner", ProjectId: "default", Number: 1, Kind: subscriptionsv1.NoticeKind_NOTICE_KIND_CONNECTIONS,
			Connections: []*subscriptionsv1.ConnectionChange{c.change},
		}, "", "https://dash.example")
		if subject != c.subject {
			t.Errorf("the subject is %q, not %q", subject, c.subject)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("the text lacks %q:\n%s", want, text)
			}
		}
	}
}

// TestStanding: what is reported of a connection once, and what is no news.
func TestStanding(t *testing.T) {
	const refused, paused, limited = fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_CREDENTIAL_REFUSED,
		fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_PAUSED, fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_RATE_LIMITED
	soon, later := timestamppb.New(start.Add(holdSoon-time.Second)), timestamppb.New(start.Add(holdSoon+time.Second))
	m := memory{}
	for i, c := range []struct {
		cause  fireoncev1.ConnectionStateCause
		end    *timestamppb.Timestamp
		report bool
	}{
		{0, later, false},
		{limited, later, false},
		{0, soon, true},
		{0, soon, false},
		{0, nil, false}, // the credential was replaced
		{refused, nil, true},
		{refused, soon, false},
		{paused, nil, true},
		{0, nil, true},
		{0, nil, false},
		{refused, nil, true},
		{0, soon, true}, // it works, and its credential ends
	} {
		out := changes(&m, []*subscriptionsv1.ConnectionChange{{ConnectionId: "one", Cause: c.cause, CredentialExpireTime: c.end}}, start)
		if len(out) > 0 != c.report {
			t.Errorf("step %d: reported %v, not %v", i, len(out) > 0, c.report)
		}
	}
}

// brokenWire fails to encode the events of one project.
type brokenWire struct {
	plainWire
	broken bool
}

var errBroken = errors.New("broken")

func (w *brokenWire) NoticeEvents(ctx context.Context, project string, page store.EventPage, content bool) ([]*fireoncev1.JobEvent, error) {
	if w.broken {
		return nil, errBroken
	}
	return w.plainWire.NoticeEvents(ctx, project, page, content)
}

// TestFailingStepsAreRare: the steps of a subscription that fail are made and logged less and less often, and
// it goes on where it was.
func TestFailingStepsAreRare(t *testing.T) {
	w := newWorld(t)
	var log bytes.Buffer
	wire := &brokenWire{broken: true}
	w.r.cfg.Wire, w.r.cfg.Log = wire, slog.New(slog.NewTextHandler(&log, nil))
	s := w.subscribe(&subscriptionsv1.Subscription{})
	w.fail()
	begin := w.now
	for w.now.Sub(begin) < 10*time.Minute {
		wait, err := w.r.Once(t.Context())
		w.ok(err)
		w.now = w.now.Add(max(wait, rest))
	}
	if lines := strings.Count(log.String(), "a notice cannot be made"); lines < 10 || lines > 16 {
		t.Errorf("%d lines in ten minutes", lines)
	}
	wire.broken = false
	w.now = w.now.Add(longestPutOff)
	w.run()
	if got := w.under(s); got.State != job.Scheduled || len(w.r.failing) != 0 {
		t.Errorf("the notice is %s, and %d subscriptions fail", got.State, len(w.r.failing))
	}
}

// TestNoticeBeforeItsFence: a notice that waits for a person is ruled on without an error while its request may
// still act, and is sent again.
func TestNoticeBeforeItsFence(t *testing.T) {
	w := newWorld(t)
	var log bytes.Buffer
	w.r.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	s := w.subscribe(&subscriptionsv1.Subscription{})
	w.fail()
	w.run()
	under := w.under(s)
	w.end(under.ID, job.Outcome{Attempt: 1, Result: job.ResultUnknown})
	snap, err := w.s.Job(t.Context(), store.Ref{ID: under.ID})
	w.ok(err)
	if !snap.Fence.After(w.now) {
		t.Fatal("the fence has passed")
	}
	out, err := w.s.Apply(t.Context(), []store.Change{{Job: under.ID, Version: snap.Version, Actor: "engine", Decision: job.Decision{
		Action: job.ActWrite, To: job.NeedsResolution, Cause: job.CauseLooked, Attempt: snap.Attempt, Round: snap.Round,
	}}})
	w.ok(err)
	w.ok(out[0].Err)
	w.run()
	if got := w.read(s); got.Open != 0 || got.Failed != 1 || strings.Contains(log.String(), "ERROR") {
		t.Errorf("ruled on: %+v\n%s", got, log.String())
	}
}
