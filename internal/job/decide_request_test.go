package job

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// waiting returns a view of a job that waits for its time, an hour from viewNow.
func waiting(s State) View {
	v := sending(Opaque, OnceOrAsk)
	v.State, v.Open, v.FenceLeft = s, nil, -time.Hour
	if s == Scheduled {
		v.Attempt, v.FenceLeft, v.KeepTrying = 0, 0, 0
	}
	v.StartWindow = 2 * time.Hour
	v.DueLeft, v.NextAt, v.ScheduleTime = time.Hour, viewNow.Add(time.Hour), viewNow.Add(time.Hour)
	return v
}

// TestRequestStates is the whole table of requests by state: w is written, n
// changes nothing, e is refused.
func TestRequestStates(t *testing.T) {
	for _, tt := range []struct {
		e    Evidence
		want string // by state, in the order of States
	}{ //           SCSAARNSFCE
		{RescheduleAsked{At: tomorrow}, "weeeeweeeee"},
		{RescheduleAsked{}, "weeeeweeeee"},
		{RunNowAsked{}, "wnnnnwnnnnn"},
		{UpdateAsked{}, "weeeeeeeeee"},
		{UpdateAsked{Same: true}, "nnnnnnnnnnn"},
		{UpdateAsked{Fields: FieldPayload}, "weeeeeeeeee"},
		{UpdateAsked{Fields: FieldAttemptTimeout}, "weeeeeeeeee"},
		{UpdateAsked{Fields: FieldLabels}, "weewwwweeee"},
		{UpdateAsked{Fields: FieldDelivery}, "weewwwweeee"},
		{UpdateAsked{Fields: FieldRetry}, "weewwwweeee"},
		{UpdateAsked{Fields: FieldTimeZone}, "weewwwweeee"},
		{RetryAsked{At: tomorrow}, "eeeeeeeewew"},
		{Restored{Since: viewNow}, "wwnnnwnnnnn"},
	} {
		for i, s := range States {
			var state *StateError
			d, err := Decide(waiting(s), tt.e)
			got := byte('w')
			switch {
			case errors.As(err, &state):
				got = 'e'
				if state.Current != s || slices.Contains(state.Allowed, s) {
					t.Errorf("%s, %T: the error says %v", s, tt.e, state)
				}
			case err != nil:
				t.Fatal(err)
			case d.Action == ActNothing:
				got = 'n'
			}
			if got != tt.want[i] {
				t.Errorf("%s, %T%+v: %c, want %c", s, tt.e, tt.e, got, tt.want[i])
			}
		}
	}
}

func TestRescheduleInPlace(t *testing.T) {
	v := waiting(Scheduled)
	at := v.ScheduleTime
	for _, tt := range []struct {
		name  string
		asked RescheduleAsked
		set   func(*View)
		want  Action
	}{
		{"the same time", RescheduleAsked{At: at}, func(*View) {}, ActNothing},
		{"in another zone", RescheduleAsked{At: at.In(time.FixedZone("x", 3600))}, func(*View) {}, ActNothing},
		{"and the same window", RescheduleAsked{At: at, Window: 2 * time.Hour}, func(*View) {}, ActNothing},
		{"another window", RescheduleAsked{At: at, Window: time.Hour}, func(*View) {}, ActWrite},
		{"another time", RescheduleAsked{At: at.Add(1)}, func(*View) {}, ActWrite},
		{"now, which is always another time", RescheduleAsked{}, func(*View) {}, ActWrite},
		{"a back-off beyond it", RescheduleAsked{At: at}, func(v *View) { v.State, v.NextAt = Retrying, at.Add(time.Hour) }, ActWrite},
	} {
		w := v
		tt.set(&w)
		if d := must(t, w, tt.asked); d.Action != tt.want {
			t.Errorf("%s: %+v", tt.name, d)
		}
	}
}

// TestARulingWaitsForTheFence checks that no request makes a job due while its last
// attempt may still act, because a person's NOT_SENT is no proof.
func TestARulingWaitsForTheFence(t *testing.T) {
	v := sending(Opaque, OnceOrAsk)
	v, _ = step(t, v, Outcome{Attempt: 1, Result: ResultUnknown})
	v, _ = step(t, v, Resolved{Ruling: RuleNotSent, Actor: "ann", Override: true})
	v, d := step(t, v, RetryAsked{})
	if v.State != Retrying || d.Delay != time.Minute {
		t.Fatalf("%s after %v, want to wait for the fence", v.State, d.Delay)
	}
	v.DueLeft = time.Hour
	for _, e := range []Evidence{RunNowAsked{}, RescheduleAsked{}, RescheduleAsked{At: viewNow}} {
		if _, d := step(t, v, e); d.Delay != time.Minute {
			t.Errorf("%T: due after %v, before the fence", e, d.Delay)
		}
	}
	v.DueLeft = v.FenceLeft
	if d := must(t, v, RunNowAsked{}); d.Action != ActNothing {
		t.Errorf("due at the fence already: %+v", d)
	}
	v.FenceLeft, v.DueLeft = -time.Second, time.Hour
	if _, d := step(t, v, RunNowAsked{}); d.Delay != 0 {
		t.Errorf("past the fence: %v", d.Delay)
	}
}

func TestRunNowKeepsItsWindow(t *testing.T) {
	for _, s := range []State{Scheduled, Retrying} {
		v := waiting(s)
		v.Blocked = "why it waits"
		_, d := step(t, v, RunNowAsked{})
		if d.Delay != 0 || d.NewWindow || d.Reschedule || d.Blocked != v.Blocked || d.Hold != nil {
			t.Errorf("%s: %+v", s, d)
		}
		v.DueLeft = 0
		if d := must(t, v, RunNowAsked{}); d.Action != ActNothing {
			t.Errorf("%s that is due: %+v", s, d)
		}
	}
}

func TestRestoredThenAPerson(t *testing.T) {
	since := time.Date(2030, 1, 2, 3, 4, 5, 0, time.FixedZone("x", 3600))
	for _, s := range []State{Scheduled, Claimed, Retrying} {
		v := waiting(s)
		v.Looks, v.Negatives = 3, 1
		v, d := step(t, v, Restored{Since: since})
		if v.State != NeedsResolution || v.Looks != 0 || !strings.Contains(d.LastError.Message, "2030-01-02T02:04:05Z") {
			t.Fatalf("%s: %s, %+v", s, v.State, d.LastError)
		}
		sent, _ := step(t, v, Resolved{Ruling: RuleSent, ExternalID: "x"})
		if sent.State != Succeeded || sent.Effect.ExternalID != "x" {
			t.Errorf("%s: after SENT it is %s", s, sent.State)
		}
		again, d := step(t, v, Resolved{Ruling: RuleResend})
		// Without an attempt the effect key stays: an attempt that the restore lost may
		// have used it, and then a target that dedupes knows it.
		round := 1
		if v.Attempt > 0 {
			round = 2
		}
		if again.State != Retrying || again.Round != round || !d.NewWindow {
			t.Fatalf("%s: after RESEND it is %s in round %d", s, again.State, again.Round)
		}
		// After its lease runs out it is RETRYING, because a person asked for the resend.
		again.State, again.DueLeft = Claimed, 0
		if back, _ := step(t, again, LeaseOver{}); back.State != Retrying {
			t.Errorf("%s: back from a lease as %s", s, back.State)
		}
	}
}

func TestWindowOverNamesTheJobWaitedFor(t *testing.T) {
	other := ID{15: 7}
	v := waiting(Scheduled)
	v.WindowLeft = 0
	for _, tt := range []struct {
		waits ID
		was   *Failure
		want  string
	}{
		{ID{}, nil, "the start window passed before the job could start"},
		{ID{}, &Failure{Kind: FailTransient, Message: "earlier"}, ""},
		{other, nil, "the wait window passed while it waited for job " + other.String()},
		{other, &Failure{Kind: FailTransient, Message: "earlier"}, "the wait window passed while it waited for job " + other.String()},
	} {
		v.WaitsFor, v.LastError = tt.waits, tt.was
		_, d := step(t, v, WindowOver{})
		if tt.want == "" {
			if d.LastError != nil {
				t.Errorf("the older error was replaced: %+v", d.LastError)
			}
			continue
		}
		if d.LastError == nil || d.LastError.Kind != FailWindowOver || d.LastError.Message != tt.want {
			t.Errorf("waits for %s: %+v", tt.waits, d.LastError)
		}
	}
}

// TestPredecessorEnded checks that a reply ends once its predecessor has ended without
// success, and that RetryJob restarts it once the predecessor goes on.
func TestPredecessorEnded(t *testing.T) {
	other := ID{15: 7}
	for _, s := range States {
		for _, end := range []State{0, Failed, Canceled, Expired} {
			v := waiting(s)
			v.WaitsFor, v.PredecessorEnd = other, end
			d, err := Decide(v, PredecessorEnded{})
			if err != nil {
				t.Fatal(err)
			}
			if wrote, want := d.Action == ActWrite, s.Runnable() && end != 0; wrote != want {
				t.Errorf("%s, its predecessor %s: %+v", s, end, d)
			} else if wrote && (d.To != Canceled || d.Cause != CausePredecessorEnded || d.LastError.Kind != FailPredecessorEnded) {
				t.Errorf("%s, its predecessor %s: %+v", s, end, d)
			}
		}
	}
	v := waiting(Scheduled)
	v.WaitsFor, v.PredecessorEnd = other, Failed
	left, ended := step(t, v, PredecessorEnded{})
	left.LastError = ended.LastError
	var state *StateError
	if _, err := Decide(left, RetryAsked{}); !errors.As(err, &state) || !strings.Contains(state.Why, other.String()) {
		t.Errorf("retried before its predecessor: %v", err)
	}
	left.PredecessorEnd = 0
	again, d := step(t, left, RetryAsked{})
	if again.State != Retrying || !d.NewWindow || !d.Uncancel {
		t.Errorf("retried after its predecessor: %s, %+v", again.State, d)
	}
	for name, from := range map[string]View{"left behind": left, "restarted": again} {
		from.LastError = ended.LastError
		canceled, d := step(t, from, CancelAsked{})
		if canceled.State != Canceled || !d.Cancel || d.Cause != CauseCancelRequested {
			t.Errorf("%s, and canceled: %s, %+v", name, canceled.State, d)
		}
		if _, err := Decide(canceled, RetryAsked{}); canceled.LeftBehind() || !errors.As(err, &state) || slices.Contains(state.Allowed, Canceled) {
			t.Errorf("%s, canceled, and retried: %v", name, err)
		}
	}
	left.LastError = &Failure{Kind: FailTransient}
	if _, err := Decide(left, RetryAsked{}); !errors.As(err, &state) || slices.Contains(state.Allowed, Canceled) {
		t.Errorf("a job that its client canceled was retried: %v", err)
	}
}

// TestMissed checks that a job that fell due in a pause expires, even if its window is
// still open, and that no other job does.
func TestMissed(t *testing.T) {
	due := func(s State) View {
		v := waiting(s)
		v.DueLeft, v.NextAt, v.WindowLeft = -time.Minute, viewNow.Add(-time.Minute), time.Hour
		return v
	}
	before := Missed{Since: viewNow.Add(-time.Minute)}
	for _, s := range States {
		d, err := Decide(due(s), before)
		if err != nil {
			t.Fatal(err)
		}
		if wrote := d.Action == ActWrite; wrote != s.Runnable() {
			t.Errorf("%s: %+v", s, d)
		} else if wrote && (d.To != Expired || d.Cause != CauseWindowOver || d.LastError.Kind != FailWindowOver || d.Detail == "") {
			t.Errorf("%s: %+v", s, d)
		}
	}
	later, waits := due(Scheduled), due(Retrying)
	later.DueLeft, waits.WaitsFor = time.Second, ID{1}
	for name, tt := range map[string]struct {
		v View
		m Missed
	}{
		"due before the pause": {due(Scheduled), Missed{Since: viewNow}},
		"not due yet":          {later, before},
		"waits for a job":      {waits, before},
	} {
		if d, err := Decide(tt.v, tt.m); err != nil || d.Action != ActNothing {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}
