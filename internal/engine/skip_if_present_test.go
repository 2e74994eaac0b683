package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

func skips(age time.Duration) change { return func(n *store.NewJob) { n.Spec.SkipIfPresent = age } }

// present answers looks before a first arm: with each of these verdicts, then the last one.
func (w *world) present(verdicts ...job.Verdict) (looks *[]connector.Look) {
	looks = &[]connector.Look{}
	w.platform.backdate = func(mark string, by time.Duration) (string, error) { return mark + " less " + by.String(), nil }
	w.platform.observe = func(l connector.Look) job.Observation {
		*looks = append(*looks, l)
		out := job.Observation{Verdict: verdicts[min(len(*looks), len(verdicts))-1], Detail: "what was seen"}
		if out.Verdict == job.SawPresent {
			out.ExternalID, out.ExternalURL = "post-7", "https://example.com/7"
		}
		return out
	}
	return looks
}

// A job whose content is there ends without an attempt, and has what the look saw.
func TestPresentContentIsNotMadeAgain(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.platform.mark = func() (string, error) { return "mark", nil }
		looks := w.present(job.SawPresent)
		w.start()
		id := w.submit("one", skips(time.Hour))
		s := w.until(id, job.Canceled, time.Minute)
		if s.Attempt != 0 || s.Effect != nil || s.LastError.Kind != job.FailAlreadyPresent || w.platform.sent() != 0 || w.platform.opened != 0 {
			t.Errorf("%d attempts, effect %+v, error %+v\n%s", s.Attempt, s.Effect, s.LastError, w.story(id))
		}
		l := (*looks)[0]
		if l.First.Watermark != "mark less 1h0m0s" || l.Taken != nil || !l.Any || l.Fence.Sub(l.First.ArmedAt) != time.Hour ||
			!strings.HasSuffix(string(l.First.Frozen), ":hello") {
			t.Errorf("the look: %+v", l)
		}
		seen, err := w.store.Observations(t.Context(), store.Ref{ID: id}, 0, 10)
		if err != nil || len(seen) != 1 || seen[0].ExternalID != "post-7" || seen[0].ExternalURL == "" || seen[0].Attempt != 0 ||
			seen[0].Verdict != job.SawPresent {
			t.Errorf("looks: %+v, %v", seen, err)
		}
		if n := w.count(id, job.CauseAlreadyPresent); n != 1 {
			t.Errorf("%d events\n%s", n, w.story(id))
		}
	})
}

// An inconclusive look arms nothing: the job looks again, has the reason of its wait, and is
// sent once the content is certainly absent. A later attempt looks again.
func TestDoubtfulPresenceWaits(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		looks := w.present(job.SawInconclusive, job.SawCandidates, job.SawAbsent)
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			if n == 1 {
				return job.Outcome{Result: job.ResultRejected, Kind: job.FailTransient, Message: "try again"}
			}
			return w.platform.confirm(c)
		}
		w.start()
		id := w.submit("one", skips(time.Hour))
		w.pass(time.Second)
		if s := w.job(id); s.State != job.Scheduled || !strings.Contains(s.Blocked, "what was seen") || s.Failures != 0 {
			t.Errorf("%s, %q, %d failures\n%s", s.State, s.Blocked, s.Failures, w.story(id))
		}
		w.until(id, job.Succeeded, 10*time.Minute)
		// Two in doubt, one absence; before the second arm one for its effect, and one again.
		if n := len(*looks); n != 5 || (*looks)[3].Any || !(*looks)[4].Any || w.platform.total() != 1 {
			t.Errorf("%d looks, %d effects\n%s", n, w.platform.total(), w.story(id))
		}
	})
}

func TestDoubtfulPresenceEndsWithTheWindow(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		looks := w.present(job.SawInconclusive)
		w.start()
		id := w.submit("one", skips(time.Hour), window(30*time.Minute))
		s := w.until(id, job.Expired, time.Hour)
		if s.Attempt != 0 || w.platform.sent() != 0 || len(*looks) > 15 {
			t.Errorf("%d attempts, %d requests, %d looks\n%s", s.Attempt, w.platform.sent(), len(*looks), w.story(id))
		}
	})
}

// A job that must not exist twice is not sent through a connection that cannot be looked at.
func TestPresenceNeedsAnObservableConnection(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.start()
		id := w.submit("one", skips(time.Hour))
		s := w.until(id, job.Failed, time.Minute)
		if s.LastError.Kind != job.FailPermanent || w.platform.sent() != 0 {
			t.Errorf("error %+v, %d requests\n%s", s.LastError, w.platform.sent(), w.story(id))
		}
	})
}

// A job that does not ask makes no look for its content.
func TestNoPresenceUnlessAsked(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		looks := w.present(job.SawPresent)
		w.start()
		w.until(w.submit("one"), job.Succeeded, time.Minute)
		if len(*looks) != 0 {
			t.Errorf("%d looks", len(*looks))
		}
	})
}
