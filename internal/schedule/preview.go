package schedule

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/store"
)

// maxPreview bounds the steps of one preview: a step finds a time, or passes thousands of
// excluded times.
const maxPreview = 2000

// Planned is a future firing.
type Planned struct {
	recur.Beat
	// Skipped: it will make no job.
	Skipped bool
	// Item is the item of the queue that it takes if nothing changes until then: see
	// AssignItems.
	Item job.ID
	// Deadline is when its job must have started, if the job is made in time; zero: not known.
	Deadline time.Time
}

// Due returns the planned firings of beats. Without a template they have no Deadline.
func Due(beats []recur.Beat, template *schedulesv1.JobTemplate) []Planned {
	window := job.DefaultWindow
	if w := template.GetStartWindow(); w != nil {
		window = w.AsDuration()
	}
	out := make([]Planned, len(beats))
	for i, b := range beats {
		if out[i].Beat = b; template != nil {
			out[i].Deadline = b.Fire.Add(window)
		}
	}
	return out
}

// Preview returns the firings of a schedule with nominal times from an instant on and before
// another one (zero: without end), at most n. more reports whether others may follow. It counts its
// steps in the context's recur.Meter, and fails with the meter's error.
func Preview(ctx context.Context, times *recur.Schedule, from, until time.Time, n int) (beats []recur.Beat, more bool, err error) {
	return walk(ctx, times, times.After(from.Add(-time.Nanosecond)), until, n)
}

func walk(ctx context.Context, times *recur.Schedule, c recur.Cursor, until time.Time, n int) (beats []recur.Beat, more bool, err error) {
	m := recur.MeterOf(ctx)
	for range maxPreview {
		beat, next, ok := times.NextCounted(c, m)
		switch {
		case m.Err() != nil:
			return nil, true, m.Err()
		case ok && !until.IsZero() && !beat.Instant.Before(until), !ok && next.Done():
			return beats, false, nil
		case ok && len(beats) == n:
			return beats, true, nil
		case ok:
			beats = append(beats, beat)
		}
		c = next
	}
	return beats, true, nil
}

// Upcoming returns the next n firings of a stored schedule, as planned at now. For a paused
// schedule these are the firings that it would have if it were resumed now. It fails with
// *UnreadableError, and with the error of the context's recur.Meter.
func (s *Scheduler) Upcoming(ctx context.Context, sched store.Schedule, now time.Time, n int) ([]Planned, error) {
	out, _, err := s.UpcomingUntil(ctx, sched, now, time.Time{}, n)
	return out, err
}

// UpcomingUntil is Upcoming for the firings with nominal times before an instant (zero:
// without end). more reports whether others may follow.
func (s *Scheduler) UpcomingUntil(ctx context.Context, sched store.Schedule, now, until time.Time, n int) (_ []Planned, more bool, err error) {
	plan, err := s.plans.of(sched)
	if err != nil {
		return nil, false, err
	}
	c := plan.Times.After(now)
	switch sched.State {
	case store.ScheduleActive:
		if c, err = firing.At(plan.Times, sched.Cursor); err != nil {
			return nil, false, errDamaged("cursor", err)
		}
	case store.SchedulePaused:
	default:
		return nil, false, nil
	}
	last := false
	if limit := plan.Policies.MaxFirings; limit > 0 && limit-sched.Run <= int64(n) {
		n, last = int(max(0, limit-sched.Run)), true
	}
	beats, more, err := walk(ctx, plan.Times, c, until, n)
	if err != nil {
		return nil, false, err
	}
	out := Due(beats, plan.Template)
	for i := range out {
		out[i].Skipped = slices.Contains(sched.Skips, out[i].Name)
	}
	return out, more && !(last && len(out) == n), nil
}

// Begin returns the cursor of a schedule that fires after an instant and has made a number of
// jobs, and the time of its next decision. left is false if it has no firing left.
func Begin(ctx context.Context, times *recur.Schedule, maxFirings, made int64, at time.Time) (cursor string, next time.Time, left bool, err error) {
	if cursor, err = firing.Begin(times, at); err != nil || maxFirings > 0 && made >= maxFirings {
		return cursor, next, false, err
	}
	beats, more, err := walk(ctx, times, times.After(at), time.Time{}, 1)
	switch {
	case err != nil:
		return cursor, next, false, err
	case len(beats) > 0:
		return cursor, beats[0].Fire, true, nil
	case more:
		return cursor, at, true, nil // the next decision continues the search
	default:
		return cursor, next, false, nil
	}
}

// Example returns a firing for a trial of a template: the first one after an instant, if there
// is any.
func Example(ctx context.Context, times *recur.Schedule, at time.Time) (recur.Beat, error) {
	beats, _, err := walk(ctx, times, times.After(at), time.Time{}, 1)
	if len(beats) > 0 {
		return beats[0], err
	}
	return firing.BeatAt(times, firing.TriggerName("example"), at), err
}

// clockChange bounds how far a transition of the zone moves a firing.
const clockChange = 26 * time.Hour

// Passed reports whether a schedule has a firing of that name whose time is not after an
// instant.
func Passed(ctx context.Context, times *recur.Schedule, name string, at time.Time) (bool, error) {
	near, ok := placeOf(times, name)
	if !ok {
		return false, nil
	}
	for c := times.After(near.Add(-clockChange)); ; {
		beats, more, err := walk(ctx, times, c, near.Add(clockChange), maxPreview)
		if err != nil {
			return false, err
		}
		for _, b := range beats {
			if b.Name == name {
				return !b.Instant.After(at), nil
			}
		}
		if !more || len(beats) == 0 {
			return false, nil
		}
		c = times.After(beats[len(beats)-1].Instant)
	}
}

// placeOf returns the approximate time of the firing with a name, if the schedule has it.
func placeOf(times *recur.Schedule, name string) (time.Time, bool) {
	spec := times.Spec()
	if spec.Generation > 1 {
		var ok bool
		if name, ok = strings.CutPrefix(name, fmt.Sprintf("g%d:", spec.Generation)); !ok {
			return time.Time{}, false
		}
	}
	for i, in := range spec.Intervals {
		prefix := "i:"
		if i > 0 {
			prefix = fmt.Sprintf("i%d:", i+1)
		}
		if number, ok := strings.CutPrefix(name, prefix); ok {
			n, err := strconv.ParseInt(number, 10, 64)
			ok = err == nil && n >= 0 && n < math.MaxInt64/2/int64(in.Every) // beats are after 1970
			return time.Unix(0, 0).UTC().Add(time.Duration(n)*in.Every + in.Phase), ok
		}
	}
	civil, _, _ := strings.Cut(name, "/")
	at, err := time.Parse("2006-01-02T15:04:05", civil)
	return at.Add(-time.Duration(times.Zone().Offset(at)) * time.Second), err == nil
}

// AssignItems sets the items that the next firings of a schedule take. items are the waiting
// items in their order, and planned are the firings that Upcoming returned.
func (s *Scheduler) AssignItems(sched store.Schedule, planned []Planned, items []job.ID) error {
	plan, err := s.plans.of(sched)
	if err != nil {
		return err
	}
	beats := make([]recur.Beat, len(planned))
	for i, p := range planned {
		beats[i] = p.Beat
	}
	for i, item := range firing.Assign(sched, plan.Policies, beats, items) {
		planned[i].Item = item
	}
	return nil
}
