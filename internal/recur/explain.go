package recur

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Rules of this file: people bring expressions and rules from other programs. What Fireonce does not serve is refused
// with what to write instead. A suggestion is something that Compile accepts, a test checks each.

// otherMacros are macros of other programs, with what stands for them here.
var otherMacros = map[string]string{
	"@reboot":       "no macro: a schedule does not start with a machine",
	"@noon":         "0 12 * * *",
	"@quarterly":    "0 0 1 */3 *",
	"@biweekly":     "the rule FREQ=WEEKLY;INTERVAL=2",
	"@weekdays":     "0 0 * * MON-FRI",
	"@weekday":      "0 0 * * MON-FRI",
	"@weekends":     "0 0 * * SAT,SUN",
	"@weekend":      "0 0 * * SAT,SUN",
	"@minutely":     "* * * * *",
	"@every_minute": "* * * * *",
	"@secondly":     "an interval of 10s or more",
	"@every_second": "an interval of 10s or more",
}

func explainMacro(text string) string {
	if every, found := strings.CutPrefix(text, "@every "); found {
		if d, err := time.ParseDuration(strings.TrimSpace(every)); err == nil && d >= minEvery && d <= maxEvery && d%time.Second == 0 {
			return fmt.Sprintf("%s is no cron expression: write the interval %ds", quote(text), d/time.Second)
		}
		return quote(text) + " is no cron expression: write an interval"
	}
	reason := quote(text) + " is not one of " + strings.Join(cronMacros, ", ")
	if instead := otherMacros[text]; instead != "" {
		reason += ": write " + instead
	}
	return reason
}

var (
	clockTime  = regexp.MustCompile(`^([01]?[0-9]|2[0-3])[:.h]([0-5][0-9])(?::00)?(?: ?uhr)?$`)
	cronLike   = regexp.MustCompile(`^[0-9a-z*?,/#-]+$`)
	longWord   = regexp.MustCompile(`[a-z]{4}`)
	cronYear   = regexp.MustCompile(`^(\*|[12][0-9]{3}.*)$`)
	hasDigit   = regexp.MustCompile(`[0-9]`)
	singleItem = regexp.MustCompile(`^[0-9]+$`)
)

// explainCount returns why an expression of too few or too many fields is none. Its letters are small.
func explainCount(text string, fields []string) string {
	const five = "instead of 5 (minute, hour, day of the month, month, day of the week)"
	number := fmt.Sprintf("the expression has %d fields ", len(fields))
	if len(fields) == 1 {
		number = "the expression has 1 field "
	}
	reason := number + five
	switch n := len(fields); {
	case strings.HasPrefix(text, "cron_tz="), strings.HasPrefix(text, "tz="):
		return reason + ": the zone is the schedule's time_zone; leave it out here"
	case strings.HasPrefix(text, "rate("):
		return reason + ": write an interval"
	case strings.HasPrefix(text, "cron(") && strings.HasSuffix(text, ")"):
		inside := text[len("cron(") : len(text)-1]
		if fields = strings.Fields(inside); len(fields) != len(cronFields) {
			return explainCount(inside, fields)
		}
		return quote(text) + " is not an expression: write what is in its parentheses"
	case strings.Contains(text, ", ") || strings.Contains(text, " ,"):
		return reason + ": a list has no blanks, as in 0,30"
	case clockTime.MatchString(text):
		at := clockTime.FindStringSubmatch(text)
		return fmt.Sprintf("%s: for each day at %s write %s %s * * *", reason, text, trimZero(at[2]), trimZero(at[1]))
	case n == 6 && slices.ContainsFunc(fields, longWord.MatchString):
		return reason + ": leave out what is no field, such as a zone or a command"
	case n != 6 && n != 7 || slices.ContainsFunc(fields, func(f string) bool { return !cronLike.MatchString(f) }):
		return reason
	default:
		return reason + explainSix(fields)
	}
}

// trimZero returns a number of two digits without a zero at its beginning.
func trimZero(number string) string {
	if len(number) == 2 {
		return strings.TrimPrefix(number, "0")
	}
	return number
}

// explainSix suggests the five fields that an expression with seconds, years or both stands for.
func explainSix(fields []string) string {
	rest := fields[1:]
	// AWS has a year behind the five fields, and a question mark in one of the fields of days.
	if len(fields) == 6 && (fields[dayField] == "?" || fields[weekdayField] == "?") && cronYear.MatchString(fields[5]) {
		rest = fields[:5]
	} else if !singleItem.MatchString(fields[0]) {
		return ": seconds are not served; write an interval of 10s or more"
	}
	years := len(fields) == 7 || len(rest) == 5 && &rest[0] == &fields[0]
	if years && fields[len(fields)-1] != "*" {
		return ": years are not served; write start_time and end_time"
	}
	rest = rest[:5]
	what := "seconds"
	if years {
		what = "years"
	}
	if hasDigit.MatchString(rest[weekdayField]) {
		// Sunday is 1 in Quartz and AWS, and 0 here.
		return fmt.Sprintf(": %s are not served; leave them out, and write days of the week by their names, such as MON-FRI", what)
	}
	meant := strings.ToUpper(strings.Join(rest, " "))
	if _, err := parseCron(meant); err != nil {
		return fmt.Sprintf(": %s are not served; leave them out", what)
	}
	return fmt.Sprintf(": %s are not served; write %s", what, meant)
}

var (
	weekdayNames = []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
	monthNames   = []string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}
)

// shortName returns the name of a day or a month that a longer or shorter one stands for: MON for monday and mo.
func shortName(text string, names []string, length int) string {
	text = strings.ToLower(text)
	found := ""
	for _, name := range names {
		if len(text) >= 2 && strings.HasPrefix(name, text) {
			if found != "" {
				return ""
			}
			found = strings.ToUpper(name[:length])
		}
	}
	return found
}

// explainName returns why a word in a field is neither a number nor a name.
func explainName(word string, field int) string {
	reason := quote(word) + " is not a number or a name of three letters"
	names := map[int][]string{monthField: monthNames, weekdayField: weekdayNames}[field]
	switch short := shortName(word, names, 3); {
	case short != "":
		return reason + ": write " + short
	case word == "h" || strings.HasPrefix(word, "h("):
		return reason + ": Jenkins' H is not served; write a number, and set jitter"
	default:
		return reason
	}
}

// lookalikes are what word processors write in place of the signs of expressions and rules.
var lookalikes = map[rune]string{
	'\u2010': "-", '\u2011': "-", '\u2012': "-", '\u2013': "-", '\u2014': "-", '\u2212': "-", '\u2217': "*", '\u204e': "*", '\uff0a': "*", '\u00d7': "*",
	'\u2044': "/", '\u2215': "/", '\uff0f': "/", '\uff0c': ",", '\u060c': ",", '\u3001': ",", '\uff1b': ";", '\uff1d': "=", '\uff1a': ":",
}

// strange returns a sentence about the first character of a text that no expression and no rule has; empty: it has none.
func strange(text string) string {
	for _, r := range text {
		switch {
		case r >= ' ' && r <= '~' || unicode.IsSpace(r):
		case lookalikes[r] != "":
			return fmt.Sprintf("%q (U+%04X) is not %s: write %s", r, r, lookalikes[r], lookalikes[r])
		case r >= '\uff10' && r <= '\uff19':
			return fmt.Sprintf("%q (U+%04X) is not a digit here: write %d", r, r, r-'\uff10')
		case unicode.IsPrint(r):
			return fmt.Sprintf("%q (U+%04X) is not a character of it", r, r)
		default:
			return fmt.Sprintf("U+%04X is not a character of it: leave it out", r)
		}
	}
	return ""
}

// Lines of iCalendar and parts of other standards that a rule has not, with where their content goes.
var notInRule = map[string]string{
	"DTSTART": "it is the field start, in the schedule's time zone",
	"DTEND":   "a firing has no end",
	"EXDATE":  "write exclusions.dates, or exclusions.recurrence_rules with COUNT=1 for one time of a day",
	"EXRULE":  "write it into exclusions.recurrence_rules",
	"RDATE":   "write a rule with COUNT=1 and that start, or schedule one job",
	"TZID":    "it is the schedule's time_zone",
	"RSCALE":  "only the calendar of RFC 5545 is served",
	"SKIP":    "for the last day of short months write BYMONTHDAY=28,29,30,31;BYSETPOS=-1",
	"BEGIN":   "write only what follows RRULE:",
	"SUMMARY": "write only what follows RRULE:",
}

// otherFrequencies are what people write for FREQ, with the parts that stand for it.
var otherFrequencies = map[string]string{
	"BIWEEKLY": "FREQ=WEEKLY;INTERVAL=2", "FORTNIGHTLY": "FREQ=WEEKLY;INTERVAL=2", "BIMONTHLY": "FREQ=MONTHLY;INTERVAL=2",
	"QUARTERLY": "FREQ=MONTHLY;INTERVAL=3", "SEMIANNUALLY": "FREQ=MONTHLY;INTERVAL=6", "BIANNUALLY": "FREQ=MONTHLY;INTERVAL=6",
	"ANNUALLY": "FREQ=YEARLY", "ANNUAL": "FREQ=YEARLY", "YEAR": "FREQ=YEARLY", "MONTH": "FREQ=MONTHLY", "WEEK": "FREQ=WEEKLY", "DAY": "FREQ=DAILY",
	"HOUR": "FREQ=HOURLY", "MINUTE": "FREQ=MINUTELY", "WEEKDAYS": "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "WEEKDAY": "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR",
	"WEEKENDS": "FREQ=WEEKLY;BYDAY=SA,SU",
}

// explainPart returns why a part of a rule has not the form of its value.
func explainPart(part, name, value, example string) string {
	meant := ""
	switch name {
	case "FREQ":
		if meant = otherFrequencies[value]; meant == "" {
			return fmt.Sprintf("%s is not a FREQ, which is %s", quote(part), example)
		}
	case "BYDAY":
		meant = meantDays(value)
	case "BYMONTH":
		for i, month := range monthNames {
			if shortName(value, []string{month}, 3) != "" {
				meant = name + "=" + strconv.Itoa(i+1)
			}
		}
	case "BYSECOND":
		return fmt.Sprintf("%s is not a BYSECOND such as 0: a rule has one second", quote(part))
	case "UNTIL":
		meant = meantUntil(value)
	}
	if meant != "" {
		return fmt.Sprintf("%s is not a %s such as %s: write %s", quote(part), name, example, meant)
	}
	return fmt.Sprintf("%s is not like %s=%s", quote(part), name, example)
}

// meantDays returns the days of a list with long names or a range.
func meantDays(value string) string {
	var out []string
	for item := range strings.SplitSeq(value, ",") {
		item = strings.TrimSpace(item)
		first, last, span := strings.Cut(item, "-")
		number := strings.TrimRight(first, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
		from := shortName(strings.TrimPrefix(first, number), weekdayNames, 2)
		number = strings.TrimSpace(number)
		switch to := shortName(last, weekdayNames, 2); {
		case from == "" || span && (to == "" || number != ""):
			return ""
		case !span:
			out = append(out, number+from)
		default:
			for i := slices.Index(weekdayCodes, from); ; i = (i + 1) % 7 {
				out = append(out, weekdayCodes[i])
				if weekdayCodes[i] == to {
					break
				}
			}
		}
	}
	meant := "BYDAY=" + strings.Join(out, ",")
	if !ruleParts["BYDAY"].form.MatchString(meant[len("BYDAY="):]) {
		return ""
	}
	return meant
}

var weekdayCodes = []string{"MO", "TU", "WE", "TH", "FR", "SA", "SU"}

// meantUntil returns the UNTIL of a date or time that is written with hyphens and colons.
func meantUntil(value string) string {
	plain := strings.NewReplacer("-", "", ":", "", " ", "T").Replace(value)
	if len(value) > len(plain) && (len(plain) == 8 || untilTime.MatchString(plain)) {
		return "UNTIL=" + plain
	}
	return ""
}

var untilTime = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}Z?$`)

var (
	afterClock  = regexp.MustCompile(`([T ][0-9:]+)(?:[.,][0-9]+)? ?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?$`)
	civilShapes = []string{civilLayout, "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "20060102T150405", "20060102T1504", "2006-1-2T15:4:5", "2006-1-2 15:4:5", dateLayout, "20060102"}
)

// meantCivil returns the local time that a text in another form states; empty: it states none for sure.
func meantCivil(text string) string {
	text = strings.ToUpper(strings.TrimFunc(text, unicode.IsSpace))
	for _, one := range []string{text, afterClock.ReplaceAllString(text, "$1")} {
		for _, shape := range civilShapes {
			if t, err := time.Parse(shape, one); err == nil && t.Year() >= minYear && t.Year() <= maxYear {
				return t.Format(civilLayout)
			}
		}
	}
	return ""
}

// explainCivil returns why a text is not a local time like an example.
func explainCivil(text, layout string) string {
	example := civilOf(2026, time.December, 31).time().Format(layout)
	reason := fmt.Sprintf("%s is not a time like %s", quote(text), example)
	switch meant := meantCivil(text); {
	case layout == civilLayout && meant != "" && len(text) > len(dateLayout) && zoned.MatchString(text):
		return reason + ", without Z or an offset: it is on the clocks of the zone; for those write " + meant
	case layout == civilLayout && meant != "":
		return reason + ": write " + meant
	case layout == dateLayout && meant != "":
		return reason + ": write " + meant[:len(dateLayout)]
	case civilDigits.MatchString(text):
		return reason + ": there is no such day or hour"
	default:
		return reason
	}
}

var (
	zoned       = regexp.MustCompile(`(?i)[0-9 ](Z|[+-][0-9]{2}(:?[0-9]{2})?)$`)
	civilDigits = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2})?$`)
)
