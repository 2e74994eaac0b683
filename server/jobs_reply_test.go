package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// replyTo has a job reply to another one; empty: to none.
func replyTo(id string) func(*scheduleRequest) {
	return func(r *scheduleRequest) {
		if id != "" {
			r.ReplyTo = replyingTo(id)
		}
	}
}

// TestReplyWaits for its predecessor's success, and says so on every surface.
func TestReplyWaits(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		post := f.schedule(f.request("post"))
		reply := f.schedule(f.request("reply", replyTo(strings.ToUpper(post.GetJobId()))))
		list, err := ask[fireoncev1.ListJobsResponse](t, c, jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{Filter: &jobFilter{JobIds: []string{reply.GetJobId()}}})
		f.must(err)
		changed, _ := c.open(t, fromBeginning, onlyJobs(reply.GetJobId()), func(r *streamRequest) { r.IncludeJob = true }).changes(t, 1)
		for name, got := range map[string]*fireoncev1.Job{
			"ScheduleJob": reply, "GetJob": f.read(c, reply.GetJobId()), "ListJobs": list.GetJobs()[0], "event": changed[0].GetJob(),
		} {
			if got.GetReplyToJobId() != post.GetJobId() || !strings.Contains(got.GetBlockedReason().GetMessage(), "Waits for job "+post.GetJobId()) {
				t.Errorf("%s: replies to %q, blocked: %q", name, got.GetReplyToJobId(), got.GetBlockedReason().GetMessage())
			}
			ends := got.GetScheduleTime().AsTime().Add(job.DefaultWaitWindow)
			if got.GetStartDeadline() != nil || !got.GetWaitDeadline().AsTime().Equal(ends) || got.GetWaitWindow().AsDuration() != job.DefaultWaitWindow {
				t.Errorf("%s: waits for %v, until %v; start deadline %v", name, got.GetWaitWindow(), got.GetWaitDeadline(), got.GetStartDeadline())
			}
		}
		if l := f.arm(); l.ID.String() != post.GetJobId() {
			t.Fatalf("armed %s before what it replies to", l.ID)
		}
		if got, err := f.runNow(c, &fireoncev1.RunJobNowRequest{Job: &fireoncev1.RunJobNowRequest_JobId{JobId: reply.GetJobId()}}); err != nil || got.GetBlockedReason() == nil {
			t.Errorf("run now: %v, %v", got, err)
		}
		f.learn(f.id(post.GetJobId()), job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: "post-1"})
		got := f.read(c, reply.GetJobId())
		if got.GetBlockedReason() != nil || got.GetWaitDeadline() != nil || got.GetStartDeadline() == nil {
			t.Errorf("after the success: blocked %q, waits until %v, starts before %v",
				got.GetBlockedReason().GetMessage(), got.GetWaitDeadline(), got.GetStartDeadline())
		}
		if l := f.claim(); l.ID.String() != reply.GetJobId() || l.ReplyTo != "post-1" {
			t.Errorf("claimed %s, which replies to %q", l.ID, l.ReplyTo)
		}
		// Another predecessor is another request.
		other := f.schedule(f.request("other"))
		err = c.call(t.Context(), scheduleJob, f.request("reply", replyTo(other.GetJobId())), &fireoncev1.ScheduleJobResponse{})
		e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
		if fields := e.detail.GetIdempotencyConflict().GetMismatchedFields(); len(fields) != 1 || fields[0] != "reply_to_job_id" {
			t.Errorf("fields %v", fields)
		}
	})
}

// TestReplyRefused where it could never be sent; nothing is stored.
func TestReplyRefused(t *testing.T) {
	const unfit = fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID
	overEach(t, func(t *testing.T, f *fixture, c client) {
		var conns []string
		for i, connector := range []string{"stub", "webhook"} {
			id := job.ID{8, 15: byte(i)}
			_, _, err := f.store.CreateConnection(t.Context(), store.NewConnection{Key: fmt.Sprint(i), Connection: store.Connection{
				ID: id, Project: server.DefaultProject, Connector: connector, Class: job.Opaque,
			}})
			f.must(err)
			conns = append(conns, id.String())
		}
		on := func(conn string) func(*scheduleRequest) {
			return func(r *scheduleRequest) { r.Connection = onConnection(conn) }
		}
		post, hook := f.schedule(f.request("post")), f.schedule(f.request("hook", on(conns[1])))
		jobs, end := f.stored()
		for name, request := range map[string]*scheduleRequest{
			"another connection":           f.request("k", on(conns[0]), replyTo(post.GetJobId())),
			"a connector without replies":  f.request("k", on(conns[1]), replyTo(hook.GetJobId())),
			"both, and only to be checked": f.request("k", on(conns[1]), replyTo(post.GetJobId()), func(r *scheduleRequest) { r.ValidateOnly = true }),
		} {
			e := wantReason(t, c.call(t.Context(), scheduleJob, request, &fireoncev1.ScheduleJobResponse{}), unfit)
			if e.detail.GetViolations()[0].GetField() != "reply_to_job_id" {
				t.Errorf("%s: %v", name, e.detail)
			}
			wantItem(t, f.batch(c, request)[0].GetError(), unfit)
		}
		wantReason(t, c.call(t.Context(), scheduleJob, f.request("k", replyTo(absent)), &fireoncev1.ScheduleJobResponse{}),
			fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND)
		if n, e := f.stored(); n != jobs || e != end {
			t.Errorf("refused calls stored something: %d and %d, before %d and %d", n, e, jobs, end)
		}
	})
}

// TestReplyToTwo: content that answers something on the platform cannot answer a job too, which is
// refused when the job is scheduled, though the other job has no effect yet.
func TestReplyToTwo(t *testing.T) {
	t.Parallel()
	f := start(t)
	first := f.schedule(f.request("first"))
	for field, p := range map[string]*fireoncev1.Payload{
		"payload.social_post.reply_to_id": {Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: "Hello", ReplyToId: "1"}}},
		"payload.email.in_reply_to": {Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{
			Sender: "a@example.org", To: []string{"b@example.org"}, TextBody: "Hello", InReplyTo: "<1@example.org>",
		}}},
	} {
		request := f.request("both", replyTo(first.GetJobId()), func(r *scheduleRequest) { r.Payload = p })
		e := wantReason(t, overConnect(f).call(t.Context(), scheduleJob, request, &fireoncev1.ScheduleJobResponse{}), fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID)
		if e.detail.GetViolations()[0].GetField() != field || !strings.Contains(e.msg, "goes not with reply_to_job_id") {
			t.Errorf("%s: %s, %v", field, e.msg, e.detail)
		}
	}
}

// vanishing is a store that loses the predecessor between check and write.
type vanishing struct{ server.Store }

func (vanishing) Create(_ context.Context, items []store.NewJob) ([]store.Created, error) {
	out := make([]store.Created, len(items))
	for i := range out {
		out[i].Err = fmt.Errorf("job: %w", store.ErrReplyTo)
	}
	return out, nil
}

func TestReplyToAJobThatVanishes(t *testing.T) {
	f := start(t)
	post := f.schedule(f.request("post"))
	second := start(t, func(c *server.Config) { c.Store = vanishing{f.store} })
	request := f.request("reply", replyTo(post.GetJobId()))
	err := overConnect(second).call(t.Context(), scheduleJob, request, &fireoncev1.ScheduleJobResponse{})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND)
	wantItem(t, second.batch(overConnect(second), request)[0].GetError(), fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND)
}

// leftBehind makes a thread of three whose first job has failed.
func (f *fixture) leftBehind(name string) (thread []string) {
	f.tb.Helper()
	to := ""
	for i := range 3 {
		j := f.schedule(f.request(fmt.Sprint(name, i), replyTo(to)))
		to = j.GetJobId()
		thread = append(thread, to)
	}
	f.learn(f.arm().ID, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent})
	for _, id := range thread[1:] {
		f.learn(f.id(id), job.PredecessorEnded{})
	}
	return thread
}

// TestReplyLeftBehind shows why it has ended, is refused before its predecessor goes on,
// and taken up after.
func TestReplyLeftBehind(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		thread := f.leftBehind("a")
		left := f.read(c, thread[1])
		if left.GetState() != fireoncev1.JobState_JOB_STATE_CANCELED || left.GetLastError().GetKind() != fireoncev1.FailureKind_FAILURE_KIND_PREDECESSOR_ENDED {
			t.Errorf("left behind: %v, %v", left.GetState(), left.GetLastError())
		}
		_, err := f.retry(c, &fireoncev1.RetryJobRequest{Job: &fireoncev1.RetryJobRequest_JobId{JobId: thread[1]}, Etag: left.GetEtag()})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PREDECESSOR_ENDED).named(t, "job_id", thread[0])
		if !strings.Contains(fmt.Sprint(err), "job "+thread[0]+", which it replies to, ended as FAILED") {
			t.Errorf("refused with %v", err)
		}
		_, err = f.retry(c, &fireoncev1.RetryJobRequest{Job: &fireoncev1.RetryJobRequest_JobId{JobId: thread[0]}, Etag: f.read(c, thread[0]).GetEtag()})
		f.must(err)
		again, err := f.retry(c, &fireoncev1.RetryJobRequest{Job: &fireoncev1.RetryJobRequest_JobId{JobId: thread[1]}, Etag: left.GetEtag()})
		f.must(err)
		if again.GetState() != fireoncev1.JobState_JOB_STATE_RETRYING || again.GetWaitDeadline() == nil || again.GetBlockedReason() == nil {
			t.Errorf("taken up: %v, waits until %v: %q", again.GetState(), again.GetWaitDeadline(), again.GetBlockedReason().GetMessage())
		}
	})
}

// TestBulkRetryOfAThread retries a thread as a whole, whatever its order in the page, and no job
// that a client has canceled.
func TestBulkRetryOfAThread(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		thread := f.leftBehind("a")
		unwanted := f.schedule(f.request("unwanted"))
		f.learn(f.id(unwanted.GetJobId()), job.CancelAsked{})
		_, end := f.stored()
		dry, err := f.bulkRetry(c, &adminv1.BulkRetryJobsRequest{Filter: anyJob(), DryRun: true})
		f.must(err)
		wantCounts(t, dry, 3, 3, 0)
		if _, e := f.stored(); e != end {
			t.Errorf("a dry run wrote %d events", e-end)
		}
		did, err := f.bulkRetry(c, &adminv1.BulkRetryJobsRequest{Filter: anyJob(), AsOfTime: dry.GetAsOfTime()})
		f.must(err)
		wantCounts(t, did, 3, 3, 0)
		for i, id := range thread {
			if s := f.snapshot(id); s.State != job.Retrying || s.PredecessorEnd != 0 || s.WaitsFor.IsZero() != (i == 0) {
				t.Errorf("job %d of the thread: %v, waits for %s, which ended as %v", i, s.State, s.WaitsFor, s.PredecessorEnd)
			}
		}
		if s := f.snapshot(unwanted.GetJobId()); s.State != job.Canceled {
			t.Errorf("a job that its client cancelled is %v", s.State)
		}
	})
}

// TestBulkRetryOfAThreadAcrossPages takes a thread up as a whole, also where each of its
// jobs is on a page of its own.
func TestBulkRetryOfAThreadAcrossPages(t *testing.T) {
	most := &atomic.Int64{}
	most.Store(1)
	f := start(t, smallPages(most))
	c := overConnect(f)
	thread := f.leftBehind("a")
	req := &adminv1.BulkRetryJobsRequest{Filter: anyJob(), AsOfTime: timestamppb.New(f.clock.Now())}
	for {
		did, err := f.bulkRetry(c, req)
		f.must(err)
		wantCounts(t, did, 1, 1, 0)
		if req.PageToken = did.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
	}
	for i, id := range thread {
		if s := f.snapshot(id); s.State != job.Retrying || s.PredecessorEnd != 0 || s.WaitsFor.IsZero() != (i == 0) {
			t.Errorf("job %d of the thread: %v, waits for %s, which ended as %v", i, s.State, s.WaitsFor, s.PredecessorEnd)
		}
	}
}

// TestBulkCancelOfLeftBehind keeps the replies from being taken up again, as CancelJob
// does, and takes no other job that has ended.
func TestBulkCancelOfLeftBehind(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		thread := f.leftBehind("a")
		f.learn(f.id(f.schedule(f.request("unwanted")).GetJobId()), job.CancelAsked{})
		did, err := f.bulkCancel(c, &adminv1.BulkCancelJobsRequest{Filter: anyJob(), AsOfTime: timestamppb.New(f.clock.Now())})
		f.must(err)
		wantCounts(t, did, 2, 2, 0)
		for _, id := range thread[1:] {
			if s := f.snapshot(id); s.State != job.Canceled || s.LeftBehind() {
				t.Errorf("%v, and may be taken up: %t", s.State, s.LeftBehind())
			}
		}
		again, err := f.bulkCancel(c, &adminv1.BulkCancelJobsRequest{Filter: anyJob(), AsOfTime: timestamppb.New(f.clock.Now())})
		f.must(err)
		wantCounts(t, again, 0, 0, 0)
	})
}

// TestBulkRetryLeavesCanceledReplies retries no reply that its client canceled, after it was left
// behind or after it was retried.
func TestBulkRetryLeavesCanceledReplies(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		thread := f.leftBehind("a")
		cancel := func(id string) {
			t.Helper()
			res, err := f.cancel(&fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: id}})
			f.must(err)
			if res.GetJob().GetCancelRequestTime() == nil {
				t.Errorf("the wish to cancel %s is not recorded", id)
			}
		}
		cancel(thread[2])
		for _, id := range thread[:2] {
			_, err := f.retry(c, &fireoncev1.RetryJobRequest{Job: &fireoncev1.RetryJobRequest_JobId{JobId: id}, Etag: f.read(c, id).GetEtag()})
			f.must(err)
		}
		cancel(thread[1])
		did, err := f.bulkRetry(c, &adminv1.BulkRetryJobsRequest{Filter: anyJob(), AsOfTime: timestamppb.New(f.clock.Now())})
		f.must(err)
		wantCounts(t, did, 0, 0, 0)
		for _, id := range thread[1:] {
			if s := f.snapshot(id); s.State != job.Canceled {
				t.Errorf("a reply that its client canceled is %v", s.State)
			}
		}
	})
}

// TestBulkRetryOfRepliesAlone refuses replies that wait for a job that stays ended.
func TestBulkRetryOfRepliesAlone(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		thread := f.leftBehind("a")
		only := &jobFilter{JobIds: thread[1:]}
		for _, dry := range []bool{true, false} {
			req := &adminv1.BulkRetryJobsRequest{Filter: only, DryRun: dry, AsOfTime: timestamppb.New(f.clock.Now())}
			did, err := f.bulkRetry(c, req)
			f.must(err)
			wantCounts(t, did, 2, 0, 2)
		}
	})
}

// TestWaitWindow: wait_window is returned as it was sent, is part of what a repeat is compared
// by, and needs a job to wait for.
func TestWaitWindow(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		post := f.schedule(f.request("post"))
		for23h := func(r *scheduleRequest) { r.WaitWindow = durationpb.New(23 * time.Hour) }
		reply := f.schedule(f.request("reply", replyTo(post.GetJobId()), for23h))
		ends := reply.GetScheduleTime().AsTime().Add(23 * time.Hour)
		if reply.GetWaitWindow().AsDuration() != 23*time.Hour || !reply.GetWaitDeadline().AsTime().Equal(ends) {
			t.Errorf("waits for %v, until %v", reply.GetWaitWindow(), reply.GetWaitDeadline())
		}
		err := c.call(t.Context(), scheduleJob, f.request("reply", replyTo(post.GetJobId())), &fireoncev1.ScheduleJobResponse{})
		e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
		if fields := e.detail.GetIdempotencyConflict().GetMismatchedFields(); len(fields) != 1 || fields[0] != "wait_window" {
			t.Errorf("fields %v", fields)
		}
		err = c.call(t.Context(), scheduleJob, f.request("k", for23h), &fireoncev1.ScheduleJobResponse{})
		if err == nil || !strings.Contains(err.Error(), "wait_window needs reply_to_job_id") {
			t.Errorf("without a job to wait for: %v", err)
		}
	})
}

// TestWaitWarnings: the answer about a reply whose wait cannot end well has a warning, and no
// other answer has one.
func TestWaitWarnings(t *testing.T) {
	f := start(t)
	in := func(d time.Duration) func(*scheduleRequest) {
		return func(r *scheduleRequest) { r.ScheduleTime = timestamppb.New(f.clock.Now().Add(d)) }
	}
	soon, late := f.schedule(f.request("soon", in(72*time.Hour))), f.schedule(f.request("late", in(73*time.Hour)))
	gone := f.schedule(f.request("gone", in(time.Hour)))
	f.learn(f.id(gone.GetJobId()), job.CancelAsked{})
	longer := func(r *scheduleRequest) { r.WaitWindow = durationpb.New(74 * time.Hour) }
	only := func(r *scheduleRequest) { r.ValidateOnly = true }
	const ended, short = fireoncev1.WarningCode_WARNING_CODE_PREDECESSOR_ENDED, fireoncev1.WarningCode_WARNING_CODE_WAIT_TOO_SHORT
	for name, tt := range map[string]struct {
		r    *scheduleRequest
		code fireoncev1.WarningCode // 0: no warning
	}{
		"a job that is due within the wait": {f.request("1", replyTo(soon.GetJobId())), 0},
		"a job that is due after the wait":  {f.request("2", replyTo(late.GetJobId())), short},
		"only to be checked":                {f.request("6", replyTo(late.GetJobId()), only), short},
		"a reply of its own time":           {f.request("3", replyTo(late.GetJobId()), in(2*time.Hour)), 0},
		"a longer wait":                     {f.request("4", replyTo(late.GetJobId()), longer), 0},
		"a job that has ended":              {f.request("5", replyTo(gone.GetJobId())), ended},
	} {
		got := f.scheduled(tt.r).GetWarnings()
		if tt.code == 0 && len(got) == 0 || len(got) == 1 && got[0].GetCode() == tt.code && got[0].GetField() != "" {
			continue
		}
		t.Errorf("%s: %v", name, got)
	}
}

// TestLimitsOfTheTarget: a job above a limit that its target stated is refused, and one above a limit
// that it may have is stored with a warning.
func TestLimitsOfTheTarget(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		for _, only := range []bool{true, false} {
			of := func(schema string) *scheduleRequest {
				return f.request(schema, func(r *scheduleRequest) { r.Payload, r.ValidateOnly = custom(schema, ""), only })
			}
			got := f.scheduled(of("long/v1")).GetWarnings()
			if len(got) != 1 || got[0].GetCode() != fireoncev1.WarningCode_WARNING_CODE_OVER_LIMIT || got[0].GetField() != "payload.custom.data" || got[0].GetMessage() == "" {
				t.Errorf("warnings %v", got)
			}
			if got := f.scheduled(of("short/v1")).GetWarnings(); len(got) != 0 {
				t.Errorf("warnings %v", got)
			}
			err := c.call(t.Context(), scheduleJob, of("above/v1"), &fireoncev1.ScheduleJobResponse{})
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID)
		}
	})
}
