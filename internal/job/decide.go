package job

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// View is what Decide knows of a job when it judges. Every duration was measured
// on the store's clock at the moment the job was read. Decide returns delays,
// and the store adds them to its own clock.
type View struct {
	Job
	// Now is the store's clock at that moment; zero: not known. Only times that were
	// read on that clock are compared with it.
	Now time.Time
	// Open lists the attempts without a proof either way, in rising order. It
	// includes the present attempt of a SENDING job. A job that is SCHEDULED,
	// CLAIMED or RETRYING has none.
	Open []int
	// WindowLeft is the time until StartDeadline; negative when over.
	WindowLeft time.Duration
	// WindowHeld reports that a window that is over begins again, because a stop holds windows.
	WindowHeld bool
	// FenceLeft is the time until the last attempt's fence (answer deadline plus
	// grace); zero or negative once passed, or when nothing was armed.
	FenceLeft time.Duration
	// DueLeft is the time until NextAt: for a CLAIMED job, until its lease ends.
	DueLeft time.Duration
	// KeyAge is the time since the first arm of this round: how long the target
	// has known our key.
	KeyAge time.Duration
	// NewRound: a person or the policy wants a new effect, and no attempt of the
	// present round has been armed.
	NewRound bool
	// PeerEnded reports whether the target itself ended the last attempt's exchange.
	PeerEnded bool
	// EarlierLeft is the time until the last fence of the earlier open attempts whose
	// exchange the target has not ended; zero or negative if there is none, or once passed.
	EarlierLeft time.Duration
	// Handle is the last attempt's durable handle, if any.
	Handle string
	// Traits are the connector's facts about this connection.
	Traits Traits
	// Jitter in [0,1) shortens back-offs.
	Jitter float64
}

// Traits are a connector's facts about one connection's target.
type Traits struct {
	Class Class
	// KeyWindow is how long a KEYED target remembers a key.
	KeyWindow time.Duration
	// DedupesInFlight reports whether a KEYED target may receive a key again at any time:
	// it stores the key together with the effect, or holds it from the request's first byte
	// on, so that two requests with one key that are processed concurrently have one effect.
	// A repeat to any other KEYED target waits for the end of the request before it.
	DedupesInFlight bool
	// MaxHandling is how long the target may work on a request that it has whole; zero: no
	// longer than the answer is waited for.
	MaxHandling time.Duration
	// ReadLag is how long after a write a look may still miss it.
	ReadLag time.Duration
	// Negatives complete absences, Spacing apart, prove an absence. Zero means 1.
	Negatives int
	Spacing   time.Duration
	// Grace is how long after its answer deadline a request may still act. It belongs
	// to the engine, not to the target.
	Grace time.Duration
	// Retry is what the connection and its connector state, as of now: an operator may
	// lengthen it while the target is down. What the job states comes first. It is the
	// engine's to set, as Grace is. Nil: nothing.
	Retry *RetryPolicy
}

// ActsFor returns how long after its arm a request may act at the target, without the grace,
// if its last byte is written within sendBy and its answer is waited for until answerBy.
func (t Traits) ActsFor(sendBy, answerBy time.Duration) time.Duration {
	return max(answerBy, sendBy+t.MaxHandling)
}

// Looks and polls have budgets of their own; past them the policy decides.
const (
	// MaxLooks bounds the looks of one chain.
	MaxLooks = 50
	// MaxPolls bounds the polls of one handle: about 24 hours.
	MaxPolls = 1500
	// MaxHeld bounds how long past its time to keep trying a job with an unknown outcome waits
	// for something that every look needs, above all a credential that a person has to
	// replace. It is a weekend and a day more.
	MaxHeld = 72 * time.Hour
)

// Action is what the caller must do with a decision.
type Action uint8

const (
	// ActWrite: write the decision. The zero value.
	ActWrite Action = iota
	// ActNothing: the evidence changes nothing; write nothing.
	ActNothing
	// ActRearm: prepare and arm again with the same effect key.
	ActRearm
	// ActObserve: look at the platform, then come back with Looked.
	ActObserve
	// ActPoll: poll the handle, then come back with a polled Outcome.
	ActPoll
)

// Settled closes one attempt, or records what is known about it.
type Settled struct {
	Attempt      int
	Result       Result
	Kind         FailureKind
	Message      string
	HTTPStatus   int
	BytesWritten int64
	Handle       string
	// PeerEnded reports whether the target itself ended the exchange (see Outcome).
	PeerEnded bool
	// Answer replaces the stored answer of the target; nil keeps it.
	Answer *Answer
}

// HoldUntil asks for a hold on the job's hold key.
type HoldUntil struct {
	// Auth, if not zero, asks for a hold until the credential is replaced, provided that
	// CredentialVersion is still the present one. If zero, the hold is a rate limit of
	// length For.
	Auth              AuthCause
	CredentialVersion int
	For               time.Duration
	Reason            string
}

// Decision is what to write: absolute new values, to be stored only if the job
// still has the version at which the View was read. Zero Delay means due
// immediately.
type Decision struct {
	Action Action
	To     State
	Cause  Cause
	// Attempt is the attempt concerned, 0 for none.
	Attempt int
	// Delay until the job is next looked at, for states that wait for something.
	Delay  time.Duration
	Detail string

	Round, Failures, Claims, Looks, Negatives, Misses int

	Settle []Settled
	// CloseOpen is the new result of every other open attempt; zero leaves them open.
	CloseOpen Result
	LastError *Failure // nil keeps the old one; At is set by the store
	Effect    *Effect  // At is set by the store
	Ruling    *Resolution
	Hold      *HoldUntil
	// Cancel records that a cancel was asked; Uncancel removes that record.
	Cancel, Uncancel bool
	// NewWindow restarts the start window at the time when the job is next due: the job has
	// not begun.
	NewWindow bool
	// WindowAgain begins the window again now, of whichever kind it is (Job.WindowAgain).
	WindowAgain bool
	// KeepTrying, if not zero, is how long the job is tried, from when it began (Job.Tried).
	KeepTrying time.Duration
	// StartAt is the instant that a client asked for. The job is due then, but not
	// before Delay is over. Zero: Delay alone counts. It is the only instant in a
	// decision: it comes from the client and is not compared with our clocks.
	StartAt time.Time
	// Reschedule makes the time when the job is next due its schedule time. Window,
	// if set, becomes the length of its start window.
	Reschedule bool
	Window     time.Duration
	Blocked    string
	// Observed is the look to record, if any.
	Observed *Observation
}

// ErrNoSuchAttempt is returned for evidence that names an attempt that was never armed.
var ErrNoSuchAttempt = errors.New("evidence for an attempt that was never armed")

// StateError is returned for a request that does not fit the job's state.
type StateError struct {
	Current State
	Allowed []State
	// Cause is the obstacle; zero: the state itself.
	Cause StateCause
	// Why explains what the states alone do not show.
	Why string
	// Fields, for an update, are the fields that cannot change in this state.
	Fields Fields
	// FenceLeft is how long the last attempt may still act, with FenceStands.
	FenceLeft time.Duration
	// Predecessor is the job to retry first, with PredecessorStands.
	Predecessor ID
}

// StateCause is what keeps a job in its state.
type StateCause int

// The causes. With each of them the state alone would allow the request.
const (
	_ StateCause = iota
	// FenceStands: the last attempt may still act.
	FenceStands
	// PredecessorStands: the job that it replies to ended without success.
	PredecessorStands
	// NoAttemptLeft: the job has had MaxAttempts.
	NoAttemptLeft
	// AttemptStands: an attempt is under way after the job's end.
	AttemptStands
)

func (e *StateError) Error() string {
	msg := fmt.Sprintf("the job is %s", e.Current)
	if e.Cause == 0 {
		msg += fmt.Sprintf("; allowed: %v", e.Allowed)
	}
	if e.Why != "" {
		msg += ": " + e.Why
	}
	return msg
}

// Decide judges one piece of evidence. No other code does. The same view and
// evidence always result in the same decision. It fails with a *StateError for a
// request that does not fit the state, and with ErrNoSuchAttempt for evidence
// about an attempt that was never armed.
func Decide(view View, e Evidence) (Decision, error) {
	v := &view // it is large, and no rule changes it
	var d Decision
	var err error
	switch e := e.(type) {
	case Outcome:
		d, err = decideOutcome(v, e)
	case Deferred:
		d = decideDeferred(v, e)
	case LeaseOver:
		d = decideLeaseOver(v)
	case FenceOver:
		d = decideFenceOver(v)
	case SenderLost:
		d = decideSenderLost(v, e)
	case WindowOver:
		d = decideWindowOver(v)
	case PredecessorEnded:
		d = decidePredecessorEnded(v)
	case Missed:
		d = decideMissed(v, e)
	case LookDue:
		d = decideLookDue(v)
	case Looked:
		d = decideLooked(v, e)
	case AlreadyPresent:
		d = decideAlreadyPresent(v, e)
	case Restored:
		d = decideRestored(v, e)
	case Freed:
		d = decideFreed(v, e)
	default:
		d, err = decideRequest(v, e)
	}
	if err != nil {
		return Decision{}, err
	}
	if d.Action == ActWrite && !Legal(v.State, d.To) {
		return Decision{}, fmt.Errorf("decide: %s to %s on %T is no legal transition", v.State, d.To, e)
	}
	return d, nil
}

// keep returns a decision that moves the job to a state and keeps every counter except
// Misses. It counts misses in a row, and any other evidence ends the row.
func keep(v *View, to State, cause Cause) Decision {
	d := Decision{
		To: to, Cause: cause, Attempt: v.Attempt, Round: v.Round, Failures: v.Failures,
		Claims: v.Claims, Looks: v.Looks, Negatives: v.Negatives,
	}
	if v.State == to {
		d.Blocked = v.Blocked
	}
	return d
}

// same returns a decision that keeps the state, the due time and every counter.
func same(v *View, cause Cause) Decision {
	d := keep(v, v.State, cause)
	d.Delay, d.Misses = KeepDelay, v.Misses
	return d
}

// KeepDelay is the Delay that leaves the due time as it is.
const KeepDelay time.Duration = -1

var nothing = Decision{Action: ActNothing}

// origin returns the state to which a job goes back if it was leased and not armed.
// Going back costs no attempt.
func origin(v *View) State {
	if v.Attempt == 0 && v.Failures == 0 && v.Resolution == nil {
		return Scheduled
	}
	return Retrying
}

// isOpen reports whether attempt n is without a proof either way.
func (v *View) isOpen(n int) bool { return slices.Contains(v.Open, n) }

// unknownAttempt returns the newest open attempt, the one most likely to have an
// unconfirmed effect. If no attempt is open, it returns the last attempt.
func (v *View) unknownAttempt() int {
	if len(v.Open) == 0 {
		return v.Attempt
	}
	return v.Open[len(v.Open)-1]
}

// absenceLeft returns the time until an absence at the platform can count as
// evidence: until the last attempt can no longer act and a look would see its
// write, if there was one.
func (v *View) absenceLeft() time.Duration { return v.FenceLeft + v.Traits.ReadLag }

// others returns the open attempts other than n.
func others(v *View, n int) []int {
	return slices.DeleteFunc(slices.Clone(v.Open), func(o int) bool { return o == n })
}

// decideWindowOver ends jobs that wait for an attempt and have run out of time: as EXPIRED if
// they have not begun, and otherwise as FAILED. A job that is being sent, or whose outcome is
// open, is ended by its outcome. A window that a stop holds begins again instead.
func decideWindowOver(v *View) Decision {
	if v.State != Scheduled && v.State != Retrying && v.State != Claimed {
		return nothing
	}
	if v.WindowLeft > 0 {
		return nothing // the job was moved to a later window meanwhile
	}
	if v.WindowHeld {
		return windowAgain(v)
	}
	if v.KeepTrying > 0 {
		d := keep(v, Failed, CauseWindowOver)
		d.LastError = exhausted(v.LastError, keptTrying)
		return d
	}
	d := keep(v, Expired, CauseWindowOver)
	msg := "the start window passed before the job could start"
	if waits := !v.WaitsFor.IsZero(); waits || v.LastError == nil {
		if waits {
			msg = "the wait window passed while it waited for job " + v.WaitsFor.String()
		}
		d.LastError = &Failure{Kind: FailWindowOver, Message: msg}
	}
	return d
}

// windowAgain begins a window again. A claimed job goes back: its worker has judged the window that
// is over.
func windowAgain(v *View) Decision {
	d := same(v, CauseWindowOver)
	if v.State == Claimed {
		d.To, d.Delay = origin(v), 0
		d.Blocked = ""
	}
	d.WindowAgain = true
	d.Detail = "the window ended in a pause that holds windows: it begins again"
	return d
}

// decidePredecessorEnded ends a reply whose predecessor ended without success. RetryJob can
// restart it once its predecessor goes on.
func decidePredecessorEnded(v *View) Decision {
	if !v.State.Runnable() || v.WaitsFor.IsZero() || v.PredecessorEnd == 0 {
		return nothing
	}
	d := keep(v, Canceled, CausePredecessorEnded)
	d.Detail = fmt.Sprintf("job %s, which it replies to, ended as %s", v.WaitsFor, v.PredecessorEnd)
	d.LastError = &Failure{
		Kind: FailPredecessorEnded, Message: d.Detail + "; retry that one first, and then this one",
	}
	return d
}

// decideMissed ends a job that fell due in a pause, even if its start window is still open.
// A job that was due before the pause, or that waits for another job, did not miss its time
// because of the pause.
func decideMissed(v *View, m Missed) Decision {
	if !v.State.Runnable() || !v.WaitsFor.IsZero() || v.DueLeft > 0 || v.NextAt.Before(m.Since) {
		return nothing
	}
	d := keep(v, Expired, CauseWindowOver)
	d.Detail = "the job fell due while its connection was paused"
	d.LastError = &Failure{
		Kind: FailWindowOver, Message: d.Detail + ", and what was missed was to expire when the pause ended",
	}
	return d
}

// decideAlreadyPresent ends a job whose content is at the platform without being its effect:
// nothing was sent, or no earlier attempt had an effect and the object is none of theirs.
func decideAlreadyPresent(v *View, e AlreadyPresent) Decision {
	if v.State != Claimed || len(v.Open) > 0 || v.SkipIfPresent == 0 {
		return nothing
	}
	d := keep(v, Canceled, CauseAlreadyPresent)
	seen := e.Observation
	seen.Attempt, seen.Verdict = 0, SawPresent
	d.Observed, d.Detail = &seen, seen.Detail
	d.LastError = &Failure{Kind: FailAlreadyPresent, Message: "the content is there already; no attempt of this job is known"}
	if v.Attempt > 0 {
		d.LastError.Message = "the content is there already; it was not sent again"
	}
	if seen.ExternalID != "" {
		d.LastError.Message += ": " + seen.ExternalID
	}
	return d
}

func decideLeaseOver(v *View) Decision {
	if v.State != Claimed || v.DueLeft > 0 {
		return nothing // no lease, or a newer one
	}
	return claimDied(v, CauseLeaseExpired)
}

// claimDied ends a claim whose holder seems to have died before it stored an intent.
func claimDied(v *View, cause Cause) Decision {
	d := keep(v, origin(v), cause)
	d.Claims++
	if d.Claims >= MaxClaims {
		d.To = Failed
		d.LastError = &Failure{Kind: FailWorkerCrash, Message: "workers died preparing this job, several times in a row"}
		return d
	}
	d.Delay = at(claimWaits, d.Claims-1)
	return d
}

func decideFenceOver(v *View) Decision {
	if v.State != Sending || v.FenceLeft > 0 {
		return nothing // no attempt under way, or a newer one that may still act
	}
	d := givenUp(v, CauseFencePassed, silentSender(v))
	d.Delay = firstLook(v, v.busyLeft())
	return d
}

// givenUp settles the present attempt, which has no outcome, as unknown.
func givenUp(v *View, cause Cause, msg string) Decision {
	d := keep(v, Ambiguous, cause)
	d.Settle = []Settled{{Attempt: v.Attempt, Result: ResultUnknown, Kind: FailAmbiguous, Message: msg}}
	d.LastError, d.Detail = &Failure{Kind: FailAmbiguous, Message: msg}, msg
	d.Looks, d.Negatives = 0, 0
	return d
}

// silentSender is the error of an attempt of which no outcome is known at its fence.
func silentSender(v *View) string {
	if v.Worker == "" {
		return "no outcome was recorded while the request could still act; the server that was sending it may have died"
	}
	return v.Worker + " recorded no outcome while the request could still act; it may have died in mid-send"
}

// lostSender is the error of an attempt that was settled as unknown before its fence.
func lostSender(v *View) string {
	const unknown = " is gone; whether the request had an effect is unknown"
	if v.Worker == "" {
		return "the server that was sending this job" + unknown
	}
	return v.Worker + ", which was sending this job," + unknown
}

// decideSenderLost decides about a job before its lease or its fence ends.
func decideSenderLost(v *View, e SenderLost) Decision {
	if v.State == Claimed {
		return claimantLost(v)
	}
	return attemptLost(v, e)
}

// claimantLost ends a claim before its lease does. The holder may still be alive. That does
// no harm: it has sent nothing, and its arm names a claim that no longer exists. If an
// earlier claim of the job died too, the job itself may be what crashes the servers, and it
// waits for the end of its lease.
func claimantLost(v *View) Decision {
	if v.DueLeft <= 0 || v.Claims > 0 {
		return nothing
	}
	return claimDied(v, CauseSenderLost)
}

// attemptLost settles an attempt as unknown before its fence, if the job can be repeated
// before the fence. The sender may still be alive, so nothing else follows from its
// silence: only a repeat under the same key needs no fence, at a target that treats two
// requests with one key as one. Any other job stays SENDING until its fence: its sender may
// still save its handle, and the request counts as in flight.
func attemptLost(v *View, e SenderLost) Decision {
	if v.State != Sending || v.FenceLeft <= 0 {
		return nothing // its outcome came, or its fence has passed
	}
	if !v.repeatsInFlight() || !v.CancelAsked.IsZero() || !v.mayReplay() {
		return nothing
	}
	d := givenUp(v, CauseSenderLost, lostSender(v))
	d.Delay = min(e.Wait, v.FenceLeft)
	return d
}

// repeatsInFlight reports whether a repeat under the same key may be made while the sender
// of the present attempt may still be sending. If an earlier attempt is unknown too, the job
// itself may be what crashes the servers, and it waits for its fence.
func (v *View) repeatsInFlight() bool {
	return v.Class == Keyed && v.Traits.DedupesInFlight && len(v.Open) == 1
}

// decideDeferred judges a lease that ended before its arm. A CLAIMED job has no
// open attempt. An AMBIGUOUS job, leased for a re-arm, stays AMBIGUOUS.
func decideDeferred(v *View, e Deferred) Decision {
	if v.State == Ambiguous || v.State == Accepted {
		return lookDeferred(v, e)
	}
	if v.State != Claimed {
		return nothing
	}
	d := keep(v, origin(v), CauseNotStarted)
	d.Claims = 0
	d.Detail = e.Message
	if e.Kind == FailHeld || e.Kind == FailAuth {
		d.Misses = v.Misses // the target was not asked
	}
	if e.Kind == FailHeld {
		d.Hold = sharedHold(e)
		d.Delay = e.RetryAfter
		d.Blocked = e.Message
		return d
	}
	d.LastError = &Failure{Kind: e.Kind, Message: e.Message}
	d.Hold = e.hold()
	switch e.Kind {
	case FailAuth:
		d.Blocked = e.Message
	case FailRateLimited:
		d.limited(v)
	case FailPermanent, FailEgressDenied:
		d.To = Failed
	default:
		spend(v, &d, e.RetryAfter, 0)
	}
	return d
}

// limited has a job wait for a rate limit: as long as its target asks, and at least as long as
// after so many failures. It costs no attempt, so a target that asks for no time would otherwise
// get requests without end. Only the time to keep trying ends it.
func (d *Decision) limited(v *View) {
	retry := v.retry()
	d.Misses = v.Misses + 1
	d.Delay = max(d.Hold.For, retry.Backoff(d.Misses, v.Jitter))
	if v.KeepTrying > 0 && d.Delay >= v.tryLeft() {
		d.To, d.Delay = Failed, 0
		d.LastError = exhausted(d.LastError, endsBeforeNext)
	}
}

// decideFreed makes a blocked job due. A job that waits for something else (a
// back-off, its time, or its next look before an arm) goes on waiting.
func decideFreed(v *View, f Freed) Decision {
	if !v.State.Runnable() || v.Blocked == "" || v.Looks > 0 || v.DueLeft <= 0 {
		return nothing
	}
	d := keep(v, v.State, CauseNotStarted)
	d.Detail, d.Misses = f.Detail, v.Misses
	return d
}

func (e Deferred) hold() *HoldUntil {
	return holdFor(e.Kind, e.RetryAfter, e.CredentialVersion, e.Auth, e.Message)
}

func (o Outcome) hold() *HoldUntil {
	return holdFor(o.Kind, o.RetryAfter, o.CredentialVersion, o.Auth, o.Message)
}

// holdFor returns the hold that a refusal asks for, and nil for kinds that ask for none.
func holdFor(kind FailureKind, after time.Duration, credential int, auth AuthCause, why string) *HoldUntil {
	switch kind {
	case FailAuth:
		return &HoldUntil{Auth: cmp.Or(auth, AuthRefused), CredentialVersion: credential, Reason: why}
	case FailRateLimited:
		return &HoldUntil{For: max(after, time.Second), Reason: why}
	default:
		return nil
	}
}

// sharedHold returns the hold for an obstacle in the way of every job with the hold key, and
// nil for an obstacle that concerns this job only.
func sharedHold(e Deferred) *HoldUntil {
	if e.HoldFor <= 0 {
		return nil
	}
	return &HoldUntil{For: e.HoldFor, Reason: e.Message}
}

// retry returns the policy in force, without the general defaults.
func (v *View) retry() RetryPolicy {
	if v.Traits.Retry == nil {
		return v.Retry
	}
	return v.Retry.Over(*v.Traits.Retry)
}

// tryLeft returns for how long the job may still be tried: until the end of its start window,
// or since it has begun, for as long as the policy in force keeps trying.
func (v *View) tryLeft() time.Duration {
	if v.KeepTrying == 0 {
		return v.WindowLeft
	}
	return v.WindowLeft + v.retry().Keep() - v.KeepTrying
}

// triedFor returns how long ago the job began.
func (v *View) triedFor() time.Duration {
	if v.KeepTrying == 0 {
		return 0
	}
	return v.KeepTrying - v.WindowLeft
}

// Why a job that has begun ends by time alone.
const (
	keptTrying     = "the time to keep trying is over"
	endsBeforeNext = "the time to keep trying ends before the next attempt"
)

// spend counts one failure against the budget: the job becomes RETRYING after a back-off, but
// not before least is over, or FAILED if no further attempt fits. A start that failed has begun
// the job. worth, if not zero, is how long after that such a failure is worth another attempt.
func spend(v *View, d *Decision, least, worth time.Duration) {
	retry := v.retry()
	d.Failures++
	d.KeepTrying = retry.Keep()
	left := d.KeepTrying
	if v.KeepTrying > 0 {
		left = v.tryLeft()
	}
	d.To, d.Delay = Retrying, max(retry.Backoff(d.Failures, v.Jitter), least)
	var why string
	switch {
	case d.Failures >= retry.Attempts() || v.Attempt >= MaxAttempts:
		why = "the attempts are used up"
	case left <= 0:
		why = keptTrying
	case d.Delay >= left:
		why = endsBeforeNext
	case worth > 0 && v.triedFor()+d.Delay >= worth:
		why = "the time for which this answer is worth another attempt ends before the next one"
	default:
		return
	}
	d.To, d.Delay = Failed, 0
	d.LastError = exhausted(d.LastError, why)
}

// exhausted returns the failure of a job that is no longer tried, with what failed last.
func exhausted(last *Failure, why string) *Failure {
	out := &Failure{Kind: FailExhausted, Message: why}
	if last != nil && last.Message != "" {
		out.Message += "; the last one: " + last.Message
	}
	if last != nil {
		out.HTTPStatus = last.HTTPStatus
	}
	return out
}
