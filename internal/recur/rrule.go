package recur

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	rrulego "github.com/teambition/rrule-go"
)

// rrule is a compiled RRULE. The library can only walk forward, so the walk is kept, with the times that it found last: a
// search that continues forward, or goes back a little, does not start again. Another one starts at the period that it
// needs, and with COUNT at DTSTART.
type rrule struct {
	rule    *rrulego.RRule  // from DTSTART
	later   rrulego.ROption // for walks that start at a later period
	counted bool
	until   Civil
	periods periods

	mu    sync.Mutex
	walk  rrulego.Next
	from  Civil   // how far the walk has come
	after Civil   // times has the matches after it, as far as the walk has come
	times []Civil // at most keptTimes
	gap   gap     // the stretch without a match that was found last
}

const (
	maxRRuleText = 1024
	maxRRuleList = 60
	maxPositions = 12
	maxInterval  = 10_000
	maxCount     = 10_000
	maxClocks    = 24 // times of one day: the library holds those of a whole year in memory

	keptTimes = 256

	// The library walks to the year 9999 before it finds that no time matches, and cannot be stopped. So it gets later years: the calendar
	// repeats every 400 years, weekdays included.
	rruleShift = 19 * 146_097 * secondsPerDay
	// The last year that it walks to, less the shift.
	lastRuleYear = 9999 - 19*400
)

// The shapes of the parts of a rule. The library checks the ranges of numbers.
var ruleParts = map[string]struct {
	form    *regexp.Regexp
	example string
}{
	"FREQ":       {regexp.MustCompile(`^(MINUTELY|HOURLY|DAILY|WEEKLY|MONTHLY|YEARLY)$`), "MINUTELY, HOURLY, DAILY, WEEKLY, MONTHLY or YEARLY"},
	"INTERVAL":   {oneNumber, "2"},
	"COUNT":      {oneNumber, "10"},
	"UNTIL":      {regexp.MustCompile(`^[0-9TZ]+$`), "20261231 or 20261231T235959Z"},
	"WKST":       {regexp.MustCompile(`^(MO|TU|WE|TH|FR|SA|SU)$`), "MO"},
	"BYMONTH":    {numberList, "1,12"},
	"BYWEEKNO":   {numberList, "1,-1"},
	"BYYEARDAY":  {numberList, "1,-1"},
	"BYMONTHDAY": {numberList, "1,-1"},
	"BYDAY":      {regexp.MustCompile(`^([+-]?[1-9][0-9]?)?(MO|TU|WE|TH|FR|SA|SU)(,([+-]?[1-9][0-9]?)?(MO|TU|WE|TH|FR|SA|SU))*$`), "MO,-1FR"},
	"BYHOUR":     {numberList, "9,17"},
	"BYMINUTE":   {numberList, "0,30"},
	"BYSECOND":   {oneNumber, "0"},
	"BYSETPOS":   {numberList, "1,-1"},
}

var (
	oneNumber = regexp.MustCompile(`^[0-9]+$`)
	// A long line of iCalendar goes on in the next one, behind a blank.
	foldedLine    = regexp.MustCompile(`\r?\n[ \t]`)
	blanksBetween = regexp.MustCompile(`\s*([=,])\s*`)
	numberList    = regexp.MustCompile(`^[+-]?[0-9]{1,3}(,[+-]?[0-9]{1,3})*$`)
)

// parseRRule compiles an RRULE of RFC 5545 with its first civil time. zone is needed for an UNTIL in UTC.
func parseRRule(text string, start Civil, zone *Zone, m *Meter) (rule, error) {
	if len(text) > maxRRuleText {
		return nil, &fault{"", fmt.Sprintf("the rule has more than %d bytes", maxRRuleText)}
	}
	if reason := strange(text); reason != "" {
		return nil, &fault{"", reason}
	}
	text = foldedLine.ReplaceAllString(strings.ToUpper(strings.TrimSpace(text)), "")
	until, hasUntil := maxCivil, false
	kept, seen := []string{}, map[string]bool{}
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ';' || r == '\n' || r == '\r' }) {
		part = blanksBetween.ReplaceAllString(strings.TrimPrefix(strings.TrimSpace(part), "RRULE:"), "$1")
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		if err := checkRulePart(part, name, value, seen[name]); err != nil {
			return nil, err
		}
		seen[name] = true
		if name != "UNTIL" {
			kept = append(kept, part)
			continue
		}
		// The library reads a date as its midnight, and an instant as a civil time.
		var err error
		if until, err = readUntil(value, zone); err != nil {
			return nil, err
		}
		hasUntil = true
	}
	if !seen["FREQ"] {
		return nil, &fault{"FREQ", "FREQ is missing"}
	}
	option, err := rrulego.StrToROption(strings.Join(kept, ";"))
	if err != nil {
		return nil, &fault{"", err.Error()}
	}
	if hasUntil && option.Count > 0 {
		return nil, &fault{"COUNT", "COUNT and UNTIL exclude each other"}
	}
	if err := checkRule(option); err != nil {
		return nil, err
	}
	r, err := newRule(option, start, min(until, maxCivil), m)
	if err != nil {
		return nil, &fault{"", err.Error()}
	}
	if _, ok := r.next(start-1, m); !ok {
		return nil, &fault{"", "the rule never matches"}
	}
	return r, nil
}

// newRule makes the library's rule, or one of ours where the library has none that is right.
func newRule(option *rrulego.ROption, start, until Civil, m *Meter) (rule, error) {
	switch {
	case option.Freq > rrulego.DAILY:
		return &cachedRule{finder: newClockRule(option, start, until, m)}, nil
	case len(option.Byweekno) > 0:
		return &cachedRule{finder: newWeekRule(option, start, until, m)}, nil
	}
	// The library ends at an UNTIL only where it finds a later match, so next compares with it.
	option.Dtstart, option.Until = toRule(start), lastRuleTime
	whole, err := rrulego.NewRRule(*option)
	if err != nil {
		return nil, err
	}
	return &rrule{
		rule: whole, later: explicit(*option, start), counted: option.Count > 0, until: until, periods: periodsOf(option, start),
		gap: gap{after: math.MinInt64, found: math.MinInt64},
	}, nil
}

func checkRulePart(part, name, value string, twice bool) error {
	form, known := ruleParts[name]
	switch {
	case !known:
		return noPart(name)
	case twice:
		return &fault{name, fmt.Sprintf("%s is there twice", quote(name))}
	case name == "FREQ" && value == "SECONDLY":
		return &fault{name, fmt.Sprintf("FREQ=SECONDLY is not served: use an interval of %s or more", minEvery)}
	case !form.form.MatchString(value):
		return &fault{name, explainPart(part, name, value, form.example)}
	case strings.Count(value, ",") >= maxRRuleList:
		return &fault{name, fmt.Sprintf("%s has more than %d values", name, maxRRuleList)}
	case name == "UNTIL":
		return nil
	}
	if limit := map[string]int{"INTERVAL": maxInterval, "COUNT": maxCount}[name]; limit > 0 {
		if n, err := strconv.Atoi(value); err != nil || n < 1 || n > limit {
			return &fault{name, fmt.Sprintf("the %s %s is not in 1 to %d", name, value, limit)}
		}
	}
	// The part is parsed alone, so that the library's error is about this part.
	option, err := rrulego.StrToROption("FREQ=YEARLY;" + part)
	if err == nil {
		_, err = rrulego.NewRRule(*option)
	}
	if err != nil {
		return &fault{name, fmt.Sprintf("%s: %s", quote(part), err)}
	}
	return nil
}

// noPart refuses a part that no rule has, with the place of what it may mean.
func noPart(name string) *fault {
	word, _, _ := strings.Cut(name, ":")
	if word, _, _ = strings.Cut(word, ";"); notInRule[word] != "" {
		return &fault{word, word + " is no part of a rule: " + notInRule[word]}
	}
	return &fault{name, quote(name) + " is no part of a rule"}
}

// checkRule refuses rules that RFC 5545 excludes, and rules that the library evaluates wrongly or slowly.
func checkRule(o *rrulego.ROption) error {
	// A value that is there twice would match twice.
	slices.Sort(o.Byhour)
	o.Byhour = slices.Compact(o.Byhour)
	slices.Sort(o.Byminute)
	o.Byminute = slices.Compact(o.Byminute)
	daysNamed := len(o.Byweekno)+len(o.Byyearday)+len(o.Bymonthday)+len(o.Byweekday) > 0
	switch {
	case len(o.Byweekno) > 0 && o.Freq != rrulego.YEARLY:
		return &fault{"BYWEEKNO", "BYWEEKNO needs FREQ=YEARLY"}
	case len(o.Byyearday) > 0 && o.Freq != rrulego.YEARLY && o.Freq <= rrulego.DAILY:
		return &fault{"BYYEARDAY", "BYYEARDAY needs FREQ=YEARLY, HOURLY or MINUTELY"}
	case len(o.Bymonthday) > 0 && o.Freq == rrulego.WEEKLY:
		return &fault{"BYMONTHDAY", "BYMONTHDAY does not go with FREQ=WEEKLY: write FREQ=MONTHLY"}
	case len(o.Bysetpos) > maxPositions:
		return &fault{"BYSETPOS", fmt.Sprintf("BYSETPOS has more than %d values", maxPositions)}
	case len(o.Bysetpos) > 0 && !daysNamed && len(o.Bymonth)+len(o.Byhour)+len(o.Byminute) == 0:
		return &fault{"BYSETPOS", "BYSETPOS needs another part whose name begins with BY"}
	case o.Freq <= rrulego.DAILY && max(1, len(o.Byhour))*max(1, len(o.Byminute)) > maxClocks:
		return &fault{"BYMINUTE", fmt.Sprintf("BYHOUR and BYMINUTE name more than %d times of a day: use a cron expression or an interval", maxClocks)}
	}
	return checkWeekdays(o)
}

func checkWeekdays(o *rrulego.ROption) error {
	low, high, numbered := 0, 0, 0
	for _, day := range o.Byweekday {
		low, high = min(low, day.N()), max(high, day.N())
		if day.N() != 0 {
			numbered++
		}
	}
	inMonth := o.Freq == rrulego.MONTHLY || len(o.Bymonth) > 0
	switch {
	case numbered == 0:
		return nil
	case o.Freq > rrulego.MONTHLY || len(o.Byweekno) > 0:
		return &fault{"BYDAY", "a BYDAY with a number needs FREQ=MONTHLY or FREQ=YEARLY, and no BYWEEKNO"}
	case (low < -5 || high > 5) && inMonth:
		// The library would read past the end of its table of days.
		return &fault{"BYDAY", "the number of a BYDAY counts in a month here, and is not in -5 to 5"}
	case numbered < len(o.Byweekday):
		numberWeekdays(o, inMonth)
	}
	return nil
}

// numberWeekdays writes each day without a number as all days with one: FR as 1FR to 5FR. The library demands both kinds together.
func numberWeekdays(o *rrulego.ROption, inMonth bool) {
	most := 53
	if inMonth {
		most = 5
	}
	var all []rrulego.Weekday
	for _, day := range o.Byweekday {
		if day.N() != 0 {
			all = append(all, day)
			continue
		}
		for n := range most {
			all = append(all, day.Nth(n+1))
		}
	}
	o.Byweekday = all
}

// readUntil parses a date (all of that day), a civil time, or an instant in UTC.
func readUntil(text string, zone *Zone) (Civil, error) {
	if c, err := parseCivil("20060102", text); err == nil {
		return c + secondsPerDay - 1, nil
	}
	if c, err := parseCivil("20060102T150405", text); err == nil {
		return c, nil
	}
	if utc, found := strings.CutSuffix(text, "Z"); found {
		if c, err := parseCivil("20060102T150405", utc); err == nil {
			return zone.reached(int64(c)), nil
		}
	}
	return 0, &fault{"UNTIL", fmt.Sprintf("the UNTIL %s is not a time like 20261231, 20261231T235959 or 20261231T235959Z, in the years %d to %d", quote(text), minYear, maxYear)}
}

// parseStart parses the start of a rule. A date without a time makes it a rule about whole days, which only exclusions
// may have.
func parseStart(text string, date bool) (at Civil, wholeDay bool, err error) {
	if date && len(text) == len(time.DateOnly) {
		at, err = parseCivil(dateLayout, text)
		wholeDay = true
	} else {
		at, err = ParseCivil(text)
	}
	if err != nil {
		return 0, false, &fault{"start", "the start " + err.Error()}
	}
	return at, wholeDay, nil
}

var (
	lastRuleCivil = civilOf(lastRuleYear, time.December, 31)
	lastRuleTime  = toRule(lastRuleCivil)
)

func toRule(c Civil) time.Time { return (c + rruleShift).time() }

// elapsing returns false: an RRULE names times that each of its days has.
func (r *rrule) elapsing() bool { return false }

// next returns the first match after a civil time, on a clock without transitions.
func (r *rrule) next(after Civil, m *Meter) (Civil, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.charge(1)
	if after >= r.gap.after && after < r.gap.found {
		return r.gap.found, r.gap.found < never
	}
	found := r.find(after, m)
	if r.periods.of(found)-r.periods.of(after) > r.periods.interval {
		r.gap = gap{after, found}
	}
	return found, found < never
}

// find returns the first match after a civil time, or never.
func (r *rrule) find(after Civil, m *Meter) Civil {
	if after >= r.until {
		return never
	}
	r.seek(after, m)
	for {
		if n := len(r.times); n > 0 && r.times[n-1] > after {
			i, _ := slices.BinarySearch(r.times, after+1)
			if r.times[i] > r.until {
				return never
			}
			return r.times[i]
		}
		at, ok := r.walk()
		if !ok {
			m.charge(r.periods.steps(r.from, lastRuleCivil))
			return never
		}
		c := Civil(at.Unix()) - rruleShift
		m.charge(r.periods.steps(r.from, c) - r.periods.cost + 1)
		r.from = c
		if len(r.times) == keptTimes {
			const half = keptTimes / 2
			r.after = r.times[half-1]
			r.times = append(r.times[:0], r.times[half:]...)
		}
		r.times = append(r.times, c)
	}
}

// seek puts the walk where the matches after a civil time are found soon.
func (r *rrule) seek(after Civil, m *Meter) {
	period, later := r.periods.before(after)
	begin := r.periods.begin(period)
	switch forward := r.walk != nil && after >= r.after; {
	case r.counted && !forward, !later && !forward:
		r.walk, r.from, r.after = r.rule.Iterator(), r.begin(), math.MinInt64
	case r.counted || !later, forward && r.from >= begin:
		return
	default:
		option := r.later
		option.Dtstart = toRule(begin)
		rule, err := rrulego.NewRRule(option)
		if err != nil { // it was valid with another DTSTART
			rule, begin = r.rule, r.begin()
		}
		r.walk, r.from, r.after = rule.Iterator(), begin, begin-1
	}
	r.times = r.times[:0]
	m.charge(r.periods.cost + r.periods.matches)
}

func (r *rrule) begin() Civil { return Civil(r.rule.Options.Dtstart.Unix()) - rruleShift }
