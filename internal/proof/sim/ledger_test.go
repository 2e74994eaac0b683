package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: when a schedule is to fire, and under which name, is reckoned by an
// arithmetic of its own, with Go's time zones alone, as docs/schedules.md has it. The ledger
// is held against that, and the jobs and the platform's posts against the ledger.

// simRule is when a schedule fires: in every hour, at some hours, or in an interval.
type simRule struct {
	name  string
	zone  string
	cron  string
	every time.Duration // in every hour: minutes that are multiples of it; or the interval
	hours []int         // at these hours, and at minute
	// minute, of those with hours.
	minute int
}

var simRules = map[string]simRule{
	"*/10":   {name: "*/10", cron: "*/10 * * * *", every: 10 * time.Minute},
	"*/20":   {name: "*/20", cron: "*/20 * * * *", every: 20 * time.Minute},
	"0,30":   {name: "0,30", cron: "0,30 * * * *", every: 30 * time.Minute},
	"hourly": {name: "hourly", cron: "@hourly", every: time.Hour},
	"2,9":    {name: "2,9", cron: "30 1,2,3,9,23 * * *", hours: []int{1, 2, 3, 9, 23}, minute: 30},
	"1m":     {name: "1m", every: time.Minute},
	"5m":     {name: "5m", every: 5 * time.Minute},
	"15m":    {name: "15m", every: 15 * time.Minute},
}

func (r simRule) spec() *schedulesv1.ScheduleSpec {
	out := &schedulesv1.ScheduleSpec{TimeZone: r.zone}
	if r.cron == "" {
		out.Intervals = []*schedulesv1.ScheduleInterval{{Every: durationpb.New(r.every)}}
	} else {
		out.CronExpressions = []string{r.cron}
	}
	return out
}

// simBeat is a time of a rule.
type simBeat struct {
	name string
	at   time.Time
	mark store.TimeMark
}

const civilTime = "2006-01-02T15:04:05"

// beats are the times of a rule after an instant and up to another one.
func (r simRule) beats(after, until time.Time) (out []simBeat) {
	zone, err := time.LoadLocation(r.zone)
	if err != nil {
		panic(err)
	}
	add := func(b simBeat) {
		if b.at.After(after) && !b.at.After(until) {
			out = append(out, b)
		}
	}
	switch {
	case r.cron == "":
		for at := after.Truncate(time.Second).Unix() / int64(r.every.Seconds()); ; at++ {
			b := simBeat{name: fmt.Sprint("i:", at), at: time.Unix(at*int64(r.every.Seconds()), 0)}
			if add(b); b.at.After(until) {
				return out
			}
		}
	case r.hours == nil:
		for at := after.Truncate(time.Minute); !at.After(until); at = at.Add(time.Minute) {
			local := at.In(zone)
			if local.Minute()%int(min(r.every, time.Hour).Minutes()) != 0 {
				continue
			}
			b := simBeat{name: local.Format(civilTime) + "/1", at: at}
			if again := at.Add(-time.Hour).In(zone); again.Format(civilTime) == local.Format(civilTime) {
				b.name, b.mark = local.Format(civilTime)+"/2", store.MarkRepeated
			}
			add(b)
		}
	default:
		first := after.In(zone)
		for day := -1; ; day++ {
			for _, hour := range r.hours {
				b := civilBeat(time.Date(first.Year(), first.Month(), first.Day()+day, hour, r.minute, 0, 0, time.UTC), zone)
				if add(b); b.at.After(until.Add(24 * time.Hour)) {
					return out
				}
			}
		}
	}
	return out
}

// civilBeat is the time of a fixed hour: in the first of two passes, and where it does not
// exist, the first instant after the gap.
func civilBeat(civil time.Time, zone *time.Location) simBeat {
	name := civil.Format(civilTime)
	b := simBeat{name: name + "/1"}
	shows := func(at time.Time) bool { return at.In(zone).Format(civilTime) == name }
	for at := civil.Add(-26 * time.Hour); !at.After(civil.Add(26 * time.Hour)); at = at.Add(30 * time.Minute) {
		if shows(at) {
			if b.at = at; shows(at.Add(time.Hour)) {
				b.mark = store.MarkFirstOfTwo
			}
			return b
		}
	}
	b.mark = store.MarkShifted
	for at := civil.Add(-26 * time.Hour); ; at = at.Add(30 * time.Minute) {
		if at.In(zone).Format(civilTime) > name {
			b.at = at
			return b
		}
	}
}

// named is the name of a beat under a span.
func (s *simSpan) named(b simBeat) string {
	if s.generation > 1 {
		return fmt.Sprintf("g%d:%s", s.generation, b.name)
	}
	return b.name
}

// ledger reads the firings of a schedule behind a place, newest first.
func (w *simWorld) ledger(c *simSchedule, known int) (out []store.Firing) {
	q := store.FiringQuery{Schedule: c.id, Limit: 100}
	for {
		p, err := w.store.Firings(context.Background(), q)
		if err != nil {
			w.t.Error(err)
			return out
		}
		out = append(out, p.Firings...)
		q.Before = p.Next
		if q.Before == 0 || known > 0 && slices.ContainsFunc(p.Firings, func(f store.Firing) bool { _, ok := c.rows[f.Name]; return ok }) {
			return out
		}
	}
}

// ledgerIsTrue holds what was decided about schedules against their rules.
func (w *simWorld) ledgerIsTrue() {
	if !w.decided {
		return
	}
	w.decided = false
	w.adopt(w.store.Changed(w.seen))
	for _, c := range w.schedules {
		s, err := w.store.Schedule(context.Background(), store.Ref{ID: c.id})
		if err != nil {
			w.t.Error(err)
			return
		}
		for _, f := range slices.Backward(w.ledger(c, len(c.rows))) {
			if _, known := c.rows[f.Name]; !known {
				w.firingIsTrue(c, f)
				c.rows[f.Name] = f
			}
		}
		w.countersAddUp(c, s)
		if s.State != store.ScheduleActive && s.PauseCause != store.PausedByPerson {
			w.broke("PAUSED", w.jobs[0], "schedule %d stopped by itself, state %d, cause %d: %s", c.index, s.State, s.PauseCause, s.Note)
		}
	}
}

// firingIsTrue: ONE_JOB, EARLY, PAUSED, NO_TIME and OVERLAP, of a firing that was decided.
func (w *simWorld) firingIsTrue(c *simSchedule, f store.Firing) {
	j := w.byID[f.Job]
	if j == nil {
		j = w.jobs[0]
	}
	w.note("", "firing", f.Job, c.index, fmt.Sprintf("%s, outcome %d, origin %d: %s", f.Name, f.Outcome, f.Origin, f.Reason))
	made := f.Outcome == store.FiringFired
	if w.endOfDoubt(); w.doubt.stands && f.Origin != store.FiredByTrigger && f.Reason != "paused" {
		w.broke("DOUBT", j, "%s of schedule %d was decided while nobody knows what the time is", f.Name, c.index)
	}
	if other := c.owners[f.Job]; made && (w.byID[f.Job] == nil || j.schedule != c || other != "") {
		w.broke("ONE_JOB", j, "%s made job %s, which is %q's", f.Name, f.Job, other)
	}
	if made {
		w.stats.fired++
		c.owners[f.Job] = f.Name
	} else {
		w.stats.skipped++
	}
	if f.Origin == store.FiredByCatchUp && made {
		w.stats.caughtUp++
	}
	if f.Origin == store.FiredByTrigger {
		return
	}
	if c.paused && f.Reason != "paused" {
		w.broke("PAUSED", j, "%s was decided in a pause", f.Name)
	}
	if early := time.Until(f.Nominal); early > w.ahead() || early > 0 && !w.clockJumps {
		w.broke("EARLY", j, "%s was decided %v before its time", f.Name, early)
	}
	w.isATime(c, f, j)
	if made {
		w.overlaps(c, f, j)
	}
}

// isATime: NO_TIME, for a name that the rule does not have, and ONE_JOB, for two of one time.
func (w *simWorld) isATime(c *simSchedule, f store.Firing, j *simJob) {
	i := slices.IndexFunc(c.spans, func(s *simSpan) bool {
		prefix := s.named(simBeat{})
		return s.generation == 1 && !strings.HasPrefix(f.Name, "g") || s.generation > 1 && strings.HasPrefix(f.Name, prefix)
	})
	if i < 0 {
		w.broke("NO_TIME", j, "%s is of no times that schedule %d has had", f.Name, c.index)
		return
	}
	if w.disagree {
		return // what a server took for the time of a name depends on its zone data
	}
	s := c.spans[i]
	beats := s.rule.beats(f.Nominal.Add(-time.Second), f.Nominal)
	if len(beats) != 1 || s.named(beats[0]) != f.Name || !beats[0].at.Equal(f.Nominal) || beats[0].mark != f.Mark {
		w.broke("NO_TIME", j, "%s at %v, mark %d, is no time of %s in %s, which has %v then", f.Name, f.Nominal, f.Mark, s.rule.name, s.rule.zone, beats)
		return
	}
	switch f.Mark {
	case store.MarkShifted:
		w.stats.shifted++
	case store.MarkRepeated:
		w.stats.repeated++
	}
	at := fmt.Sprint(s.generation, f.Nominal.UnixMicro())
	if other, taken := c.instants[at]; taken && f.Origin != store.FiredByBackfill {
		w.broke("ONE_JOB", j, "%s and %s are of one time", f.Name, other)
	}
	c.instants[at] = f.Name
}

// overlaps: OVERLAP, when a job was made beside one that had not ended.
func (w *simWorld) overlaps(c *simSchedule, f store.Firing, j *simJob) {
	for _, other := range w.jobs {
		s := other.last
		if other.schedule != c || other == j || s.State.Terminal() || s.Version == 0 {
			continue
		}
		policy := c.overlap
		if s.State == job.Ambiguous || s.State == job.NeedsResolution {
			policy = c.unresolved
		}
		if policy != schedulesv1.OverlapPolicy_OVERLAP_POLICY_ALLOW {
			w.broke("OVERLAP", j, "%s was made beside %s, which is %s", f.Name, other.beat, s.State)
		}
	}
}

// countersAddUp: COUNTS.
func (w *simWorld) countersAddUp(c *simSchedule, s store.Schedule) {
	var got store.ScheduleCounts
	for _, f := range c.rows {
		switch f.Outcome {
		case store.FiringFired:
			got.Fired++
		case store.FiringSkippedByOverlap:
			got.SkippedByOverlap++
		case store.FiringMissed:
			got.Missed++
		case store.FiringCoalesced:
			got.Coalesced++
		default:
			w.broke("COUNTS", w.jobs[0], "%s of schedule %d has outcome %d: %s", f.Name, c.index, f.Outcome, f.Reason)
		}
	}
	if got != s.Counts || got.Fired != s.Run {
		w.broke("COUNTS", w.jobs[0], "the ledger of schedule %d has %+v, and it says %+v and %d runs", c.index, got, s.Counts, s.Run)
	}
	made := 0
	for _, j := range w.jobs {
		if j.schedule == c {
			made++
		}
	}
	if made != len(c.owners) {
		w.broke("ONE_JOB", w.jobs[0], "schedule %d has %d jobs of %d firings", c.index, made, len(c.owners))
	}
}

// beatHasOneEffect: ONE_EFFECT, as an effect is made: what a text says, only one job says.
func (w *simWorld) beatHasOneEffect(j *simJob, p *simPost) {
	if j.beat == "" || j.target.twins {
		return
	}
	for _, other := range j.target.posts {
		if other.text == p.text && other.job != j {
			w.broke("ONE_EFFECT", j, "%q was posted by job %d, too", p.text, other.job.index)
		}
	}
}

// schedulePatience is how long after the last fault a schedule may be behind: a server that
// stands still has to go on first.
const schedulePatience = 20 * time.Minute

// endSchedules lets schedules decide what has come, looks whether they have, and ends them.
func (w *simWorld) endSchedules() {
	if len(w.schedules) == 0 {
		return
	}
	patience := schedulePatience
	if w.clockJumps {
		patience += store.DefaultSuspectFor
	}
	for end := time.Now().Add(patience); time.Now().Before(end) && !w.director.over; {
		w.director.run(end)
	}
	for _, c := range w.schedules {
		if synctest.Wait(); w.director.over { // who was woken by the last change has looked
			return
		}
		s, err := w.store.Schedule(context.Background(), store.Ref{ID: c.id})
		if err != nil {
			w.t.Error(err)
			return
		}
		w.goesOn(c, s)
		w.decided = true
		if s.State == store.ScheduleActive {
			change := store.ScheduleChange{Schedule: s, Actor: "client"}
			w.edit(c, &change, false)
			if _, err := w.store.ChangeSchedule(context.Background(), change); err != nil {
				w.t.Error(err)
			}
			c.paused = true
		}
		w.check()
	}
}

// goesOn: STALLED, when nothing is in the way of a schedule and a time that has come was not
// decided; STUCK, when a firing waits for nothing.
func (w *simWorld) goesOn(c *simSchedule, s store.Schedule) {
	if s.State != store.ScheduleActive {
		return
	}
	now := w.believed()
	free := !slices.ContainsFunc(w.jobs, func(j *simJob) bool { return j.schedule == c && !j.last.State.Terminal() })
	if s.Buffered != nil && free {
		w.broke("STUCK", w.jobs[0], "%s of schedule %d waits, and nothing is in its way", s.Buffered.Name, c.index)
	}
	if late := now.Sub(s.Next); s.Next.IsZero() || late > store.BufferedLook {
		w.broke("STALLED", w.jobs[0], "schedule %d was to be decided about at %v, %v ago", c.index, s.Next, late)
	}
	oneByOne := c.catchUp == schedulesv1.CatchUpPolicy_CATCH_UP_POLICY_ALL &&
		(c.overlap == schedulesv1.OverlapPolicy_OVERLAP_POLICY_BUFFER_ONE || c.unresolved == schedulesv1.OverlapPolicy_OVERLAP_POLICY_BUFFER_ONE)
	if oneByOne && !free {
		return // what is caught up waits its turn in its place
	}
	span, slack := c.span(), store.BufferedLook
	if w.disagree {
		slack = 3 * time.Hour
	}
	for _, b := range span.rule.beats(span.from.Add(slack-store.BufferedLook), now.Add(-slack)) {
		name := span.named(b)
		if _, there := c.rows[name]; !there && (s.Buffered == nil || s.Buffered.Name != name) {
			w.broke("STALLED", w.jobs[0], "%s of schedule %d, of %v, was not decided by %v", name, c.index, b.at, now)
			return
		}
	}
}
