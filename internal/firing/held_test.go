package firing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/store"
)

// TestHeld checks that firings up to the release of a restored database make no job, because they
// may have made one in the state that was lost, and that later firings do.
func TestHeld(t *testing.T) {
	for _, c := range []struct {
		name       string
		policies   firing.Policies
		edit       func(*fixture)
		after      time.Duration // of the decision
		want       string
		counts     store.ScheduleCounts
		pauseCause store.PauseCause
	}{
		{"in time again", firing.Policies{Overlap: firing.Allow}, nil, 4 * time.Minute, "HELD 09:01, HELD 09:02, HELD 09:03, FIRED 09:04", store.ScheduleCounts{Held: 3, Fired: 1}, 0},
		{"not the latest one either", firing.Policies{}, nil, 3*time.Minute + 59*time.Second, "HELD 09:01, HELD 09:02, HELD 09:03", store.ScheduleCounts{Held: 3}, 0},
		{"nothing caught up", firing.Policies{CatchUp: firing.CatchUpAll}, nil, 3*time.Minute + 30*time.Second, "HELD 09:01, HELD 09:02, HELD 09:03", store.ScheduleCounts{Held: 3}, 0},
		{"not for being old", firing.Policies{CatchUp: firing.CatchUpAll, Overlap: firing.Allow, CatchUpWindow: time.Minute}, nil, 6 * time.Minute,
			"HELD 09:01, HELD 09:02, HELD 09:03, MISSED 09:04, FIRED 09:05, FIRED 09:06", store.ScheduleCounts{Held: 3, Missed: 1, Fired: 2}, 0},
		{"skipped by a person", firing.Policies{Overlap: firing.Allow}, func(f *fixture) {
			f.due.Schedule.Skips = []string{"2026-11-02T09:02:00/1"}
		}, 3 * time.Minute, "HELD 09:01, PERSON 09:02, HELD 09:03", store.ScheduleCounts{Held: 2, SkippedByPerson: 1}, 0},
		{"the buffered one", firing.Policies{}, func(f *fixture) {
			f.at(time.Minute, open(job.Sending))
		}, 2 * time.Minute, "HELD 09:01, HELD 09:02", store.ScheduleCounts{Held: 2}, 0},
		{"of a schedule that pauses", firing.Policies{PauseOnAuthHold: true}, func(f *fixture) {
			f.at(time.Minute, open(job.Sending))
			f.due.Connection.AuthHoldAt = begin
		}, 4 * time.Minute, "HELD 09:01, HELD 09:02, HELD 09:03, MISSED 09:04", store.ScheduleCounts{Held: 3, Missed: 1}, store.PausedByAuthHold},
		{"of a schedule that cannot be evaluated", firing.Policies{}, func(f *fixture) {
			f.at(time.Minute, open(job.Sending))
			f.due.Schedule.Cursor = "{}"
		}, 2 * time.Minute, "HELD 09:01", store.ScheduleCounts{Held: 1}, store.PausedByRefusal},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, c.policies)
			if c.edit != nil {
				c.edit(f)
			}
			f.due.HeldUntil = begin.Add(3 * time.Minute)
			got := f.at(c.after)
			want(t, f, got, c.want)
			for _, one := range got {
				if one.Firing.Outcome == store.FiringHeld && (!strings.Contains(one.Firing.Reason, "restored") || one.Job != nil) {
					t.Errorf("held: %+v", one)
				}
			}
			if s := f.due.Schedule; s.Counts != c.counts || s.PauseCause != c.pauseCause || s.Buffered != nil {
				t.Errorf("counts %+v, cause %d, buffered %v", s.Counts, s.PauseCause, s.Buffered)
			}
		})
	}
}

// TestBufferedAfterARelease checks a firing that began to wait after the release: it was decided
// in this state of the database.
func TestBufferedAfterARelease(t *testing.T) {
	f := newFixture(t, firing.Policies{})
	f.due.HeldUntil = begin.Add(30 * time.Second)
	want(t, f, f.at(time.Minute, open(job.Sending)), "")
	want(t, f, f.at(90*time.Second), "FIRED 09:01")
}

// TestBufferedAfterAReleaseInItsJitter checks the same for a firing whose nominal time is before
// the release, and whose jitter ends after it.
func TestBufferedAfterAReleaseInItsJitter(t *testing.T) {
	f := newFixture(t, firing.Policies{})
	spec := f.plan.Times.Spec()
	spec.Jitter = 50 * time.Second
	var err error
	if f.plan.Times, err = recur.Compile(spec, zones); err != nil {
		t.Fatal(err)
	}
	beat, _, _ := f.plan.Times.Next(f.plan.Times.After(begin))
	if beat.Fire.Sub(beat.Instant) < 2*time.Second {
		t.Fatalf("the jitter is %s", beat.Fire.Sub(beat.Instant))
	}
	f.due.HeldUntil = beat.Instant.Add(time.Second)
	want(t, f, f.at(beat.Fire.Sub(begin), open(job.Sending)), "")
	want(t, f, f.at(beat.Fire.Sub(begin)+time.Second), "FIRED 09:01")
}

// TestTheLastJobDropsWhatWaits checks that a schedule that may make no further jobs records the
// outcome of the buffered firing.
func TestTheLastJobDropsWhatWaits(t *testing.T) {
	f := newFixture(t, firing.Policies{MaxFirings: 1})
	f.at(time.Minute, open(job.Sending))
	d, err := firing.Trigger(f.due, f.plan, "k", true)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Schedule; got.State != store.ScheduleEnded || got.Buffered != nil || !got.Next.IsZero() || got.Counts != (store.ScheduleCounts{Fired: 1, Missed: 1}) {
		t.Errorf("schedule %+v", got)
	}
	if n := len(d.Firings); n != 2 || d.Firings[1].Firing.Outcome != store.FiringMissed || d.Firings[1].Firing.Reason == "" {
		t.Errorf("%d firings: %+v", n, d.Firings)
	}
}

// TestCatchUpAtTheBoundOfADecision checks that the latest firing is caught up, and with ALL each
// one, however many times have come, even if they are at the end of what one decision
// passes.
func TestCatchUpAtTheBoundOfADecision(t *testing.T) {
	for _, minutes := range []int{4999, 5000, 5001, 5050, 9900, 10000} {
		for _, catchUp := range []firing.CatchUp{firing.CatchUpLatest, firing.CatchUpAll} {
			// A firing that is a little late follows immediately, so no other may come meanwhile.
			f := newFixture(t, firing.Policies{CatchUp: catchUp, Overlap: firing.Allow, CatchUpWindow: 30 * 24 * time.Hour}, "* * * * *")
			end := f.plan.Times.Spec()
			end.End = begin.Add(time.Duration(minutes)*time.Minute + 1)
			times, err := recur.Compile(end, zones)
			if err != nil {
				t.Fatal(err)
			}
			f.plan.Times = times
			jobs := 0
			for range 200 {
				for _, one := range f.at(time.Duration(minutes)*time.Minute + time.Hour) {
					if one.Job != nil {
						jobs++
					}
				}
				if f.due.Schedule.State == store.ScheduleEnded {
					break
				}
			}
			most := 1
			if catchUp == firing.CatchUpAll {
				most = minutes
			}
			if c := f.due.Schedule.Counts; jobs != most || c.Fired+c.Missed+c.Coalesced != int64(minutes) || f.due.Schedule.State != store.ScheduleEnded {
				t.Errorf("%d minutes: %d jobs, want %d; %+v", minutes, jobs, most, c)
			}
		}
	}
}

// TestReleaseOfAShiftedFiring checks that a firing that a gap of the clock shifted keeps the time of
// its schedule, even if it has waited.
func TestReleaseOfAShiftedFiring(t *testing.T) {
	f := newFixture(t, firing.Policies{}, "30 2 * * *")
	gap := time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC)
	cursor, err := firing.Begin(f.plan.Times, gap.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	f.due.Schedule.Cursor = cursor
	f.at(gap.Sub(begin), open(job.Sending))
	got := f.at(gap.Sub(begin) + time.Minute)
	if len(got) != 1 || got[0].Job == nil || string(got[0].Job.Spec.Payload) != "2027-03-28T02:30:00 1" || got[0].Firing.Mark != store.MarkShifted {
		t.Errorf("released %+v", got)
	}
}
