package platforms_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/x/xtest"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/internal/proof/platforms"
)

// longPosts is a simulated X with an account that may post long texts.
func longPosts(t *testing.T) (platforms.Platform, *xtest.Platform) {
	t.Helper()
	on, p := overX(t, "/2/tweets", "", nil)
	on.Settings = func(string) []byte { return encoded(t, &connectionsv1.XSettings{LongPosts: true}) }
	return on, p
}

// Whatever X makes of a post, one whose answer was lost is found by it: one attempt, one
// post, and its id.
func TestXForms(t *testing.T) {
	t.Parallel()
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write([]byte("picture"))
	}))
	t.Cleanup(host.Close)
	quote := &fireoncev1.SocialPost_X{X: &fireoncev1.XOptions{
		QuotePostId: "1600000000000000002", ReplySettings: fireoncev1.XOptions_REPLY_SETTINGS_FOLLOWING,
	}}
	media := []*fireoncev1.MediaRef{{Url: host.URL + "/a.png", AltText: "a"}, {Url: host.URL + "/b.png"}}
	for name, post := range map[string]*fireoncev1.SocialPost{
		"a link and entities":             {Text: "1 < 2 & https://a.example/x?y=1&z=2 read.example/more"},
		"in NFD":                          {Text: "Gru\u0308ße aus Ko\u0308ln"},
		"a long post":                     {Text: strings.Repeat("a long post, ", 60) + "https://a.example/end"},
		"a reply":                         {Text: "@ada yes & no", ReplyToId: "1600000000000000001"},
		"a quote":                         {Text: "so true", PlatformOptions: quote},
		"pictures":                        {Text: "look", Media: media},
		"a reply with pictures, a quote":  {Text: "look https://a.example/x", ReplyToId: "1600000000000000001", Media: media, PlatformOptions: quote},
		"a reply of nothing but pictures": {ReplyToId: "1600000000000000001", Media: media},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on, p := longPosts(t)
			p.Post(xtest.Object{Text: "another one https://a.example/other"})
			w := platforms.NewWorld(t, on)
			w.Proxy.Plan(faultproxy.On(http.MethodPost, "/2/tweets", faultproxy.Fate{Fault: faultproxy.DropAfter}, faultproxy.Fate{}))
			id := w.Submit("one", postOf(post))
			s := w.UntilState(id, job.Succeeded)
			all := p.Objects()
			if len(all) != 2 || s.Effect.ExternalID != all[1].ID || s.Effect.Proof != job.ProofObserved || s.Attempt != 1 {
				t.Fatalf("%d attempts, bound to %+v, X has %+v\n%s", s.Attempt, s.Effect, all, w.Story(id))
			}
			if got := all[1]; got.Text != post.GetText() || got.ReplyTo != post.GetReplyToId() || got.Quote != post.GetX().GetQuotePostId() ||
				len(got.Pictures) != len(post.GetMedia()) {
				t.Errorf("X has %+v", got)
			}
		})
	}
}

// X shows the first attempt's post to no look, so that its absence is taken for proven.
// The second attempt is refused for duplicate content: the post is looked for again, and
// adopted.
func TestXDuplicateIsAdopted(t *testing.T) {
	t.Parallel()
	for name, payload := range map[string]*fireoncev1.Payload{
		"a post": postOf(&fireoncev1.SocialPost{Text: "once"}),
		"a message": {Kind: &fireoncev1.Payload_DirectMessage{DirectMessage: &fireoncev1.DirectMessage{
			RecipientId: "2002", Text: "once",
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on, p := longPosts(t)
			p.Configure(func(o *xtest.Options) { o.Duplicates = time.Hour })
			w := platforms.NewWorld(t, on)
			sends := 0
			w.Proxy.Plan(func(r faultproxy.Request) faultproxy.Fate {
				list := strings.HasSuffix(r.Path, "/dm_events") || strings.HasSuffix(r.Path, "/tweets") && r.Method == http.MethodGet
				switch {
				case r.Method == http.MethodPost:
					if sends++; sends == 1 {
						return faultproxy.Fate{Fault: faultproxy.DropAfter}
					}
				case list && sends == 1:
					return status(http.StatusOK, `{"meta":{"result_count":0}}`)
				}
				return faultproxy.Fate{}
			})
			id := w.Submit("one", payload)
			s := w.UntilState(id, job.Succeeded)
			all := p.Objects()
			if len(all) != 1 || strings.TrimPrefix(s.Effect.ExternalID, "dm:") != all[0].ID || s.Attempt != 2 || sends != 2 {
				t.Errorf("%d attempts, %d sends, bound to %q, X has %+v\n%s", s.Attempt, sends, s.Effect.ExternalID, all, w.Story(id))
			}
		})
	}
}

// What X calls a duplicate of an older post is not sent again, and is put before a person:
// a person may have made it, or one of a job that a lost database knew.
func TestXDuplicateOfAnother(t *testing.T) {
	t.Parallel()
	on, p := longPosts(t)
	p.Configure(func(o *xtest.Options) { o.Duplicates = time.Hour })
	p.Post(xtest.Object{Text: "once"})
	w := platforms.NewWorld(t, on)
	id := w.Submit("one", postOf(&fireoncev1.SocialPost{Text: "once"}))
	s := w.UntilState(id, job.NeedsResolution)
	if s.Attempt != 1 || len(p.Objects()) != 1 {
		t.Errorf("%d attempts, %+v, X has %+v\n%s", s.Attempt, s.LastError, p.Objects(), w.Story(id))
	}
}

// The database is lost after X has posted, and the client repeats its request: one post,
// and a person is shown it.
func TestXAfterALostDatabase(t *testing.T) {
	t.Parallel()
	on, p := longPosts(t)
	p.Configure(func(o *xtest.Options) { o.Duplicates = time.Hour })
	first := platforms.NewWorld(t, on)
	first.UntilState(first.Submit("one", postOf(&fireoncev1.SocialPost{Text: "once"})), job.Succeeded)
	second := platforms.NewWorld(t, on)
	id := second.Submit("one", postOf(&fireoncev1.SocialPost{Text: "once"}))
	s := second.UntilState(id, job.NeedsResolution)
	if all := p.Objects(); len(all) != 1 || !strings.Contains(second.Story(id), all[0].ID) {
		t.Errorf("%d attempts, X has %+v\n%s", s.Attempt, all, second.Story(id))
	}
}
