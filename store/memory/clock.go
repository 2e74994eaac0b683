package memory

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a step moves what is stored before the call that detects it reads
// anything, so that no call sees times of before the step and records of after it.

// moment returns the present, after a step that it may require.
func (s *Store) moment() store.ClockMoment {
	m := s.clock.Read(s.opts.Clock.Read())
	if m.Step != nil {
		s.step(*m.Step)
		s.steps++
		s.moved += time.Duration(m.Step.By) * time.Microsecond
		s.clock.Follow(*m.Step)
		m = s.clock.Read(s.opts.Clock.Read())
	}
	s.saved = s.clock.Save()
	return m
}

// Steps returns how many steps the clock has made.
func (s *Store) Steps() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps
}

// Restart makes the store continue as the next process would. The boot clock, which starts
// from zero on a new run of the machine, shows which run it is.
func (s *Store) Restart(opts store.ClockOptions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if opts.Read == nil {
		opts.Read = s.opts.Clock.Read
	}
	s.opts.Clock = opts
	saved := s.saved
	saved.BootID = "a run"
	s.clock = store.NewClock(opts, store.Resume(saved, saved.BootID, opts.Read().Boot))
}

func (s *Store) step(step store.ClockStep) {
	from, to := time.UnixMicro(step.From).UTC(), time.UnixMicro(step.To).UTC()
	over, by := earlier(from, to), time.Duration(step.By)*time.Microsecond
	for _, r := range s.all {
		if by != 0 {
			stepJob(r, over, to, by)
		}
		if step.AgesUnknown && r.job.Class == job.Keyed && !r.job.State.Terminal() {
			for i := range r.attempts {
				r.attempts[i].ArmedAt = store.AgeUnknown
			}
		}
		j := &r.job
		if windowed(j.State) && (j.Unasked || j.KeepTrying > 0 || !j.ScheduleTime.After(to)) && j.StartDeadline.After(to.Add(-step.Suspended)) {
			j.StartDeadline = j.StartDeadline.Add(step.Suspended)
		}
	}
	if by == 0 {
		return
	}
	for _, row := range s.rows {
		row.rateLimitedUntil = ahead(row.rateLimitedUntil, over, by)
		row.stoppedUntil = ahead(row.stoppedUntil, over, by)
		row.servedAt = earlier(row.servedAt, to)
	}
	for _, c := range s.connOrder {
		if c.bucketAt > 0 {
			c.bucketAt += step.By
		}
	}
	s.stepStops(over, by)
	for owner, mark := range s.cooling {
		mark.ArmedAt = mark.ArmedAt.Add(by)
		s.cooling[owner] = mark
	}
	for id, row := range s.renewals {
		row.Until = ahead(row.Until, over, by)
		row.Begun, row.Before = moved(row.Begun, by), moved(row.Before, by)
		s.renewals[id] = row
	}
	s.stepNotices(over, by)
	for state, login := range s.logins {
		login.Expires = ahead(login.Expires, over, by)
		s.logins[state] = login
	}
	if by < 0 {
		s.stepPast(from, to)
	}
}

// stepStops moves the times of the next probes of breakers.
func (s *Store) stepStops(over time.Time, by time.Duration) {
	for i := range s.stops {
		s.stops[i].ProbeAt = ahead(s.stops[i].ProbeAt, over, by)
	}
}

// stepNotices moves the waits of subscriptions, and the lease of the server that makes notices.
func (s *Store) stepNotices(over time.Time, by time.Duration) {
	for _, c := range s.subscriptions {
		c.Next, c.Failing = moved(c.Next, by), moved(c.Failing, by)
		c.Revision++
	}
	s.noticePlace.until = ahead(s.noticePlace.until, over, by)
}

// stepPast moves times that a step back has left in the future, although they have passed.
func (s *Store) stepPast(from, to time.Time) {
	for _, r := range s.all {
		r.firstArmed = earlier(r.firstArmed, to)
	}
	for _, c := range s.schedules {
		if c.Next.After(to) && !c.Next.After(from.Add(store.BufferedLook)) {
			c.Next = to
		}
		c.PostponedUntil = time.Time{}
	}
	for _, c := range s.connOrder {
		c.PausedAt = earlier(c.PausedAt, to)
	}
	for i := range s.stops {
		if c := &s.stops[i]; !c.Planned {
			c.Begin = earlier(c.Begin, to)
		}
	}
	for _, k := range s.apiKeys {
		k.LastUsed = earlier(k.LastUsed, to)
	}
}

// ahead moves a bound that was not over before the step.
func ahead(t, over time.Time, by time.Duration) time.Time {
	if t.After(over) {
		return t.Add(by)
	}
	return t
}

// moved moves a time, if there is one.
func moved(t time.Time, by time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(by)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// ownWait reports whether the job computed the time for which it waits. A time that a client asked
// for is the beginning of the job's window, until the job has begun.
func ownWait(j *job.Job) bool {
	return j.KeepTrying > 0 || !j.NextAt.Add(j.Window()).Equal(j.StartDeadline)
}

// stepJob moves those of a job's times that were computed from durations.
func stepJob(r *record, over, to time.Time, by time.Duration) {
	j := &r.job
	under := j.State >= job.Claimed && j.State <= job.NeedsResolution
	for i := range r.attempts {
		a := &r.attempts[i]
		if a.ArmedAt.Equal(store.AgeUnknown) || !under && !a.Fence.After(over) {
			continue
		}
		a.ArmedAt, a.SendDeadline = a.ArmedAt.Add(by), a.SendDeadline.Add(by)
		a.AnswerDeadline, a.Fence = a.AnswerDeadline.Add(by), a.Fence.Add(by)
	}
	switch {
	case j.State.InFlight():
		j.NextAt = j.NextAt.Add(by)
	case j.State == job.Ambiguous || j.State == job.Accepted:
		j.NextAt, j.ClaimToken = j.NextAt.Add(by), job.ID{} // a look under way proves nothing after it
	case j.State.Runnable() && j.Unasked:
		j.NextAt = j.NextAt.Add(by)
	case j.State.Runnable() && j.WaitsFor.IsZero() && j.NextAt.After(over) && ownWait(j):
		// A job that waits for a predecessor has no other wait. A job that runs before its
		// time, because a person said so, stays so.
		next := j.NextAt.Add(by)
		if !j.NextAt.Before(j.ScheduleTime) {
			next = later(j.ScheduleTime, next)
		}
		j.NextAt = next
	}
	if (j.Unasked || j.KeepTrying > 0) && !j.State.Terminal() {
		j.StartDeadline = j.StartDeadline.Add(by)
	}
	if j.Ended.After(to) {
		j.Ended = to
	}
}
