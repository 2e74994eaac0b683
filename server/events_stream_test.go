package server_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

type streamRequest = fireoncev1.StreamJobEventsRequest

func fromBeginning(r *streamRequest) {
	r.Start = &fireoncev1.StreamJobEventsRequest_FromBeginning{FromBeginning: true}
}

func afterCursor(cursor string) func(*streamRequest) {
	return func(r *streamRequest) { r.Start = &fireoncev1.StreamJobEventsRequest_AfterCursor{AfterCursor: cursor} }
}

func onlyJobs(ids ...string) func(*streamRequest) {
	return func(r *streamRequest) { r.Filter = &fireoncev1.EventFilter{JobIds: ids} }
}

// open opens a stream that ends with the test.
func (c client) open(t *testing.T, edit ...func(*streamRequest)) feed {
	req := &streamRequest{}
	for _, e := range edit {
		e(req)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := c.stream(ctx, req)
	t.Cleanup(func() { cancel(); s.close() })
	return s
}

// changes reads n changes, and returns the cursor after the last.
func (s feed) changes(t *testing.T, n int) (out []*fireoncev1.JobChanged, cursor string) {
	t.Helper()
	for len(out) < n {
		e, err := s.next()
		if err != nil {
			t.Fatalf("after %d changes: %v", len(out), err)
		}
		cursor = e.GetCursor()
		if e.GetJobChanged() != nil {
			out = append(out, e.GetJobChanged())
		}
	}
	return out, cursor
}

// first reads the heartbeat that opens a stream.
func (s feed) first(t *testing.T) *fireoncev1.JobEvent {
	t.Helper()
	e, err := s.next()
	if err != nil || e.GetHeartbeat() == nil || e.GetHeartbeat().GetServerTime() == nil || e.GetCursor() == "" {
		t.Fatalf("first message %v, %v; want a heartbeat with a cursor", e, err)
	}
	return e
}

// TestStreamIsGapFree reads the log in pieces, each from the cursor of the one
// before, while jobs are written; every job's sequences come whole.
func TestStreamIsGapFree(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		const jobs = 60
		start := c.open(t).first(t).GetCursor()
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			writer := overConnect(f)
			for i := range jobs {
				var res fireoncev1.ScheduleJobResponse
				if err := writer.call(t.Context(), scheduleJob, f.request(fmt.Sprint(i)), &res); err != nil {
					t.Errorf("schedule: %v", err)
				}
				err := writer.call(t.Context(), jobsPath+"CancelJob", &fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: res.GetJob().GetJobId()}},
					&fireoncev1.CancelJobResponse{})
				if err != nil {
					t.Errorf("cancel: %v", err)
				}
			}
		})
		last := map[string]int64{}
		for read := 0; read < 2*jobs; read += 8 {
			s := c.open(t, afterCursor(start))
			s.first(t)
			var some []*fireoncev1.JobChanged
			some, start = s.changes(t, 8)
			s.close()
			for _, e := range some {
				if e.GetSequence() != last[e.GetJobId()]+1 {
					t.Errorf("job %s: sequence %d after %d", e.GetJobId(), e.GetSequence(), last[e.GetJobId()])
				}
				last[e.GetJobId()] = e.GetSequence()
			}
		}
		if len(last) != jobs || slices.Contains(slices.Collect(maps.Values(last)), 1) {
			t.Errorf("%d jobs with newest sequences %v; want %d jobs at 2", len(last), last, jobs)
		}
	})
}

// TestStreamFromListCursor: a stream from a list's cursor begins with the first event after the
// list.
func TestStreamFromListCursor(t *testing.T) {
	f := start(t)
	c := overGRPC(f)
	f.schedule(f.request("before"))
	var page fireoncev1.ListJobsResponse
	f.must(c.call(t.Context(), jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{}, &page))
	after := f.schedule(f.request("after"))
	got, _ := c.open(t, afterCursor(page.GetEventsCursor())).changes(t, 1)
	if got[0].GetJobId() != after.GetJobId() {
		t.Errorf("first change is of %s, want %s", got[0].GetJobId(), after.GetJobId())
	}
}

func TestStreamFilters(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	a, b := f.schedule(f.request("a")), f.schedule(f.request("b"))
	d := f.schedule(f.request("d"))
	got, _ := c.open(t, fromBeginning, onlyJobs(b.GetJobId(), d.GetJobId())).changes(t, 2)
	if got[0].GetJobId() != b.GetJobId() || got[1].GetJobId() != d.GetJobId() {
		t.Errorf("changes %v", got)
	}
	none := c.open(t, fromBeginning, func(r *streamRequest) { r.Filter = &fireoncev1.EventFilter{ConnectionIds: []string{absent}} })
	none.first(t)
	all, _ := c.open(t, fromBeginning).changes(t, 3)
	if all[0].GetJobId() != a.GetJobId() {
		t.Errorf("changes %v", all)
	}
}

// TestStreamOneJob reads one job's history with attempts and the job itself.
func TestStreamOneJob(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		j := f.schedule(f.request("k"))
		f.learn(f.arm().ID, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: "x"})
		f.schedule(f.request("another"))
		s := c.open(t, fromBeginning, onlyJobs(j.GetJobId()), func(r *streamRequest) { r.IncludeJob = true })
		got, cursor := s.changes(t, 4)
		causes := []fireoncev1.EventCause{
			fireoncev1.EventCause_EVENT_CAUSE_SUBMITTED, fireoncev1.EventCause_EVENT_CAUSE_CLAIMED,
			fireoncev1.EventCause_EVENT_CAUSE_INTENT_STORED, fireoncev1.EventCause_EVENT_CAUSE_ANSWERED,
		}
		for i, e := range got {
			if e.GetSequence() != int64(i+1) || e.GetCause() != causes[i] || e.GetJobId() != j.GetJobId() ||
				e.GetJob().GetSequence() != 4 || e.GetJob().GetPayload() != nil {
				t.Errorf("change %d: %v", i, e)
			}
		}
		if got[1].GetAttempt() != nil || got[2].GetAttempt().GetOutcome() != fireoncev1.AttemptOutcome_ATTEMPT_OUTCOME_SUCCEEDED {
			t.Errorf("attempts: %v and %v", got[1], got[2])
		}
		resumed := c.open(t, afterCursor(cursor), onlyJobs(j.GetJobId()))
		if beat := resumed.first(t); beat.GetCursor() != cursor {
			t.Errorf("resumed at %s, want %s", beat.GetCursor(), cursor)
		}
		_, err := c.open(t, afterCursor(cursor)).next()
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CURSOR_INVALID)
		_, err = c.open(t, fromBeginning, onlyJobs(absent)).next()
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND)
	})
}

func TestCursors(t *testing.T) {
	const invalid = fireoncev1.ErrorReason_ERROR_REASON_CURSOR_INVALID
	f := start(t)
	f.schedule(f.request("a"))
	f.schedule(f.request("b"))
	var page fireoncev1.ListJobsResponse
	f.must(overConnect(f).call(t.Context(), jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{PageSize: 1}, &page))
	good := page.GetEventsCursor()
	for _, bad := range append(damaged(good), page.GetNextPageToken()) {
		_, err := overConnect(f).open(t, afterCursor(bad)).next()
		wantReason(t, err, invalid)
	}
	other := start(t)
	for _, dial := range protocols {
		_, err := dial(other).open(t, afterCursor(good)).next()
		wantReason(t, err, invalid)
	}
	overConnect(f).open(t, afterCursor(good)).first(t)
}

// expiring is a store that keeps no old events.
type expiring struct{ server.Store }

func (e expiring) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	if q.After == 0 {
		return store.EventPage{}, fmt.Errorf("events: %w", store.ErrCursorExpired)
	}
	return e.Store.Events(ctx, q)
}

// rewound is a store that was restored from a copy: its log is shorter.
type rewound struct{ server.Store }

func (r rewound) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	page, err := r.Store.Events(ctx, q)
	page.End = 1
	return page, err
}

func TestCursorBeyondTheLog(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Store = expiring{c.Store} })
	for _, dial := range protocols {
		_, err := dial(f).open(t, fromBeginning).next()
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CURSOR_EXPIRED)
	}
	f = start(t, func(c *server.Config) { c.Store = rewound{c.Store} })
	for i := range 3 {
		f.schedule(f.request(fmt.Sprint(i)))
	}
	_, cursor := overConnect(f).open(t, fromBeginning).changes(t, 3)
	_, err := overConnect(f).open(t, afterCursor(cursor)).next()
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CURSOR_INVALID)
}

func TestTooManyStreams(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, func(c *server.Config) { c.Quotas = quotas("streams=2") })
			c := dial(f)
			c.open(t).first(t)
			second := c.open(t)
			second.first(t)
			_, err := c.open(t).next()
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_STREAMS)
		})
	}
}

// TestShutdownEndsStreams: with a reason, and no new one begins.
func TestShutdownEndsStreams(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		s := c.open(t)
		s.first(t)
		if err := f.server.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := s.next()
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_SHUTTING_DOWN)
		_, err = c.open(t).next()
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_SHUTTING_DOWN)
		f.schedule(f.request("k"))
	})
}

func TestStreamRules(t *testing.T) {
	f := start(t)
	for _, start := range []func(*streamRequest){
		func(r *streamRequest) { r.Start = &fireoncev1.StreamJobEventsRequest_FromNow{} },
		func(r *streamRequest) { r.Start = &fireoncev1.StreamJobEventsRequest_FromBeginning{} },
		afterCursor(""), onlyJobs("no-uuid"),
	} {
		_, err := overGRPC(f).open(t, start).next()
		if e := new(wireError); !errors.As(err, &e) || e.code != connect.CodeInvalidArgument {
			t.Errorf("error %v", err)
		}
	}
}

// TestClientEndsWatch: a client that leaves is how a watch ends, and no line of the log.
func TestClientEndsWatch(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		f.schedule(f.request("k"))
		ctx, leave := context.WithCancel(t.Context())
		req := &streamRequest{}
		fromBeginning(req)
		s := c.stream(ctx, req)
		s.changes(t, 1)
		leave()
		s.close()
		line := ""
		for line == "" && t.Context().Err() == nil { // the handler ends by itself
			for l := range strings.Lines(f.logs.String()) {
				if strings.Contains(l, `"msg":"call"`) && strings.Contains(l, "StreamJobEvents") {
					line = l
				}
			}
			runtime.Gosched()
		}
		if !strings.Contains(line, `"level":"DEBUG"`) {
			t.Errorf("a line of the log: %s", line)
		}
	})
}
