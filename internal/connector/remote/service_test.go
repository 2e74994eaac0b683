package remote_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectorv1"
	"github.com/fireonce/fireonce/clients/go/connectorv1/connectorv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/remote"
	"github.com/fireonce/fireonce/internal/connector/remote/remotetest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

const (
	effectKey = "0199c0de-0000-7000-8000-000000000001"
	secret    = remotetest.Secret
	operators = remotetest.Token
)

var wireClass = map[job.Class]fireoncev1.EffectClass{
	job.Keyed: fireoncev1.EffectClass_EFFECT_CLASS_KEYED, job.Handle: fireoncev1.EffectClass_EFFECT_CLASS_HANDLE,
	job.Observable: fireoncev1.EffectClass_EFFECT_CLASS_OBSERVABLE, job.Opaque: fireoncev1.EffectClass_EFFECT_CLASS_OPAQUE,
}

// service is a connector outside of the program whose answers a test sets. Unset
// ones are those of a valid connector of the class.
type service struct {
	connectorv1connect.UnimplementedConnectorServiceHandler
	class job.Class

	mu       sync.Mutex
	calls    []string
	check    *connectorv1.CheckResponse
	describe *connectorv1.DescribeResponse
	prepare  func(*connectorv1.PrepareRequest) *connectorv1.PrepareResponse
	stage    func(*connectorv1.StageRequest) (*connectorv1.StageResponse, error)
	publish  func(*connectorv1.PublishRequest) (*connectorv1.PublishResponse, error)
	poll     func(*connectorv1.PollRequest) (*connectorv1.PollResponse, error)
	seen     *connectorv1.ObserveResponse
	test     *connectorv1.TestResponse
	header   http.Header
}

// set changes answers.
func (s *service) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// now reads one of the service's fields.
func now[T any](s *service, field *T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *field
}

func (s *service) called(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, name)
}

func (s *service) log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

func (s *service) Describe(context.Context, *connectorv1.DescribeRequest) (*connectorv1.DescribeResponse, error) {
	s.called("Describe")
	if own := now(s, &s.describe); own != nil {
		return own, nil
	}
	return &connectorv1.DescribeResponse{
		PayloadKinds: []string{"custom", "social_post"}, EffectClasses: []fireoncev1.EffectClass{wireClass[s.class]},
		CredentialKinds: []string{"bearer_token"}, Promise: "One entry.", Replies: true,
	}, nil
}

func (s *service) Check(context.Context, *connectorv1.CheckRequest) (*connectorv1.CheckResponse, error) {
	s.called("Check")
	if own := now(s, &s.check); own != nil {
		return own, nil
	}
	t := &connectorv1.Traits{EffectClass: wireClass[s.class]}
	switch s.class {
	case job.Keyed:
		t.KeyWindow = durationpb.New(24 * time.Hour)
	case job.Observable:
		t.ReadLag = durationpb.New(0)
	}
	return &connectorv1.CheckResponse{Result: &connectorv1.CheckResponse_Checked{Checked: &connectorv1.Checked{Traits: t, AccountIdentity: "ada"}}}, nil
}

func (s *service) Prepare(_ context.Context, r *connectorv1.PrepareRequest) (*connectorv1.PrepareResponse, error) {
	s.called("Prepare")
	if own := now(s, &s.prepare); own != nil {
		return own(r), nil
	}
	return &connectorv1.PrepareResponse{Result: &connectorv1.PrepareResponse_Prepared{Prepared: &connectorv1.Prepared{}}}, nil
}

func (s *service) Stage(_ context.Context, r *connectorv1.StageRequest) (*connectorv1.StageResponse, error) {
	s.called("Stage")
	return s.stage(r)
}

func (s *service) Publish(_ context.Context, r *connectorv1.PublishRequest) (*connectorv1.PublishResponse, error) {
	s.called("Publish")
	return s.publish(r)
}

func (s *service) Poll(_ context.Context, r *connectorv1.PollRequest) (*connectorv1.PollResponse, error) {
	return s.poll(r)
}

func (s *service) Observe(_ context.Context, r *connectorv1.ObserveRequest) (*connectorv1.ObserveResponse, error) {
	if r.GetWatermark() != "7" || r.GetEffectKey() != effectKey || r.GetContent().GetPayload() == nil {
		return nil, errors.New("asked for something else")
	}
	return now(s, &s.seen), nil
}

func (s *service) Test(context.Context, *connectorv1.TestRequest) (*connectorv1.TestResponse, error) {
	if own := now(s, &s.test); own != nil {
		return own, nil
	}
	return nil, connect.NewError(connect.CodeInternal, errors.New("it broke over "+secret))
}

// start serves it, and makes a connector of it that knows what it is.
func (s *service) start(t testing.TB) *remote.Connector {
	t.Helper()
	_, handler := connectorv1connect.NewConnectorServiceHandler(s)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.set(func() { s.header = r.Header.Clone() })
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c := dial(t, server.URL, loopback(t))
	if err := c.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func loopback(t testing.TB) *transport.Sender {
	s := transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8")), Version: "test"})
	t.Cleanup(s.Close)
	return s
}

func dial(t testing.TB, url string, s *transport.Sender) *remote.Connector {
	t.Helper()
	c, err := remote.New(remote.Config{Name: "acme", URL: url, Token: operators, Sender: s})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func encode(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	return remotetest.Encode(tb, m)
}

func settingsOf(tb testing.TB, base string) []byte {
	return encode(tb, &connectionsv1.CustomSettings{Values: map[string]string{"base_url": base}})
}

func credential(tb testing.TB) connector.Credential {
	return connector.Credential{Version: 3, Data: encode(tb, &connectionsv1.Credential{
		Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: secret}},
	})}
}

func payload(tb testing.TB, data string) []byte {
	return encode(tb, &fireoncev1.Payload{Kind: &fireoncev1.Payload_Custom{Custom: &fireoncev1.CustomPayload{
		Schema: "acme.entry/v1", Data: []byte(data),
	}}})
}

func requestOf(tb testing.TB, base string) connector.Request {
	return connector.Request{EffectKey: effectKey, Settings: settingsOf(tb, base), PayloadKind: "custom", Payload: payload(tb, "Grüße")}
}
