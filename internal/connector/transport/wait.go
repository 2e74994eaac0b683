package transport

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Rules of this file: what a target asks for is bounded on both sides, whatever it writes. A
// time is compared with the answer's own Date, so that a clock of the target's that is wrong
// does not matter, and with ours only if the answer has none. Of several values the longest
// counts. What cannot be read asks for nothing; our own waits apply in any case.

// Bounds of what a target may ask for.
const (
	// MinRetryAfter and MaxRetryAfter clamp a stated wait.
	MinRetryAfter = time.Second
	MaxRetryAfter = 24 * time.Hour
	// DefaultRetryAfter is for a refusal that limits a rate and states no wait.
	DefaultRetryAfter = 30 * time.Second
	// maxWaitValues bounds how many values of a field are read, maxWaitValue one's length.
	maxWaitValues = 16
	maxWaitValue  = 128
)

// Asked returns how long the answer asks to wait, clamped. stated reports whether it does: by
// Retry-After (RFC 9110, section 10.2.3), by Retry-After-Ms, or, if it refuses for a limit that
// is used up, by the reset of that limit (RateLimit of the IETF drafts, and its forerunners).
// Retry-After comes first, as in the drafts, unless it names no time to come.
func (a Response) Asked() (wait time.Duration, stated bool) {
	return a.asked(a.Status == http.StatusTooManyRequests)
}

// asked is Asked. limited reports whether the answer is known to refuse for a limit, so that a
// reset counts without a statement that the limit is used up.
func (a Response) asked(limited bool) (wait time.Duration, stated bool) {
	now := clockOf(a.Header, a.At)
	ahead, stated := retryAfter(a.Header, now)
	if ahead <= 0 {
		if left, said := limitReset(a.Header, now, limited); said {
			ahead, stated = left, true
		}
	}
	if !stated {
		return 0, false
	}
	return clamp(ahead), true
}

// RetryAfter returns how long Retry-After and Retry-After-Ms ask to wait, as Asked does. now is
// our clock.
func RetryAfter(h http.Header, now time.Time) (wait time.Duration, stated bool) {
	ahead, stated := retryAfter(h, clockOf(h, now))
	if !stated {
		return 0, false
	}
	return clamp(ahead), true
}

// Wait is how long the answer asks to wait, or otherwise if it does not say.
func (a Response) Wait(otherwise time.Duration) time.Duration {
	if wait, stated := a.Asked(); stated {
		return wait
	}
	return otherwise
}

// LimitWait is Wait for an answer that refuses for a limit, whatever its status.
func (a Response) LimitWait(otherwise time.Duration) time.Duration {
	if wait, stated := a.asked(true); stated {
		return wait
	}
	return otherwise
}

// LimitSpent reports whether the answer states that a rate limit is used up.
func (a Response) LimitSpent() bool {
	_, said := limitReset(a.Header, clockOf(a.Header, a.At), false)
	return said
}

func clamp(d time.Duration) time.Duration { return min(max(d, MinRetryAfter), MaxRetryAfter) }

// clockOf returns the target's time at the answer, or ours if it does not state it.
func clockOf(h http.Header, ours time.Time) time.Time {
	if at, ok := parseDate(strings.TrimSpace(h.Get("Date"))); ok {
		return at
	}
	return ours
}

// retryAfter returns the longest wait that is stated. It may be negative.
func retryAfter(h http.Header, now time.Time) (ahead time.Duration, stated bool) {
	for _, value := range valuesOf(h, "Retry-After-Ms") {
		if n, ok := number(value); ok {
			longest(&ahead, &stated, seconds(n/1e3))
		}
	}
	if stated {
		return ahead, true
	}
	for _, value := range valuesOf(h, "Retry-After") {
		if d, ok := waitOf(value, now); ok {
			longest(&ahead, &stated, d)
		}
	}
	return ahead, stated
}

func longest(d *time.Duration, stated *bool, more time.Duration) {
	if !*stated || more > *d {
		*d, *stated = more, true
	}
}

// limitNames begin the names of the headers about rate limits. The IETF drafts have RateLimit
// (draft-ietf-httpapi-ratelimit-headers); the others came before it.
var limitNames = []string{"Ratelimit", "X-Ratelimit", "X-Rate-Limit"}

// limitReset returns how long it is until every limit that is used up begins again. A limit
// counts if nothing remains of it. limited: also if the answer does not say what remains.
func limitReset(h http.Header, now time.Time, limited bool) (ahead time.Duration, stated bool) {
	for _, name := range limitNames {
		remaining := valuesOf(h, name+"-Remaining")
		for _, suffix := range []string{"-Reset", "-Reset-After"} {
			resets := valuesOf(h, name+suffix)
			for i, value := range resets {
				left := remaining
				if len(remaining) == len(resets) {
					left = remaining[i : i+1]
				}
				if d, ok := waitOf(value, now); ok && isSpent(left, limited) {
					longest(&ahead, &stated, d)
				}
			}
		}
		for _, value := range valuesOf(h, name) {
			if d, ok := limitItem(value, now, limited); ok {
				longest(&ahead, &stated, d)
			}
		}
	}
	return ahead, stated
}

// isSpent reports whether a limit is used up, by what remains of it.
func isSpent(remaining []string, unknown bool) bool {
	for _, value := range remaining {
		if n, ok := number(value); ok {
			return n <= 0
		}
	}
	return unknown
}

// limitItem reads one item of RateLimit: `"default";r=0;t=30` of draft 08 and later, or
// "limit=10; remaining=0; reset=30" of those before. valuesOf has cut the commas of draft 03.
func limitItem(item string, now time.Time, limited bool) (ahead time.Duration, ok bool) {
	spent := limited
	for part := range strings.SplitSeq(item, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "r", "remaining":
			if n, is := number(strings.TrimSpace(value)); is {
				spent = n <= 0
			}
		case "t", "reset":
			ahead, ok = waitOf(strings.TrimSpace(value), now)
		}
	}
	return ahead, ok && spent
}

// valuesOf returns the values of a header: of each line, and of a line that was joined with
// commas. A date of RFC 9110 has a comma of its own, behind its day of the week, and so have
// the members of RateLimit in draft 03, which belong together.
func valuesOf(h http.Header, name string) (out []string) {
	for _, line := range h.Values(name) {
		if len(line) > maxWaitValues*maxWaitValue {
			continue
		}
		parts := strings.Split(line, ",")
		for i := 0; i < len(parts) && len(out) < maxWaitValues; i++ {
			part := strings.TrimSpace(parts[i])
			switch {
			case i+1 < len(parts) && isWeekday(part):
				i++
				part += ", " + strings.TrimSpace(parts[i])
			case strings.HasPrefix(strings.ToLower(part), "limit="):
				for ; i+1 < len(parts); i++ {
					part += ";" + parts[i+1]
				}
			}
			if part = strings.Trim(part, `"`); part != "" && len(part) <= maxWaitValue {
				out = append(out, part)
			}
		}
	}
	return out
}

func isWeekday(word string) bool {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if name := day.String(); strings.EqualFold(word, name) || strings.EqualFold(word, name[:3]) {
			return true
		}
	}
	return false
}

// Numbers from here on are seconds, or milliseconds, since 1970: no target asks to wait for
// 15 years.
const (
	sinceEpoch   = 5e8
	sinceEpochMs = 5e11
)

// waitOf reads a wait in any form that is in use: seconds, with or without a fraction or a
// unit; a time since 1970; a date.
func waitOf(value string, now time.Time) (ahead time.Duration, ok bool) {
	if n, is := number(value); is {
		switch {
		case n >= sinceEpochMs:
			return since(n/1e3, now), true
		case n >= sinceEpoch:
			return since(n, now), true
		default:
			return seconds(n), true
		}
	}
	if at, is := parseDate(value); is {
		return at.Sub(now), true
	}
	return withUnit(value)
}

// since returns how far a time since 1970 is ahead of now.
func since(epoch float64, now time.Time) time.Duration {
	return seconds(epoch - float64(now.UnixNano())/1e9)
}

// seconds converts seconds without an overflow; its result may exceed the bounds on both sides.
func seconds(n float64) time.Duration {
	far := (2 * MaxRetryAfter).Seconds()
	return time.Duration(min(max(n, -far), far) * float64(time.Second))
}

// number reads digits with or without a fraction. A sign, an exponent and the names of
// floating-point numbers are none.
func number(value string) (float64, bool) {
	for _, r := range value {
		if (r < '0' || r > '9') && r != '.' {
			return 0, false
		}
	}
	n, err := strconv.ParseFloat(value, 64)
	return n, err == nil
}

// withUnit reads "30s", "1m30s", "250ms", "30 seconds" and "PT1M30S".
func withUnit(value string) (time.Duration, bool) {
	text := strings.TrimPrefix(strings.ToLower(strings.ReplaceAll(value, " ", "")), "pt")
	for long, short := range map[string]string{"seconds": "s", "second": "s", "secs": "s", "sec": "s", "minutes": "m", "minute": "m", "hours": "h", "hour": "h"} {
		if head, found := strings.CutSuffix(text, long); found {
			text = head + short
			break
		}
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}

// zones are the names of RFC 5322 and those in use, with their offset. Go's time package knows
// no offset of a name that is not the machine's own.
var zones = map[string]string{
	"GMT": "+0000", "UTC": "+0000", "UT": "+0000", "Z": "+0000", "EST": "-0500", "EDT": "-0400", "CST": "-0600", "CDT": "-0500", "MST": "-0700",
	"MDT": "-0600", "PST": "-0800", "PDT": "-0700", "CET": "+0100", "CEST": "+0200", "MSK": "+0300", "JST": "+0900", "BST": "+0100",
}

// dateLayouts are the three forms of RFC 9110, section 5.6.7, and those that programs write in
// their place. Zones are offsets by then.
var dateLayouts = []string{
	"Mon, 2 Jan 2006 15:04:05 -0700", "Monday, 2-Jan-06 15:04:05 -0700", "Mon Jan _2 15:04:05 2006",
	"Mon, 2 Jan 06 15:04:05 -0700", "Mon, 2-Jan-2006 15:04:05 -0700", "Mon, 2-Jan-06 15:04:05 -0700", "Monday, 2 Jan 2006 15:04:05 -0700",
	"2 Jan 2006 15:04:05 -0700", "Mon Jan _2 15:04:05 -0700 2006", "Mon Jan _2 2006 15:04:05 -0700", "Mon, 2 Jan 2006 15:04:05",
	"2006-01-02T15:04:05-0700", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05",
	"20060102T150405-0700",
}

// parseDate reads a date. One without a zone is in UTC.
func parseDate(text string) (time.Time, bool) {
	if len(text) < len("20060102T150405") || len(text) > maxWaitValue {
		return time.Time{}, false
	}
	if at, err := time.Parse(http.TimeFormat, text); err == nil {
		return at, true // the usual form
	}
	words := strings.Fields(text)
	for i, word := range words {
		if strings.HasPrefix(word, "(") { // "(Coordinated Universal Time)", as JavaScript writes it
			words = words[:i]
			break
		}
		upper := strings.ToUpper(word)
		if offset, known := zones[upper]; known {
			words[i] = offset
		} else if rest, found := strings.CutPrefix(upper, "GMT"); found || strings.HasPrefix(upper, "UTC+") || strings.HasPrefix(upper, "UTC-") {
			words[i] = strings.TrimPrefix(strings.ReplaceAll(rest, ":", ""), "UTC")
		}
	}
	text = strings.Join(words, " ")
	if strings.HasSuffix(text, "Z") && !strings.Contains(text, "-") { // the basic form of ISO 8601
		text = strings.TrimSuffix(text, "Z") + "+0000"
	}
	for _, layout := range dateLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
