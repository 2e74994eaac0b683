package feed_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/feed"
	"github.com/fireonce/fireonce/internal/connector/feed/feedtest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

func TestTraits(t *testing.T) {
	c := feed.New(feed.Config{})
	for lag, want := range map[*durationpb.Duration]job.Traits{
		nil:                                    {Class: job.Observable, ReadLag: time.Minute, Negatives: 2, Spacing: 5 * time.Minute},
		durationpb.New(0):                      {Class: job.Observable, Negatives: 1},
		durationpb.New(200 * time.Millisecond): {Class: job.Observable, ReadLag: 200 * time.Millisecond, Negatives: 2, Spacing: time.Second},
		durationpb.New(time.Hour):              {Class: job.Observable, ReadLag: time.Hour, Negatives: 2, Spacing: 15 * time.Minute},
	} {
		got, err := c.Traits(encode(t, &connectionsv1.FeedSettings{BaseUrl: "https://feed.example", ReadLag: lag}))
		if err != nil || got != want {
			t.Errorf("%v: %+v, %v", lag, got, err)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	c := feed.New(feed.Config{HTTPSOnly: true})
	const base = "https://feed.example/api"
	for name, s := range map[string]*connectionsv1.FeedSettings{
		"no URL": {}, "http": {BaseUrl: "http://feed.example"}, "user": {BaseUrl: "https://a:b@feed.example"}, "query": {BaseUrl: base + "?a=b"},
		"empty query": {BaseUrl: base + "?"}, "fragment": {BaseUrl: base + "#a"}, "long": {BaseUrl: "https://feed.example/" + strings.Repeat("a", 2030)},
		"negative lag": {BaseUrl: base, ReadLag: durationpb.New(-1)}, "long lag": {BaseUrl: base, ReadLag: durationpb.New(time.Hour + 1)},
		"bad lag": {BaseUrl: base, ReadLag: &durationpb.Duration{Seconds: 1, Nanos: -1}},
	} {
		_, err := c.Check(encode(t, s), connector.Credential{})
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadSettings || !strings.HasPrefix(input.Field, "settings.feed.") {
			t.Errorf("%s: %v", name, err)
		}
	}
	settings := encode(t, &connectionsv1.FeedSettings{BaseUrl: base})
	if _, err := c.Check(settings, connector.Credential{}); err != nil {
		t.Errorf("without a credential: %v", err)
	}
	basic := &connectionsv1.Credential{Kind: &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: "ada", Password: "basic-secret"}}}
	headers := &connectionsv1.Credential{Headers: []*connectionsv1.SecretHeader{{Name: "X-A", Value: "header-secret"}}}
	for name, cred := range map[string]connector.Credential{
		"basic": {Data: encode(t, basic)}, "headers": {Data: encode(t, headers)}, "a bad token": bearer(t, "a\nb"), "a header of ours": apiKey(t, "Host", "key-secret"),
	} {
		_, err := c.Check(settings, cred)
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadCredential && input.Reason != connector.BadHeader || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	c := feed.New(feed.Config{})
	for name, r := range map[string]struct {
		post    *fireoncev1.SocialPost
		replyTo string
		field   string
		reason  connector.InputReason
	}{
		"media":          {&fireoncev1.SocialPost{Text: "x", Media: []*fireoncev1.MediaRef{{Url: "https://x.example/a.png"}}}, "", ".media", connector.BadPayload},
		"media only":     {&fireoncev1.SocialPost{Media: []*fireoncev1.MediaRef{{Url: "https://x.example/a.png"}}}, "", ".media", connector.BadPayload},
		"blank":          {&fireoncev1.SocialPost{Text: " \u2028\n"}, "", ".text", connector.BadPayload},
		"long":           {&fireoncev1.SocialPost{Text: strings.Repeat("ä", feed.MaxText+1)}, "", ".text", connector.BadPayload},
		"options":        {&fireoncev1.SocialPost{Text: "x", PlatformOptions: &fireoncev1.SocialPost_Mastodon{}}, "", "", connector.PayloadMismatch},
		"two replies":    {&fireoncev1.SocialPost{Text: "x", ReplyToId: "a"}, "b", ".reply_to_id", connector.BadPayload},
		"bad reply":      {&fireoncev1.SocialPost{Text: "x", ReplyToId: "a\nb"}, "", ".reply_to_id", connector.BadPayload},
		"bad reply's id": {&fireoncev1.SocialPost{Text: "x"}, strings.Repeat("a", 257), "", connector.BadPayload},
	} {
		_, err := c.Prepare(connector.Request{PayloadKind: feed.PayloadKind, Payload: payloadOf(t, r.post), ReplyTo: r.replyTo})
		var input *connector.InputError
		if !errors.As(err, &input) || input.Field != "payload.social_post"+r.field || input.Reason != r.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
	longest := &fireoncev1.SocialPost{Text: strings.Repeat("ä", feed.MaxText)}
	if _, err := c.Prepare(connector.Request{PayloadKind: feed.PayloadKind, Payload: payloadOf(t, longest)}); err != nil {
		t.Error(err)
	}
}

// TestFrozenVector holds the stored form, and the gate: jobs that are armed
// outlive an upgrade.
func TestFrozenVector(t *testing.T) {
	prepare := func(p *fireoncev1.SocialPost, replyTo string) connector.Prepared {
		prepared, err := feed.New(feed.Config{}).Prepare(connector.Request{PayloadKind: feed.PayloadKind, Payload: payloadOf(t, p), ReplyTo: replyTo})
		if err != nil {
			t.Fatal(err)
		}
		return prepared
	}
	got := prepare(&fireoncev1.SocialPost{Text: "hi  ho", Language: "en"}, "p7")
	const frozen = "01" + "0474657874066869" + "2020686f" + "0b696e5f7265706c795f746f027037" + "086c616e677561676502656e"
	const gate = "16778019abbf9441faf772e5d6389ee80ba9f525b689ee79eeda34b20b61bfd5"
	if hex.EncodeToString(got.Frozen) != frozen || hex.EncodeToString(got.Gate) != gate || got.HoldKey != "account" {
		t.Errorf("frozen %x, gate %x, hold key %s", got.Frozen, got.Gate, got.HoldKey)
	}
	same := prepare(&fireoncev1.SocialPost{Text: "hi ho\n", ReplyToId: "p7"}, "")
	if !bytes.Equal(same.Gate, got.Gate) || bytes.Equal(same.Frozen, got.Frozen) {
		t.Error("what nothing tells apart on the platform has two gates, or one form")
	}
}

// TestOnTheWire: a post, a watermark and a look as they arrive.
func TestOnTheWire(t *testing.T) {
	at := time.Now()
	for header, cred := range map[string]connector.Credential{
		"Authorization": bearer(t, token), "X-Api-Key": apiKey(t, "X-Api-Key", "Bearer "+token), "": {},
	} {
		p := connectortest.NewPlatform(t, false,
			connectortest.Say(page(at, nil)),
			connectortest.Say(connectortest.Answer(201, `{"id":"p1","url":"javascript:alert(1)"}`)),
			connectortest.Say(page(at, "next&page=")), connectortest.Say(page(at, nil)))
		c := newConnector(t, p.Sender()).(*feed.Connector)
		r := connector.Request{
			Settings: settingsOf(t, p.URL()+"/a%2Fb/", 0), PayloadKind: feed.PayloadKind, ReplyTo: "p0",
			Payload: payloadOf(t, &fireoncev1.SocialPost{Text: "<a> & \"ö\" \U0001f600", Language: "de"}),
		}
		prepared, err := c.Prepare(r)
		if err != nil {
			t.Fatal(err)
		}
		opening := connector.Opening{Settings: r.Settings, Class: job.Observable, Credential: cred, Prepared: prepared}
		mark, err := c.Watermark(t.Context(), opening)
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Open(t.Context(), opening)
		if err != nil {
			t.Fatal(err)
		}
		by := time.Now().Add(30 * time.Second)
		o := s.Publish(connector.Commit{Attempt: 1, SendBy: by, AnswerBy: by})
		if o.Result != job.ResultSucceeded || o.ExternalID != "p1" || o.ExternalURL != "" || o.CredentialVersion != cred.Version {
			t.Errorf("%+v", o)
		}
		c.Observe(t.Context(), opening, connector.Look{First: job.Attempt{Frozen: prepared.Frozen, Watermark: mark, ArmedAt: at}, Fence: at})
		got := p.Requests()
		if len(got) != 4 {
			t.Fatalf("%d requests", len(got))
		}
		for i, line := range []string{"GET /a%2Fb/posts?limit=20", "POST /a%2Fb/posts", "GET /a%2Fb/posts?limit=100", "GET /a%2Fb/posts?before=next%26page%3D&limit=100"} {
			if got[i].Line != line+" HTTP/1.1" {
				t.Errorf("%q, want %q", got[i].Line, line)
			}
			if header != "" && (got[i].Get(header) != "Bearer "+token || len(got[i].Header[strings.ToLower(header)]) != 1) {
				t.Errorf("%s: %q", header, got[i].Header)
			}
			if got[i].Get("Idempotency-Key") != "" {
				t.Error("a key for a platform that has none")
			}
		}
		var body map[string]string
		if err := json.Unmarshal(got[1].Body, &body); err != nil || len(body) != 3 || body["text"] != "<a> & \"ö\" \U0001f600" || body["in_reply_to"] != "p0" || body["language"] != "de" {
			t.Errorf("%s: %v", got[1].Body, err)
		}
	}
}

// TestRotatedToken: a job waits for a new credential when its watermark is
// refused, and nothing is posted.
func TestRotatedToken(t *testing.T) {
	w := newWorld(t, feedtest.Options{})
	w.SetToken("rotated")
	e := w.effect(t, hello())
	_, err := w.c.Watermark(t.Context(), e.opening(t))
	var refusal *connector.Refusal
	if !errors.As(err, &refusal) || refusal.Kind != job.FailAuth {
		t.Errorf("%v", err)
	}
	w.cred = bearer(t, "rotated")
	if o := e.send(t); o.Result != job.ResultSucceeded {
		t.Errorf("%s (%s)", o.Result, o.Message)
	}
}

// TestUnknownTimes: without the attempt's times nothing can be placed.
func TestUnknownTimes(t *testing.T) {
	w := newWorld(t, feedtest.Options{})
	e := w.effect(t, hello())
	e.send(t)
	e.settle()
	e.fence = e.first.ArmedAt.Add(-time.Second)
	e.seesNow(t, job.SawInconclusive, "times")
	e.first.ArmedAt = time.Time{}
	e.seesNow(t, job.SawInconclusive, "times")
}

// FuzzOpenFrozen: bytes from a damaged database are a refusal, never a panic.
func FuzzOpenFrozen(f *testing.F) {
	f.Add(job.NewCanon().Field("text", []byte("x")).Field("in_reply_to", nil).Field("language", nil).Bytes())
	f.Add([]byte{1})
	settings := settingsOf(f, "http://127.0.0.1:1", 0)
	f.Fuzz(func(t *testing.T, frozen []byte) {
		over, cancel := context.WithCancel(t.Context())
		cancel() // nothing is resolved or dialled
		c := feed.New(feed.Config{Sender: transport.NewSender(transport.Config{})})
		s, err := c.Open(over, connector.Opening{Settings: settings, Class: job.Observable, Prepared: connector.Prepared{Frozen: frozen}})
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
