package store

import (
	"fmt"
	"time"
)

// Rules of this file. The believed time continues from an anchor by the boot clock, which
// cannot be set and does not stop while the machine sleeps.
//   - A wall clock that stays close to it is followed, so that a slew is followed too.
//   - A wall clock that jumps is suspect. It is believed again when it is back, when
//     something proves it right (ClockReading.Proof), or when it has been suspect for
//     SuspectFor. Believing a changed clock is a step, which changes what is stored
//     (ClockStep).
//   - If the boot clock's value at the anchor is unknown, the wall clock is believed unless
//     it is behind the anchor: time passes between two runs of a machine. If it is behind,
//     the believed time begins at the anchor and is too early by an unknown amount: nothing
//     may be decided by it.
//   - Readings of many goroutines are judged in any order. A reading that began before the
//     end of another one that was judged already changes nothing: judged late, it would show
//     a clock from before a jump, or from before a step. Its proof that a suspect clock is right
//     counts all the same, because a proof is often found after its reading was judged.

const (
	// clockTolerance is how far a wall clock may be off without becoming suspect.
	clockTolerance = 250 * time.Millisecond
	// slewShare is the divisor of the elapsed time by which a wall clock may be slewed:
	// kernels slew at half that rate.
	slewShare = 1000
	// anchorEvery is the least time between two anchors. Each anchor has the whole tolerance
	// again.
	anchorEvery = 10 * time.Second
	// anchorTook is the longest time that the reading for an anchor may take.
	anchorTook = 100 * time.Millisecond
)

// Timeline is the belief in one clock. The zero Timeline believes its first reading. It
// depends on readings alone, and is for one goroutine.
type Timeline struct {
	bound time.Duration
	// suspends reports that every suspect clock suspends work, and not only one that leaves
	// the time unknown.
	suspends bool

	anchored bool
	// line was the believed time, in microseconds, when the boot clock showed boot, within
	// blur.
	line int64
	boot time.Duration
	blur time.Duration
	// floor is the anchor of another run of the machine, as long as the time is unknown; 0:
	// it is known.
	floor int64
	// elsewhere reports that a clock past the floor is no proof either, because another
	// process suspects it (see Release).
	elsewhere bool
	// last is the newest believed time. It belongs to the newest reading that was judged,
	// which began at judged on the boot clock and had ended at seen.
	last         int64
	judged, seen time.Duration

	suspected bool
	// since is when the clock became suspect or jumped again, on the boot clock;
	// suspectSince is when it first became suspect.
	since, suspectSince time.Duration
	began, off          int64
}

// ClockMoment is one reading, judged.
type ClockMoment struct {
	// Now is the believed time in microseconds since 1970. Only a step can move it backwards.
	Now  int64
	Boot time.Duration
	// Suspect describes a clock that is not believed.
	Suspect SuspectClock
	// Step, when set, must be written, and then followed.
	Step *ClockStep
	// Ended is why a clock is believed again without a step.
	Ended string
	// Jumped reports that a suspect clock has jumped again.
	Jumped bool
	// Late reports that a newer reading was judged before. Now and Suspect are those of the
	// newer one.
	Late bool
}

// SavedClock is the state that one process leaves to the next.
type SavedClock struct {
	// BootID names the run of the machine; empty: unknown.
	BootID string
	// At was the believed time when the boot clock showed Boot, both in microseconds.
	At, Boot int64
	// Since, Off and Floor describe a suspect clock; 0: none. All are in microseconds, Since
	// on the boot clock. Off is how far the clock was off. If it is off by another amount in
	// the next process, it was set meanwhile, and is suspect from then on.
	Since, Off, Floor int64
}

// Suspending returns a timeline on which every suspect clock suspends work.
func Suspending() Timeline { return Timeline{suspends: true} }

// After returns the timeline of a process that knows only the newest time that an earlier
// process believed; 0: none.
func (t Timeline) After(newest int64) Timeline {
	t.floor = newest
	return t
}

// Suspect returns the timeline of a process that finds a clock which another process
// suspects.
func (t Timeline) Suspect() Timeline {
	t.elsewhere = t.floor != 0
	return t
}

// Release ends what Suspect began: no other process suspects the clock any more, and none has
// believed it. A clock that has jumped meanwhile stays suspect.
func (t *Timeline) Release() {
	if !t.jumped() {
		t.elsewhere = false
	}
}

// jumped reports whether a suspect clock has jumped since it became suspect.
func (t *Timeline) jumped() bool { return t.suspected && t.since != t.suspectSince }

// Resume returns the timeline of a process that continues where an earlier one stopped.
func Resume(saved SavedClock, bootID string, boot time.Duration) Timeline {
	at := fromMicros(saved.Boot)
	if saved.BootID == "" || saved.BootID != bootID || boot < at {
		return Timeline{}.After(saved.At)
	}
	t := Timeline{anchored: true, line: saved.At, boot: at, last: saved.At, floor: saved.Floor, judged: at, seen: at}
	if saved.Since > 0 {
		t.suspected, t.began, t.off = true, saved.At, saved.Off
		t.since, t.suspectSince = fromMicros(saved.Since), fromMicros(saved.Since)
	}
	return t
}

// save returns the newest moment: a time and a reading of the boot clock that belong
// together.
func (t *Timeline) save() SavedClock {
	s := SavedClock{At: t.last, Boot: t.judged.Microseconds()}
	if t.suspected {
		s.Since, s.Off, s.Floor = max(1, t.since.Microseconds()), t.off, t.floor
	}
	return s
}

// Read judges one reading.
func (t *Timeline) Read(r ClockReading) ClockMoment {
	if !t.anchored {
		t.first(r)
	} else if r.Boot < t.seen && (r.Proof == "" || !t.suspected) {
		return t.late(r)
	}
	t.judged, t.seen = max(t.judged, r.Boot), max(t.seen, r.Boot+r.Took)
	off := t.offOf(r)
	if t.floor == 0 && fromMicros(off).Abs() <= t.tolerance(r) {
		return t.agree(r)
	}
	jumped := t.suspected && apart(fromMicros(off), fromMicros(t.off))
	if !t.suspected {
		t.suspected, t.since, t.suspectSince, t.began, t.off = true, r.Boot, r.Boot, t.at(r), off
	} else if jumped {
		t.since, t.off = r.Boot, off // it has not lasted yet
	}
	m := ClockMoment{Now: t.forward(t.at(r)), Boot: r.Boot, Suspect: t.describe(off), Jumped: jumped}
	if because := t.convinced(r, off); because != "" {
		m.Step = t.step(r, off, because)
	}
	return m
}

// late answers for a reading that adds no information.
func (t *Timeline) late(r ClockReading) ClockMoment {
	m := ClockMoment{Now: t.last, Boot: r.Boot, Late: true}
	if t.suspected {
		m.Suspect = t.describe(t.off)
	}
	return m
}

// first anchors the timeline at its first reading.
func (t *Timeline) first(r ClockReading) {
	t.anchored, t.line, t.boot, t.blur = true, r.Wall, r.Boot, r.Took
	if t.elsewhere || r.Wall+ClockAgreement.Microseconds() < t.floor {
		t.line, t.blur = t.floor, 0
		return
	}
	t.floor = 0
}

// at returns the believed time of a reading, by the boot clock.
func (t *Timeline) at(r ClockReading) int64 { return t.line + (r.Boot - t.boot).Microseconds() }

// offOf returns by how much a reading's wall clock is at least ahead of the believed time;
// negative: behind; 0: it may be right.
func (t *Timeline) offOf(r ClockReading) int64 {
	early, late := t.at(r)-t.blur.Microseconds(), t.at(r)+(r.Took+t.blur).Microseconds()
	switch {
	case r.Wall > late:
		return r.Wall - late
	case r.Wall < early:
		return r.Wall - early
	default:
		return 0
	}
}

func (t *Timeline) tolerance(r ClockReading) time.Duration {
	return max(clockTolerance, (r.Boot-t.boot).Abs()/slewShare)
}

// agree follows a wall clock that is within the tolerance.
func (t *Timeline) agree(r ClockReading) ClockMoment {
	m := ClockMoment{Boot: r.Boot}
	if t.suspected {
		const because = "the clock is back where it should be"
		if suspended := t.suspendedFor(r); suspended > 0 {
			m.Now = t.forward(t.at(r))
			m.Step = &ClockStep{From: m.Now, To: m.Now, Suspended: suspended, Because: because}
			m.Suspect = t.describe(t.off)
			return m
		}
		t.suspected, t.off, m.Ended = false, 0, because
	}
	if r.Boot-t.boot >= anchorEvery && r.Took <= anchorTook {
		t.line, t.boot, t.blur = r.Wall, r.Boot, r.Took
	}
	m.Now = t.forward(r.Wall)
	return m
}

// convinced returns why a suspect clock is believed from now on; empty: it is not.
func (t *Timeline) convinced(r ClockReading, off int64) string {
	unknown := t.floor != 0 && !t.elsewhere
	switch {
	case r.Proof != "":
		return r.Proof
	case unknown && off >= 0:
		return "the clock is past the newest time that was believed"
	case unknown && r.Wall >= t.floor:
		return "the clock has passed the newest time that was believed before the start"
	case r.Boot-t.since >= t.bound:
		return fmt.Sprintf("the change has lasted for %v", t.bound)
	default:
		return ""
	}
}

// step returns what believing a reading changes. If the time was unknown, a clock that is
// ahead ran on while no process watched it, which changes nothing that is stored. The step
// begins at the line and not at the newest believed time, which a slew may have put ahead of
// the line: the line is what moves to the clock.
func (t *Timeline) step(r ClockReading, off int64, because string) *ClockStep {
	from := t.at(r)
	s := &ClockStep{From: from, To: r.Wall, By: r.Wall - from, Took: r.Took, Suspended: t.suspendedFor(r), Because: because}
	if t.floor != 0 {
		s.AgesUnknown = off < 0 || t.elsewhere && r.Proof == ""
		if off >= 0 {
			s.By = 0
		}
	}
	return s
}

// suspendedFor returns how long work was suspended.
func (t *Timeline) suspendedFor(r ClockReading) time.Duration {
	if !t.suspends && t.floor == 0 {
		return 0
	}
	return (r.Boot - t.suspectSince).Truncate(time.Microsecond)
}

func (t *Timeline) describe(off int64) SuspectClock {
	d := SuspectClock{Since: time.UnixMicro(t.began).UTC(), Off: fromMicros(off), Suspends: t.suspends || t.floor != 0, Kind: SuspectSet}
	ahead := "ahead of"
	if off < 0 {
		ahead = "behind"
	}
	d.Why = fmt.Sprintf("the clock is %v %s the time that is believed", d.Off.Abs().Round(time.Millisecond), ahead)
	switch {
	case t.elsewhere && t.jumped(): // suspect to this process too
	case t.elsewhere:
		d.Kind, d.Why = SuspectElsewhere, "the clock is suspect to another server, and nothing has proved it right since"
	case t.floor != 0:
		d.Kind, d.Why = SuspectBehind, fmt.Sprintf("the clock is behind %s, which was believed before the start",
			time.UnixMicro(t.floor).UTC().Format(time.RFC3339))
	}
	return d
}

// forward keeps the believed time from going backwards.
func (t *Timeline) forward(now int64) int64 {
	t.last = max(t.last, now)
	return t.last
}

// Follow applies a step that is durable: the clock is believed, as exactly as it was read.
func (t *Timeline) Follow(s ClockStep) {
	t.line, t.last = t.line+s.To-s.From, t.last+s.To-s.From
	t.blur = max(t.blur, s.Took)
	t.floor, t.elsewhere, t.suspected, t.off = 0, false, false, 0
}

// Adopt believes a reading without judging it.
func (t *Timeline) Adopt(r ClockReading) ClockMoment {
	t.anchored, t.suspected, t.floor, t.elsewhere, t.off = true, false, 0, false, 0
	t.line, t.boot, t.blur, t.last = r.Wall, r.Boot, r.Took, r.Wall
	t.judged, t.seen = r.Boot, r.Boot+r.Took
	return ClockMoment{Now: r.Wall, Boot: r.Boot}
}
