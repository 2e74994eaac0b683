package job

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// earlyAttempt and lastAttempt are the two attempts of the views below.
const (
	earlyAttempt = 1
	lastAttempt  = 3
)

// openSets lists the sets of attempts that may be open in a state: none, own, earlier, both.
func openSets(s State) [][]int {
	none, own, earlier, both := []int(nil), []int{lastAttempt}, []int{earlyAttempt}, []int{earlyAttempt, lastAttempt}
	switch s {
	case Scheduled, Claimed, Retrying, Succeeded:
		return [][]int{none}
	case Sending:
		return [][]int{own, both}
	case Ambiguous:
		return [][]int{own, earlier, both}
	case Accepted:
		return [][]int{none, earlier}
	default:
		return [][]int{none, own, earlier, both}
	}
}

// eachView calls f with every combination of the values on which Decide branches.
func eachView(f func(View)) {
	bools := []bool{false, true}
	for _, s := range States {
		for _, open := range openSets(s) {
			for _, class := range []Class{Keyed, Handle, Observable, Opaque} {
				for _, policy := range []Delivery{OnceOrAsk, AtMostOnce, AtLeastOnce} {
					for _, cancel := range bools {
						for _, windowOpen := range bools {
							for _, fenced := range bools {
								for _, worn := range bools {
									v := exhaustiveView(s, open, class, policy, cancel, windowOpen, fenced, worn)
									f(v)
									if s == Retrying || s == Claimed {
										begun := v
										begun.KeepTrying = DefaultKeepTrying
										f(begun)
									}
									if s == Retrying || s == Failed {
										v.Resolution = &Resolution{Ruling: RuleNotSent}
										f(v)
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

// exhaustiveView builds one view; worn means that the job's budgets are nearly spent.
func exhaustiveView(s State, open []int, class Class, policy Delivery, cancel, windowOpen, fenced, worn bool) View {
	v := View{Open: open, WindowLeft: -time.Second, FenceLeft: -time.Hour, Handle: "h", Jitter: 0.5}
	v.Job = Job{
		Spec:   Spec{Delivery: policy, Retry: RetryPolicy{MaxAttempts: 5}},
		Status: Status{State: s, Version: 7, Attempt: lastAttempt, Round: 1, Class: class},
	}
	v.Traits = Traits{Class: class, KeyWindow: time.Hour, ReadLag: 10 * time.Second, Negatives: 2, Spacing: time.Minute, Grace: 30 * time.Second}
	v.KeyAge = time.Minute
	if cancel && s != Scheduled && s != Claimed && s != Retrying {
		v.CancelAsked = time.Unix(1, 0)
	}
	if windowOpen {
		v.WindowLeft = time.Hour
	}
	if !fenced {
		v.FenceLeft = 20 * time.Second
	}
	if worn {
		v.Failures, v.Claims, v.Looks, v.Negatives = 4, 4, MaxLooks-1, 1
		v.KeyAge, v.Handle = 31*time.Minute, ""
		if s == Accepted {
			v.Looks = MaxPolls - 1
		}
	}
	if !s.Runnable() && s != Claimed {
		v.KeepTrying = DefaultKeepTrying
	}
	if s.Runnable() {
		v.ScheduleTime, v.NextAt = viewNow, viewNow
		if !worn {
			v.DueLeft, v.NextAt = time.Hour, viewNow.Add(time.Hour)
		}
	}
	switch s {
	case Scheduled:
		v.Attempt, v.Failures, v.FenceLeft = 0, 0, 0
	case Succeeded:
		proof := ProofResponse
		if policy == AtMostOnce {
			proof = ProofAssumed
		}
		v.Effect = &Effect{Attempt: lastAttempt, Round: 1, ExternalID: "a", Proof: proof}
	}
	return v
}

// viewNow is the moment of the views above. Requests ask for tomorrow.
var (
	viewNow  = time.Unix(1_900_000_000, 0)
	tomorrow = viewNow.Add(24 * time.Hour)
)

// allEvidence lists every kind of evidence with every value that Decide distinguishes.
func allEvidence() []Evidence {
	ev := []Evidence{LeaseOver{}, FenceOver{}, SenderLost{}, SenderLost{Wait: time.Second}, WindowOver{}, LookDue{}, CancelAsked{}, RetryAsked{}, Freed{}}
	ev = append(ev,
		RetryAsked{At: tomorrow}, RescheduleAsked{}, RescheduleAsked{At: tomorrow}, RescheduleAsked{At: viewNow},
		RescheduleAsked{At: tomorrow, Window: time.Minute}, RescheduleAsked{Window: time.Minute}, RunNowAsked{},
		UpdateAsked{}, UpdateAsked{Same: true}, UpdateAsked{Fields: FieldLabels | FieldRetry}, UpdateAsked{Fields: FieldPayload}, Restored{Since: viewNow},
		Missed{}, Missed{Since: viewNow.Add(-time.Minute)}, Missed{Since: tomorrow},
	)
	for k := FailureKind(0); k <= FailHeld; k++ {
		ev = append(ev, Deferred{Kind: k, Message: "m"})
	}
	for _, n := range []int{0, earlyAttempt, lastAttempt, lastAttempt + 1} {
		for _, verdict := range []Verdict{SawPresent, SawAbsent, SawInconclusive, SawCandidates, SawHandle} {
			ev = append(ev, Looked{Observation: Observation{Attempt: n, Verdict: verdict, ExternalID: "a", Handle: "h"}})
		}
		ev = append(ev, Looked{Observation: Observation{Attempt: n, Verdict: SawPresent, ExternalID: "a"}, Refused: true})
		for _, polled := range []bool{false, true} {
			for _, id := range []string{"", "a", "b"} {
				ev = append(ev, Outcome{Attempt: n, Result: ResultSucceeded, ExternalID: id, Polled: polled})
			}
			ev = append(ev,
				Outcome{Attempt: n, Result: ResultAccepted, Handle: "h", Polled: polled},
				Outcome{Attempt: n, Result: ResultUnknown, Polled: polled},
				Outcome{Attempt: n, Polled: polled}, // the connector set no result
				Outcome{Attempt: n, Result: ResultNotSent, Kind: FailTransient, Polled: polled},
			)
			for _, k := range []FailureKind{0, FailAuth, FailPermanent, FailRateLimited, FailTransient, FailEgressDenied} {
				ev = append(ev, Outcome{Attempt: n, Result: ResultRejected, Kind: k, Polled: polled})
			}
		}
	}
	for r := Ruling(0); r <= RuleCancel+1; r++ {
		ev = append(ev, Resolved{Ruling: r}, Resolved{Ruling: r, Override: true})
	}
	return ev
}

// openAfter returns the attempts that are open once d is written.
func openAfter(v View, d Decision) []int {
	open := slices.Clone(v.Open)
	if d.CloseOpen != 0 && !d.CloseOpen.Open() {
		open = nil
	}
	for _, s := range d.Settle {
		open = slices.DeleteFunc(open, func(n int) bool { return n == s.Attempt })
		if s.Result.Open() {
			open = append(open, s.Attempt)
		}
	}
	return open
}

func TestDecideExhaustively(t *testing.T) {
	evidence := allEvidence()
	views, decisions, failures := 0, 0, 0
	eachView(func(v View) {
		views++
		for _, e := range evidence {
			if failures > 20 {
				return
			}
			d, err := Decide(v, e)
			decisions++
			bad := checkError(v, e, err)
			if err == nil {
				bad = checkDecision(v, e, d)
			}
			if bad != "" {
				failures++
				t.Errorf("%s %s %s open %v cancel %t window %v fence %v looks %d, %T%+v:\n\t%s\n\tdecision %+v",
					v.State, v.Class, v.Delivery, v.Open, !v.CancelAsked.IsZero(), v.WindowLeft, v.FenceLeft, v.Looks, e, e, bad, d)
			}
		}
	})
	if views < 1000 || decisions < 100_000 {
		t.Fatalf("only %d views and %d decisions were tried", views, decisions)
	}
}

func checkError(v View, e Evidence, err error) string {
	var state *StateError
	// Either the state is the obstacle or something else is: never a state that is allowed.
	if errors.As(err, &state) && (slices.Contains(state.Allowed, v.State) || (state.Cause == 0) != (len(state.Allowed) > 0)) {
		return fmt.Sprintf("contradiction: %+v", state)
	}
	state = nil
	switch e := e.(type) {
	case Outcome:
		missing := e.Attempt < 1 || e.Attempt > v.Attempt
		if missing != errors.Is(err, ErrNoSuchAttempt) || !missing && err != nil {
			return fmt.Sprintf("error %v", err)
		}
	case CancelAsked, RetryAsked:
		if err != nil && !errors.As(err, &state) {
			return fmt.Sprintf("error %v is not a StateError", err)
		}
	case RescheduleAsked:
		if errors.As(err, &state) == v.State.Runnable() {
			return fmt.Sprintf("error %v", err)
		}
	case UpdateAsked:
		if errors.As(err, &state) == (e.Same || mayUpdate(v.State, e)) {
			return fmt.Sprintf("error %v", err)
		}
	case Resolved:
		known := e.Ruling >= RuleSent && e.Ruling <= RuleCancel
		if err != nil && known && !errors.As(err, &state) || err == nil && !known {
			return fmt.Sprintf("error %v", err)
		}
	default:
		if err != nil {
			return fmt.Sprintf("error %v", err)
		}
	}
	return ""
}

// checkDecision checks a decision against the rules, one after the other.
func checkDecision(v View, e Evidence, d Decision) string {
	if d.Action != ActWrite {
		return checkAction(v, e, d)
	}
	for _, check := range []func(View, Evidence, Decision) string{
		checkStates, checkClosed, checkCounters, checkTiming, checkEvidence, checkRequest,
	} {
		if bad := check(v, e, d); bad != "" {
			return bad
		}
	}
	return ""
}

func checkAction(v View, e Evidence, d Decision) string {
	_, due := e.(LookDue)
	switch {
	case d.Action != ActNothing && !due:
		return "only LookDue may ask for an action"
	case d.Action == ActRearm && (v.State != Ambiguous || v.Class != Keyed || !v.CancelAsked.IsZero()):
		return "re-arm of a job that must not be repeated"
	case d.Action == ActRearm && (v.WindowLeft <= 0 || 2*v.KeyAge+v.Retry.Timeout()+v.Traits.Grace >= v.Traits.KeyWindow):
		return "re-arm after the time to keep trying, or that may outlast the key"
	case d.Action == ActObserve && v.FenceLeft+v.Traits.ReadLag > 0:
		return "look before the fence"
	case d.Action == ActPoll && v.Handle == "":
		return "poll without a handle"
	}
	rulingWait := time.Duration(0)
	if v.Resolution != nil {
		rulingWait = max(0, v.FenceLeft)
	}
	switch e := e.(type) {
	case Outcome:
		if e.Result == ResultSucceeded && v.State != Succeeded {
			return "a success was dropped"
		}
	case RunNowAsked:
		if v.State.Runnable() && v.DueLeft > rulingWait {
			return "a waiting job was not made due"
		}
	case RescheduleAsked:
		if e.At.IsZero() || !v.ScheduleTime.Equal(e.At) || !v.NextAt.Equal(e.At) || e.Window != 0 {
			return "a request was dropped that is not in place"
		}
	case UpdateAsked:
		if !e.Same {
			return "new content was dropped"
		}
	case Restored:
		if v.State.Runnable() || v.State == Claimed {
			return "a job that may have been sent since goes on"
		}
	}
	return ""
}

func checkStates(v View, e Evidence, d Decision) string {
	_, retry := e.(RetryAsked)
	switch {
	case !Legal(v.State, d.To):
		return "illegal transition"
	case v.State == Succeeded && d.To != Succeeded:
		return "SUCCEEDED reverted"
	case v.State.Terminal() && d.To != v.State && d.To != Succeeded && !(retry && d.To == Retrying):
		return "a terminal state was left by no listed exit"
	case v.State != d.To && (d.To == Sending || d.To == Claimed):
		return "only a store may claim and arm"
	case v.State != Succeeded && d.To == Succeeded && d.Effect == nil:
		return "SUCCEEDED without an effect's proof"
	case v.State != d.To && d.To == Ambiguous && len(openAfter(v, d)) == 0:
		return "AMBIGUOUS with no open attempt"
	case v.State != d.To && d.To == Expired && v.KeepTrying > 0 && d.Detail == "":
		return "EXPIRED although the job has begun, and not for a pause"
	}
	return ""
}

func checkClosed(v View, e Evidence, d Decision) string {
	open := openAfter(v, d)
	switch d.To {
	case Retrying, Failed, Canceled, Expired:
		if d.To != v.State && len(open) > 0 {
			return fmt.Sprintf("entered while attempts %v are open", open)
		}
	}
	look, looked := e.(Looked)
	_, ruled := e.(Resolved)
	out, answered := e.(Outcome)
	switch d.CloseOpen {
	case 0:
	case ResultAbsent:
		if !looked || look.Verdict != SawAbsent || v.FenceLeft+v.Traits.ReadLag > 0 || v.Negatives+1 < v.Traits.Negatives {
			return "absence without a proof"
		}
	case ResultSuperseded:
		success := answered && out.Result == ResultSucceeded || looked && look.Verdict == SawPresent
		policy := d.Cause == CausePolicy && v.Delivery != OnceOrAsk
		if !success && !ruled && !policy {
			return "attempts closed by neither success, person nor policy"
		}
	default:
		return "CloseOpen with a result of one attempt"
	}
	for _, s := range d.Settle {
		if answered && s.Attempt != out.Attempt {
			return "an outcome settled another attempt"
		}
		if answered && s.Result == ResultUnknown && out.Result != ResultAccepted && !slices.Contains(v.Open, s.Attempt) {
			return "an unknown outcome reopened a settled attempt"
		}
	}
	return ""
}

func checkCounters(v View, e Evidence, d Decision) string {
	_, lease := e.(LeaseOver)
	_, deferred := e.(Deferred)
	_, retry := e.(RetryAsked)
	ruling, _ := e.(Resolved)
	fresh := retry || ruling.Ruling == RuleResend
	out, answered := e.(Outcome)
	look, looked := e.(Looked)
	orderly := deferred || looked && v.State == Claimed
	proven := deferred || answered && (out.Result == ResultRejected || out.Result == ResultNotSent) || look.Verdict == SawAbsent
	resent := ruling.Ruling == RuleResend || d.Cause == CausePolicy && v.Delivery == AtLeastOnce && d.To == Retrying
	switch {
	case d.Attempt < 0 || d.Attempt > v.Attempt:
		return "a decision about an attempt that was never armed"
	case fresh && d.Failures != 0, !fresh && d.Failures != v.Failures && !(proven && d.Failures == v.Failures+1):
		return "failures changed by something other than a proven failure"
	case fresh && d.Claims != 0, !fresh && d.Claims != v.Claims && !(lease && d.Claims == v.Claims+1) && !(orderly && d.Claims == 0):
		return "claims changed by something other than a lease"
	case resent && d.Round != v.Round+1, !resent && d.Round != v.Round:
		return "round changed, but no new effect was wanted"
	}
	return ""
}

func checkTiming(v View, e Evidence, d Decision) string {
	staying := d.To == v.State && (d.To == Ambiguous || d.To == Accepted)
	switch {
	case d.Delay < 0 && (d.Delay != KeepDelay || d.To != v.State):
		return "a negative delay"
	case staying && d.Delay == 0:
		return "due again immediately: a hot loop"
	case v.State == Ambiguous && d.To == Retrying && d.Round > v.Round && v.FenceLeft > 0:
		return "a new effect before the fence"
	case d.Delay > DefaultMaxBackoff+time.Minute:
		return "a wait without a bound"
	case d.Failures > v.Failures && d.KeepTrying != DefaultKeepTrying:
		return "a failure that has not begun the job"
	case d.Failures > v.Failures && d.To == Retrying && v.KeepTrying > 0 && d.Delay >= v.WindowLeft:
		return "waits for an attempt after the time to keep trying"
	}
	if d.Round > v.Round && d.Cause == CausePolicy {
		if v.WindowLeft <= 0 || !v.CancelAsked.IsZero() || v.Attempt >= v.Retry.Attempts() {
			return "AT_LEAST_ONCE outside its bounds"
		}
	}
	switch e.(type) {
	case WindowOver:
		if v.WindowLeft > 0 {
			return "ended while the window is open"
		}
		if (d.To == Expired) != (v.KeepTrying == 0) {
			return "EXPIRED is for jobs that have not begun, and FAILED for those that have"
		}
	case FenceOver:
		if v.FenceLeft > 0 {
			return "given up before the fence"
		}
	}
	return ""
}

func checkEvidence(v View, e Evidence, d Decision) string {
	out, ok := e.(Outcome)
	if !ok {
		return ""
	}
	earlier := slices.ContainsFunc(v.Open, func(n int) bool { return n != out.Attempt })
	switch out.Result {
	case ResultSucceeded:
		if d.To != Succeeded {
			return "a success was not accepted"
		}
	case ResultRejected, ResultNotSent:
		if earlier && d.To != v.State && (d.To == Failed || d.To == Retrying || d.To == Canceled || d.To == Expired) {
			return "a refusal ended a job whose other attempt is unknown"
		}
		fallthrough
	default:
		if d.To == Succeeded && v.State != Succeeded && !(v.Delivery == AtMostOnce && d.Effect.Proof == ProofAssumed) {
			return "SUCCEEDED without a success"
		}
	}
	return ""
}

// checkRequest checks that a request changes what it asks for, and that no other evidence
// sets a time of its own.
func checkRequest(v View, e Evidence, d Decision) string {
	moves := Decision{NewWindow: d.NewWindow}
	stays := true
	switch e := e.(type) {
	case RescheduleAsked:
		moves = Decision{StartAt: e.At, Reschedule: true, Window: e.Window, NewWindow: true}
	case RetryAsked:
		moves.StartAt, moves.NewWindow, stays = e.At, true, false
	case RunNowAsked:
		moves.NewWindow = false
		if v.DueLeft <= 0 {
			return "a due job was made due"
		}
	case UpdateAsked:
		moves.NewWindow = false
		if !mayUpdate(v.State, e) || d.Delay != KeepDelay {
			return "new content in another state, or at another time"
		}
	case Restored:
		moves.NewWindow, stays = false, false
		if d.To != NeedsResolution || d.LastError == nil || d.Detail == "" || len(d.Settle) > 0 || d.CloseOpen != 0 {
			return "a restore decided by itself, or without a message"
		}
	default:
		stays = false
	}
	switch {
	case !d.StartAt.Equal(moves.StartAt) || d.Reschedule != moves.Reschedule || d.Window != moves.Window || d.NewWindow != moves.NewWindow:
		return "the times differ from those that were asked for"
	case stays && d.To != v.State:
		return "a request moved the job to another state"
	case v.Resolution != nil && v.FenceLeft > 0 && d.To == Retrying && d.Delay < v.FenceLeft && requested(e):
		return "due before the fence, on a person's ruling alone"
	}
	return ""
}

func requested(e Evidence) bool {
	switch e.(type) {
	case RescheduleAsked, RetryAsked, RunNowAsked:
		return true
	default:
		return false
	}
}

// TestRepeatsChangeNothing repeats each request on the job as the request left it.
func TestRepeatsChangeNothing(t *testing.T) {
	requests := []Evidence{
		CancelAsked{}, LeaseOver{}, FenceOver{}, WindowOver{}, Restored{Since: viewNow}, RunNowAsked{},
		RescheduleAsked{At: tomorrow}, RescheduleAsked{At: tomorrow, Window: time.Minute},
	}
	for _, r := range []Ruling{RuleSent, RuleNotSent, RuleResend, RuleCancel} {
		requests = append(requests, Resolved{Ruling: r, Override: true})
	}
	written := 0
	eachView(func(v View) {
		for _, e := range requests {
			d, err := Decide(v, e)
			if err != nil || d.Action != ActWrite {
				continue
			}
			written++
			after := applied(v, d)
			again, err := Decide(after, e)
			if err != nil || again.Action != ActNothing {
				t.Fatalf("%s, %T%+v: the repeat in %s returned %+v, %v", v.State, e, e, after.State, again, err)
			}
		}
	})
	if written == 0 {
		t.Fatal("no request was ever granted")
	}
}

// applied returns v after d, at the same moment.
func applied(v View, d Decision) View {
	v.Open = openAfter(v, d)
	v.State, v.Round, v.Failures, v.Claims, v.Looks, v.Negatives = d.To, d.Round, d.Failures, d.Claims, d.Looks, d.Negatives
	v.Misses = d.Misses
	if d.Effect != nil {
		v.Effect = d.Effect
	}
	if d.Ruling != nil {
		v.Resolution = d.Ruling
	}
	if d.Cancel {
		v.CancelAsked = time.Unix(1, 0)
	}
	if d.Uncancel {
		v.CancelAsked = time.Time{}
	}
	if d.Reschedule {
		v.ScheduleTime, v.NextAt = d.StartAt, d.StartAt
		if d.Window > 0 {
			v.StartWindow = d.Window
		}
	}
	if d.Cause == CauseRunNow {
		v.DueLeft = d.Delay
	}
	switch {
	case d.NewWindow:
		v.KeepTrying = 0
	case d.KeepTrying > 0:
		v.KeepTrying = d.KeepTrying
	}
	return v
}

// mayUpdate states the rule a second time: fields on which an attempt depends change only
// before the first attempt.
func mayUpdate(s State, e UpdateAsked) bool {
	switch s {
	case Scheduled:
		return true
	case Retrying, Accepted, Ambiguous, NeedsResolution:
		return e.Fields != 0 && e.Fields&(FieldPayload|FieldAttemptTimeout) == 0
	default:
		return false
	}
}
