package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1grpc"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1/schedulesv1connect"
	"github.com/fireonce/fireonce/internal/proof/memdir"
	"github.com/fireonce/fireonce/internal/tracing"
)

// collector is an OTLP/HTTP receiver.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	raw   bytes.Buffer
	spans []*otlp.Span
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		req := &coltrace.ExportTraceServiceRequest{}
		if err == nil {
			err = proto.Unmarshal(body, req)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw.Write(body)
		for _, of := range req.GetResourceSpans() {
			for _, in := range of.GetScopeSpans() {
				c.spans = append(c.spans, in.GetSpans()...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

// children are the names of the spans below one, sorted.
func (c *collector) children(of *otlp.Span) (names []string) {
	for _, s := range c.spans {
		if bytes.Equal(s.GetParentSpanId(), of.GetSpanId()) && bytes.Equal(s.GetTraceId(), of.GetTraceId()) {
			names = append(names, s.GetName())
		}
	}
	slices.Sort(names)
	return names
}

// target is a receiver of webhooks that notes their headers.
type target struct {
	*httptest.Server
	got chan http.Header
}

func startTarget(t *testing.T) *target {
	t.Helper()
	r := &target{got: make(chan http.Header, 100)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { r.got <- req.Header }))
	t.Cleanup(r.Close)
	return r
}

const (
	apiKey  = "a-key-that-no-span-has-0123456789"
	payload = "a payload that no span has"
	secret  = "whsec_bm8tc3Bhbi1oYXMtdGhpcy1zZWNyZXQtMDEyMzQ1Njc4OQ=="
	// callers is the trace id that callers send.
	callers = "0af7651916cd43dd8448eb211c80319c"
	parent  = "b7ad6b7169203331"
)

// traced is a node that sends to a target.
type traced struct {
	*Node
	*target
	logs *bytes.Buffer
	conn string
	stop func()
}

func startTraced(t *testing.T, settings *connectionsv1.WebhookSettings) *traced {
	t.Helper()
	out := &traced{target: startTarget(t), logs: &bytes.Buffer{}}
	n, err := Start(t.Context(), Config{
		Listen: "127.0.0.1:0", GRPCListen: "127.0.0.1:0", Database: "sqlite:" + filepath.Join(memdir.New(t), "fireonce.db"),
		APIKey: apiKey, Version: "test", Dev: true,
		Log: slog.New(tracing.LogHandler(slog.NewTextHandler(out.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))),
	})
	if err != nil {
		t.Fatal(err)
	}
	out.Node, settings.Origins = n, []string{out.target.URL}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	out.stop = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(out.stop)
	client := connectionsv1connect.NewConnectionServiceClient(http.DefaultClient, n.URL())
	made, err := client.CreateConnection(calling(t.Context(), ""), &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: "orders", Connection: &connectionsv1.Connection{
			DisplayName: "orders", Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{Webhook: settings},
		},
		Credential: &connectionsv1.Credential{Kind: &connectionsv1.Credential_WebhookSecrets{WebhookSecrets: &connectionsv1.WebhookSecrets{Secrets: []string{secret}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	out.conn = made.GetConnection().GetConnectionId()
	return out
}

// calling is the context of a call with a key, and a trace.
func calling(ctx context.Context, traceparent string) context.Context {
	ctx, info := connect.NewClientContext(ctx)
	info.RequestHeader().Set("Authorization", "Bearer "+apiKey)
	if traceparent != "" {
		info.RequestHeader().Set("Traceparent", traceparent)
		info.RequestHeader().Set("Tracestate", "vendor=1")
	}
	return ctx
}

func (n *traced) request(key string) *fireoncev1.ScheduleJobRequest {
	return &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: key, Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: n.conn},
		Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
			Url: n.target.URL + "/?token=" + apiKey, Content: &fireoncev1.Webhook_BodyText{BodyText: payload},
		}}},
	}
}

// ways are the protocols by which a job can be submitted.
func (n *traced) ways(t *testing.T) map[string]func(key, traceparent string) error {
	t.Helper()
	conn, err := grpc.NewClient(n.grpcListener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	h2c := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	t.Cleanup(h2c.CloseIdleConnections)
	by := func(client connect.HTTPClient, options ...connect.ClientOption) func(key, traceparent string) error {
		return func(key, traceparent string) error {
			_, err := fireoncev1connect.NewJobServiceClient(client, n.URL(), options...).ScheduleJob(calling(t.Context(), traceparent), n.request(key))
			return err
		}
	}
	return map[string]func(key, traceparent string) error{
		"connect": by(http.DefaultClient), "json": by(http.DefaultClient, connect.WithProtoJSON()), "grpc": by(h2c, connect.WithGRPC()),
		"grpc-web": by(http.DefaultClient, connect.WithGRPCWeb()),
		"native": func(key, traceparent string) error {
			md := grpcmetadata.Pairs("authorization", "Bearer "+apiKey)
			if traceparent != "" {
				md.Append("traceparent", traceparent)
				md.Append("tracestate", "vendor=1")
			}
			_, err := fireoncev1grpc.NewJobServiceClient(conn).ScheduleJob(grpcmetadata.NewOutgoingContext(t.Context(), md), n.request(key))
			return err
		},
	}
}

// attempt is the one attempt of a job, once it has ended.
func (n *traced) attempt(t *testing.T, key string) *fireoncev1.Attempt {
	t.Helper()
	jobs := fireoncev1connect.NewJobServiceClient(http.DefaultClient, n.URL())
	servers := adminv1connect.NewServerServiceClient(http.DefaultClient, n.URL())
	ran, err := servers.RunDue(calling(t.Context(), ""), &adminv1.RunDueRequest{})
	if err != nil || !ran.GetDone() {
		t.Fatalf("%v, %v", ran, err)
	}
	got, err := jobs.GetJob(calling(t.Context(), ""), &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: key}})
	if err != nil {
		t.Fatal(err)
	}
	return n.attemptOf(t, got.GetJob().GetJobId())
}

// attemptOf is the one attempt of a job, by its id.
func (n *traced) attemptOf(t *testing.T, id string) *fireoncev1.Attempt {
	t.Helper()
	list, err := fireoncev1connect.NewJobServiceClient(http.DefaultClient, n.URL()).ListJobAttempts(calling(t.Context(), ""),
		&fireoncev1.ListJobAttemptsRequest{Job: &fireoncev1.ListJobAttemptsRequest_JobId{JobId: id}})
	if err != nil || len(list.GetAttempts()) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	return list.GetAttempts()[0]
}

// TestTraceReachesTheTarget: without an exporter, too, whichever way a job comes.
func TestTraceReachesTheTarget(t *testing.T) {
	n := startTraced(t, &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO})
	for name, submit := range n.ways(t) {
		t.Run(name, func(t *testing.T) {
			given := "00-" + callers + "-" + parent + "-01"
			if err := submit(name, given); err != nil {
				t.Fatal(err)
			}
			got, a := <-n.got, n.attempt(t, name)
			if want := "00-" + callers + "-" + a.GetSpanId() + "-01"; got.Get("Traceparent") != want || a.GetTraceId() != callers || a.GetSpanId() == parent {
				t.Errorf("the target got %q; the attempt has %s %s", got.Get("Traceparent"), a.GetTraceId(), a.GetSpanId())
			}
			if got.Get("Tracestate") != "vendor=1" {
				t.Errorf("tracestate %q", got.Get("Tracestate"))
			}
			// The same submit is the same job, and keeps the first one's.
			if err := submit(name, strings.Replace(given, "0af7", "ffff", 1)); err != nil {
				t.Error(err)
			}
			if a := n.attempt(t, name); a.GetTraceId() != callers {
				t.Errorf("after a repeat: %s", a.GetTraceId())
			}
			for i, bad := range []string{
				"", "x", "00-" + callers + "-" + parent, "ff-" + callers + "-" + parent + "-01", "00-" + strings.Repeat("0", 32) + "-" + parent + "-01",
				"00-" + strings.ToUpper(callers) + "-" + parent + "-01", "00-" + callers + "-" + parent + "-01-more",
			} {
				key := fmt.Sprintf("%s-bad-%d", name, i)
				if err := submit(key, bad); err != nil {
					t.Errorf("%q: %v", bad, err)
					continue
				}
				if got, a := <-n.got, n.attempt(t, key); got["Traceparent"] != nil || got["Tracestate"] != nil || a.GetTraceId()+a.GetSpanId() != "" {
					t.Errorf("%q: the target got %q; the attempt has %q", bad, got["Traceparent"], a.GetTraceId())
				}
			}
		})
	}
	n.stop()
	if logs := n.logs.String(); !strings.Contains(logs, "msg=call") || !strings.Contains(logs, "trace_id="+callers+" span_id="+parent) {
		t.Errorf("no line of the log has the trace:\n%s", logs)
	}
}

// TestTraceOfABatchAndATrigger: the jobs of every call have its trace.
func TestTraceOfABatchAndATrigger(t *testing.T) {
	n := startTraced(t, &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO})
	given := "00-" + callers + "-" + parent + "-01"
	jobs := fireoncev1connect.NewJobServiceClient(http.DefaultClient, n.URL())
	_, err := jobs.BatchScheduleJobs(calling(t.Context(), given), &fireoncev1.BatchScheduleJobsRequest{
		Requests: []*fireoncev1.ScheduleJobRequest{n.request("a"), n.request("b")},
	})
	if err != nil {
		t.Fatal(err)
	}
	schedules := schedulesv1connect.NewScheduleServiceClient(http.DefaultClient, n.URL())
	made, err := schedules.CreateSchedule(calling(t.Context(), ""), &schedulesv1.CreateScheduleRequest{
		IdempotencyKey: "s", Spec: &schedulesv1.ScheduleSpec{TimeZone: "Europe/Vienna", CronExpressions: []string{"0 0 1 1 *"}},
		JobTemplate: &schedulesv1.JobTemplate{
			Connection: &schedulesv1.JobTemplate_ConnectionId{ConnectionId: n.conn},
			Content:    &schedulesv1.JobTemplate_Payload{Payload: n.request("").GetPayload()},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	fired, err := schedules.TriggerSchedule(calling(t.Context(), given), &schedulesv1.TriggerScheduleRequest{
		Schedule: &schedulesv1.TriggerScheduleRequest_ScheduleId{ScheduleId: made.GetSchedule().GetScheduleId()}, TriggerKey: "now",
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got := (<-n.got).Get("Traceparent"); !strings.HasPrefix(got, "00-"+callers) {
			t.Errorf("the target got %q", got)
		}
	}
	for what, a := range map[string]*fireoncev1.Attempt{"a": n.attempt(t, "a"), "b": n.attempt(t, "b"), "trigger": n.attemptOf(t, fired.GetFiring().GetJobId())} {
		if a.GetTraceId() != callers {
			t.Errorf("%s: %q", what, a.GetTraceId())
		}
	}
}

// TestSpansOfAJob: with an exporter, the caller's trace goes on through the call and the work
// to the target, whichever way the job comes, and no span has a secret or a payload.
func TestSpansOfAJob(t *testing.T) {
	c := startCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.Server.URL)
	n := startTraced(t, &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO})
	spans := make(map[string]string) // of the request to the target, by way
	ways := n.ways(t)
	for name, submit := range ways {
		if err := submit(name, "00-"+callers+"-"+parent+"-01"); err != nil {
			t.Fatal(err)
		}
		got, a := <-n.got, n.attempt(t, name)
		if want := "00-" + callers + "-" + a.GetSpanId() + "-01"; got.Get("Traceparent") != want || a.GetTraceId() != callers {
			t.Errorf("%s: the target got %q; the attempt has %s %s", name, got.Get("Traceparent"), a.GetTraceId(), a.GetSpanId())
		}
		spans[a.GetSpanId()] = name
	}
	n.stop()

	calls, works := 0, 0
	for _, s := range c.spans {
		switch s.GetName() {
		case "fireonce.v1.JobService/ScheduleJob":
			if fmt.Sprintf("%x", s.GetTraceId()) != callers || fmt.Sprintf("%x", s.GetParentSpanId()) != parent {
				t.Errorf("a call is not in the caller's trace: %v", s)
			}
			if got := c.children(s); !slices.Equal(got, []string{"job.attempt"}) {
				t.Errorf("below a call: %v", got)
			}
			calls++
		case "job.attempt":
			if got := c.children(s); !slices.Equal(got, []string{"job.claim", "job.intent", "job.prepare", "job.send", "job.settle"}) {
				t.Errorf("below an attempt: %v", got)
			}
			works++
		case "job.send":
			delete(spans, fmt.Sprintf("%x", s.GetSpanId()))
		}
	}
	if calls != len(ways) || works != len(ways) || len(spans) > 0 {
		t.Errorf("%d calls and %d attempts of %d jobs; not exported: %v", calls, works, len(ways), spans)
	}
	for _, hidden := range []string{apiKey, payload, secret, secret[6:], n.target.URL} {
		if bytes.Contains(c.raw.Bytes(), []byte(hidden)) {
			t.Errorf("what was exported has %q", hidden)
		}
	}
}

// TestSpansOfAClaimThatArms: the claim of the second job of a KEYED target writes the intent,
// too, so there is neither a preparation nor an arm.
func TestSpansOfAClaimThatArms(t *testing.T) {
	c := startCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.Server.URL)
	n := startTraced(t, &connectionsv1.WebhookSettings{
		ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(24 * time.Hour),
	})
	var second *fireoncev1.Attempt
	for _, key := range []string{"first", "second"} {
		if err := n.ways(t)["connect"](key, ""); err != nil {
			t.Fatal(err)
		}
		got, a := <-n.got, n.attempt(t, key)
		if want := "00-" + a.GetTraceId() + "-" + a.GetSpanId() + "-"; !strings.HasPrefix(got.Get("Traceparent"), want) || a.GetTraceId() == "" {
			t.Errorf("%s: the target got %q; the attempt has %s %s", key, got.Get("Traceparent"), a.GetTraceId(), a.GetSpanId())
		}
		second = a
	}
	n.stop()
	for _, s := range c.spans {
		if s.GetName() == "job.attempt" && fmt.Sprintf("%x", s.GetTraceId()) == second.GetTraceId() {
			if got := c.children(s); !slices.Equal(got, []string{"job.claim", "job.send", "job.settle"}) {
				t.Errorf("below an attempt: %v", got)
			}
			return
		}
	}
	t.Errorf("the second attempt has no span")
}

// TestTracesAreRefused: what this program cannot serve is said at the start.
func TestTracesAreRefused(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	_, err := Start(t.Context(), Config{Listen: "127.0.0.1:0", Database: "sqlite:" + filepath.Join(t.TempDir(), "x.db"), Log: slog.New(slog.DiscardHandler), Dev: true})
	if err == nil || !strings.Contains(err.Error(), "http/protobuf") {
		t.Errorf("%v", err)
	}
}

// TestCollectorIsAway: whatever becomes of the spans, jobs are sent, and the server ends in
// order.
func TestCollectorIsAway(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", away.URL)
	n := startTraced(t, &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO})
	if err := n.ways(t)["connect"]("a", ""); err != nil {
		t.Fatal(err)
	}
	<-n.got
	if a := n.attempt(t, "a"); a.GetOutcome() != fireoncev1.AttemptOutcome_ATTEMPT_OUTCOME_SUCCEEDED {
		t.Errorf("%v", a)
	}
	n.stop()
	if logs := n.logs.String(); !strings.Contains(logs, "spans may be lost") {
		t.Errorf("nothing is said of it:\n%s", logs)
	}
}
