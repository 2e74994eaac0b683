package recur

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// naiveRule is an RRULE that is evaluated by looking at each minute, with nothing of the code that it checks.
type naiveRule struct {
	parts map[string]string
	start time.Time
}

func (n naiveRule) list(name string) []string {
	if n.parts[name] == "" {
		return nil
	}
	return strings.Split(n.parts[name], ",")
}

func (n naiveRule) number(name string, otherwise int) int {
	if v, err := strconv.Atoi(n.parts[name]); err == nil {
		return v
	}
	return otherwise
}

// named reports whether a list is absent, or has one of the numbers.
func (n naiveRule) named(name string, numbers ...int) bool {
	list := n.list(name)
	return list == nil || slices.ContainsFunc(numbers, func(one int) bool { return slices.Contains(list, strconv.Itoa(one)) })
}

var naiveDays = []string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}

// week returns the number of a day's week, and the one counted back from the year's last.
func (n naiveRule) week(day time.Time) (number, back int) {
	for naiveDays[day.Weekday()] != cmpOr(n.parts["WKST"], "MO") {
		day = day.AddDate(0, 0, -1)
	}
	year := func(begin time.Time) int { // the year that has most of the week
		in := map[int]int{}
		for i := range 7 {
			in[begin.AddDate(0, 0, i).Year()]++
		}
		for y, days := range in {
			if days >= 4 {
				return y
			}
		}
		panic("no year has four days of a week")
	}
	this := year(day)
	for at := day; year(at) == this; at = at.AddDate(0, 0, -7) {
		number++
	}
	for at := day; year(at) == this; at = at.AddDate(0, 0, 7) {
		back--
	}
	return number, back
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (n naiveRule) weekday(at time.Time) bool {
	list, name := n.list("BYDAY"), naiveDays[at.Weekday()]
	if list == nil || slices.Contains(list, name) {
		return true
	}
	first, last := time.Date(at.Year(), 1, 1, 0, 0, 0, 0, time.UTC), time.Date(at.Year(), 12, 31, 0, 0, 0, 0, time.UTC)
	if n.parts["FREQ"] == "MONTHLY" || n.parts["BYMONTH"] != "" {
		first = time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
		last = first.AddDate(0, 1, -1)
	}
	day := at.Truncate(24 * time.Hour)
	number, back := 1+int(day.Sub(first).Hours())/24/7, -1-int(last.Sub(day).Hours())/24/7
	return slices.Contains(list, strconv.Itoa(number)+name) || slices.Contains(list, strconv.Itoa(back)+name)
}

// dayMatches reports whether a time's day matches.
func (n naiveRule) dayMatches(at time.Time) bool {
	month, year := time.Date(at.Year(), at.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day(), time.Date(at.Year(), 12, 31, 0, 0, 0, 0, time.UTC).YearDay()
	if !n.named("BYMONTH", int(at.Month())) || !n.named("BYMONTHDAY", at.Day(), at.Day()-month-1) ||
		!n.named("BYYEARDAY", at.YearDay(), at.YearDay()-year-1) || !n.weekday(at) {
		return false
	}
	if n.parts["BYWEEKNO"] != "" {
		number, back := n.week(at.Truncate(24 * time.Hour))
		if !n.named("BYWEEKNO", number, back) {
			return false
		}
	}
	return true
}

// clockMatches reports whether a time of a day that matches does so.
func (n naiveRule) clockMatches(at time.Time) bool {
	hourly, minutely := n.parts["FREQ"] == "HOURLY", n.parts["FREQ"] == "MINUTELY"
	hour := n.named("BYHOUR", at.Hour()) && (n.parts["BYHOUR"] != "" || hourly || minutely || at.Hour() == n.start.Hour())
	return hour && n.named("BYMINUTE", at.Minute()) && (n.parts["BYMINUTE"] != "" || minutely || at.Minute() == n.start.Minute())
}

func (n naiveRule) period(at time.Time) int {
	switch n.parts["FREQ"] {
	case "YEARLY":
		return at.Year()
	case "MONTHLY":
		return at.Year()*12 + int(at.Month())
	case "HOURLY":
		return int(at.Unix() / 3600)
	default:
		return int(at.Unix() / 60)
	}
}

// times returns the times up to an end.
func (n naiveRule) times(end time.Time) []Civil {
	var out, set []Civil
	count := n.number("COUNT", 1<<30)
	flush := func() {
		for i, at := range set {
			if n.named("BYSETPOS", i+1, i-len(set)) && at >= Civil(n.start.Unix()) && len(out) < count {
				out = append(out, at)
			}
		}
		set = nil
	}
	first := n.period(n.start)
	begin := n.start.Truncate(time.Minute)
	if freq := n.parts["FREQ"]; freq == "YEARLY" {
		begin = time.Date(n.start.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
	} else if freq == "MONTHLY" {
		begin = time.Date(n.start.Year(), n.start.Month(), 1, 0, 0, 0, 0, time.UTC)
	} else {
		begin = begin.Truncate(time.Hour)
	}
	now, interval, today := first, n.number("INTERVAL", 1), n.dayMatches(begin)
	for at := begin; at.Before(end); at = at.Add(time.Minute) {
		if at.Hour() == 0 && at.Minute() == 0 {
			today = n.dayMatches(at)
		}
		if !today {
			continue
		}
		if p := n.period(at); p != now {
			flush()
			now = p
		}
		if (now-first)%interval == 0 && n.clockMatches(at) {
			set = append(set, Civil(at.Unix()+int64(n.start.Second())))
		}
	}
	flush()
	if until := n.parts["UNTIL"]; until != "" {
		last, _ := time.Parse("20060102", until)
		out = slices.DeleteFunc(out, func(c Civil) bool { return c >= Civil(last.AddDate(0, 0, 1).Unix()) })
	}
	return out
}

// ownRule returns a rule of a kind that the library does not evaluate, or not as it is written.
func ownRule(r *rand.Rand) string {
	kind := r.IntN(4)
	parts := []string{"FREQ=" + []string{"HOURLY", "MINUTELY", "YEARLY", "MONTHLY"}[kind]}
	may := func(of int) bool { return r.IntN(of) == 0 }
	list := func(name string, most int, of func() string) {
		var all []string
		for range 1 + r.IntN(most) {
			all = append(all, of())
		}
		slices.Sort(all)
		parts = append(parts, name+"="+strings.Join(slices.Compact(all), ","))
	}
	upTo := func(n int) func() string { return func() string { return strconv.Itoa(r.IntN(n)) } }
	from := func(high int) func() string {
		return func() string { return strconv.Itoa((1 + r.IntN(high)) * (1 - 2*(r.IntN(4)/3))) }
	}
	if may(2) {
		parts = append(parts, fmt.Sprintf("INTERVAL=%d", [][]int{{2, 3, 5, 6, 7, 24, 25, 100}, {2, 7, 15, 45, 90, 1440, 1441}, {2, 3, 5}, {2, 5, 12}}[kind][r.IntN(3)]))
	}
	if may(4) {
		parts = append(parts, fmt.Sprintf("COUNT=%d", 1+r.IntN(60)))
	} else if may(5) {
		parts = append(parts, fmt.Sprintf("UNTIL=20%02d0615", 26+r.IntN(3)))
	}
	if may(3) {
		parts = append(parts, "WKST="+naiveDays[r.IntN(7)])
	}
	if may(4) {
		list("BYMONTH", 4, func() string { return strconv.Itoa(1 + r.IntN(12)) })
	}
	day := func() string { return naiveDays[r.IntN(7)] }
	switch {
	case kind == 3 || kind == 2 && may(3): // both kinds of days together
		nth := from(5)
		all := []string{nth() + day(), day()}
		if may(2) {
			all = append(all, nth()+day(), day())
		}
		parts = append(parts, "BYDAY="+strings.Join(all, ","))
	case kind == 2:
		list("BYWEEKNO", 3, func() string {
			return []string{"1", "-1", "52", "-52", "53", "-53", "20"}[r.IntN(7)]
		})
		fallthrough
	default:
		if may(2) {
			list("BYDAY", 3, day)
		}
		if may(6) {
			list("BYYEARDAY", 4, from(366))
		}
	}
	if may(5) {
		list("BYMONTHDAY", 4, from(31))
	}
	if may(3) {
		list("BYHOUR", 3, upTo(24))
	}
	if may(3) {
		list("BYMINUTE", 3, upTo(60))
	}
	if may(4) {
		list("BYSETPOS", 2, from(3))
	}
	return strings.Join(parts, ";")
}

// TestOwnRulesAgainstEachMinute compares rules that are not the library's, and days with and without numbers, with an evaluation
// minute by minute.
func TestOwnRulesAgainstEachMinute(t *testing.T) {
	t.Parallel()
	zones, _ := embeddedZones(t)
	zone, err := zones.Load("UTC")
	if err != nil {
		t.Fatal(err)
	}
	rules, compared, found := 600, map[string]int{}, 0
	if testing.Short() {
		rules = 100
	}
	for seed := range uint64(rules) {
		random := rand.New(rand.NewPCG(seed, 36))
		text := ownRule(random)
		start := time.Date(2024+random.IntN(3), 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(random.IntN(366*24*60)) * time.Minute)
		// At the end of a period, so that BYSETPOS has the whole of it.
		end := time.Date(start.Year()+1, start.Month()+time.Month(random.IntN(12)), 1, 0, 0, 0, 0, time.UTC)
		if strings.Contains(text, "YEARLY") {
			end = time.Date(start.Year()+4, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		naive := naiveRule{parts: map[string]string{}, start: start}
		for part := range strings.SplitSeq(text, ";") {
			name, value, _ := strings.Cut(part, "=")
			naive.parts[name] = value
		}
		want := naive.times(end)
		r, err := parseRRule(text, Civil(start.Unix()), zone, nil)
		if err != nil {
			if len(want) > 0 && !strings.Contains(err.Error(), "BYSETPOS needs another part") {
				t.Errorf("seed %d, %s from %s: %v, but it has %s", seed, text, start, err, want[0])
			}
			continue
		}
		compared[naive.parts["FREQ"]]++
		found += len(want)
		var got []Civil
		for c, ok := r.next(minCivil-1, nil); ok && c < Civil(end.Unix()); c, ok = r.next(c, nil) {
			got = append(got, c)
		}
		if !slices.Equal(got, want) {
			i := 0
			for i < len(got) && i < len(want) && got[i] == want[i] {
				i++
			}
			t.Fatalf("seed %d, %s from %s: %d times, want %d; from number %d on %s, want %s", seed, text, start, len(got), len(want), i, got[i:min(len(got), i+3)], want[i:min(len(want), i+3)])
		}
		for range 20 { // from any time, in any order
			if len(want) == 0 {
				break
			}
			at := want[random.IntN(len(want))]
			if c, ok := r.next(at-1-Civil(random.IntN(2)*random.IntN(30)), nil); !ok || c > at {
				t.Fatalf("seed %d, %s from %s: %s is left out", seed, text, start, at)
			}
		}
	}
	for _, freq := range []string{"HOURLY", "MINUTELY", "YEARLY", "MONTHLY"} {
		if compared[freq] < rules/10 {
			t.Errorf("compared %d rules with FREQ=%s only", compared[freq], freq)
		}
	}
	if found < 50*rules {
		t.Errorf("compared %d times only", found)
	}
}

// TestWeek53: the years with 53 weeks are those of ISO 8601.
func TestWeek53(t *testing.T) {
	t.Parallel()
	f := dayFilter{}
	for day := minCivil; day <= maxCivil; day += secondsPerDay {
		at := day.time()
		_, want := at.ISOWeek()
		if got := f.week(at); got != want {
			t.Fatalf("%s is in week %d, want %d", day.Date(), got, want)
		}
		// 28 December is always in the last week.
		year, _ := at.ISOWeek()
		if _, last := time.Date(year, time.December, 28, 0, 0, 0, 0, time.UTC).ISOWeek(); f.weeksAround(at) != last {
			t.Fatalf("the year of %s has %d weeks, want %d", day.Date(), f.weeksAround(at), last)
		}
	}
}

// TestHourlyRulesAcrossTransitions: in each zone a time that exists fires once, in the first pass; the times of a gap are one
// beat, at its end. So an hourly rule leaves out no instant but those of the second pass.
func TestHourlyRulesAcrossTransitions(t *testing.T) {
	t.Parallel()
	zones, _ := embeddedZones(t)
	begin := civilOf(2025, time.September, 1)
	end := civilOf(2026, time.December, 1)
	transitions := 0
	for _, name := range []string{
		"Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Beirut", "America/Santiago", "America/Havana",
		"Antarctica/Troll", "Africa/Casablanca", "Europe/Dublin", "Pacific/Chatham", "America/St_Johns", "Asia/Gaza", "Asia/Kathmandu", "UTC",
	} {
		zone, err := zones.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"FREQ=HOURLY", "FREQ=HOURLY;INTERVAL=6", "FREQ=HOURLY;INTERVAL=5;BYMINUTE=0,30,45", "FREQ=MINUTELY;INTERVAL=20", "FREQ=MINUTELY;INTERVAL=50"} {
			start := begin + 9*secondsPerHour
			r, err := parseRRule(text, start, zone, nil)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			last := time.Time{}
			for c, ok := r.next(start-1, nil); ok && c < end; c, ok = r.next(c, nil) {
				at, mark := zone.Resolve(c)
				if mark != Plain {
					transitions++
				}
				if !at.Equal(last) {
					want = append(want, beatLine(Beat{Name: c.String() + "/1", Instant: at, Mark: mark}))
				}
				last = at
			}
			s := compile(t, Spec{Zone: name, RRules: []RRule{{Rule: text, Start: start.String()}}}, zones)
			limit, _ := zone.Resolve(end)
			var got []string
			var before Beat
			eachBeat(s, time.Unix(int64(begin)-2*secondsPerDay, 0), limit, func(b Beat) {
				got = append(got, beatLine(b))
				if text == "FREQ=HOURLY" && len(got) > 1 {
					if d := b.Instant.Sub(before.Instant); d <= 0 || d > 3*time.Hour || d != time.Hour && b.Mark == Plain && before.Mark == Plain && zone.Offset(b.Instant) == zone.Offset(before.Instant) {
						t.Errorf("%s: %s after %s", name, beatLine(b), beatLine(before))
					}
				}
				before = b
			})
			if !slices.Equal(got, want) {
				t.Errorf("%s, %s: %d beats, want %d", name, text, len(got), len(want))
			}
		}
	}
	if transitions < 50 {
		t.Errorf("%d times at transitions only", transitions)
	}
}
