package job

import (
	"strings"
	"testing"
	"time"
)

var refusedForNow = Outcome{Attempt: 1, Result: ResultRejected, Kind: FailTransient, HTTPStatus: 404, Message: "404 Not Found"}

// TestKeepTryingCountsFromTheBeginning checks that the start window bounds only the beginning
// of a job, and that the time to keep trying counts from there.
func TestKeepTryingCountsFromTheBeginning(t *testing.T) {
	due := viewNow.Add(-time.Hour)
	j := Job{Spec: Spec{StartWindow: 90 * time.Minute}, Status: Status{
		State: Claimed, Version: 1, Round: 1, NextAt: due, ScheduleTime: due, StartDeadline: due.Add(90 * time.Minute),
	}}
	failed := Snapshot{Job: j, Now: viewNow}
	d := must(t, failed.View(Traits{Retry: &RetryPolicy{KeepTrying: 5 * time.Hour}}, 0), Deferred{Kind: FailTransient, Message: "refused"})
	j = j.Decided(d, viewNow)
	if j.State != Retrying || j.KeepTrying != 5*time.Hour || !j.StartDeadline.Equal(viewNow.Add(5*time.Hour)) {
		t.Fatalf("a failed start has begun the job: %+v", j.Status)
	}
	later := viewNow.Add(time.Hour)
	longer := j.Tried(9*time.Hour, later)
	if !longer.StartDeadline.Equal(viewNow.Add(9 * time.Hour)) {
		t.Errorf("a longer time counts from the beginning: %v", longer.StartDeadline.Sub(viewNow))
	}
	held := Snapshot{Job: j, Now: later}
	held.State, held.KeepTrying, held.StartDeadline = Claimed, 0, later.Add(time.Minute)
	for _, kind := range []FailureKind{FailHeld, FailAuth, FailRateLimited} {
		if d := must(t, held.View(Traits{}, 0), Deferred{Kind: kind}); d.KeepTrying != 0 {
			t.Errorf("%s: a job that only waited has begun", kind)
		}
	}
	again := longer.Decided(Decision{To: Retrying, NewWindow: true}, later)
	if again.KeepTrying != 0 || !again.StartDeadline.Equal(later.Add(90*time.Minute)) {
		t.Errorf("a new start window: %+v", again.Status)
	}
}

// TestAJobThatHasBegunFails checks which window ends a job, and how.
func TestAJobThatHasBegunFails(t *testing.T) {
	for _, s := range []State{Retrying, Claimed} {
		v := waiting(s)
		v.KeepTrying, v.WindowLeft, v.LastError = 0, 0, &Failure{Kind: FailTransient, Message: "404 Not Found", HTTPStatus: 404}
		if d := must(t, v, WindowOver{}); d.To != Expired || d.Cause != CauseWindowOver {
			t.Errorf("%s, not begun: %+v", s, d)
		}
		v.KeepTrying = time.Hour
		d := must(t, v, WindowOver{})
		if d.To != Failed || d.Cause != CauseWindowOver || d.LastError.Kind != FailExhausted || d.LastError.HTTPStatus != 404 ||
			!strings.Contains(d.LastError.Message, "404 Not Found") {
			t.Errorf("%s, begun: %+v, %+v", s, d, d.LastError)
		}
		v.WindowLeft = time.Second
		if d := must(t, v, WindowOver{}); d.Action != ActNothing {
			t.Errorf("%s, in time: %+v", s, d)
		}
	}
}

// TestAHeldWindowBeginsAgain checks that a window that a stop holds ends no job, and costs none
// anything.
func TestAHeldWindowBeginsAgain(t *testing.T) {
	for _, s := range []State{Scheduled, Retrying, Claimed} {
		for _, keep := range []time.Duration{0, time.Hour, time.Minute} {
			j := Job{Spec: Spec{StartWindow: 3 * time.Hour}, Status: Status{
				State: s, NextAt: viewNow.Add(time.Minute), StartDeadline: viewNow, KeepTrying: keep,
				Failures: 2, Claims: 1, Misses: 3, ClaimToken: ID{1},
			}}
			snap := Snapshot{Job: j, Now: viewNow.Add(time.Second), WindowHeld: true}
			d := must(t, snap.View(Traits{}, 0), WindowOver{})
			got := j.Decided(d, snap.Now)
			want, length := s, max(keep, LeastAgain)
			if keep == 0 {
				length = 3 * time.Hour
			}
			if s == Claimed {
				want = Retrying
				if !got.ClaimToken.IsZero() || !got.NextAt.Equal(snap.Now) {
					t.Errorf("%s goes back: %+v", s, got.Status)
				}
			} else if !got.NextAt.Equal(j.NextAt) {
				t.Errorf("%s: due %v", s, got.NextAt)
			}
			if got.State != want || got.Failures != 2 || got.Claims != 1 || got.KeepTrying != keep || got.LastError != nil ||
				!got.StartDeadline.Equal(snap.Now.Add(length)) || got.Unasked != (keep == 0) {
				t.Errorf("%s, tried for %v: %+v", s, keep, got.Status)
			}
			snap.StartDeadline = snap.Now.Add(time.Microsecond)
			if d := must(t, snap.View(Traits{}, 0), WindowOver{}); d.Action != ActNothing {
				t.Errorf("%s, in time: %+v", s, d)
			}
		}
	}
}

// TestNoWaitInVain checks that a job ends when its next attempt would come too late.
func TestNoWaitInVain(t *testing.T) {
	v := sending(Opaque, OnceOrAsk)
	for left, want := range map[time.Duration]State{31 * time.Second: Retrying, 30 * time.Second: Failed, 0: Failed, -time.Hour: Failed} {
		v.WindowLeft = left
		if d := must(t, v, refusedForNow); d.To != want || want == Failed && (d.LastError.Kind != FailExhausted || d.Delay != 0) {
			t.Errorf("%v left: %+v", left, d)
		}
	}
	v.WindowLeft = time.Hour
	asked := refusedForNow
	asked.RetryAfter = 20 * time.Minute
	if d := must(t, v, asked); d.To != Retrying || d.Delay != asked.RetryAfter {
		t.Errorf("the target asks for 20 minutes: %+v", d)
	}
}

// TestThePolicyInForceIsTheConnections checks that a change of a connection reaches its jobs
// at their next decision, and that what a job states comes first.
func TestThePolicyInForceIsTheConnections(t *testing.T) {
	v := sending(Keyed, OnceOrAsk)
	v.State, v.WindowLeft, v.FenceLeft, v.PeerEnded = Ambiguous, -time.Minute, 0, true
	if d := must(t, v, LookDue{}); d.To != NeedsResolution {
		t.Errorf("the time is over: %+v", d)
	}
	v.Traits.Retry = &RetryPolicy{KeepTrying: 3 * time.Hour}
	if d := must(t, v, LookDue{}); d.Action != ActRearm {
		t.Errorf("the connection keeps trying for longer: %+v", d)
	}
	v.Retry.KeepTrying = DefaultKeepTrying
	if d := must(t, v, LookDue{}); d.To != NeedsResolution {
		t.Errorf("the job does not: %+v", d)
	}
	v = sending(Opaque, OnceOrAsk)
	v.Traits.Retry = &RetryPolicy{MaxAttempts: 1}
	if d := must(t, v, refusedForNow); d.To != Failed {
		t.Errorf("one attempt by the connection: %+v", d)
	}
	v.Retry = RetryPolicy{MaxAttempts: 2, MinBackoff: time.Second}
	if d := must(t, v, refusedForNow); d.To != Retrying || d.Delay != time.Second {
		t.Errorf("two by the job: %+v", d)
	}
}

// TestPoliciesMerge checks that a policy takes from another one what it leaves unset, and that
// waits are one value.
func TestPoliciesMerge(t *testing.T) {
	base := RetryPolicy{MaxAttempts: 9, Delays: []time.Duration{time.Second, time.Minute}, KeepTrying: time.Hour}
	for _, tt := range []struct {
		p    RetryPolicy
		want RetryPolicy
	}{
		{RetryPolicy{}, base},
		{RetryPolicy{MaxAttempts: 2}, RetryPolicy{MaxAttempts: 2, Delays: base.Delays, KeepTrying: time.Hour}},
		{RetryPolicy{KeepTrying: time.Minute}, RetryPolicy{MaxAttempts: 9, Delays: base.Delays, KeepTrying: time.Minute}},
		{RetryPolicy{MaxBackoff: time.Second}, RetryPolicy{MaxAttempts: 9, Delays: base.Delays, MaxBackoff: time.Second, KeepTrying: time.Hour}},
		{RetryPolicy{MinBackoff: time.Minute}, RetryPolicy{MaxAttempts: 9, MinBackoff: time.Minute, KeepTrying: time.Hour}},
		{RetryPolicy{Multiplier: 2}, RetryPolicy{MaxAttempts: 9, Multiplier: 2, KeepTrying: time.Hour}},
	} {
		if got := tt.p.Over(base); !got.Equal(tt.want) {
			t.Errorf("%+v over it: %+v", tt.p, got)
		}
	}
}

// TestUnknownIsRepeatedOnlyUnderAKey checks that no profile, however long, repeats an unknown
// outcome of a target without keys.
func TestUnknownIsRepeatedOnlyUnderAKey(t *testing.T) {
	profile := RetryPolicy{MaxAttempts: 50, Delays: []time.Duration{time.Second}, KeepTrying: MaxKeepTrying}
	for _, class := range []Class{Keyed, Handle, Observable, Opaque} {
		v := sending(class, OnceOrAsk)
		v.Traits.Retry, v.WindowLeft, v.KeepTrying = &profile, MaxKeepTrying, MaxKeepTrying
		v, d := step(t, v, Outcome{Attempt: 1, Result: ResultUnknown, HTTPStatus: 502, PeerEnded: true})
		if v.State != Ambiguous || class == Keyed && d.Delay != time.Second {
			t.Errorf("%s: %+v", class, d)
		}
		v.FenceLeft, v.PeerEnded = -time.Hour, true
		d = must(t, v, LookDue{})
		if repeats := d.Action == ActRearm || d.To == Retrying; repeats != (class == Keyed) {
			t.Errorf("%s: %+v", class, d)
		}
		v.KeyAge = v.Traits.KeyWindow / 2
		if d = must(t, v, LookDue{}); class == Keyed && d.To != NeedsResolution {
			t.Errorf("half the key window is over: %+v", d)
		}
	}
}

// TestARefusalClosesOnlyItsOwnAttempt checks a repeat under a key that a proxy refuses: what
// it says of this request says nothing of the one before.
func TestARefusalClosesOnlyItsOwnAttempt(t *testing.T) {
	v := sending(Keyed, OnceOrAsk)
	v.Attempt, v.Open = 2, []int{1, 2}
	for range 3 {
		v, d := step(t, v, Outcome{Attempt: 2, Result: ResultRejected, Kind: FailTransient, HTTPStatus: 503})
		if v.State != Ambiguous || len(v.Open) != 1 || v.Open[0] != 1 || d.CloseOpen != 0 {
			t.Fatalf("%+v, open %v", d, v.Open)
		}
	}
}
