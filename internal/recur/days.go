package recur

import (
	"slices"
	"time"

	rrulego "github.com/teambition/rrule-go"
)

// dayFilter holds the parts of an RRULE that a day has to match, all of them. An empty list matches each day.
type dayFilter struct {
	months, monthDays, yearDays, weeks []int
	weekdays                           []int // from Monday
	wkst                               int   // the first day of the week, from Monday
}

func dayFilterOf(o *rrulego.ROption) dayFilter {
	f := dayFilter{months: o.Bymonth, monthDays: o.Bymonthday, yearDays: o.Byyearday, weeks: o.Byweekno, wkst: o.Wkst.Day()}
	for _, day := range o.Byweekday {
		f.weekdays = append(f.weekdays, day.Day())
	}
	return f
}

func (f *dayFilter) matches(day time.Time) bool {
	if len(f.months) > 0 && !slices.Contains(f.months, int(day.Month())) ||
		len(f.weekdays) > 0 && !slices.Contains(f.weekdays, fromMonday(day)) {
		return false
	}
	return (len(f.monthDays) == 0 || fromEitherEnd(f.monthDays, day.Day(), time.Date(day.Year(), day.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day())) &&
		(len(f.yearDays) == 0 || fromEitherEnd(f.yearDays, day.YearDay(), yearDays(day))) &&
		(len(f.weeks) == 0 || fromEitherEnd(f.weeks, f.week(day), f.weeksAround(day)))
}

// fromEitherEnd reports whether a list has a number, or its place counted back from the last one.
func fromEitherEnd(list []int, n, last int) bool {
	return slices.Contains(list, n) || slices.Contains(list, n-last-1)
}

func fromMonday(day time.Time) int { return (int(day.Weekday()) + 6) % 7 }

func yearDays(day time.Time) int {
	return time.Date(day.Year(), time.December, 31, 0, 0, 0, 0, time.UTC).YearDay()
}

// fourth returns the fourth day of a day's week. A week belongs to the year that has this day (RFC 5545, as ISO 8601).
func (f *dayFilter) fourth(day time.Time) time.Time {
	return day.AddDate(0, 0, 3-(fromMonday(day)-f.wkst+7)%7)
}

// week returns the number of a day's week in the year that the week belongs to.
func (f *dayFilter) week(day time.Time) int { return (f.fourth(day).YearDay()-1)/7 + 1 }

// weeksAround returns how many weeks that year has.
func (f *dayFilter) weeksAround(day time.Time) int {
	fourth := f.fourth(day)
	return (fourth.YearDay()-1)/7 + 1 + (yearDays(fourth)-fourth.YearDay())/7
}
