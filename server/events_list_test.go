package server_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
)

// listEvents reads all pages, and returns what happened and the cursor to go on with.
func (f *fixture) listEvents(c client, req *fireoncev1.ListJobEventsRequest) (got []string, cursor string) {
	f.tb.Helper()
	for range 50 {
		page, err := ask[fireoncev1.ListJobEventsResponse](f.tb, c, jobsPath+"ListJobEvents", req)
		f.must(err)
		for _, e := range page.GetEvents() {
			changed := e.GetJobChanged()
			got = append(got, fmt.Sprintf("%s %d", f.snapshot(changed.GetJobId()).Key, changed.GetSequence()))
		}
		if req.AfterCursor = page.GetNextCursor(); !page.GetHasMore() {
			return got, page.GetNextCursor()
		}
	}
	f.tb.Fatal("the list has no end")
	return nil, ""
}

// TestListJobEvents: pages of the log, and their cursors are the stream's.
func TestListJobEvents(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		labels := func(r *scheduleRequest) { r.Labels = map[string]string{"user": "42"} }
		a, b := f.schedule(f.request("a", labels)), f.schedule(f.request("b"))
		_, err := f.cancel(&fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: a.GetJobId()}})
		f.must(err)
		for name, tt := range map[string]struct {
			filter *fireoncev1.EventFilter
			want   []string
		}{
			"all":      {nil, []string{"a 1", "b 1", "a 2"}},
			"one job":  {&fireoncev1.EventFilter{JobIds: []string{a.GetJobId()}}, []string{"a 1", "a 2"}},
			"by key":   {&fireoncev1.EventFilter{IdempotencyKeys: []string{"a"}}, []string{"a 1", "a 2"}},
			"jobs":     {&fireoncev1.EventFilter{JobIds: []string{b.GetJobId()}, IdempotencyKeys: []string{"a"}}, []string{"a 1", "b 1", "a 2"}},
			"a label":  {&fireoncev1.EventFilter{Labels: map[string]string{"user": "42"}}, []string{"a 1", "a 2"}},
			"ended":    {&fireoncev1.EventFilter{EndedOnly: true}, []string{"a 2"}},
			"one, end": {&fireoncev1.EventFilter{JobIds: []string{a.GetJobId()}, EndedOnly: true}, []string{"a 2"}},
		} {
			for _, size := range []int32{1, 2, 1000} {
				got, _ := f.listEvents(c, &fireoncev1.ListJobEventsRequest{Filter: tt.filter, PageSize: size})
				if !slices.Equal(got, tt.want) {
					t.Errorf("%s, pages of %d: %v, want %v", name, size, got, tt.want)
				}
			}
		}
		// A stream goes on where the list ended, and a list where the stream did.
		_, cursor := f.listEvents(c, &fireoncev1.ListJobEventsRequest{})
		d := f.schedule(f.request("d"))
		seen, after := c.open(t, afterCursor(cursor)).changes(t, 1)
		if seen[0].GetJobId() != d.GetJobId() {
			t.Errorf("streamed after the list: %v", seen[0])
		}
		f.schedule(f.request("e"))
		if got, _ := f.listEvents(c, &fireoncev1.ListJobEventsRequest{AfterCursor: after}); !slices.Equal(got, []string{"e 1"}) {
			t.Errorf("listed after the stream: %v", got)
		}
		// The stream takes the same filter.
		ended := c.open(t, fromBeginning, func(r *streamRequest) {
			r.Filter = &fireoncev1.EventFilter{EndedOnly: true, IdempotencyKeys: []string{"a", "b"}}
		})
		if got, _ := ended.changes(t, 1); got[0].GetSequence() != 2 || got[0].GetJobId() != a.GetJobId() {
			t.Errorf("ended only: %v", got)
		}
		_, err = ask[fireoncev1.ListJobEventsResponse](t, c, jobsPath+"ListJobEvents", &fireoncev1.ListJobEventsRequest{AfterCursor: "x"})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CURSOR_INVALID)
		_, err = ask[fireoncev1.ListJobEventsResponse](t, c, jobsPath+"ListJobEvents", &fireoncev1.ListJobEventsRequest{
			Filter: &fireoncev1.EventFilter{IdempotencyKeys: []string{"none"}},
		})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND)
	})
}

func TestObservationPages(t *testing.T) {
	f := start(t)
	j := f.schedule(f.request("k"))
	l := f.arm()
	f.learn(l.ID, job.Outcome{Attempt: 1, Result: job.ResultUnknown})
	for range 3 {
		f.learn(l.ID, job.Looked{Observation: job.Observation{Attempt: 1, Verdict: job.SawInconclusive, BegunAt: f.clock.Now()}})
	}
	req := &fireoncev1.ListJobObservationsRequest{Job: &fireoncev1.ListJobObservationsRequest_IdempotencyKey{IdempotencyKey: j.GetIdempotencyKey()}, PageSize: 2}
	for _, want := range [][]int32{{3, 2}, {1}} {
		page, err := ask[fireoncev1.ListJobObservationsResponse](t, overConnect(f), jobsPath+"ListJobObservations", req)
		f.must(err)
		var got []int32
		for _, o := range page.GetObservations() {
			got = append(got, o.GetNumber())
		}
		if !slices.Equal(got, want) {
			t.Errorf("looks %v, want %v", got, want)
		}
		req.PageToken = page.GetNextPageToken()
	}
	if req.GetPageToken() != "" {
		t.Errorf("token %q after the last page", req.GetPageToken())
	}
}
