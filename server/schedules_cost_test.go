package server_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/server"
)

// apart has sources that are apart in time, and RRULEs among its exclusions.
func apart() *schedulesv1.ScheduleSpec {
	spec := &schedulesv1.ScheduleSpec{
		TimeZone: "UTC", CronExpressions: []string{"* * * * *", "0 0 31 12 *"}, Jitter: durationpb.New(30 * time.Second),
		Exclusions: &schedulesv1.ScheduleExclusions{},
	}
	for range 5 {
		spec.Exclusions.RecurrenceRules = append(spec.Exclusions.RecurrenceRules, &schedulesv1.RecurrenceRule{
			Rule: "FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23;BYSECOND=30", Start: "1970-01-01T00:00:30",
		})
	}
	return spec
}

func (f *fixture) previewSpec(spec *schedulesv1.ScheduleSpec, n int32) (*schedulesv1.PreviewScheduleResponse, error) {
	return ask[schedulesv1.PreviewScheduleResponse](f.tb, overConnect(f), schedsPath+"PreviewSchedule", &schedulesv1.PreviewScheduleRequest{
		Subject: &schedulesv1.PreviewScheduleRequest_Spec{Spec: spec}, Count: n, StartTime: timestamppb.New(time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC)),
	})
}

// TestCostlySpecs: each call that computes times is refused once it takes too many steps, with an error that names what to change.
func TestCostlySpecs(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *server.Config) { c.Limits.Steps = 30_000 })
	c := overConnect(f)
	if res, err := f.previewSpec(apart(), 1000); err != nil || len(res.GetFirings()) != 1000 {
		t.Fatalf("%d firings, %v", len(res.GetFirings()), err)
	}
	id := f.recurring(t.Context(), c, f.newSchedule("s", func(r *createScheduleRequest) { r.Spec = apart() })).GetScheduleId()
	costly := apart() // from DTSTART on, because of COUNT
	for _, rule := range costly.GetExclusions().GetRecurrenceRules() {
		rule.Rule += ";COUNT=10000"
	}
	_, err := f.previewSpec(costly, 10)
	wantReason(t, err, specInvalid)
	if !strings.Contains(err.Error(), "30000 steps") || !strings.Contains(err.Error(), "COUNT") {
		t.Errorf("the refusal is %v", err)
	}
	_, err = ask[schedulesv1.CreateScheduleResponse](t, c, schedsPath+"CreateSchedule", f.newSchedule("costly", func(r *createScheduleRequest) { r.Spec = costly }))
	wantReason(t, err, specInvalid)
	was := f.getSchedule(c, id).GetSchedule()
	_, err = f.updateSchedule(c, was, func(r *updateScheduleRequest) { r.Spec = costly }, "spec")
	wantReason(t, err, specInvalid)
	if now := f.getSchedule(c, id); now.GetSchedule().GetEtag() != was.GetEtag() || len(now.GetNextFirings()) == 0 {
		t.Errorf("the schedule changed: %v", now)
	}
}

// TestPreviewsWaitForOneAnother: a preview beside another one of its project is refused after a
// while, and may be repeated. One of another project is computed.
func TestPreviewsWaitForOneAnother(t *testing.T) {
	t.Parallel()
	f := start(t)
	for project, busy := range map[string]bool{server.DefaultProject: true, "other": false} {
		release, err := f.server.HoldPreview(t.Context(), project)
		f.must(err)
		if _, err = f.previewSpec(everyHour(), 1); busy {
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_SERVER_BUSY)
		} else {
			f.must(err)
		}
		release()
	}
	_, err := f.previewSpec(everyHour(), 1)
	f.must(err)
}
