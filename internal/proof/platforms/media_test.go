package platforms_test

import (
	"bytes"
	"crypto/sha256"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/bluesky"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/mastodon"
	"github.com/fireonce/fireonce/internal/connector/mastodon/mastodontest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/internal/proof/platforms"
	"github.com/fireonce/fireonce/internal/proof/platforms/pds"
)

// files is a host of media. Each image that it serves is another one if it changes.
type files struct {
	url     string
	changes atomic.Bool
	given   atomic.Int32
}

func picture(t testing.TB, shade uint8) []byte {
	t.Helper()
	img := image.NewGray(image.Rect(0, 0, 8, 8))
	img.SetGray(3, 3, color.Gray{Y: shade})
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func hostFiles(t *testing.T) *files {
	t.Helper()
	f := &files{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := f.given.Add(1)
		if !f.changes.Load() {
			n = 0
		}
		switch r.URL.Path {
		case "/a.png":
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write(picture(t, uint8(n)))
		case "/large.png":
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write(make([]byte, bluesky.MaxImage+1))
		case "/a.mp4":
			w.Header().Set("Content-Type", "video/mp4")
			_, _ = w.Write([]byte("a video"))
		case "/a.pdf":
			w.Header().Set("Content-Type", "application/pdf")
			_, _ = w.Write([]byte("a document"))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	f.url = s.URL
	return f
}

func (f *files) ref(path, alt string) *fireoncev1.MediaRef {
	return &fireoncev1.MediaRef{Url: f.url + path, AltText: alt}
}

func fetcher() *kit.Media {
	return kit.NewMedia(kit.MediaConfig{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
}

// Images at a real personal data server.
func TestBlueskyImages(t *testing.T) {
	t.Parallel()
	server := pds.Start(t)
	world := func(t *testing.T) (*platforms.World, *pds.Account) {
		t.Helper()
		account := server.Account(t)
		p := blueskyOf(t, server.URL, account)
		p.Connector = func(s *transport.Sender, _ string) connector.Connector {
			return bluesky.New(bluesky.Config{Sender: s, Media: fetcher()})
		}
		return platforms.NewWorld(t, p), account
	}
	t.Run("two images and a quote", func(t *testing.T) {
		t.Parallel()
		f := hostFiles(t)
		w, account := world(t)
		w.UntilState(w.Submit("one", postOf(&fireoncev1.SocialPost{Text: "quoted", Media: []*fireoncev1.MediaRef{f.ref("/a.png", "")}})), job.Succeeded)
		quoted := account.Posts(t)[0]
		s := w.UntilState(w.Submit("two", postOf(&fireoncev1.SocialPost{
			Media: []*fireoncev1.MediaRef{f.ref("/a.png", "a dot"), f.ref("/a.png", "another")},
			PlatformOptions: &fireoncev1.SocialPost_Bluesky{Bluesky: &fireoncev1.BlueskyOptions{
				QuoteUri: quoted.URI, QuoteCid: quoted.CID,
			}},
		})), job.Succeeded)
		for _, p := range account.Posts(t) {
			text := asJSON(t, p.Record)
			if p.URI == s.Effect.ExternalID && (!strings.Contains(text, `"alt":"a dot"`) || !strings.Contains(text, quoted.CID) ||
				strings.Count(text, `"mimeType":"image/png"`) != 2) {
				t.Errorf("the server has %s", text)
			}
		}
	})
	for name, unread := range map[string]int{
		"the file changes after the answer was lost":                    0,
		"the file changes, and the post that is there is read too late": 1,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := hostFiles(t)
			f.changes.Store(true)
			w, account := world(t)
			w.Proxy.Plan(losing(unread))
			id := w.Submit("one", postOf(&fireoncev1.SocialPost{Text: "once", Media: []*fireoncev1.MediaRef{f.ref("/a.png", "")}}))
			s := w.UntilState(id, job.Succeeded)
			// A file for each attempt, and the post of the first.
			if posts := account.Posts(t); len(posts) != 1 || posts[0].URI != s.Effect.ExternalID ||
				s.Attempt != 2+unread || int(f.given.Load()) != s.Attempt {
				t.Errorf("%d posts, %d files\n%s", len(posts), f.given.Load(), w.Story(id))
			}
		})
	}
	for path, words := range map[string]string{
		"/large.png": "too large", "/a.pdf": "images only: a media file is application/pdf", "/gone.png": "not there",
	} {
		t.Run("refused: "+path, func(t *testing.T) {
			t.Parallel()
			f := hostFiles(t)
			w, account := world(t)
			s := w.UntilState(w.Submit("one", postOf(&fireoncev1.SocialPost{Media: []*fireoncev1.MediaRef{f.ref(path, "")}})), job.Failed)
			if !strings.Contains(s.LastError.Message, words) || s.Attempt != 0 || len(account.Posts(t)) != 0 {
				t.Errorf("%+v after %d attempts", s.LastError, s.Attempt)
			}
		})
	}
	t.Run("refused: another file", func(t *testing.T) {
		t.Parallel()
		f := hostFiles(t)
		w, account := world(t)
		ref, digest := f.ref("/a.png", ""), sha256.Sum256(picture(t, 9))
		ref.Sha256 = digest[:]
		s := w.UntilState(w.Submit("one", postOf(&fireoncev1.SocialPost{Media: []*fireoncev1.MediaRef{ref}})), job.Failed)
		if !strings.Contains(s.LastError.Message, "SHA-256 differs") || len(account.Posts(t)) != 0 {
			t.Errorf("%+v", s.LastError)
		}
	})
}

// losing is a plan that loses the first commit's answer and then so many reads of the
// post that is at the commit's place already.
func losing(reads int) func(faultproxy.Request) faultproxy.Fate {
	commits, read := 0, 0
	return func(r faultproxy.Request) faultproxy.Fate {
		switch {
		case strings.HasSuffix(r.Path, "/com.atproto.repo.putRecord"):
			if commits++; commits == 1 {
				return faultproxy.Fate{Fault: faultproxy.DropAfter}
			}
		case strings.HasSuffix(r.Path, "/com.atproto.repo.getRecord"):
			if read++; read <= reads {
				return faultproxy.Fate{Fault: faultproxy.DropBefore}
			}
		}
		return faultproxy.Fate{}
	}
}

// Media at simulated servers.
func TestMastodonMedia(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		software mastodontest.Software
		class    job.Class
	}{"Mastodon": {mastodontest.Mastodon, job.Keyed}, "GoToSocial": {mastodontest.GoToSocial, job.Observable}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := hostFiles(t)
			server, err := mastodontest.Start(mastodontest.Options{Software: c.software})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = server.Close() })
			p := mastodonAt(t, server, c.class)
			p.Connector = func(s *transport.Sender, _ string) connector.Connector {
				return mastodon.New(mastodon.Config{Sender: s, Media: fetcher(), Settle: &lookup.Settle{Negatives: 1}})
			}
			w := platforms.NewWorld(t, p)
			commits := 0
			w.Proxy.Plan(func(r faultproxy.Request) faultproxy.Fate {
				if p.Commits(r) {
					if commits++; commits == 1 {
						return faultproxy.Fate{Fault: faultproxy.DropAfter}
					}
				}
				return faultproxy.Fate{}
			})
			post := &fireoncev1.SocialPost{Media: []*fireoncev1.MediaRef{f.ref("/a.png", "a dot"), f.ref("/a.mp4", "")}}
			s := w.UntilState(w.Submit("one", postOf(post)), job.Succeeded)
			posts := server.Posts()
			if len(posts) != 1 || posts[0].ID != s.Effect.ExternalID || len(posts[0].Files) != 2 || posts[0].Files[0].Description != "a dot" ||
				posts[0].Files[0].Size != len(picture(t, 0)) || posts[0].Files[1].Type != "video/mp4" {
				t.Errorf("%+v", posts)
			}
			s = w.UntilState(w.Submit("two", postOf(&fireoncev1.SocialPost{Media: []*fireoncev1.MediaRef{f.ref("/a.pdf", "")}})), job.Failed)
			if !strings.Contains(s.LastError.Message, "images, videos and audio only: a media file is application/pdf") || s.Attempt != 0 {
				t.Errorf("%+v after %d attempts", s.LastError, s.Attempt)
			}
		})
	}
}
