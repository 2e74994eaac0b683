package bluesky_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/bluesky"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

const (
	effectKey = "fo1_243qfgxysh2dxqo6sbmovnblm522e7udjad4jht3qtpngqbivaqa"
	// postKey is the record key of effectKey.
	postKey  = "3jtuke3tv2xz4"
	did      = "did:plc:ewvi7nxzyoun6zhxrhs64oiz"
	handle   = "ada.example"
	password = "abcd-efgh-ijkl-mnop"
	text     = "Grüße aus Köln: https://example.org/a?b=c #köln"
)

func encode(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func settingsOf(tb testing.TB, base string) []byte {
	return encode(tb, &connectionsv1.BlueskySettings{BaseUrl: base})
}

func credential(tb testing.TB, user, password string) connector.Credential {
	return connector.Credential{Version: 3, Data: encode(tb, &connectionsv1.Credential{
		Kind: &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: user, Password: password}},
	})}
}

func payloadOf(tb testing.TB, p *fireoncev1.SocialPost) []byte {
	return encode(tb, &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: p}})
}

func newConnector(_ testing.TB, s *transport.Sender) connector.Connector {
	return bluesky.New(bluesky.Config{Sender: s})
}

// token is a JWT that ends so long from now, unsigned.
func token(name string, lasts time.Duration) string {
	enc := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	return enc(map[string]string{"alg": "none"}) + "." + enc(map[string]any{"exp": time.Now().Add(lasts).Unix(), "scope": name}) + ".sig"
}

func uriOf(key string) string { return "at://" + did + "/app.bsky.feed.post/" + key }

func suite(t *testing.T, secure bool) connectortest.Suite {
	access, refresh := token("access", time.Hour), token("refresh", 24*time.Hour)
	return connectortest.Suite{
		Secure: secure,
		New:    newConnector,
		Request: func(base string) connector.Request {
			return connector.Request{
				EffectKey: effectKey, Settings: settingsOf(t, base+"/pds/"), PayloadKind: bluesky.PayloadKind,
				Payload: payloadOf(t, &fireoncev1.SocialPost{Text: text, Language: "de"}),
			}
		},
		Credential: credential(t, handle, password),
		Class:      job.Keyed,
		Secrets:    []string{password, access, refresh},
		Success:    connectortest.Answer(200, fmt.Sprintf(`{"uri":%q,"cid":"bafyreia","validationStatus":"valid"}`, uriOf(postKey))),
		Statuses:   "`bluesky`",
		ReplyTo:    uriOf("3kabcdefghijk"),
		Aside: func(r connectortest.Received) string {
			if !strings.HasPrefix(r.Line, "POST /pds/xrpc/com.atproto.server.createSession ") {
				return ""
			}
			return connectortest.Answer(200, fmt.Sprintf(`{"did":%q,"handle":%q,"accessJwt":%q,"refreshJwt":%q,"active":true}`,
				did, handle, access, refresh))
		},
	}
}

func TestConformance(t *testing.T) {
	t.Run("http", func(t *testing.T) { connectortest.Run(t, suite(t, false)) })
	t.Run("https", func(t *testing.T) { connectortest.Run(t, suite(t, true)) })
}
