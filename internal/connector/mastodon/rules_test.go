package mastodon_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/mastodon"
	"github.com/fireonce/fireonce/internal/job"
)

func TestTraits(t *testing.T) {
	c := mastodon.New(mastodon.Config{})
	keyed := job.Traits{Class: job.Keyed, KeyWindow: time.Hour}
	looked := job.Traits{Class: job.Observable, ReadLag: time.Minute, Negatives: 2, Spacing: 5 * time.Minute}
	either := looked
	either.KeyWindow = time.Hour // of jobs that were sent to a server that was found to dedupe
	for dedupes, want := range map[connectionsv1.ReceiverDedupes]job.Traits{yes: keyed, no: looked, unset: either} {
		settings := settingsOf(t, "https://social.example", dedupes)
		got, err := c.Check(settings, bearer(t, token))
		if err != nil || got.Traits != want || got.Unsure != (dedupes == unset) {
			t.Errorf("%v: %+v, %v", dedupes, got, err)
		}
		if traits, err := c.Traits(settings); err != nil || traits != want {
			t.Errorf("%v: %+v, %v", dedupes, traits, err)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	c := mastodon.New(mastodon.Config{HTTPSOnly: true})
	for name, base := range map[string]string{
		"none": "", "http": "http://social.example", "user": "https://a:b@social.example", "query": "https://social.example?a=b", "no host": "https:///a",
		"a page": "https://social.example/@ada", "an API": "https://social.example/api/v1", "an actor": "https://social.example/users/ada",
	} {
		_, err := c.Check(settingsOf(t, base, yes), bearer(t, token))
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadSettings || input.Field != "settings.mastodon.base_url" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, cred := range map[string]*connectionsv1.Credential{
		"none":      {},
		"basic":     {Kind: &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: "ada", Password: "secret-word"}}},
		"bad token": {Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: "secret\nsecret"}}},
		"headers":   {Headers: []*connectionsv1.SecretHeader{{Name: "X-A", Value: "secret-header"}}},
	} {
		_, err := c.Check(settingsOf(t, "https://social.example", yes), connector.Credential{Data: encode(t, cred)})
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadCredential || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	c := mastodon.New(mastodon.Config{})
	for name, r := range map[string]struct {
		post    *fireoncev1.SocialPost
		replyTo string
		field   string
		reason  connector.InputReason
	}{
		"blank":       {&fireoncev1.SocialPost{Text: " \u2028\n"}, "", ".text", connector.BadPayload},
		"long":        {&fireoncev1.SocialPost{Text: strings.Repeat("ü", mastodon.MaxText+1)}, "", ".text", connector.BadPayload},
		"a reply URL": {&fireoncev1.SocialPost{Text: "x", ReplyToId: "https://social.example/@a/1"}, "", ".reply_to_id", connector.BadPayload},
		"two replies": {&fireoncev1.SocialPost{Text: "x", ReplyToId: "1"}, "2", ".reply_to_id", connector.BadPayload},
		"another's":   {&fireoncev1.SocialPost{Text: "x"}, "at://did:plc:a/b/c", "", connector.BadPayload},
		"language":    {&fireoncev1.SocialPost{Text: "x", Language: "-"}, "", ".language", connector.BadPayload},
		"options": {
			&fireoncev1.SocialPost{Text: "x", PlatformOptions: &fireoncev1.SocialPost_X{X: &fireoncev1.XOptions{}}}, "", "", connector.PayloadMismatch,
		},
		"visibility": {&fireoncev1.SocialPost{Text: "x", PlatformOptions: &fireoncev1.SocialPost_Mastodon{
			Mastodon: &fireoncev1.MastodonOptions{Visibility: 99},
		}}, "", ".mastodon.visibility", connector.BadPayload},
	} {
		request := requestOf(t, "https://social.example", no, r.post)
		request.ReplyTo = r.replyTo
		_, err := c.Prepare(request)
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != r.reason || input.Field != "payload.social_post"+r.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGate: posts that a look cannot tell apart are gated together, others are not;
// a server that dedupes needs no gate.
func TestGate(t *testing.T) {
	c := mastodon.New(mastodon.Config{})
	gate := func(dedupes connectionsv1.ReceiverDedupes, p *fireoncev1.SocialPost) string {
		got, err := c.Prepare(requestOf(t, "https://social.example", dedupes, p))
		if err != nil {
			t.Fatal(err)
		}
		return string(got.Gate)
	}
	warned := func(text, warning string, v fireoncev1.MastodonOptions_Visibility) *fireoncev1.SocialPost {
		return &fireoncev1.SocialPost{Text: text, PlatformOptions: &fireoncev1.SocialPost_Mastodon{
			Mastodon: &fireoncev1.MastodonOptions{ContentWarning: warning, Visibility: v},
		}}
	}
	first := gate(no, &fireoncev1.SocialPost{Text: text})
	if gate(yes, &fireoncev1.SocialPost{Text: text}) != "" || gate(unset, &fireoncev1.SocialPost{Text: text}) != first {
		t.Error("a gate for the wrong class")
	}
	for name, same := range map[string]*fireoncev1.SocialPost{
		"white space":                         {Text: " " + strings.ReplaceAll(text, " ", "\n") + " "},
		"another form of the same characters": {Text: "Gru\u0308ße aus Ko\u0308ln"},
		"visibility":                          warned(text, "", fireoncev1.MastodonOptions_VISIBILITY_PRIVATE),
	} {
		if gate(no, same) != first {
			t.Errorf("%s makes another post", name)
		}
	}
	for name, other := range map[string]*fireoncev1.SocialPost{
		"text": {Text: text + "!"}, "reply": {Text: text, ReplyToId: "1"}, "warning": warned(text, "w", 0),
	} {
		if gate(no, other) == first {
			t.Errorf("another %s, the same gate", name)
		}
	}
}

// TestCommit: what is sent, and under which key.
func TestCommit(t *testing.T) {
	p := connectortest.NewPlatform(t, false, connectortest.Say(connectortest.Answer(200, `{"id":"1"}`)))
	c := mastodon.New(mastodon.Config{Sender: p.Sender()})
	r := requestOf(t, p.URL(), no, &fireoncev1.SocialPost{
		Text: text, Language: "pt-br", ReplyToId: "42", PlatformOptions: &fireoncev1.SocialPost_Mastodon{Mastodon: &fireoncev1.MastodonOptions{
			Visibility: fireoncev1.MastodonOptions_VISIBILITY_PRIVATE, ContentWarning: "<w>", Sensitive: true,
		}},
	})
	o := publish(t, c, r, job.Observable)
	got := p.Requests()
	const body = `{"status":"Grüße aus Köln","in_reply_to_id":"42","spoiler_text":"\u003cw\u003e","sensitive":true,"visibility":"private","language":"pt-BR"}`
	if o.ExternalID != "1" || len(got) != 1 || string(got[0].Body) != body || got[0].Get("Idempotency-Key") != effectKey ||
		got[0].Get("Authorization") != "Bearer "+token || got[0].Line != "POST /api/v1/statuses HTTP/1.1" {
		t.Errorf("%+v: %s\n%s%s", o, got[0].Line, got[0].Head, got[0].Body)
	}
}

func publish(t *testing.T, c *mastodon.Connector, r connector.Request, class job.Class) job.Outcome {
	t.Helper()
	prepared, err := c.Prepare(r)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Open(t.Context(), connector.Opening{Settings: r.Settings, Class: class, Credential: bearer(t, token), Prepared: prepared, Fresh: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := time.Now().Add(30 * time.Second)
	return s.Publish(connector.Commit{Attempt: 1, EffectKey: effectKey, SendBy: at, AnswerBy: at})
}

func TestErrors(t *testing.T) {
	reset := "X-RateLimit-Reset: " + time.Now().Add(5*time.Minute).UTC().Format("2006-01-02T15:04:05.000000Z")
	for name, c := range map[string]struct {
		answer string
		result job.Result
		kind   job.FailureKind
		words  string
	}{
		"too long":    {connectortest.Answer(422, `{"error":"Validation failed: Text character limit of 500 exceeded"}`), job.ResultRejected, job.FailPermanent, "character limit of 500"},
		"no parent":   {connectortest.Answer(404, `{"error":"Record not found"}`), job.ResultRejected, job.FailPermanent, "Record not found"},
		"401":         {connectortest.Answer(401, `{"error":"The access token is invalid"}`), job.ResultRejected, job.FailAuth, "reconnect this Mastodon account"},
		"scope":       {connectortest.Answer(403, `{"error":"This action is outside the authorized scopes"}`), job.ResultRejected, job.FailAuth, "reconnect this Mastodon account"},
		"limited":     {connectortest.Answer(429, `{"error":"Too many requests"}`, reset), job.ResultRejected, job.FailRateLimited, "Too many"},
		"500":         {connectortest.Answer(500, `{"error":"We're sorry"}`), job.ResultUnknown, job.FailAmbiguous, "500"},
		"503":         {connectortest.Answer(503, `{"error":"There was a temporary problem"}`), job.ResultUnknown, job.FailAmbiguous, "503"},
		"queued":      {connectortest.Answer(202, `{"id":"1"}`), job.ResultUnknown, job.FailAmbiguous, "without the id"},
		"a bad id":    {connectortest.Answer(200, `{"id":"../1"}`), job.ResultUnknown, job.FailAmbiguous, "without the id"},
		"another URL": {connectortest.Answer(200, `{"id":"1","url":"javascript:alert(1)"}`), job.ResultSucceeded, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := connectortest.NewPlatform(t, false, connectortest.Say(c.answer))
			o := publish(t, mastodon.New(mastodon.Config{Sender: p.Sender()}), requestOf(t, p.URL(), yes, &fireoncev1.SocialPost{Text: text}), job.Keyed)
			if o.Result != c.result || o.Kind != c.kind || !strings.Contains(o.Message, c.words) || o.ExternalURL != "" {
				t.Errorf("%s %s: %s", o.Result, o.Kind, o.Message)
			}
			if o.Kind == job.FailRateLimited && (o.RetryAfter < 4*time.Minute || o.RetryAfter > 5*time.Minute) {
				t.Errorf("retry after %v", o.RetryAfter)
			}
		})
	}
}

// TestProbe: only what plainly says that it is Mastodon is taken for a server that
// dedupes.
func TestProbe(t *testing.T) {
	const self, index = "https://github.com/mastodon/mastodon", "/.well-known/nodeinfo"
	v2 := func(version, source string) map[string]string {
		return map[string]string{"/api/v2/instance": fmt.Sprintf(`{"version":%q,"source_url":%q}`, version, source)}
	}
	old := func(version, software string) map[string]string {
		return map[string]string{
			"/api/v1/instance": fmt.Sprintf(`{"version":%q}`, version),
			index:              `{"links":[{"rel":"http://nodeinfo.diaspora.software/ns/schema/2.0","href":"BASE/nodeinfo/2.0"}]}`,
			"/nodeinfo/2.0":    fmt.Sprintf(`{"software":{"name":%q}}`, software),
		}
	}
	elsewhere := old("3.5.19", "mastodon")
	elsewhere[index] = `{"links":[{"rel":"http://nodeinfo.diaspora.software/ns/schema/2.0","href":"https://other.example/nodeinfo/2.0"}]}`
	for name, c := range map[string]struct {
		answers map[string]string
		keyed   bool
	}{
		"Mastodon":                {v2("4.5.2", self), true},
		"a candidate":             {v2("4.6.0-rc.1", self), true},
		"a nightly":               {v2("4.6.0-nightly.2026-11-20", self), true},
		"Mastodon of old":         {old("3.5.19", "mastodon"), true},
		"GoToSocial":              {v2("0.20.2+git-abcdef0", "https://codeberg.org/superseriousbusiness/gotosocial"), false},
		"Pleroma":                 {v2("2.7.2 (compatible; Pleroma 2.9.1)", self), false},
		"a fork":                  {v2("4.5.2+glitch", "https://github.com/glitch-soc/mastodon"), false},
		"a fork that says less":   {v2("4.5.2", "https://git.example/mastodon"), false},
		"Pleroma of old":          {old("2.7.2 (compatible; Pleroma 2.2.0)", "pleroma"), false},
		"a relative by NodeInfo":  {old("3.5.19", "hometown"), false},
		"NodeInfo of another one": {elsewhere, false},
		"nothing":                 {nil, false},
		"something else":          {map[string]string{"/api/v2/instance": `[]`, "/api/v1/instance": `<html>`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := connectortest.NewPlatform(t, false, connectortest.Script{Do: func(conn *connectortest.Conn) {
				body, ok := c.answers[strings.Fields(conn.Request.Line)[1]]
				if !ok {
					conn.Write(connectortest.Answer(404, `{"error":"Not Found"}`))
					return
				}
				conn.Write(connectortest.Answer(200, strings.ReplaceAll(body, "BASE", "http://"+conn.Request.Get("Host"))))
			}})
			now := time.Now()
			m := mastodon.New(mastodon.Config{Sender: p.Sender(), Now: func() time.Time { return now }})
			o := connector.Opening{Settings: settingsOf(t, p.URL(), unset), Credential: bearer(t, token)}
			first, err := m.Probe(t.Context(), o)
			if err != nil || (first.Class == job.Keyed) != c.keyed || (first.KeyWindow == time.Hour) != c.keyed {
				t.Fatalf("%+v, %v", first, err)
			}
			asked := p.Started()
			now = now.Add(59 * time.Minute)
			if again, err := m.Probe(t.Context(), o); err != nil || again != first || p.Started() != asked {
				t.Errorf("asked again: %+v, %v", again, err)
			}
			now = now.Add(2 * time.Minute)
			if again, err := m.Probe(t.Context(), o); err != nil || again != first || p.Started() != 2*asked {
				t.Errorf("not asked again after an hour: %+v, %v", again, err)
			}
			for _, r := range p.Requests() {
				if !strings.HasPrefix(r.Line, "GET ") {
					t.Errorf("a probe sent %q", r.Line)
				}
			}
		})
	}
	for name, c := range map[string]struct {
		code int
		kind job.FailureKind
	}{"401": {401, job.FailAuth}, "429": {429, job.FailRateLimited}, "503": {503, job.FailTransient}} {
		p := connectortest.NewPlatform(t, false, connectortest.Status(c.code), connectortest.Say(connectortest.Answer(200, `{"version":"4.5.2","source_url":"`+self+`"}`)))
		m := mastodon.New(mastodon.Config{Sender: p.Sender()})
		o := connector.Opening{Settings: settingsOf(t, p.URL(), unset), Credential: bearer(t, token)}
		_, err := m.Probe(t.Context(), o)
		var refusal *connector.Refusal
		if !errors.As(err, &refusal) || refusal.Kind != c.kind {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := m.Probe(t.Context(), o); err != nil || got.Class != job.Keyed {
			t.Errorf("%s is no word on what it is: %+v, %v", name, got, err)
		}
	}
}

func TestTester(t *testing.T) {
	answers := []string{
		connectortest.Answer(200, `{"id":"7","acct":"ada","url":"https://social.example/@ada"}`), connectortest.Answer(200, `{"id":"7","acct":"ada"}`),
		connectortest.Answer(401, ""), connectortest.Answer(200, `{}`),
	}
	p := connectortest.NewPlatform(t, false, connectortest.Script{Do: func(conn *connectortest.Conn) {
		if strings.Contains(conn.Request.Line, "/api/v2/instance") { // what it says of itself is of no account
			conn.Write(connectortest.Answer(500, ""))
			return
		}
		conn.Write(answers[0])
		answers = answers[1:]
	}})
	c := mastodon.New(mastodon.Config{Sender: p.Sender()})
	o := connector.Opening{Settings: settingsOf(t, p.URL(), yes), Credential: bearer(t, token)}
	for _, want := range []string{p.URL() + "/accounts/7", p.URL() + "/accounts/7"} {
		if got, err := c.Test(t.Context(), o); err != nil || got.Identity != want || !strings.Contains(got.Detail, "@ada") {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, want := range []job.FailureKind{job.FailAuth, job.FailTransient} {
		_, err := c.Test(t.Context(), o)
		var refusal *connector.Refusal
		if !errors.As(err, &refusal) || refusal.Kind != want {
			t.Errorf("%v, want a Refusal of kind %s", err, want)
		}
	}
}

// TestAccountIsItsServers: the party that names a server may also run it. Such a server
// cannot make its posts count as those of another server's account.
func TestAccountIsItsServers(t *testing.T) {
	var page atomic.Value
	p := connectortest.NewPlatform(t, false, connectortest.Script{Do: func(c *connectortest.Conn) {
		c.Write(connectortest.Answer(200, fmt.Sprintf(`{"id":"7","acct":"ada","url":%q}`, page.Load())))
	}})
	c := mastodon.New(mastodon.Config{Sender: p.Sender()})
	o := connector.Opening{Settings: settingsOf(t, p.URL(), yes), Credential: bearer(t, token)}
	own := p.URL() + "/accounts/7"
	for said, want := range map[string]string{
		p.URL() + "/@ada": p.URL() + "/@ada", "https://social.example/@ada": own, "http://127.0.0.1:1/@ada": own,
		strings.Replace(p.URL(), "http:", "https:", 1) + "/@ada": own, "//social.example/@ada": own, "javascript:ada": own, "": own,
	} {
		page.Store(said)
		if got, err := c.Test(t.Context(), o); err != nil || got.Identity != want {
			t.Errorf("%q: %+v, %v; want %s", said, got, err, want)
		}
	}
}

// TestPrepareMedia: what can be known of files before they are fetched.
func TestPrepareMedia(t *testing.T) {
	fetcher := kit.NewMedia(kit.MediaConfig{})
	ref := &fireoncev1.MediaRef{Url: "https://files.example/a"}
	for name, c := range map[string]struct {
		fetcher *kit.Media
		media   []*fireoncev1.MediaRef
		field   string
	}{
		"nobody fetches": {nil, []*fireoncev1.MediaRef{ref}, ".media"},
		"five":           {fetcher, []*fireoncev1.MediaRef{ref, ref, ref, ref, ref}, ".media"},
		"no file at all": {fetcher, []*fireoncev1.MediaRef{ref, {Url: "ftp://files.example/a"}}, ".media[1].url"},
		"another kind":   {fetcher, []*fireoncev1.MediaRef{{Url: ref.GetUrl(), MediaType: "text/html"}}, ".media[0].media_type"},
		"four":           {fetcher, []*fireoncev1.MediaRef{ref, ref, ref, ref}, ""},
	} {
		got, err := mastodon.New(mastodon.Config{Media: c.fetcher}).Prepare(requestOf(t, "https://social.example", no, &fireoncev1.SocialPost{Media: c.media}))
		if c.field == "" {
			if err != nil || got.OpenTime <= time.Minute {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadPayload || input.Field != "payload.social_post"+c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}
