package feed_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/feed"
	"github.com/fireonce/fireonce/internal/connector/feed/feedtest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

func (e *effect) seesNow(t *testing.T, want job.Verdict, words string) job.Observation {
	t.Helper()
	o := e.look(t)
	if o.Verdict != want || !strings.Contains(o.Detail, words) {
		t.Errorf("%s (%s), want %s with %q", o.Verdict, o.Detail, want, words)
	}
	return o
}

func hello() *fireoncev1.SocialPost { return &fireoncev1.SocialPost{Text: "hello"} }

// always plans the same for posts, and lists as it should.
func always(a feedtest.Answer) func(feedtest.Request) feedtest.Answer {
	return func(r feedtest.Request) feedtest.Answer {
		if r.Method == http.MethodPost {
			return a
		}
		return feedtest.Reply
	}
}

// TestAnswers: what each answer to a post means, and what a look makes of those
// that mean nothing.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer feedtest.Answer
		result job.Result
		kind   job.FailureKind
		sees   job.Verdict
	}{
		"201":                       {feedtest.Reply, job.ResultSucceeded, 0, job.SawPresent},
		"lost before the commit":    {feedtest.Drop, job.ResultUnknown, job.FailAmbiguous, job.SawAbsent},
		"lost after the commit":     {feedtest.Reset, job.ResultUnknown, job.FailAmbiguous, job.SawPresent},
		"500 after the commit":      {feedtest.CommitFail, job.ResultUnknown, job.FailAmbiguous, job.SawPresent},
		"503 without a commit":      {feedtest.Fail, job.ResultUnknown, job.FailAmbiguous, job.SawAbsent},
		"201 that broke off":        {feedtest.Truncate, job.ResultUnknown, job.FailAmbiguous, job.SawPresent},
		"201 without an id":         {feedtest.Nameless, job.ResultUnknown, job.FailAmbiguous, job.SawPresent},
		"401":                       {feedtest.Unauthorized, job.ResultRejected, job.FailAuth, job.SawAbsent},
		"403":                       {feedtest.Forbid, job.ResultRejected, job.FailAuth, job.SawAbsent},
		"422":                       {feedtest.Refuse, job.ResultRejected, job.FailPermanent, job.SawAbsent},
		"429, with its Retry-After": {feedtest.RateLimit, job.ResultRejected, job.FailRateLimited, job.SawAbsent},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, feedtest.Options{Plan: always(c.answer), RetryAfter: 7 * time.Second, ReadLag: readLag})
			e := w.effect(t, hello())
			o := e.send(t)
			if o.Result != c.result || o.Kind != c.kind {
				t.Errorf("%s %s (%s)", o.Result, o.Kind, o.Message)
			}
			if strings.Contains(o.Message, "this connection") != (c.kind == job.FailAuth) { // what its owner has to do
				t.Errorf("%s: %s", o.Kind, o.Message)
			}
			if (o.RetryAfter == 7*time.Second) != (c.kind == job.FailRateLimited) {
				t.Errorf("retry after %v", o.RetryAfter)
			}
			seen := e.sees(t, c.sees, "")
			if c.result == job.ResultSucceeded && (o.ExternalID != seen.ExternalID || o.ExternalURL != seen.ExternalURL || o.ExternalURL == "") {
				t.Errorf("answered as %s %s, seen as %s %s", o.ExternalID, o.ExternalURL, seen.ExternalID, seen.ExternalURL)
			}
			if w.Requests("hello") != 1 {
				t.Errorf("%d requests", w.Requests("hello"))
			}
		})
	}
}

// TestReadLag: a post that is not listed yet is the reason for waiting; once it
// is, it is found.
func TestReadLag(t *testing.T) {
	w := newWorld(t, feedtest.Options{Plan: always(feedtest.Reset), ReadLag: 10 * time.Minute})
	e := w.effect(t, hello())
	e.send(t)
	e.sees(t, job.SawAbsent, "") // the platform is slower than its settings say: the residual risk
	w.pass(10 * time.Minute)
	e.seesNow(t, job.SawPresent, "post-1")
}

// TestFirstPost: an account without posts has nothing to read back to.
func TestFirstPost(t *testing.T) {
	w := newWorld(t, feedtest.Options{Plan: always(feedtest.Reset)})
	e := w.effect(t, hello())
	e.send(t)
	e.sees(t, job.SawPresent, "post-1")

	w = newWorld(t, feedtest.Options{Plan: always(feedtest.Drop)})
	e = w.effect(t, hello())
	e.send(t)
	e.sees(t, job.SawAbsent, "0 posts")
}

// TestHiddenFirstPost: the account looks empty at the watermark, because its one
// post is not listed yet, and has just our content. It is not ours.
func TestHiddenFirstPost(t *testing.T) {
	for name, c := range map[string]struct {
		ago    time.Duration
		answer feedtest.Answer
		want   job.Verdict
	}{
		"long before":            {10 * time.Minute, feedtest.Drop, job.SawAbsent},
		"long before, and ours":  {10 * time.Minute, feedtest.Reset, job.SawPresent},
		"just before":            {10 * time.Second, feedtest.Drop, job.SawCandidates},
		"just before, and ours":  {10 * time.Second, feedtest.Reset, job.SawCandidates},
		"just before, then ours": {0, feedtest.Reset, job.SawPresent}, // there is none before
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, feedtest.Options{Plan: always(c.answer), ReadLag: 11 * time.Minute})
			if c.ago > 0 {
				w.Post("hello", "")
				w.pass(c.ago)
			}
			w.SetReadLag(0)
			e := w.effect(t, hello())
			e.send(t)
			w.pass(time.Hour)
			e.seesNow(t, c.want, "")
		})
	}
}

// TestOldTwin: the same content was posted before, and listed at the watermark:
// it is not ours, however new it is.
func TestOldTwin(t *testing.T) {
	for answer, want := range map[feedtest.Answer]job.Verdict{feedtest.Drop: job.SawAbsent, feedtest.Reset: job.SawPresent} {
		w := newWorld(t, feedtest.Options{Plan: always(answer)})
		w.Post("hello", "")
		w.pass(time.Second)
		e := w.effect(t, hello())
		e.send(t)
		o := e.sees(t, want, "")
		if want == job.SawPresent && o.ExternalID != "post-2" {
			t.Errorf("found %s", o.ExternalID)
		}
	}
}

// TestForeignTwin: another client posts the same content while ours is in flight.
func TestForeignTwin(t *testing.T) {
	w := newWorld(t, feedtest.Options{Plan: always(feedtest.Reset)})
	e := w.effect(t, hello())
	e.send(t)
	w.Post("hello", "")
	e.sees(t, job.SawCandidates, "post-2")
	e.taken["post-2"] = true
	e.seesNow(t, job.SawPresent, "post-1")
	e.taken["post-1"] = true
	e.seesNow(t, job.SawAbsent, "")
}

// TestAfterTheFence: what appeared when our attempt could no longer act is not
// taken for ours, and not sent over either: perhaps a person did it by hand.
func TestAfterTheFence(t *testing.T) {
	w := newWorld(t, feedtest.Options{Plan: always(feedtest.Drop)})
	e := w.effect(t, hello())
	e.send(t)
	w.pass(fenceTime)
	w.Post("hello", "")
	e.sees(t, job.SawCandidates, "is it this one?")
}

// TestBeforeTheFence: an absence counts only when the platform's list is from after the
// fence; a presence counts immediately.
func TestBeforeTheFence(t *testing.T) {
	w := newWorld(t, feedtest.Options{Plan: always(feedtest.Drop)})
	e := w.effect(t, hello())
	e.send(t)
	e.seesNow(t, job.SawInconclusive, "before the end")
	w.Post("hello", "")
	e.seesNow(t, job.SawPresent, "post-1")
}

// TestManyPages: the post is found behind many pages, and between them posts
// come and go.
func TestManyPages(t *testing.T) {
	for answer, want := range map[feedtest.Answer]job.Verdict{feedtest.Drop: job.SawAbsent, feedtest.Reset: job.SawPresent} {
		var w *world
		w = newWorld(t, feedtest.Options{PageLimit: 5, Plan: func(r feedtest.Request) feedtest.Answer {
			if r.Method == http.MethodPost {
				return answer
			}
			if r.Number > 1 {
				w.Post("a new one, while it is read", "")
				_ = w.Delete(w.Posts()[len(w.Posts())-r.Number].ID)
			}
			return feedtest.Reply
		}})
		for range 20 {
			w.Post("long before", "")
		}
		w.pass(time.Hour)
		e := w.effect(t, hello())
		e.send(t)
		for range 30 {
			w.Post("later", "")
		}
		e.sees(t, want, "")
	}
}

// TestTooManyPosts: an account with more posts than a look may read is not read
// completely, found or not.
func TestTooManyPosts(t *testing.T) {
	w := newWorld(t, feedtest.Options{PageLimit: 1, Plan: always(feedtest.Reset)})
	e := w.effect(t, hello())
	e.send(t)
	for range feed.MaxPages {
		w.Post("later", "")
	}
	e.sees(t, job.SawInconclusive, "more than 100 pages")
}

// TestLargePages: a page of long posts is too large to be read, and is read in
// parts.
func TestLargePages(t *testing.T) {
	long := strings.Repeat("\U0001f600", feed.MaxText)
	w := newWorld(t, feedtest.Options{PageLimit: 100, Plan: always(feedtest.Reset)})
	e := w.effect(t, &fireoncev1.SocialPost{Text: long})
	e.send(t)
	for range 120 {
		w.Post(long+"!", "")
	}
	e.sees(t, job.SawPresent, "post-1")
	if n := w.Totals().Listings; n < 5 || n > 40 {
		t.Errorf("%d listings", n)
	}
}

// TestOffsetPaging: a platform without cursors proves nothing, even on one page.
func TestOffsetPaging(t *testing.T) {
	w := newWorld(t, feedtest.Options{Plan: always(feedtest.Reset), Paging: feedtest.ByOffset})
	e := w.effect(t, hello())
	e.send(t)
	e.sees(t, job.SawInconclusive, "without cursors")
	w.SetPaging(feedtest.ByCursor)
	e.seesNow(t, job.SawPresent, "")
}

// TestDeletedWatermark: the post that was the newest one is gone; the read goes
// on to older ones, or to the list's end.
func TestDeletedWatermark(t *testing.T) {
	for _, older := range []int{0, 3} {
		w := newWorld(t, feedtest.Options{Plan: always(feedtest.Drop)})
		for range older + 1 {
			w.Post("before", "")
			w.pass(10 * time.Minute)
		}
		e := w.effect(t, hello())
		e.send(t)
		if err := w.Delete(w.Posts()[older].ID); err != nil {
			t.Fatal(err)
		}
		if older > 0 {
			e.sees(t, job.SawAbsent, "")
		} else {
			// Nothing is left of what was there: that is what a list that is cut short
			// looks like too.
			e.sees(t, job.SawInconclusive, "ends before")
		}
	}
}

// TestOtherAccount: a read under another account proves nothing.
func TestOtherAccount(t *testing.T) {
	w := newWorld(t, feedtest.Options{Plan: always(feedtest.Drop)})
	e := w.effect(t, hello())
	e.send(t)
	w.SetAccount("account-2")
	e.sees(t, job.SawInconclusive, "another account")
}

// TestOtherPlatform: the connection's base URL was changed since the send.
func TestOtherPlatform(t *testing.T) {
	w := newWorld(t, feedtest.Options{Plan: always(feedtest.Reset)})
	e := w.effect(t, hello())
	e.send(t)
	w.base = w.URL() + "/v2"
	e.sees(t, job.SawInconclusive, "another platform")
}

// TestRefusedReads: a look that is refused proves nothing, and states why.
func TestRefusedReads(t *testing.T) {
	for answer, words := range map[feedtest.Answer]string{
		feedtest.Unauthorized: "give this connection a new credential", feedtest.Forbid: "allow this connection's credential", feedtest.RateLimit: "429", feedtest.Fail: "503", feedtest.CommitFail: "500",
		feedtest.Truncate: "broke off", feedtest.Nameless: "not a list", feedtest.Drop: "could not be read",
	} {
		w := newWorld(t, feedtest.Options{Plan: func(r feedtest.Request) feedtest.Answer {
			switch {
			case r.Method == http.MethodPost:
				return feedtest.Drop
			case r.Number == 1:
				return feedtest.Reply // the watermark
			default:
				return answer
			}
		}})
		e := w.effect(t, hello())
		e.send(t)
		e.sees(t, job.SawInconclusive, words)
	}
}

// TestALookSaysNoAddress: what a look says is for users, and does not name what a
// host's name resolves to in our network.
func TestALookSaysNoAddress(t *testing.T) {
	w := newWorld(t, feedtest.Options{})
	w.base = strings.Replace(w.base, "127.0.0.1", "localhost", 1)
	e := w.effect(t, hello())
	e.arm(t)
	closed := transport.NewSender(transport.Config{Egress: transport.NewEgress()})
	t.Cleanup(closed.Close)
	w.c = feed.New(feed.Config{Sender: closed, Now: w.Now})
	o := e.sees(t, job.SawInconclusive, "has no address that may be reached")
	if strings.Contains(o.Detail, "127.0.0.1") || strings.Contains(o.Detail, "::1") {
		t.Errorf("the look says %q", o.Detail)
	}
}

// TestSecondPageFails: one page of two was read; what it showed does not count.
func TestSecondPageFails(t *testing.T) {
	for _, text := range []string{"hello", "another"} {
		w := newWorld(t, feedtest.Options{PageLimit: 2, Plan: func(r feedtest.Request) feedtest.Answer {
			switch {
			case r.Method == http.MethodPost:
				return feedtest.Drop
			case r.Number == 3:
				return feedtest.Fail
			default:
				return feedtest.Reply
			}
		}})
		e := w.effect(t, hello())
		e.send(t)
		for range 3 {
			w.Post(text, "")
			w.Post("something", "")
		}
		e.sees(t, job.SawInconclusive, "503")
	}
}

// TestClocks: the platform's clock may be wrong, as long as it is steady.
func TestClocks(t *testing.T) {
	for _, offset := range []time.Duration{-26 * time.Hour, -time.Second, time.Second, 26 * time.Hour} {
		for answer, want := range map[feedtest.Answer]job.Verdict{feedtest.Drop: job.SawAbsent, feedtest.Reset: job.SawPresent} {
			w := newWorld(t, feedtest.Options{Plan: always(answer), ClockOffset: offset})
			w.Post("hello", "")
			w.pass(time.Hour)
			e := w.effect(t, hello())
			e.send(t)
			e.sees(t, want, "")
		}
	}
	for _, jump := range []time.Duration{-26 * time.Hour, -2 * time.Minute, 2 * time.Minute, 26 * time.Hour} {
		for _, answer := range []feedtest.Answer{feedtest.Drop, feedtest.Reset} {
			w := newWorld(t, feedtest.Options{Plan: always(answer)})
			e := w.effect(t, hello())
			e.send(t)
			w.SetClockOffset(jump)
			e.sees(t, job.SawInconclusive, "clock")
		}
	}
}

// TestClockJumpBeforeTheCommit: the platform's clock is set between watermark
// and commit, and set right again before the look. The post's time is wrong; it
// is not taken for absent.
func TestClockJumpBeforeTheCommit(t *testing.T) {
	for _, jump := range []time.Duration{-30 * time.Second, 30 * time.Minute} {
		w := newWorld(t, feedtest.Options{})
		w.Post("before", "")
		w.pass(time.Hour)
		e := w.effect(t, hello())
		e.arm(t)
		w.SetClockOffset(jump)
		w.Post("hello", "") // our request, as the platform made it
		w.SetClockOffset(0)
		e.sees(t, job.SawCandidates, "time is not that of the send")
	}
}

// TestReplies: the same text in answer to two posts is two contents, and an
// answer to a post is not the post.
func TestReplies(t *testing.T) {
	w := newWorld(t, feedtest.Options{Plan: always(feedtest.Reset)})
	root := w.Post("root", "")
	other := w.Post("other", "")
	w.pass(time.Hour)
	reply := w.effect(t, &fireoncev1.SocialPost{Text: "me too", ReplyToId: root.ID})
	reply.send(t)
	w.Post("me too", other.ID)
	w.Post("me too", "")
	o := reply.sees(t, job.SawPresent, "")
	if o.ExternalID != "post-3" || w.Posts()[2].ReplyTo != root.ID {
		t.Errorf("found %s of %+v", o.ExternalID, w.Posts())
	}
}

// TestParentGone: a platform that forgets what a post answers, when that is deleted,
// has the post still.
func TestParentGone(t *testing.T) {
	w := newWorld(t, feedtest.Options{})
	root := w.Post("root", "")
	w.pass(time.Hour)
	e := w.effect(t, &fireoncev1.SocialPost{Text: "me too", ReplyToId: root.ID})
	e.arm(t)
	w.Post("me too", "another")
	e.sees(t, job.SawAbsent, "")
	orphan := w.Post("me too", "") // our request, as the platform returns it by then
	e.seesNow(t, job.SawCandidates, orphan.ID)
	e.taken[orphan.ID] = true
	e.seesNow(t, job.SawAbsent, "")
}

// TestTextForms: a platform that stores a text in another Unicode form, or with
// other white space, has the same text.
func TestTextForms(t *testing.T) {
	for sent, stored := range map[string]string{
		"Gru\u0308\u00dfe":      "Gr\u00fc\u00dfe",
		"a\r\nb":                "a\nb",
		"  a \t b\n":            "a b",
		"\u212b":                "\u00c5",
		"<b>&amp;\u2028\u00a0x": "<b>&amp;\u2028\u00a0x",
	} {
		w := newWorld(t, feedtest.Options{})
		e := w.effect(t, &fireoncev1.SocialPost{Text: sent})
		e.arm(t)
		w.Post(stored, "")
		e.sees(t, job.SawPresent, "")
	}
	for sent, stored := range map[string]string{"ab": "a b", "A": "a", "1": "\u2460", "a": "\u0430"} {
		w := newWorld(t, feedtest.Options{})
		e := w.effect(t, &fireoncev1.SocialPost{Text: sent})
		e.arm(t)
		w.Post(stored, "")
		e.sees(t, job.SawAbsent, "")
	}
}

// TestSecondAttempt: after a proven absence the same post is armed again; the
// look reads back to the first attempt's watermark, up to the last one's fence.
func TestSecondAttempt(t *testing.T) {
	w := newWorld(t, feedtest.Options{Plan: func(r feedtest.Request) feedtest.Answer {
		if r.Method == http.MethodPost && r.Number == 1 {
			return feedtest.Drop
		}
		if r.Method == http.MethodPost {
			return feedtest.Reset
		}
		return feedtest.Reply
	}})
	e := w.effect(t, hello())
	e.send(t)
	e.sees(t, job.SawAbsent, "")
	w.pass(10 * time.Minute)
	e.send(t)
	e.sees(t, job.SawPresent, "post-1")
}

// TestWholeSeconds: a platform that stamps whole seconds stamps our post before
// the watermark.
func TestWholeSeconds(t *testing.T) {
	w := newWorld(t, feedtest.Options{})
	e := w.effect(t, hello())
	e.arm(t) // at a quarter past the second
	w.SetClockOffset(-250 * time.Millisecond)
	w.Post("hello", "")
	w.SetClockOffset(0)
	e.sees(t, job.SawPresent, "")
}
