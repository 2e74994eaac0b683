package recur

import (
	"time"

	rrulego "github.com/teambition/rrule-go"
)

// periods are the days, weeks, months or years that an RRULE looks at one by one. An RRULE's matches
// in one period do not depend on those in another one, except by COUNT.
type periods struct {
	freq     rrulego.Frequency
	wkst     int64 // the first day of the week, from Monday
	first    int64 // the period of DTSTART
	interval int64
	cost     int64 // steps for the days of one period
	matches  int64 // at most, in one period: the library finds all of them before it returns the first
}

func periodsOf(o *rrulego.ROption, start Civil) periods {
	p := periods{freq: o.Freq, wkst: int64(o.Wkst.Day()), interval: int64(max(1, o.Interval))}
	p.first = p.of(start)
	days := map[rrulego.Frequency]int64{rrulego.YEARLY: 366, rrulego.MONTHLY: 31, rrulego.WEEKLY: 7}[o.Freq]
	p.cost = max(1, days) * int64(1+len(o.Bysetpos))
	p.matches = max(1, days) * int64(max(1, len(o.Byhour))*max(1, len(o.Byminute)))
	return p
}

// of returns the number of the period that a time is in.
func (p periods) of(c Civil) int64 {
	switch p.freq {
	case rrulego.YEARLY:
		return int64(c.time().Year())
	case rrulego.MONTHLY:
		t := c.time()
		return int64(t.Year())*12 + int64(t.Month()) - 1
	case rrulego.WEEKLY:
		return floorDiv(c.day()+3-p.wkst, 7) // 1970-01-01 was a Thursday
	default:
		return c.day()
	}
}

// begin returns the first second of a period.
func (p periods) begin(n int64) Civil {
	switch p.freq {
	case rrulego.YEARLY:
		return civilOf(int(n), time.January, 1)
	case rrulego.MONTHLY:
		return civilOf(int(floorDiv(n, 12)), time.Month(n-floorDiv(n, 12)*12)+1, 1)
	case rrulego.WEEKLY:
		return Civil((n*7 - 3 + p.wkst) * secondsPerDay)
	default:
		return Civil(n * secondsPerDay)
	}
}

// before returns the latest period of the rule that does not begin after a time. It returns false for
// the rule's first period, and times before it.
func (p periods) before(c Civil) (int64, bool) {
	k := floorDiv(p.of(c)-p.first, p.interval)
	return p.first + k*p.interval, k > 0
}

// steps returns what it costs to look from one time to another one.
func (p periods) steps(from, to Civil) int64 {
	return (max(0, p.of(to)-p.of(from))/p.interval + 1) * p.cost
}

// explicit returns an option that does not take any part of the rule from DTSTART.
func explicit(o rrulego.ROption, start Civil) rrulego.ROption {
	at := start.time()
	if len(o.Byweekno)+len(o.Byyearday)+len(o.Bymonthday)+len(o.Byweekday) == 0 {
		switch o.Freq {
		case rrulego.YEARLY:
			if len(o.Bymonth) == 0 {
				o.Bymonth = []int{int(at.Month())}
			}
			o.Bymonthday = []int{at.Day()}
		case rrulego.MONTHLY:
			o.Bymonthday = []int{at.Day()}
		case rrulego.WEEKLY:
			days := []rrulego.Weekday{rrulego.SU, rrulego.MO, rrulego.TU, rrulego.WE, rrulego.TH, rrulego.FR, rrulego.SA}
			o.Byweekday = days[at.Weekday() : at.Weekday()+1]
		default:
		}
	}
	if len(o.Byhour) == 0 {
		o.Byhour = []int{at.Hour()}
	}
	if len(o.Byminute) == 0 {
		o.Byminute = []int{at.Minute()}
	}
	if len(o.Bysecond) == 0 {
		o.Bysecond = []int{at.Second()}
	}
	return o
}
