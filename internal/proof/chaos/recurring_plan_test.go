package main

import (
	"reflect"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
)

// TestSchedulesOfACampaign: every campaign has each effect class, policy and overlap, and a
// schedule that is paused, triggered, fed from a queue and cooled down.
func TestSchedulesOfACampaign(t *testing.T) {
	for seed := range uint64(5) {
		seen := make(map[any]int)
		keys := make(map[string]bool)
		for i := range schedules {
			r := recurrenceOf(seed, i)
			if !reflect.DeepEqual(r, recurrenceOf(seed, i)) {
				t.Fatalf("schedule %d of seed %d is two", i, seed)
			}
			keys[r.key] = true
			seen[r.job.class]++
			seen[r.job.policy]++
			seen[r.overlap]++
			seen[r.catchUp]++
			for what, is := range map[string]bool{
				"queue": r.queue, "paused": r.paused, "triggered": r.trigger && !r.queue, "cron": r.cron, "jitter": r.jitter > 0,
				"phase": r.phase > 0, "cool-down": r.coolDown > 0,
			} {
				if is {
					seen[what]++
				}
			}
			if r.every < soonestEvery || r.phase >= r.every || r.jitter >= r.every {
				t.Errorf("%s fires every %v at %v, up to %v later", r.key, r.every, r.phase, r.jitter)
			}
			// A job waits forever behind a job whose outcome only a person can find out.
			if r.job.class == job.Opaque && r.unresolved != allow {
				t.Errorf("%s waits for persons", r.key)
			}
			// Where jobs queue up behind a cool-down, the campaign waits for them.
			if r.coolDown > 0 && (r.overlap == allow || r.trigger || r.coolDown >= r.every) {
				t.Errorf("%s never comes to rest", r.key)
			}
		}
		for _, what := range []any{
			job.Keyed, job.Observable, job.Opaque, job.OnceOrAsk, job.AtMostOnce, job.AtLeastOnce, allow, skip, bufferOne,
			"queue", "paused", "triggered", "cron", "jitter", "phase", "cool-down",
		} {
			if seen[what] == 0 {
				t.Errorf("seed %d: no schedule has %v", seed, what)
			}
		}
		if len(keys) != schedules {
			t.Errorf("seed %d: %d keys", seed, len(keys))
		}
	}
}
