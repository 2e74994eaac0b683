package firing

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - a firing of a queue takes the first item that waits. One that can be no job is refused,
//     and the firing takes the next one: bad content stops neither the queue nor the schedule.
//     Many bad ones in a row are hardly the items' fault, and pause it before all are refused.
//     They are counted in the schedule, because a decision sees a part of the queue;
//   - a date is that of the nominal time in the zone. The transaction that makes its jobs
//     counts them in the schedule: no ledger is read, and none that was pruned is missed. Only the newest date is known: a firing of an older one, which was
//     buffered until a trigger began a new date, counts for the newest.

const (
	// maxReason bounds the reason of a refused item, in bytes.
	maxReason = 500
	// maxRefused is how many items in a row are refused until the schedule pauses.
	maxRefused = 10
)

// lostQueue says why a schedule with a queue pauses after its database was restored: an item
// that was used in the lost state waits again, and would be the job of another firing.
const lostQueue = "The database was restored to an earlier state. Items that wait may have been sent in the state that was lost: " +
	"see what the platform has, remove those, then ResumeSchedule."

// ErrContent marks the error of Plan.BuildItem that is the item's fault.
var ErrContent = errors.New("the item's content")

// ErrNoContent says that no item waits in the queue.
var ErrNoContent = errors.New("no item waits in the schedule's queue")

// ErrMoreItems says that the items of a decision are used up, and others wait.
var ErrMoreItems = errors.New("further items wait")

// make builds the job of a firing. item is the one that it takes.
func (d *decider) make(b recur.Beat) (made store.NewJob, item job.ID, err error) {
	if !d.s.Queued {
		made, err = d.plan.Build(b, d.s.Run+1)
		return made, item, err
	}
	for len(d.items) > 0 {
		first := d.items[0]
		made, err := d.plan.BuildItem(b, d.s.Run+1, first)
		if err == nil {
			d.items, d.s.RefusedInRow = d.items[1:], 0
			return made, first.ID, nil
		}
		if !errors.Is(err, ErrContent) {
			return made, item, err
		}
		d.items, d.s.RefusedInRow = d.items[1:], d.s.RefusedInRow+1
		d.refused = append(d.refused, store.RefusedItem{Item: first.ID, Reason: cut(err.Error())})
		if d.s.RefusedInRow >= maxRefused {
			return made, item, fmt.Errorf("%d items in a row were refused; the last one: %w", d.s.RefusedInRow, err)
		}
	}
	if d.due.MoreItems {
		return made, item, ErrMoreItems
	}
	return made, item, ErrNoContent
}

// cut cuts a text to maxReason, between two letters.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}

// noItem says why a firing of a queue makes no job.
const noItem = "No item waited."

// barred reports whether a firing makes no job whatever other jobs there are, and why.
func (d *decider) barred(b recur.Beat) (outcome store.FiringOutcome, reason string, barred bool) {
	switch {
	case d.dayFull(b):
		return store.FiringSkippedByLimit, fmt.Sprintf("%s has its %d jobs.", d.s.Day, d.policies.MaxPerDay), true
	case d.s.Queued && len(d.items) == 0 && !d.due.MoreItems:
		return store.FiringNoContent, noItem, true
	default:
		return 0, "", false
	}
}

// writeBarred writes down a firing that is barred.
func (d *decider) writeBarred(b recur.Beat, origin store.FiringOrigin, outcome store.FiringOutcome, reason string) {
	if outcome == store.FiringNoContent {
		d.s.Counts.NoContent++
	} else {
		d.s.Counts.SkippedByLimit++
	}
	d.write(d.row(b, origin, outcome, reason))
}

// dateOf is the date of a time in its zone.
func dateOf(b recur.Beat) string { return localTime(b)[:len(time.DateOnly)] }

// dayFull reports whether the date of a firing has all its jobs.
func (d *decider) dayFull(b recur.Beat) bool {
	return d.policies.MaxPerDay > 0 && dateOf(b) <= d.s.Day && d.s.DayCount >= d.policies.MaxPerDay
}

// count counts a job for the date of its firing. The past that a backfill makes up for is
// over.
func count(s *store.Schedule, b recur.Beat, origin store.FiringOrigin) {
	switch date := dateOf(b); {
	case date > s.Day:
		s.Day, s.DayCount = date, 1
	case date == s.Day || origin != store.FiredByBackfill:
		s.DayCount++
	}
}

// Assign returns which of the first items of a schedule's queue each of its next firings
// takes if nothing changes until then. Zero: none.
func Assign(s store.Schedule, p Policies, beats []recur.Beat, items []job.ID) []job.ID {
	d := &decider{policies: p.Filled(), s: s}
	out := make([]job.ID, len(beats))
	take := func(b recur.Beat) (item job.ID) {
		if len(items) > 0 && !d.dayFull(b) {
			item, items = items[0], items[1:]
			count(&d.s, b, store.FiredByTime)
		}
		return item
	}
	if !s.Queued {
		return out
	}
	if s.Buffered != nil {
		take(beatOf(*s.Buffered))
	}
	for i, b := range beats {
		if !slices.Contains(s.Skips, b.Name) {
			out[i] = take(b)
		}
	}
	return out
}
