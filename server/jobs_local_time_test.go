package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/server"
)

func inVienna(dateTime string) *fireoncev1.LocalTime {
	return &fireoncev1.LocalTime{DateTime: dateTime, TimeZone: "Europe/Vienna"}
}

// TestLocalTime: a job's local time is one instant, also where the clocks change, and a
// repeat is a request that says the same.
func TestLocalTime(t *testing.T) {
	t.Parallel()
	f := start(t)
	for said, want := range map[string]struct {
		at   string
		mark fireoncev1.TimeMark
	}{
		"2026-12-24T18:00:00": {"2026-12-24T17:00:00Z", fireoncev1.TimeMark_TIME_MARK_UNSPECIFIED},
		"2027-03-28T02:30:00": {"2027-03-28T01:00:00Z", fireoncev1.TimeMark_TIME_MARK_SHIFTED},
		"2026-10-25T02:30:00": {"2026-10-25T00:30:00Z", fireoncev1.TimeMark_TIME_MARK_FIRST_OF_TWO},
	} {
		req := f.request(said)
		req.LocalTime = inVienna(said)
		for _, created := range []bool{true, false} {
			got := f.scheduled(req)
			at := got.GetJob().GetScheduleTime().AsTime().Format(time.RFC3339)
			if at != want.at || got.GetLocalTimeMark() != want.mark || got.GetCreated() != created || got.GetJob().GetTimeZone() != "Europe/Vienna" {
				t.Errorf("%s is %s, %s, created %v in %q; want %s, %s", said, at, got.GetLocalTimeMark(), got.GetCreated(), got.GetJob().GetTimeZone(), want.at, want.mark)
			}
		}
	}

	// The same instant in other words is another request.
	other := f.request("2026-12-24T18:00:00")
	other.LocalTime = &fireoncev1.LocalTime{DateTime: "2026-12-24T17:00:00", TimeZone: "UTC"}
	err := overConnect(f).call(t.Context(), scheduleJob, other, &fireoncev1.ScheduleJobResponse{})
	d := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED).detail
	if got := d.GetIdempotencyConflict().GetMismatchedFields(); len(got) != 1 || got[0] != "local_time" {
		t.Errorf("the fields that differ are %q", got)
	}
}

// TestLocalTimeIsRefused: a violation names the part of the local time that is wrong.
func TestLocalTimeIsRefused(t *testing.T) {
	t.Parallel()
	f := start(t)
	for name, tt := range map[string]struct {
		local *fireoncev1.LocalTime
		field string
	}{
		"no such zone":   {&fireoncev1.LocalTime{DateTime: "2026-12-24T18:00:00", TimeZone: "Europe/Wien"}, "local_time.time_zone"},
		"the server's":   {&fireoncev1.LocalTime{DateTime: "2026-12-24T18:00:00", TimeZone: "Local"}, "local_time.time_zone"},
		"no time":        {inVienna("2026-12-24"), "local_time.date_time"},
		"no such day":    {inVienna("2026-02-30T18:00:00"), "local_time.date_time"},
		"with an offset": {inVienna("2026-12-24T18:00:00-01:00"), "local_time.date_time"},
	} {
		req := f.request("key")
		req.LocalTime = tt.local
		err := overConnect(f).call(t.Context(), scheduleJob, req, &fireoncev1.ScheduleJobResponse{})
		d := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID).detail
		if v := d.GetViolations(); len(v) != 1 || v[0].GetField() != tt.field {
			t.Errorf("%s: violations %v, want one of %s", name, v, tt.field)
		}
	}
	past := f.request("key")
	past.LocalTime = inVienna("2026-06-01T09:00:00")
	err := overConnect(f).call(t.Context(), scheduleJob, past, &fireoncev1.ScheduleJobResponse{})
	d := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_TIME_IN_PAST).detail
	if v := d.GetViolations(); len(v) != 1 || v[0].GetField() != "local_time" {
		t.Errorf("violations %v", v)
	}
}

// TestRescheduleToLocalTime: a job moves to a local time as it is scheduled for one.
func TestRescheduleToLocalTime(t *testing.T) {
	t.Parallel()
	f := start(t)
	req := f.request("key")
	req.LocalTime = inVienna("2026-12-24T18:00:00")
	f.schedule(req)
	res, err := ask[fireoncev1.RescheduleJobResponse](t, overConnect(f), jobsPath+"RescheduleJob", &fireoncev1.RescheduleJobRequest{
		Job: &fireoncev1.RescheduleJobRequest_IdempotencyKey{IdempotencyKey: "key"}, LocalTime: inVienna("2026-10-25T02:30:00"),
	})
	f.must(err)
	if mark := res.GetLocalTimeMark(); mark != fireoncev1.TimeMark_TIME_MARK_FIRST_OF_TWO {
		t.Errorf("mark %s", mark)
	}
	if at := res.GetJob().GetScheduleTime().AsTime(); !at.Equal(time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC)) {
		t.Errorf("moved to %s", at)
	}
}

// TestTimeZoneOfTheServersData: a zone that only the operator's zone data has is one, for a local
// time and for a job's time zone.
func TestTimeZoneOfTheServersData(t *testing.T) {
	t.Parallel()
	const zone = "Test/New"
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "Test"), 0o700); err != nil {
		t.Fatal(err)
	}
	// One type of local time, as RFC 9636 has it: no transitions, 3,600 s, "TST".
	data := "TZif" + strings.Repeat("\x00", 32) + "\x00\x00\x00\x01" + "\x00\x00\x00\x04" + "\x00\x00\x0e\x10\x00\x00" + "TST\x00"
	if err := os.WriteFile(filepath.Join(dir, zone), []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tzdata.zi"), []byte("Z "+zone+" 1 - TST\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := start(t, func(c *server.Config) {
		c.Scheduler = schedule.New(schedule.Config{Store: c.Store, Connectors: c.Connectors, Zones: recur.NewZones(dir), Namespace: c.Namespace})
	})
	local := f.request("local")
	local.LocalTime = &fireoncev1.LocalTime{DateTime: "2026-12-24T18:00:00", TimeZone: zone}
	if at := f.scheduled(local).GetJob().GetScheduleTime().AsTime(); !at.Equal(time.Date(2026, 12, 24, 17, 0, 0, 0, time.UTC)) {
		t.Errorf("due at %s", at)
	}
	zoned := f.request("zoned")
	zoned.TimeZone = zone
	if got := f.scheduled(zoned).GetJob().GetTimeZone(); got != zone {
		t.Errorf("time zone %q", got)
	}
}
