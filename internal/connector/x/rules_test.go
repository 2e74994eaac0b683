package x_test

import (
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/x"
	"github.com/fireonce/fireonce/internal/job"
)

func TestTraits(t *testing.T) {
	got, err := x.New(x.Config{}).Traits(nil)
	if want := (job.Traits{Class: job.Observable, ReadLag: 2 * time.Minute, Negatives: 3, Spacing: 450 * time.Second}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	own := lookup.Settle{ReadLag: time.Second, Negatives: 2, Spacing: 3 * time.Second}
	got, err = x.New(x.Config{Settle: &own}).Traits(nil)
	if want := (job.Traits{Class: job.Observable, ReadLag: time.Second, Negatives: 2, Spacing: 3 * time.Second}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCheckRefuses(t *testing.T) {
	c := x.New(x.Config{})
	if _, err := c.Check(nil, connector.Credential{}); err != nil {
		t.Errorf("a credential that comes later: %v", err)
	}
	for name, cred := range map[string]*connectionsv1.Credential{
		"basic":      {Kind: &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: "ada", Password: "basic-secret"}}},
		"an API key": {Kind: &connectionsv1.Credential_ApiKeyHeader{ApiKeyHeader: &connectionsv1.ApiKeyHeader{Name: "X-A", Value: "key-secret"}}},
		"headers":    {Headers: []*connectionsv1.SecretHeader{{Name: "X-A", Value: "header-secret"}}},
	} {
		_, err := c.Check(nil, connector.Credential{Data: encode(t, cred)})
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadCredential || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var r *connector.Refusal
	if _, err := c.Watermark(t.Context(), connector.Opening{}); !errors.As(err, &r) || r.Kind != job.FailAuth {
		t.Errorf("a watermark without a credential: %v", err)
	}
}

func TestPrepareRefuses(t *testing.T) {
	c := x.New(x.Config{})
	quote := func(id string) *fireoncev1.SocialPost_X {
		return &fireoncev1.SocialPost_X{X: &fireoncev1.XOptions{QuotePostId: id}}
	}
	for name, r := range map[string]struct {
		post    *fireoncev1.SocialPost
		message *fireoncev1.DirectMessage
		long    bool
		replyTo string
		field   string
		reason  connector.InputReason
	}{
		"blank":            {post: &fireoncev1.SocialPost{Text: " \u2028\n"}, field: ".social_post.text"},
		"heavy":            {post: &fireoncev1.SocialPost{Text: strings.Repeat("あ", 141)}, field: ".social_post.text"},
		"long":             {post: &fireoncev1.SocialPost{Text: strings.Repeat("a", 281)}, field: ".social_post.text"},
		"very long":        {post: &fireoncev1.SocialPost{Text: strings.Repeat("a", 25_001)}, long: true, field: ".social_post.text"},
		"others' options":  {post: &fireoncev1.SocialPost{Text: "x", PlatformOptions: &fireoncev1.SocialPost_Mastodon{}}, field: ".social_post", reason: connector.PayloadMismatch},
		"a bad quote":      {post: &fireoncev1.SocialPost{Text: "x", PlatformOptions: quote("0")}, field: ".social_post.x.quote_post_id"},
		"bad settings":     {post: &fireoncev1.SocialPost{Text: "x", PlatformOptions: &fireoncev1.SocialPost_X{X: &fireoncev1.XOptions{ReplySettings: 99}}}, field: ".social_post.x.reply_settings"},
		"two replies":      {post: &fireoncev1.SocialPost{Text: "x", ReplyToId: "1"}, replyTo: "2", field: ".social_post.reply_to_id"},
		"a bad reply":      {post: &fireoncev1.SocialPost{Text: "x", ReplyToId: "p1"}, field: ".social_post.reply_to_id"},
		"to a message":     {post: &fireoncev1.SocialPost{Text: "x"}, replyTo: "dm:1600000000000000001", field: ".social_post"},
		"to a name":        {message: &fireoncev1.DirectMessage{RecipientId: "@ada", Text: "x"}, field: ".direct_message.recipient_id"},
		"a blank message":  {message: &fireoncev1.DirectMessage{RecipientId: "2002", Text: " "}, field: ".direct_message.text"},
		"a long message":   {message: &fireoncev1.DirectMessage{RecipientId: "2002", Text: strings.Repeat("ä", 10_001)}, field: ".direct_message.text"},
		"a message as one": {message: &fireoncev1.DirectMessage{RecipientId: "2002", Text: "x"}, replyTo: "1", field: ".direct_message"},
	} {
		request := connector.Request{Settings: encode(t, &connectionsv1.XSettings{LongPosts: r.long}), PayloadKind: x.KindPost, ReplyTo: r.replyTo}
		if r.message != nil {
			request.PayloadKind, request.Payload = x.KindMessage, message(t, r.message)
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
	for name, r := range map[string]connector.Request{
		"the longest":              {PayloadKind: x.KindPost, Payload: post(t, &fireoncev1.SocialPost{Text: strings.Repeat("あ", 140)})},
		"a long one, where it may": {PayloadKind: x.KindPost, Settings: encode(t, longPosts), Payload: post(t, &fireoncev1.SocialPost{Text: strings.Repeat("あ", 25_000)})},
		"the longest message":      {PayloadKind: x.KindMessage, Payload: message(t, &fireoncev1.DirectMessage{RecipientId: "2002", Text: strings.Repeat("あ", 10_000)})},
	} {
		if _, err := c.Prepare(r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFrozenVector holds the stored form, and the gate: jobs that are armed outlive an
// upgrade.
func TestFrozenVector(t *testing.T) {
	got, err := x.New(x.Config{}).Prepare(connector.Request{PayloadKind: x.KindPost, ReplyTo: "7", Payload: post(t, &fireoncev1.SocialPost{
		Text: "@a  hi https://a.example", PlatformOptions: &fireoncev1.SocialPost_X{X: &fireoncev1.XOptions{
			QuotePostId: "8", ReplySettings: fireoncev1.XOptions_REPLY_SETTINGS_FOLLOWING,
		}},
	})})
	if err != nil {
		t.Fatal(err)
	}
	const frozen = "01" + "0474657874" + "18406120206869206874" + "7470733a2f2f612e6578616d706c65" +
		"087265706c795f746f" + "0137" + "0571756f7465" + "0138" + "0e7265706c795f73657474696e6773" + "09666f6c6c6f77696e67" + "09726563697069656e74" + "00"
	if hex.EncodeToString(got.Frozen) != frozen || got.HoldKey != "posts" {
		t.Errorf("frozen %x, hold key %q", got.Frozen, got.HoldKey)
	}
	const gate = "acb88a72c819c1c5db32bcddb6cb8d3b481b4628521b98f9e224935a765e0efa"
	if hex.EncodeToString(got.Gate) != gate {
		t.Errorf("gate %x", got.Gate)
	}
	dm, err := x.New(x.Config{}).Prepare(connector.Request{PayloadKind: x.KindMessage, Payload: message(t, &fireoncev1.DirectMessage{RecipientId: "2002", Text: "hi"})})
	if err != nil || dm.HoldKey != "messages" || string(dm.Gate) == string(got.Gate) {
		t.Errorf("%+v, %v", dm, err)
	}
}

// TestWire holds what is sent, to the byte.
func TestWire(t *testing.T) {
	for name, c := range map[string]struct {
		kind       string
		payload    []byte
		line, body string
		answer     string
		id, url    string
	}{
		"a post": {
			x.KindPost, post(t, &fireoncev1.SocialPost{Text: "hi", Language: "en"}),
			"POST /2/tweets HTTP/1.1", `{"text":"hi"}`,
			`{"data":{"id":"17","text":"hi"}}`, "17", "https://x.com/i/web/status/17",
		},
		"everything": {
			x.KindPost, post(t, &fireoncev1.SocialPost{Text: "hi", ReplyToId: "7", PlatformOptions: &fireoncev1.SocialPost_X{
				X: &fireoncev1.XOptions{QuotePostId: "8", ReplySettings: fireoncev1.XOptions_REPLY_SETTINGS_MENTIONED_USERS},
			}}),
			"POST /2/tweets HTTP/1.1", `{"text":"hi","reply":{"in_reply_to_tweet_id":"7"},"quote_tweet_id":"8","reply_settings":"mentionedUsers"}`,
			`{"data":{"id":"17"}}`, "17", "https://x.com/i/web/status/17",
		},
		"a message": {
			x.KindMessage, message(t, &fireoncev1.DirectMessage{RecipientId: "2002", Text: "hi"}),
			"POST /2/dm_conversations/with/2002/messages HTTP/1.1", `{"text":"hi"}`,
			`{"data":{"dm_conversation_id":"1001-2002","dm_event_id":"18"}}`, "dm:18", "",
		},
	} {
		p := newPlatform(t, connectortest.Answer(http.StatusCreated, c.answer))
		o := p.attempt(t, c.kind, c.payload, 1)
		if o.Result != job.ResultSucceeded || o.ExternalID != c.id || o.ExternalURL != c.url {
			t.Errorf("%s: %+v", name, o)
		}
		got := p.Requests()
		if len(got) != 1 || got[0].Line != c.line || string(got[0].Body) != c.body ||
			got[0].Get("Authorization") != "Bearer "+token || got[0].Get("Content-Type") != "application/json" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestProblems: what X says of a refusal decides what it is.
func TestProblems(t *testing.T) {
	now := time.Now()
	reset := func(name string, d time.Duration) []string {
		return []string{name + "-remaining: 0", name + "-reset: " + strconv.FormatInt(now.Add(d).Unix(), 10)}
	}
	for name, c := range map[string]struct {
		status  int
		body    string
		headers []string
		attempt int
		result  job.Result
		kind    job.FailureKind
		min     time.Duration
	}{
		"a duplicate, first":       {403, `{"detail":"You are not allowed to create a Tweet with duplicate content.","type":"about:blank","title":"Forbidden","status":403}`, nil, 1, job.ResultUnknown, job.FailAmbiguous, 0},
		"a duplicate, later":       {403, `{"detail":"You are not allowed to create a Tweet with duplicate content."}`, nil, 2, job.ResultUnknown, job.FailAmbiguous, 0},
		"a duplicate by code":      {403, `{"errors":[{"code":187,"message":"Status is a duplicate."}]}`, nil, 3, job.ResultUnknown, job.FailAmbiguous, 0},
		"a duplicate, but not 403": {400, `{"detail":"duplicate content"}`, nil, 2, job.ResultRejected, job.FailPermanent, 0},
		"locked":                   {403, `{"errors":[{"code":326,"message":"To protect our users…"}]}`, nil, 1, job.ResultRejected, job.FailAuth, 0},
		"the app is not enrolled":  {403, `{"reason":"client-not-enrolled","type":"https://api.twitter.com/2/problems/client-forbidden"}`, nil, 1, job.ResultRejected, job.FailAuth, 0},
		"whom we answer":           {403, `{"detail":"The user you are replying to is suspended."}`, nil, 1, job.ResultRejected, job.FailPermanent, 0},
		"not permitted":            {403, `{"detail":"You are not permitted to perform this action."}`, nil, 1, job.ResultRejected, job.FailPermanent, 0},
		"no JSON":                  {403, `<html>`, nil, 2, job.ResultRejected, job.FailPermanent, 0},
		"402 of another kind":      {402, `{}`, nil, 1, job.ResultRejected, job.FailPermanent, 0},
		"a month's cap":            {429, `{"title":"UsageCapExceeded"}`, nil, 1, job.ResultRejected, job.FailRateLimited, time.Hour},
		"a limit":                  {429, `{}`, reset("X-Rate-Limit", 10*time.Minute), 1, job.ResultRejected, job.FailRateLimited, 10 * time.Minute},
		"a day's limit":            {429, `{}`, append(reset("x-user-limit-24hour", 20*time.Hour), "x-rate-limit-remaining: 7", "x-rate-limit-reset: 1"), 1, job.ResultRejected, job.FailRateLimited, 20 * time.Hour},
		"two limits":               {429, `{}`, append(reset("x-app-limit-24hour", 2*time.Hour), reset("x-rate-limit", time.Minute)...), 1, job.ResultRejected, job.FailRateLimited, 2 * time.Hour},
		"a reset for ever":         {429, `{}`, []string{"x-rate-limit-reset: 99999999999"}, 1, job.ResultRejected, job.FailRateLimited, 24 * time.Hour},
		"a reset that is none":     {429, `{}`, []string{"x-rate-limit-reset: soon"}, 1, job.ResultRejected, job.FailRateLimited, 30 * time.Second},
	} {
		p := newPlatform(t, connectortest.Answer(c.status, c.body, c.headers...))
		o := p.attempt(t, x.KindPost, post(t, hello()), c.attempt)
		if o.Result != c.result || o.Kind != c.kind || o.RetryAfter < c.min-2*time.Second || o.RetryAfter > c.min+2*time.Second {
			t.Errorf("%s: %s %s after %v (%s)", name, o.Result, o.Kind, o.RetryAfter, o.Message)
		}
	}
}

// TestClockForms: X has written its zone as GMT and as UTC.
func TestClockForms(t *testing.T) {
	const body = `{"data":{"id":"1001","username":"ada"}}`
	for text, ok := range map[string]bool{"Tue, 25 Apr 2023 11:28:02 UTC": true, "Wed, 03 Jun 2026 14:30:18 GMT": true, "Wed, 03 Jun 2026 14:30:18 CET": false} {
		p := connectortest.NewPlatform(t, false, connectortest.Say(connectortest.Answer(http.StatusOK, body, "Date: "+text)))
		c := x.New(x.Config{Sender: p.Sender(), BaseURL: p.URL()})
		mark, err := c.Watermark(t.Context(), connector.Opening{Credential: oauth(t, token)})
		if (err == nil) != ok || ok && !strings.Contains(mark, "-0") {
			t.Errorf("%q: %q, %v", text, mark, err)
		}
	}
}

type platform struct{ *connectortest.Platform }

func newPlatform(t *testing.T, answer string) platform {
	return platform{connectortest.NewPlatform(t, false, connectortest.Say(answer))}
}

// attempt makes one attempt of this number.
func (p platform) attempt(t *testing.T, kind string, payload []byte, number int) job.Outcome {
	t.Helper()
	c := x.New(x.Config{Sender: p.Sender(), BaseURL: p.URL() + "/"})
	prepared, err := c.Prepare(connector.Request{EffectKey: effectKey, PayloadKind: kind, Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Open(t.Context(), connector.Opening{Credential: bearer(t, token), Prepared: prepared, Fresh: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	by := time.Now().Add(30 * time.Second)
	return s.Publish(connector.Commit{Attempt: number, EffectKey: effectKey, SendBy: by, AnswerBy: by})
}
