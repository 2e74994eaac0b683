package server_test

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// TestPauseRecordsACatchUp checks that a pause records each time that has come, also those that a
// catch-up has not come to: the next decision about them is later than now.
func TestPauseRecordsACatchUp(t *testing.T) {
	var clockwork *schedule.Scheduler
	f := start(t, firing(&clockwork))
	c := overConnect(f)
	s := f.recurring(t.Context(), c, f.newSchedule("s", func(r *createScheduleRequest) {
		r.Policies = &schedulesv1.SchedulePolicies{
			CatchUp: schedulesv1.CatchUpPolicy_CATCH_UP_POLICY_ALL, CatchUpWindow: durationpb.New(48 * time.Hour),
		}
	}))
	f.firesAfter(clockwork, 6*time.Hour)
	before := f.satSchedule(s.GetScheduleId())
	if before.CatchUp == (store.CatchUp{}) || before.Buffered == nil || before.Counts.Fired != 1 {
		t.Fatalf("before the pause: %+v", before)
	}
	_, err := f.pauseSchedule(c, s.GetScheduleId(), "", "")
	f.must(err)
	got := f.satSchedule(s.GetScheduleId()).Counts
	came := int64(f.clock.Now().Sub(s.GetNextFireTime().AsTime())/time.Hour) + 1
	if want := (store.ScheduleCounts{Fired: 1, Missed: came - 1}); got != want || came < 4 {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}

// TestRefusedDecisionsHideNothing checks that a schedule whose decisions are refused reports it,
// since when it is overdue, and a next firing that it has; and that a pause records what came.
func TestRefusedDecisionsHideNothing(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	s := f.recurring(t.Context(), c, f.newSchedule("s"))
	due := s.GetNextFireTime().AsTime()
	f.clock.advance(due.Sub(f.clock.Now()))
	for range 3 {
		_, _, err := f.store.Fire(t.Context(), store.FireParams{Decide: func(d store.DueSchedule) store.FireDecision {
			return store.FireDecision{Schedule: d.Schedule, Err: errors.New("refused")}
		}})
		f.must(err)
		f.clock.advance(store.BufferedLook)
	}
	got := f.getSchedule(c, s.GetScheduleId()).GetSchedule()
	if !got.GetOverdueTime().AsTime().Equal(due) || got.GetRefusedDecisions() != 3 {
		t.Errorf("overdue since %v, %d decisions refused", got.GetOverdueTime().AsTime(), got.GetRefusedDecisions())
	}
	if next := got.GetNextFireTime().AsTime().Sub(due); next%time.Hour != 0 {
		t.Errorf("the next firing is %s after the one that is due", next)
	}
	_, err := f.backfill(c, s.GetScheduleId(), due.Add(-time.Hour), f.clock.Now())
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_STATE)
	_, err = f.pauseSchedule(c, s.GetScheduleId(), "", "")
	f.must(err)
	if counts := f.satSchedule(s.GetScheduleId()).Counts; counts.Missed != 1 {
		t.Errorf("counts %+v after the pause", counts)
	}
	got = f.getSchedule(c, s.GetScheduleId()).GetSchedule()
	if got.GetRefusedDecisions() != 0 || got.GetOverdueTime() != nil {
		t.Errorf("after the pause: %v", got)
	}
}
