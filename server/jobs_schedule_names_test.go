package server_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// onKey and replyToKey name what a job is for by the key under which the client made it.
func onKey(key string) func(*scheduleRequest) {
	return func(r *scheduleRequest) {
		r.Connection = &fireoncev1.ScheduleJobRequest_ConnectionKey{ConnectionKey: key}
	}
}

func replyToKey(key string) func(*scheduleRequest) {
	return func(r *scheduleRequest) { r.ReplyTo = &fireoncev1.ScheduleJobRequest_ReplyToKey{ReplyToKey: key} }
}

func onlyValidate(r *scheduleRequest) { r.ValidateOnly = true }

// named checks that an error names what the request named.
func (e *wireError) named(t *testing.T, field, value string) {
	t.Helper()
	if want := map[string]string{field: value}; !maps.Equal(e.detail.GetMetadata(), want) {
		t.Errorf("metadata %v, want %v", e.detail.GetMetadata(), want)
	}
}

// TestScheduleByKeys: a connection and the job that is replied to are named by their keys,
// alone and in a batch. The other name of the same thing makes the same request.
func TestScheduleByKeys(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		call := func(r *scheduleRequest) (*fireoncev1.ScheduleJobResponse, error) {
			return ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, r)
		}
		post, err := call(f.request("post", onKey("fixture")))
		f.must(err)
		if post.GetJob().GetConnectionId() != f.conn || !post.GetCreated() {
			t.Errorf("stored %v", post)
		}
		waits := func(r *scheduleRequest) { r.WaitWindow = durationpb.New(time.Hour) }
		reply, err := call(f.request("reply", onKey("fixture"), replyToKey("post"), waits))
		f.must(err)
		if reply.GetJob().GetReplyToJobId() != post.GetJob().GetJobId() {
			t.Errorf("replies to %q", reply.GetJob().GetReplyToJobId())
		}
		for name, again := range map[string]*scheduleRequest{
			"ids":           f.request("reply", replyTo(post.GetJob().GetJobId()), waits),
			"keys":          f.request("reply", onKey("fixture"), replyToKey("post"), waits),
			"one of each":   f.request("reply", onKey("fixture"), replyTo(post.GetJob().GetJobId()), waits),
			"only validate": f.request("reply", replyToKey("post"), waits, onlyValidate),
		} {
			got, err := call(again)
			if err != nil || got.GetCreated() || got.GetJob().GetJobId() != reply.GetJob().GetJobId() {
				t.Errorf("repeat by %s: %v, %v", name, got, err)
			}
			item := f.batch(c, again)[0]
			if item.GetSuccess().GetJob().GetJobId() != reply.GetJob().GetJobId() {
				t.Errorf("repeat by %s in a batch: %v", name, item)
			}
		}
		other, err := call(f.request("other", onKey("fixture")))
		f.must(err)
		for name, r := range map[string]*scheduleRequest{
			"reply_to_key":    f.request("reply", replyToKey(other.GetJob().GetIdempotencyKey()), waits),
			"reply_to_job_id": f.request("reply", replyTo(other.GetJob().GetJobId()), waits),
			"connection_key":  f.request("reply", onKey("nobody's"), replyToKey("post"), waits),
		} {
			_, err := call(r)
			e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
			if got := e.detail.GetIdempotencyConflict().GetMismatchedFields(); !slices.Equal(got, []string{name}) {
				t.Errorf("%s differs, and the error names %v", name, got)
			}
		}
		_, err = call(f.request("k", onKey("none")))
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND).named(t, "connection_key", "none")
		_, err = call(f.request("k", replyToKey("none")))
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND).named(t, "reply_to_key", "none")
		_, err = call(f.request("k", replyTo(job.ID{9, 15: 9}.String())))
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND)
		wantItem(t, f.batch(c, f.request("k", onKey("none")))[0].GetError(), fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND)
		wantItem(t, f.batch(c, f.request("k", replyToKey("none")))[0].GetError(), fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND)
	})
}

// TestDeriveByConnectionKey: the derived key is the same by either name, and there is none
// without the connection.
func TestDeriveByConnectionKey(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	derive := func(r *scheduleRequest) { r.IdempotencyKey, r.DeriveKey = "", true }
	when := at(f.clock.Now().Add(time.Hour))
	first := f.schedule(f.request("", derive, when))
	res, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request("", derive, when, onKey("fixture")))
	if err != nil || res.GetCreated() || res.GetJob().GetJobId() != first.GetJobId() {
		t.Errorf("by key: %v, %v", res, err)
	}
	err = c.call(t.Context(), scheduleJob, f.request("", derive, when, onKey("none")), &fireoncev1.ScheduleJobResponse{})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND)
}

// TestThreadInOneBatch: items are decided as if they came one after another, so one
// replies to another by its key.
func TestThreadInOneBatch(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		bound := f.schedule(f.request("bound"))
		items := []*scheduleRequest{
			f.request("early", replyToKey("one")), // not stored yet
			f.request("one"), f.request("two", replyToKey("one")), f.request("three", replyToKey("two")),
			f.request("bound"), f.request("four", replyToKey("bound")),
			f.request("five", replyToKey("one"), onlyValidate),
		}
		for range 2 {
			got := f.batch(c, items...)
			wantItem(t, got[0].GetError(), fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND)
			id := func(i int) string { return got[i].GetSuccess().GetJob().GetJobId() }
			for i, before := range map[int]string{2: id(1), 3: id(2), 5: bound.GetJobId(), 6: id(1)} {
				if to := got[i].GetSuccess().GetJob().GetReplyToJobId(); to != before || to == "" {
					t.Errorf("item %d replies to %q, want %q: %v", i, to, before, got[i].GetError())
				}
			}
			items[0] = f.request("late", replyToKey("none"))
		}
	})
}

// oblivious is a store whose keys name nothing, or another connection.
type oblivious struct {
	server.Store
	other job.ID // what every key of a connection names; zero: nothing
}

func (s oblivious) Connection(ctx context.Context, ref store.Ref) (store.Connection, error) {
	switch {
	case ref.Key != "" && s.other.IsZero():
		return store.Connection{}, store.ErrNotFound
	case ref.Key != "":
		ref = store.Ref{Project: ref.Project, ID: s.other}
	}
	return s.Store.Connection(ctx, ref)
}

func (s oblivious) Job(ctx context.Context, ref store.Ref) (job.Snapshot, error) {
	if ref.Key == "post" {
		return job.Snapshot{}, store.ErrNotFound
	}
	return s.Store.Job(ctx, ref)
}

// TestRepeatByKeysThatNameNothing: a repeat gets its job although the keys that it names
// its connection and its predecessor by stand for nothing, or something else, since.
func TestRepeatByKeysThatNameNothing(t *testing.T) {
	for _, other := range []job.ID{{}, {15: 77}} {
		f := start(t)
		if !other.IsZero() {
			_, _, err := f.store.CreateConnection(t.Context(), store.NewConnection{Key: "other", Connection: store.Connection{
				ID: other, Project: server.DefaultProject, Connector: "stub", Class: job.Opaque,
			}})
			f.must(err)
		}
		f.schedule(f.request("post"))
		request := f.request("reply", onKey("fixture"), replyToKey("post"))
		stored := f.schedule(request)
		later := start(t, func(c *server.Config) { c.Store = oblivious{f.store, other} })
		if got := later.schedule(request); got.GetJobId() != stored.GetJobId() {
			t.Errorf("repeat: %v", got)
		}
		if item := later.batch(overConnect(later), request)[0]; item.GetSuccess().GetJob().GetJobId() != stored.GetJobId() {
			t.Errorf("repeat in a batch: %v", item)
		}
	}
}

// TestRepeatAfterTheConnection is gone: by its key, too.
func TestRepeatAfterTheConnection(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		j := f.schedule(f.request("k", onKey("fixture")))
		f.must(c.call(t.Context(), jobsPath+"CancelJob", &fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: j.GetJobId()}}, &fireoncev1.CancelJobResponse{}))
		f.must(f.remove(c, f.conn, ""))
		again := f.schedule(f.request("k", onKey("fixture")))
		if again.GetJobId() != j.GetJobId() {
			t.Errorf("repeat: %v", again)
		}
		err := c.call(t.Context(), scheduleJob, f.request("new", onKey("fixture")), &fireoncev1.ScheduleJobResponse{})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_DISABLED)
	})
}

// TestFilterByConnectionKeys: a filter by keys selects the same as one by ids, together with
// them, and refuses a key that names nothing instead of selecting more or less.
func TestFilterByConnectionKeys(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		_, _, err := f.store.CreateConnection(t.Context(), store.NewConnection{Key: "second", Connection: store.Connection{
			ID: job.ID{15: 78}, Project: server.DefaultProject, Connector: "stub", Class: job.Opaque,
		}})
		f.must(err)
		f.schedule(f.request("one"))
		two := f.schedule(f.request("two", onKey("second")))
		selected := func(filter *jobFilter, want int) {
			t.Helper()
			list, err := ask[fireoncev1.ListJobsResponse](t, c, jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{Filter: filter})
			if err != nil || len(list.GetJobs()) != want {
				t.Errorf("%v selects %d jobs, %v", filter, len(list.GetJobs()), err)
			}
			bulk, err := ask[adminv1.BulkCancelJobsResponse](t, c, bulkPath+"BulkCancelJobs", &adminv1.BulkCancelJobsRequest{Filter: filter, DryRun: true})
			if err != nil || int(bulk.GetResult().GetMatched()) != want {
				t.Errorf("%v selects %v, %v", filter, bulk, err)
			}
		}
		selected(&jobFilter{ConnectionKeys: []string{"second"}}, 1)
		selected(&jobFilter{ConnectionKeys: []string{"second", "fixture"}}, 2)
		selected(&jobFilter{ConnectionKeys: []string{"second"}, ConnectionIds: []string{strings.ToUpper(f.conn), two.GetConnectionId()}}, 2)
		events, err := ask[fireoncev1.ListJobEventsResponse](t, c, jobsPath+"ListJobEvents", &fireoncev1.ListJobEventsRequest{
			Filter: &fireoncev1.EventFilter{ConnectionKeys: []string{"second"}},
		})
		if err != nil || len(events.GetEvents()) != 1 || events.GetEvents()[0].GetJobChanged().GetJobId() != two.GetJobId() {
			t.Errorf("events: %v, %v", events, err)
		}
		changed, _ := c.open(t, fromBeginning, func(r *streamRequest) {
			r.Filter = &fireoncev1.EventFilter{ConnectionKeys: []string{"second"}}
		}).changes(t, 1)
		if changed[0].GetJobId() != two.GetJobId() {
			t.Errorf("stream: %v", changed)
		}
		stats, err := ask[adminv1.GetStatsResponse](t, c, getStats, &adminv1.GetStatsRequest{
			Connection: &adminv1.GetStatsRequest_ConnectionKey{ConnectionKey: "second"},
		})
		if err != nil || stats.GetStateCounts()[0].GetCount() != 1 || len(stats.GetQuotas()) != 0 {
			t.Errorf("stats: %v, %v", stats, err)
		}
		for path, r := range map[string]proto.Message{
			jobsPath + "ListJobs":       &fireoncev1.ListJobsRequest{Filter: &jobFilter{ConnectionKeys: []string{"none"}}},
			bulkPath + "BulkCancelJobs": &adminv1.BulkCancelJobsRequest{Filter: &jobFilter{ConnectionKeys: []string{"none"}}},
			jobsPath + "ListJobEvents":  &fireoncev1.ListJobEventsRequest{Filter: &fireoncev1.EventFilter{ConnectionKeys: []string{"none"}}},
			getStats:                    &adminv1.GetStatsRequest{Connection: &adminv1.GetStatsRequest_ConnectionKey{ConnectionKey: "none"}},
		} {
			_, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
			err := c.call(t.Context(), path, r, answerOf(method))
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND).named(t, "connection_key", "none")
		}
	})
}
