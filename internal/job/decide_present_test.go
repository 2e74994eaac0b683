package job

import (
	"testing"
	"time"
)

// TestDecideAlreadyPresent checks that existing content ends a claimed job with SkipIfPresent
// whose attempts are all closed, and no other job.
func TestDecideAlreadyPresent(t *testing.T) {
	seen := AlreadyPresent{Observation{ExternalID: "post-1", ExternalURL: "https://example.com/1", Detail: "found", Attempt: 3}}
	view := func(s State, attempt int, age time.Duration) View {
		return View{Job: Job{Spec: Spec{SkipIfPresent: age}, Status: Status{State: s, Attempt: attempt, Round: 1, Claims: 2, Failures: 1}}}
	}
	d, err := Decide(view(Claimed, 0, time.Hour), seen)
	if err != nil {
		t.Fatal(err)
	}
	if d.Action != ActWrite || d.To != Canceled || d.Cause != CauseAlreadyPresent || d.Effect != nil || len(d.Settle) != 0 || d.Attempt != 0 {
		t.Errorf("decision: %+v", d)
	}
	if d.Failures != 1 || d.LastError == nil || d.LastError.Kind != FailAlreadyPresent || d.Cancel {
		t.Errorf("counters and error: %+v, %+v", d, d.LastError)
	}
	if o := d.Observed; o == nil || o.Attempt != 0 || o.Verdict != SawPresent || o.ExternalID != "post-1" || o.ExternalURL == "" {
		t.Errorf("look: %+v", o)
	}
	later, err := Decide(view(Claimed, 2, time.Hour), seen)
	if err != nil || later.To != Canceled || later.Effect != nil || later.Attempt != 2 || later.Observed.Attempt != 0 || len(later.Settle) != 0 {
		t.Errorf("before a later arm: %+v, %v", later, err)
	}
	open := view(Claimed, 1, time.Hour)
	open.Open = []int{1}
	for _, s := range States {
		for name, v := range map[string]View{
			"in another state": view(s, 0, time.Hour), "with an open attempt": open, "unasked": view(s, 0, 0),
		} {
			if s == Claimed && name == "in another state" {
				continue
			}
			if d, err := Decide(v, seen); err != nil || d.Action != ActNothing {
				t.Errorf("%s, %s: %+v, %v", s, name, d, err)
			}
		}
	}
}
