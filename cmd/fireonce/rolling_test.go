package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	rpc "connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/memdir"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store/postgres"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// ready reports whether a server is ready by the check that a load balancer makes.
func ready(t *testing.T, url string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(waiting(t), http.MethodGet, url+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// TestNotReadyBeforeTheEnd checks that after the signal a server reports that it is not ready,
// and continues to answer calls and to send until the delay is over.
func TestNotReadyBeforeTheEnd(t *testing.T) {
	onEach(t, func(t *testing.T, d deployment) {
		t.Parallel()
		binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
		if err != nil {
			t.Fatal(err)
		}
		r, err := receiver.Start(receiver.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		p, err := startProcess(binary, memdir.New(t), os.Environ(), "--dev", "--listen", "127.0.0.1:0", "--database", d.database(t), "--key-file", "key", "--shutdown-delay", "9m")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		if !ready(t, p.url) {
			t.Error("it is not ready")
		}
		api := dial(t, p.url)
		connection := connect(t, api, false)
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		p.says(t, "shutting down")
		if ready(t, p.url) {
			t.Error("it is ready although it ends")
		}
		if _, err := api.Jobs.ScheduleJob(waiting(t), hook(connection, "late", r.URL("late"), time.Minute)); err != nil {
			t.Errorf("a call in the delay: %v", err)
		}
		if h, err := settle(waiting(t), t, api, 1); err != nil || r.Effects("late") != 1 {
			t.Errorf("a job in the delay: %v, %v", err, h.events)
		}
		// The second signal waits for nothing.
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select {
		case <-p.Done():
		case <-waiting(t).Done():
			t.Fatal("it goes on")
		}
	})
}

// pair is two servers behind a load balancer that checks whether they are ready.
type pair struct {
	t      *testing.T
	mu     sync.Mutex
	served [2]*process
}

func (p *pair) at(i int) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.served[i]
}

func (p *pair) set(i int, next *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.served[i] = next
}

// pick returns a ready server: that of the turn, if it is ready.
func (p *pair) pick(turn int) *process {
	for {
		for i := range p.served {
			if one := p.at((turn + i) % len(p.served)); ready(p.t, one.url) {
				return one
			}
		}
	}
}

// TestRollingRestart restarts two servers on PostgreSQL one after the other under steady load.
// A client that uses ready servers and repeats unavailable calls must lose no call. Each job
// must be sent once, at its first attempt, and must not wait for a lease to end.
func TestRollingRestart(t *testing.T) {
	long(t)
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	r, err := receiver.Start(receiver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	dir, database := memdir.New(t), pgtest.NewFrom(t, postgres.Migrate)
	start := func() *process {
		p, err := startProcess(binary, dir, os.Environ(), "--dev", "--listen", "127.0.0.1:0", "--database", database, "--key-file", "key", "--shutdown-delay", "2s")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		return p
	}
	servers := &pair{t: t}
	servers.set(0, start())
	servers.set(1, start())
	connection := connect(t, dial(t, servers.at(0).url), false)

	const callers = 4
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var made, repeats atomic.Int64
	var began sync.Map // by job, when it was stored
	for c := range callers {
		load.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("job-%d-%d", c, i)
				j, again, err := submit(t, servers, connection, key, r.URL(key), c+i)
				repeats.Add(again)
				if err != nil {
					t.Errorf("%s is lost: %v", key, err)
					return
				}
				began.Store(j.GetJobId(), j.GetCreateTime().AsTime())
				made.Add(1)
			}
		})
	}
	progress := func() {
		for before := made.Load(); made.Load() < before+20 && !t.Failed(); {
			ready(t, servers.at(0).url) // until more calls are answered
		}
	}
	progress()
	for round := range 4 {
		old := servers.at(round % 2)
		next := start() // the new one first, as a rolling update does
		if err := old.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		old.says(t, "shutting down")
		progress() // while it is not ready, and still runs
		servers.set(round%2, next)
		select {
		case <-old.Done():
		case <-waiting(t).Done():
			t.Fatal("it does not end")
		}
		if old.Err() != nil {
			t.Errorf("it ended with %v:\n%s", old.Err(), old.logs())
		}
		progress()
	}
	stop()
	load.Wait()
	jobs := int(made.Load())
	h, err := settle(waiting(t), t, dial(t, servers.at(0).url), jobs)
	if err != nil {
		t.Fatalf("%v\n%s", err, h.undone())
	}
	slowest := judgeRolling(t, h, &began)
	if totals := r.Totals(); totals.Subjects != jobs || totals.Requests != jobs || totals.Duplicates != 0 {
		t.Errorf("%d jobs: %+v", jobs, totals)
	}
	t.Logf("%d jobs over 4 restarts, %d calls repeated, longest from submit to start %v", jobs, repeats.Load(), slowest)
}

// judgeRolling checks that each job succeeded without a detour, and returns the longest time
// from the store of a job to the beginning of its attempt.
func judgeRolling(t *testing.T, h *history, began *sync.Map) (slowest time.Duration) {
	t.Helper()
	for id, events := range h.events {
		for _, e := range events {
			// With NOT_STARTED a server that shuts down releases a job for the other server.
			if cause := e.GetCause(); cause == fireoncev1.EventCause_EVENT_CAUSE_SENDER_LOST || cause == fireoncev1.EventCause_EVENT_CAUSE_LEASE_EXPIRED {
				t.Errorf("job %s was left behind: %v", id, cause)
			}
		}
		last := events[len(events)-1]
		if last.GetNewState() != fireoncev1.JobState_JOB_STATE_SUCCEEDED || last.GetAttempt().GetNumber() != 1 {
			t.Errorf("job %s ended %v after %d attempts", id, last.GetNewState(), last.GetAttempt().GetNumber())
		}
		stored, known := began.Load(id)
		if !known || last.GetAttempt().GetIntentTime() == nil {
			t.Fatalf("job %s: stored %v, attempt %v", id, stored, last.GetAttempt())
		}
		slowest = max(slowest, last.GetAttempt().GetIntentTime().AsTime().Sub(stored.(time.Time)))
	}
	// A job whose server ended without releasing it would have waited for its lease.
	if lease := time.Minute; slowest >= lease {
		t.Errorf("a job waited for %v", slowest)
	}
	return slowest
}

// submit schedules a job on a ready server, and repeats the call if the server is unavailable.
func submit(t *testing.T, servers *pair, connection, key, url string, turn int) (j *fireoncev1.Job, again int64, err error) {
	t.Helper()
	const most = 20
	for again < most {
		var api *client.API
		if api, err = client.Dial(servers.pick(turn).url, ""); err != nil {
			return nil, again, err
		}
		var made *fireoncev1.ScheduleJobResponse
		made, err = api.Jobs.ScheduleJob(waiting(t), hook(connection, key, url, time.Minute))
		if err == nil || rpc.CodeOf(err) != rpc.CodeUnavailable {
			return made.GetJob(), again, err
		}
		again++
	}
	return nil, again, err
}
