package storetest

import (
	"strconv"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// benchDue is how many schedules are due in each measured round.
const benchDue = 1000

// BenchmarkFire measures how many firings a second are decided and written where 1,000
// schedules are due, beside none, and beside 100,000 that are due on another day. open
// returns an empty store on the real clock, another one with each call.
func BenchmarkFire(b *testing.B, open func(b *testing.B) store.Store) {
	for _, idle := range []int{0, 100_000} {
		b.Run("idle="+strconv.Itoa(idle), func(b *testing.B) {
			w := &bench{B: b, s: open(b)}
			conn := w.connect()
			w.plan(benchDue, conn, time.Now().Add(-time.Hour))
			w.plan(idle, conn, time.Now().Add(24*time.Hour))
			fired := 0
			b.ResetTimer()
			for range b.N {
				for n := 0; n < benchDue; {
					out, _, err := w.s.Fire(b.Context(), store.FireParams{Decide: decideBench})
					w.must(err)
					for _, one := range out {
						w.must(one.Err)
					}
					if n += len(out); len(out) == 0 {
						b.Fatalf("%d schedules fired", n)
					}
				}
				fired += benchDue
			}
			b.ReportMetric(float64(fired)/b.Elapsed().Seconds(), "firings/s")
		})
	}
}

// plan makes n schedules.
func (w *bench) plan(n int, conn store.Connection, next time.Time) {
	w.Helper()
	together(32, func(i int) {
		for k := i; k < n; k += 32 {
			id := newID()
			_, _, err := w.s.CreateSchedule(w.Context(), store.NewSchedule{Schedule: store.Schedule{
				ID: id, Project: project, Key: id.String(), Connection: conn.ID, State: store.ScheduleActive, Next: next,
				Spec: []byte("spec"), Template: []byte("template"), Cursor: "0",
			}})
			if err != nil {
				w.Error(err)
				return
			}
		}
	})
}

// decideBench fires once, and leaves the schedule due.
func decideBench(d store.DueSchedule) store.FireDecision {
	s := d.Schedule
	s.Run++
	s.Cursor, s.Counts.Fired = strconv.FormatInt(s.Run, 10), s.Run
	id := newID()
	n := store.NewJob{Spec: job.Spec{ID: id, Connection: s.Connection, HoldKey: holdKey, PayloadKind: "webhook", Payload: []byte("payload")}}
	return store.FireDecision{Schedule: s, Firings: []store.FiringDecision{{Job: &n, Firing: store.Firing{
		Name: "i:" + s.Cursor, Nominal: d.Now, Origin: store.FiredByTime, Outcome: store.FiringFired, Run: s.Run,
	}}}}
}
