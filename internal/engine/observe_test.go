package engine_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

func observable(t *testing.T, test func(t *testing.T, w *world), opts ...option) {
	t.Helper()
	in(t, test, append([]option{class(job.Observable)}, opts...)...)
}

func says(text string) change { return func(n *store.NewJob) { n.Spec.Payload = []byte(text) } }

// bound checks that the job SUCCEEDED by a post of its own.
func (w *world) bound(id job.ID) job.Snapshot {
	w.t.Helper()
	s := w.job(id)
	if s.State != job.Succeeded || s.Effect == nil {
		w.t.Errorf("%s, effect %+v\n%s", s.State, s.Effect, w.story(id))
		return s
	}
	p := w.platform.postOf(s.Effect.ExternalID)
	if p == nil || p.key != w.firstKey(id) {
		w.t.Errorf("bound to %q, which is %+v\n%s", s.Effect.ExternalID, p, w.story(id))
	}
	return s
}

func TestAnAnswerLostAfterTheCommitIsOneEffect(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			w.platform.commit(c.EffectKey)
			return unknown("connection reset")
		}
		w.start()
		id := w.submit("lost answer")
		w.until(id, job.Succeeded, 10*time.Minute)
		s := w.bound(id)
		if s.Effect.Proof != job.ProofObserved || w.platform.total() != 1 || w.platform.sent() != 1 {
			t.Errorf("proof %s, %d effects, %d requests", s.Effect.Proof, w.platform.total(), w.platform.sent())
		}
	})
}

func TestARequestLostBeforeTheCommitIsProvenAbsentAndSentOnceMore(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			if n == 1 {
				return unknown("connection reset")
			}
			return w.platform.confirm(c)
		}
		w.start()
		id := w.submit("lost request")
		w.until(id, job.Succeeded, 10*time.Minute)
		w.bound(id)
		a := w.attempts(id)
		if len(a) != 2 || a[0].Result != job.ResultAbsent || w.platform.total() != 1 {
			t.Errorf("%d attempts, %d effects\n%s", len(a), w.platform.total(), w.story(id))
		}
		looks, err := w.store.Observations(t.Context(), store.Ref{Project: "default", ID: id}, 0, 10)
		if err != nil || len(looks) != 3 { // two negatives, and one before the second arm
			t.Errorf("%d looks on record, %v", len(looks), err)
		}
	})
}

func TestTwoIdenticalPostsOnPurposeBothExistAlthoughOneAnswerIsLost(t *testing.T) {
	for lost := 1; lost <= 2; lost++ {
		t.Run(fmt.Sprint("answer ", lost), func(t *testing.T) {
			observable(t, func(t *testing.T, w *world) {
				w.platform.publish = func(n int, c connector.Commit) job.Outcome {
					out := w.platform.confirm(c)
					if n == lost {
						return unknown("connection reset")
					}
					return out
				}
				w.start()
				a, b := w.submit("one"), w.submit("two")
				w.until(a, job.Succeeded, 10*time.Minute)
				w.until(b, job.Succeeded, 10*time.Minute)
				one, two := w.bound(a), w.bound(b)
				if w.platform.total() != 2 || one.Effect.ExternalID == two.Effect.ExternalID {
					t.Errorf("%d posts, ids %s and %s", w.platform.total(), one.Effect.ExternalID, two.Effect.ExternalID)
				}
			})
		})
	}
}

func TestSeveralCandidatesAreAPersonsQuestion(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			w.platform.commit(c.EffectKey)
			w.platform.byHand("hello") // a person posts the same by hand
			return unknown("connection reset")
		}
		w.start()
		id := w.submit("twins")
		w.until(id, job.NeedsResolution, 10*time.Minute)
		w.pass(time.Hour)
		if w.platform.sent() != 1 {
			t.Errorf("%d requests", w.platform.sent())
		}
	})
}

// A reader that pages by offset cannot tell a post that moved from one that is
// not there: it says inconclusive, and that is never an absence.
func TestALookThatPagesByOffsetProvesNothing(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.platform.publish = func(int, connector.Commit) job.Outcome { return unknown("connection reset") }
		w.platform.observe = func(connector.Look) job.Observation {
			return job.Observation{Verdict: job.SawInconclusive, Detail: "pages by offset shift while they are read"}
		}
		w.start()
		id := w.submit("offset")
		w.until(id, job.NeedsResolution, 24*time.Hour)
		if n := len(w.events(id)); w.platform.sent() != 1 || n > job.MaxLooks+10 {
			t.Errorf("%d requests, %d events", w.platform.sent(), n)
		}
	})
}

// What a connector must not do, and what the engine does with it.
func TestALookWithoutWhatAVerdictNeedsProvesNothing(t *testing.T) {
	for name, observe := range map[string]func(connector.Look) job.Observation{
		"no verdict":           func(connector.Look) job.Observation { return job.Observation{} },
		"an object without id": func(connector.Look) job.Observation { return job.Observation{Verdict: job.SawPresent} },
		"owners not asked": func(l connector.Look) job.Observation {
			if _, err := l.Taken(t.Context(), make([]string, store.MaxBatch+1)); err == nil {
				return job.Observation{Verdict: job.SawPresent, ExternalID: "x"}
			}
			return job.Observation{Verdict: job.SawAbsent}
		},
	} {
		t.Run(name, func(t *testing.T) {
			observable(t, func(t *testing.T, w *world) {
				w.platform.publish = func(int, connector.Commit) job.Outcome { return unknown("connection reset") }
				w.platform.observe = observe
				w.start()
				id := w.submit("careless")
				w.until(id, job.NeedsResolution, 24*time.Hour)
				if w.platform.sent() != 1 {
					t.Errorf("%d requests\n%s", w.platform.sent(), w.story(id))
				}
			})
		})
	}
}

// The write becomes visible when its absence was proven, before the second arm.
func TestALateWriteIsSeenBeforeTheSecondArm(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.platform.line.lag = func() time.Duration { return 135 * time.Second }
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			w.platform.commit(c.EffectKey)
			return unknown("connection reset")
		}
		w.start()
		id := w.submit("late")
		w.until(id, job.Retrying, 3*time.Minute)
		w.until(id, job.Succeeded, 10*time.Minute)
		s := w.bound(id)
		if w.platform.sent() != 1 || s.Effect.Attempt != 1 || s.Effect.Proof != job.ProofObserved {
			t.Errorf("%d requests, effect %+v\n%s", w.platform.sent(), s.Effect, w.story(id))
		}
		if w.count(id, job.CauseLateEvidence) != 1 {
			t.Errorf("no late evidence\n%s", w.story(id))
		}
	})
}

// twice loses the first request. sight, when set, is what looks see from then on.
func (w *world) twice(sight *atomic.Pointer[job.Observation]) {
	w.platform.publish = func(n int, c connector.Commit) job.Outcome {
		if n == 1 {
			return unknown("connection reset")
		}
		return w.platform.confirm(c)
	}
	w.platform.observe = func(connector.Look) job.Observation {
		if o := sight.Load(); o != nil {
			return *o
		}
		return job.Observation{Verdict: job.SawAbsent}
	}
}

func TestAnUnreadPlatformHoldsALaterArmBackInsideTheWindow(t *testing.T) {
	blind := &job.Observation{Verdict: job.SawInconclusive, Detail: "the platform answers 503"}
	t.Run("until it can be read", func(t *testing.T) {
		observable(t, func(t *testing.T, w *world) {
			var sight atomic.Pointer[job.Observation]
			w.twice(&sight)
			w.start()
			id := w.submit("unread")
			w.until(id, job.Retrying, 5*time.Minute)
			sight.Store(blind)
			w.pass(30 * time.Minute)
			s := w.job(id)
			if w.platform.sent() != 1 || s.Failures != 1 || !strings.Contains(s.Blocked, "read") {
				t.Errorf("%d requests, %d failures, blocked %q", w.platform.sent(), s.Failures, s.Blocked)
			}
			sight.Store(nil)
			w.until(id, job.Succeeded, 10*time.Minute)
			w.bound(id)
		})
	})
	t.Run("until the time to keep trying is over", func(t *testing.T) {
		observable(t, func(t *testing.T, w *world) {
			var sight atomic.Pointer[job.Observation]
			w.twice(&sight)
			w.start()
			id := w.submit("unread")
			w.until(id, job.Retrying, 5*time.Minute)
			sight.Store(blind)
			w.until(id, job.Failed, 3*time.Hour)
			if n := len(w.events(id)); w.platform.sent() != 1 || n > 80 {
				t.Errorf("%d requests, %d events", w.platform.sent(), n)
			}
		})
	})
}

func TestSeveralCandidatesBeforeALaterArmAreAPersonsQuestion(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		var sight atomic.Pointer[job.Observation]
		w.twice(&sight)
		w.start()
		id := w.submit("candidates")
		w.until(id, job.Retrying, 5*time.Minute)
		sight.Store(&job.Observation{Verdict: job.SawCandidates})
		// Not immediately: they may be a twin's, whose answer is under way.
		w.until(id, job.NeedsResolution, 20*time.Minute)
		if w.platform.sent() != 1 {
			t.Fatalf("%d requests", w.platform.sent())
		}
		// The person has seen them: none is ours.
		w.resolve(id, job.RuleResend)
		w.until(id, job.Succeeded, 5*time.Minute)
		if w.platform.sent() != 2 || w.job(id).Round != 2 {
			t.Errorf("%d requests\n%s", w.platform.sent(), w.story(id))
		}
	})
}

func TestTheEffectOfAnEarlierRoundIsNotMadeAgain(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			w.platform.commit(c.EffectKey)
			return unknown("connection reset")
		}
		w.start()
		twin := w.platform.byHand // posted while ours is unknown
		id := w.submit("earlier")
		w.pass(time.Second)
		hand := twin("hello")
		w.until(id, job.NeedsResolution, 5*time.Minute)
		hand.text = "deleted"
		w.resolve(id, job.RuleResend)
		s := w.until(id, job.Succeeded, 5*time.Minute)
		w.bound(id)
		last := w.events(id)[len(w.events(id))-1]
		if w.platform.sent() != 1 || s.Round != 2 || !strings.Contains(last.Detail, "an earlier effect") {
			t.Errorf("%d requests, %q\n%s", w.platform.sent(), last.Detail, w.story(id))
		}
	})
}

func (w *world) resolve(id job.ID, r job.Ruling) {
	w.t.Helper()
	s := w.job(id)
	d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), job.Resolved{Ruling: r, Actor: "person"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.apply(s, d)
}

// A job that was refused sees its twin's post before the twin's answer is in. The job must
// not take the post: two are wanted.
func TestARefusedJobDoesNotTakeItsTwinsPost(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			switch n {
			case 1:
				return rejected(job.FailTransient, 503)
			case 2: // the twin, whose answer takes its time
				out := w.platform.confirm(c)
				time.Sleep(20 * time.Second)
				return out
			default:
				return w.platform.confirm(c)
			}
		}
		w.start()
		a := w.submit("refused")
		w.until(a, job.Retrying, time.Minute)
		s := w.job(a)
		b := w.submit("twin", at(s.NextAt.Sub(s.Now)-time.Second))
		w.until(b, job.Succeeded, 5*time.Minute)
		w.until(a, job.Succeeded, 10*time.Minute)
		one, two := w.bound(a), w.bound(b)
		if w.platform.total() != 2 || one.Effect.ExternalID == two.Effect.ExternalID {
			t.Errorf("%d posts\n%s\n%s", w.platform.total(), w.story(a), w.story(b))
		}
		if one.Failures != 1 {
			t.Errorf("%d failures", one.Failures)
		}
	})
}

// A look gave the object to one job; then the platform itself says whose it is.
func TestADirectAnswerBeatsAnObservedOne(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			w.platform.commit(c.EffectKey)
			if n == 1 {
				time.Sleep(10 * time.Minute) // the process stands still
				return job.Outcome{Result: job.ResultSucceeded, ExternalID: "X"}
			}
			return unknown("connection reset")
		}
		w.platform.observe = func(l connector.Look) job.Observation {
			if textOf(string(l.First.Frozen)) == "first" {
				return job.Observation{Verdict: job.SawInconclusive}
			}
			return job.Observation{Verdict: job.SawPresent, ExternalID: "X"}
		}
		w.start()
		first := w.submit("first", says("first"))
		w.pass(time.Second)
		second := w.submit("second", says("second"))
		w.until(second, job.Succeeded, 5*time.Minute)
		s := w.until(first, job.Succeeded, 10*time.Minute)
		if s.Effect.ExternalID != "X" || s.Effect.Proof != job.ProofResponse {
			t.Errorf("effect %+v", s.Effect)
		}
		w.pass(time.Minute)
		if w.count(second, job.CauseEffectShared) != 1 || w.job(second).State != job.Succeeded {
			t.Errorf("the other job has no event of it\n%s", w.story(second))
		}
	})
}

// The look after a later attempt reads back to the first one's watermark: there
// the first one's write is, whatever was posted since.
func TestALaterAttemptDoesNotNarrowTheLook(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.platform.publish = func(int, connector.Commit) job.Outcome { return unknown("connection reset") }
		marks, looks := 0, 0
		w.platform.mark = func() (string, error) { marks++; return fmt.Sprint("mark ", marks), nil }
		w.platform.observe = func(l connector.Look) job.Observation {
			looks++
			if l.First.Number != 1 || l.First.Watermark != "mark 1" {
				t.Errorf("look %d reads back to %q of attempt %d", looks, l.First.Watermark, l.First.Number)
			}
			if looks == 4 { // after the second attempt
				return job.Observation{Verdict: job.SawPresent, ExternalID: "post-1"}
			}
			return job.Observation{Verdict: job.SawAbsent}
		}
		w.start()
		id := w.submit("narrow")
		s := w.until(id, job.Succeeded, time.Hour)
		if s.Attempt != 2 || marks != 2 {
			t.Errorf("%d attempts, %d watermarks\n%s", s.Attempt, marks, w.story(id))
		}
	})
}

func TestAReplyGoesToTheIDOfWhatItAnswers(t *testing.T) {
	to := func(id job.ID) change { return func(n *store.NewJob) { n.Spec.ReplyTo = id } }
	t.Run("known", func(t *testing.T) {
		observable(t, func(t *testing.T, w *world) {
			w.start()
			first := w.submit("first", says("question"))
			reply := w.submit("reply", says("answer"), to(first))
			w.until(reply, job.Succeeded, time.Minute)
			if got := w.platform.replies[len(w.platform.replies)-1]; got == "" || got != w.job(first).Effect.ExternalID {
				t.Errorf("replies to %q", got)
			}
		})
	})
	t.Run("unknown", func(t *testing.T) {
		in(t, func(t *testing.T, w *world) { // a KEYED platform returns no ids here
			w.start()
			first := w.submit("first")
			reply := w.submit("reply", to(first))
			s := w.until(reply, job.Failed, time.Minute)
			if s.LastError == nil || s.LastError.Kind != job.FailPermanent || !strings.Contains(s.LastError.Message, "no known id") {
				t.Errorf("%+v", s.LastError)
			}
			if w.platform.sent() != 1 || w.job(first).State != job.Succeeded {
				t.Errorf("%d requests", w.platform.sent())
			}
		})
	})
}

func TestAnObjectSeenUnderALostLeaseIsEvidence(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			w.platform.commit(c.EffectKey)
			return unknown("connection reset")
		}
		var first atomic.Bool
		w.platform.observe = func(connector.Look) job.Observation {
			if first.CompareAndSwap(false, true) {
				time.Sleep(5 * time.Minute) // stands still; another worker gets the lease
				return job.Observation{Verdict: job.SawPresent, ExternalID: "post-1"}
			}
			return job.Observation{Verdict: job.SawInconclusive}
		}
		w.config.Store = forgetful{w.config.Store}
		w.start()
		id := w.submit("slow look")
		s := w.until(id, job.Succeeded, 10*time.Minute)
		if s.Effect.ExternalID != "post-1" {
			t.Errorf("%+v", s.Effect)
		}
	})
}
