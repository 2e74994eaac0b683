package recur

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxRRuleText = 1024
	maxRRuleList = 400
	maxInterval  = 100_000
	// A COUNT is counted once, when the rule is compiled.
	maxCount = 10_000
)

var (
	frequencies  = []string{"MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY"}
	weekdayNames = []string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}
)

// parseRRule compiles an RRULE of RFC 5545 with its first civil time. zone is needed for an UNTIL in UTC.
func parseRRule(text string, start Civil, zone *Zone) (*rrule, error) {
	if len(text) > maxRRuleText {
		return nil, &fault{"", fmt.Sprintf("the rule has more than %d bytes", maxRRuleText)}
	}
	text = strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(text)), "RRULE:")
	parts := map[string]string{}
	for part := range strings.SplitSeq(text, ";") {
		name, value, found := strings.Cut(part, "=")
		if !found || value == "" {
			return nil, &fault{"", fmt.Sprintf("%s is not NAME=VALUE", quote(part))}
		}
		if _, twice := parts[name]; twice {
			return nil, &fault{name, fmt.Sprintf("%s is there twice", quote(name))}
		}
		parts[name] = value
	}

	r := &rrule{start: start, until: maxCivil, interval: 1, weekStart: 1}
	if err := r.readFrequency(parts); err != nil {
		return nil, err
	}
	// In a fixed order, so that the same rule has the same error each time.
	for _, name := range []string{"INTERVAL", "COUNT", "UNTIL", "WKST", "BYMONTH", "BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY", "BYHOUR", "BYMINUTE", "BYSECOND", "BYSETPOS"} {
		value, found := parts[name]
		if !found {
			continue
		}
		delete(parts, name)
		if err := r.read(name, value, zone); err != nil {
			return nil, err
		}
	}
	for name := range parts {
		return nil, &fault{name, fmt.Sprintf("%s is no part of a rule", quote(name))}
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	r.complete()
	return r, r.count()
}

func (r *rrule) readFrequency(parts map[string]string) error {
	text, found := parts["FREQ"]
	if !found {
		return &fault{"FREQ", "FREQ is missing"}
	}
	delete(parts, "FREQ")
	f := slices.Index(frequencies, text)
	if f < 0 {
		return &fault{"FREQ", fmt.Sprintf("the FREQ %s is not one of %s", quote(text), strings.Join(frequencies, ", "))}
	}
	r.freq = frequency(f)
	return nil
}

func (r *rrule) read(name, value string, zone *Zone) (err error) {
	one := func(low, high int) (int, error) {
		list, err := ruleNumbers(name, value, low, high)
		if err == nil && len(list) != 1 {
			return 0, &fault{name, name + " takes one value"}
		}
		if err != nil {
			return 0, err
		}
		return list[0], nil
	}
	mask := func(low, high int) (m uint64, err error) {
		list, err := ruleNumbers(name, value, low, high)
		for _, v := range list {
			m |= 1 << v
		}
		return m, err
	}
	switch name {
	case "INTERVAL":
		n, err := one(1, maxInterval)
		r.interval = int64(n)
		return err
	case "COUNT":
		r.left, err = one(1, maxCount)
	case "UNTIL":
		r.hasUntil = true
		r.until, err = readUntil(value, zone)
	case "WKST":
		if r.weekStart = slices.Index(weekdayNames, value); r.weekStart < 0 {
			return &fault{name, fmt.Sprintf("%s is not one of %s", quote(value), strings.Join(weekdayNames, ", "))}
		}
	case "BYMONTH":
		r.months, err = mask(1, 12)
	case "BYWEEKNO":
		r.weeks, err = signedNumbers(name, value, 53)
	case "BYYEARDAY":
		r.yearDays, err = signedNumbers(name, value, 366)
	case "BYMONTHDAY":
		r.monthDays, err = signedNumbers(name, value, 31)
	case "BYDAY":
		r.weekdays, err = readWeekdays(value)
	case "BYHOUR":
		r.hours, err = mask(0, 23)
	case "BYMINUTE":
		r.minutes, err = mask(0, 59)
	case "BYSECOND":
		// Beats of one rule are a minute apart or more.
		second, err := one(0, 59)
		r.seconds = 1 << second
		return err
	case "BYSETPOS":
		r.positions, err = signedNumbers(name, value, 366)
	}
	return err
}

func ruleNumbers(name, value string, low, high int) ([]int, error) {
	var list []int
	for text := range strings.SplitSeq(value, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < low || n > high {
			return nil, &fault{name, fmt.Sprintf("the %s %s is not in %d to %d", name, quote(text), low, high)}
		}
		if list = append(list, n); len(list) > maxRRuleList {
			return nil, &fault{name, fmt.Sprintf("%s has more than %d values", name, maxRRuleList)}
		}
	}
	return list, nil
}

// signedNumbers reads values that count from the beginning or, below zero, from the end.
func signedNumbers(name, value string, high int) ([]int, error) {
	list, err := ruleNumbers(name, value, -high, high)
	if err == nil && slices.Contains(list, 0) {
		return nil, &fault{name, fmt.Sprintf("the %s 0 is not in 1 to %d or -%d to -1", name, high, high)}
	}
	return list, err
}

func readWeekdays(value string) ([]nthWeekday, error) {
	var list []nthWeekday
	for text := range strings.SplitSeq(value, ",") {
		cut := max(0, len(text)-2)
		d := nthWeekday{weekday: slices.Index(weekdayNames, text[cut:])}
		if d.weekday < 0 {
			return nil, &fault{"BYDAY", fmt.Sprintf("%s is not a weekday such as MO, 2MO or -1FR", quote(text))}
		}
		if cut > 0 {
			n, err := strconv.Atoi(text[:cut])
			if err != nil || n == 0 || n < -53 || n > 53 {
				return nil, &fault{"BYDAY", fmt.Sprintf("the number in %s is not in 1 to 53 or -53 to -1", quote(text))}
			}
			d.n = n
		}
		if list = append(list, d); len(list) > maxRRuleList {
			return nil, &fault{"BYDAY", fmt.Sprintf("BYDAY has more than %d values", maxRRuleList)}
		}
	}
	return list, nil
}

// readUntil reads a date (all of that day), a civil time, or an instant in UTC.
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

// check refuses what RFC 5545 excludes.
func (r *rrule) check() error {
	if r.left > 0 && r.hasUntil {
		return &fault{"COUNT", "COUNT and UNTIL exclude each other"}
	}
	numbered := slices.ContainsFunc(r.weekdays, func(d nthWeekday) bool { return d.n != 0 })
	if numbered && (r.freq < monthly || len(r.weeks) > 0) {
		return &fault{"BYDAY", "a BYDAY with a number needs FREQ=MONTHLY or FREQ=YEARLY, and no BYWEEKNO"}
	}
	switch {
	case len(r.weeks) > 0 && r.freq != yearly:
		return &fault{"BYWEEKNO", "BYWEEKNO needs FREQ=YEARLY"}
	case len(r.yearDays) > 0 && (r.freq == daily || r.freq == weekly || r.freq == monthly):
		return &fault{"BYYEARDAY", "BYYEARDAY does not go with FREQ=DAILY, WEEKLY or MONTHLY"}
	case len(r.monthDays) > 0 && r.freq == weekly:
		return &fault{"BYMONTHDAY", "BYMONTHDAY does not go with FREQ=WEEKLY"}
	case len(r.positions) > 0 && !r.namesDays() && r.months|r.hours|r.minutes|r.seconds == 0:
		return &fault{"BYSETPOS", "BYSETPOS needs another part whose name begins with BY"}
	}
	return nil
}

func (r *rrule) namesDays() bool {
	return len(r.weeks)+len(r.yearDays)+len(r.monthDays)+len(r.weekdays) > 0
}

// complete takes from the start what the rule leaves open.
func (r *rrule) complete() {
	_, month, day := r.start.time().Date()
	if !r.namesDays() {
		switch r.freq {
		case yearly:
			if r.months == 0 {
				r.months = 1 << month
			}
			r.monthDays = []int{day}
		case monthly:
			r.monthDays = []int{day}
		case weekly:
			r.weekdays = []nthWeekday{{weekday: weekdayOf(r.start.day())}}
		default: // each day
		}
	}
	second := int(r.start.second())
	if r.hours == 0 && r.freq >= daily {
		r.hours = 1 << (second / secondsPerHour)
	}
	if r.minutes == 0 && r.freq >= hourly {
		r.minutes = 1 << (second / secondsPerMinute % 60)
	}
	if r.seconds == 0 {
		r.seconds = 1 << (second % secondsPerMinute)
	}
	r.clocks = r.clocksOf(r.hours)
}

// count turns COUNT into an UNTIL: from then on the rule can be searched from any time.
func (r *rrule) count() error {
	at, found := r.start-1, false
	for n := max(r.left, 1); n > 0; n-- {
		c, ok := r.next(at)
		if !ok {
			break
		}
		at, found = c, true
	}
	if !found {
		return &fault{"", "the rule never matches"}
	}
	if r.left > 0 {
		r.until = at
	}
	return nil
}

// start of a rule: with a date alone the rule is about whole days, which only exclusions may be.
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
