package slack_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/slack"
	"github.com/fireonce/fireonce/internal/job"
)

func TestTraits(t *testing.T) {
	got, err := slack.New(slack.Config{}).Traits(settings(t))
	if want := (job.Traits{Class: job.Observable, ReadLag: 30 * time.Second, Negatives: 2, Spacing: 70 * time.Second}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	own := lookup.Settle{ReadLag: time.Second, Negatives: 3, Spacing: 4 * time.Second}
	got, err = slack.New(slack.Config{Settle: &own}).Traits(settings(t))
	if want := (job.Traits{Class: job.Observable, ReadLag: time.Second, Negatives: 3, Spacing: 4 * time.Second}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCheckRefuses(t *testing.T) {
	c := slack.New(slack.Config{})
	if _, err := c.Check(settings(t), connector.Credential{}); err != nil {
		t.Errorf("a credential that comes later: %v", err)
	}
	for _, channel := range []string{"", "#general", "c0123456789", strings.Repeat("C", 65)} {
		_, err := c.Check(encode(t, &connectionsv1.SlackSettings{Channel: channel}), connector.Credential{})
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadSettings || input.Field != "settings.slack.channel" {
			t.Errorf("%q: %v", channel, err)
		}
	}
	basic := &connectionsv1.Credential{Kind: &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: "ada", Password: "basic-secret"}}}
	_, err := c.Check(settings(t), connector.Credential{Data: encode(t, basic)})
	var input *connector.InputError
	if !errors.As(err, &input) || input.Reason != connector.BadCredential || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	var r *connector.Refusal
	if _, err := c.Watermark(t.Context(), connector.Opening{}); !errors.As(err, &r) || r.Kind != job.FailAuth {
		t.Errorf("a watermark without a credential: %v", err)
	}
}

func TestPrepareRefuses(t *testing.T) {
	c := slack.New(slack.Config{})
	own := func(o *fireoncev1.SlackOptions) *fireoncev1.SocialPost_Slack {
		return &fireoncev1.SocialPost_Slack{Slack: o}
	}
	const ts = "1700000000.000100"
	for name, r := range map[string]struct {
		post    *fireoncev1.SocialPost
		message *fireoncev1.DirectMessage
		replyTo string
		field   string
		reason  connector.InputReason
	}{
		"media":               {post: &fireoncev1.SocialPost{Text: "x", Media: []*fireoncev1.MediaRef{{Url: "https://x.example/a.png"}}}, field: ".social_post.media"},
		"blank":               {post: &fireoncev1.SocialPost{Text: " \u2028\n"}, field: ".social_post.text"},
		"long":                {post: &fireoncev1.SocialPost{Text: strings.Repeat("ä", slack.MaxText+1)}, field: ".social_post.text"},
		"others' options":     {post: &fireoncev1.SocialPost{Text: "x", PlatformOptions: &fireoncev1.SocialPost_X{}}, field: ".social_post", reason: connector.PayloadMismatch},
		"a name":              {post: &fireoncev1.SocialPost{Text: "x", PlatformOptions: own(&fireoncev1.SlackOptions{Channel: "general"})}, field: ".social_post.slack.channel"},
		"broadcast alone":     {post: &fireoncev1.SocialPost{Text: "x", PlatformOptions: own(&fireoncev1.SlackOptions{ReplyBroadcast: true})}, field: ".social_post.slack.reply_broadcast"},
		"two replies":         {post: &fireoncev1.SocialPost{Text: "x", ReplyToId: ts}, replyTo: "C1:" + ts, field: ".social_post.reply_to_id"},
		"a bad reply":         {post: &fireoncev1.SocialPost{Text: "x", ReplyToId: "p1"}, field: ".social_post.reply_to_id"},
		"a bad reply's place": {post: &fireoncev1.SocialPost{Text: "x", ReplyToId: "c1:" + ts}, field: ".social_post.reply_to_id"},
		"four parts":          {post: &fireoncev1.SocialPost{Text: "x", ReplyToId: "C1:" + ts + ":" + ts + ":" + ts}, field: ".social_post.reply_to_id"},
		"a bad job":           {post: &fireoncev1.SocialPost{Text: "x"}, replyTo: "1600000000000000001", field: ".social_post"},
		"another place":       {post: &fireoncev1.SocialPost{Text: "x", ReplyToId: "C1:" + ts, PlatformOptions: own(&fireoncev1.SlackOptions{Channel: "C2"})}, field: ".social_post.slack.channel"},
		"to a name":           {message: &fireoncev1.DirectMessage{RecipientId: "@ada", Text: "x"}, field: ".direct_message.recipient_id"},
		"a blank message":     {message: &fireoncev1.DirectMessage{RecipientId: "U2", Text: " "}, field: ".direct_message.text"},
		"a message as one":    {message: &fireoncev1.DirectMessage{RecipientId: "U2", Text: "x"}, replyTo: "C1:" + ts, field: ".direct_message"},
	} {
		request := connector.Request{EffectKey: effectKey, Settings: settings(t), PayloadKind: slack.KindPost, ReplyTo: r.replyTo}
		if r.message != nil {
			request.PayloadKind, request.Payload = slack.KindMessage, message(t, r.message)
		} else {
			request.Payload = post(t, r.post)
		}
		if r.reason == 0 {
			r.reason = connector.BadPayload
		}
		_, err := c.Prepare(request)
		var input *connector.InputError
		if !errors.As(err, &input) || input.Field != "payload"+r.field || input.Reason != r.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFrozenVector holds the stored form: jobs that are armed outlive an upgrade.
func TestFrozenVector(t *testing.T) {
	got, err := slack.New(slack.Config{}).Prepare(connector.Request{
		EffectKey: "k", Settings: settings(t), PayloadKind: slack.KindPost, ReplyTo: "C1:1.000001:1.000000",
		Payload: post(t, &fireoncev1.SocialPost{Text: "hi", PlatformOptions: &fireoncev1.SocialPost_Slack{
			Slack: &fireoncev1.SlackOptions{ReplyBroadcast: true, Unfurl: true},
		}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	const frozen = "01" + "076368616e6e656c" + "024331" + "0475736572" + "00" + "0474657874" + "026869" +
		"06746872656164" + "08312e303030303030" + "0962726f616463617374" + "0101" + "06756e6675726c" + "0101" + "036b6579" + "016b"
	if hex.EncodeToString(got.Frozen) != frozen || got.HoldKey != "account" || len(got.Gate) > 0 {
		t.Errorf("frozen %x, gate %x, hold key %q", got.Frozen, got.Gate, got.HoldKey)
	}
}

// TestWire holds what is sent, to the byte.
func TestWire(t *testing.T) {
	const metadata = `"metadata":{"event_type":"fireonce_job","event_payload":{"job_id":"` + effectKey + `"}}}`
	for name, c := range map[string]struct {
		kind    string
		payload []byte
		body    string
	}{
		"a post": {slack.KindPost, post(t, &fireoncev1.SocialPost{Text: "hi", Language: "en"}),
			`{"channel":"C0123456789","text":"hi","unfurl_links":false,"unfurl_media":false,` + metadata},
		"everything": {slack.KindPost, post(t, &fireoncev1.SocialPost{Text: "hi", ReplyToId: "1700000000.000100", PlatformOptions: &fireoncev1.SocialPost_Slack{
			Slack: &fireoncev1.SlackOptions{Channel: "C2", ReplyBroadcast: true, Unfurl: true},
		}}), `{"channel":"C2","text":"hi","thread_ts":"1700000000.000100","reply_broadcast":true,"unfurl_links":true,"unfurl_media":true,` + metadata},
		"a message": {slack.KindMessage, message(t, &fireoncev1.DirectMessage{RecipientId: "D2", Text: "hi"}),
			`{"channel":"D2","text":"hi","unfurl_links":false,"unfurl_media":false,` + metadata},
	} {
		p := connectortest.NewPlatform(t, false, connectortest.Say(connectortest.Answer(200, `{"ok":true,"channel":"C7","ts":"1.000002"}`)))
		conn := slack.New(slack.Config{Sender: p.Sender(), BaseURL: p.URL() + "/api/"})
		prepared, err := conn.Prepare(connector.Request{EffectKey: effectKey, Settings: settings(t), PayloadKind: c.kind, Payload: c.payload})
		if err != nil {
			t.Fatal(err)
		}
		s, err := conn.Open(t.Context(), connector.Opening{Settings: settings(t), Credential: bearer(t, token), Prepared: prepared, Fresh: true})
		if err != nil {
			t.Fatal(err)
		}
		by := time.Now().Add(30 * time.Second)
		o := s.Publish(connector.Commit{Attempt: 1, EffectKey: effectKey, SendBy: by, AnswerBy: by})
		if o.Result != job.ResultSucceeded || !strings.HasPrefix(o.ExternalID, "C7:1.000002") {
			t.Errorf("%s: %+v", name, o)
		}
		got := p.Requests()
		if len(got) != 1 || got[0].Line != "POST /api/chat.postMessage HTTP/1.1" || string(got[0].Body) != c.body ||
			got[0].Get("Authorization") != "Bearer "+token || got[0].Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s: %+v %s", name, got, got[0].Body)
		}
	}
}
