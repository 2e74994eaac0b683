package schedule_test

import (
	"encoding/binary"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// TestMoreSchedulesThanPlans: with one schedule more than the cache holds, nearly all plans of
// schedules that fire in turn are found there, and are not compiled again.
func TestMoreSchedulesThanPlans(t *testing.T) {
	const schedules = 10_001
	spec, err := proto.Marshal(&schedulesv1.ScheduleSpec{TimeZone: "UTC", CronExpressions: []string{"* * * * *"}})
	if err != nil {
		t.Fatal(err)
	}
	s := schedule.New(schedule.Config{Zones: zones})
	plans := make([]*schedule.Plan, schedules)
	fire := func() (compiled int) {
		for i := range plans {
			sched := store.Schedule{Spec: spec, Generation: 1, Version: 1}
			binary.BigEndian.PutUint64(sched.ID[:], uint64(i+1))
			plan, err := s.Plan(sched)
			if err != nil {
				t.Fatal(err)
			}
			if plan != plans[i] {
				plans[i] = plan
				compiled++
			}
		}
		return compiled
	}
	if n := fire(); n != schedules {
		t.Fatalf("%d plans were compiled, want all %d", n, schedules)
	}
	if n := fire(); n > schedules/2 {
		t.Errorf("%d of %d plans were compiled again", n, schedules)
	}
}
