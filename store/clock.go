package store

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrClockDoubted: the database's clock has changed, and nothing proves the new time yet.
// Until it is believed nothing is claimed, swept or removed (see ClockDoubt).
var ErrClockDoubted = errors.New("the time is not believed")

// DefaultClockDoubt is how long a changed clock is doubted when nothing proves it right.
const DefaultClockDoubt = 10 * time.Minute

// ClockAgreement is how far two clocks that show the same time may be apart.
const ClockAgreement = time.Second

// AgeUnknown is the time at which an attempt counts as armed when nobody knows how long
// ago that was. It is so long ago that no receiver remembers the attempt's key.
var AgeUnknown = time.Unix(365*24*60*60, 0).UTC()

// ClockOptions say how a store treats a clock that changes.
type ClockOptions struct {
	// Doubt is how long a change is doubted that nothing proves right; 0 means
	// DefaultClockDoubt.
	Doubt time.Duration
	// Trust is an operator's word that the clock is right as the store is opened.
	Trust bool
	// Tell, when set, is called as a doubt begins, changes and ends. It must not block, and
	// must not call the store.
	Tell func(ClockNews)
	// Read, when set, reads the clocks instead of the store, for tests.
	Read func() ClockReading
}

// ClockReading is one moment, on the clock that decides and on one that nobody can set.
type ClockReading struct {
	// Wall is the clock that decides, in microseconds since 1970: this machine's wall
	// clock, or the database server's.
	Wall int64
	// Boot is this machine's boot clock, and was read before Wall, at most Took before.
	Boot, Took time.Duration
	// Proof says why Wall is surely right; empty: nothing proves it.
	Proof string
}

// DoubtKind tells doubts of a clock apart.
type DoubtKind int

// The kinds of doubt.
const (
	_ DoubtKind = iota
	// DoubtSet: the clock was set, and nothing proves the new time yet.
	DoubtSet
	// DoubtBehind: the clock is behind a time that was believed before the start.
	DoubtBehind
	// DoubtOther: another server doubts the clock.
	DoubtOther
)

// ClockDoubt describes a clock that is not believed.
type ClockDoubt struct {
	// Kind is what is doubted; zero: the clock is believed.
	Kind DoubtKind
	// Why says what happened, for operators; empty: the clock is believed.
	Why string
	// Since is when the doubt began, in the believed time.
	Since time.Time
	// Off is how far the clock is ahead of the believed time.
	Off time.Duration
	// Stands says that nothing is claimed, swept or removed meanwhile. Otherwise the
	// believed time goes on by the boot clock, and everything with it.
	Stands bool
}

// ClockNews is one change of the belief in a clock.
type ClockNews struct {
	// Doubt is what is doubted now; its Why is empty when the clock is believed again.
	Doubt ClockDoubt
	// Because says why the clock is believed again.
	Because string
	// Step is how far the believed time was moved for it.
	Step time.Duration
	// Failed is why a step could not be written: the doubt goes on, and the store tries again
	// after a pause. Nil in all other news.
	Failed error
}

// ClockStep is the end of a doubt that changes what is stored. The store writes it in one
// transaction, and follows the clock once that is durable.
//
// Whatever is stored and was made of a duration keeps its distance from the believed time:
// fences, leases, looks, waits, rate limits, and the times at which open attempts were
// armed. What a client asked for stays: the time of a job and of its retry, and the end of
// its start window, but for windows that were open while everything stood still.
type ClockStep struct {
	// From is the believed time before the step, and To the one after it. By is how far
	// what is stored moves; all in microseconds.
	From, To, By int64
	// Stood is how long everything stood still: start windows that were open are that much
	// longer.
	Stood time.Duration
	// Took is how long the reading took: To is the clock's time of a moment in it.
	Took time.Duration
	// AgesUnknown says that the believed time was made up, so that nobody knows how old the
	// keys are that receivers were sent.
	AgesUnknown bool
	// Because says why the clock is believed.
	Because string
}

// Clock is the belief of one process in the clock of its store: a Timeline for many
// goroutines, which tells of each change.
type Clock struct {
	opts ClockOptions

	mu   sync.Mutex
	line Timeline
	told ClockDoubt
	// trusting says that the operator's word still counts: until the clock is believed.
	trusting bool
	// failures counts the attempts in a row to write a step that failed; no step is asked for
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

// NewClock returns a clock that goes on from what saved says of an earlier process, or
// from its first reading.
func NewClock(opts ClockOptions, line Timeline) *Clock {
	if opts.Doubt <= 0 {
		opts.Doubt = DefaultClockDoubt
	}
	line.bound = opts.Doubt
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
	c.trusting = c.trusting && m.Doubt.Why != ""
	c.tell(m.Doubt, m.Ended, 0)
	if r.Boot < c.retry {
		m.Step = nil
	}
	return m
}

// Failed notes that the step of a moment could not be written. No reading asks for one for
// a while after that, and for no less than the attempt took: it keeps all else waiting.
func (c *Clock) Failed(m ClockMoment, took time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pause := min(stepPause<<min(c.failures, 10), maxStepPause)
	c.failures++
	c.retry = m.Boot + took + max(pause, took)
	if c.opts.Tell != nil {
		c.opts.Tell(ClockNews{Doubt: c.told, Failed: err})
	}
}

// Follow takes a step that is durable.
func (c *Clock) Follow(s ClockStep) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line.Follow(s)
	c.trusting, c.failures, c.retry = false, 0, 0
	c.tell(ClockDoubt{}, s.Because, fromMicros(s.To-s.From))
}

// Adopt believes a reading that another process of the same database believes.
func (c *Clock) Adopt(r ClockReading, because string) ClockMoment {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.line.Adopt(r)
	c.trusting, c.failures, c.retry = false, 0, 0
	c.tell(ClockDoubt{}, because, 0)
	return m
}

// Doubt returns what is doubted now, as far as the readings of before say.
func (c *Clock) Doubt() ClockDoubt {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told
}

// Save returns what a later process needs to go on, as of the newest reading.
func (c *Clock) Save() SavedClock {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.line.save()
}

func (c *Clock) tell(d ClockDoubt, because string, step time.Duration) {
	changed := d.Why != "" && (c.told.Why == "" || apart(d.Off, c.told.Off))
	ended := d.Why == "" && c.told.Why != ""
	if d.Why == "" || c.told.Why == "" {
		c.told = d
	} else if changed {
		d.Since = c.told.Since
		c.told = d
	}
	if (changed || ended) && c.opts.Tell != nil {
		c.opts.Tell(ClockNews{Doubt: c.told, Because: because, Step: step})
	}
}

func apart(a, b time.Duration) bool { return (a - b).Abs() > ClockAgreement }

// Refuse returns ErrClockDoubted while everything stands still.
func (d ClockDoubt) Refuse() error {
	if d.Stands {
		return fmt.Errorf("%w: %s", ErrClockDoubted, d.Why)
	}
	return nil
}

func fromMicros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
