package slack_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/slack/slacktest"
	"github.com/fireonce/fireonce/internal/job"
)

// id names a message as jobs do.
func id(m slacktest.Message) string { return m.Channel + ":" + m.TS }

// TestAnswers: what each answer means, and what a look makes of those that mean
// nothing; in a channel, in a thread and with a person.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer slacktest.Answer
		code   string
		result job.Result
		kind   job.FailureKind
		words  string
		sees   job.Verdict
	}{
		"ok":                     {slacktest.Reply, "", job.ResultSucceeded, 0, "", job.SawPresent},
		"lost before the commit": {slacktest.Drop, "", job.ResultUnknown, job.FailAmbiguous, "may have acted", job.SawAbsent},
		"lost after the commit":  {slacktest.Reset, "", job.ResultUnknown, job.FailAmbiguous, "may have acted", job.SawPresent},
		"500 after the commit":   {slacktest.CommitFail, "", job.ResultUnknown, job.FailAmbiguous, "500", job.SawPresent},
		"fatal_error after it":   {slacktest.Fatal, "", job.ResultUnknown, job.FailAmbiguous, "fatal_error; it may have acted", job.SawPresent},
		"503 without a commit":   {slacktest.Fail, "", job.ResultUnknown, job.FailAmbiguous, "503", job.SawAbsent},
		"ok without a place":     {slacktest.Nameless, "", job.ResultUnknown, job.FailAmbiguous, "may have acted", job.SawPresent},
		"invalid_auth":           {slacktest.Unauthorized, "", job.ResultRejected, job.FailAuth, "reconnect this Slack workspace", job.SawAbsent},
		"token_revoked":          {slacktest.Code, "token_revoked", job.ResultRejected, job.FailAuth, "reconnect this Slack workspace", job.SawAbsent},
		"missing_scope":          {slacktest.Code, "missing_scope", job.ResultRejected, job.FailAuth, "lacks a right", job.SawAbsent},
		"not_in_channel":         {slacktest.Code, "not_in_channel", job.ResultRejected, job.FailPermanent, "invite it", job.SawAbsent},
		"is_archived":            {slacktest.Code, "is_archived", job.ResultRejected, job.FailPermanent, "archived", job.SawAbsent},
		"no words for it":        {slacktest.Code, "metadata_too_large", job.ResultRejected, job.FailPermanent, "metadata_too_large", job.SawAbsent},
		"internal_error":         {slacktest.Code, "internal_error", job.ResultUnknown, job.FailAmbiguous, "internal_error", job.SawAbsent},
		"a code of tomorrow":     {slacktest.Code, "out_of_cheese", job.ResultUnknown, job.FailAmbiguous, "out_of_cheese", job.SawAbsent},
		"429":                    {slacktest.RateLimit, "", job.ResultRejected, job.FailRateLimited, "429", job.SawAbsent},
		"ratelimited, with 200":  {slacktest.Code, "ratelimited", job.ResultRejected, job.FailRateLimited, "no more requests", job.SawAbsent},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []string{"post", "reply", "message"} {
				w := newWorld(t, slacktest.Options{Plan: always(c.answer), Code: c.code, RetryAfter: 7 * time.Second, ReadLag: readLag})
				first := w.Say(slacktest.Message{Channel: channel, Text: "hello"})
				w.Pass(10 * time.Minute)
				e := w.effect(t, hello())
				switch kind {
				case "reply":
					e = w.effect(t, &fireoncev1.SocialPost{Text: "hello", ReplyToId: first.TS})
				case "message":
					e = w.message(t, "U2", "hello")
				}
				o := e.Send(t)
				if o.Result != c.result || o.Kind != c.kind || !strings.Contains(o.Message, c.words) {
					t.Errorf("%s: %s %s (%s)", kind, o.Result, o.Kind, o.Message)
				}
				if (o.RetryAfter > 0) != (c.kind == job.FailRateLimited) {
					t.Errorf("%s: retry after %v", kind, o.RetryAfter)
				}
				seen := e.Sees(t, c.sees, "")
				if c.result == job.ResultSucceeded && (o.ExternalID != seen.ExternalID || o.ExternalURL != seen.ExternalURL || o.ExternalURL == "") {
					t.Errorf("%s: answered as %s %s, seen as %s %s", kind, o.ExternalID, o.ExternalURL, seen.ExternalID, seen.ExternalURL)
				}
				if n := len(w.Messages()) - 1; n != btoi(c.answer.Commits()) {
					t.Errorf("%s: %d effects", kind, n)
				}
			}
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestTheMarkIsTheProof: a message is found whatever it says by then, and told from
// others that say the same.
func TestTheMarkIsTheProof(t *testing.T) {
	w := newWorld(t, slacktest.Options{Plan: always(slacktest.Reset)})
	a, b := w.effect(t, hello()), w.effect(t, hello())
	if len(a.Opening.Prepared.Gate) > 0 {
		t.Error("marked messages wait for each other")
	}
	a.Send(t)
	b.Send(t) // before anything is known of the first
	w.Say(slacktest.Message{Channel: channel, Text: "hello", User: "U9"})
	one := a.Sees(t, job.SawPresent, "")
	two := b.Sees(t, job.SawPresent, "")
	if sent := w.Messages(); one.ExternalID != id(sent[0]) || two.ExternalID != id(sent[1]) {
		t.Errorf("attributed to %s and %s", one.ExternalID, two.ExternalID)
	}
}

// TestNewRound: what a person has sent again carries another mark.
func TestNewRound(t *testing.T) {
	w := newWorld(t, slacktest.Options{})
	e := w.effect(t, hello())
	e.Send(t)
	e.Sees(t, job.SawPresent, "")
	w.Say(slacktest.Message{Channel: channel, Text: "hello", Metadata: mark(e.Key + ".2")})
	e.SeesNow(t, job.SawPresent, id(w.Messages()[0]))
}

func mark(key string) json.RawMessage {
	raw, err := json.Marshal(map[string]any{"event_type": "fireonce_job", "event_payload": map[string]any{"job_id": key}})
	if err != nil {
		panic(err)
	}
	return raw
}

// TestTwoWithOneMark: if there are two, a person decides.
func TestTwoWithOneMark(t *testing.T) {
	w := newWorld(t, slacktest.Options{})
	e := w.effect(t, hello())
	e.Send(t)
	twin := w.Say(slacktest.Message{Channel: channel, Text: "hello", Metadata: mark(e.Key)})
	e.Sees(t, job.SawCandidates, "2 messages have this job's mark")
	e.Taken[id(twin)] = true
	e.SeesNow(t, job.SawPresent, id(w.Messages()[0]))
}

// TestForgedMark: another account's message with our mark is not taken for ours, and
// not ignored.
func TestForgedMark(t *testing.T) {
	w := newWorld(t, slacktest.Options{Plan: always(slacktest.Drop)})
	e := w.effect(t, hello())
	e.Send(t)
	w.Say(slacktest.Message{Channel: channel, Text: "anything", Metadata: mark(e.Key), User: "U9"})
	e.Sees(t, job.SawCandidates, "is it one of them?")
}

// TestMarksNotShown: to an app that is shown no metadata, no mark is no absence: what
// says the same is for a person to judge.
func TestMarksNotShown(t *testing.T) {
	const text = "Read <this> & that: https://a.example/x?y=1&z=2 \U0001f600"
	for _, sent := range []string{
		text, "Grüße", "write to ada@example.com, or see example.com", "1\ufe0f\u20e3 \u2139\ufe0f Words\u2122 \U0001f44b\U0001f3fd", "\U0001f389\U0001f389",
		"<!here> <@U2>, see <https://a.example/x|this>: “a” – b's", "Hi :wave::skin-tone-2: at 10:30:00",
	} {
		w := newWorld(t, slacktest.Options{Plan: always(slacktest.Reset), NoMetadata: true})
		w.Say(slacktest.Message{Channel: channel, Text: sent}) // an old one
		w.Pass(10 * time.Minute)
		e := w.effect(t, &fireoncev1.SocialPost{Text: sent})
		e.Send(t)
		w.Say(slacktest.Message{Channel: channel, Text: "something else"})
		w.Say(slacktest.Message{Channel: channel}) // blocks, or a file
		w.Say(slacktest.Message{Channel: channel, Text: sent, User: "U9"})
		e.Sees(t, job.SawCandidates, id(w.Messages()[1]))
	}
}

// TestTwinsWithoutAMark: the mark is the proof, whatever else the account says by hand.
func TestTwinsWithoutAMark(t *testing.T) {
	w := newWorld(t, slacktest.Options{Plan: always(slacktest.Reset)})
	e := w.effect(t, hello())
	e.Send(t)
	w.Say(slacktest.Message{Channel: channel, Text: "hello"})
	w.Say(slacktest.Message{Channel: channel, Text: "hello", Metadata: mark(e.Key), User: "U9"})
	e.Sees(t, job.SawPresent, id(w.Messages()[0]))
}

// TestAnswersToAnswers: what is listed for a message that is itself an answer, or that
// is gone, is not the thread that ours went to. That proves no absence.
func TestAnswersToAnswers(t *testing.T) {
	w := newWorld(t, slacktest.Options{Plan: always(slacktest.Reset)})
	first := w.Say(slacktest.Message{Channel: channel, Text: "first"})
	answer := w.Say(slacktest.Message{Channel: channel, Text: "answer", Thread: first.TS})
	w.Pass(10 * time.Minute)
	e := w.effect(t, &fireoncev1.SocialPost{Text: "hello", ReplyToId: answer.TS})
	e.Send(t)
	e.Sees(t, job.SawInconclusive, "itself an answer")
	gone := &fireoncev1.SocialPost{Text: "hello", ReplyToId: "1600000000.000001"}
	e = w.effect(t, gone)
	e.Send(t)
	e.Sees(t, job.SawPresent, "") // by its mark
	w.Configure(func(o *slacktest.Options) { o.Plan = always(slacktest.Drop) })
	gone.ReplyToId = "1600000000.000002"
	e = w.effect(t, gone)
	e.Send(t)
	e.Sees(t, job.SawInconclusive, "the thread is not listed")
}

// TestManyPages: all pages are read, in whatever order they come; more than a look may
// read prove nothing.
func TestManyPages(t *testing.T) {
	for answer, want := range map[slacktest.Answer]job.Verdict{slacktest.Drop: job.SawAbsent, slacktest.Reset: job.SawPresent} {
		w := newWorld(t, slacktest.Options{PageLimit: 15, Plan: always(answer)})
		first := w.Say(slacktest.Message{Channel: channel, Text: "first"})
		w.Pass(10 * time.Minute)
		e, r := w.effect(t, hello()), w.effect(t, &fireoncev1.SocialPost{Text: "hello", ReplyToId: id(first)})
		e.Send(t)
		r.Send(t)
		for range 50 {
			w.Say(slacktest.Message{Channel: channel, Text: "later"})
			w.Say(slacktest.Message{Channel: channel, Text: "later", Thread: first.TS})
		}
		e.Sees(t, want, "")
		r.Sees(t, want, "")
	}
	w := newWorld(t, slacktest.Options{PageLimit: 1, Plan: always(slacktest.Reset)})
	e := w.effect(t, hello())
	e.Send(t)
	for range 50 {
		w.Say(slacktest.Message{Channel: channel, Text: "later"})
	}
	e.Sees(t, job.SawInconclusive, "more than 50 pages")
}

// TestLargePages: a page of long messages is too large to be read, and is read in
// parts.
func TestLargePages(t *testing.T) {
	long := strings.Repeat("\U0001f680", 20_000)
	w := newWorld(t, slacktest.Options{Plan: always(slacktest.Reset)})
	e := w.effect(t, hello())
	e.Send(t)
	for range 30 {
		w.Say(slacktest.Message{Channel: channel, Text: long})
	}
	e.Sees(t, job.SawPresent, "")
}

// TestReadOnceAMinute: most apps may read a conversation once a minute. A look that
// comes too soon proves nothing; the settle times let the next one through.
func TestReadOnceAMinute(t *testing.T) {
	w := newWorld(t, slacktest.Options{Plan: always(slacktest.Drop), ReadEvery: time.Minute})
	e := w.effect(t, hello())
	e.Send(t)
	e.Sees(t, job.SawAbsent, "")
	e.SeesNow(t, job.SawInconclusive, "429")
	traits, err := w.c.Traits(settings(t))
	if err != nil {
		t.Fatal(err)
	}
	w.Pass(traits.Spacing)
	e.SeesNow(t, job.SawAbsent, "")
}

// TestBeforeTheFence: an absence counts only when the list is from after the fence; a
// presence counts immediately.
func TestBeforeTheFence(t *testing.T) {
	w := newWorld(t, slacktest.Options{Plan: always(slacktest.Drop)})
	e := w.effect(t, hello())
	e.Send(t)
	e.SeesNow(t, job.SawInconclusive, "before the end")
	w.Configure(func(o *slacktest.Options) { o.Plan = always(slacktest.Reset) })
	e.Send(t)
	e.SeesNow(t, job.SawPresent, "")
}

// TestStampedBeforeTheSend: a clock of Slack's that is a little behind stamps our message
// with a time from before the watermark. It is read, and found.
func TestStampedBeforeTheSend(t *testing.T) {
	w := newWorld(t, slacktest.Options{Plan: always(slacktest.Drop)})
	e := w.effect(t, hello())
	e.Send(t)
	w.Configure(func(o *slacktest.Options) { o.ClockOffset = -30 * time.Second })
	w.Say(slacktest.Message{Channel: channel, Text: "hello", Metadata: mark(e.Key)})
	w.Configure(func(o *slacktest.Options) { o.ClockOffset = 0 })
	e.Sees(t, job.SawPresent, id(w.Messages()[0]))
}

// TestThreads: an answer to an answer goes to the thread; it is found there, and shown
// in the conversation if that is wanted.
func TestThreads(t *testing.T) {
	w := newWorld(t, slacktest.Options{})
	first := w.effect(t, hello()).Send(t)
	r := w.effect(t, &fireoncev1.SocialPost{Text: "one", ReplyToId: first.ExternalID})
	one := r.Send(t)
	two := w.effect(t, &fireoncev1.SocialPost{Text: "two", ReplyToId: one.ExternalID, PlatformOptions: &fireoncev1.SocialPost_Slack{
		Slack: &fireoncev1.SlackOptions{ReplyBroadcast: true},
	}})
	o := two.Send(t)
	sent := w.Messages()
	if sent[1].Thread != sent[0].TS || sent[2].Thread != sent[0].TS || sent[1].Broadcast || !sent[2].Broadcast {
		t.Errorf("%+v", sent)
	}
	for _, e := range []struct {
		*connectortest.Effect
		job.Outcome
	}{{r, one}, {two, o}} {
		if seen := e.Sees(t, job.SawPresent, ""); seen.ExternalID != e.ExternalID || !strings.HasSuffix(seen.ExternalID, ":"+sent[0].TS) {
			t.Errorf("answered as %s, seen as %s", e.ExternalID, seen.ExternalID)
		}
	}
}

// TestPeople: a conversation with a person is opened before the send, once.
func TestPeople(t *testing.T) {
	w := newWorld(t, slacktest.Options{})
	for range 3 {
		if o := w.message(t, "U2", "hello").Send(t); !strings.HasPrefix(o.ExternalID, "D1:") {
			t.Errorf("%+v", o)
		}
	}
	w.message(t, "D7", "hello").Send(t)
	if n := w.Requests("conversations.open"); n != 1 {
		t.Errorf("%d times opened", n)
	}
	w = newWorld(t, slacktest.Options{Code: "cannot_dm_bot", Plan: func(r slacktest.Request) slacktest.Answer {
		if r.Method == "conversations.open" {
			return slacktest.Code
		}
		return slacktest.Reply
	}})
	e := w.message(t, "U2", "hello")
	_, err := w.c.Watermark(t.Context(), e.Opening)
	var r *connector.Refusal
	if !errors.As(err, &r) || r.Kind != job.FailPermanent || !strings.Contains(r.Msg, "another app") {
		t.Errorf("%v", err)
	}
	if _, err := w.c.Open(t.Context(), e.Opening); !errors.As(err, &r) || r.Kind != job.FailPermanent {
		t.Errorf("%v", err)
	}
}

// TestClocks: Slack's clock may be another than ours; it must not be set between.
func TestClocks(t *testing.T) {
	for _, offset := range []time.Duration{-3 * time.Hour, 3 * time.Hour} {
		w := newWorld(t, slacktest.Options{Plan: always(slacktest.Reset), ClockOffset: offset})
		e := w.effect(t, hello())
		e.Send(t)
		e.Sees(t, job.SawPresent, "")
		w.Configure(func(o *slacktest.Options) { o.ClockOffset = 0 })
		e.SeesNow(t, job.SawInconclusive, "was set since the send")
	}
}

// TestRefusedReads: a look that is refused proves nothing, and states why; a watermark
// that is refused holds the account.
func TestRefusedReads(t *testing.T) {
	for answer, c := range map[slacktest.Answer]struct {
		words string
		kind  job.FailureKind
	}{
		slacktest.Unauthorized: {"reconnect this Slack workspace", job.FailAuth},
		slacktest.Code:         {"the app is not in this conversation", job.FailPermanent},
		slacktest.RateLimit:    {"429", job.FailRateLimited},
		slacktest.Fail:         {"503", job.FailTransient},
		slacktest.Drop:         {"could not be read", job.FailTransient},
	} {
		refuse := false
		w := newWorld(t, slacktest.Options{Code: "not_in_channel", RetryAfter: 90 * time.Second, Plan: func(r slacktest.Request) slacktest.Answer {
			switch {
			case r.Method == "chat.postMessage":
				return slacktest.Drop
			case refuse:
				return answer
			default:
				return slacktest.Reply
			}
		}})
		e := w.effect(t, hello())
		e.Send(t)
		refuse = true
		if o := e.Sees(t, job.SawInconclusive, c.words); (o.Kind == job.FailAuth) != (c.kind == job.FailAuth) {
			t.Errorf("%v: the look says %s", c, o.Kind)
		}
		_, err := w.c.Watermark(t.Context(), e.Opening)
		var r *connector.Refusal
		if !errors.As(err, &r) || r.Kind != c.kind || (r.RetryAfter == 90*time.Second) != (c.kind == job.FailRateLimited) {
			t.Errorf("%v: %+v", c, r)
		}
	}
}

// TestOtherAccount: another account may not be shown what the one of the send sees.
// Whose token it is is asked once.
func TestOtherAccount(t *testing.T) {
	w := newWorld(t, slacktest.Options{Plan: always(slacktest.Drop)})
	e := w.effect(t, hello())
	e.Send(t)
	e.Sees(t, job.SawAbsent, "")
	if n := w.Requests("auth.test"); n != 1 {
		t.Errorf("asked %d times whose the token is", n)
	}
	for _, other := range [][2]string{{"T1", "U2"}, {"T2", "U1"}} {
		w.Configure(func(o *slacktest.Options) { o.Team, o.User, o.Token = other[0], other[1], other[0]+other[1] })
		e.Opening.Credential = oauth(t, other[0]+other[1])
		e.SeesNow(t, job.SawInconclusive, "another account")
	}
}

// TestTest: a test returns whose token it is, and whether the conversation can be read.
func TestTest(t *testing.T) {
	w := newWorld(t, slacktest.Options{})
	o := connector.Opening{Settings: settings(t), Credential: w.cred}
	got, err := w.c.Test(t.Context(), o)
	if err != nil || got.Identity != "slack:T1/U1" || !strings.Contains(got.Detail, "words.slack.example") {
		t.Errorf("%+v, %v", got, err)
	}
	o.Prepared = w.effect(t, hello()).Opening.Prepared
	mark, err := w.c.Watermark(t.Context(), o)
	if err != nil || w.c.AccountOf(mark) != got.Identity {
		t.Errorf("account of %q is %q, %v", mark, w.c.AccountOf(mark), err)
	}
	for answer, want := range map[slacktest.Answer]job.FailureKind{slacktest.RateLimit: 0, slacktest.Code: job.FailPermanent, slacktest.Unauthorized: job.FailAuth} {
		w.Configure(func(o *slacktest.Options) {
			o.Code = "not_in_channel"
			o.Plan = func(r slacktest.Request) slacktest.Answer {
				if r.Method == "conversations.history" {
					return answer
				}
				return slacktest.Reply
			}
		})
		got, err := w.c.Test(t.Context(), o)
		var r *connector.Refusal
		if want == 0 && (err != nil || got.Identity == "") || want != 0 && (!errors.As(err, &r) || r.Kind != want) {
			t.Errorf("%d: %+v, %v", answer, got, err)
		}
	}
	if n := len(w.Messages()); n != 0 {
		t.Errorf("%d effects of a test", n)
	}
}
