package server

import (
	"math"
	"net"
	"net/url"
	"time"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/store"
)

// originOf returns a URL's scheme, host and port, as hold keys have them.
func originOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(u.Hostname(), port)
}

func pauseToWire(s store.Stop, now time.Time) *adminv1.Pause {
	out := &adminv1.Pause{
		PauseId: idToWire(s.ID), State: pauseState(s, now), Cause: adminv1.PauseCause_PAUSE_CAUSE_CALLER, Note: text(s.Note),
		BeginTime: timeToWire(s.Begin), EndTime: timeToWire(s.End), CreateTime: timeToWire(s.Created), CreatedBy: text(s.CreatedBy),
		EndedTime: timeToWire(s.Ended), EndedBy: text(s.EndedBy), ProjectId: s.Project, Target: &adminv1.PauseTarget{},
		HoldWindows: s.HoldWindows,
	}
	if s.Breaker() {
		out.Cause, out.NextProbeTime, out.FailedProbeCount = adminv1.PauseCause_PAUSE_CAUSE_BREAKER, timeToWire(s.ProbeAt), int32(min(s.Probes, math.MaxInt32))
		out.BreakerConnectionId = s.Connection.String()
	}
	t := out.Target
	switch s.Scope {
	case store.StopEverything:
		t.Target = &adminv1.PauseTarget_Everything{Everything: true}
	case store.StopProject:
		t.Target = &adminv1.PauseTarget_Project{Project: true}
	case store.StopConnector:
		t.Target = &adminv1.PauseTarget_Connector{Connector: s.Connector}
	case store.StopConnection:
		t.Target = &adminv1.PauseTarget_ConnectionId{ConnectionId: s.Connection.String()}
	case store.StopDestination:
		t.Target = &adminv1.PauseTarget_Destination{Destination: s.Destination}
	case store.StopLabel:
		t.Target = &adminv1.PauseTarget_Label{Label: &adminv1.PauseLabel{Name: s.Label, Value: s.Value}}
	}
	t.AllProjects = s.Project == "" && s.Scope != store.StopEverything
	return out
}

func pauseState(s store.Stop, now time.Time) adminv1.PauseState {
	switch {
	case !s.Open(now):
		return adminv1.PauseState_PAUSE_STATE_ENDED
	case !s.InForce(now):
		return adminv1.PauseState_PAUSE_STATE_ANNOUNCED
	default:
		return adminv1.PauseState_PAUSE_STATE_IN_FORCE
	}
}

// stopName names what a stop covers, for people.
func stopName(s store.Stop) string {
	switch s.Scope {
	case store.StopEverything:
		return "everything"
	case store.StopProject:
		return "the project"
	case store.StopConnector:
		return "the connector " + s.Connector
	case store.StopConnection:
		return "the connection"
	case store.StopDestination:
		return "the destination " + s.Destination
	case store.StopLabel:
		return "the label " + s.Label + "=" + s.Value
	default:
		return "a part of this database"
	}
}

// PauseWords tell a user who has paused what, since when, and why.
func PauseWords(s store.Stop) string { return stopWords(s) }

// stopWords tell a user who has stopped what, since when, and why.
func stopWords(s store.Stop) string {
	if s.Breaker() {
		return "The circuit breaker of " + stopName(s) + " for this connection is open since " + s.Begin.UTC().Format(time.RFC3339) +
			"; the next probe is due at " + s.ProbeAt.UTC().Format(time.RFC3339) + ". " + text(s.Note)
	}
	words := "Paused: " + stopName(s) + ", since " + s.Begin.UTC().Format(time.RFC3339)
	if s.CreatedBy != "" {
		words += ", by " + text(s.CreatedBy)
	}
	if !s.End.IsZero() {
		words += ", until " + s.End.UTC().Format(time.RFC3339)
	}
	if s.Note != "" {
		return words + ": " + text(s.Note)
	}
	return words + "."
}
