package store

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// Rules of this file: many goroutines read one clock, each takes its time to read it and
// again until its reading is judged, and a step is followed long after it was requested.

// crowd is a machine's clock, its readers, and the timeline that judges them.
type crowd struct {
	*testing.T
	clocks
	rand *rand.Rand
	line Timeline
	// reading has the readings that were begun, and read those that wait to be judged.
	reading []time.Duration
	read    []ClockReading
	// step is requested and not followed yet. The reading for it began at asked, and took
	// took.
	step        *ClockStep
	asked, took time.Duration
	// jumped is when the clock was set last, on the boot clock.
	jumped time.Duration
	// believed reports that a step of a clock that was not set since has been followed.
	believed bool
	newest   int64
}

func newCrowd(t *testing.T, seed uint64) *crowd {
	c := &crowd{T: t, clocks: clocks{wall: noon, boot: time.Hour}, rand: rand.New(rand.NewPCG(seed, 1))}
	if c.rand.IntN(2) == 0 {
		c.line = Suspending()
	}
	switch c.rand.IntN(4) {
	case 0:
		c.line = c.line.After(noon.Add(time.Duration(c.rand.IntN(1200)-600) * time.Second).UnixMicro())
	case 1:
		c.line = c.line.After(noon.Add(-time.Minute).UnixMicro()).Suspect()
	}
	c.line.bound = time.Minute
	return c
}

// take removes a random element.
func take[T any](c *crowd, list *[]T) (v T, ok bool) {
	if len(*list) == 0 {
		return v, false
	}
	i := c.rand.IntN(len(*list))
	v = (*list)[i]
	(*list)[i] = (*list)[len(*list)-1]
	*list = (*list)[:len(*list)-1]
	return v, true
}

// act lets one of the goroutines do something.
func (c *crowd) act() {
	switch c.rand.IntN(8) {
	case 0:
		c.pass(time.Duration(c.rand.IntN(3_000_000)) * time.Microsecond)
	case 1, 2:
		c.pass(time.Duration(c.rand.IntN(300)) * time.Microsecond)
	case 3, 4:
		c.reading = append(c.reading, c.boot)
	case 5:
		if boot, ok := take(c, &c.reading); ok {
			c.read = append(c.read, ClockReading{Wall: c.wall.UnixMicro(), Boot: boot, Took: c.boot - boot})
		}
	case 6:
		if r, ok := take(c, &c.read); ok {
			c.judge(r)
		}
	default:
		c.follow()
	}
}

// judge judges a reading, and fails if the clock becomes suspect again or time goes
// backwards.
func (c *crowd) judge(r ClockReading) ClockMoment {
	c.Helper()
	m := c.line.Read(r)
	if c.believed && m.Suspect.Why != "" {
		c.Fatalf("%v after a step, and the clock was set %v ago: %s", c.boot-c.asked, c.boot-c.jumped, m.Suspect.Why)
	}
	if m.Now < c.newest {
		c.Fatalf("the believed time goes back by %v", time.Duration(c.newest-m.Now)*time.Microsecond)
	}
	c.newest = m.Now
	return m
}

// follow takes the step that was asked for, or reads the clock and asks for one.
func (c *crowd) follow() {
	c.Helper()
	if c.step != nil {
		c.line.Follow(*c.step)
		c.newest += c.step.To - c.step.From
		// A slow reading that agrees does not show whether the clock is back exactly.
		c.believed = c.asked >= c.jumped && (c.step.To != c.step.From || c.took < clockTolerance)
		c.step = nil
		return
	}
	r := ClockReading{Boot: c.boot}
	c.pass(time.Duration(c.rand.IntN(2)*c.rand.IntN(4_000_000)) * time.Microsecond)
	r.Wall, r.Took = c.wall.UnixMicro(), c.boot-r.Boot
	if c.rand.IntN(8) == 0 {
		r.Proof = "the kernel says so"
	}
	m := c.judge(r)
	c.step, c.asked, c.took = m.Step, r.Boot, r.Took
}

func (c *crowd) set() {
	c.pass(time.Microsecond)
	c.wall = c.wall.Add(time.Duration(c.rand.IntN(7200)-3600) * time.Second)
	c.jumped, c.believed = c.boot, false
}

// settle lets the bound pass, with readers all the time.
func (c *crowd) settle() {
	c.Helper()
	for end := c.boot + 5*c.line.bound; c.boot < end; c.act() {
	}
	c.follow()
	c.follow()
}

func TestASteadyClockIsBelievedHoweverItIsRead(t *testing.T) {
	steps := 0
	for seed := range uint64(500) {
		c := newCrowd(t, seed)
		for range 1 + c.rand.IntN(4) {
			for range c.rand.IntN(200) {
				c.act()
			}
			c.set()
		}
		c.settle()
		if c.believed {
			steps++
		}
		m := c.judge(ClockReading{Wall: c.wall.UnixMicro(), Boot: c.boot})
		if m.Suspect.Why != "" {
			t.Fatalf("seed %d: the clock was set %v ago and is doubted: %s", seed, c.boot-c.jumped, m.Suspect.Why)
		}
		// What a reading took is not known of the clock that it read.
		if off := time.UnixMicro(m.Now).Sub(c.wall).Abs(); off > 4*time.Second+clockTolerance {
			t.Fatalf("seed %d: the believed time is %v off", seed, off)
		}
	}
	if steps < 250 {
		t.Errorf("only %d worlds met a step", steps)
	}
}

// The proof that a reading was right may come after the reading was judged, and after others
// were.
func TestAProofComesAfterItsReading(t *testing.T) {
	c := NewClock(ClockOptions{}, Suspending())
	wall := time.Date(2030, 1, 2, 13, 0, 0, 0, time.UTC).UnixMicro()
	c.Read(ClockReading{Wall: wall, Boot: time.Hour})
	jumped := ClockReading{Wall: wall - time.Hour.Microseconds(), Boot: time.Hour + time.Second, Took: time.Millisecond}
	if m := c.Read(jumped); m.Suspect.Why == "" || m.Step != nil {
		t.Fatalf("after the jump: %+v", m)
	}
	next := jumped
	next.Wall, next.Boot = next.Wall+2000, next.Boot+2*time.Millisecond
	c.Read(next)
	jumped.Proof = "another clock agrees"
	m := c.Read(jumped)
	if m.Step == nil {
		t.Fatalf("with a proof: %+v", m)
	}
	c.Follow(*m.Step)
	if m := c.Read(ClockReading{Wall: next.Wall + 1000, Boot: next.Boot + time.Millisecond + time.Millisecond}); m.Suspect.Why != "" {
		t.Errorf("after the step: %+v", m)
	}
}

// A reading that was taken before a step and is judged after it is no new jump.
func TestALateReadingChangesNothing(t *testing.T) {
	o := observe(t, Timeline{})
	o.believes(0, false)
	before := o.reading()
	o.wall, o.proof = o.wall.Add(time.Hour), "the kernel says so"
	o.pass(time.Millisecond)
	m := o.believes(0, true)
	if late := o.line.Read(before); !late.Late || late.Now != m.Now || late.Suspect != m.Suspect || late.Step != nil || late.Ended != "" {
		t.Errorf("in the doubt: %+v", late)
	}
	o.line.Follow(*m.Step)
	before.Proof = o.proof
	if late := o.line.Read(before); !late.Late || late.Suspect.Why != "" || late.Step != nil {
		t.Errorf("after the step: %+v", late)
	}
	o.believes(time.Hour, false)
}

// A clock that was read slowly is known as exactly as it was read.
func TestAStepOfASlowReadingLeavesNoDoubt(t *testing.T) {
	o := observe(t, Timeline{})
	o.believes(0, false)
	o.wall = o.wall.Add(time.Hour)
	r := ClockReading{Boot: o.boot, Took: 3 * time.Second, Proof: "the kernel says so"}
	o.pass(r.Took)
	r.Wall = o.wall.UnixMicro()
	m := o.line.Read(r)
	if m.Step == nil {
		t.Fatalf("%+v", m)
	}
	o.line.Follow(*m.Step)
	for range 100 {
		if m := o.read(); m.Suspect.Why != "" {
			t.Fatalf("%v later: %s", o.boot-r.Boot, m.Suspect.Why)
		}
		o.pass(time.Second)
	}
	o.believes(time.Hour, false)
}

// A clock's slew is no part of a step: the line moves to the clock.
func TestAStepOfASlewedClockIsExact(t *testing.T) {
	o := observe(t, Timeline{})
	o.believes(0, false)
	const slewed = 200 * time.Millisecond
	o.wall = o.wall.Add(slewed)
	o.believes(slewed, false)
	o.wall, o.proof = o.wall.Add(time.Hour), "the kernel says so"
	m := o.read()
	if m.Step == nil || m.Step.By != m.Step.To-m.Step.From {
		t.Fatalf("%+v", m.Step)
	}
	o.line.Follow(*m.Step)
	o.wall = o.wall.Add(slewed)
	if m := o.read(); m.Suspect.Why != "" {
		t.Errorf("doubted: %s", m.Suspect.Why)
	}
}

// A saved time belongs to a reading of the boot clock at the same moment.
func TestALateReadingIsNotSaved(t *testing.T) {
	o := observe(t, Timeline{})
	before := o.reading()
	o.read()
	o.pass(3 * time.Second)
	o.read()
	o.line.Read(before)
	saved := o.line.save()
	saved.BootID = "this run"
	o.line = Resume(saved, "this run", o.boot)
	o.believes(0, false)
}

// A step that cannot be written is reported, and requested again after pauses that grow.
func TestAStepThatFailsIsAskedForAfterAPause(t *testing.T) {
	var news []ClockNews
	o := clocks{wall: noon, boot: time.Hour}
	c := NewClock(ClockOptions{Report: func(n ClockNews) { news = append(news, n) }}, Timeline{})
	c.Read(o.reading())
	o.wall, o.proof = o.wall.Add(time.Hour), "the kernel says so"
	for _, tt := range []struct{ took, pause time.Duration }{
		{0, time.Second}, {0, 2 * time.Second}, {10 * time.Second, 10 * time.Second}, {0, 8 * time.Second}, {time.Hour, time.Hour},
	} {
		m := c.Read(o.reading())
		if m.Step == nil {
			t.Fatalf("no step is asked for before the attempt that takes %v", tt.took)
		}
		news = nil
		c.Failed(m, tt.took, ErrUnavailable)
		if len(news) != 1 || news[0].Failed == nil || news[0].Suspect.Why == "" {
			t.Fatalf("news: %+v", news)
		}
		o.pass(tt.took + tt.pause - time.Microsecond)
		if m := c.Read(o.reading()); m.Step != nil || m.Suspect.Why == "" {
			t.Errorf("an attempt took %v, and the step is asked for before %v: %+v", tt.took, tt.pause, m)
		}
		o.pass(time.Microsecond)
	}
	c.Follow(*c.Read(o.reading()).Step)
	o.wall = o.wall.Add(time.Hour)
	if c.Read(o.reading()).Step == nil {
		t.Error("a later step waits for the pause of an earlier one")
	}
}

// Many goroutines judge readings of one clock as it is set and followed.
func TestAClockIsReadByManyGoroutines(t *testing.T) {
	var mu sync.Mutex
	o := clocks{wall: noon, boot: time.Hour}
	read := func() ClockReading {
		mu.Lock()
		defer mu.Unlock()
		o.pass(time.Millisecond)
		return o.reading()
	}
	c := NewClock(ClockOptions{SuspectFor: time.Second, Report: func(ClockNews) {}}, Timeline{})
	c.Read(read())
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 2_000 {
				c.Read(read())
				c.Save()
				c.Suspect()
			}
		})
	}
	for range 20 {
		mu.Lock()
		o.wall = o.wall.Add(time.Hour)
		mu.Unlock()
		m := c.Read(read())
		for m.Step == nil {
			m = c.Read(read())
		}
		c.Follow(*m.Step)
	}
	readers.Wait()
	if m := c.Read(read()); m.Suspect.Why != "" || m.Now < noon.Add(20*time.Hour).UnixMicro() {
		t.Errorf("%+v", m)
	}
}
