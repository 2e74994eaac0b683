package job

import (
	"testing"
	"time"
)

// claimedAgain returns an OBSERVABLE job before its second arm.
func claimedAgain() View {
	v := sending(Observable, OnceOrAsk)
	v.State, v.Open, v.FenceLeft, v.Claims = Claimed, nil, -time.Minute, 2
	return v
}

func TestTheLookBeforeALaterArm(t *testing.T) {
	person := func(v *View) {
		v.NewRound, v.Round = true, 2
		v.Resolution = &Resolution{Ruling: RuleResend}
	}
	late := func(v *View) { v.WindowLeft = time.Second }
	policy := func(v *View) { v.NewRound, v.Round, v.Delivery = true, 2, AtLeastOnce }
	for _, tt := range []struct {
		name    string
		view    func(*View)
		verdict Verdict
		refused bool
		looks   int // before this one
		want    State
	}{
		{"absent: go on", nil, SawAbsent, false, 0, Claimed},
		{"absent after a refusal: go on", nil, SawAbsent, true, 3, Claimed},
		{"present: late evidence", nil, SawPresent, false, 0, Succeeded},
		{"several: no person is asked yet", nil, SawCandidates, false, 0, Retrying},
		{"several that stay unclaimed: a person", nil, SawCandidates, false, 5, NeedsResolution},
		{"several, and no time to wait: a person", late, SawCandidates, false, 0, NeedsResolution},
		{"unread: not armed", nil, SawInconclusive, false, 0, Retrying},
		{"unread for long: not armed either", nil, SawInconclusive, false, 1000, Retrying},
		{"a handle is neither", nil, SawHandle, false, 0, Retrying},
		{"present in spite of a refusal: not believed at the first look", nil, SawPresent, true, 0, Retrying},
		{"nor at the fifth look", nil, SawPresent, true, 4, Retrying},
		{"several in spite of a refusal: no person is asked yet", nil, SawCandidates, true, 0, Retrying},
		{"several that stay unclaimed, in spite of a refusal: a person", nil, SawCandidates, true, 5, NeedsResolution},
		{"one that stays unclaimed, in spite of a refusal: success", nil, SawPresent, true, 5, Succeeded},
		{"a person's round: a proof counts", person, SawPresent, false, 0, Succeeded},
		{"a person's round: the candidates were ruled on", person, SawCandidates, false, 0, Claimed},
		{"a person's round: unread, a short wait", person, SawInconclusive, false, 0, Retrying},
		{"a person's round: unread, go on", person, SawInconclusive, false, 2, Claimed},
		{"the policy's round: a proof counts", policy, SawPresent, false, 0, Succeeded},
		{"the policy's round: several, a person decides", policy, SawCandidates, false, 5, NeedsResolution},
		{"the policy's round: unread, go on", policy, SawInconclusive, false, 2, Claimed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := claimedAgain()
			if tt.view != nil {
				tt.view(&v)
			}
			v.Looks = tt.looks
			d := must(t, v, Looked{
				Observation: Observation{Attempt: 1, Verdict: tt.verdict, ExternalID: "x"}, Refused: tt.refused,
			})
			if d.Action != ActWrite || d.To != tt.want || d.Observed == nil {
				t.Fatalf("%+v, want %s and the look on record", d, tt.want)
			}
			if d.Failures != v.Failures {
				t.Errorf("cost %d attempts", d.Failures-v.Failures)
			}
			switch tt.want {
			case Claimed:
				if d.Delay != KeepDelay || d.Looks != 0 {
					t.Errorf("delay %v, looks %d: the lease must stay, the chain must end", d.Delay, d.Looks)
				}
			case Retrying:
				if d.Delay <= 0 || d.Blocked == "" || d.Claims != 0 || d.Looks != tt.looks+1 {
					t.Errorf("delay %v, blocked %q, claims %d, looks %d", d.Delay, d.Blocked, d.Claims, d.Looks)
				}
			case Succeeded:
				if d.Effect == nil || d.Effect.Attempt != 1 || d.Effect.Proof != ProofObserved || d.Cause != CauseLateEvidence {
					t.Errorf("cause %s, effect %+v", d.Cause, d.Effect)
				}
				if v.NewRound != (d.Detail != "") {
					t.Errorf("detail %q", d.Detail)
				}
			}
		})
	}
}

func TestTheWaitsOfUnreadLooksBeforeAnArmGrow(t *testing.T) {
	v := claimedAgain()
	var last time.Duration
	for range 6 {
		d := must(t, v, Looked{Observation: Observation{Attempt: 1, Verdict: SawInconclusive}})
		if d.Delay < last || d.Delay > 5*time.Minute {
			t.Errorf("waits %v after %v", d.Delay, last)
		}
		last, v.Looks = d.Delay, d.Looks
	}
	if last != 5*time.Minute {
		t.Errorf("ends at %v", last)
	}
}

func TestFreedWakesOnlyABlockedJob(t *testing.T) {
	v := sending(Observable, OnceOrAsk)
	v.State, v.Open, v.DueLeft = Retrying, nil, time.Minute
	if d := must(t, v, Freed{}); d.Action != ActNothing {
		t.Errorf("a back-off was cut short: %+v", d)
	}
	v.Blocked = "waits for another job"
	if d := must(t, v, Freed{Detail: "gone"}); d.Action != ActWrite || d.To != Retrying || d.Delay != 0 || d.Detail != "gone" {
		t.Errorf("%+v", d)
	}
	v.State = Ambiguous
	if d := must(t, v, Freed{}); d.Action != ActNothing {
		t.Errorf("%+v", d)
	}
}
