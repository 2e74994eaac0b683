package sim

import (
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: a look or a poll that could not be completed is made again as
// soon as the table Waits of docs/protocol.md says, by how many failed in a row, and
// whatever else was counted: answered polls, absences and their spacing.

// unreadWaits are the waits after the 1st, 2nd, … look or poll in a row that failed.
var unreadWaits = []time.Duration{5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute}

// What a job's history says of such a look or poll.
const (
	blindLook = "blind look"
	blindPoll = "blind poll"
	noHandle  = "no such handle"
	// ownersUnread: the look saw something, and could not ask whose it is.
	ownersUnread = "other jobs' effects could not be read"
)

var unreadDetails = []string{
	blindLook, blindPoll, noHandle, ownersUnread,
	"internal error while looking", "the attempts could not be read", "the look was cut short",
}

// waitsAsDocumented: WAITS, by the event that was just written and when the job is due.
func (w *simWorld) waitsAsDocumented(j *simJob, e job.Event, s job.Snapshot) {
	asked := e.From == job.Ambiguous || e.From == job.Accepted
	switch {
	case e.From != e.To:
		j.unread = 0
	case !asked:
	case e.Cause == job.CauseNotStarted:
		j.unread = -1 // a failure or a hold: the history does not tell which
	case e.Cause != job.CauseLooked && e.Cause != job.CausePolled:
	case !slices.Contains(unreadDetails, e.Detail):
		j.unread = 0
	case j.unread >= 0:
		want := unreadWaits[min(j.unread, len(unreadWaits)-1)]
		if got := s.NextAt.Sub(e.At); got != want {
			w.broke("WAITS", j, "asked again after %v, and not %v: failure %d in a row, of %d", got, want, j.unread+1, s.Looks)
		}
		j.unread++
	}
}
