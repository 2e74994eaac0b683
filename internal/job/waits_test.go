package job

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// limitedFor is a refusal for a rate limit that asks to wait.
func limitedFor(wait time.Duration) Outcome {
	return Outcome{Attempt: 1, Result: ResultRejected, Kind: FailRateLimited, HTTPStatus: 429, Message: "429 Too Many Requests", RetryAfter: wait}
}

// TestALimitWaitsAtLeastAsLongAsAFailure checks that a target which asks for no time gets
// requests at the pace of the policy, and that one which asks for more gets what it asks for.
func TestALimitWaitsAtLeastAsLongAsAFailure(t *testing.T) {
	own := []time.Duration{2 * time.Second, 10 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute}
	for _, asked := range []time.Duration{0, time.Millisecond, time.Second, 25 * time.Second, 5 * time.Minute, time.Hour} {
		v := sending(Opaque, OnceOrAsk)
		v.Traits.Retry = &RetryPolicy{Delays: own, MaxAttempts: 2, KeepTrying: 24 * time.Hour}
		v.WindowLeft, v.KeepTrying = 24*time.Hour, 24*time.Hour
		for i, wait := range own {
			d := must(t, v, limitedFor(asked))
			want := max(wait, asked, time.Second)
			if d.To != Retrying || d.Delay != want || d.Misses != i+1 || d.Failures != 0 {
				t.Errorf("asked for %v, limit %d: to %s after %v, %d misses, %d failures, want %v", asked, i+1, d.To, d.Delay, d.Misses, d.Failures, want)
			}
			if most := max(asked, time.Second); d.Hold.For != most {
				t.Errorf("asked for %v, limit %d: the account is held for %v, other jobs need not wait longer than %v", asked, i+1, d.Hold.For, most)
			}
			v.Misses = d.Misses
		}
	}
}

// TestTheEnginesOwnWaitIsKept checks a wait that is no target's: it does not grow twice.
func TestTheEnginesOwnWaitIsKept(t *testing.T) {
	v := sending(Opaque, OnceOrAsk)
	v.WindowLeft, v.KeepTrying, v.Misses = time.Hour, time.Hour, 3
	o := limitedFor(15 * time.Second)
	o.OwnWait = true
	if d := must(t, v, o); d.To != Retrying || d.Delay != 15*time.Second || d.Misses != 3 || d.Failures != 0 {
		t.Errorf("%+v", d)
	}
}

// TestALimitBeforeTheArmGrowsToo checks a limit that a job meets before its first attempt, and
// that what lies between two limits does not restart the row.
func TestALimitBeforeTheArmGrowsToo(t *testing.T) {
	v := waiting(Claimed)
	v.KeepTrying = 0
	for i, want := range []time.Duration{30 * time.Second, 2 * time.Minute, 8 * time.Minute} {
		d := must(t, v, Deferred{Kind: FailRateLimited, RetryAfter: time.Second, Message: "429"})
		if d.Delay != want || d.Misses != i+1 || d.KeepTrying != 0 {
			t.Errorf("limit %d: %v, %d misses", i+1, d.Delay, d.Misses)
		}
		v.Misses = d.Misses
		for _, e := range []Evidence{Deferred{Kind: FailHeld, RetryAfter: time.Second}, Deferred{Kind: FailAuth}} {
			if d := must(t, v, e); d.Misses != v.Misses {
				t.Errorf("%+v: %d misses, had %d", e, d.Misses, v.Misses)
			}
		}
	}
	again := claimedAgain()
	again.Misses = 3
	if d := must(t, again, Looked{Observation: Observation{Attempt: 1, Verdict: SawAbsent}}); d.Misses != 3 {
		t.Errorf("a look before a later arm: %d misses", d.Misses)
	}
	v.State, v.Misses = Claimed, 2
	if d := must(t, v, Deferred{Kind: FailTransient}); d.Misses != 0 {
		t.Errorf("another failure ends the row: %d misses", d.Misses)
	}
}

// TestALimitPastTheTimeToKeepTrying checks that a job ends immediately, with its reason, if it is
// asked to wait for longer than it is tried; before it has begun, its start window ends it.
func TestALimitPastTheTimeToKeepTrying(t *testing.T) {
	for left, want := range map[time.Duration]State{time.Hour: Failed, 59 * time.Minute: Failed, time.Hour + time.Second: Retrying} {
		v := sending(Opaque, OnceOrAsk)
		v.WindowLeft, v.KeepTrying = left, DefaultKeepTrying
		d := must(t, v, limitedFor(time.Hour))
		if d.To != want {
			t.Errorf("%v left: to %s", left, d.To)
		}
		if want == Failed && (d.LastError.Kind != FailExhausted || !strings.Contains(d.LastError.Message, "429 Too Many") ||
			!strings.Contains(d.LastError.Message, endsBeforeNext) || d.LastError.HTTPStatus != 429) {
			t.Errorf("%v left: %+v", left, d.LastError)
		}
	}
	v := waiting(Claimed)
	v.WindowLeft, v.KeepTrying = time.Minute, 0
	if d := must(t, v, Deferred{Kind: FailRateLimited, RetryAfter: time.Hour, Message: "429"}); d.To == Failed || d.Delay != time.Hour {
		t.Errorf("not begun: %+v", d)
	}
}

// TestNoWaitPassesWhatBoundsRepeats checks the wait of an unknown outcome: the larger of our own
// and the one that the target asks for, but not past the time in which a repeat is safe and
// wanted, and none where nothing more is sent.
func TestNoWaitPassesWhatBoundsRepeats(t *testing.T) {
	asks := func(wait time.Duration) Outcome {
		return Outcome{Attempt: 1, Result: ResultUnknown, HTTPStatus: 503, PeerEnded: true, RetryAfter: wait}
	}
	for _, tt := range []struct {
		name       string
		class      Class
		delivery   Delivery
		asked      time.Duration
		left, want time.Duration
	}{
		{"KEYED, less than our own", Keyed, OnceOrAsk, time.Second, time.Hour, 2 * time.Second},
		{"KEYED, more", Keyed, OnceOrAsk, time.Minute, time.Hour, time.Minute},
		{"KEYED, past the time to keep trying", Keyed, OnceOrAsk, 20 * time.Hour, time.Hour, time.Hour},
		{"KEYED, past half of the key window", Keyed, AtMostOnce, 20 * time.Hour, 72 * time.Hour, 12 * time.Hour},
		{"KEYED, AT_LEAST_ONCE keeps to it", Keyed, AtLeastOnce, 20 * time.Hour, 72 * time.Hour, 20 * time.Hour},
		{"OPAQUE, nothing more is sent", Opaque, OnceOrAsk, 20 * time.Hour, 72 * time.Hour, 0},
		{"OPAQUE, AT_MOST_ONCE", Opaque, AtMostOnce, 20 * time.Hour, 72 * time.Hour, 0},
		{"OPAQUE, AT_LEAST_ONCE", Opaque, AtLeastOnce, 20 * time.Hour, 72 * time.Hour, 20 * time.Hour},
		{"OPAQUE, AT_LEAST_ONCE, past the time", Opaque, AtLeastOnce, 20 * time.Hour, time.Hour, time.Hour},
		{"OBSERVABLE, looks wait, too", Observable, OnceOrAsk, 20 * time.Hour, time.Hour, 20 * time.Hour},
	} {
		v := sending(tt.class, tt.delivery)
		v.Traits.KeyWindow, v.KeyAge, v.FenceLeft = 24*time.Hour, 0, 0
		v.KeepTrying, v.WindowLeft = tt.left, tt.left
		v.Traits.Retry = &RetryPolicy{KeepTrying: tt.left}
		d := must(t, v, asks(tt.asked))
		if d.To != Ambiguous || d.Delay > tt.want || d.Delay < tt.want-time.Minute {
			t.Errorf("%s: to %s after %v, want %v", tt.name, d.To, d.Delay, tt.want)
		}
		// Its reason says so, if a wait ends before the time that was asked for.
		shorter := tt.want < tt.asked && (tt.class == Keyed || tt.delivery == AtLeastOnce)
		if strings.Contains(d.LastError.Message, "no repeat may come so late") != shorter {
			t.Errorf("%s: %q", tt.name, d.LastError.Message)
		}
	}
	// Past the bound, the delivery decides.
	v := sending(Keyed, OnceOrAsk)
	v.KeepTrying, v.WindowLeft, v.FenceLeft = DefaultKeepTrying, time.Hour, 0
	d := must(t, v, asks(20*time.Hour))
	v.State, v.WindowLeft, v.PeerEnded = Ambiguous, v.WindowLeft-d.Delay, true
	if d = must(t, v, LookDue{}); d.To != NeedsResolution {
		t.Errorf("at the end: %+v", d)
	}
}

// TestSomeRefusalsAreTemporaryForATime checks RetryFor, which counts from when the job began.
func TestSomeRefusalsAreTemporaryForATime(t *testing.T) {
	for _, tt := range []struct {
		tried, worth time.Duration
		want         State
	}{
		{0, 0, Retrying}, {time.Hour, 0, Retrying}, {0, 31 * time.Second, Retrying}, {0, 30 * time.Second, Failed},
		{0, time.Nanosecond, Failed}, {5 * time.Minute, 6 * time.Minute, Retrying}, {5 * time.Minute, 5 * time.Minute, Failed},
		{time.Hour, time.Minute, Failed},
	} {
		v := sending(Opaque, OnceOrAsk)
		v.KeepTrying, v.WindowLeft = DefaultKeepTrying, DefaultKeepTrying-tt.tried
		o := refusedForNow
		o.RetryFor = tt.worth
		d := must(t, v, o)
		if d.To != tt.want || d.To == Failed && !strings.Contains(d.LastError.Message, "worth another attempt") {
			t.Errorf("tried for %v, worth %v: to %s, %+v", tt.tried, tt.worth, d.To, d.LastError)
		}
	}
}

// TestNoWaitIsNegative tries waits, windows and counters at random.
func TestNoWaitIsNegative(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	span := func() time.Duration { return time.Duration(r.Int64N(int64(50*time.Hour))) - time.Hour }
	for range 50_000 {
		v := sending([]Class{Keyed, Handle, Observable, Opaque}[r.IntN(4)], []Delivery{OnceOrAsk, AtMostOnce, AtLeastOnce}[r.IntN(3)])
		v.WindowLeft, v.KeepTrying, v.KeyAge, v.FenceLeft, v.Misses = span(), max(span(), 0), span(), span(), r.IntN(30)
		if r.IntN(3) == 0 {
			v.Attempt, v.Open = 2, []int{1, 2}
		}
		o := Outcome{
			Attempt: v.Attempt, Result: []Result{ResultRejected, ResultNotSent, ResultUnknown}[r.IntN(3)], RetryAfter: max(span(), 0), RetryFor: max(span(), 0),
			Kind: []FailureKind{FailTransient, FailRateLimited}[r.IntN(2)], PeerEnded: r.IntN(2) == 0,
		}
		if d := must(t, v, o); d.Delay < 0 || d.Delay > 50*time.Hour {
			t.Fatalf("%+v on %+v: %v", o, v, d.Delay)
		}
	}
}
