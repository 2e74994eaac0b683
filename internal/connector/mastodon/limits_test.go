package mastodon_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/mastodon"
)

const stated = `{"version":"4.5.2","source_url":"SOURCE","configuration":{
	"statuses":{"max_characters":500,"max_media_attachments":2,"characters_reserved_per_url":23},
	"media_attachments":{"supported_mime_types":["image/png","video/mp4"],"image_size_limit":16777216,"video_size_limit":103809024,"description_limit":1500}}}`

// TestLimits: what a server stated when it was tested bounds what is scheduled for it. Only Mastodon's own
// word refuses: others count in ways of their own.
func TestLimits(t *testing.T) {
	const self, other = "https://github.com/mastodon/mastodon", "https://git.example/other"
	post := func(text string, edit ...func(*fireoncev1.SocialPost)) *fireoncev1.SocialPost {
		p := &fireoncev1.SocialPost{Text: text}
		for _, e := range edit {
			e(p)
		}
		return p
	}
	media := func(refs ...*fireoncev1.MediaRef) func(*fireoncev1.SocialPost) {
		return func(p *fireoncev1.SocialPost) { p.Media = refs }
	}
	warned := func(p *fireoncev1.SocialPost) {
		p.PlatformOptions = &fireoncev1.SocialPost_Mastodon{Mastodon: &fireoncev1.MastodonOptions{ContentWarning: strings.Repeat("w", 400)}}
	}
	png := &fireoncev1.MediaRef{Url: "https://files.example/a", MediaType: "image/png"}
	for name, c := range map[string]struct {
		post  *fireoncev1.SocialPost
		field string // of what is exceeded by the server's limits
		usual bool   // and by those that are usual
	}{
		"500 letters":                  {post(strings.Repeat("é", 500)), "", false},
		"501":                          {post(strings.Repeat("x", 501)), ".text", true},
		"500 characters of many runes": {post(strings.Repeat("👩‍👩‍👧", 250) + strings.Repeat("क्षि", 250)), "", false},
		"a long link":                  {post(strings.Repeat("x", 476) + " https://example.org/" + strings.Repeat("a", 400)), "", false},
		"a long link, no scheme":       {post(strings.Repeat("x", 476) + " example.org/" + strings.Repeat("a", 400)), ".text", true},
		"a mention's server":           {post(strings.Repeat("x", 495) + " @ada@very-long-name-of-a-server.example"), "", false},
		"with the warning":             {post(strings.Repeat("x", 101), warned), ".text", true},
		"two files":                    {post("x", media(png, png)), "", false},
		"three files":                  {post("x", media(png, png, png)), ".media", false},
		"a type that it knows not":     {post("x", media(&fireoncev1.MediaRef{Url: png.GetUrl(), MediaType: "image/tiff"})), ".media[0].media_type", false},
		"a long description":           {post("x", media(&fireoncev1.MediaRef{Url: png.GetUrl(), AltText: strings.Repeat("é", 1501)})), ".media[0].alt_text", true},
	} {
		for _, source := range []string{self, other, ""} {
			p := connectortest.NewPlatform(t, false, connectortest.Script{Do: func(conn *connectortest.Conn) {
				answer := `{"id":"7","acct":"ada"}`
				if strings.Contains(conn.Request.Line, "/api/v2/instance") {
					answer = strings.Replace(stated, "SOURCE", source, 1)
				}
				conn.Write(connectortest.Answer(200, answer))
			}})
			m := mastodon.New(mastodon.Config{Sender: p.Sender(), Media: kit.NewMedia(kit.MediaConfig{})})
			settings := settingsOf(t, p.URL(), yes)
			if source != "" {
				if _, err := m.Test(t.Context(), connector.Opening{Settings: settings, Credential: bearer(t, token)}); err != nil {
					t.Fatal(err)
				}
			}
			asked := p.Started()
			over, err := m.Limits(connector.Request{EffectKey: "k", Settings: settings, PayloadKind: mastodon.PayloadKind, Payload: payloadOf(t, c.post)})
			var input *connector.InputError
			switch {
			case source == self && c.field != "":
				if !errors.As(err, &input) || input.Field != "payload.social_post"+c.field || input.Reason != connector.BadPayload {
					t.Errorf("%s: %v, %v", name, over, err)
				}
			case source == other && c.field != "", source == "" && c.usual:
				if err != nil || len(over) != 1 || over[0].Field != "payload.social_post"+c.field || over[0].Msg == "" {
					t.Errorf("%s on %q: %v, %v", name, source, over, err)
				}
			case err != nil || len(over) != 0:
				t.Errorf("%s on %q: %v, %v", name, source, over, err)
			}
			if p.Started() != asked {
				t.Errorf("%s: the server was asked", name)
			}
		}
	}
}

// TestOddDocuments reads limits out of documents as servers have them, and as they should not.
// characters is the limit that counts, 500 if none could be read.
func TestOddDocuments(t *testing.T) {
	const self, v2, v1 = "https://github.com/mastodon/mastodon", "/api/v2/instance", "/api/v1/instance"
	doc := func(statuses, media string) string {
		return `{"version":"4.5.2","source_url":"` + self + `","configuration":{"statuses":` + statuses + `,"media_attachments":` + media + `}}`
	}
	for name, c := range map[string]struct {
		path, body string
		characters int
		stated     bool // it is Mastodon, and what it states holds
	}{
		"Mastodon":               {v2, doc(`{"max_characters":700}`, `{}`), 700, true},
		"one":                    {v2, doc(`{"max_characters":1}`, `{}`), 1, true},
		"a limit as a text":      {v2, doc(`{"max_characters":700}`, `{"image_size_limit":"16MB","description_limit":[]}`), 700, true},
		"types as a text":        {v2, doc(`{"max_characters":700}`, `{"supported_mime_types":"image/png"}`), 700, true},
		"sizes beyond numbers":   {v2, doc(`{"max_characters":700}`, `{"image_size_limit":1000000000000000000000000000000}`), 700, true},
		"null beside it":         {v2, doc(`{"max_characters":700,"characters_reserved_per_url":null}`, `null`), 700, true},
		"no limit":               {v2, doc(`{}`, `{}`), 500, false},
		"zero":                   {v2, doc(`{"max_characters":0}`, `{}`), 500, false},
		"below zero":             {v2, doc(`{"max_characters":-5}`, `{}`), 500, false},
		"a text":                 {v2, doc(`{"max_characters":"700"}`, `{}`), 500, false},
		"null":                   {v2, doc(`null`, `null`), 500, false},
		"a list":                 {v2, doc(`[]`, `[]`), 500, false},
		"no object":              {v2, `[]`, 500, false},
		"cut":                    {v2, `{"configuration":{"statuses":{"max_characters":700`, 500, false},
		"an older server":        {v1, `{"version":"3.5.19","configuration":{"statuses":{"max_characters":700}}}`, 700, false},
		"the old name, of forks": {v1, `{"version":"2.7.2 (compatible; Pleroma 2.9.1)","max_toot_chars":700}`, 700, false},
	} {
		p := connectortest.NewPlatform(t, false, connectortest.Script{Do: func(conn *connectortest.Conn) {
			if strings.Fields(conn.Request.Line)[1] != c.path {
				conn.Write(connectortest.Answer(404, `{"error":"Not Found"}`))
				return
			}
			conn.Write(connectortest.Answer(200, c.body))
		}})
		m := mastodon.New(mastodon.Config{Sender: p.Sender(), Media: kit.NewMedia(kit.MediaConfig{})})
		settings := settingsOf(t, p.URL(), unset)
		if _, err := m.Probe(t.Context(), connector.Opening{Settings: settings, Credential: bearer(t, token)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, n := range []int{c.characters, c.characters + 1} {
			post := payloadOf(t, &fireoncev1.SocialPost{Text: strings.Repeat("x", n)})
			over, err := m.Limits(connector.Request{EffectKey: "k", Settings: settings, PayloadKind: mastodon.PayloadKind, Payload: post})
			above := n > c.characters
			if (err != nil) != (above && c.stated) || len(over) > 0 != (above && !c.stated) {
				t.Errorf("%s: a post of %d: %v, %v", name, n, over, err)
			}
		}
	}
}
