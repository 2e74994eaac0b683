package webhook_test

import (
	"encoding/base64"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/connector/webhook"
	"github.com/fireonce/fireonce/internal/job"
)

const effectKey = "0199c0de-0000-7000-8000-000000000001"

// secretOf makes a signing secret of n bytes.
func secretOf(fill byte, n int) string {
	key := make([]byte, n)
	for i := range key {
		key[i] = fill + byte(i)
	}
	return "whsec_" + base64.StdEncoding.EncodeToString(key)
}

func encode(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func settingsOf(tb testing.TB, class job.Class, origins ...string) []byte {
	s := &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO, Origins: origins}
	if class == job.Keyed {
		s.ReceiverDedupes = connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES
		s.KeyWindow = durationpb.New(24 * time.Hour)
	}
	return encode(tb, s)
}

func credentialOf(tb testing.TB, secrets []string, headers ...*connectionsv1.SecretHeader) connector.Credential {
	c := &connectionsv1.Credential{Headers: headers}
	if len(secrets) > 0 {
		c.Kind = &connectionsv1.Credential_WebhookSecrets{WebhookSecrets: &connectionsv1.WebhookSecrets{Secrets: secrets}}
	}
	return connector.Credential{Version: 3, Data: encode(tb, c)}
}

func payloadOf(tb testing.TB, w *fireoncev1.Webhook) []byte {
	return encode(tb, &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: w}})
}

func newConnector(_ testing.TB, s *transport.Sender) connector.Connector {
	return webhook.New(webhook.Config{Sender: s})
}

func suite(t *testing.T, class job.Class, secure bool) connectortest.Suite {
	secret := secretOf(1, 32)
	return connectortest.Suite{
		Secure: secure,
		New:    newConnector,
		Request: func(base string) connector.Request {
			return connector.Request{
				EffectKey: effectKey, Settings: settingsOf(t, class, base), PayloadKind: webhook.Name,
				Payload: payloadOf(t, &fireoncev1.Webhook{
					Url:     base + "/hook/T00000000/XXXXXXXXXXXXXXXXXXXXXXXX?token=query-secret&x=%C3%A4%2Fsecret",
					Content: &fireoncev1.Webhook_BodyText{BodyText: `{"hello":"world"}`},
					Headers: []*fireoncev1.HttpHeader{{Name: "X-Custom", Value: "header-secret"}},
				}),
			}
		},
		Credential: credentialOf(t, []string{secret, secretOf(100, 24)},
			&connectionsv1.SecretHeader{Name: "Authorization", Value: "Bearer bearer-secret"},
			&connectionsv1.SecretHeader{Name: "X-Api-Key", Value: "api-key-secret"}),
		Class:    class,
		Secrets:  []string{secret, secret[6:], "query-secret", "header-secret", "bearer-secret", "api-key-secret", "XXXXXXXXXXXX", "/secret"},
		Statuses: "`webhook`, " + class.String(),

		StatusDecides: true,
		KeyHeader:     "Webhook-Id",
	}
}

func TestConformance(t *testing.T) {
	for name, secure := range map[string]bool{"http": false, "https": true} {
		for _, class := range []job.Class{job.Keyed, job.Opaque} {
			t.Run(name+"/"+class.String(), func(t *testing.T) {
				connectortest.Run(t, suite(t, class, secure))
			})
		}
	}
}
