package firing

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/store"
)

const (
	// maxBeats bounds the times that one decision passes. The next decision, which follows
	// immediately, takes the rest.
	maxBeats = 5000
	// maxSteps bounds the steps that one decision takes to find them, in the same way.
	maxSteps = recur.MaxSteps / 10
	// keptBack are the latest times that a decision leaves to the next one if it does not have
	// all: one of them may make a job, because people skip fewer.
	keptBack = store.MaxSkips + 1
	// maxLedger bounds the missed firings that one decision writes to the ledger: the newest
	// ones. The others are only counted.
	maxLedger = 300
	// maxDecided bounds the other firings of a decision. The next decision, which follows
	// immediately, takes the rest. Two rows are left for the buffered firing.
	maxDecided = store.MaxFirings - maxLedger - 2
)

var errBadCursor = errors.New("the schedule's place in time is that of other times")

// Plan is a schedule in the form that decisions need.
type Plan struct {
	Times    *recur.Schedule
	Policies Policies
	// Build makes the job of a firing; run is its number. An error refuses the job
	// permanently, and the schedule pauses.
	Build func(beat recur.Beat, run int64) (store.NewJob, error)
	// BuildItem makes the job of a firing from an item of the queue. It replaces Build if the
	// schedule is Queued. An error with ErrContent refuses only the item.
	BuildItem func(beat recur.Beat, run int64, item store.ScheduleItem) (store.NewJob, error)
}

// Begin returns the cursor of a schedule that fires after an instant: times up to it are
// passed.
func Begin(times *recur.Schedule, at time.Time) (string, error) { return textOf(times.After(at)) }

// At returns the cursor of a stored schedule.
func At(times *recur.Schedule, stored string) (recur.Cursor, error) {
	return times.ParseCursor([]byte(stored))
}

func textOf(c recur.Cursor) (string, error) {
	text, err := json.Marshal(c)
	return string(text), err
}

// Decide decides about a schedule at due.Now. A schedule that is not ACTIVE stays as it is.
//
//   - The buffered firing comes first: it makes its job once no other job blocks it.
//   - The times that have come are one set: which of them are missed, and which of those are
//     caught up, depends on all of them. See sort.
//   - Due firings are taken in the order of their times, and each is passed once. What does not
//     fit into a decision is left to the next one, which follows immediately.
//   - When the schedule pauses itself, its due firings are MISSED.
//   - Firings up to due.HeldUntil are HELD, whatever the other rules say.
//   - A schedule pauses if items of its queue may have been sent before a restore.
//   - A firing of a queue takes the first item that waits, and makes no job if none does.
func Decide(due store.DueSchedule, plan Plan) store.FireDecision {
	d := newDecider(due, plan)
	if d.s.State == store.ScheduleActive {
		if err := d.decide(); err != nil {
			d.pause(store.PausedByRefusal, fmt.Sprintf("The times cannot be computed: %v. ResumeSchedule goes on from now.", err))
		}
	}
	return d.decision()
}

func newDecider(due store.DueSchedule, plan Plan) *decider {
	return &decider{due: due, plan: plan, policies: plan.Policies.Filled(), s: due.Schedule, items: due.Items, steps: maxSteps}
}

func (d *decider) decision() store.FireDecision {
	d.trim()
	return store.FireDecision{Schedule: d.s, Firings: d.firings, RefusedItems: d.refused}
}

type decider struct {
	due      store.DueSchedule
	plan     Plan
	policies Policies
	s        store.Schedule
	firings  []store.FiringDecision
	// items are the waiting items that no firing has taken; refused are the items of which no
	// job can be made.
	items   []store.ScheduleItem
	refused []store.RefusedItem
	// made is the number of jobs that this decision makes; each of them blocks later ones.
	// latest is the last of them.
	made   int
	latest store.OpenJob
	// decided is the number of firings in the decision that are not missed.
	decided int
	// steps is the bound for one search of due times, and spent is what all took.
	steps, spent int64
	// meter counts the steps for a request, which may end them; nil: a decision's.
	meter *recur.Meter
}

// dueBeat is a time that has come.
type dueBeat struct {
	recur.Beat
	// before is the cursor from which it is the next beat.
	before recur.Cursor
}

// span holds the times that have come since the last decision.
type span struct {
	beats []dueBeat
	// passed is the cursor behind them.
	passed recur.Cursor
	// next is when the next beat after them fires; zero: there is none, or it is not known yet.
	next time.Time
	// more: the beat after them is due too, or is not known.
	more bool
	// cut: it is not known because the search took too many steps. The last beat is decided as
	// if none followed: two jobs where one was enough are better than none.
	cut bool
}

func (d *decider) decide() error {
	cursor, err := d.plan.Times.ParseCursor([]byte(d.s.Cursor))
	if err != nil {
		return fmt.Errorf("%w: %w", errBadCursor, err)
	}
	if d.due.Now.Sub(d.s.Next) > Late {
		d.s.CatchUp = store.CatchUp{} // no server continued it: what was missed since is in a new one
	}
	came := d.collect(cursor, d.mostInWindow())
	d.settle(came)
	came.beats = d.hold(came.beats)
	if cause, note, missed := d.mustPause(came); cause != 0 {
		d.missAll(came.beats, missed)
		came = d.missRest(came, missed)
		d.pause(cause, note)
		return d.pass(came)
	}
	if !d.release() {
		if len(came.beats) > 0 {
			came.passed = came.beats[0].before
		}
		return d.pass(span{passed: came.passed, more: true})
	}
	return d.pass(d.takeAll(came))
}

// mustPause returns why the schedule pauses itself now, and the reason of its due firings; 0: it
// does not.
func (d *decider) mustPause(came span) (cause store.PauseCause, note, missed string) {
	switch n := d.failures(); {
	case d.s.Doubtful():
		return store.PausedByRefusal, lostQueue, "The schedule paused itself."
	case d.policies.PauseAfterFailures > 0 && n >= d.policies.PauseAfterFailures:
		return store.PausedByFailures, fmt.Sprintf("The last %d jobs ended without an effect.", n), "The schedule paused itself."
	case d.policies.PauseOnAuthHold && !d.due.Connection.AuthHoldAt.IsZero() && (len(came.beats) > 0 || d.s.Buffered != nil):
		const hold = "The connection is on hold for its credential."
		return store.PausedByAuthHold, hold, hold
	default:
		return 0, "", ""
	}
}

// takeAll decides about the times that have come, and returns how far it came.
func (d *decider) takeAll(came span) span {
	goesOn, set := came.more, false // the catch-up, if this is one
	for _, f := range d.sort(came) {
		set = set || f.member
		if d.s.State == store.ScheduleEnded {
			return came // max_firings is reached: there are no further firings, so none is missed
		}
		if d.s.State != store.ScheduleActive {
			d.miss(f, store.FiringMissed, pausedBefore)
			continue
		}
		if f.outcome == store.FiringFired && (d.made == store.MaxFiringJobs || d.decided >= maxDecided) {
			came, goesOn = span{passed: f.before, more: true}, f.member || !d.s.CatchUp.Began.IsZero()
			break
		}
		if wait, passed := d.take(f); !passed {
			came, goesOn = span{passed: f.before, next: d.due.Now.Add(wait)}, f.member || !d.s.CatchUp.Began.IsZero()
			break
		}
	}
	// A set whose last one waits is not caught up yet. But it is not extended forever.
	waits := d.s.Buffered != nil && (set || !d.s.CatchUp.Began.IsZero()) && d.due.Now.Sub(d.began()) <= d.policies.CatchUpWindow
	switch goesOn = goesOn || waits; {
	case d.s.State == store.SchedulePaused:
		return d.missRest(came, pausedBefore)
	case d.s.State == store.ScheduleActive && d.policies.CatchUp == CatchUpAll && goesOn:
		d.s.CatchUp.Began = d.began()
	default:
		d.s.CatchUp = store.CatchUp{}
	}
	return came
}

// pausedBefore is why a firing makes no job after another one that paused the schedule.
const pausedBefore = "The schedule paused itself before."

// mostInWindow bounds the times inside the catch-up window that a decision needs; 0: it needs
// all. It takes no more where each of them makes a job.
func (d *decider) mostInWindow() int {
	if d.policies.CatchUp == CatchUpAll && d.policies.Overlap != Skip {
		return store.MaxFiringJobs + 1
	}
	return 0
}

// collect finds the times that have come: with most, no more than that many inside the catch-up
// window.
func (d *decider) collect(c recur.Cursor, most int) span {
	out := span{passed: c}
	inside := 0
	m := d.meter
	if m == nil {
		m = recur.NewCounter()
	}
	begun := m.Spent()
	defer func() { d.spent += m.Spent() - begun }()
	for range maxBeats {
		if m.Spent()-begun > d.steps {
			out.cut = len(out.beats) <= keptBack // it has come on, and other schedules wait
			break
		}
		beat, next, ok := d.plan.Times.NextCounted(out.passed, m)
		if m.Err() != nil {
			out.cut = true
			break
		}
		switch {
		case ok && beat.Fire.After(d.due.Now):
			out.next = beat.Fire
			return out
		case ok && most > 0 && inside == most:
			out.more = true
			return out
		case ok:
			out.beats = append(out.beats, dueBeat{beat, out.passed})
			out.passed = next
			if d.age(beat) <= d.policies.CatchUpWindow {
				inside++
			}
		case next.Done():
			return out
		default:
			out.passed = next // only excluded times: search on
		}
	}
	out.more = true
	// The latest times are left to the next decision: only a decision that has all of them can
	// choose which are caught up.
	if n := len(out.beats) - keptBack; n > 0 && most == 0 && !out.cut {
		out.passed, out.beats = out.beats[n].before, out.beats[:n]
	}
	return out
}

// began is when the first decision about the missed times was made.
func (d *decider) began() time.Time {
	if at := d.s.CatchUp.Began; !at.IsZero() && !at.After(d.due.Now) { // after it: the clock was set back
		return at
	}
	return d.due.Now
}

// age is how late a firing was when the first decision about the missed times was made.
func (d *decider) age(b recur.Beat) time.Duration { return d.began().Sub(b.Fire) }

// settle ends the lost time if no further firing of it follows those in came.
func (d *decider) settle(came span) {
	if !d.s.Queued && d.passedLost(came) {
		d.s.HeldUntil = time.Time{}
	}
}

// hold makes no jobs for firings that may have made theirs in a state of the database that
// was lost. It returns the other firings.
func (d *decider) hold(beats []dueBeat) []dueBeat {
	if b := d.s.Buffered; b != nil && d.lostBuffered(*b) {
		d.dropBuffered("")
	}
	for i, b := range beats {
		if !d.lost(b.Fire) {
			return beats[i:]
		}
		if !d.skipped(b) {
			d.miss(firing{dueBeat: b, origin: store.FiredByTime}, store.FiringHeld, heldReason)
		}
	}
	return nil
}

// heldReason is the reason of a held firing.
const heldReason = "The database was restored to an earlier state. The firing may have made its job in the state that was lost: " +
	"see what the platform has, then BackfillSchedule makes up for it."

// lost reports whether the firing of a time may have made its job in a state that was lost.
func (d *decider) lost(fire time.Time) bool { return !fire.After(d.due.HeldUntil) }

// lostBuffered reports whether a firing was waiting already when the database was released. A
// firing that a later decision buffered has made no job before, even if its nominal time is
// earlier because of jitter.
func (d *decider) lostBuffered(f store.Firing) bool {
	return !f.Decided.After(d.due.HeldUntil)
}

// passedLost reports whether no further firing of the lost time follows those in came.
func (d *decider) passedLost(came span) bool {
	last := len(came.beats) - 1
	return !came.more || last >= 0 && !d.lost(came.beats[last].Fire)
}

// dropBuffered records that the buffered firing, if there is one, makes no job.
func (d *decider) dropBuffered(reason string) {
	b := d.s.Buffered
	if b == nil {
		return
	}
	row := *b
	d.s.Buffered = nil
	if d.lostBuffered(row) {
		row.Outcome, row.Reason = store.FiringHeld, heldReason
		d.s.Counts.Held++
	} else {
		row.Outcome, row.Reason = store.FiringMissed, reason
		d.s.Counts.Missed++
	}
	d.write(row)
}

// pass records how far the schedule has come.
func (d *decider) pass(came span) error {
	text, err := textOf(came.passed)
	if err != nil {
		return err
	}
	d.s.Cursor, d.s.Next = text, came.next
	switch {
	case d.s.State != store.ScheduleActive:
		d.s.Next = time.Time{}
	case came.more:
		d.s.Next = d.due.Now
	case came.next.IsZero() && d.s.Buffered == nil, d.full():
		d.end()
	}
	return nil
}

// full reports whether the schedule has made as many jobs as it may.
func (d *decider) full() bool {
	return d.policies.MaxFirings > 0 && d.s.Run >= d.policies.MaxFirings
}

// end ends the schedule. It may be paused: a client's trigger can make its last job then.
func (d *decider) end() {
	d.dropBuffered("max_firings was reached before.")
	d.s.State, d.s.PauseCause, d.s.Note, d.s.Next, d.s.CatchUp = store.ScheduleEnded, 0, "", time.Time{}, store.CatchUp{}
}

// firing is a due beat with the decision about it.
type firing struct {
	dueBeat
	origin  store.FiringOrigin
	outcome store.FiringOutcome // FiringFired: it may make a job
	at      time.Time           // when its job is due
	reason  string
	// member: it is one of a set of times that CatchUpAll catches up, and waits its turn.
	member bool
}

// sort decides about the set of times that have come, without regard to other jobs: it finds
// those that were missed, and chooses which of them are caught up. A firing is missed if it is
// decided more than Late after its time, or not before the next one has come: a newer one is then
// in time, or missed too. A firing that makes no job in any case is not chosen instead of an
// earlier one.
func (d *decider) sort(came span) []firing {
	out := make([]firing, len(came.beats))
	newest := -1 // of those that may make a job; -1: it is still to come
	for i, b := range came.beats {
		out[i] = firing{dueBeat: b, origin: store.FiredByTime, outcome: store.FiringFired, at: b.Fire}
		if d.mayFire(b) && (!came.more || came.cut) {
			newest = i
		}
	}
	set := came.more && !came.cut || !d.s.CatchUp.Began.IsZero()
	for i := range out {
		if f := &out[i]; d.mayFire(f.dueBeat) {
			late := i != newest || d.due.Now.Sub(f.Fire) > Late
			set = set || late
			d.choose(f, late, i == newest)
		}
	}
	for i := range out {
		f := &out[i]
		f.member = set && d.policies.CatchUp == CatchUpAll && d.joins(f.Beat)
	}
	return out
}

// joins reports whether a firing is one of the set that is caught up: while a catch-up goes on,
// times that fall due join it, for as long as the window. Later ones are not missed.
func (d *decider) joins(b recur.Beat) bool { return -d.age(b) <= d.policies.CatchUpWindow }

// choose decides whether a firing that may make a job is caught up.
func (d *decider) choose(f *firing, late, newest bool) {
	if !late || !d.joins(f.Beat) {
		return
	}
	f.origin, f.at = store.FiredByCatchUp, d.due.Now
	each := d.policies.CatchUp == CatchUpAll && d.policies.Overlap != Skip
	switch age := d.age(f.Beat); {
	case age > d.policies.CatchUpWindow:
		f.outcome, f.reason = store.FiringMissed, fmt.Sprintf("No server decided about it for %s, more than catch_up_window.", age.Round(time.Second))
	case d.policies.CatchUp == CatchUpNone:
		f.outcome, f.reason = store.FiringMissed, "No server decided about it in time."
	case !each && !newest:
		f.outcome, f.reason = store.FiringCoalesced, "A later firing was caught up in its place."
	}
}

// mayFire reports whether a firing is neither decided already nor skipped by a person.
func (d *decider) mayFire(b dueBeat) bool {
	_, known := d.due.Known[b.Name]
	return !known && !slices.Contains(d.s.Skips, b.Name)
}

// take decides about one firing. passed is false for a firing that is not decided yet; the
// schedule decides about it again after wait, or when one of its jobs ends.
func (d *decider) take(f firing) (wait time.Duration, passed bool) {
	if _, known := d.due.Known[f.Name]; known {
		return 0, true // decided and counted before, for example by a server with other zone data
	}
	if d.skipped(f.dueBeat) {
		return 0, true
	}
	if f.outcome != store.FiringFired {
		d.miss(f, f.outcome, f.reason)
		return 0, true
	}
	if outcome, reason, barred := d.barred(f.Beat); barred {
		d.writeBarred(f.Beat, f.origin, outcome, reason)
		return 0, true
	}
	overlap, blocking := d.overlap()
	switch {
	case overlap == Allow:
		return 0, d.firePaced(f)
	case overlap == BufferOne && d.s.Buffered == nil:
		b := d.row(f.Beat, f.origin, store.FiringBuffered, "")
		b.Decided = d.due.Now
		d.s.Buffered = waiting(b, blocking)
	case overlap == BufferOne && f.member:
		return store.BufferedLook, false // its turn comes when the buffered one has made its job
	default:
		d.s.Counts.SkippedByOverlap++
		row := d.row(f.Beat, f.origin, store.FiringSkippedByOverlap, "An earlier job had not ended.")
		if blocking.State.Unresolved() {
			row.Reason = "The outcome of an earlier job was unknown."
		}
		row.Blocking = blocking.ID
		d.write(row)
	}
	return 0, true
}

// firePaced is fire for a firing of the set that has come. Jobs of members are due a Pace apart,
// in their order, also those of further decisions.
func (d *decider) firePaced(f firing) (passed bool) {
	if !f.member {
		return d.fire(f.Beat, f.origin, f.at)
	}
	at, made := d.due.Now, d.made
	if d.s.CatchUp.Paced.After(at) {
		at = d.s.CatchUp.Paced
	}
	passed = d.fire(f.Beat, f.origin, at)
	if d.made > made && d.s.State == store.ScheduleActive {
		d.s.CatchUp.Paced = at.Add(Pace)
	}
	return passed
}

// skipped passes the firing if a person skipped it, and reports whether it did.
func (d *decider) skipped(b dueBeat) bool {
	i := slices.Index(d.s.Skips, b.Name)
	if i < 0 {
		return false
	}
	d.s.Skips = slices.Delete(slices.Clone(d.s.Skips), i, i+1)
	d.miss(firing{dueBeat: b, origin: store.FiredByTime}, store.FiringSkippedByPerson, "A person skipped it.")
	return true
}

// release makes the job of the buffered firing if no other job blocks it any more. Its start
// window begins now. passed is false if it must wait until further items are read.
func (d *decider) release() (passed bool) {
	b := d.s.Buffered
	if b == nil {
		return true
	}
	if overlap, blocking := d.overlap(); overlap != Allow {
		d.s.Buffered = waiting(*b, blocking)
		return true
	}
	d.s.Buffered = nil
	if passed = d.fire(beatOf(*b), b.Origin, d.due.Now); !passed {
		d.s.Buffered = b
	}
	return passed
}

// ReasonUnresolved is the reason of a buffered firing that waits until a job's outcome is known.
// That may need a person.
const ReasonUnresolved = "It waits until the outcome of an earlier job is known. ResolveJob decides about it."

// waiting returns a buffered firing with the job for which it waits now.
func waiting(b store.Firing, blocking store.OpenJob) *store.Firing {
	b.Blocking, b.Reason = blocking.ID, "It waits for the end of an earlier job."
	if blocking.State.Unresolved() {
		b.Reason = ReasonUnresolved
	}
	return &b
}

// beatOf returns the beat of a stored firing. The schedule may no longer have that time.
func beatOf(f store.Firing) recur.Beat {
	b := recur.Beat{Name: f.Name, Instant: f.Nominal, Fire: f.Nominal, Mark: recur.Mark(f.Mark)}
	if local, err := time.Parse(time.RFC3339, f.LocalTime); err == nil {
		_, b.Offset = local.Zone()
	}
	b.Civil = recur.CivilAt(b.Instant, b.Offset)
	// For a beat that was shifted, only the name has the nominal time.
	name, _, _ := strings.Cut(f.Name, "/")
	if strings.HasPrefix(name, "g") {
		_, name, _ = strings.Cut(name, ":")
	}
	if civil, err := recur.ParseCivil(name); err == nil {
		b.Civil = civil
	}
	return b
}

// localTime returns a beat's instant in its zone.
func localTime(b recur.Beat) string {
	return b.Instant.In(time.FixedZone("", b.Offset)).Format(time.RFC3339)
}

// overlap returns the policy that applies to a firing now, and the job that blocks it.
func (d *decider) overlap() (Overlap, store.OpenJob) {
	out, blocking := Allow, store.OpenJob{}
	if d.made > 0 && d.policies.Overlap != Allow {
		out, blocking = d.policies.Overlap, d.latest
	}
	for _, o := range d.due.Open {
		policy := d.policies.Overlap
		if o.State.Unresolved() {
			policy = d.policies.WhileUnresolved
		}
		if strict := stricter(out, policy); strict != out || blocking.ID.IsZero() {
			out, blocking = strict, o
		}
	}
	return out, blocking
}

// failures counts the newest jobs in a row that ended without an effect, since a caller
// changed or resumed the schedule.
func (d *decider) failures() int {
	n := 0
	for _, e := range d.due.Ended {
		if e.State != job.Failed && e.State != job.Expired || e.Decided.Before(d.s.Updated) {
			break
		}
		n++
	}
	return n
}

// fire makes the job of a firing, or records why there is none. passed is false for a firing
// that must be decided again with further items.
func (d *decider) fire(b recur.Beat, origin store.FiringOrigin, at time.Time) (passed bool) {
	if _, known := d.due.Known[b.Name]; known {
		return true // decided before: it has a job, or a recorded reason for having none
	}
	if outcome, reason, barred := d.barred(b); barred {
		d.writeBarred(b, origin, outcome, reason)
		return true
	}
	err := d.due.Refused[b.Name]
	var made store.NewJob
	var item job.ID
	if err == nil {
		made, item, err = d.make(b)
	}
	switch {
	case errors.Is(err, ErrMoreItems):
		return false
	case errors.Is(err, ErrNoContent): // the waiting items were refused
		return d.fire(b, origin, at)
	case err != nil:
		d.s.Counts.Refused++
		d.write(d.row(b, origin, store.FiringRefused, err.Error()))
		d.pause(store.PausedByRefusal, fmt.Sprintf("The job of %s was refused: %v", b.Name, err))
	default:
		d.add(b, origin, at, made, item)
	}
	return true
}

// add adds the job of a firing to the decision.
func (d *decider) add(b recur.Beat, origin store.FiringOrigin, at time.Time, made store.NewJob, item job.ID) {
	if made.ScheduleTime = at; at.Before(d.due.Now) && origin != store.FiredByTime {
		made.ScheduleTime = time.Time{}
	}
	d.made, d.latest = d.made+1, store.OpenJob{ID: made.Spec.ID, State: job.Scheduled}
	d.s.Run++
	d.s.Counts.Fired++
	count(&d.s, b, origin)
	row := d.row(b, origin, store.FiringFired, "")
	row.Run = d.s.Run
	d.decided++
	d.firings = append(d.firings, store.FiringDecision{Firing: row, Job: &made, Item: item})
	if d.full() {
		d.end()
	}
}

// missAll records that the due firings and the buffered one make no jobs.
func (d *decider) missAll(beats []dueBeat, reason string) {
	d.dropBuffered(reason)
	for _, b := range beats {
		d.miss(firing{dueBeat: b, origin: store.FiredByTime}, store.FiringMissed, reason)
	}
}

// passRounds bounds the rounds of one missRest, of maxBeats each. It takes no more than
// recur.MaxSteps and one search either: a request may wait for it.
const passRounds = 200

// missRest records that the times that have come and are not in came make no jobs. It returns
// how far it came.
func (d *decider) missRest(came span, reason string) span {
	for range passRounds {
		if !came.more || d.spent > recur.MaxSteps || d.meter.Err() != nil {
			break
		}
		came = d.collect(came.passed, 0)
		d.settle(came)
		for _, b := range d.hold(came.beats) {
			if !d.skipped(b) {
				d.miss(firing{dueBeat: b, origin: store.FiredByTime}, store.FiringMissed, reason)
			}
		}
		d.trim()
	}
	return came
}

// trim leaves the newest missed firings in the decision, as many as the ledger takes of one.
func (d *decider) trim() {
	most := len(d.firings) - d.decided - maxLedger
	d.firings = slices.DeleteFunc(d.firings, func(f store.FiringDecision) bool {
		if most <= 0 || !missed(f.Firing.Outcome) {
			return false
		}
		most--
		return true
	})
}

// missed reports whether a decision may leave firings with an outcome out of the ledger.
func missed(o store.FiringOutcome) bool {
	switch o {
	case store.FiringHeld, store.FiringSkippedByPerson, store.FiringCoalesced, store.FiringMissed:
		return true
	default:
		return false
	}
}

// miss counts a firing without a job.
func (d *decider) miss(f firing, outcome store.FiringOutcome, reason string) {
	if _, known := d.due.Known[f.Name]; known {
		return // counted before
	}
	switch outcome {
	case store.FiringHeld:
		d.s.Counts.Held++
	case store.FiringSkippedByPerson:
		d.s.Counts.SkippedByPerson++
	case store.FiringCoalesced:
		d.s.Counts.Coalesced++
	default:
		d.s.Counts.Missed++
	}
	d.write(d.row(f.Beat, f.origin, outcome, reason))
}

// Planned returns the row of a firing that would make a job.
func Planned(b recur.Beat, origin store.FiringOrigin) store.Firing {
	b.Name = BackfillName(b.Name)
	return rowOf(b, origin, store.FiringFired, "")
}

// Emptied returns the row of a planned firing that found no item in the queue.
func Emptied(f store.Firing) store.Firing {
	f.Outcome, f.Reason = store.FiringNoContent, noItem
	return f
}

func (d *decider) row(b recur.Beat, origin store.FiringOrigin, outcome store.FiringOutcome, reason string) store.Firing {
	return rowOf(b, origin, outcome, reason)
}

func rowOf(b recur.Beat, origin store.FiringOrigin, outcome store.FiringOutcome, reason string) store.Firing {
	return store.Firing{
		Name: b.Name, Nominal: b.Instant, LocalTime: localTime(b), Mark: store.TimeMark(b.Mark),
		Origin: origin, Outcome: outcome, Reason: reason,
	}
}

func (d *decider) write(row store.Firing) {
	if !missed(row.Outcome) {
		d.decided++
	}
	d.firings = append(d.firings, store.FiringDecision{Firing: row})
}

func (d *decider) pause(cause store.PauseCause, note string) {
	d.s.State, d.s.PauseCause, d.s.Note, d.s.Next, d.s.CatchUp = store.SchedulePaused, cause, note, time.Time{}, store.CatchUp{}
	d.dropBuffered("The schedule paused itself.") // the note may quote content
}
