package recur

import (
	"slices"
	"sort"
	"sync/atomic"
	"time"

	rrulego "github.com/teambition/rrule-go"
)

// The library does not return from some rules for hours, and takes days of January for a week 52 or 53 that they are not in.
// So the rules here find their matches themselves. They hold nothing that a search depends on: COUNT is turned into an UNTIL.

// cachedRule keeps the stretch without a match that was found last.
type cachedRule struct {
	finder interface {
		next(after Civil, m *Meter) (Civil, bool)
	}
	gap atomic.Pointer[gap]
}

func (r *cachedRule) elapsing() bool { return false }

func (r *cachedRule) next(after Civil, m *Meter) (Civil, bool) {
	if g := r.gap.Load(); g != nil && after >= g.after && after < g.found {
		m.charge(1)
		return g.found, g.found < never
	}
	found, ok := r.finder.next(after, m)
	if m.Err() == nil {
		r.gap.Store(&gap{after, found})
	}
	return found, ok
}

// endOfCount returns the last match of a rule that has a number of them.
func endOfCount(find func(Civil, *Meter) (Civil, bool), start Civil, count int, m *Meter) Civil {
	last := start - 1
	for range count {
		at, ok := find(last, m)
		if !ok {
			break
		}
		last = at
	}
	return last
}

// A clockRule is an RRULE that goes by hours or minutes. It counts them on a clock without transitions, as RFC 5545 computes
// local times.
type clockRule struct {
	unit, interval, first int64 // of a period, in seconds; of the rule, in units; the unit of DTSTART
	start, until          Civil
	days                  dayFilter
	hours, minutes        []int   // those that a period may begin in; empty: all
	times                 []Civil // from the beginning of a period, in order
}

func newClockRule(o *rrulego.ROption, start, until Civil, m *Meter) *clockRule {
	r := &clockRule{unit: secondsPerHour, interval: int64(max(1, o.Interval)), start: start, until: until, days: dayFilterOf(o), hours: o.Byhour}
	full := explicit(*o, start)
	if o.Freq == rrulego.MINUTELY {
		r.unit, r.minutes, full.Byminute = secondsPerMinute, o.Byminute, []int{0}
	}
	r.first = floorDiv(int64(start), r.unit)
	r.times = atPositions(clocks([]int{0}, full.Byminute, full.Bysecond), o.Bysetpos)
	if len(r.times) == 0 || !r.hasPeriod() {
		r.until = start - 1 // it never matches, and no search has to find that out
	} else if o.Count > 0 {
		r.until = endOfCount(r.next, start, o.Count, m)
	}
	return r
}

// hasPeriod reports whether any period begins in one of the hours and minutes: they repeat within as many periods as a day has
// minutes.
func (r *clockRule) hasPeriod() bool {
	for n := range int64(secondsPerDay / secondsPerMinute) {
		if r.clockMatches(Civil((r.first + n*r.interval) * r.unit).time()) {
			return true
		}
	}
	return false
}

func (r *clockRule) clockMatches(at time.Time) bool {
	return r.hourMatches(at) && (len(r.minutes) == 0 || slices.Contains(r.minutes, at.Minute()))
}

func (r *clockRule) hourMatches(at time.Time) bool {
	return len(r.hours) == 0 || slices.Contains(r.hours, at.Hour())
}

// period returns the first period of the rule that does not begin before a time.
func (r *clockRule) period(c Civil) int64 {
	units := max(0, -floorDiv(-int64(c), r.unit)-r.first)
	return r.first - floorDiv(-units, r.interval)*r.interval
}

func (r *clockRule) next(after Civil, m *Meter) (Civil, bool) {
	from := max(after+1, r.start)
	// The period that from is in may have times left.
	for n := r.period(from - Civil(r.unit) + 1); m.charge(1); {
		begin := Civil(n * r.unit)
		if begin > r.until {
			break
		}
		switch at := begin.time(); {
		case !r.days.matches(at):
			n = r.period(begin.dayStart() + secondsPerDay)
		case !r.hourMatches(at):
			n = r.period(begin - begin%secondsPerHour + secondsPerHour)
		case !r.clockMatches(at):
			n += r.interval
		default:
			for _, time := range r.times {
				if c := begin + time; c >= from && c <= r.until {
					return c, true
				}
			}
			n += r.interval
		}
	}
	return never, false
}

// A weekRule is an RRULE with BYWEEKNO. Its periods are the years of the calendar: a year has the days that are in it, whatever
// year their week belongs to.
type weekRule struct {
	first, interval int64 // years
	start, until    Civil
	days            dayFilter
	clocks          []Civil
	positions       []int
	last            atomic.Pointer[yearTimes] // a search often continues in the same year
}

type yearTimes struct {
	year  int64
	times []Civil
}

func newWeekRule(o *rrulego.ROption, start, until Civil, m *Meter) *weekRule {
	full := explicit(*o, start)
	r := &weekRule{
		first: int64(start.time().Year()), interval: int64(max(1, o.Interval)), start: start, until: until,
		days: dayFilterOf(o), clocks: clocks(full.Byhour, full.Byminute, full.Bysecond), positions: o.Bysetpos,
	}
	if o.Count > 0 {
		r.until = endOfCount(r.next, start, o.Count, m)
	}
	return r
}

func (r *weekRule) next(after Civil, m *Meter) (Civil, bool) {
	from := max(after+1, r.start)
	years := int64(from.time().Year()) - r.first
	for year := r.first - floorDiv(-years, r.interval)*r.interval; year <= maxYear && m.Err() == nil; year += r.interval {
		times := r.in(year, m)
		if i := sort.Search(len(times), func(i int) bool { return times[i] >= from }); i < len(times) {
			return times[i], times[i] <= r.until
		}
	}
	return never, false
}

// in returns the times of a year.
func (r *weekRule) in(year int64, m *Meter) []Civil {
	if last := r.last.Load(); last != nil && last.year == year {
		m.charge(1)
		return last.times
	}
	var times []Civil
	begin := civilOf(int(year), time.January, 1)
	for day := begin; day < civilOf(int(year)+1, time.January, 1); day += secondsPerDay {
		if r.days.matches(day.time()) {
			for _, clock := range r.clocks {
				times = append(times, day+clock)
			}
		}
	}
	times = atPositions(times, r.positions)
	m.charge(366*int64(1+len(r.positions)) + int64(len(times)))
	r.last.Store(&yearTimes{year, times})
	return times
}

// clocks returns the times that hours, minutes and seconds name together, in order.
func clocks(hours, minutes, seconds []int) []Civil {
	var out []Civil
	for _, hour := range hours {
		for _, minute := range minutes {
			for _, second := range seconds {
				out = append(out, Civil(hour*secondsPerHour+minute*secondsPerMinute+second))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// atPositions returns the times that BYSETPOS names, which are counted from either end; all, if it names none.
func atPositions(times []Civil, positions []int) []Civil {
	if len(positions) == 0 {
		return times
	}
	var out []Civil
	for i, at := range times {
		if fromEitherEnd(positions, i+1, len(times)) {
			out = append(out, at)
		}
	}
	return out
}
