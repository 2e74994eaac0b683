package platforms_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/tiktok"
	"github.com/fireonce/fireonce/internal/connector/tiktok/tiktoktest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/internal/proof/platforms"
)

// The simulated TikTok, uploaded to: the last chunk is the commit.
func TestTikTokUpload(t *testing.T) {
	t.Parallel()
	platforms.Run(t, func(t *testing.T) platforms.Platform {
		t.Helper()
		_, p := overTikTok(t, tiktoktest.Options{}, connectionsv1.TikTokSettings_SOURCE_FILE_UPLOAD)
		return p
	})
}

// overTikTok is a simulated TikTok and a host of videos.
func overTikTok(
	t *testing.T, opts tiktoktest.Options, source connectionsv1.TikTokSettings_Source,
) (*tiktoktest.Platform, platforms.Platform) {
	t.Helper()
	p, err := tiktoktest.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "video/mp4")
		_, _ = w.Write(bytes.Repeat([]byte("film"), 1000))
	}))
	t.Cleanup(host.Close)
	commit := "/video/" // the upload
	if source == connectionsv1.TikTokSettings_SOURCE_PULL_FROM_URL {
		commit = "/v2/post/publish/video/init/"
	}
	return p, platforms.Platform{
		URL: p.URL(), Class: job.Handle, Credential: bearer("first"), Renewed: bearer("second"),
		Connector: func(s *transport.Sender, base string) connector.Connector {
			p.Uploads(base)
			media := kit.NewMedia(kit.MediaConfig{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
			return tiktok.New(tiktok.Config{
				Sender: s, Media: media, BaseURL: base, ReadLag: -1, StepTime: 10 * time.Second, UploadLife: -1,
			})
		},
		Settings: func(string) []byte { return encoded(t, &connectionsv1.TikTokSettings{Source: source}) },
		Payload: func(text string) *fireoncev1.Payload {
			return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{
				Text: text, Media: []*fireoncev1.MediaRef{{Url: host.URL + "/film.mp4"}},
				PlatformOptions: &fireoncev1.SocialPost_Tiktok{Tiktok: &fireoncev1.TikTokOptions{
					Privacy: fireoncev1.TikTokOptions_PRIVACY_PUBLIC_TO_EVERYONE,
				}},
			}}}
		},
		Commits: func(r faultproxy.Request) bool { return r.Path == commit },
		Effects: func(text string) (ids []string) {
			for _, post := range p.Posts(text) {
				ids = append(ids, post.ID)
			}
			return ids
		},
		// An upload has a token of its own.
		Sends:     func(r faultproxy.Request) bool { return r.Path == "/v2/post/publish/video/init/" },
		HoldWords: "Reconnect this TikTok account",
		// The upload's refusal: TikTok reports what it does not take by its status.
		RefusedWords: "TikTok has no whole video, so nothing was posted",
		Unauthorized: tiktokSays(http.StatusUnauthorized, "access_token_invalid"),
		Refused:      tiktokSays(http.StatusBadRequest, "invalid_param"),
		Limited:      func(wait time.Duration) faultproxy.Fate { return faultproxy.RetryAfter(wait) },
	}
}

func tiktokSays(code int, what string) faultproxy.Fate {
	return status(code, `{"data":{},"error":{"code":"`+what+`","message":"words","log_id":"1"}}`)
}

// tiktokPlan returns fates to the requests whose path has a part, in turn, then Pass.
func tiktokPlan(part string, fates ...faultproxy.Fate) faultproxy.Plan {
	return func(r faultproxy.Request) faultproxy.Fate {
		if !strings.Contains(r.Path, part) || len(fates) == 0 {
			return faultproxy.Fate{}
		}
		fate := fates[0]
		fates = fates[1:]
		return fate
	}
}

// An upload's beginning that is lost, whichever way, begins another, and one post is
// there. One that TikTok was to fetch is a person's to decide.
func TestTikTokLostBeginnings(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]faultproxy.Fault{
		"lost": faultproxy.DropBefore, "its answer lost": faultproxy.DropAfter, "502": faultproxy.FailAfter,
	} {
		t.Run("upload, "+name, func(t *testing.T) {
			t.Parallel()
			p, on := overTikTok(t, tiktoktest.Options{}, connectionsv1.TikTokSettings_SOURCE_FILE_UPLOAD)
			w := platforms.NewWorld(t, on)
			w.Proxy.Plan(tiktokPlan("/init/", faultproxy.Fate{Fault: f}))
			id := w.Submit("one", on.Payload("words"))
			s := w.UntilState(id, job.Succeeded)
			if posts := p.Posts("words"); len(posts) != 1 || s.Effect.ExternalID != posts[0].ID || s.Attempt != 2 {
				t.Errorf("%d posts, %d attempts, bound to %q\n%s", len(posts), s.Attempt, s.Effect.ExternalID, w.Story(id))
			}
		})
		for policy, want := range map[job.Delivery]job.State{job.OnceOrAsk: job.Ambiguous, job.AtMostOnce: job.Ambiguous} {
			t.Run("pull, "+name+", "+policy.String(), func(t *testing.T) {
				t.Parallel()
				p, on := overTikTok(t, tiktoktest.Options{}, connectionsv1.TikTokSettings_SOURCE_PULL_FROM_URL)
				w := platforms.NewWorld(t, on)
				w.Proxy.Plan(tiktokPlan("/init/", faultproxy.Fate{Fault: f}))
				id := w.Submit("one", on.Payload("words"), platforms.Delivery(policy))
				s := w.Until(id, "looked at", func(s job.Snapshot) bool { return s.Looks > 0 || s.State == job.NeedsResolution })
				arrived := 1
				if f == faultproxy.DropBefore {
					arrived = 0
				} else {
					want = job.NeedsResolution // it is public by now, and shown to a person
				}
				if s.State != want || p.Begun() != arrived || s.Attempt != 1 {
					t.Errorf("%s after %d attempts, want %s; %d begun\n%s", s.State, s.Attempt, want, p.Begun(), w.Story(id))
				}
			})
		}
	}
}
