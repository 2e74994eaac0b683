package firing_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/store"
)

// zones are shared by all tests: reading one takes longer than deciding.
var zones = recur.NewZones("")

var begin = time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)

// times compiles a schedule of minutes unless a cron expression says otherwise.
func times(t *testing.T, cron ...string) *recur.Schedule {
	t.Helper()
	spec := recur.Spec{ID: "s", Zone: "Europe/Vienna", Cron: cron}
	if len(cron) == 0 {
		spec.Cron = []string{"* * * * *"}
	}
	s, err := recur.Compile(spec, zones)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fixture is a schedule that was created at begin.
type fixture struct {
	due  store.DueSchedule
	plan firing.Plan
}

func newFixture(t *testing.T, p firing.Policies, cron ...string) *fixture {
	t.Helper()
	f := &fixture{plan: firing.Plan{Times: times(t, cron...), Policies: p}}
	f.plan.Build = func(b recur.Beat, run int64) (store.NewJob, error) {
		return store.NewJob{Spec: job.Spec{Payload: fmt.Appendf(nil, "%s %d", b.Civil, run)}}, nil
	}
	cursor, err := firing.Begin(f.plan.Times, begin)
	if err != nil {
		t.Fatal(err)
	}
	f.due = store.DueSchedule{
		Schedule: store.Schedule{State: store.ScheduleActive, Cursor: cursor, Updated: begin}, Now: begin,
	}
	return f
}

// at decides at a time after begin, and applies the decision.
func (f *fixture) at(d time.Duration, open ...store.OpenJob) []store.FiringDecision {
	f.due.Now, f.due.Open = begin.Add(d), open
	out := firing.Decide(f.due, f.plan)
	f.due.Schedule = out.Schedule
	return out.Firings
}

// short returns the outcomes of firings: "FIRED 09:01, …".
func short(firings []store.FiringDecision) string {
	names := map[store.FiringOutcome]string{
		store.FiringFired: "FIRED", store.FiringSkippedByOverlap: "OVERLAP", store.FiringSkippedByPerson: "PERSON",
		store.FiringMissed: "MISSED", store.FiringCoalesced: "COALESCED", store.FiringRefused: "REFUSED",
		store.FiringNoContent: "EMPTY", store.FiringSkippedByLimit: "LIMIT", store.FiringHeld: "HELD",
	}
	var out []string
	for _, f := range firings {
		out = append(out, names[f.Firing.Outcome]+" "+f.Firing.Name[11:16])
	}
	return strings.Join(out, ", ")
}

func open(state job.State) store.OpenJob { return store.OpenJob{ID: job.ID{1, 15: 9}, State: state} }

func want(t *testing.T, f *fixture, got []store.FiringDecision, wanted string) {
	t.Helper()
	if s := short(got); s != wanted {
		t.Errorf("decided %q at %s, want %q", s, f.due.Now.Format("15:04:05"), wanted)
	}
}

func TestFiresOnce(t *testing.T) {
	f := newFixture(t, firing.Policies{Overlap: firing.Allow})
	want(t, f, f.at(30*time.Second), "")
	if f.due.Schedule.Next != begin.Add(time.Minute) {
		t.Errorf("due at %s", f.due.Schedule.Next)
	}
	got := f.at(time.Minute)
	want(t, f, got, "FIRED 09:01")
	if got[0].Job == nil || string(got[0].Job.Spec.Payload) != "2026-11-02T09:01:00 1" || got[0].Firing.Run != 1 ||
		!got[0].Job.ScheduleTime.Equal(begin.Add(time.Minute)) || got[0].Firing.LocalTime != "2026-11-02T09:01:00+01:00" {
		t.Errorf("made %+v", got[0])
	}
	want(t, f, f.at(time.Minute), "")
	want(t, f, f.at(2*time.Minute+time.Second), "FIRED 09:02")
	if f.due.Schedule.Run != 2 || f.due.Schedule.Counts.Fired != 2 {
		t.Errorf("schedule %+v", f.due.Schedule)
	}
}

func TestOverlap(t *testing.T) {
	sending, unknown := open(job.Sending), open(job.NeedsResolution)
	for _, c := range []struct {
		name     string
		policies firing.Policies
		open     []store.OpenJob
		first    string // at 09:01 and 09:02
		buffered string
		released string // at 09:03, when no job blocks it any more
	}{
		{"buffer", firing.Policies{}, []store.OpenJob{sending}, "OVERLAP 09:02", "09:01", "FIRED 09:01"},
		{"skip", firing.Policies{Overlap: firing.Skip}, []store.OpenJob{sending}, "OVERLAP 09:01, OVERLAP 09:02", "", "FIRED 09:03"},
		{"allow", firing.Policies{Overlap: firing.Allow}, []store.OpenJob{sending}, "FIRED 09:01, FIRED 09:02", "", "FIRED 09:03"},
		{"unresolved allows", firing.Policies{Overlap: firing.Skip, WhileUnresolved: firing.Allow}, []store.OpenJob{unknown}, "FIRED 09:01, FIRED 09:02", "", "FIRED 09:03"},
		{"unresolved skips", firing.Policies{Overlap: firing.Allow, WhileUnresolved: firing.Skip}, []store.OpenJob{unknown}, "OVERLAP 09:01, OVERLAP 09:02", "", "FIRED 09:03"},
		{"the stricter counts", firing.Policies{Overlap: firing.Allow, WhileUnresolved: firing.Skip}, []store.OpenJob{sending, unknown}, "OVERLAP 09:01, OVERLAP 09:02", "", "FIRED 09:03"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, c.policies)
			got := short(append(f.at(time.Minute, c.open...), f.at(2*time.Minute, c.open...)...))
			if got != c.first {
				t.Errorf("decided %q, want %q", got, c.first)
			}
			got = ""
			if b := f.due.Schedule.Buffered; b != nil {
				got = b.Name[11:16]
				if b.Blocking.IsZero() {
					t.Error("the buffered firing names no blocking job")
				}
			}
			if got != c.buffered {
				t.Errorf("buffered %q, want %q", got, c.buffered)
			}
			f.at(2*time.Minute+30*time.Second, c.open...)
			got = short(f.at(3 * time.Minute))
			if c.buffered != "" {
				// The released firing blocks the due one.
				if b := f.due.Schedule.Buffered; b == nil || b.Name[11:16] != "09:03" {
					t.Errorf("buffered %+v after the release", b)
				}
			}
			if got != c.released {
				t.Errorf("decided %q, want %q", got, c.released)
			}
		})
	}
}

// A firing that is kept by a job of the same decision names that job, and none that is not in
// its way.
// TestWaitsForAnUnknownOutcome checks that the reason of a waiting firing follows what it waits
// for, because a person may have to decide.
func TestWaitsForAnUnknownOutcome(t *testing.T) {
	f := newFixture(t, firing.Policies{})
	for i, c := range []struct {
		state  job.State
		reason string
	}{
		{job.Sending, "It waits for the end of an earlier job."},
		{job.Ambiguous, firing.ReasonUnresolved},
		{job.NeedsResolution, firing.ReasonUnresolved},
		{job.Retrying, "It waits for the end of an earlier job."},
	} {
		f.at(time.Minute+time.Duration(i)*time.Second, open(c.state))
		if b := f.due.Schedule.Buffered; b == nil || b.Reason != c.reason || b.Blocking != open(c.state).ID {
			t.Errorf("behind a job in state %s: %+v", c.state, b)
		}
	}
	got := f.at(2*time.Minute, open(job.NeedsResolution))
	want(t, f, got, "OVERLAP 09:02")
	if got[0].Firing.Reason != "The outcome of an earlier job was unknown." {
		t.Errorf("reason %q", got[0].Firing.Reason)
	}
}

func TestTheJobInTheWayMayBeOfTheSameDecision(t *testing.T) {
	made := job.ID{2, 15: 1}
	for _, c := range []struct {
		name     string
		policies firing.Policies
		before   job.State
		open     []store.OpenJob
	}{
		{"skip", firing.Policies{Overlap: firing.Skip}, job.NeedsResolution, nil},
		{"buffer", firing.Policies{Overlap: firing.BufferOne}, job.Sending, nil},
		{"an unresolved one is not in the way", firing.Policies{WhileUnresolved: firing.Allow}, job.Sending, []store.OpenJob{open(job.NeedsResolution)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, c.policies)
			f.plan.Build = func(recur.Beat, int64) (store.NewJob, error) { return store.NewJob{Spec: job.Spec{ID: made}}, nil }
			f.at(time.Minute, open(c.before)) // 09:01 waits
			got := f.at(2*time.Minute, c.open...)
			if got[0].Firing.Outcome != store.FiringFired {
				t.Fatalf("decided %s", short(got))
			}
			kept := f.due.Schedule.Buffered
			if kept == nil {
				kept = &got[1].Firing
			}
			if kept.Name[11:16] != "09:02" || kept.Blocking != made {
				t.Errorf("%s was kept by %s, want %s", kept.Name, kept.Blocking, made)
			}
		})
	}
}

// TestRelease checks that a released firing's start window begins at its release, and that its
// payload has its nominal time.
func TestRelease(t *testing.T) {
	f := newFixture(t, firing.Policies{})
	f.at(time.Minute, open(job.Claimed))
	f.due.Schedule.Next = time.Time{}
	got := f.at(90 * time.Second)
	want(t, f, got, "FIRED 09:01")
	if made := got[0].Job; !made.ScheduleTime.Equal(f.due.Now) || string(made.Spec.Payload) != "2026-11-02T09:01:00 1" {
		t.Errorf("made %+v", made)
	}
}

func TestCatchUp(t *testing.T) {
	const outage = 90*time.Minute + 30*time.Second
	for _, c := range []struct {
		name                           string
		policies                       firing.Policies
		fired, missed, coalesced, rows int64
		last                           string
	}{
		{"none", firing.Policies{CatchUp: firing.CatchUpNone}, 1, 89, 0, 90, "FIRED 10:30"},
		{"latest", firing.Policies{}, 1, 30, 59, 90, "FIRED 10:30"},
		{"all", firing.Policies{CatchUp: firing.CatchUpAll, Overlap: firing.Allow}, 60, 30, 0, 90, "FIRED 10:30"},
		{"all in a long window", firing.Policies{CatchUp: firing.CatchUpAll, Overlap: firing.Allow, CatchUpWindow: 24 * time.Hour}, 90, 0, 0, 90, "FIRED 10:30"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, c.policies)
			got := f.at(outage) // 10:30 is half a minute late: it counts as in time
			s := f.due.Schedule
			if s.Counts.Fired != c.fired || s.Counts.Missed != c.missed || s.Counts.Coalesced != c.coalesced || int64(len(got)) != c.rows {
				t.Errorf("%d fired, %d missed, %d coalesced, %d written down; want %+v", s.Counts.Fired, s.Counts.Missed, s.Counts.Coalesced, len(got), c)
			}
			if last := short(got[len(got)-1:]); last != c.last {
				t.Errorf("the last is %q, want %q", last, c.last)
			}
		})
	}
}

// TestCatchUpLatest checks that the latest missed firing is caught up if none is in time, and that
// its start window begins now.
func TestCatchUpLatest(t *testing.T) {
	f := newFixture(t, firing.Policies{}, "0 9 * * *")
	got := f.at(28*time.Hour + 20*time.Minute) // 09:00 local is 08:00 UTC: of the next day, four hours ago
	want(t, f, got, "MISSED 09:00")
	f = newFixture(t, firing.Policies{CatchUpWindow: 5 * time.Hour}, "0 9 * * *")
	got = f.at(52*time.Hour + 20*time.Minute)
	want(t, f, got, "MISSED 09:00, FIRED 09:00")
	if got[1].Firing.Origin != store.FiredByCatchUp || !got[1].Job.ScheduleTime.Equal(f.due.Now) {
		t.Errorf("caught up %+v", got[1])
	}
}

// TestCatchUpPassesSkips checks that a firing that makes no job in any case, because a person
// skipped it or it was decided before, is not caught up instead of an earlier one.
func TestCatchUpPassesSkips(t *testing.T) {
	for _, c := range []struct {
		name     string
		policies firing.Policies
		skips    []string
		known    string
		now      time.Duration
		want     string
	}{
		{"the latest is skipped", firing.Policies{}, []string{"10"}, "", 2*time.Hour + 30*time.Minute, "FIRED 09:00, PERSON 10:00"},
		{"the latest is known", firing.Policies{}, nil, "10", 2*time.Hour + 30*time.Minute, "FIRED 09:00"},
		{"one on time is skipped", firing.Policies{}, []string{"11"}, "", 3*time.Hour + 30*time.Second, "COALESCED 09:00, FIRED 10:00, PERSON 11:00"},
		{"one on time is not", firing.Policies{}, []string{"10"}, "", 3*time.Hour + 30*time.Second, "COALESCED 09:00, PERSON 10:00, FIRED 11:00"},
		{"all are skipped", firing.Policies{}, []string{"09", "10"}, "", 2*time.Hour + 30*time.Minute, "PERSON 09:00, PERSON 10:00"},
		{"all but one, paced from now on", firing.Policies{CatchUp: firing.CatchUpAll}, []string{"09"}, "", 2*time.Hour + 30*time.Minute, "PERSON 09:00, FIRED 10:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.policies.CatchUpWindow, c.policies.Overlap = 12*time.Hour, firing.Allow
			f := newFixture(t, c.policies, "0 9-12 * * *")
			var err error // 08:00 UTC is 09:00 in Vienna, which is caught up, too
			if f.due.Schedule.Cursor, err = firing.Begin(f.plan.Times, begin.Add(-time.Minute)); err != nil {
				t.Fatal(err)
			}
			for _, hour := range c.skips {
				f.due.Schedule.Skips = append(f.due.Schedule.Skips, "2026-11-02T"+hour+":00:00/1")
			}
			if c.known != "" {
				name := "2026-11-02T" + c.known + ":00:00/1"
				f.due.Known = map[string]store.Firing{name: {Name: name}}
			}
			got := f.at(c.now - time.Hour)
			want(t, f, got, c.want)
			for _, one := range got {
				if one.Firing.Outcome == store.FiringFired && one.Firing.Origin == store.FiredByCatchUp && !one.Job.ScheduleTime.Equal(f.due.Now) {
					t.Errorf("caught up %s after now", one.Job.ScheduleTime.Sub(f.due.Now))
				}
			}
		})
	}
}

// TestCatchUpIsBounded checks that ALL makes a job of each time, a Pace apart, and that what is
// beyond the bounds of one decision follows in the next.
func TestCatchUpIsBounded(t *testing.T) {
	f := newFixture(t, firing.Policies{CatchUp: firing.CatchUpAll, Overlap: firing.Allow, CatchUpWindow: 30 * 24 * time.Hour})
	const days = 20 * 24 * time.Hour
	jobs, rounds := 0, 0
	var before time.Time
	for rounds == 0 || !f.due.Schedule.Next.After(f.due.Now) {
		if rounds++; rounds > 400 {
			t.Fatal("the outage has no end")
		}
		got := f.at(days)
		if len(got) > store.MaxFirings {
			t.Fatalf("%d firings in one decision", len(got))
		}
		for _, one := range got {
			if one.Job == nil {
				continue
			}
			jobs++
			if !before.IsZero() && one.Job.ScheduleTime.Sub(before) != firing.Pace {
				t.Fatalf("%s after the one before", one.Job.ScheduleTime.Sub(before))
			}
			before = one.Job.ScheduleTime
		}
	}
	c := f.due.Schedule.Counts
	if all := c.Fired + c.Missed + c.Coalesced; all != int64(days/time.Minute) || jobs != int(c.Fired) || int64(jobs) != all || f.due.Schedule.CatchUp != (store.CatchUp{}) {
		t.Errorf("%d jobs, counts %+v in %d decisions", jobs, c, rounds)
	}
}

// TestCatchUpOneByOne checks that with BUFFER_ONE, each caught-up firing waits for the end of the
// one before, and that none is dropped.
func TestCatchUpOneByOne(t *testing.T) {
	f := newFixture(t, firing.Policies{CatchUp: firing.CatchUpAll, CatchUpWindow: 12 * time.Hour}, "0 * * * *")
	now := 3*time.Hour + 30*time.Minute
	want(t, f, f.at(now), "FIRED 10:00") // and 11:00 waits
	want(t, f, f.at(now, open(job.Sending)), "")
	want(t, f, f.at(now+time.Minute), "FIRED 11:00")
	want(t, f, f.at(now+2*time.Minute), "FIRED 12:00")
	if c := f.due.Schedule.Counts; c != (store.ScheduleCounts{Fired: 3}) {
		t.Errorf("counts %+v", c)
	}
}

func TestPausesItself(t *testing.T) {
	failed := func(n int, at time.Time) (out []store.EndedJob) {
		for range n {
			out = append(out, store.EndedJob{State: job.Failed, Decided: at})
		}
		return out
	}
	for _, c := range []struct {
		name     string
		policies firing.Policies
		edit     func(*fixture)
		cause    store.PauseCause
		fired    string
	}{
		{"failures", firing.Policies{PauseAfterFailures: 3}, func(f *fixture) { f.due.Ended = failed(3, begin) }, store.PausedByFailures, "MISSED 09:01"},
		{"too few failures", firing.Policies{PauseAfterFailures: 3}, func(f *fixture) {
			f.due.Ended = append(failed(2, begin), store.EndedJob{State: job.Succeeded, Decided: begin}, failed(1, begin)[0])
		}, 0, "FIRED 09:01"},
		{"failures before a person resumed it", firing.Policies{PauseAfterFailures: 3}, func(f *fixture) {
			f.due.Ended = failed(5, begin.Add(-time.Second))
		}, 0, "FIRED 09:01"},
		{"auth hold", firing.Policies{PauseOnAuthHold: true}, func(f *fixture) { f.due.Connection.AuthHoldAt = begin }, store.PausedByAuthHold, "MISSED 09:01"},
		{"auth hold, not asked for", firing.Policies{}, func(f *fixture) { f.due.Connection.AuthHoldAt = begin }, 0, "FIRED 09:01"},
		{"refused by the builder", firing.Policies{}, func(f *fixture) {
			f.plan.Build = func(recur.Beat, int64) (store.NewJob, error) { return store.NewJob{}, errors.New("too long") }
		}, store.PausedByRefusal, "REFUSED 09:01"},
		{"refused by the store", firing.Policies{}, func(f *fixture) {
			f.due.Refused = map[string]error{"2026-11-02T09:01:00/1": store.ErrNotFound}
		}, store.PausedByRefusal, "REFUSED 09:01"},
		{"a cursor of other times", firing.Policies{}, func(f *fixture) { f.due.Schedule.Cursor = "{}" }, store.PausedByRefusal, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, c.policies)
			c.edit(f)
			want(t, f, f.at(time.Minute), c.fired)
			s := f.due.Schedule
			if s.PauseCause != c.cause || (s.State == store.SchedulePaused) != (c.cause != 0) || (s.Note != "") != (c.cause != 0) {
				t.Errorf("state %d, cause %d, note %q", s.State, s.PauseCause, s.Note)
			}
			if c.cause != 0 && !s.Next.IsZero() {
				t.Error("a paused schedule is due")
			}
		})
	}
}

// TestKnownFirings checks that a firing that a server with other time zone data has decided is not
// decided again.
func TestKnownFirings(t *testing.T) {
	f := newFixture(t, firing.Policies{})
	f.due.Known = map[string]store.Firing{"2026-11-02T09:01:00/1": {Name: "2026-11-02T09:01:00/1"}}
	want(t, f, f.at(2*time.Minute), "FIRED 09:02")
	if f.due.Schedule.Run != 1 {
		t.Errorf("run %d", f.due.Schedule.Run)
	}
}

func TestSkipsAndEnds(t *testing.T) {
	f := newFixture(t, firing.Policies{MaxFirings: 2, Overlap: firing.Allow})
	f.due.Schedule.Skips = []string{"2026-11-02T09:01:00/1", "2026-11-02T09:30:00/1"}
	want(t, f, f.at(time.Minute), "PERSON 09:01")
	if len(f.due.Schedule.Skips) != 1 {
		t.Errorf("skips %q", f.due.Schedule.Skips)
	}
	want(t, f, f.at(2*time.Minute), "FIRED 09:02")
	want(t, f, f.at(3*time.Minute), "FIRED 09:03")
	if f.due.Schedule.State != store.ScheduleEnded || !f.due.Schedule.Next.IsZero() {
		t.Errorf("schedule %+v", f.due.Schedule)
	}
	want(t, f, f.at(4*time.Minute), "")

	// Firings behind the last one are not missed: there are none.
	f = newFixture(t, firing.Policies{MaxFirings: 1, Overlap: firing.Allow, CatchUp: firing.CatchUpAll})
	want(t, f, f.at(3*time.Minute), "FIRED 09:01")
	if c := f.due.Schedule.Counts; c != (store.ScheduleCounts{Fired: 1}) {
		t.Errorf("counts %+v at the end", c)
	}

	f = newFixture(t, firing.Policies{})
	end := times(t).Spec()
	end.End = begin.Add(90 * time.Second)
	var err error
	if f.plan.Times, err = recur.Compile(end, zones); err != nil {
		t.Fatal(err)
	}
	want(t, f, f.at(time.Minute), "FIRED 09:01")
	if f.due.Schedule.State != store.ScheduleEnded {
		t.Errorf("state %d after the last time", f.due.Schedule.State)
	}
}

// TestRandomly checks with random policies, outages and jobs that each time is passed once and in
// order, that no job is made twice, and that the counters add up.
func TestRandomly(t *testing.T) {
	overlaps := []firing.Overlap{firing.BufferOne, firing.Skip, firing.Allow}
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		p := firing.Policies{
			Overlap: overlaps[r.IntN(3)], WhileUnresolved: overlaps[r.IntN(3)], CatchUp: firing.CatchUp(1 + r.IntN(3)),
			CatchUpWindow: time.Duration(1+r.IntN(300)) * time.Minute,
		}
		cron := []string{"* * * * *", "*/15 * * * *", "30 2,9 * * *"}[r.IntN(3)]
		f := newFixture(t, p, cron)
		seen := make(map[string]bool)
		now, total := time.Duration(0), int64(0)
		for range 40 {
			now += time.Duration(r.IntN([]int{90, 600, 40_000}[r.IntN(3)])) * time.Second
			var jobs []store.OpenJob
			for _, state := range []job.State{job.Scheduled, job.Sending, job.Ambiguous, job.NeedsResolution} {
				if r.IntN(6) == 0 {
					jobs = append(jobs, open(state))
				}
			}
			for _, one := range f.at(now, jobs...) {
				if seen[one.Firing.Name] {
					t.Fatalf("seed %d: %s decided twice", seed, one.Firing.Name)
				}
				seen[one.Firing.Name] = true
				total++
				if (one.Job != nil) != (one.Firing.Outcome == store.FiringFired) || one.Job != nil && one.Job.ScheduleTime.Before(f.due.Now.Add(-firing.Late)) {
					t.Fatalf("seed %d: %+v", seed, one)
				}
			}
			if b := f.due.Schedule.Buffered; b != nil && seen[b.Name] {
				t.Fatalf("seed %d: %s is buffered after it was decided", seed, b.Name)
			}
		}
		for f.due.Schedule.Buffered != nil || !f.due.Schedule.Next.After(f.due.Now) {
			for _, one := range f.at(now) { // no job blocks it any more
				if seen[one.Firing.Name] {
					t.Fatalf("seed %d: %s decided twice", seed, one.Firing.Name)
				}
				seen[one.Firing.Name] = true
				total++
			}
		}
		c, passed := f.due.Schedule.Counts, int64(0)
		cursor := f.plan.Times.After(begin)
		for {
			beat, next, ok := f.plan.Times.Next(cursor)
			if !ok || beat.Fire.After(f.due.Now) {
				break
			}
			passed++
			cursor = next
		}
		if all := c.Fired + c.SkippedByOverlap + c.Missed + c.Coalesced; all != passed || total > all || c.Fired != f.due.Schedule.Run {
			t.Fatalf("seed %d: %d times have passed, counts %+v, %d firings, %d runs", seed, passed, c, total, f.due.Schedule.Run)
		}
	}
}

// TestDecideIsPure checks that Decide does not change its arguments.
func TestDecideIsPure(t *testing.T) {
	f := newFixture(t, firing.Policies{})
	f.due.Schedule.Skips = []string{"2026-11-02T09:01:00/1", "2026-11-02T09:02:00/1"}
	f.due.Now = begin.Add(time.Minute)
	firing.Decide(f.due, f.plan)
	if !slices.Equal(f.due.Schedule.Skips, []string{"2026-11-02T09:01:00/1", "2026-11-02T09:02:00/1"}) {
		t.Errorf("skips %q", f.due.Schedule.Skips)
	}
}
