package transport_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// answered is when the answers of these tests ended, by our clock.
var answered = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func header(lines ...string) http.Header {
	h := make(http.Header)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

func answerOf(status int, lines ...string) transport.Response {
	return transport.Response{Written: 10, Sent: true, Complete: true, Status: status, Header: header(lines...), At: answered}
}

// TestAsked reads waits in the forms that are in use. zero means that none is stated.
func TestAsked(t *testing.T) {
	const (
		least   = transport.MinRetryAfter
		most    = transport.MaxRetryAfter
		tenPast = "Date: Sat, 28 Nov 2026 11:00:00 GMT" // a clock that is an hour slow
	)
	epoch := func(ahead time.Duration) string { return strconv.FormatInt(answered.Add(ahead).Unix(), 10) }
	for _, c := range []struct {
		lines string
		want  time.Duration
	}{
		// RFC 9110, section 10.2.3: seconds.
		{"Retry-After: 120", 2 * time.Minute},
		{"retry-after:  7 ", 7 * time.Second},
		{"Retry-After: 007", 7 * time.Second},
		{"Retry-After: 0", least},
		{"Retry-After: 86401", most},
		{"Retry-After: 99999999999999999999", most},
		{"Retry-After: " + strings.Repeat("9", 120), most},
		// The three forms of a date, by the answer's own clock, or ours.
		{"Retry-After: Sat, 28 Nov 2026 12:02:00 GMT", 2 * time.Minute},
		{"Retry-After: Saturday, 28-Nov-26 12:02:00 GMT", 2 * time.Minute},
		{"Retry-After: Sat Nov 28 12:02:00 2026", 2 * time.Minute},
		{"Retry-After: Sat Nov  7 12:02:00 2026", least},
		{"Retry-After: Sat, 28 Nov 2026 11:59:00 GMT", least},
		{"Retry-After: Sat, 28 Nov 2026 11:02:00 GMT\n" + tenPast, 2 * time.Minute},
		{"Retry-After: Saturday, 28-Nov-26 11:02:00 GMT\n" + tenPast, 2 * time.Minute},
		{"Retry-After: Sat Nov 28 11:02:00 2026\n" + tenPast, 2 * time.Minute},
		{"Retry-After: Sat, 28 Nov 2026 13:02:00 GMT\nDate: Sat, 28 Nov 2026 13:00:00 GMT", 2 * time.Minute},
		{"Retry-After: Sat, 28 Nov 2026 12:02:00 GMT\nDate: yesterday", 2 * time.Minute},
		{"Retry-After: 120\n" + tenPast, 2 * time.Minute},
		{"Retry-After: Thu, 01 Jan 1970 00:00:00 GMT", least},
		{"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT", most},
		// Fractions and units.
		{"Retry-After: 1.5", 1500 * time.Millisecond},
		{"Retry-After: 2.0", 2 * time.Second},
		{"Retry-After: 0.25", least},
		{"Retry-After: .5", least},
		{"Retry-After: 30s", 30 * time.Second},
		{"Retry-After: 1m30s", 90 * time.Second},
		{"Retry-After: 30 seconds", 30 * time.Second},
		{"Retry-After: 2 minutes", 2 * time.Minute},
		{"Retry-After: 2500ms", 2500 * time.Millisecond},
		{"Retry-After: PT1M30S", 90 * time.Second},
		{"Retry-After: \"120\"", 2 * time.Minute},
		{"Retry-After-Ms: 2500", 2500 * time.Millisecond},
		{"Retry-After-Ms: 2500\nRetry-After: 60", 2500 * time.Millisecond},
		{"Retry-After-Ms: soon\nRetry-After: 60", time.Minute},
		// Other dates.
		{"Retry-After: Sat, 28 Nov 2026 12:02:00 UTC", 2 * time.Minute},
		{"Retry-After: Sat, 28 Nov 2026 12:02:00 Z", 2 * time.Minute},
		{"Retry-After: sat, 28 nov 2026 12:02:00 gmt", 2 * time.Minute},
		{"Retry-After: Sat, 28 Nov 2026 07:02:00 EST", 2 * time.Minute},
		{"Retry-After: Saturday, 28-Nov-26 07:02:00 EST", 2 * time.Minute},
		{"Retry-After: Sat, 28 Nov 2026 04:02:00 PST", 2 * time.Minute},
		{"Retry-After: Sat, 28 Nov 2026 13:02:00 CET", 2 * time.Minute},
		{"Retry-After: Sat, 28 Nov 2026 12:02:00 +0000", 2 * time.Minute},
		{"Retry-After: Sat, 28 Nov 2026 13:02:00 +0100", 2 * time.Minute},
		{"Retry-After: Sat, 28 Nov 2026 12:02:00", 2 * time.Minute},
		{"Retry-After: Sat, 28-Nov-2026 12:02:00 GMT", 2 * time.Minute},
		{"Retry-After: 28 Nov 2026 12:02:00 GMT", 2 * time.Minute},
		{"Retry-After: Sat Nov 28 12:02:00 UTC 2026", 2 * time.Minute},
		{"Retry-After: Sat Nov 28 2026 12:02:00 GMT+0000 (Coordinated Universal Time)", 2 * time.Minute},
		{"Retry-After: Sat, 28 Nov 2026 12:02:00.500 GMT", 2*time.Minute + 500*time.Millisecond},
		{"Retry-After: 2026-11-28T12:02:00Z", 2 * time.Minute},
		{"Retry-After: 2026-11-28T12:02:00.250Z", 2*time.Minute + 250*time.Millisecond},
		{"Retry-After: 2026-11-28T13:02:00+01:00", 2 * time.Minute},
		{"Retry-After: 2026-11-28T13:02:00+0100", 2 * time.Minute},
		{"Retry-After: 2026-11-28T12:02:00", 2 * time.Minute},
		{"Retry-After: 2026-11-28 12:02:00", 2 * time.Minute},
		{"Retry-After: 2026-11-28 12:02:00 UTC", 2 * time.Minute},
		{"Retry-After: 20261128T120200Z", 2 * time.Minute},
		{"Retry-After: " + epoch(2*time.Minute), 2 * time.Minute},
		{"Retry-After: " + epoch(2*time.Minute) + "000", 2 * time.Minute},
		{"Retry-After: " + epoch(-time.Hour), least},
		{"Retry-After: " + epoch(2*time.Minute) + "000000", 2 * time.Minute},
		{"Retry-After: " + epoch(2*time.Minute) + "000000000", 2 * time.Minute},
		{"Retry-After: 999999999", most},
		{"Retry-After: 1000000000000", most},
		{"Retry-After: 2147483647", most},
		{"Retry-After: 9223372036854775807", most},
		{"Retry-After: Sat, 28 Nov 2026 12:02:00 +00:00", 2 * time.Minute},
		{"Retry-After: Sat, 28 Nov 2026 13:02:00 GMT+1", 2 * time.Minute},
		{"Retry-After: Sat, 28 Nov 2026 13:02:00 GMT+01:00", 2 * time.Minute},
		{"Retry-After: Sat, 28 Nov 2026 04:02:00 UTC-08", 2 * time.Minute},
		{"Retry-After: Saturday, 28 November 2026 12:02:00 GMT", 2 * time.Minute},
		{"Retry-After: Sat, 28 Nov 2026 12:02 GMT", 2 * time.Minute},
		{"Retry-After: Sat, 28 Nov 2026 12:01:60 GMT", 119 * time.Second},
		{"Retry-After: 2026-11-28 12:02:00 +0000 UTC", 2 * time.Minute},
		{"Retry-After: 2026-11-28T12:02Z", 2 * time.Minute},
		{"Retry-After: 2026-11-28T13:02+01:00", 2 * time.Minute},
		{`Retry-After: "Sat, 28 Nov 2026 12:02:00 GMT"`, 2 * time.Minute},
		{"Retry-After: 11/28/2026 12:02:00 PM", 0}, // or is it the 11th of the 28th month
		{"Retry-After: 60;", time.Minute},
		{"Retry-After: 60; wait a little", time.Minute},
		{"Retry-After: 2 min", 2 * time.Minute},
		{"Retry-After: 2 hrs", 2 * time.Hour},
		{"Retry-After: 1 day", most},
		{"Retry-After: 2d", most},
		{"Retry-After: PT2H", 2 * time.Hour},
		{"Retry-After: P0DT2H", 2 * time.Hour},
		{"Retry-After: P1D", most},
		{"Retry-After: P1M", 0}, // a month is no fixed time
		{"Retry-After: P", 0},
		{"Retry-After: 5 parsecs", 0},
		{"Retry-After: seconds", 0},
		{"Retry-After: 60 60", 0},
		// Two values: the longer one.
		{"Retry-After: 10\nRetry-After: 60", time.Minute},
		{"Retry-After: 60, 10", time.Minute},
		{"Retry-After: 10, Sat, 28 Nov 2026 12:02:00 GMT", 2 * time.Minute},
		{"Retry-After: Sat, 28 Nov 2026 12:02:00 GMT, 10", 2 * time.Minute},
		{"Retry-After: soon, 10", 10 * time.Second},
		// Nonsense.
		{"Retry-After: ", 0},
		{"Retry-After: soon", 0},
		{"Retry-After: -5", 0},
		{"Retry-After: +5", 0},
		{"Retry-After: NaN", 0},
		{"Retry-After: Inf", 0},
		{"Retry-After: 1e3", 0},
		{"Retry-After: 0x10", 0},
		{"Retry-After: 1_000", 0},
		{"Retry-After: 1.2.3", 0},
		{"Retry-After: .", 0},
		{"Retry-After: Sat, 31 Feb 2026 12:00:00 GMT", 0},
		{"Retry-After: 12:02", 0},
		{"Retry-After: " + strings.Repeat("1,", 5000), 0},
		{"Retry-After: " + strings.Repeat("9", 200), 0},
		// The IETF drafts.
		{"RateLimit-Reset: 50", 50 * time.Second},
		{"RateLimit-Limit: 10\nRateLimit-Remaining: 0\nRateLimit-Reset: 50", 50 * time.Second},
		{"RateLimit-Remaining: 3\nRateLimit-Reset: 50", 0},
		{"RateLimit: limit=10, remaining=0, reset=50", 50 * time.Second},
		{"RateLimit: limit=10, remaining=4, reset=50", 0},
		{`RateLimit: "default";r=0;t=30`, 30 * time.Second},
		{`RateLimit: "default";r=12;t=30`, 0},
		{`RateLimit: "burst";r=0;t=5, "daily";r=0;t=3600`, time.Hour},
		{`RateLimit: "burst";r=0;t=5, "daily";r=7;t=3600`, 5 * time.Second},
		{`RateLimit-Policy: "default";q=100;w=10`, 0},
		// Their forerunners: seconds to come, or since 1970, or milliseconds, or a date.
		{"X-RateLimit-Reset: 50", 50 * time.Second},
		{"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: " + epoch(50*time.Second), 50 * time.Second},
		{"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: " + epoch(50*time.Second) + "000", 50 * time.Second},
		{"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: " + epoch(50*time.Second) + ".5", 50*time.Second + 500*time.Millisecond},
		{"X-RateLimit-Remaining: 42\nX-RateLimit-Reset: " + epoch(50*time.Second), 0},
		{"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 2026-11-28T12:02:00.000Z", 2 * time.Minute},
		{"X-RateLimit-Reset-After: 1.5", 1500 * time.Millisecond},
		{"X-Rate-Limit-Remaining: 0\nX-Rate-Limit-Reset: " + epoch(50*time.Second), 50 * time.Second},
		{"X-RateLimit-Reset: " + epoch(50*time.Second-time.Hour) + "\n" + tenPast, 50 * time.Second},
		{"X-RateLimit-Remaining: 0, 10\nX-RateLimit-Reset: 1, 3600", least},
		{"X-RateLimit-Reset: 0", least},
		{"X-RateLimit-Reset: never", 0},
		// Names of one limit among several, and of what else is in use.
		{"x-ratelimit-remaining-requests: 0\nx-ratelimit-remaining-tokens: 149984\nx-ratelimit-reset-requests: 6m0s\nx-ratelimit-reset-tokens: 1h0m0s", 6 * time.Minute},
		{"x-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 2m59.5s", 3*time.Minute - 500*time.Millisecond},
		{"anthropic-ratelimit-requests-remaining: 0\nanthropic-ratelimit-requests-reset: 2026-11-28T12:02:00Z", 2 * time.Minute},
		{"X-RateLimit-Requests-Remaining: 0\nX-RateLimit-Requests-Reset: " + epoch(50*time.Second) + "000", 50 * time.Second},
		{"X-Sentry-Rate-Limit-Remaining: 0\nX-Sentry-Rate-Limit-Reset: " + epoch(50*time.Second), 50 * time.Second},
		{"RateLimit-Remaining: 0\nRateLimit-ResetTime: Sat, 28 Nov 2026 12:02:00 GMT", 2 * time.Minute},
		{"RateLimit-Remaining: 0;w=21600\nRateLimit-Reset: 50", 50 * time.Second},
		{"RateLimit-Remaining: 76;w=21600\nRateLimit-Reset: 50", 0},
		{"X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 2026-11-28T12:02Z", 2 * time.Minute},
		{"X-RateLimit-Remaining: 0\nX-RateLimit-Reset-Ms: 50000", 50 * time.Second},
		{"X-RateLimit-Reset: Sat Nov 28 2026 13:02:00 GMT+0100 (Central European Standard Time)", 2 * time.Minute},
		{"X-RateLimit-Retry-After: 50", 50 * time.Second},
		{"RateLimit-Retry-After: 50", 50 * time.Second},
		{"X-RateLimit-Remaining: 3\nX-RateLimit-Retry-After: 50", 0},
		{"X-Retry-After: 50", 50 * time.Second},
		{"Retry-After: 5\nX-Retry-After: 50", 5 * time.Second},
		{"X-Ms-Retry-After-Ms: 2500", 2500 * time.Millisecond},
		{"X-RateLimit-Limit: 50", 0},
		{"X-RateLimit-Policy: 50", 0},
		{"RateLimit: remaining=0, limit=10, reset=50", 50 * time.Second},
		{"RateLimit: remaining=4, reset=50, limit=10", 0},
		{"RateLimit: limit=10\nRateLimit: remaining=4\nRateLimit: reset=50", 0},
		{"RateLimit: limit=10, remaining=0, reset=5, limit=100, remaining=9, reset=50", 5 * time.Second},
		{`RateLimit: "a,b;c"; r=0; t=50; pk=:cGs=:`, 50 * time.Second},
		{`RateLimit: default;r=0;t=50`, 50 * time.Second},
		// Both: Retry-After, unless it names no time to come.
		{"Retry-After: 5\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 50", 5 * time.Second},
		{"Retry-After: 0\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 50", 50 * time.Second},
		{"Retry-After: soon\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 50", 50 * time.Second},
	} {
		got, stated := answerOf(429, strings.Split(c.lines, "\n")...).Asked()
		if stated != (c.want != 0) || (got-c.want).Abs() > time.Millisecond {
			t.Errorf("%q: %v, %v, want %v", c.lines, got, stated, c.want)
		}
	}
	// Without 429, a reset counts only if nothing remains.
	for _, lines := range []string{"X-RateLimit-Reset: 50", "RateLimit-Reset: 50", `RateLimit: "default";t=30`} {
		if _, stated := answerOf(403, lines).Asked(); stated {
			t.Errorf("403, %q", lines)
		}
	}
}

// TestDocumentedWaits reads the table of docs/statuses.md and asks for each of its waits.
func TestDocumentedWaits(t *testing.T) {
	page, err := os.ReadFile("../../../docs/statuses.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "| The answer has | It asks for |\n|---|---|\n")
	if !found {
		t.Fatal("docs/statuses.md has no table of waits")
	}
	read := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, " | ")
		if len(cells) != 2 {
			break
		}
		lines, want := strings.Trim(strings.TrimPrefix(cells[0], "| "), "`"), strings.Trim(cells[1], " |\n")
		wait, stated := answerOf(429, lines, "Date: Sat, 28 Nov 2026 12:00:00 GMT").Asked()
		if got := wait.String(); got != want && (stated || want != "nothing") {
			t.Errorf("docs/statuses.md: %s asks for %s, and is read as %s", lines, want, got)
		}
		read++
	}
	if read < 20 {
		t.Errorf("only %d rows were read", read)
	}
}

// TestRefusalsForNow checks which refusals are worth another attempt, with what an answer says
// of it, and which ones stay unknown whatever it says.
func TestRefusalsForNow(t *testing.T) {
	const spent = "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 90"
	for _, c := range []struct {
		status int
		lines  string
		keyed  bool
		result job.Result
		kind   job.FailureKind
		wait   time.Duration
	}{
		{425, "", false, job.ResultRejected, job.FailTransient, 0},
		{425, "Retry-After: 3", true, job.ResultRejected, job.FailTransient, 3 * time.Second},
		{403, "", false, job.ResultRejected, job.FailPermanent, 0},
		{403, "Retry-After: 3", false, job.ResultRejected, job.FailTransient, 3 * time.Second},
		{403, "Retry-After: 0", true, job.ResultRejected, job.FailTransient, time.Second},
		{403, "Retry-After: soon", false, job.ResultRejected, job.FailPermanent, 0},
		{403, spent, false, job.ResultRejected, job.FailRateLimited, 90 * time.Second},
		{403, spent + "\nRetry-After: 60", false, job.ResultRejected, job.FailRateLimited, time.Minute},
		{403, "X-RateLimit-Remaining: 7\nX-RateLimit-Reset: 90", false, job.ResultRejected, job.FailPermanent, 0},
		{404, "Retry-After: 3", false, job.ResultRejected, job.FailTransient, 3 * time.Second},
		{404, spent, false, job.ResultRejected, job.FailTransient, 90 * time.Second},
		{403, "Retry-After: 0\n" + spent, false, job.ResultRejected, job.FailRateLimited, 90 * time.Second},
		{429, "Retry-After: 0\n" + spent, true, job.ResultRejected, job.FailRateLimited, 90 * time.Second},
		{429, "Retry-After: Sat, 28 Nov 2026 11:00:00 GMT\n" + spent, false, job.ResultRejected, job.FailRateLimited, 90 * time.Second},
		{503, "Retry-After: 0\n" + spent, true, job.ResultUnknown, job.FailAmbiguous, 90 * time.Second},
		{422, spent, true, job.ResultUnknown, job.FailAmbiguous, 90 * time.Second},
		{422, spent, false, job.ResultRejected, job.FailPermanent, 0},
		{409, "Retry-After: 3", false, job.ResultRejected, job.FailTransient, 3 * time.Second},
		{409, "Retry-After: 3", true, job.ResultUnknown, job.FailAmbiguous, 3 * time.Second},
		{409, spent, true, job.ResultUnknown, job.FailAmbiguous, 90 * time.Second},
		{422, "Retry-After: 3", true, job.ResultUnknown, job.FailAmbiguous, 3 * time.Second},
		{422, "Retry-After: 3", false, job.ResultRejected, job.FailTransient, 3 * time.Second},
		{423, "Retry-After: 3", true, job.ResultRejected, job.FailTransient, 3 * time.Second},
		{423, spent, false, job.ResultRejected, job.FailTransient, 90 * time.Second},
		{401, "Retry-After: 3", false, job.ResultRejected, job.FailTransient, 3 * time.Second},
		{413, "Retry-After: 3", false, job.ResultRejected, job.FailTransient, 3 * time.Second},
		{400, spent, false, job.ResultRejected, job.FailPermanent, 0},
		{410, "Retry-After: 3", false, job.ResultRejected, job.FailPermanent, 0},
		{429, "", false, job.ResultRejected, job.FailRateLimited, 30 * time.Second},
		{429, "Retry-After: 0", true, job.ResultRejected, job.FailRateLimited, time.Second},
		{429, "X-RateLimit-Remaining: 5\nX-RateLimit-Reset: 90", false, job.ResultRejected, job.FailRateLimited, 30 * time.Second},
		{408, "Retry-After: 3", true, job.ResultUnknown, job.FailAmbiguous, 3 * time.Second},
		{503, "Retry-After: 3", true, job.ResultUnknown, job.FailAmbiguous, 3 * time.Second},
		{503, "Retry-After: 3", false, job.ResultUnknown, job.FailAmbiguous, 3 * time.Second},
		{503, spent, false, job.ResultUnknown, job.FailAmbiguous, 90 * time.Second},
		{500, "RateLimit-Reset: 90", true, job.ResultUnknown, job.FailAmbiguous, 0},
		{307, "Retry-After: 3", false, job.ResultRejected, job.FailPermanent, 0},
		{200, "Retry-After: 3", false, job.ResultSucceeded, 0, 0},
	} {
		a := answerOf(c.status, strings.Split(c.lines, "\n")...)
		o := transport.ClassifyNamed(a, "the peer", nil, c.keyed)
		name := fmt.Sprintf("%d %q, keyed %v", c.status, c.lines, c.keyed)
		if o.Result != c.result || o.Kind != c.kind || o.RetryAfter != c.wait {
			t.Errorf("%s: %s %s after %v, want %s %s after %v", name, o.Result, o.Kind, o.RetryAfter, c.result, c.kind, c.wait)
		}
		said := strings.Contains(c.lines, "Retry-After: 3") || c.wait == 90*time.Second
		if says := strings.Contains(o.Message, "asks to wait until 2026-11-28T12:0"); c.wait > 0 && said != says && c.wait != time.Second && c.wait != time.Minute {
			t.Errorf("%s: %q", name, o.Message)
		}
	}
}

// FuzzAsked holds that no answer asks for less than a second or more than a day, in any form.
func FuzzAsked(f *testing.F) {
	f.Add("Retry-After", "120", "")
	f.Add("Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT", "Fri, 31 Dec 1999 23:59:00 GMT")
	f.Add("X-RateLimit-Reset", "1764331200.5", "")
	f.Add("RateLimit", `"a";r=0;t=9, limit=1, remaining=0, reset=-4`, "x")
	f.Add("Retry-After-Ms", "99999999999999999999", "")
	f.Fuzz(func(t *testing.T, name, value, date string) {
		asked(t, name, value, date)
	})
}

func asked(t *testing.T, name, value, date string) (stated bool) {
	t.Helper()
	for _, status := range []int{429, 403, 503} {
		a := transport.Response{Written: 1, Sent: true, Complete: true, Status: status, Header: http.Header{}, At: answered}
		a.Header.Add(name, value)
		a.Header.Add("Date", date)
		wait, said := a.Asked()
		stated = stated || said
		if said != (wait != 0) || said && (wait < transport.MinRetryAfter || wait > transport.MaxRetryAfter) {
			t.Fatalf("%d %s: %q by %q: %v, %v", status, name, value, date, wait, said)
		}
		for _, keyed := range []bool{true, false} {
			if o := transport.ClassifyNamed(a, "the peer", nil, keyed); o.RetryAfter < 0 || o.RetryAfter > transport.MaxRetryAfter {
				t.Fatalf("%d %s: %q by %q: waits %v", status, name, value, date, o.RetryAfter)
			}
		}
	}
	return stated
}

// TestWaitsAtRandom puts parts of waits together at random. It is the fuzz test for every run.
func TestWaitsAtRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	parts := []string{
		"0", "1", "9", "99999999999", "1764331200", "1764331200000", ".", "-", "+", ",", ";", "=", " ", `"`, "e", "Inf", "NaN", "GMT", "UTC", "EST", "Z", "T",
		"Sat", "Saturday", "28", "Nov", "2026", "12:00:00", "24:61:61", "+0100", "-9999", "(x)", "r=0", "t=30", "limit=1", "remaining=0", "reset=7", "PT", "s", "ms",
		"Sat, 28 Nov 2026 12:02:00 GMT", "2026-11-28T12:02:00Z", "\x00", "\u0661", "é",
	}
	names := []string{"Retry-After", "Retry-After-Ms", "RateLimit", "RateLimit-Reset", "RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Reset-After", "X-Rate-Limit-Reset"}
	text := func() (out string) {
		for range 1 + r.IntN(8) {
			out += parts[r.IntN(len(parts))]
		}
		return out
	}
	read := 0
	for range 4_000 {
		if asked(t, names[r.IntN(len(names))], text(), text()) {
			read++
		}
	}
	if read < 100 {
		t.Errorf("only %d of them were read as a wait", read)
	}
}
