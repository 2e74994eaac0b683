package server_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/server"
)

// TestScheduleAheadOfTheStore: a server whose clock is ahead of the store's makes no schedule
// pass times that have not come.
func TestScheduleAheadOfTheStore(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *server.Config) {
		now := c.Now
		c.Now = func() time.Time { return now().Add(3 * time.Hour) }
	})
	hour := f.clock.Now().Truncate(time.Hour).Add(time.Hour)
	next := func(of string, s *schedulesv1.Schedule, err error) {
		t.Helper()
		f.must(err)
		if got := f.satSchedule(s.GetScheduleId()).Next; !got.Equal(hour) {
			t.Errorf("%s fires next at %s, want %s", of, got, hour)
		}
	}
	c := overConnect(f)
	sched := f.recurring(t.Context(), c, f.newSchedule("hourly"))
	next("a new schedule", sched, nil)
	res, err := f.updateSchedule(c, sched, func(r *updateScheduleRequest) {
		r.Spec = everyHour()
		r.Spec.CronExpressions = append(r.Spec.CronExpressions, "15 3 * * *")
	}, "spec")
	next("a changed one", res.GetSchedule(), err)
	_, err = f.pauseSchedule(c, sched.GetScheduleId(), "", "")
	f.must(err)
	sched, err = f.resumeSchedule(c, sched.GetScheduleId(), "", "")
	next("a resumed one", sched, err)
}

// TestUpdateBehindTheStore: a server whose clock is behind the store's does not make a time that
// has fired fire again under the name of a new version.
func TestUpdateBehindTheStore(t *testing.T) {
	t.Parallel()
	var clockwork *schedule.Scheduler
	f := start(t, firing(&clockwork), func(c *server.Config) {
		now := c.Now
		c.Now = func() time.Time { return now().Add(-5 * time.Second) }
	})
	sched := f.recurring(t.Context(), overConnect(f), f.newSchedule("hourly"))
	next := sched.GetNextFireTime().AsTime()
	f.firesAfter(clockwork, next.Sub(f.clock.Now())+2*time.Second)

	spec := everyHour()
	spec.CronExpressions = append(spec.CronExpressions, "15 3 * * *")
	res, err := ask[schedulesv1.UpdateScheduleResponse](t, overConnect(f), schedsPath+"UpdateSchedule", &schedulesv1.UpdateScheduleRequest{
		Schedule: &schedulesv1.UpdateScheduleRequest_ScheduleId{ScheduleId: sched.GetScheduleId()}, Etag: sched.GetEtag(),
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"spec"}}, Spec: spec,
	})
	f.must(err)
	if got := res.GetSchedule().GetNextFireTime().AsTime(); !got.After(next) {
		t.Errorf("next at %s, and %s has fired", got, next)
	}
}
