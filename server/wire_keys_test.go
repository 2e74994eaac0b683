package server_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

const (
	phaseWaiting = fireoncev1.Phase_PHASE_WAITING
	phaseRunning = fireoncev1.Phase_PHASE_RUNNING
	phaseUnknown = fireoncev1.Phase_PHASE_UNKNOWN
	phaseEnded   = fireoncev1.Phase_PHASE_ENDED
)

// TestKeysAreShown: jobs, events, schedules, items and counts have the keys of the connection and
// of the schedule, also after both were deleted.
func TestKeysAreShown(t *testing.T) {
	var fires *schedule.Scheduler
	f := start(t, firing(&fires))
	c := overConnect(f)
	of := f.recurring(t.Context(), c, f.newSchedule("hourly", func(r *createScheduleRequest) {
		r.JobTemplate.Labels = map[string]string{"user": "42"}
	}))
	if of.GetConnectionKey() != "fixture" || of.GetConnectionId() != f.conn {
		t.Errorf("the schedule: %v", of)
	}
	f.firesAfter(fires, time.Hour)
	made := f.openJob(of.GetScheduleId())
	check := func(when string) {
		t.Helper()
		listed, err := ask[fireoncev1.ListJobsResponse](t, c, listJobs, &fireoncev1.ListJobsRequest{})
		f.must(err)
		for _, j := range []*fireoncev1.Job{f.read(c, made.ID.String()), listed.GetJobs()[0]} {
			if j.GetConnectionKey() != "fixture" || j.GetScheduleKey() != "hourly" {
				t.Errorf("%s: the job: %v", when, j)
			}
		}
		page, err := ask[fireoncev1.ListJobEventsResponse](t, c, jobsPath+"ListJobEvents", &fireoncev1.ListJobEventsRequest{})
		f.must(err)
		first := page.GetEvents()[0].GetJobChanged()
		if first.GetIdempotencyKey() != made.Key || first.GetConnectionKey() != "fixture" || first.GetConnectionId() != f.conn ||
			first.GetScheduleKey() != "hourly" || first.GetScheduleId() != of.GetScheduleId() || first.GetLabels()["user"] != "42" {
			t.Errorf("%s: the event: %v", when, first)
		}
		counted, err := ask[adminv1.CountJobsResponse](t, c, countJobs, &adminv1.CountJobsRequest{
			GroupBy: adminv1.CountDimension_COUNT_DIMENSION_CONNECTION,
		})
		f.must(err)
		if g := counted.GetGroups(); len(g) != 1 || g[0].GetConnectionKey() != "fixture" {
			t.Errorf("%s: groups: %v", when, g)
		}
	}
	check("at first")
	if _, err := f.cancel(&fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: made.ID.String()}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.deleteSchedule(c, of.GetScheduleId(), f.getSchedule(c, of.GetScheduleId()).GetSchedule().GetEtag()); err != nil {
		t.Fatal(err)
	}
	f.must(f.remove(c, f.conn, f.connection(c, f.conn).GetEtag()))
	f.clock.advance(time.Hour) // nothing is cached
	check("after the deletion")
	if gone := f.getSchedule(c, of.GetScheduleId()).GetSchedule(); gone.GetConnectionKey() != "fixture" {
		t.Errorf("the deleted schedule: %v", gone)
	}
	f.clock.advance(3 * day)
	f.retain(store.Keep{Jobs: 2 * day, Keys: job.KeyKept, Events: 90 * day})
	page, err := ask[fireoncev1.ListJobEventsResponse](t, c, jobsPath+"ListJobEvents", &fireoncev1.ListJobEventsRequest{})
	f.must(err)
	if first := page.GetEvents()[0].GetJobChanged(); first.GetIdempotencyKey() != "" || len(first.GetLabels()) > 0 || first.GetConnectionKey() != "fixture" {
		t.Errorf("of a removed job: %v", first)
	}
}

// TestFilterByScheduleKey: the key of a schedule selects its jobs and events. That of no schedule
// is refused, and so is a key beside an id.
func TestFilterByScheduleKey(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		of := f.recurring(t.Context(), c, f.newSchedule("hourly"))
		_, err := f.trigger(c, of.GetScheduleId(), "one", false)
		f.must(err)
		f.schedule(f.request("another"))
		made := f.openJob(of.GetScheduleId())
		byKey := &fireoncev1.JobFilter{ScheduleKey: "hourly"}
		listed, err := ask[fireoncev1.ListJobsResponse](t, c, listJobs, &fireoncev1.ListJobsRequest{Filter: byKey})
		f.must(err)
		if len(listed.GetJobs()) != 1 || listed.GetJobs()[0].GetJobId() != made.ID.String() {
			t.Errorf("jobs: %v", listed)
		}
		counted, err := ask[adminv1.CountJobsResponse](t, c, countJobs, &adminv1.CountJobsRequest{Filter: byKey})
		f.must(err)
		if counted.GetCount() != 1 {
			t.Errorf("counted: %v", counted)
		}
		if got, _ := f.listEvents(c, &fireoncev1.ListJobEventsRequest{Filter: &fireoncev1.EventFilter{ScheduleKey: "hourly"}}); !slices.Equal(got, []string{made.Key + " 1"}) {
			t.Errorf("events: %v", got)
		}
		_, err = ask[fireoncev1.ListJobsResponse](t, c, listJobs, &fireoncev1.ListJobsRequest{Filter: &fireoncev1.JobFilter{ScheduleKey: "none"}})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_NOT_FOUND)
		_, err = ask[fireoncev1.ListJobEventsResponse](t, c, jobsPath+"ListJobEvents", &fireoncev1.ListJobEventsRequest{
			Filter: &fireoncev1.EventFilter{ScheduleKey: "none"},
		})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_NOT_FOUND)
		_, err = ask[fireoncev1.ListJobsResponse](t, c, listJobs, &fireoncev1.ListJobsRequest{
			Filter: &fireoncev1.JobFilter{ScheduleKey: "hourly", ScheduleId: of.GetScheduleId()},
		})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID)
	})
}

// TestPhases: jobs, events and counts have the phase, and a filter selects by it.
func TestPhases(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		f.schedule(f.request("unknown"))
		unknown := f.needResolution()
		f.schedule(f.request("running"))
		running := f.arm()
		ended := f.schedule(f.request("ended", at(f.clock.Now().Add(time.Hour))))
		_, err := f.cancel(&fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: ended.GetJobId()}})
		f.must(err)
		waiting := f.schedule(f.request("waiting", at(f.clock.Now().Add(time.Hour))))
		for phase, id := range map[fireoncev1.Phase]string{
			phaseWaiting: waiting.GetJobId(), phaseRunning: running.ID.String(), phaseUnknown: unknown.ID.String(), phaseEnded: ended.GetJobId(),
		} {
			listed, err := ask[fireoncev1.ListJobsResponse](t, c, listJobs, &fireoncev1.ListJobsRequest{
				Filter: &fireoncev1.JobFilter{Phases: []fireoncev1.Phase{phase}},
			})
			f.must(err)
			if jobs := listed.GetJobs(); len(jobs) != 1 || jobs[0].GetJobId() != id || jobs[0].GetPhase() != phase || f.read(c, id).GetPhase() != phase {
				t.Errorf("%v: %v", phase, jobs)
			}
		}
		counted, err := ask[adminv1.CountJobsResponse](t, c, countJobs, &adminv1.CountJobsRequest{
			Filter: &fireoncev1.JobFilter{Phases: []fireoncev1.Phase{phaseEnded, phaseUnknown}},
		})
		f.must(err)
		if p := counted.GetPhaseCounts(); len(p) != 2 || p[0].GetPhase() != phaseUnknown || p[0].GetCount() != 1 || p[1].GetPhase() != phaseEnded || p[1].GetCount() != 1 {
			t.Errorf("counted: %v", p)
		}
		if n := len(counted.GetStateCounts()); n != 6 {
			t.Errorf("%d states of two phases", n)
		}
		_, err = ask[fireoncev1.ListJobsResponse](t, c, listJobs, &fireoncev1.ListJobsRequest{Filter: &fireoncev1.JobFilter{
			Phases: []fireoncev1.Phase{phaseEnded}, States: []fireoncev1.JobState{fireoncev1.JobState_JOB_STATE_SENDING},
		}})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID)
		page, err := ask[fireoncev1.ListJobEventsResponse](t, c, jobsPath+"ListJobEvents", &fireoncev1.ListJobEventsRequest{
			Filter: &fireoncev1.EventFilter{IdempotencyKeys: []string{"ended"}},
		})
		f.must(err)
		var got []fireoncev1.Phase
		for _, e := range page.GetEvents() {
			changed := e.GetJobChanged()
			if got = append(got, changed.GetPhase()); changed.GetEnded() != (changed.GetPhase() == phaseEnded) {
				t.Errorf("ended is %t in %v", changed.GetEnded(), changed)
			}
		}
		if !slices.Equal(got, []fireoncev1.Phase{phaseWaiting, phaseEnded}) {
			t.Errorf("events: %v", got)
		}
	})
}
