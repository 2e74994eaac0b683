package sim

import (
	"cmp"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: how long a reply waits, and how late it may start, is reckoned
// from what its client asked for and from the end of its predecessor as it was seen, by
// an arithmetic of its own.

// waitOf is the wait window of a world's job.
func waitOf(i int) time.Duration {
	return []time.Duration{0, 20 * time.Minute, 2 * time.Hour, 0}[i%4]
}

// waitsAsLong: while a reply waits, its wait counts from its own time; from then on its
// start window counts from its predecessor's end, or from its own time if that is later.
// One whose wait was over by then keeps that end, until a sweep expires it. After a retry it
// has windows of its own, and after a window that a stop held.
func (w *simWorld) waitsAsLong(j *simJob) {
	s := j.last
	parent := w.byID[s.ReplyTo]
	if parent == nil || s.State != job.Scheduled || j.retried || j.begunAgain || w.clockJumps {
		return
	}
	from, window, what := s.ScheduleTime, cmp.Or(s.WaitWindow, 72*time.Hour), "wait"
	before, over := parent.last, from.Add(window)
	waited := before.Ended.After(s.Created)
	if before.State == job.Succeeded && (!waited || before.Ended.Before(over)) {
		window, what = cmp.Or(s.StartWindow, 2*time.Hour), "start window"
		if waited {
			from = later(from, before.Ended)
		}
	}
	if want := from.Add(window); !s.StartDeadline.Equal(want) {
		w.broke("WAIT", j, "its %s ends at %v, %v from where it should", what, s.StartDeadline, s.StartDeadline.Sub(want))
	}
}

// knowsItsPredecessor: a job that waits knows whether there is anything to wait for.
func (w *simWorld) knowsItsPredecessor(j *simJob) {
	s := j.last
	parent := w.byID[s.ReplyTo]
	if parent == nil {
		return
	}
	if end := badEnd(parent.last.State); s.PredecessorEnd != end {
		w.broke("WAIT", j, "the job that it replies to ended as %s, and it knows of %s", end, s.PredecessorEnd)
	}
}

// badEnd is the state if it is an end without success.
func badEnd(s job.State) job.State {
	if s == job.Failed || s == job.Canceled || s == job.Expired {
		return s
	}
	return 0
}

// leftInTime: a reply does not wait for what has ended without success, once nothing is
// wrong any more.
func (w *simWorld) leftInTime(j *simJob, before job.Snapshot) (why string) {
	parent := w.byID[before.ReplyTo]
	if parent == nil || before.WaitsFor.IsZero() || w.healed.IsZero() || w.clockJumps {
		return ""
	}
	end := badEnd(parent.last.State)
	if since := later(w.healed, parent.last.Ended); end != 0 && w.dbNow().Sub(since) > simPatience {
		return "the job that it replies to is " + end.String() + " since long"
	}
	return ""
}
