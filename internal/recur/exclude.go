package recur

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Exclusions name civil times and days without beats. A beat is excluded by its nominal civil time. For a beat that was
// shifted out of a gap, that is the civil time that does not exist.
type Exclusions struct {
	Cron      []string // each minute that matches
	RRules    []RRule  // each time that matches; whole days where Start is a date
	Dates     []string // 2026-12-25, or 2026-12-24..2027-01-06 with both ends
	Calendars []string // public holidays: see Calendars
}

// exclusions is a compiled Exclusions.
type exclusions struct {
	crons []*cron
	rules []rule
	whole []rule // of whole days
	days  []dayRange
}

type dayRange struct{ first, last int64 }

// after returns the end of the exclusion that covers a civil time, as far as it is known without a search, and false if the
// time is not excluded. Each rule that it evaluates counts as work.
func (x *exclusions) after(at Civil, w *work) (Civil, bool) {
	day := at.day()
	if i := sort.Search(len(x.days), func(i int) bool { return x.days[i].last >= day }); i < len(x.days) && x.days[i].first <= day {
		return Civil((x.days[i].last + 1) * secondsPerDay), true
	}
	w.left -= len(x.whole) + len(x.crons) + len(x.rules)
	for _, r := range x.whole {
		if matchesAt(r, at.dayStart(), w.meter) {
			return at.dayStart() + secondsPerDay, true
		}
	}
	for _, c := range x.crons {
		if c.matches(at, w.meter) {
			return c.through(at), true
		}
	}
	for _, r := range x.rules {
		if matchesAt(r, at, w.meter) {
			return at + 1, true
		}
	}
	return 0, false
}

func (b *builder) exclude(spec Exclusions) *exclusions {
	x := &exclusions{}
	b.bound("exclude.cron", len(spec.Cron), maxExclusions)
	b.bound("exclude.rrules", len(spec.RRules), maxRRules)
	b.bound("exclude.dates", len(spec.Dates), maxDates)
	b.bound("exclude.calendars", len(spec.Calendars), maxExclusions)
	if len(b.errs) > 0 {
		return x
	}
	for i, text := range spec.Cron {
		c, err := parseCron(text)
		b.note(fmt.Sprintf("exclude.cron[%d]", i), err)
		x.crons = append(x.crons, c)
	}
	for i, rule := range spec.RRules {
		r, whole, err := compileRRule(rule, b.zone, true, b.meter)
		b.note(fmt.Sprintf("exclude.rrules[%d]", i), err)
		if whole {
			x.whole = append(x.whole, r)
		} else {
			x.rules = append(x.rules, r)
		}
	}
	for i, text := range spec.Dates {
		r, err := parseDates(text)
		b.note(fmt.Sprintf("exclude.dates[%d]", i), err)
		x.days = append(x.days, r)
	}
	for i, name := range spec.Calendars {
		days, err := holidays(name)
		b.note(fmt.Sprintf("exclude.calendars[%d]", i), err)
		x.days = append(x.days, days...)
	}
	x.days = mergeDays(x.days)
	return x
}

func parseDates(text string) (dayRange, error) {
	first, last, isRange := strings.Cut(text, "..")
	if !isRange {
		last = first
	}
	from, err := parseCivil(dateLayout, first)
	if err != nil {
		return dayRange{}, &fault{"", "the date " + err.Error()}
	}
	to, err := parseCivil(dateLayout, last)
	if err != nil {
		return dayRange{}, &fault{"", "the date " + err.Error()}
	}
	if to < from {
		return dayRange{}, &fault{"", fmt.Sprintf("the range %s ends before it begins", quote(text))}
	}
	return dayRange{from.day(), to.day()}, nil
}

// mergeDays sorts the ranges and joins those that touch.
func mergeDays(list []dayRange) []dayRange {
	slices.SortFunc(list, func(a, b dayRange) int { return int(a.first - b.first) })
	merged := list[:0]
	for _, r := range list {
		if n := len(merged); n > 0 && r.first <= merged[n-1].last+1 {
			merged[n-1].last = max(merged[n-1].last, r.last)
		} else {
			merged = append(merged, r)
		}
	}
	return merged
}
