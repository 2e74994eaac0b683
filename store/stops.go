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
	// MaxBreakers bounds the breakers that are open; none takes the place of a person's stop.
	MaxBreakers = 10_000
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
	// CreateStop stores a stop. If the same one has not ended (see Stop.Same), that one gets the
	// new note, keeps the rest, and is returned with created=false. ErrNotFound: no such connection
	// in the project. ErrQuota: there are as many as may be. ErrIllegal: the target or the times
	// contradict themselves.
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

// Breakers are the stops that servers make and end themselves. A breaker stops the jobs of one
// connection at one destination, and lets one job at a time pass as a probe. CreateStop opens it,
// and the next one takes the place of one that has ended; EndStop closes it, too.
type Breakers interface {
	// TakeProbe makes a leased job the probe of a breaker, or extends the time of the one that is the
	// probe. Until its result counts no longer, every arm under its claim token may pass, and no other
	// job becomes the probe. It returns false if the breaker is closed, its next probe is not due, or
	// another job is the probe.
	TakeProbe(ctx context.Context, p Probe) (bool, error)
	// EndProbe writes what a probe has shown. It returns the breaker, and false if the probe's
	// result counts no longer: the breaker was closed, or another job may be the probe.
	EndProbe(ctx context.Context, r ProbeResult) (Stop, bool, error)
}

// Probe is a job that is to be a breaker's probe.
type Probe struct {
	Breaker job.ID
	// Token is the job's claim token.
	Token job.ID
	// For is how long its result counts.
	For time.Duration
}

// ProbeResult is what a probe has shown.
type ProbeResult struct {
	Breaker, Token job.ID
	Verdict        ProbeVerdict
	// Note is the breaker's new note, if the destination is ill.
	Note string
	// Asks reports that a person may have to decide about the job, because its outcome is unknown. The
	// next probe is due after ProbeAsksWait at the earliest.
	Asks bool
	// Actor ends the breaker.
	Actor string
}

// ProbeVerdict is what a probe says of its destination.
type ProbeVerdict int

// The verdicts of probes.
const (
	// ProbeUndecided: the job was not sent, for a reason of its own.
	ProbeUndecided ProbeVerdict = iota
	// ProbeWell closes the breaker.
	ProbeWell
	// ProbeIll doubles the wait for the next probe, up to a bound.
	ProbeIll
)

// Times of breakers.
const (
	// BreakerKept is how long a breaker stays open for which no probe is found.
	BreakerKept = time.Hour
	// BreakerRemembered is how long after its end a breaker that opens again waits for longer.
	BreakerRemembered = 10 * time.Minute

	firstProbeWait = 10 * time.Second
	maxProbeWait   = time.Minute
)

// ProbeAsksWait is the wait after a probe about which a person may have to decide.
const ProbeAsksWait = 10 * time.Minute

// probeWait returns the wait for the probe after some that failed.
func probeWait(failed int) time.Duration {
	wait := firstProbeWait
	for ; failed > 0 && wait < maxProbeWait; failed-- {
		wait *= 2
	}
	return min(wait, maxProbeWait)
}

// probeAt sets when the next probe is due.
func (s *Stop) probeAt(at time.Time) { s.ProbeAt, s.End = at, at.Add(BreakerKept) }

// Reopen makes a new breaker as patient as the last one of its destination was, if that ended a
// moment ago.
func (s *Stop) Reopen(last *Stop, now time.Time) {
	if last.Over().Add(BreakerRemembered).After(now) {
		s.Probes = last.Probes + 1
		s.probeAt(now.Add(probeWait(s.Probes)))
	}
}

// TakeProbe is Breakers.TakeProbe.
func (s *Stop) TakeProbe(p Probe, now time.Time) bool {
	if !s.ProbeDue(now) && !s.Admits(p.Token, now) {
		return false
	}
	s.Prober = p.Token
	s.probeAt(job.Micros(now.Add(p.For)))
	return true
}

// EndProbe is Breakers.EndProbe.
func (s *Stop) EndProbe(r ProbeResult, now time.Time) bool {
	if !s.Admits(r.Token, now) {
		return false
	}
	s.Prober = job.ID{}
	switch r.Verdict {
	case ProbeWell:
		s.Ended, s.EndedBy = now, r.Actor
		return true
	case ProbeIll:
		s.Probes, s.Note = s.Probes+1, r.Note
	case ProbeUndecided:
	}
	wait := probeWait(s.Probes)
	if r.Asks {
		wait = ProbeAsksWait
	}
	s.probeAt(now.Add(wait))
	return true
}

// repeatsFirst reports whether a repeat under a key has the first chance to be the next probe. After
// every second probe that fails a first attempt has it: a receiver may be well, and only unable to
// bear the jobs that wait to be repeated.
func (s *Stop) repeatsFirst() bool { return s.Probes%2 == 0 }

// Repeats returns when a repeat under a key is due as the next probe.
func (s *Stop) Repeats() time.Time {
	if s.repeatsFirst() {
		return s.ProbeAt
	}
	return s.ProbeAt.Add(StopHeadStart)
}

// Rows returns from when on a claim may let a first attempt through as the next probe.
func (s *Stop) Rows() time.Time {
	if s.repeatsFirst() {
		return s.ProbeAt.Add(StopHeadStart)
	}
	return s.ProbeAt
}

// MostOpen bounds the stops of this one's kind that have not ended.
func (s *Stop) MostOpen() int64 {
	switch {
	case s.Breaker():
		return MaxBreakers
	case s.Scope.Wide():
		return MaxWideStops
	default:
		return MaxNarrowStops
	}
}

// Breaker reports whether the stop is a breaker.
func (s *Stop) Breaker() bool { return s.Cause == StoppedByBreaker }

// ProbeDue reports whether a job may become the probe of an open breaker.
func (s *Stop) ProbeDue(now time.Time) bool {
	return s.Breaker() && s.InForce(now) && !s.ProbeAt.After(now)
}

// LetsThrough reports whether a claim may take one job that the stop covers, which asks to be the
// probe of a breaker. Repeats under a key have had the first chance.
func (s *Stop) LetsThrough(now time.Time) bool {
	return s.ProbeDue(now) && !s.Rows().After(now)
}

// LetsRepeat reports whether a repeat under a key may ask to be the probe of a breaker.
func (s *Stop) LetsRepeat(now time.Time) bool {
	return s.ProbeDue(now) && !s.Repeats().After(now)
}

// Admits reports whether an arm under a claim token passes: it is the breaker's probe.
func (s *Stop) Admits(token job.ID, now time.Time) bool {
	return s.Breaker() && s.InForce(now) && !token.IsZero() && s.Prober == token && s.ProbeAt.After(now)
}

// Until returns until when the stop holds jobs back, as far as that is known; zero: it is not. Of a
// breaker it is when the next probe may be due.
func (s *Stop) Until() time.Time {
	if s.Breaker() {
		return s.ProbeAt
	}
	return s.End
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
	// of all. A breaker covers it for one connection.
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
	// scope. A breaker has a connection, too.
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
	// ProbeAt is, for a breaker, from when on a job may be the next probe; while one is, until
	// when its result counts.
	ProbeAt time.Time
	// Prober is the claim token of the job that is the probe; zero: none is.
	Prober job.ID
	// Probes counts the probes in a row that failed.
	Probes int
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
		return s.Destination == t.HoldKey && (s.Connection.IsZero() || s.Connection == t.Connection)
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
	if s.Breaker() { // hold keys of accounts are the same for every connection
		need[0], need[2] = true, true
	}
	switch {
	case !known || have != need:
		return fmt.Errorf("%w: a stop of scope %d with another target", ErrIllegal, s.Scope)
	case s.Cause != StoppedByPerson && s.Cause != StoppedByBreaker:
		return fmt.Errorf("%w: a stop without a cause", ErrIllegal)
	case s.Breaker() && s.Scope != StopDestination:
		return fmt.Errorf("%w: a breaker of scope %d", ErrIllegal, s.Scope)
	case !s.End.IsZero() && !s.End.After(s.Begin):
		return fmt.Errorf("%w: a stop that ends before it begins", ErrIllegal)
	}
	return nil
}

// At returns the stop as it is stored at now.
func (n NewStop) At(now time.Time) (Stop, error) {
	s := n.Stop
	s.Planned = !s.Begin.IsZero() || !s.End.IsZero()
	s.ProbeAt, s.Prober, s.Probes = time.Time{}, job.ID{}, 0
	if s.Breaker() {
		s.Begin, s.Planned, s.HoldWindows = time.Time{}, false, false
		s.probeAt(now.Add(firstProbeWait))
	}
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

// outlasts reports whether a stop ends after another one, or began before it if both end at the same
// time. Every other stop outlasts a breaker: none lets a probe pass.
func (s *Stop) outlasts(o *Stop) bool {
	switch {
	case s.Breaker() != o.Breaker():
		return o.Breaker()
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
	switch {
	case s.LetsThrough(now):
		return now.Add(StopHeadStart) // for the job that was let through
	case s.Breaker():
		return s.Rows()
	}
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

// Lets returns how many of n jobs of the row a claim may take, and whether notices alone.
//
// It is the one rule of what passes the stops of a row. A breaker lets one job through as its probe. While
// its project is paused, that is a notice: no job would pass the pause, and the notices would wait
// for the breaker until the pause ends.
func (s RowStops) Lets(n int64, now time.Time) (most int64, notices bool) {
	switch {
	case s.All == nil:
		return n, false
	case s.All.LetsThrough(now):
		return min(n, 1), false
	case s.Notices == nil:
		return n, true
	case s.Notices.LetsThrough(now):
		return min(n, 1), true
	default:
		return 0, false
	}
}

// Passed reports whether notices pass the stops, and no other jobs do.
func (s RowStops) Passed(now time.Time) bool {
	_, notices := s.Lets(1, now)
	return notices
}

// Probed reports whether what passes the stops may become the probe of a breaker.
func (s RowStops) Probed(now time.Time) bool {
	return s.All != nil && s.All.LetsThrough(now) || s.Notices != nil && s.Notices.LetsThrough(now)
}

// SetAside returns until when a claim at now leaves the row alone, if there is a stop. notices reports
// whether one is under way.
func (s RowStops) SetAside(now time.Time, notices bool) time.Time {
	until := s.All.SetAside(now)
	switch {
	case s.Notices != nil && !s.Passed(now):
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
