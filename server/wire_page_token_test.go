package server_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// damaged returns texts that are nearly a good token, and are none.
func damaged(good string) []string {
	raw, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil {
		panic(err)
	}
	out := []string{"x", "!", good[:len(good)-1], good + "A", good + "=", " " + good, "AAAA"}
	for i := range raw { // each byte in turn
		bad := append([]byte{}, raw...)
		bad[i] ^= 0x40
		out = append(out, base64.RawURLEncoding.EncodeToString(bad))
	}
	return out
}

func TestListPages(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		want := map[string]bool{}
		for i := range 7 {
			want[f.schedule(f.request(fmt.Sprint(i))).GetJobId()] = true // all at one time: ties go by id
		}
		for _, order := range []fireoncev1.JobOrder{0, 1, 2, 3} {
			got := map[string]bool{}
			req := &fireoncev1.ListJobsRequest{Order: order, PageSize: 3}
			for pages := 1; ; pages++ {
				var res fireoncev1.ListJobsResponse
				if err := c.call(t.Context(), jobsPath+"ListJobs", req, &res); err != nil {
					t.Fatal(err)
				}
				for _, j := range res.GetJobs() {
					if got[j.GetJobId()] {
						t.Errorf("%s: job %s twice", order, j.GetJobId())
					}
					got[j.GetJobId()] = true
				}
				if req.PageToken = res.GetNextPageToken(); req.GetPageToken() == "" {
					if pages != 3 {
						t.Errorf("%s: %d pages of 3, want 3", order, pages)
					}
					break
				}
			}
			if len(got) != len(want) {
				t.Errorf("%s: %d jobs, want %d", order, len(got), len(want))
			}
		}
	})
}

func TestPageTokens(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	for i := range 3 {
		f.schedule(f.request(fmt.Sprint(i)))
		_, _, err := f.store.CreateConnection(t.Context(), store.NewConnection{
			Key: fmt.Sprint("c", i), Connection: store.Connection{ID: job.ID{9, 15: byte(i)}, Project: server.DefaultProject, Connector: "stub", Class: job.Opaque},
		})
		f.must(err)
	}
	const invalid = fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID
	list := func(req *fireoncev1.ListJobsRequest) (*fireoncev1.ListJobsResponse, error) {
		var res fireoncev1.ListJobsResponse
		err := c.call(t.Context(), jobsPath+"ListJobs", req, &res)
		return &res, err
	}
	page, err := list(&fireoncev1.ListJobsRequest{PageSize: 1})
	f.must(err)
	good := page.GetNextPageToken()
	if _, err := list(&fireoncev1.ListJobsRequest{PageSize: 2, PageToken: good}); err != nil {
		t.Errorf("another page size: %v", err)
	}
	for _, bad := range append(damaged(good), page.GetEventsCursor()) {
		_, err := list(&fireoncev1.ListJobsRequest{PageToken: bad})
		wantReason(t, err, invalid)
	}
	_, err = list(&fireoncev1.ListJobsRequest{PageToken: good, Order: fireoncev1.JobOrder_JOB_ORDER_CREATE_TIME_DESC})
	wantReason(t, err, invalid)
	_, err = list(&fireoncev1.ListJobsRequest{PageToken: good, Filter: &fireoncev1.JobFilter{States: []fireoncev1.JobState{1}}})
	wantReason(t, err, invalid)

	other := start(t) // another database
	wantReason(t, overConnect(other).call(t.Context(), jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{PageToken: good},
		&fireoncev1.ListJobsResponse{}), invalid)

	seen := map[string]bool{}
	req := &connectionsv1.ListConnectionsRequest{PageSize: 2}
	for {
		var conns connectionsv1.ListConnectionsResponse
		f.must(c.call(t.Context(), connsPath+"ListConnections", req, &conns))
		for _, conn := range conns.GetConnections() {
			seen[conn.GetConnectionId()] = true
		}
		if conns.GetNextPageToken() == "" {
			break
		}
		req.PageToken = conns.GetNextPageToken()
	}
	if len(seen) != 4 {
		t.Errorf("%d connections, want 4", len(seen))
	}
	for path, call := range map[string]struct{ req, res proto.Message }{
		connsPath + "ListConnections": {&connectionsv1.ListConnectionsRequest{PageToken: good}, &connectionsv1.ListConnectionsResponse{}},
		jobsPath + "ListJobAttempts": {
			&fireoncev1.ListJobAttemptsRequest{Job: &fireoncev1.ListJobAttemptsRequest_JobId{JobId: page.GetJobs()[0].GetJobId()}, PageToken: good}, &fireoncev1.ListJobAttemptsResponse{},
		},
	} {
		wantReason(t, c.call(t.Context(), path, call.req, call.res), invalid)
	}
}

// TestPageSizes: 0 means 50, and no page has more than 500.
func TestPageSizes(t *testing.T) {
	f := start(t)
	for i := range 60 {
		f.schedule(f.request(fmt.Sprint(i)))
	}
	for size, want := range map[int32]int{0: 50, 1: 1, 59: 59, 1000: 60} {
		var res fireoncev1.ListJobsResponse
		f.must(overConnect(f).call(t.Context(), jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{PageSize: size}, &res))
		if len(res.GetJobs()) != want || (res.GetNextPageToken() == "") != (want == 60) {
			t.Errorf("page size %d: %d jobs and token %q, want %d", size, len(res.GetJobs()), res.GetNextPageToken(), want)
		}
	}
}

func TestAttemptPages(t *testing.T) {
	f := start(t)
	j := f.schedule(f.request("k"))
	for n := 1; n <= 3; n++ {
		f.learn(f.arm().ID, job.Outcome{Attempt: n, Result: job.ResultRejected, Kind: job.FailTransient, HTTPStatus: 409})
		f.clock.advance(15 * time.Minute)
	}
	req := &fireoncev1.ListJobAttemptsRequest{Job: &fireoncev1.ListJobAttemptsRequest_JobId{JobId: j.GetJobId()}, PageSize: 2}
	for _, want := range [][]int32{{1, 2}, {3}} {
		var res fireoncev1.ListJobAttemptsResponse
		f.must(overConnect(f).call(t.Context(), jobsPath+"ListJobAttempts", req, &res))
		var got []int32
		for _, a := range res.GetAttempts() {
			got = append(got, a.GetNumber())
		}
		if !slices.Equal(got, want) {
			t.Errorf("attempts %v, want %v", got, want)
		}
		req.PageToken = res.GetNextPageToken()
	}
	if req.GetPageToken() != "" {
		t.Errorf("token %q after the last page", req.GetPageToken())
	}
}
