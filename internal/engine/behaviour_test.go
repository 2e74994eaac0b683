package engine_test

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

func unknown(msg string) job.Outcome {
	return job.Outcome{Result: job.ResultUnknown, Kind: job.FailAmbiguous, Message: msg}
}

func rejected(kind job.FailureKind, status int) job.Outcome {
	return job.Outcome{Result: job.ResultRejected, Kind: kind, HTTPStatus: status, Message: "refused"}
}

// inEach runs a test for a target that dedupes and for one that is looked at.
func inEach(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	for _, c := range []job.Class{job.Keyed, job.Observable} {
		t.Run(c.String(), func(t *testing.T) { onBoth(t, test, class(c)) })
	}
}

func TestAJobWithoutATimeStartsAtOnce(t *testing.T) {
	inEach(t, func(t *testing.T, w *world) {
		w.start()
		w.pass(time.Minute)
		begun := time.Now()
		id := w.submit("now")
		w.until(id, job.Succeeded, time.Second)
		if took := time.Since(begun); took > 10*time.Millisecond {
			t.Errorf("took %v of the bubble's time: no wake-up reached the dispatcher", took)
		}
	})
}

func TestAScheduledJobFiresAtItsTime(t *testing.T) {
	inEach(t, func(t *testing.T, w *world) {
		w.start()
		id := w.submit("later", at(time.Hour))
		w.pass(time.Hour - time.Second)
		if s := w.job(id); s.State != job.Scheduled || w.platform.sent() != 0 {
			t.Fatalf("%s after %d requests, a second before its time", s.State, w.platform.sent())
		}
		s := w.until(id, job.Succeeded, 2*time.Second)
		if late := w.attempts(id)[0].ArmedAt.Sub(s.ScheduleTime); late < 0 || late > time.Second {
			t.Errorf("armed %v after its time", late)
		}
	})
}

func TestTwoIntendedIdenticalJobsBothFire(t *testing.T) {
	inEach(t, func(t *testing.T, w *world) {
		w.start()
		a, b := w.submit("one"), w.submit("two")
		w.until(a, job.Succeeded, time.Minute)
		w.until(b, job.Succeeded, time.Minute)
		if n := w.platform.total(); n != 2 {
			t.Errorf("%d effects of two jobs", n)
		}
	})
}

func TestAForbiddenIsFinal(t *testing.T) {
	inEach(t, func(t *testing.T, w *world) {
		w.platform.publish = func(int, connector.Commit) job.Outcome { return rejected(job.FailPermanent, 403) }
		w.start()
		id := w.submit("forbidden")
		s := w.until(id, job.Failed, time.Minute)
		w.pass(time.Hour)
		if w.platform.sent() != 1 || s.LastError == nil || s.LastError.HTTPStatus != 403 {
			t.Errorf("%d requests, last error %+v", w.platform.sent(), s.LastError)
		}
	})
}

// The request commits at second 28 and its answer comes after second 30.
func TestATimeoutThatCommittedAtSecond28IsNeverRetriedInline(t *testing.T) {
	for _, c := range []struct {
		class job.Class
		want  job.State
		sent  int
	}{{job.Keyed, job.Succeeded, 2}, {job.Opaque, job.NeedsResolution, 1}, {job.Observable, job.Succeeded, 1}} {
		t.Run(c.class.String(), func(t *testing.T) {
			onBoth(t, func(t *testing.T, w *world) {
				w.platform.publish = func(n int, c connector.Commit) job.Outcome {
					if n == 1 {
						time.Sleep(28 * time.Second)
						w.platform.commit(c.EffectKey)
						time.Sleep(time.Until(c.AnswerBy))
						return unknown("no answer within 30s")
					}
					w.platform.commit(c.EffectKey)
					return job.Outcome{Result: job.ResultSucceeded}
				}
				w.platform.observe = func(connector.Look) job.Observation {
					return job.Observation{Verdict: job.SawPresent, ExternalID: "post-1"}
				}
				w.start()
				id := w.submit("slow")
				w.pass(31 * time.Second)
				if w.platform.sent() != 1 {
					t.Fatalf("%d requests after the timeout: retried inline", w.platform.sent())
				}
				w.until(id, c.want, 10*time.Minute)
				if w.platform.sent() != c.sent || w.platform.total() != 1 {
					t.Errorf("%d requests, %d effects\n%s", w.platform.sent(), w.platform.total(), w.story(id))
				}
			}, class(c.class))
		})
	}
}

func TestAnUnrecordedSuccessIsFoundAndRecorded(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			w.platform.commit(c.EffectKey)
			return unknown("connection reset")
		}
		looks := 0
		w.platform.observe = func(connector.Look) job.Observation {
			if looks++; looks == 1 {
				return job.Observation{Verdict: job.SawAbsent} // read lag
			}
			return job.Observation{Verdict: job.SawPresent, ExternalID: "post-1", ExternalURL: "https://example/1"}
		}
		w.start()
		id := w.submit("unrecorded")
		s := w.until(id, job.Succeeded, time.Hour)
		if s.Effect == nil || s.Effect.Proof != job.ProofObserved || s.Effect.ExternalID != "post-1" {
			t.Errorf("effect %+v", s.Effect)
		}
		if w.platform.sent() != 1 {
			t.Errorf("%d requests", w.platform.sent())
		}
	}, class(job.Observable))
}

func TestAbsenceIsProvenOnlyByEnoughSpacedLooksAfterTheFence(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			if n == 1 {
				return unknown("connection reset")
			}
			w.platform.commit(c.EffectKey)
			return job.Outcome{Result: job.ResultSucceeded, ExternalID: "post-2"}
		}
		var looks []time.Time
		w.platform.observe = func(connector.Look) job.Observation {
			looks = append(looks, time.Now())
			return job.Observation{Verdict: job.SawAbsent}
		}
		w.start()
		id := w.submit("absent")
		w.until(id, job.Succeeded, time.Hour)
		first := w.attempts(id)[0]
		if first.Result != job.ResultAbsent || len(looks) != 3 { // the third comes before the second arm
			t.Fatalf("first attempt %s after %d looks\n%s", first.Result, len(looks), w.story(id))
		}
		if after := looks[0].Sub(first.AnswerDeadline); after < 40*time.Second {
			t.Errorf("looked %v after the answer deadline; grace and read lag are 40s", after)
		}
		if apart := looks[1].Sub(looks[0]); apart < time.Minute {
			t.Errorf("looks are %v apart", apart)
		}
	}, class(job.Observable))
}

func TestAWorkerThatDiesBeforeTheArmIsReplaced(t *testing.T) {
	inEach(t, func(t *testing.T, w *world) {
		id := w.submit("orphan")
		// A worker that claims, stands still, and is never seen again.
		if err := w.store.Enlist(t.Context(), store.Process{Worker: "dead"}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.Claim(t.Context(), store.ClaimParams{Worker: "dead", Lease: time.Minute, Limit: 1}); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.pass(59 * time.Second)
		if w.platform.sent() != 0 {
			t.Fatal("sent under another worker's lease")
		}
		w.until(id, job.Succeeded, time.Minute)
		if n := w.count(id, job.CauseLeaseExpired); n != 1 || w.platform.total() != 1 {
			t.Errorf("%d lost leases, %d effects", n, w.platform.total())
		}
	})
}

func TestAWorkerThatDiesAfterTheArmIsReconciled(t *testing.T) {
	inEach(t, func(t *testing.T, w *world) {
		id := w.submit("orphan")
		armed := w.armAsTheDead()
		w.platform.commit(armed.Attempt.EffectKey) // its request arrived
		w.start()
		w.pass(59 * time.Second)
		if s := w.job(id); s.State != job.Sending || w.count(id, job.CauseSenderLost) != 0 || w.platform.sent() != 0 {
			t.Fatalf("%s with %d requests before the fence", s.State, w.platform.sent())
		}
		s := w.until(id, job.Succeeded, 5*time.Minute)
		want := map[job.Class]job.Proof{job.Keyed: job.ProofKeyReplay, job.Observable: job.ProofObserved}
		if s.Effect.Proof != want[w.conn.Class] || w.platform.total() != 1 {
			t.Errorf("proof %s, %d effects\n%s", s.Effect.Proof, w.platform.total(), w.story(id))
		}
	})
}

func TestALateSuccessOfASweptAttemptIsKept(t *testing.T) {
	for _, c := range []job.Class{job.Opaque, job.Observable} {
		t.Run(c.String(), func(t *testing.T) {
			onBoth(t, func(t *testing.T, w *world) {
				// The process stands still in mid-send for longer than the fence.
				w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
					w.platform.commit(c.EffectKey)
					time.Sleep(5 * time.Minute)
					return job.Outcome{Result: job.ResultSucceeded, ExternalID: "late"}
				}
				w.platform.observe = func(connector.Look) job.Observation {
					return job.Observation{Verdict: job.SawCandidates}
				}
				w.start()
				id := w.submit("paused")
				w.until(id, job.NeedsResolution, 2*time.Minute)
				s := w.until(id, job.Succeeded, 5*time.Minute)
				if s.Effect.ExternalID != "late" || w.platform.sent() != 1 {
					t.Errorf("effect %+v after %d requests", s.Effect, w.platform.sent())
				}
			}, class(c))
		})
	}
}

func TestPastItsWindowAJobExpiresInsteadOfFiringStale(t *testing.T) {
	inEach(t, func(t *testing.T, w *world) {
		id := w.submit("stale", at(time.Minute), window(10*time.Minute))
		w.pass(time.Hour) // no server runs
		w.start()
		w.until(id, job.Expired, time.Minute)
		w.pass(time.Hour)
		if w.platform.sent() != 0 {
			t.Errorf("%d requests after the window", w.platform.sent())
		}
	})
}

func TestAReceiverThatNeverAnswersEndsByThePolicy(t *testing.T) {
	for _, c := range []struct {
		class  job.Class
		policy job.Delivery
		want   job.State
		most   int
	}{
		{job.Keyed, job.OnceOrAsk, job.NeedsResolution, 30},
		{job.Keyed, job.AtMostOnce, job.Succeeded, 30},
		{job.Observable, job.OnceOrAsk, job.Failed, job.DefaultMaxAttempts}, // each is proven absent
		{job.Observable, job.AtMostOnce, job.Failed, job.DefaultMaxAttempts},
		{job.Observable, job.AtLeastOnce, job.Failed, job.DefaultMaxAttempts},
		{job.Opaque, job.OnceOrAsk, job.NeedsResolution, 1},
		{job.Opaque, job.AtMostOnce, job.Succeeded, 1},
		{job.Opaque, job.AtLeastOnce, job.NeedsResolution, job.DefaultMaxAttempts},
	} {
		t.Run(c.class.String()+"/"+c.policy.String(), func(t *testing.T) {
			onBoth(t, func(t *testing.T, w *world) {
				w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
					time.Sleep(time.Until(c.AnswerBy))
					return unknown("no answer within 30s")
				}
				w.start()
				id := w.submit("silence", policy(c.policy))
				w.until(id, c.want, 24*time.Hour)
				w.pass(time.Hour)
				if s := w.job(id); s.State != c.want {
					t.Errorf("did not stay: %s", s.State)
				}
				if n := w.platform.sent(); n > c.most || n < 1 {
					t.Errorf("%d requests, at most %d expected\n%s", n, c.most, w.story(id))
				}
			}, class(c.class))
		})
	}
}

// armAsTheDead claims and arms the one due job as a worker that then dies.
func (w *world) armAsTheDead() store.Armed {
	w.t.Helper()
	return w.armAsTheDeadFor(time.Minute)
}

// armAsTheDeadFor is armAsTheDead with a fence of one's own.
func (w *world) armAsTheDeadFor(fence time.Duration) store.Armed {
	w.t.Helper()
	armed := w.armedFor(w.claimAsTheDead(), fence)
	if armed.Err != nil {
		w.t.Fatalf("arm: %v", armed.Err)
	}
	return armed
}

// claimAsTheDead claims the next job as a worker that does nothing more.
func (w *world) claimAsTheDead() store.Leased {
	w.t.Helper()
	leased, err := w.store.Claim(w.t.Context(), store.ClaimParams{Worker: "dead", Lease: time.Minute, Limit: 1})
	if err != nil || len(leased) != 1 {
		w.t.Fatalf("claim: %d, %v", len(leased), err)
	}
	return leased[0]
}

// armed arms a job as that worker, if it may.
func (w *world) armed(l store.Leased) store.Armed { return w.armedFor(l, time.Minute) }

func (w *world) armedFor(l store.Leased, fence time.Duration) store.Armed {
	w.t.Helper()
	p, err := w.platform.Prepare(connector.Request{EffectKey: l.EffectKey(""), Payload: l.Payload})
	if err != nil {
		w.t.Fatal(err)
	}
	armed, err := w.store.Arm(w.t.Context(), []store.Arm{{
		Job: l.ID, Version: l.Version, Claim: l.ClaimToken, Token: newID(), Worker: "dead", Class: w.conn.Class,
		EffectKey: l.EffectKey(""), Digest: digest(p.Frozen), Frozen: p.Frozen, AccountIdentity: "me",
		SendBy: 10 * time.Second, AnswerBy: 30 * time.Second, Fence: fence, KeepTrying: l.Retry.Keep(),
	}})
	if err != nil {
		w.t.Fatalf("arm: %v", err)
	}
	return armed[0]
}
