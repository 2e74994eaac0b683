package firing_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/store"
)

// queue is a schedule whose items are in a list. Bad items are refused.
type queue struct {
	*fixture
	waiting       []store.ScheduleItem
	bad           map[job.ID]bool
	used, refused []job.ID
	next          byte
	// head bounds the items that one decision gets; 0: all of them.
	head int
}

func newQueue(t *testing.T, p firing.Policies, cron ...string) *queue {
	t.Helper()
	q := &queue{fixture: newFixture(t, p, cron...), bad: make(map[job.ID]bool)}
	q.due.Schedule.Queued = true
	q.plan.Build = nil
	q.plan.BuildItem = func(_ recur.Beat, run int64, item store.ScheduleItem) (store.NewJob, error) {
		if q.bad[item.ID] {
			return store.NewJob{}, fmt.Errorf("%w: too long", firing.ErrContent)
		}
		return store.NewJob{Spec: job.Spec{Payload: fmt.Appendf(nil, "%d %d", item.ID[15], run)}}, nil
	}
	return q
}

func (q *queue) add(n int, bad ...int) {
	for i := range n {
		q.next++
		id := job.ID{1, 15: q.next}
		q.waiting = append(q.waiting, store.ScheduleItem{ID: id, State: store.ItemWaiting})
		q.bad[id] = slices.Contains(bad, i)
	}
}

// at decides at a time after begin, and writes what was decided, as a store does.
func (q *queue) at(t *testing.T, d time.Duration, open ...store.OpenJob) []store.FiringDecision {
	t.Helper()
	q.due.Now, q.due.Open = begin.Add(d), open
	n := len(q.waiting)
	if q.head > 0 {
		n = min(n, q.head)
	}
	q.due.Items, q.due.MoreItems = slices.Clone(q.waiting[:n]), n < len(q.waiting)
	out := firing.Decide(q.due, q.plan)
	q.due.Schedule = out.Schedule
	take := func(id job.ID) {
		if i := slices.IndexFunc(q.waiting[:n], func(one store.ScheduleItem) bool { return one.ID == id }); i >= 0 {
			q.waiting = slices.Delete(q.waiting, i, i+1)
			n--
			return
		}
		t.Fatalf("item %d, which does not wait", id[15])
	}
	for _, f := range out.Firings {
		if (f.Job != nil) == f.Item.IsZero() {
			t.Fatalf("firing %+v with item %d", f.Firing, f.Item[15])
		}
		if f.Job != nil {
			take(f.Item)
			q.used = append(q.used, f.Item)
		}
	}
	for _, one := range out.RefusedItems {
		take(one.Item)
		q.refused = append(q.refused, one.Item)
	}
	return out.Firings
}

func (q *queue) wants(t *testing.T, got []store.FiringDecision, wanted string, waiting, used, refused int) {
	t.Helper()
	want(t, q.fixture, got, wanted)
	if len(q.waiting) != waiting || len(q.used) != used || len(q.refused) != refused {
		t.Errorf("%d wait, %d used, %d refused, want %d, %d and %d", len(q.waiting), len(q.used), len(q.refused), waiting, used, refused)
	}
}

func TestQueue(t *testing.T) {
	q := newQueue(t, firing.Policies{Overlap: firing.Allow})
	q.wants(t, q.at(t, time.Minute), "EMPTY 09:01", 0, 0, 0)
	q.add(3)
	got := q.at(t, 2*time.Minute)
	q.wants(t, got, "FIRED 09:02", 2, 1, 0)
	if string(got[0].Job.Spec.Payload) != "1 1" {
		t.Errorf("made %s", got[0].Job.Spec.Payload)
	}
	q.wants(t, q.at(t, 3*time.Minute), "FIRED 09:03", 1, 2, 0)
	q.wants(t, q.at(t, 5*time.Minute+time.Second), "COALESCED 09:04, FIRED 09:05", 0, 3, 0)
	q.wants(t, q.at(t, 6*time.Minute), "EMPTY 09:06", 0, 3, 0)
	if c := q.due.Schedule.Counts; c.Fired != 3 || c.NoContent != 2 || q.due.Schedule.Run != 3 || q.due.Schedule.State != store.ScheduleActive {
		t.Errorf("counts %+v, run %d, state %d", c, q.due.Schedule.Run, q.due.Schedule.State)
	}
}

// TestQueueRefuses checks that bad content is skipped, and stops the schedule only after many bad
// items in a row.
func TestQueueRefuses(t *testing.T) {
	q := newQueue(t, firing.Policies{Overlap: firing.Allow})
	q.add(4, 0, 1)
	q.wants(t, q.at(t, time.Minute), "FIRED 09:01", 1, 1, 2)
	q.add(2, 0, 1)
	q.at(t, 2*time.Minute)
	q.wants(t, q.at(t, 3*time.Minute), "EMPTY 09:03", 0, 2, 4)
	if s := q.due.Schedule; s.State != store.ScheduleActive || s.Counts.Refused != 0 {
		t.Errorf("schedule %+v", s)
	}
	q.add(12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	q.wants(t, q.at(t, 4*time.Minute), "FIRED 09:04", 11, 3, 4)
	q.wants(t, q.at(t, 5*time.Minute), "REFUSED 09:05", 1, 3, 14)
	if s := q.due.Schedule; s.State != store.SchedulePaused || s.PauseCause != store.PausedByRefusal {
		t.Errorf("schedule %+v", s)
	}
}

// TestQueueRefusesInParts checks that refusals are counted across decisions: one decision sees only
// a few large items.
func TestQueueRefusesInParts(t *testing.T) {
	q := newQueue(t, firing.Policies{Overlap: firing.Allow})
	q.head = 4
	q.add(20, 0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19) // 6 is good
	for range 30 {
		q.at(t, time.Minute)
	}
	q.wants(t, nil, "", 13, 1, 6)
	for range 30 {
		q.at(t, 2*time.Minute)
	}
	q.wants(t, nil, "", 3, 1, 16)
	if s := q.due.Schedule; s.State != store.SchedulePaused || s.PauseCause != store.PausedByRefusal || s.Counts.Refused != 1 || s.RefusedInRow != 10 {
		t.Errorf("schedule %+v", s)
	}
	// One good item resets the count, even for a trigger of a paused schedule.
	q.waiting = nil
	q.add(1)
	q.due.Items = q.waiting
	got, err := firing.Trigger(q.due, q.plan, "k", true)
	if err != nil || got.Schedule.RefusedInRow != 0 {
		t.Errorf("triggered %+v, %v", got, err)
	}
}

// TestQueuePauses checks that a refusal that the item does not cause pauses the schedule, and that
// the item keeps waiting.
func TestQueuePauses(t *testing.T) {
	for name, edit := range map[string]func(*queue){
		"the builder": func(q *queue) {
			q.plan.BuildItem = func(recur.Beat, int64, store.ScheduleItem) (store.NewJob, error) {
				return store.NewJob{}, errors.New("no connection")
			}
		},
		"the store": func(q *queue) { q.due.Refused = map[string]error{"2026-11-02T09:01:00/1": store.ErrNotFound} },
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, firing.Policies{})
			q.add(1)
			edit(q)
			q.wants(t, q.at(t, time.Minute), "REFUSED 09:01", 1, 0, 0)
			if q.due.Schedule.PauseCause != store.PausedByRefusal {
				t.Errorf("schedule %+v", q.due.Schedule)
			}
		})
	}
}

// TestQueueBuffers checks that a buffered firing takes its item when it is released.
func TestQueueBuffers(t *testing.T) {
	q := newQueue(t, firing.Policies{})
	q.wants(t, q.at(t, time.Minute, open(job.Sending)), "EMPTY 09:01", 0, 0, 0)
	q.add(2)
	q.wants(t, q.at(t, 2*time.Minute, open(job.Sending)), "", 2, 0, 0)
	q.wants(t, q.at(t, 2*time.Minute+time.Second), "FIRED 09:02", 1, 1, 0)
	q.at(t, 3*time.Minute, open(job.Sending))
	q.waiting = nil
	q.wants(t, q.at(t, 3*time.Minute+time.Second), "EMPTY 09:03", 0, 1, 0)
	if q.due.Schedule.Buffered != nil {
		t.Errorf("buffered %+v", q.due.Schedule.Buffered)
	}
}

// TestQueueAfterRestore checks that a queue in a restored database waits for a person, because its
// items may have been sent.
func TestQueueAfterRestore(t *testing.T) {
	q := newQueue(t, firing.Policies{Overlap: firing.Allow})
	q.add(2)
	q.due.HeldUntil = begin.Add(90 * time.Second)
	q.due.Schedule.HeldUntil = q.due.HeldUntil
	got := q.at(t, 2*time.Minute)
	if s := q.due.Schedule; len(got) != 2 || got[0].Firing.Outcome != store.FiringHeld || got[1].Firing.Outcome != store.FiringMissed ||
		s.State != store.SchedulePaused || s.Counts.Held != 1 || len(q.used) != 0 {
		t.Errorf("decided %+v, schedule %+v", got, s)
	}
	q = newQueue(t, firing.Policies{Overlap: firing.Allow})
	q.add(1)
	q.due.HeldUntil = begin
	q.wants(t, q.at(t, time.Minute), "FIRED 09:01", 0, 1, 0)
}

// TestQueueIsReadInParts checks that the next decision, which follows immediately, takes the items
// that one decision did not get.
func TestQueueIsReadInParts(t *testing.T) {
	q := newQueue(t, firing.Policies{Overlap: firing.Allow, CatchUp: firing.CatchUpAll})
	q.head = 2
	q.add(5, 3)
	for range 4 {
		q.at(t, 4*time.Minute+30*time.Second)
	}
	q.wants(t, q.at(t, 4*time.Minute+30*time.Second), "", 0, 4, 1)
	if c := q.due.Schedule.Counts; c.Fired != 4 || c.NoContent != 0 {
		t.Errorf("counts %+v", c)
	}
	// A released firing waits for them, too.
	q = newQueue(t, firing.Policies{})
	q.head = 1
	q.add(2, 0)
	q.at(t, time.Minute, open(job.Sending))
	q.wants(t, q.at(t, time.Minute+time.Second), "", 1, 0, 1)
	if q.due.Schedule.Next.After(q.due.Now) || q.due.Schedule.Buffered == nil {
		t.Errorf("schedule %+v", q.due.Schedule)
	}
	q.wants(t, q.at(t, time.Minute+time.Second), "FIRED 09:01", 0, 1, 1)
}

// TestMaxPerDay checks the bound of jobs for one date in the zone, after an outage too.
func TestMaxPerDay(t *testing.T) {
	f := newFixture(t, firing.Policies{Overlap: firing.Allow, MaxPerDay: 2, CatchUp: firing.CatchUpAll, CatchUpWindow: 48 * time.Hour}, "0 * * * *")
	f.at(3*time.Hour + time.Second)
	want(t, f, f.at(4*time.Hour), "LIMIT 13:00")
	f.at(20 * time.Hour) // 05:00 of the next day
	if s := f.due.Schedule; s.Counts.Fired != 4 || s.Day != "2026-11-03" || s.DayCount != 2 || s.Counts.SkippedByLimit != 16 {
		t.Errorf("counts %+v, %d on %s", s.Counts, s.DayCount, s.Day)
	}
	got, err := firing.Trigger(f.due, f.plan, "k", true)
	if err != nil || len(got.Firings) != 1 || got.Schedule.DayCount != 3 {
		t.Errorf("triggered %+v, %v", got, err)
	}
	past := recur.Beat{Name: "2026-11-02T20:00:00/1", Instant: begin.Add(11 * time.Hour), Offset: 3600}
	back, _, err := firing.Backfill(f.due, f.plan, []recur.Beat{past})
	if err != nil || len(back.Firings) != 1 || back.Schedule.DayCount != 2 || back.Schedule.Day != "2026-11-03" {
		t.Errorf("made up %+v, %v", back, err)
	}
}

// TestMaxPerDayBuffered checks that a firing of yesterday that waited until a trigger began today
// counts for today.
func TestMaxPerDayBuffered(t *testing.T) {
	f := newFixture(t, firing.Policies{MaxPerDay: 1}, "0 9 * * *")
	f.at(25*time.Hour, open(job.Sending)) // 09:00 of the 3rd waits
	f.due.Now = begin.Add(40 * time.Hour)
	got, err := firing.Trigger(f.due, f.plan, "k", true)
	if err != nil || got.Schedule.Day != "2026-11-04" || got.Schedule.Buffered == nil {
		t.Fatalf("triggered %+v, %v", got, err)
	}
	f.due.Schedule = got.Schedule
	want(t, f, f.at(40*time.Hour+time.Second), "LIMIT 09:00")
}

func TestTriggerTakesAnItem(t *testing.T) {
	q := newQueue(t, firing.Policies{})
	if _, err := firing.Trigger(q.due, q.plan, "k", false); !errors.Is(err, firing.ErrNoContent) {
		t.Errorf("an empty queue: %v", err)
	}
	q.add(3, 0)
	q.due.Items = q.waiting
	got, err := firing.Trigger(q.due, q.plan, "k", false)
	if err != nil || got.Firings[0].Item != q.waiting[1].ID || len(got.RefusedItems) != 1 || got.RefusedItems[0].Item != q.waiting[0].ID {
		t.Errorf("triggered %+v, %v", got, err)
	}
	beats := []recur.Beat{{Name: "a", Instant: begin}, {Name: "b", Instant: begin}, {Name: "c", Instant: begin}}
	some, left, err := firing.Backfill(q.due, q.plan, beats)
	if err != nil || len(some.Firings) != 2 || len(some.RefusedItems) != 1 || len(left.Later) != 0 || len(left.Empty) != 1 || left.Empty[0].Name != "c" {
		t.Errorf("made up %+v, left %+v, %v", some, left, err)
	}
	q.due.MoreItems = true
	some, left, err = firing.Backfill(q.due, q.plan, beats)
	if err != nil || len(some.Firings) != 2 || len(left.Empty) != 0 || len(left.Later) != 1 || left.Later[0].Name != "c" {
		t.Errorf("made up %+v of a part of the queue, left %+v, %v", some, left, err)
	}
	// All items that it gets are bad: they are refused, and the trigger must be repeated.
	q.due.Items = q.due.Items[:1]
	got, err = firing.Trigger(q.due, q.plan, "k", false)
	if !errors.Is(err, firing.ErrMoreItems) || len(got.Firings) != 0 || len(got.RefusedItems) != 1 || got.Schedule.RefusedInRow != 1 {
		t.Errorf("triggered %+v, %v", got, err)
	}
}

// TestQueueRandomly checks with random policies, outages and jobs that each item is used once or
// refused once, in order, that none is lost, that no date has more jobs than it may, and that
// Assign's result comes true if nothing changes.
func TestQueueRandomly(t *testing.T) {
	overlaps := []firing.Overlap{firing.BufferOne, firing.Skip, firing.Allow}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 11))
		p := firing.Policies{
			Overlap: overlaps[r.IntN(3)], WhileUnresolved: overlaps[r.IntN(3)], CatchUp: firing.CatchUp(1 + r.IntN(3)),
			CatchUpWindow: time.Duration(1+r.IntN(300)) * time.Minute, MaxPerDay: int64(r.IntN(4)),
		}
		q := newQueue(t, p, []string{"*/7 * * * *", "*/15 * * * *", "30 2,9,17 * * *"}[r.IntN(3)])
		q.head = r.IntN(4)
		var added []job.ID
		perDay := make(map[string]int64)
		now := time.Duration(0)
		for range 60 {
			if n := len(q.waiting); len(added) < 200 && r.IntN(3) > 0 {
				q.add(r.IntN(4), r.IntN(8))
				for _, one := range q.waiting[n:] {
					added = append(added, one.ID)
				}
			}
			now += time.Duration(r.IntN([]int{90, 600, 40_000}[r.IntN(3)])) * time.Second
			var jobs []store.OpenJob
			if r.IntN(4) == 0 {
				jobs = append(jobs, open([]job.State{job.Sending, job.NeedsResolution}[r.IntN(2)]))
			}
			for range 100 {
				for _, one := range q.at(t, now, jobs...) {
					if one.Job != nil {
						perDay[one.Firing.LocalTime[:10]]++
					}
				}
				if s := q.due.Schedule; s.Next.IsZero() || s.Next.After(q.due.Now) {
					break
				}
			}
		}
		for day, n := range perDay {
			if p.MaxPerDay > 0 && n > p.MaxPerDay {
				t.Fatalf("seed %d: %d jobs on %s, at most %d", seed, n, day, p.MaxPerDay)
			}
		}
		if !slices.IsSortedFunc(q.used, func(a, b job.ID) int { return slices.Compare(a[:], b[:]) }) {
			t.Fatalf("seed %d: out of order: %v", seed, q.used)
		}
		all := slices.Concat(q.used, q.refused)
		for _, one := range q.waiting {
			all = append(all, one.ID)
		}
		slices.SortFunc(all, func(a, b job.ID) int { return slices.Compare(a[:], b[:]) })
		if !slices.Equal(all, added) {
			t.Fatalf("seed %d: %d items of %d: %d used, %d refused, %d wait", seed, len(all), len(added), len(q.used), len(q.refused), len(q.waiting))
		}
	}
}

// TestAssign checks that Assign's result comes true if nothing changes.
func TestAssign(t *testing.T) {
	q := newQueue(t, firing.Policies{MaxPerDay: 2}, "0 */5 * * *")
	q.at(t, 2*time.Hour, open(job.Sending)) // nothing waits yet: 10:00 is empty
	q.add(7)
	q.at(t, 7*time.Hour, open(job.Sending)) // 15:00 is buffered
	var beats []recur.Beat
	var ids []job.ID
	cursor, err := firing.At(q.plan.Times, q.due.Schedule.Cursor)
	if err != nil {
		t.Fatal(err)
	}
	for range 12 {
		beat, next, _ := q.plan.Times.Next(cursor)
		beats, cursor = append(beats, beat), next
	}
	q.due.Schedule.Skips = []string{beats[1].Name}
	for _, one := range q.waiting {
		ids = append(ids, one.ID)
	}
	assigned := firing.Assign(q.due.Schedule, q.plan.Policies, beats, ids)
	q.at(t, 7*time.Hour+time.Minute) // released
	taken := 0
	for i, b := range beats {
		var item job.ID
		for _, f := range q.at(t, b.Instant.Sub(begin)) {
			item = f.Item
		}
		if item != assigned[i] {
			t.Errorf("%s took item %d, want %d", b.Name, item[15], assigned[i][15])
		}
		if !item.IsZero() {
			taken++
		}
	}
	if taken != 6 || len(q.waiting) != 0 {
		t.Errorf("%d were taken, %d wait", taken, len(q.waiting))
	}
}
