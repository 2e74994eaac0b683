package rules

import (
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a connection or a schedule may have at most one effect in a period, its
// cool-down.
//   - The arm counts, whatever its outcome: an arm whose outcome is unknown may have had its
//     effect.
//   - Only the arms of other jobs hold a job back.
//   - A repeat of an attempt whose outcome is unknown is no new effect: it always passes, and
//     it is not recorded. Recording it would let the job's next attempt, which may be a new
//     effect, come right after another job's, and would delay the other jobs again.
//   - So two recorded arms of different jobs are never closer than the cool-down.
//   - The last arm is recorded in the transaction that writes it. That transaction locks the
//     record before it reads it. Without a cool-down there is no record.

// CoolDownsOf returns those of a job's cool-downs that an arm is recorded for: none for a
// repeat.
func CoolDownsOf(a store.Arm, downs []store.CoolDown) []store.CoolDown {
	if a.Rearm {
		return nil
	}
	return downs
}

// cooled returns nil if no cool-down of the job holds an arm back, otherwise the error of the
// one that lasts longest.
func cooled(a *store.Arm, j *Armable) error {
	var longest *store.CoolDownError
	for _, d := range j.CoolDowns {
		last := j.Last(d.Owner)
		left := min(last.ArmedAt.Add(d.For).Sub(j.Now), d.For)
		if a.Rearm || last.Job == a.Job || left <= 0 {
			continue
		}
		if longest == nil || left > longest.Left {
			longest = &store.CoolDownError{CoolDown: d, By: last.Job, Left: left}
		}
	}
	if longest == nil {
		return nil
	}
	return longest
}
