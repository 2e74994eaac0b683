package recur

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"strconv"
	"time"
)

// A Schedule is a compiled Spec. Goroutines may share it.
type Schedule struct {
	spec       Spec
	zone       *Zone
	sources    []source
	excluded   *exclusions
	start, end int64 // in seconds: beats are at start or later, and before end
}

// A Mark records how a transition of the zone affected a beat.
type Mark int

const (
	// Plain: not at all.
	Plain Mark = iota
	// Shifted: the civil time does not exist, and the beat is at the first instant after the gap.
	Shifted
	// FirstOfTwo: the civil time occurs twice, and the beat is at its first occurrence.
	FirstOfTwo
	// Repeated: the civil time occurs twice, and the beat is at its second occurrence.
	Repeated
)

func (m Mark) String() string {
	switch m {
	case Shifted:
		return "SHIFTED"
	case FirstOfTwo:
		return "FIRST_OF_TWO"
	case Repeated:
		return "REPEATED"
	default:
		return ""
	}
}

// A Beat is one time at which a schedule fires.
type Beat struct {
	Name    string // the identity: one job per name
	Civil   Civil  // the nominal time, as the source has it; for an interval, what the wall clock shows
	Instant time.Time
	Fire    time.Time // Instant and the jitter; always before the next beat's Instant
	Offset  int       // of the zone at Instant, in seconds east of UTC
	Mark    Mark
	Source  string // where in the spec: cron[1]
}

// maxWork bounds one call of Next.
const maxWork = 5_000

// Zone returns the schedule's zone.
func (s *Schedule) Zone() *Zone { return s.zone }

// Spec returns the spec that was compiled.
func (s *Schedule) Spec() Spec { return s.spec }

// After returns the cursor behind all beats up to an instant.
func (s *Schedule) After(t time.Time) Cursor {
	// Unix wraps around before the year 1 and after the year 292 billion.
	at := min(max(floorSecond(t), s.start-1), s.end)
	c := Cursor{generation: s.spec.Generation, positions: make([]position, len(s.sources))}
	for i := range s.sources {
		c.positions[i] = s.after(&s.sources[i], at)
	}
	return c
}

func floorSecond(t time.Time) int64 {
	switch {
	case t.Year() < minYear:
		return int64(minCivil) - 2*secondsPerDay
	case t.Year() > maxYear:
		return int64(maxCivil)
	default:
		return t.Unix()
	}
}

// Next returns the first beat after a cursor of this schedule, and the cursor behind it.
//
// It returns false if no beat follows; the new cursor is then Done. It also returns false after a bounded number of excluded
// times, with a cursor that is not Done and from which the search can continue.
func (s *Schedule) Next(c Cursor) (Beat, Cursor, bool) { return s.NextCounted(c, nil) }

// NextCounted is Next for a request or a decision: it counts its steps in m. It also returns false if m ends the search:
// then m.Err is set, and the cursor is the given one.
func (s *Schedule) NextCounted(c Cursor, m *Meter) (Beat, Cursor, bool) {
	found, next, ok := s.merge(c, &work{maxWork, m})
	if m.Err() != nil {
		return Beat{}, c, false
	}
	if !ok {
		return Beat{}, next, false
	}
	src := &s.sources[found.source]
	offset := s.zone.offset(found.at)
	beat := Beat{
		Name:    s.name(src, found.pos),
		Civil:   found.pos.civil,
		Instant: time.Unix(found.at, 0).UTC(),
		Offset:  int(offset),
		Mark:    found.mark,
		Source:  src.path,
	}
	if src.civil == nil {
		beat.Civil = Civil(found.at + offset)
	}
	beat.Fire = beat.Instant.Add(s.jitter(beat.Name, found.at, next, m))
	if m.Err() != nil {
		return Beat{}, c, false // its jitter is not known
	}
	return beat, next, true
}

type choice struct {
	candidate
	source int
}

// merge returns the earliest candidate of all sources. Candidates at the same instant are one beat: the first source names
// it, and the new cursor is behind all of them.
func (s *Schedule) merge(c Cursor, w *work) (choice, Cursor, bool) {
	next := Cursor{generation: c.generation, positions: make([]position, len(s.sources))}
	copy(next.positions, c.positions)
	var all [maxSources]candidate
	var has [maxSources]bool
	var best choice
	found := false
	for i := range s.sources {
		src := &s.sources[i]
		got, pos, ok := s.next(src, next.positions[i], w)
		if ok && got.at < s.start {
			got, pos, ok = s.next(src, s.after(src, s.start-1), w)
		}
		next.positions[i] = pos
		if w.over() {
			return choice{}, next, false
		}
		if !ok {
			continue
		}
		all[i], has[i] = got, true
		if !found || got.at < best.at {
			best, found = choice{got, i}, true
		}
	}
	if !found {
		next.done = true
		return choice{}, next, false
	}
	for i := range s.sources {
		if has[i] && all[i].at == best.at {
			next.positions[i] = all[i].pos
		}
	}
	return best, next, true
}

func (s *Schedule) hasBeat(m *Meter) bool {
	const rounds = 20
	c := s.After(time.Time{})
	for range rounds {
		_, next, ok := s.merge(c, &work{maxWork, m})
		if ok || next.done || m.Err() != nil {
			return ok
		}
		c = next
	}
	return false
}

// name returns the name of a beat, which is its identity. Names are stored, so their form must not change.
func (s *Schedule) name(src *source, p position) string {
	var b []byte
	if s.spec.Generation > 1 {
		b = append(b, 'g')
		b = strconv.AppendInt(b, s.spec.Generation, 10)
		b = append(b, ':')
	}
	if src.civil == nil {
		b = append(b, src.prefix...)
		return string(strconv.AppendInt(b, p.index, 10))
	}
	return string(p.append(b))
}

// jitter returns how long after its instant a beat fires. It is derived from the schedule's id and the beat's name, and ends
// before the next beat's instant, so that jitter never changes the order.
func (s *Schedule) jitter(name string, at int64, next Cursor, m *Meter) time.Duration {
	bound := s.spec.Jitter
	if bound <= 0 {
		return 0
	}
	w := &work{maxWork, m}
	if following, _, ok := s.merge(next, w); ok {
		bound = min(bound, time.Duration(min(following.at-at, int64(maxJitter/time.Second)+1))*time.Second)
	} else if w.over() {
		return 0 // the next beat is not known
	}
	h := sha256.New()
	h.Write([]byte("fireonce:schedule-jitter\x00"))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s.spec.ID))))
	h.Write([]byte(s.spec.ID))
	h.Write([]byte(name))
	part := binary.BigEndian.Uint64(h.Sum(nil))
	// A fraction of the bound, in whole milliseconds.
	ms, _ := bits.Mul64(part, uint64(bound/time.Millisecond))
	return time.Duration(ms) * time.Millisecond
}
