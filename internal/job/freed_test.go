package job

import (
	"testing"
	"time"
)

// A job that waits behind its twin and is then moved to tomorrow waits for its
// time: the twin's end must not start it today.
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

// The looks that see an object against a refusal are spaced in time; neither a
// twin's end nor a client's impatience makes a short time of it.
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

// A chain of looks ends with what it asked about: a job whose last attempt turns
// out to be refused, when looks could not be made, starts a new one.
func TestALateRefusalEndsTheChainOfLooks(t *testing.T) {
	v := sending(Observable, Hold)
	v.State, v.Looks, v.Negatives, v.FenceLeft = Ambiguous, 7, 1, -time.Hour
	d := must(t, v, Outcome{Attempt: v.Attempt, Result: ResultRejected, Kind: FailTransient})
	if d.To != Retrying || d.Looks != 0 || d.Negatives != 0 {
		t.Errorf("%s, %d looks, %d negatives", d.To, d.Looks, d.Negatives)
	}
}
