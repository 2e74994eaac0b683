package job

import (
	"fmt"
	"testing"
	"time"
)

// TestASenderLostShortensNoFence checks that a lost sender changes nothing that needs the
// fence: only a KEYED job that can be repeated before its fence leaves SENDING.
func TestASenderLostShortensNoFence(t *testing.T) {
	for _, class := range []Class{Keyed, Handle, Observable, Opaque} {
		for _, policy := range []Delivery{OnceOrAsk, AtMostOnce, AtLeastOnce} {
			for _, inFlight := range []bool{false, true} {
				for _, open := range [][]int{{lastAttempt}, {earlyAttempt, lastAttempt}} {
					for _, not := range []string{"", "canceled", "too late", "key too old"} {
						v := exhaustiveView(Sending, open, class, policy, not == "canceled", not != "too late", false, not == "key too old")
						v.Traits.DedupesInFlight = inFlight
						name := fmt.Sprint(class, " ", policy, ", dedupes in flight ", inFlight, ", open ", open, " ", not)
						d := must(t, v, SenderLost{Wait: 3 * time.Second})
						if class != Keyed || !inFlight || len(open) != 1 || not != "" {
							if d.Action != ActNothing {
								t.Errorf("%s: %+v", name, d)
							}
							continue
						}
						if d.Action != ActWrite || d.To != Ambiguous || d.Cause != CauseSenderLost || d.Round != v.Round || d.Delay != 3*time.Second {
							t.Fatalf("%s: %+v", name, d)
						}
						if len(d.Settle) != 1 || d.Settle[0].Attempt != lastAttempt || d.Settle[0].Result != ResultUnknown || d.CloseOpen != 0 {
							t.Errorf("%s: settled %+v, the rest %v", name, d.Settle, d.CloseOpen)
						}
					}
				}
			}
		}
	}
}

// TestNoPolicyDecidesBeforeTheFence checks that a KEYED job that may no longer be repeated
// waits for its fence, whatever its policy: the sender of an attempt that seemed lost may
// still get its answer.
func TestNoPolicyDecidesBeforeTheFence(t *testing.T) {
	for _, policy := range []Delivery{OnceOrAsk, AtMostOnce, AtLeastOnce} {
		for _, not := range []string{"canceled", "too late", "key too old"} {
			for _, fenced := range []bool{false, true} {
				v := exhaustiveView(Ambiguous, []int{earlyAttempt, lastAttempt}, Keyed, policy, not == "canceled", not != "too late", fenced, not == "key too old")
				v.Traits.DedupesInFlight = true
				d := must(t, v, LookDue{})
				if waits := d.Action == ActWrite && d.To == Ambiguous && d.CloseOpen == 0 && d.Delay == v.FenceLeft; waits == fenced {
					t.Errorf("%s, %s, fence in %v: %+v", policy, not, v.FenceLeft, d)
				}
			}
		}
	}
}

// TestAPacedRepeatWaitsNoLongerThanTheFence checks that a delayed repeat is due at the fence
// at the latest.
func TestAPacedRepeatWaitsNoLongerThanTheFence(t *testing.T) {
	v := sending(Keyed, OnceOrAsk)
	v.Traits.DedupesInFlight = true
	if d := must(t, v, SenderLost{Wait: time.Hour}); d.Delay != v.FenceLeft {
		t.Errorf("due after %v", d.Delay)
	}
}

// TestAClaimOfALostServerGoesBack checks that a claim whose holder is gone goes back, whatever
// the class, and that this counts as a death of its worker. After a second such death the job
// itself may be what crashes the servers, and it waits for its lease.
func TestAClaimOfALostServerGoesBack(t *testing.T) {
	for _, class := range []Class{Keyed, Handle, Observable, Opaque} {
		for _, from := range []State{Scheduled, Retrying} {
			v := sending(class, OnceOrAsk)
			v.State, v.Attempt, v.Open, v.DueLeft = Claimed, 0, nil, time.Minute
			if from == Retrying {
				v.Attempt, v.Failures = 1, 1
			}
			d := must(t, v, SenderLost{Wait: time.Hour})
			if d.Action != ActWrite || d.To != from || d.Cause != CauseSenderLost || d.Claims != 1 || d.Delay != 0 || d.Failures != v.Failures || len(d.Settle) != 0 {
				t.Errorf("%s from %s: %+v", class, from, d)
			}
			again := v
			again.Claims = 1
			over := v
			over.DueLeft = 0
			for _, v := range []View{again, over} {
				if d := must(t, v, SenderLost{}); d.Action != ActNothing {
					t.Errorf("%s, %d claims died, lease for %v: %+v", class, v.Claims, v.DueLeft, d)
				}
			}
		}
	}
}

// TestASenderIsLostOnlyAtWork checks that SenderLost changes nothing for a job that is neither
// claimed nor being sent, or whose lease or fence has passed.
func TestASenderIsLostOnlyAtWork(t *testing.T) {
	eachView(func(v View) {
		if v.State == Sending && v.FenceLeft > 0 || v.State == Claimed && v.DueLeft > 0 {
			return
		}
		if d, err := Decide(v, SenderLost{}); err != nil || d.Action != ActNothing {
			t.Errorf("%s, fence in %v: %+v, %v", v.State, v.FenceLeft, d, err)
		}
	})
}

// TestALostSendersOutcomeIsEvidence checks that an outcome from a sender that seemed lost
// counts as any other, even while another server repeats the attempt.
func TestALostSendersOutcomeIsEvidence(t *testing.T) {
	lost := func() View {
		v := sending(Keyed, OnceOrAsk)
		v.Traits.DedupesInFlight = true
		v, _ = step(t, v, SenderLost{})
		return v
	}
	v, d := step(t, lost(), Outcome{Attempt: 1, Result: ResultSucceeded})
	if v.State != Succeeded || d.Cause != CauseLateEvidence {
		t.Errorf("confirmed: %s, %s", v.State, d.Cause)
	}
	if v, _ := step(t, lost(), Outcome{Attempt: 1, Result: ResultRejected, Kind: FailPermanent}); v.State != Failed {
		t.Errorf("refused: %s", v.State)
	}
	if v, _ := step(t, lost(), Outcome{Attempt: 1, Result: ResultUnknown}); v.State != Ambiguous {
		t.Errorf("unknown: %s", v.State)
	}
	repeating := lost()
	repeating.State, repeating.Attempt, repeating.Open = Sending, 2, []int{1, 2}
	if d := must(t, repeating, Outcome{Attempt: 1, Result: ResultRejected, Kind: FailPermanent}); d.To != Sending || len(d.Settle) != 1 {
		t.Errorf("refused while it is repeated: %+v", d)
	}
	if d := must(t, repeating, Outcome{Attempt: 1, Result: ResultSucceeded}); d.To != Succeeded {
		t.Errorf("confirmed while it is repeated: %+v", d)
	}
}

// TestALostAttemptIsRepeatedAsTheConnectionSaysNow checks that the repeat of a lost attempt
// waits for its fence if the connection no longer declares that its target dedupes in flight.
func TestALostAttemptIsRepeatedAsTheConnectionSaysNow(t *testing.T) {
	for _, inFlight := range []bool{false, true} {
		v := sending(Keyed, OnceOrAsk)
		v.Traits.DedupesInFlight = true
		v, _ = step(t, v, SenderLost{})
		v.Traits.DedupesInFlight = inFlight
		d := must(t, v, LookDue{})
		if early := d.Action == ActRearm; early != inFlight || !early && (d.To != Ambiguous || d.Delay != v.FenceLeft) {
			t.Errorf("dedupes in flight %v: %+v", inFlight, d)
		}
		v.FenceLeft = 0
		if d := must(t, v, LookDue{}); d.Action != ActRearm {
			t.Errorf("dedupes in flight %v, past the fence: %+v", inFlight, d)
		}
	}
}
