package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// TestOutagesOfManyFirings checks for each policy, on real stores, that a schedule goes on after an
// outage of more firings than one decision takes, and that no time of it is lost.
func TestOutagesOfManyFirings(t *testing.T) {
	const came = 161
	onBoth(t, func(w *world) {
		for _, catchUp := range []schedulesv1.CatchUpPolicy{1, 2, 3} {
			for _, overlap := range []schedulesv1.OverlapPolicy{1, 2, 3} {
				name := fmt.Sprint(catchUp, " ", overlap)
				spec, _ := minutely()
				s := w.schedule(spec, &schedulesv1.SchedulePolicies{
					CatchUp: catchUp, Overlap: overlap, CatchUpWindow: durationpb.New(6 * time.Hour),
				})
				w.clock.advance(came * time.Minute)
				for range came { // one after the other, where a job has to end first
					w.once()
					if now := w.read(s); now.Buffered != nil {
						w.endAll(s)
					} else if now.Next.After(w.clock.now()) {
						break
					}
				}
				got := w.read(s)
				want := store.ScheduleCounts{Fired: 1, Coalesced: came - 1}
				switch {
				case catchUp == schedulesv1.CatchUpPolicy_CATCH_UP_POLICY_NONE:
					want = store.ScheduleCounts{Fired: 1, Missed: came - 1}
				case catchUp == schedulesv1.CatchUpPolicy_CATCH_UP_POLICY_ALL && overlap != schedulesv1.OverlapPolicy_OVERLAP_POLICY_SKIP:
					want = store.ScheduleCounts{Fired: came}
				}
				is(w, got.Counts, want, name)
				is(w, got.RefusedDecisions, 0, name+": refused decisions")
				is(w, got.Next.Sub(w.clock.now()), time.Minute, name+": next decision")
				is(w, got.CatchUp, store.CatchUp{}, name+": catch-up")
				w.change(s, func(s *store.Schedule) {
					s.State, s.PauseCause, s.Next = store.SchedulePaused, store.PausedByPerson, time.Time{}
				})
			}
		}
	})
}

// endAll ends the jobs of a schedule.
func (w *world) endAll(s store.Schedule) {
	w.Helper()
	for _, j := range w.open(s) {
		d, err := job.Decide(j.View(job.Traits{Class: job.Keyed, KeyWindow: time.Hour}, 0), job.CancelAsked{})
		w.ok(err)
		out, err := w.store.Apply(w.ctx, []store.Change{{Job: j.ID, Version: j.Version, Decision: d, Actor: "t"}})
		w.ok(err)
		w.ok(out[0].Err)
	}
}
