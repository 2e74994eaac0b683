package webhook_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/connector/webhook"
	"github.com/fireonce/fireonce/internal/job"
)

// TestURLsOfEveryScript sends to hosts, paths and queries as people type them, over real sockets and
// with a real name server, and compares what the receiver reads of them.
func TestURLsOfEveryScript(t *testing.T) {
	var mu sync.Mutex
	var requests []*http.Request
	secret := secretOf(1, 24)
	signed := true
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		requests = append(requests, r)
		wh, err := standardwebhooks.NewWebhook(secret)
		signed = signed && err == nil && wh.Verify([]byte("{}"), r.Header) == nil
	}))
	t.Cleanup(receiver.Close)
	_, port, err := net.SplitHostPort(receiver.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	names := connectortest.NewNames(t)
	sender := transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8")), Resolver: names.Resolver(), Version: "test"})
	t.Cleanup(sender.Close)
	for script, c := range map[string]struct{ host, ascii, rest, path, query string }{
		"German":   {"bücher.example", "xn--bcher-kva.example", "/größe?q=ü", "/größe", "q=ü"},
		"capital":  {"BÜCHER.Example", "xn--bcher-kva.example", "/GRÖSSE", "/GRÖSSE", ""},
		"Japanese": {"例え.テスト", "xn--r8jz45g.xn--zckzah", "/ページ?名=値", "/ページ", "名=値"},
		"Arabic":   {"مثال.إختبار", "xn--mgbh0fb.xn--kgbechtv", "/صفحة?س=١", "/صفحة", "س=١"},
		"Hebrew":   {"דוגמה.example", "xn--6dbbec0c.example", "/עמוד?a=ב", "/עמוד", "a=ב"},
		"Hindi":    {"उदाहरण.परीक्षा", "xn--p1b6ci4b4b3a.xn--11b5bs3a9aj6g", "/मुख्य", "/मुख्य", ""},
		"Thai":     {"ตัวอย่าง.example", "xn--72c1a1bt4awk9o.example", "/หน้า", "/หน้า", ""},
		"Korean":   {"실례.테스트", "xn--9n2bp8q.xn--9t4b11yi5a", "/대문?가=나", "/대문", "가=나"},
		"Russian":  {"пример.испытание", "xn--e1afmkfd.xn--80akhbyknj4f", "/Страница", "/Страница", ""},
		"Greek":    {"παράδειγμα.δοκιμή", "xn--hxajbheg2az3al.xn--jxalpdlp", "/Σελίδα", "/Σελίδα", ""},
		"Georgian": {"მაგალითი.example", "xn--lodafveble.example", "/გვერდი", "/გვერდი", ""},
		"Amharic":  {"ምሳሌ.example", "xn--mxd7a1d.example", "/ገጽ", "/ገጽ", ""},
		"Chinese":  {"例子。测试", "xn--fsqu00a.xn--0zwm56d", "/页面", "/页面", ""},
		"Armenian": {"օրինակ.example", "xn--y9atn0a2c3a.example", "/էջ", "/էջ", ""},
		"emoji":    {"💩.example", "xn--ls8h.example", "/🦄?👩\u200d🚀=❤\ufe0f", "/🦄", "👩\u200d🚀=❤\ufe0f"},
		"brackets": {"example.com", "example.com", "/[a]/{b}|c?filter[name]={\"x\":[1]}|2^`", "/[a]/{b}|c", "filter[name]={\"x\":[1]}|2^`"},
		"escapes":  {"example.com", "example.com", "/a%2Fb%20c/ü?d=%26+e", "/a/b c/ü", "d=& e"},
		"per cent": {"example.com", "example.com", "/100%?rate=5%", "/100%", "rate=5%"},
	} {
		mu.Lock()
		requests = nil
		mu.Unlock()
		link := "HTTP://" + c.host + ":" + port + c.rest
		settings := encode(t, &connectionsv1.WebhookSettings{Origins: []string{"http://" + c.host + ":" + port}})
		conn := webhook.New(webhook.Config{Sender: sender})
		prepared, err := conn.Prepare(connector.Request{
			EffectKey: effectKey, Settings: settings, PayloadKind: webhook.Name,
			Payload: payloadOf(t, &fireoncev1.Webhook{Url: link, Content: &fireoncev1.Webhook_BodyText{BodyText: "{}"}}),
		})
		if err != nil {
			t.Errorf("%s: %v", script, err)
			continue
		}
		if want := "http://" + c.ascii + ":" + port; prepared.HoldKey != want {
			t.Errorf("%s: held by %s, want %s", script, prepared.HoldKey, want)
		}
		s, err := conn.Open(t.Context(), connector.Opening{Class: job.Opaque, Settings: settings, Credential: credentialOf(t, []string{secret}), Prepared: prepared, Fresh: true})
		if err != nil {
			t.Errorf("%s: %v", script, err)
			continue
		}
		at := time.Now().Add(30 * time.Second)
		o := s.Publish(connector.Commit{Attempt: 1, EffectKey: effectKey, SendBy: at, AnswerBy: at})
		s.Close()
		mu.Lock()
		if o.Result != job.ResultSucceeded || len(requests) != 1 || !signed {
			t.Fatalf("%s: %s %s, %d requests, signed: %v", script, o.Result, o.Message, len(requests), signed)
		}
		got := requests[0]
		mu.Unlock()
		query, err := url.QueryUnescape(got.URL.RawQuery)
		if err != nil || got.Host != c.ascii+":"+port || got.URL.Path != c.path || query != c.query || strings.ContainsAny(got.RequestURI, "[]{}|^`\" ") {
			t.Errorf("%s: the receiver got %s of %s: %q and %q", script, got.RequestURI, got.Host, got.URL.Path, query)
		}
		if !slices.Contains(names.Asked(), c.ascii) {
			t.Errorf("%s: %s was not asked for", script, c.ascii)
		}
	}
	for _, name := range names.Asked() {
		if strings.IndexFunc(name, func(r rune) bool { return r >= 0x80 }) >= 0 {
			t.Errorf("%q was asked for", name)
		}
	}
}

// TestEgressOfMappedHosts: the policy sees the address that is dialed, however its host was typed.
func TestEgressOfMappedHosts(t *testing.T) {
	names := connectortest.NewNames(t)
	sender := transport.NewSender(transport.Config{Egress: transport.NewEgress(), Resolver: names.Resolver(), Version: "test"})
	t.Cleanup(sender.Close)
	for host, kind := range map[string]job.FailureKind{
		"http://１２７.０.０.１:9/": job.FailEgressDenied, "http://127。0。0。1:9/": job.FailEgressDenied, "http://①⑥⑨.254.169.254/": job.FailEgressDenied,
		"http://ｌｏｃａｌｈｏｓｔ:9/": job.FailTransient, "http://bücher.example:9/": job.FailTransient, "http://[::ffff:127.0.0.1]:9/": job.FailEgressDenied,
	} {
		u, err := transport.ParseURL(host)
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		_, err = sender.Open(t.Context(), transport.TargetOf(u), true)
		if refused, ok := errors.AsType[*connector.Refusal](err); !ok || refused.Kind != kind {
			t.Errorf("%s: %v, want %s", host, err, kind)
		}
	}
}
