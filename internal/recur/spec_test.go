package recur

import (
	"errors"
	"strings"
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
		{cron("0 24 * * *"), "cron[1]: the hour 24 is not in 0 to 23"},
		{cron("60 * * * *"), "cron[1]: the minute 60 is not in 0 to 59"},
		{cron("* * * * * *"), "cron[1]: the expression has 6 fields instead of 5"},
		{cron(""), "cron[1]: the expression has 0 fields instead of 5"},
		{cron("0 0 30 2 *"), "cron[1]: the expression never matches"},
		{cron("0 22-2 * * *"), `cron[1]: the range "22-2" runs backwards`},
		{cron("*/0 * * * *"), `cron[1]: the step "0" of the minute is not in 1 to 59`},
		{cron("1,,2 * * * *"), "cron[1]: a value of the minute is missing"},
		{cron("? * * * *"), `cron[1]: "?" is no minute`},
		{cron("0 0 * * MON#6"), `cron[1]: the number "6" after # is not in 1 to 5`},
		{cron("@reboot"), `cron[1]: "@reboot" is not one of @hourly`},
		{rule("FREQ=SECONDLY"), `rrules[0]: the FREQ "SECONDLY" is not one of MINUTELY`},
		{rule("FREQ=HOURLY;INTERVAL=24;BYHOUR=5"), "rrules[0]: the rule never matches"},
		{rule("FREQ=MINUTELY;INTERVAL=60;BYMINUTE=5"), "rrules[0]: the rule never matches"},
		{rule("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"), "rrules[0]: the rule never matches"},
		{rule("FREQ=DAILY;COUNT=1;UNTIL=20300101"), "rrules[0]: COUNT and UNTIL exclude each other"},
		{rule("FREQ=DAILY;BYEASTER=1"), `rrules[0]: "BYEASTER" is no part of a rule`},
		{Spec{Zone: "Local", Cron: []string{"@daily"}}, `zone: "Local" is not the name of a time zone`},
		{Spec{Zone: "../etc", Cron: []string{"@daily"}}, `zone: "../etc" is not the name of a time zone`},
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
	if got, err := s.Fill(text, b, 7, 1000); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if _, err := s.Fill(text, b, 7, len(want)-1); err == nil {
		t.Error("a result past the limit was not refused")
	}
	for _, bad := range []string{"{{x}}", "{{run", "{{ run }}"} {
		if err := CheckText("payload", bad); err == nil {
			t.Errorf("%s was not refused", bad)
		}
	}
}

// New rules for a zone, while a schedule is under way: no nominal time has two beats, and none is left out.
func TestChangedZoneRules(t *testing.T) {
	_, dir := embeddedZones(t)
	with := func(name string) *Zones {
		z := NewZones(dir)
		other, err := z.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		z.zones["Europe/Vienna"] = other
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
	f.Add("30 2 * * *", "FREQ=HOURLY;INTERVAL=5", "0 3 * * SUN", "Europe/Vienna", int64(1_774_700_000), int64(3600))
	f.Add("*/15 * 1 * MON", "FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1", "* 1-4 * * *", "Australia/Lord_Howe", int64(1_775_300_000), int64(0))
	f.Add("0 0 LW * 5L", "FREQ=YEARLY;BYWEEKNO=-1;BYDAY=SU", "0 0 29 2 *", "America/Havana", int64(1_762_000_000), int64(86_400))
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

func BenchmarkNext(b *testing.B) {
	zones, _ := embeddedZones(b)
	for name, spec := range map[string]Spec{
		"daily":    {Cron: []string{"30 2 * * *"}},
		"quarter":  {Cron: []string{"*/15 * * * *"}},
		"yearly":   {Cron: []string{"0 0 29 2 *"}},
		"jitter":   {Cron: []string{"0 9 * * 1-5"}, Jitter: time.Hour},
		"holidays": {Cron: []string{"0 9 * * *"}, Exclude: Exclusions{Calendars: []string{"AT"}, Cron: []string{"* * * * SAT,SUN"}}},
		"rrule":    {RRules: []RRule{{Rule: "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", Start: "2020-01-01T09:00:00"}}},
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
