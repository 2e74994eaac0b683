package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a quarantined database stops the sending and nothing else: jobs are still
// stored and read. So a quarantined server is healthy, or a balancer would take away the very
// calls that work. Every surface names the quarantine instead: these pages, GetStats, and
// blocked_reason of every job that waits.

const statusPath = "/status"

// landingWait bounds the wait for the database's description.
const landingWait = 2 * time.Second

// landing is a page that describes this port. It needs no key, so it names no version.
func (s *Server) landing(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if s.health.stopping.Load() {
		w.WriteHeader(http.StatusServiceUnavailable) // balancers ask here, too
		_, _ = io.WriteString(w, "Fireonce\n\nShutting down.\n")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), landingWait)
	defer cancel()
	notice := ""
	switch meta, err := s.meta(ctx); {
	case err != nil:
		notice = "\nThe database cannot be reached.\n"
	case meta.Quarantined != "":
		notice = "\nQUARANTINED. " + quarantineWords + "\nJobs are stored and read as ever. GET /status says why.\n"
	case meta.Clock.Why != "":
		notice = "\nTHE TIME IS IN DOUBT. GET /status says why.\n"
	}
	_, _ = fmt.Fprintf(w, `Fireonce
%s
Schedule a side effect. It takes effect once, or Fireonce says plainly that it
does not know.

This port speaks Connect, gRPC and gRPC-Web:
  POST /%s/…    (JSON with Content-Type: application/json)
  gRPC health and reflection are on: grpcurl -plaintext HOST:PORT list
`, notice, strings.Join(services, "/…\n  POST /"))
}

// statusReport is the answer of GET /status, for operators and their scripts.
type statusReport struct {
	Version string `json:"version"`
	// Worker is the name of this process in attempts and events.
	Worker string `json:"worker"`
	// Engine is "sqlite" or "postgres".
	Engine  string `json:"engine"`
	StoreID string `json:"store_id"`
	// Namespace is the installation's part of every effect key.
	Namespace   string `json:"namespace"`
	Incarnation int64  `json:"incarnation"`
	// QuarantineReason is why nothing is sent; empty: there is no quarantine.
	QuarantineReason string `json:"quarantine_reason"`
	// ClockDoubt is why the clock is suspect; null: it is not.
	ClockDoubt *clockReport `json:"clock_doubt"`
	// Pauses are the pauses that have not ended, of all projects; the newest, should there be many.
	Pauses []pauseReport `json:"pauses"`
	// TZData is the version of the time zone data that schedules are evaluated with.
	TZData tzdataReport `json:"tzdata"`
	// SchedulesLeft are due schedules that this server leaves to others.
	SchedulesLeft leftReport `json:"schedules_left"`
	// Vitals are the numbers of GET /metrics; null: none were measured yet.
	Vitals *vitalsReport `json:"vitals"`
	// Guarantee counts effects and duplicates since this process began.
	Guarantee guaranteeReport `json:"guarantee"`
	// EventLagSeconds is how far the end of the event log is behind.
	EventLagSeconds float64 `json:"event_lag_seconds"`
	Stopping        bool    `json:"stopping"`
}

// status reports on the server and its database: 200 with a report, or 503 when the database
// cannot be reached.
func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Limits.DefaultDeadline)
	defer cancel()
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	meta, err := s.meta(ctx)
	if err != nil {
		s.log.ErrorContext(ctx, "status", "request_id", requestID(ctx), "cause", err.Error())
		http.Error(w, "the database cannot be reached", http.StatusServiceUnavailable)
		return
	}
	pauses, err := s.reportPauses(ctx, meta)
	if err != nil {
		s.log.ErrorContext(ctx, "status", "request_id", requestID(ctx), "cause", err.Error())
		http.Error(w, "the database cannot be reached", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(statusReport{ // a client that has gone gets no answer
		Version: s.cfg.Version, Worker: s.cfg.Worker, Engine: meta.Engine, StoreID: meta.StoreID.String(), Namespace: meta.Namespace, Incarnation: meta.Incarnation,
		QuarantineReason: meta.Quarantined, ClockDoubt: reportClock(meta.Clock), EventLagSeconds: meta.EventLag.Seconds(), Stopping: s.health.stopping.Load(), Pauses: pauses,
		TZData: tzdataReport(s.cfg.Scheduler.Zones().Version()), SchedulesLeft: reportLeft(s.cfg.Scheduler.Left()), Vitals: s.reportVitals(ctx), Guarantee: guaranteeReport(s.cfg.Metrics.Guarantee()),
	})
}

// pauseReport is a store.Stop.
type pauseReport struct {
	ID      string `json:"pause_id"`
	Of      string `json:"of"`
	Project string `json:"project"` // empty: all projects
	// InForce is false for one that is announced.
	InForce bool       `json:"in_force"`
	Note    string     `json:"note"`
	By      string     `json:"by"`
	Begin   time.Time  `json:"begin_time"`
	End     *time.Time `json:"end_time"`
	// HoldWindows: windows that end in it begin again.
	HoldWindows bool `json:"hold_windows"`
}

// maxPausesReported bounds the pauses of a report.
const maxPausesReported = 100

// reportPauses returns the pauses that have not ended.
func (s *Server) reportPauses(ctx context.Context, meta store.Meta) ([]pauseReport, error) {
	out := []pauseReport{}
	if meta.Stops == 0 {
		return out, nil
	}
	page, err := s.store.ListStops(ctx, store.StopQuery{Limit: maxPausesReported})
	if err != nil {
		return nil, fmt.Errorf("pauses: %w", err)
	}
	for _, stop := range page.Stops {
		r := pauseReport{
			ID: stop.ID.String(), Of: stopName(stop), Project: stop.Project, InForce: stop.InForce(meta.Now), Note: stop.Note,
			By: stop.CreatedBy, Begin: stop.Begin.UTC(), HoldWindows: stop.HoldWindows,
		}
		if !stop.End.IsZero() {
			end := stop.End.UTC()
			r.End = &end
		}
		out = append(out, r)
	}
	return out, nil
}

// vitalsReport is a store.Vitals over all projects.
type vitalsReport struct {
	AgeSeconds            float64 `json:"age_seconds"`
	Waiting               int64   `json:"waiting"`
	Due                   int64   `json:"due"`
	OldestDueSeconds      float64 `json:"oldest_due_seconds"`
	InFlight              int64   `json:"in_flight"`
	Accepted              int64   `json:"accepted"`
	Ambiguous             int64   `json:"ambiguous"`
	NeedsResolution       int64   `json:"needs_resolution"`
	OldestUnknownSeconds  float64 `json:"oldest_unknown_seconds"`
	OldestScheduleSeconds float64 `json:"oldest_schedule_seconds"`
	RefusedSchedules      int64   `json:"refused_schedules"`
	HeldConnections       int64   `json:"held_connections"`
	// OldestQuestionSeconds is how long a job has waited for a person's decision.
	OldestQuestionSeconds float64 `json:"oldest_question_seconds"`
	Connections           int64   `json:"connections"`
	ExpiringCredentials   int64   `json:"expiring_credentials"`
	Schedules             int64   `json:"schedules"`
	// PausedSchedules are those that paused themselves.
	PausedSchedules int64 `json:"paused_schedules"`
}

// reportVitals returns the measurement that GET /metrics has, too.
func (s *Server) reportVitals(ctx context.Context) *vitalsReport {
	r, _ := s.cfg.Metrics.Vitals(ctx) // an old measurement has its age
	if r.At.IsZero() {
		return nil
	}
	out := &vitalsReport{
		AgeSeconds: time.Since(r.At).Seconds(), Waiting: r.Waiting, Due: r.Due, OldestDueSeconds: r.OldestDue.Seconds(),
		InFlight: r.InFlight, Accepted: r.Accepted, Ambiguous: r.Ambiguous, NeedsResolution: r.NeedsResolution,
		OldestUnknownSeconds: r.OldestUnknown.Seconds(), OldestScheduleSeconds: r.OldestFiring.Seconds(),
		RefusedSchedules: r.RefusedSchedules, OldestQuestionSeconds: r.OldestQuestion.Seconds(), Schedules: r.Schedules,
	}
	for _, n := range r.Connections {
		out.Connections += n
	}
	for _, n := range r.Expiring {
		out.ExpiringCredentials += n
	}
	for _, n := range r.PausedSchedules {
		out.PausedSchedules += n
	}
	for _, n := range r.Holds {
		out.HeldConnections += n
	}
	return out
}

// guaranteeReport is a metrics.Guarantee.
type guaranteeReport struct {
	Since      time.Time `json:"since"`
	Effects    int64     `json:"effects"`
	Duplicates int64     `json:"duplicates_seen"`
	// Bound95 is the upper bound, with 95 % confidence, of the share of effects with a duplicate.
	Bound95 float64 `json:"duplicate_rate_bound95"`
}

// tzdataReport is a recur.DataVersion.
type tzdataReport struct {
	Source  string `json:"source"`
	Version string `json:"version"`
}

// leftReport is a schedule.Left.
type leftReport struct {
	Count int `json:"count"`
	// MissingTimeZones is never null.
	MissingTimeZones []string `json:"missing_time_zones"`
	// MissingConnectors are the connectors that schedules had and that this server does not have.
	MissingConnectors []string `json:"missing_connectors"`
}

func reportLeft(l schedule.Left) leftReport {
	return leftReport{
		Count: l.Schedules, MissingTimeZones: append([]string{}, l.Zones...), MissingConnectors: append([]string{}, l.Connectors...),
	}
}

// clockReport is a ClockDoubt of the contract.
type clockReport struct {
	Kind           string `json:"kind"`
	Message        string `json:"message"`
	SendingStopped bool   `json:"sending_stopped"`
}

func reportClock(d store.SuspectClock) *clockReport {
	w := clockToWire(d)
	if w == nil {
		return nil
	}
	return &clockReport{strings.TrimPrefix(w.GetKind().String(), "KIND_"), w.GetMessage(), w.GetSendingStopped()}
}
