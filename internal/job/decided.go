package job

import (
	"cmp"
	"slices"
	"time"
)

// Decided returns the job that every store writes for a decision, where now is the store's
// clock. It does not check whether the decision may be written. The decision's parts about
// attempts, holds and content locks are not part of the job.
func (j Job) Decided(d Decision, now time.Time) Job {
	from := j.State
	j.State, j.Version, j.Updated = d.To, j.Version+1, now
	j.Round, j.Failures, j.Claims = d.Round, d.Failures, d.Claims
	j.Looks, j.Negatives, j.Misses, j.Blocked = d.Looks, d.Negatives, d.Misses, d.Blocked
	if d.LastError != nil {
		failure := *d.LastError
		failure.At = now
		j.LastError = &failure
	}
	if d.Cancel && j.CancelAsked.IsZero() {
		j.CancelAsked = now
	}
	if d.Uncancel {
		j.CancelAsked = time.Time{}
	}
	j.moveDue(from, d, now)
	if d.WindowAgain {
		j = j.WindowAgain(now)
	}
	if d.KeepTrying > 0 {
		j = j.Tried(d.KeepTrying, now)
	}
	switch {
	case !d.To.Terminal():
		j.Ended = time.Time{}
	case from != d.To:
		j.Ended = now
	}
	return j
}

// moveDue sets when the job is next due, and the fields that follow from that.
func (j *Job) moveDue(from State, d Decision, now time.Time) {
	due, unasked := Micros(now.Add(max(0, d.Delay))), true
	if at := Micros(d.StartAt); !d.StartAt.IsZero() && !at.Before(due) {
		due, unasked = at, false
	}
	keep := d.Delay == KeepDelay || from == d.To && (d.To == Sending || d.To == Claimed)
	switch {
	case d.To.Terminal() || d.To == NeedsResolution:
		j.NextAt, j.ClaimToken = time.Time{}, ID{}
	case keep && !j.NextAt.IsZero():
		// A look that another worker has leased stays with that worker.
		if from != d.To {
			j.ClaimToken = ID{}
		}
	default:
		j.NextAt, j.ClaimToken = due, ID{}
	}
	if d.Reschedule {
		j.ScheduleTime = j.NextAt
		if d.Window > 0 {
			j.StartWindow = d.Window
		}
	}
	if d.NewWindow {
		j.StartDeadline, j.KeepTrying, j.Unasked = j.Deadline(due), 0, unasked
	}
}

// Tried returns a job that is tried at now, and is to be tried again for as long as keep says,
// counted from when it began.
func (j Job) Tried(keep time.Duration, now time.Time) Job {
	began := now
	if j.KeepTrying > 0 {
		began = j.StartDeadline.Add(-j.KeepTrying)
	}
	j.KeepTrying = max(keep.Truncate(time.Microsecond), time.Microsecond)
	j.StartDeadline = Micros(began.Add(j.KeepTrying))
	return j
}

// LeastAgain is the shortest window that begins again. It bounds the writes of a stop that holds
// windows, and covers the time for which a claim leaves stopped work alone.
const LeastAgain = 10 * time.Minute

// WindowAgain returns a job whose window begins again at now: the wait window, the start window or,
// if it has begun, the time to keep trying.
func (j Job) WindowAgain(now time.Time) Job {
	if j.KeepTrying == 0 {
		j.Unasked = true
	}
	j.StartDeadline = Micros(now.Add(max(j.windowLength(), LeastAgain)))
	return j
}

// WindowBegan returns when the window began that ends at StartDeadline.
func (j Job) WindowBegan() time.Time { return j.StartDeadline.Add(-j.windowLength()) }

func (j Job) windowLength() time.Duration {
	if j.KeepTrying > 0 {
		return j.KeepTrying
	}
	return j.Deadline(time.Time{}).Sub(time.Time{})
}

// Deadline returns when a job that is due at the given time ends as EXPIRED, unless it has
// begun: at the end of its wait window if it waits for a predecessor, and otherwise of its
// start window.
func (j Job) Deadline(due time.Time) time.Time {
	if j.WaitsFor.IsZero() {
		return due.Add(j.Window())
	}
	return due.Add(j.Wait())
}

// Released returns a reply whose predecessor has SUCCEEDED, as it is from now on. Its start
// window counts from now, or from its own time if that is later. A reply whose wait window
// is over keeps its deadline and ends as EXPIRED: a sweep may have decided that already, and
// a release brings no new version.
func (j Job) Released(now time.Time) Job {
	j.WaitsFor, j.PredecessorEnd = ID{}, 0
	if j.State.Runnable() && j.StartDeadline.After(now) {
		j.StartDeadline = j.Deadline(latest(now, j.ScheduleTime, j.NextAt))
	}
	return j
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// Window returns how late the job may begin.
func (s Spec) Window() time.Duration { return cmp.Or(s.StartWindow, DefaultWindow) }

// Wait returns how long a reply waits for its predecessor, from its own time on.
func (s Spec) Wait() time.Duration { return cmp.Or(s.WaitWindow, DefaultWaitWindow) }
