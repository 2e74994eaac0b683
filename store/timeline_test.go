package store

import (
	"testing"
	"time"
)

// clocks are the clocks of a machine.
type clocks struct {
	wall  time.Time
	boot  time.Duration
	proof string
}

func (c *clocks) pass(d time.Duration) { c.wall, c.boot = c.wall.Add(d), c.boot+d }

func (c *clocks) reading() ClockReading {
	return ClockReading{Wall: c.wall.UnixMicro(), Boot: c.boot, Proof: c.proof}
}

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// observed is a timeline and the clocks that it is read from.
type observed struct {
	*testing.T
	clocks
	line Timeline
	true time.Time
}

func observe(t *testing.T, line Timeline) *observed {
	line.bound = 10 * time.Minute
	return &observed{T: t, clocks: clocks{wall: noon, boot: time.Hour}, line: line, true: noon}
}

func (o *observed) pass(d time.Duration) { o.clocks.pass(d); o.true = o.true.Add(d) }

func (o *observed) read() ClockMoment { return o.line.Read(o.reading()) }

// believes fails unless the believed time is as far from the true one as said.
func (o *observed) believes(off time.Duration, suspect bool) ClockMoment {
	o.Helper()
	m := o.read()
	if got := time.UnixMicro(m.Now).Sub(o.true); got != off {
		o.Errorf("the believed time is %v off, want %v", got, off)
	}
	if (m.Suspect.Why != "") != suspect {
		o.Errorf("suspect: %q, want %v", m.Suspect.Why, suspect)
	}
	return m
}

func TestAJumpIsNotFollowed(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 300 * time.Millisecond, -300 * time.Millisecond} {
		o := observe(t, Timeline{})
		o.believes(0, false)
		o.wall = o.wall.Add(jump)
		o.pass(time.Second)
		if m := o.believes(0, true); m.Step != nil || m.Suspect.Suspends || m.Suspect.Off != jump {
			t.Errorf("%v: %+v", jump, m)
		}
		o.wall = o.wall.Add(-jump)
		o.pass(time.Second)
		if m := o.believes(0, false); m.Ended == "" || m.Step != nil {
			t.Errorf("%v and back: %+v", jump, m)
		}
	}
}

func TestAJumpIsFollowedAtItsBound(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		o := observe(t, Timeline{})
		o.believes(0, false)
		o.wall = o.wall.Add(jump)
		o.believes(0, true)
		o.pass(10*time.Minute - time.Microsecond)
		o.believes(0, true)
		o.pass(time.Microsecond)
		m := o.believes(0, true)
		if m.Step == nil || m.Step.By != jump.Microseconds() || m.Step.To != m.Step.From+m.Step.By || m.Step.AgesUnknown || m.Step.Suspended != 0 {
			t.Fatalf("%v: %+v", jump, m.Step)
		}
		o.pass(time.Second) // it takes a while to be stored
		o.line.Follow(*m.Step)
		o.believes(jump, false)
		o.pass(time.Hour)
		o.believes(jump, false)
	}
}

func TestAnotherJumpBeginsTheBoundAnew(t *testing.T) {
	o := observe(t, Timeline{})
	o.believes(0, false)
	o.wall = o.wall.Add(time.Hour)
	o.believes(0, true)
	o.pass(9 * time.Minute)
	o.wall = o.wall.Add(time.Hour)
	o.believes(0, true)
	o.pass(9 * time.Minute)
	if m := o.believes(0, true); m.Step != nil {
		t.Errorf("followed after %v", 9*time.Minute)
	}
	o.pass(time.Minute)
	if m := o.believes(0, true); m.Step == nil || m.Step.By != (2*time.Hour).Microseconds() {
		t.Errorf("not followed: %+v", m.Step)
	}
}

func TestAProofIsFollowedAtOnce(t *testing.T) {
	o := observe(t, Timeline{})
	o.believes(0, false)
	o.wall, o.proof = o.wall.Add(-time.Hour), "the kernel says so"
	m := o.believes(0, true)
	if m.Step == nil || m.Step.By != -time.Hour.Microseconds() || m.Step.Because != o.proof {
		t.Fatalf("%+v", m.Step)
	}
	o.line.Follow(*m.Step)
	o.believes(-time.Hour, false)
}

func TestSlewingIsNoJump(t *testing.T) {
	o := observe(t, Timeline{})
	for range 100_000 { // more than a day: 43 s are slewed
		o.pass(time.Second)
		o.wall = o.wall.Add(500 * time.Microsecond)
		if m := o.read(); m.Suspect.Why != "" || m.Now != o.wall.UnixMicro() {
			t.Fatalf("%v: %+v", o.boot, m)
		}
	}
}

func TestASleepIsNoJump(t *testing.T) {
	o := observe(t, Timeline{})
	o.believes(0, false)
	o.pass(8 * time.Hour)
	o.believes(0, false)
}

// A reading that took long says little: the clock may have been read at any moment of it.
func TestASlowReadingIsNoJump(t *testing.T) {
	o := observe(t, Timeline{})
	o.believes(0, false)
	r := o.reading()
	r.Took, r.Wall = 5*time.Second, r.Wall+(5*time.Second).Microseconds()
	if m := o.line.Read(r); m.Suspect.Why != "" {
		t.Errorf("suspect: %v", m.Suspect.Why)
	}
	o.pass(5 * time.Second)
	r = o.reading()
	r.Took, r.Wall = 4*time.Second, r.Wall+(5*time.Second).Microseconds()
	if m := o.line.Read(r); m.Suspect.Off != time.Second {
		t.Errorf("off by %v", m.Suspect.Off)
	}
}

func TestTheBelievedTimeNeverGoesBack(t *testing.T) {
	o := observe(t, Timeline{})
	before := o.read().Now
	o.wall = o.wall.Add(-100 * time.Millisecond)
	if m := o.read(); m.Now != before || m.Suspect.Why != "" {
		t.Errorf("%+v, before %d", m, before)
	}
}

func TestARestartInOneRunOfTheMachineIsExact(t *testing.T) {
	for _, jump := range []time.Duration{0, time.Hour, -110 * time.Second} {
		o := observe(t, Timeline{})
		o.believes(0, false)
		saved := o.line.save()
		saved.BootID = "this run"
		o.pass(time.Minute)
		o.wall = o.wall.Add(jump)
		o.line = Resume(saved, "this run", o.boot)
		o.line.bound = 10 * time.Minute
		if m := o.believes(0, jump != 0); m.Step != nil || m.Suspect.Suspends {
			t.Errorf("%v: %+v", jump, m)
		}
	}
}

// A server that is started repeatedly follows a lasting change nevertheless.
func TestADoubtOutlivesARestart(t *testing.T) {
	o := observe(t, Timeline{})
	o.believes(0, false)
	o.wall = o.wall.Add(time.Hour)
	for i := range 10 {
		m := o.believes(0, true)
		if m.Step != nil {
			t.Fatalf("followed after %v", time.Duration(i)*time.Minute)
		}
		saved := o.line.save()
		saved.BootID = "this run"
		o.pass(time.Minute)
		o.line = Resume(saved, "this run", o.boot)
		o.line.bound = 10 * time.Minute
	}
	if m := o.believes(0, true); m.Step == nil {
		t.Error("never followed")
	}
}

// A clock that is set again while no process watches it has not been wrong in this way for
// long.
func TestAClockThatWasSetInARestartIsDoubtedAnew(t *testing.T) {
	o := observe(t, Timeline{})
	o.believes(0, false)
	o.wall = o.wall.Add(-time.Minute)
	o.believes(0, true)
	o.pass(9 * time.Minute)
	o.believes(0, true)
	saved := o.line.save()
	saved.BootID = "this run"
	o.wall = o.wall.Add(time.Hour)
	o.line = Resume(saved, "this run", o.boot)
	o.line.bound = 10 * time.Minute
	o.believes(0, true)
	o.pass(9 * time.Minute)
	if m := o.believes(0, true); m.Step != nil {
		t.Errorf("followed after %v: %+v", 9*time.Minute, m.Step)
	}
	o.pass(time.Minute)
	if m := o.believes(0, true); m.Step == nil || m.Step.By != 59*time.Minute.Microseconds() {
		t.Errorf("not followed: %+v", m.Step)
	}
}

// startAfter is a process in another run of the machine, when the earlier one's newest
// time was newest.
func startAfter(t *testing.T, wall, newest time.Time) *observed {
	saved := SavedClock{BootID: "the run before", At: newest.UnixMicro(), Boot: time.Hour.Microseconds()}
	o := observe(t, Resume(saved, "this run", time.Minute))
	o.boot, o.wall = time.Minute, wall
	return o
}

func TestADowntimeIsNoJump(t *testing.T) {
	o := startAfter(t, noon, noon.Add(-time.Hour))
	o.believes(0, false)
}

func TestAnEarlierTimeAtTheStartIsDoubted(t *testing.T) {
	t.Run("until it has passed the newest time", func(t *testing.T) {
		o := startAfter(t, noon.Add(-110*time.Second), noon)
		if m := o.believes(0, true); !m.Suspect.Suspends {
			t.Error("nothing stands")
		}
		o.pass(110*time.Second - time.Microsecond)
		o.believes(0, true)
		o.pass(time.Microsecond)
		m := o.believes(0, true)
		want := ClockStep{
			From: m.Now, To: o.wall.UnixMicro(), By: -(110 * time.Second).Microseconds(), Suspended: 110 * time.Second, AgesUnknown: true,
		}
		if m.Step == nil {
			t.Fatal("it stays suspect")
		}
		if want.Because = m.Step.Because; *m.Step != want {
			t.Errorf("%+v, want %+v", *m.Step, want)
		}
	})
	t.Run("until the clock is set right", func(t *testing.T) {
		o := startAfter(t, time.Unix(0, 0), noon)
		o.believes(0, true)
		o.wall = noon.Add(time.Hour)
		o.pass(time.Second)
		m := o.believes(0, true)
		if m.Step == nil || m.Step.By != 0 || m.Step.AgesUnknown || m.Step.To != o.wall.UnixMicro() || m.Step.Suspended != time.Second {
			t.Fatalf("%+v", m.Step)
		}
		o.line.Follow(*m.Step)
		o.believes(time.Hour, false)
	})
	t.Run("until the bound", func(t *testing.T) {
		o := startAfter(t, noon.Add(-time.Hour), noon)
		o.believes(0, true)
		o.pass(10 * time.Minute)
		m := o.believes(0, true)
		if m.Step == nil || m.Step.By != -time.Hour.Microseconds() || !m.Step.AgesUnknown || m.Step.Suspended != 10*time.Minute {
			t.Fatalf("%+v", m.Step)
		}
		o.line.Follow(*m.Step)
		o.believes(-time.Hour, false)
	})
	t.Run("also by the next process", func(t *testing.T) {
		o := startAfter(t, noon.Add(-time.Hour), noon)
		o.believes(0, true)
		saved := o.line.save()
		saved.BootID = "this run"
		o.pass(time.Minute)
		o.line = Resume(saved, "this run", o.boot)
		o.line.bound = 10 * time.Minute
		if m := o.believes(0, true); !m.Suspect.Suspends || m.Step != nil {
			t.Errorf("%+v", m)
		}
		o.pass(9 * time.Minute)
		if m := o.believes(0, true); m.Step == nil || !m.Step.AgesUnknown {
			t.Errorf("%+v", m.Step)
		}
	})
}

func TestAStandingTimelineStandsInEveryDoubt(t *testing.T) {
	o := observe(t, Suspending().After(noon.Add(-time.Minute).UnixMicro()))
	o.believes(0, false)
	o.wall = o.wall.Add(time.Hour)
	if m := o.believes(0, true); !m.Suspect.Suspends {
		t.Error("nothing stands")
	}
	o.pass(2 * time.Second)
	o.wall = o.wall.Add(-time.Hour)
	m := o.believes(0, true)
	if m.Step == nil || m.Step.By != 0 || m.Step.To != m.Step.From || m.Step.Suspended != 2*time.Second {
		t.Fatalf("%+v", m.Step)
	}
	o.line.Follow(*m.Step)
	o.believes(0, false)
}

func TestASuspectClockNeedsAProof(t *testing.T) {
	o := observe(t, Suspending().After(noon.Add(-time.Minute).UnixMicro()).Suspect())
	if m := o.believes(-time.Minute, true); m.Step != nil || !m.Suspect.Suspends {
		t.Fatalf("%+v", m)
	}
	o.pass(10 * time.Minute)
	if m := o.believes(-time.Minute, true); m.Step == nil || m.Step.By != 0 || !m.Step.AgesUnknown {
		t.Errorf("%+v", m.Step)
	}
	o.proof = "the kernel says so"
	if m := o.believes(-time.Minute, true); m.Step == nil || m.Step.By != 0 || m.Step.AgesUnknown {
		t.Errorf("%+v", m.Step)
	}
	o.line.Adopt(o.reading())
	o.believes(0, false)
}

func TestAClockTellsOfEachChange(t *testing.T) {
	var news []ClockNews
	o := clocks{wall: noon, boot: time.Hour}
	c := NewClock(ClockOptions{Report: func(n ClockNews) { news = append(news, n) }}, Timeline{})
	read := func() ClockMoment { return c.Read(o.reading()) }
	read()
	o.wall = o.wall.Add(time.Hour)
	for range 3 {
		read()
	}
	if len(news) != 1 || news[0].Suspect.Off != time.Hour || !news[0].Suspect.Since.Equal(noon) {
		t.Fatalf("%+v", news)
	}
	o.pass(DefaultSuspectFor)
	c.Follow(*read().Step)
	read()
	if len(news) != 2 || news[1].Suspect.Why != "" || news[1].Step != time.Hour || news[1].Because == "" {
		t.Fatalf("%+v", news)
	}
	if c.Suspect().Why != "" {
		t.Errorf("still suspect: %v", c.Suspect())
	}
}

func TestAnOperatorsWordIsAboutTheStart(t *testing.T) {
	o := clocks{wall: noon.Add(-time.Hour), boot: time.Hour}
	c := NewClock(ClockOptions{Trust: true}, Timeline{}.After(noon.UnixMicro()))
	m := c.Read(o.reading())
	if m.Step == nil || !m.Step.AgesUnknown {
		t.Fatalf("%+v", m)
	}
	c.Follow(*m.Step)
	o.wall = o.wall.Add(time.Hour)
	if m := c.Read(o.reading()); m.Step != nil || m.Suspect.Why == "" {
		t.Errorf("a later jump is believed: %+v", m)
	}
}
