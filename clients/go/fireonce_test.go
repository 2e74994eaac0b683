package fireonce_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	fireonce "github.com/fireonce/fireonce/clients/go"
	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
)

// server answers the n-th call, counted from 1, with a test's functions.
type server struct {
	fireoncev1connect.UnimplementedJobServiceHandler
	adminv1connect.UnimplementedAccessServiceHandler
	schedule func(n int) error
	stream   func(n int, after string, send func(*fireoncev1.JobEvent) error) error

	mu       sync.Mutex
	requests []proto.Message
	keys     []string
	streams  int
}

func (s *server) note(ctx context.Context, req proto.Message) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	call, _ := connect.CallInfoForHandlerContext(ctx)
	s.keys = append(s.keys, call.RequestHeader().Get("Authorization"))
	s.requests = append(s.requests, req)
	return len(s.requests)
}

func (s *server) ScheduleJob(ctx context.Context, req *fireoncev1.ScheduleJobRequest) (*fireoncev1.ScheduleJobResponse, error) {
	if err := s.schedule(s.note(ctx, req)); err != nil {
		return nil, err
	}
	return &fireoncev1.ScheduleJobResponse{Job: &fireoncev1.Job{IdempotencyKey: req.GetIdempotencyKey()}}, nil
}

func (s *server) CreateApiKey(ctx context.Context, req *adminv1.CreateApiKeyRequest) (*adminv1.CreateApiKeyResponse, error) {
	return nil, s.schedule(s.note(ctx, req))
}

func (s *server) StreamJobEvents(ctx context.Context, req *fireoncev1.StreamJobEventsRequest, out *connect.ServerStream[fireoncev1.StreamJobEventsResponse]) error {
	s.note(ctx, req)
	s.mu.Lock()
	s.streams++
	n := s.streams
	s.mu.Unlock()
	return s.stream(n, req.GetAfterCursor(), func(e *fireoncev1.JobEvent) error {
		return out.Send(&fireoncev1.StreamJobEventsResponse{Event: e})
	})
}

func (s *server) start(t *testing.T, o fireonce.Options) *fireonce.Client {
	t.Helper()
	_, jobs := fireoncev1connect.NewJobServiceHandler(s)
	_, access := adminv1connect.NewAccessServiceHandler(s)
	mux := http.NewServeMux()
	mux.Handle("/fireonce.v1.JobService/", jobs)
	mux.Handle("/fireonce.admin.v1.AccessService/", access)
	at := httptest.NewServer(mux)
	t.Cleanup(at.Close)
	c, err := fireonce.New(at.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var request = &fireoncev1.ScheduleJobRequest{IdempotencyKey: "order-42-paid", Labels: map[string]string{"a": "b"}}

func code(c connect.Code) error { return connect.NewError(c, errors.New("told so")) }

// TestUnknownOutcomesAreRepeated checks that a call is repeated unchanged while it is unknown
// whether it arrived.
func TestUnknownOutcomesAreRepeated(t *testing.T) {
	for _, o := range [][]connect.ClientOption{nil, {connect.WithProtoJSON()}, {connect.WithGRPCWeb()}} {
		s := &server{schedule: func(n int) error {
			return []error{code(connect.CodeUnavailable), code(connect.CodeUnknown), nil}[n-1]
		}}
		c := s.start(t, fireonce.Options{APIKey: "secret", Connect: o})
		got, err := c.Jobs.ScheduleJob(t.Context(), request)
		if err != nil || got.GetJob().GetIdempotencyKey() != "order-42-paid" {
			t.Fatalf("%v, %v", got, err)
		}
		if len(s.requests) != 3 || !slices.Equal(s.keys, []string{"Bearer secret", "Bearer secret", "Bearer secret"}) {
			t.Errorf("%d requests, keys %q", len(s.requests), s.keys)
		}
		for _, r := range s.requests {
			if !proto.Equal(r, request) {
				t.Errorf("asked for %v", r)
			}
		}
	}
}

// TestResetConnectionsAreRepeated checks that a call is repeated when its connection is reset, and
// when something between resets its stream, whatever code connect-go makes of that.
func TestResetConnectionsAreRepeated(t *testing.T) {
	for name, lose := range map[string]func(http.ResponseWriter){
		"connection": func(w http.ResponseWriter) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.(*net.TCPConn).SetLinger(0) // RST in the place of FIN
			_ = conn.Close()
		},
		"call": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(499)
			_, _ = w.Write([]byte(`{"code":"canceled"}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{schedule: func(int) error { return nil }}
			_, jobs := fireoncev1connect.NewJobServiceHandler(s)
			var calls atomic.Int32
			at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) > 1 {
					jobs.ServeHTTP(w, r)
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				lose(w)
			}))
			t.Cleanup(at.Close)
			c, err := fireonce.New(at.URL, fireonce.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Jobs.ScheduleJob(t.Context(), request); err != nil || calls.Load() != 2 {
				t.Errorf("%v after %d calls", err, calls.Load())
			}
		})
	}
}

// TestTriesHaveADeadline checks that a hanging try ends at its own timeout, not at the call's.
func TestTriesHaveADeadline(t *testing.T) {
	hang := make(chan struct{})
	s := &server{schedule: func(n int) error {
		if n == 1 {
			<-hang
		}
		return nil
	}}
	c := s.start(t, fireonce.Options{Timeout: 50 * time.Millisecond})
	t.Cleanup(func() { close(hang) })
	if _, err := c.Jobs.ScheduleJob(t.Context(), request); err != nil {
		t.Fatal(err)
	}
}

// TestDecisionsAreNotRepeated checks that the server's decision is final, and that a call that
// is not idempotent is made once.
func TestDecisionsAreNotRepeated(t *testing.T) {
	for _, c := range []connect.Code{connect.CodeInvalidArgument, connect.CodeAlreadyExists, connect.CodeAborted, connect.CodeFailedPrecondition} {
		s := &server{schedule: func(int) error { return code(c) }}
		if _, err := s.start(t, fireonce.Options{}).Jobs.ScheduleJob(t.Context(), request); connect.CodeOf(err) != c || len(s.requests) != 1 {
			t.Errorf("%v: %v after %d calls", c, err, len(s.requests))
		}
	}
	s := &server{schedule: func(int) error { return code(connect.CodeUnavailable) }}
	client := s.start(t, fireonce.Options{})
	if _, err := fireonce.Service(client, adminv1connect.NewAccessServiceClient).CreateApiKey(t.Context(), &adminv1.CreateApiKeyRequest{}); connect.CodeOf(err) != connect.CodeUnavailable || len(s.requests) != 1 {
		t.Errorf("%v after %d calls", err, len(s.requests))
	}
	s = &server{schedule: func(int) error { return code(connect.CodeUnavailable) }}
	if _, err := s.start(t, fireonce.Options{Patience: -1}).Jobs.ScheduleJob(t.Context(), request); err == nil || len(s.requests) != 1 {
		t.Errorf("without patience: %v after %d calls", err, len(s.requests))
	}
}

func TestDetail(t *testing.T) {
	want := &fireoncev1.ErrorDetail{Reason: fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED}
	s := &server{schedule: func(int) error {
		err := connect.NewError(connect.CodeAlreadyExists, errors.New("bound"))
		d, failed := connect.NewErrorDetail(want)
		if failed != nil {
			return failed
		}
		err.AddDetail(d)
		return err
	}}
	_, err := s.start(t, fireonce.Options{}).Jobs.ScheduleJob(t.Context(), request)
	if got := fireonce.Detail(err); !proto.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got := fireonce.Detail(errors.New("lost")); got != nil {
		t.Errorf("%v", got)
	}
}

func change(n int) *fireoncev1.JobEvent {
	return &fireoncev1.JobEvent{
		Cursor: strconv.Itoa(n), Event: &fireoncev1.JobEvent_JobChanged{JobChanged: &fireoncev1.JobChanged{Sequence: int64(n)}},
	}
}

// TestEventsGoOn checks that a stream that ends or is lost continues behind the last processed
// event.
func TestEventsGoOn(t *testing.T) {
	s := &server{stream: func(n int, after string, send func(*fireoncev1.JobEvent) error) error {
		if want := []string{"", "2", "3"}[n-1]; after != want {
			t.Errorf("stream %d begins after %q, want %q", n, after, want)
		}
		switch n {
		case 1:
			return errors.Join(send(change(1)), send(change(2)))
		case 2:
			_ = send(&fireoncev1.JobEvent{Cursor: "3", Event: &fireoncev1.JobEvent_Heartbeat{Heartbeat: &fireoncev1.Heartbeat{}}})
			return code(connect.CodeUnavailable)
		default:
			return errors.Join(send(change(4)), send(change(5)))
		}
	}}
	c := s.start(t, fireonce.Options{APIKey: "secret"})
	var got []int64
	for e, err := range c.Events(t.Context(), fireonce.EventOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e.GetJobChanged().GetSequence()); len(got) == 4 {
			break
		}
	}
	if !slices.Equal(got, []int64{1, 2, 4, 5}) || s.keys[2] != "Bearer secret" {
		t.Errorf("events %v, keys %q", got, s.keys)
	}
}

// TestEventsGoOnAfterHalfAMessage checks that a connection that is lost in the middle of a
// message is not taken for an error of the request.
func TestEventsGoOnAfterHalfAMessage(t *testing.T) {
	streams := 0
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/connect+proto")
		if streams++; streams == 1 {
			_, _ = w.Write([]byte{0, 0})
			return
		}
		_, _ = w.Write([]byte("\x02\x00\x00\x00\x2e" + `{"error":{"code":"out_of_range","message":""}}`))
	}))
	t.Cleanup(at.Close)
	c, err := fireonce.New(at.URL, fireonce.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, err = range c.Events(t.Context(), fireonce.EventOptions{}) {
	}
	if streams != 2 || err == nil {
		t.Errorf("%d streams, %v", streams, err)
	}
}

// TestEventsEnd checks that the last pair has the final error or the context's.
func TestEventsEnd(t *testing.T) {
	s := &server{stream: func(int, string, func(*fireoncev1.JobEvent) error) error { return code(connect.CodeOutOfRange) }}
	var last error
	for e, err := range s.start(t, fireonce.Options{}).Events(t.Context(), fireonce.EventOptions{After: "old"}) {
		if e != nil || last != nil {
			t.Errorf("%v, %v after %v", e, err, last)
		}
		last = err
	}
	if connect.CodeOf(last) != connect.CodeOutOfRange {
		t.Errorf("%v", last)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s = &server{stream: func(_ int, _ string, send func(*fireoncev1.JobEvent) error) error {
		err := send(change(1))
		<-ctx.Done()
		return err
	}}
	last = nil
	for e, err := range s.start(t, fireonce.Options{}).Events(ctx, fireonce.EventOptions{FromNow: true}) {
		if e != nil {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("%v", last)
	}
}

func TestNew(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:8080", "ftp://x", "http://", "http://a b"} {
		if _, err := fireonce.New(bad, fireonce.Options{}); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
