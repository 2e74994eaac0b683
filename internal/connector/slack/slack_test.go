package slack_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/slack"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

const (
	effectKey = "0199c0de-0000-7000-8000-000000000001"
	token     = "xoxb-bearer-secret-token"
	channel   = "C0123456789"
)

func encode(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func settings(tb testing.TB) []byte {
	return encode(tb, &connectionsv1.SlackSettings{Channel: channel})
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

// said is a raw answer of Slack, with its clock.
func said(at time.Time, body any) string {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return connectortest.Answer(http.StatusOK, string(raw), "Date: "+at.UTC().Format(http.TimeFormat))
}

func page(at time.Time, messages ...any) string {
	if messages == nil {
		messages = []any{}
	}
	return said(at, map[string]any{"ok": true, "messages": messages, "has_more": false})
}

func marked(ts, key string) map[string]any {
	return map[string]any{
		"type": "message", "ts": ts, "text": "whatever", "user": "U1", "bot_id": "B1",
		"metadata": map[string]any{"event_type": "fireonce_job", "event_payload": map[string]any{"job_id": key}},
	}
}

// looks are Slack's answers to looks.
func looks() *connectortest.Looks {
	edited := func(edit func(body, first map[string]any)) func(time.Time) string {
		return func(at time.Time) string {
			m := marked("1700000000.000001", effectKey)
			body := map[string]any{"ok": true, "messages": []any{m}, "has_more": false}
			edit(body, m)
			return said(at, body)
		}
	}
	return &connectortest.Looks{
		Mark: func(at time.Time) string {
			return said(at, map[string]any{"ok": true, "team_id": "T1", "user_id": "U1", "bot_id": "B1", "url": "https://words.slack.example/"})
		},
		Empty: func(at time.Time) string { return page(at) },
		Found: func(at time.Time, n int) string {
			var messages []any
			for i := range n {
				messages = append(messages, marked("1700000000.00000"+strconv.Itoa(i+1), effectKey))
			}
			return page(at, messages...)
		},
		ExternalID: channel + ":1700000000.000001",
		Broken: map[string]func(time.Time) string{
			"no JSON": func(at time.Time) string {
				return connectortest.Answer(200, "<html>", "Date: "+at.UTC().Format(http.TimeFormat))
			},
			"a list of nothing":   func(at time.Time) string { return said(at, []any{}) },
			"nothing":             func(at time.Time) string { return said(at, map[string]any{}) },
			"no time":             func(time.Time) string { return connectortest.Answer(200, `{"ok":true,"messages":[],"has_more":false}`) },
			"not ok":              edited(func(body, _ map[string]any) { body["ok"], body["error"] = false, "internal_error" }),
			"not ok, code echoes": edited(func(body, _ map[string]any) { body["ok"], body["error"] = false, "bad token "+token }),
			"no word on ok":       edited(func(body, _ map[string]any) { delete(body, "ok") }),
			"no messages":         edited(func(body, _ map[string]any) { delete(body, "messages") }),
			"no word on more":     edited(func(body, _ map[string]any) { delete(body, "has_more") }),
			"more, but no cursor": edited(func(body, _ map[string]any) { body["has_more"] = true }),
			"a loop": edited(func(body, _ map[string]any) {
				body["has_more"], body["response_metadata"] = true, map[string]any{"next_cursor": "again"}
			}),
			"no time stamp":     edited(func(_, m map[string]any) { delete(m, "ts") }),
			"a clock set back":  func(at time.Time) string { return page(at.Add(-time.Hour)) },
			"a clock set ahead": func(at time.Time) string { return page(at.Add(time.Hour)) },
		},
	}
}

func suite(t *testing.T, secure bool, cred connector.Credential) connectortest.Suite {
	return connectortest.Suite{
		Secure: secure,
		NewAt: func(_ testing.TB, s *transport.Sender, base string) connector.Connector {
			return slack.New(slack.Config{Sender: s, BaseURL: base + "/api"})
		},
		Request: func(string) connector.Request {
			return connector.Request{
				EffectKey: effectKey, Settings: settings(t), PayloadKind: slack.KindPost, Payload: post(t, &fireoncev1.SocialPost{Text: "Grüße & Küsse"}),
			}
		},
		Credential: cred,
		Class:      job.Observable,
		Secrets:    []string{token},
		Success:    connectortest.Answer(http.StatusOK, `{"ok":true,"channel":"C0123456789","ts":"1700000000.000001"}`),
		Statuses:   "`slack`",
		Looks:      looks(),
		ReplyTo:    channel + ":1700000000.000100",
		Marked:     true,
	}
}

func TestConformance(t *testing.T) {
	t.Run("http", func(t *testing.T) { connectortest.Run(t, suite(t, false, bearer(t, token))) })
	t.Run("https", func(t *testing.T) { connectortest.Run(t, suite(t, true, oauth(t, token))) })
}
