package notice

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/webhook"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/store"
	simulated "github.com/fireonce/fireonce/store/memory"
)

// live is a world in a bubble of simulated time, in which the real engine sends jobs and notices.
// A job of jobURL fails for good. The receiver of notices can be down.
type live struct {
	*world

	mu    sync.Mutex
	down  bool
	tried map[string]int // how often a notice was to be sent, by effect key
	came  []arrival
}

// arrival is a notice that arrived.
type arrival struct {
	key, payload string
	at           time.Time
}

const (
	jobURL  = "https://job.example/x"
	toldURL = "https://told.example/x"
)

// line is the webhook connector with scripted receivers.
type line struct {
	connector.Connector // the real one, for what does no I/O
	to                  *live
}

// Open implements connector.Connector.
func (l line) Open(_ context.Context, o connector.Opening) (connector.Session, error) {
	told := strings.Contains(string(o.Prepared.Frozen), toldURL)
	if told && l.to.isDown() {
		l.to.note(o, "", false)
		return nil, &connector.Refusal{Kind: job.FailTransient, Msg: "connection refused"}
	}
	return &talk{l.to, o, told}, nil
}

type talk struct {
	to   *live
	o    connector.Opening
	told bool
}

// Publish implements connector.Session.
func (s *talk) Publish(c connector.Commit) job.Outcome {
	if !s.told {
		return job.Outcome{Attempt: c.Attempt, Result: job.ResultRejected, Kind: job.FailPermanent, Message: "no", HTTPStatus: statusGone}
	}
	if err := c.MaySend(); err != nil {
		return job.Outcome{Attempt: c.Attempt, Result: job.ResultNotSent, Kind: job.FailTransient, Message: err.Error()}
	}
	s.to.note(s.o, c.EffectKey, true)
	return job.Outcome{Attempt: c.Attempt, Result: job.ResultSucceeded}
}

// Close implements connector.Session.
func (*talk) Close() {}

func (l *live) isDown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

func (l *live) falls(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

// note notes a try to send a notice.
func (l *live) note(o connector.Opening, key string, arrives bool) {
	snap, err := l.s.Job(context.Background(), store.Ref{Project: job.NoticeProject("default"), ID: o.Job})
	if err != nil {
		l.Error(err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tried[snap.EffectKey("ns")]++
	if arrives {
		l.came = append(l.came, arrival{snap.EffectKey("ns"), string(snap.Payload), time.Now()})
		if key != snap.EffectKey("ns") {
			l.Errorf("a notice was sent under %s, its key is %s", key, snap.EffectKey("ns"))
		}
	}
}

// living runs a test in a bubble, with an engine and a runner.
func living(t *testing.T, test func(l *live)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &live{world: &world{T: t}, tried: make(map[string]int)}
		l.s = simulated.Open(simulated.Options{Now: time.Now, NewID: l.id})
		registry, err := connector.NewRegistry(line{webhook.New(webhook.Config{}), l})
		l.ok(err)
		settings, err := proto.Marshal(&connectionsv1.WebhookSettings{
			ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(48 * time.Hour), CallbackUrl: toldURL,
		})
		l.ok(err)
		l.conn, _, err = l.s.CreateConnection(t.Context(), store.NewConnection{Connection: store.Connection{
			ID: l.id(), Project: "default", Connector: "webhook", Class: job.Keyed, KeyWindow: 48 * time.Hour, Settings: settings,
		}})
		l.ok(err)
		l.r = New(Config{Store: l.s, Wire: plainWire{}, Connectors: registry, NewID: l.id, Worker: "worker"})
		e, err := engine.New(engine.Config{
			Store: l.s, Connectors: registry, Worker: "worker", NewID: l.id, Namespace: "ns", Poll: store.HintAhead, Clock: bubbleClock{},
			Log:  slog.New(slog.DiscardHandler),
			Open: func(store.Connection, store.Sealed) (connector.Credential, error) { return connector.Credential{}, nil },
		})
		l.ok(err)
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		all.Go(func() { l.r.Run(ctx) })
		all.Go(func() { _ = e.Run(ctx) })
		test(l)
		stop()
		all.Wait()
		l.ok(l.s.Close())
	})
}

// bubbleClock is a clock whose readings agree with the bubble's time.
type bubbleClock struct{}

// Read implements engine.Clock.
func (bubbleClock) Read() engine.Reading {
	now := time.Now()
	return engine.Reading{Time: now, Boot: now.Sub(time.Unix(0, 0))}
}

// failLater makes a job that the engine sends, and that is refused for good.
func (l *live) failLater() job.ID {
	l.Helper()
	id := l.id()
	var body job.Fingerprint
	body.Set("test", id[:])
	spec, err := submit.Spec("default", fmt.Sprint("job-", id), &fireoncev1.ScheduleJobRequest{
		Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
			Url: jobURL, Content: &fireoncev1.Webhook_BodyText{BodyText: "{}"},
		}}},
	}, body)
	l.ok(err)
	spec.ID, spec.Connection, spec.HoldKey = id, l.conn.ID, "jobs"
	out, err := l.s.Create(l.Context(), []store.NewJob{{Spec: spec, Class: l.conn.Class, Actor: "ann", Callback: l.conn.ID}})
	l.ok(err)
	l.ok(out[0].Err)
	return id
}

// callAt changes the connection's URL of callbacks; empty: it has none.
func (l *live) callAt(url string) {
	l.Helper()
	settings, err := proto.Marshal(&connectionsv1.WebhookSettings{
		ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(48 * time.Hour), CallbackUrl: url,
	})
	l.ok(err)
	l.conn, err = l.s.ChangeConnection(l.Context(), store.ConnectionChange{
		Project: "default", ID: l.conn.ID, Version: l.conn.Version, Actor: "ann",
		Target: &store.ConnectionTarget{Settings: settings, Class: job.Keyed, KeyWindow: 48 * time.Hour},
	})
	l.ok(err)
}

// pass lets time pass.
func (l *live) pass(d time.Duration) {
	time.Sleep(d) // the bubble's time
	synctest.Wait()
}

// arrivals returns what came so far.
func (l *live) arrivals() []arrival {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.came)
}

// inOrder checks that what came has the jobs in their order, each once, in notices that are numbered
// from 1 and have an id of their own.
func (l *live) inOrder(jobs []job.ID) {
	l.Helper()
	var got []string
	keys := make(map[string]bool)
	for i, a := range l.arrivals() {
		n, of := l.body(job.Snapshot{Job: job.Job{Spec: job.Spec{Payload: []byte(a.payload)}}})
		if n != fmt.Sprint(i+1) || keys[a.key] {
			l.Errorf("notice %s came as number %d, under %s, which came before: %t", n, i+1, a.key, keys[a.key])
		}
		keys[a.key] = true
		got = append(got, of...)
	}
	var want []string
	for _, id := range jobs {
		want = append(want, id.String())
	}
	if !slices.Equal(got, want) {
		l.Errorf("%d jobs were reported, want %d:\n%v\nwant\n%v", len(got), len(want), got, want)
	}
}

// TestSubscriberDownForADay: a job fails each ten minutes while the receiver is down for a day.
// Once it is up, it receives all of them within the longest pause between two tries, in order, and
// the first notice is the one that failed.
func TestSubscriberDownForADay(t *testing.T) {
	living(t, func(l *live) {
		id := l.subscribe(&subscriptionsv1.Subscription{})
		l.falls(true)
		var jobs []job.ID
		for range 24 * 6 {
			jobs = append(jobs, l.failLater())
			l.pass(10 * time.Minute)
		}
		if s := l.read(id); s.State != store.SubscriptionActive || s.Number != 1 || len(l.arrivals()) != 0 {
			l.Errorf("after a day: %+v", s)
		}
		if len(l.tried) != 1 {
			l.Errorf("after a day %d notices were tried, want the first alone", len(l.tried))
		}
		up := time.Now()
		l.falls(false)
		l.pass(maxBackoff + time.Minute)
		l.inOrder(jobs)
		last := l.arrivals()[len(l.arrivals())-1].at.Sub(up)
		l.Logf("%d jobs in %d notices, the last one %v after the receiver was up", len(jobs), len(l.arrivals()), last)
		for key := range l.tried {
			if key == l.arrivals()[0].key && l.tried[key] < 100 {
				l.Errorf("the first notice was tried %d times in a day", l.tried[key])
			}
		}
		if s := l.read(id); s.Failed != 0 || s.Open != 0 || s.Number != int64(len(l.arrivals())) {
			l.Errorf("in the end: %+v", s)
		}
	})
}

// TestSubscriberDownForThreeDays: the subscription pauses itself. Nothing is sent in the pause, although
// the receiver is up; after ResumeSubscription the same notice comes first, and nothing is missing.
func TestSubscriberDownForThreeDays(t *testing.T) {
	living(t, func(l *live) {
		id := l.subscribe(&subscriptionsv1.Subscription{})
		l.falls(true)
		began := time.Now()
		var jobs []job.ID
		for l.read(id).State == store.SubscriptionActive {
			if time.Since(began) > 4*24*time.Hour {
				t.Fatal("it never pauses itself")
			}
			jobs = append(jobs, l.failLater())
			l.pass(time.Hour)
		}
		s := l.read(id)
		if d := s.PausedAt.Sub(began); d < GiveUp || s.PauseCause != store.SubscriptionPausedByFailures || s.Failed != 1 || !strings.Contains(s.Note, "refused") {
			l.Errorf("after %v: %+v", d, s)
		}
		var first string
		for key := range l.tried {
			first = key
		}
		l.falls(false)
		jobs = append(jobs, l.failLater())
		l.pass(24 * time.Hour)
		if n := len(l.arrivals()); n != 0 || len(l.tried) != 1 {
			l.Errorf("%d notices came in the pause, %d were tried", n, len(l.tried))
		}
		s = l.read(id)
		s.State, s.PauseCause, s.Note, s.UpdatedBy, s.Next, s.OnlyThen = store.SubscriptionActive, 0, "", "ann", s.PausedAt, true
		_, err := l.s.ChangeSubscription(l.Context(), s)
		l.ok(err)
		l.pass(time.Minute)
		if came := l.arrivals(); len(came) == 0 || came[0].key != first {
			l.Errorf("%d notices came, the first not as it was tried", len(came))
		}
		l.inOrder(jobs)
	})
}

// TestCallbacksGoOn: no call shows callbacks or resumes them, so they never pause: not when the
// receiver is down for longer than that, nor when the connection has no URL for a while.
func TestCallbacksGoOn(t *testing.T) {
	living(t, func(l *live) {
		id := l.subscribeAs(&subscriptionsv1.Subscription{}, true)
		l.falls(true)
		var jobs []job.ID
		for range 4 * 6 {
			jobs = append(jobs, l.failLater())
			l.pass(4 * time.Hour)
		}
		if s := l.read(id); s.State != store.SubscriptionActive || s.Failed != 1 {
			l.Errorf("after four days: %+v", s)
		}
		l.falls(false)
		l.pass(time.Hour)
		l.inOrder(jobs)
		l.callAt("")
		jobs = append(jobs, l.failLater())
		l.pass(time.Hour)
		if s := l.read(id); s.State != store.SubscriptionActive || s.LastError == "" {
			l.Errorf("without a URL: %+v", s)
		}
		l.callAt(toldURL)
		l.pass(time.Hour)
		l.inOrder(jobs)
	})
}

// TestNoneWithoutAnOutcome: a job that is under way is in no notice, and its end is in one.
func TestNoneWithoutAnOutcome(t *testing.T) {
	w := newWorld(t)
	id := w.subscribe(&subscriptionsv1.Subscription{Filter: &subscriptionsv1.NoticeFilter{States: []fireoncev1.JobState{
		fireoncev1.JobState_JOB_STATE_SUCCEEDED, fireoncev1.JobState_JOB_STATE_FAILED,
	}}})
	one := w.armed()
	w.run()
	if s := w.read(id); s.Number != 0 {
		t.Fatalf("a job that is under way is told: %+v", s)
	}
	w.apply(one, refused)
	w.run()
	if n, jobs := w.body(w.under(id)); n != "1" || len(jobs) != 1 || jobs[0] != one.String() {
		t.Errorf("notice %s has %v", n, jobs)
	}
}

// TestStormIsCounted: what is more than a notice lists is a digest of the counts, and nothing of it is
// left out or told again.
func TestStormIsCounted(t *testing.T) {
	const failures = storm + 50
	w := newWorld(t)
	id := w.subscribe(&subscriptionsv1.Subscription{})
	for range failures {
		w.fail()
	}
	w.run()
	n, digest := w.digest(w.under(id))
	if n != "1" || digest.Count != fmt.Sprint(failures) || len(digest.Examples) == 0 || len(digest.Groups) != 1 || digest.Groups[0].Count != digest.Count {
		t.Errorf("notice %s is %+v", n, digest)
	}
	w.end(w.under(id).ID, arrived)
	late := w.fail()
	w.run()
	if n, jobs := w.body(w.under(id)); n != "2" || len(jobs) != 1 || jobs[0] != late.String() {
		t.Errorf("after the storm notice %s has %v", n, jobs)
	}
}
