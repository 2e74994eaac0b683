package recur

import (
	"fmt"
	"math"
	"sort"
	"time"
)

// A Zone maps instants to civil times, and back. It holds the offsets of all years in which a beat can be, so that crossing
// a transition costs a search in memory.
type Zone struct {
	name  string
	loc   *time.Location
	spans []span
}

// A span is a stretch of time with one offset. It ends where the next one begins.
type span struct{ from, offset int64 }

const (
	// No wall clock differs from UTC by more: RFC 8536 bounds offsets to 25 and 26 hours.
	maxOffset = 26 * secondsPerHour
	maxSpans  = 5000
)

func newZone(name string, loc *time.Location) (*Zone, error) {
	z := &Zone{name: name, loc: loc}
	at := time.Unix(int64(minCivil)-2*maxOffset, 0)
	last := time.Unix(int64(maxCivil)+2*maxOffset, 0)
	for {
		_, offset := at.In(loc).Zone()
		if offset > maxOffset || offset < -maxOffset {
			return nil, fmt.Errorf("the zone %s has an offset of %d s", quote(name), offset)
		}
		switch n := len(z.spans); {
		case n == 0:
			z.spans = append(z.spans, span{math.MinInt64 / 2, int64(offset)})
		case z.spans[n-1].offset != int64(offset):
			z.spans = append(z.spans, span{at.Unix(), int64(offset)})
		}
		if len(z.spans) > maxSpans {
			return nil, fmt.Errorf("the zone %s has more than %d transitions", quote(name), maxSpans)
		}
		_, end := at.In(loc).ZoneBounds()
		if end.IsZero() || end.After(last) {
			return z, nil
		}
		if !end.After(at) {
			// Where a rule continues forever, Go ends each year after 365 days: on the last day of a leap year, that end is past.
			end = at.Add(secondsPerDay * time.Second)
		}
		at = end
	}
}

// Name returns the IANA name.
func (z *Zone) Name() string { return z.name }

// index returns the span that an instant is in.
func (z *Zone) index(instant int64) int {
	return sort.Search(len(z.spans), func(i int) bool { return z.spans[i].from > instant }) - 1
}

// end returns the first instant after the span.
func (z *Zone) end(i int) int64 {
	if i+1 < len(z.spans) {
		return z.spans[i+1].from
	}
	return math.MaxInt64 / 2
}

// Offset returns the zone's offset at an instant, in seconds east of UTC.
func (z *Zone) Offset(instant time.Time) int { return int(z.offset(instant.Unix())) }

func (z *Zone) offset(instant int64) int64 { return z.spans[z.index(instant)].offset }

func (z *Zone) wall(instant int64) Civil { return Civil(instant + z.offset(instant)) }

// reach returns the first instant at which the wall clock shows c or has passed it. It never decreases
// while c increases, whatever the zone's transitions are.
func (z *Zone) reach(c Civil) int64 {
	for i := max(0, z.index(int64(c)-maxOffset)); ; i++ {
		if at := max(z.spans[i].from, int64(c)-z.spans[i].offset); at < z.end(i) {
			return at
		}
	}
}

// reached returns the latest civil time that the wall clock has shown up to the instant: the inverse of reach.
func (z *Zone) reached(instant int64) Civil {
	i := z.index(instant)
	latest := instant + z.spans[i].offset
	for ; i > 0 && z.spans[i].from > instant-2*maxOffset; i-- {
		latest = max(latest, z.spans[i].from-1+z.spans[i-1].offset)
	}
	return Civil(latest)
}

// passes calls yield with each instant at which the wall clock shows c, in order, until yield returns false.
func (z *Zone) passes(c Civil, yield func(int64) bool) {
	for i := max(0, z.index(int64(c)-maxOffset)); i < len(z.spans) && z.spans[i].from <= int64(c)+maxOffset; i++ {
		if at := int64(c) - z.spans[i].offset; at >= z.spans[i].from && at < z.end(i) && !yield(at) {
			return
		}
	}
}

// pass returns the number of the pass in which an instant's wall clock time is shown, from 1.
func (z *Zone) pass(instant int64) int {
	i := z.index(instant)
	if z.spans[i].from < instant-2*maxOffset {
		return 1
	}
	n := 0
	z.passes(Civil(instant+z.spans[i].offset), func(at int64) bool {
		n++
		return at < instant
	})
	return n
}

// Resolve returns the instant of a civil time under the rule of fixed hours: the first pass of a time that occurs twice,
// and the first instant after the gap for a time that does not exist.
func (z *Zone) Resolve(c Civil) (time.Time, Mark) {
	at, mark := z.resolve(c)
	return time.Unix(at, 0).UTC(), mark
}

func (z *Zone) resolve(c Civil) (int64, Mark) {
	at := z.reach(c)
	i := z.index(at)
	if at+z.spans[i].offset != int64(c) {
		return at, Shifted
	}
	if z.end(i) > at+2*maxOffset {
		return at, Plain
	}
	n := 0
	z.passes(c, func(int64) bool { n++; return n < 2 })
	if n == 2 {
		return at, FirstOfTwo
	}
	return at, Plain
}
