package platforms_test

import (
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/feed"
	"github.com/fireonce/fireonce/internal/connector/feed/feedtest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/internal/proof/platforms"
)

// The simulated feed.
func TestFeed(t *testing.T) {
	t.Parallel()
	platforms.Run(t, func(t *testing.T) platforms.Platform {
		t.Helper()
		p, err := feedtest.Start(feedtest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		return feedOf(t, p, p.URL())
	})
}

// feedOf is the platform p, which is reached at url.
func feedOf(t *testing.T, p *feedtest.Platform, url string) platforms.Platform {
	t.Helper()
	return platforms.Platform{
		URL: url, Class: job.Observable, Credential: bearer("first"), Renewed: bearer("second"),
		Connector: func(s *transport.Sender, _ string) connector.Connector { return feed.New(feed.Config{Sender: s}) },
		Settings: func(baseURL string) []byte {
			return encoded(t, &connectionsv1.FeedSettings{BaseUrl: baseURL, ReadLag: durationpb.New(0)})
		},
		Payload: func(text string) *fireoncev1.Payload {
			return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: text}}}
		},
		Commits: func(r faultproxy.Request) bool { return r.Method == http.MethodPost },
		Effects: func(text string) (ids []string) {
			for _, post := range p.Posts() {
				if post.Text == text {
					ids = append(ids, post.ID)
				}
			}
			return ids
		},
		Unauthorized: status(http.StatusUnauthorized, ""),
		Refused:      status(http.StatusUnprocessableEntity, `{"error":"too rude"}`),
		Limited:      func(wait time.Duration) faultproxy.Fate { return faultproxy.RetryAfter(wait) },
	}
}

func bearer(token string) *connectionsv1.Credential {
	return &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: token}}}
}

func status(code int, body string) faultproxy.Fate {
	return faultproxy.Fate{Fault: faultproxy.Refuse, Status: code, Body: body}
}

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
