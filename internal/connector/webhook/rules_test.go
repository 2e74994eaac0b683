package webhook_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/connector/webhook"
	"github.com/fireonce/fireonce/internal/job"
)

// send makes one attempt and returns the request as it arrived.
func send(t *testing.T, class job.Class, cred connector.Credential, w *fireoncev1.Webhook, script connectortest.Script) (job.Outcome, connectortest.Received) {
	t.Helper()
	p := connectortest.NewPlatform(t, false, script)
	if w.Url == "" {
		w.Url = p.URL() + "/hook"
	}
	c := newConnector(t, p.Sender())
	settings := encode(t, &connectionsv1.WebhookSettings{Origins: []string{p.URL()}})
	prepared, err := c.Prepare(connector.Request{EffectKey: effectKey, Settings: settings, PayloadKind: webhook.Name, Payload: payloadOf(t, w)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Open(t.Context(), connector.Opening{Class: class, Settings: settings, Credential: cred, Prepared: prepared, Fresh: class != job.Keyed})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(30 * time.Second)
	o := s.Publish(connector.Commit{Attempt: 1, EffectKey: effectKey, SendBy: at, AnswerBy: at})
	s.Close()
	if o.CredentialVersion != cred.Version {
		t.Errorf("credential version %d, want %d", o.CredentialVersion, cred.Version)
	}
	if got := p.Requests(); len(got) == 1 {
		return o, got[0]
	}
	t.Fatalf("%d requests", len(p.Requests()))
	return o, connectortest.Received{}
}

// TestSignature has the reference library check what arrives, with the new and
// with the old secret.
func TestSignature(t *testing.T) {
	secrets := []string{secretOf(1, 24), secretOf(50, 64), secretOf(99, 32)}
	for name, body := range map[string][]byte{
		"json": []byte(`{"a":"ä"}`), "empty": nil, "binary": {0, 0xff, '\r', '\n', 0}, "large": bytes.Repeat([]byte("x"), webhook.MaxBody),
	} {
		t.Run(name, func(t *testing.T) {
			_, got := send(t, job.Opaque, credentialOf(t, secrets), &fireoncev1.Webhook{Content: &fireoncev1.Webhook_Body{Body: body}}, connectortest.OK)
			if !bytes.Equal(got.Body, body) || got.Get("Content-Type") != "application/json" || got.Get("webhook-id") != effectKey {
				t.Errorf("%s: %+v", name, got.Header)
			}
			headers := http.Header{}
			for k, v := range got.Header {
				headers[http.CanonicalHeaderKey(k)] = v
			}
			for i, secret := range secrets {
				wh, err := standardwebhooks.NewWebhook(secret)
				if err != nil {
					t.Fatal(err)
				}
				if err := wh.Verify(got.Body, headers); err != nil {
					t.Errorf("secret %d: %v", i, err)
				}
				own, err := wh.Sign(effectKey, time.Unix(atoi(t, got.Get("webhook-timestamp")), 0), got.Body)
				if err != nil || strings.Fields(got.Get("webhook-signature"))[i] != own {
					t.Errorf("signature %d is not in its place: %v", i, err)
				}
			}
			other, err := standardwebhooks.NewWebhook(secretOf(7, 32))
			if err != nil || other.Verify(got.Body, headers) == nil {
				t.Errorf("a stranger's secret fits: %v", err)
			}
		})
	}
}

func atoi(t *testing.T, s string) (n int64) {
	t.Helper()
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestUnsigned(t *testing.T) {
	for name, cred := range map[string]connector.Credential{
		"no credential": {}, "headers only": credentialOf(t, nil, &connectionsv1.SecretHeader{Name: "Authorization", Value: "Bearer abc"}),
	} {
		o, got := send(t, job.Opaque, cred, &fireoncev1.Webhook{}, connectortest.OK)
		if o.Result != job.ResultSucceeded || got.Get("webhook-signature") != "" || got.Get("webhook-id") != effectKey || got.Get("webhook-timestamp") == "" {
			t.Errorf("%s: %s, %v", name, o.Result, got.Header)
		}
	}
}

func TestHeadersOnTheWire(t *testing.T) {
	w := &fireoncev1.Webhook{
		ContentType: "text/plain; charset=utf-8", Content: &fireoncev1.Webhook_BodyText{BodyText: "hällo"},
		Headers: []*fireoncev1.HttpHeader{{Name: "X-A", Value: "1"}, {Name: "x-a", Value: "2"}, {Name: "X-Key", Value: "user's"}},
	}
	cred := credentialOf(t, nil, &connectionsv1.SecretHeader{Name: "x-key", Value: "ours"})
	_, got := send(t, job.Keyed, cred, w, connectortest.OK)
	if got.Get("Idempotency-Key") != effectKey || got.Get("Content-Type") != "text/plain; charset=utf-8" || string(got.Body) != "hällo" {
		t.Errorf("%+v", got)
	}
	if fmt.Sprint(got.Header["x-a"], got.Header["x-key"]) != "[1 2] [ours]" {
		t.Errorf("%v %v", got.Header["x-a"], got.Header["x-key"])
	}
	if _, got := send(t, job.Opaque, cred, &fireoncev1.Webhook{}, connectortest.OK); got.Get("Idempotency-Key") != "" {
		t.Error("an Idempotency-Key for a receiver that does not dedupe")
	}
}

func TestTimestampIsThePresent(t *testing.T) {
	p := connectortest.NewPlatform(t, false)
	now := time.Unix(1700000000, 0)
	c := webhook.New(webhook.Config{Sender: p.Sender(), Now: func() time.Time { return now }})
	prepared, err := c.Prepare(connector.Request{PayloadKind: webhook.Name, Payload: payloadOf(t, &fireoncev1.Webhook{Url: p.URL()})})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		s, err := c.Open(t.Context(), connector.Opening{Class: job.Keyed, Prepared: prepared, Credential: credentialOf(t, []string{secretOf(1, 24)})})
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(30 * time.Second)
		s.Publish(connector.Commit{Attempt: i + 1, EffectKey: effectKey, SendBy: at, AnswerBy: at})
		now = now.Add(time.Minute)
	}
	got := p.Requests()
	if got[0].Get("webhook-timestamp") != "1700000000" || got[1].Get("webhook-timestamp") != "1700000060" {
		t.Errorf("%v, %v", got[0].Header, got[1].Header)
	}
	if got[0].Get("webhook-signature") == got[1].Get("webhook-signature") || got[0].Get("webhook-id") != got[1].Get("webhook-id") {
		t.Error("the signature must differ and the id must not")
	}
}

func TestNarrowedStatuses(t *testing.T) {
	for _, c := range []struct {
		class  job.Class
		status int
		header string
		result job.Result
		kind   job.FailureKind
		wait   time.Duration
		words  string
	}{
		{job.Keyed, 409, "X-A: b", job.ResultUnknown, job.FailAmbiguous, transport.DefaultRetryAfter, "in progress"},
		{job.Keyed, 409, "Retry-After: 5", job.ResultUnknown, job.FailAmbiguous, 5 * time.Second, "in progress"},
		{job.Opaque, 409, "Retry-After: 5", job.ResultRejected, job.FailTransient, 5 * time.Second, "409"},
		{job.Keyed, 425, "X-A: b", job.ResultRejected, job.FailTransient, 0, "425"},
		{job.Opaque, 401, "X-A: b", job.ResultRejected, job.FailTransient, 0, "401"},
		{job.Opaque, 403, "X-A: b", job.ResultRejected, job.FailTransient, 0, "403"},
		{job.Opaque, 400, "X-A: b", job.ResultRejected, job.FailTransient, 0, "400"},
		{job.Opaque, 404, "Retry-After: 7", job.ResultRejected, job.FailTransient, 7 * time.Second, "404"},
		{job.Keyed, 410, "X-A: b", job.ResultRejected, job.FailPermanent, 0, "no longer wanted"},
		{job.Opaque, 410, "X-A: b", job.ResultRejected, job.FailPermanent, 0, "no longer wanted"},
		{job.Opaque, 303, "Location: /done", job.ResultUnknown, job.FailAmbiguous, 0, "may have acted"},
		{job.Opaque, 301, "Location: /done", job.ResultUnknown, job.FailAmbiguous, 0, "final URL"},
		{job.Opaque, 308, "Location: /there", job.ResultRejected, job.FailTransient, 0, "final URL"},
		{job.Opaque, 307, "Retry-After: 9", job.ResultRejected, job.FailTransient, 9 * time.Second, "not followed"},
	} {
		o, _ := send(t, c.class, connector.Credential{}, &fireoncev1.Webhook{}, connectortest.Status(c.status, c.header))
		if o.Result != c.result || o.Kind != c.kind || o.RetryAfter != c.wait || !strings.Contains(o.Message, c.words) {
			t.Errorf("%s %d %s: %s %s %v %q", c.class, c.status, c.header, o.Result, o.Kind, o.RetryAfter, o.Message)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	c := webhook.New(webhook.Config{HTTPSOnly: true})
	many := make([]*fireoncev1.HttpHeader, 33)
	for i := range many {
		many[i] = &fireoncev1.HttpHeader{Name: "X-A", Value: "b"}
	}
	for field, w := range map[string]*fireoncev1.Webhook{
		"payload.webhook.url":          {Url: "http://example.com/"},
		"payload.webhook.content_type": {Url: "https://example.com/", ContentType: "no type\x01"},
		"payload.webhook.content":      {Url: "https://example.com/", Content: &fireoncev1.Webhook_Body{Body: make([]byte, webhook.MaxBody+1)}},
		"payload.webhook.headers":      {Url: "https://example.com/", Headers: many},
		"payload.webhook.headers[1]":   {Url: "https://example.com/", Headers: []*fireoncev1.HttpHeader{{Name: "X-A"}, {Name: "webhook-id", Value: "x"}}},
	} {
		_, err := c.Prepare(connector.Request{PayloadKind: webhook.Name, Payload: payloadOf(t, w)})
		var input *connector.InputError
		if !errors.As(err, &input) || input.Field != field {
			t.Errorf("%s: %v", field, err)
			continue
		}
		want := connector.BadPayload
		if strings.Contains(field, "headers[") {
			want = connector.BadHeader
		}
		if input.Reason != want {
			t.Errorf("%s: reason %d, want %d", field, input.Reason, want)
		}
	}
	if _, err := c.Prepare(connector.Request{PayloadKind: webhook.Name, ReplyTo: "x", Payload: payloadOf(t, &fireoncev1.Webhook{Url: "https://example.com/"})}); err == nil {
		t.Error("a webhook replied")
	}
}

func TestCheckRefuses(t *testing.T) {
	c := webhook.New(webhook.Config{})
	yes, no := connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO
	for name, s := range map[string]*connectionsv1.WebhookSettings{
		"unstated":       {},
		"no window":      {ReceiverDedupes: yes},
		"short window":   {ReceiverDedupes: yes, KeyWindow: durationpb.New(time.Second)},
		"long window":    {ReceiverDedupes: yes, KeyWindow: durationpb.New(31 * 24 * time.Hour)},
		"bad window":     {ReceiverDedupes: yes, KeyWindow: &durationpb.Duration{Seconds: 90, Nanos: -1}},
		"useless window": {ReceiverDedupes: no, KeyWindow: durationpb.New(time.Hour)},
		"other value":    {ReceiverDedupes: 9},
	} {
		_, err := c.Check(encode(t, s), connector.Credential{})
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadSettings {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := settingsOf(t, job.Keyed)
	for name, secrets := range map[string][]string{
		"short": {secretOf(1, 23)}, "long": {secretOf(1, 65)}, "no prefix": {secretOf(1, 32)[6:]}, "no base64": {"whsec_" + strings.Repeat("!", 40)},
		"many": {secretOf(1, 24), secretOf(2, 24), secretOf(3, 24), secretOf(4, 24), secretOf(5, 24), secretOf(6, 24)},
	} {
		_, err := c.Check(good, credentialOf(t, secrets))
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadCredential || strings.Contains(err.Error(), secrets[0]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bearer := encode(t, &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: "x"}}})
	if _, err := c.Check(good, connector.Credential{Data: bearer}); err == nil {
		t.Error("a bearer token signs webhooks")
	}
	_, err := c.Check(good, credentialOf(t, nil, &connectionsv1.SecretHeader{Name: "Host", Value: "x"}))
	var input *connector.InputError
	if !errors.As(err, &input) || input.Reason != connector.BadHeader || input.Field != "credential.headers[0]" {
		t.Errorf("header: %v", err)
	}
}

// TestFrozenVector holds the stored form: jobs that are armed outlive an upgrade.
func TestFrozenVector(t *testing.T) {
	prepared, err := webhook.New(webhook.Config{}).Prepare(connector.Request{PayloadKind: webhook.Name, Payload: payloadOf(t, &fireoncev1.Webhook{
		Url: "https://Example.com:443/a", Content: &fireoncev1.Webhook_BodyText{BodyText: "{}"},
		Headers: []*fireoncev1.HttpHeader{{Name: "X-A", Value: "b"}},
	})})
	if err != nil {
		t.Fatal(err)
	}
	const want = "010375726c1568747470733a2f2f6578616d706c652e636f6d2f61" + "0c636f6e74656e745f74797065106170706c69636174696f6e2f6a736f6e" +
		"0668656164657203582d41" + "0576616c75650162" + "04626f6479027b7d"
	if got := hex.EncodeToString(prepared.Frozen); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if prepared.HoldKey != "https://example.com:443" {
		t.Errorf("hold key %s", prepared.HoldKey)
	}
}

// TestTextAndBytesAreOneRequest: body_text is body in another notation.
func TestTextAndBytesAreOneRequest(t *testing.T) {
	c := webhook.New(webhook.Config{})
	var frozen [2][]byte
	for i, w := range []*fireoncev1.Webhook{
		{Url: "https://example.com", Content: &fireoncev1.Webhook_BodyText{BodyText: "ä"}},
		{Url: "https://example.com/", Content: &fireoncev1.Webhook_Body{Body: []byte("ä")}, ContentType: "application/json"},
	} {
		prepared, err := c.Prepare(connector.Request{PayloadKind: webhook.Name, Payload: payloadOf(t, w)})
		if err != nil {
			t.Fatal(err)
		}
		frozen[i] = prepared.Frozen
	}
	if !bytes.Equal(frozen[0], frozen[1]) {
		t.Errorf("%x\n%x", frozen[0], frozen[1])
	}
}

// FuzzOpenFrozen: bytes from a damaged database are a refusal or a request that
// obeys the rules, never a panic.
func FuzzOpenFrozen(f *testing.F) {
	f.Add(job.NewCanon().Field("url", []byte("http://127.0.0.1:1/")).Field("content_type", []byte("a/b")).Field("body", nil).Bytes())
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, frozen []byte) {
		over, cancel := context.WithCancel(t.Context())
		cancel() // nothing is resolved or dialled
		c := webhook.New(webhook.Config{Sender: transport.NewSender(transport.Config{})})
		s, err := c.Open(over, connector.Opening{Class: job.Opaque, Prepared: connector.Prepared{Frozen: frozen}})
		if err == nil {
			s.Close()
			return
		}
		var refusal *connector.Refusal
		if !errors.As(err, &refusal) || refusal.Kind == 0 {
			t.Fatalf("%v", err)
		}
	})
}

// TestOrigins: secret headers go to named origins only; a signature discloses nothing
// of its secret.
func TestOrigins(t *testing.T) {
	c := webhook.New(webhook.Config{})
	_, err := c.Check(settingsOf(t, job.Keyed), credentialOf(t, nil, &connectionsv1.SecretHeader{Name: "X-Secret", Value: "a-secret"}))
	var input *connector.InputError
	if !errors.As(err, &input) || input.Field != "settings.webhook.origins" {
		t.Errorf("a secret header for any place: %v", err)
	}
	if _, err := c.Check(settingsOf(t, job.Keyed), credentialOf(t, []string{secretOf(1, 24)})); err != nil {
		t.Error(err)
	}
	settings := settingsOf(t, job.Keyed, "https://hooks.example.org")
	for target, allowed := range map[string]bool{"https://hooks.example.org/a": true, "https://evil.example/": false} {
		_, err := c.Prepare(connector.Request{Settings: settings, PayloadKind: webhook.Name, Payload: encode(t, &fireoncev1.Payload{
			Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{Url: target}},
		})})
		if allowed != (err == nil) || !allowed && (!errors.As(err, &input) || input.Field != "payload.webhook.url" || input.Reason != connector.BadPayload) {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// TestQuotes: a receiver may repeat a secret header in a form that no filter expects. A
// signature is no secret.
func TestQuotes(t *testing.T) {
	const said = "terces-yb-redaeh, no such tenant"
	for name, tt := range map[string]struct {
		cred  connector.Credential
		quote bool
		want  bool
	}{
		"signed":             {credentialOf(t, []string{secretOf(1, 24)}), false, true},
		"a secret header":    {credentialOf(t, nil, &connectionsv1.SecretHeader{Name: "X-Key", Value: "header-by-secret"}), false, false},
		"as its owner wants": {credentialOf(t, nil, &connectionsv1.SecretHeader{Name: "X-Key", Value: "header-by-secret"}), true, true},
	} {
		p := connectortest.NewPlatform(t, false, connectortest.Say(connectortest.Answer(422, said)))
		settings := encode(t, &connectionsv1.WebhookSettings{Origins: []string{p.URL()}, QuoteAnswers: tt.quote})
		c := newConnector(t, p.Sender())
		prepared, err := c.Prepare(connector.Request{
			EffectKey: effectKey, Settings: settings, PayloadKind: webhook.Name, Payload: payloadOf(t, &fireoncev1.Webhook{Url: p.URL() + "/x"}),
		})
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Open(t.Context(), connector.Opening{Class: job.Opaque, Settings: settings, Credential: tt.cred, Prepared: prepared, Fresh: true})
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(30 * time.Second)
		o := s.Publish(connector.Commit{Attempt: 1, EffectKey: effectKey, SendBy: at, AnswerBy: at})
		s.Close()
		if strings.Contains(o.Message, "no such tenant") != tt.want || strings.Contains(o.Message, "quote_answers") == tt.want {
			t.Errorf("%s: %q", name, o.Message)
		}
	}
}
