package engine_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// TestWhatIsInEveryJobsWay: a connector that cannot be reached is not called for each of
// many jobs. They wait, use up no attempt, and go on when it is back.
func TestWhatIsInEveryJobsWay(t *testing.T) {
	for _, shared := range []bool{true, false} {
		t.Run(fmt.Sprint("shared ", shared), func(t *testing.T) {
			observable(t, func(t *testing.T, w *world) {
				const jobs, senders = 300, 4
				w.config.Senders = senders
				var away atomic.Bool
				away.Store(true)
				var asked atomic.Int32
				w.platform.prepare = func() error {
					if !away.Load() {
						return nil
					}
					asked.Add(1)
					return &connector.Refusal{Kind: job.FailHeld, Msg: "nobody there", RetryAfter: 30 * time.Second, Shared: shared}
				}
				var ids []job.ID
				for i := range jobs {
					ids = append(ids, w.submit(fmt.Sprint("k", i), says(fmt.Sprint("text ", i))))
				}
				w.start()
				w.pass(time.Minute)
				// Each hold lets a round of senders through.
				if most := int32(senders * (60/5 + 1)); shared && asked.Load() > most {
					t.Errorf("asked %d times in a minute, at most %d", asked.Load(), most)
				} else if !shared && asked.Load() < jobs {
					t.Errorf("asked %d times for %d jobs", asked.Load(), jobs)
				}
				away.Store(false)
				for _, id := range ids {
					if s := w.until(id, job.Succeeded, time.Minute); s.Attempt != 1 || s.Failures != 0 {
						t.Fatalf("attempt %d, %d failures\n%s", s.Attempt, s.Failures, w.story(id))
					}
				}
			})
		})
	}
}
