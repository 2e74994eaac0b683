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

// waitNames are the headers that state a wait, in their order: the first one that can be read
// counts. Azure has the two of milliseconds.
var waitNames = []struct {
	name  string
	unit  time.Duration // of a number
	dates bool          // whether it may have a time
}{
	{"Retry-After-Ms", time.Millisecond, false}, {"X-Ms-Retry-After-Ms", time.Millisecond, false}, {"Retry-After", time.Second, true}, {"X-Retry-After", time.Second, true},
}

// retryAfter returns the longest wait that is stated. It may be negative.
func retryAfter(h http.Header, now time.Time) (ahead time.Duration, stated bool) {
	for _, header := range waitNames {
		for _, value := range valuesOf(h, header.name) {
			if header.dates {
				if d, ok := waitOf(value, now); ok {
					longest(&ahead, &stated, d)
				}
			} else if n, ok := number(value); ok {
				longest(&ahead, &stated, seconds(n*header.unit.Seconds()))
			}
		}
		if stated {
			return ahead, true
		}
	}
	return 0, false
}

func longest(d *time.Duration, stated *bool, more time.Duration) {
	if !*stated || more > *d {
		*d, *stated = more, true
	}
}

// limitReset returns how long it is until every limit that is used up begins again. A limit
// counts if nothing remains of it. limited: also if the answer does not say what remains.
//
// The IETF drafts have RateLimit and RateLimit-Reset (draft-ietf-httpapi-ratelimit-headers).
// What came before them, and beside them, has the words "rate limit" and "reset" in the name,
// and often that of one limit: X-RateLimit-Reset, X-Rate-Limit-Reset-After,
// x-ratelimit-reset-requests, anthropic-ratelimit-tokens-reset. What remains has the same name
// with "remaining" for "reset".
func limitReset(h http.Header, now time.Time, limited bool) (ahead time.Duration, stated bool) {
	for name := range h {
		lower := strings.ToLower(name)
		switch rest, found := cutLimit(lower); {
		case !found:
		case rest == "":
			for _, item := range limitItems(valuesOf(h, name)) {
				if d, ok := limitItem(item, now, limited); ok {
					longest(&ahead, &stated, d)
				}
			}
		default:
			remaining, unit, is := resetOf(lower)
			if !is {
				continue
			}
			left, resets := valuesOf(h, remaining), valuesOf(h, name)
			for i, value := range resets {
				of := left
				if len(left) == len(resets) {
					of = left[i : i+1]
				}
				if d, ok := waitIn(unit, value, now); ok && isSpent(of, limited) {
					longest(&ahead, &stated, d)
				}
			}
		}
	}
	return ahead, stated
}

// cutLimit returns what follows "ratelimit" in a header's name in small letters.
func cutLimit(lower string) (rest string, found bool) {
	for _, words := range []string{"ratelimit", "rate-limit"} {
		if _, rest, found = strings.Cut(lower, words); found {
			return rest, true
		}
	}
	return "", false
}

// resetOf returns the name of what remains of the limit whose reset a header has, and the unit
// of its numbers. false: it is the header of no reset.
func resetOf(lower string) (remaining string, unit time.Duration, is bool) {
	unit = time.Second
	if name, found := strings.CutSuffix(lower, "-ms"); found {
		lower, unit = name, time.Millisecond
	}
	if head, found := strings.CutSuffix(lower, "-retry-after"); found {
		return head + "-remaining", unit, true
	}
	head, tail, found := strings.Cut(lower, "reset")
	switch tail {
	case "-after", "-time", "time", "-at", "-in", "-date", "after":
		tail = ""
	}
	return head + "remaining" + tail, unit, found
}

// isSpent reports whether a limit is used up, by what remains of it.
func isSpent(remaining []string, unknown bool) bool {
	for _, value := range remaining {
		value, _, _ = strings.Cut(value, ";") // "0;w=21600", as in draft 03
		if n, ok := number(strings.TrimSpace(value)); ok {
			return n <= 0
		}
	}
	return unknown
}

// limitItems joins what belongs to one limit: the members of RateLimit in draft 03 to 07 are
// "limit=10, remaining=0, reset=30", in any order.
func limitItems(values []string) (items []string) {
	seen := make(map[string]bool)
	for _, value := range values {
		name, _, _ := strings.Cut(value, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		switch name {
		case "limit", "remaining", "reset":
			if len(seen) > 0 && !seen[name] {
				items[len(items)-1] += ";" + value
			} else {
				clear(seen)
				items = append(items, value)
			}
			seen[name] = true
		default:
			clear(seen)
			items = append(items, value)
		}
	}
	return items
}

// limitItem reads one item of RateLimit: `"default";r=0;t=30` of draft 08 and later, or
// "limit=10;remaining=0;reset=30" of those before.
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
// commas. A date of RFC 9110 has a comma of its own, behind its day of the week.
func valuesOf(h http.Header, name string) (out []string) {
	for _, line := range h.Values(name) {
		if len(line) > maxWaitValues*maxWaitValue {
			continue
		}
		parts := splitCommas(line)
		for i := 0; i < len(parts) && len(out) < maxWaitValues; i++ {
			part := strings.TrimSpace(parts[i])
			if i+1 < len(parts) && isWeekday(strings.TrimLeft(part, `"`)) {
				i++
				part += ", " + strings.TrimSpace(parts[i])
			}
			if part = strings.Trim(part, `"`); part != "" && len(part) <= maxWaitValue {
				out = append(out, part)
			}
		}
	}
	return out
}

// splitCommas cuts a line at its commas, but not at those between quotes.
func splitCommas(line string) []string {
	if strings.Count(line, `"`)%2 != 0 {
		return strings.Split(line, ",")
	}
	quoted := false
	var parts []string
	from := 0
	for i := range len(line) {
		switch {
		case line[i] == '"':
			quoted = !quoted
		case line[i] == ',' && !quoted:
			parts = append(parts, line[from:i])
			from = i + 1
		}
	}
	return append(parts, line[from:])
}

func isWeekday(word string) bool {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if name := day.String(); strings.EqualFold(word, name) || strings.EqualFold(word, name[:3]) {
			return true
		}
	}
	return false
}

// sinceEpoch returns from which number on a number is a time since 1970, in seconds,
// milliseconds, microseconds or nanoseconds: from ten years ago. A smaller one is seconds to come,
// however many: a target that asks for 999999999 of them wants no more requests, and means no
// second of 2001.
func sinceEpoch(now time.Time) float64 {
	const tenYears, some = 315_576_000, 5e8
	return max(float64(now.Unix()-tenYears), some)
}

// waitOf reads a wait in any form that is in use: seconds, with or without a fraction or a
// unit; a time since 1970; a date. What follows a semicolon is a parameter, or a comment.
func waitOf(value string, now time.Time) (ahead time.Duration, ok bool) {
	return waitIn(time.Second, value, now)
}

// waitIn is waitOf with the unit of a plain number.
func waitIn(unit time.Duration, value string, now time.Time) (ahead time.Duration, ok bool) {
	value, _, _ = strings.Cut(value, ";")
	value = strings.Trim(value, " \t\u00a0")
	if n, is := number(value); is {
		for _, parts := range []float64{1e9, 1e6, 1e3, 1} {
			if n >= sinceEpoch(now)*parts {
				return seconds(n/parts - float64(now.UnixNano())/1e9), true
			}
		}
		return seconds(n * unit.Seconds()), true
	}
	if at, is := parseDate(value); is {
		return at.Sub(now), true
	}
	return withUnit(value)
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

// timeUnits are the units of waits, in seconds, by their names. A month is none.
var timeUnits = func() map[string]float64 {
	units := make(map[string]float64)
	for names, n := range map[string]float64{
		"ns nanosecond nanoseconds": 1e-9, "us µs μs microsecond microseconds": 1e-6, "ms msec msecs millisecond milliseconds": 1e-3,
		"s sec secs second seconds": 1, "m min mins minute minutes": 60, "h hr hrs hour hours": 3600, "d day days": 86400, "w week weeks": 604800,
	} {
		for name := range strings.FieldsSeq(names) {
			units[name] = n
		}
	}
	return units
}()

// withUnit reads "30s", "1m30s", "250ms", "30 seconds", "2 min", "1d", and "P1DT2H" (ISO 8601).
func withUnit(value string) (time.Duration, bool) {
	text := strings.ToLower(strings.ReplaceAll(value, " ", ""))
	if iso, found := strings.CutPrefix(text, "p"); found {
		day, clock, _ := strings.Cut(iso, "t")
		if text = day + clock; strings.ContainsAny(day, "my") {
			return 0, false // months, and years
		}
	}
	total, most := 0.0, 8
	for ; text != "" && most > 0; most-- {
		end := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if end <= 0 {
			return 0, false
		}
		n, ok := number(text[:end])
		text = text[end:]
		if end = strings.IndexFunc(text, func(r rune) bool { return r >= '0' && r <= '9' || r == '.' }); end < 0 {
			end = len(text)
		}
		unit, known := timeUnits[text[:end]]
		if !ok || !known {
			return 0, false
		}
		total, text = total+n*unit, text[end:]
	}
	return seconds(total), text == "" && most < 8
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
	"Mon, 2 January 2006 15:04:05 -0700", "Monday, 2 January 2006 15:04:05 -0700", "Mon, 2 Jan 2006 15:04 -0700",
	"2 Jan 2006 15:04:05 -0700", "Mon Jan _2 15:04:05 -0700 2006", "Mon Jan _2 2006 15:04:05 -0700", "Mon, 2 Jan 2006 15:04:05",
	"2006-01-02T15:04:05-0700", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05",
	"2006-01-02T15:04Z07:00", "2006-01-02T15:04-0700", "2006-01-02T15:04", "2006-01-02 15:04 -0700", "2006-01-02 15:04",
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
		words[i] = zoneWord(word)
		if i > 0 && isOffset(words[i]) && isOffset(words[i-1]) { // "+0000 UTC", as Go writes it
			words = words[:i]
			break
		}
		// 23:59:60 is a time of RFC 9110, and none of Go's.
		if head, found := strings.CutSuffix(word, ":60"); found && strings.Count(head, ":") == 1 {
			words[i] = head + ":59"
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

// zoneWord returns a word of a date as an offset such as +0100, if it is a zone, and otherwise
// as it is: "EST", "+01:00", "GMT+1", "UTC-0800".
func zoneWord(word string) string {
	upper := strings.ToUpper(word)
	if offset, known := zones[upper]; known {
		return offset
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(upper, "GMT"), "UTC")
	if len(rest) < 2 || rest[0] != '+' && rest[0] != '-' {
		return word
	}
	digits := strings.Replace(rest[1:], ":", "", 1)
	if strings.Trim(digits, "0123456789") != "" {
		return word
	}
	switch len(digits) {
	case 1:
		return rest[:1] + "0" + digits + "00"
	case 2:
		return rest[:1] + digits + "00"
	case 4:
		return rest[:1] + digits
	default:
		return word
	}
}

func isOffset(word string) bool {
	return len(word) == len("+0000") && (word[0] == '+' || word[0] == '-') && strings.Trim(word[1:], "0123456789") == ""
}
