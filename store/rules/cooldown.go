package rules

import (
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a connection or a schedule may have at most one effect in a time,
// its cool-down.
//   - What counts is the arm, whatever came of it: one whose outcome is unknown may have
//     had its effect, and to wait for the proof that it had none would be to guess.
//   - A job is held back by the arms of others alone.
//   - A repeat of an attempt whose outcome is unknown is no new effect: it passes in any
//     case, and it is not marked. A mark would let the job's next attempt, which may be
//     a new effect, come right after another job's, and would delay the others again.
//   - So two marked arms of different jobs are never closer than the cool-down.
//   - The last arm is marked in the transaction that writes it, and that transaction has
//     the mark to itself from when it reads it. Where no cool-down applies there is none.

// Marked returns those of a job's cool-downs whose marks the arm sets: none for a repeat.
func CoolDownsOf(a store.Arm, downs []store.CoolDown) []store.CoolDown {
	if a.Rearm {
		return nil
	}
	return downs
}

// cooled returns nil if no cool-down of the job holds an arm back, otherwise the one that
// lasts longest.
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
