package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Bounds of schedules.
const (
	// MaxCursor bounds the bytes of a schedule's cursor.
	MaxCursor = 4096
	// MaxSkips bounds the firings that are skipped in advance.
	MaxSkips = 100
	// MaxFiringName bounds the bytes of the name of a firing.
	MaxFiringName = 200
	// MaxScheduleScan bounds the schedules that one ListSchedules looks at.
	MaxScheduleScan = 10_000
	// FiringsKept is how long firings are kept after they were decided.
	FiringsKept = 400 * 24 * time.Hour
)

// Schedules stores recurring schedules and the outcomes of their firings. The store has no
// calendar: the caller of Fire decides what is due.
//
// A firing is one ordinary job under the key FiringKey, and a key is one job. So one name is
// at most one job, whatever crashes, and however many servers decide about a schedule.
type Schedules interface {
	// CreateSchedule stores a schedule, ACTIVE or PAUSED. A bound key returns the bound
	// schedule with created=false, in any state, and the caller compares the fingerprints.
	// ErrIllegal for a schedule out of bounds. ErrQuota, but never for a bound key.
	CreateSchedule(ctx context.Context, n NewSchedule) (s Schedule, created bool, err error)
	// Schedule reads a schedule by id, or by the key under which it was created when Ref.Key
	// is set. A deleted schedule is found, without its template. ErrNotFound.
	Schedule(ctx context.Context, ref Ref) (Schedule, error)
	// ListSchedules reads a page, newest first, without templates. It looks at
	// MaxScheduleScan schedules at most, whatever the query selects. ErrNotFound when the
	// schedule to read on after does not exist.
	ListSchedules(ctx context.Context, q ScheduleQuery) (SchedulePage, error)
	// ChangeSchedule writes a schedule as its caller wants it, and firings that make no job.
	// Of concurrent calls that read one revision, calls of Fire included, one writes.
	//
	//   - ErrNotFound: no such schedule in the project.
	//   - ErrQuarantined: the lost state's effect on the schedule is not settled.
	//   - ErrUndecided: the schedule is ACTIVE, and its HeldUntil is set. Fire decides first.
	//   - ErrStale: another revision than the one that was read. Read and decide again.
	//   - ErrIllegal: it is deleted, the state machine has no such move, or the schedule is
	//     out of bounds.
	ChangeSchedule(ctx context.Context, c ScheduleChange) (Schedule, error)
	// Firings reads a page of a schedule's firings, newest first. A buffered firing is only
	// in its schedule. ErrNotFound: no such schedule in the project.
	Firings(ctx context.Context, q FiringQuery) (FiringPage, error)
}

// ScheduleState is the state of a schedule. The numbers are the contract's, and the engines'
// queries use them.
type ScheduleState int

// The states of a schedule.
const (
	// ScheduleActive fires.
	ScheduleActive ScheduleState = iota + 1
	// SchedulePaused fires again after a change.
	SchedulePaused
	// ScheduleEnded has no firing left. A change may make it active.
	ScheduleEnded
	// ScheduleDeleted is left by no change.
	ScheduleDeleted
)

// ScheduleStates are all states.
var ScheduleStates = []ScheduleState{ScheduleActive, SchedulePaused, ScheduleEnded, ScheduleDeleted}

// Next reports whether a schedule may go from a state to another one. The engines' triggers
// have a copy of this rule.
func (s ScheduleState) Next(to ScheduleState) bool {
	switch s {
	case ScheduleActive, SchedulePaused:
		return to >= ScheduleActive && to <= ScheduleDeleted
	case ScheduleEnded:
		return to == ScheduleEnded || to == ScheduleActive || to == ScheduleDeleted
	default:
		return false
	}
}

// PauseCause is why a schedule is paused; 0: it is not. The numbers are the contract's.
type PauseCause int

// The causes of a pause.
const (
	PausedByPerson PauseCause = iota + 1
	PausedByFailures
	PausedByAuthHold
	PausedByRefusal
	// PausedByRestore is the Schedule.Cause of a queue whose items may have been sent. It is
	// never stored.
	PausedByRestore
)

// Schedule makes jobs at recurring times.
type Schedule struct {
	ID      job.ID
	Project string
	// Key is the key under which the schedule was created. It stays bound to it.
	Key         string
	Fingerprint job.Fingerprint
	// Version rises by one with each change by a caller and each change of the state: it is
	// the etag. Revision rises by one with each write, including those of firings.
	Version, Revision int64
	// Generation counts the versions of the spec and its zone, from 1. It never falls.
	Generation int64
	// Spec, Template and Policies are not interpreted by the store.
	Spec, Template, Policies []byte
	// Connection is the id of DueSchedule.Connection.
	Connection  job.ID
	DisplayName string
	// Labels are nil when there are none.
	Labels map[string]string
	// Queued makes Fire read DueSchedule.Items: firings take their content from the queue.
	Queued bool
	// PauseAfterFailures, when positive, makes Fire read DueSchedule.Ended.
	PauseAfterFailures int

	State      ScheduleState
	PauseCause PauseCause // with SchedulePaused only
	Note       string
	PausedAt   time.Time // with SchedulePaused only
	// Cursor records which firings were decided. The store does not interpret it.
	Cursor string
	// Next is when Fire must decide next, or since when a decision is due; zero: never. With
	// ScheduleActive only.
	Next time.Time
	// PostponedUntil is when Fire decides again after a decision was refused; zero: it was
	// not. RefusedDecisions counts the refusals in a row. Each write of the schedule clears
	// both.
	PostponedUntil   time.Time
	RefusedDecisions int64
	// CatchUp is the catch-up that goes on; zero: none does. With ScheduleActive only. A
	// change of Cursor by a caller ends it.
	CatchUp CatchUp
	// Buffered is a firing that waits for the end of an earlier job. With ScheduleActive
	// only. Such a schedule is due BufferedLook after a write at the latest, and immediately
	// when MayRelease is true for one of its jobs.
	Buffered *Firing
	// Skips name future firings that make no job.
	Skips []string
	// Run counts the firings that made a job.
	Run    int64
	Counts ScheduleCounts
	// Day is the newest date, in its zone, on which firings made jobs ("2026-11-02"), and
	// DayCount how many jobs they made. A day never falls, and its count does not fall on
	// that day. Only Fire writes them.
	Day      string
	DayCount int64
	// RefusedInRow counts the items of the queue that were refused since one became a job or
	// a caller changed the schedule. Only Fire raises it.
	RefusedInRow int64

	Created, Updated, Deleted time.Time
	CreatedBy, UpdatedBy      string
	// HeldUntil is when the database was released from a quarantine, as long as the
	// schedule's firings of the lost time are not settled; zero: none are open. Its firings
	// up to then, and the items that wait in its queue, may have made their jobs in the lost
	// state. Release sets it. A decision about all those firings clears it, except for a
	// queue, where only a person's change does.
	HeldUntil time.Time
	// LedgerBegin is since when the ledger has all firings, except those that were not
	// decided one by one.
	LedgerBegin time.Time
}

// Settled returns ErrUndecided for a schedule that Fire must decide about before its state
// becomes to. It may always be deleted: a deletion makes no job, and perhaps no server is
// left that can decide.
func Settled(state ScheduleState, heldUntil time.Time, to ScheduleState) error {
	if state == ScheduleActive && !heldUntil.IsZero() && to != ScheduleDeleted {
		return ErrUndecided
	}
	return nil
}

// Doubtful reports whether waiting items of the queue may have been sent in a lost state of
// the database. No firing takes one until a person has looked.
func (s Schedule) Doubtful() bool { return s.Queued && !s.HeldUntil.IsZero() }

// Cause is why the schedule is paused, as users see it: an unsettled restore of a queue comes
// before the stored cause.
func (s Schedule) Cause() PauseCause {
	if s.State == SchedulePaused && s.Doubtful() {
		return PausedByRestore
	}
	return s.PauseCause
}

// CatchUp is a catch-up that one decision has begun and further ones continue. The store does
// not interpret it.
type CatchUp struct {
	// Began is when the first of the decisions was made.
	Began time.Time
	// Paced is when the next of its jobs may be due.
	Paced time.Time
}

// BufferedLook is the longest time until a schedule is decided about again that has a buffered
// firing, or whose decision was refused.
const BufferedLook = time.Minute

// ScheduleCounts are the firings of a schedule by what became of them.
type ScheduleCounts struct {
	Fired, SkippedByOverlap, SkippedByPerson, Missed, Coalesced, Refused int64
	// NoContent counts firings that found the queue empty, SkippedByLimit those of a day that
	// had all its jobs.
	NoContent, SkippedByLimit int64
	// Held counts firings that may have taken place in a lost state.
	Held int64
}

// Firing is the outcome of one firing.
type Firing struct {
	// Name is unique in the schedule.
	Name    string
	Nominal time.Time
	// LocalTime is Nominal in the schedule's zone; empty: it has none.
	LocalTime string
	Mark      TimeMark
	Origin    FiringOrigin
	Outcome   FiringOutcome
	Reason    string
	// Job is the job that the firing made, and Blocking the one that prevented it.
	Job, Blocking job.ID
	// Run is its number among the firings that made a job; 0: it made none.
	Run int64
	// Decided is set by the store.
	Decided time.Time
}

// TimeMark is how a civil time meets a clock change, such as daylight saving. The numbers are
// the contract's.
type TimeMark int

// The marks; 0: an ordinary time.
const (
	MarkShifted TimeMark = iota + 1
	MarkFirstOfTwo
	MarkRepeated
)

// FiringOrigin is why a firing took place. The numbers are the contract's.
type FiringOrigin int

// The origins of firings.
const (
	FiredByTime FiringOrigin = iota + 1
	FiredByCatchUp
	FiredByTrigger
	FiredByBackfill
)

// FiringOutcome is the outcome of a firing. The numbers are the contract's.
type FiringOutcome int

// The outcomes of firings.
const (
	// FiringFired: it made a job.
	FiringFired FiringOutcome = iota + 1
	// FiringBuffered: it waits. It is Schedule.Buffered, and not in the ledger yet.
	FiringBuffered
	FiringSkippedByOverlap
	FiringSkippedByPerson
	FiringMissed
	FiringCoalesced
	FiringRefused
	// FiringHeld: it may have made its job in a lost state of the database.
	FiringHeld
	// FiringNoContent: it found the queue empty.
	FiringNoContent FiringOutcome = 9
	// FiringSkippedByLimit: its day had all its jobs.
	FiringSkippedByLimit FiringOutcome = 10
)

// FiringKey returns the idempotency key of a firing's job.
func FiringKey(schedule job.ID, name string) string {
	return "fireonce:schedule/" + schedule.String() + "/" + name
}

// FiringActor returns the actor of a schedule's jobs.
func FiringActor(schedule job.ID) string { return "schedule:" + schedule.String() }

// NewSchedule is a schedule to store. The store sets Version, Revision, Generation, Run,
// Counts, Day, RefusedInRow, Buffered, Skips and every time but Next.
type NewSchedule struct {
	Schedule Schedule
	// Most, when positive, bounds the schedules of the project that are not deleted, also
	// under concurrent calls.
	Most int64
}

// Stored returns the schedule as it is first stored, or ErrIllegal.
func (n NewSchedule) Stored(now time.Time) (Schedule, error) {
	s := n.Schedule
	s.Version, s.Revision, s.Generation, s.Run, s.Counts, s.Buffered, s.Skips = 1, 1, 1, 0, ScheduleCounts{}, nil, nil
	s.Created, s.Updated, s.Deleted, s.LedgerBegin, s.UpdatedBy = now, now, time.Time{}, now, s.CreatedBy
	s.Day, s.DayCount, s.RefusedInRow, s.HeldUntil = "", 0, 0, time.Time{}
	s.PostponedUntil, s.RefusedDecisions, s.CatchUp = time.Time{}, 0, CatchUp{}
	fp, err := job.ParseFingerprint(s.Fingerprint.Bytes())
	switch {
	case err != nil:
		return s, fmt.Errorf("%w: %w", ErrIllegal, err)
	case s.Project == "" || s.Key == "" || s.ID.IsZero():
		return s, fmt.Errorf("%w: a schedule without project, key or id", ErrIllegal)
	case s.State != ScheduleActive && s.State != SchedulePaused:
		return s, fmt.Errorf("%w: a schedule starts in state %d", ErrIllegal, s.State)
	}
	s.Fingerprint = fp
	return s.normal(Schedule{}, now)
}

// ScheduleChange is a schedule as its caller wants it, based on the one that was read.
type ScheduleChange struct {
	// Schedule has the Revision that was read. Its id, project, key, fingerprint, versions,
	// times of creation and change, PausedAt, Day, DayCount and LedgerBegin are not written,
	// and HeldUntil only if it is zero. RefusedInRow restarts from zero.
	Schedule Schedule
	// Firings are decided by the change, and make no job. At most MaxBatch.
	Firings []Firing
	Actor   string
}

// Changed returns the schedule as a change leaves it at now, or the error of ChangeSchedule.
// A deleted schedule keeps neither template nor note, and its items no content.
func (c ScheduleChange) Changed(was Schedule, now time.Time) (Schedule, error) {
	s := c.Schedule
	switch {
	case s.Revision != was.Revision:
		return was, fmt.Errorf("%w: revision %d, now %d", ErrStale, s.Revision, was.Revision)
	case !was.State.Next(s.State):
		return was, fmt.Errorf("%w: a schedule goes from state %d to %d", ErrIllegal, was.State, s.State)
	case len(c.Firings) > MaxBatch:
		return was, fmt.Errorf("%w: %d firings, at most %d", ErrIllegal, len(c.Firings), MaxBatch)
	}
	for _, f := range c.Firings {
		if err := f.check(); err != nil {
			return was, err
		}
		if f.Outcome == FiringFired || !f.Job.IsZero() {
			return was, fmt.Errorf("%w: a change of a schedule makes no job", ErrIllegal)
		}
	}
	if s.keep(was); s.Cursor != was.Cursor || s.State != ScheduleActive {
		s.CatchUp = CatchUp{}
	}
	if s.State == ScheduleDeleted {
		s.Template, s.Note, s.Cursor, s.Next, s.Buffered, s.Skips, s.PauseCause = nil, "", "", time.Time{}, nil, nil, 0
		s.Deleted, s.HeldUntil = now, time.Time{}
	}
	s.Version, s.Updated = was.Version+1, now
	if c.Actor != "" {
		s.UpdatedBy = c.Actor
	}
	return s.normal(was, now)
}

// keep restores the fields that callers do not write.
func (s *Schedule) keep(was Schedule) {
	s.ID, s.Project, s.Key, s.Fingerprint = was.ID, was.Project, was.Key, was.Fingerprint
	s.Version, s.Revision, s.PausedAt, s.LedgerBegin = was.Version, was.Revision+1, was.PausedAt, was.LedgerBegin
	s.Created, s.Updated, s.Deleted, s.CreatedBy, s.UpdatedBy = was.Created, was.Updated, was.Deleted, was.CreatedBy, was.UpdatedBy
	s.Day, s.DayCount, s.RefusedInRow = was.Day, was.DayCount, 0
	s.PostponedUntil, s.RefusedDecisions, s.CatchUp = time.Time{}, 0, was.CatchUp
	if !s.HeldUntil.IsZero() {
		s.HeldUntil = was.HeldUntil
	}
}

// normal returns a schedule as it is stored, or ErrIllegal.
func (s Schedule) normal(was Schedule, now time.Time) (Schedule, error) {
	switch {
	case s.State != SchedulePaused:
		s.PausedAt = time.Time{}
	case s.PausedAt.IsZero():
		s.PausedAt = now
	}
	if len(s.Labels) == 0 {
		s.Labels = nil
	}
	if len(s.Skips) == 0 {
		s.Skips = nil
	}
	s.Spec, s.Template, s.Policies = noneIfEmpty(s.Spec), noneIfEmpty(s.Template), noneIfEmpty(s.Policies)
	if !s.Next.IsZero() {
		s.Next = job.Micros(s.Next)
	}
	s.CatchUp.Began, s.CatchUp.Paced = micros(s.CatchUp.Began), micros(s.CatchUp.Paced)
	if s.Buffered != nil {
		b := *s.Buffered
		b.Outcome, b.Nominal, b.Job, b.Run = FiringBuffered, micros(b.Nominal), job.ID{}, 0
		if b.Decided.IsZero() {
			b.Decided = now
		}
		s.Buffered = &b
		if look := now.Add(BufferedLook); s.State == ScheduleActive && (s.Next.IsZero() || s.Next.After(look)) {
			s.Next = look
		}
	}
	return s, s.check(was)
}

func noneIfEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func micros(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return job.Micros(t)
}

// check refuses what the engines' tables refuse.
func (s Schedule) check(was Schedule) error {
	c := s.Counts
	switch {
	case len(s.Cursor) > MaxCursor:
		return fmt.Errorf("%w: a cursor of %d bytes", ErrIllegal, len(s.Cursor))
	case len(s.Skips) > MaxSkips:
		return fmt.Errorf("%w: %d skips", ErrIllegal, len(s.Skips))
	case slices.ContainsFunc(s.Skips, func(name string) bool { return len(name) > MaxFiringName }):
		return fmt.Errorf("%w: a skip of a name that is too long", ErrIllegal)
	case (s.State == SchedulePaused) != (s.PauseCause != 0), s.PauseCause < 0, s.PauseCause > PausedByRefusal:
		return fmt.Errorf("%w: pause cause %d in state %d", ErrIllegal, s.PauseCause, s.State)
	case s.State != ScheduleActive && (!s.Next.IsZero() || s.Buffered != nil || s.CatchUp != CatchUp{}):
		return fmt.Errorf("%w: something is due in state %d", ErrIllegal, s.State)
	case s.Generation < max(1, was.Generation), s.Run < was.Run, s.PauseAfterFailures < 0,
		min(c.Fired, c.SkippedByOverlap, c.SkippedByPerson, c.Missed, c.Coalesced, c.Refused, c.NoContent, c.SkippedByLimit, c.Held) < 0,
		s.Day < was.Day, s.Day == was.Day && s.DayCount < was.DayCount, s.DayCount < 0, s.RefusedInRow < 0:
		return fmt.Errorf("%w: a counter falls", ErrIllegal)
	}
	if len(s.Day) > maxDay || s.Day == "" && s.DayCount > 0 {
		return fmt.Errorf("%w: %d jobs on day %q", ErrIllegal, s.DayCount, s.Day)
	}
	if s.Buffered != nil {
		return s.Buffered.named()
	}
	return nil
}

// maxDay is the length of a date, in bytes.
const maxDay = 10

func (f Firing) named() error {
	if f.Name == "" || len(f.Name) > MaxFiringName {
		return fmt.Errorf("%w: a firing with a name of %d bytes", ErrIllegal, len(f.Name))
	}
	return nil
}

// ends reports whether a firing with this outcome is in the ledger.
func (o FiringOutcome) ends() bool {
	switch o {
	case FiringFired, FiringSkippedByOverlap, FiringSkippedByPerson, FiringMissed, FiringCoalesced, FiringRefused,
		FiringHeld, FiringNoContent, FiringSkippedByLimit:
		return true
	default:
		return false
	}
}

// check refuses a firing that the ledger does not accept.
func (f Firing) check() error {
	switch {
	case !f.Outcome.ends(),
		f.Origin < FiredByTime || f.Origin > FiredByBackfill, f.Mark < 0 || f.Mark > MarkRepeated,
		f.Run < 0, f.Nominal.IsZero():
		return fmt.Errorf("%w: firing %+v", ErrIllegal, f)
	}
	return f.named()
}

// Texts returns the parts of a schedule that engines store as text; empty: there is none.
func (s Schedule) Texts() (buffered, skips, catchUp string, err error) {
	for _, part := range []struct {
		what string
		some bool
		of   any
		text *string
	}{
		{"buffered firing", s.Buffered != nil, s.Buffered, &buffered},
		{"skips", len(s.Skips) > 0, s.Skips, &skips},
		{"catch-up", s.CatchUp != (CatchUp{}), s.CatchUp, &catchUp},
	} {
		if !part.some {
			continue
		}
		text, err := json.Marshal(part.of)
		if err != nil {
			return "", "", "", fmt.Errorf("%w: %s: %w", ErrIllegal, part.what, err)
		}
		*part.text = string(text)
	}
	return buffered, skips, catchUp, nil
}

// SetTexts reads the results of Texts.
func (s *Schedule) SetTexts(buffered, skips, catchUp string) error {
	for _, part := range []struct {
		what, text string
		into       any
	}{{"buffered firing", buffered, &s.Buffered}, {"skips", skips, &s.Skips}, {"catch-up", catchUp, &s.CatchUp}} {
		if part.text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(part.text), part.into); err != nil {
			return fmt.Errorf("schedule %s: %s: %w", s.ID, part.what, err)
		}
	}
	return nil
}

// DecisionTime returns when Fire decides about a schedule; zero: never.
func (s Schedule) DecisionTime() time.Time {
	if s.PostponedUntil.IsZero() {
		return s.Next
	}
	return s.PostponedUntil
}

// Clone returns a copy that shares no memory.
func (s Schedule) Clone() Schedule {
	s.Spec, s.Template, s.Policies = slices.Clone(s.Spec), slices.Clone(s.Template), slices.Clone(s.Policies)
	s.Labels, s.Skips = maps.Clone(s.Labels), slices.Clone(s.Skips)
	if s.Buffered != nil {
		b := *s.Buffered
		s.Buffered = &b
	}
	return s
}

// ScheduleQuery selects schedules of a project. Zero fields select all but deleted ones; a
// list selects the schedules that match one of its values.
type ScheduleQuery struct {
	Project     string
	States      []ScheduleState
	PauseCauses []PauseCause
	Connections []job.ID
	// Labels must all match.
	Labels map[string]string
	// After is the schedule at which the page before ended; zero: from the top.
	After job.ID
	Limit int
	// Scan bounds the schedules that are looked at; 0: MaxScheduleScan.
	Scan int
}

// MaxScan returns the bound that Scan sets.
func (q ScheduleQuery) MaxScan() int {
	if q.Scan <= 0 {
		return MaxScheduleScan
	}
	return min(q.Scan, MaxScheduleScan)
}

// Selects reports whether the query selects a schedule of its project.
func (q ScheduleQuery) Selects(s Schedule) bool {
	for name, value := range q.Labels {
		if got, ok := s.Labels[name]; !ok || got != value {
			return false
		}
	}
	switch {
	case len(q.States) == 0 && s.State == ScheduleDeleted,
		len(q.States) > 0 && !slices.Contains(q.States, s.State),
		len(q.PauseCauses) > 0 && !slices.Contains(q.PauseCauses, s.Cause()),
		len(q.Connections) > 0 && !slices.Contains(q.Connections, s.Connection):
		return false
	}
	return true
}

// SchedulePage is one page, newest schedule first. It may have fewer schedules than the
// limit, or none, even if more follow.
type SchedulePage struct {
	Schedules []Schedule
	// Next is the schedule to read on after; zero: there are no more.
	Next job.ID
}

// FiringQuery selects firings of one schedule.
type FiringQuery struct {
	Project  string
	Schedule job.ID
	// Name, when set, selects that firing alone.
	Name string
	// Outcomes, when not empty, are the outcomes to read.
	Outcomes []FiringOutcome
	// Before is where the page before ended; 0: from the newest on.
	Before int64
	Limit  int
}

// Selects reports whether the query selects a firing of its schedule.
func (q FiringQuery) Selects(f Firing) bool {
	return (q.Name == "" || f.Name == q.Name) && (len(q.Outcomes) == 0 || slices.Contains(q.Outcomes, f.Outcome))
}

// FiringPage is one page, newest firing first. It may have fewer firings than the limit, or
// none, even if more follow.
type FiringPage struct {
	Firings []Firing
	// Next is the Before of the next page; 0: there are no more.
	Next int64
}

// MaxFiringScan bounds the firings that one Firings looks at.
const MaxFiringScan = 10_000

// errNoDecider: a caller's bug.
var errNoDecider = errors.New("FireParams.Decide is not set")
