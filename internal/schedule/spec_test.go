package schedule_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/schedule"
)

// TestCompileNamesFields checks that each fault of a spec has the path of the contract's field.
func TestCompileNamesFields(t *testing.T) {
	type spec = schedulesv1.ScheduleSpec
	type rules = []*schedulesv1.RecurrenceRule
	rule := func(rule, start string) rules { return rules{{Rule: rule, Start: start}} }
	every := func(every, phase time.Duration) []*schedulesv1.ScheduleInterval {
		return []*schedulesv1.ScheduleInterval{{Every: durationpb.New(time.Hour)}, {Every: durationpb.New(every), Phase: durationpb.New(phase)}}
	}
	far := timestamppb.New(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	for name, tt := range map[string]struct {
		edit func(*spec)
		want string // paths, separated by spaces; "." is the whole spec
	}{
		"zone":               {func(s *spec) { s.TimeZone = "Mars/Base" }, "time_zone"},
		"cron":               {func(s *spec) { s.CronExpressions = []string{"@daily", "61 * * * *", "* * 30 2 *"} }, "cron_expressions[1] cron_expressions[2]"},
		"rule":               {func(s *spec) { s.RecurrenceRules = rule("FREQ=SECONDLY", "2026-01-01T00:00:00") }, "recurrence_rules[0].rule"},
		"rule without end":   {func(s *spec) { s.RecurrenceRules = rule("nonsense", "2026-01-01T00:00:00") }, "recurrence_rules[0].rule"},
		"rule's start":       {func(s *spec) { s.RecurrenceRules = rule("FREQ=DAILY", "2026-13-01T00:00:00") }, "recurrence_rules[0].start"},
		"rules":              {func(s *spec) { s.RecurrenceRules = slices.Repeat(rule("FREQ=DAILY", "2026-01-01T00:00:00"), 6) }, "recurrence_rules"},
		"interval":           {func(s *spec) { s.Intervals = every(time.Second, 0) }, "intervals[1].every"},
		"broken interval":    {func(s *spec) { s.Intervals = every(10500*time.Millisecond, 0) }, "intervals[1].every"},
		"endless interval":   {func(s *spec) { s.Intervals = every(1<<62, 0) }, "intervals[1].every"},
		"phase":              {func(s *spec) { s.Intervals = every(time.Hour, time.Hour) }, "intervals[1].phase"},
		"no source":          {func(s *spec) { s.CronExpressions = nil }, "."},
		"sources":            {func(s *spec) { s.CronExpressions = slices.Repeat([]string{"@daily"}, 21) }, "."},
		"start":              {func(s *spec) { s.StartTime = far }, "start_time"},
		"no time":            {func(s *spec) { s.StartTime = &timestamppb.Timestamp{Seconds: 1 << 60} }, "start_time"},
		"end":                {func(s *spec) { s.EndTime = far }, "end_time"},
		"no time at the end": {func(s *spec) { s.EndTime = &timestamppb.Timestamp{Nanos: -1} }, "end_time"},
		"end before start":   {func(s *spec) { s.StartTime, s.EndTime = timestamppb.New(begin), timestamppb.New(begin) }, "end_time"},
		"jitter":             {func(s *spec) { s.Jitter = durationpb.New(25 * time.Hour) }, "jitter"},
		"max_firings":        {func(s *spec) { s.MaxFirings = -1 }, "max_firings"},
		"never": {func(s *spec) {
			s.StartTime, s.EndTime = timestamppb.New(begin.Add(time.Minute)), timestamppb.New(begin.Add(time.Hour))
		}, "."},
		"excluded cron":      {func(s *spec) { s.Exclusions.CronExpressions = []string{"@daily", "x"} }, "exclusions.cron_expressions[1]"},
		"excluded rule":      {func(s *spec) { s.Exclusions.RecurrenceRules = rule("FREQ=DAILY;BYHOUR=1", "2026-01-01") }, "exclusions.recurrence_rules[0].rule"},
		"excluded start":     {func(s *spec) { s.Exclusions.RecurrenceRules = rule("FREQ=DAILY", "x") }, "exclusions.recurrence_rules[0].start"},
		"excluded date":      {func(s *spec) { s.Exclusions.Dates[1].First = "2026-02-30" }, "exclusions.dates[1]"},
		"excluded last date": {func(s *spec) { s.Exclusions.Dates[0].Last = "2026-01-01" }, "exclusions.dates[0]"},
		"calendar":           {func(s *spec) { s.Exclusions.HolidayCalendars = []string{"AT", "XX"} }, "exclusions.holiday_calendars[1]"},
		"many calendars":     {func(s *spec) { s.Exclusions.HolidayCalendars = slices.Repeat([]string{"AT"}, 21) }, "exclusions.holiday_calendars"},
		"many dates":         {func(s *spec) { s.Exclusions.Dates = slices.Repeat(s.Exclusions.Dates, 501) }, "exclusions.dates"},
		"many exclusions":    {func(s *spec) { s.Exclusions.CronExpressions = slices.Repeat([]string{"@daily"}, 21) }, "exclusions.cron_expressions"},
		"many excluded rules": {func(s *spec) {
			s.Exclusions.RecurrenceRules = slices.Repeat(rule("FREQ=DAILY", "2026-01-01"), 6)
		}, "exclusions.recurrence_rules"},
	} {
		s := &spec{
			TimeZone: "Europe/Vienna", CronExpressions: []string{"0 9 * * *"},
			Exclusions: &schedulesv1.ScheduleExclusions{Dates: []*schedulesv1.DateRange{{First: "2026-12-24"}, {First: "2026-12-31", Last: "2027-01-02"}}},
		}
		if _, err := schedule.Compile(newID(), 1, s, zones); err != nil {
			t.Fatal(err)
		}
		tt.edit(s)
		_, err := schedule.Compile(newID(), 1, s, zones)
		var wrong schedule.SpecError
		if !errors.As(err, &wrong) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, v := range wrong {
			if v.Message == "" {
				t.Errorf("%s: %s without a message", name, v.Field)
			}
			if v.Field == "" {
				v.Field = "."
			}
			got = append(got, v.Field)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
		if strings.HasPrefix(err.Error(), ":") {
			t.Errorf("%s: %q", name, err)
		}
	}
}

// TestCompileTakesAll checks that every field of a spec affects the evaluation.
func TestCompileTakesAll(t *testing.T) {
	utc := func(text string) time.Time {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	spec := &schedulesv1.ScheduleSpec{
		TimeZone: "UTC", CronExpressions: []string{"0 9 * * *"},
		RecurrenceRules: []*schedulesv1.RecurrenceRule{{Rule: "FREQ=DAILY;COUNT=9", Start: "2026-12-20T10:00:00"}},
		Intervals:       []*schedulesv1.ScheduleInterval{{Every: durationpb.New(24 * time.Hour), Phase: durationpb.New(11 * time.Hour)}},
		Exclusions: &schedulesv1.ScheduleExclusions{
			CronExpressions: []string{"0 9 20 12 *"}, HolidayCalendars: []string{"AT"},
			RecurrenceRules: []*schedulesv1.RecurrenceRule{{Rule: "FREQ=DAILY;COUNT=1", Start: "2026-12-21T10:00:00"}},
			Dates:           []*schedulesv1.DateRange{{First: "2026-12-22", Last: "2026-12-23"}, {First: "2026-12-24"}},
		},
		StartTime: timestamppb.New(utc("2026-12-20T00:00:00Z")), EndTime: timestamppb.New(utc("2026-12-27T10:30:00Z")),
	}
	times, err := schedule.Compile(newID(), 1, spec, zones)
	if err != nil {
		t.Fatal(err)
	}
	beats, more, _ := schedule.Preview(t.Context(), times, begin, time.Time{}, 100)
	var got []string
	for _, b := range beats {
		got = append(got, b.Instant.Format("02 15 ")+schedule.SourcePath(b.Source))
	}
	// 25 and 26 December are holidays in Austria.
	want := []string{
		"20 10 recurrence_rules[0]", "20 11 intervals[0]", "21 09 cron_expressions[0]", "21 11 intervals[0]",
		"27 09 cron_expressions[0]", "27 10 recurrence_rules[0]",
	}
	if !slices.Equal(got, want) || more {
		t.Errorf("%q, more %v; want %q", got, more, want)
	}
	// The generation is a part of the names, and the id determines the jitter.
	next, err := schedule.Compile(newID(), 2, spec, zones)
	if err != nil {
		t.Fatal(err)
	}
	if b, _, _ := schedule.Preview(t.Context(), next, begin, time.Time{}, 1); b[0].Name != "g2:"+beats[0].Name {
		t.Errorf("the second generation's name is %s", b[0].Name)
	}
}

func TestPreviewBounds(t *testing.T) {
	spec, _ := minutely()
	times, err := schedule.Compile(newID(), 1, spec, zones)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		from, until time.Duration
		n, want     int
		more        bool
	}{
		{0, 3 * time.Minute, 10, 3, false}, // the first instant is one of them, the last is not
		{time.Nanosecond, 3 * time.Minute, 10, 2, false},
		{0, 3 * time.Minute, 3, 3, false},
		{0, 3 * time.Minute, 2, 2, true},
		{0, 0, 10, 0, false},
	} {
		beats, more, _ := schedule.Preview(t.Context(), times, begin.Add(tt.from), begin.Add(tt.until), tt.n)
		if len(beats) != tt.want || more != tt.more {
			t.Errorf("%+v: %d times, more %v", tt, len(beats), more)
		}
	}
}
