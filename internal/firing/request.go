package firing

import (
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a client asks for firings whose time has not come by itself. They have
// names of their own, so that none of them is taken for a firing of the schedule's times,
// and asking twice makes nothing twice. A refusal stores nothing, and pauses nothing.

const (
	triggerPrefix  = "t:"
	backfillPrefix = "b:"
)

// ErrEnded says that a schedule has made as many jobs as it may.
var ErrEnded = errors.New("max_firings is reached")

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

// TriggerName is the name of the firing that a trigger makes.
func TriggerName(key string) string { return triggerPrefix + key }

// Trigger makes a job now, for the firing with a trigger's name, unless an earlier job of the
// schedule is in the way. It fails with *BlockedError, ErrEnded, ErrNoContent, or the
// refusal of the job, and then writes nothing but the schedule's revision.
func Trigger(due store.DueSchedule, plan Plan, key string, allowOverlap bool) (store.FireDecision, error) {
	d := newDecider(due, plan)
	name := TriggerName(key) // the caller has it in FireParams.Names
	if _, known := due.Known[name]; known {
		return store.FireDecision{Schedule: due.Schedule}, nil
	}
	if overlap, blocking := d.overlap(); overlap != Allow && !allowOverlap {
		return store.FireDecision{Schedule: due.Schedule}, &BlockedError{blocking}
	}
	return d.ask([]recur.Beat{BeatAt(plan.Times, name, due.Now)}, store.FiredByTrigger)
}

// BeatAt is the beat of a firing whose time is an instant and no time of the schedule.
func BeatAt(times *recur.Schedule, name string, at time.Time) recur.Beat {
	at = at.UTC()
	offset := times.Zone().Offset(at)
	return recur.Beat{Name: name, Instant: at, Fire: at, Offset: offset, Civil: recur.CivilAt(at, offset)}
}

// Backfill makes jobs for times that have passed, a Pace apart. Each has the name of its time
// with a prefix, and those that are known already are left out. It fails with ErrEnded,
// ErrNoContent or the refusal of a job, and then writes nothing but the schedule's revision.
func Backfill(due store.DueSchedule, plan Plan, beats []recur.Beat) (store.FireDecision, error) {
	d := newDecider(due, plan)
	named := make([]recur.Beat, 0, len(beats))
	for _, b := range beats {
		b.Name = BackfillName(b.Name)
		if _, known := due.Known[b.Name]; !known {
			named = append(named, b)
		}
	}
	return d.ask(named, store.FiredByBackfill)
}

// BackfillName is the name of the firing that makes up for one with the given name.
func BackfillName(name string) string { return backfillPrefix + name }

// ask makes the jobs of firings that a client asked for, all of them or none.
func (d *decider) ask(beats []recur.Beat, origin store.FiringOrigin) (store.FireDecision, error) {
	nothing := store.FireDecision{Schedule: d.due.Schedule}
	for i, b := range beats {
		if d.full() {
			return nothing, ErrEnded
		}
		if err := d.due.Refused[b.Name]; err != nil {
			return nothing, fmt.Errorf("the job of %s: %w", b.Name, err)
		}
		made, item, err := d.make(b)
		if errors.Is(err, errMoreItems) {
			err = fmt.Errorf("%w that fits into one call; ask for fewer firings", ErrNoContent)
		}
		if err != nil {
			return nothing, err
		}
		d.add(b, origin, d.due.Now.Add(time.Duration(i)*Pace), made, item)
	}
	return d.decision(), nil
}
