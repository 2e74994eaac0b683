//go:build failpoints

package main

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/store"
)

// TestCrashWhileFiring kills servers between the decision about due schedules and its commit,
// and after the commit. Each nominal time must have one job and one effect.
func TestCrashWhileFiring(t *testing.T) {
	t.Parallel()
	const schedules, times = 5, 3
	for _, place := range failpoint.Schedules {
		for _, nth := range nths() {
			if place == failpoint.Fired && nth > 1 {
				continue // all due schedules fire together
			}
			at := fmt.Sprintf("%s:%d", place, nth)
			for _, d := range deployments {
				t.Run(at+"/"+d.name, func(t *testing.T) {
					t.Parallel()
					to := startHooks(t, true, nil)
					url := d.database(t)
					begin := time.Now().Truncate(time.Minute).Add(-times * time.Minute)
					var all []pastSchedule
					for i := range schedules {
						all = append(all, pastSchedule{
							cron: "* * * * *", from: begin, until: begin.Add(times*time.Minute + time.Second), url: to.URL(subjectOf(i)), dedupes: true,
							policies: &schedulesv1.SchedulePolicies{
								Overlap: schedulesv1.OverlapPolicy_OVERLAP_POLICY_ALLOW, CatchUp: schedulesv1.CatchUpPolicy_CATCH_UP_POLICY_ALL,
							},
						})
					}
					refs := plant(t, url, all...)
					f := newFleet(t, d, url)
					f.start(at)
					f.settle(schedules * times)
					f.stop()
					f.startFirst(1)
					f.settle(schedules * times)
					f.stop()
					if f.kills(at) == 0 {
						t.Errorf("no server was killed at %s", at)
					}
					s := openStore(t, url)
					defer s.Close()
					for i, ref := range refs {
						judgeFirings(t, s, ref, begin, times)
						if n := to.Requests(subjectOf(i)); to.Effects(subjectOf(i)) != times {
							t.Errorf("schedule %d: %d effects of %d requests, want %d", i, to.Effects(subjectOf(i)), n, times)
						}
					}
				})
			}
		}
	}
}

// TestCrashWhileTakingItems kills servers between the decision that takes items from queues and
// its commit, while clients trigger the schedules. Each item must have one job and one effect,
// in the order of its queue.
func TestCrashWhileTakingItems(t *testing.T) {
	t.Parallel()
	const schedules, times, triggers = 40, 2, 3
	const each = times + triggers
	const at = failpoint.Decided + ":1"
	for _, d := range deployments {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			to := startHooks(t, true, nil)
			url := d.database(t)
			begin := time.Now().Truncate(time.Minute).Add(-times * time.Minute)
			var all []pastSchedule
			for i := range schedules {
				p := pastSchedule{
					cron: "* * * * *", from: begin, until: begin.Add(times*time.Minute + time.Second), dedupes: true,
					policies: &schedulesv1.SchedulePolicies{
						Overlap: schedulesv1.OverlapPolicy_OVERLAP_POLICY_ALLOW, CatchUp: schedulesv1.CatchUpPolicy_CATCH_UP_POLICY_ALL,
					},
				}
				for n := range each {
					p.items = append(p.items, to.URL(subjectOf(each*i+n)))
				}
				all = append(all, p)
			}
			refs := plant(t, url, all...)
			f := newFleet(t, d, url)
			f.start(at)
			var asking sync.WaitGroup
			for n := range triggers {
				asking.Go(func() {
					for i, ref := range refs {
						f.triggers(i+n, ref, fmt.Sprint(n))
					}
				})
			}
			asking.Wait()
			f.settle(schedules * each)
			f.stop()
			if f.kills(at) == 0 {
				t.Errorf("no server was killed at %s", at)
			}
			s := openStore(t, url)
			defer s.Close()
			for i, ref := range refs {
				judgeItems(t, s, ref, all[i].items)
			}
			for i := range schedules * each {
				if n := to.Effects(subjectOf(i)); n != 1 {
					t.Errorf("item %d: %d effects of %d requests, want 1", i, n, to.Requests(subjectOf(i)))
				}
			}
		})
	}
}

// triggers triggers a schedule at the server of slot i, as a client that repeats unanswered
// calls.
func (f *fleet) triggers(i int, ref store.Ref, key string) {
	if err := f.call(waiting(f), i, func(ctx context.Context, api *client.API) error {
		_, err := api.Schedules.TriggerSchedule(ctx, &schedulesv1.TriggerScheduleRequest{
			Schedule: &schedulesv1.TriggerScheduleRequest_ScheduleId{ScheduleId: ref.ID.String()}, TriggerKey: key, AllowOverlap: true,
		})
		return err
	}); err != nil {
		f.Errorf("trigger %s of %s: %v", key, ref.ID, err)
	}
}

// judgeItems checks a queue whose items must all be used.
func judgeItems(t *testing.T, s store.Store, ref store.Ref, keys []string) {
	t.Helper()
	ledger, err := s.Firings(t.Context(), store.FiringQuery{Project: ref.Project, Schedule: ref.ID, Limit: 500})
	if err != nil || len(ledger.Firings) != len(keys) {
		t.Errorf("%d firings of %d items, %v", len(ledger.Firings), len(keys), err)
	}
	made := make(map[string]store.Firing)
	for _, f := range ledger.Firings {
		made[f.Name] = f
	}
	for n, key := range keys {
		i, err := s.Item(t.Context(), store.ItemRef{Project: ref.Project, Schedule: ref.ID, Key: key})
		if err != nil {
			t.Error(err)
			continue
		}
		if f := made[i.Firing]; i.State != store.ItemUsed || f.Run != int64(n+1) || f.Job != i.Job {
			t.Errorf("item %d is %+v, its firing %+v", n, i, f)
		}
	}
	jobs, err := s.List(t.Context(), store.JobQuery{Project: ref.Project, Schedule: ref.ID, Limit: 500})
	if err != nil || len(jobs.Jobs) != len(keys) {
		t.Errorf("%d jobs of %d items, %v", len(jobs.Jobs), len(keys), err)
	}
}

// judgeFirings checks the ledger of a schedule that fires each minute.
func judgeFirings(t *testing.T, s store.Store, ref store.Ref, begin time.Time, times int) {
	t.Helper()
	sched, err := s.Schedule(t.Context(), ref)
	if err != nil || sched.State != store.ScheduleEnded || sched.Run != int64(times) || sched.Counts != (store.ScheduleCounts{Fired: int64(times)}) {
		t.Errorf("schedule %+v, %v", sched, err)
	}
	ledger, err := s.Firings(t.Context(), store.FiringQuery{Project: ref.Project, Schedule: ref.ID, Limit: 500})
	if err != nil || len(ledger.Firings) != times {
		t.Fatalf("%d firings, %v", len(ledger.Firings), err)
	}
	for i, f := range ledger.Firings {
		if want := begin.Add(time.Duration(times-i) * time.Minute); !f.Nominal.Equal(want) || f.Outcome != store.FiringFired {
			t.Errorf("firing %d is %+v, want one at %s", i, f, want)
		}
	}
	jobs, err := s.List(t.Context(), store.JobQuery{Project: ref.Project, Schedule: ref.ID, Limit: 500})
	if err != nil || len(jobs.Jobs) != times {
		t.Errorf("%d jobs, %v", len(jobs.Jobs), err)
	}
}
