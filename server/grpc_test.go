package server_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1grpc"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/server/grpcserver"
)

// TestErrorsAreTheSame on both listeners, code, words and every detail.
func TestErrorsAreTheSame(t *testing.T) {
	f := start(t, func(c *server.Config) { c.NewID = fixedID })
	f.schedule(f.request("bound"))
	ways := []client{overNative(f), overGRPC(f), overConnect(f)}
	for name, tt := range map[string]struct {
		procedure string
		req, res  proto.Message
	}{
		"another request": {scheduleJob, f.request("bound", func(r *scheduleRequest) { r.Payload = custom("good/v1", "other") }), &fireoncev1.ScheduleJobResponse{}},
		"a broken rule":   {scheduleJob, f.request("a b"), &fireoncev1.ScheduleJobResponse{}},
		"a bad payload":   {scheduleJob, f.request("k", func(r *scheduleRequest) { r.Payload = custom("bad/v1", "") }), &fireoncev1.ScheduleJobResponse{}},
		"no such job":     {jobsPath + "CancelJob", &fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: absent}}, &fireoncev1.CancelJobResponse{}},
		"state conflict":  {jobsPath + "RetryJob", &fireoncev1.RetryJobRequest{Job: &fireoncev1.RetryJobRequest_JobId{JobId: fixedID().String()}, Etag: server.EtagOf(fixedID(), 1)}, &fireoncev1.RetryJobResponse{}},
		"too large": {scheduleJob, f.request("k", func(r *scheduleRequest) {
			r.Payload = custom("good/v1", strings.Repeat("x", 1<<20))
		}), &fireoncev1.ScheduleJobResponse{}},
	} {
		var all []*wireError
		for _, c := range ways {
			var e *wireError
			if err := c.call(t.Context(), tt.procedure, tt.req, tt.res); !errors.As(err, &e) || len(e.details) == 0 {
				t.Fatalf("%s: %v", name, err)
			}
			all = append(all, e)
		}
		for _, e := range all[1:] {
			if e.code != all[0].code || e.msg != all[0].msg || !slices.EqualFunc(e.details, all[0].details, proto.Equal) {
				t.Errorf("%s: %v with %v, and natively %v with %v", name, e, e.details, all[0], all[0].details)
			}
		}
	}
}

// TestNativeHost: without a key only loopback names are answered, by no method.
func TestNativeHost(t *testing.T) {
	f := start(t, func(c *server.Config) { c.AllowedHosts = []string{"fireonce.internal"} })
	for host, want := range map[string]codes.Code{
		"localhost": codes.OK, "127.0.0.1:9": codes.OK, "fireonce.internal:9": codes.OK,
		"evil.example": codes.PermissionDenied, "localhost.evil.example:8080": codes.PermissionDenied,
	} {
		conn := dialNative(f, grpc.WithAuthority(host))
		_, err := fireoncev1grpc.NewJobServiceClient(conn).ListJobs(t.Context(), &fireoncev1.ListJobsRequest{})
		_, healthy := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if status.Code(err) != want || status.Code(healthy) != want {
			t.Errorf("authority %q: %v and %v, want %s", host, err, healthy, want)
		}
	}
}

// TestNativeSurroundings: the methods of both listeners run within the same steps.
func TestNativeSurroundings(t *testing.T) {
	f := start(t, func(c *server.Config) { c.APIKey = "open-sesame" })
	conn := dialNative(f)
	jobs := fireoncev1grpc.NewJobServiceClient(conn)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "bearer open-sesame", "x-request-id", "mine-1")
	var header metadata.MD
	made, err := jobs.ScheduleJob(ctx, f.request("k"), grpc.Header(&header), grpc.UseCompressor(gzip.Name))
	f.must(err)
	if id := header.Get("x-request-id"); len(id) != 1 || id[0] != "mine-1" {
		t.Errorf("header %v", header)
	}
	if events := f.history(made.GetJob().GetJobId()); events[0].Actor != "api:key" {
		t.Errorf("actor %q", events[0].Actor)
	}
	_, err = jobs.ScheduleJob(t.Context(), f.request("l"), grpc.Header(&header))
	if status.Code(err) != codes.Unauthenticated || len(header.Get("www-authenticate")) != 1 || len(header.Get("x-request-id")[0]) != 36 {
		t.Errorf("without a key: %v with header %v", err, header)
	}
	for _, want := range []string{
		`"msg":"call","request_id":"mine-1","procedure":"/fireonce.v1.JobService/ScheduleJob","code":"ok"`,
		`"msg":"call turned away"`,
	} {
		if !strings.Contains(f.logs.String(), want) {
			t.Errorf("the log lacks %s: %s", want, f.logs)
		}
	}
	if strings.Contains(f.logs.String(), "sesame") {
		t.Errorf("the log has the key: %s", f.logs)
	}
	// Probes and grpcurl have no key.
	healthy, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "fireonce.v1.JobService"})
	if err != nil || healthy.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health %v, %v", healthy, err)
	}
	_, err = grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "none"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("a service that does not exist: %v", err)
	}
	reflected, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	f.must(err)
	f.must(reflected.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	}))
	if list, err := reflected.Recv(); err != nil || !strings.Contains(list.String(), "JobService") {
		t.Errorf("reflection lists %v, %v", list, err)
	}
	f.must(f.server.Shutdown(t.Context()))
	healthy, err = grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || healthy.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health after the shutdown: %v, %v", healthy, err)
	}
}

// TestProbesAreSmall: calls that need no key read little, compressed or not, on both ports.
func TestProbesAreSmall(t *testing.T) {
	f := start(t, func(c *server.Config) { c.APIKey = "open-sesame" })
	for port, conn := range map[string]*grpc.ClientConn{"native": dialNative(f), "main": dialGRPC(f)} {
		health := grpc_health_v1.NewHealthClient(conn)
		for size, want := range map[int]codes.Code{1 << 10: codes.NotFound, 8 << 10: codes.ResourceExhausted, 4 << 20: codes.ResourceExhausted} {
			ask := &grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("a", size)}
			if _, err := health.Check(t.Context(), ask); status.Code(err) != want {
				t.Errorf("%s, %d bytes: %.200v, want %s", port, size, err, want)
			}
			if _, err := health.Check(t.Context(), ask, grpc.UseCompressor(gzip.Name)); err == nil || size > 1<<10 && status.Code(err) != want && status.Code(err) != codes.Unimplemented {
				t.Errorf("%s, %d bytes, compressed: %.200v, want %s", port, size, err, want)
			}
		}
		stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		f.must(err)
		answers := 0
		for err == nil && answers < 100 {
			if err = stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
				MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
			}); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if _, err = stream.Recv(); err == nil {
				answers++
			}
		}
		if answers != 30 || status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s: %d answers on one stream, then %v", port, answers, err)
		}
	}
}

// TestNativeHeaderFlood: many header lines are refused, as on the main port, before
// anything is kept of the call.
func TestNativeHeaderFlood(t *testing.T) {
	f := start(t)
	jobs := fireoncev1grpc.NewJobServiceClient(dialNative(f))
	for lines, want := range map[int]codes.Code{50: codes.OK, 150: codes.ResourceExhausted, 2000: codes.ResourceExhausted} {
		ctx := t.Context()
		for i := range lines {
			ctx = metadata.AppendToOutgoingContext(ctx, "x-"+strconv.Itoa(i%10), "y")
		}
		if _, err := jobs.ListJobs(ctx, &fireoncev1.ListJobsRequest{}); status.Code(err) != want && lines < 1000 || err == nil && lines > 1000 {
			t.Errorf("%d headers: %v, want %s", lines, err, want)
		}
	}
}

// TestNativeProbes: one connection has few calls open that need no key, and takes none
// from another one.
func TestNativeProbes(t *testing.T) {
	f := start(t, requireKey)
	conn := dialNative(f)
	reflect := func(ctx context.Context, conn *grpc.ClientConn) error {
		stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
		f.must(err)
		ask := &grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}
		if err := stream.Send(ask); !errors.Is(err, io.EOF) { // io.EOF: the server has ended the stream, and Recv returns why
			f.must(err)
		}
		_, err = stream.Recv()
		return err
	}
	held, release := context.WithCancel(t.Context())
	defer release()
	for range grpcserver.MaxProbes {
		f.must(reflect(held, conn))
	}
	if err := reflect(t.Context(), conn); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more on the connection: %v", err)
	}
	f.must(reflect(held, dialNative(f)))
	release()
	for { // until the server has seen it, or the test's time
		err := reflect(t.Context(), conn)
		if err == nil {
			break
		}
		if status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
	}
}

// TestNativeDeadlines are clamped as on the other listener.
func TestNativeDeadlines(t *testing.T) {
	left := make(chan time.Duration, 1)
	f := start(t, func(c *server.Config) { c.Store = timed{c.Store, left} })
	jobs := fireoncev1grpc.NewJobServiceClient(dialNative(f))
	for asked, want := range map[time.Duration][2]time.Duration{
		0: {20 * time.Second, 30 * time.Second}, 5 * time.Second: {time.Second, 5 * time.Second}, time.Hour: {50 * time.Second, 60 * time.Second},
	} {
		ctx := t.Context()
		if asked != 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, asked)
			defer cancel()
		}
		if _, err := jobs.GetJob(ctx, &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: "k"}}); status.Code(err) != codes.NotFound {
			t.Fatalf("%s: %v", asked, err)
		}
		if got := <-left; got < want[0] || got > want[1] {
			t.Errorf("%s: %s left, want %s to %s", asked, got, want[0], want[1])
		}
	}
}

// TestNativeSlowReader is cut off with words, once it reads again, and loses
// nothing by it: it goes on from its last cursor.
func TestNativeSlowReader(t *testing.T) {
	const jobs = 300
	f := start(t, func(c *server.Config) { c.Quotas, c.Limits.Write = quotas("streams=1"), 50*time.Millisecond })
	for i := range jobs {
		f.schedule(f.request(strconv.Itoa(i), func(r *scheduleRequest) {
			r.Labels = map[string]string{"filler": strings.Repeat("x", 200)}
		}))
	}
	api := fireoncev1grpc.NewJobServiceClient(dialNative(f, grpc.WithStaticStreamWindowSize(64<<10)))
	req := &streamRequest{Start: &fireoncev1.StreamJobEventsRequest_FromBeginning{FromBeginning: true}, IncludeJob: true}
	stuck, err := api.StreamJobEvents(t.Context(), req)
	f.must(err)
	m, err := stuck.Recv()
	f.must(err)
	cursor, seen := m.GetEvent().GetCursor(), 0
	c := overConnect(f)
	for { // until the stuck stream is gone, or the test's time
		s := c.open(t)
		e, err := s.next()
		if err == nil && e.GetHeartbeat() != nil {
			s.close()
			break
		}
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_STREAMS)
	}
	read := func(from fireoncev1grpc.JobService_StreamJobEventsClient) error {
		for {
			m, err := from.Recv()
			if err != nil {
				return err
			}
			cursor = m.GetEvent().GetCursor()
			if m.GetEvent().GetJobChanged() != nil {
				seen++
			}
			if seen == jobs {
				return io.EOF
			}
		}
	}
	err = read(stuck)
	var e *wireError
	if !errors.As(fromGRPC(err), &e) || e.code != connect.CodeResourceExhausted || e.info.GetReason() != "RESOURCE_EXHAUSTED" || seen >= jobs {
		t.Fatalf("after %d events: %v, want RESOURCE_EXHAUSTED before all %d", seen, err, jobs)
	}
	for seen < jobs {
		again, err := api.StreamJobEvents(t.Context(), &streamRequest{
			Start: &fireoncev1.StreamJobEventsRequest_AfterCursor{AfterCursor: cursor}, IncludeJob: true,
		})
		f.must(err)
		if err := read(again); !errors.Is(err, io.EOF) && status.Code(err) != codes.ResourceExhausted {
			t.Fatalf("after %d events: %v", seen, err)
		}
	}
}

// TestNativeRefusesOtherCodecs: the gRPC listener refuses other codecs, and calls that are no
// gRPC at all.
func TestNativeRefusesOtherCodecs(t *testing.T) {
	f := start(t)
	err := dialNative(f).Invoke(t.Context(), jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{}, &fireoncev1.ListJobsResponse{},
		grpc.ForceCodecV2(otherCodec{}))
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("gRPC with another codec: %v", err)
	}
}

// otherCodec is protobuf by another name.
type otherCodec struct{}

func (otherCodec) Name() string { return "thrift" }

func (otherCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, err := proto.Marshal(v.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

func (otherCodec) Unmarshal(data mem.BufferSlice, v any) error {
	return proto.Unmarshal(data.Materialize(), v.(proto.Message))
}
