package resend_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/resend"
	"github.com/fireonce/fireonce/internal/connector/resend/resendtest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

const (
	effectKey = "0199c0de-0000-7000-8000-000000000001"
	apiKey    = "re_api-key-secret"
	success   = `{"id":"49a3999c-0ce1-4ea6-ab68-afcd6dc2e794"}`
)

func encode(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func bearer(tb testing.TB, token string) connector.Credential {
	return connector.Credential{Version: 3, Data: encode(tb, &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: token}}})}
}

func usual() *fireoncev1.Email {
	return &fireoncev1.Email{
		Sender: "Ada <ada@example.org>", To: []string{"bob@example.net"}, Cc: []string{`"Eve, too" <eve@example.net>`},
		Subject: "Hello <you> & 漢字", TextBody: "One.\nTwo.", HtmlBody: "<p>One.</p>",
	}
}

func requestFor(tb testing.TB, e *fireoncev1.Email) connector.Request {
	return connector.Request{
		EffectKey: effectKey, PayloadKind: resend.PayloadKind,
		Payload: encode(tb, &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: e}}),
	}
}

func newAt(tb testing.TB, s *transport.Sender, baseURL string) connector.Connector {
	tb.Helper()
	return resendAt(tb, s, baseURL)
}

func resendAt(tb testing.TB, s *transport.Sender, baseURL string) *resend.Connector {
	tb.Helper()
	c, err := resend.New(resend.Config{Sender: s, BaseURL: baseURL, Media: kit.NewMedia(kit.MediaConfig{
		Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8")), Dir: tb.TempDir(),
	})})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ secure, files bool }{"http": {}, "https": {secure: true}, "with a file": {files: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, newAt := usual(), newAt
			if c.files {
				e.Attachments = []*fireoncev1.MediaRef{{Url: newHost(t, map[string][]byte{"a": random(100_000)}).url + "/a"}}
				newAt = func(tb testing.TB, s *transport.Sender, baseURL string) connector.Connector {
					return struct{ connector.Connector }{resendAt(tb, s, baseURL)} // files use no idle connection
				}
			}
			connectortest.Run(t, connectortest.Suite{
				Secure: c.secure, NewAt: newAt, Class: job.Keyed, KeyHeader: "Idempotency-Key",
				Request:    func(string) connector.Request { return requestFor(t, e) },
				Credential: bearer(t, apiKey), Secrets: []string{apiKey},
				Success:  connectortest.Answer(200, success),
				Statuses: "`resend`",
			})
		})
	}
}

// world is a connector and a simulated platform.
type world struct {
	tb   testing.TB
	p    *resendtest.Platform
	c    connector.Connector
	cred connector.Credential
}

func newWorld(tb testing.TB, o resendtest.Options) *world {
	tb.Helper()
	p, err := resendtest.Start(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = p.Close() })
	sender := transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
	tb.Cleanup(sender.Close)
	return &world{tb: tb, p: p, c: newAt(tb, sender, p.URL()), cred: bearer(tb, apiKey)}
}

func (w *world) opening(e *fireoncev1.Email) connector.Opening {
	w.tb.Helper()
	prepared, err := w.c.Prepare(requestFor(w.tb, e))
	if err != nil {
		w.tb.Fatal(err)
	}
	return connector.Opening{Job: job.ID{1}, Connection: job.ID{2}, Class: job.Keyed, Credential: w.cred, Prepared: prepared}
}

func (w *world) publish(e *fireoncev1.Email, attempt int, limit time.Duration) job.Outcome {
	w.tb.Helper()
	s, err := w.c.Open(context.Background(), w.opening(e))
	if err != nil {
		w.tb.Fatal(err)
	}
	defer s.Close()
	by := time.Now().Add(limit)
	o := s.Publish(connector.Commit{Attempt: attempt, EffectKey: effectKey, SendBy: by, AnswerBy: by, MaySend: func() error { return nil }})
	if strings.Contains(o.Message, apiKey) || o.Message != transport.Clean(o.Message, transport.MaxMessage) {
		w.tb.Errorf("message %q", o.Message)
	}
	return o
}

const longTime = 2 * time.Minute

func check(tb testing.TB, o job.Outcome, result job.Result, kind job.FailureKind) {
	tb.Helper()
	if o.Result != result || o.Kind != kind {
		tb.Errorf("%s %s (%s), want %s %s", o.Result, o.Kind, o.Message, result, kind)
	}
}

// What is sent is what was written.
func TestContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, resendtest.Options{})
	e := usual()
	e.Bcc, e.ReplyTo = []string{"bcc@bücher.example"}, []string{"Zoë <zoe@example.org>"}
	o := w.publish(e, 1, longTime)
	check(t, o, job.ResultSucceeded, 0)
	sent := w.p.Sent()
	if len(sent) != 1 || sent[0].ID != o.ExternalID || sent[0].Key != effectKey {
		t.Fatalf("sent %+v, outcome %+v", sent, o)
	}
	got := sent[0]
	if got.From != "Ada <ada@example.org>" || !slices.Equal(got.To, []string{"bob@example.net"}) || !slices.Equal(got.CC, []string{`"Eve, too" <eve@example.net>`}) ||
		!slices.Equal(got.BCC, []string{"bcc@xn--bcher-kva.example"}) || !slices.Equal(got.ReplyTo, []string{"Zoë <zoe@example.org>"}) ||
		got.Subject != e.Subject || got.Text != e.TextBody || got.HTML != e.HtmlBody {
		t.Errorf("sent %+v", got)
	}
}

// Whatever becomes of the first answer, the repeat under the key settles it with
// one e-mail.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first resendtest.Answer
		limit time.Duration
	}{
		"reset after the effect":   {resendtest.Reset, longTime},
		"500 after the effect":     {resendtest.CommitFail, longTime},
		"silence after the effect": {resendtest.Silence, 300 * time.Millisecond},
		"lost before":              {resendtest.Drop, longTime},
		"500 before":               {resendtest.Fail, longTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, resendtest.Options{Plan: func(_ string, n int) resendtest.Answer {
				if n == 1 {
					return c.first
				}
				return resendtest.Reply
			}})
			check(t, w.publish(usual(), 1, c.limit), job.ResultUnknown, job.FailAmbiguous)
			o := w.publish(usual(), 2, longTime)
			check(t, o, job.ResultSucceeded, 0)
			if sent := w.p.Sent(); len(sent) != 1 || sent[0].ID != o.ExternalID {
				t.Errorf("sent %+v, bound to %q", sent, o.ExternalID)
			}
		})
	}
}

// A request that is at work is waited for.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, resendtest.Options{Plan: func(string, int) resendtest.Answer {
		close(began)
		<-release
		return resendtest.Reply
	}})
	first := make(chan job.Outcome)
	go func() { first <- w.publish(usual(), 1, longTime) }()
	<-began
	o := w.publish(usual(), 2, longTime)
	check(t, o, job.ResultUnknown, job.FailAmbiguous)
	if o.RetryAfter <= 0 {
		t.Errorf("retry after %v", o.RetryAfter)
	}
	close(release)
	check(t, <-first, job.ResultSucceeded, 0)
	check(t, w.publish(usual(), 3, longTime), job.ResultSucceeded, 0)
	if n := len(w.p.Sent()); n != 1 {
		t.Errorf("%d sent", n)
	}
}

// A key that was used for another e-mail proves nothing about this one.
func TestUsedKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, resendtest.Options{})
	check(t, w.publish(usual(), 1, longTime), job.ResultSucceeded, 0)
	other := usual()
	other.Subject = "Another"
	o := w.publish(other, 1, longTime)
	check(t, o, job.ResultUnknown, job.FailAmbiguous)
	if !strings.Contains(o.Message, "another e-mail was sent with this job's key") {
		t.Errorf("message %q", o.Message)
	}
}

// A key is forgotten after a day, which is why no repeat comes that late.
func TestKeyWindow(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var passed atomic.Int64
	w := newWorld(t, resendtest.Options{Now: func() time.Time { return began.Add(time.Duration(passed.Load())) }})
	check(t, w.publish(usual(), 1, longTime), job.ResultSucceeded, 0)
	capability, err := w.c.Check(nil, w.cred)
	if err != nil || capability.KeyWindow != resendtest.KeyWindow {
		t.Fatalf("%+v, %v", capability, err)
	}
	passed.Store(int64(capability.KeyWindow - time.Second))
	check(t, w.publish(usual(), 2, longTime), job.ResultSucceeded, 0)
	if n := len(w.p.Sent()); n != 1 {
		t.Errorf("%d sent inside the window", n)
	}
	passed.Store(int64(capability.KeyWindow))
	check(t, w.publish(usual(), 3, longTime), job.ResultSucceeded, 0)
	if n := len(w.p.Sent()); n != 2 {
		t.Errorf("%d sent after the window: it is longer than the platform's", n)
	}
}

// TestRefusals: what Resend's own names for a refusal mean.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status  int
		name    string
		headers []string
		want    job.FailureKind
		wait    time.Duration
	}{
		{400, "invalid_idempotency_key", nil, job.FailPermanent, 0},
		{400, "validation_error", nil, job.FailPermanent, 0},
		{401, "missing_api_key", nil, job.FailAuth, 0},
		{401, "restricted_api_key", nil, job.FailAuth, 0},
		{403, "invalid_api_key", nil, job.FailAuth, 0},
		{403, "validation_error", nil, job.FailPermanent, 0},
		{403, "", nil, job.FailPermanent, 0},
		{404, "not_found", nil, job.FailPermanent, 0},
		{409, "invalid_idempotent_request", nil, job.FailAmbiguous, 0},
		{409, "concurrent_idempotent_requests", nil, job.FailAmbiguous, transport.DefaultRetryAfter},
		{409, "concurrent_idempotent_requests", []string{"Retry-After: 3"}, job.FailAmbiguous, 3 * time.Second},
		{409, "what_is_this", nil, job.FailAmbiguous, 0},
		{422, "invalid_from_address", nil, job.FailPermanent, 0},
		{422, "missing_required_field", nil, job.FailPermanent, 0},
		{429, "rate_limit_exceeded", []string{"Retry-After: 2", "Ratelimit-Reset: 7"}, job.FailRateLimited, 2 * time.Second},
		{429, "rate_limit_exceeded", []string{"Ratelimit-Reset: 7"}, job.FailRateLimited, 7 * time.Second},
		{429, "rate_limit_exceeded", []string{"Ratelimit-Reset: soon"}, job.FailRateLimited, transport.DefaultRetryAfter},
		{429, "rate_limit_exceeded", []string{"Ratelimit-Reset: 0"}, job.FailRateLimited, transport.MinRetryAfter},
		{429, "daily_quota_exceeded", nil, job.FailRateLimited, time.Hour},
		{429, "daily_quota_exceeded", []string{"Ratelimit-Reset: 1"}, job.FailRateLimited, time.Hour},
		{429, "monthly_quota_exceeded", nil, job.FailRateLimited, 24 * time.Hour},
		{451, "security_error", nil, job.FailPermanent, 0},
		{500, "application_error", nil, job.FailAmbiguous, 0},
	} {
		t.Run(strings.Join(append([]string{c.name}, c.headers...), " "), func(t *testing.T) {
			t.Parallel()
			p := connectortest.NewPlatform(t, false, connectortest.Say(connectortest.Answer(c.status, resendtest.Failure(c.status, c.name, "words for a user"), c.headers...)))
			w := &world{tb: t, c: newAt(t, p.Sender(), p.URL()), cred: bearer(t, apiKey)}
			o := w.publish(usual(), 1, longTime)
			if o.Kind != c.want || o.RetryAfter != c.wait || (o.Result == job.ResultUnknown) != (c.want == job.FailAmbiguous) {
				t.Errorf("%s %s after %v, want %s after %v", o.Result, o.Kind, o.RetryAfter, c.want, c.wait)
			}
			if !strings.Contains(o.Message, "words for a user") {
				t.Errorf("message %q", o.Message)
			}
		})
	}
}

// A limit is waited for, and nothing was sent.
func TestLimits(t *testing.T) {
	t.Parallel()
	answers := []resendtest.Answer{resendtest.RateLimit, resendtest.DayQuota, resendtest.Reply}
	w := newWorld(t, resendtest.Options{Plan: func(_ string, n int) resendtest.Answer { return answers[n-1] }})
	for n, wait := range []time.Duration{time.Second, time.Hour} {
		o := w.publish(usual(), n+1, longTime)
		check(t, o, job.ResultRejected, job.FailRateLimited)
		if o.RetryAfter != wait {
			t.Errorf("wait %v, want %v", o.RetryAfter, wait)
		}
	}
	check(t, w.publish(usual(), 3, longTime), job.ResultSucceeded, 0)
	if len(w.p.Sent()) != 1 || w.p.Requests(effectKey) != 3 {
		t.Errorf("%d sent of %d requests", len(w.p.Sent()), w.p.Requests(effectKey))
	}
}

// A success needs an id.
func TestSuccess(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]job.Result{
		connectortest.Answer(200, success):                  job.ResultSucceeded,
		connectortest.Answer(201, success):                  job.ResultSucceeded,
		connectortest.Answer(202, success):                  job.ResultUnknown,
		connectortest.Answer(200, `{"id":""}`):              job.ResultUnknown,
		connectortest.Answer(200, `{"id":"a b"}`):           job.ResultUnknown,
		connectortest.Answer(200, `{"data":{"id":"a"}}`):    job.ResultUnknown,
		connectortest.Answer(200, "<html>Please log in"):    job.ResultUnknown,
		connectortest.Answer(200, `{"id":"abc","object":1`): job.ResultUnknown,
	} {
		p := connectortest.NewPlatform(t, false, connectortest.Say(raw))
		w := &world{tb: t, c: newAt(t, p.Sender(), p.URL()), cred: bearer(t, apiKey)}
		if o := w.publish(usual(), 1, longTime); o.Result != want {
			t.Errorf("%q: %s (%s), want %s", raw, o.Result, o.Message, want)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	t.Parallel()
	c := newAt(t, nil, "")
	for field, change := range map[string]func(*fireoncev1.Email, *connector.Request){
		".to":      func(e *fireoncev1.Email, _ *connector.Request) { e.To = nil },
		".subject": func(e *fireoncev1.Email, _ *connector.Request) { e.Subject = "" },
		"":         func(e *fireoncev1.Email, _ *connector.Request) { e.TextBody, e.HtmlBody = "", "" },
		".sender":  func(e *fireoncev1.Email, _ *connector.Request) { e.Sender = "ä@example.org" },
		".cc":      func(e *fireoncev1.Email, _ *connector.Request) { e.Cc = []string{"ä@example.org"} },
	} {
		e := usual()
		r := connector.Request{}
		change(e, &r)
		_, err := c.Prepare(requestFor(t, e))
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadPayload || input.Field != "payload.email"+field {
			t.Errorf("%q: %v", field, err)
		}
	}
	r := requestFor(t, usual())
	r.ReplyTo = "49a3999c"
	var input *connector.InputError
	if _, err := c.Prepare(r); !errors.As(err, &input) {
		t.Errorf("a reply: %v", err)
	}
	if _, err := resend.New(resend.Config{BaseURL: "ftp://example.org"}); err == nil {
		t.Error("a base URL that is none was taken")
	}
	one, err := c.Prepare(requestFor(t, usual()))
	if err != nil || !bytes.Contains(one.Frozen, []byte(`"subject":"Hello <you> & 漢字"`)) {
		t.Errorf("%q, %v", one.Frozen, err)
	}
}

// The test of a connection reads, and sends nothing.
func TestTester(t *testing.T) {
	t.Parallel()
	w := newWorld(t, resendtest.Options{APIKeys: map[string]bool{"full": false, "sending": true}, Domain: "example.org"})
	tester := w.c.(connector.Tester)
	for key, want := range map[string]string{"full": "example.org", "sending": "may send and do nothing else"} {
		got, err := tester.Test(t.Context(), connector.Opening{Credential: bearer(t, key)})
		if err != nil || !strings.Contains(got.Detail, want) {
			t.Errorf("%s: %+v, %v", key, got, err)
		}
	}
	for _, cred := range []connector.Credential{bearer(t, apiKey), {}} {
		_, err := tester.Test(t.Context(), connector.Opening{Credential: cred})
		var refusal *connector.Refusal
		if !errors.As(err, &refusal) || refusal.Kind != job.FailAuth || strings.Contains(err.Error(), apiKey) {
			t.Errorf("%v", err)
		}
	}
	_ = w.p.Close()
	_, err := tester.Test(t.Context(), connector.Opening{Credential: w.cred})
	var refusal *connector.Refusal
	if !errors.As(err, &refusal) || refusal.Kind != job.FailTransient {
		t.Errorf("nobody listens: %v", err)
	}
	if len(w.p.Sent()) != 0 {
		t.Error("something was sent")
	}
}
