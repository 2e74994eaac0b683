package platforms_test

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/mastodon"
	"github.com/fireonce/fireonce/internal/connector/mastodon/mastodontest"
	"github.com/fireonce/fireonce/internal/connector/tiktok/tiktoktest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/platforms"
)

// A file that is gone, or is another one than the payload says, fails its job before
// anything is sent, in words that name the trouble; the platform has nothing of it.
func TestFilesThatAreNotThere(t *testing.T) {
	t.Parallel()
	// Each returns a platform, the path of a file that it takes, and how much it has heard.
	for name, on := range map[string]func(t *testing.T) (platforms.Platform, string, func() int){
		"X": func(t *testing.T) (platforms.Platform, string, func() int) {
			on, p := overX(t, "/2/tweets", "", nil)
			return on, "/a.png", func() int { return len(p.Objects()) + len(p.Pictures()) }
		},
		"TikTok, upload": func(t *testing.T) (platforms.Platform, string, func() int) {
			p, on := overTikTok(t, tiktoktest.Options{}, sources["upload"])
			return on, "/a.mp4", p.Begun
		},
		"TikTok, pull": func(t *testing.T) (platforms.Platform, string, func() int) {
			p, on := overTikTok(t, tiktoktest.Options{}, sources["pull"])
			return on, "/a.mp4", p.Begun
		},
		"Mastodon": func(t *testing.T) (platforms.Platform, string, func() int) {
			on := mastodonOf(t, mastodontest.Mastodon, job.Keyed)
			on.Connector = func(s *transport.Sender, _ string) connector.Connector {
				return mastodon.New(mastodon.Config{Sender: s, Media: fetcher()})
			}
			effects := on.Effects
			return on, "/a.png", func() int { return len(effects("words")) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := hostFiles(t)
			p, path, heard := on(t)
			w := platforms.NewWorld(t, p)
			digest := sha256.Sum256([]byte("another file"))
			for words, path := range map[string]string{"is not there": "/gone.png", "its SHA-256 differs": path} {
				post := &fireoncev1.SocialPost{Text: "words", Media: []*fireoncev1.MediaRef{{Url: f.url + path, Sha256: digest[:]}}}
				if strings.HasPrefix(name, "TikTok") {
					post.PlatformOptions = &fireoncev1.SocialPost_Tiktok{Tiktok: &fireoncev1.TikTokOptions{
						Privacy: fireoncev1.TikTokOptions_PRIVACY_PUBLIC_TO_EVERYONE,
					}}
				}
				id := w.Submit(words, postOf(post))
				s := w.UntilState(id, job.Failed)
				if s.Attempt != 0 || !strings.Contains(s.LastError.Message, words) || heard() != 0 {
					t.Errorf("%+v after %d attempts, the platform has %d\n%s", s.LastError, s.Attempt, heard(), w.Story(id))
				}
			}
		})
	}
}
