package server_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/server"
)

// TestOneReceiver: spellings of one host are one receiver of effect keys, and others are not.
func TestOneReceiver(t *testing.T) {
	t.Parallel()
	of := func(url string) string {
		u, err := transport.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		return server.ReceiverOf("http", transport.TargetOf(u).String())
	}
	for want, same := range map[string][]string{
		"host xn--bcher-kva.example": {
			"http://BÜCHER.example", "https://bücher.example/größe", "https://xn--bcher-kva.example:443/x", "http://XN--BCHER-KVA.EXAMPLE./", "https://b%C3%BCcher。example/",
			"http://bu\u0308cher.example:80/?[a]",
		},
		"host xn--r8jz45g.xn--zckzah:8443": {"https://例え.テスト:8443/", "http://XN--R8JZ45G.xn--zckzah.:8443"},
		"host 127.0.0.1:8080":              {"http://127.0.0.1:8080/a", "http://１２７.０.０.１:8080/"},
		"host ::1":                         {"http://[::1]/", "https://[0:0::1]:443/"},
		"host bucher.example":              {"https://bucher.example/"},
		"host xn--bcher-kva.example:8080":  {"https://bücher.example:8080/"},
	} {
		for _, url := range same {
			if got := of(url); got != want {
				t.Errorf("%s: %s, want %s", url, got, want)
			}
		}
	}
	for holdKey, want := range map[string]string{ // of custom connectors, which choose their own
		"https://BÜCHER.example": "host xn--bcher-kva.example", "HTTPS://API.Example:8443": "host api.example:8443", "any text": "any text", "https://a b/": "https://a b/",
		"account": "connector custom",
	} {
		if got := server.ReceiverOf("custom", holdKey); got != want {
			t.Errorf("%s: %s, want %s", holdKey, got, want)
		}
	}
}

// TestOneDestination: a credential stays where its connection's server is spelled in another way.
func TestOneDestination(t *testing.T) {
	t.Parallel()
	encode := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	base := func(url string) []byte { return encode(&connectionsv1.MastodonSettings{BaseUrl: url}) }
	relay := func(host string) []byte { return encode(&connectionsv1.SmtpSettings{Host: host}) }
	origins := func(urls ...string) []byte { return encode(&connectionsv1.HttpSettings{Origins: urls}) }
	for _, c := range []struct {
		connector     string
		old, settings []byte
		differs       bool
	}{
		{"mastodon", base("https://bücher.example/Ann"), base("HTTPS://xn--BCHER-kva.example:443/Ann"), false},
		{"mastodon", base("https://bücher.example/ä"), base("https://bücher.example/%C3%A4"), false},
		{"mastodon", base("https://bücher.example"), base("https://bucher.example"), true},
		{"mastodon", base("https://bücher.example"), base("https://bücher.example:8443"), true},
		{"mastodon", base("https://bücher.example/ä"), base("https://bücher.example/a"), true},
		{"smtp", relay("post.BÜCHER.example"), relay("post.xn--bcher-kva.example"), false},
		{"smtp", relay("post.bücher.example"), relay("post.bucher.example"), true},
		{"smtp", relay("2001:DB8::1"), relay("2001:db8::1"), false},
		{"http", origins("https://例え.テスト"), origins("https://xn--r8jz45g.xn--zckzah/"), false},
		{"http", origins("https://例え.テスト"), origins("https://例え.example"), true},
	} {
		if got := server.NamesNewDestination(c.connector, c.old, c.settings); got != c.differs {
			t.Errorf("%s: %q and %q: %v", c.connector, c.old, c.settings, got)
		}
	}
}

// TestURLsAreReturnedAsTyped: what a job has is what was typed, and its repeat is known by that.
func TestURLsAreReturnedAsTyped(t *testing.T) {
	t.Parallel()
	f := start(t)
	for i, url := range []string{"HTTPS://BÜCHER.example/größe?filter[a]={b}|c", "http://例え.テスト/ページ", "https://xn--bcher-kva.example/%c3%bc?a=%", "http://דוגמה.example:8080"} {
		key := string(rune('a' + i))
		with := func(url string) *scheduleRequest {
			return f.request(key, func(r *scheduleRequest) {
				r.Payload = toURL(url)
			})
		}
		c := overConnect(f)
		j, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, with(url))
		if err != nil || j.GetJob().GetPayload().GetWebhook().GetUrl() != url {
			t.Fatalf("%s: %v, %v", url, j, err)
		}
		again, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, with(url))
		if err != nil || again.GetCreated() {
			t.Errorf("%s: the repeat: %v, %v", url, again, err)
		}
		u, err := transport.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, with(u.String()))
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
	}
	for url, words := range map[string]string{"https://a b/": "U+0020", "https://u@a/": "user info", `https://a\\b`: "backslash", "gopher://a/": "http://", "https://a/#b": "fragment"} {
		_, answer := f.do(http.MethodPost, scheduleJob, `{"idempotencyKey": "z", "connectionId": "`+f.conn+`", "payload": {"webhook": {"url": "`+url+`"}}}`,
			map[string]string{"Content-Type": "application/json"})
		if strings.Count(answer, `"field":"payload.webhook.url"`) != 1 || !strings.Contains(answer, words) {
			t.Errorf("%s: %s", url, answer)
		}
	}
}

func toURL(url string) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{Url: url}}}
}

// TestPlaceholdersInURLs: a template keeps them as typed, and its repeat is known by that.
func TestPlaceholdersInURLs(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := overConnect(f)
	with := func(url string) *createScheduleRequest {
		return f.newSchedule("k", func(r *createScheduleRequest) { r.JobTemplate.Content = contentOf(toURL(url)) })
	}
	const url = "https://bücher.example/{{zone}}/{{nominal_date}}?n={{run}}&{{{{x}}"
	made, err := ask[schedulesv1.CreateScheduleResponse](t, c, schedsPath+"CreateSchedule", with(url))
	if err != nil || made.GetSchedule().GetJobTemplate().GetPayload().GetWebhook().GetUrl() != url {
		t.Fatalf("%v, %v", made, err)
	}
	again, err := ask[schedulesv1.CreateScheduleResponse](t, c, schedsPath+"CreateSchedule", with(url))
	if err != nil || again.GetCreated() {
		t.Errorf("the repeat: %v, %v", again, err)
	}
	_, err = ask[schedulesv1.CreateScheduleResponse](t, c, schedsPath+"CreateSchedule", with("https://xn--bcher-kva.example/{{zone}}/{{nominal_date}}?n={{run}}&{{{{x}}"))
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
}
