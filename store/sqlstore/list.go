package sqlstore

import (
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
)

// part is a part of an index that has the jobs in one state, in a list's order: rows s of table
// that meet cond.
type part struct{ table, cond string }

// notUnderWay leaves out jobs under way, which SQLite lists under their earlier state. There
// are few.
const notUnderWay = "s.job_id NOT IN (SELECT f.job_id FROM job_state AS f INDEXED BY job_state_fence WHERE f.state IN (2, 3))"

// partOf returns the part with the jobs in a state. What a comment says, SQLite reads in place
// of the word before it.
func partOf(state job.State) part {
	if state.InFlight() {
		return part{"job_state AS s /* SQLite: s INDEXED BY job_state_fence */", fmt.Sprintf("s.state IN (2, 3) AND s.state = %d", state)}
	}
	cond := fmt.Sprintf("s.state /* SQLite: s.listed */ = %d", state)
	if state.Runnable() || state == job.Ambiguous { // jobs under way came from there
		cond += " AND true /* SQLite: " + notUnderWay + " */"
	}
	return part{"job_state AS s", cond}
}
