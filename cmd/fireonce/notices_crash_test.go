//go:build failpoints

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// subscriber receives notices. It loses the answer to the first request of each notice, as a
// receiver does that acts and dies.
type subscriber struct {
	*httptest.Server
	tb testing.TB

	mu     sync.Mutex
	first  map[string]string // the first body of each webhook-id
	order  []toldNotice
	grown  chan struct{}
	events map[string]int // how many notices have a change of a job, by job and sequence

	down    bool              // each request is answered with 503 or broken off, in turns
	refused int               // how many were, while it was down
	tried   map[string]string // the last body of each webhook-id meanwhile
}

// toldNotice is a notice as a program reads it.
type toldNotice struct {
	id   string
	Type string
	Data struct {
		Number string
		Events []struct {
			JobChanged struct {
				JobID    string `json:"jobId"`
				NewState string `json:"newState"`
				Sequence string
			}
		}
	}
}

func startSubscriber(t *testing.T) *subscriber {
	t.Helper()
	s := &subscriber{tb: t, first: make(map[string]string), tried: make(map[string]string), grown: make(chan struct{}, 1), events: make(map[string]int)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (s *subscriber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	id := r.Header.Get("webhook-id")
	s.mu.Lock()
	before, known := s.first[id]
	if s.down {
		s.tried[id] = string(body)
		s.refused++
		breaks := s.refused%2 == 0
		s.mu.Unlock()
		if breaks {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	refused, tried := s.tried[id]
	if !known {
		s.first[id] = string(body)
		n := toldNotice{id: id}
		_ = json.Unmarshal(body, &n)
		s.order = append(s.order, n)
		for _, e := range n.Data.Events {
			s.events[e.JobChanged.JobID+"/"+e.JobChanged.Sequence]++
		}
	}
	s.mu.Unlock()
	select {
	case s.grown <- struct{}{}:
	default:
	}
	switch {
	case known && before != string(body), !known && tried && refused != string(body):
		w.WriteHeader(http.StatusConflict) // and the notice never ends
	case !known:
		panic(http.ErrAbortHandler)
	}
}

// told returns how many changes of jobs were reported so far.
func (s *subscriber) told() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.events)
}

// wait waits until so many changes were reported.
func (s *subscriber) wait(changes int) {
	s.tb.Helper()
	for s.told() < changes {
		select {
		case <-s.grown:
		case <-waiting(s.tb).Done():
			s.tb.Fatalf("%d of %d changes were reported", s.told(), changes)
		}
	}
}

// toldPlaces are where servers die: when an outcome is durable and no notice of it is decided; when
// it is decided and not durable; when it is durable and not sent; and when it has arrived, and its
// own outcome is not durable.
var toldPlaces = append([]string{failpoint.Settled, failpoint.Answered}, failpoint.Notices...)

// TestCrashWhileTelling kills servers between the outcome of a job and its notice, and after the
// notice is durable. Each change must be reported once, in one notice, and in the order of the log.
func TestCrashWhileTelling(t *testing.T) {
	t.Parallel()
	const jobs, wave = 12, 4
	for _, place := range toldPlaces {
		for _, nth := range nths() {
			at := fmt.Sprintf("%s:%d", place, nth)
			for _, d := range deployments {
				t.Run(at+"/callbacks/"+d.name, func(t *testing.T) {
					t.Parallel()
					crashWhileCallingBack(t, d, at)
				})
				t.Run(at+"/"+d.name, func(t *testing.T) {
					t.Parallel()
					to, told := startHooks(t, true, nil), startSubscriber(t)
					url := d.database(t)
					f := newFleet(t, d, url)
					f.start(at)
					f.subscribe(told, true)
					connection := f.connect(to.connection())
					for i := range jobs {
						if _, err := f.schedule(i, jobFor(to, connection, subjectOf(i))); err != nil {
							t.Fatal(err)
						}
						if (i+1)%wave == 0 { // a wave is another notice than the one before
							told.wait(i + 1)
						}
					}
					f.quietNotices()
					f.stop()
					f.diedAt(at)
					judgeNotices(t, url, told, jobs)
				})
			}
		}
	}
}

// crashWhileCallingBack is TestCrashWhileTelling for the callbacks of jobs: of each job that names one,
// and of no other.
func crashWhileCallingBack(t *testing.T, d deployment, at string) {
	const jobs, wave = 12, 4
	to, told := startHooks(t, true, nil), startSubscriber(t)
	url := d.database(t)
	f := newFleet(t, d, url)
	f.start(at)
	f.subscribe(told, false)
	connection := f.connect(to.connection())
	for i := range jobs {
		req := jobFor(to, connection, subjectOf(i))
		req.Callback = "told"
		if _, err := f.schedule(i, req); err != nil {
			t.Fatal(err)
		}
		if (i+1)%wave == 0 {
			told.wait(i + 1)
		}
	}
	f.stop()
	f.diedAt(at)
	ids := make(map[string]bool)
	for i, n := range told.order {
		if n.Data.Number != fmt.Sprint(i+1) {
			t.Errorf("callback %s came as number %d", n.Data.Number, i+1)
		}
		for _, e := range n.Data.Events {
			if ids[e.JobChanged.JobID] || e.JobChanged.NewState != "JOB_STATE_SUCCEEDED" {
				t.Errorf("job %s: %s, reported before: %t", e.JobChanged.JobID, e.JobChanged.NewState, ids[e.JobChanged.JobID])
			}
			ids[e.JobChanged.JobID] = true
		}
	}
	if len(ids) != jobs {
		t.Errorf("%d jobs were reported, want %d", len(ids), jobs)
	}
	s := openStore(t, url)
	defer s.Close()
	if got, want := told.changes(), ended(t, s); !slices.Equal(got, want) {
		t.Errorf("called back, in this order:\n%s\nin the log:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// diedAt fails the test if no server was killed at a place.
func (f *fleet) diedAt(at string) {
	f.Helper()
	n := f.kills(at)
	if n == 0 {
		f.Errorf("no server was killed at %s", at)
	}
	f.Logf("%d servers were killed at %s", n, at)
}

// changes returns the changes that were reported, in the order in which they came.
func (s *subscriber) changes() (all []string) {
	for _, n := range s.order {
		for _, e := range n.Data.Events {
			all = append(all, e.JobChanged.JobID+"/"+e.JobChanged.Sequence+" "+e.JobChanged.NewState)
		}
	}
	return all
}

// ended returns the successes of the project's log, in its order.
func ended(t *testing.T, s store.Store) (all []string) {
	t.Helper()
	page, err := s.Events(t.Context(), store.EventQuery{Project: "default", Limit: store.MaxBatch})
	if err != nil || page.More {
		t.Fatalf("the log is not read whole: %v", err)
	}
	for _, e := range page.Events {
		if e.To == job.Succeeded && e.From != e.To {
			all = append(all, fmt.Sprintf("%s/%d JOB_STATE_%s", e.Job, e.Sequence, e.To))
		}
	}
	return all
}

// subscribe makes a connection to a subscriber, which with events is reported of successes.
func (f *fleet) subscribe(told *subscriber, events bool) {
	f.Helper()
	if err := f.call(waiting(f), 0, told.subscribed(events)); err != nil {
		f.Fatal(err)
	}
}

// subscribed returns the calls for subscribe.
func (s *subscriber) subscribed(events bool) func(context.Context, *client.API) error {
	return func(ctx context.Context, api *client.API) error {
		_, err := api.Connections.CreateConnection(ctx, &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: "told", Connection: &connectionsv1.Connection{
				Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{Webhook: &connectionsv1.WebhookSettings{
					ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(time.Hour),
					DedupesInFlight: true, CallbackUrl: s.URL + "/told",
				}},
			},
		})
		if err != nil || !events {
			return err
		}
		_, err = api.Subscriptions.CreateSubscription(ctx, &subscriptionsv1.CreateSubscriptionRequest{
			IdempotencyKey: "told", Connection: &subscriptionsv1.CreateSubscriptionRequest_ConnectionKey{ConnectionKey: "told"},
			Filter: &subscriptionsv1.NoticeFilter{States: []fireoncev1.JobState{fireoncev1.JobState_JOB_STATE_SUCCEEDED}},
		})
		return err
	}
}

// quietNotices waits until no notice is under way. The end of one is an event that no stream
// shows, so it asks until a subscription says so.
func (f *fleet) quietNotices() {
	f.Helper()
	for {
		var now *subscriptionsv1.Subscription
		if err := f.call(waiting(f), 0, func(ctx context.Context, api *client.API) (err error) {
			now, err = toldSubscription(ctx, api)
			return err
		}); err != nil {
			f.Fatal(err)
		}
		if !now.GetUnderWay() {
			return
		}
	}
}

func toldSubscription(ctx context.Context, api *client.API) (*subscriptionsv1.Subscription, error) {
	resp, err := api.Subscriptions.GetSubscription(ctx, &subscriptionsv1.GetSubscriptionRequest{
		Subscription: &subscriptionsv1.GetSubscriptionRequest_IdempotencyKey{IdempotencyKey: "told"},
	})
	return resp.GetSubscription(), err
}

// judgeNotices checks what a subscriber was reported, and what the store knows of it.
func judgeNotices(t *testing.T, url string, told *subscriber, jobs int) {
	t.Helper()
	s := openStore(t, url)
	defer s.Close()
	notices, err := s.Notices(t.Context(), store.Ref{Project: "default", Key: "told"}, 0, 500)
	if err != nil || len(notices) != len(told.order) {
		t.Errorf("%d notices are stored and %d arrived, %v", len(notices), len(told.order), err)
	}
	var events, after int64
	for i := range notices {
		n := notices[len(notices)-1-i]
		events += n.Events
		if n.Outcome != job.Succeeded || n.Ended.IsZero() || n.Number != int64(i+1) || n.After < after {
			t.Errorf("notice %d is %+v", i+1, n)
		}
		after = n.To
	}
	if events != int64(jobs) || told.told() != jobs {
		t.Errorf("%d events in notices, %d changes told, want %d", events, told.told(), jobs)
	}
	for i, n := range told.order {
		if n.Data.Number != fmt.Sprint(i+1) {
			t.Errorf("notice %s came as number %d", n.Data.Number, i+1)
		}
	}
	for change, n := range told.events {
		if n != 1 {
			t.Errorf("change %s is in %d notices", change, n)
		}
	}
	if got, want := told.changes(), ended(t, s); !slices.Equal(got, want) {
		t.Errorf("reported, in this order:\n%s\nin the log:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	listed, err := s.List(t.Context(), store.JobQuery{Project: "default", Limit: 500})
	if err != nil || len(listed.Jobs) != jobs {
		t.Errorf("%d jobs of the project, %v", len(listed.Jobs), err)
	}
}
