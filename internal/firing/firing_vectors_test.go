package firing

import "testing"

// TestReasonVectors holds the texts that firings store.
func TestReasonVectors(t *testing.T) {
	for got, want := range map[string]string{
		heldReason: "The database was restored to an earlier state. The firing may have made its job in the state that was lost: " +
			"see what the platform has, then BackfillSchedule makes up for it.",
		ReasonUnresolved: "It waits until the outcome of an earlier job is known. ResolveJob decides about it.",
		noItem:           "No item waited.",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestPolicyVectors holds the numbers of policies, which databases store.
func TestPolicyVectors(t *testing.T) {
	if Skip != 1 || BufferOne != 2 || Allow != 3 {
		t.Errorf("overlap: %d, %d, %d, want 1, 2, 3", Skip, BufferOne, Allow)
	}
	if CatchUpNone != 1 || CatchUpLatest != 2 || CatchUpAll != 3 {
		t.Errorf("catch-up: %d, %d, %d, want 1, 2, 3", CatchUpNone, CatchUpLatest, CatchUpAll)
	}
}
