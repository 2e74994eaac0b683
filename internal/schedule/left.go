package schedule

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a server may lack the data of a time zone, because its data is older or in
// another directory than that of other servers. It neither fires nor pauses a schedule of that
// zone: servers that have the data fire it. It treats a schedule whose connector it lacks in the
// same way. It passes over such a schedule for a while, so that the due schedules behind it are
// not delayed, and then checks whether the schedule has changed.

const (
	// maxLeft bounds the schedules that a server passes over. Further ones are delayed for all
	// servers, by store.BufferedLook.
	maxLeft = store.MaxExcept
	// leftFor is how long a server passes a schedule over before it reads it again.
	leftFor = 30 * time.Second
	// maxNoted bounds the zones, and the connectors, that are logged and reported.
	maxNoted = 100
)

// NoZoneError is returned if this server has no data of a schedule's time zone.
type NoZoneError struct {
	Zone string
	Err  error
}

func (e *NoZoneError) Error() string { return fmt.Sprintf("this server lacks the zone: %v", e.Err) }

// Unwrap returns the cause.
func (e *NoZoneError) Unwrap() error { return e.Err }

// NoConnectorError is returned if this server does not have the connector of a schedule.
type NoConnectorError struct{ Connector string }

func (e *NoConnectorError) Error() string {
	return fmt.Sprintf("this server does not have the connector %q", e.Connector)
}

// Left reports what a Scheduler leaves to other servers.
type Left struct {
	// Schedules is how many due schedules it passes over now; at most 1000.
	Schedules int
	// Zones are the time zones, of schedules since the Scheduler was made, for which this server
	// has no data; sorted, at most 100.
	Zones []string
	// Connectors are the connectors that this server does not have; sorted, at most 100.
	Connectors []string
}

// left holds the schedules that a server passes over.
type left struct {
	mu    sync.Mutex
	until map[job.ID]time.Time
	// zones and connectors are the ones that were logged.
	zones, connectors map[string]bool
}

// add passes over a schedule from now on, because of a zone or a connector. first reports
// whether the name is noted for the first time. ok is false if there are too many schedules.
func (l *left) add(id job.ID, noted map[string]bool, name string, now time.Time) (first, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if first = !noted[name] && len(noted) < maxNoted; first {
		noted[name] = true
	}
	if _, known := l.until[id]; !known && len(l.until) >= maxLeft {
		return first, false
	}
	l.until[id] = now.Add(leftFor)
	return first, true
}

// ids returns the schedules that are passed over now.
func (l *left) ids(now time.Time) []job.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]job.ID, 0, len(l.until))
	for id, until := range l.until {
		if !until.After(now) {
			delete(l.until, id)
			continue
		}
		out = append(out, id)
	}
	return out
}

// Left reports which due schedules this server leaves to others.
func (s *Scheduler) Left() Left {
	n := len(s.left.ids(time.Now()))
	s.left.mu.Lock()
	defer s.left.mu.Unlock()
	out := Left{Schedules: n}
	out.Zones = slices.Sorted(maps.Keys(s.left.zones))
	out.Connectors = slices.Sorted(maps.Keys(s.left.connectors))
	return out
}

// leaveConnector leaves a due schedule to servers that have its connector.
func (s *Scheduler) leaveConnector(due store.DueSchedule) store.FireDecision {
	lacks := &NoConnectorError{due.Connection.Connector}
	first, ok := s.left.add(due.Schedule.ID, s.left.connectors, lacks.Connector, time.Now())
	if first {
		s.cfg.Log.Warn("this server does not have a connector; its schedules are left to other servers",
			"connector", lacks.Connector, "schedule", due.Schedule.Key, "schedule_id", due.Schedule.ID.String())
	}
	if !ok {
		return store.FireDecision{Schedule: due.Schedule, Err: lacks}
	}
	return store.FireDecision{Schedule: due.Schedule, Leave: true}
}

// leave leaves a due schedule to servers that have its zone.
func (s *Scheduler) leave(due store.DueSchedule, lacks *NoZoneError) store.FireDecision {
	first, ok := s.left.add(due.Schedule.ID, s.left.zones, lacks.Zone, time.Now())
	if first {
		s.cfg.Log.Warn("this server lacks the data of a time zone; its schedules are left to other servers",
			"time_zone", lacks.Zone, "schedule", due.Schedule.Key, "schedule_id", due.Schedule.ID.String(), "error", lacks.Err)
	}
	if !ok {
		return store.FireDecision{Schedule: due.Schedule, Err: lacks}
	}
	return store.FireDecision{Schedule: due.Schedule, Leave: true}
}
