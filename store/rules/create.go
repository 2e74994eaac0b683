package rules

import (
	"cmp"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// NewJob returns a job as it is first stored, for a connection of a class. A class in the
// request comes first.
func NewJob(n *store.NewJob, class job.Class, now time.Time) (job.Job, error) {
	j := job.Job{Spec: n.Spec}
	if err := MayStore(n); err != nil {
		return j, err
	}
	for _, d := range []*time.Duration{
		&j.StartWindow, &j.WaitWindow, &j.Retry.MinBackoff, &j.Retry.MaxBackoff, &j.Retry.AttemptTimeout, &j.CoolDown, &j.SkipIfPresent,
	} {
		*d = d.Truncate(time.Microsecond)
	}
	j.Delivery, j.Payload, j.Created = cmp.Or(j.Delivery, job.OnceOrAsk), some(j.Payload), now
	if len(j.Labels) == 0 {
		j.Labels = nil
	}
	due, unasked := now, n.ScheduleTime.IsZero()
	if !unasked {
		due = job.Micros(n.ScheduleTime)
	}
	j.Status = job.Status{
		State: job.Scheduled, Version: 1, Round: 1, ScheduleTime: due, StartDeadline: due.Add(j.Window()),
		NextAt: due, Unasked: unasked, Class: cmp.Or(n.Class, class), Updated: now,
	}
	return j, nil
}

// MayStore refuses an invalid request, which is a bug of the caller.
func MayStore(n *store.NewJob) error {
	switch s := &n.Spec; {
	case s.Key == "":
		return fmt.Errorf("%w: no key", store.ErrIllegal)
	case s.StartWindow < 0:
		return fmt.Errorf("%w: start window %v", store.ErrIllegal, s.StartWindow)
	case s.Delivery > job.AtLeastOnce:
		return fmt.Errorf("%w: delivery %d", store.ErrIllegal, s.Delivery)
	case !MayCool(s.CoolDown):
		return fmt.Errorf("%w: cool-down %v", store.ErrIllegal, s.CoolDown)
	case s.SkipIfPresent < 0 || s.SkipIfPresent.Truncate(time.Microsecond) > job.MaxPresentAge:
		return fmt.Errorf("%w: skip if present for %v", store.ErrIllegal, s.SkipIfPresent)
	case s.Trace != "" && (len(s.Trace) < 55 || len(s.Trace) > job.MaxTrace):
		return fmt.Errorf("%w: a trace of %d bytes", store.ErrIllegal, len(s.Trace))
	case n.Class != 0 && !Class(n.Class):
		return fmt.Errorf("%w: class %d", store.ErrIllegal, n.Class)
	}
	return nil
}

// MayCool reports whether a cool-down is within its bounds.
func MayCool(d time.Duration) bool {
	return d >= 0 && d.Truncate(time.Microsecond) <= job.MaxCoolDown
}

// Predecessor is the job that a new one replies to. The zero Predecessor: no such job exists.
type Predecessor struct {
	Project string
	State   job.State
	// Waiting is how many jobs wait for it, ended ones included.
	Waiting int64
}

// Await returns a new job as it waits for the one that it replies to, or unchanged if that
// one has SUCCEEDED.
func Await(j job.Job, p Predecessor) (job.Job, error) {
	if p.State == 0 || p.Project != j.Project {
		return j, fmt.Errorf("%w: %s", store.ErrReplyTo, j.ReplyTo)
	}
	if p.State == job.Succeeded {
		return j, nil
	}
	if p.Waiting >= store.MaxReplies {
		return j, fmt.Errorf("%w: %s", store.ErrManyReplies, j.ReplyTo)
	}
	j.WaitsFor, j.PredecessorEnd = j.ReplyTo, p.State.BadEnd()
	j.StartDeadline = j.Deadline(j.NextAt)
	return j, nil
}

// MayCreate refuses a job for a connection that is deleted or belongs to another project. A
// notice uses the connections of the project that it is a notice of.
func MayCreate(s *job.Spec, project string, deleted bool) error {
	if deleted || project != s.Owner() {
		return fmt.Errorf("connection %s: %w", s.Connection, store.ErrNotFound)
	}
	return nil
}
