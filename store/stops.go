package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Bounds of stops that have not ended. Wide ones are read by every claim and arm while there is
// a stop at all; those of one connection or destination are found by what they stop.
const (
	MaxWideStops   = 200
	MaxNarrowStops = 10_000
)

// StopsKept is how long a stop is listed after its end.
const StopsKept = 30 * 24 * time.Hour

// Stops keep jobs from starting until a person, or a stated time, ends them.
//
// A stop in force stops every claim and every arm of what it covers, repeats under a key
// included. It stops no look, no poll, no result and no evidence. It holds for every arm whose
// transaction begins after the stop is durable: the transaction that writes an intent reads the
// stops itself. A quarantine and a suspect clock are stronger and are reported first.
type Stops interface {
	// CreateStop stores a stop. If the same one has not ended (see Stop.Same), that one gets the new note, keeps the rest, and is returned
	// with created=false. ErrNotFound: no such connection in the project. ErrQuota: there are as many as may be.
	// ErrIllegal: the target or the times contradict themselves.
	CreateStop(ctx context.Context, n NewStop) (stop Stop, created bool, err error)
	// EndStop ends a stop. Jobs that it alone held back may be claimed immediately, except that
	// repeats under a key go first: where some wait, first attempts wait StopHeadStart longer. A
	// stop that has ended is returned as it is. ErrNotFound: no such stop in the project; an
	// empty project is every project.
	EndStop(ctx context.Context, project string, id job.ID, actor string) (Stop, error)
	// ListStops reads a page, newest first.
	ListStops(ctx context.Context, q StopQuery) (StopPage, error)
	// StopsOver returns for each target the stop that is in force over it now, and lasts longest;
	// nil: none is. At most MaxBatch targets.
	StopsOver(ctx context.Context, targets []StopTarget) ([]*Stop, error)
	// PreviewStop counts what a stop would hold back, and reads the jobs whose windows would end
	// in it. It writes nothing.
	PreviewStop(ctx context.Context, s Stop, limit int) (StopPreview, error)
}

// StopHeadStart is how long first attempts wait at the end of a stop, if it held repeats back.
const StopHeadStart = 5 * time.Second

// StopSetAside bounds for how long a claim leaves work alone that it found stopped. The end of a
// stop makes it due earlier.
const StopSetAside = 10 * time.Minute

// StopNoticeLook bounds that for work with a notice under way that passes the stop: it may be due
// again at any time.
const StopNoticeLook = 5 * time.Second

// WindowsHeldAfter is for how long after a stop that holds windows a window still begins again.
const WindowsHeldAfter = time.Hour

// StopScope is what a stop covers.
type StopScope int

// The scopes of stops.
const (
	_ StopScope = iota
	// StopEverything covers every job of every project.
	StopEverything
	// StopProject covers a project, and not its notices: they report what a person does not see
	// while it is paused.
	StopProject
	// StopConnector covers the jobs of one connector, of a project or of all.
	StopConnector
	// StopConnection covers a connection.
	StopConnection
	// StopDestination covers a hold key: an account, or a scheme, host and port; of a project or
	// of all.
	StopDestination
	// StopLabel covers the jobs of a project that have a label with a value.
	StopLabel
)

// Wide reports whether a stop of the scope covers more than one connection or destination.
func (s StopScope) Wide() bool { return s != StopConnection && s != StopDestination }

// StopCause is who made a stop.
type StopCause int

// The causes of stops.
const (
	_ StopCause = iota
	// StoppedByPerson: a caller asked for it.
	StoppedByPerson
	// StoppedByBreaker: a server saw that the destination cannot be reached.
	StoppedByBreaker
)

// StopTarget is a job as far as stops cover it; without labels, it is all jobs of a connection
// under a hold key.
type StopTarget struct {
	Project, Connector string
	Connection         job.ID
	HoldKey            string
	Labels             map[string]string
}

// Stop is one stop.
type Stop struct {
	ID    job.ID
	Scope StopScope
	// Project is the project that it is limited to; empty: every project.
	Project string
	// Connector, Connection, Destination, and Label with Value are the target, each for its
	// scope.
	Connector    string
	Connection   job.ID
	Destination  string
	Label, Value string
	Cause        StopCause
	// Note is why, for people.
	Note string
	// Begin is from when it is in force. It may be in the future: the stop is announced.
	Begin time.Time
	// End is when it ends by itself; zero: when EndStop ends it.
	End time.Time
	// Planned reports whether a caller stated Begin or End.
	Planned bool
	// HoldWindows: windows that end in it begin again (see WindowHeld).
	HoldWindows bool
	Created     time.Time
	CreatedBy   string
	// Ended is when EndStop ended it; zero: it has not.
	Ended   time.Time
	EndedBy string
}

// NewStop is a stop to store. Its ID, scope, target, cause, note, HoldWindows and CreatedBy are
// used, and Begin and End, if they are set: they are stated times.
type NewStop struct {
	Stop
}

// StopQuery selects stops.
type StopQuery struct {
	// Project selects the stops that concern a project: its own, and those of every project.
	// Empty: all.
	Project string
	// Ended includes those that have ended.
	Ended bool
	// After is the last stop of the page before.
	After job.ID
	Limit int
}

// StopPage is a page of stops.
type StopPage struct {
	Stops []Stop
	// More reports whether others follow.
	More bool
}

// StopPreview is what a stop would hold back.
type StopPreview struct {
	// Waiting counts the jobs that wait to start, now or later, but for replies that wait for
	// their predecessors. It is a lower bound: StopCounted jobs are read, of the connection, of
	// the project or, for a stop of every project, of all. Repeats counts those that wait to be
	// repeated under their keys.
	Waiting, Repeats int64
	// UnderWay counts the jobs that are SENDING, at most StopCounted: a stop lets them finish.
	UnderWay int64
	// Windows counts the jobs of WindowEnds without its bound, at most StopCounted.
	Windows int64
	// WindowEnds are jobs whose window would end in the stop, or within StopLookahead if it has
	// no end; the first to end first. Started ones would end as FAILED, others as EXPIRED.
	WindowEnds []job.Snapshot
	// KeyEnds are jobs that wait to be repeated under their keys, at most MaxBatch.
	KeyEnds []job.Snapshot
}

// Bounds of StopPreview.
const (
	StopCounted   = 10_000
	StopLookahead = 24 * time.Hour
)

// InForce reports whether the stop holds jobs back at a time.
func (s *Stop) InForce(now time.Time) bool { return s.Open(now) && !s.Begin.After(now) }

// Open reports whether the stop holds jobs back at a time or later.
func (s *Stop) Open(now time.Time) bool {
	return s.Ended.IsZero() && (s.End.IsZero() || s.End.After(now))
}

// Covers reports whether the stop is about a target. A stop of a label covers jobs, and no
// hold key as a whole. A stop of what is in a project covers the project's notices, too.
func (s *Stop) Covers(t *StopTarget) bool {
	owner, notices := job.NoticesOf(t.Project)
	if s.Project != "" && s.Project != owner {
		return false
	}
	switch s.Scope {
	case StopEverything:
		return true
	case StopProject:
		return !notices
	case StopConnector:
		return s.Connector == t.Connector
	case StopConnection:
		return s.Connection == t.Connection
	case StopDestination:
		return s.Destination == t.HoldKey
	case StopLabel:
		value, ok := t.Labels[s.Label]
		return ok && value == s.Value
	default:
		return true // of a newer program: rather stopped than sent
	}
}

// Same reports whether two stops have one target, one cause, the same stated times and the same
// rule for windows.
func (s *Stop) Same(o *Stop) bool {
	return s.Scope == o.Scope && s.Project == o.Project && s.Connector == o.Connector && s.Connection == o.Connection &&
		s.Destination == o.Destination && s.Label == o.Label && s.Value == o.Value && s.Cause == o.Cause && s.HoldWindows == o.HoldWindows &&
		s.Planned == o.Planned && (!s.Planned || s.Begin.Equal(o.Begin) && s.End.Equal(o.End))
}

// Check refuses a stop that contradicts itself.
func (s *Stop) Check() error {
	want := map[StopScope][5]bool{ // project, connector, connection, destination, label
		StopEverything: {}, StopProject: {true}, StopConnector: {false, true}, StopConnection: {true, false, true},
		StopDestination: {false, false, false, true}, StopLabel: {true, false, false, false, true},
	}
	need, known := want[s.Scope]
	have := [5]bool{s.Project != "", s.Connector != "", !s.Connection.IsZero(), s.Destination != "", s.Label != ""}
	if s.Scope == StopConnector || s.Scope == StopDestination {
		need[0] = have[0]
	}
	switch {
	case !known || have != need:
		return fmt.Errorf("%w: a stop of scope %d with another target", ErrIllegal, s.Scope)
	case s.Cause != StoppedByPerson && s.Cause != StoppedByBreaker:
		return fmt.Errorf("%w: a stop without a cause", ErrIllegal)
	case !s.End.IsZero() && !s.End.After(s.Begin):
		return fmt.Errorf("%w: a stop that ends before it begins", ErrIllegal)
	}
	return nil
}

// At returns the stop as it is stored at now.
func (n NewStop) At(now time.Time) (Stop, error) {
	s := n.Stop
	s.Planned = !s.Begin.IsZero() || !s.End.IsZero()
	if s.Begin.IsZero() {
		s.Begin = now
	}
	s.Begin, s.End = job.Micros(s.Begin), job.Micros(s.End)
	s.Created, s.Ended, s.EndedBy = now, time.Time{}, ""
	if err := s.Check(); err != nil {
		return s, err
	}
	if !s.Open(now) {
		return s, fmt.Errorf("%w: a stop that is over", ErrIllegal)
	}
	return s, nil
}

// StopOver returns the stop that is in force over a target at now and lasts longest; nil: none
// is. It is the one rule of what may start, which every claim and every arm asks.
func StopOver(stops []Stop, t StopTarget, now time.Time) *Stop {
	var longest *Stop
	for i := range stops {
		s := &stops[i]
		if s.InForce(now) && s.Covers(&t) && (longest == nil || s.outlasts(longest)) {
			longest = s
		}
	}
	if longest == nil {
		return nil
	}
	out := *longest
	return &out
}

// WindowHeld reports whether the window of a job that is over begins again, because a stop that
// holds windows covers the job: the window ended while that was in force, or it began before the
// stop's end and ended in the hour after it. The stop counts from its creation, if it was to begin
// earlier. Once a window is over, no later stop and no end of a stop changes the answer.
//
// It is the one rule of windows that a stop holds. Recovery.Overdue asks it about jobs that wait to
// start, and Work.ClaimLooks about those that have.
func WindowHeld(stops []Stop, t StopTarget, j *job.Job) bool {
	return slices.ContainsFunc(stops, func(s Stop) bool {
		return s.HoldWindows && s.Covers(&t) && s.holds(j.WindowBegan(), j.StartDeadline)
	})
}

func (s *Stop) holds(begin, end time.Time) bool {
	from, over := s.Begin, s.Over()
	if s.Planned && s.Created.After(from) {
		from = s.Created
	}
	switch {
	case !end.After(from):
		return false
	case over.IsZero():
		return true
	default:
		return over.After(from) && begin.Before(over) && !end.After(over.Add(WindowsHeldAfter))
	}
}

// outlasts reports whether a stop ends after another one, or began before it if both end at the same time.
func (s *Stop) outlasts(o *Stop) bool {
	switch {
	case s.End.IsZero() != o.End.IsZero():
		return s.End.IsZero()
	case !s.End.Equal(o.End):
		return s.End.After(o.End)
	case !s.Begin.Equal(o.Begin):
		return s.Begin.Before(o.Begin)
	default:
		return slices.Compare(s.ID[:], o.ID[:]) < 0
	}
}

// SetAside returns until when a claim leaves alone what the stop covers.
func (s *Stop) SetAside(now time.Time) time.Time {
	until := now.Add(StopSetAside)
	if !s.End.IsZero() && s.End.Before(until) {
		return s.End
	}
	return until
}

// RowStops are the stops that are in force over all jobs of a connection under a hold key, and over the
// notices among them; nil: none is. What covers the notices covers the others, too.
type RowStops struct{ All, Notices *Stop }

// StopsOverRow returns the stops over a target without labels.
func StopsOverRow(stops []Stop, t StopTarget, now time.Time) (s RowStops) {
	if s.All = StopOver(stops, t, now); s.All != nil {
		t.Project = job.NoticeProject(t.Project)
		s.Notices = StopOver(stops, t, now)
	}
	return s
}

// Passed reports whether notices pass the stops.
func (s RowStops) Passed() bool { return s.All != nil && s.Notices == nil }

// SetAside returns until when a claim at now leaves the row alone, if there is a stop. notices reports
// whether one is under way.
func (s RowStops) SetAside(now time.Time, notices bool) time.Time {
	until := s.All.SetAside(now)
	switch {
	case s.Notices != nil:
		return earlier(until, s.Notices.SetAside(now))
	case notices:
		return earlier(until, now.Add(StopNoticeLook))
	default:
		return until
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// StopTargetOf returns a job as stops see it.
func StopTargetOf(s *job.Spec, connector string) StopTarget {
	return StopTarget{Project: s.Project, Connector: connector, Connection: s.Connection, HoldKey: s.HoldKey, Labels: s.Labels}
}

// ErrStopped is ErrHeld by a stop. Engines return it as a *StoppedError.
var ErrStopped = errors.New("stopped")

// StoppedError is ErrStopped, which is an ErrHeld, with the stop.
type StoppedError struct{ By Stop }

func (e *StoppedError) Error() string { return ErrStopped.Error() + ": by " + e.By.ID.String() }

// Is makes the error one of ErrStopped and of ErrHeld.
func (e *StoppedError) Is(target error) bool { return target == ErrStopped || target == ErrHeld }

// Over returns when the stop ended, or when it ends by itself; zero: that is not known.
func (s *Stop) Over() time.Time {
	if !s.Ended.IsZero() {
		return s.Ended
	}
	return s.End
}

// PreviewEnd returns until when windows count as ending in a stop.
func (s *Stop) PreviewEnd(now time.Time) time.Time {
	if s.End.IsZero() {
		return now.Add(StopLookahead)
	}
	return s.End
}
