package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// A look found one post for the job that is replied to, and the platform's late
// answer names another. The reply was tried under the first post. A look for that reply
// cannot see what would be sent now, so nothing is sent.
func TestAReplyWhoseTargetTurnsOutToBeAnotherIsNotSentAgain(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		replies := 0
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			w.platform.mu.Lock()
			text := textOf(w.platform.bytes[c.EffectKey])
			w.platform.mu.Unlock()
			if text == "question" {
				time.Sleep(10 * time.Minute) // the process stands still
				return job.Outcome{Result: job.ResultSucceeded, ExternalID: "Y"}
			}
			if replies++; strings.HasSuffix(text, "to Y") {
				w.platform.commit(c.EffectKey)
			}
			return unknown("connection reset")
		}
		w.platform.observe = func(l connector.Look) job.Observation {
			if textOf(string(l.First.Frozen)) == "question" {
				return job.Observation{Verdict: job.SawPresent, ExternalID: "X"}
			}
			return job.Observation{Verdict: job.SawAbsent} // of a reply to X
		}
		w.start()
		first := w.submit("first", says("question"))
		reply := w.submit("reply", says("answer"), func(n *store.NewJob) {
			n.Spec.ReplyTo = first
			n.Spec.Retry = job.RetryPolicy{MaxAttempts: 10, MaxBackoff: 2 * time.Minute}
		})
		s := w.until(reply, job.Failed, time.Hour)
		if w.job(first).Effect.ExternalID != "Y" || s.LastError == nil || !strings.Contains(s.LastError.Message, "replies to") {
			t.Errorf("replied to %+v: %+v", w.job(first).Effect, s.LastError)
		}
		if w.platform.total() != 0 || replies < 2 {
			t.Errorf("%d replies sent, %d there\n%s", replies, w.platform.total(), w.story(reply))
		}
	})
}
