package tiktok_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/tiktok/tiktoktest"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
)

// A post that fails says so in words for a user, and what may be tried again.
func TestFailReasons(t *testing.T) {
	for reason, c := range map[string]struct {
		kind  job.FailureKind
		words string
	}{
		"file_format_check_failed":  {job.FailPermanent, "the file's format"},
		"duration_check_failed":     {job.FailPermanent, "too short or too long"},
		"frame_rate_check_failed":   {job.FailPermanent, "frame rate"},
		"picture_size_check_failed": {job.FailPermanent, "size of the picture"},
		"video_pull_failed":         {job.FailTransient, "could not fetch the video"},
		"photo_pull_failed":         {job.FailTransient, "could not fetch a photo"},
		"publish_cancelled":         {job.FailPermanent, "cancelled at TikTok"},
		"auth_removed":              {job.FailAuth, "Reconnect this TikTok account"},
		"internal":                  {job.FailTransient, "TikTok failed while it worked"},
		"spam_risk_text":            {job.FailPermanent, "text for spam"},
		"spam_risk_of_a_new_kind":   {job.FailPermanent, "for spam"},
		"a_new_reason":              {job.FailPermanent, "TikTok did not post it: a_new_reason"},
	} {
		w := newWorld(t, tiktoktest.Options{Fail: func(string) string { return reason }, Process: time.Minute})
		a := w.send(upload, video(w.url))
		w.polls(a, job.ResultAccepted, 0, "TikTok works on the video")
		w.pass(time.Minute)
		w.polls(a, job.ResultRejected, c.kind, c.words)
		w.effects(0)
	}
}

// What waits in the account's inbox is asked about until its owner has posted it.
func TestInbox(t *testing.T) {
	w := newWorld(t, tiktoktest.Options{Inbox: true})
	a := w.send(upload, video(w.url))
	for range 3 {
		if o := w.polls(a, job.ResultAccepted, 0, "where its owner has to finish it"); o.RetryAfter != time.Minute {
			t.Errorf("asked again after %v", o.RetryAfter)
		}
		w.pass(5 * time.Hour)
	}
	w.Finish()
	w.polls(a, job.ResultSucceeded, 0, "posted")
}

// TestPollsWithoutAWord: polls without an answer say nothing about the post. A refused
// token is reported, and so is how long to wait.
func TestPollsWithoutAWord(t *testing.T) {
	for name, c := range map[string]struct {
		fate  faultproxy.Fate
		kind  job.FailureKind
		wait  time.Duration
		words string
	}{
		"lost":             {fault(faultproxy.DropBefore), job.FailAmbiguous, 0, "TikTok could not be read"},
		"502":              {fault(faultproxy.FailAfter), job.FailAmbiguous, 0, "502"},
		"cut":              {fault(faultproxy.TruncateAfter), job.FailAmbiguous, 0, "broke off"},
		"refused token":    {says(401, "access_token_invalid"), job.FailAuth, 0, "Reconnect this TikTok account"},
		"scope taken":      {says(401, "scope_not_authorized"), job.FailAuth, 0, "Reconnect this TikTok account"},
		"too many polls":   {says(429, "rate_limit_exceeded"), job.FailAmbiguous, time.Minute, "asks to wait"},
		"limited with 200": {says(200, "rate_limit_exceeded"), job.FailAmbiguous, time.Minute, "asks to wait"},
		"unknown post":     {says(400, "invalid_publish_id"), job.FailAmbiguous, 0, "invalid_publish_id"},
		"another's post":   {says(403, "token_not_authorized_for_specified_publish_id"), job.FailAmbiguous, 0, "token_not_authorized"},
		"no state":         {says(200, "ok"), job.FailAmbiguous, 0, "does not say what became of the post"},
		"no JSON":          {faultproxy.Fate{Fault: faultproxy.Refuse, Status: 200, Body: "<html>"}, job.FailAmbiguous, 0, "could not be read"},
		"a new state": {faultproxy.Fate{Fault: faultproxy.Refuse, Status: 200, Body: `{"data":{"status":"RESTING"},"error":{"code":"ok"}}`},
			job.FailAmbiguous, 0, "RESTING"},
		"a fake failure": {faultproxy.Fate{Fault: faultproxy.Refuse, Status: 500, Body: `{"data":{"status":"FAILED"},"error":{"code":"ok"}}`},
			job.FailAmbiguous, 0, "500"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tiktoktest.Options{})
			a := w.send(upload, video(w.url))
			w.plan("/status/", c.fate)
			if o := w.polls(a, job.ResultUnknown, c.kind, c.words); o.RetryAfter != c.wait {
				t.Errorf("wait %v, want %v", o.RetryAfter, c.wait)
			}
			w.polls(a, job.ResultSucceeded, 0, "posted")
		})
	}
	w := newWorld(t, tiktoktest.Options{})
	o := w.c.Poll(context.Background(), w.opening(pull, video(w.url)), "")
	is(t, o, job.ResultUnknown, job.FailAmbiguous, "not readable")
}

// Ids come as strings or as numbers, or not at all.
func TestPublicID(t *testing.T) {
	for body, want := range map[string]string{
		`["7123456789012345678"]`: "7123456789012345678", `[7123456789012345678]`: "7123456789012345678",
		`[]`: "", `null`: "", `[""]`: "", `["x"]`: "", `[{}]`: "", `[-1]`: "",
	} {
		w := newWorld(t, tiktoktest.Options{})
		a := w.send(upload, video(w.url))
		w.plan("/status/", faultproxy.Fate{
			Fault: faultproxy.Refuse, Status: 200,
			Body: `{"data":{"status":"PUBLISH_COMPLETE","publicaly_available_post_id":` + body + `},"error":{"code":"ok"}}`, //nolint:misspell // TikTok's spelling
		})
		if o := w.polls(a, job.ResultSucceeded, 0, "posted"); o.ExternalID != want {
			t.Errorf("%s: id %q", body, o.ExternalID)
		}
	}
}

func attemptOf(n int, o connector.Opening, handle string, result job.Result) job.Attempt {
	return job.Attempt{
		Number: n, Round: 1, Frozen: o.Prepared.Frozen, Handle: handle, Result: result,
		ArmedAt: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC),
	}
}

// An attempt without a name: of an upload it proves that there is no post, of a file
// that TikTok fetches nothing.
func TestObserve(t *testing.T) {
	w := newWorld(t, tiktoktest.Options{Process: time.Minute})
	up, fetch := w.opening(upload, video(w.url)), w.opening(pull, video(w.url))
	bad := up
	bad.Prepared.Frozen = []byte("x")
	for name, c := range map[string]struct {
		attempts []job.Attempt
		want     job.Verdict
		words    string
	}{
		"upload":            {[]job.Attempt{attemptOf(1, up, "", job.ResultUnknown)}, job.SawAbsent, "no byte of the video was sent"},
		"upload, in flight": {[]job.Attempt{attemptOf(1, up, "", 0)}, job.SawAbsent, "no byte of the video was sent"},
		"pull":              {[]job.Attempt{attemptOf(1, fetch, "", job.ResultUnknown)}, job.SawInconclusive, "did not name the post"},
		"pull after an upload": {[]job.Attempt{
			attemptOf(1, up, "", job.ResultAbsent), attemptOf(2, fetch, "", job.ResultUnknown),
		}, job.SawInconclusive, "did not name the post"},
		"upload after a pull": {[]job.Attempt{
			attemptOf(1, fetch, "", job.ResultUnknown), attemptOf(2, up, "", job.ResultUnknown),
		}, job.SawInconclusive, "did not name the post"},
		"upload after a refused pull": {[]job.Attempt{
			attemptOf(1, fetch, "", job.ResultRejected), attemptOf(2, up, "", job.ResultUnknown),
		}, job.SawAbsent, "no byte of the video was sent"},
		"an earlier one has a name": {[]job.Attempt{
			attemptOf(1, up, "v_pub~1", job.ResultUnknown), attemptOf(2, up, "", job.ResultUnknown),
		}, job.SawHandle, "attempt 1 has a name"},
		"a name of a post that failed": {[]job.Attempt{
			attemptOf(1, up, "v_pub~1", job.ResultRejected), attemptOf(2, up, "", job.ResultUnknown),
		}, job.SawAbsent, "no byte"},
		"not readable": {[]job.Attempt{attemptOf(1, bad, "", job.ResultUnknown)}, job.SawInconclusive, "not readable"},
		"no attempts":  {nil, job.SawInconclusive, "not known"},
	} {
		t.Run(name, func(t *testing.T) {
			l := connector.Look{Attempts: c.attempts, Fence: w.Now().Add(time.Minute)}
			if len(c.attempts) > 0 {
				l.First = c.attempts[0]
			}
			saw := w.c.Observe(context.Background(), up, l)
			if saw.Verdict != c.want || !strings.Contains(saw.Detail, c.words) || (saw.Handle != "") != (c.want == job.SawHandle) {
				t.Errorf("%+v, want %s with %q", saw, c.want, c.words)
			}
		})
	}
}

// A listed video with the text is shown to a person; none says nothing.
func TestObserveList(t *testing.T) {
	w := newWorld(t, tiktoktest.Options{Process: time.Minute})
	w.Upload(text) // long before
	w.pass(time.Hour)
	o := w.opening(pull, video(w.url))
	a := attemptOf(1, o, "", job.ResultUnknown)
	a.ArmedAt = w.Now()
	taken := map[string]bool{}
	look := func(want job.Verdict, words string) job.FailureKind {
		t.Helper()
		saw := w.c.Observe(context.Background(), o, connector.Look{
			First: a, Attempts: []job.Attempt{a}, Fence: w.Now(),
			Taken: func(context.Context, []string) (map[string]bool, error) { return taken, nil },
		})
		if saw.Verdict != want || !strings.Contains(saw.Detail, words) || saw.ExternalID != "" {
			t.Errorf("%+v, want %s with %q", saw, want, words)
		}
		return saw.Kind
	}
	look(job.SawInconclusive, "none of the account's public videos is it yet")
	w.pass(time.Minute)
	id := w.Upload("  Grüße aus Köln \n#reise")
	w.Upload("another")
	look(job.SawCandidates, "TikTok lists what could be it: "+id)
	taken[id] = true
	look(job.SawInconclusive, "none of the account's public videos")
	// Posts need no right to read the list; they do need a token.
	w.Set(func(o *tiktoktest.Options) { o.NoScopes = true })
	if kind := look(job.SawInconclusive, "Reconnect this TikTok account"); kind != 0 {
		t.Errorf("without the right to read: %s", kind)
	}
	w.Set(func(o *tiktoktest.Options) { o.Token = "another" })
	if kind := look(job.SawInconclusive, "Reconnect this TikTok account"); kind != job.FailAuth {
		t.Errorf("without a token: %s", kind)
	}
}

// TestObserveCutTexts: TikTok returns the beginning of a long text, and a post without
// a text does not match a post that has one.
func TestObserveCutTexts(t *testing.T) {
	long := strings.Repeat("Grüße aus Köln, wo es 東京 nicht gibt. ", 20)
	for name, c := range map[string]struct {
		ours, theirs string
		want         job.Verdict
	}{
		"long":              {long, long, job.SawCandidates},
		"another long one":  {long, "A" + long, job.SawInconclusive},
		"no text":           {"", "", job.SawCandidates},
		"no text, and some": {"", "Grüße", job.SawInconclusive},
		"some, and no text": {"Grüße", "", job.SawInconclusive},
		"a short beginning": {long, "Grüße aus Köln", job.SawInconclusive},
	} {
		w := newWorld(t, tiktoktest.Options{})
		post := video(w.url)
		post.Text = c.ours
		o := w.opening(pull, post)
		a := attemptOf(1, o, "", job.ResultUnknown)
		a.ArmedAt = w.Now()
		w.Upload(c.theirs)
		saw := w.c.Observe(context.Background(), o, connector.Look{First: a, Attempts: []job.Attempt{a}, Fence: w.Now()})
		if saw.Verdict != c.want {
			t.Errorf("%s: %s (%s), want %s", name, saw.Verdict, saw.Detail, c.want)
		}
	}
}

// TestTest: the test of a connection returns whose account it is, as far as TikTok
// discloses it.
func TestTest(t *testing.T) {
	w := newWorld(t, tiktoktest.Options{})
	o := w.opening(upload, video(w.url))
	got, err := w.c.Test(t.Context(), o)
	if err != nil || got.Identity != "_000abc" || got.Detail != "may post as @ada (Ada L.)" {
		t.Errorf("%+v, %v", got, err)
	}
	w.Set(func(o *tiktoktest.Options) { o.NoScopes = true })
	if got, err = w.c.Test(t.Context(), o); err != nil || got.Identity != "" || !strings.Contains(got.Detail, "does not tell the account's id") {
		t.Errorf("%+v, %v", got, err)
	}
	w.Set(func(o *tiktoktest.Options) { o.Token = "another" })
	_, err = w.c.Test(t.Context(), o)
	refused(t, err, job.FailAuth, "Reconnect this TikTok account")
	if w.Begun() != 0 {
		t.Error("a test began a post")
	}
}
