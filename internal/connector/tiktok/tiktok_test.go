package tiktok_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/tiktok"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

const (
	effectKey = "0199c0de-0000-7000-8000-000000000001"
	token     = "act.secret-access-token"
	text      = "Grüße aus Köln #reise"
)

func encode(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func settingsOf(tb testing.TB, source connectionsv1.TikTokSettings_Source) []byte {
	return encode(tb, &connectionsv1.TikTokSettings{Source: source})
}

const (
	upload = connectionsv1.TikTokSettings_SOURCE_FILE_UPLOAD
	pull   = connectionsv1.TikTokSettings_SOURCE_PULL_FROM_URL
)

func oauth(tb testing.TB, token string) connector.Credential {
	return connector.Credential{Version: 3, Data: encode(tb, &connectionsv1.Credential{
		Kind: &connectionsv1.Credential_Oauth2{Oauth2: &connectionsv1.OAuth2Token{AccessToken: token}},
	})}
}

func payloadOf(tb testing.TB, p *fireoncev1.SocialPost) []byte {
	return encode(tb, &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: p}})
}

func public(o *fireoncev1.TikTokOptions) *fireoncev1.SocialPost_Tiktok {
	if o == nil {
		o = &fireoncev1.TikTokOptions{}
	}
	if o.GetPrivacy() == 0 {
		o.Privacy = fireoncev1.TikTokOptions_PRIVACY_PUBLIC_TO_EVERYONE
	}
	return &fireoncev1.SocialPost_Tiktok{Tiktok: o}
}

func video(url string) *fireoncev1.SocialPost {
	return &fireoncev1.SocialPost{Text: text, Media: []*fireoncev1.MediaRef{{Url: url}}, PlatformOptions: public(nil)}
}

const creatorAnswer = `{"data":{"creator_username":"ada","creator_nickname":"Ada",` +
	`"privacy_level_options":["PUBLIC_TO_EVERYONE","SELF_ONLY"]},"error":{"code":"ok","message":"","log_id":"1"}}`

// What TikTok fetches is committed by one request; that one is held against what
// holds for every connector.
func suite(t *testing.T, secure bool, cred connector.Credential) connectortest.Suite {
	return connectortest.Suite{
		Secure: secure,
		NewAt: func(_ testing.TB, s *transport.Sender, base string) connector.Connector {
			return tiktok.New(tiktok.Config{Sender: s, BaseURL: base + "/"})
		},
		Request: func(string) connector.Request {
			return connector.Request{
				EffectKey: effectKey, Settings: settingsOf(t, pull), PayloadKind: tiktok.PayloadKind,
				Payload: payloadOf(t, video("https://media.example/v.mp4")),
			}
		},
		Credential: cred,
		Class:      job.Handle,
		Secrets:    []string{token},
		Success:    connectortest.Answer(200, `{"data":{"publish_id":"v_pub_url~v2.1"},"error":{"code":"ok","message":"","log_id":"1"}}`),
		Statuses:   "`tiktok`",
		Aside: func(r connectortest.Received) string {
			if strings.Contains(r.Line, "/creator_info/") {
				return connectortest.Answer(200, creatorAnswer)
			}
			return ""
		},
	}
}

func TestConformance(t *testing.T) {
	t.Run("http", func(t *testing.T) { connectortest.Run(t, suite(t, false, oauth(t, token))) })
	t.Run("https", func(t *testing.T) {
		cred := connector.Credential{Version: 3, Data: encode(t, &connectionsv1.Credential{
			Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: token}},
		})}
		connectortest.Run(t, suite(t, true, cred))
	})
}
