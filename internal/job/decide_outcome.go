package job

import "time"

// Rules of this file:
//   - evidence addresses (job, attempt), never a version or a state;
//   - a success of any attempt is accepted in every state;
//   - a rejection settles only its own attempt: while another one is open, the
//     job's outcome is open;
//   - RETRYING, FAILED and CANCELED need every attempt proven without effect.

func decideOutcome(v View, o Outcome) (Decision, error) {
	if o.Attempt < 1 || o.Attempt > v.Attempt {
		return Decision{}, ErrNoSuchAttempt
	}
	switch o.Result {
	case ResultSucceeded:
		return outcomeSucceeded(v, o), nil
	case ResultAccepted:
		return outcomeAccepted(v, o), nil
	case ResultRejected, ResultNotSent:
		return outcomeNoEffect(v, o), nil
	default:
		return outcomeUnknown(v, o), nil
	}
}

// outcomeCause names an outcome that came in time, from the present attempt,
// apart from one that came after its attempt was given up.
func outcomeCause(v View, o Outcome) Cause {
	switch {
	case o.Polled:
		return CausePolled
	case v.State == Sending && o.Attempt == v.Attempt:
		return CauseAnswered
	default:
		return CauseLateEvidence
	}
}

func settledBy(o Outcome) Settled {
	return Settled{
		Attempt: o.Attempt, Result: o.Result, Kind: o.Kind, Message: o.Message,
		HTTPStatus: o.HTTPStatus, BytesWritten: o.BytesWritten, Handle: o.Handle,
	}
}

func outcomeSucceeded(v View, o Outcome) Decision {
	if v.State == Succeeded {
		return successAgain(v, o)
	}
	d := keep(v, Succeeded, outcomeCause(v, o))
	d.Attempt = o.Attempt
	d.Settle = []Settled{settledBy(o)}
	d.CloseOpen = ResultSuperseded
	proof := ProofResponse
	if v.Class == Keyed && len(others(v, o.Attempt)) > 0 {
		proof = ProofKeyReplay
	}
	d.Effect = &Effect{
		Attempt: o.Attempt, Round: v.Round, ExternalID: o.ExternalID, ExternalURL: o.ExternalURL, Proof: proof,
	}
	return d
}

// successAgain tells a repeated confirmation of the same effect from a second
// effect. A second one cannot be undone; it is recorded so that somebody learns
// of it. Within a round a KEYED target has one effect by its own promise.
func successAgain(v View, o Outcome) Decision {
	d := same(v, CauseLateEvidence)
	d.Attempt = o.Attempt
	d.Settle = []Settled{settledBy(o)}
	known := v.Effect
	switch {
	case known == nil || known.Attempt == o.Attempt:
		return nothing
	case known.Proof == ProofAssumed || known.Proof == ProofOperator:
		d.Effect = &Effect{Attempt: o.Attempt, Round: v.Round, ExternalID: o.ExternalID, ExternalURL: o.ExternalURL, Proof: ProofResponse}
	case known.ExternalID == o.ExternalID && known.ExternalID != "":
	case v.Class == Keyed && v.Round == 1 && known.ExternalID == o.ExternalID:
	default:
		d.Cause = CauseDuplicateEffect
		d.Detail = "attempt " + o.label() + " had an effect too"
	}
	return d
}

func outcomeAccepted(v View, o Outcome) Decision {
	if v.State.Terminal() {
		d := same(v, CauseLateEvidence)
		d.Attempt, d.Settle = o.Attempt, []Settled{settledBy(o)}
		return d
	}
	if v.State == Accepted {
		// Still in progress, says a poll: wait, or give up after the budget.
		d := keep(v, Accepted, CausePolled)
		d.Looks++
		if d.Looks >= MaxPolls {
			return unresolved(v, d, "the platform never finished processing")
		}
		d.Delay = max(o.RetryAfter, at(pollWaits, d.Looks))
		return d
	}
	d := keep(v, Accepted, outcomeCause(v, o))
	d.Attempt, d.Settle = o.Attempt, []Settled{settledBy(o)}
	d.Looks, d.Negatives = 0, 0
	d.Delay = at(pollWaits, 0)
	return d
}

func outcomeUnknown(v View, o Outcome) Decision {
	o.Result, o.Kind = ResultUnknown, FailAmbiguous
	if v.State != Sending || o.Attempt != v.Attempt {
		d := same(v, outcomeCause(v, o))
		d.Attempt, d.Settle = o.Attempt, []Settled{settledBy(o)}
		if v.State == Accepted {
			d.Looks++
			d.Delay = at(lookWaits, d.Looks)
			d.Settle = nil // an unreadable poll says nothing about the attempt
			if d.Looks >= MaxPolls {
				return unresolved(v, d, "the platform could not be asked")
			}
		}
		return d
	}
	d := keep(v, Ambiguous, CauseAnswered)
	d.Settle = []Settled{settledBy(o)}
	d.LastError = &Failure{Kind: FailAmbiguous, Message: o.Message, HTTPStatus: o.HTTPStatus}
	d.Detail = o.Message
	d.Looks, d.Negatives = 0, 0
	d.Delay = max(firstLook(v), o.RetryAfter)
	return d
}

func outcomeNoEffect(v View, o Outcome) Decision {
	late := same(v, outcomeCause(v, o))
	late.Attempt, late.Settle, late.Detail = o.Attempt, []Settled{settledBy(o)}, o.Message
	switch v.State {
	case Sending:
		if o.Attempt != v.Attempt {
			return late
		}
	case Ambiguous, NeedsResolution:
	case Accepted:
		if !o.Polled {
			return late
		}
	default:
		return late
	}
	failure := &Failure{Kind: o.Kind, Message: o.Message, HTTPStatus: o.HTTPStatus}
	if len(others(v, o.Attempt)) > 0 {
		if v.State == Sending {
			late.To = Ambiguous
			late.Delay = max(firstLook(v), o.RetryAfter)
			late.Looks, late.Negatives = 0, 0
		}
		late.LastError = failure
		if o.Kind == FailRateLimited && o.RetryAfter > 0 {
			late.Hold = &HoldUntil{For: o.RetryAfter, Reason: o.Message}
		}
		return late
	}
	d := keep(v, Retrying, outcomeCause(v, o))
	d.Attempt, d.Settle, d.LastError, d.Detail = o.Attempt, late.Settle, failure, o.Message
	return provenWithout(v, d, o)
}

// provenWithout decides where a job goes whose every attempt is proven to have
// had no effect, by the kind of the last refusal.
func provenWithout(v View, d Decision, o Outcome) Decision {
	if !v.CancelAsked.IsZero() {
		d.To = Canceled
		return d
	}
	switch o.Kind {
	case FailPermanent, FailEgressDenied:
		d.To = Failed
	case FailAuth:
		d.Hold = &HoldUntil{Auth: true, CredentialVersion: o.CredentialVersion, Reason: o.Message}
		d.Blocked = o.Message
	case FailRateLimited:
		d.Delay = max(o.RetryAfter, time.Second)
		d.Hold = &HoldUntil{For: d.Delay, Reason: o.Message}
	default:
		spend(v, &d)
	}
	return d
}

func (o Outcome) label() string {
	if o.ExternalID != "" {
		return "with id " + o.ExternalID
	}
	return "without an id"
}
