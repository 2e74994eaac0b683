package server_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

const (
	quarantined   = fireoncev1.ErrorReason_ERROR_REASON_QUARANTINED
	stateRefused  = fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_STATE
	pauseRestored = schedulesv1.SchedulePauseCause_SCHEDULE_PAUSE_CAUSE_RESTORED
)

// restoredCall is a call that may be the first one about a schedule of a restored database.
type restoredCall struct {
	name string
	call func(f *fixture, c client, id string) error
	// reads: under a quarantine it is answered, or refused for another reason.
	reads bool
	// active is how it ends for a queue, paused for one that was paused before; 0: it succeeds.
	active, paused fireoncev1.ErrorReason
	// trusts: of a queue that was paused before, it is a person's word that its items may go.
	trusts bool
}

func restoredCalls() []restoredCall {
	return []restoredCall{
		{name: "none", call: func(*fixture, client, string) error { return nil }, reads: true},
		{name: "GetSchedule", call: func(f *fixture, c client, id string) error {
			f.getSchedule(c, id)
			return nil
		}, reads: true},
		{name: "PauseSchedule", call: func(f *fixture, c client, id string) error {
			return second2(f.pauseSchedule(c, id, "", "by a person"))
		}},
		{name: "ResumeSchedule", call: func(f *fixture, c client, id string) error {
			return second2(f.resumeSchedule(c, id, "", ""))
		}, trusts: true},
		{name: "UpdateSchedule", call: func(f *fixture, c client, id string) error {
			return second2(f.updateSchedule(c, f.getSchedule(c, id).GetSchedule(), func(r *updateScheduleRequest) { r.Spec = every(30 * time.Minute) }, "spec"))
		}, active: etagMismatch},
		{name: "SkipFiring", call: func(f *fixture, c client, id string) error {
			return second2(f.skipFiring(c, id, f.getSchedule(c, id).GetNextFirings()[2].GetName(), false))
		}},
		{name: "TriggerSchedule", call: func(f *fixture, c client, id string) error {
			return second2(f.trigger(c, id, "now", true))
		}, active: stateRefused, paused: stateRefused},
		{name: "BackfillSchedule", call: func(f *fixture, c client, id string) error {
			now := f.clock.Now()
			return second2(f.backfill(c, id, now.Add(-time.Hour), now))
		}, reads: true, active: stateRefused, paused: stateRefused},
		{name: "BulkPauseSchedules", call: func(f *fixture, c client, _ string) error {
			return second2(ask[schedulesv1.BulkPauseSchedulesResponse](f.tb, c, schedsPath+"BulkPauseSchedules",
				&schedulesv1.BulkPauseSchedulesRequest{Filter: anySchedule()}))
		}, reads: true},
		{name: "DeleteSchedule", call: func(f *fixture, c client, id string) error { return second2(f.deleteSchedule(c, id, "")) }},
	}
}

// restores has the database be one of two hours ago.
func (f *fixture) restores(during func()) {
	f.tb.Helper()
	f.must(f.store.Quarantine(f.tb.Context(), "restored"))
	f.clock.advance(2 * time.Hour)
	during()
	f.must(f.store.Release(f.tb.Context()))
	f.clock.advance(time.Second)
}

// firesHourly lets hours pass, with all that fires in them.
func (f *fixture) firesHourly(s *schedule.Scheduler, hours int) {
	f.tb.Helper()
	for range hours {
		f.firesAfter(s, time.Hour)
	}
}

// TestRestoredQueue: whichever call comes first after a restore, and before it ends, no item
// that may have been sent is a job until a person resumes the schedule.
func TestRestoredQueue(t *testing.T) {
	for _, first := range restoredCalls() {
		for _, before := range []string{"due", "not due", "paused"} {
			t.Run(first.name+"/"+before, func(t *testing.T) {
				var fires *schedule.Scheduler
				f := start(t, firing(&fires))
				c := overConnect(f)
				r := f.newSchedule("s", fromQueue, func(r *createScheduleRequest) {
					r.Policies = &schedulesv1.SchedulePolicies{Overlap: schedulesv1.OverlapPolicy_OVERLAP_POLICY_ALLOW}
					if r.Spec = everyHour(); before == "not due" {
						r.Spec = daily()
					}
				})
				id := f.recurring(t.Context(), c, r).GetScheduleId()
				sent := f.addItem(c, id, "sent", custom("good/v1", "sent")).GetItem()
				f.addItem(c, id, "unsent", custom("good/v1", "unsent"))
				want := first.active
				if before == "paused" {
					f.must(second2(f.pauseSchedule(c, id, "", "why")))
					want = first.paused
				}
				f.restores(func() {
					if err := first.call(f, c, id); !first.reads {
						if first.name == "ResumeSchedule" && before != "paused" {
							f.must(err) // in place
						} else {
							wantReason(t, err, quarantined)
						}
					}
				})
				if err := first.call(f, c, id); want == 0 {
					f.must(err)
				} else {
					wantReason(t, err, want)
				}
				if first.trusts && before == "paused" {
					f.firesAfter(fires, time.Hour)
					if got := f.getSchedule(c, id).GetSchedule(); got.GetCounts().GetFired() != 1 {
						t.Errorf("resumed: %v", got)
					}
					return
				}
				f.firesHourly(fires, 25)
				got := f.getSchedule(c, id).GetSchedule()
				if got.GetCounts().GetFired() != 0 {
					t.Fatalf("an item was sent again: %v", got)
				}
				if first.name == "DeleteSchedule" {
					return
				}
				if got.GetPauseCause() != pauseRestored || before == "due" && got.GetCounts().GetHeld() != 2 {
					t.Errorf("schedule %v", got)
				}
				f.must(second2(askWith[schedulesv1.RemoveScheduleItemResponse](t.Context(), c, schedsPath+"RemoveScheduleItem", removeItem(sent))))
				f.must(second2(f.resumeSchedule(c, id, got.GetEtag(), "")))
				f.firesHourly(fires, 25)
				if got := f.getSchedule(c, id).GetSchedule(); got.GetCounts().GetFired() != 1 || got.GetPauseCause() != 0 {
					t.Errorf("a person has looked: %v", got)
				}
			})
		}
	}
}

// TestRestoredFirings: whichever call comes first after a restore, the firings of the lost
// time are HELD, and none of them makes a job under another name.
func TestRestoredFirings(t *testing.T) {
	for _, first := range restoredCalls() {
		t.Run(first.name, func(t *testing.T) {
			var fires *schedule.Scheduler
			f := start(t, firing(&fires))
			c := overConnect(f)
			id := f.recurring(t.Context(), c, f.newSchedule("s", func(r *createScheduleRequest) {
				r.Policies = &schedulesv1.SchedulePolicies{CatchUp: schedulesv1.CatchUpPolicy_CATCH_UP_POLICY_ALL}
			})).GetScheduleId()
			f.restores(func() {
				if err := first.call(f, c, id); !first.reads && first.name != "ResumeSchedule" {
					wantReason(t, err, quarantined)
				}
			})
			f.must(first.call(f, c, id))
			f.firesAfter(fires, time.Second)
			held := f.listFirings(c, id, fireoncev1.FiringOutcome_FIRING_OUTCOME_HELD)
			if len(held) != 2 {
				t.Errorf("held %v", held)
			}
			for _, made := range f.listFirings(c, id, fireoncev1.FiringOutcome_FIRING_OUTCOME_FIRED) {
				if o := made.GetOrigin(); o != fireoncev1.FiringOrigin_FIRING_ORIGIN_TRIGGER && o != fireoncev1.FiringOrigin_FIRING_ORIGIN_BACKFILL {
					t.Errorf("made %v", made)
				}
			}
		})
	}
}

// TestRestoredBuffered: a firing that waited when the backup was taken is HELD, also when the
// first call takes it out.
func TestRestoredBuffered(t *testing.T) {
	for _, first := range restoredCalls() {
		if first.reads || first.name == "ResumeSchedule" {
			continue
		}
		t.Run(first.name, func(t *testing.T) {
			var fires *schedule.Scheduler
			f := start(t, firing(&fires))
			c := overConnect(f)
			id := f.recurring(t.Context(), c, f.newSchedule("s")).GetScheduleId()
			f.firesAfter(fires, time.Hour)
			f.firesAfter(fires, time.Hour)
			waits := f.satSchedule(id).Buffered
			if waits == nil {
				t.Fatal("no firing waits")
			}
			f.restores(func() {})
			f.must(first.call(f, c, id))
			page, err := f.store.Firings(t.Context(), store.FiringQuery{Schedule: f.id(id), Name: waits.Name})
			f.must(err)
			if len(page.Firings) != 1 || page.Firings[0].Outcome != store.FiringHeld {
				t.Errorf("the one that waited: %+v", page.Firings)
			}
		})
	}
}

// TestRestoredEnded: a queue of a schedule that has ended hands no item to a trigger, and goes on
// once a person has resumed it.
func TestRestoredEnded(t *testing.T) {
	var fires *schedule.Scheduler
	f := start(t, firing(&fires))
	c := overConnect(f)
	id := f.recurring(t.Context(), c, f.newSchedule("s", fromQueue, func(r *createScheduleRequest) {
		r.Spec.EndTime = timestamppb.New(f.clock.Now().Add(90 * time.Minute))
	})).GetScheduleId()
	f.firesAfter(fires, 2*time.Hour)
	f.addItem(c, id, "a", custom("good/v1", "a"))
	if got := f.satSchedule(id); got.State != store.ScheduleEnded {
		t.Fatalf("state %d", got.State)
	}
	f.restores(func() {})
	_, err := f.trigger(c, id, "now", true)
	if got := wantReason(t, err, stateRefused).info.GetMetadata()["pause_cause"]; got != "RESTORED" {
		t.Errorf("pause cause %q", got)
	}
	resumed, err := f.resumeSchedule(c, id, "", "")
	f.must(err)
	if resumed.GetState() != schedulesv1.ScheduleState_SCHEDULE_STATE_ENDED {
		t.Errorf("resumed %v", resumed)
	}
	f.must(second2(f.trigger(c, id, "now", true)))
}

// TestRestoredWithoutZone: a schedule that no server can decide about may still be deleted, and
// nothing else.
func TestRestoredWithoutZone(t *testing.T) {
	var fires *schedule.Scheduler
	f := start(t, firing(&fires))
	c := overConnect(f)
	id := f.recurring(t.Context(), c, f.newSchedule("s", func(r *createScheduleRequest) { r.Spec = daily() })).GetScheduleId()
	to := f.satSchedule(id).Clone()
	spec := daily()
	spec.TimeZone = "Europe/Nowhere"
	var err error
	to.Spec, err = proto.Marshal(spec)
	f.must(err)
	to.Generation++
	_, err = f.store.ChangeSchedule(t.Context(), store.ScheduleChange{Schedule: to})
	f.must(err)
	wantReason(t, second2(f.trigger(c, id, "before", true)), fireoncev1.ErrorReason_ERROR_REASON_FIRING_BLOCKED)
	f.restores(func() {})
	for _, err := range []error{second2(f.pauseSchedule(c, id, "", "")), second2(f.trigger(c, id, "now", true))} {
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_FIRING_BLOCKED)
	}
	f.must(second2(f.deleteSchedule(c, id, "")))
	if got := f.satSchedule(id); got.State != store.ScheduleDeleted {
		t.Errorf("state %d", got.State)
	}
}

// TestRestoredQueueKeepsItsKind: a template that takes no items, for a while, is no person's word
// that the items may go.
func TestRestoredQueueKeepsItsKind(t *testing.T) {
	var fires *schedule.Scheduler
	f := start(t, firing(&fires))
	c := overConnect(f)
	id := f.recurring(t.Context(), c, f.newSchedule("s", fromQueue)).GetScheduleId()
	f.addItem(c, id, "sent", custom("good/v1", "sent"))
	f.restores(func() {})
	f.firesAfter(fires, time.Second)
	payload := f.newSchedule("p").GetJobTemplate()
	_, err := f.updateSchedule(c, f.getSchedule(c, id).GetSchedule(), func(r *updateScheduleRequest) { r.JobTemplate = payload }, "job_template")
	wantReason(t, err, stateRefused)
	f.must(second2(f.resumeSchedule(c, id, "", "")))
	_, err = f.updateSchedule(c, f.getSchedule(c, id).GetSchedule(), func(r *updateScheduleRequest) { r.JobTemplate = payload }, "job_template")
	f.must(err)
}
