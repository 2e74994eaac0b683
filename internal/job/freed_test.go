package job

import (
	"testing"
	"time"
)

// TestAMovedJobIsNotFreed checks a job that waits for another one with the same content and
// is then moved to tomorrow. The other job's end must not start it today.
func TestAMovedJobIsNotFreed(t *testing.T) {
	now := viewNow
	v := waiting(Scheduled)
	v.Blocked = "waits for another job with the same content"
	d := must(t, v, RescheduleAsked{At: tomorrow})
	v.Job = v.Decided(d, now)
	v.DueLeft = v.NextAt.Sub(now)
	if !v.NextAt.Equal(tomorrow) {
		t.Fatalf("due at %v", v.NextAt)
	}
	if d := must(t, v, Freed{}); d.Action != ActNothing {
		t.Errorf("moved to tomorrow and freed today: %+v", d)
	}
}

// TestTheLooksBeforeALaterArmStaySpaced checks that neither the end of a job with the same
// content nor a client's request shortens the time that the looks span which see an object
// in spite of a refusal.
func TestTheLooksBeforeALaterArmStaySpaced(t *testing.T) {
	v := waiting(Retrying)
	v.Class, v.Looks, v.Blocked, v.DueLeft = Observable, 4, "an object with this content was seen", 5*time.Minute
	if d := must(t, v, Freed{}); d.Action != ActNothing {
		t.Errorf("freed: %+v", d)
	}
	if d := must(t, v, RunNowAsked{}); d.Action != ActWrite || d.Looks != 0 {
		t.Errorf("run now keeps %d looks that were not spaced", d.Looks)
	}
	if d := must(t, v, RescheduleAsked{}); d.Looks != 0 {
		t.Errorf("moved to now keeps %d looks that were not spaced", d.Looks)
	}
}

// TestALateRefusalEndsTheChainOfLooks checks that a chain of looks ends with its question: a
// job whose last attempt turns out to be refused starts a new chain.
func TestALateRefusalEndsTheChainOfLooks(t *testing.T) {
	v := sending(Observable, OnceOrAsk)
	v.State, v.Looks, v.Negatives, v.FenceLeft = Ambiguous, 7, 1, -time.Hour
	d := must(t, v, Outcome{Attempt: v.Attempt, Result: ResultRejected, Kind: FailTransient})
	if d.To != Retrying || d.Looks != 0 || d.Negatives != 0 {
		t.Errorf("%s, %d looks, %d negatives", d.To, d.Looks, d.Negatives)
	}
}
