package store

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrClockSuspect: the database's clock has changed, and nothing proves the new time yet.
// Until the clock is believed nothing is claimed, swept or removed (see SuspectClock).
var ErrClockSuspect = errors.New("the time is not believed")

// DefaultSuspectFor is how long a changed clock stays suspect when nothing proves it right.
const DefaultSuspectFor = 10 * time.Minute

// ClockAgreement is how far two clocks that show the same time may be apart.
const ClockAgreement = time.Second

// AgeUnknown is the time at which an attempt counts as armed when its age is unknown. It is
// so long ago that no receiver remembers the attempt's key.
var AgeUnknown = time.Unix(365*24*60*60, 0).UTC()

// ClockOptions are how a store treats a clock that changes.
type ClockOptions struct {
	// SuspectFor is how long a changed clock stays suspect when nothing proves it right; 0
	// means DefaultSuspectFor.
	SuspectFor time.Duration
	// Trust states, on an operator's word, that the clock is right as the store is opened.
	Trust bool
	// Report, when set, is called when a clock becomes suspect, when that changes, and when
	// it ends. It must not block, and must not call the store.
	Report func(ClockNews)
	// Read, when set, reads the clocks instead of the store, for tests.
	Read func() ClockReading
}

// ClockReading is one reading of two clocks: the one that decides, and one that cannot be
// set.
type ClockReading struct {
	// Wall is the clock that decides, in microseconds since 1970: this machine's wall
	// clock, or the database server's.
	Wall int64
	// Boot is this machine's boot clock. It was read before Wall, at most Took earlier.
	Boot, Took time.Duration
	// Proof is why Wall is certainly right; empty: nothing proves it.
	Proof string
}

// SuspectKind is why a clock is suspect.
type SuspectKind int

// The reasons why a clock is suspect.
const (
	_ SuspectKind = iota
	// SuspectSet: the clock was set, and nothing proves the new time yet.
	SuspectSet
	// SuspectBehind: the clock is behind a time that was believed before the start.
	SuspectBehind
	// SuspectElsewhere: another server suspects the clock.
	SuspectElsewhere
)

// SuspectClock describes a clock that is not believed.
type SuspectClock struct {
	// Kind is why the clock is suspect; zero: the clock is believed.
	Kind SuspectKind
	// Why describes what happened, for operators; empty: the clock is believed.
	Why string
	// Since is when the clock became suspect, in the believed time.
	Since time.Time
	// Off is how far the clock is ahead of the believed time.
	Off time.Duration
	// Suspends reports whether nothing is claimed, swept or removed meanwhile. Otherwise the
	// believed time, and all work with it, goes on by the boot clock.
	Suspends bool
}

// ClockNews is one change of the belief in a clock.
type ClockNews struct {
	// Suspect describes the clock now; its Why is empty when the clock is believed again.
	Suspect SuspectClock
	// Because is why the clock is believed again.
	Because string
	// Step is how far the believed time moved when that happened.
	Step time.Duration
	// Failed is why a step could not be written: the clock stays suspect, and the store tries
	// again after a pause. Nil in all other news.
	Failed error
}

// ClockStep is the end of a suspect clock that changes what is stored. The store writes it in
// one transaction, and follows the clock once that is durable.
//
// Every stored time that was computed from a duration keeps its distance from the believed
// time: fences, leases, looks, waits, rate limits, and the times at which open attempts were
// armed. A bound that was over before the step stays over. What a client asked for stays: the
// time of a job and of its retry, and the end of its start window, except for windows that
// were open while work was suspended. The start of a job for which no client asked for a time
// (job.Status.Unasked) moves too, but not its ScheduleTime, which every answer has. storetest.ClockColumns has the rule for each column.
type ClockStep struct {
	// From is the believed time before the step, and To the one after it. By is how far
	// what is stored moves; all in microseconds.
	From, To, By int64
	// Suspended is how long work was suspended: open start windows become that much longer.
	Suspended time.Duration
	// Took is how long the reading took. To is the clock's time at a moment of the reading.
	Took time.Duration
	// AgesUnknown reports that the believed time was made up, so that the ages of the keys
	// that receivers were sent are unknown.
	AgesUnknown bool
	// Because is why the clock is believed.
	Because string
}

// Clock is the belief of one process in the clock of its store: a Timeline for many
// goroutines, which reports each change.
type Clock struct {
	opts ClockOptions

	mu       sync.Mutex
	line     Timeline
	reported SuspectClock
	// trusting reports that the operator's word still counts: until the clock is believed.
	trusting bool
	// failures counts the attempts in a row to write a step that failed. No step is requested
	// before retry, on the boot clock.
	failures int
	retry    time.Duration
}

const (
	// stepPause is the pause after the first attempt to write a step that failed. Each further
	// one in a row doubles it, up to maxStepPause.
	stepPause    = time.Second
	maxStepPause = time.Minute
)

// NewClock returns a clock that continues from what an earlier process saved, or from its
// first reading.
func NewClock(opts ClockOptions, line Timeline) *Clock {
	if opts.SuspectFor <= 0 {
		opts.SuspectFor = DefaultSuspectFor
	}
	line.bound = opts.SuspectFor
	return &Clock{opts: opts, line: line, trusting: opts.Trust}
}

// Read judges a reading. See Timeline.Read.
func (c *Clock) Read(r ClockReading) ClockMoment {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trusting {
		r.Proof = "an operator says that it is right"
	}
	m := c.line.Read(r)
	c.trusting = c.trusting && m.Suspect.Why != ""
	c.report(m.Suspect, m.Ended, 0)
	if r.Boot < c.retry {
		m.Step = nil
	}
	return m
}

// Failed records that the step of a moment could not be written. For a while after that, and
// for at least as long as the attempt took, no reading requests a step, because writing one
// keeps all other work waiting.
func (c *Clock) Failed(m ClockMoment, took time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pause := min(stepPause<<min(c.failures, 10), maxStepPause)
	c.failures++
	c.retry = m.Boot + took + max(pause, took)
	if c.opts.Report != nil {
		c.opts.Report(ClockNews{Suspect: c.reported, Failed: err})
	}
}

// Follow applies a step that is durable.
func (c *Clock) Follow(s ClockStep) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line.Follow(s)
	c.trusting, c.failures, c.retry = false, 0, 0
	c.report(SuspectClock{}, s.Because, fromMicros(s.To-s.From))
}

// Adopt believes a reading that another process of the same database believes.
func (c *Clock) Adopt(r ClockReading, because string) ClockMoment {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.line.Adopt(r)
	c.trusting, c.failures, c.retry = false, 0, 0
	c.report(SuspectClock{}, because, 0)
	return m
}

// Release records that the clock is not suspect to any other process. See Timeline.Release.
func (c *Clock) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line.Release()
}

// Suspect describes the clock now, as far as the readings so far show.
func (c *Clock) Suspect() SuspectClock {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reported
}

// Save returns what a later process needs to continue, as of the newest reading.
func (c *Clock) Save() SavedClock {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.line.save()
}

// report updates what was reported, and calls the option Report if that changed.
func (c *Clock) report(d SuspectClock, because string, step time.Duration) {
	changed := d.Why != "" && (c.reported.Why == "" || apart(d.Off, c.reported.Off))
	ended := d.Why == "" && c.reported.Why != ""
	if d.Why == "" || c.reported.Why == "" {
		c.reported = d
	} else if changed {
		d.Since = c.reported.Since
		c.reported = d
	}
	if (changed || ended) && c.opts.Report != nil {
		c.opts.Report(ClockNews{Suspect: c.reported, Because: because, Step: step})
	}
}

func apart(a, b time.Duration) bool { return (a - b).Abs() > ClockAgreement }

// Refuse returns ErrClockSuspect while work is suspended.
func (d SuspectClock) Refuse() error {
	if d.Suspends {
		return fmt.Errorf("%w: %s", ErrClockSuspect, d.Why)
	}
	return nil
}

func fromMicros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
