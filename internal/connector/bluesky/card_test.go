package bluesky_test

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/bluesky"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

const picture = "\x89PNG\r\n\x1a\n a picture"

// blobAnswer is what a server answers to the upload of a picture.
func blobAnswer() string {
	sum := sha256.Sum256([]byte(picture))
	link := "b" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(append([]byte{1, 0x55, 0x12, 0x20}, sum[:]...)))
	return connectortest.Answer(200, fmt.Sprintf(`{"blob":{"$type":"blob","ref":{"$link":%q},"mimeType":"image/png","size":%d}}`, link, len(picture)))
}

// cardWorld is a world that fetches media from this machine, and a site.
func cardWorld(t *testing.T, site http.HandlerFunc) (*world, string) {
	t.Helper()
	w := newWorld(t, map[string][]string{putRecord: {putAnswer()}, "repo.uploadBlob": {blobAnswer()}})
	s := httptest.NewServer(site)
	t.Cleanup(s.Close)
	loopback := transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))
	w.c = bluesky.New(bluesky.Config{Sender: w.Sender(), Media: kit.NewMedia(kit.MediaConfig{Egress: loopback, Dir: t.TempDir()}), Now: func() time.Time { return w.now }})
	return w, s.URL
}

// posted sends a post, and returns its record's embed.
func (w *world) posted(t *testing.T, p *fireoncev1.SocialPost) map[string]any {
	t.Helper()
	s, err := w.c.Open(t.Context(), w.opening(t, p))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := time.Now().Add(30 * time.Second)
	if o := s.Publish(connector.Commit{Attempt: 1, EffectKey: effectKey, SendBy: at, AnswerBy: at}); o.Result != job.ResultSucceeded {
		t.Fatalf("%s: %s", o.Result, o.Message)
	}
	all := w.Requests()
	var body struct {
		Record struct {
			Embed map[string]any `json:"embed"`
		} `json:"record"`
	}
	if err := json.Unmarshal(all[len(all)-1].Body, &body); err != nil {
		t.Fatal(err)
	}
	return body.Record.Embed
}

// TestCards: a post has a card of its first link, with what the page says of itself. A page that
// says nothing, or cannot be read, costs the card alone.
func TestCards(t *testing.T) {
	pages := map[string]string{
		"/a": `<html><head><title>plain</title><meta property="og:title" content=" The &amp; title "><meta name="description" content="About
			it"><meta property="og:image" content="/picture.png"><meta property="og:title" content="another"></head><body><title>no</title>`,
		"/plain":  `<title>日本語</title><meta property="og:image" content="http://[broken">`,
		"/long":   `<title>` + strings.Repeat("é", 400) + `</title><meta property="og:image" content="/gone.png">`,
		"/silent": `<p>nothing`,
		"/odd":    "<title>\xe9\xe8</title>",
		"/empty":  "",
	}
	w, url := cardWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		page, there := pages[r.URL.Path]
		switch {
		case r.URL.Path == "/picture.png":
			rw.Header().Set("Content-Type", "image/png")
			_, _ = rw.Write([]byte(picture))
		case !there:
			http.Error(rw, "gone", http.StatusNotFound)
		default:
			rw.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = rw.Write([]byte(page))
		}
	})
	noCard := &fireoncev1.SocialPost_Bluesky{Bluesky: &fireoncev1.BlueskyOptions{NoCard: true}}
	for name, c := range map[string]struct {
		post        *fireoncev1.SocialPost
		title, text string
		thumb       bool
	}{
		"all":               {&fireoncev1.SocialPost{Text: "see " + url + "/a#part"}, "The & title", "About it", true},
		"the first":         {&fireoncev1.SocialPost{Text: url + "/plain " + url + "/a"}, "日本語", "", false},
		"long, no picture":  {&fireoncev1.SocialPost{Text: url + "/long"}, strings.Repeat("é", 299) + "…", "", false},
		"no title":          {&fireoncev1.SocialPost{Text: url + "/silent"}, "", "", false},
		"no UTF-8":          {&fireoncev1.SocialPost{Text: url + "/odd"}, "", "", false},
		"an empty page":     {&fireoncev1.SocialPost{Text: url + "/empty"}, "", "", false},
		"no page":           {&fireoncev1.SocialPost{Text: url + "/gone"}, "", "", false},
		"no link":           {&fireoncev1.SocialPost{Text: "hello"}, "", "", false},
		"not wanted":        {&fireoncev1.SocialPost{Text: url + "/a", PlatformOptions: noCard}, "", "", false},
		"an address inside": {&fireoncev1.SocialPost{Text: "http://10.0.0.1/a"}, "", "", false},
	} {
		got := w.posted(t, c.post)
		if c.title == "" {
			if got != nil {
				t.Errorf("%s: %v", name, got)
			}
			continue
		}
		card, _ := got["external"].(map[string]any)
		link := strings.Fields(strings.TrimPrefix(c.post.GetText(), "see "))[0]
		if got["$type"] != "app.bsky.embed.external" || card["uri"] != link || card["title"] != c.title || card["description"] != c.text || (card["thumb"] != nil) != c.thumb {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestOwnCard: a card that comes with the post is sent as it is, with a quote too, and nothing is read
// for it but its picture, which the post needs.
func TestOwnCard(t *testing.T) {
	asked := 0
	w, url := cardWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		if asked++; r.URL.Path != "/picture.png" {
			http.Error(rw, "gone", http.StatusNotFound)
			return
		}
		rw.Header().Set("Content-Type", "image/png")
		_, _ = rw.Write([]byte(picture))
	})
	card := func(edit func(*fireoncev1.BlueskyOptions)) *fireoncev1.SocialPost {
		o := &fireoncev1.BlueskyOptions{Card: &fireoncev1.BlueskyOptions_Card{Url: url + "/page", Title: "T", Description: "D"}}
		edit(o)
		return &fireoncev1.SocialPost{Text: "hello " + url + "/other", PlatformOptions: &fireoncev1.SocialPost_Bluesky{Bluesky: o}}
	}
	got := w.posted(t, card(func(*fireoncev1.BlueskyOptions) {}))
	if s := fmt.Sprint(got); !strings.Contains(s, "uri:"+url+"/page") || !strings.Contains(s, "title:T") || strings.Contains(s, "thumb") || asked != 0 {
		t.Errorf("asked %d times: %s", asked, s)
	}
	got = w.posted(t, card(func(o *fireoncev1.BlueskyOptions) {
		o.Card.Thumb = &fireoncev1.MediaRef{Url: url + "/picture.png"}
		o.QuoteUri, o.QuoteCid = uriOf("3k"), "bafy"
	}))
	if s := fmt.Sprint(got); got["$type"] != "app.bsky.embed.recordWithMedia" || !strings.Contains(s, "thumb:map") || !strings.Contains(s, "description:D") || asked != 1 {
		t.Errorf("asked %d times: %s", asked, s)
	}
	asked = 0
	got = w.posted(t, card(func(o *fireoncev1.BlueskyOptions) { o.Card.Url = "HTTPS://例え.テスト/ページ?[a]#Über-uns" }))
	if s := fmt.Sprint(got); !strings.Contains(s, "uri:https://xn--r8jz45g.xn--zckzah/%E3%83%9A%E3%83%BC%E3%82%B8?%5Ba%5D#%C3%9Cber-uns]") {
		t.Errorf("beyond ASCII: %s", s)
	}
	_, err := w.c.Open(t.Context(), w.opening(t, card(func(o *fireoncev1.BlueskyOptions) { o.Card.Thumb = &fireoncev1.MediaRef{Url: url + "/gone.png"} })))
	wantRefusal(t, err, job.FailPermanent)

	for field, post := range map[string]*fireoncev1.SocialPost{
		".bluesky.card.url":       card(func(o *fireoncev1.BlueskyOptions) { o.Card.Url = "ftp://files.example" }),
		".bluesky.card.title":     card(func(o *fireoncev1.BlueskyOptions) { o.Card.Title = "\u3000" }),
		".bluesky.card.thumb.url": card(func(o *fireoncev1.BlueskyOptions) { o.Card.Thumb = &fireoncev1.MediaRef{Url: "a"} }),
		".bluesky.card": {
			Text: "x", Media: []*fireoncev1.MediaRef{{Url: url}}, PlatformOptions: card(func(*fireoncev1.BlueskyOptions) {}).GetPlatformOptions(),
		},
	} {
		_, err := w.c.Prepare(connector.Request{EffectKey: effectKey, PayloadKind: bluesky.PayloadKind, Payload: payloadOf(t, post)})
		if input := new(connector.InputError); !errors.As(err, &input) || input.Field != "payload.social_post"+field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
