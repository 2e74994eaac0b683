package x_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/x/xtest"
	"github.com/fireonce/fireonce/internal/job"
)

// TestAnswers: what each answer means, and what a look makes of those that mean
// nothing; for posts and for direct messages.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer xtest.Answer
		result job.Result
		kind   job.FailureKind
		wait   time.Duration
		words  string
		sees   job.Verdict
	}{
		"201":                    {xtest.Reply, job.ResultSucceeded, 0, 0, "", job.SawPresent},
		"lost before the commit": {xtest.Drop, job.ResultUnknown, job.FailAmbiguous, 0, "may have acted", job.SawAbsent},
		"lost after the commit":  {xtest.Reset, job.ResultUnknown, job.FailAmbiguous, 0, "may have acted", job.SawPresent},
		"500 after the commit":   {xtest.CommitFail, job.ResultUnknown, job.FailAmbiguous, 0, "500", job.SawPresent},
		"503 without a commit":   {xtest.Fail, job.ResultUnknown, job.FailAmbiguous, 0, "503", job.SawAbsent},
		"201 without an id":      {xtest.Nameless, job.ResultUnknown, job.FailAmbiguous, 0, "without an id", job.SawPresent},
		"401":                    {xtest.Unauthorized, job.ResultRejected, job.FailAuth, 0, "reconnect this X account", job.SawAbsent},
		"403, suspended":         {xtest.Suspended, job.ResultRejected, job.FailAuth, 0, "Your account is suspended", job.SawAbsent},
		"403, not permitted":     {xtest.Forbid, job.ResultRejected, job.FailPermanent, 0, "not permitted", job.SawAbsent},
		"402":                    {xtest.Depleted, job.ResultRejected, job.FailRateLimited, time.Hour, "credits", job.SawAbsent},
		"429":                    {xtest.RateLimit, job.ResultRejected, job.FailRateLimited, 7 * time.Minute, "no more requests", job.SawAbsent},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []string{"post", "message"} {
				w := newWorld(t, xtest.Options{Plan: always(c.answer), ResetAfter: 7 * time.Minute, ReadLag: readLag})
				e := w.effect(t, hello())
				if kind == "message" {
					e = w.message(t, "2002", "hello")
				}
				o := e.Send(t)
				if o.Result != c.result || o.Kind != c.kind || !strings.Contains(o.Message, c.words) {
					t.Errorf("%s: %s %s (%s)", kind, o.Result, o.Kind, o.Message)
				}
				// The reset is in whole seconds of a clock in whole seconds.
				if c.wait > 0 && (o.RetryAfter < c.wait || o.RetryAfter > c.wait+2*time.Second) {
					t.Errorf("%s: retry after %v", kind, o.RetryAfter)
				}
				seen := e.Sees(t, c.sees, "")
				if c.result == job.ResultSucceeded && (o.ExternalID != seen.ExternalID || o.ExternalURL != seen.ExternalURL) {
					t.Errorf("%s: answered as %s %s, seen as %s %s", kind, o.ExternalID, o.ExternalURL, seen.ExternalID, seen.ExternalURL)
				}
				if o.ExternalID != "" && strings.HasPrefix(o.ExternalID, "dm:") != (kind == "message") {
					t.Errorf("%s: id %q", kind, o.ExternalID)
				}
			}
		})
	}
}

// TestTextForms: a look finds a text again in whatever form X returns it.
func TestTextForms(t *testing.T) {
	for name, p := range map[string]*fireoncev1.SocialPost{
		"plain":                         hello(),
		"a link":                        {Text: "see https://a.example/x?y=1&z=2#top now"},
		"two links":                     {Text: "https://a.example/1 or https://a.example/2"},
		"one link twice":                {Text: "https://a.example/1 https://a.example/1"},
		"no scheme":                     {Text: "read a.example/x, now"},
		"http":                          {Text: "http://a.example/x"},
		"only a link":                   {Text: "https://a.example/x"},
		"entities":                      {Text: "1 < 2 && 3 > 2"},
		"an entity":                     {Text: "write &amp; for &"},
		"NFD":                           {Text: "Cafe\u0301 in Ko\u0308ln"},
		"white space":                   {Text: "  one\n\n two\tthree \u00a0 "},
		"their own links":               {Text: "see https://t.co/abcdefghij there"},
		"dots":                          {Text: "to be continued…"},
		"emoji":                         {Text: "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea 1\ufe0f\u20e3"},
		"punctuation":                   {Text: "...?!"},
		"long":                          {Text: strings.Repeat("a long post, ", 40) + "https://a.example/end"},
		"a reply":                       {Text: "yes & no", ReplyToId: "1600000000000000001"},
		"only a name":                   {Text: "@ada", ReplyToId: "1600000000000000001"},
		"a reply to two":                {Text: "@ada @bob yes", ReplyToId: "1600000000000000001"},
		"a quote":                       {Text: "so true", PlatformOptions: &fireoncev1.SocialPost_X{X: &fireoncev1.XOptions{QuotePostId: "1600000000000000002"}}},
		"a link that is quoted":         {Text: "so true https://x.com/ada/status/1600000000000000003"},
		"a t.co link that is quoted":    {Text: "so true https://t.co/aquotedone"},
		"a link to a picture":           {Text: "look https://x.com/ada/status/1600000000000000003/photo/1?s=20, ada"},
		"a t.co link to a picture":      {Text: "look https://t.co/apicture"},
		"hashtags, cashtags, no spaces": {Text: "#köln $TSLA @ada 見てhttps://a.example/xです \u202bשלום\u202c می\u200cخواهم \U0001f44b\U0001f3fd"},
		"an entity in a link":           {Text: "https://a.example/?a=1&lt;=2&amp;b"},
		"a quote of a link":             {Text: "so true https://a.example/x", PlatformOptions: &fireoncev1.SocialPost_X{X: &fireoncev1.XOptions{QuotePostId: "1600000000000000002"}}},
	} {
		t.Run(name, func(t *testing.T) {
			behind := map[string]string{
				"https://t.co/aquotedone": "https://twitter.com/ada/status/1600000000000000003", "https://t.co/apicture": "https://x.com/ada/status/1600000000000000003/photo/1",
			}
			w := newWorld(t, xtest.Options{Plan: always(xtest.Reset), Behind: behind})
			e := w.effect(t, p)
			e.Send(t)
			w.Post(xtest.Object{Text: "another one https://a.example/other"})
			e.Sees(t, job.SawPresent, w.Objects()[0].ID)
			w = newWorld(t, xtest.Options{Plan: always(xtest.Drop), Behind: behind})
			e = w.effect(t, p)
			e.Send(t)
			w.Post(xtest.Object{Text: "another one https://a.example/other"})
			e.Sees(t, job.SawAbsent, "")
		})
	}
}

// TestNoDocumentTellsOfIt: a text that X has changed in a way that we do not know is
// never taken for another's, and so never sent again without a person.
func TestNoDocumentTellsOfIt(t *testing.T) {
	for name, rewrite := range map[string]func(string) string{
		"other quotes":   strings.NewReplacer(`"`, "”").Replace,
		"capitals":       strings.ToUpper,
		"a slash more":   strings.NewReplacer("/x", "/x/").Replace,
		"no punctuation": strings.NewReplacer("!", "", ",", "").Replace,
		"invisible":      func(s string) string { return strings.ReplaceAll(s, " ", "\u200b \u2060") },
		"escaped twice":  strings.NewReplacer(`"`, "&quot;").Replace,
	} {
		w := newWorld(t, xtest.Options{Plan: always(xtest.Reset), Rewrite: rewrite})
		e := w.effect(t, &fireoncev1.SocialPost{Text: `Read "this", now! https://a.example/x`})
		e.Send(t)
		if o := e.Sees(t, job.SawCandidates, w.Objects()[0].ID); o.Verdict == job.SawAbsent {
			t.Errorf("%s: taken for absent", name)
		}
	}
}

// TestLinksInOtherSpellings: a link that X returns in another of its spellings is the
// same link.
func TestLinksInOtherSpellings(t *testing.T) {
	for text, told := range map[string]string{
		"see https://twitter.com/ada":                         "see https://x.com/ada",
		"see https://x.com/ada/status/1600000000000000003":    "see https://twitter.com/ada/status/1600000000000000003",
		"see https://mobile.twitter.com/ada/":                 "see https://x.com/ada/",
		"see https://de.example/wiki/München":                 "see https://de.example/wiki/M%C3%BCnchen",
		"see https://ja.example/%E6%9D%B1%e4%ba%ac?a=%20%2F1": "see https://ja.example/東京?a=%20%2F1",
		"see https://bücher.example/x":                        "see https://xn--bcher-kva.example/x",
	} {
		w := newWorld(t, xtest.Options{Plan: always(xtest.Reset), Rewrite: strings.NewReplacer(text, told).Replace})
		e := w.effect(t, &fireoncev1.SocialPost{Text: text})
		e.Send(t)
		w.Post(xtest.Object{Text: "see https://de.example/wiki/Muenchen"})
		e.Sees(t, job.SawPresent, w.Objects()[0].ID)
	}
}

// TestManyAlike: posts that differ in marks do not hide ours, and each of them is shown
// to a person if ours is not there.
func TestManyAlike(t *testing.T) {
	for answer, want := range map[xtest.Answer]job.Verdict{xtest.Reset: job.SawPresent, xtest.Drop: job.SawCandidates} {
		w := newWorld(t, xtest.Options{Plan: always(answer)})
		e := w.effect(t, &fireoncev1.SocialPost{Text: "Doors: 12-30"})
		e.Send(t)
		w.Post(xtest.Object{Text: "Doors: 12-31"})
		twin := w.Post(xtest.Object{Text: "Doors: 12:30!"})
		if want == job.SawPresent {
			twin = w.Objects()[0]
		}
		e.Sees(t, want, twin.ID)
	}
	w := newWorld(t, xtest.Options{Plan: always(xtest.Drop)})
	e := w.effect(t, hello())
	e.Send(t)
	e.Taken[w.Post(xtest.Object{Text: "Hello!"}).ID] = true
	e.Sees(t, job.SawAbsent, "")
}

// TestOldPostEdited: a post from before the send that got our text since is not ours.
func TestOldPostEdited(t *testing.T) {
	w := newWorld(t, xtest.Options{Plan: always(xtest.Drop)})
	old := w.Post(xtest.Object{Text: "helo"})
	w.Pass(10 * time.Minute)
	e := w.effect(t, hello())
	e.Send(t)
	w.Edit(old.ID, "hello")
	e.Sees(t, job.SawAbsent, "")
}

// TestEditedSince: a post that a person has edited before a look found it has another
// id and another text. A person decides.
func TestEditedSince(t *testing.T) {
	w := newWorld(t, xtest.Options{Plan: always(xtest.Reset)})
	e := w.effect(t, hello())
	e.Send(t)
	edited := w.Edit(w.Objects()[0].ID, "something else altogether")
	e.Sees(t, job.SawCandidates, edited.ID)
}

// TestTwinsOnPurpose: two identical posts scheduled on purpose both exist and are
// attributed to different posts; with one lost answer each is still attributed once.
func TestTwinsOnPurpose(t *testing.T) {
	for lost := range 2 {
		w := newWorld(t, xtest.Options{Plan: func(r xtest.Request) xtest.Answer {
			if r.Method == http.MethodPost && r.Number == lost+1 {
				return xtest.Reset
			}
			return xtest.Reply
		}})
		var ids []string
		for n := range 2 {
			e := w.effect(t, hello())
			if n == 1 && string(e.Opening.Prepared.Gate) != string(w.effect(t, hello()).Opening.Prepared.Gate) {
				t.Error("twins with two gates")
			}
			for _, id := range ids {
				e.Taken[id] = true
			}
			o := e.Send(t)
			id := o.ExternalID
			if n == lost {
				id = e.Sees(t, job.SawPresent, "").ExternalID
			}
			ids = append(ids, id)
			w.Pass(time.Minute)
		}
		if ids[0] == ids[1] || w.Effects("hello") != 2 {
			t.Errorf("lost %d: attributed to %v, %d effects", lost, ids, w.Effects("hello"))
		}
	}
}

// TestDuplicateRefused: X takes the same content again only after a while. It may be our
// own earlier effect, also on the attempt that counts as the first, and is looked for.
func TestDuplicateRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		before time.Duration // how long before the send the other was posted
		taken  bool          // it is another job's
		gone   bool          // it was deleted
		want   job.Verdict
		words  string
	}{
		"by hand, or by a job that was lost": {10 * time.Minute, false, false, job.SawCandidates, "is it this one?"},
		"long ago":                           {71 * time.Hour, false, false, job.SawCandidates, "is it this one?"},
		"by another job":                     {10 * time.Minute, true, false, job.SawAbsent, "none has this content"},
		"and deleted since":                  {10 * time.Minute, false, true, job.SawAbsent, "lists none that has it"},
	} {
		w := newWorld(t, xtest.Options{Duplicates: 80 * time.Hour})
		w.Post(xtest.Object{Text: "hello"})
		w.Post(xtest.Object{Text: "something else"})
		w.Pass(tt.before)
		e := w.effect(t, hello())
		o := e.Send(t)
		if o.Result != job.ResultUnknown || o.Kind != job.FailAmbiguous || !strings.Contains(o.Message, "has the same content already") {
			t.Errorf("%s: %s %s (%s)", name, o.Result, o.Kind, o.Message)
		}
		if tt.taken {
			e.Taken[w.Objects()[0].ID] = true
		}
		if tt.gone {
			w.Delete(w.Objects()[0].ID)
		}
		if o := e.Sees(t, tt.want, tt.words); o.Contradicted != tt.gone {
			t.Errorf("%s: contradicted: %t", name, o.Contradicted)
		}
	}

	w := newWorld(t, xtest.Options{Duplicates: time.Hour})
	e := w.effect(t, hello())
	w.Post(xtest.Object{Text: "hello"}) // in the second of the watermark: what was refused is not there
	e.Send(t)
	e.Sees(t, job.SawCandidates, "is it this one?")

	w = newWorld(t, xtest.Options{Duplicates: time.Hour, ReadLag: time.Hour, Plan: func(r xtest.Request) xtest.Answer {
		if r.Method == http.MethodPost && r.Number == 1 {
			return xtest.Reset
		}
		return xtest.Reply
	}})
	e = w.effect(t, hello())
	e.Send(t)
	e.Sees(t, job.SawAbsent, "") // X is slower than it is thought to be: the residual risk
	o := e.Send(t)
	if o.Result != job.ResultUnknown || o.Kind != job.FailAmbiguous {
		t.Errorf("later attempt: %s %s (%s)", o.Result, o.Kind, o.Message)
	}
	w.Pass(time.Hour)
	e.SeesNow(t, job.SawPresent, w.Objects()[0].ID)
	if w.Effects("hello") != 1 {
		t.Errorf("%d effects", w.Effects("hello"))
	}
}

// TestTwins: what others, or the user by hand, post with the same content.
func TestTwins(t *testing.T) {
	w := newWorld(t, xtest.Options{Plan: always(xtest.Reset)})
	w.Post(xtest.Object{Text: "hello"})
	w.Pass(10 * time.Minute)
	e := w.effect(t, hello())
	e.Send(t)
	e.Sees(t, job.SawPresent, w.Objects()[1].ID) // the old one is not ours

	w = newWorld(t, xtest.Options{Plan: always(xtest.Reset)})
	e = w.effect(t, hello())
	e.Send(t)
	twin := w.Post(xtest.Object{Text: "hello"})
	e.Sees(t, job.SawCandidates, twin.ID)
	e.Taken[twin.ID] = true
	e.SeesNow(t, job.SawPresent, w.Objects()[0].ID)

	w = newWorld(t, xtest.Options{Plan: always(xtest.Drop)})
	w.Post(xtest.Object{Text: "hello"})
	w.Pass(10 * time.Second)
	e = w.effect(t, hello())
	e.Send(t)
	e.Sees(t, job.SawCandidates, "is it this one?") // just before the send

	w = newWorld(t, xtest.Options{Plan: always(xtest.Drop)})
	e = w.effect(t, hello())
	e.Send(t)
	w.Pass(connectortest.FenceTime)
	w.Post(xtest.Object{Text: "hello"})
	e.Sees(t, job.SawCandidates, "is it this one?") // when ours could no longer act

	w = newWorld(t, xtest.Options{Plan: always(xtest.Drop)})
	e = w.effect(t, &fireoncev1.SocialPost{Text: "yes", ReplyToId: "1600000000000000001"})
	e.Send(t)
	w.Post(xtest.Object{Text: "yes", ReplyTo: "1600000000000000002"})
	e.Sees(t, job.SawAbsent, "") // an answer to something else
	w.Post(xtest.Object{Text: "yes"})
	e.SeesNow(t, job.SawCandidates, "") // what it answers may be gone

	w = newWorld(t, xtest.Options{Plan: always(xtest.Drop)})
	e = w.effect(t, &fireoncev1.SocialPost{Text: "@Bob yes", ReplyToId: "1600000000000000001"})
	e.Send(t)
	w.Post(xtest.Object{Text: "@bobby yes", ReplyTo: "1600000000000000001"})
	e.Sees(t, job.SawCandidates, "") // another name
}

// TestBeforeTheFence: an absence counts only when the list is from after the fence; a
// presence counts immediately.
func TestBeforeTheFence(t *testing.T) {
	w := newWorld(t, xtest.Options{Plan: always(xtest.Drop)})
	e := w.effect(t, hello())
	e.Send(t)
	e.SeesNow(t, job.SawInconclusive, "before the end")
	w.Post(xtest.Object{Text: "hello"})
	e.SeesNow(t, job.SawPresent, "")
}

// TestManyPages: the post is found behind many pages; more than X lists prove nothing.
func TestManyPages(t *testing.T) {
	for answer, want := range map[xtest.Answer]job.Verdict{xtest.Drop: job.SawAbsent, xtest.Reset: job.SawPresent} {
		w := newWorld(t, xtest.Options{PageLimit: 5, Plan: always(answer)})
		e := w.effect(t, hello())
		m := w.message(t, "2002", "hello")
		e.Send(t)
		m.Send(t)
		for range 42 {
			w.Post(xtest.Object{Text: "later"})
			w.Receive("2002", "hello")
		}
		e.Sees(t, want, "")
		m.Sees(t, want, "")
	}
	w := newWorld(t, xtest.Options{PageLimit: 1, Plan: always(xtest.Reset)})
	e := w.effect(t, hello())
	e.Send(t)
	for range 32 {
		w.Post(xtest.Object{Text: "later"})
	}
	e.Sees(t, job.SawInconclusive, "more than 32 pages")
}

// TestListCutShort: X lists an account's latest 3,200 posts. A list as long as that may
// have left ours out.
func TestListCutShort(t *testing.T) {
	w := newWorld(t, xtest.Options{Plan: always(xtest.Drop)})
	e := w.effect(t, hello())
	e.Send(t)
	for range 3200 {
		w.Post(xtest.Object{Text: "later"})
	}
	e.Sees(t, job.SawInconclusive, "more posts since the send than X lists")
}

// TestOldMessages: a conversation is read back to the watermark and no further, and
// what the other one writes is not ours.
func TestOldMessages(t *testing.T) {
	w := newWorld(t, xtest.Options{PageLimit: 10, Plan: always(xtest.Drop)})
	for range 100 {
		w.Post(xtest.Object{Text: "hello", Recipient: "2002"})
	}
	w.Pass(time.Hour)
	e := w.message(t, "2002", "hello")
	e.Send(t)
	w.Receive("2002", "hello")
	w.Post(xtest.Object{Text: "hello", Recipient: "3003"})
	e.Sees(t, job.SawAbsent, "")
	if n := w.Requests("GET", "/2/dm_conversations/with/2002/dm_events"); n != 1 {
		t.Errorf("%d pages read", n)
	}
}

// TestOtherAccount: a conversation is that of the account of the send, and its posts are
// shown whole to that one only. Whose token it is is asked once.
func TestOtherAccount(t *testing.T) {
	w := newWorld(t, xtest.Options{Plan: always(xtest.Drop)})
	e, m := w.effect(t, hello()), w.message(t, "2002", "hello")
	e.Send(t)
	m.Send(t)
	e.Sees(t, job.SawAbsent, "")
	m.Sees(t, job.SawAbsent, "")
	if n := w.Requests("GET", "/2/users/me"); n != 2 {
		t.Errorf("asked %d times whose the token is, of which 2 for X's time", n)
	}
	w.Configure(func(o *xtest.Options) { o.Account, o.Token = "1002", "another" })
	e.Opening.Credential = oauth(t, "another")
	m.Opening.Credential = e.Opening.Credential
	e.SeesNow(t, job.SawInconclusive, "another account")
	m.SeesNow(t, job.SawInconclusive, "another account")
}

// TestSlowUpload: pictures may take minutes between watermark and arm; the post that
// comes after them is still known for certain.
func TestSlowUpload(t *testing.T) {
	for answer, want := range map[xtest.Answer]job.Verdict{xtest.Reset: job.SawPresent, xtest.Drop: job.SawAbsent} {
		w := newWorld(t, xtest.Options{Plan: always(answer), ClockOffset: 3 * time.Hour})
		e := w.effect(t, &fireoncev1.SocialPost{Text: "look", Media: pictures(files(t) + "/a.png")})
		if e.Opening.Prepared.OpenTime < e.Uploads {
			t.Errorf("time to open %v", e.Opening.Prepared.OpenTime)
		}
		e.Uploads = 2 * time.Minute
		e.Send(t)
		e.Sees(t, want, "")
	}
}

// TestClocks: X's clock may be another than ours; it must not be set between.
func TestClocks(t *testing.T) {
	for _, offset := range []time.Duration{-3 * time.Hour, 3 * time.Hour} {
		w := newWorld(t, xtest.Options{Plan: always(xtest.Reset), ClockOffset: offset})
		e := w.effect(t, hello())
		e.Send(t)
		e.Sees(t, job.SawPresent, "")
		w.Configure(func(o *xtest.Options) { o.ClockOffset = 0 })
		e.SeesNow(t, job.SawInconclusive, "was set since the send")
	}
}

// TestRefusedReads: a look that is refused proves nothing, and states why; a watermark
// that is refused holds the account. A token that is good, but may not read, holds
// nothing in a look: what is looked for was sent with it.
func TestRefusedReads(t *testing.T) {
	for answer, c := range map[xtest.Answer]struct {
		words string
		kind  job.FailureKind
	}{
		xtest.Unauthorized: {"reconnect this X account", job.FailAuth},
		xtest.Forbid:       {"does not let this account's token do this", job.FailAuth},
		xtest.RateLimit:    {"429", job.FailRateLimited},
		xtest.Depleted:     {"402", job.FailRateLimited},
		xtest.Fail:         {"503", job.FailTransient},
		xtest.Drop:         {"could not be read", job.FailTransient},
	} {
		refuse := false
		w := newWorld(t, xtest.Options{ResetAfter: 5 * time.Minute, Plan: func(r xtest.Request) xtest.Answer {
			switch {
			case r.Method == http.MethodPost:
				return xtest.Drop
			case refuse:
				return answer
			default:
				return xtest.Reply
			}
		}})
		e := w.effect(t, hello())
		e.Send(t)
		refuse = true
		if o := e.Sees(t, job.SawInconclusive, c.words); (o.Kind == job.FailAuth) != (answer == xtest.Unauthorized) {
			t.Errorf("%v: the look says %s", c, o.Kind)
		}
		_, err := w.c.Watermark(t.Context(), e.Opening)
		var r *connector.Refusal
		if !errors.As(err, &r) || r.Kind != c.kind || (r.RetryAfter >= 5*time.Minute) != (c.kind == job.FailRateLimited) {
			t.Errorf("%v: %+v", c, r)
		}
	}
}

// TestTest: a test returns whose account it is, by an id that outlives its name.
func TestTest(t *testing.T) {
	w := newWorld(t, xtest.Options{Account: "1001", Username: "ada"})
	o := connector.Opening{Credential: w.cred}
	got, err := w.c.Test(t.Context(), o)
	if err != nil || got.Identity != "x:1001" || !strings.Contains(got.Detail, "@ada") {
		t.Errorf("%+v, %v", got, err)
	}
	mark, err := w.c.Watermark(t.Context(), o)
	if err != nil || w.c.AccountOf(mark) != got.Identity {
		t.Errorf("account of %q is %q, %v", mark, w.c.AccountOf(mark), err)
	}
	w.cred = oauth(t, "another")
	_, err = w.c.Test(t.Context(), connector.Opening{Credential: w.cred})
	var r *connector.Refusal
	if !errors.As(err, &r) || r.Kind != job.FailAuth || strings.Contains(err.Error(), "another") {
		t.Errorf("%v", err)
	}
	if n := slices.Max([]int{w.Requests("POST", "/2/tweets"), len(w.Objects())}); n != 0 {
		t.Errorf("%d effects of a test", n)
	}
}
