package job

import (
	"testing"
	"time"
)

// TestLookNotMade checks that a look, a poll or a re-arm that was not made is no evidence
// about the effect. Waiting for a person spends no look, however many there were; any other
// reason does.
func TestLookNotMade(t *testing.T) {
	for _, tt := range []struct {
		name    string
		e       Deferred
		looks   int
		blocked string
		auth    bool
	}{
		{"refused credential", Deferred{Kind: FailAuth, Message: "why", CredentialVersion: 3}, 0, "why", true},
		{"held", Deferred{Kind: FailHeld, Message: "why"}, 0, "why", false},
		{"rate limit", Deferred{Kind: FailRateLimited, Message: "why", RetryAfter: time.Hour}, 1, "", false},
		{"transient", Deferred{Kind: FailTransient, Message: "why"}, 1, "", false},
		{"permanent", Deferred{Kind: FailPermanent, Message: "why"}, 1, "", false},
	} {
		for _, state := range []State{Ambiguous, Accepted} {
			for _, policy := range []Delivery{OnceOrAsk, AtMostOnce, AtLeastOnce} {
				v := sending(Handle, policy)
				v.State, v.Handle, v.Looks, v.Negatives, v.Blocked = state, "h", MaxPolls-1, 1, "before"
				d := must(t, v, tt.e)
				if d.To != state || d.Looks != v.Looks+tt.looks || d.Negatives != 1 || d.Blocked != tt.blocked || d.Delay <= 0 {
					t.Errorf("%s, %s, %s: %+v", tt.name, state, policy, d)
				}
				if tt.auth != (d.Hold != nil && d.Hold.Auth == AuthRefused && d.Hold.CredentialVersion == 3 && d.Hold.Reason == "why") {
					t.Errorf("%s, %s, %s: hold %+v", tt.name, state, policy, d.Hold)
				}
			}
		}
	}
}

// TestLookNotMadeForDays checks that a job with an unknown outcome waits for its account for
// days past its window, and then for a person.
func TestLookNotMadeForDays(t *testing.T) {
	for _, kind := range []FailureKind{FailAuth, FailHeld, FailTransient} {
		for _, state := range []State{Ambiguous, Accepted} {
			for left, over := range map[time.Duration]bool{time.Hour: false, -MaxHeld: false, -MaxHeld - 1: kind != FailTransient} {
				for policy, to := range map[Delivery]State{OnceOrAsk: NeedsResolution, AtMostOnce: Succeeded, AtLeastOnce: NeedsResolution} {
					v := sending(Handle, policy)
					v.State, v.Handle, v.WindowLeft, v.Blocked = state, "h", left, "before"
					want := state
					if over {
						want = to
					}
					d := must(t, v, Deferred{Kind: kind, Message: "why", CredentialVersion: 3})
					if d.To != want || over && d.Blocked != "" || (d.Hold != nil) != (kind == FailAuth) {
						t.Errorf("%s, %s, %s, %v left: %+v", kind, state, policy, left, d)
					}
				}
			}
		}
	}
}

// TestPollUnblocks checks that a poll that could be made ends the block.
func TestPollUnblocks(t *testing.T) {
	v := sending(Handle, OnceOrAsk)
	v.State, v.Handle, v.Blocked = Accepted, "h", "Reconnect this account"
	for _, r := range []Result{ResultAccepted, ResultUnknown} {
		if d := must(t, v, Outcome{Attempt: v.Attempt, Result: r, Polled: true}); d.To != Accepted || d.Blocked != "" {
			t.Errorf("%s: %+v", r, d)
		}
	}
}
