package server_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

const batchJobs = jobsPath + "BatchScheduleJobs"

type batchResult = fireoncev1.BatchScheduleJobsResponse_Result

func batchOf(requests ...*scheduleRequest) *fireoncev1.BatchScheduleJobsRequest {
	return &fireoncev1.BatchScheduleJobsRequest{Requests: requests}
}

// batch schedules a batch that must be answered.
func (f *fixture) batch(c client, requests ...*scheduleRequest) []*batchResult {
	f.tb.Helper()
	res, err := ask[fireoncev1.BatchScheduleJobsResponse](f.tb, c, batchJobs, batchOf(requests...))
	f.must(err)
	if len(res.GetResults()) != len(requests) {
		f.tb.Fatalf("%d results for %d requests", len(res.GetResults()), len(requests))
	}
	return res.GetResults()
}

// wantItem checks an item's error, which is what its own call would have sent.
func wantItem(t *testing.T, got *fireoncev1.ItemError, want fireoncev1.ErrorReason) {
	t.Helper()
	if got.GetDetail().GetReason() != want || connect.Code(got.GetCode()) != server.ReasonCode(want) || got.GetMessage() == "" {
		t.Errorf("item error %v, want %s", got, want)
	}
}

// TestBatchDecidesEachItem provokes every reason that an item can fail with,
// between items that are stored.
func TestBatchDecidesEachItem(t *testing.T) {
	bad := []struct {
		reason fireoncev1.ErrorReason
		spoil  func(*scheduleRequest)
	}{
		{fireoncev1.ErrorReason_ERROR_REASON_TIME_IN_PAST, func(r *scheduleRequest) { r.ScheduleTime = timestamppb.New(time.Unix(1, 0)) }},
		{fireoncev1.ErrorReason_ERROR_REASON_TIME_TOO_FAR, func(r *scheduleRequest) { r.ScheduleTime = timestamppb.New(time.Unix(1<<33, 0)) }},
		{fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_TOO_LARGE, func(r *scheduleRequest) {
			r.Payload = &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{
				Sender: "a@example.org", To: []string{"b@example.org"},
				TextBody: strings.Repeat("x", 200<<10), HtmlBody: strings.Repeat("x", 200<<10),
			}}}
		}},
		{fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_CONNECTION_MISMATCH, func(r *scheduleRequest) {
			r.Payload = &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{Sender: "a@example.org", To: []string{"b@example.org"}}}}
		}},
		{fireoncev1.ErrorReason_ERROR_REASON_HEADER_NOT_ALLOWED, func(r *scheduleRequest) { r.Payload = custom("header/v1", "") }},
		{fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID, func(r *scheduleRequest) { r.Payload = custom("bad/v1", "") }},
		{fireoncev1.ErrorReason_ERROR_REASON_KEY_RESERVED, func(r *scheduleRequest) { r.IdempotencyKey = "fireonce:mine" }},
		{fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND, func(r *scheduleRequest) { r.Connection = onConnection(absent) }},
		{fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND, func(r *scheduleRequest) { r.ReplyTo = replyingTo(absent) }},
		{fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED, func(r *scheduleRequest) { r.IdempotencyKey, r.Payload = "bound", custom("good/v1", "other") }},
	}
	overEach(t, func(t *testing.T, f *fixture, c client) {
		bound := f.schedule(f.request("bound"))
		jobs, _ := f.stored()
		requests := []*scheduleRequest{f.request("first")}
		for i, b := range bad {
			requests = append(requests, f.request(fmt.Sprint("bad", i), b.spoil))
		}
		broken := f.request("broken", func(r *scheduleRequest) { r.Payload, r.Labels = nil, map[string]string{"BAD": ""} })
		results := f.batch(c, append(requests, broken, f.request("bound"), f.request("last"))...)
		for i, b := range bad {
			wantItem(t, results[i+1].GetError(), b.reason)
		}
		if conflict := results[len(bad)].GetError().GetDetail().GetIdempotencyConflict(); conflict.GetJobId() != bound.GetJobId() ||
			strings.Join(conflict.GetMismatchedFields(), " ") != "payload" {
			t.Errorf("conflict %v", conflict)
		}
		rest := results[len(bad)+1:]
		if e := rest[0].GetError(); len(e.GetDetail().GetViolations()) != 2 || !strings.Contains(e.GetMessage(), "payload") || !strings.Contains(e.GetMessage(), "labels") {
			t.Errorf("broken rules: %v", e)
		}
		wantItem(t, rest[0].GetError(), fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID)
		if s := rest[1].GetSuccess(); s.GetCreated() || s.GetJob().GetJobId() != bound.GetJobId() {
			t.Errorf("the repeat: %v", rest[1])
		}
		for i, r := range []*batchResult{results[0], rest[2]} {
			s := r.GetSuccess()
			if !s.GetCreated() || s.GetJob().GetState() != fireoncev1.JobState_JOB_STATE_SCHEDULED || s.GetJob().GetPayload() != nil {
				t.Errorf("good item %d: %v", i, r)
			}
			if snap := f.snapshot(s.GetJob().GetJobId()); snap.Key != []string{"first", "last"}[i] || len(snap.Payload) == 0 {
				t.Errorf("good item %d is stored as %q", i, snap.Key)
			}
		}
		if n, _ := f.stored(); n != jobs+2 {
			t.Errorf("%d jobs and connections are stored, want %d", n, jobs+2)
		}
	})
}

// TestBatchOneKeyTwice: the items are decided as if they came one by one.
func TestBatchOneKeyTwice(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		late := func(r *scheduleRequest) { r.TimeZone = "Mars/Base" } // no part of the comparison, and refused
		check := func(r *scheduleRequest) { r.ValidateOnly = true }
		results := f.batch(c,
			f.request("a"), f.request("a"), f.request("a", func(r *scheduleRequest) { r.Payload = custom("good/v1", "else") }),
			f.request("a", late), f.request("a", check), f.request("b", late), f.request("b"), f.request("c", check), f.request("c"))
		first := results[0].GetSuccess().GetJob().GetJobId()
		for i, want := range []struct {
			created bool
			job     string
			reason  fireoncev1.ErrorReason
		}{
			{created: true, job: first}, {job: first}, {reason: fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED},
			{job: first}, {job: first},
		} {
			got := results[i]
			if want.reason != 0 {
				wantItem(t, got.GetError(), want.reason)
			} else if got.GetSuccess().GetCreated() != want.created || got.GetSuccess().GetJob().GetJobId() != want.job {
				t.Errorf("item %d: %v, want job %s, created %t", i, got, want.job, want.created)
			}
		}
		if results[5].GetError() == nil || !results[6].GetSuccess().GetCreated() {
			t.Errorf("a refused item and its good repeat: %v and %v", results[5], results[6])
		}
		if v := results[7].GetSuccess(); v == nil || v.GetCreated() || v.GetJob().GetJobId() != "" || !results[8].GetSuccess().GetCreated() {
			t.Errorf("a validated item and the same to store: %v and %v", results[7], results[8])
		}
		if n, _ := f.stored(); n != 4 {
			t.Errorf("%d jobs and connections are stored, want 4", n)
		}
	})
}

// TestBatchLateRepeat: a batch that is repeated a day late returns the same jobs.
func TestBatchLateRepeat(t *testing.T) {
	f := start(t)
	c := overGRPC(f)
	var requests []*scheduleRequest
	for i := range 20 {
		requests = append(requests, f.request(strconv.Itoa(i), at(f.clock.Now().Add(time.Hour))))
	}
	first := f.batch(c, requests...)
	f.clock.advance(24 * time.Hour)
	for i, r := range f.batch(c, requests...) {
		if s := r.GetSuccess(); s.GetCreated() || s.GetJob().GetJobId() != first[i].GetSuccess().GetJob().GetJobId() {
			t.Errorf("item %d: %v, want %v", i, r, first[i])
		}
	}
}

// TestBatchLimits: 500 items pass, 501 and none do not.
func TestBatchLimits(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	var requests []*scheduleRequest
	for i := range 501 {
		requests = append(requests, f.request(strconv.Itoa(i)))
	}
	_, err := ask[fireoncev1.BatchScheduleJobsResponse](t, c, batchJobs, batchOf())
	if e := new(wireError); !asWire(err, &e) || e.code != connect.CodeInvalidArgument || e.detail.GetReason() != fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID {
		t.Errorf("no item: %v", err)
	}
	_, err = ask[fireoncev1.BatchScheduleJobsResponse](t, c, batchJobs, batchOf(requests...))
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_ELEMENTS)
	for i, r := range f.batch(c, requests[:500]...) {
		if !r.GetSuccess().GetCreated() || r.GetSuccess().GetJob().GetIdempotencyKey() != strconv.Itoa(i) {
			t.Fatalf("item %d: %v", i, r)
		}
	}
}

// TestConcurrentBatches sends one batch many times concurrently: each job is created by exactly
// one of them.
func TestConcurrentBatches(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	const callers, items = 16, 50
	requests := make([]*scheduleRequest, items)
	for i := range requests {
		requests[i] = f.request(strconv.Itoa(i))
	}
	var mu sync.Mutex
	created, ids := make([]int, items), make([]map[string]bool, items)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			res, err := ask[fireoncev1.BatchScheduleJobsResponse](t, c, batchJobs, batchOf(requests...))
			if err != nil {
				t.Errorf("batch: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for i, r := range res.GetResults() {
				if r.GetSuccess().GetCreated() {
					created[i]++
				}
				if ids[i] == nil {
					ids[i] = map[string]bool{}
				}
				ids[i][r.GetSuccess().GetJob().GetJobId()] = true
			}
		})
	}
	wg.Wait()
	for i := range items {
		if created[i] != 1 || len(ids[i]) != 1 || ids[i][""] {
			t.Errorf("item %d: created %d times as %v", i, created[i], ids[i])
		}
	}
	if n, _ := f.stored(); n != items+1 {
		t.Errorf("%d jobs and connections are stored, want %d", n, items+1)
	}
}

// counting counts calls of the store, and fails Create when told to.
type counting struct {
	server.Store
	mu    *sync.Mutex
	calls map[string]int
	err   error
}

func (c counting) count(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[name]++
}

func (c counting) Create(ctx context.Context, items []store.NewJob) ([]store.Created, error) {
	c.count("Create")
	if c.err != nil {
		return nil, c.err
	}
	return c.Store.Create(ctx, items)
}

func (c counting) Connection(ctx context.Context, ref store.Ref) (store.Connection, error) {
	c.count("Connection")
	return c.Store.Connection(ctx, ref)
}

func (c counting) Job(ctx context.Context, ref store.Ref) (job.Snapshot, error) {
	c.count("Job")
	return c.Store.Job(ctx, ref)
}

// TestBatchIsOneWrite: one Create, and each connection and predecessor at most
// once: a connection that was read a moment ago is not read again.
func TestBatchIsOneWrite(t *testing.T) {
	calls := map[string]int{}
	f := start(t, func(c *server.Config) { c.Store = counting{Store: c.Store, mu: &sync.Mutex{}, calls: calls} })
	before := f.schedule(f.request("post"))
	clear(calls)
	var requests []*scheduleRequest
	for i := range 100 {
		requests = append(requests, f.request(strconv.Itoa(i), func(r *scheduleRequest) { r.ReplyTo = replyingTo(before.GetJobId()) }))
	}
	f.batch(overGRPC(f), requests...)
	if calls["Create"] != 1 || calls["Connection"] > 1 || calls["Job"] != 1 {
		t.Errorf("calls of the store: %v", calls)
	}
}

// TestBatchFailsWhole only where no item could have been decided.
func TestBatchFailsWhole(t *testing.T) {
	for _, dial := range protocols {
		f := start(t, func(c *server.Config) {
			c.Store = counting{Store: c.Store, mu: &sync.Mutex{}, calls: map[string]int{}, err: store.ErrUnconfirmed}
		})
		_, err := ask[fireoncev1.BatchScheduleJobsResponse](t, dial(f), batchJobs, batchOf(f.request("a"), f.request("b")))
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE)
		unknown := batchOf(f.request("a"))
		unknown.ProtoReflect().SetUnknown([]byte{0xf8, 0x3e, 1})
		err = overGRPC(f).call(t.Context(), batchJobs, unknown, &fireoncev1.BatchScheduleJobsResponse{})
		if e := new(wireError); !asWire(err, &e) || e.code != connect.CodeInvalidArgument {
			t.Errorf("an unknown field: %v", err)
		}
	}
}

// TestBatchEqualsSingles: an item's answer is that of its own call, without the payload.
func TestBatchEqualsSingles(t *testing.T) {
	single, many := start(t), start(t)
	requests := []func(*scheduleRequest){
		func(*scheduleRequest) {}, func(r *scheduleRequest) { r.Payload = custom("bad/v1", "") },
		func(r *scheduleRequest) { r.Connection = onConnection(absent) }, func(r *scheduleRequest) { r.ValidateOnly = true },
		at(single.clock.Now().Add(time.Hour)), at(time.Unix(5, 0)), func(r *scheduleRequest) { r.TimeZone = "Mars/Base" },
	}
	var batch []*scheduleRequest
	for i, edit := range requests {
		batch = append(batch, many.request(strconv.Itoa(i), edit))
	}
	for i, got := range many.batch(overConnect(many), batch...) {
		want, err := ask[fireoncev1.ScheduleJobResponse](t, overConnect(single), scheduleJob, single.request(strconv.Itoa(i), requests[i]))
		if err != nil {
			e := new(wireError)
			if !asWire(err, &e) || connect.Code(got.GetError().GetCode()) != e.code || got.GetError().GetMessage() != e.msg ||
				!proto.Equal(got.GetError().GetDetail(), e.detail) {
				t.Errorf("item %d: %v, want %v %v", i, got, err, e.detail)
			}
			continue
		}
		want.Job.Payload, want.Job.JobId = nil, got.GetSuccess().GetJob().GetJobId()
		want.Job.Etag = got.GetSuccess().GetJob().GetEtag() // is of its database
		if !proto.Equal(got.GetSuccess(), want) {
			t.Errorf("item %d: %v, want %v", i, got.GetSuccess(), want)
		}
	}
}
