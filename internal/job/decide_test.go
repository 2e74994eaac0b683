package job

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// sending returns a view of a job in mid-send: first attempt, an hour to keep trying.
func sending(class Class, policy Delivery) View {
	return View{
		Job: Job{
			Spec:   Spec{Delivery: policy},
			Status: Status{State: Sending, Version: 3, Attempt: 1, Round: 1, Class: class, KeepTrying: DefaultKeepTrying},
		},
		Open: []int{1}, WindowLeft: time.Hour, FenceLeft: time.Minute, KeyAge: time.Second,
		Traits: Traits{Class: class, KeyWindow: 24 * time.Hour, ReadLag: 5 * time.Second},
	}
}

// must returns the decision, and fails the test on an error.
func must(t *testing.T, v View, e Evidence) Decision {
	t.Helper()
	d, err := Decide(v, e)
	if err != nil {
		t.Fatalf("%s, %T: %v", v.State, e, err)
	}
	return d
}

// step returns the view after the decision was written, and the decision.
func step(t *testing.T, v View, e Evidence) (View, Decision) {
	t.Helper()
	d := must(t, v, e)
	if d.Action != ActWrite {
		t.Fatalf("%s, %T: nothing to write", v.State, e)
	}
	return applied(v, d), d
}

func TestNamedBehaviors(t *testing.T) {
	timeout := Outcome{Attempt: 1, Result: ResultUnknown, Message: "timeout"}
	for _, tt := range []struct {
		name  string
		view  func() View
		given Evidence
		want  State
		kind  FailureKind // of LastError; zero: not checked
	}{
		{"a 403 is final", func() View { return sending(Opaque, OnceOrAsk) },
			Outcome{Attempt: 1, Result: ResultRejected, Kind: FailPermanent, HTTPStatus: 403}, Failed, FailPermanent},
		{"a timeout is never retried inline", func() View { return sending(Opaque, OnceOrAsk) }, timeout, Ambiguous, FailAmbiguous},
		{"a KEYED timeout waits in AMBIGUOUS too", func() View { return sending(Keyed, OnceOrAsk) }, timeout, Ambiguous, FailAmbiguous},
		{"a crash in mid-send is ambiguous, never scheduled again", func() View {
			v := sending(Opaque, OnceOrAsk)
			v.FenceLeft = 0
			return v
		}, FenceOver{}, Ambiguous, FailAmbiguous},
		{"unsent and canceled is CANCELED", func() View {
			v := sending(Opaque, OnceOrAsk)
			v.CancelAsked = time.Unix(1, 0)
			return v
		}, Outcome{Attempt: 1, Result: ResultNotSent, Kind: FailTransient}, Canceled, FailTransient},
		{"a rate limit costs no failure", func() View { return sending(Opaque, OnceOrAsk) },
			Outcome{Attempt: 1, Result: ResultRejected, Kind: FailRateLimited, RetryAfter: time.Minute}, Retrying, FailRateLimited},
		{"a refused credential waits", func() View { return sending(Observable, OnceOrAsk) },
			Outcome{Attempt: 1, Result: ResultRejected, Kind: FailAuth, CredentialVersion: 4}, Retrying, FailAuth},
		{"a refused credential holds the account, even if the job is canceled", func() View {
			v := sending(Opaque, OnceOrAsk)
			v.CancelAsked = time.Unix(1, 0)
			return v
		}, Outcome{Attempt: 1, Result: ResultRejected, Kind: FailAuth, CredentialVersion: 4}, Canceled, FailAuth},
		{"a rate limit does so too", func() View {
			v := sending(Keyed, OnceOrAsk)
			v.CancelAsked = time.Unix(1, 0)
			return v
		}, Outcome{Attempt: 1, Result: ResultRejected, Kind: FailRateLimited, RetryAfter: time.Minute}, Canceled, FailRateLimited},
		{"no job arms past MaxAttempts", func() View {
			v := sending(Opaque, OnceOrAsk)
			v.Attempt, v.Open = MaxAttempts, []int{MaxAttempts}
			return v
		}, Outcome{Attempt: MaxAttempts, Result: ResultRejected, Kind: FailRateLimited}, Failed, FailExhausted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, d := step(t, tt.view(), tt.given)
			if v.State != tt.want {
				t.Errorf("state %s, want %s", v.State, tt.want)
			}
			if tt.kind != 0 && (d.LastError == nil || d.LastError.Kind != tt.kind) {
				t.Errorf("last error %+v, want %s", d.LastError, tt.kind)
			}
			if (tt.kind == FailRateLimited || tt.kind == FailAuth) && (v.Failures != 0 || d.Hold == nil) {
				t.Errorf("failures %d, hold %+v: want a hold and no cost", v.Failures, d.Hold)
			}
		})
	}
}

func TestLateSuccessOfSweptAttempt(t *testing.T) {
	v := sending(Opaque, OnceOrAsk)
	v.FenceLeft = -time.Second
	v, _ = step(t, v, FenceOver{})
	v, _ = step(t, v, LookDue{})
	if v.State != NeedsResolution {
		t.Fatalf("state %s", v.State)
	}
	v, d := step(t, v, Outcome{Attempt: 1, Result: ResultSucceeded, ExternalID: "x"})
	if v.State != Succeeded || d.Cause != CauseLateEvidence || d.Effect.Proof != ProofResponse || d.Effect.ExternalID != "x" {
		t.Fatalf("%s, cause %s, effect %+v", v.State, d.Cause, d.Effect)
	}
}

// TestTheSameOutcomeTwiceIsOneEvent checks that an outcome whose write was not confirmed
// can be written again, and that the history shows it once.
func TestTheSameOutcomeTwiceIsOneEvent(t *testing.T) {
	for _, o := range []Outcome{
		{Attempt: 1, Result: ResultSucceeded, ExternalID: "x"},
		{Attempt: 1, Result: ResultRejected, Kind: FailPermanent},
		{Attempt: 1, Result: ResultRejected, Kind: FailRateLimited, RetryAfter: time.Second},
		{Attempt: 1, Result: ResultNotSent, Kind: FailTransient},
	} {
		v, _ := step(t, sending(Opaque, OnceOrAsk), o)
		if d := must(t, v, o); d.Action != ActNothing {
			t.Errorf("%v, then again in %s: %+v", o.Result, v.State, d)
		}
	}
}

func TestSuccessOfFirstAttemptWhileSecondIsSent(t *testing.T) {
	v := sending(Keyed, OnceOrAsk)
	v.Attempt, v.Open = 2, []int{1, 2}
	after, d := step(t, v, Outcome{Attempt: 1, Result: ResultSucceeded})
	if after.State != Succeeded || len(after.Open) != 0 || d.Effect.Attempt != 1 || d.Effect.Proof != ProofResponse {
		t.Fatalf("%s open %v effect %+v", after.State, after.Open, d.Effect)
	}
	if _, d = step(t, v, Outcome{Attempt: 2, Result: ResultSucceeded}); d.Effect.Proof != ProofKeyReplay {
		t.Fatalf("the repeat's proof is %s", d.Effect.Proof)
	}
}

func TestFiveCrashedClaimsFail(t *testing.T) {
	v := sending(Opaque, OnceOrAsk)
	v.State, v.Attempt, v.Open = Claimed, 0, nil
	for n := 1; ; n++ {
		var d Decision
		v, d = step(t, v, LeaseOver{})
		if n == MaxClaims {
			if v.State != Failed || d.LastError.Kind != FailWorkerCrash {
				t.Fatalf("after %d: %s, %+v", n, v.State, d.LastError)
			}
			return
		}
		if v.State != Scheduled || v.Failures != 0 || n == 1 && d.Delay != 0 {
			t.Fatalf("after %d: %s, failures %d, delay %v", n, v.State, v.Failures, d.Delay)
		}
		v.State = Claimed
	}
}

func TestRenewedTimesEndNothing(t *testing.T) {
	v := sending(Opaque, OnceOrAsk)
	for _, tt := range []struct {
		state State
		e     Evidence
	}{{Sending, FenceOver{}}, {Scheduled, WindowOver{}}, {Retrying, WindowOver{}}, {Claimed, LeaseOver{}}} {
		v.State, v.DueLeft = tt.state, time.Second
		if d := must(t, v, tt.e); d.Action != ActNothing {
			t.Errorf("%s, %T: %+v", tt.state, tt.e, d)
		}
	}
}

func TestResendBounds(t *testing.T) {
	base := sending(Opaque, AtLeastOnce)
	base.State, base.FenceLeft = Ambiguous, -time.Second
	base.Retry.MaxAttempts = 3
	for _, tt := range []struct {
		name string
		set  func(*View)
		want State
	}{
		{"in bounds", func(*View) {}, Retrying},
		{"before the fence", func(v *View) { v.FenceLeft = time.Second }, Ambiguous},
		{"the time to keep trying is over", func(v *View) { v.WindowLeft = 0 }, NeedsResolution},
		{"arms used up", func(v *View) { v.Attempt, v.Open = 3, []int{3} }, NeedsResolution},
		{"cancel asked", func(v *View) { v.CancelAsked = time.Unix(1, 0) }, NeedsResolution},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := base
			tt.set(&v)
			after, d := step(t, v, LookDue{})
			if after.State != tt.want {
				t.Fatalf("%s, want %s", after.State, tt.want)
			}
			if tt.want == Retrying && (after.Round != 2 || len(after.Open) != 0 || after.Failures != 0) {
				t.Errorf("round %d, open %v, failures %d", after.Round, after.Open, after.Failures)
			}
			if tt.want == Ambiguous && d.Delay != time.Second {
				t.Errorf("delay %v, want until the fence", d.Delay)
			}
		})
	}
}

func TestAtMostOnceThenTheTruth(t *testing.T) {
	v := sending(Opaque, AtMostOnce)
	v, _ = step(t, v, Outcome{Attempt: 1, Result: ResultUnknown})
	v, d := step(t, v, LookDue{})
	if v.State != Succeeded || d.Effect.Proof != ProofAssumed {
		t.Fatalf("%s %+v", v.State, d.Effect)
	}
	v, d = step(t, v, Outcome{Attempt: 1, Result: ResultSucceeded, ExternalID: "x"})
	if d.Effect == nil || d.Effect.Proof != ProofResponse || d.Effect.ExternalID != "x" || d.Cause == CauseDuplicateEffect {
		t.Fatalf("the answer must replace the assumption: %+v", d)
	}
	if again := must(t, v, Outcome{Attempt: 1, Result: ResultSucceeded, ExternalID: "x"}); again.Action != ActNothing {
		t.Errorf("the repeat wrote %+v", again)
	}
	if d = must(t, v, Outcome{Attempt: 1, Result: ResultSucceeded, ExternalID: "y"}); d.Cause != CauseDuplicateEffect || d.To != Succeeded {
		t.Errorf("another id must raise the alarm: %+v", d)
	}
}

func TestHoldWaitsForAPerson(t *testing.T) {
	v := sending(Opaque, OnceOrAsk)
	v, d := step(t, v, Outcome{Attempt: 1, Result: ResultUnknown})
	if d.Delay != 0 {
		t.Errorf("delay %v before a question that only a person can answer", d.Delay)
	}
	v, _ = step(t, v, LookDue{})
	if v.State != NeedsResolution || len(v.Open) != 1 {
		t.Fatalf("%s open %v", v.State, v.Open)
	}
	var state *StateError
	v.FenceLeft = time.Minute + time.Millisecond
	const soon = "the job is NEEDS_RESOLUTION: the last attempt may still be under way; try again in 1m1s"
	if _, err := Decide(v, Resolved{Ruling: RuleResend}); !errors.As(err, &state) || err.Error() != soon {
		t.Fatalf("RESEND before the fence: %v", err)
	}
	v.FenceLeft = 0
	v, d = step(t, v, Resolved{Ruling: RuleResend})
	if v.State != Retrying || v.Round != 2 || !d.NewWindow || !d.Uncancel {
		t.Errorf("%s round %d %+v", v.State, v.Round, d)
	}
}

func TestRefusedRepeatNeverFails(t *testing.T) {
	v := sending(Keyed, OnceOrAsk)
	v.Attempt, v.Open = 2, []int{1, 2}
	last := time.Duration(0)
	for range 5 {
		after, d := step(t, v, Outcome{Attempt: v.Attempt, Result: ResultRejected, Kind: FailPermanent, HTTPStatus: 403})
		if after.State != Ambiguous || !slices.Equal(after.Open, []int{1}) || after.Failures != 0 {
			t.Fatalf("%s open %v failures %d", after.State, after.Open, after.Failures)
		}
		if d.Delay < last {
			t.Errorf("the waits must not shrink: %v after %v", d.Delay, last)
		}
		last = d.Delay
		after.State, after.Attempt, after.Open = Sending, v.Attempt+1, append(after.Open, v.Attempt+1)
		v = after
	}
	if last <= 10*time.Second {
		t.Errorf("after five refusals the wait is still %v", last)
	}
}

func TestUnknownReopensNothing(t *testing.T) {
	for _, s := range []State{Retrying, Claimed, Succeeded, Failed, Canceled, Expired} {
		v := sending(Observable, OnceOrAsk)
		v.State, v.Open = s, nil
		if d := must(t, v, Outcome{Attempt: 1, Result: ResultUnknown}); d.Action != ActNothing {
			t.Errorf("%s: %+v", s, d)
		}
	}
}

func TestAcceptedAttempts(t *testing.T) {
	accepted := sending(Handle, OnceOrAsk)
	accepted.State, accepted.Attempt, accepted.Open, accepted.Handle = Accepted, 2, nil, "h"
	t.Run("an old attempt's refusal moves nothing", func(t *testing.T) {
		for _, s := range []State{Accepted, NeedsResolution} {
			for _, polled := range []bool{false, true} {
				v := accepted
				v.State = s
				d := must(t, v, Outcome{Attempt: 1, Result: ResultRejected, Kind: FailPermanent, Polled: polled})
				if d.Action == ActWrite && d.To != s {
					t.Errorf("%s polled %t: went to %s", s, polled, d.To)
				}
			}
		}
	})
	t.Run("its own verdict ends it", func(t *testing.T) {
		v, _ := step(t, accepted, Outcome{Attempt: 2, Result: ResultRejected, Kind: FailPermanent, Polled: true})
		if v.State != Failed {
			t.Errorf("%s", v.State)
		}
	})
	t.Run("not while an earlier one is unknown", func(t *testing.T) {
		v := accepted
		v.Open = []int{1}
		v, _ = step(t, v, Outcome{Attempt: 2, Result: ResultRejected, Kind: FailTransient, Polled: true})
		if v.State != NeedsResolution {
			t.Errorf("%s", v.State)
		}
	})
	t.Run("polls without an answer end", func(t *testing.T) {
		for _, tt := range []struct {
			state State
			e     Evidence
		}{
			{Accepted, Outcome{Attempt: 2, Result: ResultUnknown, Polled: true}},
			{Ambiguous, Outcome{Attempt: 2, Result: ResultUnknown, Polled: true}},
			{Accepted, Looked{Observation: Observation{Attempt: 2, Verdict: SawInconclusive}}},
		} {
			v, s := accepted, tt.state
			v.State, v.FenceLeft = s, -time.Hour
			v.Open = map[State][]int{Ambiguous: {2}}[s]
			for n := 0; v.State == s; n++ {
				if n > MaxPolls {
					t.Fatalf("%s: still polling after %d", s, n)
				}
				v, _ = step(t, v, tt.e)
			}
			if v.State != NeedsResolution {
				t.Errorf("%s became %s", s, v.State)
			}
		}
	})
	t.Run("a late handle stops the next send", func(t *testing.T) {
		v := accepted
		v.State, v.Handle = Retrying, ""
		v, _ = step(t, v, Outcome{Attempt: 1, Result: ResultAccepted, Handle: "old"})
		if v.State != Accepted || !slices.Equal(v.Open, []int{1}) {
			t.Fatalf("%s open %v", v.State, v.Open)
		}
		if v, _ = step(t, v, LookDue{}); v.State != NeedsResolution {
			t.Errorf("without the last attempt's handle: %s", v.State)
		}
	})
	t.Run("a late handle of an ended job prevents RetryJob", func(t *testing.T) {
		v := accepted
		v.State = Failed
		v, _ = step(t, v, Outcome{Attempt: 2, Result: ResultAccepted, Handle: "h"})
		var state *StateError
		if _, err := Decide(v, RetryAsked{}); v.State != Failed || !errors.As(err, &state) {
			t.Errorf("%s, %v", v.State, err)
		}
	})
}

func TestAbsenceNeedsTheFenceAndReadLag(t *testing.T) {
	v := sending(Observable, OnceOrAsk)
	v.State = Ambiguous
	absent := Looked{Observation: Observation{Attempt: 1, Verdict: SawAbsent}}
	for _, left := range []time.Duration{time.Second, 0, -4 * time.Second} {
		v.FenceLeft = left
		after, d := step(t, v, absent)
		if after.State != Ambiguous || after.Negatives != 0 || d.CloseOpen != 0 || d.Delay != left+5*time.Second {
			t.Errorf("%v before the fence: %s, negatives %d, delay %v", left, after.State, after.Negatives, d.Delay)
		}
		if d = must(t, v, LookDue{}); d.Action == ActObserve {
			t.Errorf("%v before the fence: looks", left)
		}
	}
	v.FenceLeft = -5 * time.Second
	if d := must(t, v, LookDue{}); d.Action != ActObserve {
		t.Errorf("past fence and lag: %+v", d)
	}
	for _, tt := range []struct {
		set  func(*View)
		want State
	}{
		{func(*View) {}, Retrying},
		{func(v *View) { v.WindowLeft = 0 }, Failed},
		{func(v *View) { v.WindowLeft = 30 * time.Second }, Failed},
		{func(v *View) { v.Failures = 4 }, Failed},
		{func(v *View) { v.CancelAsked = time.Unix(1, 0) }, Canceled},
	} {
		w := v
		tt.set(&w)
		if after, d := step(t, w, absent); after.State != tt.want || d.CloseOpen != ResultAbsent {
			t.Errorf("%s, want %s", after.State, tt.want)
		}
	}
}

// TestAnAbsenceFromBeforeTheFenceStaysOne checks that the time counts at which a look began,
// however much later it is judged.
func TestAnAbsenceFromBeforeTheFenceStaysOne(t *testing.T) {
	v := sending(Observable, OnceOrAsk)
	v.State, v.Now, v.FenceLeft = Ambiguous, time.Unix(10_000, 0), -time.Hour
	earliest := v.Now.Add(v.FenceLeft + v.Traits.ReadLag)
	for begun, want := range map[time.Time]State{earliest.Add(-time.Microsecond): Ambiguous, earliest: Retrying} {
		look := Looked{Observation: Observation{Attempt: 1, Verdict: SawAbsent, BegunAt: begun}}
		after, d := step(t, v, look)
		if after.State != want || after.Negatives != 0 || want == Ambiguous && (d.CloseOpen != 0 || d.Delay != 0) {
			t.Errorf("begun %v: %s, delay %v, want %s", begun.Sub(earliest), after.State, d.Delay, want)
		}
	}
}

func TestASightingEndsTheChainOfAbsences(t *testing.T) {
	v := sending(Observable, OnceOrAsk)
	v.State, v.Negatives, v.FenceLeft = Ambiguous, 1, -time.Minute
	for sighted, want := range map[bool]int{true: 0, false: 1} {
		e := Looked{Observation: Observation{Attempt: 1, Verdict: SawInconclusive}, Sighted: sighted}
		if after, _ := step(t, v, e); after.State != Ambiguous || after.Negatives != want {
			t.Errorf("sighted %t: %s with %d absences, want %d", sighted, after.State, after.Negatives, want)
		}
	}
}

func TestBackoffTable(t *testing.T) {
	want := []time.Duration{30 * time.Second, 2 * time.Minute, 8 * time.Minute, 32 * time.Minute, time.Hour, time.Hour}
	for i, w := range want {
		if got := (RetryPolicy{}).Backoff(i+1, 0); got != w {
			t.Errorf("wait %d: %v, want %v", i+1, got, w)
		}
		for _, jitter := range []float64{0.1, 0.5, 0.999} {
			if got := (RetryPolicy{}).Backoff(i+1, jitter); got >= w || got < w*8/10 {
				t.Errorf("wait %d with jitter %v: %v, want within a fifth below %v", i+1, jitter, got, w)
			}
		}
	}
	if got := (RetryPolicy{MinBackoff: 10 * time.Second}).Backoff(2, 0); got != 40*time.Second {
		t.Errorf("min_backoff 10 s: the second wait is %v, want 40 s", got)
	}
	if got := (RetryPolicy{MinBackoff: time.Hour}).Backoff(5, 0); got != DefaultMaxBackoff {
		t.Errorf("never above an hour: %v", got)
	}
	if got := (RetryPolicy{MaxBackoff: time.Minute}).Backoff(3, 0); got != time.Minute {
		t.Errorf("max_backoff 1 min: %v", got)
	}
	if got := (RetryPolicy{MaxBackoff: 50 * time.Hour, Multiplier: 10}).Backoff(200, 0); got != MaxBackoff {
		t.Errorf("max_backoff above the limit: %v", got)
	}
	if got := (RetryPolicy{MinBackoff: time.Second, Multiplier: 1}).Backoff(200, 0); got != time.Second {
		t.Errorf("multiplier 1: %v", got)
	}
	listed := RetryPolicy{Delays: []time.Duration{time.Second, 5 * time.Hour}}
	for n, want := range []time.Duration{time.Second, 5 * time.Hour, 5 * time.Hour} {
		if got := listed.Backoff(n+1, 0); got != want || listed.Replay(n+1, 0) != want {
			t.Errorf("listed delay %d: %v, want %v", n+1, got, want)
		}
	}
	var waits []time.Duration
	v := sending(Opaque, OnceOrAsk)
	for v.State != Failed {
		var d Decision
		v.State, v.Open = Sending, []int{1}
		if v, d = step(t, v, Outcome{Attempt: 1, Result: ResultNotSent, Kind: FailTransient}); v.State == Retrying {
			waits = append(waits, d.Delay)
		}
	}
	if !slices.Equal(waits, want[:4]) || v.Failures != DefaultMaxAttempts {
		t.Errorf("five attempts waited %v", waits)
	}
}

func TestSnapshotView(t *testing.T) {
	now := time.Unix(1000, 0)
	s := Snapshot{Now: now, Fence: now.Add(time.Minute), RoundArmed: now.Add(-time.Hour), Handle: "h", Open: []int{1}}
	s.StartDeadline, s.NextAt = now.Add(-time.Second), now.Add(2*time.Second)
	v := s.View(Traits{Class: Keyed}, 0.5)
	if v.WindowLeft != -time.Second || v.FenceLeft != time.Minute || v.KeyAge != time.Hour || v.DueLeft != 2*time.Second {
		t.Errorf("%+v", v)
	}
	if v := (Snapshot{Now: now}).View(Traits{}, 0); v.FenceLeft != 0 || v.KeyAge != 0 || v.DueLeft != 0 {
		t.Errorf("unset times are not zero: %+v", v)
	}
}

// TestARepeatWaitsForTheRequestBeforeIt checks that a target that does not dedupe in flight
// gets no repeat while it may still be working on an earlier request, whatever makes the job
// due: until the fence, or until it has ended the exchange itself.
func TestARepeatWaitsForTheRequestBeforeIt(t *testing.T) {
	for _, inFlight := range []bool{false, true} {
		for _, ended := range []bool{false, true} {
			for _, earlier := range []time.Duration{-time.Second, 20 * time.Second} {
				v := sending(Keyed, OnceOrAsk)
				v.Traits.DedupesInFlight, v.EarlierLeft = inFlight, earlier
				name := fmt.Sprint("dedupes in flight ", inFlight, ", ended by the peer ", ended, ", an earlier fence in ", earlier)
				wait := time.Duration(0)
				if !inFlight {
					wait = max(earlier, 0)
				}
				if !inFlight && !ended {
					wait = v.FenceLeft
				}
				v, d := step(t, v, Outcome{Attempt: 1, Result: ResultUnknown, Message: "reset", PeerEnded: ended})
				if want := max(wait, v.Retry.Replay(1, v.Jitter)); d.Delay != want || d.Settle[0].PeerEnded != ended {
					t.Errorf("%s: the repeat is due after %v, not %v; %+v", name, d.Delay, want, d.Settle)
				}
				v.PeerEnded = ended
				if d := must(t, v, LookDue{}); (d.Action == ActRearm) != (wait == 0) || wait > 0 && d.Delay != wait {
					t.Errorf("%s: %v after %v when it is due early", name, d.Action, d.Delay)
				}
				v.FenceLeft, v.EarlierLeft = 0, 0
				if d := must(t, v, LookDue{}); d.Action != ActRearm {
					t.Errorf("%s: after the fences %v", name, d.Action)
				}
			}
		}
	}
}

// TestARefusedRepeatIsNotWaitedFor checks that a repeat that was refused is over: only the
// earlier attempts count.
func TestARefusedRepeatIsNotWaitedFor(t *testing.T) {
	v := sending(Keyed, OnceOrAsk)
	v.Attempt, v.Open, v.EarlierLeft = 2, []int{1, 2}, -time.Second
	v, d := step(t, v, Outcome{Attempt: 2, Result: ResultRejected, Kind: FailTransient})
	if want := v.Retry.Replay(2, v.Jitter); d.To != Ambiguous || d.Delay != want {
		t.Errorf("%+v, not after %v", d, want)
	}
	v.Open = []int{1}
	if d := must(t, v, LookDue{}); d.Action != ActRearm {
		t.Errorf("%+v", d)
	}
}

// TestALongHandlingCountsAgainstTheKeyWindow checks that a key counts as known only if it is
// known until the repeat's own fence, which a long handling delays.
func TestALongHandlingCountsAgainstTheKeyWindow(t *testing.T) {
	v := sending(Keyed, OnceOrAsk)
	v.Traits.KeyWindow, v.Traits.Grace, v.KeyAge = 10*time.Minute, 30*time.Second, 4*time.Minute
	if !v.KeyKnown() {
		t.Error("4 minutes of 10 are too old")
	}
	if v.Traits.MaxHandling = 2 * time.Minute; v.KeyKnown() {
		t.Error("a repeat that acts for 2 minutes more is no later")
	}
}

// TestAKeyFromTheFutureIsNotRepeated checks that a negative age of a key counts as unknown:
// a clock was wrong.
func TestAKeyFromTheFutureIsNotRepeated(t *testing.T) {
	v := sending(Keyed, OnceOrAsk)
	v.State, v.FenceLeft = Ambiguous, 0
	for age, want := range map[time.Duration]Action{-500 * time.Millisecond: ActRearm, -time.Minute: ActWrite} {
		v.KeyAge = age
		if d := must(t, v, LookDue{}); d.Action != want || want == ActWrite && d.To != NeedsResolution {
			t.Errorf("%v old: %+v", age, d)
		}
	}
}

// TestRefusedLooksAreNotUsedUp checks that a job whose looks or polls fail for a refused
// credential waits for a person, and spends no look or poll.
func TestRefusedLooksAreNotUsedUp(t *testing.T) {
	refused := Deferred{Kind: FailAuth, Message: "Reconnect this account", CredentialVersion: 1}
	for _, class := range []Class{Observable, Handle} {
		v := sending(class, AtMostOnce)
		accepted := class == Handle
		if accepted {
			v, _ = step(t, v, Outcome{Attempt: 1, Result: ResultAccepted, Handle: "h"})
			v.Handle = "h"
		} else {
			v, _ = step(t, v, Outcome{Attempt: 1, Result: ResultUnknown})
		}
		v.FenceLeft = -time.Hour
		state := v.State
		for range MaxPolls + 10 {
			var d Decision
			v, d = step(t, v, refused)
			if v.State != state || d.Hold == nil || d.Hold.Auth != AuthRefused || d.Blocked != refused.Message || d.Delay > 5*time.Minute {
				t.Fatalf("%s after %d looks: %+v", v.State, v.Looks, d)
			}
			if d := must(t, v, LookDue{}); d.Action != ActObserve && d.Action != ActPoll {
				t.Fatalf("%s after %d looks: %v", v.State, v.Looks, d.Action)
			}
			v.FenceLeft = -time.Hour
		}
		var d Decision
		if accepted {
			d = must(t, v, Outcome{Attempt: 1, Result: ResultUnknown, Message: "503", Polled: true})
		} else {
			d = must(t, v, Looked{Observation: Observation{Attempt: 1, Verdict: SawInconclusive, Detail: "503"}})
		}
		if d.Blocked != "" {
			t.Errorf("%s: still blocked: %q", class, d.Blocked)
		}
	}
}

// TestSilentSenders: the attempt's error, and the event's reason, name the server that is silent.
func TestSilentSenders(t *testing.T) {
	for _, tt := range []struct {
		e      Evidence
		worker string
		want   string
	}{
		{FenceOver{}, "server-1", "server-1 recorded no outcome while the request could still act; it may have died in mid-send"},
		{FenceOver{}, "", "no outcome was recorded while the request could still act; the server that was sending it may have died"},
		{SenderLost{}, "server-1", "server-1, which was sending this job, is gone; whether the request had an effect is unknown"},
		{SenderLost{}, "", "the server that was sending this job is gone; whether the request had an effect is unknown"},
	} {
		v := sending(Keyed, OnceOrAsk)
		v.Worker, v.Traits.DedupesInFlight = tt.worker, true
		v.FenceLeft = time.Minute
		if tt.e == (FenceOver{}) {
			v.FenceLeft = 0
		}
		d, err := Decide(v, tt.e)
		if err != nil || d.To != Ambiguous || d.Detail != tt.want || d.LastError.Message != tt.want || d.Settle[0].Message != tt.want {
			t.Errorf("%T of %q: %+v, %v", tt.e, tt.worker, d, err)
		}
	}
}
