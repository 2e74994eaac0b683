package webhook_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/connector/webhook"
	"github.com/fireonce/fireonce/internal/job"
)

// TestKeptAnswers: a connection keeps more of an answer than an excerpt has, and none of
// its secrets, also without secret headers.
func TestKeptAnswers(t *testing.T) {
	const secret = "header-by-secret"
	filler := strings.Repeat("z", 2*transport.MaxExcerpt)
	for name, cred := range map[string]connector.Credential{
		"signed":          credentialOf(t, []string{secretOf(1, 24)}),
		"a secret header": credentialOf(t, nil, &connectionsv1.SecretHeader{Name: "X-Key", Value: secret}),
	} {
		p := connectortest.NewPlatform(t, false, connectortest.Say(connectortest.Answer(200, filler+secret, "X-Trace: "+secret)))
		settings := encode(t, &connectionsv1.WebhookSettings{
			Origins: []string{p.URL()}, KeepAnswer: &connectionsv1.KeepAnswer{Headers: []string{"x-trace"}, MaxBodyBytes: kit.MaxKeptBody},
		})
		c := newConnector(t, p.Sender())
		prepared, err := c.Prepare(connector.Request{
			EffectKey: effectKey, Settings: settings, PayloadKind: webhook.Name, Payload: payloadOf(t, &fireoncev1.Webhook{Url: p.URL() + "/x"}),
		})
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Open(t.Context(), connector.Opening{Class: job.Opaque, Settings: settings, Credential: cred, Prepared: prepared, Fresh: true})
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(30 * time.Second)
		a := s.Publish(connector.Commit{Attempt: 1, EffectKey: effectKey, SendBy: at, AnswerBy: at}).Answer
		s.Close()
		shown := secret
		if name == "a secret header" {
			shown = "[redacted]"
		}
		if a == nil || a.Status != 200 || a.Body != filler+shown || a.Cut || len(a.Headers) != 1 || a.Headers[0].Value != shown {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
