package schedule_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// BenchmarkPlan measures the cost of a firing without its job: to read and compile a schedule
// that is not cached, and to find its next time.
func BenchmarkPlan(b *testing.B) {
	for name, spec := range map[string]*schedulesv1.ScheduleSpec{
		"cron":     {TimeZone: "Europe/Vienna", CronExpressions: []string{"0 9 * * 1-5"}},
		"rule":     {TimeZone: "Europe/Vienna", RecurrenceRules: []*schedulesv1.RecurrenceRule{{Rule: "FREQ=MONTHLY;BYDAY=1MO", Start: "2026-01-05T09:00:00"}}},
		"holidays": {TimeZone: "Europe/Vienna", CronExpressions: []string{"0 9 * * 1-5"}, Exclusions: &schedulesv1.ScheduleExclusions{HolidayCalendars: []string{"AT", "DE-BY"}}},
	} {
		b.Run(name, func(b *testing.B) {
			text, err := proto.Marshal(spec)
			if err != nil {
				b.Fatal(err)
			}
			s := schedule.New(schedule.Config{Zones: recur.NewZones("")})
			now := time.Now()
			for i := range b.N {
				sched := store.Schedule{ID: job.ID{1, 15: 9}, State: store.SchedulePaused, Spec: text, Generation: 1, Version: int64(i)}
				if next, err := s.Upcoming(context.Background(), sched, now, 1); err != nil || len(next) != 1 {
					b.Fatal(next, err)
				}
			}
		})
	}
}
