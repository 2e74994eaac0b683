package schedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// minutelyQueue stores a schedule with a queue that fires each minute.
func (w *world) minutelyQueue() store.Schedule {
	w.Helper()
	_, policies := minutely()
	policies.CatchUp = schedulesv1.CatchUpPolicy_CATCH_UP_POLICY_NONE
	t := template("")
	t.Content = &schedulesv1.JobTemplate_Queue{Queue: &schedulesv1.QueueContent{}}
	return w.schedule(minutelySpec(), policies, func(s *store.Schedule) { s.Queued, s.Template = true, encoded(w.T, t) })
}

// fill adds n items whose body is a text padded to size bytes.
func (w *world) fill(s store.Schedule, n int, text string, size int) {
	w.Helper()
	for i := range n {
		body := fmt.Sprintf("%s %d %s", text, i, strings.Repeat("x", size))
		_, _, err := w.store.AddItem(w.ctx, store.NewItem{Project: project, Item: store.ScheduleItem{
			ID: newID(), Schedule: s.ID, Key: fmt.Sprint(text, i), PayloadKind: "webhook", Payload: encoded(w.T, template(body).GetPayload()),
		}})
		w.ok(err)
	}
}

// items counts the items of a schedule in a state.
func (w *world) items(s store.Schedule, state store.ItemState) int {
	w.Helper()
	p, err := w.store.Items(w.ctx, store.ItemQuery{Project: project, Schedule: s.ID, States: []store.ItemState{state}, Limit: 500})
	w.ok(err)
	return len(p.Items)
}

// TestLargeBadItems checks that a queue of large bad items, of which a decision sees few, is not
// refused as a whole.
func TestLargeBadItems(t *testing.T) {
	onBoth(t, func(w *world) {
		w.plug.bad = []byte("bad")
		s := w.minutelyQueue()
		w.fill(s, 15, "bad", 250_000)
		w.clock.advance(time.Minute)
		for range 5 {
			is(w, w.once(), 0, "fired")
		}
		got := w.read(s)
		is(w, got.State, store.SchedulePaused, "state")
		is(w, got.PauseCause, store.PausedByRefusal, "cause")
		is(w, w.outcomes(s), "REFUSED 09:01", "ledger")
		is(w, w.items(s, store.ItemRefused), 10, "refused")
		is(w, w.items(s, store.ItemWaiting), 5, "waiting")
	})
}

// TestTriggerPassesBadItems checks that a trigger passes bad items, even if its first decision sees
// no good one.
func TestTriggerPassesBadItems(t *testing.T) {
	onBoth(t, func(w *world) {
		w.plug.bad = []byte("bad")
		s := w.minutelyQueue()
		w.fill(s, 9, "bad", 250_000)
		w.fill(s, 1, "good", 0)
		_, created, err := w.s.Trigger(w.ctx, ref(s), "k", false)
		w.ok(err)
		is(w, created, true, "created")
		is(w, w.items(s, store.ItemRefused), 9, "refused")
		is(w, w.items(s, store.ItemUsed), 1, "used")
		is(w, w.read(s).RefusedInRow, 0, "refused in a row")
	})
}

// TestBackfillOfAQueue checks that a backfill makes jobs as long as there are items, and that its
// dry run returns the same.
func TestBackfillOfAQueue(t *testing.T) {
	onBoth(t, func(w *world) {
		s := w.minutelyQueue()
		w.clock.advance(5*time.Minute + time.Second)
		w.once()
		until := begin.Add(5*time.Minute + 1)
		backfill := func(admit func(int) error) schedule.Backfilled {
			w.Helper()
			b, err := w.s.Backfill(w.ctx, ref(s), begin.Add(time.Second), until, admit)
			w.ok(err)
			if admit == nil {
				b.Share(w.items(s, store.ItemWaiting))
			}
			is(w, b.Next, time.Time{}, "next")
			return b
		}
		emptied := func(b schedule.Backfilled) string {
			w.Helper()
			for _, f := range b.Empty {
				is(w, f.Outcome, store.FiringNoContent, "outcome")
				is(w, strings.HasPrefix(f.Name, "b:"), true, "name")
			}
			return strings.ReplaceAll(told(b.Empty), " 09", "09")
		}
		is(w, emptied(backfill(nil)), "09:01, 09:02, 09:03, 09:04, 09:05", "without items")
		w.fill(s, 2, "a", 0)
		for _, admit := range []func(int) error{nil, admitted} {
			b := backfill(admit)
			is(w, told(b.Firings), "FIRED 09:01, FIRED 09:02", "made")
			is(w, emptied(b), "09:03, 09:04, 09:05", "left")
			is(w, b.Present, 0, "present")
			is(w, len(w.jobs(s)), map[bool]int{true: 0, false: 2}[admit == nil], "jobs")
			is(w, w.items(s, store.ItemWaiting), map[bool]int{true: 2, false: 0}[admit == nil], "waiting")
		}
		b := backfill(admitted)
		is(w, told(b.Firings), "", "made by a repeat")
		is(w, b.Present, 2, "present to a repeat")
		is(w, emptied(b), "09:03, 09:04, 09:05", "left by a repeat")
		w.fill(s, 4, "b", 0)
		is(w, told(backfill(admitted).Firings), "FIRED 09:03, FIRED 09:04, FIRED 09:05", "made at last")
		is(w, len(w.jobs(s)), 5, "jobs")
		is(w, w.items(s, store.ItemWaiting), 1, "waiting")
	})
}

// TestBackfillOfLargeItems checks that a backfill call sees only some of the items if they are
// large, and that the next call continues behind them.
func TestBackfillOfLargeItems(t *testing.T) {
	onBoth(t, func(w *world) {
		s := w.minutelyQueue()
		w.clock.advance(6*time.Minute + time.Second)
		w.once()
		w.fill(s, 6, "a", 250_000)
		until := begin.Add(6*time.Minute + 1)
		first, err := w.s.Backfill(w.ctx, ref(s), begin.Add(time.Second), until, admitted)
		w.ok(err)
		is(w, told(first.Firings), "FIRED 09:01, FIRED 09:02, FIRED 09:03, FIRED 09:04", "made")
		is(w, first.Next, begin.Add(5*time.Minute), "next")
		is(w, len(first.Empty), 0, "left")
		again, err := w.s.Backfill(w.ctx, ref(s), first.Next, until, admitted)
		w.ok(err)
		is(w, told(again.Firings), "FIRED 09:05, FIRED 09:06", "made by the next call")
		is(w, again.Next, time.Time{}, "next")
	})
}
