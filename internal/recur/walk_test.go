package recur

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	rrulego "github.com/teambition/rrule-go"
)

// anyRule returns a rule that is often valid.
func anyRule(r *rand.Rand) string {
	freq := r.IntN(4)
	parts := []string{"FREQ=" + []string{"DAILY", "WEEKLY", "MONTHLY", "YEARLY"}[freq]}
	numbers := func(name string, most, low, high int, signed bool) {
		var list []string
		for range 1 + r.IntN(most) {
			n := low + r.IntN(high-low+1)
			if signed && n != 0 && r.IntN(3) == 0 {
				n = -n
			}
			list = append(list, fmt.Sprint(n))
		}
		slices.Sort(list)
		parts = append(parts, name+"="+strings.Join(slices.Compact(list), ","))
	}
	may := func(of int) bool { return r.IntN(of) == 0 }
	if may(2) {
		parts = append(parts, fmt.Sprintf("INTERVAL=%d", []int{2, 3, 4, 5, 7, 12, 13, 52, 100, 400, 1000, 9999}[r.IntN(12)]))
	}
	if may(4) {
		parts = append(parts, fmt.Sprintf("COUNT=%d", 1+r.IntN(3000)))
	} else if may(6) {
		parts = append(parts, fmt.Sprintf("UNTIL=%d0615", 1980+r.IntN(220)))
	}
	if may(3) {
		parts = append(parts, "WKST="+[]string{"MO", "TU", "WE", "TH", "FR", "SA", "SU"}[r.IntN(7)])
	}
	if may(3) {
		numbers("BYMONTH", 3, 1, 12, false)
	}
	if freq == 3 && may(3) {
		numbers("BYWEEKNO", 3, 1, 51, true) // the library is wrong about 52 and 53
	}
	if freq == 3 && may(4) {
		numbers("BYYEARDAY", 4, 1, 366, true)
	}
	if freq != 1 && may(3) {
		numbers("BYMONTHDAY", 3, 1, 31, true)
	}
	if may(2) {
		number := ""
		if freq >= 2 && may(2) {
			number = []string{"1", "-1", "5", "-5", "2"}[r.IntN(5)]
		}
		days := []string{"MO", "TU", "WE", "TH", "FR", "SA", "SU"}
		r.Shuffle(7, func(i, j int) { days[i], days[j] = days[j], days[i] })
		parts = append(parts, "BYDAY="+number+strings.Join(days[:1+r.IntN(4)], ","+number))
	}
	if may(3) {
		numbers("BYHOUR", 6, 0, 23, false)
	}
	if may(4) {
		numbers("BYMINUTE", 3, 0, 59, false)
	}
	if may(4) {
		numbers("BYSETPOS", 3, 1, []int{3, 10, 366}[r.IntN(3)], true)
	}
	return strings.Join(parts, ";")
}

// TestWalksAgreeWithTheLibrary: walks that start at a later period find the matches that the library finds from DTSTART.
func TestWalksAgreeWithTheLibrary(t *testing.T) {
	t.Parallel()
	zones, _ := embeddedZones(t)
	zone, err := zones.Load("UTC")
	if err != nil {
		t.Fatal(err)
	}
	const rules = 400 // 3,000 found no more
	compared := 0
	for seed := range uint64(rules) {
		random := rand.New(rand.NewPCG(seed, 1))
		text, start := anyRule(random), minCivil+Civil(random.Int64N(60*365*secondsPerDay))
		r, err := parseRRule(text, start, zone, nil)
		if err != nil {
			continue
		}
		compared++
		want := libraryTimes(t, r, text, start)
		for range 40 {
			after := start + Civil(random.Int64N(int64(maxCivil-start)+secondsPerDay)) - secondsPerDay
			if len(want) > 0 && random.IntN(2) == 0 {
				after = want[random.IntN(len(want))] - Civil(random.IntN(2))
			}
			for range 1 + random.IntN(4) { // and on from there
				i, _ := slices.BinarySearch(want, after+1)
				got, ok := r.next(after, nil)
				if ok != (i < len(want)) || ok && got != want[i] {
					if len(want) == mostTimes && i >= len(want)-1 {
						break // further than the library was asked
					}
					t.Fatalf("seed %d, %s from %s: after %s got %s %v", seed, text, start, after, got, ok)
				}
				if !ok {
					break
				}
				after = got
			}
		}
	}
	if compared < rules/3 {
		t.Errorf("compared %d rules of %d", compared, rules)
	}
}

const mostTimes = 100_000

// libraryTimes returns the library's matches of a rule from DTSTART.
func libraryTimes(t *testing.T, r rule, text string, start Civil) []Civil {
	t.Helper()
	var option rrulego.ROption
	if library, is := r.(*rrule); is {
		option = library.rule.OrigOptions
		option.Until = toRule(library.until)
	} else {
		// Our own: the library gets the rule as it was written.
		var kept []string
		for part := range strings.SplitSeq(text, ";") {
			if !strings.HasPrefix(part, "UNTIL=") {
				kept = append(kept, part)
			}
		}
		parsed, err := rrulego.StrToROption(strings.Join(kept, ";"))
		if err != nil {
			t.Fatal(err)
		}
		option = *parsed
		option.Dtstart, option.Until = toRule(start), toRule(maxCivil)
		if option.Count == 0 {
			option.Until = toRule(r.(*cachedRule).finder.(*weekRule).until)
		}
	}
	rule, _ := rrulego.NewRRule(option)
	var times []Civil
	for walk := rule.Iterator(); len(times) < mostTimes; {
		at, ok := walk()
		if !ok {
			break
		}
		times = append(times, Civil(at.Unix())-rruleShift)
	}
	return times
}
