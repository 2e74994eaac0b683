package recur

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// cron is a compiled cron expression: a bit for each value that matches.
type cron struct {
	minutes uint64
	hours   uint32
	months  uint16

	days     uint32 // of the month
	workdays uint32 // 15W: the workday that is nearest to the 15th
	lastDay  bool   // L
	lastWork bool   // LW

	weekdays uint8    // Sunday = 0
	nth      [6]uint8 // MON#2: weekdays by their number in the month
	last     uint8    // 5L: the last Friday

	either  bool // a day matches by its number or by its weekday
	elapsed bool // the hour field moves with the clock: it has * or /
}

const (
	maxCronText = 256
	allMinutes  = 1<<60 - 1
	allHours    = 1<<24 - 1
	allWeekdays = 1<<7 - 1
)

var cronMacros = map[string]string{
	"@hourly":   "0 * * * *",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@weekly":   "0 0 * * 0",
	"@monthly":  "0 0 1 * *",
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
}

type cronField struct {
	name     string // for messages
	min, max int
	long     []string // names of the values, from min on; three letters are enough
}

var (
	minuteField  = cronField{name: "minute", max: 59}
	hourField    = cronField{name: "hour", max: 23}
	dayField     = cronField{name: "day of the month", min: 1, max: 31}
	monthField   = cronField{name: "month", min: 1, max: 12, long: []string{"JANUARY", "FEBRUARY", "MARCH", "APRIL", "MAY", "JUNE", "JULY", "AUGUST", "SEPTEMBER", "OCTOBER", "NOVEMBER", "DECEMBER"}}
	weekdayField = cronField{name: "day of the week", max: 7, long: []string{"SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY"}}
)

func parseCron(text string) (*cron, error) {
	if len(text) > maxCronText {
		return nil, &fault{"", fmt.Sprintf("the expression has more than %d bytes", maxCronText)}
	}
	text = strings.ToUpper(strings.TrimSpace(text))
	if strings.HasPrefix(text, "@") {
		macro, ok := cronMacros[strings.ToLower(text)]
		if !ok {
			return nil, &fault{"", quote(strings.ToLower(text)) + " is not one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually"}
		}
		text = macro
	}
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return nil, &fault{"", fmt.Sprintf("the expression has %d fields instead of 5 (minute, hour, day of the month, month, day of the week)", len(fields))}
	}
	c := &cron{elapsed: strings.ContainsAny(fields[1], "*/")}
	// As in cron: a field that begins with a star, as */2 does, restricts nothing on its own.
	c.either = !strings.HasPrefix(fields[2], "*") && fields[2] != "?" && !strings.HasPrefix(fields[4], "*") && fields[4] != "?"
	for i, read := range []func(string) error{
		func(item string) error { return setBits(minuteField, item, func(v int) { c.minutes |= 1 << v }) },
		func(item string) error { return setBits(hourField, item, func(v int) { c.hours |= 1 << v }) },
		c.readDay,
		func(item string) error { return setBits(monthField, item, func(v int) { c.months |= 1 << v }) },
		c.readWeekday,
	} {
		for item := range strings.SplitSeq(fields[i], ",") {
			if err := read(item); err != nil {
				return nil, err
			}
		}
	}
	if _, ok := c.next(minCivil - 1); !ok {
		return nil, &fault{"", "the expression never matches: no month that it names has such a day"}
	}
	return c, nil
}

func (c *cron) readDay(item string) error {
	switch {
	case item == "?":
		c.days = 1<<32 - 2
	case item == "L":
		c.lastDay = true
	case item == "LW":
		c.lastWork = true
	case strings.HasSuffix(item, "W"):
		day, err := dayField.value(strings.TrimSuffix(item, "W"))
		if err != nil {
			return err
		}
		c.workdays |= 1 << day
	default:
		return setBits(dayField, item, func(v int) { c.days |= 1 << v })
	}
	return nil
}

func (c *cron) readWeekday(item string) error {
	if item == "?" {
		c.weekdays = allWeekdays
		return nil
	}
	if item == "L" {
		return &fault{weekdayField.name, "L needs a day of the week before it, as in 5L or FRIL for the last Friday of a month"}
	}
	if day, number, found := strings.Cut(item, "#"); found {
		v, err := weekdayField.value(day)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > 5 || len(number) != 1 {
			return &fault{weekdayField.name, fmt.Sprintf("the number %s after # is not in 1 to 5", quote(number))}
		}
		c.nth[n] |= 1 << (v % 7)
		return nil
	}
	if day, found := strings.CutSuffix(item, "L"); found {
		if v, err := weekdayField.value(day); err == nil {
			c.last |= 1 << (v % 7)
			return nil
		}
	}
	return setBits(weekdayField, item, func(v int) { c.weekdays |= 1 << (v % 7) })
}

// setBits reads one item of a list: *, 5, 5-20, and each of them with /2.
func setBits(f cronField, item string, set func(int)) error {
	text, stepText, stepped := strings.Cut(item, "/")
	from, to, step := f.min, f.max, 1
	if f.name == weekdayField.name {
		to = 6
	}
	if first, last, isRange := strings.Cut(text, "-"); isRange {
		var err error
		if from, err = f.value(first); err != nil {
			return err
		}
		if to, err = f.value(last); err != nil {
			return err
		}
		// Sunday ends a week as well as it begins one.
		if f.name == weekdayField.name && to == 0 && from > 0 {
			to = 7
		}
		if from > to {
			return &fault{f.name, fmt.Sprintf("the range %s runs backwards; write two ranges", quote(text))}
		}
	} else if text != "*" {
		v, err := f.value(text)
		if err != nil {
			return err
		}
		from = v
		switch {
		case !stepped:
			to = v
		case v > to: // 7/2: Sunday
			from = f.min
		}
	}
	if stepped {
		n, err := strconv.Atoi(stepText)
		if err != nil || n < 1 || n > f.max || !digits(stepText) {
			return &fault{f.name, fmt.Sprintf("the step %s of the %s is not in 1 to %d", quote(stepText), f.name, f.max)}
		}
		step = n
	}
	for v := from; v <= to; v += step {
		set(v)
	}
	return nil
}

func digits(text string) bool {
	return text != "" && len(text) <= 4 && strings.Trim(text, "0123456789") == ""
}

func (f cronField) value(text string) (int, error) {
	for i, name := range f.long {
		if text == name || text == name[:3] {
			return f.min + i, nil
		}
	}
	if text == "" {
		return 0, &fault{f.name, fmt.Sprintf("a value of the %s is missing", f.name)}
	}
	if !digits(text) {
		return 0, &fault{f.name, fmt.Sprintf("%s is no %s", quote(text), f.name)}
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < f.min || v > f.max {
		return 0, &fault{f.name, fmt.Sprintf("the %s %s is not in %d to %d", f.name, text, f.min, f.max)}
	}
	return v, nil
}

func (c *cron) elapsing() bool { return c.elapsed }

// next returns the first match after a civil time, on a clock without transitions.
func (c *cron) next(after Civil) (Civil, bool) {
	from := max(minCivil, Civil((floorDiv(int64(after), secondsPerMinute)+1)*secondsPerMinute))
	if from > maxCivil {
		return 0, false
	}
	year, month, day := from.time().Date()
	clock, today := c.nextClock(int(from.second()) / secondsPerMinute)
	first := day
	if !today {
		first++ // perhaps past the month's end: then nothing is left of the month
	}
	for ; year <= maxYear; year++ {
		for ; month <= time.December; month++ {
			if c.months>>month&1 == 1 {
				if left := c.daysOf(year, month) >> first << first; left != 0 {
					found := bits.TrailingZeros32(left)
					if !today || found != day {
						clock, _ = c.nextClock(0)
					}
					return civilOf(year, month, found) + Civil(clock*secondsPerMinute), true
				}
			}
			first, today = 0, false
		}
		month = time.January
	}
	return 0, false
}

// nextClock returns the first matching minute of a day, from one on.
func (c *cron) nextClock(minute int) (int, bool) {
	hour := minute / 60
	if c.hours>>hour&1 == 1 {
		if left := c.minutes >> (minute % 60); left != 0 {
			return minute + bits.TrailingZeros64(left), true
		}
	}
	left := c.hours >> (hour + 1) << (hour + 1)
	if left == 0 {
		return 0, false
	}
	return bits.TrailingZeros32(left)*60 + bits.TrailingZeros64(c.minutes), true
}

// matches reports whether the minute of a civil time matches.
func (c *cron) matches(at Civil) bool {
	minute := int(at.second()) / secondsPerMinute
	if c.hours>>(minute/60)&1 == 0 || c.minutes>>(minute%60)&1 == 0 {
		return false
	}
	year, month, day := at.time().Date()
	return c.months>>month&1 == 1 && c.daysOf(year, month)>>day&1 == 1
}

// daysOf returns the days of a month that match, as bits 1 to 31.
func (c *cron) daysOf(year int, month time.Month) uint32 {
	length := daysIn(year, month)
	all := uint32(1)<<(length+1) - 2
	first := weekdayOf(civilOf(year, month, 1).day())

	byNumber := c.days & all
	if c.lastDay {
		byNumber |= 1 << length
	}
	if c.lastWork {
		byNumber |= 1 << nearestWorkday(length, length, first)
	}
	for left := c.workdays & all; left != 0; left &= left - 1 {
		byNumber |= 1 << nearestWorkday(bits.TrailingZeros32(left), length, first)
	}

	byWeekday := uint32(0)
	if c.weekdays == allWeekdays {
		byWeekday = all
	} else {
		for day := 1; day <= length; day++ {
			weekday := (first + day - 1) % 7
			if c.weekdays>>weekday&1 == 1 || c.nth[(day+6)/7]>>weekday&1 == 1 || day+7 > length && c.last>>weekday&1 == 1 {
				byWeekday |= 1 << day
			}
		}
	}
	if c.either {
		return byNumber | byWeekday
	}
	return byNumber & byWeekday
}

// nearestWorkday returns the day from Monday to Friday that is nearest to a day, in the same month.
func nearestWorkday(day, length, first int) int {
	switch weekday := (first + day - 1) % 7; {
	case weekday == 6 && day > 1:
		return day - 1
	case weekday == 6:
		return day + 2
	case weekday == 0 && day < length:
		return day + 1
	case weekday == 0:
		return day - 2
	default:
		return day
	}
}

// through returns the end of what matches without a hole around a civil time that matches.
func (c *cron) through(at Civil) Civil {
	switch {
	case c.minutes == allMinutes && c.hours == allHours:
		return at.dayStart() + secondsPerDay
	case c.minutes == allMinutes:
		return Civil((floorDiv(int64(at), secondsPerHour) + 1) * secondsPerHour)
	default:
		return Civil((floorDiv(int64(at), secondsPerMinute) + 1) * secondsPerMinute)
	}
}
