// Package remotetest runs the conformance suite of all connectors over a connector
// that is a service: its own checks and preparations, and every way in which the
// answers to its attempts and looks can break. It is for tests.
package remotetest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectorv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/remote"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

const (
	// effectKey names the suite's one effect.
	effectKey = "0199c0de-0000-7000-8000-000000000001"
	// Secret is the connection's bearer token.
	Secret = "bearer-secret-token"
	// Token is the operator's, which goes with each call to the service.
	Token = "operators-secret-token"
)

// Service is a connector that runs.
type Service struct {
	// Dial makes the connector for it, which knows what it is.
	Dial  func(tb testing.TB) *remote.Connector
	Class job.Class
	// Payload is one that it sends.
	Payload *fireoncev1.Payload
}

// Run runs the suite, with TLS if secure.
func Run(t *testing.T, s Service, secure bool) {
	t.Helper()
	connectortest.Run(t, s.suite(t, secure))
}

func (s Service) suite(t *testing.T, secure bool) connectortest.Suite {
	table := make(map[int]connectortest.Want)
	for code := 200; code < 1000; code++ { // an RPC error is no evidence
		table[code] = connectortest.Want{Result: job.ResultUnknown, Kind: job.FailAmbiguous}
	}
	kind := s.Payload.ProtoReflect().WhichOneof(s.Payload.ProtoReflect().Descriptor().Oneofs().ByName("kind"))
	return connectortest.Suite{
		Secure: secure, Class: s.Class, Secrets: []string{Secret, Token}, Table: table,
		Credential: connector.Credential{Version: 3, Data: Encode(t, &connectionsv1.Credential{
			Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: Secret}},
		})},
		New: func(tb testing.TB, sender *transport.Sender) connector.Connector {
			return split{Connector: s.Dial(tb), tb: tb, sender: sender}
		},
		Request: func(base string) connector.Request {
			return connector.Request{
				EffectKey: effectKey, PayloadKind: string(kind.Name()), Payload: Encode(t, s.Payload),
				Settings: Encode(t, &connectionsv1.CustomSettings{Values: map[string]string{"base_url": base}}),
			}
		},
		Success:  answer(t, Published("e1")),
		Replayed: func(r connectortest.Received) (key, alike string) { return replayed(t, r) },
		Reads: func(r connectortest.Received) bool {
			return strings.HasPrefix(r.Line, "POST /fireonce.connector.v1.ConnectorService/Watermark ") ||
				strings.HasPrefix(r.Line, "POST /fireonce.connector.v1.ConnectorService/Observe ")
		},
		Looks: looks(t),
	}
}

// replayed is what all attempts of one effect have in common, and their key.
func replayed(t *testing.T, r connectortest.Received) (key, alike string) {
	var p connectorv1.PublishRequest
	if err := proto.Unmarshal(r.Body, &p); err != nil {
		t.Error(err)
	}
	key = p.GetEffectKey()
	p.Attempt, p.SendWithin, p.AnswerWithin = 0, nil, nil
	return key, fmt.Sprint(r.Line, r.Get("Content-Type"), string(Encode(t, &p)))
}

func looks(t *testing.T) *connectortest.Looks {
	always := func(raw string) func(time.Time) string { return func(time.Time) string { return raw } }
	all := string(Encode(t, Seen(true)))
	return &connectortest.Looks{
		Transient: true, ExternalID: "e1",
		Empty: always(answer(t, Seen(true))), // which is a watermark, too: one without a text
		Found: func(_ time.Time, n int) string { return answer(t, Seen(true, []string{"e1", "e2"}[:n]...)) },
		Broken: map[string]func(time.Time) string{
			"nothing":              always(answer(t, &connectorv1.ObserveResponse{})),
			"not everything":       always(answer(t, Seen(false))),
			"one, not everything":  always(answer(t, Seen(false, "e1"))),
			"one without a name":   always(answer(t, Seen(true, ""))),
			"a name twice":         always(answer(t, Seen(true, "e1", "e1"))),
			"a name of two lines":  always(answer(t, Seen(true, "e\n1"))),
			"a name without end":   always(answer(t, Seen(true, strings.Repeat("e", 513)))),
			"JSON":                 always(connectortest.Answer(200, `{"seen":{"complete":true}}`, "Content-Type: application/json")),
			"no type":              always(connectortest.Answer(200, all)),
			"compressed":           always(connectortest.Answer(200, all, "Content-Type: application/proto", "Content-Encoding: gzip")),
			"cut between messages": always(connectortest.Answer(200, "", "Content-Type: application/proto")),
			"it says that it cannot": always(answer(t, &connectorv1.ObserveResponse{
				Result: &connectorv1.ObserveResponse_Unread{Unread: &connectorv1.Unread{Message: "locked out with " + Secret}},
			})),
		},
	}
}

// split asks the service, and sends what an attempt and a look send to the suite's
// scripted platform, which is at the settings' base_url.
type split struct {
	*remote.Connector
	tb     testing.TB
	sender *transport.Sender
}

func (s split) there(o connector.Opening) *remote.Connector {
	var settings connectionsv1.CustomSettings
	if err := proto.Unmarshal(o.Settings, &settings); err != nil {
		s.tb.Fatal(err)
	}
	c, err := remote.New(remote.Config{Name: s.Describe().Name, URL: settings.GetValues()["base_url"], Token: Token, Sender: s.sender})
	if err != nil {
		s.tb.Fatal(err)
	}
	return c
}

// Open implements connector.Connector.
func (s split) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	return s.there(o).Open(ctx, o)
}

// Watermark implements connector.Observer.
func (s split) Watermark(ctx context.Context, o connector.Opening) (string, error) {
	return s.there(o).Watermark(ctx, o)
}

// Observe implements connector.Observer.
func (s split) Observe(ctx context.Context, o connector.Opening, l connector.Look) job.Observation {
	return s.there(o).Observe(ctx, o, l)
}

// answer is a raw answer of the protocol.
func answer(tb testing.TB, m proto.Message) string {
	return connectortest.Answer(http.StatusOK, string(Encode(tb, m)), "Content-Type: application/proto")
}

// Published is a success.
func Published(id string) *connectorv1.PublishResponse {
	return &connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_Published{Published: &connectorv1.Published{ExternalId: id}}}
}

// Seen is a look that found these objects, each with certainty.
func Seen(complete bool, ids ...string) *connectorv1.ObserveResponse {
	s := &connectorv1.Seen{Complete: complete}
	for _, id := range ids {
		s.Candidates = append(s.Candidates, &connectorv1.Candidate{ExternalId: id, Sure: true})
	}
	return &connectorv1.ObserveResponse{Result: &connectorv1.ObserveResponse_Seen{Seen: s}}
}

// Encode encodes a message, always alike.
func Encode(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
