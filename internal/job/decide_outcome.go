package job

import (
	"slices"
	"strconv"
)

// Rules of this file:
//   - evidence names a job and an attempt, never a version or a state;
//   - a success of any attempt is accepted in every state;
//   - a rejection settles only its own attempt: while another attempt is open, the
//     job's outcome is open;
//   - RETRYING, FAILED and CANCELED require a proof for every attempt that it had no effect.

func decideOutcome(v *View, o Outcome) (Decision, error) {
	if o.Attempt < 1 || o.Attempt > v.Attempt {
		return Decision{}, ErrNoSuchAttempt
	}
	switch o.Result {
	case ResultSucceeded:
		return outcomeSucceeded(v, o, ProofResponse), nil
	case ResultAccepted:
		return outcomeAccepted(v, o), nil
	case ResultRejected, ResultNotSent:
		return outcomeNoEffect(v, o), nil
	default:
		return outcomeUnknown(v, o), nil
	}
}

// outcomeCause returns the cause to record for an outcome. It distinguishes an outcome
// of the present attempt that came in time from one that came after its attempt was
// given up.
func outcomeCause(v *View, o Outcome) Cause {
	switch {
	case o.Polled:
		return CausePolled
	case v.State == Sending && o.Attempt == v.Attempt:
		return CauseAnswered
	default:
		return CauseLateEvidence
	}
}

// settledBy returns how an outcome settles its attempt. Who ended the exchange matters only as
// long as the attempt is open.
func settledBy(o Outcome) Settled {
	return Settled{
		Attempt: o.Attempt, Result: o.Result, Kind: o.Kind, Message: o.Message,
		HTTPStatus: o.HTTPStatus, BytesWritten: o.BytesWritten, Handle: o.Handle, PeerEnded: o.PeerEnded && o.Result.Open(), Answer: o.Answer,
	}
}

func outcomeSucceeded(v *View, o Outcome, proof Proof) Decision {
	if v.State == Succeeded {
		return successAgain(v, o, proof)
	}
	d := keep(v, Succeeded, outcomeCause(v, o))
	d.Attempt = o.Attempt
	d.Settle = []Settled{settledBy(o)}
	d.CloseOpen = ResultSuperseded
	earlier := slices.ContainsFunc(v.Open, func(n int) bool { return n < o.Attempt })
	if v.Class == Keyed && earlier && proof == ProofResponse {
		proof = ProofKeyReplay
	}
	d.Effect = effectOf(v, o, proof)
	return d
}

func effectOf(v *View, o Outcome, proof Proof) *Effect {
	return &Effect{
		Attempt: o.Attempt, Round: v.Round, ExternalID: o.ExternalID, ExternalURL: o.ExternalURL, Proof: proof,
	}
}

// successAgain distinguishes a repeated confirmation of the same effect from a second
// effect. A second effect cannot be undone; it is recorded as an alarm. A KEYED target
// promises one effect for each key, so within a round a second success is a
// confirmation.
func successAgain(v *View, o Outcome, proof Proof) Decision {
	d := same(v, CauseLateEvidence)
	d.Attempt = o.Attempt
	d.Settle = []Settled{settledBy(o)}
	known := v.Effect
	if known == nil {
		return nothing
	}
	otherID := known.ExternalID != "" && o.ExternalID != "" && known.ExternalID != o.ExternalID
	sameID := known.ExternalID != "" && known.ExternalID == o.ExternalID
	switch {
	case (known.Proof == ProofAssumed || known.Proof == ProofOperator) && !otherID:
		d.Effect = effectOf(v, o, proof) // a proof replaces an assumption or a ruling
	case known.Attempt == o.Attempt && !otherID:
		return nothing
	case sameID:
	case v.Class == Keyed && v.Round == 1 && !otherID:
	default:
		d.Cause = CauseDuplicateEffect
		d.Detail = "attempt " + strconv.Itoa(o.Attempt) + " had an effect too, " + o.label()
		if known.Attempt == o.Attempt && known.Proof == ProofObserved && proof == ProofResponse {
			d.Effect = effectOf(v, o, proof) // a direct answer beats an observed one
		}
	}
	return d
}

// outcomeAccepted judges a new handle, or a poll that found the work still in progress.
// Only the last attempt's handle is polled. An earlier attempt that turns out to be
// accepted is recorded as open again, so that the last attempt's outcome alone cannot
// cause another send or a failure.
func outcomeAccepted(v *View, o Outcome) Decision {
	if v.State == Accepted && o.Polled && o.Attempt == v.Attempt {
		d := keep(v, Accepted, CausePolled)
		d.Looks++
		d.Blocked = ""
		if d.Looks >= MaxPolls {
			return unresolved(v, d, "the platform never finished processing")
		}
		d.Delay = max(o.RetryAfter, at(pollWaits, d.Looks))
		return d
	}
	if v.hasEffectOf(o.Attempt) || v.State == Accepted && o.Attempt == v.Attempt && !v.isOpen(o.Attempt) {
		return nothing
	}
	settled := settledBy(o)
	if o.Attempt != v.Attempt || v.State.Terminal() && v.State != Succeeded {
		settled.Result, settled.Kind = ResultUnknown, FailAmbiguous
	}
	d := same(v, outcomeCause(v, o))
	moves := v.State == Claimed || v.State == Retrying || o.Attempt == v.Attempt
	if moves && !v.State.Terminal() && v.State != Accepted {
		d = keep(v, Accepted, outcomeCause(v, o))
		d.Looks, d.Negatives = 0, 0
		d.Delay = at(pollWaits, 0)
	}
	if v.State == Succeeded {
		settled.Result = ResultAccepted // the job has succeeded; the attempt need not stay open
	}
	d.Attempt, d.Settle = o.Attempt, []Settled{settled}
	return d
}

// hasEffectOf reports whether the job ended by a proof of attempt n's effect. No
// later evidence about n can weaken that proof.
func (v *View) hasEffectOf(n int) bool {
	return v.State == Succeeded && v.Effect != nil && v.Effect.Attempt == n && v.Effect.Proof != ProofAssumed
}

func outcomeUnknown(v *View, o Outcome) Decision {
	o.Result, o.Kind = ResultUnknown, FailAmbiguous
	if v.State == Sending && o.Attempt == v.Attempt {
		d := keep(v, Ambiguous, CauseAnswered)
		d.Settle = []Settled{settledBy(o)}
		d.LastError = &Failure{Kind: FailAmbiguous, Message: o.Message, HTTPStatus: o.HTTPStatus}
		d.Detail = o.Message
		d.Looks, d.Negatives = 0, 0
		busy := v.EarlierLeft
		if !o.PeerEnded {
			busy = max(busy, v.FenceLeft)
		}
		var words string
		d.Delay, words = v.beforeRepeat(firstLook(v, busy), o.RetryAfter)
		d.LastError.Message += words
		return d
	}
	if o.Polled {
		return pollUnread(v, o)
	}
	if !v.isOpen(o.Attempt) {
		return nothing // an unknown outcome does not undo a proof
	}
	d := same(v, CauseLateEvidence)
	d.Attempt, d.Settle = o.Attempt, []Settled{settledBy(o)}
	return d
}

// pollUnread counts a poll without an answer. Such a poll is no evidence about the attempt,
// and is repeated soon, however many polls were answered before.
func pollUnread(v *View, o Outcome) Decision {
	d := pollUndecided(v, o)
	if d.Cause == CausePolled {
		d.missed(v, o.RetryAfter)
	}
	return d
}

// pollEarly counts a poll that was answered with a refusal, but possibly before the commit
// request acted. Such a refusal is no proof yet.
func pollEarly(v *View, o Outcome) Decision {
	d := pollUndecided(v, o)
	if d.Cause == CausePolled {
		d.Delay = max(o.RetryAfter, at(pollWaits, d.Looks), v.absenceLeft())
	}
	return d
}

// pollUndecided counts a poll that decided nothing. The caller sets the wait, unless the
// polls are used up.
func pollUndecided(v *View, o Outcome) Decision {
	limit := MaxPolls
	switch {
	case o.Attempt != v.Attempt:
		return nothing
	case v.State == Ambiguous:
		limit = MaxLooks
	case v.State != Accepted:
		return nothing
	}
	d := keep(v, v.State, CausePolled)
	d.Looks++
	d.Detail, d.Blocked = o.Message, ""
	if d.Looks >= limit {
		return unresolved(v, d, "the platform could not be asked")
	}
	return d
}

func outcomeNoEffect(v *View, o Outcome) Decision {
	if v.hasEffectOf(o.Attempt) {
		return nothing
	}
	polled := o.Polled && o.Attempt == v.Attempt
	if polled && v.isOpen(o.Attempt) && v.absenceLeft() > 0 && v.State != Sending {
		return pollEarly(v, o)
	}
	if v.State == Accepted && o.Attempt == v.Attempt && !polled {
		return nothing // only polls decide about an accepted attempt
	}
	if !v.settles(o, polled) {
		if !v.isOpen(o.Attempt) {
			return nothing // known already: the same outcome comes again because its write was not confirmed
		}
		d := same(v, outcomeCause(v, o))
		d.Attempt, d.Settle, d.Detail = o.Attempt, []Settled{settledBy(o)}, o.Message
		return d
	}
	if len(others(v, o.Attempt)) > 0 {
		return othersOpen(v, o)
	}
	d := keep(v, Retrying, outcomeCause(v, o))
	d.Looks, d.Negatives = 0, 0
	d.Attempt, d.Settle, d.Detail = o.Attempt, []Settled{settledBy(o)}, o.Message
	d.LastError = &Failure{Kind: o.Kind, Message: o.Message, HTTPStatus: o.HTTPStatus}
	return provenWithout(v, d, o)
}

// settles reports whether an outcome without effect moves the job out of its state.
// Otherwise it is only recorded with its attempt.
func (v *View) settles(o Outcome, polled bool) bool {
	switch v.State {
	case Sending:
		return o.Attempt == v.Attempt
	case Accepted:
		return polled
	case Ambiguous:
		return v.isOpen(o.Attempt)
	case NeedsResolution:
		return v.isOpen(o.Attempt) || polled && len(v.Open) == 0
	default:
		return false
	}
}

// othersOpen settles one attempt without effect while another attempt is unknown.
// The job's outcome stays open.
func othersOpen(v *View, o Outcome) Decision {
	d := same(v, outcomeCause(v, o))
	words := ""
	switch v.State {
	case Sending:
		// A refused repeat counts as a look, so that the waits grow.
		d = keep(v, Ambiguous, outcomeCause(v, o))
		d.Looks++
		d.Delay, words = v.beforeRepeat(max(firstLook(v, v.EarlierLeft), v.replayWait(d.Looks)), o.RetryAfter)
	case Accepted:
		d = unresolved(v, keep(v, Accepted, CausePolled), "the accepted attempt had no effect; an earlier one is unknown")
	default:
	}
	d.Attempt, d.Settle, d.Detail = o.Attempt, []Settled{settledBy(o)}, o.Message
	d.LastError = &Failure{Kind: o.Kind, Message: o.Message + words, HTTPStatus: o.HTTPStatus}
	d.Hold = o.hold()
	return d
}

// provenWithout decides the next state of a job when every attempt is proven to have
// had no effect, by the kind of the last refusal.
func provenWithout(v *View, d Decision, o Outcome) Decision {
	// A refusal concerns the account, so its hold applies in every case.
	d.Hold = o.hold()
	if !v.CancelAsked.IsZero() {
		d.To = Canceled
		return d
	}
	switch {
	case o.Kind == FailPermanent || o.Kind == FailEgressDenied:
		d.To = Failed
	case v.Attempt >= MaxAttempts:
		spend(v, &d, 0, 0) // ends the job, whatever the kind
	case o.Kind == FailAuth:
		d.Blocked = o.Message
	case o.Kind == FailRateLimited && o.OwnWait:
		d.Delay, d.Misses = d.Hold.For, v.Misses
	case o.Kind == FailRateLimited:
		d.limited(v)
	default:
		spend(v, &d, o.RetryAfter, o.RetryFor)
	}
	return d
}

func (o Outcome) label() string {
	if o.ExternalID != "" {
		return "with id " + o.ExternalID
	}
	return "without an id"
}
