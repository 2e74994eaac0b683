package platforms_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/connector/x"
	"github.com/fireonce/fireonce/internal/connector/x/xtest"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/internal/proof/platforms"
)

// The simulated X: posts, whose links and special characters come back in another form.
func TestX(t *testing.T) {
	t.Parallel()
	const frame = "%s & more: https://words.example/%%20?a=b"
	platforms.Run(t, func(t *testing.T) platforms.Platform {
		t.Helper()
		p, on := overX(t, "/2/tweets", "", func(text string) *fireoncev1.Payload {
			return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: fmt.Sprintf(frame, text)}}}
		})
		p.Parent = func(id string) string {
			for _, o := range on.Objects() {
				if o.ID == id {
					return o.ReplyTo
				}
			}
			return "no such post"
		}
		return p
	})
}

// The simulated X: direct messages.
func TestXMessages(t *testing.T) {
	t.Parallel()
	platforms.Run(t, func(t *testing.T) platforms.Platform {
		t.Helper()
		p, _ := overX(t, "/2/dm_conversations/with/2002/messages", "dm:", func(text string) *fireoncev1.Payload {
			return &fireoncev1.Payload{Kind: &fireoncev1.Payload_DirectMessage{DirectMessage: &fireoncev1.DirectMessage{RecipientId: "2002", Text: text}}}
		})
		return p
	})
}

// The simulated X: posts with a picture and without a text.
func TestXPictures(t *testing.T) {
	t.Parallel()
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write([]byte(r.URL.Path))
	}))
	t.Cleanup(files.Close)
	platforms.Run(t, func(t *testing.T) platforms.Platform {
		t.Helper()
		p, on := overX(t, "/2/tweets", "", func(text string) *fireoncev1.Payload {
			return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{
				Media: []*fireoncev1.MediaRef{{Url: files.URL + "/" + url.PathEscape(text)}},
			}}}
		})
		p.Effects = func(text string) (ids []string) {
			for _, o := range on.Objects() {
				if len(o.Pictures) == 1 && string(o.Pictures[0].Bytes) == "/"+text {
					ids = append(ids, o.ID)
				}
			}
			return ids
		}
		return p
	})
}

// overX is a simulated X that lists what it has after a moment only.
func overX(t *testing.T, path, prefix string, payload func(text string) *fireoncev1.Payload) (platforms.Platform, *xtest.Platform) {
	t.Helper()
	p, err := xtest.Start(xtest.Options{ReadLag: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	media := kit.NewMedia(kit.MediaConfig{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8")), Dir: t.TempDir()})
	return platforms.Platform{
		URL: p.URL(), Class: job.Observable, Credential: bearer("first"), Renewed: bearer("second"),
		Connector: func(s *transport.Sender, baseURL string) connector.Connector {
			return x.New(x.Config{Sender: s, BaseURL: baseURL, Media: media, Settle: &lookup.Settle{
				ReadLag: 300 * time.Millisecond, Negatives: 3, Spacing: 100 * time.Millisecond,
			}})
		},
		Settings: func(string) []byte { return encoded(t, &connectionsv1.XSettings{}) },
		Payload:  payload,
		Commits:  func(r faultproxy.Request) bool { return r.Method == http.MethodPost && r.Path == path },
		Effects: func(text string) (ids []string) {
			for _, o := range p.Objects() {
				if strings.HasPrefix(o.Text, text) {
					ids = append(ids, prefix+o.ID)
				}
			}
			return ids
		},
		HoldWords: "reconnect this X account", RefusedWords: "You are not permitted to perform this action.",
		Unauthorized: status(http.StatusUnauthorized, `{"title":"Unauthorized","status":401}`),
		Refused:      status(http.StatusForbidden, `{"detail":"You are not permitted to perform this action.","status":403}`),
		Limited: func(wait time.Duration) faultproxy.Fate {
			fate := status(http.StatusTooManyRequests, `{"title":"Too Many Requests","status":429}`)
			fate.Header = http.Header{
				"X-Rate-Limit-Remaining": {"0"},
				"X-Rate-Limit-Reset":     {fmt.Sprint(time.Now().Add(wait).Unix() + 1)},
			}
			return fate
		},
	}, p
}
