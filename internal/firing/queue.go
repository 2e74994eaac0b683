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
//   - a firing of a queue takes the first item that waits. An item of which no job can be made
//     is refused, and the firing takes the next one: bad content stops neither the queue nor the
//     schedule. But many bad items in a row are hardly the fault of the items: the schedule
//     pauses before all of them are refused. The count of refusals in a row is kept in the
//     schedule, because a decision sees only a part of the queue;
//   - the date of a firing is that of its nominal time in the zone. The transaction that makes
//     the jobs of a date counts them in the schedule, so the count does not depend on a ledger
//     that may have been pruned. Only the newest date is counted: a firing of an older date,
//     which was buffered until a trigger began a new date, counts for the newest.

const (
	// maxReason bounds the reason of a refused item, in bytes.
	maxReason = 500
	// maxRefused is how many items in a row are refused before the schedule pauses.
	maxRefused = 10
)

// lostQueue is why a schedule with a queue pauses after its database was restored: an item
// that was used in the lost state waits again, and another firing would make a job of it.
const lostQueue = "The database was restored to an earlier state. Items that wait may have been sent in the state that was lost: " +
	"see what the platform has, remove those, then ResumeSchedule."

// ErrContent marks an error of Plan.BuildItem that the item's content causes.
var ErrContent = errors.New("the item's content")

// ErrNoContent is returned if no item waits in the queue.
var ErrNoContent = errors.New("no item waits in the schedule's queue")

// ErrMoreItems is returned if a decision has used up its items while others wait.
var ErrMoreItems = errors.New("further items wait")

// make builds the job of a firing. item is the item that the firing takes.
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

// cut shortens a text to maxReason bytes, between two characters.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}

// noItem is why a firing of a queue makes no job.
const noItem = "No item waited."

// barred reports whether a firing makes no job, regardless of other jobs, and why.
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

// writeBarred records a firing that is barred.
func (d *decider) writeBarred(b recur.Beat, origin store.FiringOrigin, outcome store.FiringOutcome, reason string) {
	if outcome == store.FiringNoContent {
		d.s.Counts.NoContent++
	} else {
		d.s.Counts.SkippedByLimit++
	}
	d.write(d.row(b, origin, outcome, reason))
}

// dateOf returns the date of a beat in its zone.
func dateOf(b recur.Beat) string { return localTime(b)[:len(time.DateOnly)] }

// dayFull reports whether the date of a firing has as many jobs as it may.
func (d *decider) dayFull(b recur.Beat) bool {
	return d.policies.MaxPerDay > 0 && dateOf(b) <= d.s.Day && d.s.DayCount >= d.policies.MaxPerDay
}

// count counts a job for the date of its firing. Jobs of a backfill do not count: their dates
// are over.
func count(s *store.Schedule, b recur.Beat, origin store.FiringOrigin) {
	switch date := dateOf(b); {
	case date > s.Day:
		s.Day, s.DayCount = date, 1
	case date == s.Day || origin != store.FiredByBackfill:
		s.DayCount++
	}
}

// Assign returns the item of a schedule's queue that each of its next firings takes if nothing
// changes until then. Zero: none.
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
