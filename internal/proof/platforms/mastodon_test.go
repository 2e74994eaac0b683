package platforms_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/mastodon"
	"github.com/fireonce/fireonce/internal/connector/mastodon/mastodontest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/internal/proof/platforms"
)

// Simulated servers, which are asked what they are.
func TestMastodon(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		software mastodontest.Software
		class    job.Class
	}{
		"Mastodon":   {mastodontest.Mastodon, job.Keyed},
		"GoToSocial": {mastodontest.GoToSocial, job.Observable},
		"Pleroma":    {mastodontest.Pleroma, job.Observable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			platforms.Run(t, func(t *testing.T) platforms.Platform {
				t.Helper()
				return mastodonOf(t, c.software, c.class)
			})
		})
	}
}

// Mastodon stores a key after the post, so a repeat that comes while the request before
// may still be under way is another post: it waits for the fence.
func TestMastodonRepeatsAfterTheFence(t *testing.T) {
	t.Parallel()
	w := platforms.NewWorld(t, mastodonOf(t, mastodontest.Mastodon, job.Keyed))
	w.Proxy.Plan(faultproxy.On(http.MethodPost, "/api/v1/statuses", faultproxy.Fate{Fault: faultproxy.DropAfter}, faultproxy.Fate{}))
	id := w.Submit("one", postOf(&fireoncev1.SocialPost{Text: "once"}))
	s := w.UntilState(id, job.Succeeded)
	attempts := w.Attempts(id)
	if len(attempts) != 2 || s.Effect.Proof != job.ProofKeyReplay {
		t.Fatalf("%d attempts, %+v\n%s", len(attempts), s.Effect, w.Story(id))
	}
	if fence := attempts[0].AnswerDeadline.Add(platforms.Grace); attempts[1].ArmedAt.Before(fence) {
		t.Errorf("repeated %v before the fence\n%s", fence.Sub(attempts[1].ArmedAt), w.Story(id))
	}
}

func mastodonOf(t *testing.T, software mastodontest.Software, class job.Class) platforms.Platform {
	t.Helper()
	server, err := mastodontest.Start(mastodontest.Options{Software: software})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return mastodonAt(t, server, class)
}

func mastodonAt(t *testing.T, server *mastodontest.Server, class job.Class) platforms.Platform {
	t.Helper()
	return platforms.Platform{
		URL: server.URL(), Class: class, Credential: bearer("first"), Renewed: bearer("second"),
		Connector: func(s *transport.Sender, _ string) connector.Connector {
			return mastodon.New(mastodon.Config{Sender: s, Settle: &lookup.Settle{Negatives: 1}})
		},
		Settings: func(baseURL string) []byte { return encoded(t, &connectionsv1.MastodonSettings{BaseUrl: baseURL}) },
		Payload: func(text string) *fireoncev1.Payload {
			return postOf(&fireoncev1.SocialPost{Text: text, PlatformOptions: &fireoncev1.SocialPost_Mastodon{
				Mastodon: &fireoncev1.MastodonOptions{Visibility: fireoncev1.MastodonOptions_VISIBILITY_UNLISTED, ContentWarning: "tests"},
			}})
		},
		Commits: func(r faultproxy.Request) bool {
			return r.Method == http.MethodPost && strings.HasSuffix(r.Path, "/api/v1/statuses")
		},
		Effects: func(text string) (ids []string) {
			for _, p := range server.Posts() {
				if p.Text == text && p.Warning == "tests" && p.Visibility == "unlisted" {
					ids = append(ids, p.ID)
				}
			}
			return ids
		},
		Parent: func(id string) string {
			for _, p := range server.Posts() {
				if p.ID == id {
					return p.ReplyTo
				}
			}
			return "no such post"
		},
		HoldWords: "reconnect this Mastodon account", RefusedWords: "character limit of 500",
		Unauthorized: status(http.StatusUnauthorized, `{"error":"The access token was revoked"}`),
		Refused:      status(http.StatusUnprocessableEntity, `{"error":"Validation failed: Text character limit of 500 exceeded"}`),
		Limited: func(wait time.Duration) faultproxy.Fate {
			fate := status(http.StatusTooManyRequests, `{"error":"Too many requests"}`)
			fate.Header = http.Header{"X-Ratelimit-Reset": {time.Now().Add(wait).UTC().Format("2006-01-02T15:04:05.000000Z")}}
			return fate
		},
	}
}
