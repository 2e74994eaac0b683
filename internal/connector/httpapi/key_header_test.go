package httpapi_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/httpapi"
	"github.com/fireonce/fireonce/internal/job"
)

// keyedBy are the settings of a receiver that dedupes on a header.
func keyedBy(header string) *connectionsv1.HttpSettings {
	return &connectionsv1.HttpSettings{
		ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(24 * time.Hour), KeyHeader: header,
		Origins: []string{"https://api.example"},
	}
}

// TestKeyHeader sends keys in the headers that APIs ask for, twice, over a real connection: the
// key is in that header alone, and both requests are alike.
func TestKeyHeader(t *testing.T) {
	for _, name := range []string{
		"", "Idempotency-Key", "X-Idempotency-Key", "x-idempotency-key", "PayPal-Request-Id", "Request-Id", "X-Request-Id", "X-Client-Request-Id", "Idempotency_Key",
		"Stripe-Idempotency", "Square-Idempotency-Key", "X-GoCardless-Key", "Nonce", "Transaction-Reference",
		"Cko-Idempotency-Key", "Idempotence-Key", "I-Twilio-Idempotency-Token", "X-Client-Token", "X-Correlation-Id", "Message-Id", "X-GitHub-Delivery", "Ce-Id", "X-PAYJP-Key",
		"Repeatability-Request-ID", "x-ms-client-request-id", "X-Fapi-Interaction-Id", "X'!#$%&*+.^_`|~9",
	} {
		p := connectortest.NewPlatform(t, false, connectortest.Status(500), connectortest.OK)
		settings := keyedBy(name)
		settings.Origins = []string{p.URL()}
		c := newConnector(t, p.Sender())
		if _, err := c.Check(encode(t, settings), connector.Credential{}); err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		prepared, err := c.Prepare(connector.Request{
			EffectKey: effectKey, Settings: encode(t, settings), PayloadKind: httpapi.PayloadKind, Payload: payloadOf(t, &fireoncev1.HttpRequest{Url: p.URL() + "/x"}),
		})
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		changed := keyedBy("X-Another") // holds for other jobs: this one's repeat is known by its key
		changed.Origins = []string{p.URL()}
		for attempt, s := range []*connectionsv1.HttpSettings{settings, changed} {
			session, err := c.Open(t.Context(), connector.Opening{Class: job.Keyed, Settings: encode(t, s), Prepared: prepared})
			if err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			at := time.Now().Add(long)
			session.Publish(connector.Commit{Attempt: attempt + 1, EffectKey: effectKey, SendBy: at, AnswerBy: at})
			session.Close()
		}
		for i, r := range p.Requests() {
			if count := strings.Count(r.Head, effectKey); count != 1 || r.Get(nameOr(name)) != effectKey {
				t.Errorf("%q, request %d: the key is there %d times:\n%s", name, i+1, count, r.Head)
			}
		}
		if n := len(p.Requests()); n != 2 {
			t.Errorf("%q: %d requests", name, n)
		}
	}
}

func nameOr(name string) string {
	if name == "" {
		return "Idempotency-Key"
	}
	return name
}

// TestReservedKeyHeaders checks names that cannot carry a key, in any letters.
func TestReservedKeyHeaders(t *testing.T) {
	for _, name := range []string{
		"Host", "Content-Length", "Content-Type", "Content-Encoding", "Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Trailer", "Upgrade", "HTTP2-Settings", "Expect",
		"User-Agent", "Authorization", "authorization", "Cookie", "Set-Cookie", "Proxy-Authorization", "Webhook-Id", "webhook_id", "Webhook-Signature", "Accept",
		"Accept-Encoding", "Range", "Date", "Forwarded", "X-Forwarded-For", "X_Forwarded_For", "Via", "Traceparent", "Tracestate", "X-Api-Key", "X-HTTP-Method-Override",
		"Sec-Fetch-Mode", "X-Method-Override", "X-HTTP-Method", "Early-Data", "Cdn-Loop", "Priority", "X-Amz-Date", "X-Amz-Security-Token", "Signature", "Signature-Input", "DPoP",
		"X-B3-TraceId", "b3", "X-XSRF-Token", "Api-Key", "X-Access-Token", "Private-Token", "X-Original-URL", "X-Rewrite-URL", "True-Client-IP", "CF-Connecting-IP", "X-Forwarded-Port",
		"x_forwarded_proto", "If", "Destination", "Lock-Token", "X-Stripe-Signature", "X-Hub-Signature-256", "Stripe-Account", "Stripe-Version", "Www-Authenticate",
		"a b", "a:b", "a\r\nb", "ä", strings.Repeat("x", 65),
	} {
		_, err := newConnector(t, nil).Check(encode(t, keyedBy(name)), connector.Credential{})
		var bad *connector.InputError
		if !errors.As(err, &bad) || bad.Field != "settings.http.key_header" || bad.Reason != connector.BadSettings || !strings.Contains(bad.Msg, "must be") && !strings.Contains(bad.Msg, "cannot carry the key") {
			t.Errorf("%q: %v", name, err)
		}
	}
	opaque := &connectionsv1.HttpSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO, KeyHeader: "X-Idempotency-Key"}
	if _, err := newConnector(t, nil).Check(encode(t, opaque), connector.Credential{}); err == nil || !strings.Contains(err.Error(), "goes only with a receiver that dedupes") {
		t.Errorf("a receiver without keys: %v", err)
	}
}

// TestTheKeyHeaderIsTheConnectionsAlone checks that neither a job nor the credential sets it.
func TestTheKeyHeaderIsTheConnectionsAlone(t *testing.T) {
	settings := encode(t, keyedBy("PayPal-Request-Id"))
	c := newConnector(t, nil)
	for _, name := range []string{"PayPal-Request-Id", "paypal-request-id", "PayPal_Request_Id"} {
		_, err := c.Prepare(connector.Request{EffectKey: effectKey, Settings: settings, PayloadKind: httpapi.PayloadKind, Payload: payloadOf(t, &fireoncev1.HttpRequest{
			Url: "https://api.example/x", Headers: []*fireoncev1.HttpHeader{{Name: "X-A", Value: "b"}, {Name: name, Value: "mine"}},
		})})
		var bad *connector.InputError
		if !errors.As(err, &bad) || bad.Field != "payload.http_request.headers[1]" || !strings.Contains(bad.Msg, "Fireonce sends the key in it") {
			t.Errorf("%s: %v", name, err)
		}
		cred := credentialOf(t, &connectionsv1.Credential{Headers: []*connectionsv1.SecretHeader{{Name: name, Value: "secret-value"}}})
		if _, err := c.Check(settings, cred); err == nil || !strings.Contains(err.Error(), "settings.http.key_header") || strings.Contains(err.Error(), "secret-value") {
			t.Errorf("%s in the credential: %v", name, err)
		}
	}
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key", "x_idempotency_key"} {
		_, err := c.Prepare(connector.Request{EffectKey: effectKey, Settings: settings, PayloadKind: httpapi.PayloadKind, Payload: payloadOf(t, &fireoncev1.HttpRequest{
			Url: "https://api.example/x", Headers: []*fireoncev1.HttpHeader{{Name: name, Value: "mine"}},
		})})
		if err == nil || !strings.Contains(err.Error(), "key_header") {
			t.Errorf("%s: %v", name, err)
		}
	}
	frozen, err := c.Prepare(connector.Request{
		EffectKey: effectKey, Settings: settings, PayloadKind: httpapi.PayloadKind, Payload: payloadOf(t, &fireoncev1.HttpRequest{Url: "https://api.example/x"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	cred := credentialOf(t, &connectionsv1.Credential{Headers: []*connectionsv1.SecretHeader{{Name: "paypal-request-id", Value: "secret-value"}}})
	_, err = c.Open(t.Context(), connector.Opening{Class: job.Keyed, Settings: encode(t, keyedBy("")), Credential: cred, Prepared: frozen})
	if err == nil || !strings.Contains(err.Error(), "this job's key") {
		t.Errorf("a credential with the header of a frozen request: %v", err)
	}
}

// TestALongAnswer checks answers that are longer than we read: their status counts, but not that
// of a refusal whose body may be about the key.
func TestALongAnswer(t *testing.T) {
	for _, tt := range []struct {
		class  job.Class
		status int
		want   job.Result
	}{
		{job.Keyed, 200, job.ResultSucceeded}, {job.Opaque, 200, job.ResultSucceeded}, {job.Keyed, 400, job.ResultUnknown}, {job.Opaque, 400, job.ResultRejected},
		{job.Keyed, 404, job.ResultUnknown}, {job.Keyed, 429, job.ResultUnknown}, {job.Opaque, 429, job.ResultRejected}, {job.Keyed, 503, job.ResultUnknown},
	} {
		body := `{"id":"x1","pad":"` + strings.Repeat("y", 2<<20) + `"}`
		p := connectortest.NewPlatform(t, false, connectortest.Say(connectortest.Answer(tt.status, body)))
		b := &bench{c: httpapi.New(httpapi.Config{Sender: p.Sender()}), class: tt.class}
		b.prepare(t, &fireoncev1.HttpRequest{Url: p.URL() + "/x", IdJsonPointer: "/id"})
		o := b.send(t, long)
		if o.Result != tt.want || !strings.Contains(o.Message, "was cut") || o.ExternalID != "" {
			t.Errorf("%s", fmt.Sprint(tt.class, tt.status, o.Result, o.ExternalID, o.Message))
		}
	}
}
