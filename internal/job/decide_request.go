package job

import (
	"errors"
	"fmt"
	"time"
)

// Rules of this file: which requests clients and people may make in which state. A repeat
// of a request whose result is in place changes nothing and succeeds.

func decideRequest(v *View, e Evidence) (Decision, error) {
	switch e := e.(type) {
	case CancelAsked:
		return decideCancel(v)
	case RetryAsked:
		return decideRetry(v, e)
	case RescheduleAsked:
		return decideReschedule(v, e)
	case RunNowAsked:
		return decideRunNow(v), nil
	case UpdateAsked:
		return decideUpdate(v, e)
	case Resolved:
		return decideResolved(v, e)
	default:
		return Decision{}, fmt.Errorf("no rule for evidence %T", e)
	}
}

func decideCancel(v *View) (Decision, error) {
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
		if !v.LeftBehind() {
			return nothing, nil
		}
		d := same(v, CauseCancelRequested)
		d.Cancel = true // RetryJob does not restart it
		return d, nil
	default:
		return Decision{}, &StateError{Current: v.State, Allowed: []State{
			Scheduled, Retrying, Claimed, Sending, Accepted, Ambiguous, NeedsResolution,
		}}
	}
}

func decideRetry(v *View, r RetryAsked) (Decision, error) {
	if v.State != Failed && v.State != Expired && !v.LeftBehind() {
		return Decision{}, &StateError{Current: v.State, Allowed: []State{Failed, Expired}}
	}
	e := &StateError{Current: v.State}
	switch {
	case v.PredecessorEnd != 0:
		e.Cause, e.Predecessor = PredecessorStands, v.WaitsFor
		e.Why = fmt.Sprintf("job %s, which it replies to, ended as %s: retry that one first", v.WaitsFor, v.PredecessorEnd)
		return Decision{}, e
	case len(v.Open) > 0:
		e.Cause, e.Why = AttemptStands, "an attempt turned out to be under way at the platform after the job had ended"
		return Decision{}, e
	case v.Attempt >= MaxAttempts:
		e.Cause, e.Why = NoAttemptLeft, "the job has used up every attempt it can have"
		return Decision{}, e
	}
	d := keep(v, Retrying, CauseRetryRequested)
	d.Delay = v.rulingWait()
	d.Failures, d.Claims, d.Looks, d.Negatives = 0, 0, 0, 0
	d.NewWindow, d.Uncancel, d.StartAt = true, true, r.At
	return d, nil
}

// LeftBehind reports whether a job ended because its predecessor had ended without success,
// so that RetryJob may restart it. It returns false for a job that its client canceled,
// before or after that end.
func (s Status) LeftBehind() bool {
	return s.State == Canceled && s.CancelAsked.IsZero() && s.LastError != nil && s.LastError.Kind == FailPredecessorEnded
}

// rulingWait returns the time until a job may start again after a person's ruling that it
// had no effect. The ruling is no proof: the last attempt may still act until its fence.
func (v *View) rulingWait() time.Duration {
	if v.Resolution == nil || v.Resolution.Ruling != RuleNotSent {
		return 0
	}
	return max(v.FenceLeft, 0)
}

// decideReschedule moves a job that waits for its time. A hold that the target asked for is
// not part of the job and stays.
func decideReschedule(v *View, r RescheduleAsked) (Decision, error) {
	if v.State != Scheduled && v.State != Retrying {
		return Decision{}, &StateError{Current: v.State, Allowed: []State{Scheduled, Retrying}}
	}
	sameTime := !r.At.IsZero() && v.ScheduleTime.Equal(r.At) && v.NextAt.Equal(r.At)
	if sameTime && (r.Window == 0 || r.Window == v.StartWindow) {
		return nothing, nil
	}
	d := keep(v, v.State, CauseRescheduled)
	d.StartAt, d.Reschedule, d.Window, d.NewWindow = r.At, true, r.Window, true
	d.Delay = v.rulingWait()
	d.Looks, d.Blocked = 0, "" // it waits for its time now, and for nothing else
	return d, nil
}

// decideRunNow makes a waiting job due. For a job that no longer waits it changes nothing:
// the job has started already, or it has ended, which is a case for RetryJob.
func decideRunNow(v *View) Decision {
	if !v.State.Runnable() || v.DueLeft <= v.rulingWait() {
		return nothing
	}
	d := keep(v, v.State, CauseRunNow)
	d.Delay = v.rulingWait()
	d.Looks = 0 // looks before an arm count by the time that they span
	return d
}

// decideRestored asks a person about a job that is unsent according to the database.
// Attempts that were armed before the restored state are reconciled as always: looks read
// the platform, which a restore does not change.
func decideRestored(v *View, r Restored) Decision {
	if !v.State.Runnable() && v.State != Claimed {
		return nothing
	}
	d := keep(v, NeedsResolution, CauseRestored)
	d.Looks, d.Negatives = 0, 0
	msg := "the database was restored to its state of " + r.Since.UTC().Format(time.RFC3339) +
		"; the job may have been sent since"
	d.Detail = msg
	d.LastError = &Failure{Kind: FailAmbiguous, Message: msg}
	return d
}

// ErrOwnEffectKey is returned for a RESEND without an effect key of a job whose caller gave
// the effect key: a new effect needs another key.
var ErrOwnEffectKey = errors.New("a new effect of this job needs an effect key of its own")

func decideResolved(v *View, r Resolved) (Decision, error) {
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
		e := &StateError{Current: v.State}
		switch {
		case v.FenceLeft > 0:
			left := (v.FenceLeft + time.Second - 1).Truncate(time.Second)
			e.Cause, e.FenceLeft = FenceStands, left
			e.Why = fmt.Sprintf("the last attempt may still be under way; try again in %v", left)
			return Decision{}, e
		case v.Attempt >= MaxAttempts:
			e.Cause, e.Why = NoAttemptLeft, "the job has used up every attempt it can have"
			return Decision{}, e
		}
		d.To = Retrying
		if v.Attempt > 0 && !v.NewRound {
			// Without an attempt in this round, as after a restore, the round keeps its
			// effect key: no known attempt used it. If an attempt that the restore lost
			// used it, a target that dedupes drops the second request.
			d.Round++
			if v.OwnEffectKey != "" && r.OwnEffectKey == "" {
				return Decision{}, ErrOwnEffectKey
			}
		}
		d.Failures, d.Claims = 0, 0
		d.NewWindow, d.Uncancel = true, true
	default:
		return Decision{}, fmt.Errorf("no rule for ruling %d", r.Ruling)
	}
	return d, nil
}

// ruledInPlace reports whether the state still is the result of an earlier, equal ruling.
func (v *View) ruledInPlace(r Ruling) bool {
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
