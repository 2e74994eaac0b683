package job

import (
	"slices"
	"testing"
	"time"
)

// missWaits is the row of docs/protocol.md, section Waits, with its last wait repeated.
var missWaits = []time.Duration{5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 5 * time.Minute}

// accepted returns a job whose handle is polled.
func accepted(polls int) View {
	v := sending(Handle, OnceOrAsk)
	v.State, v.Open, v.Handle, v.Looks, v.FenceLeft = Accepted, nil, "h", polls, -time.Hour
	return v
}

// TestAFailedPollIsRepeatedSoon checks that a failed poll delays a job by seconds, however
// many polls were answered before.
func TestAFailedPollIsRepeatedSoon(t *testing.T) {
	unread := Outcome{Attempt: 1, Result: ResultUnknown, Message: "503", Polled: true}
	answered := Outcome{Attempt: 1, Result: ResultAccepted, Handle: "h", Polled: true}
	for _, polls := range []int{0, 7, 30, 1000} {
		v := accepted(polls)
		for range 2 { // a poll that is answered ends the row
			for i, want := range missWaits {
				var d Decision
				if v, d = step(t, v, unread); d.Delay != want || v.Misses != i+1 {
					t.Errorf("after %d polls, miss %d: waits %v, counts %d, want %v", polls, i+1, d.Delay, v.Misses, want)
				}
			}
			var d Decision
			if v, d = step(t, v, answered); v.Misses != 0 || d.Delay != at(pollWaits, v.Looks) {
				t.Errorf("answered: %d misses, waits %v", v.Misses, d.Delay)
			}
		}
		if want := polls + 2*(len(missWaits)+1); v.Looks != want {
			t.Errorf("%d polls counted, want %d", v.Looks, want)
		}
	}
}

// TestAnUnreadableLookIsRepeatedSoon checks that an unreadable look is followed by the waits
// of its own table, not by the spacing of absences, and that it changes neither the count of
// absences nor their spacing.
func TestAnUnreadableLookIsRepeatedSoon(t *testing.T) {
	v := sending(Observable, OnceOrAsk)
	v.State, v.FenceLeft = Ambiguous, -time.Hour
	v.Traits.Negatives, v.Traits.Spacing = 3, 450*time.Second
	look := func(verdict Verdict) Looked { return Looked{Observation: Observation{Attempt: 1, Verdict: verdict}} }
	for absences := range 2 {
		for i, want := range missWaits {
			var d Decision
			if v, d = step(t, v, look(SawInconclusive)); d.Delay != want || v.Misses != i+1 || v.Negatives != absences {
				t.Errorf("after %d absences, miss %d: waits %v, counts %d, %d absences, want %v",
					absences, i+1, d.Delay, v.Misses, v.Negatives, want)
			}
		}
		var d Decision
		if v, d = step(t, v, look(SawAbsent)); v.Misses != 0 || v.Negatives != absences+1 || d.Delay != v.Traits.Spacing {
			t.Errorf("absence %d: %d misses, waits %v", v.Negatives, v.Misses, d.Delay)
		}
	}
}

// TestAContradictedAbsenceIsAPersons checks that absences which the platform's own answer
// contradicts prove nothing. A person decides, not the policy, after as many of them as would
// be a proof otherwise.
func TestAContradictedAbsenceIsAPersons(t *testing.T) {
	for _, policy := range []Delivery{OnceOrAsk, AtMostOnce, AtLeastOnce} {
		v := sending(Observable, policy)
		v.State, v.FenceLeft = Ambiguous, -time.Hour
		v.Traits.Negatives, v.Traits.Spacing = 3, 450*time.Second
		absent := Looked{Observation: Observation{Attempt: 1, Verdict: SawAbsent, Contradicted: true}}
		for range 2 {
			var d Decision
			if v, d = step(t, v, absent); d.To != Ambiguous || d.Delay != v.Traits.Spacing {
				t.Errorf("%v: %s after %v", policy, d.To, d.Delay)
			}
		}
		if d := must(t, v, absent); d.To != NeedsResolution || d.CloseOpen != 0 || d.Effect != nil {
			t.Errorf("%v: %+v, want a person to decide", policy, d)
		}
		// An absence that is no longer contradicted is a proof.
		absent.Contradicted = false
		if d := must(t, v, absent); d.CloseOpen != ResultAbsent {
			t.Errorf("%v: %+v, want the absence proven", policy, d)
		}
	}
}

// TestALimitedLookWaitsAsThePlatformSays checks that a wait that the platform asks for is
// kept if it is longer than the table's.
func TestALimitedLookWaitsAsThePlatformSays(t *testing.T) {
	limited := Observation{Attempt: 1, Verdict: SawInconclusive, RetryAfter: 2 * time.Minute}
	ambiguous := sending(Observable, OnceOrAsk)
	ambiguous.State, ambiguous.FenceLeft = Ambiguous, -time.Hour
	for name, v := range map[string]View{"a look": ambiguous, "a look for a handle": accepted(3), "before a later arm": claimedAgain()} {
		for _, want := range []time.Duration{2 * time.Minute, 2 * time.Minute, 2 * time.Minute, 5 * time.Minute} {
			d := must(t, v, Looked{Observation: limited})
			if d.Delay != want {
				t.Errorf("%s: waits %v, want %v", name, d.Delay, want)
			}
			v.Looks, v.Misses = d.Looks, d.Misses
		}
	}
}

// TestALookThatWasNotMade checks that a look that was not made for a temporary reason counts
// as a miss. One that waits for a person or a hold does not.
func TestALookThatWasNotMade(t *testing.T) {
	for kind, miss := range map[FailureKind]bool{FailTransient: true, FailPermanent: true, FailAuth: false, FailHeld: false} {
		v := accepted(40)
		v.Misses = 2
		d := must(t, v, Deferred{Kind: kind, Message: "why"})
		if want := v.Misses + map[bool]int{true: 1}[miss]; d.Misses != want {
			t.Errorf("%s: %d misses, want %d", kind, d.Misses, want)
		}
		if miss && d.Delay != missWaits[2] {
			t.Errorf("%s: waits %v", kind, d.Delay)
		}
	}
}

// TestAPollThatIsTooEarlyIsAnswered checks that a refusal that may be older than the commit
// counts as an answered poll, not as a miss.
func TestAPollThatIsTooEarlyIsAnswered(t *testing.T) {
	v := sending(Handle, OnceOrAsk)
	v.State, v.Handle, v.Misses, v.Looks = Ambiguous, "h", 3, 3
	d := must(t, v, Outcome{Attempt: 1, Result: ResultRejected, Kind: FailTransient, Polled: true})
	if d.To != Ambiguous || d.Misses != 0 || d.Looks != 4 || d.Delay != v.absenceLeft() {
		t.Errorf("%+v", d)
	}
}

// TestMissesAreInARow checks that Misses rises by one with a look or poll that could not be
// completed and with a rate limit, stays with evidence that concerns neither, and is reset by all
// other evidence.
func TestMissesAreInARow(t *testing.T) {
	const before = 3
	rises := 0
	eachView(func(v View) {
		v.Misses = before
		for _, e := range allEvidence() {
			d, err := Decide(v, e)
			if err != nil || d.Action != ActWrite {
				continue
			}
			switch d.Misses {
			case 0:
			case before:
				if d.Delay != KeepDelay && !keepsMisses(&v, e) {
					t.Fatalf("%s, %T%+v: misses kept, to %s after %v", v.State, e, e, d.To, d.Delay)
				}
			case before + 1:
				rises++
				if !missed(e) && !limits(e) || missed(e) && !slices.Contains([]Cause{CauseLooked, CausePolled, CauseNotStarted}, d.Cause) {
					t.Fatalf("%s, %T%+v: a miss, by %s", v.State, e, e, d.Cause)
				}
			default:
				t.Fatalf("%s, %T%+v: %d misses", v.State, e, e, d.Misses)
			}
		}
	})
	if rises == 0 {
		t.Fatal("nothing was ever missed")
	}
}

// keepsMisses reports whether evidence leaves a job waiting for its next attempt as before.
func keepsMisses(v *View, e Evidence) bool {
	switch e.(type) {
	case Deferred, Freed:
		return true
	case Looked:
		return v.State == Claimed
	default:
		return false
	}
}

func limits(e Evidence) bool {
	o, is := e.(Outcome)
	return is && o.Kind == FailRateLimited
}

func missed(e Evidence) bool {
	switch e := e.(type) {
	case Looked:
		return e.Verdict == SawInconclusive
	case Outcome:
		return e.Polled && e.Result.Open()
	case Deferred:
		return true
	default:
		return false
	}
}
