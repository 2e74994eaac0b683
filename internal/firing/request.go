package firing

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a client asks for firings whose time has not come by itself. They have
// names of their own, so that none of them is taken for a firing of the schedule's times,
// and asking twice makes nothing twice. A refusal of a firing stores nothing, and pauses
// nothing; bad items on the way to a good one are refused as ever.

const (
	triggerPrefix  = "t:"
	backfillPrefix = "b:"
)

// ErrEnded says that a schedule has made as many jobs as it may.
var ErrEnded = errors.New("max_firings is reached")

// ErrDoubtful says that the items of a queue may have been sent before a restore.
var ErrDoubtful = errors.New("the database was restored, and items that wait in the queue may have been sent before: " +
	"see what the platform has, remove those, then ResumeSchedule")

// Lost returns why a schedule makes no firing that a client asks for: store.ErrUndecided
// while its lost time is to be decided first, ErrDoubtful while a person has to look at its
// queue.
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

// A BlockedError says that an earlier job is in the way.
type BlockedError struct{ Job job.ID }

func (e *BlockedError) Error() string { return "job " + e.Job.String() + " has not ended" }

// Halt pauses a schedule about which nothing can be decided.
func Halt(due store.DueSchedule, note string) store.FireDecision {
	d := &decider{due: due, s: due.Schedule}
	if d.s.State == store.ScheduleActive {
		d.pause(store.PausedByRefusal, note)
	}
	return store.FireDecision{Schedule: d.s, Firings: d.firings}
}

// passRounds bounds the rounds of one Pass, of maxBeats each.
const passRounds = 20

// Pass leaves the firings of an ACTIVE schedule whose times have come at now without jobs: a
// caller is about to stop it, or to have it fire by another spec. It returns the schedule behind
// them, and the newest of them, at most maxLedger. The buffered firing stays. It fails where the
// schedule's place in time cannot be read.
func Pass(s store.Schedule, times *recur.Schedule, now time.Time, reason string) (store.Schedule, []store.Firing, error) {
	d := newDecider(store.DueSchedule{Schedule: s.Clone(), Now: now}, Plan{Times: times})
	cursor, err := At(times, s.Cursor)
	if err != nil {
		return s, nil, fmt.Errorf("%w: %w", errBadCursor, err)
	}
	for range passRounds {
		came := d.collect(cursor)
		for _, b := range came.beats {
			if !d.skipped(b) {
				d.miss(firing{dueBeat: b, origin: store.FiredByTime}, store.FiringMissed, reason)
			}
		}
		d.firings = d.firings[max(0, len(d.firings)-maxLedger):]
		if cursor = came.passed; !came.more {
			break
		}
	}
	if d.s.Cursor, err = textOf(cursor); err != nil {
		return s, nil, err
	}
	out := make([]store.Firing, len(d.firings))
	for i, f := range d.firings {
		out[i] = f.Firing
	}
	return d.s, out, nil
}

// TriggerName is the name of the firing that a trigger makes.
func TriggerName(key string) string { return triggerPrefix + key }

// Trigger makes a job now, for the firing with a trigger's name, unless an earlier job of the
// schedule is in the way. It fails as Lost does, with *BlockedError, ErrEnded, ErrNoContent, or the
// refusal of the job, and then writes nothing but the schedule's revision. It fails with
// ErrMoreItems when all items that it has are bad: then it writes that, and is to be asked again.
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

// BeatAt is the beat of a firing whose time is an instant and no time of the schedule.
func BeatAt(times *recur.Schedule, name string, at time.Time) recur.Beat {
	at = at.UTC()
	offset := times.Zone().Offset(at)
	return recur.Beat{Name: name, Instant: at, Fire: at, Offset: offset, Civil: recur.CivilAt(at, offset)}
}

// Left are times of a backfill that it made no jobs for.
type Left struct {
	// Empty found no item in the queue.
	Empty []recur.Beat
	// Later are to be asked about again: further items wait than one decision has.
	Later []recur.Beat
}

// Backfill makes jobs for times that have passed, a Pace apart, as far as a queue has items.
// Each has the name of its time with a prefix, and those that are known already are left out.
// It fails as Lost does, with ErrEnded or the refusal of a job, and then writes nothing but the
// schedule's revision.
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

// BackfillName is the name of the firing that makes up for one with the given name.
func BackfillName(name string) string { return backfillPrefix + name }

// MadeUp is the name of the firing that one with the given name makes up for: its own, unless
// a backfill made it.
func MadeUp(name string) string { return strings.TrimPrefix(name, backfillPrefix) }

// ask makes the jobs of firings that a client asked for, up to the first one that cannot be
// made. done is how many it made.
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
