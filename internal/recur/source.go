package recur

import "sync/atomic"

// A source is one cron expression, RRULE or interval of a schedule.
type source struct {
	path  string
	civil rule // nil for an interval

	prefix       string // of an interval's names
	every, phase int64

	// last is the newest result: a source that is far ahead of the others is asked for the same one again and again.
	last atomic.Pointer[result]
}

// A result is what a search in a source returned, and used counts the work that it took.
type result struct {
	candidate
	from, passed position
	found        bool
	used         int
}

// A rule is a set of civil times, on a clock without transitions.
type rule interface {
	// It counts its steps in m.
	next(after Civil, m *Meter) (Civil, bool)
	// elapsing reports whether the rule follows elapsed time, so that it matches in both passes of an hour that
	// occurs twice. Otherwise it names hours that each day has once.
	elapsing() bool
}

// matchesAt reports whether a rule has a civil time.
func matchesAt(r rule, at Civil, m *Meter) bool {
	c, ok := r.next(at-1, m)
	return ok && c == at
}

// A position is how far the search in a source has come: a civil time and its pass, or the index of an interval. It is not
// an instant, so that changed zone data neither repeat nor skip a nominal time.
type position struct {
	civil Civil
	pass  int // 0 for an interval
	index int64
}

// A candidate is the next time of a source.
type candidate struct {
	at   int64
	pos  position
	mark Mark
}

// work bounds one search: left is how many more times the search may ask a rule for its next time. It decides at which
// cursor a search pauses, and does not depend on what earlier searches left in memory. The steps of meter do.
type work struct {
	left  int
	meter *Meter
}

func (w *work) spend() bool { w.left--; return w.left >= 0 && w.meter.charge(1) }

// over reports whether the search ended before it had a result.
func (w *work) over() bool { return w.left < 0 || w.meter.Err() != nil }

// after returns the position behind all times of a source up to an instant.
func (s *Schedule) after(src *source, instant int64) position {
	switch {
	case src.civil == nil:
		return position{index: floorDiv(instant-src.phase, src.every)}
	case src.civil.elapsing():
		return s.elapsedPosition(instant)
	default:
		return position{civil: s.zone.reached(instant), pass: 1}
	}
}

func (s *Schedule) elapsedPosition(instant int64) position {
	return position{civil: s.zone.wall(instant), pass: s.zone.pass(instant)}
}

// next returns the first candidate of a source after a position. It returns false if there is none, or if the work is used
// up; then the returned position is where the search continues.
func (s *Schedule) next(src *source, from position, w *work) (candidate, position, bool) {
	if kept := src.last.Load(); kept != nil && kept.from == from && kept.used <= w.left {
		w.left -= kept.used
		w.meter.charge(1)
		return kept.candidate, kept.passed, kept.found
	}
	before := w.left
	c, passed, found := s.search(src, from, w)
	if !w.over() {
		src.last.Store(&result{candidate: c, from: from, passed: passed, found: found, used: before - w.left})
	}
	return c, passed, found
}

func (s *Schedule) search(src *source, from position, w *work) (candidate, position, bool) {
	switch {
	case src.civil == nil:
		return s.nextInterval(src, from, w)
	case src.civil.elapsing():
		return s.nextElapsed(src.civil, from, w)
	default:
		return s.nextFixed(src.civil, from, w)
	}
}

func (s *Schedule) nextInterval(src *source, from position, w *work) (candidate, position, bool) {
	for w.spend() {
		index := from.index + 1
		at := src.phase + index*src.every
		if at >= s.end {
			break
		}
		end, excluded := s.excluded.after(s.zone.wall(at), w)
		if !excluded {
			return candidate{at: at, pos: position{index: index}}, from, true
		}
		// The wall clock reaches the end of the exclusion at this offset, or the offset changes before.
		i := s.zone.index(at)
		free := min(int64(end)-s.zone.spans[i].offset, s.zone.end(i))
		from.index = max(index, floorDiv(free-1-src.phase, src.every))
	}
	return candidate{}, from, false
}

func (s *Schedule) nextElapsed(r rule, from position, w *work) (candidate, position, bool) {
	z := s.zone
	at := s.instantOf(from)
	i := z.index(at)
	for w.spend() {
		c, ok := r.next(z.wall(at), w.meter)
		next := int64(c) - z.spans[i].offset
		if !ok || next >= z.end(i) {
			// A rule without further matches may match again where the clock is set back.
			if i+1 == len(z.spans) || z.end(i) >= s.end || !ok && z.spans[i+1].offset > z.spans[i].offset {
				break
			}
			// All times before the transition are passed; the civil time at the transition is not.
			i++
			at = z.spans[i].from - 1
			if c, ok = r.next(Civil(at+z.spans[i].offset), w.meter); !ok {
				at++
				continue
			}
			if next = int64(c) - z.spans[i].offset; next >= z.end(i) {
				at++
				continue
			}
		}
		if next >= s.end {
			break
		}
		end, excluded := s.excluded.after(c, w)
		if !excluded {
			pos := position{civil: c, pass: z.pass(next)}
			mark := Plain
			if pos.pass > 1 {
				mark = Repeated
			}
			return candidate{at: next, pos: pos, mark: mark}, from, true
		}
		at = min(int64(end)-z.spans[i].offset, z.end(i)) - 1
		from = s.elapsedPosition(at)
	}
	return candidate{}, from, false
}

// instantOf returns the instant of an elapsed position under the zone as it is now.
func (s *Schedule) instantOf(p position) int64 {
	at, n := int64(0), 0
	s.zone.passes(p.civil, func(t int64) bool {
		at = t
		n++
		return n < p.pass
	})
	if n == 0 {
		return s.zone.reach(p.civil) - 1 // in a gap: the civil times after the gap are not passed
	}
	return at
}

func (s *Schedule) nextFixed(r rule, from position, w *work) (candidate, position, bool) {
	for w.spend() {
		c, ok := r.next(from.civil, w.meter)
		if !ok {
			break
		}
		at, mark := s.zone.resolve(c)
		if at >= s.end {
			break
		}
		if end, excluded := s.excluded.after(c, w); excluded {
			from = position{civil: end - 1, pass: 1}
			continue
		}
		if s.swallowed(r, c, at, w) {
			from = position{civil: c, pass: 1}
			continue
		}
		return candidate{at: at, pos: position{civil: c, pass: 1}, mark: mark}, from, true
	}
	return candidate{}, from, false
}

// swallowed reports whether an earlier time of the same rule has the same instant. That is so for the times in a gap and
// the time at its end: they are one firing, with the name of the first of them.
func (s *Schedule) swallowed(r rule, c Civil, at int64, w *work) bool {
	if s.zone.spans[s.zone.index(at)].from != at {
		return false
	}
	for earlier := s.zone.reached(at - 1); w.spend(); {
		first, ok := r.next(earlier, w.meter)
		if !ok || first >= c {
			return false
		}
		end, excluded := s.excluded.after(first, w)
		if !excluded {
			return true
		}
		earlier = end - 1
	}
	return false
}
