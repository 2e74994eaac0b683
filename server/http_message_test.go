package server_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/server"
)

func manyIDs(n int) *fireoncev1.ListJobsRequest {
	return &fireoncev1.ListJobsRequest{Filter: &fireoncev1.JobFilter{JobIds: make([]string, n)}}
}

// TestTooManyElements are refused in the same words on each way in, before a rule of the
// contract is judged.
func TestTooManyElements(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			err := dial(f).call(t.Context(), jobsPath+"ListJobs", manyIDs(5000), &fireoncev1.ListJobsResponse{})
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_ELEMENTS)
			if !strings.Contains(err.Error(), "filter.job_ids has more than 100 elements") {
				t.Errorf("it says %q", err)
			}
			stream := dial(f).stream(t.Context(), &fireoncev1.StreamJobEventsRequest{Filter: &fireoncev1.EventFilter{JobIds: make([]string, 101)}})
			defer stream.close()
			if _, err := stream.next(); name != "curl" { // it has no frames before the error
				wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_ELEMENTS)
			}
		})
	}
}

// TestTooManyElementsByGET: the query is counted, too, compressed or not.
func TestTooManyElementsByGET(t *testing.T) {
	f := start(t)
	data, err := proto.Marshal(manyIDs(5000))
	f.must(err)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write(data)
	f.must(w.Close())
	text, err := protojson.Marshal(manyIDs(101))
	f.must(err)
	for name, query := range map[string]url.Values{
		"zipped": {"encoding": {"proto"}, "base64": {"1"}, "compression": {"gzip"}, "message": {base64.RawURLEncoding.EncodeToString(zipped.Bytes())}},
		"base64": {"encoding": {"proto"}, "base64": {"1"}, "message": {base64.URLEncoding.EncodeToString(data)}},
		"JSON":   {"encoding": {"json"}, "message": {string(text)}},
	} {
		res, answer := f.do(http.MethodGet, jobsPath+"ListJobs?connect=v1&"+query.Encode(), "", nil)
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(answer, "TOO_MANY_ELEMENTS") {
			t.Errorf("%s: %d %.300s", name, res.StatusCode, answer)
		}
	}
	lawful, err := protojson.Marshal(&fireoncev1.ListJobsRequest{PageSize: 3})
	f.must(err)
	res, answer := f.do(http.MethodGet, jobsPath+"ListJobs?connect=v1&encoding=json&message="+url.QueryEscape(string(lawful)), "", nil)
	if res.StatusCode != http.StatusOK {
		t.Errorf("a lawful GET: %d %s", res.StatusCode, answer)
	}
}

// TestBreachesAreBounded: an error names a bounded part of a request's violations, one by one and
// in a batch.
func TestBreachesAreBounded(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	wrong := func(labels int) *scheduleRequest {
		return f.request("k", func(r *scheduleRequest) {
			r.Labels = map[string]string{}
			for i := range labels {
				r.Labels[strings.Repeat("?", i+1)] = "\x01"
			}
		})
	}
	for labels, want := range map[int]int{3: 6, 15: 20, 32: 20} {
		var e *wireError
		err := c.call(t.Context(), scheduleJob, wrong(labels), &fireoncev1.ScheduleJobResponse{})
		if !errors.As(err, &e) || e.code != connect.CodeInvalidArgument || len(e.msg) > 4<<10 {
			t.Fatalf("%d labels: %v", labels, err)
		}
		if n := len(e.detail.GetViolations()); n > want || labels == 3 && n != want || strings.Contains(e.msg, "may be more") != (labels > 3) {
			t.Errorf("%d labels: the error names %d violations: %s", labels, n, e.msg)
		}
	}
	for i, r := range f.batch(c, wrong(32), wrong(1)) {
		if msg := r.GetError().GetMessage(); msg == "" || len(msg) > 4<<10 {
			t.Errorf("item %d: %d bytes: %.100q", i, len(msg), msg)
		}
	}
}

// stuckBody sends n bytes and then nothing, until it is let go.
type stuckBody struct {
	n           int
	stuck, free chan struct{}
}

func (b *stuckBody) Read(p []byte) (int, error) {
	if b.n == 0 {
		close(b.stuck)
		<-b.free
		return 0, io.EOF
	}
	n := min(len(p), b.n)
	b.n -= n
	return n, nil
}

func (*stuckBody) Close() error { return nil }

// TestRefusedBodyHoldsNothing: while the rest of a refused request arrives, its project has its
// whole share of the budget for requests.
func TestRefusedBodyHoldsNothing(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Limits.Request, c.Limits.LargeWork = 1<<20, 2<<20 })
	body := &stuckBody{n: 1<<20 + 1, stuck: make(chan struct{}), free: make(chan struct{})}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+scheduleJob, body)
	r.Header.Set("Content-Type", "application/json")
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.server.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}()
	<-body.stuck
	defer func() {
		close(body.free)
		<-done
	}()
	// All that is left for one project is what the first request held.
	_, err := ask[fireoncev1.ScheduleJobResponse](t, overConnect(f), scheduleJob, f.request("k", func(r *scheduleRequest) {
		r.Payload = custom("good/v1", strings.Repeat("x", 100<<10))
	}))
	f.must(err)
}
