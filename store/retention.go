package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Keep sets for how long finished data is kept. Zero means forever.
type Keep struct {
	// Jobs counts from a job's end. Its attempts, looks and rulings are removed with the job.
	Jobs time.Duration
	// Events counts from an event. The log begins after older ones. The events of a stored
	// job stay readable by its id.
	Events time.Duration
	// Keys counts from the job's end, for digests of the keys of removed jobs. A stored job
	// keeps its key. The connection's key window counts instead if it is longer.
	Keys time.Duration
	// EndlessKeys are the connectors whose targets never forget a key. The store keeps their
	// keys forever too.
	EndlessKeys []string
}

// KeepKey returns how long after its job's end a key stays bound, at a connection of a
// connector with a key window; ends false: forever.
func (k Keep) KeepKey(connector string, window time.Duration) (_ time.Duration, ends bool) {
	if k.Keys == 0 || slices.Contains(k.EndlessKeys, connector) {
		return 0, false
	}
	return max(k.Keys, window), true
}

// EventOver reports whether the log may begin after an event.
func (k Keep) EventOver(now, at time.Time, counted bool) bool {
	keep := k.Events + EventSlack
	if !counted {
		keep += UncountedKeep
	}
	return !at.After(now.Add(-keep))
}

// LeastKept is the shortest time for which jobs and events are kept: longer than an attempt
// of an ended job can still act.
const LeastKept = time.Hour

// Check refuses durations that are too short.
func (k Keep) Check() error {
	for _, d := range []time.Duration{k.Jobs, k.Events} {
		if d != 0 && d < LeastKept {
			return fmt.Errorf("%w: what is over is kept for %v at least, not %v", ErrIllegal, LeastKept, d)
		}
	}
	if k.Keys < 0 {
		return fmt.Errorf("%w: keys are kept for %v", ErrIllegal, k.Keys)
	}
	return nil
}

const (
	// EventSlack is how much longer than configured an event may stay. The times of events
	// follow their positions only roughly, and none may be removed early.
	EventSlack = time.Minute
	// UncountedKeep is how much longer than configured the log keeps an event that no roll
	// has counted. Then it is removed uncounted, so that a failing rollup does not keep the
	// log forever.
	UncountedKeep = 7 * 24 * time.Hour
	// LookSlack is how far before a job's first attempt objects may be dated that its looks
	// consider as candidates, with some margin.
	LookSlack = 24 * time.Hour
)

// RetainParams requests one step of a pass.
type RetainParams struct {
	Keep
	// Owner identifies the caller. For Lease from this step on, only Owner cleans.
	Owner job.ID
	Lease time.Duration
	// After is the Next of the step before; empty: a new pass begins.
	After string
	// Limit bounds the jobs that the step looks at, at most MaxBatch.
	Limit int
}

// Retained is the result of one step.
type Retained struct {
	// Jobs, Events, Keys, Objects and Firings were removed for good. Events counts the events
	// in the pages that were dropped; a stored job keeps its own.
	Jobs, Events, Keys, Objects, Firings int
	// Next is the After of the next step.
	Next string
	// Done reports that the pass is over.
	Done bool
	// Busy reports that another server is cleaning, and nothing was done.
	Busy bool
}

// Retention removes what is no longer kept.
type Retention interface {
	// Retain does one short step of a pass over the database: it moves the log's beginning
	// and drops events, removes ended jobs, forgets the keys of removed jobs and the objects
	// that no look can find any more, and removes firings after FiringsKept, whatever Keep
	// is. A job is not removed as long as a stored job replies to it.
	//
	// A removed job is ErrNotFound. Its key in Create is a RemovedError until the key is
	// forgotten, and then free: see Keep.KeepKey. On targets that are looked up its object
	// stays taken as long as a job is stored that was armed before the object was made:
	// Owners and Apply continue to treat the object as the removed job's. A direct answer
	// takes it over as usual, without an event.
	//
	// ErrIllegal for what Keep.Check refuses and for an After that no Next had.
	// ErrQuarantined: a state that may be old removes nothing.
	Retain(ctx context.Context, p RetainParams) (Retained, error)
}

// RemovedError is ErrNotFound for a key that is still bound to a removed job.
type RemovedError struct{ Job job.ID }

func (e *RemovedError) Error() string { return "job " + e.Job.String() + " has ended and was removed" }

// Is makes the error one of ErrNotFound.
func (e *RemovedError) Is(target error) bool { return target == ErrNotFound }

// Phase is a part of a pass.
type Phase int

// The phases of a pass, in their order.
const (
	PhaseEvents Phase = iota
	PhaseJobs
	PhaseKeys
	PhaseObjects
	PhaseFirings
	// PhaseDone is the end of the pass.
	PhaseDone
)

// RetainPlace is the content of RetainParams.After, for engines. In PhaseJobs the last job
// that was looked at is named by the columns of the engine's index.
type RetainPlace struct {
	Phase      Phase
	Project    string    `json:",omitempty"`
	State      job.State `json:",omitempty"`
	Ended      int64     `json:",omitempty"` // microseconds
	Connection job.ID    `json:",omitzero"`
	Job        job.ID    `json:",omitzero"`
}

// ParseRetainPlace reads a place; an empty text is the beginning.
func ParseRetainPlace(text string) (RetainPlace, error) {
	var p RetainPlace
	if text == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil || p.Phase < 0 || p.Phase >= PhaseDone {
		return p, fmt.Errorf("%w: no place of a pass: %q", ErrIllegal, text)
	}
	return p, nil
}

// String returns the text that ParseRetainPlace reads.
func (p RetainPlace) String() string { return asJSON(p) }

// After returns where a pass goes on after a step at this place, or that it is done. more
// reports that the phase has more to do.
func (p RetainPlace) After(more bool) (next string, done bool) {
	if !more {
		p = RetainPlace{Phase: p.Phase + 1}
	}
	if p.Phase == PhaseDone {
		return "", true
	}
	return p.String(), false
}

// Unanswered leaves out the jobs that must stay because a job that is not removed with them
// replies to them. replies are all replies to the jobs.
func Unanswered(jobs []job.ID, replies []Reply) []job.ID {
	going := make(map[job.ID]bool, len(jobs))
	for _, id := range jobs {
		going[id] = true
	}
	for again := true; again; {
		again = false
		for _, r := range replies {
			if going[r.To] && !going[r.Job] {
				going[r.To], again = false, true
			}
		}
	}
	var out []job.ID
	for _, id := range jobs {
		if going[id] {
			out = append(out, id)
		}
	}
	return out
}

// Reply records that a job replies to another one.
type Reply struct{ Job, To job.ID }

// Newest finds the position up to which all events are old enough to be removed: after lo, up
// to hi. newest returns the newest event at or before a position, and whether it is old
// enough; 0: there is none. Newest calls it some dozens of times.
func Newest(lo, hi int64, newest func(at int64) (position int64, old bool, err error)) (int64, error) {
	found := lo
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		p, old, err := newest(mid)
		switch {
		case err != nil:
			return 0, err
		case p <= lo:
			lo = mid // nothing in between
		case old:
			found, lo = p, mid
		default:
			hi = p - 1
		}
	}
	return found, nil
}
