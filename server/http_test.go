package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1grpc"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// do sends one request as it is and returns the answer with its body.
func (f *fixture) do(method, path, body string, header map[string]string) (*http.Response, string) {
	f.tb.Helper()
	r, err := http.NewRequestWithContext(f.tb.Context(), method, "http://"+f.addr+path, strings.NewReader(body))
	f.must(err)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	if host := header["Host"]; host != "" {
		r.Host = host
	}
	h := &http.Client{Transport: &http.Transport{}}
	defer h.CloseIdleConnections()
	res, err := h.Do(r)
	f.must(err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	f.must(err)
	return res, string(data)
}

func TestKeyRequired(t *testing.T) {
	withKey := func(c *server.Config) { c.APIKey = "open-sesame-0123456789" }
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, withKey)
			c := dial(f)
			err := c.call(t.Context(), scheduleJob, f.request("k"), &fireoncev1.ScheduleJobResponse{})
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_INVALID)
			stream := c.stream(t.Context(), &fireoncev1.StreamJobEventsRequest{})
			defer stream.close()
			_, err = stream.next()
			if name != "curl" { // it has no frames before the error
				wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_INVALID)
			}
			if n, _ := f.stored(); n != 1 {
				t.Errorf("%d jobs and connections are stored, want 1", n)
			}
		})
	}
	f := start(t, withKey)
	for header, want := range map[string]int{
		"Bearer open-sesame-0123456789":  http.StatusOK,
		"bearer open-sesame-0123456789":  http.StatusOK,
		"Bearer open-sesame-012345678":   http.StatusUnauthorized,
		"Bearer open-sesame-01234567890": http.StatusUnauthorized,
		"Bearer ":                        http.StatusUnauthorized,
		"Basic open-sesame-0123456789":   http.StatusUnauthorized,
		"open-sesame-0123456789":         http.StatusUnauthorized,
	} {
		res, _ := f.do(http.MethodPost, jobsPath+"ListJobs", "{}", map[string]string{
			"Content-Type": "application/json", "Authorization": header, "Host": "api.example.org",
		})
		if res.StatusCode != want || want != http.StatusOK && res.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%q: status %d, want %d", header, res.StatusCode, want)
		}
	}
	conn := dialGRPC(f)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer open-sesame-0123456789")
	j, err := fireoncev1grpc.NewJobServiceClient(conn).ScheduleJob(ctx, f.request("k"))
	if err != nil {
		t.Fatal(err)
	}
	if events := f.history(j.GetJob().GetJobId()); events[0].Actor != "api:key" {
		t.Errorf("actor %q", events[0].Actor)
	}
	if strings.Contains(f.logs.String(), "sesame") {
		t.Errorf("the log has the key: %s", f.logs)
	}
}

func TestHostCheck(t *testing.T) {
	f := start(t, func(c *server.Config) { c.AllowedHosts = []string{"fireonce.internal"} })
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:8080": 200, "localhost.": 200, "127.0.0.1": 200, "127.0.0.1:1": 200, "127.9.9.9": 200,
		"[::1]": 200, "[::1]:80": 200, "fireonce.internal": 200, "Fireonce.Internal:8080": 200,
		"evil.example": 421, "evil.example:8080": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421,
		"127.0.0.1:80.evil.example": 421, "[::1": 421, "]127.0.0.1[": 421, "[127.0.0.1]": 421, "[::1]x": 421, "localhost:": 421, "localhost:x": 421,
		"10.0.0.1": 421, "[::2]": 421, "0.0.0.0": 421, "fireonce.internal.evil.example": 421,
	} {
		for _, path := range []string{"/", jobsPath + "ListJobs"} {
			method, body := http.MethodGet, ""
			if path != "/" {
				method, body = http.MethodPost, "{}"
			}
			res, text := f.do(method, path, body, map[string]string{"Content-Type": "application/json", "Host": host})
			if res.StatusCode != want || want == 421 && !strings.Contains(text, "API key") {
				t.Errorf("%s with Host %q: %d %s, want %d", path, host, res.StatusCode, text, want)
			}
		}
	}
}

func TestCORS(t *testing.T) {
	preflight := map[string]string{
		"Origin": "https://app.example.org", "Access-Control-Request-Method": "POST",
		"Access-Control-Request-Headers": "authorization,baggage,connect-protocol-version,content-type,traceparent,tracestate", // as OpenTelemetry adds
	}
	const allow = "Access-Control-Allow-Origin"
	off := start(t)
	if res, _ := off.do(http.MethodOptions, scheduleJob, "", preflight); res.Header.Get(allow) != "" || res.StatusCode < 400 {
		t.Errorf("CORS off: %d %v", res.StatusCode, res.Header)
	}
	on := start(t, func(c *server.Config) { c.AllowedOrigins, c.APIKey = []string{"https://app.example.org"}, "key" })
	res, _ := on.do(http.MethodOptions, scheduleJob, "", preflight)
	if res.Header.Get(allow) != "https://app.example.org" || res.StatusCode >= 300 {
		t.Errorf("CORS on: %d %v", res.StatusCode, res.Header)
	}
	preflight["Origin"] = "https://evil.example"
	if res, _ := on.do(http.MethodOptions, scheduleJob, "", preflight); res.Header.Get(allow) != "" {
		t.Errorf("another origin: %d %v", res.StatusCode, res.Header)
	}
	res, _ = on.do(http.MethodPost, jobsPath+"ListJobs", "{}", map[string]string{
		"Origin": "https://app.example.org", "Content-Type": "application/json", "Authorization": "Bearer key",
	})
	if res.StatusCode != http.StatusOK || !strings.Contains(res.Header.Get("Access-Control-Expose-Headers"), "Grpc-Status") {
		t.Errorf("the call itself: %d %v", res.StatusCode, res.Header)
	}
}

// TestTooLargeIsHeard: a client that writes its whole request before it reads
// gets the reason, and no reset.
func TestTooLargeIsHeard(t *testing.T) {
	f := start(t)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.addr)
	f.must(err)
	defer func() { _ = conn.Close() }()
	body := strings.Repeat(" ", 17<<20)
	_, err = fmt.Fprintf(conn, "POST %sBatchScheduleJobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", jobsPath, len(body), body)
	f.must(err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	f.must(err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	f.must(err)
	if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "BATCH_TOO_LARGE") {
		t.Errorf("%s: %s", res.Status, text)
	}
}

// TestBodiesThatDoNotCome: a client that sends the head of a request and then nothing loses its
// connection, with a key or without one and on every path.
func TestBodiesThatDoNotCome(t *testing.T) {
	t.Parallel()
	hasty := func(c *server.Config) { c.Limits.MaxDeadline = 50 * time.Millisecond }
	keyed := start(t, hasty, func(c *server.Config) { c.APIKey = "key" })
	keyless := start(t, hasty)
	conns := map[string]net.Conn{}
	begin := func(name string, f *fixture, path, kind, extra string) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.addr)
		f.must(err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: api.example.org\r\nContent-Type: %s\r\n%sContent-Length: 100\r\n\r\n{", path, kind, extra)
		f.must(err)
		f.must(conn.SetReadDeadline(time.Now().Add(20 * time.Second)))
		conns[name] = conn
	}
	const unary, stream, text = "application/json", "application/connect+json", "text/plain"
	begin("a call with a key", keyed, jobsPath+"ListJobs", unary, "Authorization: Bearer key\r\n")
	begin("a call without", keyed, jobsPath+"ListJobs", unary, "")
	begin("a stream without", keyed, jobsPath+"StreamJobEvents", stream, "")
	begin("status", keyed, "/status", text, "")
	begin("health", keyed, "/grpc.health.v1.Health/Check", unary, "")
	begin("reflection", keyed, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", stream, "")
	begin("the callback", keyed, "/oauth/callback/app", text, "")
	begin("nothing there", keyed, "/nothing", text, "")
	begin("another host", keyless, "/", text, "")
	for name, conn := range conns {
		if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection is kept", name)
		}
	}
}

// TestTooLarge: a request whose size is too large is refused with a reason, in every protocol,
// also when compression hides the size.
func TestTooLarge(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		err := c.call(t.Context(), scheduleJob, f.request("k", func(r *scheduleRequest) {
			r.Payload = custom("good/v1", strings.Repeat("x", 1<<20))
		}), &fireoncev1.ScheduleJobResponse{})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_TOO_LARGE)
	})
	overEach(t, func(t *testing.T, f *fixture, c client) {
		big := &fireoncev1.BatchScheduleJobsRequest{}
		for range 8 {
			big.Requests = append(big.Requests, f.request("k", func(r *scheduleRequest) {
				r.Payload = custom("good/v1", strings.Repeat("x", 256<<10))
			}))
		}
		read, err := ask[fireoncev1.BatchScheduleJobsResponse](t, c, jobsPath+"BatchScheduleJobs", big)
		if len(read.GetResults()) != 8 {
			t.Errorf("2 MiB in a batch: %v, %v; want it read", read, err)
		}
		for range 64 {
			big.Requests = append(big.Requests, big.GetRequests()[0])
		}
		err = c.call(t.Context(), jobsPath+"BatchScheduleJobs", big, &fireoncev1.BatchScheduleJobsResponse{})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_BATCH_TOO_LARGE)
	})
	f := start(t)
	zipped := generated(f, connect.WithSendGzip())
	err := zipped.call(t.Context(), scheduleJob, f.request("k", func(r *scheduleRequest) {
		r.Payload = custom("good/v1", strings.Repeat("x", 8<<20))
	}), &fireoncev1.ScheduleJobResponse{})
	if e := new(wireError); !errors.As(err, &e) || e.code != connect.CodeResourceExhausted {
		t.Errorf("8 MiB, compressed: %v", err)
	}
	if n, _ := f.stored(); n != 1 {
		t.Errorf("%d jobs and connections are stored, want 1", n)
	}
}

// TestOtherSites: without a key no page of another site gets an answer by a GET, which
// needs no preflight.
func TestOtherSites(t *testing.T) {
	const list = jobsPath + "ListJobs?connect=v1&encoding=json&message=%7B%7D"
	for name, tt := range map[string]struct {
		edit   func(*server.Config)
		path   string
		header map[string]string
		want   int
	}{
		"an image":                  {nil, list, map[string]string{"Sec-Fetch-Site": "cross-site"}, http.StatusForbidden},
		"an image of the same site": {nil, list, map[string]string{"Sec-Fetch-Site": "same-site"}, http.StatusForbidden},
		"the status":                {nil, "/status", map[string]string{"Sec-Fetch-Site": "cross-site"}, http.StatusForbidden},
		"our own page":              {nil, list, map[string]string{"Sec-Fetch-Site": "same-origin"}, http.StatusOK},
		"an old browser":            {nil, list, map[string]string{"Origin": "https://evil.example"}, http.StatusForbidden},
		"an old browser's frame":    {nil, list, map[string]string{"Origin": "null"}, http.StatusForbidden},
		"no browser":                {nil, list, nil, http.StatusOK},
		"a page that is listed": {
			func(c *server.Config) { c.AllowedOrigins = []string{"https://app.example.org"} }, list,
			map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://app.example.org"}, http.StatusOK,
		},
		"another page": {
			func(c *server.Config) { c.AllowedOrigins = []string{"https://app.example.org"} }, list,
			map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, http.StatusForbidden,
		},
	} {
		t.Run(name, func(t *testing.T) {
			edit := []func(*server.Config){}
			if tt.edit != nil {
				edit = append(edit, tt.edit)
			}
			res, text := start(t, edit...).do(http.MethodGet, tt.path, "", tt.header)
			if res.StatusCode != tt.want {
				t.Errorf("%d %s, want %d", res.StatusCode, text, tt.want)
			}
		})
	}
	res, _ := start(t).do(http.MethodGet, connsPath+"TestConnection?connect=v1&encoding=json&message=%7B%7D", "", nil)
	if res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("TestConnection by GET: %d", res.StatusCode)
	}
}

// TestAnswersAreData: browsers and caches keep no answer of the API, refused or not.
func TestAnswersAreData(t *testing.T) {
	f := start(t, func(c *server.Config) { c.APIKey = "open-sesame-0123456789" })
	for key, want := range map[string]int{"open-sesame-0123456789": http.StatusOK, "another": http.StatusUnauthorized} {
		res, _ := f.do(http.MethodGet, jobsPath+"ListJobs?connect=v1&encoding=json&message=%7B%7D", "", map[string]string{"Authorization": "Bearer " + key})
		if res.StatusCode != want || res.Header.Get("X-Content-Type-Options") != "nosniff" ||
			res.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%d %v", res.StatusCode, res.Header)
		}
	}
}

// TestFloodOfHeaders is refused with or without a key.
func TestFloodOfHeaders(t *testing.T) {
	header := map[string]string{}
	for i := range 200 {
		header[fmt.Sprintf("X-%d", i)] = "x"
	}
	if res, text := start(t).do(http.MethodGet, "/", "", header); res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d %s", res.StatusCode, text)
	}
}

func TestMalformedBodies(t *testing.T) {
	f := start(t)
	for name, tt := range map[string]struct{ contentType, body string }{
		"empty":             {"application/json", ""},
		"no JSON":           {"application/json", "{"},
		"another type":      {"application/json", `{"idempotencyKey": 7}`},
		"not UTF-8":         {"application/json", "{\"idempotencyKey\":\"\xff\"}"},
		"no protobuf":       {"application/proto", "\xff\xff\xff"},
		"half a gRPC frame": {"application/grpc", "\x00\x00"},
		"a form":            {"application/x-www-form-urlencoded", "idempotency_key=k"},
		"plain text":        {"text/plain", `{"idempotencyKey":"k"}`},
	} {
		res, text := f.do(http.MethodPost, scheduleJob, tt.body, map[string]string{"Content-Type": tt.contentType})
		grpcFailed := res.Header.Get("Grpc-Status") != "" || res.Trailer.Get("Grpc-Status") != ""
		if res.StatusCode == http.StatusOK && !grpcFailed {
			t.Errorf("%s: %d %s", name, res.StatusCode, text)
		}
	}
	if n, _ := f.stored(); n != 1 {
		t.Errorf("%d jobs and connections are stored, want 1", n)
	}
}

func TestLandingAndRequestID(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Version = "version-of-this-test" })
	res, text := f.do(http.MethodGet, "/", "", map[string]string{"X-Request-Id": "mine-1"})
	if res.StatusCode != http.StatusOK || !strings.Contains(text, "Fireonce\n") || strings.Contains(text, "version-of-this-test") || !strings.Contains(text, "fireonce.v1.JobService") ||
		res.Header.Get("X-Request-Id") != "mine-1" {
		t.Errorf("%d %v %s", res.StatusCode, res.Header, text)
	}
	if res, _ := f.do(http.MethodGet, "/nothing", "", map[string]string{"X-Request-Id": strings.Repeat("x", 65)}); res.StatusCode != http.StatusNotFound ||
		len(res.Header.Get("X-Request-Id")) != 36 {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	// Reading calls go by GET too, which proxies and browsers may cache.
	res, text = f.do(http.MethodGet, jobsPath+"ListJobs?connect=v1&encoding=json&message=%7B%7D", "", nil)
	if res.StatusCode != http.StatusOK || !strings.Contains(text, "eventsCursor") {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	if res, _ = f.do(http.MethodGet, scheduleJob+"?connect=v1&encoding=json&message=%7B%7D", "", nil); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a mutation by GET: %d", res.StatusCode)
	}
}

func TestHealth(t *testing.T) {
	f := start(t, func(c *server.Config) { c.APIKey = "key" }) // probes have none
	health := grpc_health_v1.NewHealthClient(dialGRPC(f))
	check := func(service string, want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		res, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil || res.GetStatus() != want {
			t.Errorf("%q: %v, %v; want %s", service, res, err, want)
		}
	}
	for _, service := range []string{"", "fireonce.v1.JobService", "fireonce.connections.v1.ConnectionService", "fireonce.admin.v1.AccessService"} {
		check(service, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	if _, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "none"}); err == nil {
		t.Error("a service that does not exist is healthy")
	}
	f.must(f.server.Shutdown(t.Context()))
	check("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
}

func TestReflection(t *testing.T) {
	f := start(t)
	conn := dialGRPC(f)
	v1, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	f.must(err)
	f.must(v1.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	}))
	res, err := v1.Recv()
	f.must(err)
	list, services := res.GetListServicesResponse().String(), make(map[string]bool)
	for m := range server.Methods() {
		services[string(m.Parent().FullName())] = true
	}
	for name := range services {
		if !strings.Contains(list, `"`+name+`"`) {
			t.Errorf("v1 lists %s, not %s", list, name)
		}
	}
	if len(services) < 4 {
		t.Errorf("the contract has the services %v", services)
	}
	f.must(v1.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "fireonce.v1.Job"},
	}))
	if res, err = v1.Recv(); err != nil || len(res.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("v1 describes fireonce.v1.Job as %v, %v", res, err)
	}
	old, err := grpc_reflection_v1alpha.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	f.must(err)
	//nolint:staticcheck // clients that know the old version only are served on purpose
	f.must(old.Send(&grpc_reflection_v1alpha.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1alpha.ServerReflectionRequest_ListServices{},
	}))
	//nolint:staticcheck // as above
	if res, err := old.Recv(); err != nil || len(res.GetListServicesResponse().GetService()) == 0 {
		t.Errorf("v1alpha lists %v, %v", res, err)
	}
}

// timed is a store that records how long its callers would wait.
type timed struct {
	server.Store
	left chan time.Duration
}

func (s timed) Job(ctx context.Context, ref store.Ref) (job.Snapshot, error) {
	end, ok := ctx.Deadline()
	if !ok {
		end = time.Time{}
	}
	s.left <- time.Until(end)
	return s.Store.Job(ctx, ref)
}

func TestDeadlinesAreClamped(t *testing.T) {
	left := make(chan time.Duration, 1)
	f := start(t, func(c *server.Config) { c.Store = timed{c.Store, left} })
	for name, tt := range map[string]struct {
		asked    string // Connect-Timeout-Ms
		min, max time.Duration
	}{
		"none":    {"", 20 * time.Second, 30 * time.Second},
		"shorter": {"5000", time.Second, 5 * time.Second},
		"longer":  {"3600000", 50 * time.Second, 60 * time.Second},
	} {
		header := map[string]string{"Content-Type": "application/json"}
		if tt.asked != "" {
			header["Connect-Timeout-Ms"] = tt.asked
		}
		f.do(http.MethodPost, jobsPath+"GetJob", `{"idempotencyKey":"k"}`, header)
		if got := <-left; got < tt.min || got > tt.max {
			t.Errorf("%s: %s left, want %s to %s", name, got, tt.min, tt.max)
		}
	}
}

// TestOutcomesAreLogged: one line per call, without what was sent.
func TestOutcomesAreLogged(t *testing.T) {
	f := start(t)
	f.schedule(f.request("k", func(r *scheduleRequest) { r.Payload = custom("good/v1", "private-words") }))
	log := f.logs.String()
	if !strings.Contains(log, `"procedure":"/fireonce.v1.JobService/ScheduleJob","code":"ok"`) || strings.Contains(log, "private-words") {
		t.Errorf("log: %s", log)
	}
}

// TestCredentialsStaySealed: neither answers nor the store show a credential.
func TestCredentialsStaySealed(t *testing.T) {
	f := start(t)
	secret := "whsec_" + strings.Repeat("QUJD", 12)
	req := &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: "c", Connection: &connectionsv1.Connection{Connector: "webhook", Settings: webhookSettings()},
		Credential: &connectionsv1.Credential{Kind: &connectionsv1.Credential_WebhookSecrets{
			WebhookSecrets: &connectionsv1.WebhookSecrets{Secrets: []string{secret}},
		}},
	}
	var first, again connectionsv1.CreateConnectionResponse
	c := overConnect(f)
	f.must(c.call(t.Context(), connsPath+"CreateConnection", req, &first))
	req.Credential = nil // the credential is not compared
	f.must(c.call(t.Context(), connsPath+"CreateConnection", req, &again))
	if again.GetCreated() || !proto.Equal(first.GetConnection(), again.GetConnection()) {
		t.Errorf("the repeat: %v, want %v", &again, &first)
	}
	sealed, err := f.store.Credential(t.Context(), f.id(first.GetConnection().GetConnectionId()))
	f.must(err)
	if bytes.Contains(sealed.Data, []byte(secret)) || len(sealed.Data) < len(secret) || strings.Contains(first.String()+f.logs.String(), secret) {
		t.Error("the secret shows")
	}
}
