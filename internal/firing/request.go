package firing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a client asks for firings that the schedule's times do not cause. They
// have names of their own, so that none of them is taken for a firing of the schedule's times,
// and a repeated request makes no second job. A firing that is refused stores nothing and does
// not pause the schedule; bad items before a good one are refused as always.

const (
	triggerPrefix  = "t:"
	backfillPrefix = "b:"
)

// ErrEnded is returned for a schedule that has made as many jobs as it may.
var ErrEnded = errors.New("max_firings is reached")

// ErrDoubtful is returned if items of a queue may have been sent before a restore.
var ErrDoubtful = errors.New("the database was restored, and items that wait in the queue may have been sent before: " +
	"see what the platform has, remove those, then ResumeSchedule")

// Lost returns why a schedule makes no firing that a client asks for after a restore:
// store.ErrUndecided while the schedule must decide about its lost time first, ErrDoubtful
// while a person has to check its queue, and nil otherwise.
func Lost(s store.Schedule) error {
	switch err := store.Settled(s.State, s.HeldUntil, s.State); {
	case err != nil:
		return err
	case s.Doubtful():
		return ErrDoubtful
	default:
		return nil
	}
}

// A BlockedError is returned if an earlier job blocks a firing.
type BlockedError struct{ Job job.ID }

func (e *BlockedError) Error() string { return "job " + e.Job.String() + " has not ended" }

// Halt returns the decision that pauses a schedule that cannot be evaluated.
func Halt(due store.DueSchedule, note string) store.FireDecision {
	d := &decider{due: due, s: due.Schedule}
	if d.s.State == store.ScheduleActive {
		d.pause(store.PausedByRefusal, note)
	}
	return store.FireDecision{Schedule: d.s, Firings: d.firings}
}

// Pass makes no jobs for the firings of an ACTIVE schedule that are due at now: the caller is
// about to stop the schedule or to change its spec. It returns the schedule with its cursor
// behind them, and the newest of them, at most maxLedger: the others are counted. The buffered
// firing stays. It fails if the schedule's cursor cannot be read, and as the meter of ctx does
// (recur.MeterOf).
func Pass(ctx context.Context, s store.Schedule, times *recur.Schedule, now time.Time, reason string) (store.Schedule, []store.Firing, error) {
	d := newDecider(store.DueSchedule{Schedule: s.Clone(), Now: now}, Plan{Times: times})
	d.meter = recur.MeterOf(ctx)
	cursor, err := At(times, s.Cursor)
	if err != nil {
		return s, nil, fmt.Errorf("%w: %w", errBadCursor, err)
	}
	came := d.missRest(span{passed: cursor, more: true}, reason)
	if err := d.meter.Err(); err != nil {
		return s, nil, err
	}
	if d.s.Cursor, err = textOf(came.passed); err != nil {
		return s, nil, err
	}
	out := make([]store.Firing, len(d.firings))
	for i, f := range d.firings {
		out[i] = f.Firing
	}
	return d.s, out, nil
}

// TriggerName returns the name of the firing that a trigger makes.
func TriggerName(key string) string { return triggerPrefix + key }

// Trigger makes a job now, for the firing with a trigger's name, unless an earlier job of the
// schedule blocks it. It fails as Lost does, with *BlockedError, ErrEnded, ErrNoContent, or the
// refusal of the job; then the decision writes only the schedule's revision. It fails with
// ErrMoreItems if all items that it has are bad: then the decision refuses them, and the caller
// must call again.
func Trigger(due store.DueSchedule, plan Plan, key string, allowOverlap bool) (store.FireDecision, error) {
	d := newDecider(due, plan)
	name := TriggerName(key) // the caller has it in FireParams.Names
	if _, known := due.Known[name]; known {
		return store.FireDecision{Schedule: due.Schedule}, nil
	}
	if err := Lost(due.Schedule); err != nil {
		return store.FireDecision{Schedule: due.Schedule}, err
	}
	if overlap, blocking := d.overlap(); overlap != Allow && !allowOverlap {
		return store.FireDecision{Schedule: due.Schedule}, &BlockedError{blocking.ID}
	}
	_, err := d.ask([]recur.Beat{BeatAt(plan.Times, name, due.Now)}, store.FiredByTrigger)
	if err != nil && !errors.Is(err, ErrMoreItems) {
		return store.FireDecision{Schedule: due.Schedule}, err
	}
	return d.decision(), err
}

// BeatAt returns the beat of a firing at an instant that is not a time of the schedule.
func BeatAt(times *recur.Schedule, name string, at time.Time) recur.Beat {
	at = at.UTC()
	offset := times.Zone().Offset(at)
	return recur.Beat{Name: name, Instant: at, Fire: at, Offset: offset, Civil: recur.CivilAt(at, offset)}
}

// Left holds the times of a backfill for which it made no jobs.
type Left struct {
	// Empty are the times for which the queue had no item.
	Empty []recur.Beat
	// Later are the times that need another call: more items wait than one decision has.
	Later []recur.Beat
}

// Backfill makes jobs for times that have passed, a Pace apart, as far as a queue has items.
// The name of each firing is the name of its time with a prefix; firings that exist already are
// left out. It fails as Lost does, with ErrEnded or the refusal of a job; then the decision
// writes only the schedule's revision.
func Backfill(due store.DueSchedule, plan Plan, beats []recur.Beat) (store.FireDecision, Left, error) {
	if err := Lost(due.Schedule); err != nil {
		return store.FireDecision{Schedule: due.Schedule}, Left{}, err
	}
	d := newDecider(due, plan)
	var missing, named []recur.Beat
	for _, b := range beats {
		name := BackfillName(b.Name)
		if _, known := due.Known[name]; !known {
			missing = append(missing, b)
			b.Name = name
			named = append(named, b)
		}
	}
	var left Left
	done, err := d.ask(named, store.FiredByBackfill)
	switch {
	case errors.Is(err, ErrNoContent):
		left.Empty = missing[done:]
	case errors.Is(err, ErrMoreItems):
		left.Later = missing[done:]
	case err != nil:
		return store.FireDecision{Schedule: due.Schedule}, left, err
	}
	return d.decision(), left, nil
}

// BackfillName returns the name of the firing that makes up for the one with the given name.
func BackfillName(name string) string { return backfillPrefix + name }

// MadeUp returns the name of the firing for which the one with the given name makes up. That is
// its own name, unless a backfill made it.
func MadeUp(name string) string { return strings.TrimPrefix(name, backfillPrefix) }

// ask makes the jobs of firings that a client asked for, up to the first one that fails. done
// is how many it made.
func (d *decider) ask(beats []recur.Beat, origin store.FiringOrigin) (done int, err error) {
	for i, b := range beats {
		if d.full() {
			return i, ErrEnded
		}
		if err := d.due.Refused[b.Name]; err != nil {
			return i, fmt.Errorf("the job of %s: %w", b.Name, err)
		}
		made, item, err := d.make(b)
		if err != nil {
			return i, err
		}
		d.add(b, origin, d.due.Now.Add(time.Duration(i)*Pace), made, item)
	}
	return len(beats), nil
}
