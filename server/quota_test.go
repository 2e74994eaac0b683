package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/postgres"
)

const (
	quotaExceeded = fireoncev1.ErrorReason_ERROR_REASON_QUOTA_EXCEEDED
	tooManyCalls  = fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_CALLS
)

// quotas are limits that a test sets.
func quotas(texts ...string) server.Quotas {
	q, err := server.ParseQuotas(texts)
	if err != nil {
		panic(err)
	}
	return q
}

func limitedTo(texts ...string) func(*server.Config) {
	return func(c *server.Config) { c.Quotas = quotas(texts...) }
}

// wantFull makes sure that a call was refused for a quota, with the figures, and
// returns how long to wait before a repeat; 0: a repeat is of no use.
func wantFull(t *testing.T, err error, name string, used, limit int) time.Duration {
	t.Helper()
	e := wantReason(t, err, quotaExceeded)
	got := e.detail.GetMetadata()
	if got["quota"] != name || got["used"] != fmt.Sprint(used) || got["limit"] != fmt.Sprint(limit) {
		t.Errorf("metadata %v, want quota %s, %d of %d", got, name, used, limit)
	}
	return retryOf(e)
}

func retryOf(e *wireError) time.Duration {
	for _, d := range e.details {
		if r, ok := d.(*errdetails.RetryInfo); ok {
			return r.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

func TestParseQuotas(t *testing.T) {
	for text, want := range map[string]string{
		"jobs":                  "must be NAME=VALUE",
		"jobs=":                 "the value must be a number of at least 0",
		"jobs=-1":               "the value must be a number",
		"jobs=1.5":              "the value must be a number",
		"jobs=1KiB":             "the value must be a number",
		"bytes=1kb":             "or one with KiB, MiB, GiB or TiB",
		"bytes=99999999999TiB":  "the value must be a number",
		"jobs=9223372036854775": "",
		"job=1":                 `there is no quota "job"; there are jobs, bytes, connections`,
		":jobs=1":               "the project has no name",
		"shop:peer-sign-ins=1":  "belong to no project",
	} {
		_, err := server.ParseQuotas([]string{text})
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := server.ParseQuotas([]string{"jobs=1,shop:jobs=1", "jobs=2"}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a quota that is set twice: %v", err)
	}
	q := quotas("bytes=2MiB", "jobs=0", "shop:jobs=7", "shop:bytes=0")
	for _, tt := range []struct {
		project string
		name    server.Quota
		want    int64
	}{
		{"default", server.QuotaBytes, 2 << 20}, {"default", server.QuotaJobs, 0}, {"shop", server.QuotaJobs, 7},
		{"shop", server.QuotaBytes, 0}, {"shop", server.QuotaStreams, 1000}, {"default", server.QuotaPeerSignIns, 60},
	} {
		if got := q.Limit(tt.project, tt.name); got != tt.want {
			t.Errorf("%s of %s: %d, want %d", tt.name, tt.project, got, tt.want)
		}
	}
}

// TestQuotaJobs: one job too many is refused, and repeats of stored jobs are answered as before.
func TestQuotaJobs(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, limitedTo("jobs=2"))
			c := dial(f)
			first := f.schedule(f.request("a"))
			f.schedule(f.request("b"))
			_, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request("c"))
			if wait := wantFull(t, err, "jobs", 2, 2); wait != time.Minute {
				t.Errorf("to be repeated after %v", wait)
			}
			again, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request("a"))
			f.must(err)
			if again.GetCreated() || again.GetJob().GetJobId() != first.GetJobId() {
				t.Errorf("a repeat: %v", again)
			}
			_, err = ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request("a", func(r *scheduleRequest) { r.Payload = custom("good/v1", "other") }))
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
			_, err = ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request("d", func(r *scheduleRequest) { r.ValidateOnly = true }))
			wantFull(t, err, "jobs", 2, 2)
			if n, _ := f.stored(); n != 3 {
				t.Errorf("%d jobs and connections are stored, want 3", n)
			}
		})
	}
}

// TestQuotaBatch: each item has its own verdict; a repeat uses nothing up.
func TestQuotaBatch(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, limitedTo("jobs=3"))
			c := dial(f)
			f.schedule(f.request("a"))
			batch := func(keys ...string) []string {
				t.Helper()
				req := &fireoncev1.BatchScheduleJobsRequest{}
				for _, k := range keys {
					req.Requests = append(req.Requests, f.request(k))
				}
				res, err := ask[fireoncev1.BatchScheduleJobsResponse](t, c, jobsPath+"BatchScheduleJobs", req)
				f.must(err)
				var out []string
				for _, r := range res.GetResults() {
					switch e := r.GetError(); {
					case e != nil:
						out = append(out, e.GetDetail().GetMetadata()["quota"])
					case r.GetSuccess().GetCreated():
						out = append(out, "created")
					default:
						out = append(out, "repeat")
					}
				}
				return out
			}
			for _, tt := range []struct{ keys, want string }{
				{"a b", "repeat created"}, {"a b a b", "repeat repeat repeat repeat"},
				{"c d a c", "created jobs repeat repeat"}, {"e a", "jobs repeat"},
			} {
				if got := strings.Join(batch(strings.Fields(tt.keys)...), " "); got != tt.want {
					t.Errorf("%s: %s, want %s", tt.keys, got, tt.want)
				}
			}
		})
	}
}

// TestQuotaBytes: payloads count, new ones and those that grow.
func TestQuotaBytes(t *testing.T) {
	f := start(t, limitedTo("bytes=1000"))
	c := overGRPC(f)
	later := func(r *scheduleRequest) { r.ScheduleTime = timestamppb.New(f.clock.Now().Add(time.Hour)) }
	of := func(n int) func(*scheduleRequest) {
		return func(r *scheduleRequest) { r.Payload = custom("good/v1", strings.Repeat("x", n)) }
	}
	j := f.schedule(f.request("a", of(700), later))
	_, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request("b", of(400)))
	wantReason(t, err, quotaExceeded)
	f.schedule(f.request("b", of(100)))
	change := func(n int) error {
		res, err := ask[fireoncev1.UpdateJobResponse](t, c, jobsPath+"UpdateJob", &fireoncev1.UpdateJobRequest{
			Job: &fireoncev1.UpdateJobRequest_JobId{JobId: j.GetJobId()}, Etag: j.GetEtag(), Payload: custom("good/v1", strings.Repeat("y", n)), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"payload"}},
		})
		if err == nil {
			j = res.GetJob()
		}
		return err
	}
	wantReason(t, change(900), quotaExceeded)
	f.must(change(750))
	f.must(change(10))
	f.clock.advance(server.MeasureEvery * 2)
	f.schedule(f.request("c", of(700)))
}

// TestQuotaOfOneProject: a project's own limit holds for it alone.
func TestQuotaOfOneProject(t *testing.T) {
	f := start(t, requireKey, limitedTo("jobs=0", "connections=5", "shop:connections=1"))
	c := overConnect(f)
	in := func(project string, n int) error {
		_, err := askWith[connectionsv1.CreateConnectionResponse](bring(t.Context(), f.issue(project, server.Scopes()).Reveal()), c, connsPath+"CreateConnection",
			&connectionsv1.CreateConnectionRequest{IdempotencyKey: fmt.Sprint(n), Connection: &connectionsv1.Connection{Connector: "stub"}})
		return err
	}
	f.must(in("shop", 1))
	f.must(in("shop", 1)) // a repeat
	wantFull(t, in("shop", 2), "connections", 1, 1)
	for n := range 5 {
		f.must(in("other", n))
	}
	wantFull(t, in("other", 9), "connections", 5, 5)
}

// TestQuotaHoldings: connections, keys and logins, in every protocol.
func TestQuotaHoldings(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			_, with := withOAuth(t)
			f := start(t, with, limitedTo("connections=2", "api-keys=1", "logins=1"))
			c := dial(f)
			create := func(key string) error {
				_, err := ask[connectionsv1.CreateConnectionResponse](t, c, connsPath+"CreateConnection",
					&connectionsv1.CreateConnectionRequest{IdempotencyKey: key, Connection: &connectionsv1.Connection{Connector: "stub"}})
				return err
			}
			f.must(create("a"))
			if wait := wantFull(t, create("b"), "connections", 2, 2); wait != 0 {
				t.Errorf("connections: to be repeated after %v", wait)
			}
			f.must(create("a"))
			makeKey := func() error {
				_, err := ask[adminv1.CreateApiKeyResponse](t, c, accessPath+"CreateApiKey",
					&adminv1.CreateApiKeyRequest{Scopes: []string{server.ScopeJobsRead}})
				return err
			}
			f.must(makeKey())
			wantFull(t, makeKey(), "api-keys", 1, 1)
			f.startLogin(c, own(newMember("m")))
			_, err := ask[connectionsv1.StartOAuthResponse](t, c, connsPath+"StartOAuth", own(newMember("n")))
			if wait := wantFull(t, err, "logins", 1, 1); wait != time.Minute {
				t.Errorf("logins: to be repeated after %v", wait)
			}
		})
	}
}

// TestQuotaTwoServers: servers that share a database overshoot a limit by what they store
// between two measurements, and no more.
func TestQuotaTwoServers(t *testing.T) {
	url := pgtest.New(t)
	var fs [2]*fixture
	for i := range fs {
		f := prepare(t, limitedTo("jobs=20"), func(c *server.Config) {
			s, err := postgres.Open(t.Context(), postgres.Options{URL: url, Migrate: true, Now: c.Now})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			_, _, err = s.CreateConnection(t.Context(), store.NewConnection{Key: "fixture", Connection: theFixtures})
			if err != nil {
				t.Fatal(err)
			}
			c.Store = s
		})
		fs[i] = f.listen()
	}
	submit := func(f *fixture, from, n int) (stored int) {
		t.Helper()
		c := overConnect(f)
		for i := range n {
			_, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request(fmt.Sprint(from+i)))
			if err == nil {
				stored++
			} else {
				wantReason(t, err, quotaExceeded)
			}
		}
		return stored
	}
	// Both have measured nothing, and then each adds up what it stores alone.
	if a, b := submit(fs[0], 0, 12), submit(fs[1], 100, 5); a != 12 || b != 5 {
		t.Fatalf("%d and %d were stored", a, b)
	}
	// The second one has measured the 12 of the first: it has 3 left. The first does not
	// know of the second's.
	if b := submit(fs[1], 200, 10); b != 3 {
		t.Errorf("the second server stored %d more, want 3", b)
	}
	if a := submit(fs[0], 300, 20); a != 8 {
		t.Errorf("the first server stored %d more, want 8: the overshoot", a)
	}
	for i, f := range fs {
		f.clock.advance(2 * server.MeasureEvery)
		_, err := ask[fireoncev1.ScheduleJobResponse](t, overConnect(f), scheduleJob, f.request("late"))
		wantFull(t, err, "jobs", 28, 20)
		if n := submit(f, 400+100*i, 5); n != 0 {
			t.Errorf("server %d stored %d more", i, n)
		}
	}
}

// TestQuotaFreed: use that was returned, or removed, may be taken again.
func TestQuotaFreed(t *testing.T) {
	var away sync.Map
	f := start(t, limitedTo("jobs=1"), func(c *server.Config) { c.Store = failing{c.Store, &away} })
	c := overGRPC(f)
	away.Store("away", true)
	for range 3 {
		_, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request("a"))
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE)
	}
	away.Delete("away")
	f.schedule(f.request("a"))
	_, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request("b"))
	wantFull(t, err, "jobs", 1, 1)
	f.fail()
	f.clock.advance(10 * 24 * time.Hour)
	for p := (store.RetainParams{Keep: store.Keep{Jobs: time.Hour, Keys: time.Hour}, Limit: 10}); ; {
		r, err := f.store.Retain(t.Context(), p)
		f.must(err)
		if p.After = r.Next; r.Done {
			break
		}
	}
	f.schedule(f.request("b"))
}

// failing is a store that is away for submits while the map says so.
type failing struct {
	server.Store
	away *sync.Map
}

func (s failing) Create(ctx context.Context, items []store.NewJob) ([]store.Created, error) {
	if _, away := s.away.Load("away"); away {
		return nil, store.ErrUnavailable
	}
	return s.Store.Create(ctx, items)
}

// TestQuotaUse: GetStats returns how much of each quota is used.
func TestQuotaUse(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, requireKey, limitedTo("jobs=10", "calls=100"))
			c := dial(f)
			key := f.issue(server.DefaultProject, server.Scopes()).Reveal()
			_, err := askWith[fireoncev1.ScheduleJobResponse](bring(t.Context(), key), c, scheduleJob, f.request("a"))
			f.must(err)
			f.recurring(bring(t.Context(), key), c, f.newSchedule("s"))
			res, err := askWith[adminv1.GetStatsResponse](bring(t.Context(), key), c, statsPath+"GetStats", &adminv1.GetStatsRequest{})
			f.must(err)
			got := map[string][2]int64{}
			for _, q := range res.GetQuotas() {
				got[q.GetName()] = [2]int64{q.GetUsed(), q.GetLimit()}
			}
			for name, want := range map[string][2]int64{
				"jobs": {1, 10}, "connections": {1, 100_000}, "api-keys": {1, 10_000}, "logins": {0, 5000}, "streams": {0, 1000}, "calls": {3, 100},
				"schedules": {1, 10_000}, "subscriptions": {0, 100},
			} {
				if got[name] != want {
					t.Errorf("%s: %v, want %v", name, got[name], want)
				}
			}
			if b := got["bytes"]; b[0] <= 0 || b[1] != 1<<40 || len(got) != 9 {
				t.Errorf("quotas: %v", got)
			}
		})
	}
}

// TestQuotaLines: an operator sees a quota before it is used up, and when it is, and has
// one line for many refusals.
func TestQuotaLines(t *testing.T) {
	f := start(t, limitedTo("jobs=10"))
	c := overConnect(f)
	for n := range 30 {
		_, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request(fmt.Sprint(n)))
		if near := strings.Contains(f.logs.String(), "a quota is nearly used up"); near != (n >= 7) {
			t.Fatalf("after %d jobs a line that they are nearly too many: %t", n+1, near)
		}
		if (err == nil) != (n < 10) {
			t.Fatalf("job %d: %v", n, err)
		}
	}
	for what, want := range map[string]int{"a quota is nearly used up": 1, "a quota is used up": 1} {
		if got := strings.Count(f.logs.String(), `"`+what+`"`); got != want {
			t.Errorf("%d lines %q, want %d", got, what, want)
		}
	}
	f.clock.advance(time.Minute)
	_, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request("late"))
	wantReason(t, err, quotaExceeded)
	if !strings.Contains(f.logs.String(), `"refused_before":19`) {
		t.Errorf("the line does not count what was refused before:\n%s", f.logs)
	}
}

// TestAdmissionCounts: jobs that are written during a measurement are never forgotten, and are
// counted once after the next one.
func TestAdmissionCounts(t *testing.T) {
	s := &measurable{asked: make(chan chan int64)}
	now := &clock{now: time.Unix(0, 0)}
	a := server.NewAdmission(s, quotas("jobs=10"), now.Now)
	defer a.Close()
	answer := func(n int64) { (<-s.asked) <- n }
	taken := make(chan error, 1)
	go func() { taken <- a.Take(t.Context(), 3) }() // waits for the first measurement
	answer(4)
	if err := <-taken; err != nil || a.Used() != 7 {
		t.Fatalf("%v, used %d, want 7", err, a.Used())
	}
	now.advance(server.MeasureEvery)
	if err := a.Take(t.Context(), 1); err != nil { // begins a measurement and does not wait for it
		t.Fatal(err)
	}
	reply := <-s.asked
	a.Settle(3, 3) // durable before the store counts
	if err := a.Take(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	a.Settle(1, 0) // not stored
	reply <- 7
	a.Wait()
	if got := a.Used(); got < 8 || got > 11 {
		t.Errorf("used %d: 7 are stored, 1 is being written, 3 may count twice", got)
	}
	a.Settle(1, 1)
	now.advance(2 * server.MeasureEvery)
	go func() { taken <- a.Take(t.Context(), 2) }()
	answer(8)
	if err := <-taken; err != nil || a.Used() != 10 {
		t.Errorf("%v, used %d, want 10", err, a.Used())
	}
	if err := a.Take(t.Context(), 1); err == nil {
		t.Error("the eleventh was taken")
	}
}

// measurable is a store that a test answers for.
type measurable struct{ asked chan chan int64 }

func (m *measurable) StoredJobs(ctx context.Context, _ string) (store.StoredJobs, error) {
	reply := make(chan int64)
	select {
	case m.asked <- reply:
		return store.StoredJobs{Jobs: <-reply}, nil
	case <-ctx.Done():
		return store.StoredJobs{}, ctx.Err()
	}
}

func (m *measurable) Holdings(context.Context, string) (store.Holdings, error) {
	return store.Holdings{}, errors.ErrUnsupported
}
