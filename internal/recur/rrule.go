package recur

import (
	"math/bits"
	"time"
)

type frequency int

const (
	minutely frequency = iota
	hourly
	daily
	weekly
	monthly
	yearly
)

// rrule is a compiled RRULE. It goes by periods (the year, month, … minute that FREQ names): each is found by
// arithmetic from the start, so that a search begins where it is asked to, not at the start.
type rrule struct {
	freq      frequency
	interval  int64
	start     Civil
	until     Civil // inclusive
	hasUntil  bool
	left      int // COUNT, until it is counted
	weekStart int // Sunday = 0

	months    uint64
	weeks     []int
	yearDays  []int
	monthDays []int
	weekdays  []nthWeekday
	hours     uint64 // none: each
	minutes   uint64
	seconds   uint64 // one
	positions []int

	clocks []int64 // the seconds of a day, for FREQ=DAILY and slower
}

// An nthWeekday is a weekday, and which one of its period: 0 is each, -1 the last.
type nthWeekday struct{ weekday, n int }

// maxPeriods bounds a search. Rules that match within 200 years do so within far fewer periods, as the loops skip days and months
// that cannot match; what goes on for longer is taken for a rule that does not match again.
const maxPeriods = 300_000

func (r *rrule) elapsing() bool { return r.freq < daily }

// next returns the first match after a civil time, on a clock without transitions.
func (r *rrule) next(after Civil) (Civil, bool) {
	after = max(after, r.start-1)
	k := r.index(after)
	for range maxPeriods {
		at, ok := r.period(k)
		if !ok || at > r.until {
			return 0, false
		}
		if resume, skip := r.skip(at); skip {
			k = max(k+1, r.index(resume-1)+1)
			continue
		}
		if c, ok := r.find(at, after); ok {
			return c, c <= r.until
		}
		k++
	}
	return 0, false
}

// index returns the number of the last period that begins at or before a civil time, from 0.
func (r *rrule) index(at Civil) int64 {
	at = max(at, r.start)
	var n int64
	switch r.freq {
	case yearly:
		n = int64(at.time().Year() - r.start.time().Year())
	case monthly:
		n = monthsOf(at) - monthsOf(r.start)
	case weekly:
		n = (r.week(at.day()) - r.week(r.start.day())) / 7
	default:
		n = floorDiv(int64(at), r.unit()) - floorDiv(int64(r.start), r.unit())
	}
	return n / r.interval
}

// period returns the beginning of a period.
func (r *rrule) period(k int64) (Civil, bool) {
	n := k * r.interval
	var at Civil
	switch r.freq {
	case yearly:
		year := int64(r.start.time().Year()) + n
		if year > maxYear {
			return 0, false
		}
		at = civilOf(int(year), time.January, 1)
	case monthly:
		m := monthsOf(r.start) + n
		if m/12 > maxYear {
			return 0, false
		}
		at = civilOf(int(m/12), time.Month(m%12+1), 1)
	case weekly:
		at = Civil((r.week(r.start.day()) + 7*n) * secondsPerDay)
	default:
		at = Civil((floorDiv(int64(r.start), r.unit()) + n) * r.unit())
	}
	return at, at <= maxCivil
}

func monthsOf(at Civil) int64 {
	year, month, _ := at.time().Date()
	return int64(year)*12 + int64(month) - 1
}

// unit is the length of a period of a day or less.
func (r *rrule) unit() int64 {
	switch r.freq {
	case minutely:
		return secondsPerMinute
	case hourly:
		return secondsPerHour
	default:
		return secondsPerDay
	}
}

// week returns the first day of a day's week.
func (r *rrule) week(day int64) int64 {
	return day - int64((weekdayOf(day)-r.weekStart+7)%7)
}

// skip reports whether nothing can match from a period on, and until when.
func (r *rrule) skip(at Civil) (Civil, bool) {
	if r.freq > daily {
		return 0, false
	}
	year, month, _ := at.time().Date()
	if r.months != 0 && r.months>>month&1 == 0 {
		return civilOf(year, month+1, 1), true
	}
	if !r.matchesDay(at.day()) {
		return at.dayStart() + secondsPerDay, true
	}
	if hour := at.second() / secondsPerHour; r.freq < daily && r.hours != 0 && r.hours>>hour&1 == 0 {
		return at.dayStart() + Civil((hour+1)*secondsPerHour), true
	}
	if minute := at.second() / secondsPerMinute % 60; r.freq == minutely && r.minutes != 0 && r.minutes>>minute&1 == 0 {
		return at + secondsPerMinute, true
	}
	return 0, false
}

// find returns the first match of a period after a civil time.
func (r *rrule) find(at, after Civil) (Civil, bool) {
	clocks := r.clocks
	first, last := at.day(), at.day()
	year, month, _ := at.time().Date()
	switch r.freq {
	case yearly:
		last = civilOf(year+1, time.January, 1).day() - 1
	case monthly:
		last = first + int64(daysIn(year, month)) - 1
	case weekly:
		last = first + 6
	case hourly:
		clocks = r.clocksOf(1 << (at.second() / secondsPerHour))
	case minutely:
		clocks = []int64{at.second() + int64(bits.TrailingZeros64(r.seconds))}
	default: // a day
	}
	if len(r.positions) > 0 {
		return r.findPosition(first, last, clocks, after)
	}
	for day := max(first, after.day()); day <= last; day++ {
		if !r.matchesDay(day) {
			continue
		}
		for _, clock := range clocks {
			if c := Civil(day*secondsPerDay + clock); c > after {
				return c, true
			}
		}
	}
	return 0, false
}

// findPosition does so among those that BYSETPOS chooses.
func (r *rrule) findPosition(first, last int64, clocks []int64, after Civil) (Civil, bool) {
	var days []int64
	for day := first; day <= last; day++ {
		if r.matchesDay(day) {
			days = append(days, day)
		}
	}
	best, found := maxCivil, false
	for _, n := range r.positions {
		n-- // from 0
		if n < 0 {
			n += len(days)*len(clocks) + 1
		}
		if n < 0 || n >= len(days)*len(clocks) {
			continue
		}
		c := Civil(days[n/len(clocks)]*secondsPerDay + clocks[n%len(clocks)])
		if c > after && c <= best {
			best, found = c, true
		}
	}
	return best, found
}

func (r *rrule) clocksOf(hours uint64) []int64 {
	list := make([]int64, 0, bits.OnesCount64(hours)*bits.OnesCount64(r.minutes))
	for h := hours; h != 0; h &= h - 1 {
		for m := r.minutes; m != 0; m &= m - 1 {
			list = append(list, int64(bits.TrailingZeros64(h)*secondsPerHour+bits.TrailingZeros64(m)*secondsPerMinute+bits.TrailingZeros64(r.seconds)))
		}
	}
	return list
}

func (r *rrule) matchesDay(day int64) bool {
	date := Civil(day * secondsPerDay)
	year, month, number := date.time().Date()
	if r.months != 0 && r.months>>month&1 == 0 {
		return false
	}
	if len(r.yearDays) > 0 {
		if position, length := yearPosition(day, year); !counted(r.yearDays, position, length) {
			return false
		}
	}
	if len(r.monthDays) > 0 && !counted(r.monthDays, number, daysIn(year, month)) {
		return false
	}
	if len(r.weeks) > 0 && !r.matchesWeek(day) {
		return false
	}
	if len(r.weekdays) == 0 {
		return true
	}
	position, length := number, daysIn(year, month)
	if r.freq == yearly && r.months == 0 {
		position, length = yearPosition(day, year)
	}
	weekday := weekdayOf(day)
	for _, d := range r.weekdays {
		if d.weekday != weekday {
			continue
		}
		if d.n == 0 || d.n == (position+6)/7 || -d.n == (length-position)/7+1 {
			return true
		}
	}
	return false
}

func yearPosition(day int64, year int) (position, length int) {
	first := civilOf(year, time.January, 1).day()
	return int(day-first) + 1, int(civilOf(year+1, time.January, 1).day() - first)
}

// counted reports whether a list names a position from either end.
func counted(list []int, position, length int) bool {
	for _, n := range list {
		if n == position || n == position-length-1 {
			return true
		}
	}
	return false
}

// matchesWeek numbers weeks as ISO 8601 does, but for the weekday that begins them: the first week is the
// first that has four days of the year.
func (r *rrule) matchesWeek(day int64) bool {
	week := r.week(day)
	year := Civil((week + 3) * secondsPerDay).time().Year()
	first := r.week(civilOf(year, time.January, 4).day())
	after := r.week(civilOf(year+1, time.January, 4).day())
	return counted(r.weeks, int(week-first)/7+1, int(after-first)/7)
}

func (r *rrule) matches(at Civil) bool {
	c, ok := r.next(at - 1)
	return ok && c == at
}
