package job

import "time"

// firstLook returns the wait from AMBIGUOUS to the first look. A KEYED target may be asked
// again soon, because a repeat under the same key is harmless, unless it may still be
// working on an earlier request: for busy, if it does not dedupe in flight. Every other job
// waits for the fence: a look begun before it may miss a write that is still under way, and
// a new intent would race with that write.
func firstLook(v *View, busy time.Duration) time.Duration {
	fence := max(v.FenceLeft, 0)
	switch v.Class {
	case Keyed:
		wait := v.retry().Replay(len(v.Open), v.Jitter)
		if !v.Traits.DedupesInFlight {
			wait = max(wait, busy)
		}
		return wait
	case Opaque:
		if v.Delivery == AtLeastOnce {
			return fence
		}
		return 0
	default:
		return fence + v.Traits.ReadLag
	}
}

// replayWait returns the wait before the n-th repeat under the same key, and zero
// for targets that have no keys.
func (v *View) replayWait(n int) time.Duration {
	if v.Class != Keyed {
		return 0
	}
	return v.retry().Replay(n, v.Jitter)
}

// beforeRepeat returns for how long a job whose outcome is unknown waits: as long as its target
// asks, and at least as long as it would anyway. A repeat under the key is due no later than it
// must be: once the key may be forgotten, or the time to keep trying is over, the delivery
// decides, and a person need not wait longer to be asked. What a target asks does not count if
// nothing more is sent to it.
//
// words end the reason of a job to which nothing more is sent by the time that its target asks
// for; else they are empty.
func (v *View) beforeRepeat(own, asked time.Duration) (wait time.Duration, words string) {
	var left time.Duration
	switch {
	case v.Class == Opaque && v.Delivery != AtLeastOnce:
		return own, ""
	case v.Class == Opaque:
		if left = v.tryLeft(); asked > left {
			return max(own, left), noRepeatByThen
		}
		return max(own, asked), ""
	case v.Class != Keyed:
		return max(own, asked), ""
	}
	left = v.tryLeft()
	if v.Delivery != AtLeastOnce { // which has other ways, and keeps to what was asked
		left = min(left, v.keyLeft())
	}
	left = max(left, 0)
	if asked > left {
		words = noRepeatByThen
	}
	return min(max(own, asked), left), words
}

// noRepeatByThen ends the reason of a job whose target asks to wait for longer than the job may
// be repeated: it waits until then, and not for as long as the target asks.
const noRepeatByThen = "; no repeat may come so late, so the delivery decides before that"

// decideLookDue decides what the reconciler must do now.
func decideLookDue(v *View) Decision { //nolint:cyclop // one table, read from top to bottom
	switch v.State {
	case Accepted:
		return pollDue(v)
	case Ambiguous:
	default:
		return nothing
	}
	d := keep(v, Ambiguous, CausePolicy)
	switch {
	case v.Class == Keyed && v.CancelAsked.IsZero() && v.mayReplay() && v.repeatWait() > 0:
		d.Cause, d.Delay = CauseLooked, v.repeatWait()
		d.Detail = "too early to repeat: the receiver may still be working on an earlier request"
		return d
	case v.Class == Keyed && v.CancelAsked.IsZero() && v.mayReplay():
		return Decision{Action: ActRearm}
	case v.Class == Keyed && v.FenceLeft > 0:
		// The sender of an attempt that seemed lost may still get its answer.
		d.Cause, d.Delay = CauseLooked, v.FenceLeft
		d.Detail = "too early to give up: a request may still act"
		return d
	case v.Class == Keyed:
		return unresolved(v, d, v.noReplayReason())
	case v.Class != Observable && v.Class != Handle:
		return unresolved(v, d, "the target can neither dedupe nor be looked at")
	case v.Looks >= MaxLooks:
		return unresolved(v, d, "the looks are used up")
	case v.absenceLeft() > 0:
		d.Cause, d.Delay = CauseLooked, v.absenceLeft()
		d.Detail = "too early to look"
		return d
	case v.Class == Handle && v.Handle != "":
		return Decision{Action: ActPoll}
	default:
		return Decision{Action: ActObserve}
	}
}

// pollDue decides whether an ACCEPTED job can and may still be polled.
func pollDue(v *View) Decision {
	switch d := keep(v, Accepted, CausePolicy); {
	case v.Handle == "":
		return unresolved(v, d, "the platform accepted an attempt whose handle is not known")
	case v.Looks >= MaxPolls:
		return unresolved(v, d, "the platform never finished processing")
	default:
		return Decision{Action: ActPoll}
	}
}

// mayReplay reports whether a repeat under the same key is safe and still
// wanted: the target certainly remembers the key, and the job is still tried.
func (v *View) mayReplay() bool {
	return v.tryLeft() > 0 && v.KeyKnown() && v.Attempt < MaxAttempts && v.Looks < MaxLooks
}

// KeyKnown reports whether the target remembers the key for as long as a repeat may
// act, which is until the repeat's own fence. Half of the rest of the key window is a
// margin, because the target's clock may differ from ours.
//
// A key that seems to have been sent in the future has an unknown age: one of the clocks was
// wrong. A difference below a second is normal between the clocks of servers.
func (v View) KeyKnown() bool {
	const apart = time.Second
	return v.KeyAge > -apart && v.keyLeft() > 0
}

// keyLeft returns for how long a repeat under the key may still begin.
func (v *View) keyLeft() time.Duration {
	acts := v.Traits.ActsFor(min(SendTimeout, v.Retry.Timeout()), v.Retry.Timeout()) + v.Traits.Grace
	return (v.Traits.KeyWindow-acts)/2 - v.KeyAge
}

// repeatWait returns how long a repeat under the same key must still wait. A target that
// looks for a key, acts and then stores the key acts twice if the repeat comes before it has
// stored the key. Only the target's own end of the exchange, or else the fence, shows that
// the request before is over.
func (v *View) repeatWait() time.Duration {
	if v.Traits.DedupesInFlight {
		return 0
	}
	return v.busyLeft()
}

// busyLeft returns for how long the target may still be working on an open attempt.
func (v *View) busyLeft() time.Duration {
	left := max(v.EarlierLeft, 0)
	if v.isOpen(v.Attempt) && !v.PeerEnded {
		left = max(left, v.FenceLeft)
	}
	return left
}

func (v *View) noReplayReason() string {
	switch {
	case !v.CancelAsked.IsZero():
		return "a cancel was asked, so the request is not repeated; whether the first one had an effect is unknown"
	case v.tryLeft() <= 0:
		return keptTrying + "; a repeat could act late"
	case !v.KeyKnown():
		return "the receiver may have forgotten the key before a repeat arrives"
	default:
		return "the repeats are used up"
	}
}

// decideLooked judges one finished look.
func decideLooked(v *View, e Looked) Decision {
	o := e.Observation
	if v.State == Claimed && v.Class == Observable && o.Attempt == v.Attempt {
		return lookedFirst(v, e)
	}
	if v.State == Accepted && o.Verdict == SawInconclusive {
		return pollUnread(v, Outcome{Attempt: o.Attempt, Message: o.Detail, RetryAfter: o.RetryAfter})
	}
	if v.State != Ambiguous || o.Attempt != v.Attempt {
		if o.Verdict == SawPresent {
			return late(v, o)
		}
		return nothing
	}
	d := keep(v, Ambiguous, CauseLooked)
	d.Observed = &o
	d.Looks++
	d.Detail, d.Blocked = o.Detail, ""
	switch o.Verdict {
	case SawPresent:
		n := o.Attempt
		if !v.isOpen(n) {
			n = v.unknownAttempt() // it was refused; an earlier attempt made the object
		}
		d.To, d.Attempt = Succeeded, n
		d.Effect = &Effect{
			Attempt: n, Round: v.Round, ExternalID: o.ExternalID, ExternalURL: o.ExternalURL, Proof: ProofObserved,
		}
		d.Settle = []Settled{{Attempt: n, Result: ResultSucceeded}}
		d.CloseOpen = ResultSuperseded
	case SawHandle:
		d.To = Accepted
		d.Settle = []Settled{{Attempt: o.Attempt, Result: ResultAccepted, Handle: o.Handle}}
		d.Looks, d.Negatives = 0, 0
		d.Delay = at(pollWaits, 0)
	case SawCandidates:
		d.To = NeedsResolution
	case SawAbsent:
		return sawAbsent(v, d)
	default:
		if d.Looks >= MaxLooks {
			return unresolved(v, d, "the platform could not be read")
		}
		if e.Sighted {
			d.Negatives = 0 // the object contradicts the absences before it
		}
		d.missed(v, o.RetryAfter)
	}
	return d
}

// missed counts one more look or poll in a row that could not be completed, and sets the
// wait for the next one. A miss is neither an absence nor an answer, so the spacing of
// absences and the pace of polls do not apply. The spacing is kept all the same: a look
// after an absence is due once the spacing is over, and the look after a miss is later.
func (d *Decision) missed(v *View, least time.Duration) {
	d.Misses = v.Misses + 1
	d.Delay = max(least, at(lookWaits, v.Misses))
}

const (
	// newRoundLooks is how many inconclusive looks delay an effect that a person or
	// the policy wants although nothing is proven.
	newRoundLooks = 3
	// refusedLooks is how many looks must see an object before it counts against the
	// platform's own refusal, or before a person is asked which of several objects is
	// this job's. They span more than ten minutes: enough for another job's outcome
	// that is still under way to arrive and claim its object.
	refusedLooks = 6
)

// lookedFirst judges the look before a later arm, while the job is CLAIMED. Every
// earlier attempt is closed by then, but that may have been wrong: an object may
// have been written after its absence was proven, or a person or the policy may
// have taken it for missing. So a proof ends the job, and an uncertain look delays
// the arm. Neither costs an attempt.
//
// In a new round, a person or the policy has decided to send although the outcome
// is unknown. After a person's RESEND, several candidates do not stop the arm: the
// person has ruled on them. A platform that cannot be read delays a new round for
// a short time only.
func lookedFirst(v *View, e Looked) Decision {
	o := e.Observation
	d := keep(v, Claimed, CauseLooked)
	d.Misses = v.Misses
	d.Observed, d.Detail = &o, o.Detail
	d.Looks++
	saw := o.Verdict == SawPresent || o.Verdict == SawCandidates
	ruled := v.NewRound && v.Resolution.resends()
	wait := "waits to be sent again until the platform can be read: an earlier try may have had an effect after all"
	next := max(o.RetryAfter, at(lookWaits, d.Looks-1))
	switch {
	case saw && e.Refused && d.Looks < refusedLooks,
		o.Verdict == SawCandidates && !ruled && d.Looks < refusedLooks && next < v.WindowLeft:
		wait = "waits to be sent again: an object with this content was seen, and it may be another job's"
	case o.Verdict == SawPresent:
		return foundFirst(v, o)
	case o.Verdict == SawCandidates && !ruled:
		d.To = NeedsResolution
		d.Looks = 0
		d.LastError = &Failure{Kind: FailAmbiguous, Message: "several objects at the platform could be this job's effect"}
		return d
	case o.Verdict == SawAbsent, o.Verdict == SawCandidates, v.NewRound && d.Looks >= newRoundLooks:
		d.Looks, d.Delay = 0, KeepDelay // the attempt continues
		return d
	}
	d.To, d.Claims = origin(v), 0
	d.Delay, d.Blocked = next, wait
	return d
}

// foundFirst ends a job whose effect was found before it was sent again.
func foundFirst(v *View, o Observation) Decision {
	d := late(v, o)
	if v.NewRound {
		d.Detail = "an earlier effect, from before the resend, was found; no attempt since is known"
	}
	return d
}

// late records an effect that a look found after the job had moved on.
func late(v *View, o Observation) Decision {
	out := Outcome{Attempt: o.Attempt, Result: ResultSucceeded, ExternalID: o.ExternalID, ExternalURL: o.ExternalURL}
	if o.Attempt < 1 || o.Attempt > v.Attempt {
		return nothing
	}
	d := outcomeSucceeded(v, out, ProofObserved)
	if d.Action == ActWrite {
		d.Observed = &o
	}
	return d
}

// since returns how long ago a look began, by the store's clock, and zero if that
// is not known. The view may be newer than the one for which the look was made: a
// job is read again when its write was stale.
func (v *View) since(begun time.Time) time.Duration {
	if begun.IsZero() || v.Now.IsZero() {
		return 0
	}
	return max(0, v.Now.Sub(begun))
}

// sawAbsent counts a complete absence. Enough of them are a proof for every open
// attempt, because a look reads back to the watermark of the first one.
func sawAbsent(v *View, d Decision) Decision {
	if v.absenceLeft()+v.since(d.Observed.BegunAt) > 0 {
		// A look begun before the fence proves nothing, even if the fence has passed by now.
		if d.Looks >= MaxLooks {
			return unresolved(v, d, "the looks are used up")
		}
		d.Delay = max(0, v.absenceLeft())
		return d
	}
	d.Negatives++
	if d.Negatives < max(1, v.Traits.Negatives) {
		if d.Looks >= MaxLooks {
			return unresolved(v, d, "the looks are used up")
		}
		d.Delay = v.Traits.Spacing
		return d
	}
	if d.Observed.Contradicted {
		// AT_LEAST_ONCE would be refused again, and AT_MOST_ONCE would take a refusal
		// for the effect.
		d.To = NeedsResolution
		return d
	}
	d.CloseOpen = ResultAbsent
	d.Looks, d.Negatives = 0, 0
	switch {
	case !v.CancelAsked.IsZero():
		d.To = Canceled
	default:
		d.LastError = &Failure{Kind: FailTransient, Message: "proven to have had no effect"}
		spend(v, &d, 0, 0)
	}
	return d
}

// lookDeferred judges a look, a poll or a re-arm that was not made. A job that waits for a
// person, for example because its credential was refused, spends no look: waiting would use
// up the budget without any evidence about the effect.
func lookDeferred(v *View, e Deferred) Decision {
	d := same(v, CauseNotStarted)
	d.Detail, d.Blocked = e.Message, e.Message
	d.Delay = max(e.RetryAfter, at(lookWaits, v.Misses))
	d.Hold = e.hold()
	switch e.Kind {
	case FailHeld:
		d.Delay, d.Hold = max(e.RetryAfter, time.Second), sharedHold(e)
	case FailAuth:
	default:
		d.Looks++
		d.missed(v, e.RetryAfter)
		d.Blocked = ""
		return d
	}
	if v.tryLeft() < -MaxHeld {
		d.Blocked = ""
		return unresolved(v, d, e.Message+", for days: what became of this job could not be asked")
	}
	return d
}

// unresolved applies the job's policy to an outcome that stays unknown.
func unresolved(v *View, d Decision, why string) Decision {
	d.Cause, d.Detail, d.Delay = CausePolicy, why, 0
	switch v.Delivery {
	case AtMostOnce:
		d.To = Succeeded
		d.Attempt = v.unknownAttempt()
		d.Effect = &Effect{Attempt: d.Attempt, Round: v.Round, Proof: ProofAssumed}
		d.CloseOpen = ResultSuperseded
		return d
	case AtLeastOnce:
		if v.mayResend() && v.FenceLeft > 0 {
			// The last attempt may still act; a new one must not race with it.
			d.To, d.Cause, d.Delay = v.State, CauseLooked, v.FenceLeft
			return d
		}
		if v.mayResend() {
			d.To = Retrying
			d.Round++
			d.Looks, d.Negatives = 0, 0
			d.CloseOpen = ResultSuperseded
			return d
		}
	case OnceOrAsk:
	}
	d.To = NeedsResolution
	return d
}

// mayResend reports whether delivery AT_LEAST_ONCE may start another round. Every arm counts
// against the attempts, and the time to keep trying and a cancel still apply. A new round of a
// job whose caller gave the effect key needs another key, which only a person can give.
func (v *View) mayResend() bool {
	return v.OwnEffectKey == "" && v.State == Ambiguous && v.CancelAsked.IsZero() && v.tryLeft() > 0 && v.Attempt < v.retry().Attempts()
}
