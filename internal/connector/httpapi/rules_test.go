package httpapi_test

import (
	"context"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/httpapi"
	"github.com/fireonce/fireonce/internal/connector/httpapi/apitest"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// bench is one request to one API, attempt by attempt.
type bench struct {
	*apitest.API
	c        *httpapi.Connector
	class    job.Class
	prepared connector.Prepared
	settings []byte
	cred     connector.Credential
	attempt  int
}

func newBench(t *testing.T, class job.Class, opts apitest.Options) *bench {
	t.Helper()
	api, err := apitest.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	sender := transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
	t.Cleanup(func() {
		_ = api.Close()
		sender.Close()
	})
	b := &bench{API: api, c: httpapi.New(httpapi.Config{Sender: sender}), class: class}
	b.prepare(t, &fireoncev1.HttpRequest{
		Url: api.URL("charge"), Content: &fireoncev1.HttpRequest_BodyText{BodyText: `{"amount":100}`}, IdJsonPointer: "/data/id",
	})
	return b
}

func (b *bench) prepare(t *testing.T, r *fireoncev1.HttpRequest) {
	t.Helper()
	u, err := transport.ParseURL(r.GetUrl())
	if err != nil {
		t.Fatal(err)
	}
	s := &connectionsv1.HttpSettings{Origins: []string{u.Scheme + "://" + u.Host}}
	if r.GetIdJsonPointer() != "" {
		s.IdJsonPointers = []string{r.GetIdJsonPointer()}
	}
	b.settings = encode(t, s)
	if b.prepared, err = b.c.Prepare(connector.Request{EffectKey: effectKey, Settings: b.settings, PayloadKind: httpapi.PayloadKind, Payload: payloadOf(t, r)}); err != nil {
		t.Fatal(err)
	}
}

// send makes the next attempt. limit is how long it waits for the answer.
func (b *bench) send(t *testing.T, limit time.Duration) job.Outcome {
	t.Helper()
	b.attempt++
	s, err := b.c.Open(t.Context(), connector.Opening{Class: b.class, Settings: b.settings, Credential: b.cred, Prepared: b.prepared, Fresh: b.class != job.Keyed})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := time.Now().Add(limit)
	o := s.Publish(connector.Commit{Attempt: b.attempt, EffectKey: effectKey, SendBy: at, AnswerBy: at})
	if o.Attempt != b.attempt {
		t.Errorf("attempt %d, want %d", o.Attempt, b.attempt)
	}
	return o
}

const long = 30 * time.Second

func want(t *testing.T, o job.Outcome, result job.Result, kind job.FailureKind, words string) {
	t.Helper()
	if o.Result != result || o.Kind != kind || !strings.Contains(o.Message, words) {
		t.Errorf("%s %s %q, want %s %s with %q", o.Result, o.Kind, o.Message, result, kind, words)
	}
}

// once plans an answer for the first request, and replies to the others.
func once(first apitest.Answer) func(apitest.Request) apitest.Answer {
	return func(r apitest.Request) apitest.Answer {
		if r.Number == 1 {
			return first
		}
		return apitest.Reply
	}
}

// TestReplayGivesTheFirstAnswer: an answer is lost after the commit, and the
// repeat is answered with what the first one made.
func TestReplayGivesTheFirstAnswer(t *testing.T) {
	b := newBench(t, job.Keyed, apitest.Options{RequireKey: true, Plan: once(apitest.Reset)})
	want(t, b.send(t, long), job.ResultUnknown, job.FailAmbiguous, "may have acted")
	o := b.send(t, long)
	want(t, o, job.ResultSucceeded, 0, "201")
	if o.ExternalID != "object-1" || b.Effects("charge") != 1 || b.Requests("charge") != 2 {
		t.Errorf("id %q, %d effects of %d requests", o.ExternalID, b.Effects("charge"), b.Requests("charge"))
	}
}

// TestReplayAfterALostRequest: the first one never got there; the repeat is the
// one that acts.
func TestReplayAfterALostRequest(t *testing.T) {
	b := newBench(t, job.Keyed, apitest.Options{Plan: once(apitest.Drop)})
	want(t, b.send(t, long), job.ResultUnknown, job.FailAmbiguous, "")
	want(t, b.send(t, long), job.ResultSucceeded, 0, "")
	if b.Effects("charge") != 1 {
		t.Errorf("%d effects", b.Effects("charge"))
	}
}

// TestInFlight: a repeat while the first request is still being worked on is
// answered 409, which proves nothing.
func TestInFlight(t *testing.T) {
	release := make(chan struct{})
	b := newBench(t, job.Keyed, apitest.Options{Plan: func(apitest.Request) apitest.Answer { <-release; return apitest.Reply }})
	want(t, b.send(t, 500*time.Millisecond), job.ResultUnknown, job.FailAmbiguous, "out of time")
	o := b.send(t, long)
	want(t, o, job.ResultUnknown, job.FailAmbiguous, "in progress")
	if o.HTTPStatus != 409 || o.RetryAfter != time.Second {
		t.Errorf("%d, retry after %v", o.HTTPStatus, o.RetryAfter)
	}
	close(release)
	for o = b.send(t, long); o.HTTPStatus == 409; o = b.send(t, long) {
		_ = o // the first one is just being finished
	}
	want(t, o, job.ResultSucceeded, 0, "")
	if b.Effects("charge") != 1 {
		t.Errorf("%d effects", b.Effects("charge"))
	}
}

// TestStoredServerError: Stripe answers every repeat with the 500 that it stored.
// However often: it may have acted.
func TestStoredServerError(t *testing.T) {
	for answer, effects := range map[apitest.Answer]int{apitest.CommitFail: 1, apitest.StoredFail: 0} {
		b := newBench(t, job.Keyed, apitest.Options{Plan: func(apitest.Request) apitest.Answer { return answer }})
		for range 4 {
			want(t, b.send(t, long), job.ResultUnknown, job.FailAmbiguous, "500")
		}
		if b.Effects("charge") != effects || b.Requests("charge") != 4 {
			t.Errorf("%d effects of %d requests", b.Effects("charge"), b.Requests("charge"))
		}
	}
}

// TestUnprocessable: 422 may say that an earlier request used the key, also to a first
// attempt: a database that was lost may have sent it.
func TestUnprocessable(t *testing.T) {
	b := newBench(t, job.Keyed, apitest.Options{Plan: func(apitest.Request) apitest.Answer { return apitest.Invalid }})
	for range 2 {
		want(t, b.send(t, long), job.ResultUnknown, job.FailAmbiguous, "this key may have been there before")
	}
	b = newBench(t, job.Opaque, apitest.Options{Plan: func(apitest.Request) apitest.Answer { return apitest.Invalid }})
	b.attempt = 4
	want(t, b.send(t, long), job.ResultRejected, job.FailPermanent, "not valid")
}

// TestKeyConflict: an answer that says that the key was used for another request
// never proves that there is no effect, not even to what we take for the first
// attempt.
func TestKeyConflict(t *testing.T) {
	for name, dialect := range map[string]apitest.Dialect{"IETF": apitest.IETF, "Stripe": apitest.Stripe} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, job.Keyed, apitest.Options{Dialect: dialect})
			want(t, b.send(t, long), job.ResultSucceeded, 0, "")
			b.prepare(t, &fireoncev1.HttpRequest{Url: b.URL("charge"), Content: &fireoncev1.HttpRequest_BodyText{BodyText: `{"amount":200}`}})
			b.attempt = 0
			want(t, b.send(t, long), job.ResultUnknown, job.FailAmbiguous, "may have acted")
			if b.Effects("charge") != 1 {
				t.Errorf("%d effects", b.Effects("charge"))
			}
		})
	}
}

// TestKeyConflictCodes: which bodies say so, and for which class.
func TestKeyConflictCodes(t *testing.T) {
	for _, c := range []struct {
		class  job.Class
		status int
		body   string
		header string
		result job.Result
	}{
		{job.Keyed, 400, `{"error":{"type":"idempotency_error"}}`, "", job.ResultUnknown},
		{job.Keyed, 400, `{"name":"invalid_idempotent_request"}`, "", job.ResultUnknown},
		{job.Keyed, 400, `{"type":"https://x.example/Idempotency"}`, "Content-Type: application/problem+json; charset=utf-8", job.ResultUnknown},
		{job.Keyed, 400, `{"type":"https://x.example/Idempotency"}`, "Content-Type: application/json", job.ResultRejected},
		{job.Keyed, 400, `{"title":"Idempotency-Key is missing"}`, "Content-Type: application/problem+json", job.ResultRejected},
		{job.Keyed, 402, `{"error":{"type":"card_error"}}`, "", job.ResultRejected},
		{job.Keyed, 400, `{"error":"idempotency_error"}`, "", job.ResultUnknown},
		{job.Keyed, 400, `idempotency_error`, "", job.ResultUnknown},
		{job.Keyed, 429, `{"error":{"type":"rate_limit"}}`, "", job.ResultRejected},
		{job.Opaque, 400, `{"error":{"type":"idempotency_error"}}`, "", job.ResultRejected},
	} {
		var headers []string
		if c.header != "" {
			headers = append(headers, c.header)
		}
		p := connectortest.NewPlatform(t, false, connectortest.Say(connectortest.Answer(c.status, c.body, headers...)))
		if o, _ := sendTo(t, p, c.class, connector.Credential{}, &fireoncev1.HttpRequest{}); o.Result != c.result {
			t.Errorf("%s %d %s: %s (%s)", c.class, c.status, c.body, o.Result, o.Message)
		}
	}
}

// TestForgottenKey: what this connector cannot help. A receiver that forgets its
// keys acts twice; that it keeps them is what the connection's settings state.
func TestForgottenKey(t *testing.T) {
	b := newBench(t, job.Keyed, apitest.Options{Plan: once(apitest.Forget)})
	want(t, b.send(t, long), job.ResultUnknown, job.FailAmbiguous, "504")
	want(t, b.send(t, long), job.ResultSucceeded, 0, "")
	if b.Effects("charge") != 2 {
		t.Errorf("%d effects: the negative control must see two", b.Effects("charge"))
	}
}

// sendTo makes a first attempt at a scripted platform.
func sendTo(t *testing.T, p *connectortest.Platform, class job.Class, cred connector.Credential, r *fireoncev1.HttpRequest) (job.Outcome, connectortest.Received) {
	t.Helper()
	if r.Url == "" {
		r.Url = p.URL() + "/x"
	}
	b := &bench{c: httpapi.New(httpapi.Config{Sender: p.Sender()}), class: class, cred: cred}
	b.prepare(t, r)
	o := b.send(t, long)
	got := p.Requests()
	if len(got) != 1 {
		t.Fatalf("%d requests", len(got))
	}
	return o, got[0]
}

// TestOnTheWire: method, body, key and credential as they arrive.
func TestOnTheWire(t *testing.T) {
	body := &fireoncev1.HttpRequest_BodyText{BodyText: "hällo"}
	for _, c := range []struct {
		name    string
		class   job.Class
		cred    *connectionsv1.Credential
		request *fireoncev1.HttpRequest
		line    string
		headers map[string]string
	}{
		{
			"unset method, bearer", job.Keyed,
			&connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: "tok"}}},
			&fireoncev1.HttpRequest{Content: body}, "POST /x HTTP/1.1",
			map[string]string{"Authorization": "Bearer tok", "Content-Type": "application/json", "Idempotency-Key": effectKey},
		},
		{
			"PUT, basic", job.Opaque,
			&connectionsv1.Credential{Kind: &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: "Aladdin", Password: "open sesame"}}},
			&fireoncev1.HttpRequest{Method: fireoncev1.HttpMethod_HTTP_METHOD_PUT, Content: body, ContentType: "text/plain"}, "PUT /x HTTP/1.1",
			// The example of RFC 7617, section 2.
			map[string]string{"Authorization": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Content-Type": "text/plain", "Idempotency-Key": ""},
		},
		{
			"DELETE, API key over a user's header", job.Keyed,
			&connectionsv1.Credential{Kind: &connectionsv1.Credential_ApiKeyHeader{ApiKeyHeader: &connectionsv1.ApiKeyHeader{Name: "X-Api-Key", Value: "ours"}}},
			&fireoncev1.HttpRequest{
				Method: fireoncev1.HttpMethod_HTTP_METHOD_DELETE, Headers: []*fireoncev1.HttpHeader{{Name: "x-api-key", Value: "user's"}, {Name: "X-A", Value: "b"}},
			}, "DELETE /x HTTP/1.1",
			map[string]string{"X-Api-Key": "ours", "X-A": "b", "Content-Type": "", "Idempotency-Key": effectKey},
		},
		{
			"GET, secret headers", job.Opaque,
			&connectionsv1.Credential{Headers: []*connectionsv1.SecretHeader{{Name: "Authorization", Value: "Custom abc"}}},
			&fireoncev1.HttpRequest{Method: fireoncev1.HttpMethod_HTTP_METHOD_GET}, "GET /x HTTP/1.1",
			map[string]string{"Authorization": "Custom abc", "Content-Type": ""},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := connectortest.NewPlatform(t, false)
			_, got := sendTo(t, p, c.class, credentialOf(t, c.cred), c.request)
			if got.Line != c.line {
				t.Errorf("%q", got.Line)
			}
			for name, value := range c.headers {
				if all := got.Header[strings.ToLower(name)]; got.Get(name) != value || len(all) > 1 {
					t.Errorf("%s: %q, want %q", name, all, value)
				}
			}
			if wanted := c.request.GetBodyText(); string(got.Body) != wanted {
				t.Errorf("body %q", got.Body)
			}
		})
	}
}

func TestStatuses(t *testing.T) {
	for _, c := range []struct {
		class  job.Class
		status int
		header string
		result job.Result
		kind   job.FailureKind
		words  string
	}{
		{job.Keyed, 409, "X-A: b", job.ResultUnknown, job.FailAmbiguous, "in progress"},
		{job.Opaque, 409, "X-A: b", job.ResultRejected, job.FailPermanent, "409"},
		{job.Keyed, 400, "X-A: b", job.ResultRejected, job.FailPermanent, "400"},
		{job.Keyed, 401, "X-A: b", job.ResultRejected, job.FailPermanent, "401"},
		{job.Keyed, 403, "X-A: b", job.ResultRejected, job.FailPermanent, "403"},
		{job.Keyed, 307, "Location: /y", job.ResultRejected, job.FailPermanent, "final URL"},
		{job.Keyed, 303, "Location: /y", job.ResultUnknown, job.FailAmbiguous, "may have acted"},
		{job.Keyed, 429, "Retry-After: 7", job.ResultRejected, job.FailRateLimited, "429"},
	} {
		p := connectortest.NewPlatform(t, false, connectortest.Status(c.status, c.header))
		o, _ := sendTo(t, p, c.class, connector.Credential{}, &fireoncev1.HttpRequest{})
		want(t, o, c.result, c.kind, c.words)
	}
}

// TestMissingID: a success is a success, with or without the id that was asked
// for.
func TestMissingID(t *testing.T) {
	for body, id := range map[string]string{
		`{"data":{"id":"ch_1"}}`: "ch_1", `{"data":{"id":17}}`: "17", `{"data":{"id":true}}`: "", `{"data":[]}`: "", `no JSON`: "",
		`{"data":{"id":"` + strings.Repeat("x", 300) + `"}}`: "", `{"data":{"id":"a\u0000b"}}`: "",
		`{"pad":"` + strings.Repeat("x", 64<<10) + `","data":{"id":"far"}}`: "far",
	} {
		p := connectortest.NewPlatform(t, false, connectortest.Say(connectortest.Answer(201, body)))
		o, _ := sendTo(t, p, job.Keyed, connector.Credential{}, &fireoncev1.HttpRequest{IdJsonPointer: "/data/id"})
		if o.Result != job.ResultSucceeded || o.ExternalID != id || strings.Contains(o.Message, "no id at /data/id") != (id == "") {
			t.Errorf("%.60s: %s %q %q", body, o.Result, o.ExternalID, o.Message)
		}
	}
}

// TestEchoIsNoID: a client that may schedule jobs sets the place of the id in the
// answer. It does not get the connection's secret by that from a target that echoes the
// request.
func TestEchoIsNoID(t *testing.T) {
	token := &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: "bearer-secret"}}}
	cookie := &connectionsv1.Credential{Headers: []*connectionsv1.SecretHeader{{Name: "Cookie", Value: "a=b; session=cookie-secret"}}}
	for said, cred := range map[string]*connectionsv1.Credential{
		"Bearer bearer-secret": token, "bearer-secret": token, "YmVhcmVyLXNlY3JldA==": token,
		"a=b; session=cookie-secret": cookie, "cookie-secret": cookie,
	} {
		p := connectortest.NewPlatform(t, false, connectortest.Say(connectortest.Answer(200, `{"said":"`+said+`"}`)))
		o, _ := sendTo(t, p, job.Keyed, credentialOf(t, cred), &fireoncev1.HttpRequest{IdJsonPointer: "/said"})
		if o.Result != job.ResultSucceeded || o.ExternalID != "" || !strings.Contains(o.Message, "no id at /said") {
			t.Errorf("%q: %s %q %q", said, o.Result, o.ExternalID, o.Message)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	c := httpapi.New(httpapi.Config{HTTPSOnly: true})
	const url = "https://example.com/"
	many := make([]*fireoncev1.HttpHeader, 33)
	for i := range many {
		many[i] = &fireoncev1.HttpHeader{Name: "X-A", Value: "b"}
	}
	for field, r := range map[string]*fireoncev1.HttpRequest{
		"url":             {Url: "http://example.com/"},
		"method":          {Url: url, Method: 99},
		"content":         {Url: url, Content: &fireoncev1.HttpRequest_Body{Body: make([]byte, kit.MaxRequestBody+1)}},
		"content_type":    {Url: url, ContentType: "no type\x01"},
		"headers":         {Url: url, Headers: many},
		"headers[0]":      {Url: url, Headers: []*fireoncev1.HttpHeader{{Name: "idempotency-key", Value: "mine"}}},
		"headers[1]":      {Url: url, Headers: []*fireoncev1.HttpHeader{{Name: "X-A"}, {Name: "Authorization", Value: "x"}}},
		"id_json_pointer": {Url: url, IdJsonPointer: "id"},
	} {
		_, err := c.Prepare(connector.Request{PayloadKind: httpapi.PayloadKind, Payload: payloadOf(t, r)})
		var input *connector.InputError
		if !errors.As(err, &input) || input.Field != "payload.http_request."+field {
			t.Errorf("%s: %v", field, err)
		}
	}
	get := &fireoncev1.HttpRequest{Url: url, Method: fireoncev1.HttpMethod_HTTP_METHOD_GET, Content: &fireoncev1.HttpRequest_BodyText{BodyText: "x"}}
	if _, err := c.Prepare(connector.Request{PayloadKind: httpapi.PayloadKind, Payload: payloadOf(t, get)}); err == nil {
		t.Error("a GET with a body")
	}
}

func TestCheckRefuses(t *testing.T) {
	c := httpapi.New(httpapi.Config{})
	yes, no := connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO
	for name, s := range map[string]*connectionsv1.HttpSettings{
		"unstated": {}, "no window": {ReceiverDedupes: yes}, "short window": {ReceiverDedupes: yes, KeyWindow: durationpb.New(time.Second)},
		"long window":    {ReceiverDedupes: yes, KeyWindow: durationpb.New(31 * 24 * time.Hour)},
		"useless window": {ReceiverDedupes: no, KeyWindow: durationpb.New(time.Hour)}, "other value": {ReceiverDedupes: 9},
	} {
		_, err := c.Check(encode(t, s), connector.Credential{})
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadSettings {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFrozenVector holds the stored form: jobs that are armed outlive an upgrade.
func TestFrozenVector(t *testing.T) {
	prepared, err := httpapi.New(httpapi.Config{}).Prepare(connector.Request{Settings: encode(t, &connectionsv1.HttpSettings{IdJsonPointers: []string{"/a~1b"}}), PayloadKind: httpapi.PayloadKind, Payload: payloadOf(t, &fireoncev1.HttpRequest{
		Url: "https://Example.com:443/a", Content: &fireoncev1.HttpRequest_BodyText{BodyText: "{}"}, Method: fireoncev1.HttpMethod_HTTP_METHOD_PUT,
		Headers: []*fireoncev1.HttpHeader{{Name: "X-A", Value: "b"}}, IdJsonPointer: "/a~1b",
	})})
	if err != nil {
		t.Fatal(err)
	}
	const want = "01" + "066d6574686f6403505554" + "0375726c1568747470733a2f2f6578616d706c652e636f6d2f61" + "0c636f6e74656e745f74797065106170706c69636174696f6e2f6a736f6e" +
		"0668656164657203582d41" + "0576616c75650162" + "04626f6479027b7d" + "0f69645f6a736f6e5f706f696e746572052f617e3162"
	if got := hex.EncodeToString(prepared.Frozen); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if prepared.HoldKey != "https://example.com:443" || prepared.Gate != nil {
		t.Errorf("hold key %s, gate %x", prepared.HoldKey, prepared.Gate)
	}
}

// A credential goes to named origins only, and so do the requests of a connection that
// names some.
func TestOrigins(t *testing.T) {
	c := httpapi.New(httpapi.Config{})
	secret := credentialOf(t, &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: "a-secret"}}})
	_, err := c.Check(settingsOf(t, job.Opaque), secret)
	var input *connector.InputError
	if !errors.As(err, &input) || input.Field != "settings.http.origins" {
		t.Errorf("a secret for any place: %v", err)
	}
	settings := settingsOf(t, job.Opaque, "https://api.example.org")
	if _, err := c.Check(settings, secret); err != nil {
		t.Error(err)
	}
	for target, allowed := range map[string]bool{"https://api.example.org/v1": true, "https://evil.example/": false} {
		_, err := c.Prepare(connector.Request{Settings: settings, PayloadKind: httpapi.PayloadKind, Payload: payloadOf(t, &fireoncev1.HttpRequest{Url: target})})
		if allowed != (err == nil) || !allowed && (!errors.As(err, &input) || input.Field != "payload.http_request.url" || input.Reason != connector.BadPayload) {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// FuzzOpenFrozen: bytes from a damaged database are a refusal, never a panic.
func FuzzOpenFrozen(f *testing.F) {
	f.Add(job.NewCanon().Field("method", []byte("GET")).Field("url", []byte("http://127.0.0.1:1/")).Field("content_type", nil).
		Field("body", nil).Field("id_json_pointer", []byte("/a")).Bytes())
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, frozen []byte) {
		over, cancel := context.WithCancel(t.Context())
		cancel() // nothing is resolved or dialled
		c := httpapi.New(httpapi.Config{Sender: transport.NewSender(transport.Config{})})
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
