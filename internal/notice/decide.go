package notice

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: it is pure. It has the events that were read, and decides which of them one
// notice reports, and how far the subscription's position moves. Events behind that are decided
// about again.

const (
	// MaxEvents bounds the events that a notice has in full.
	MaxEvents = 100
	// storm is how many events that wait for one notice make it a digest.
	storm = 1000
	// MaxExamples bounds the examples of a digest.
	MaxExamples = 20
	// MaxGroups bounds the groups of a digest.
	MaxGroups = 50
	// groupExamples bounds the examples of one group.
	groupExamples = 3
	// maxFailing bounds the connections whose recovery is reported.
	maxFailing = 100
	// longestQuiet bounds a wait for quiet without a longest time.
	longestQuiet = time.Hour
	// thresholdLook is how often a threshold is looked at while events come, at the least.
	thresholdLook = time.Second
)

// memory is what decisions need of events before the position. Its list is never changed, but
// replaced.
type memory struct {
	// Failing are the connections of which something bad was reported since they last succeeded.
	Failing []job.ID `json:"failing,omitempty"`
	// Success is when the last job succeeded, or since when that is watched. Silent: it was
	// told that there was none for too long.
	Success time.Time `json:"success,omitzero"`
	Silent  bool      `json:"silent,omitempty"`
	// Lost: events were removed from the log before they were read.
	Lost bool `json:"lost,omitempty"`
	// Standing are the connections of a subscription to holds that were reported as other than
	// working, with how.
	Standing map[string]string `json:"standing,omitempty"`
}

func readMemory(s store.Subscription) (memory, error) {
	var m memory
	if len(s.Memory) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(s.Memory, &m); err != nil {
		return m, fmt.Errorf("memory of subscription %s: %w", s.ID, err)
	}
	return m, nil
}

func (m memory) encode() []byte {
	if m.Success.IsZero() && len(m.Failing)+len(m.Standing) == 0 && !m.Silent && !m.Lost {
		return nil
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("a memory of ids and times: %v", err))
	}
	return b
}

// reading is what was read of the log behind a position.
type reading struct {
	// events are those that the spec may select or that count as a success, in their order.
	events []job.Event
	// names are those of their jobs, if they matter.
	names map[job.ID]store.JobName
	// after is where the reading began, and next where it ended: at the log's end, unless more
	// is true.
	after, next int64
	more        bool
	// lost: the log began behind the position.
	lost bool
}

// told is one event of a notice.
type told struct {
	job.Event
	// recovery: the connection succeeds again.
	recovery bool
}

// verdict is what to do about a reading.
type verdict struct {
	// kind is 0 if nothing is reported now.
	kind store.NoticeKind
	// events are those that are reported, after the memory behind each, and position is up to where
	// the log was read.
	events   []told
	after    []memory
	position int64
	memory   memory
	// next and onlyThen are those of the subscription.
	next     time.Time
	onlyThen bool
	// silentSince is that of a silence.
	silentSince time.Time
}

// judge decides about a reading at a time.
func (s *Spec) judge(r reading, mem memory, now time.Time) verdict {
	rules := s.Stated.GetRules()
	mem.Lost = mem.Lost || r.lost
	if s.silence > 0 && mem.Success.IsZero() {
		mem.Success = now
	}
	var all []told
	var before, after []memory // the memory before and after each told event
	m := mem
	for _, e := range r.events {
		if s.byName() && !s.named(r.names[e.Job]) {
			continue
		}
		was := m
		if t, tell := s.tell(e, &m); tell {
			all, before, after = append(all, t), append(before, was), append(after, m)
		}
	}
	if len(all) == 0 {
		return s.silent(verdict{position: r.next, memory: m}, r, now)
	}
	if wait := s.wait(all, r, now); !wait.IsZero() {
		first := all[0].Position - 1
		return verdict{position: max(first, r.after), memory: before[0], next: wait, onlyThen: true}
	}
	if n := rules.GetThreshold(); n > 0 {
		if from, enough := reached(all, int(n), rules.GetThresholdWindow().AsDuration(), now); !enough {
			v := verdict{position: r.next, memory: m}
			if from < len(all) { // what may still count is read again
				v.position, v.memory = max(all[from].Position-1, r.after), before[from]
				v.next, v.onlyThen = now.Add(max(thresholdLook, rules.GetThresholdWindow().AsDuration()/20)), true
			}
			return v
		}
	}
	v := verdict{kind: store.NoticeEvents, events: all, after: after, position: r.next, memory: m}
	switch {
	case rules.GetDigest() || s.words() || len(all) > storm:
		v.kind = store.NoticeDigest
	case len(all) > MaxEvents:
		v.events, v.position, v.memory = all[:MaxEvents], all[MaxEvents-1].Position, after[MaxEvents-1]
	}
	if !slices.ContainsFunc(v.events, func(t told) bool { return !t.recovery }) {
		v.kind = store.NoticeRecovered
	}
	return v
}

// tell reports whether an event is reported, and notes it.
func (s *Spec) tell(e job.Event, m *memory) (told, bool) {
	rules := s.Stated.GetRules()
	t := told{Event: e}
	selected := s.selects(e)
	if rules.GetRecovered() && bad(e) && selected && !slices.Contains(m.Failing, e.Connection) && len(m.Failing) < maxFailing {
		m.Failing = append(slices.Clone(m.Failing), e.Connection)
	}
	if !s.succeeds(e) {
		return t, selected
	}
	if i := slices.Index(m.Failing, e.Connection); i >= 0 {
		m.Failing = slices.Delete(slices.Clone(m.Failing), i, i+1)
		t.recovery = true
	}
	if m.Silent && rules.GetRecovered() {
		t.recovery = true
	}
	m.Silent = false
	if s.silence > 0 {
		m.Success = e.At
	}
	return t, selected || t.recovery
}

// wait returns until when the events are collected; zero: they are reported now.
func (s *Spec) wait(all []told, r reading, now time.Time) time.Time {
	rules := s.Stated.GetRules()
	collect, quiet := rules.GetCollect().AsDuration(), rules.GetQuiet().AsDuration()
	if collect <= 0 && quiet <= 0 || r.more {
		return time.Time{} // what is more than one reading waits no longer
	}
	first, last := all[0].At, all[len(all)-1].At
	until := first.Add(collect)
	if quiet > 0 {
		if collect <= 0 {
			until = first.Add(longestQuiet)
		}
		if over := last.Add(quiet); over.Before(until) {
			until = over
		}
	}
	if !until.After(now) {
		return time.Time{}
	}
	return until
}

// reached reports whether so many events came within a window, and else the first of those that
// may still count.
func reached(all []told, n int, window time.Duration, now time.Time) (from int, enough bool) {
	for i := n - 1; i < len(all); i++ {
		if all[i].At.Sub(all[i-n+1].At) <= window {
			return 0, true
		}
	}
	for from = 0; from < len(all) && now.Sub(all[from].At) > window; from++ {
	}
	return from, false
}

// silent decides whether there was no success for too long, once all of the log was read.
func (s *Spec) silent(v verdict, r reading, now time.Time) verdict {
	if s.silence <= 0 || v.memory.Silent || r.more {
		return v
	}
	if over := v.memory.Success.Add(s.silence); over.After(now) {
		v.next = over
		return v
	}
	v.kind, v.silentSince, v.memory.Silent = store.NoticeSilence, v.memory.Success, true
	return v
}

// words reports whether notices are words for people.
func (s *Spec) words() bool { return s.forPeople }
