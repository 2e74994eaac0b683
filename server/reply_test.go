package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

func replyTo(id string) func(*scheduleRequest) {
	return func(r *scheduleRequest) { r.ReplyToJobId = id }
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
			if got.GetReplyToJobId() != post.GetJobId() || !strings.Contains(got.GetBlockedReason(), "Waits for job "+post.GetJobId()) {
				t.Errorf("%s: replies to %q, blocked: %q", name, got.GetReplyToJobId(), got.GetBlockedReason())
			}
		}
		if l := f.arm(); l.ID.String() != post.GetJobId() {
			t.Fatalf("armed %s before what it replies to", l.ID)
		}
		if got, err := f.runNow(c, &fireoncev1.RunJobNowRequest{JobId: reply.GetJobId()}); err != nil || got.GetBlockedReason() == "" {
			t.Errorf("run now: %v, %v", got, err)
		}
		f.learn(f.id(post.GetJobId()), job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: "post-1"})
		if got := f.read(c, reply.GetJobId()); got.GetBlockedReason() != "" {
			t.Errorf("blocked after the success: %q", got.GetBlockedReason())
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
		on := func(conn string) func(*scheduleRequest) { return func(r *scheduleRequest) { r.ConnectionId = conn } }
		post, hook := f.schedule(f.request("post")), f.schedule(f.request("hook", on(conns[1])))
		jobs, end := f.stored()
		for name, request := range map[string]*scheduleRequest{
			"another connection":           f.request("k", on(conns[0]), replyTo(post.GetJobId())),
			"a connector without replies":  f.request("k", on(conns[1]), replyTo(hook.GetJobId())),
			"both, and only to be checked": f.request("k", on(conns[1]), replyTo(post.GetJobId()), func(r *scheduleRequest) { r.ValidateOnly = true }),
		} {
			e := wantReason(t, c.call(t.Context(), scheduleJob, request, &fireoncev1.ScheduleJobResponse{}), unfit)
			if e.detail.GetMetadata()["field"] != "reply_to_job_id" {
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

// vanishing is a store that loses the predecessor between check and write.
type vanishing struct{ store.Store }

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
