package firing_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/store"
)

// fits returns an error if a store would refuse so many firings in one decision.
func fits(firings []store.FiringDecision) error {
	jobs := 0
	for _, f := range firings {
		if f.Job != nil {
			jobs++
		}
	}
	if jobs > store.MaxFiringJobs || len(firings) > store.MaxFirings {
		return fmt.Errorf("%d jobs, %d firings in one decision", jobs, len(firings))
	}
	return nil
}

// outage is a schedule whose jobs take a while, and what became of its times.
type outage struct {
	*fixture
	takes   time.Duration
	ends    []time.Time // of the jobs that have not ended
	rows    []store.FiringDecision
	rounds  int
	decided map[string]bool
}

// every returns a schedule with an interval, whose jobs take a while each.
func every(t interface {
	Helper()
	Fatal(args ...any)
}, period, takes time.Duration, p firing.Policies) *outage {
	t.Helper()
	times, err := recur.Compile(recur.Spec{ID: "s", Zone: "UTC", Intervals: []recur.Interval{{Every: period}}}, zones)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{plan: firing.Plan{Times: times, Policies: p, Build: func(recur.Beat, int64) (store.NewJob, error) { return store.NewJob{}, nil }}}
	cursor, err := firing.Begin(times, begin)
	if err != nil {
		t.Fatal(err)
	}
	f.due = store.DueSchedule{Now: begin, Schedule: store.Schedule{State: store.ScheduleActive, Cursor: cursor, Updated: begin, Next: begin.Add(period)}}
	return &outage{fixture: f, takes: takes, decided: make(map[string]bool)}
}

// errLate is returned if decisions do not end.
var errLate = errors.New("the decisions have no end")

// decide makes the decisions that follow one another immediately at an instant.
func (o *outage) decide(now time.Time) error {
	for range 3000 {
		o.ends = slices.DeleteFunc(o.ends, func(end time.Time) bool { return !end.After(now) })
		o.due.Now, o.due.Open = now, nil
		if len(o.ends) > 0 {
			o.due.Open = []store.OpenJob{open(job.Sending)}
		}
		out := firing.Decide(o.due, o.plan)
		o.rounds++
		if err := fits(out.Firings); err != nil {
			return err
		}
		for _, f := range out.Firings {
			if o.decided[f.Firing.Name] {
				return fmt.Errorf("%s was decided twice", f.Firing.Name)
			}
			o.decided[f.Firing.Name] = true
			if f.Job != nil {
				o.ends = append(o.ends, later(f.Job.ScheduleTime, now).Add(o.takes))
			}
		}
		o.rows = append(o.rows, out.Firings...)
		o.due.Schedule = out.Schedule
		if out.Schedule.State != store.ScheduleActive || out.Schedule.Next.After(now) {
			return nil
		}
	}
	return errLate
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// run makes decisions from an instant on, each when it is due or a job has ended.
func (o *outage) run(from, to time.Time) error {
	for now := from; now.Before(to); {
		if err := o.decide(now); err != nil {
			return err
		}
		next := o.due.Schedule.Next
		if b := o.due.Schedule.Buffered; b != nil || next.IsZero() {
			for _, end := range o.ends {
				if next.IsZero() || end.Before(next) {
					next = end
				}
			}
		}
		if !next.After(now) {
			return errLate
		}
		now = next
	}
	return nil
}

// TestSetsOfMissedTimes checks with any period, outage, policies and window that no time is lost,
// each is decided once and in its order, no decision is beyond the store's bounds, ALL makes a job
// of each time inside the window and LATEST one of the latest.
func TestSetsOfMissedTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		periods := []time.Duration{10 * time.Second, 17 * time.Second, time.Minute, 5 * time.Minute, time.Hour}
		period := rapid.SampledFrom(periods).Draw(t, "period")
		down := period * time.Duration(rapid.IntRange(1, 700).Draw(t, "times")) / time.Duration(rapid.IntRange(1, 3).Draw(t, "part"))
		takes := time.Duration(rapid.IntRange(1, int(period/time.Second)-1).Draw(t, "takes")) * time.Second
		p := firing.Policies{
			Overlap: firing.Overlap(rapid.IntRange(1, 3).Draw(t, "overlap")), CatchUp: firing.CatchUp(rapid.IntRange(1, 3).Draw(t, "catch-up")),
			CatchUpWindow: rapid.SampledFrom([]time.Duration{time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "window"),
		}
		o := every(t, period, takes, p)
		up := begin.Add(down + time.Duration(rapid.IntRange(0, 40).Draw(t, "more"))*time.Second)
		if err := o.run(up, up.Add(time.Nanosecond)); err != nil {
			t.Fatal(err)
		}
		first := len(o.rows)
		if err := o.run(later(o.due.Schedule.Next, up.Add(time.Nanosecond)), up.Add(2*down+time.Hour)); err != nil {
			t.Fatal(err)
		}
		checkSet(t, o, p, up, o.rows[:first])
	})
}

// TestOneTimeTooMany checks outages with about as many missed times as one decision may make jobs.
func TestOneTimeTooMany(t *testing.T) {
	const period = 10 * time.Second
	for times := store.MaxFiringJobs - 1; times <= store.MaxFiringJobs+2; times++ {
		o := every(t, period, time.Second, firing.Policies{Overlap: firing.Allow, CatchUp: firing.CatchUpAll, CatchUpWindow: time.Hour})
		up := begin.Add(time.Duration(times) * period)
		if err := o.run(up, up.Add(time.Hour)); err != nil {
			t.Errorf("%d times: %v", times, err)
		}
		fired := 0
		for _, f := range o.rows {
			if f.Job != nil && !f.Firing.Nominal.After(up) {
				fired++
			}
		}
		if fired != times {
			t.Errorf("%d of %d times have a job", fired, times)
		}
	}
}

// checkSet checks what became of the times up to up, and that nothing is lost or out of order.
func checkSet(t *rapid.T, o *outage, p firing.Policies, up time.Time, atOnce []store.FiringDecision) {
	t.Helper()
	var before, due, lastFired time.Time
	outcome := make(map[int64]store.FiringOutcome)
	for _, f := range o.rows {
		if f.Firing.Nominal.Before(before) && f.Firing.Outcome != store.FiringFired {
			t.Fatalf("%s was decided after a later time", f.Firing.Name)
		}
		before = later(before, f.Firing.Nominal)
		outcome[f.Firing.Nominal.Unix()] = f.Firing.Outcome
		if f.Job == nil {
			continue
		}
		if f.Firing.Nominal.Before(lastFired) || !f.Firing.Nominal.After(up) && f.Job.ScheduleTime.Before(due) {
			t.Fatalf("the job of %s is before that of an earlier time", f.Firing.Name)
		}
		lastFired, due = f.Firing.Nominal, f.Job.ScheduleTime
	}
	s, passed, inside := o.due.Schedule, int64(0), int64(0)
	if s.Buffered != nil {
		before = later(before, s.Buffered.Nominal)
	}
	var latest time.Time
	for c := o.plan.Times.After(begin); ; passed++ {
		b, next, ok := o.plan.Times.Next(c)
		if !ok || b.Fire.After(o.due.Now) || s.CatchUp.Began.After(begin) && b.Fire.After(before) {
			break // those that a catch-up has not come to wait their turn behind its cursor
		}
		if c = next; b.Fire.After(up) {
			continue
		}
		latest = b.Fire
		if up.Sub(b.Fire) > p.CatchUpWindow {
			continue
		}
		inside++
		if got := outcome[b.Fire.Unix()]; p.CatchUp == firing.CatchUpAll && p.Overlap != firing.Skip && got != store.FiringFired {
			t.Fatalf("with ALL, the time %s before the start has outcome %d", up.Sub(b.Fire), got)
		}
	}
	waits := int64(0)
	if s.Buffered != nil {
		waits = 1
	}
	c := s.Counts
	if all := c.Fired + c.Missed + c.Coalesced + c.SkippedByOverlap + waits; all != passed {
		t.Fatalf("%d times have passed, and %d are decided: %+v", passed, all, c)
	}
	if p.CatchUp == firing.CatchUpLatest && inside > 0 {
		if got := outcome[latest.Unix()]; got != store.FiringFired {
			t.Fatalf("with LATEST, the latest time has outcome %d", got)
		}
		if n := len(atOnce); n == 0 || atOnce[n-1].Job == nil || !atOnce[n-1].Firing.Nominal.Equal(latest) {
			t.Fatal("with LATEST, the latest time made no job immediately")
		}
	}
}
