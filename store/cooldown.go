package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// A connection or a schedule may have at most one effect in a period, its cool-down.
// store/rules judges it.

// CoolDown is a cool-down that applies to a job.
type CoolDown struct {
	// Owner is the connection or, with Schedule, the schedule that has the cool-down.
	Owner job.ID
	// For is how long it lasts.
	For      time.Duration
	Schedule bool
}

// CoolDowns returns the cool-downs that apply to a job. connection is the cool-down of its
// connection; 0: none.
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

// LastArm is the last arm under a cool-down that was no repeat. The zero LastArm: there was
// none.
type LastArm struct {
	Job     job.ID
	ArmedAt time.Time
}

// ErrCoolDown refuses an arm: another job of the connection or the schedule was armed
// too short a time ago. Engines return it as a *CoolDownError.
var ErrCoolDown = errors.New("cool-down")

// CoolDownError is ErrCoolDown with the remaining time.
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
