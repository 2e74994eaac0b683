package mastodon_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/mastodon"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

const (
	effectKey = "0199c0de-0000-7000-8000-000000000001"
	token     = "access-token-of-ada"
	text      = "Grüße aus Köln"
)

const (
	unset = connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_UNSPECIFIED
	yes   = connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES
	no    = connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO
)

func encode(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func settingsOf(tb testing.TB, base string, dedupes connectionsv1.ReceiverDedupes) []byte {
	return encode(tb, &connectionsv1.MastodonSettings{BaseUrl: base, ServerDedupes: dedupes})
}

func bearer(tb testing.TB, token string) connector.Credential {
	return connector.Credential{Version: 3, Data: encode(tb, &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: token}}})}
}

func oauth(tb testing.TB, token string) connector.Credential {
	return connector.Credential{Version: 3, Data: encode(tb, &connectionsv1.Credential{
		Kind: &connectionsv1.Credential_Oauth2{Oauth2: &connectionsv1.OAuth2Token{AccessToken: token}},
	})}
}

func payloadOf(tb testing.TB, p *fireoncev1.SocialPost) []byte {
	return encode(tb, &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: p}})
}

func requestOf(tb testing.TB, base string, dedupes connectionsv1.ReceiverDedupes, p *fireoncev1.SocialPost) connector.Request {
	return connector.Request{
		EffectKey: effectKey, Settings: settingsOf(tb, base, dedupes), PayloadKind: mastodon.PayloadKind, Payload: payloadOf(tb, p),
	}
}

// page is the raw answer of a listing.
func page(at time.Time, headers []string, statuses ...map[string]any) string {
	if statuses == nil {
		statuses = []map[string]any{}
	}
	body, err := json.Marshal(statuses)
	if err != nil {
		panic(err)
	}
	headers = append([]string{"Date: " + at.UTC().Format(http.TimeFormat)}, headers...)
	return connectortest.Answer(http.StatusOK, string(body), headers...)
}

func status(n int, at time.Time) map[string]any {
	return map[string]any{
		"id": fmt.Sprintf("11000000000000000%d", 9-n), "url": "https://social.example/@ada/1", "created_at": at.UTC(),
		"in_reply_to_id": nil, "spoiler_text": "", "content": "<p>" + text + "</p>", "reblog": nil,
	}
}

func suite(t *testing.T, secure bool, dedupes connectionsv1.ReceiverDedupes, cred connector.Credential) connectortest.Suite {
	s := connectortest.Suite{
		Secure: secure,
		New: func(_ testing.TB, s *transport.Sender) connector.Connector {
			return mastodon.New(mastodon.Config{Sender: s})
		},
		Request: func(base string) connector.Request {
			return requestOf(t, base+"/sub/", dedupes, &fireoncev1.SocialPost{Text: text, Language: "de"})
		},
		Credential: cred,
		Class:      job.Keyed,
		Secrets:    []string{token},
		Success:    connectortest.Answer(http.StatusOK, `{"id":"110000000000000009","url":"https://social.example/@ada/110000000000000009"}`),
		Statuses:   "`mastodon`",
		KeyHeader:  "Idempotency-Key",
		Aside: func(r connectortest.Received) string {
			switch {
			case strings.HasPrefix(r.Line, "GET /sub/api/v1/accounts/verify_credentials "):
				return connectortest.Answer(200, `{"id":"7","acct":"ada","url":"https://social.example/@ada"}`)
			case strings.HasSuffix(r.Line, "/source HTTP/1.1"):
				return connectortest.Answer(200, fmt.Sprintf(`{"id":"1","text":%q,"spoiler_text":""}`, text))
			}
			return ""
		},
	}
	if dedupes == yes {
		return s
	}
	s.Class, s.Looks = job.Observable, looks()
	return s
}

func looks() *connectortest.Looks {
	without := func(field string) func(time.Time) string {
		return func(at time.Time) string {
			s := status(0, at)
			delete(s, field)
			return page(at, nil, s)
		}
	}
	next := []string{`Link: <https://social.example/x?max_id=1>; rel="next"`}
	return &connectortest.Looks{
		Empty: func(at time.Time) string { return page(at, nil) },
		Found: func(at time.Time, n int) string {
			var all []map[string]any
			for i := range n {
				all = append(all, status(i, at))
			}
			return page(at, nil, all...)
		},
		ExternalID: "110000000000000009",
		Broken: map[string]func(time.Time) string{
			"no JSON":                func(time.Time) string { return connectortest.Answer(200, "<html>") },
			"an object":              func(time.Time) string { return connectortest.Answer(200, "{}") },
			"nothing":                func(time.Time) string { return connectortest.Answer(200, "null") },
			"a post without id":      without("id"),
			"a post without time":    without("created_at"),
			"a post without content": without("content"),
			"a date that is none":    func(time.Time) string { return connectortest.Answer(200, "[]", "Date: yesterday") },
			"a loop":                 func(at time.Time) string { return page(at, next, status(5, at.Add(-time.Second))) },
			"a clock set back":       func(at time.Time) string { return page(at.Add(-time.Hour), nil) },
			"a clock set ahead":      func(at time.Time) string { return page(at.Add(time.Hour), nil) },
		},
	}
}

func TestConformance(t *testing.T) {
	t.Run("dedupes, http", func(t *testing.T) { connectortest.Run(t, suite(t, false, yes, bearer(t, token))) })
	t.Run("dedupes, https", func(t *testing.T) { connectortest.Run(t, suite(t, true, yes, oauth(t, token))) })
	t.Run("does not, http", func(t *testing.T) { connectortest.Run(t, suite(t, false, no, bearer(t, token))) })
	t.Run("does not, https", func(t *testing.T) { connectortest.Run(t, suite(t, true, no, oauth(t, token))) })
}
