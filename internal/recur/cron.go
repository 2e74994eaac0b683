package recur

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	gocron "github.com/netresearch/go-cron"
)

// cron is a compiled cron expression: the library's, and facts that the library does not expose.
type cron struct {
	spec    *gocron.SpecSchedule
	elapsed bool // the hour field follows elapsed time: it has * or /
	gap     atomic.Pointer[gap]
}

// A gap is a stretch without a match: after a civil time, up to the next match.
type gap struct{ after, found Civil }

const (
	maxCronText = 256
	// Each of them makes the library check a day once more.
	maxCronExtended = 5
	// A 29 February on one weekday is 40 years from the next one, where 2100 is between them.
	cronYears = 50

	allMinutes = 1<<60 - 1
	allHours   = 1<<24 - 1
	starBit    = 1 << 63 // of the library: the field has a star or a question mark
)

var (
	// The civil time of a match that does not exist.
	never = maxCivil + 1

	cronParser = gocron.MustNewParser(gocron.Minute | gocron.Hour | gocron.Dom | gocron.Month | gocron.Dow | gocron.Descriptor | gocron.Extended).WithMaxSearchYears(cronYears)

	cronMacros = []string{"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"}
	cronFields = []string{"minute", "hour", "day of the month", "month", "day of the week"}
)

const (
	hourField    = 1
	dayField     = 2
	monthField   = 3
	weekdayField = 4
)

func parseCron(text string) (*cron, error) {
	if len(text) > maxCronText {
		return nil, &fault{"", fmt.Sprintf("the expression has more than %d bytes", maxCronText)}
	}
	if reason := strange(text); reason != "" {
		return nil, &fault{"", reason}
	}
	// In capital letters, the library reads the H of THU as Jenkins' hash.
	text = strings.ToLower(strings.TrimSpace(text))
	fields := strings.Fields(text)
	c := &cron{elapsed: text == "@hourly"}
	either := false
	if strings.HasPrefix(text, "@") {
		if !slices.Contains(cronMacros, text) {
			return nil, &fault{"", explainMacro(text)}
		}
	} else {
		if len(fields) != len(cronFields) || strings.HasPrefix(text, "cron(") {
			return nil, &fault{"", explainCount(text, fields)}
		}
		for i := range fields {
			if err := checkCronField(fields, i); err != nil {
				return nil, err
			}
		}
		c.elapsed = strings.ContainsAny(fields[hourField], "*/")
		// As in cron: a field that begins with a star, as */2 does, restricts nothing on its own.
		either = !strings.ContainsAny(fields[dayField][:1]+fields[weekdayField][:1], "*?")
	}
	parsed, err := cronParser.Parse(strings.Join(fields, " "))
	if err != nil {
		return nil, &fault{"", err.Error()}
	}
	spec, ok := parsed.(*gocron.SpecSchedule)
	if !ok {
		return nil, &fault{"", quote(text) + " is not a cron expression"}
	}
	c.spec = spec
	spec.Location = time.UTC
	spec.DowOrDom = either
	if either {
		spec.Dom &^= starBit
		spec.Dow &^= starBit
	}
	if _, ok := c.next(minCivil-1, nil); !ok {
		return nil, &fault{"", "the expression never matches: no month that it names has such a day"}
	}
	return c, nil
}

// checkCronField refuses a field that the library refuses, with the field's name, and a field that the library would
// misread.
func checkCronField(fields []string, i int) error {
	field := fields[i]
	var reason string
	switch rest := strings.Trim(field, "abcdefghijklmnopqrstuvwxyz0123456789*?,/#-"); {
	case strings.Contains(rest, "~"):
		reason = "a random time is not served, as in " + quote(field) + ": write a number, and set jitter"
	case strings.ContainsAny(rest, "\"'`"):
		reason = quote(field) + " has a quotation mark: leave it out"
	case rest != "":
		reason = quote(field) + " has a character that no expression has"
	case strings.Contains(field, "?") && (field != "?" || i != dayField && i != weekdayField):
		reason = quote(field) + " is not allowed here: ? stands alone, in one of the two fields of days"
	default:
		reason = checkCronItems(field, i)
	}
	if reason == "" {
		reason = askLibrary(field, i)
	}
	if reason == "" {
		return nil
	}
	return &fault{cronFields[i], "the " + cronFields[i] + ": " + reason}
}

// The last days and workdays of a month, in small letters. What follows L- is checked by the library.
var lastOrWorkday = regexp.MustCompile(`^(l|lw|l-[0-9]+|[0-9]+w)$`)

// checkCronItems returns why an item of a list is invalid.
func checkCronItems(field string, i int) string {
	extended := 0
	for item := range strings.SplitSeq(field, ",") {
		if item == "" {
			return "a value is missing in " + quote(field)
		}
		if reason := checkCronItem(item, i); reason != "" {
			return reason
		}
		if i == dayField && strings.ContainsAny(item, "lw") || i == weekdayField && strings.Contains(item, "#") {
			extended++
		}
	}
	if extended > maxCronExtended {
		return fmt.Sprintf("more than %d values with L, W or #", maxCronExtended)
	}
	return ""
}

func checkCronItem(item string, i int) string {
	span, step, stepped := strings.Cut(item, "/")
	switch {
	case strings.HasPrefix(item, "*") && span != "*":
		return quote(item) + " is not * or */2"
	case strings.HasPrefix(span, "-") || strings.HasSuffix(span, "-"):
		return "a number is missing in " + quote(item)
	case stepped && step == "":
		return "the step is missing in " + quote(item)
	case i == dayField && strings.ContainsAny(span, "lw") && !lastOrWorkday.MatchString(span):
		return quote(item) + " is not L, L-3, LW or 15W"
	case i == weekdayField && strings.HasSuffix(item, "l") && !strings.HasSuffix(item, "#l"):
		return quote(item) + " is not a day; the last Friday of a month is FRI#L or 5#L"
	case i == weekdayField && stepped && strings.Contains(span, "-") && (len(span) != 3 || span[0] > span[2]):
		// The library counts Sunday twice if a range passes it, as 0 and as 7.
		return "the range before the step is not in rising numbers, as in 1-5/2: " + quote(item)
	default:
		return ""
	}
}

// askLibrary returns the library's error for one field alone, so that the invalid field is known.
func askLibrary(field string, i int) string {
	alone := []string{"*", "*", "*", "*", "*"}
	alone[i] = field
	_, err := cronParser.Parse(strings.Join(alone, " "))
	var number *strconv.NumError
	switch {
	case errors.As(err, &number):
		return explainName(number.Num, i)
	case err != nil:
		return err.Error()
	default:
		return ""
	}
}

func (c *cron) elapsing() bool { return c.elapsed }

// next returns the first match after a civil time, on a clock without transitions.
func (c *cron) next(after Civil, m *Meter) (Civil, bool) {
	m.charge(1)
	if g := c.gap.Load(); g != nil && after >= g.after && after < g.found {
		return g.found, g.found < never
	}
	// The last second of a minute: otherwise the library would step to the next minute second by second.
	from := max(minCivil, after.minuteEnd()) - 1
	found := never
	if from < maxCivil {
		if t := c.spec.Next(from.time()); !t.IsZero() && t.Unix() <= int64(maxCivil) {
			found = Civil(t.Unix())
		}
	}
	m.charge(max(0, int64(found-after)) / secondsPerDay) // the library passes each day once
	c.gap.Store(&gap{after, found})
	return found, found < never
}

// matches reports whether the minute of a civil time matches.
func (c *cron) matches(at Civil, m *Meter) bool {
	minute := at.minuteEnd() - secondsPerMinute
	found, ok := c.next(minute-1, m)
	return ok && found == minute
}

// through returns the end of the uninterrupted matches around a civil time that matches.
func (c *cron) through(at Civil) Civil {
	switch {
	case c.spec.Minute&allMinutes != allMinutes:
		return at.minuteEnd()
	case c.spec.Hour&allHours != allHours:
		return Civil((floorDiv(int64(at), secondsPerHour) + 1) * secondsPerHour)
	default:
		return at.dayStart() + secondsPerDay
	}
}
