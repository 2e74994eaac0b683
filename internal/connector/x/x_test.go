package x_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/connector/x"
	"github.com/fireonce/fireonce/internal/job"
)

const (
	effectKey = "0199c0de-0000-7000-8000-000000000001"
	token     = "x-access-token-secret"
	text      = "Grüße & Küsse aus Köln: https://koeln.example/dom?a=b&c=d"
	shownText = "Grüße &amp; Küsse aus Köln: https://t.co/AbCdEfGhIj"
	target    = "https://koeln.example/dom?a=b&c=d"
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

func oauth(tb testing.TB, token string) connector.Credential {
	return connector.Credential{Version: 3, Data: encode(tb, &connectionsv1.Credential{
		Kind: &connectionsv1.Credential_Oauth2{Oauth2: &connectionsv1.OAuth2Token{AccessToken: token}},
	})}
}

func post(tb testing.TB, p *fireoncev1.SocialPost) []byte {
	return encode(tb, &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: p}})
}

func message(tb testing.TB, m *fireoncev1.DirectMessage) []byte {
	return encode(tb, &fireoncev1.Payload{Kind: &fireoncev1.Payload_DirectMessage{DirectMessage: m}})
}

// id is that of an object made at a time.
func id(at time.Time, n int) string {
	return strconv.FormatInt((at.UnixMilli()-1288834974657)<<22|int64(n), 10)
}

// said is a raw answer of X, with its clock.
func said(at time.Time, body any) string {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return connectortest.Answer(http.StatusOK, string(raw), "Date: "+at.UTC().Format(http.TimeFormat))
}

func page(at time.Time, objects ...map[string]any) string {
	body := map[string]any{"meta": map[string]any{"result_count": len(objects)}}
	if len(objects) > 0 {
		body["data"] = objects
	}
	return said(at, body)
}

func ours(at time.Time, n int) map[string]any {
	return map[string]any{
		"id": id(at, n), "text": shownText, "sender_id": "1001", "edit_history_tweet_ids": []string{id(at, n)},
		"entities": map[string]any{"urls": []any{map[string]any{"url": "https://t.co/AbCdEfGhIj", "expanded_url": target}}},
	}
}

// looks are X's answers to looks at posts.
func looks() *connectortest.Looks {
	edited := func(edit func(body, first map[string]any)) func(time.Time) string {
		return func(at time.Time) string {
			o := ours(at, 1)
			body := map[string]any{"meta": map[string]any{"result_count": 1}, "data": []any{o}}
			edit(body, o)
			return said(at, body)
		}
	}
	return &connectortest.Looks{
		Mark: func(at time.Time) string {
			return said(at, map[string]any{"data": map[string]any{"id": "1001", "username": "ada", "name": "Ada"}})
		},
		Empty: func(at time.Time) string { return page(at) },
		Found: func(at time.Time, n int) string {
			var objects []map[string]any
			for i := range n {
				objects = append(objects, ours(at, i+1))
			}
			return page(at, objects...)
		},
		IDAt: func(at time.Time) string { return id(at, 1) },
		Broken: map[string]func(time.Time) string{
			"no JSON": func(at time.Time) string {
				return connectortest.Answer(200, "<html>", "Date: "+at.UTC().Format(http.TimeFormat))
			},
			"a list of nothing": func(at time.Time) string { return said(at, []any{}) },
			"nothing":           func(at time.Time) string { return said(at, map[string]any{}) },
			"no time":           func(time.Time) string { return connectortest.Answer(200, `{"meta":{"result_count":0}}`) },
			"no meta":           edited(func(body, _ map[string]any) { delete(body, "meta") }),
			"no count":          edited(func(body, _ map[string]any) { body["meta"] = map[string]any{} }),
			"another count":     edited(func(body, _ map[string]any) { body["meta"] = map[string]any{"result_count": 2} }),
			"an error beside":   edited(func(body, _ map[string]any) { body["errors"] = []any{map[string]any{"title": "Not Found Error"}} }),
			"a post without id": edited(func(_, o map[string]any) { delete(o, "id") }),
			"no text":           edited(func(_, o map[string]any) { delete(o, "text") }),
			"no number":         edited(func(_, o map[string]any) { o["id"] = "p1" }),
			"a loop":            edited(func(body, _ map[string]any) { body["meta"] = map[string]any{"result_count": 1, "next_token": "again"} }),
			"an endless list":   edited(func(body, _ map[string]any) { body["meta"] = map[string]any{"result_count": 1, "next_token": "t"} }),
			"a clock set back":  func(at time.Time) string { return page(at.Add(-time.Hour)) },
			"a clock set ahead": func(at time.Time) string { return page(at.Add(time.Hour)) },
		},
	}
}

func suite(t *testing.T, secure bool, cred connector.Credential) connectortest.Suite {
	return connectortest.Suite{
		Secure: secure,
		NewAt: func(_ testing.TB, s *transport.Sender, base string) connector.Connector {
			return x.New(x.Config{Sender: s, BaseURL: base})
		},
		Request: func(string) connector.Request {
			return connector.Request{EffectKey: effectKey, PayloadKind: x.KindPost, Payload: post(t, &fireoncev1.SocialPost{Text: text})}
		},
		Credential: cred,
		Class:      job.Observable,
		Secrets:    []string{token},
		Success:    connectortest.Answer(http.StatusCreated, `{"data":{"id":"1600000000000000001","text":"x"}}`),
		Statuses:   "`x`",
		Looks:      looks(),
		ReplyTo:    "1600000000000000001",
	}
}

func TestConformance(t *testing.T) {
	t.Run("http", func(t *testing.T) { connectortest.Run(t, suite(t, false, oauth(t, token))) })
	t.Run("https", func(t *testing.T) { connectortest.Run(t, suite(t, true, bearer(t, token))) })
}

// TestSaysWhatItIs compares the description for users with what the connector accepts.
func TestSaysWhatItIs(t *testing.T) {
	d := x.New(x.Config{}).Describe()
	if got := fmt.Sprintf("%s %v %v %v %v", d.Name, d.Payloads, d.Credentials, d.Classes, d.Replies); got !=
		"x [social_post direct_message] [oauth2 bearer_token] [OBSERVABLE] true" {
		t.Error(got)
	}
}
