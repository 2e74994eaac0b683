package job

import (
	"reflect"
	"testing"
	"time"
)

// TestDecidedTimes is the table of when a job is due, and of the fields that follow from it.
func TestDecidedTimes(t *testing.T) {
	const hour = time.Hour
	at := func(d time.Duration) time.Time { return viewNow.Add(d) }
	base := Job{Spec: Spec{StartWindow: 2 * hour}, Status: Status{
		State: Scheduled, Version: 3, ScheduleTime: at(-hour), StartDeadline: at(hour), NextAt: at(-hour),
	}}
	for _, tt := range []struct {
		name           string
		from           State
		d              Decision
		due, scheduled time.Time
		deadline       time.Time
		window         time.Duration
	}{
		{"a delay", Claimed, Decision{To: Retrying, Delay: hour}, at(hour), at(-hour), at(hour), 2 * hour},
		{"immediately", Claimed, Decision{To: Scheduled}, at(0), at(-hour), at(hour), 2 * hour},
		{"a kept time", Ambiguous, Decision{To: Ambiguous, Delay: KeepDelay}, at(-hour), at(-hour), at(hour), 2 * hour},
		{"a kept fence", Sending, Decision{To: Sending, Delay: hour}, at(-hour), at(-hour), at(hour), 2 * hour},
		{"an end", Claimed, Decision{To: Failed, Delay: hour}, time.Time{}, at(-hour), at(hour), 2 * hour},
		{"a person must decide", Ambiguous, Decision{To: NeedsResolution}, time.Time{}, at(-hour), at(hour), 2 * hour},
		{"a time after the delay", Failed, Decision{To: Retrying, Delay: hour, StartAt: at(3 * hour)}, at(3 * hour), at(-hour), at(hour), 2 * hour},
		{"a delay after the time", Failed, Decision{To: Retrying, Delay: hour, StartAt: at(1)}, at(hour), at(-hour), at(hour), 2 * hour},
		{"a new window", Failed, Decision{To: Retrying, StartAt: at(hour), NewWindow: true}, at(hour), at(-hour), at(3 * hour), 2 * hour},
		{"another time", Scheduled, Decision{To: Scheduled, StartAt: at(hour), NewWindow: true, Reschedule: true}, at(hour), at(hour), at(3 * hour), 2 * hour},
		{"and another window", Scheduled, Decision{To: Scheduled, StartAt: at(hour), NewWindow: true, Reschedule: true, Window: hour}, at(hour), at(hour), at(2 * hour), hour},
		{"whole microseconds", Scheduled, Decision{To: Scheduled, StartAt: at(1999), Reschedule: true}, at(1000), at(1000), at(hour), 2 * hour},
	} {
		was := base
		was.State = tt.from
		got := was.Decided(tt.d, viewNow)
		for what, pair := range map[string][2]time.Time{
			"due": {got.NextAt, tt.due}, "scheduled for": {got.ScheduleTime, tt.scheduled}, "deadline": {got.StartDeadline, tt.deadline},
		} {
			if !pair[0].Equal(pair[1]) {
				t.Errorf("%s: %s %v, want %v", tt.name, what, pair[0], pair[1])
			}
		}
		ended := tt.d.To.Terminal()
		if got.StartWindow != tt.window || got.Version != 4 || !got.Updated.Equal(viewNow) || got.Ended.IsZero() == ended {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	if w := (Spec{}).Window(); w != DefaultWindow {
		t.Errorf("an unset window is %v", w)
	}
}

// TestDecidedTokens checks that a lease ends with its state, and that a look that another
// worker has leased stays with that worker if state and due time stay.
func TestDecidedTokens(t *testing.T) {
	token := ID{1}
	for _, tt := range []struct {
		from, to State
		delay    time.Duration
		kept     bool
	}{
		{Ambiguous, Ambiguous, KeepDelay, true},
		{Accepted, Accepted, KeepDelay, true},
		{Claimed, Claimed, 0, true},
		{Ambiguous, Ambiguous, time.Minute, false},
		{Ambiguous, Accepted, KeepDelay, false},
		{Ambiguous, NeedsResolution, KeepDelay, false},
		{Claimed, Scheduled, 0, false},
		{Claimed, Canceled, 0, false},
	} {
		was := Job{Status: Status{State: tt.from, ClaimToken: token, NextAt: tomorrow}}
		got := was.Decided(Decision{To: tt.to, Delay: tt.delay}, viewNow)
		if got.ClaimToken.IsZero() == tt.kept {
			t.Errorf("%s to %s: token %s", tt.from, tt.to, got.ClaimToken)
		}
	}
}

func TestDecidedKeepsOtherFields(t *testing.T) {
	was := Job{Status: Status{
		State: Failed, CancelAsked: viewNow, Ended: viewNow, LastError: &Failure{Message: "old", At: viewNow},
		WaitsFor: ID{7}, Attempt: 2, Class: Observable,
	}}
	later := viewNow.Add(time.Minute)
	got := was.Decided(Decision{To: Failed, Cancel: true}, later)
	if !got.CancelAsked.Equal(viewNow) || !got.Ended.Equal(viewNow) || !reflect.DeepEqual(got.LastError, was.LastError) {
		t.Errorf("the first cancel, end or error has changed: %+v", got.Status)
	}
	if got.WaitsFor != was.WaitsFor || got.Attempt != 2 || got.Class != Observable {
		t.Errorf("a field that no decision sets has changed: %+v", got.Status)
	}
	said := &Failure{Message: "new"}
	got = was.Decided(Decision{To: Retrying, Uncancel: true, LastError: said}, later)
	if !got.CancelAsked.IsZero() || !got.Ended.IsZero() || got.LastError.Message != "new" || !got.LastError.At.Equal(later) {
		t.Errorf("%+v", got.Status)
	}
	if !said.At.IsZero() {
		t.Error("Decided has changed its argument")
	}
}
