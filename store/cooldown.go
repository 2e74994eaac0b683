package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: a connection or a schedule may have at most one effect in a time,
// its cool-down. This is the one place that judges it, for every engine.
//   - What counts is the arm, whatever came of it: one whose outcome is unknown may have
//     had its effect, and to wait for the proof that it had none would be to guess.
//   - A job is held back by the arms of others alone.
//   - A repeat of an attempt whose outcome is unknown is no new effect: it passes in any
//     case, and it is not marked. A mark would let the job's next attempt, which may be
//     a new effect, come right after another job's, and would delay the others again.
//   - So two marked arms of different jobs are never closer than the cool-down.
//   - The last arm is marked in the transaction that writes it, and that transaction has
//     the mark to itself from when it reads it. Where no cool-down applies there is none.

// CoolDown is a cool-down that applies to a job.
type CoolDown struct {
	// Owner is the connection or, with Schedule, the schedule that has it.
	Owner job.ID
	// For is how long it lasts.
	For      time.Duration
	Schedule bool
}

// CoolDowns returns the cool-downs that apply to a job of a connection that has the given
// one, or none if that is 0.
func CoolDowns(s job.Spec, connection time.Duration) []CoolDown {
	var out []CoolDown
	if connection > 0 {
		out = append(out, CoolDown{Owner: s.Connection, For: connection})
	}
	if s.CoolDown > 0 && !s.Schedule.IsZero() {
		out = append(out, CoolDown{Owner: s.Schedule, For: s.CoolDown, Schedule: true})
	}
	return out
}

// CoolMark is the last arm under a cool-down that was no repeat. The zero mark: there was
// none.
type CoolMark struct {
	Job     job.ID
	ArmedAt time.Time
}

// ErrCoolDown refuses an arm: another job of the connection or the schedule was armed
// too short a time ago. Engines return it as a *CoolDownError.
var ErrCoolDown = errors.New("cool-down")

// CoolDownError is ErrCoolDown with how long it lasts.
type CoolDownError struct {
	CoolDown
	// By is the job that was armed last, and Left is how long to wait.
	By   job.ID
	Left time.Duration
}

func (e *CoolDownError) Error() string {
	whose := "connection"
	if e.Schedule {
		whose = "schedule"
	}
	return fmt.Sprintf("%v of %s %s for %v: by job %s", ErrCoolDown, whose, e.Owner, e.Left, e.By)
}

// Is makes the error one of ErrCoolDown.
func (e *CoolDownError) Is(target error) bool { return target == ErrCoolDown }

// Marked returns those of a job's cool-downs whose marks the arm sets: none for a repeat.
func (a *Arm) Marked(downs []CoolDown) []CoolDown {
	if a.Rearm {
		return nil
	}
	return downs
}

// Cooled returns nil if an arm may be written at now as far as the cool-downs of its job
// say, otherwise the one that lasts longest. marks returns the mark of an owner.
func (a *Arm) Cooled(downs []CoolDown, marks func(owner job.ID) CoolMark, now time.Time) error {
	var longest *CoolDownError
	for _, d := range downs {
		last := marks(d.Owner)
		left := min(last.ArmedAt.Add(d.For).Sub(now), d.For)
		if a.Rearm || last.Job == a.Job || left <= 0 {
			continue
		}
		if longest == nil || left > longest.Left {
			longest = &CoolDownError{CoolDown: d, By: last.Job, Left: left}
		}
	}
	if longest == nil {
		return nil
	}
	return longest
}
