package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/memdir"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
)

// patient is a receiver that is ill for a while.
type patient struct {
	*httptest.Server

	mu       sync.Mutex
	answer   http.HandlerFunc
	requests int
	effects  map[string]int // by path
	came     chan struct{}  // gets a token for each request
}

// unhealthy is what a proxy answers that has not let a request through.
const unhealthy = "no healthy upstream"

func newPatient(t *testing.T) *patient {
	t.Helper()
	p := &patient{effects: make(map[string]int), came: make(chan struct{}, 100)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		p.mu.Lock()
		p.requests++
		answer := p.answer
		p.mu.Unlock()
		p.came <- struct{}{}
		answer(w, r)
	}))
	p.is(p.unavailable)
	t.Cleanup(p.Server.Close)
	t.Cleanup(p.CloseClientConnections) // of requests that hang
	return p
}

func (p *patient) is(answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

func (*patient) unavailable(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, unhealthy, http.StatusServiceUnavailable)
}

func (*patient) hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func (p *patient) acts(_ http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.effects[r.URL.Path]++
}

// had waits for a number of requests, and fails if there were more.
func (p *patient) had(t *testing.T, n int) {
	t.Helper()
	for {
		p.mu.Lock()
		got := p.requests
		p.mu.Unlock()
		if got > n {
			t.Fatalf("%d requests, want %d", got, n)
		}
		if got == n {
			return
		}
		select {
		case <-p.came:
		case <-waiting(t).Done():
			t.Fatalf("%d requests, want %d", got, n)
		}
	}
}

// ward is a server with a connection to a patient.
type ward struct {
	*testing.T
	*patient
	server     *process
	api        *client.API
	connection string
	jobs       int
}

func newWard(t *testing.T, d deployment, settings *connectionsv1.WebhookSettings) *ward {
	t.Helper()
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	p, err := startProcess(binary, memdir.New(t), os.Environ(), "--dev", "--listen", "127.0.0.1:0", "--shutdown-delay", "0s",
		"--database", d.database(t), "--key-file", "key", "--breaker-after", "2")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	w := &ward{T: t, patient: newPatient(t), server: p, api: dial(t, p.url)}
	resp, err := w.api.Connections.CreateConnection(waiting(t), &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: "test",
		Connection:     &connectionsv1.Connection{Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{Webhook: settings}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.connection = resp.GetConnection().GetConnectionId()
	return w
}

// send schedules jobs, due now.
func (w *ward) send(keys ...string) {
	w.Helper()
	for _, key := range keys {
		w.jobs++
		if _, err := w.api.Jobs.ScheduleJob(waiting(w.T), hook(w.connection, key, w.URL+"/"+key, 2*time.Second)); err != nil {
			w.Fatal(err)
		}
	}
}

// breaker returns the breaker, which is open.
func (w *ward) breaker() *adminv1.Pause {
	w.Helper()
	list, err := w.api.Pauses.ListPauses(waiting(w.T), &adminv1.ListPausesRequest{})
	if err != nil {
		w.Fatal(err)
	}
	if p := list.GetPauses(); len(p) != 1 || p[0].GetCause() != adminv1.PauseCause_PAUSE_CAUSE_BREAKER || p[0].GetBreakerConnectionId() != w.connection {
		w.Fatalf("pauses: %v", p)
	}
	return list.GetPauses()[0]
}

// end waits until every job has ended or needs a person, and compares their states, and the effects of
// those that succeeded.
func (w *ward) end(want map[string]fireoncev1.JobState) {
	w.Helper()
	if _, err := settle(w.Context(), w.T, w.api, w.jobs); err != nil {
		w.Fatal(err)
	}
	for key, state := range want {
		got, err := w.api.Jobs.GetJob(waiting(w.T), &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: key}})
		if err != nil {
			w.Fatal(err)
		}
		effects := 0
		if state == fireoncev1.JobState_JOB_STATE_SUCCEEDED {
			effects = 1
		}
		w.mu.Lock()
		if had := w.effects["/"+key]; got.GetJob().GetState() != state || had != effects {
			w.Errorf("%s is %v with %d effects, want %v with %d", key, got.GetJob().GetState(), had, state, effects)
		}
		w.mu.Unlock()
	}
}

// What the server logs about a breaker.
const (
	saidOpened = "a circuit breaker opened"
	saidFailed = "a probe failed; the circuit breaker stays open"
	saidClosed = "a circuit breaker closed"
)

const (
	succeeded = fireoncev1.JobState_JOB_STATE_SUCCEEDED
	asks      = fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION
)

// TestBreakerOverSockets: a receiver answers 503, hangs, and recovers. Meanwhile one job at a time is
// sent to it; afterwards each job has had one effect.
func TestBreakerOverSockets(t *testing.T) {
	long(t) // the first probe comes after ten seconds
	onEach(t, func(t *testing.T, d deployment) {
		t.Run("KEYED", func(t *testing.T) {
			t.Parallel()
			w := newWard(t, d, &connectionsv1.WebhookSettings{
				ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(time.Hour),
			})
			w.send("a", "b")
			w.server.says(t, saidOpened)
			w.had(t, 2)
			w.is(w.hangs)
			w.send("c", "d", "e", "f")
			w.had(t, 3)
			w.server.says(t, saidFailed)
			w.breaker()
			w.is(w.acts)
			w.server.says(t, saidClosed)
			w.end(map[string]fireoncev1.JobState{"a": succeeded, "b": succeeded, "c": succeeded, "d": succeeded, "e": succeeded, "f": succeeded})
		})
		// A probe that was sent and has no answer may cost a person: the next one is far off, unless a
		// person closes the breaker.
		t.Run("OPAQUE", func(t *testing.T) {
			t.Parallel()
			w := newWard(t, d, &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO})
			w.send("a", "b")
			w.server.says(t, saidOpened)
			w.is(w.hangs)
			w.send("c", "d")
			w.had(t, 3)
			w.server.says(t, saidFailed)
			b := w.breaker()
			if next := time.Until(b.GetNextProbeTime().AsTime()); next < 9*time.Minute {
				t.Errorf("the next probe is in %v", next)
			}
			w.is(w.acts)
			if _, err := w.api.Pauses.EndPause(waiting(t), &adminv1.EndPauseRequest{PauseId: b.GetPauseId()}); err != nil {
				t.Fatal(err)
			}
			w.had(t, 4)
			got := map[string]fireoncev1.JobState{"a": asks, "b": asks}
			if w.effectsOf("c") == 0 { // either may be the probe
				got["c"], got["d"] = asks, succeeded
			} else {
				got["c"], got["d"] = succeeded, asks
			}
			w.end(got)
		})
		// Where the connection says that a 503 is a proxy's, which has not let the request through, it
		// costs no one anything.
		t.Run("OPAQUE, unacted", func(t *testing.T) {
			t.Parallel()
			w := newWard(t, d, &connectionsv1.WebhookSettings{
				ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO, Unacted: []*connectionsv1.UnactedAnswer{{Status: http.StatusServiceUnavailable, Mark: &connectionsv1.UnactedAnswer_BodyContains{BodyContains: unhealthy}}},
			})
			w.send("a", "b")
			w.server.says(t, saidOpened)
			w.had(t, 2)
			w.send("c", "d")
			w.server.says(t, saidFailed)
			if next := time.Until(w.breaker().GetNextProbeTime().AsTime()); next > time.Minute {
				t.Errorf("the next probe is in %v", next)
			}
			w.is(w.acts)
			w.server.says(t, saidClosed)
			w.end(map[string]fireoncev1.JobState{"a": succeeded, "b": succeeded, "c": succeeded, "d": succeeded})
		})
	})
}

func (p *patient) effectsOf(key string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.effects["/"+key]
}
