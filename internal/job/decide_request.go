package job

// Rules of this file: what clients and persons may ask, and when. A repeat of a
// request whose result is in place changes nothing and succeeds.

func decideCancel(v View) (Decision, error) {
	switch v.State {
	case Scheduled, Retrying, Claimed:
		d := keep(v, Canceled, CauseCancelRequested)
		d.Cancel = true
		return d, nil
	case Sending, Accepted, Ambiguous, NeedsResolution:
		if !v.CancelAsked.IsZero() {
			return nothing, nil
		}
		d := same(v, CauseCancelRequested)
		d.Cancel = true
		return d, nil
	case Canceled:
		return nothing, nil
	default:
		return Decision{}, &StateError{Current: v.State, Allowed: []State{
			Scheduled, Retrying, Claimed, Sending, Accepted, Ambiguous, NeedsResolution,
		}}
	}
}

func decideRetry(v View) (Decision, error) {
	if v.State != Failed && v.State != Expired {
		return Decision{}, &StateError{Current: v.State, Allowed: []State{Failed, Expired}}
	}
	d := keep(v, Retrying, CauseRetryRequested)
	d.Failures, d.Claims, d.Looks, d.Negatives = 0, 0, 0, 0
	d.NewWindow, d.Uncancel = true, true
	return d, nil
}

func decideResolved(v View, r Resolved) (Decision, error) {
	if v.Resolution != nil && v.Resolution.Ruling == r.Ruling && v.ruledInPlace(r.Ruling) {
		return nothing, nil
	}
	if v.State != NeedsResolution && !(v.State == Ambiguous && r.Override) {
		e := &StateError{Current: v.State, Allowed: []State{NeedsResolution}}
		if v.State == Ambiguous {
			e.Why = "the reconciler is still looking; set override_reconciler to decide anyway"
		}
		return Decision{}, e
	}
	d := keep(v, v.State, CauseResolved)
	d.Ruling = &Resolution{Ruling: r.Ruling, Actor: r.Actor, Note: r.Note}
	d.CloseOpen = ResultSuperseded
	d.Looks, d.Negatives = 0, 0
	switch r.Ruling {
	case RuleSent:
		d.To = Succeeded
		d.Effect = &Effect{Round: v.Round, ExternalID: r.ExternalID, Proof: ProofOperator}
	case RuleNotSent:
		d.To = Failed
	case RuleCancel:
		d.To = Canceled
	case RuleResend:
		if v.FenceLeft > 0 {
			return Decision{}, &StateError{
				Current: v.State, Allowed: []State{NeedsResolution},
				Why: "the last attempt may still be under way; try again after its fence",
			}
		}
		d.To = Retrying
		d.Round++
		d.Failures, d.Claims = 0, 0
		d.NewWindow, d.Uncancel = true, true
	}
	return d, nil
}

// ruledInPlace tells whether the state still shows an earlier, equal ruling.
func (v View) ruledInPlace(r Ruling) bool {
	switch r {
	case RuleSent:
		return v.State == Succeeded
	case RuleNotSent:
		return v.State == Failed
	case RuleCancel:
		return v.State == Canceled
	default:
		return v.State == Retrying || v.State == Claimed || v.State == Sending
	}
}
