package feed_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/feed"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

const (
	effectKey = "0199c0de-0000-7000-8000-000000000001"
	token     = "bearer-secret-token"
	text      = "Grüße aus Köln"
)

func encode(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func settingsOf(tb testing.TB, base string, lag time.Duration) []byte {
	return encode(tb, &connectionsv1.FeedSettings{BaseUrl: base, ReadLag: durationpb.New(lag)})
}

func bearer(tb testing.TB, token string) connector.Credential {
	return connector.Credential{Version: 3, Data: encode(tb, &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: token}}})}
}

func apiKey(tb testing.TB, name, value string) connector.Credential {
	return connector.Credential{Version: 3, Data: encode(tb, &connectionsv1.Credential{
		Kind: &connectionsv1.Credential_ApiKeyHeader{ApiKeyHeader: &connectionsv1.ApiKeyHeader{Name: name, Value: value}},
	})}
}

func payloadOf(tb testing.TB, p *fireoncev1.SocialPost) []byte {
	return encode(tb, &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: p}})
}

func newConnector(_ testing.TB, s *transport.Sender) connector.Connector {
	return feed.New(feed.Config{Sender: s})
}

// page is the raw answer of a listing.
func page(at time.Time, next any, posts ...map[string]any) string {
	if posts == nil {
		posts = []map[string]any{}
	}
	return raw(map[string]any{"account": "a1", "now": at, "posts": posts, "next": next})
}

func raw(body any) string {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return connectortest.Answer(http.StatusOK, string(text))
}

func found(at time.Time, n int) string {
	var posts []map[string]any
	for i := range n {
		posts = append(posts, map[string]any{"id": fmt.Sprintf("p%d", i+1), "url": "https://feed.example/p", "text": text, "created_at": at})
	}
	return page(at, nil, posts...)
}

func suite(t *testing.T, secure bool, cred connector.Credential) connectortest.Suite {
	later := func(edit func(map[string]any)) func(time.Time) string {
		return func(at time.Time) string {
			body := map[string]any{"account": "a1", "now": at, "posts": []any{}, "next": nil}
			edit(body)
			return raw(body)
		}
	}
	post := func(edit func(map[string]any)) func(time.Time) string {
		return func(at time.Time) string {
			p := map[string]any{"id": "p1", "text": "another", "created_at": at}
			edit(p)
			return page(at, nil, p)
		}
	}
	return connectortest.Suite{
		Secure: secure,
		New:    newConnector,
		Request: func(base string) connector.Request {
			return connector.Request{
				EffectKey: effectKey, Settings: settingsOf(t, base+"/api/", 0), PayloadKind: feed.PayloadKind,
				Payload: payloadOf(t, &fireoncev1.SocialPost{Text: text, Language: "de"}),
			}
		},
		Credential: cred,
		Class:      job.Observable,
		Secrets:    []string{token},
		Success:    connectortest.Answer(http.StatusCreated, `{"id":"p1","url":"https://feed.example/p1"}`),
		Statuses:   "`feed`",
		Looks: &connectortest.Looks{
			Empty:      func(at time.Time) string { return page(at, nil) },
			Found:      found,
			ExternalID: "p1",
			Broken: map[string]func(time.Time) string{
				"no JSON":              func(time.Time) string { return connectortest.Answer(200, "<html>") },
				"a list of nothing":    func(time.Time) string { return connectortest.Answer(200, "[]") },
				"no account":           later(func(b map[string]any) { delete(b, "account") }),
				"another account":      later(func(b map[string]any) { b["account"] = "a2" }),
				"no posts":             later(func(b map[string]any) { delete(b, "posts") }),
				"no time":              later(func(b map[string]any) { delete(b, "now") }),
				"no word on more":      later(func(b map[string]any) { delete(b, "next") }),
				"an offset for cursor": later(func(b map[string]any) { b["next"] = 20 }),
				"an empty cursor":      later(func(b map[string]any) { b["next"] = "" }),
				"a loop":               later(func(b map[string]any) { b["next"] = "again" }),
				"a post without id":    post(func(p map[string]any) { delete(p, "id") }),
				"a post without text":  post(func(p map[string]any) { delete(p, "text") }),
				"a post without time":  post(func(p map[string]any) { delete(p, "created_at") }),
				"a clock set back":     func(at time.Time) string { return page(at.Add(-time.Hour), nil) },
				"a clock set ahead":    func(at time.Time) string { return page(at.Add(time.Hour), nil) },
			},
		},
	}
}

func TestConformance(t *testing.T) {
	t.Run("http", func(t *testing.T) { connectortest.Run(t, suite(t, false, bearer(t, token))) })
	t.Run("https", func(t *testing.T) { connectortest.Run(t, suite(t, true, apiKey(t, "X-Api-Key", token))) })
}
