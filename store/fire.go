package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// ErrUndecided: the database was restored, and firings of the schedule that may have taken
// place in the lost state are not decided yet. Fire decides about them.
var ErrUndecided = errors.New("firings of the lost time are not decided")

// DueSchedules fires the schedules that are due.
type DueSchedules interface {
	// Fire decides about due schedules, earliest first, and writes the decisions: jobs, as
	// Create does, firings, and the schedules, in one transaction. A call that fails has
	// written nothing, and repeating it makes no job twice. A refused decision is the
	// exception: the others are written without it, each schedule in a transaction of its own
	// as far as the call's time goes, and its verdict is in Fired.Err. Its schedule stays due
	// and is postponed: it is decided about again after BufferedLook, and its RefusedDecisions
	// rises.
	//
	// A schedule that another call has locked is left out, but Fire waits for one that Only
	// names. A job whose key is bound is not made: its firing names the job that the key is
	// bound to, even a removed one. A firing whose name exists already stays as it is, and
	// makes no job.
	//
	// more reports whether schedules were left for another call, which should follow
	// immediately. ErrNotFound: Only names no schedule of its project. ErrQuarantined,
	// ErrClockSuspect.
	Fire(ctx context.Context, p FireParams) (fired []Fired, more bool, err error)
	// NextFiring returns how long until Fire may find a due schedule that is not in except
	// (at most MaxExcept). It returns at most limit, and limit while Fire is refused. Zero:
	// now.
	NextFiring(ctx context.Context, limit time.Duration, except []job.ID) (time.Duration, error)
}

// Bounds of one call of Fire. What does not fit is left for the next call; the first
// schedule always fits.
const (
	// MaxFiringJobs bounds the jobs of one decision.
	MaxFiringJobs = 100
	// MaxFirings bounds the firings of one decision.
	MaxFirings = MaxBatch
	// MaxFireBytes bounds the templates that are read and, separately, the payloads of the
	// jobs that are made.
	MaxFireBytes = 32 << 20
	// MaxExcept bounds FireParams.Except.
	MaxExcept = 1000
	// MaxEndedJobs bounds DueSchedule.Ended.
	MaxEndedJobs = 100
	// fireRounds bounds the calls of Decide for one schedule.
	fireRounds = 8
)

// FireParams bounds one call of Fire.
type FireParams struct {
	// Only, when it has an id, names the one schedule to decide about, due or not and in any
	// state. Its Key is ignored.
	Only Ref
	// Names, with Only, are firings that are looked up before Decide is called: the stored
	// ones are in DueSchedule.Known. At most MaxFirings.
	Names []string
	// Except are schedules to skip, as if they were not due. At most MaxExcept. With Only
	// they are ignored.
	Except []job.ID
	// Limit bounds the schedules, at most MaxBatch.
	Limit int
	// Decide is called for each schedule. It does no I/O and calls no store. It may be called
	// again for the same schedule: when it named firings that are stored already, or jobs
	// that cannot be made, or when the transaction is retried. Only its last decision counts.
	// One goroutine at a time calls it, and none after Fire has returned.
	Decide func(DueSchedule) FireDecision
}

// DueSchedule is what a decision depends on.
type DueSchedule struct {
	Schedule Schedule
	// Now is the store's time.
	Now time.Time
	// Open has at most two jobs of the schedule that have not ended: first the newest one
	// whose outcomes are all known, then the newest one that is job.State.Unresolved. An
	// overlap policy depends on no others.
	Open []OpenJob
	// Ended are the newest stored jobs of the schedule that have ended, newest first. They
	// are read where Schedule.PauseAfterFailures is positive.
	Ended []EndedJob
	// HeldUntil is when the database was last released from a quarantine; zero: never.
	// Undecided firings up to then may have made their jobs in the lost state.
	HeldUntil time.Time
	// Connection is the schedule's. Its id is zero if the project has no such connection.
	Connection Connection
	// Items are the first waiting items of the queue, in their order, if Schedule.Queued.
	// MoreItems reports that others wait behind them.
	Items     []ScheduleItem
	MoreItems bool
	// Known are stored firings that FireParams.Names or an earlier decision of this call
	// named: naming them again changes nothing.
	Known map[string]Firing
	// Refused are firings of an earlier decision of this call whose jobs cannot be made. A
	// decision that makes one of these jobs again is not written.
	Refused map[string]error
}

// OpenJob is a job that has not ended.
type OpenJob struct {
	ID    job.ID
	State job.State
}

// MayRelease reports whether a change of a job's state may end the wait of its schedule's
// buffered firing: the job ends, or other overlap policies apply to it.
func MayRelease(from, to job.State) bool {
	return !from.Terminal() && (to.Terminal() || from.Unresolved() != to.Unresolved())
}

// EndedJob is a job that has ended.
type EndedJob struct {
	ID    job.ID
	State job.State
	// Decided is when its firing was.
	Decided time.Time
}

// FireDecision is what Fire writes for one schedule.
type FireDecision struct {
	// Schedule is DueSchedule.Schedule with a new Cursor, Next, Buffered, Skips, Run, Counts,
	// Day, DayCount, RefusedInRow, CatchUp and HeldUntil, and possibly another State,
	// PauseCause and Note. No other field is written. HeldUntil is unchanged, or zero if there is no queue.
	Schedule Schedule
	// Firings are the decided firings, oldest first, each name once.
	Firings []FiringDecision
	// RefusedItems are items of DueSchedule.Items that cannot become jobs.
	RefusedItems []RefusedItem
	// Leave leaves the schedule unchanged, and due for another server. Fire does not return
	// it.
	Leave bool
	// Err, when set, refuses to decide: nothing is written, and Fired.Err has the error.
	Err error
}

// RefusedItem is an item whose content is bad.
type RefusedItem struct {
	Item   job.ID
	Reason string
}

// FiringDecision is one firing. It has a job if, and only if, its outcome is FiringFired.
type FiringDecision struct {
	Firing Firing
	// Job is the job to make. The store sets its project, key, schedule and actor.
	Job *NewJob
	// Item is the item of DueSchedule.Items that the job has its content from, each at most
	// once. The item becomes USED when the job is made now, and keeps waiting when the firing
	// or its job existed before.
	Item job.ID
}

// Fired is the result for one schedule.
type Fired struct {
	// Schedule is as it was written, or as it was read if Err is set.
	Schedule Schedule
	// Firings are the decision's, in its order.
	Firings []FiredFiring
	// Err is why the decision was not written: ErrStale for a decision on another revision
	// than the one that was read, ErrIllegal for one that contradicts itself or that the
	// database refuses, or the refusal of a job.
	Err error
}

// FiredFiring is a firing as it is stored.
type FiredFiring struct {
	Firing Firing
	// Repeat reports that the firing existed before, and was not changed.
	Repeat bool
	// Job is Create's verdict, if a job was to be made.
	Job Created
}

// decided returns the schedule as a decision leaves it.
func (d *FireDecision) decided(due DueSchedule) (Schedule, error) {
	was, in := due.Schedule, d.Schedule
	if in.ID != was.ID || in.Revision != was.Revision {
		return was, fmt.Errorf("%w: a decision on revision %d of schedule %s", ErrStale, in.Revision, in.ID)
	}
	if !was.State.Next(in.State) || in.State == ScheduleDeleted {
		return was, fmt.Errorf("%w: firing brings a schedule from state %d to %d", ErrIllegal, was.State, in.State)
	}
	if !in.HeldUntil.Equal(was.HeldUntil) && (was.Queued || !in.HeldUntil.IsZero()) {
		return was, fmt.Errorf("%w: firing settles a queue after a restore, or begins its doubt", ErrIllegal)
	}
	if err := errors.Join(d.prepare(was, due.Now), d.items(due)); err != nil {
		return was, err
	}
	s := was
	s.Cursor, s.Next, s.Buffered, s.Skips, s.Run, s.Counts = in.Cursor, in.Next, in.Buffered, in.Skips, in.Run, in.Counts
	s.Day, s.DayCount, s.RefusedInRow, s.HeldUntil = in.Day, in.DayCount, in.RefusedInRow, in.HeldUntil
	s.CatchUp, s.PostponedUntil, s.RefusedDecisions = in.CatchUp, time.Time{}, 0
	s.State, s.PauseCause, s.Note, s.Revision = in.State, in.PauseCause, in.Note, was.Revision+1
	if s.State != was.State {
		s.Version, s.Updated = was.Version+1, due.Now
	}
	return s.normal(was, due.Now)
}

// prepare checks the firings, and sets the store's fields of them and of their jobs.
func (d *FireDecision) prepare(s Schedule, now time.Time) error {
	if len(d.Firings) > MaxFirings {
		return fmt.Errorf("%w: %d firings in a decision, at most %d", ErrIllegal, len(d.Firings), MaxFirings)
	}
	jobs, names := 0, make(map[string]bool, len(d.Firings))
	for i := range d.Firings {
		f := &d.Firings[i]
		f.Firing.Decided, f.Firing.Nominal, f.Firing.Job = now, micros(f.Firing.Nominal), job.ID{}
		if err := f.Firing.check(); err != nil {
			return err
		}
		if names[f.Firing.Name] {
			return fmt.Errorf("%w: firing %s twice in a decision", ErrIllegal, f.Firing.Name)
		}
		names[f.Firing.Name] = true
		if (f.Job != nil) != (f.Firing.Outcome == FiringFired) {
			return fmt.Errorf("%w: firing %s with outcome %d and job %v", ErrIllegal, f.Firing.Name, f.Firing.Outcome, f.Job != nil)
		}
		if f.Job == nil {
			continue
		}
		if jobs++; jobs > MaxFiringJobs {
			return fmt.Errorf("%w: more than %d jobs in a decision", ErrIllegal, MaxFiringJobs)
		}
		n := *f.Job
		if !n.Spec.ReplyTo.IsZero() {
			return fmt.Errorf("%w: the job of firing %s replies to another one", ErrIllegal, f.Firing.Name)
		}
		n.Spec.Project, n.Spec.Schedule, n.Spec.Key = s.Project, s.ID, FiringKey(s.ID, f.Firing.Name)
		n.Actor = FiringActor(s.ID)
		f.Job = &n
	}
	return nil
}

// items checks that each item waits and is taken at most once.
func (d *FireDecision) items(due DueSchedule) error {
	free := make(map[job.ID]bool, len(due.Items))
	for _, i := range due.Items {
		free[i.ID] = true
	}
	var taken []job.ID
	for _, f := range d.Firings {
		if f.Job == nil && !f.Item.IsZero() {
			return fmt.Errorf("%w: firing %s makes no job of item %s", ErrIllegal, f.Firing.Name, f.Item)
		}
		if !f.Item.IsZero() {
			taken = append(taken, f.Item)
		}
	}
	for _, r := range d.RefusedItems {
		taken = append(taken, r.Item)
	}
	for _, id := range taken {
		if due.Schedule.Doubtful() {
			return fmt.Errorf("%w: item %s may have been sent before the restore", ErrIllegal, id)
		}
		if !free[id] {
			return fmt.Errorf("%w: item %s does not wait, or is taken twice", ErrIllegal, id)
		}
		free[id] = false
	}
	return nil
}

// FireRound calls Decide for one schedule until its decision is final. For engines.
type FireRound struct {
	Due      DueSchedule
	Next     Schedule
	Firings  []FiringDecision
	Refused  []RefusedItem
	Err      error
	rounds   int
	asked    []string // FireParams.Names, while they are looked up
	answered bool
	left     bool
}

// Ask calls Decide, unless its decision is final.
func (r *FireRound) Ask(p FireParams) {
	if r.answered {
		return
	}
	if r.rounds == 0 && r.asked == nil && len(p.Names) > 0 && !p.Only.ID.IsZero() {
		r.asked = p.Names
		return
	}
	r.asked, r.answered = nil, true
	r.rounds++
	r.Next, r.Firings, r.Refused = r.Due.Schedule, nil, nil
	if p.Decide == nil {
		r.Err = fmt.Errorf("%w: %w", ErrIllegal, errNoDecider)
		return
	}
	asked := r.Due
	asked.Schedule = r.Due.Schedule.Clone()
	d := p.Decide(asked)
	if r.left, r.Err = d.Leave, d.Err; d.Leave || d.Err != nil {
		return
	}
	r.Next, r.Err = d.decided(r.Due)
	for _, f := range d.Firings {
		if err := r.Due.Refused[f.Firing.Name]; err != nil && f.Job != nil && r.Err == nil {
			r.Err = err
		}
	}
	if r.Err == nil {
		r.Firings, r.Refused = d.Firings, d.RefusedItems
	}
}

// Names returns the names of the firings to look up.
func (r *FireRound) Names() []string {
	names := slices.Clone(r.asked)
	for _, f := range r.Firings {
		if _, known := r.Due.Known[f.Firing.Name]; !known {
			names = append(names, f.Firing.Name)
		}
	}
	return names
}

// Jobs returns the firings whose jobs are to be made.
func (r *FireRound) Jobs() (out []FiringDecision) {
	for _, f := range r.Firings {
		if _, known := r.Due.Known[f.Firing.Name]; f.Job != nil && !known {
			out = append(out, f)
		}
	}
	return out
}

// AddKnown adds a stored firing to DueSchedule.Known. Decide is called again.
func (r *FireRound) AddKnown(f Firing) {
	if _, known := r.Due.Known[f.Name]; known {
		return
	}
	if r.Due.Known == nil {
		r.Due.Known = make(map[string]Firing)
	}
	r.Due.Known[f.Name] = f
	r.answered = r.rounds >= fireRounds
}

// AddRefused adds a job that cannot be made to DueSchedule.Refused. Then Decide is called
// again, or the decision is not written.
func (r *FireRound) AddRefused(name string, err error) {
	if r.rounds >= fireRounds {
		r.Err, r.Firings, r.Refused = err, nil, nil
		return
	}
	if r.Due.Refused == nil {
		r.Due.Refused = make(map[string]error)
	}
	r.Due.Refused[name] = err
	r.answered = false
}

// Final reports whether Decide need not be called again.
func (r *FireRound) Final() bool { return r.answered }

// Left reports whether the schedule is left to another server: nothing of it is written.
func (r *FireRound) Left() bool { return r.left }

// Fired returns the result for the schedule. The verdicts on its jobs come first in made, and
// rest are the others.
func (r *FireRound) Fired(made []Created) (out Fired, rest []Created) {
	if r.Err != nil {
		return Fired{Schedule: r.Due.Schedule, Err: r.Err}, made
	}
	out = Fired{Schedule: r.Next, Firings: make([]FiredFiring, len(r.Firings))}
	for i, f := range r.Firings {
		one := &out.Firings[i]
		if one.Firing, one.Repeat = r.Due.Known[f.Firing.Name]; one.Repeat {
			continue
		}
		if one.Firing = f.Firing; f.Job != nil {
			one.Job, made = made[0], made[1:]
			one.Firing.Job = one.Job.Owner()
		}
	}
	return out, made
}

// Items returns the items that leave the queue with this write.
func (r *FireRound) Items(fired Fired) []ItemEnd {
	if fired.Err != nil {
		return nil
	}
	size := make(map[job.ID]int64, len(r.Due.Items))
	for _, i := range r.Due.Items {
		size[i.ID] = int64(len(i.Payload))
	}
	var out []ItemEnd
	for i, f := range r.Firings {
		// A job that existed before has the content of another item.
		if one := fired.Firings[i]; !f.Item.IsZero() && !one.Repeat && one.Job.Created {
			out = append(out, ItemEnd{ID: f.Item, State: ItemUsed, Firing: one.Firing.Name, Job: one.Firing.Job, Freed: size[f.Item]})
		}
	}
	for _, one := range r.Refused {
		out = append(out, ItemEnd{ID: one.Item, State: ItemRefused, Reason: one.Reason})
	}
	return out
}

// Owner returns the job that the item's key is bound to; zero: none.
func (c Created) Owner() job.ID {
	if removed, ok := errors.AsType[*RemovedError](c.Err); ok {
		return removed.Job
	}
	return c.Snapshot.ID
}

// FireBudget counts what one call of Fire may write.
type FireBudget struct{ jobs, firings, bytes int }

// Take reports whether a decision still fits. After one that does not, the budget is spent.
func (b *FireBudget) Take(r *FireRound) bool {
	first := *b == FireBudget{}
	b.firings += len(r.Firings)
	for _, f := range r.Firings {
		if f.Job != nil {
			b.jobs, b.bytes = b.jobs+1, b.bytes+len(f.Job.Spec.Payload)
		}
	}
	return first || b.jobs <= MaxBatch && b.firings <= 2*MaxFirings && b.bytes <= MaxFireBytes
}
