package recur

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestCompileSaysWhatIsWrong(t *testing.T) {
	zones, _ := embeddedZones(t)
	cron := func(text string) Spec { return Spec{Cron: []string{"0 0 * * *", text}} }
	rule := func(text string) Spec {
		return Spec{RRules: []RRule{{Rule: text, Start: "2026-01-01T09:00:00"}}}
	}
	for _, one := range []struct {
		spec Spec
		want string
	}{
		{cron("0 24 * * *"), `cron[1]: the hour: end of range (24) above maximum (23): "24"`},
		{cron("60 * * * *"), "cron[1]: the minute: end of range (60) above maximum (59)"},
		{cron("* * * * * *"), "cron[1]: the expression has 6 fields instead of 5"},
		{cron(""), "cron[1]: the expression has 0 fields instead of 5"},
		{cron("TZ=Europe/Vienna 0 0 * * *"), "cron[1]: the expression has 6 fields instead of 5"},
		{cron("CRON_TZ=UTC 0 0 * *"), `cron[1]: the minute: "cron_tz=utc" has a character that no expression has`},
		{cron("0 0 30 2 *"), "cron[1]: the expression never matches"},
		{cron("0 0 31W,L-30 4,6 ?"), "cron[1]: the expression never matches"},
		{cron("*/0 * * * *"), `cron[1]: the minute: step of range must be a positive number: "*/0"`},
		{cron("*/ * * * *"), `cron[1]: the minute: the step is missing in "*/"`},
		{cron("*-5 * * * *"), `cron[1]: the minute: "*-5" is not * or */2`},
		{cron("1,,2 * * * *"), `cron[1]: the minute: a value is missing in "1,,2"`},
		{cron("? * * * *"), `cron[1]: the minute: "?" is not allowed here`},
		{cron("0 0 1,? * *"), `cron[1]: the day of the month: "1,?" is not allowed here`},
		{cron("H * * * *"), `cron[1]: the minute: "h" is not a number or a name of three letters`},
		{cron("0 0 L,LW,1W,2W,3W,4W * *"), "cron[1]: the day of the month: more than 5 values with L, W or #"},
		{cron("0 0 * * MON#6"), `cron[1]: the day of the week: occurrence must be 1-5, got 6 in "mon#6"`},
		{cron("0 0 * * monday"), `cron[1]: the day of the week: "monday" is not a number or a name of three letters`},
		{cron("0 0 * * 5L"), `cron[1]: the day of the week: "5l" is not a day; the last Friday of a month is FRI#L or 5#L`},
		{cron("0 0 * * SAT-MON/2"), "cron[1]: the day of the week: the range before the step is not in rising numbers"},
		{cron("@reboot"), `cron[1]: "@reboot" is not one of @hourly`},
		{cron("@every 1h"), `cron[1]: "@every 1h" is no cron expression: write the interval 3600s`},
		{rule("FREQ=HOURLY;INTERVAL=24;BYHOUR=5"), "rrules[0]: the rule never matches"},
		{rule("FREQ=MINUTELY;INTERVAL=2;BYMINUTE=1,3"), "rrules[0]: the rule never matches"},
		{rule("FREQ=HOURLY;BYMINUTE=0,30;BYSETPOS=3"), "rrules[0]: the rule never matches"},
		{rule("FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30"), "rrules[0]: the rule never matches"},
		{rule("FREQ=HOURLY;BYDAY=1MO"), "rrules[0]: a BYDAY with a number needs FREQ=MONTHLY or FREQ=YEARLY"},
		{rule("FREQ=SECONDLY;INTERVAL=30"), "rrules[0]: FREQ=SECONDLY is not served: use an interval of 10s or more"},
		{rule("DTSTART;TZID=Europe/Vienna:20270101T090000"), "rrules[0]: DTSTART is no part of a rule: it is the field start"},
		{rule("FREQ=YEARLY;BYWEEKNO=53;BYMONTH=6"), "rrules[0]: the rule never matches"},
		{rule("BYDAY=MO"), "rrules[0]: FREQ is missing"},
		{rule("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"), "rrules[0]: the rule never matches"},
		{rule("FREQ=DAILY;UNTIL=20251231"), "rrules[0]: the rule never matches"},
		{rule("FREQ=DAILY;COUNT=1;UNTIL=20300101"), "rrules[0]: COUNT and UNTIL exclude each other"},
		{rule("FREQ=DAILY;COUNT=10001"), "rrules[0]: the COUNT 10001 is not in 1 to 10000"},
		{rule("FREQ=DAILY;INTERVAL=0"), "rrules[0]: the INTERVAL 0 is not in 1 to 10000"},
		{rule("FREQ=DAILY;UNTIL=20261301"), `rrules[0]: the UNTIL "20261301" is not a time like 20261231`},
		{rule("FREQ=DAILY;BYEASTER=1"), `rrules[0]: "BYEASTER" is no part of a rule`},
		{rule("FREQ=DAILY;DTSTART=20260101T000000"), "rrules[0]: DTSTART is no part of a rule: it is the field start, in the schedule's time zone"},
		{rule("FREQ=DAILY;BYHOUR=9;BYHOUR=10"), `rrules[0]: "BYHOUR" is there twice`},
		{rule("FREQ=DAILY;BYHOUR=24"), `rrules[0]: "BYHOUR=24": byhour must be between 0 and 23`},
		{rule("FREQ=DAILY;BYHOUR=9;BYMINUTE=0," + strings.Repeat("1,", 59) + "2"), "rrules[0]: BYMINUTE has more than 60 values"},
		{rule("FREQ=DAILY;BYHOUR=1,2,3,4,5;BYMINUTE=1,2,3,4,5"), "rrules[0]: BYHOUR and BYMINUTE name more than 24 times of a day"},
		{rule("FREQ=DAILY;BYSECOND=0,30"), `rrules[0]: "BYSECOND=0,30" is not a BYSECOND such as 0`},
		{rule("FREQ=DAILY;BYSETPOS=1"), "rrules[0]: BYSETPOS needs another part whose name begins with BY"},
		{rule("FREQ=WEEKLY;BYDAY=1MO"), "rrules[0]: a BYDAY with a number needs FREQ=MONTHLY or FREQ=YEARLY"},
		{rule("FREQ=MONTHLY;BYDAY=53MO"), "rrules[0]: the number of a BYDAY counts in a month here, and is not in -5 to 5"},
		{rule("FREQ=YEARLY;BYWEEKNO=54"), `rrules[0]: "BYWEEKNO=54": byweekno must be between 1 and 53 or -1 and -53`},
		{Spec{Cron: []string{"@daily"}, Exclude: Exclusions{RRules: []RRule{{Rule: "FREQ=DAILY;BYHOUR=9", Start: "2026-01-01"}}}}, "exclude.rrules[0]: BYHOUR does not go with a start that is a date"},
		{Spec{Zone: "Local", Cron: []string{"@daily"}}, `zone: "Local" is the zone of whichever server reads it`},
		{Spec{Zone: "../etc", Cron: []string{"@daily"}}, `zone: "../etc" is not the name of a time zone`},
		{rule("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=1,2,3,4,5,6,7,8,9,10,11,12,13"), "rrules[0]: BYSETPOS has more than 12 values"},
		{Spec{RRules: make([]RRule, 6)}, "rrules: 6 are more than 5"},
		{Spec{Cron: []string{"@daily"}, Exclude: Exclusions{RRules: make([]RRule, 6)}}, "exclude.rrules: 6 are more than 5"},
		{Spec{}, "sources: there is no cron expression, RRULE or interval"},
		{Spec{Cron: make([]string, 21)}, "sources: 21 are more than 20"},
		{Spec{Intervals: []Interval{{Every: time.Second}}}, "intervals[0]: the interval 1s is not in 10s to 8784h0m0s"},
		{Spec{Cron: []string{"@daily"}, Exclude: Exclusions{Calendars: []string{"XX"}}}, `exclude.calendars[0]: "XX" is not the name of a holiday calendar`},
		{Spec{Cron: []string{"@daily"}, Exclude: Exclusions{Dates: []string{"2026-02-30"}}}, `exclude.dates[0]: the date "2026-02-30" is not a time like 2026-12-31`},
		{Spec{Cron: []string{"@daily"}, Exclude: Exclusions{Cron: []string{"* * * * *"}}}, "spec: the schedule never has a beat"},
		{Spec{Cron: []string{"* * * * *"}, Exclude: Exclusions{Cron: []string{"0-58 * * * *", "59 * * * *"}}}, "spec: the schedule never has a beat"},
	} {
		one.spec.ID = "s"
		if one.spec.Zone == "" {
			one.spec.Zone = "UTC"
		}
		_, err := Compile(one.spec, zones)
		var all Errors
		if !errors.As(err, &all) || !strings.HasPrefix(err.Error(), one.want) {
			t.Errorf("%+v: %v, want %s", one.spec, err, one.want)
		}
	}
}

func beats(t *testing.T, s *Schedule, after string, n int) []string {
	t.Helper()
	at, err := time.Parse(time.RFC3339, after)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	c := s.After(at)
	for range n {
		b, next, ok := s.Next(c)
		if !ok {
			break
		}
		list, c = append(list, beatLine(b)), next
	}
	return list
}

func TestOneInstantIsOneBeat(t *testing.T) {
	zones, _ := embeddedZones(t)
	s := compile(t, Spec{Zone: "Europe/Vienna", Cron: []string{"0 3 * * *", "30 2 * * *"}, Intervals: []Interval{{Every: time.Hour}, {Every: 2 * time.Hour}}}, zones)
	got := strings.Join(beats(t, s, "2026-03-29T00:30:00Z", 2), "\n")
	want := "2026-03-29T03:00:00/1 2026-03-29T01:00:00Z\ni:492986 2026-03-29T02:00:00Z"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestExclusions(t *testing.T) {
	zones, _ := embeddedZones(t)
	s := compile(t, Spec{Zone: "Europe/Vienna", Cron: []string{"0 9 * * *"}, Exclude: Exclusions{
		Cron: []string{"* * * * SAT,SUN"}, Dates: []string{"2026-12-28..2027-01-03"}, Calendars: []string{"AT"},
		RRules: []RRule{{Rule: "FREQ=YEARLY", Start: "2026-12-23"}},
	}}, zones)
	got := strings.Join(beats(t, s, "2026-12-22T00:00:00Z", 4), "\n")
	want := "2026-12-22T09:00:00/1 2026-12-22T08:00:00Z\n2026-12-24T09:00:00/1 2026-12-24T08:00:00Z\n" +
		"2027-01-04T09:00:00/1 2027-01-04T08:00:00Z\n2027-01-05T09:00:00/1 2027-01-05T08:00:00Z"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestExclusionsEnd checks that an exclusion ends where its minutes, hours, days and times end.
func TestExclusionsEnd(t *testing.T) {
	zones, _ := embeddedZones(t)
	for _, one := range []struct {
		exclude Exclusions
		want    string
	}{
		{Exclusions{}, "06T23:59 07T00:00 07T00:01"},
		{Exclusions{Cron: []string{"1 0 * * *"}}, "06T23:59 07T00:00 07T00:02"},
		{Exclusions{Cron: []string{"0-2 0 * * *"}}, "06T23:59 07T00:03 07T00:04"},
		{Exclusions{Cron: []string{"* 0 * * *"}}, "06T23:59 07T01:00 07T01:01"},
		{Exclusions{Cron: []string{"* 0-9 * * *", "0 10 * * *"}}, "06T23:59 07T10:01 07T10:02"},
		{Exclusions{Cron: []string{"* * 6 1 *"}}, "07T00:00 07T00:01 07T00:02"},
		{Exclusions{Dates: []string{"2026-01-07"}}, "06T23:59 08T00:00 08T00:01"},
		{Exclusions{Dates: []string{"2026-01-05..2026-01-07", "2026-01-08"}}, "09T00:00 09T00:01 09T00:02"},
		{Exclusions{Calendars: []string{"AT"}}, "07T00:00 07T00:01 07T00:02"},
		{Exclusions{RRules: []RRule{{Rule: "FREQ=DAILY;INTERVAL=2", Start: "2026-01-01"}}}, "06T23:59 08T00:00 08T00:01"},
		{Exclusions{RRules: []RRule{{Rule: "FREQ=DAILY;BYMINUTE=0,1", Start: "2026-01-01T00:00:00"}}}, "06T23:59 07T00:02 07T00:03"},
		{Exclusions{RRules: []RRule{{Rule: "FREQ=DAILY;UNTIL=20260106", Start: "2026-01-01T23:59:00"}}}, "07T00:00 07T00:01 07T00:02"},
		{Exclusions{RRules: []RRule{{Rule: "FREQ=DAILY;BYHOUR=0;UNTIL=20260106T230000Z", Start: "2026-01-01T00:00:00"}}}, "06T23:59 07T00:01 07T00:02"},
	} {
		s := compile(t, Spec{Zone: "Europe/Vienna", Cron: []string{"* * * * *"}, Exclude: one.exclude}, zones)
		var got []string
		for _, line := range beats(t, s, "2026-01-06T22:58:00Z", 3) {
			got = append(got, line[8:16])
		}
		if strings.Join(got, " ") != one.want {
			t.Errorf("%+v: %s, want %s", one.exclude, got, one.want)
		}
	}
}

// TestAStarInsideOfAListMatchesEachDay checks that only a field that begins with a star makes the
// day fields combine as in cron.
func TestAStarInsideOfAListMatchesEachDay(t *testing.T) {
	zones, _ := embeddedZones(t)
	for expression, want := range map[string]string{"0 9 1,* * MON": "2026-01-07T09:00:00/1", "0 9 *,1 * MON": "2026-01-12T09:00:00/1"} {
		if got := beats(t, compile(t, Spec{Cron: []string{expression}}, zones), "2026-01-06T12:00:00Z", 1)[0]; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", expression, got, want)
		}
	}
}

func TestAStepMakesAnHourFieldElapsed(t *testing.T) {
	zones, _ := embeddedZones(t)
	got := beats(t, compile(t, Spec{Zone: "Europe/Vienna", Cron: []string{"0 0-22/2 * * *"}}, zones), "2026-10-25T00:00:00Z", 1)
	if want := "2026-10-25T02:00:00/2 2026-10-25T01:00:00Z REPEATED"; got[0] != want {
		t.Errorf("%s, want %s", got[0], want)
	}
}

// TestGoroutinesShareASchedule checks that concurrent searches at different times do not affect
// each other.
func TestGoroutinesShareASchedule(t *testing.T) {
	zones, _ := embeddedZones(t)
	spec := Spec{Cron: []string{"0 3 * * MON"}, RRules: []RRule{{Rule: "FREQ=DAILY", Start: "2020-01-01T09:00:00"}}, Exclude: Exclusions{Cron: []string{"* * 13 * *"}, RRules: []RRule{{Rule: "FREQ=MONTHLY", Start: "2020-01-01"}}}}
	after := []string{"2020-01-01T00:00:00Z", "2022-01-01T00:00:00Z", "2024-01-01T00:00:00Z"}
	got := make([][]string, len(after))
	shared := compile(t, spec, zones)
	var all sync.WaitGroup
	for i := range after {
		all.Go(func() { got[i] = beats(t, shared, after[i], 600) })
	}
	all.Wait()
	for i := range after {
		if want := beats(t, compile(t, spec, zones), after[i], 600); len(want) != 600 || !slices.Equal(got[i], want) {
			t.Errorf("the beats after %s differ from those of a schedule that is not shared", after[i])
		}
	}
}

// TestRareTimesAreFound checks times that are beyond the library's own bounds.
func TestRareTimesAreFound(t *testing.T) {
	zones, _ := embeddedZones(t)
	for _, one := range []struct{ expression, want string }{
		{"0 0 29 2 *", "2104-02-29T00:00:00/1"},
		{"0 0 29 2 */7", "2128-02-29T00:00:00/1"},
	} {
		got, _, _ := compile(t, Spec{Cron: []string{one.expression}}, zones).Next(Cursor{positions: []position{{civil: civilOf(2096, 3, 1), pass: 1}}})
		if got.Name != one.want {
			t.Errorf("%s: %s, want %s", one.expression, got.Name, one.want)
		}
	}
	last := compile(t, Spec{RRules: []RRule{{Rule: "FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=31", Start: "1970-01-01T23:59:00"}}}, zones)
	got := beats(t, last, "2198-12-31T23:59:00Z", 2)
	if len(got) != 1 || got[0] != "2199-12-31T23:59:00/1 2199-12-31T23:59:00Z" {
		t.Errorf("the last beats are %s", got)
	}
}

func TestADayThatDoesNotExist(t *testing.T) {
	zones, _ := embeddedZones(t)
	s := compile(t, Spec{Zone: "Pacific/Apia", Cron: []string{"0 9,10 * * *"}}, zones)
	got := strings.Join(beats(t, s, "2011-12-30T00:00:00Z", 2), "\n")
	if want := "2011-12-30T09:00:00/1 2011-12-30T10:00:00Z SHIFTED\n2011-12-31T09:00:00/1 2011-12-30T19:00:00Z"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestFill(t *testing.T) {
	zones, _ := embeddedZones(t)
	s := compile(t, Spec{ID: "nightly", Zone: "Europe/Vienna", Cron: []string{"30 2 * * *"}}, zones)
	b, _, _ := s.Next(s.After(time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)))
	text := "{{schedule_id}} {{nominal_date}} {{nominal_time}} {{instant}} {{zone}} {{run}} {{{{run}} {x}}"
	want := "nightly 2026-03-29 2026-03-29T02:30:00 2026-03-29T01:00:00Z Europe/Vienna 7 {{run}} {x}}"
	plain := func(value string) string { return value }
	if got, err := s.Fill(text, b, 7, 1000, plain); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if _, err := s.Fill(text, b, 7, len(want)-1, plain); err == nil {
		t.Error("a result past the limit was not refused")
	}
	quoted := func(value string) string { return "<" + value + ">" }
	if got, err := s.Fill("{{zone}} {{{{ {{run}}", b, 7, 1000, quoted); err != nil || got != "<Europe/Vienna> {{ <7>" {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"{{x}}", "{{run", "{{ run }}"} {
		if err := CheckText("payload", bad); err == nil {
			t.Errorf("%s was not refused", bad)
		}
	}
}

// TestChangedZoneRules changes the rules of a zone while a schedule is in use: no nominal time may have two beats, and none
// may be left out.
func TestChangedZoneRules(t *testing.T) {
	_, dir := embeddedZones(t)
	with := func(name string) *Zones {
		z := NewZones(dir)
		other, err := z.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		z.zones.Put("Europe/Vienna", other)
		return z
	}
	for _, change := range [][2]string{{"Europe/Vienna", "UTC"}, {"UTC", "Europe/Vienna"}, {"Europe/Vienna", "America/New_York"}, {"Australia/Lord_Howe", "Europe/Vienna"}} {
		spec := Spec{Zone: "Europe/Vienna", Cron: []string{"0,30 * * * *", "15 2 * * *"}}
		old, changed := compile(t, spec, with(change[0])), compile(t, spec, with(change[1]))
		for _, day := range []string{"2026-03-28T12:00:00Z", "2026-10-24T12:00:00Z"} {
			for n := 1; n < 60; n++ {
				at, _ := time.Parse(time.RFC3339, day)
				c := old.After(at)
				seen := map[Civil]int{}
				var b Beat
				var first Civil
				for i := range 120 {
					s := old
					if i >= n {
						s = changed
					}
					if i == n {
						text, _ := c.MarshalJSON()
						var err error
						if c, err = s.ParseCursor(text); err != nil {
							t.Fatal(err)
						}
					}
					var ok bool
					if b, c, ok = s.Next(c); !ok {
						t.Fatal("no beat")
					}
					if i == 0 {
						first = b.Civil
					}
					if strings.HasSuffix(b.Name, "/1") {
						seen[b.Civil]++
					}
				}
				for civil := first; civil < b.Civil; civil += 1800 {
					_, mark := changed.zone.Resolve(civil)
					_, before := old.zone.Resolve(civil)
					if seen[civil] == 0 && mark != Shifted && before != Shifted {
						t.Errorf("%v after %d: %s has no beat", change, n, civil)
					}
				}
			}
		}
	}
}

func FuzzSchedule(f *testing.F) {
	zones, _ := embeddedZones(f)
	f.Add("30 2 * * *", "FREQ=DAILY;INTERVAL=5;BYHOUR=2,3", "0 3 * * SUN", "Europe/Vienna", int64(1_774_700_000), int64(3600))
	f.Add("*/15 * 1 * MON", "FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1", "* 1-4 * * *", "Australia/Lord_Howe", int64(1_775_300_000), int64(0))
	f.Add("0 0 29 2 *", "FREQ=HOURLY;INTERVAL=5;BYMINUTE=0,30", "* 1-2 * * *", "Australia/Lord_Howe", int64(1_775_300_000), int64(60))
	f.Add("0 0 LW,L-3 * 5#L,FRI-SUN", "FREQ=YEARLY;BYWEEKNO=-1;BYDAY=SU", "0 0 29 2 *", "America/Havana", int64(1_762_000_000), int64(86_400))
	f.Fuzz(func(t *testing.T, cron, rule, exclude, zone string, at, jitter int64) {
		spec := Spec{ID: "s", Zone: zone, Cron: []string{cron}, RRules: []RRule{{Rule: rule, Start: "2026-01-01T02:30:00"}}, Exclude: Exclusions{Cron: []string{exclude}}, Jitter: time.Duration(jitter%86_401) * time.Second}
		s, err := Compile(spec, zones)
		if err != nil {
			return
		}
		start := time.Unix(at, 0)
		c, last, fire, names := s.After(start), start, start, map[string]bool{}
		for range 40 {
			text, _ := c.MarshalJSON()
			again, err := s.ParseCursor(text)
			if err != nil {
				t.Fatalf("cursor %s: %v", text, err)
			}
			b, next, ok := s.Next(again)
			if !ok {
				return
			}
			if !b.Instant.After(last) || b.Fire.Before(b.Instant) || len(names) > 0 && !b.Fire.After(fire) || names[b.Name] {
				t.Fatalf("%+v: %+v after %s, fire %s", spec, b, last, fire)
			}
			if seen, _, _ := s.Next(s.After(b.Instant.Add(-time.Second))); seen.Name != b.Name {
				t.Fatalf("%+v: After finds %s instead of %s", spec, seen.Name, b.Name)
			}
			c, last, fire, names[b.Name] = next, b.Instant, b.Fire, true
		}
	})
}

// FuzzRules checks that for any text, the libraries neither panic nor go back in time.
func FuzzRules(f *testing.F) {
	zones, _ := embeddedZones(f)
	zone, err := zones.Load("Europe/Vienna")
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{
		"FREQ=YEARLY;BYWEEKNO=1,-1,51;BYMONTH=12;BYDAY=SU;WKST=SU;BYSETPOS=-1", "FREQ=MONTHLY;BYDAY=-5MO,5TU;BYMONTHDAY=-31,31;INTERVAL=7",
		"FREQ=YEARLY;BYDAY=53MO,-53SU;BYYEARDAY=-366,366;BYHOUR=0,23;BYMINUTE=1,1", "FREQ=WEEKLY;COUNT=9;INTERVAL=10000;BYSECOND=59", "FREQ=DAILY;UNTIL=21991231T235959Z",
		"FREQ=HOURLY;INTERVAL=9999;BYMINUTE=0,59;BYSETPOS=-1;COUNT=10000", "FREQ=MINUTELY;INTERVAL=7;BYHOUR=0;BYMINUTE=0;BYDAY=TU;BYYEARDAY=-1,366",
		"FREQ=YEARLY;BYWEEKNO=53,-53;BYDAY=FR;INTERVAL=2;COUNT=9", "FREQ=YEARLY;BYMONTH=2;BYDAY=MO,5TU,-1WE", "FREQ=MONTHLY;BYDAY=2MO,FR;BYSETPOS=2;",
		"50-10/5 22-2 L-30,LW,1W,31W 11-2/3 *", "0 */7 1-31/30 jan-dec 5#l,0#5,7", "0-59,* ? ? ? FRI-SUN", "@hourly",
	} {
		f.Add(text, int64(1_774_700_000))
	}
	f.Fuzz(func(t *testing.T, text string, at int64) {
		from := Civil(at % int64(maxCivil))
		var found rule
		if c, err := parseCron(text); err == nil {
			found = c
		} else if r, err := parseRRule(text, max(from, minCivil), zone, nil); err == nil {
			found = r
		} else {
			return
		}
		for range 20 {
			c, ok := found.next(from, nil)
			if !ok {
				return
			}
			if again, _ := found.next(c-1, nil); c <= from || again != c {
				t.Fatalf("%s: %s after %s, and %s just before it", text, c, from, again)
			}
			from = c
		}
	})
}

func BenchmarkNext(b *testing.B) {
	zones, _ := embeddedZones(b)
	for name, spec := range map[string]Spec{
		"daily":    {Cron: []string{"30 2 * * *"}},
		"quarter":  {Cron: []string{"*/15 * * * *"}},
		"yearly":   {Cron: []string{"0 0 29 2 *"}},
		"jitter":   {Cron: []string{"0 9 * * 1-5"}, Jitter: time.Hour},
		"holidays": {Cron: []string{"0 9 * * *"}, Exclude: Exclusions{Calendars: []string{"AT"}, Cron: []string{"* * * * SAT,SUN"}}},
		"rrule":    {RRules: []RRule{{Rule: "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", Start: "2020-01-01T09:00:00"}}},
		"old":      {RRules: []RRule{{Rule: "FREQ=DAILY;BYHOUR=9,17", Start: "1996-01-01T09:00:00"}}},
	} {
		b.Run(name, func(b *testing.B) {
			spec.Zone = "Europe/Vienna"
			s := compile(b, spec, zones)
			from := s.After(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			c := from
			for b.Loop() {
				_, next, ok := s.Next(c)
				if c = next; !ok {
					c = from
				}
			}
		})
	}
}

// BenchmarkCompile measures the search for a time that never comes, and the walk from a start long ago.
func BenchmarkCompile(b *testing.B) {
	zones, _ := embeddedZones(b)
	zone, err := zones.Load("UTC")
	if err != nil {
		b.Fatal(err)
	}
	for _, rule := range []string{
		"FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "FREQ=WEEKLY;BYMONTH=2;BYDAY=MO;BYSETPOS=9", "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30",
		"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;BYSETPOS=1,2,3,4,5,6,7,8,9,10,11,12",
		"FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30", "FREQ=MINUTELY;BYYEARDAY=1,2,3;BYMONTHDAY=30", "FREQ=MINUTELY;INTERVAL=7;BYHOUR=0;BYMINUTE=0;BYMONTHDAY=31;BYMONTH=11",
		"FREQ=YEARLY;BYWEEKNO=53;BYMONTH=6",
	} {
		b.Run(rule, func(b *testing.B) {
			for b.Loop() {
				if _, err := parseRRule(rule, minCivil, zone, nil); err == nil {
					b.Fatal("not refused")
				}
			}
		})
	}
	for _, expression := range []string{"0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 31W,31W,31W,31W,31W 2,4,6,9,11 ?"} {
		b.Run(expression, func(b *testing.B) {
			for b.Loop() {
				if _, err := parseCron(expression); err == nil {
					b.Fatal("not refused")
				}
			}
		})
	}
	for _, rule := range []string{"FREQ=DAILY", "FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23", "FREQ=WEEKLY;BYDAY=MO,TU"} {
		b.Run("30 years of "+rule, func(b *testing.B) {
			from, to := civilOf(1996, 1, 1), civilOf(2026, 1, 1)
			for b.Loop() {
				r, err := parseRRule(rule, from, zone, nil)
				if err != nil {
					b.Fatal(err)
				}
				r.next(to, nil)
			}
		})
	}
}
