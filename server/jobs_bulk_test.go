package server_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

type jobFilter = fireoncev1.JobFilter

// anyJob selects every job, by a condition that all of them meet.
func anyJob() *jobFilter { return &jobFilter{ScheduleTimeFrom: timestamppb.New(time.Unix(0, 0))} }

func (f *fixture) bulkCancel(c client, req *adminv1.BulkCancelJobsRequest) (*adminv1.BulkResult, error) {
	res, err := ask[adminv1.BulkCancelJobsResponse](f.tb, c, bulkPath+"BulkCancelJobs", req)
	return res.GetResult(), err
}

func (f *fixture) bulkRetry(c client, req *adminv1.BulkRetryJobsRequest) (*adminv1.BulkResult, error) {
	res, err := ask[adminv1.BulkRetryJobsResponse](f.tb, c, bulkPath+"BulkRetryJobs", req)
	return res.GetResult(), err
}

func (f *fixture) bulkResolve(c client, req *adminv1.BulkResolveJobsRequest) (*adminv1.BulkResult, error) {
	res, err := ask[adminv1.BulkResolveJobsResponse](f.tb, c, bulkPath+"BulkResolveJobs", req)
	return res.GetResult(), err
}

// wantCounts compares a result's numbers with its lists and with what is wanted.
func wantCounts(t *testing.T, r *adminv1.BulkResult, matched, changed, failures int) {
	t.Helper()
	if int(r.GetMatched()) != matched || int(r.GetChanged()) != changed || len(r.GetChangedJobIds()) != changed || len(r.GetChangedKeys()) != changed ||
		len(r.GetFailures()) != failures || r.GetAsOfTime() == nil {
		t.Errorf("result %v; want %d matched, %d changed, %d failures", r, matched, changed, failures)
	}
}

// TestBulkRefusals in every protocol; nothing is written.
func TestBulkRefusals(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		for i := range 3 {
			f.schedule(f.request(fmt.Sprint(i)))
		}
		page, err := ask[fireoncev1.ListJobsResponse](t, c, jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{PageSize: 1})
		f.must(err)
		token := page.GetNextPageToken()
		now := timestamppb.New(f.clock.Now())
		const sent = fireoncev1.Resolution_DECISION_SENT
		jobs, end := f.stored()
		for _, tt := range []struct {
			procedure string
			req       proto.Message
			want      fireoncev1.ErrorReason // 0: a rule of the contract
		}{
			{"BulkCancelJobs", &adminv1.BulkCancelJobsRequest{Filter: anyJob(), PageToken: token}, fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID},
			{"BulkRetryJobs", &adminv1.BulkRetryJobsRequest{Filter: anyJob(), AsOfTime: now, PageToken: token}, fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID},
			{"BulkResolveJobs", &adminv1.BulkResolveJobsRequest{Filter: anyJob(), AsOfTime: now, Decision: sent, Note: "n", PageToken: token}, fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID},
			{"BulkCancelJobs", &adminv1.BulkCancelJobsRequest{}, 0},
			{"BulkCancelJobs", &adminv1.BulkCancelJobsRequest{Filter: &jobFilter{}}, 0},
			{"BulkCancelJobs", &adminv1.BulkCancelJobsRequest{Filter: &jobFilter{Recipient: " "}}, 0},
			{"BulkCancelJobs", &adminv1.BulkCancelJobsRequest{Filter: &jobFilter{Recipient: "\u00a0"}}, 0},
			{"BulkCancelJobs", &adminv1.BulkCancelJobsRequest{Filter: &jobFilter{ScheduleId: "00000000-0000-0000-0000-000000000000"}}, 0},
			{"BulkCancelJobs", &adminv1.BulkCancelJobsRequest{Filter: anyJob(), AsOfTime: timestamppb.New(f.clock.Now().Add(time.Hour))}, 0},
			{"BulkRetryJobs", &adminv1.BulkRetryJobsRequest{Filter: anyJob()}, 0},
			{"BulkRescheduleJobs", &adminv1.BulkRescheduleJobsRequest{Filter: anyJob(), Delay: durationpb.New(time.Hour)}, 0},
			{"BulkRescheduleJobs", &adminv1.BulkRescheduleJobsRequest{Filter: anyJob(), AsOfTime: now}, 0},
			{"BulkRescheduleJobs", &adminv1.BulkRescheduleJobsRequest{Filter: anyJob(), AsOfTime: now, ScheduleTime: now, Delay: durationpb.New(time.Hour)}, 0},
			{"BulkRescheduleJobs", &adminv1.BulkRescheduleJobsRequest{Filter: &jobFilter{}, AsOfTime: now, ScheduleTime: now}, 0},
			{"BulkRetryJobs", &adminv1.BulkRetryJobsRequest{AsOfTime: now}, 0},
			{"BulkResolveJobs", &adminv1.BulkResolveJobsRequest{Filter: anyJob(), AsOfTime: now, Decision: sent}, 0},
			{"BulkResolveJobs", &adminv1.BulkResolveJobsRequest{Filter: anyJob(), AsOfTime: now, Note: "n"}, 0},
			{"BulkResolveJobs", &adminv1.BulkResolveJobsRequest{Filter: anyJob(), Decision: sent, Note: "n"}, 0},
		} {
			err := c.call(t.Context(), bulkPath+tt.procedure, tt.req, answerOf(tt.procedure))
			if tt.want != 0 {
				wantReason(t, err, tt.want)
			} else if e := new(wireError); !asWire(err, &e) || e.code != connect.CodeInvalidArgument {
				t.Errorf("%s %v: %v", tt.procedure, tt.req, err)
			}
		}
		if n, e := f.stored(); n != jobs || e != end {
			t.Errorf("refused calls wrote something: %d and %d, before %d and %d", n, e, jobs, end)
		}
	})
}

// TestBulkCancelPassesCanceled: canceled jobs fill no pages, however many there are.
func TestBulkCancelPassesCanceled(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	later := timestamppb.New(f.clock.Now().Add(10 * time.Hour))
	open := f.schedule(f.request("open", func(r *scheduleRequest) { r.ScheduleTime = later })) // the last in the order
	items := make([]store.NewJob, store.MaxBatch)
	for i := range items {
		items[i] = store.NewJob{Spec: job.Spec{
			ID: job.ID{1, 15: byte(i), 14: byte(i >> 8)}, Project: server.DefaultProject, Key: fmt.Sprint(i), Connection: f.id(f.conn), HoldKey: "h",
		}}
	}
	f.clock.advance(time.Second)
	_, err := f.store.Create(t.Context(), items)
	f.must(err)
	did, err := f.bulkCancel(c, &adminv1.BulkCancelJobsRequest{Filter: &jobFilter{ScheduleTimeBefore: later}})
	f.must(err)
	wantCounts(t, did, len(items), len(items), 0)
	dry, err := f.bulkCancel(c, &adminv1.BulkCancelJobsRequest{Filter: anyJob(), DryRun: true})
	f.must(err)
	wantCounts(t, dry, 1, 1, 0)
	if dry.GetNextPageToken() != "" || !slices.Equal(dry.GetChangedJobIds(), []string{open.GetJobId()}) {
		t.Errorf("a page of canceled jobs: %v", dry)
	}
}

// TestBulkCancel: each job by its own state, those that have ended not at all.
func TestBulkCancel(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		sending := f.schedule(f.request("sending"))
		f.arm()
		done := f.schedule(f.request("done"))
		f.learn(f.arm().ID, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: "x"})
		waits := f.schedule(f.request("waits"))
		_, end := f.stored()
		dry, err := f.bulkCancel(c, &adminv1.BulkCancelJobsRequest{Filter: anyJob(), DryRun: true, Reason: "no"})
		f.must(err)
		wantCounts(t, dry, 2, 2, 0)
		if _, e := f.stored(); e != end {
			t.Errorf("a dry run wrote %d events", e-end)
		}
		did, err := f.bulkCancel(c, &adminv1.BulkCancelJobsRequest{Filter: anyJob(), AsOfTime: dry.GetAsOfTime(), Reason: "no"})
		f.must(err)
		wantCounts(t, did, 2, 2, 0)
		if !slices.Equal(did.GetChangedJobIds(), dry.GetChangedJobIds()) {
			t.Errorf("changed %v, the dry run said %v", did.GetChangedJobIds(), dry.GetChangedJobIds())
		}
		if f.snapshot(waits.GetJobId()).State != job.Canceled || f.snapshot(sending.GetJobId()).CancelAsked.IsZero() {
			t.Error("not cancelled, or not asked for")
		}
		if e := f.lastEvent(waits.GetJobId()); e.Reason != "no" || e.Actor != "api" || e.Cause != job.CauseCancelRequested {
			t.Errorf("event %+v", e)
		}
		again, err := f.bulkCancel(c, &adminv1.BulkCancelJobsRequest{Filter: anyJob(), Reason: "no"})
		f.must(err)
		wantCounts(t, again, 1, 0, 0) // the one that is being sent, asked for already
		named, err := f.bulkCancel(c, &adminv1.BulkCancelJobsRequest{Filter: &jobFilter{JobIds: []string{done.GetJobId()}, States: []fireoncev1.JobState{fireoncev1.JobState_JOB_STATE_SUCCEEDED}}})
		f.must(err)
		wantCounts(t, named, 1, 0, 1)
		wantItem(t, named.GetFailures()[0].GetError(), fireoncev1.ErrorReason_ERROR_REASON_JOB_STATE)
		if named.GetFailures()[0].GetError().GetDetail().GetStateConflict().GetCurrentState() != fireoncev1.JobState_JOB_STATE_SUCCEEDED {
			t.Errorf("failure %v", named.GetFailures()[0])
		}
	})
}

// TestBulkRetryTakesNoJobTwice: a repeat with the same as_of_time leaves jobs alone that have
// failed again since.
func TestBulkRetryTakesNoJobTwice(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		a := f.schedule(f.request("a"))
		f.fail()
		dry, err := f.bulkRetry(c, &adminv1.BulkRetryJobsRequest{Filter: anyJob(), DryRun: true})
		f.must(err)
		wantCounts(t, dry, 1, 1, 0)
		f.clock.advance(time.Second)
		f.schedule(f.request("b"))
		f.fail() // after the dry run, which has not seen it
		req := &adminv1.BulkRetryJobsRequest{Filter: anyJob(), AsOfTime: dry.GetAsOfTime()}
		did, err := f.bulkRetry(c, req)
		f.must(err)
		wantCounts(t, did, 1, 1, 0)
		if snap := f.snapshot(a.GetJobId()); snap.State != job.Retrying {
			t.Errorf("state %s, want RETRYING", snap.State)
		}
		f.clock.advance(time.Second)
		f.fail()
		again, err := f.bulkRetry(c, req)
		f.must(err)
		wantCounts(t, again, 0, 0, 0)
		if snap := f.snapshot(a.GetJobId()); snap.State != job.Failed {
			t.Errorf("state %s, want FAILED", snap.State)
		}
	})
}

// TestBulkReschedule moves many jobs in one call: by a delay, or to one time.
func TestBulkReschedule(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		in := func(d time.Duration) func(*scheduleRequest) { return at(f.clock.Now().Add(d)) }
		early, late := f.schedule(f.request("early", in(time.Hour))), f.schedule(f.request("late", in(3*time.Hour)))
		other := f.schedule(f.request("other"))
		f.arm() // is under way, and not selected
		bulk := func(edit func(*adminv1.BulkRescheduleJobsRequest)) *adminv1.BulkResult {
			t.Helper()
			req := &adminv1.BulkRescheduleJobsRequest{Filter: &jobFilter{ConnectionIds: []string{f.conn}}, AsOfTime: timestamppb.New(f.clock.Now())}
			edit(req)
			res, err := ask[adminv1.BulkRescheduleJobsResponse](t, c, bulkPath+"BulkRescheduleJobs", req)
			f.must(err)
			return res.GetResult()
		}
		times := func() [2]time.Time {
			return [2]time.Time{f.snapshot(early.GetJobId()).ScheduleTime, f.snapshot(late.GetJobId()).ScheduleTime}
		}
		before, asOf := times(), timestamppb.New(f.clock.Now())
		byDelay := func(r *adminv1.BulkRescheduleJobsRequest) { r.Delay, r.AsOfTime = durationpb.New(2*time.Hour), asOf }
		dry := bulk(func(r *adminv1.BulkRescheduleJobsRequest) { byDelay(r); r.DryRun = true })
		wantCounts(t, dry, 2, 2, 0)
		if times() != before {
			t.Error("a dry run moved jobs")
		}
		f.clock.advance(time.Second)
		wantCounts(t, bulk(byDelay), 2, 2, 0)
		moved := times()
		if moved[0] != before[0].Add(2*time.Hour) || moved[1] != before[1].Add(2*time.Hour) {
			t.Errorf("moved from %v to %v", before, moved)
		}
		wantCounts(t, bulk(byDelay), 0, 0, 0) // a repeat moves no job again
		if times() != moved {
			t.Error("a repeat moved jobs")
		}
		// Each is judged alone: earlier than now, only one of them can be.
		out := bulk(func(r *adminv1.BulkRescheduleJobsRequest) { r.Delay = durationpb.New(-4 * time.Hour) })
		wantCounts(t, out, 2, 1, 1)
		if fail := out.GetFailures()[0]; fail.GetIdempotencyKey() != "early" || fail.GetError().GetDetail().GetReason() != fireoncev1.ErrorReason_ERROR_REASON_TIME_IN_PAST {
			t.Errorf("failure: %v", fail)
		}
		f.clock.advance(time.Second)
		to := f.clock.Now().Add(24 * time.Hour)
		wantCounts(t, bulk(func(r *adminv1.BulkRescheduleJobsRequest) { r.ScheduleTime = timestamppb.New(to) }), 2, 2, 0)
		if times() != [2]time.Time{to, to} || f.snapshot(other.GetJobId()).ScheduleTime.Equal(to) {
			t.Errorf("moved to %v", times())
		}
	})
}

// TestBulkResolve resolves many jobs in one call, and records the actor and the note.
func TestBulkResolve(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		a := f.schedule(f.request("a"))
		f.needResolution()
		looking := f.schedule(f.request("b"))
		f.learn(f.arm().ID, job.Outcome{Attempt: 1, Result: job.ResultUnknown, Kind: job.FailAmbiguous})
		req := &adminv1.BulkResolveJobsRequest{
			Filter: anyJob(), AsOfTime: timestamppb.New(f.clock.Now()),
			Decision: fireoncev1.Resolution_DECISION_RESEND, Note: "I looked",
		}
		did, err := f.bulkResolve(c, req)
		f.must(err)
		wantCounts(t, did, 1, 1, 0)
		snap := f.snapshot(a.GetJobId())
		if snap.State != job.Retrying || snap.Round != 2 || snap.Resolution.Note != "I looked" || snap.Resolution.Actor != "api" {
			t.Errorf("resolved job %+v", snap.Status)
		}
		if e := f.lastEvent(a.GetJobId()); e.Cause != job.CauseResolved || e.Reason != "I looked" {
			t.Errorf("event %+v", e)
		}
		req.OverrideReconciler = true
		fenced, err := f.bulkResolve(c, req)
		f.must(err)
		wantCounts(t, fenced, 1, 0, 1) // it may still be under way
		wantItem(t, fenced.GetFailures()[0].GetError(), fireoncev1.ErrorReason_ERROR_REASON_RESEND_TOO_EARLY)
		if fenced.GetFailures()[0].GetJobId() != looking.GetJobId() {
			t.Errorf("failures %v", fenced.GetFailures())
		}
		f.clock.advance(2 * time.Minute)
		over, err := f.bulkResolve(c, req)
		f.must(err)
		wantCounts(t, over, 1, 1, 0)
	})
}

// small is a store whose pages are small, so that few jobs make many.
type small struct {
	server.Store
	most *atomic.Int64
}

// smallPages makes a server's pages small.
func smallPages(most *atomic.Int64) func(*server.Config) {
	return func(c *server.Config) { c.Store = small{c.Store, most} }
}

func (s small) List(ctx context.Context, q store.JobQuery) (store.JobPage, error) {
	q.Limit = min(q.Limit, int(s.most.Load()))
	return s.Store.List(ctx, q)
}

// TestBulkPaging: without other writers, every job that the filter selects is changed by exactly
// one page, whatever the pages' size, and no other is.
func TestBulkPaging(t *testing.T) {
	most := &atomic.Int64{}
	f := start(t, smallPages(most))
	c := overConnect(f)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		most.Store(rapid.Int64Range(1, 7).Draw(rt, "page"))
		run++
		mine := fmt.Sprint(run)
		want := map[string]bool{}
		for i := range rapid.IntRange(0, 20).Draw(rt, "jobs") {
			label := rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "label")
			j := f.schedule(f.request(mine+"-"+fmt.Sprint(i), at(f.clock.Now().Add(time.Duration(i%3)*time.Hour)), func(r *scheduleRequest) {
				r.Labels = map[string]string{"l": label, "run": mine}
			}))
			if label == "x" {
				want[j.GetJobId()] = true
			}
			if rapid.Bool().Draw(rt, "tick") {
				f.clock.advance(time.Second)
			}
		}
		for _, dry := range []bool{true, false} {
			got := map[string]bool{}
			req := &adminv1.BulkCancelJobsRequest{Filter: &jobFilter{Labels: map[string]string{"l": "x", "run": mine}}, DryRun: dry}
			for {
				r, err := f.bulkCancel(c, req)
				if err != nil {
					rt.Fatal(err)
				}
				if int64(r.GetMatched()) > most.Load() {
					rt.Errorf("%d jobs on a page of %d", r.GetMatched(), most.Load())
				}
				for _, id := range r.GetChangedJobIds() {
					if got[id] || !want[id] {
						rt.Errorf("job %s is taken twice, or was not selected", id)
					}
					got[id] = true
				}
				if req.PageToken = r.GetNextPageToken(); req.GetPageToken() == "" {
					break
				}
			}
			if len(got) != len(want) {
				rt.Errorf("dry %t: %d jobs, want %d", dry, len(got), len(want))
			}
		}
	})
}

// TestBulkTokensAreBound to the call, the filter and everything else.
func TestBulkTokensAreBound(t *testing.T) {
	one := &atomic.Int64{}
	one.Store(1)
	f := start(t, smallPages(one))
	c := overConnect(f)
	for i := range 3 {
		f.schedule(f.request(fmt.Sprint(i)))
		f.fail()
	}
	now := timestamppb.New(f.clock.Now())
	page, err := f.bulkRetry(c, &adminv1.BulkRetryJobsRequest{Filter: anyJob(), AsOfTime: now, DryRun: true})
	f.must(err)
	good := page.GetNextPageToken()
	for _, bad := range damaged(good) {
		_, err := f.bulkRetry(c, &adminv1.BulkRetryJobsRequest{Filter: anyJob(), AsOfTime: now, DryRun: true, PageToken: bad})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID)
	}
	for _, other := range []*adminv1.BulkRetryJobsRequest{
		{Filter: anyJob(), AsOfTime: now}, {Filter: anyJob(), DryRun: true},
		{Filter: &jobFilter{ConnectionIds: []string{f.conn}}, AsOfTime: now, DryRun: true},
	} {
		other.PageToken = good
		_, err := f.bulkRetry(c, other)
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID)
	}
	_, err = f.bulkCancel(c, &adminv1.BulkCancelJobsRequest{Filter: anyJob(), AsOfTime: now, DryRun: true, PageToken: good})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID)
	if _, err := f.bulkRetry(c, &adminv1.BulkRetryJobsRequest{Filter: anyJob(), AsOfTime: now, DryRun: true, PageToken: good}); err != nil {
		t.Errorf("the same request: %v", err)
	}
}

// meddling is a store in which another writer is faster than a bulk call, once.
type meddling struct {
	server.Store
	once   *sync.Once
	meddle func()
}

func (m meddling) Apply(ctx context.Context, items []store.Change) ([]store.Applied, error) {
	m.once.Do(m.meddle)
	return m.Store.Apply(ctx, items)
}

// TestBulkDecidesAnew: a job that moved meanwhile is judged as it is now, and
// left alone when the filter selects it no more.
func TestBulkDecidesAnew(t *testing.T) {
	var moved []job.ID
	var f *fixture
	claim := func() {
		leased, err := f.store.Claim(t.Context(), store.ClaimParams{Worker: "w", Lease: time.Minute, Limit: 2})
		if err != nil {
			t.Error(err)
		}
		for _, l := range leased {
			moved = append(moved, l.ID)
		}
	}
	for name, tt := range map[string]struct {
		states  []fireoncev1.JobState
		changed int
	}{
		"any state":      {nil, 5},
		"scheduled only": {[]fireoncev1.JobState{fireoncev1.JobState_JOB_STATE_SCHEDULED}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			moved = nil
			f = start(t, func(c *server.Config) { c.Store = meddling{c.Store, &sync.Once{}, claim} })
			for i := range 5 {
				f.schedule(f.request(fmt.Sprint(i)))
			}
			r, err := f.bulkCancel(overGRPC(f), &adminv1.BulkCancelJobsRequest{Filter: &jobFilter{ConnectionIds: []string{f.conn}, States: tt.states}})
			f.must(err)
			wantCounts(t, r, 5, tt.changed, 0)
			if len(moved) != 2 {
				t.Fatalf("%d jobs moved, want 2", len(moved))
			}
			for _, id := range moved {
				if canceled := f.snapshot(id.String()).State == job.Canceled; canceled != (tt.changed == 5) {
					t.Errorf("job %s cancelled: %t", id, canceled)
				}
			}
		})
	}
}

// TestBulkGivesUp on a job that never stands still, and says so.
func TestBulkGivesUp(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Store = restless{c.Store} })
	f.schedule(f.request("k"))
	r, err := f.bulkCancel(overConnect(f), &adminv1.BulkCancelJobsRequest{Filter: anyJob()})
	f.must(err)
	wantCounts(t, r, 1, 0, 1)
	wantItem(t, r.GetFailures()[0].GetError(), fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH)
}

// restless is a store in which every job has always moved.
type restless struct{ server.Store }

func (restless) Apply(_ context.Context, items []store.Change) ([]store.Applied, error) {
	out := make([]store.Applied, len(items))
	for i := range out {
		out[i].Err = store.ErrStale
	}
	return out, nil
}

// TestConcurrentBulkCalls: equal concurrent calls change each job once.
func TestConcurrentBulkCalls(t *testing.T) {
	const jobs, callers = 30, 8
	f := start(t)
	for i := range jobs {
		f.schedule(f.request(fmt.Sprint(i)))
		f.fail()
	}
	_, before := f.stored()
	req := &adminv1.BulkRetryJobsRequest{Filter: anyJob(), AsOfTime: timestamppb.New(f.clock.Now())}
	var mu sync.Mutex
	changed := map[string]int{}
	var wg sync.WaitGroup
	for range callers {
		c := overConnect(f)
		wg.Go(func() {
			r, err := f.bulkRetry(c, req)
			if err != nil || len(r.GetFailures()) > 0 {
				t.Errorf("result %v, %v", r, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, id := range r.GetChangedJobIds() {
				changed[id]++
			}
		})
	}
	wg.Wait()
	for id, n := range changed {
		if n != 1 {
			t.Errorf("job %s was changed %d times", id, n)
		}
	}
	page, err := f.store.Events(t.Context(), store.EventQuery{Project: server.DefaultProject, After: before, Limit: store.MaxBatch})
	f.must(err)
	if n := len(page.Events); len(changed) != jobs || n != jobs {
		t.Errorf("%d jobs changed by %d events, want %d", len(changed), n, jobs)
	}
}
