//go:build failpoints

package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
)

// TestIdenticalSubmits checks many clients that submit the same request concurrently at three
// servers, one of which may be killed meanwhile.
func TestIdenticalSubmits(t *testing.T) {
	t.Parallel()
	const clients, answersBeforeKill = 1000, 300
	for name, kills := range map[string]bool{"all servers live": false, "one server is killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := startHooks(t, true, nil)
			f := newFleet(t, onPostgres, "")
			f.start()
			req := jobFor(to, f.connect(to.connection()), subjectOf(0))
			ctx := waiting(t)

			var answered atomic.Int64
			enough := make(chan struct{})
			answers, calls := make([]*fireoncev1.ScheduleJobResponse, clients), make([]int, clients)
			begin := make(chan struct{})
			var clientsDone sync.WaitGroup
			for i := range clients {
				clientsDone.Go(func() {
					<-begin
					err := f.call(ctx, i, func(ctx context.Context, api *client.API) (err error) {
						calls[i]++
						answers[i], err = api.Jobs.ScheduleJob(ctx, req)
						return err
					})
					if err != nil {
						t.Errorf("client %d: %v", i, err)
						return
					}
					if answered.Add(1) == answersBeforeKill {
						close(enough)
					}
				})
			}
			close(begin)
			if kills {
				select {
				case <-enough:
					f.at(1).Kill()
				case <-ctx.Done():
					t.Error("the clients hang")
				}
			}
			clientsDone.Wait()
			if t.Failed() {
				return
			}

			created, ids, times := 0, make(map[string]int), make(map[time.Time]int)
			for _, a := range answers {
				ids[a.GetJob().GetJobId()]++
				times[a.GetJob().GetScheduleTime().AsTime()]++
				if a.GetCreated() {
					created++
				}
			}
			repeats := 0
			for _, n := range calls {
				repeats += n - 1
			}
			// The answer with created may be lost with a killed server or a broken call.
			if created > 1 || created == 0 && !kills && repeats == 0 || len(ids) != 1 || len(times) != 1 {
				t.Errorf("created %d times; jobs %v, times %v", created, ids, times)
			}
			h := f.settle(1)
			f.stop()
			judge(t, to, fireoncev1.EffectClass_EFFECT_CLASS_KEYED, subjectOf(0), h.events[answers[0].GetJob().GetJobId()])
			t.Logf("%d answers, most calls of a client %d, %d repeats; said created: %d", clients, slices.Max(calls), repeats, created)
		})
	}
}
