package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/memdir"
	"github.com/fireonce/fireonce/internal/proof/pgtest"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/follow"
)

// TestNoSecretGetsOut plants a secret in every kind of credential and in every key. Its
// targets fail in every way and repeat the requests in their answers. It then searches for
// the secrets everywhere a person or a program may read.
func TestNoSecretGetsOut(t *testing.T) {
	long(t)
	onEach(t, func(t *testing.T, d deployment) {
		t.Parallel()
		s := newSpill(t, d)
		s.connectAll()
		s.refuseAll()
		s.sendAll()
		s.readAll()
		s.commands()
		s.database()
		s.search()
	})
}

// planted has the planted secrets. Each has a unique beginning.
var planted = map[string]string{
	"bearer":   "canaryBearer.7Fq2XvLw9",
	"password": "canaryPassword?7Fq2XvLw9",
	"api key":  "canaryApiKey>7Fq2XvLw9",
	"header":   "canaryHeader 7Fq2XvLw9",
	"cookie":   "canaryCookie=7Fq2XvLw9",
	"access":   "canaryAccess~7Fq2XvLw9",
	"refresh":  "canaryRefresh~7Fq2XvLw9",
	"feed":     "canaryFeed/7Fq2XvLw9",
	"webhook":  "canaryWebhookSecret+7Fq2XvLw9xyz", // its bytes; clients send it in base64
	"operator": "canaryOperatorsKey-7Fq2XvLw9",
}

// inTheOpen is in payloads, which are not secret. The search must find it.
const inTheOpen = "canaryInTheOpen-7Fq2XvLw9"

// spill is one run.
type spill struct {
	t      *testing.T
	on     deployment
	dir    string
	url    string
	key    string // the operator's, for a while the server's
	server *process
	api    *client.API
	// dump returns the contents of the database.
	dump func() map[string]string

	targets []*echo
	conns   map[string]*connectionsv1.Connection
	jobs    []string

	mu     sync.Mutex
	places map[string]string // the outputs, by where they were made
}

func newSpill(t *testing.T, d deployment) *spill {
	s := &spill{t: t, on: d, dir: memdir.New(t), key: planted["operator"], conns: make(map[string]*connectionsv1.Connection), places: make(map[string]string)}
	keyFile := filepath.Join(s.dir, "sealing.key")
	if d == onPostgres {
		cluster := pgtest.Shared(t)
		database := cluster.NewDatabase(t)
		s.url = cluster.URL(database)
		s.dump = func() map[string]string { return map[string]string{"pg_dump": cluster.DumpText(t, database)} }
	} else {
		path := filepath.Join(s.dir, "test.db")
		s.url, s.dump = "sqlite:"+path, func() map[string]string { return s.files(path) }
	}
	s.serve("--key-file", keyFile)
	var err error
	if s.api, err = client.Dial(s.server.url, s.key); err != nil {
		t.Fatal(err)
	}
	// The sealing key is a secret of its own, and so is a client's key.
	text, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	_, key, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	s.plant("sealing", string(raw))
	return s
}

// plant adds a secret of this run to the planted ones.
func (s *spill) plant(name, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places["\x00"+name] = secret
}

func (s *spill) secrets() map[string]string {
	out := make(map[string]string)
	for name, secret := range planted {
		out[name] = secret
	}
	for name, secret := range s.places {
		if own, found := strings.CutPrefix(name, "\x00"); found {
			out[own] = secret
		}
	}
	return out
}

// said records an output and where it was made.
func (s *spill) said(where, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[where] += text + "\n"
}

func (s *spill) answered(where string, m proto.Message, err error) {
	if err != nil {
		s.said(where+" error", fmt.Sprintf("%v %+v %#v", err, err, err))
	}
	if m != nil {
		s.said(where, protojson.Format(m))
	}
}

func (s *spill) serve(args ...string) {
	s.t.Helper()
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		s.t.Fatal(err)
	}
	args = append(args, "--dev", "--database", s.url, "--listen", "127.0.0.1:0", "--grace", "1s", "--log-level", "debug")
	if s.server, err = startProcess(binary, s.dir, append(os.Environ(), "FIREONCE_API_KEY="+s.key), args...); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.server.Kill)
}

// echo answers in one way, and repeats the request in its answer.
type echo struct {
	name string
	*httptest.Server
	mu   sync.Mutex
	seen strings.Builder
}

func (s *spill) target(name string, answer func(w http.ResponseWriter, r *http.Request, said string)) *echo {
	e := &echo{name: name}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the end of a client is not noticed
		var head bytes.Buffer
		_ = r.Header.Write(&head)
		e.mu.Lock()
		e.seen.WriteString(head.String())
		e.mu.Unlock()
		said := head.String()
		if user, password, ok := r.BasicAuth(); ok {
			said += user + " " + password
		}
		answer(w, r, said)
	}))
	s.t.Cleanup(e.Close)
	s.targets = append(s.targets, e)
	return e
}

func (e *echo) sent() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen.String()
}

// startTargets starts one target for each way to answer: a hold applies to one host.
func (s *spill) startTargets() {
	for _, code := range []int{200, 204, 301, 400, 401, 403, 404, 409, 410, 413, 422, 429, 500, 502, 503} {
		s.target(fmt.Sprint(code), func(w http.ResponseWriter, r *http.Request, said string) {
			w.Header().Set("X-Request-Id", r.Header.Get("Authorization"))
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Location", "/?token="+url.QueryEscape(said))
			w.Header().Set("WWW-Authenticate", "Bearer error="+r.Header.Get("Authorization"))
			w.WriteHeader(code)
			if code != http.StatusNoContent {
				fmt.Fprintf(w, `{"error":"you sent","detail":%q,"id":%q}`, said, r.Header.Get("Authorization"))
			}
		})
	}
	hijacked := func(say func(said string) string) func(http.ResponseWriter, *http.Request, string) {
		return func(w http.ResponseWriter, _ *http.Request, said string) {
			conn, out, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = out.WriteString(say(said))
			_ = out.Flush()
			_ = conn.Close()
		}
	}
	s.target("reset", hijacked(func(string) string { return "" }))
	s.target("not HTTP", hijacked(func(said string) string { return said }))
	s.target("half an answer", hijacked(func(said string) string {
		return "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + said
	}))
	s.target("a bad header", hijacked(func(said string) string { return "HTTP/1.1 200 OK\r\nBad " + said + "\r\n\r\n" }))
	s.target("silence", func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() })
}

func noDedupe(origins ...string) *connectionsv1.Connection_Http {
	return &connectionsv1.Connection_Http{Http: &connectionsv1.HttpSettings{
		ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO, Origins: origins,
	}}
}

// connectAll makes a connection with each kind of credential.
func (s *spill) connectAll() {
	s.startTargets()
	headers := []*connectionsv1.SecretHeader{{Name: "X-Secret", Value: planted["header"]}, {Name: "Cookie", Value: planted["cookie"]}}
	var origins []string
	for _, e := range s.targets {
		origins = append(origins, e.URL)
	}
	whsec := "whsec_" + base64.StdEncoding.EncodeToString([]byte(planted["webhook"]))
	for name, c := range map[string]struct {
		connector string
		cred      *connectionsv1.Credential
	}{
		"bearer": {"http", &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: planted["bearer"]}}}},
		"basic": {"http", &connectionsv1.Credential{Kind: &connectionsv1.Credential_Basic{
			Basic: &connectionsv1.BasicAuth{Username: "user", Password: planted["password"]},
		}}},
		"api key": {"http", &connectionsv1.Credential{Kind: &connectionsv1.Credential_ApiKeyHeader{
			ApiKeyHeader: &connectionsv1.ApiKeyHeader{Name: "X-Api-Key", Value: planted["api key"]},
		}}},
		"headers": {"http", &connectionsv1.Credential{Headers: headers}},
		"webhook": {"webhook", &connectionsv1.Credential{Headers: headers, Kind: &connectionsv1.Credential_WebhookSecrets{
			WebhookSecrets: &connectionsv1.WebhookSecrets{Secrets: []string{whsec}},
		}}},
		"feed": {"feed", &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: planted["feed"]}}}},
	} {
		conn := &connectionsv1.Connection{Connector: c.connector, DisplayName: name}
		switch c.connector {
		case "http":
			conn.Settings = noDedupe(origins...)
		case "webhook":
			conn.Settings = &connectionsv1.Connection_Webhook{Webhook: &connectionsv1.WebhookSettings{
				ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(time.Hour), Origins: origins,
			}}
		}
		for i, e := range s.targets {
			if c.connector == "feed" {
				conn.Settings = &connectionsv1.Connection_Feed{Feed: &connectionsv1.FeedSettings{BaseUrl: e.URL}}
			} else if i > 0 {
				break
			}
			key := name
			if c.connector == "feed" {
				key += " of " + e.name
			}
			req := &connectionsv1.CreateConnectionRequest{IdempotencyKey: strings.ReplaceAll(key, " ", "-"), Connection: conn, Credential: c.cred}
			resp, err := s.api.Connections.CreateConnection(waiting(s.t), req)
			if err != nil {
				s.t.Fatalf("%s: %v", key, err)
			}
			s.answered("CreateConnection", resp, nil)
			s.conns[key] = resp.GetConnection()
		}
	}
}

// refuseAll sends credentials that are refused, in valid and invalid form.
func (s *spill) refuseAll() {
	oauth := &connectionsv1.Credential{Kind: &connectionsv1.Credential_Oauth2{Oauth2: &connectionsv1.OAuth2Token{
		AccessToken: planted["access"], RefreshToken: planted["refresh"], App: "app",
	}}}
	for i, c := range []*connectionsv1.Credential{
		oauth,
		{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: planted["bearer"] + "\n"}}},
		{Headers: []*connectionsv1.SecretHeader{{Name: "Host", Value: planted["header"]}}},
		{Kind: &connectionsv1.Credential_WebhookSecrets{WebhookSecrets: &connectionsv1.WebhookSecrets{Secrets: []string{planted["webhook"]}}}},
	} {
		resp, err := s.api.Connections.CreateConnection(waiting(s.t), &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: fmt.Sprint("refused-", i), Connection: &connectionsv1.Connection{Connector: "http", Settings: noDedupe()}, Credential: c,
		})
		if err == nil {
			s.t.Errorf("credential %d was taken: %v", i, resp)
		}
		s.answered("CreateConnection", nil, err)
	}
	for _, body := range []string{
		`{"credential":{"bearerToken":%s}}`, `{"credential":%s}`, `{"credential":{"token":%s}}`, `{"idempotencyKey":"x","credential":{"basic":%s}}`, `%s`,
		`{"credential":{"bearerToken":%s`, `{"credential":{"oauth2":{"expireTime":%s}}}`,
	} {
		for _, secret := range []string{`"` + planted["bearer"] + `"`, planted["bearer"]} {
			s.said("JSON that is refused", s.post("/fireonce.connections.v1.ConnectionService/CreateConnection", fmt.Sprintf(body, secret)))
		}
	}
	// An API key in an unexpected position, and a wrong one.
	for _, key := range []string{planted["operator"] + "x", "", "Basic:" + planted["operator"]} {
		api, err := client.Dial(s.server.url, key)
		if err != nil {
			s.t.Fatal(err)
		}
		_, err = api.Jobs.ListJobs(waiting(s.t), &fireoncev1.ListJobsRequest{})
		if err == nil {
			s.t.Error("a wrong API key was taken")
		}
		s.answered("a wrong API key", nil, err)
	}
}

// post sends a body unchanged, with the operator's key.
func (s *spill) post(path, body string) string {
	r, err := http.NewRequestWithContext(waiting(s.t), http.MethodPost, s.server.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+s.key)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode == http.StatusOK {
		s.t.Errorf("%s: %d %v", body, res.StatusCode, err)
	}
	return string(answer)
}

// sendAll sends a job from every connection to every target, and waits for all of them.
func (s *spill) sendAll() {
	want := make(map[string]bool) // jobs that come to rest
	for name, conn := range s.conns {
		for _, e := range s.targets {
			payload := &fireoncev1.Payload{Kind: &fireoncev1.Payload_HttpRequest{HttpRequest: &fireoncev1.HttpRequest{
				Method: fireoncev1.HttpMethod_HTTP_METHOD_POST, Url: e.URL + "/" + inTheOpen,
			}}}
			switch conn.GetConnector() {
			case "webhook":
				payload = hook("", "", e.URL+"/"+inTheOpen, time.Second).GetPayload()
			case "feed":
				if name != "feed of "+e.name {
					continue
				}
				payload = postPayload(inTheOpen)
			}
			resp, err := s.api.Jobs.ScheduleJob(waiting(s.t), &fireoncev1.ScheduleJobRequest{
				IdempotencyKey: strings.ReplaceAll(name+" to "+e.name, " ", "-"), Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: conn.GetConnectionId()}, Payload: payload,
				StartWindow:    durationpb.New(4 * time.Second),
				AttemptTimeout: durationpb.New(time.Second),
				RetryPolicy: &fireoncev1.RetryPolicy{
					MaxAttempts: 2,
					MinBackoff:  durationpb.New(100 * time.Millisecond), MaxBackoff: durationpb.New(time.Second),
					KeepTrying: durationpb.New(4 * time.Second),
				},
			})
			if err != nil {
				s.t.Fatalf("%s to %s: %v", name, e.name, err)
			}
			s.answered("ScheduleJob", resp, nil)
			s.jobs = append(s.jobs, resp.GetJob().GetJobId())
			want[resp.GetJob().GetJobId()] = true
		}
	}
	// Each job comes to rest, or its window ends: an unknown outcome is left to a person.
	states := make(map[string]fireoncev1.JobState)
	err := follow.Events(waiting(s.t), s.api.Jobs, follow.Options{Beginning: true, IncludeJob: true}, func(e *fireoncev1.JobEvent) error {
		s.answered("StreamJobEvents", e, nil)
		c := e.GetJobChanged()
		states[c.GetJobId()] = c.GetNewState()
		if atRest(c.GetNewState()) {
			delete(want, c.GetJobId())
		}
		if len(want) == 0 {
			return follow.ErrStop
		}
		return nil
	})
	if err != nil {
		for id := range want {
			s.t.Logf("job %s is %s", id, states[id])
		}
		s.t.Fatal(err)
	}
	ends := make(map[fireoncev1.JobState]int)
	for _, state := range states {
		ends[state]++
	}
	s.t.Logf("%d jobs: %v", len(s.jobs), ends)
	for _, end := range []fireoncev1.JobState{
		fireoncev1.JobState_JOB_STATE_SUCCEEDED, fireoncev1.JobState_JOB_STATE_FAILED, fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION,
	} {
		if ends[end] == 0 {
			s.t.Errorf("no job is %s", end)
		}
	}
}

// readAll reads everything that the API returns about jobs and connections.
func (s *spill) readAll() {
	ctx := waiting(s.t)
	for _, id := range s.jobs {
		job, err := s.api.Jobs.GetJob(ctx, &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: id}})
		if err != nil {
			s.t.Fatal(err)
		}
		s.answered("GetJob", job, nil)
		history, err := s.api.Jobs.ListJobAttempts(ctx, &fireoncev1.ListJobAttemptsRequest{Job: &fireoncev1.ListJobAttemptsRequest_JobId{JobId: id}})
		if err != nil {
			s.t.Fatal(err)
		}
		s.answered("ListJobAttempts", history, nil)
	}
	jobs, err := s.api.Jobs.ListJobs(ctx, &fireoncev1.ListJobsRequest{PageSize: 500})
	s.answered("ListJobs", jobs, err)
	conns, err := s.api.Connections.ListConnections(ctx, &connectionsv1.ListConnectionsRequest{PageSize: 500})
	s.answered("ListConnections", conns, err)
	if len(jobs.GetJobs()) != len(s.jobs) || len(conns.GetConnections()) != len(s.conns) {
		s.t.Errorf("%d jobs and %d connections", len(jobs.GetJobs()), len(conns.GetConnections()))
	}
	for _, c := range s.conns {
		conn, err := s.api.Connections.GetConnection(ctx, &connectionsv1.GetConnectionRequest{Connection: &connectionsv1.GetConnectionRequest_ConnectionId{ConnectionId: c.GetConnectionId()}})
		s.answered("GetConnection", conn, err)
		other := proto.Clone(c).(*connectionsv1.Connection)
		other.DisplayName = "another"
		again, err := s.api.Connections.CreateConnection(ctx, &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: "bearer", Connection: other,
			Credential: &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: planted["bearer"]}}},
		})
		s.answered("CreateConnection again", again, err)
	}
	stats, err := s.api.Stats.GetStats(ctx, &adminv1.GetStatsRequest{})
	s.answered("GetStats", stats, err)
}

// run runs a command and records its output.
func (s *spill) run(args ...string) string {
	s.t.Helper()
	var out bytes.Buffer
	p := exec.CommandContext(waiting(s.t), "fireonce", args...)
	p.Env = append(os.Environ(), "FIREONCE_API_KEY="+s.key, "FIREONCE_SERVER="+s.server.url)
	p.Stdout, p.Stderr, p.Dir = &out, &out, s.dir
	if err := p.Run(); err != nil {
		s.t.Errorf("fireonce %v: %v\n%s", args, err, out.String())
	}
	return out.String()
}

// commands runs the commands that print something and, after the server has ended, those
// that open the database.
func (s *spill) commands() {
	for _, args := range [][]string{
		{"list"}, {"list", "--json"}, {"connections", "list"}, {"connections", "list", "--json"}, {"stats"}, {"stats", "--json"},
		{"get", "--history", s.jobs[0]}, {"get", "--history", "--json", s.jobs[len(s.jobs)-1]},
	} {
		s.said("fireonce "+args[0], s.run(args...))
	}
	s.clientsKey("server's", "apikeys", "create", "--scopes", "all")
	for _, args := range [][]string{{"apikeys", "list"}, {"apikeys", "list", "--json"}, {"keys", "list"}, {"keys", "list", "--json"}, {"keys", "rotate"}} {
		s.said("fireonce "+args[0], s.run(args...))
	}
	for name, text := range s.dump() {
		s.said(name+" while it serves", text)
	}
	if err := s.server.stop(); err != nil {
		s.t.Error(err)
	}
	keys := []string{"--database", s.url, "--key-file", filepath.Join(s.dir, "sealing.key")}
	s.said("fireonce keys", s.run(append([]string{"keys", "list"}, keys...)...))
	s.said("fireonce keys", s.run("keys", "generate", "--key-file", filepath.Join(s.dir, "sealing.key")))
	s.said("fireonce keys", s.run(append([]string{"keys", "rotate"}, keys...)...))
	s.clientsKey("database's", "apikeys", "create", "--database", s.url, "--scopes", "all")
	s.said("fireonce apikeys", s.run("apikeys", "list", "--database", s.url))
	s.said("the server's log", s.server.logs()+s.server.line)
}

// clientsKey plants an API key, which the command that makes it prints, once.
func (s *spill) clientsKey(name string, args ...string) {
	made := s.run(args...)
	_, key, found := strings.Cut(made, "fo_")
	if !found {
		s.t.Errorf("no key in %q", made)
		return
	}
	s.plant(name, strings.TrimSpace(key)[17:])
	api, err := client.Dial(s.server.url, "fo_"+strings.TrimSpace(key))
	if err != nil {
		s.t.Fatal(err)
	}
	jobs, err := api.Jobs.ListJobs(waiting(s.t), &fireoncev1.ListJobsRequest{})
	s.answered("ListJobs with "+name+" key", jobs, err)
}

// postPayload returns a payload with a text for a feed.
func postPayload(text string) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: text}}}
}
