package rules

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// TestSettlement checks what a decision writes to attempts that ended in these ways.
func TestSettlement(t *testing.T) {
	const unsettled = job.Result(0)
	refused := job.Settled{Attempt: 1, Result: job.ResultRejected}
	for _, tt := range []struct {
		name    string
		d       job.Decision
		results []job.Result
		want    Settlement
		err     error
	}{
		{"nothing was armed", job.Decision{To: job.Canceled}, nil, Settlement{}, nil},
		{"one is settled", job.Decision{To: job.Failed, Settle: []job.Settled{refused}}, []job.Result{unsettled},
			Settlement{Settle: []job.Settled{refused}}, nil},
		{"another stays open", job.Decision{To: job.Ambiguous, Settle: []job.Settled{refused}},
			[]job.Result{unsettled, job.ResultUnknown}, Settlement{Settle: []job.Settled{refused}, Open: []int{2}}, nil},
		{"and bars a move that says no effect", job.Decision{To: job.Failed, Settle: []job.Settled{refused}},
			[]job.Result{unsettled, job.ResultUnknown}, Settlement{}, store.ErrIllegal},
		{"unless it is closed", job.Decision{To: job.Failed, Settle: []job.Settled{refused}, CloseOpen: job.ResultAbsent},
			[]job.Result{unsettled, job.ResultUnknown}, Settlement{Settle: []job.Settled{refused}, Close: []int{2}}, nil},
		{"what is closed stays as it is", job.Decision{To: job.Succeeded, CloseOpen: job.ResultSuperseded},
			[]job.Result{job.ResultNotSent, unsettled}, Settlement{Close: []int{2}}, nil},
		{"a success is not taken back", job.Decision{To: job.Succeeded, Settle: []job.Settled{refused}},
			[]job.Result{job.ResultSucceeded}, Settlement{}, nil},
		{"one that was never armed", job.Decision{To: job.Failed, Settle: []job.Settled{refused}}, nil, Settlement{}, store.ErrIllegal},
		{"twice", job.Decision{To: job.Failed, Settle: []job.Settled{refused, refused}}, []job.Result{unsettled}, Settlement{}, store.ErrIllegal},
	} {
		before := append([]job.Result(nil), tt.results...)
		got, err := settlement(store.Change{Decision: tt.d}, job.Sending, tt.results)
		if !errors.Is(err, tt.err) || err == nil && !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, %v; want %+v, %v", tt.name, got, err, tt.want, tt.err)
		}
		if !reflect.DeepEqual(before, append([]job.Result(nil), tt.results...)) {
			t.Errorf("%s: the results of the caller were changed", tt.name)
		}
	}
}

func TestCheck(t *testing.T) {
	st := job.Status{State: job.Scheduled, Version: 3}
	content := &store.Content{Payload: []byte("x")}
	for _, tt := range []struct {
		name string
		c    store.Change
		want error
	}{
		{"good", store.Change{Version: 3, Decision: job.Decision{To: job.Canceled, Cause: job.CauseResolved}}, nil},
		{"another version", store.Change{Version: 2, Decision: job.Decision{To: job.Canceled, Cause: job.CauseResolved}}, store.ErrStale},
		{"no cause", store.Change{Version: 3, Decision: job.Decision{To: job.Canceled}}, store.ErrIllegal},
		{"an action", store.Change{Version: 3, Decision: job.Decision{To: job.Canceled, Cause: job.CauseResolved, Action: job.ActObserve}}, store.ErrIllegal},
		{"no listed move", store.Change{Version: 3, Decision: job.Decision{To: job.Retrying, Cause: job.CauseResolved}}, store.ErrIllegal},
		{"a lease", store.Change{Version: 3, Decision: job.Decision{To: job.Claimed, Cause: job.CauseResolved}}, store.ErrIllegal},
		{"an effect without success", store.Change{Version: 3, Decision: job.Decision{To: job.Canceled, Cause: job.CauseResolved, Effect: &job.Effect{}}}, store.ErrIllegal},
		{"new content", store.Change{Version: 3, Content: content, Decision: job.Decision{To: job.Scheduled, Cause: job.CauseUpdated}}, nil},
		{"of another cause", store.Change{Version: 3, Content: content, Decision: job.Decision{To: job.Scheduled, Cause: job.CauseRunNow}}, store.ErrIllegal},
		{"with a move", store.Change{Version: 3, Content: content, Decision: job.Decision{To: job.Canceled, Cause: job.CauseUpdated}}, store.ErrIllegal},
		{"a new time", store.Change{Version: 3, Decision: job.Decision{To: job.Scheduled, Cause: job.CauseRescheduled, Reschedule: true}}, nil},
		{"of a job that ends", store.Change{Version: 3, Decision: job.Decision{To: job.Canceled, Cause: job.CauseRescheduled, Reschedule: true}}, store.ErrIllegal},
	} {
		if err := check(tt.c, st); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	st.State = job.Sending
	c := store.Change{Version: 3, Decision: job.Decision{To: job.Sending, Cause: job.CauseCancelRequested}}
	if err := check(c, st); err != nil {
		t.Errorf("a note on a job in mid-send: %v", err)
	}
}

// TestAbsence checks which absences count on a job with one counted absence and a fence.
func TestAbsence(t *testing.T) {
	fence := time.Unix(1000, 0)
	look := func(begun time.Time) *job.Observation {
		return &job.Observation{Verdict: job.SawAbsent, BegunAt: begun}
	}
	before, at := look(fence.Add(-time.Microsecond)), look(fence)
	for _, tt := range []struct {
		name string
		d    job.Decision
		want error
	}{
		{"counted", job.Decision{Negatives: 2, Observed: at}, nil},
		{"from before the fence", job.Decision{Negatives: 2, Observed: before}, store.ErrStale},
		{"not counted", job.Decision{Negatives: 1, Observed: before}, nil},
		{"proven", job.Decision{CloseOpen: job.ResultAbsent, Observed: at}, nil},
		{"from before the fence", job.Decision{CloseOpen: job.ResultAbsent, Observed: before}, store.ErrStale},
		{"found", job.Decision{CloseOpen: job.ResultSuperseded, Observed: before}, nil},
		{"at a time that is not known", job.Decision{Negatives: 2, Observed: look(time.Time{})}, nil},
		{"no look", job.Decision{Negatives: 1}, nil},
		{"no look, and more absences", job.Decision{Negatives: 2}, store.ErrStale},
	} {
		err := absence(store.Change{Decision: tt.d}, job.Status{Negatives: 1}, fence)
		if !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestDoubt(t *testing.T) {
	for _, from := range job.States {
		if from == job.Succeeded {
			continue // its effect is known
		}
		c := store.Change{Decision: job.Decision{
			To: job.Succeeded, Effect: &job.Effect{ExternalID: "x"}, Detail: "seen", Settle: []job.Settled{{Attempt: 1}},
			CloseOpen: job.ResultSuperseded,
		}}
		needPerson(&c, from, job.ID{1})
		d := c.Decision
		asks := d.To == job.NeedsResolution
		if asks != job.Legal(from, job.NeedsResolution) || !asks && (d.To != from || d.Delay != job.KeepDelay) {
			t.Errorf("%s: to %s, delay %v", from, d.To, d.Delay)
		}
		want := "seen; the object that was found is the effect of job " + (job.ID{1}).String() + " already"
		if d.Effect != nil || d.Settle != nil || d.CloseOpen != 0 || d.Detail != want {
			t.Errorf("%s: %+v", from, d)
		}
	}
}
