package tiktok_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/tiktok"
	"github.com/fireonce/fireonce/internal/connector/tiktok/tiktoktest"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
)

func refused(t *testing.T, err error, kind job.FailureKind, words string) {
	t.Helper()
	var r *connector.Refusal
	if !errors.As(err, &r) || r.Kind != kind || !strings.Contains(r.Msg, words) || strings.Contains(r.Msg, "secret") {
		t.Errorf("%v, want a refusal of kind %s with %q", err, kind, words)
	}
}

// What TikTok does not take is said when the job is scheduled.
func TestPrepareRefuses(t *testing.T) {
	ref := func(types ...string) (out []*fireoncev1.MediaRef) {
		for i, kind := range types {
			out = append(out, &fireoncev1.MediaRef{Url: fmt.Sprintf("https://media.example/%d", i), MediaType: kind})
		}
		return out
	}
	photos := func(n int) (out []string) {
		for range n {
			out = append(out, "image/jpeg")
		}
		return out
	}
	post := func(media []*fireoncev1.MediaRef, edit ...func(*fireoncev1.SocialPost)) *fireoncev1.SocialPost {
		p := &fireoncev1.SocialPost{Text: text, Media: media, PlatformOptions: public(nil)}
		for _, f := range edit {
			f(p)
		}
		return p
	}
	says := func(text string) func(*fireoncev1.SocialPost) {
		return func(p *fireoncev1.SocialPost) { p.Text = text }
	}
	with := func(o *fireoncev1.TikTokOptions) func(*fireoncev1.SocialPost) {
		return func(p *fireoncev1.SocialPost) { p.PlatformOptions = public(o) }
	}
	c := tiktok.New(tiktok.Config{HTTPSOnly: true})
	for name, k := range map[string]struct {
		source connectionsv1.TikTokSettings_Source
		post   *fireoncev1.SocialPost
		field  string // empty: it is taken
	}{
		"video":              {upload, post(ref("")), ""},
		"video, pulled":      {pull, post(ref("video/mp4; codecs=avc1")), ""},
		"photos":             {pull, post(ref(photos(35)...)), ""},
		"no text":            {upload, post(ref(""), says("")), ""},
		"text as long as it": {upload, post(ref(""), says(strings.Repeat("a", 2200))), ""},
		"of wide characters": {upload, post(ref(""), says(strings.Repeat("😀", 1100))), ""},
		"photos' text":       {pull, post(ref(photos(1)...), says(strings.Repeat("a", 4000))), ""},
		"to oneself":         {upload, post(ref(""), with(&fireoncev1.TikTokOptions{Privacy: fireoncev1.TikTokOptions_PRIVACY_SELF_ONLY})), ""},

		"no media":         {upload, post(nil), ".media"},
		"two videos":       {upload, post(ref("video/mp4", "video/mp4")), ".media"},
		"video and photo":  {pull, post(ref("video/mp4", "image/jpeg")), ".media"},
		"36 photos":        {pull, post(ref(photos(36)...)), ".media"},
		"uploaded photos":  {upload, post(ref(photos(1)...)), ".media"},
		"a PNG":            {pull, post(ref("image/png")), ".media[0].media_type"},
		"a song":           {pull, post(ref("audio/mpeg")), ".media[0].media_type"},
		"http":             {pull, post([]*fireoncev1.MediaRef{{Url: "http://media.example/1"}}), ".media"},
		"no URL":           {pull, post([]*fireoncev1.MediaRef{{Url: "x"}}), ".media[0].url"},
		"text too long":    {upload, post(ref(""), says(strings.Repeat("a", 2201))), ".text"},
		"wide characters":  {upload, post(ref(""), says(strings.Repeat("😀", 1101))), ".text"},
		"photos' too long": {pull, post(ref(photos(1)...), says(strings.Repeat("a", 4001))), ".text"},
		"a reply":          {upload, post(ref(""), func(p *fireoncev1.SocialPost) { p.ReplyToId = "1" }), ".reply_to_id"},
		"no options":       {upload, post(ref(""), func(p *fireoncev1.SocialPost) { p.PlatformOptions = nil }), ".tiktok.privacy"},
		"no privacy": {upload, post(ref(""), func(p *fireoncev1.SocialPost) {
			p.PlatformOptions = &fireoncev1.SocialPost_Tiktok{Tiktok: &fireoncev1.TikTokOptions{}}
		}), ".tiktok.privacy"},
		"branded, to oneself": {upload, post(ref(""), with(&fireoncev1.TikTokOptions{
			Privacy: fireoncev1.TikTokOptions_PRIVACY_SELF_ONLY, BrandedContent: true,
		})), ".tiktok.branded_content"},
		"photos that are stitched": {pull, post(ref(photos(1)...), with(&fireoncev1.TikTokOptions{DisableStitch: true})), ".tiktok"},
		"photos with a cover":      {pull, post(ref(photos(1)...), with(&fireoncev1.TikTokOptions{CoverTimestampMs: 1})), ".tiktok.cover_timestamp_ms"},
		"another's options": {upload, post(ref(""), func(p *fireoncev1.SocialPost) {
			p.PlatformOptions = &fireoncev1.SocialPost_X{X: &fireoncev1.XOptions{}}
		}), "payload.social_post"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.Prepare(connector.Request{
				EffectKey: effectKey, Settings: settingsOf(t, k.source), PayloadKind: tiktok.PayloadKind, Payload: payloadOf(t, k.post),
			})
			var in *connector.InputError
			switch {
			case k.field == "" && err != nil:
				t.Error(err)
			case k.field != "" && (!errors.As(err, &in) || strings.TrimPrefix(in.Field, "payload.social_post") != strings.TrimPrefix(k.field, "payload.social_post")):
				t.Errorf("%v, want an error at %s", err, k.field)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	c := tiktok.New(tiktok.Config{})
	got, err := c.Check(settingsOf(t, 0), oauth(t, token))
	if err != nil || got.Class != job.Handle || got.ReadLag != time.Minute || got.Negatives != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	var in *connector.InputError
	if _, err := c.Check(settingsOf(t, 9), oauth(t, token)); !errors.As(err, &in) || in.Field != "settings.tiktok.source" {
		t.Errorf("an unknown source: %v", err)
	}
	if _, err := c.Check(settingsOf(t, 0), connector.Credential{}); !errors.As(err, &in) || in.Reason != connector.BadCredential {
		t.Errorf("no credential: %v", err)
	}
	if _, err := tiktok.New(tiktok.Config{BaseURL: "x"}).Check(settingsOf(t, 0), oauth(t, token)); !errors.As(err, &in) || in.Reason != connector.BadSettings {
		t.Errorf("no usable address: %v", err)
	}
}

// Everything that can be known before the arm ends the job there, and begins nothing.
func TestOpenRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		opts   tiktoktest.Options
		part   string
		fate   faultproxy.Fate
		change func(*world)
		source connectionsv1.TikTokSettings_Source
		kind   job.FailureKind
		words  string
	}{
		"refused token":        {opts: tiktoktest.Options{}, part: "/creator_info/", fate: says(401, "access_token_invalid"), kind: job.FailAuth, words: "Reconnect this TikTok account"},
		"banned":               {part: "/creator_info/", fate: says(403, "spam_risk_user_banned_from_posting"), kind: job.FailPermanent, words: "banned this account"},
		"limited":              {part: "/creator_info/", fate: says(429, "rate_limit_exceeded"), kind: job.FailRateLimited, words: "asks to wait"},
		"down":                 {part: "/creator_info/", fate: says(503, "internal_error"), kind: job.FailTransient, words: "503"},
		"lost":                 {part: "/creator_info/", fate: fault(faultproxy.DropAfter), kind: job.FailTransient, words: "could not be read"},
		"no answer":            {part: "/creator_info/", fate: says(200, "ok"), kind: job.FailTransient, words: "does not say what the account may do"},
		"privacy":              {opts: tiktoktest.Options{Privacies: []string{"SELF_ONLY"}}, kind: job.FailPermanent, words: "does not offer the privacy PUBLIC_TO_EVERYONE, but SELF_ONLY"},
		"file gone":            {change: func(w *world) { w.url = w.URL() + "/nothing" }, kind: job.FailPermanent, words: "is not there: its host answered 404"},
		"no video":             {change: func(w *world) { w.url = w.URL() + "/v2/user/info/?fields=open_id" }, kind: job.FailPermanent, words: "401"},
		"another file, pulled": {source: pull, kind: job.FailPermanent, words: "its SHA-256 differs"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.opts)
			if c.part != "" {
				w.plan(c.part, c.fate)
			}
			if c.change != nil {
				c.change(w)
			}
			p, source := video(w.url), upload
			if c.source == pull {
				p.Media[0].Sha256, source = bytes.Repeat([]byte{1}, 32), pull
			}
			_, err := w.c.Open(t.Context(), w.opening(source, p))
			refused(t, err, c.kind, c.words)
			if w.Begun() != 0 {
				t.Error("a post was begun")
			}
		})
	}
}

// A file that is no video is not uploaded.
func TestOpenNoVideo(t *testing.T) {
	w := newWorld(t, tiktoktest.Options{})
	p := video(w.url)
	w.file = []byte("%PDF-1.7")
	o := w.opening(upload, p)
	s, err := w.c.Open(t.Context(), o) // its host says that it is one
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	p.Media[0].Url = w.URL() + "/v2/user/info/?fields=open_id"
	w.Set(func(o *tiktoktest.Options) { o.Token = "" })
	_, err = w.c.Open(t.Context(), w.opening(upload, p))
	refused(t, err, job.FailPermanent, "the file is application/json")
}

// The digest of what TikTok fetches is checked, and the account is asked about once
// a minute, not with each post.
func TestOpenAsks(t *testing.T) {
	w := newWorld(t, tiktoktest.Options{})
	var asked atomic.Int64
	w.proxy.Plan(func(r faultproxy.Request) faultproxy.Fate {
		if strings.Contains(r.Path, "creator_info") {
			asked.Add(1)
		}
		return faultproxy.Fate{}
	})
	sum := sha256.Sum256(w.file)
	p := video(w.url)
	p.Media[0].Sha256 = sum[:]
	is(t, w.send(pull, p).Outcome, job.ResultAccepted, 0, "")
	is(t, w.send(pull, p).Outcome, job.ResultAccepted, 0, "")
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
	w.pass(time.Minute)
	is(t, w.send(upload, p).Outcome, job.ResultAccepted, 0, "")
	if asked.Load() != 2 {
		t.Errorf("asked %d times", asked.Load())
	}
	w.effects(3)
}

// TestOpenShares: jobs of one account that are opened together ask about it once.
func TestOpenShares(t *testing.T) {
	w := newWorld(t, tiktoktest.Options{})
	var asked atomic.Int64
	arrived, release := make(chan struct{}), make(chan struct{})
	w.proxy.Plan(func(r faultproxy.Request) faultproxy.Fate {
		if strings.Contains(r.Path, "creator_info") {
			if asked.Add(1) == 1 {
				close(arrived)
			}
			<-release
		}
		return faultproxy.Fate{}
	})
	o, results := w.opening(pull, video(w.url)), make(chan error)
	open := func(ctx context.Context) {
		s, err := w.c.Open(ctx, o)
		if err == nil {
			s.Close()
		}
		results <- err
	}
	go open(t.Context())
	<-arrived
	waits := make(chan struct{})
	go open(noticed{t.Context(), sync.OnceFunc(func() { close(waits) })})
	<-waits
	close(release)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// noticed is a context that reports that its end is waited for.
type noticed struct {
	context.Context
	notice func()
}

func (n noticed) Done() <-chan struct{} {
	n.notice()
	return n.Context.Done()
}

// An upload asks for the time that its bytes need.
func TestSendTime(t *testing.T) {
	w := newWorld(t, tiktoktest.Options{})
	for size, want := range map[int]time.Duration{1000: 20 * time.Second, 10 << 20: 60 * time.Second} {
		w.file = film(size)
		s, err := w.c.Open(t.Context(), w.opening(upload, video(w.url)))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.(connector.Uploader).SendTime(); got != want {
			t.Errorf("%d bytes: %v, want %v", size, got, want)
		}
		s.Close()
	}
	s, err := w.c.Open(t.Context(), w.opening(pull, video(w.url)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := s.(connector.Uploader).SendTime(); got != 0 {
		t.Errorf("nothing to upload: %v", got)
	}
}
