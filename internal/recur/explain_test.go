package recur

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

// TestForeignCron: expressions of other programs are refused with what to write, which is taken.
func TestForeignCron(t *testing.T) {
	t.Parallel()
	written := regexp.MustCompile(`[:;] write ([0-9*]\S* \S+ \S+ \S+ \S+)$`)
	for text, want := range map[string]string{
		"@every 5m":              "write the interval 300s",
		"@every 1h30m":           "write the interval 5400s",
		"@every 5 minutes":       "write an interval",
		"@every 1s":              "write an interval",
		"@noon":                  "write 0 12 * * *",
		"@quarterly":             "write 0 0 1 */3 *",
		"@weekdays":              "write 0 0 * * MON-FRI",
		"@minutely":              "write * * * * *",
		"@reboot":                "does not start with a machine",
		"@sometimes":             "@annually",
		"0 0 9 * * *":            "seconds are not served; write 0 9 * * *",
		"0 0 9 ? * MON-FRI":      "seconds are not served; write 0 9 ? * MON-FRI",
		"0 0 9 ? * 2-6":          "days of the week by their names",
		"0 0 9 * * ? *":          "years are not served; write 0 9 * * ?",
		"0 0 9 * * ? 2027":       "write start_time and end_time",
		"0 9 ? * MON-FRI *":      "years are not served; write 0 9 ? * MON-FRI",
		"0 9 ? * MON 2027-2028":  "write start_time and end_time",
		"cron(0 9 * * ? *)":      "years are not served; write 0 9 * * ?",
		"cron(0 9 * * ?)":        "write what is in its parentheses",
		"rate(5 minutes)":        "write an interval",
		"*/15 * * * * *":         "write an interval of 10s or more",
		"CRON_TZ=UTC 0 9 * * *":  "time_zone",
		"0 9 * * * Europe/Paris": "leave out what is no field",
		"0, 30 9 * * *":          "a list has no blanks",
		"09:05":                  "write 5 9 * * *",
		"9:00":                   "write 0 9 * * *",
		"0 9 * *":                "has 4 fields",
		"0 9 * * Monday":         "write MON",
		"0 9 * * MO":             "write MON",
		"0 9 * * tues":           "write TUE",
		"0 9 * * T":              "not a number or a name of three letters",
		"0 9 * SEPT *":           "write SEP",
		"0 9 1 january *":        "write JAN",
		"0 9 1 ma *":             "not a number or a name of three letters",
		"H 9 * * *":              "set jitter",
		"0~30 9 * * *":           "set jitter",
		"-5 * * * *":             `a number is missing in "-5"`,
		"5- * * * *":             `a number is missing in "5-"`,
		"0 9 W * *":              "is not L, L-3, LW or 15W",
		"0 9 WL * *":             "is not L, L-3, LW or 15W",
		"0 9 1-5W * *":           "is not L, L-3, LW or 15W",
		"0 9 LW-1 * *":           "is not L, L-3, LW or 15W",
		`"0 9 * * *"`:            "quotation mark",
		"0 9 * * 1–5":            "'–' (U+2013) is not -: write -",
		"0 9 * * ∗":              "write *",
		"０ 9 * * *":              "write 0",
		"0 9 * * 月":              "'月' (U+6708)",
		"\ufeff0 9 * * *":        "U+FEFF is not a character of it: leave it out",
	} {
		_, err := parseCron(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
			continue
		}
		if write := written.FindStringSubmatch(err.Error()); write != nil {
			if _, err := parseCron(write[1]); err != nil {
				t.Errorf("%q: the suggested %q: %v", text, write[1], err)
			}
		}
	}
	for _, text := range []string{"0\t9\t*\t*\t*", "0 9 * * *\n", "\u00a00\u00a09 * * *\u3000"} {
		if _, err := parseCron(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestForeignRules: rules as calendars and people write them.
func TestForeignRules(t *testing.T) {
	t.Parallel()
	utc, err := NewZones("").Load("UTC")
	if err != nil {
		t.Fatal(err)
	}
	start, err := ParseCivil("2027-01-01T09:00:00")
	if err != nil {
		t.Fatal(err)
	}
	parse := func(text string) error {
		_, err := parseRRule(text, start, utc, nil)
		return err
	}
	for text, want := range map[string]string{
		"DTSTART:20270101T090000Z\nRRULE:FREQ=DAILY":                 "it is the field start",
		"DTSTART;TZID=Europe/Vienna:20270101T090000\r\nRRULE:FREQ=D": "it is the field start",
		"FREQ=DAILY\nEXDATE:20270102T090000":                         "write exclusions.dates",
		"FREQ=DAILY;EXDATE=20270102":                                 "write exclusions.dates",
		"EXRULE:FREQ=DAILY":                                          "exclusions.recurrence_rules",
		"RDATE;VALUE=DATE:20270102":                                  "write a rule with COUNT=1",
		"BEGIN:VEVENT\nRRULE:FREQ=DAILY\nEND:VEVENT":                 "write only what follows RRULE:",
		"RSCALE=GREGORIAN;FREQ=DAILY":                                "only the calendar of RFC 5545",
		"FREQ=MONTHLY;SKIP=BACKWARD;BYMONTHDAY=31":                   "write BYMONTHDAY=28,29,30,31;BYSETPOS=-1",
		"FREQ=BIWEEKLY":                                              "write FREQ=WEEKLY;INTERVAL=2",
		"FREQ=QUARTERLY":                                             "write FREQ=MONTHLY;INTERVAL=3",
		"FREQ=WEEKDAYS":                                              "write FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR",
		"FREQ=DAYLY":                                                 "which is MINUTELY, HOURLY, DAILY, WEEKLY, MONTHLY or YEARLY",
		"FREQ=WEEKLY;BYDAY=MON,Wednesday":                            "write BYDAY=MO,WE",
		"FREQ=WEEKLY;BYDAY=MO-FR":                                    "write BYDAY=MO,TU,WE,TH,FR",
		"FREQ=WEEKLY;BYDAY=Sat-Mon":                                  "write BYDAY=SA,SU,MO",
		"FREQ=MONTHLY;BYDAY=1 MO":                                    "write BYDAY=1MO",
		"FREQ=MONTHLY;BYDAY=2TUE":                                    "write BYDAY=2TU",
		"FREQ=WEEKLY;BYDAY=1":                                        "is not like BYDAY=MO,-1FR",
		"FREQ=YEARLY;BYMONTH=JAN":                                    "write BYMONTH=1",
		"FREQ=DAILY;BYSECOND=0,30":                                   "a rule has one second",
		"FREQ=DAILY;UNTIL=2027-01-03":                                "write UNTIL=20270103",
		"FREQ=DAILY;UNTIL=2027-01-03T09:00:00Z":                      "write UNTIL=20270103T090000Z",
		"FREQ=DAILY;UNTIL=tomorrow":                                  "is not like UNTIL=20261231",
		"FREQ=DAILY;INTERVAL=99999999999999999999":                   "is not in 1 to 10000",
		"FREQ=DAILY;COUNT=123456":                                    "is not in 1 to 10000",
		"FREQ=DAILY;INTERVAL=-1":                                     "is not like INTERVAL=2",
		"FREQ=DAILY;INTERVAL=1 2":                                    "is not like INTERVAL=2",
		"FREQ=WEEKLY;BYMONTHDAY=1":                                   "write FREQ=MONTHLY",
		"FREQ=DAILY；COUNT=2":                                         "write ;",
		"FREQ=MONTHLY;BYMONTHDAY=–1":                                 "write -",
	} {
		err := parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
			continue
		}
		var f *fault
		if !errors.As(err, &f) || strings.Contains(f.field, ":") {
			t.Errorf("%q: %+v", text, f)
		}
	}
	for _, text := range []string{
		"FREQ = WEEKLY ; BYDAY = MO , WE", "FREQ=WEEKLY;;BYDAY=MO;", "RRULE:FREQ=WEEKLY;BYDAY=MO\r\n", "RRULE:FREQ=WEEKLY;BYDAY=MO,\r\n WE", " freq=daily ",
	} {
		if err := parse(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for name, parts := range otherFrequencies {
		if err := parse(parts); err != nil {
			t.Errorf("%s: the suggested %s: %v", name, parts, err)
		}
	}
}

// TestForeignTimes: local times in other forms are refused with the form to write.
func TestForeignTimes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2027-01-02":                    "write 2027-01-02T00:00:00",
		"2027-01-02T09:05":              "write 2027-01-02T09:05:00",
		"2027-01-02 09:05":              "write 2027-01-02T09:05:00",
		"2027-01-02 09:05:06":           "write 2027-01-02T09:05:06",
		"20270102T090506":               "write 2027-01-02T09:05:06",
		"20270102T090506Z":              "on the clocks of the zone; for those write 2027-01-02T09:05:06",
		"2027-01-02T09:05:06Z":          "on the clocks of the zone; for those write 2027-01-02T09:05:06",
		"2027-01-02T09:05:06+01:00":     "on the clocks of the zone; for those write 2027-01-02T09:05:06",
		"2027-01-02T09:05:06-0130":      "on the clocks of the zone; for those write 2027-01-02T09:05:06",
		"2027-01-02T09:05:06.123":       "write 2027-01-02T09:05:06",
		"2027-01-02T09:05:06.123Z":      "on the clocks of the zone; for those write 2027-01-02T09:05:06",
		"2027-01-02t09:05:06":           "write 2027-01-02T09:05:06",
		" 2027-01-02T09:05:06 ":         "write 2027-01-02T09:05:06",
		"2027-1-2T9:5:6":                "write 2027-01-02T09:05:06",
		"2027-02-30T09:00:00":           "there is no such day or hour",
		"2027-01-01T24:00:00":           "there is no such day or hour",
		"01.02.2027 09:00":              "is not a time like 2026-12-31T00:00:00",
		"tomorrow":                      "is not a time like 2026-12-31T00:00:00",
		"Wed, 31 Jan 2030 09:00:00 GMT": "is not a time like 2026-12-31T00:00:00",
		"2300-01-01T00:00:00":           "the year 2300",
	} {
		if at, err := ParseCivil(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %s", text, at, err, want)
		}
		if meant := meantCivil(text); meant != "" {
			if _, err := ParseCivil(meant); err != nil {
				t.Errorf("%q: the suggested %s: %v", text, meant, err)
			}
		}
	}
}
