package x_test

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/x"
	"github.com/fireonce/fireonce/internal/connector/x/xtest"
	"github.com/fireonce/fireonce/internal/job"
)

// files is where the pictures of a test are.
func files(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, ".png"):
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write([]byte("\x89PNG\r\n\x1a\n" + r.URL.Path))
		case strings.HasSuffix(r.URL.Path, ".pdf"):
			w.Header().Set("Content-Type", "application/pdf")
			_, _ = w.Write([]byte("%PDF-1.7"))
		case strings.HasSuffix(r.URL.Path, "/big.jpg"):
			w.Header().Set("Content-Type", "image/jpeg")
			_, _ = w.Write(make([]byte, x.MaxPicture+1))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func pictures(urls ...string) (refs []*fireoncev1.MediaRef) {
	for _, u := range urls {
		refs = append(refs, &fireoncev1.MediaRef{Url: u, AltText: "words for " + u[strings.LastIndexByte(u, '/'):]})
	}
	return refs
}

// TestPictures: pictures are uploaded before the send, in their order and with their
// words; a look identifies a post with its pictures, and distinguishes it from one
// without.
func TestPictures(t *testing.T) {
	base := files(t)
	for name, p := range map[string]*fireoncev1.SocialPost{
		"text":             {Text: "look & see", Media: pictures(base+"/b.png", base+"/a.png")},
		"no text":          {Media: pictures(base + "/a.png")},
		"a reply, no text": {ReplyToId: "1600000000000000001", Media: pictures(base + "/a.png")},
		"a reply":          {Text: "this one", ReplyToId: "1600000000000000001", Media: pictures(base + "/a.png")},
		"a quote": {Text: "this one", Media: pictures(base + "/a.png"), PlatformOptions: &fireoncev1.SocialPost_X{
			X: &fireoncev1.XOptions{QuotePostId: "1600000000000000002"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for answer, want := range map[xtest.Answer]job.Verdict{xtest.Reset: job.SawPresent, xtest.Drop: job.SawAbsent, xtest.Reply: job.SawPresent} {
				w := newWorld(t, xtest.Options{Plan: always(answer)})
				e := w.effect(t, p)
				e.Send(t)
				up := w.Pictures()
				if len(up) != len(p.GetMedia()) {
					t.Fatalf("%d pictures uploaded", len(up))
				}
				for i, m := range p.GetMedia() {
					if !strings.HasSuffix(m.GetUrl(), strings.TrimPrefix(string(up[i].Bytes), "\x89PNG\r\n\x1a\n")) || up[i].Type != "image/png" || up[i].Alt != m.GetAltText() {
						t.Errorf("picture %d is %+v", i, up[i])
					}
				}
				if sent := w.Objects(); answer.Commits() && (len(sent) != 1 || len(sent[0].Pictures) != len(up) || sent[0].Pictures[0].ID != up[0].ID) {
					t.Errorf("sent %+v", sent)
				}
				e.Sees(t, want, "")
			}
		})
	}
	w := newWorld(t, xtest.Options{Plan: always(xtest.Drop)})
	e := w.effect(t, &fireoncev1.SocialPost{Text: "look", Media: pictures(base + "/a.png")})
	e.Send(t)
	w.Post(xtest.Object{Text: "look", Pictures: []xtest.Picture{{ID: "1"}, {ID: "2"}}})
	e.Sees(t, job.SawAbsent, "") // other pictures
	w.Post(xtest.Object{Text: "look"})
	e.SeesNow(t, job.SawCandidates, "") // X may have left the pictures out
	w = newWorld(t, xtest.Options{Plan: always(xtest.Drop)})
	both := w.effect(t, &fireoncev1.SocialPost{Text: "look", Media: pictures(base+"/a.png", base+"/b.png")})
	both.Send(t)
	w.Post(xtest.Object{Text: "look", Pictures: []xtest.Picture{{ID: "1"}}})
	both.Sees(t, job.SawCandidates, "") // nor all of them
	two := w.effect(t, &fireoncev1.SocialPost{Text: "look", Media: pictures(base + "/b.png")})
	if string(two.Opening.Prepared.Gate) != string(e.Opening.Prepared.Gate) || string(two.Opening.Prepared.Frozen) == string(e.Opening.Prepared.Frozen) {
		t.Error("posts that differ in their pictures only are told apart by what X does not tell")
	}
}

// TestPicturesRefused: what is wrong with a picture is known before the send.
func TestPicturesRefused(t *testing.T) {
	base := files(t)
	digest := sha256.Sum256([]byte("another"))
	for name, c := range map[string]struct {
		media  *fireoncev1.MediaRef
		answer xtest.Answer // to uploads
		kind   job.FailureKind
		words  string
	}{
		"gone":           {&fireoncev1.MediaRef{Url: base + "/none.gif"}, xtest.Reply, job.FailPermanent, "404"},
		"another file":   {&fireoncev1.MediaRef{Url: base + "/a.png", Sha256: digest[:]}, xtest.Reply, job.FailPermanent, "SHA-256"},
		"no picture":     {&fireoncev1.MediaRef{Url: base + "/a.pdf"}, xtest.Reply, job.FailPermanent, "application/pdf"},
		"too large":      {&fireoncev1.MediaRef{Url: base + "/big.jpg"}, xtest.Reply, job.FailPermanent, "too large"},
		"refused":        {&fireoncev1.MediaRef{Url: base + "/a.png"}, xtest.Forbid, job.FailAuth, "reconnect this X account"},
		"unauthorized":   {&fireoncev1.MediaRef{Url: base + "/a.png"}, xtest.Unauthorized, job.FailAuth, "reconnect this X account"},
		"limited":        {&fireoncev1.MediaRef{Url: base + "/a.png"}, xtest.RateLimit, job.FailRateLimited, "429"},
		"out of order":   {&fireoncev1.MediaRef{Url: base + "/a.png"}, xtest.Fail, job.FailTransient, "503"},
		"connection cut": {&fireoncev1.MediaRef{Url: base + "/a.png"}, xtest.Drop, job.FailTransient, "could not be read"},
	} {
		w := newWorld(t, xtest.Options{Plan: func(r xtest.Request) xtest.Answer {
			if r.Path == "/2/media/upload" {
				return c.answer
			}
			return xtest.Reply
		}})
		e := w.effect(t, &fireoncev1.SocialPost{Text: "look", Media: []*fireoncev1.MediaRef{c.media}})
		_, err := w.c.Open(t.Context(), e.Opening)
		var r *connector.Refusal
		if !errors.As(err, &r) || r.Kind != c.kind || !strings.Contains(r.Msg, c.words) {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(w.Objects()); n != 0 {
			t.Errorf("%s: %d effects", name, n)
		}
	}
}

// TestPreparePictures: what can be known when a job is scheduled is said then.
func TestPreparePictures(t *testing.T) {
	with := x.New(x.Config{Media: kit.NewMedia(kit.MediaConfig{})})
	ok := &fireoncev1.MediaRef{Url: "https://x.example/a.png", MediaType: "image/webp", AltText: strings.Repeat("ä", x.MaxAlt)}
	for name, c := range map[string]struct {
		c     *x.Connector
		media []*fireoncev1.MediaRef
		field string
	}{
		"a server without": {x.New(x.Config{}), []*fireoncev1.MediaRef{ok}, ""},
		"five":             {with, []*fireoncev1.MediaRef{ok, ok, ok, ok, ok}, ""},
		"a video":          {with, []*fireoncev1.MediaRef{ok, {Url: "https://x.example/a.mp4", MediaType: "video/mp4"}}, "[1].media_type"},
		"no URL":           {with, []*fireoncev1.MediaRef{{Url: "a.png"}}, "[0].url"},
		"long words":       {with, []*fireoncev1.MediaRef{{Url: "https://x.example/a.png", AltText: strings.Repeat("a", x.MaxAlt+1)}}, "[0].alt_text"},
	} {
		_, err := c.c.Prepare(connector.Request{PayloadKind: x.KindPost, Payload: post(t, &fireoncev1.SocialPost{Text: "x", Media: c.media})})
		var input *connector.InputError
		if !errors.As(err, &input) || input.Field != "payload.social_post.media"+c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := with.Prepare(connector.Request{PayloadKind: x.KindPost, Payload: post(t, &fireoncev1.SocialPost{Media: []*fireoncev1.MediaRef{ok, ok, ok, ok}})}); err != nil {
		t.Error(err)
	}
}
