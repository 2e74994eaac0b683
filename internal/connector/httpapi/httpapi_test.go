package httpapi_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/httpapi"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

const effectKey = "0199c0de-0000-7000-8000-000000000001"

func encode(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func settingsOf(tb testing.TB, class job.Class, origins ...string) []byte {
	s := &connectionsv1.HttpSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO, Origins: origins, IdJsonPointers: []string{"/id"}}
	if class == job.Keyed {
		s.ReceiverDedupes = connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES
		s.KeyWindow = durationpb.New(24 * time.Hour)
	}
	return encode(tb, s)
}

func credentialOf(tb testing.TB, c *connectionsv1.Credential) connector.Credential {
	return connector.Credential{Version: 3, Data: encode(tb, c)}
}

func payloadOf(tb testing.TB, r *fireoncev1.HttpRequest) []byte {
	return encode(tb, &fireoncev1.Payload{Kind: &fireoncev1.Payload_HttpRequest{HttpRequest: r}})
}

func newConnector(_ testing.TB, s *transport.Sender) connector.Connector {
	return httpapi.New(httpapi.Config{Sender: s})
}

func suite(t *testing.T, class job.Class, secure bool, method fireoncev1.HttpMethod) connectortest.Suite {
	keyHeader := ""
	if class == job.Keyed {
		keyHeader = "Idempotency-Key"
	}
	requestTo := func(base string) *fireoncev1.HttpRequest {
		r := &fireoncev1.HttpRequest{
			Method: method, Url: base + "/charges/XXXXXXXXXXXXXXXXXXXX?token=query-secret", IdJsonPointer: "/id",
			Headers: []*fireoncev1.HttpHeader{{Name: "X-Custom", Value: "header-secret"}},
		}
		if method != fireoncev1.HttpMethod_HTTP_METHOD_GET && method != fireoncev1.HttpMethod_HTTP_METHOD_DELETE {
			r.Content = &fireoncev1.HttpRequest_BodyText{BodyText: `{"amount":100}`}
		}
		return r
	}
	return connectortest.Suite{
		Secure: secure,
		New:    newConnector,
		Request: func(base string) connector.Request {
			return connector.Request{
				EffectKey: effectKey, Settings: settingsOf(t, class, base), PayloadKind: httpapi.PayloadKind, Payload: payloadOf(t, requestTo(base)),
			}
		},
		Credential: credentialOf(t, &connectionsv1.Credential{
			Kind:    &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: "ada", Password: "basic-secret"}},
			Headers: []*connectionsv1.SecretHeader{{Name: "X-Account", Value: "account-secret"}},
		}),
		Class:    class,
		Secrets:  []string{"query-secret", "header-secret", "basic-secret", "YWRhOmJhc2ljLXNlY3JldA", "account-secret", "XXXXXXXXXXXX"},
		Statuses: "`http`, " + class.String(),

		StatusDecides: true,
		KeyHeader:     keyHeader,
	}
}

func TestConformance(t *testing.T) {
	for name, s := range map[string]connectortest.Suite{
		"KEYED":            suite(t, job.Keyed, false, fireoncev1.HttpMethod_HTTP_METHOD_POST),
		"KEYED/https":      suite(t, job.Keyed, true, fireoncev1.HttpMethod_HTTP_METHOD_PATCH),
		"KEYED/no body":    suite(t, job.Keyed, false, fireoncev1.HttpMethod_HTTP_METHOD_DELETE),
		"OPAQUE":           suite(t, job.Opaque, false, fireoncev1.HttpMethod_HTTP_METHOD_PUT),
		"OPAQUE/GET/https": suite(t, job.Opaque, true, fireoncev1.HttpMethod_HTTP_METHOD_GET),
	} {
		t.Run(name, func(t *testing.T) { connectortest.Run(t, s) })
	}
}
