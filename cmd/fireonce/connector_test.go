package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	rpc "connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectorv1"
	"github.com/fireonce/fireonce/clients/go/connectorv1/connectorv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/loopback"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
)

// guests is a connector in a process other than the server's.
type guests struct {
	connectorv1connect.UnimplementedConnectorServiceHandler
	away atomic.Bool

	mu     sync.Mutex
	tokens map[string]bool // with which it was called
	keys   []string        // of the published entries
}

// start starts serving. While the connector is away, every call is cut off.
func (g *guests) start(t *testing.T) string {
	t.Helper()
	_, handler := connectorv1connect.NewConnectorServiceHandler(g)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.tokens[r.Header.Get("Authorization")] = true
		g.mu.Unlock()
		if g.away.Load() {
			loopback.Reset(w)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func (*guests) Describe(context.Context, *connectorv1.DescribeRequest) (*connectorv1.DescribeResponse, error) {
	return &connectorv1.DescribeResponse{
		PayloadKinds: []string{"social_post"}, EffectClasses: []fireoncev1.EffectClass{fireoncev1.EffectClass_EFFECT_CLASS_KEYED},
	}, nil
}

func (*guests) Check(_ context.Context, r *connectorv1.CheckRequest) (*connectorv1.CheckResponse, error) {
	if r.GetAccount().GetSettings().GetValues()["book"] == "" {
		return &connectorv1.CheckResponse{Result: &connectorv1.CheckResponse_Invalid{Invalid: &connectorv1.InvalidInput{
			Field: "settings.custom.values", Message: "say which book",
		}}}, nil
	}
	return &connectorv1.CheckResponse{Result: &connectorv1.CheckResponse_Checked{Checked: &connectorv1.Checked{Traits: &connectorv1.Traits{
		EffectClass: fireoncev1.EffectClass_EFFECT_CLASS_KEYED, KeyWindow: durationpb.New(3600e9),
	}}}}, nil
}

func (*guests) Prepare(context.Context, *connectorv1.PrepareRequest) (*connectorv1.PrepareResponse, error) {
	return &connectorv1.PrepareResponse{Result: &connectorv1.PrepareResponse_Prepared{Prepared: &connectorv1.Prepared{}}}, nil
}

func (g *guests) Publish(_ context.Context, r *connectorv1.PublishRequest) (*connectorv1.PublishResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keys = append(g.keys, r.GetEffectKey())
	return &connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_Published{Published: &connectorv1.Published{ExternalId: "e1"}}}, nil
}

// TestConnectorOfOnesOwn checks a remote connector: while it is away, connections are
// refused and jobs wait without spending attempts; afterwards they are sent.
func TestConnectorOfOnesOwn(t *testing.T) {
	long(t)
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	g := &guests{tokens: make(map[string]bool)}
	g.away.Store(true)
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("between-us\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	p, err := startProcess(binary, dir, os.Environ(), "--listen", "127.0.0.1:0", "--connectors", connectorsFile(t, `{"name": "guests", "url": "`+g.start(t)+`", "token_file": "`+token+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	api := dial(t, p.url)
	create := func(key, book string) (*connectionsv1.Connection, error) {
		resp, err := api.Connections.CreateConnection(waiting(t), &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: key, Connection: &connectionsv1.Connection{
				Connector: "guests", Settings: &connectionsv1.Connection_Custom{Custom: &connectionsv1.CustomSettings{Values: map[string]string{"book": book}}},
			},
		})
		return resp.GetConnection(), err
	}
	if _, err := create("a", "main"); rpc.CodeOf(err) != rpc.CodeUnavailable || !strings.Contains(err.Error(), "the connector guests") {
		t.Errorf("connected to a connector that is away: %v", err)
	}
	g.away.Store(false)
	if _, err := create("a", ""); rpc.CodeOf(err) != rpc.CodeInvalidArgument || !strings.Contains(err.Error(), "say which book") {
		t.Errorf("connected with bad settings: %v", err)
	}
	conn, err := create("a", "main")
	if err != nil || conn.GetEffectClass() != fireoncev1.EffectClass_EFFECT_CLASS_KEYED {
		t.Fatalf("%v, %v", conn, err)
	}

	g.away.Store(true)
	made, err := api.Jobs.ScheduleJob(waiting(t), &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: "k", Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: conn.GetConnectionId()},
		Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: "I was here"}}},
	})
	if err != nil {
		t.Fatalf("scheduled for a connector that is away: %v", err)
	}
	id := made.GetJob().GetJobId()
	awaits(t, api, id, func(c *fireoncev1.JobChanged) bool {
		return c.GetCause() == fireoncev1.EventCause_EVENT_CAUSE_NOT_STARTED && strings.Contains(c.GetDetail(), "waiting for the connector guests")
	})
	g.away.Store(false)
	if _, err := api.Jobs.RunJobNow(waiting(t), &fireoncev1.RunJobNowRequest{Job: &fireoncev1.RunJobNowRequest_JobId{JobId: id}}); err != nil {
		t.Fatal(err)
	}
	awaits(t, api, id, func(c *fireoncev1.JobChanged) bool { return c.GetNewState() == fireoncev1.JobState_JOB_STATE_SUCCEEDED })
	read, err := api.Jobs.GetJob(waiting(t), &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: id}})
	if j := read.GetJob(); err != nil || j.GetAttemptCount() != 1 || j.GetFailureCount() != 0 || j.GetEffect().GetExternalId() != "e1" {
		t.Errorf("%v, %v", j, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.keys) != 1 || g.keys[0] != read.GetJob().GetLastAttempt().GetEffectKey() {
		t.Errorf("published %q", g.keys)
	}
	if len(g.tokens) != 1 || !g.tokens["Bearer between-us"] {
		t.Errorf("called with the tokens %v", g.tokens)
	}
}

// connectorsFile writes a file for --connectors.
func connectorsFile(t *testing.T, entry string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "connectors.json")
	if err := os.WriteFile(file, []byte(`{"connectors": [`+entry+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// awaits reads a job's events until one matches.
func awaits(t *testing.T, api *client.API, id string, as func(*fireoncev1.JobChanged) bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(waiting(t))
	defer cancel()
	events, err := api.Jobs.StreamJobEvents(ctx, &fireoncev1.StreamJobEventsRequest{
		Start: &fireoncev1.StreamJobEventsRequest_FromBeginning{FromBeginning: true}, Filter: &fireoncev1.EventFilter{JobIds: []string{id}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = events.Close() }()
	var seen []string
	for events.Receive() {
		changed := events.Msg().GetEvent().GetJobChanged()
		if changed == nil {
			continue
		}
		seen = append(seen, changed.String())
		if as(changed) {
			return
		}
	}
	t.Fatalf("the stream ended with %v after\n%s", events.Err(), strings.Join(seen, "\n"))
}
