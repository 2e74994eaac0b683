package server_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

const (
	firingDecided  = fireoncev1.ErrorReason_ERROR_REASON_FIRING_DECIDED
	firingNotFound = fireoncev1.ErrorReason_ERROR_REASON_FIRING_NOT_FOUND
	firingBlocked  = fireoncev1.ErrorReason_ERROR_REASON_FIRING_BLOCKED
	backfillRange  = fireoncev1.ErrorReason_ERROR_REASON_BACKFILL_RANGE
)

// TestSkipFiring takes a firing out, puts it back, and knows those that have passed from those
// that there are not.
func TestSkipFiring(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			var clockwork *schedule.Scheduler
			f := start(t, firing(&clockwork))
			c := dial(f)
			s := f.recurring(t.Context(), c, f.newSchedule("s"))
			id := s.GetScheduleId()
			const first, second = "2026-07-01T15:00:00/1", "2026-07-01T16:00:00/1"
			for range 2 {
				res, err := f.skipFiring(c, id, first, false)
				f.must(err)
				if next := res.GetNextFirings(); !slices.Equal(res.GetSchedule().GetSkippedNames(), []string{first}) || !next[0].GetSkipped() || next[1].GetSkipped() ||
					!res.GetSchedule().GetNextFireTime().AsTime().Equal(f.clock.Now().Add(2*time.Hour)) {
					t.Errorf("skipped: %v", res)
				}
			}
			if got := f.satSchedule(id); got.Version != 2 {
				t.Errorf("version %d after a repeat", got.Version)
			}
			f.must(second2(f.skipFiring(c, id, second, false)))
			for range 2 {
				res, err := f.skipFiring(c, id, second, true)
				f.must(err)
				if !slices.Equal(res.GetSchedule().GetSkippedNames(), []string{first}) || res.GetNextFirings()[1].GetSkipped() {
					t.Errorf("put back: %v", res)
				}
			}
			f.firesAfter(clockwork, time.Hour)
			if got := f.listFirings(c, id); len(got) != 1 || got[0].GetOutcome() != fireoncev1.FiringOutcome_FIRING_OUTCOME_SKIPPED_BY_REQUEST || got[0].GetJobId() != "" {
				t.Errorf("firings %v", got)
			}
			for name, want := range map[string]fireoncev1.ErrorReason{
				first: firingDecided, "2026-07-01T14:00:00/1": firingDecided, "2026-07-01T14:30:00/1": firingNotFound, "2030-07-01T15:00:00/1": firingNotFound,
				"g2:" + second: firingNotFound, "i:5": firingNotFound, "t:x": firingNotFound, "2026-07-01T16:00:00/2": firingNotFound,
			} {
				for _, undo := range []bool{false, true} {
					_, err := f.skipFiring(c, id, name, undo)
					wantReason(t, err, want)
				}
			}
			_, err := f.skipFiring(c, absent, second, false)
			wantReason(t, err, noSchedule)
			f.must(second2(f.deleteSchedule(c, id, "")))
			_, err = f.skipFiring(c, id, second, false)
			wantReason(t, err, schedState)
		})
	}
}

func second2[T any](_ T, err error) error { return err }

// TestSkipIntervals: names of intervals, of a later version of the spec, and of a paused
// schedule, whose skips go when their times pass.
func TestSkipIntervals(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	s := f.recurring(t.Context(), c, f.newSchedule("s"))
	res, err := f.updateSchedule(c, s, func(r *updateScheduleRequest) { r.Spec = every(time.Hour) }, "spec")
	f.must(err)
	name := res.GetNextFirings()[0].GetName()
	if !strings.HasPrefix(name, "g2:i:") {
		t.Errorf("name %q", name)
	}
	f.must(second2(f.pauseSchedule(c, s.GetScheduleId(), "", "")))
	f.must(second2(f.skipFiring(c, s.GetScheduleId(), name, false)))
	f.must(second2(f.skipFiring(c, s.GetScheduleId(), res.GetNextFirings()[5].GetName(), false)))
	f.clock.advance(2 * time.Hour)
	_, err = f.skipFiring(c, s.GetScheduleId(), res.GetNextFirings()[1].GetName(), false)
	wantReason(t, err, firingDecided)
	back, err := f.resumeSchedule(c, s.GetScheduleId(), "", "")
	f.must(err)
	if !slices.Equal(back.GetSkippedNames(), []string{res.GetNextFirings()[5].GetName()}) {
		t.Errorf("skips after a pause: %v", back.GetSkippedNames())
	}
}

// TestSkipQuota: a schedule has at most so many skips.
func TestSkipQuota(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	s := f.recurring(t.Context(), c, f.newSchedule("s"))
	list, err := ask[schedulesv1.PreviewScheduleResponse](t, c, schedsPath+"PreviewSchedule", &schedulesv1.PreviewScheduleRequest{
		Subject: &schedulesv1.PreviewScheduleRequest_ScheduleId{ScheduleId: s.GetScheduleId()}, Count: store.MaxSkips + 1,
	})
	f.must(err)
	names := namesOf(list.GetFirings())
	for _, name := range names[:store.MaxSkips] {
		f.must(second2(f.skipFiring(c, s.GetScheduleId(), name, false)))
	}
	_, err = f.skipFiring(c, s.GetScheduleId(), names[store.MaxSkips], false)
	if wait := wantFull(t, err, "skips", store.MaxSkips, store.MaxSkips); wait != 0 {
		t.Errorf("repeat after %s", wait)
	}
}

// TestTriggerSchedule: a key makes one job, whatever its end is, and earlier jobs hold it back as
// the policies say.
func TestTriggerSchedule(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		s := f.recurring(t.Context(), c, f.newSchedule("s"))
		id := s.GetScheduleId()
		work, stop := f.store.Watch(store.WatchWork)
		defer stop()
		first, err := f.trigger(c, id, "a", false)
		f.must(err)
		select {
		case <-work:
		default:
			t.Error("the workers were not woken")
		}
		if got := first.GetFiring(); !first.GetCreated() || got.GetName() != "t:a" || got.GetRun() != 1 || got.GetJobId() == "" ||
			got.GetOrigin() != fireoncev1.FiringOrigin_FIRING_ORIGIN_TRIGGER || !got.GetNominalTime().AsTime().Equal(f.clock.Now()) {
			t.Errorf("triggered: %v", first)
		}
		again, err := f.trigger(c, id, "a", false)
		f.must(err)
		if again.GetCreated() || again.GetFiring().GetJobId() != first.GetFiring().GetJobId() {
			t.Errorf("again: %v", again)
		}
		_, err = f.trigger(c, id, "b", false)
		e := wantReason(t, err, firingBlocked)
		if e.detail.GetMetadata()["job_id"] != first.GetFiring().GetJobId() {
			t.Errorf("detail %v", e.detail)
		}
		second, err := f.trigger(c, id, "b", true)
		f.must(err)
		if !second.GetCreated() || second.GetFiring().GetRun() != 2 {
			t.Errorf("in spite of it: %v", second)
		}
		for _, one := range []string{first.GetFiring().GetJobId(), second.GetFiring().GetJobId()} {
			f.learn(f.id(one), job.CancelAsked{})
		}
		f.must(second2(f.pauseSchedule(c, id, "", "")))
		if third, err := f.trigger(c, id, "c", false); err != nil || !third.GetCreated() {
			t.Errorf("paused: %v, %v", third, err)
		}
		_, err = f.trigger(c, absent, "a", false)
		wantReason(t, err, noSchedule)
		f.must(second2(f.deleteSchedule(c, id, "")))
		_, err = f.trigger(c, id, "d", false)
		wantReason(t, err, schedState)
		if again, err := f.trigger(c, id, "a", false); err != nil || again.GetCreated() {
			t.Errorf("after the schedule's end: %v, %v", again, err)
		}
		by := fireoncev1.FiringOutcome_FIRING_OUTCOME_FIRED
		if got := namesOf(f.listFirings(c, id, by)); !slices.Equal(got, []string{"t:c", "t:b", "t:a"}) {
			t.Errorf("firings %v", got)
		}
	})
}

// TestTriggerRefused: a refused job has the reason that a submit would have.
func TestTriggerRefused(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		var made connectionsv1.CreateConnectionResponse
		f.must(c.call(t.Context(), connsPath+"CreateConnection", &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: "mine", Connection: &connectionsv1.Connection{Connector: "stub"},
		}, &made))
		conn := made.GetConnection().GetConnectionId()
		s := f.recurring(t.Context(), c, f.newSchedule("s", func(r *createScheduleRequest) { r.JobTemplate = templateOn(conn) }))
		for reason, payload := range map[fireoncev1.ErrorReason]*fireoncev1.Payload{
			fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID:    custom("bad/v1", ""),
			fireoncev1.ErrorReason_ERROR_REASON_HEADER_NOT_ALLOWED: custom("header/v1", ""),
			fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_TOO_LARGE:  custom("good/v1", strings.Repeat("{{schedule_id}}", 10<<10)),
		} { // as after a change of the connector's rules
			was := f.satSchedule(s.GetScheduleId())
			was.Template = encoded(t, &schedulesv1.JobTemplate{Connection: &schedulesv1.JobTemplate_ConnectionId{ConnectionId: conn}, Content: contentOf(payload)})
			_, err := f.store.ChangeSchedule(t.Context(), store.ScheduleChange{Schedule: was})
			f.must(err)
			_, err = f.trigger(c, s.GetScheduleId(), "t", false)
			wantReason(t, err, reason)
		}
		f.must(c.call(t.Context(), connsPath+"DeleteConnection", deletion(conn), &connectionsv1.DeleteConnectionResponse{}))
		_, err := f.trigger(c, s.GetScheduleId(), "t", false)
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_DISABLED)
		if got := f.satSchedule(s.GetScheduleId()); got.Run != 0 || got.State != store.ScheduleActive {
			t.Errorf("after refusals: %+v", got)
		}
	})
}

// TestTriggerQuarantined: a copy of a database makes no job.
func TestTriggerQuarantined(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	s := f.recurring(t.Context(), c, f.newSchedule("s"))
	f.must(f.store.Quarantine(t.Context(), "a copy"))
	_, err := f.trigger(c, s.GetScheduleId(), "t", false)
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_QUARANTINED)
}

// TestFiringQuota: jobs that a client asks a schedule for count, and a repeat is answered.
func TestFiringQuota(t *testing.T) {
	f := start(t, limitedTo("jobs=2"))
	c := overConnect(f)
	s := f.recurring(t.Context(), c, f.newSchedule("s"))
	f.must(second2(f.trigger(c, s.GetScheduleId(), "a", false)))
	now := f.clock.Now()
	_, err := f.backfill(c, s.GetScheduleId(), now.Add(-2*time.Hour), now)
	wantFull(t, err, "jobs", 1, 2)
	f.must(second2(f.backfill(c, s.GetScheduleId(), now.Add(-time.Hour), now)))
	_, err = f.trigger(c, s.GetScheduleId(), "b", true)
	wantFull(t, err, "jobs", 2, 2)
	f.must(second2(f.trigger(c, s.GetScheduleId(), "a", false)))
	if got, err := f.backfill(c, s.GetScheduleId(), now.Add(-time.Hour), now); err != nil || got.GetPresent() != 1 {
		t.Errorf("a repeat: %v, %v", got, err)
	}
}

// TestConcurrentTriggersOverTheAPI: many calls with one key are one job.
func TestConcurrentTriggersOverTheAPI(t *testing.T) {
	f := start(t)
	s := f.recurring(t.Context(), overConnect(f), f.newSchedule("s"))
	var wg sync.WaitGroup
	var mu sync.Mutex
	jobs, created := map[string]bool{}, 0
	for range 8 {
		c := overConnect(f)
		wg.Go(func() {
			res, err := f.trigger(c, s.GetScheduleId(), "one", false)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if jobs[res.GetFiring().GetJobId()] = true; res.GetCreated() {
				created++
			}
		})
	}
	wg.Wait()
	if len(jobs) != 1 || created != 1 {
		t.Errorf("%d jobs, %d times created", len(jobs), created)
	}
}

// TestBackfillSchedule: times that have passed make one job each, in pages.
func TestBackfillSchedule(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		s := f.recurring(t.Context(), c, f.newSchedule("s"))
		id, now := s.GetScheduleId(), f.clock.Now()
		from := now.Add(-130 * time.Hour)
		dry, err := f.backfill(c, id, from, now, func(r *schedulesv1.BackfillScheduleRequest) { r.DryRun = true })
		f.must(err)
		if len(dry.GetFirings()) != schedule.MaxBackfill || dry.GetFirings()[0].GetJobId() != "" || dry.GetNextPageToken() == "" {
			t.Errorf("a dry run: %d firings, %q", len(dry.GetFirings()), dry.GetNextPageToken())
		}
		one, err := f.backfill(c, id, from, now)
		f.must(err)
		two, err := f.backfill(c, id, from, now, func(r *schedulesv1.BackfillScheduleRequest) { r.PageToken = one.GetNextPageToken() })
		f.must(err)
		names := append(namesOf(one.GetFirings()), namesOf(two.GetFirings())...)
		if len(names) != 130 || two.GetNextPageToken() != "" || names[0] != "b:2026-06-26T04:00:00/1" || !slices.Equal(names[:100], namesOf(dry.GetFirings())) {
			t.Errorf("%d firings, %q to %q", len(names), names[0], names[len(names)-1])
		}
		if got := one.GetFirings()[0]; got.GetOrigin() != fireoncev1.FiringOrigin_FIRING_ORIGIN_BACKFILL || got.GetJobId() == "" {
			t.Errorf("backfilled %v", got)
		}
		again, err := f.backfill(c, id, from, now)
		f.must(err)
		if len(again.GetFirings()) != 0 || again.GetPresent() != 100 || again.GetNextPageToken() == "" {
			t.Errorf("again: %v", again)
		}
		if got := f.satSchedule(id); got.Counts.Fired != 130 || got.State != store.ScheduleActive {
			t.Errorf("counts %+v", got.Counts)
		}
		_, err = f.backfill(c, id, from.Add(time.Hour), now, func(r *schedulesv1.BackfillScheduleRequest) { r.PageToken = one.GetNextPageToken() })
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID)
		for field, span := range map[string][2]time.Time{
			"end_time":   {now.Add(-time.Hour), now.Add(time.Second)},
			"start_time": {now.Add(-400 * 24 * time.Hour), now},
		} {
			_, err := f.backfill(c, id, span[0], span[1])
			if e := wantReason(t, err, backfillRange); e.detail.GetViolations()[0].GetField() != field {
				t.Errorf("%s: %v", field, e.detail)
			}
		}
		_, err = f.backfill(c, id, now, now)
		wantReason(t, err, backfillRange)
		_, err = f.backfill(c, absent, from, now)
		wantReason(t, err, noSchedule)

		f.clock.advance(time.Hour) // 15:00 is due, and no server has decided about it
		_, err = f.backfill(c, id, now, f.clock.Now().Add(-time.Minute))
		f.must(err)
		f.clock.advance(time.Minute)
		_, err = f.backfill(c, id, now, f.clock.Now())
		e := wantReason(t, err, firingBlocked)
		if !slices.Contains(e.types, "google.rpc.RetryInfo") || e.detail.GetMetadata()["job_id"] != "" {
			t.Errorf("undecided: %v", e.types)
		}
		f.must(second2(f.deleteSchedule(c, id, "")))
		_, err = f.backfill(c, id, from, now)
		wantReason(t, err, schedState)
	})
}

// TestListFirings in pages, by outcome.
func TestListFirings(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	s := f.recurring(t.Context(), c, f.newSchedule("s"))
	var want []string
	for i := range 5 {
		f.must(second2(f.trigger(c, s.GetScheduleId(), fmt.Sprint("k", i), true)))
		want = append([]string{fmt.Sprint("t:k", i)}, want...)
	}
	list := func(edit func(*schedulesv1.ListFiringsRequest)) (names []string, err error) {
		r := &schedulesv1.ListFiringsRequest{Schedule: &schedulesv1.ListFiringsRequest_IdempotencyKey{IdempotencyKey: "s"}, PageSize: 2}
		edit(r)
		for range 9 {
			res, err := ask[schedulesv1.ListFiringsResponse](t, c, schedsPath+"ListFirings", r)
			if err != nil {
				return nil, err
			}
			names = append(names, namesOf(res.GetFirings())...)
			if r.PageToken = res.GetNextPageToken(); r.PageToken == "" {
				break
			}
		}
		return names, nil
	}
	if got, err := list(func(*schedulesv1.ListFiringsRequest) {}); err != nil || !slices.Equal(got, want) {
		t.Errorf("listed %v, %v", got, err)
	}
	missed := []fireoncev1.FiringOutcome{fireoncev1.FiringOutcome_FIRING_OUTCOME_MISSED}
	if got, err := list(func(r *schedulesv1.ListFiringsRequest) { r.Outcomes = missed }); err != nil || len(got) != 0 {
		t.Errorf("listed %v, %v", got, err)
	}
	page, err := ask[schedulesv1.ListFiringsResponse](t, c, schedsPath+"ListFirings", &schedulesv1.ListFiringsRequest{
		Schedule: &schedulesv1.ListFiringsRequest_ScheduleId{ScheduleId: s.GetScheduleId()}, PageSize: 1,
	})
	f.must(err)
	_, err = list(func(r *schedulesv1.ListFiringsRequest) { r.PageToken, r.Outcomes = page.GetNextPageToken(), missed })
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID)
	if got, err := list(func(r *schedulesv1.ListFiringsRequest) { r.PageToken = page.GetNextPageToken() }); err != nil || !slices.Equal(got, want[1:]) {
		t.Errorf("from the second on: %v, %v", got, err)
	}
	_, err = list(func(r *schedulesv1.ListFiringsRequest) {
		r.Schedule = &schedulesv1.ListFiringsRequest_ScheduleId{ScheduleId: absent}
	})
	wantReason(t, err, noSchedule)
}

// TestPreviewSchedule: from when to when, how many, and by which spec.
func TestPreviewSchedule(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		preview := func(edit func(*schedulesv1.PreviewScheduleRequest)) *schedulesv1.PreviewScheduleResponse {
			t.Helper()
			r := &schedulesv1.PreviewScheduleRequest{Subject: &schedulesv1.PreviewScheduleRequest_Spec{Spec: everyHour()}}
			edit(r)
			res, err := ask[schedulesv1.PreviewScheduleResponse](t, c, schedsPath+"PreviewSchedule", r)
			f.must(err)
			return res
		}
		autumn := time.Date(2026, 10, 24, 22, 0, 0, 0, time.UTC)
		got := preview(func(r *schedulesv1.PreviewScheduleRequest) {
			r.StartTime, r.EndTime = timestamppb.New(autumn), timestamppb.New(autumn.Add(5*time.Hour))
		})
		names := []string{"2026-10-25T00:00:00/1", "2026-10-25T01:00:00/1", "2026-10-25T02:00:00/1", "2026-10-25T02:00:00/2", "2026-10-25T03:00:00/1"}
		if !slices.Equal(namesOf(got.GetFirings()), names) || got.GetMore() || got.GetFirings()[3].GetMark() != fireoncev1.TimeMark_TIME_MARK_REPEATED ||
			got.GetFirings()[3].GetLocalTime() != "2026-10-25T02:00:00+01:00" {
			t.Errorf("in autumn: %v", got)
		}
		if got := preview(func(r *schedulesv1.PreviewScheduleRequest) { r.Count = 5000 }); len(got.GetFirings()) != 1000 || !got.GetMore() {
			t.Errorf("%d firings, more: %t", len(got.GetFirings()), got.GetMore())
		}
		few := preview(func(r *schedulesv1.PreviewScheduleRequest) { r.GetSpec().MaxFirings = 3 })
		if len(few.GetFirings()) != 3 || few.GetMore() {
			t.Errorf("with three firings in all: %v", few)
		}
		s := f.recurring(t.Context(), c, f.newSchedule("s", func(r *createScheduleRequest) { r.Spec.MaxFirings = 3 }))
		f.must(second2(f.skipFiring(c, s.GetScheduleId(), few.GetFirings()[1].GetName(), false)))
		stored := preview(func(r *schedulesv1.PreviewScheduleRequest) {
			r.Subject = &schedulesv1.PreviewScheduleRequest_IdempotencyKey{IdempotencyKey: "s"}
		})
		if !slices.Equal(namesOf(stored.GetFirings()), namesOf(few.GetFirings())) || stored.GetMore() || !stored.GetFirings()[1].GetSkipped() {
			t.Errorf("of a stored one: %v", stored)
		}
		for i, one := range stored.GetFirings() {
			if window := one.GetStartDeadline().AsTime().Sub(one.GetFireTime().AsTime()); window != 2*time.Hour || few.GetFirings()[i].GetStartDeadline() != nil {
				t.Errorf("start windows: %v, and of a spec alone %v", one, few.GetFirings()[i])
			}
		}
		past := preview(func(r *schedulesv1.PreviewScheduleRequest) {
			r.Subject = &schedulesv1.PreviewScheduleRequest_ScheduleId{ScheduleId: s.GetScheduleId()}
			r.StartTime, r.EndTime = timestamppb.New(f.clock.Now().Add(-2*time.Hour)), timestamppb.New(f.clock.Now())
		})
		if !slices.Equal(namesOf(past.GetFirings()), []string{"2026-07-01T12:00:00/1", "2026-07-01T13:00:00/1"}) {
			t.Errorf("of the past: %v", past)
		}
		_, err := ask[schedulesv1.PreviewScheduleResponse](t, c, schedsPath+"PreviewSchedule", &schedulesv1.PreviewScheduleRequest{
			Subject: &schedulesv1.PreviewScheduleRequest_Spec{Spec: &schedulesv1.ScheduleSpec{TimeZone: "UTC", CronExpressions: []string{"x"}}},
		})
		wantReason(t, err, specInvalid)
		_, err = ask[schedulesv1.PreviewScheduleResponse](t, c, schedsPath+"PreviewSchedule", &schedulesv1.PreviewScheduleRequest{
			Subject: &schedulesv1.PreviewScheduleRequest_ScheduleId{ScheduleId: absent},
		})
		wantReason(t, err, noSchedule)
	})
}
