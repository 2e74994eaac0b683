package recur

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxSources    = 20
	maxRRules     = 5 // detecting that an RRULE never matches takes milliseconds
	maxExclusions = 20
	maxDates      = 1000
	maxIDBytes    = 128

	minEvery  = 10 * time.Second
	maxEvery  = 366 * 24 * time.Hour
	maxJitter = 24 * time.Hour
)

// A Spec defines when a schedule has beats. It has one source or more: cron expressions, RRULEs and intervals.
type Spec struct {
	ID         string // the schedule's id; jitter and placeholders use it
	Generation int64  // the caller raises it with each change of the spec; from 2 on it is a part of each name
	Zone       string // an IANA name

	Cron      []string // five fields, or a macro such as @daily
	RRules    []RRule
	Intervals []Interval
	Exclude   Exclusions

	Start time.Time // the first instant that may be a beat; zero for no bound
	End   time.Time // the first instant after Start that may no longer be a beat; zero for no bound

	Jitter time.Duration // how far Fire may be after Instant
	// MaxRuns is counted and applied by the caller.
	MaxRuns int64
}

// An RRule is a rule of RFC 5545 without its DTSTART.
type RRule struct {
	Rule  string
	Start string // DTSTART: a civil time in the schedule's zone, 2026-03-29T02:30:00
}

// An Interval counts elapsed time, independent of zones.
type Interval struct {
	Every time.Duration // whole seconds, 10 s to 366 days
	Phase time.Duration // whole seconds from the Unix epoch to a beat, below Every
}

// builder collects the faults of a spec.
type builder struct {
	spec Spec
	zone *Zone
	errs Errors

	meter *Meter
}

func (b *builder) fail(path, reason string) {
	b.errs = append(b.errs, &Error{Path: path, Reason: reason})
}

// note records an error that one of the parsers returned.
func (b *builder) note(path string, err error) {
	var f *fault
	if errors.As(err, &f) {
		b.errs = append(b.errs, &Error{Path: path, Field: f.field, Reason: f.reason})
	} else if err != nil {
		b.fail(path, err.Error())
	}
}

func (b *builder) bound(path string, n, limit int) {
	if n > limit {
		b.fail(path, fmt.Sprintf("%d are more than %d", n, limit))
	}
}

// Compile checks a spec and compiles it. It fails with Errors.
func Compile(spec Spec, zones *Zones) (*Schedule, error) { return CompileCounted(spec, zones, nil) }

// CompileCounted is Compile for a request: it counts its steps in m, and fails with m.Err if m ends.
func CompileCounted(spec Spec, zones *Zones, m *Meter) (*Schedule, error) {
	b := &builder{spec: spec, meter: m}
	zone, err := zones.Load(spec.Zone)
	if err != nil {
		b.fail("zone", err.Error())
		return nil, b.errs // times mean nothing without a zone
	}
	b.zone = zone
	b.checkScalars()

	s := &Schedule{spec: spec, zone: zone, start: int64(minCivil), end: int64(maxCivil)}
	if !spec.Start.IsZero() {
		s.start = max(s.start, ceilSecond(spec.Start))
	}
	if !spec.End.IsZero() {
		s.end = min(s.end, ceilSecond(spec.End))
	}
	s.sources = b.sources()
	s.excluded = b.exclude(spec.Exclude)
	if err := m.Err(); err != nil {
		return nil, err
	}
	if len(b.errs) > 0 {
		return nil, b.errs
	}
	if has := s.hasBeat(m); m.Err() != nil {
		return nil, m.Err()
	} else if !has {
		b.fail("spec", "the schedule never has a beat: the sources, the exclusions, the start and the end leave none")
		return nil, b.errs
	}
	return s, nil
}

func (b *builder) checkScalars() {
	s := b.spec
	if s.ID == "" || len(s.ID) > maxIDBytes || !utf8.ValidString(s.ID) {
		b.fail("id", fmt.Sprintf("the id is not 1 to %d bytes of UTF-8", maxIDBytes))
	}
	if s.Generation < 0 {
		b.fail("generation", "the generation is negative")
	}
	n := len(s.Cron) + len(s.RRules) + len(s.Intervals)
	if n == 0 {
		b.fail("sources", "there is no cron expression, RRULE or interval")
	}
	b.bound("sources", n, maxSources)
	b.bound("rrules", len(s.RRules), maxRRules)
	for path, at := range map[string]time.Time{"start": s.Start, "end": s.End} {
		if !at.IsZero() && (at.UTC().Year() < minYear || at.UTC().Year() > maxYear) {
			b.fail(path, fmt.Sprintf("the year %d is not in %d to %d", at.UTC().Year(), minYear, maxYear))
		}
	}
	if !s.Start.IsZero() && !s.End.IsZero() && !s.Start.Before(s.End) {
		b.fail("end", "the end is not after the start")
	}
	if s.Jitter < 0 || s.Jitter > maxJitter {
		b.fail("jitter", fmt.Sprintf("the jitter %s is not in 0 to %s", s.Jitter, maxJitter))
	}
	if s.MaxRuns < 0 {
		b.fail("max_runs", "the number of runs is negative")
	}
}

func (b *builder) sources() []source {
	if len(b.errs) > 0 {
		return nil // perhaps far too many
	}
	// This order decides which name an instant gets that several sources share.
	var list []source
	for i, text := range b.spec.Cron {
		path := fmt.Sprintf("cron[%d]", i)
		c, err := parseCron(text)
		b.note(path, err)
		list = append(list, source{path: path, civil: c})
	}
	for i, rule := range b.spec.RRules {
		path := fmt.Sprintf("rrules[%d]", i)
		r, _, err := compileRRule(rule, b.zone, false, b.meter)
		b.note(path, err)
		list = append(list, source{path: path, civil: r})
	}
	for i, interval := range b.spec.Intervals {
		path := fmt.Sprintf("intervals[%d]", i)
		prefix := "i:"
		if i > 0 {
			// Two intervals have the same numbers at different instants.
			prefix = fmt.Sprintf("i%d:", i+1)
		}
		b.note(path, checkInterval(interval))
		list = append(list, source{path: path, prefix: prefix, every: int64(interval.Every / time.Second), phase: int64(interval.Phase / time.Second)})
	}
	return list
}

var clockPart = regexp.MustCompile(`BY(HOUR|MINUTE|SECOND)|FREQ=(HOURLY|MINUTELY)`)

func compileRRule(text RRule, zone *Zone, date bool, m *Meter) (rule, bool, error) {
	start, whole, err := parseStart(strings.TrimSpace(text.Start), date)
	if err != nil {
		return nil, false, err
	}
	if clock := clockPart.FindString(strings.ToUpper(text.Rule)); whole && clock != "" {
		field, _, _ := strings.Cut(clock, "=")
		return nil, false, &fault{field, clock + " does not go with a start that is a date: the rule is about whole days"}
	}
	r, err := parseRRule(text.Rule, start, zone, m)
	return r, whole, err
}

func checkInterval(i Interval) error {
	switch {
	case i.Every < minEvery || i.Every > maxEvery:
		return &fault{"every", fmt.Sprintf("the interval %s is not in %s to %s", i.Every, minEvery, maxEvery)}
	case i.Every%time.Second != 0:
		return &fault{"every", fmt.Sprintf("the interval %s is not in whole seconds", i.Every)}
	case i.Phase < 0 || i.Phase >= i.Every:
		return &fault{"phase", fmt.Sprintf("the phase %s is not in 0 to the interval of %s", i.Phase, i.Every)}
	case i.Phase%time.Second != 0:
		return &fault{"phase", fmt.Sprintf("the phase %s is not in whole seconds", i.Phase)}
	}
	return nil
}

// ceilSecond returns the first whole second that is not before t: beats are at whole seconds.
func ceilSecond(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
