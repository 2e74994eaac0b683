package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// keyed has the platform dedupe, in flight or not.
func keyed(inFlight bool) option {
	return func(w *world) {
		w.platform.told = func() job.Traits {
			return job.Traits{Class: job.Keyed, KeyWindow: 24 * time.Hour, DedupesInFlight: inFlight}
		}
	}
}

// A job of a server that is gone is repeated long before its fence, where the target
// takes two requests of one key for one.
func TestAnOrphanIsRepeatedBeforeItsFence(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		id := w.submit("orphan")
		armed := w.armAsTheDead()
		w.platform.commit(armed.Attempt.EffectKey) // its request arrived
		w.start()
		s := w.until(id, job.Succeeded, 30*time.Second)
		attempts := w.attempts(id)
		if s.Effect.Proof != job.ProofKeyReplay || w.platform.total() != 1 || len(attempts) != 2 {
			t.Fatalf("proof %s, %d effects\n%s", s.Effect.Proof, w.platform.total(), w.story(id))
		}
		first, again := attempts[0], attempts[1]
		if first.EffectKey != again.EffectKey || !slices.Equal(first.RequestDigest, again.RequestDigest) || w.count(id, job.CauseSenderLost) != 1 {
			t.Errorf("%+v, then %+v\n%s", first, again, w.story(id))
		}
	}, keyed(true))
}

// Any other KEYED target is not asked again before the fence.
func TestAnOrphanWaitsForItsFenceElsewhere(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		id := w.submit("orphan")
		armed := w.armAsTheDead()
		w.start()
		w.pass(time.Until(armed.Snapshot.Fence) - time.Second)
		if n := w.platform.sent(); n != 0 || w.job(id).State != job.Sending {
			t.Errorf("%d requests before the fence\n%s", n, w.story(id))
		}
		w.until(id, job.Succeeded, time.Minute)
	}, keyed(false))
}

// A claim of a server that is gone is released long before its lease ends, whatever the
// class: nothing was sent.
func TestAnOrphansClaimIsReleased(t *testing.T) {
	inEach(t, func(t *testing.T, w *world) {
		id := w.submit("claimed")
		l := w.claimAsTheDead()
		w.start()
		w.until(id, job.Succeeded, 30*time.Second)
		if n := w.count(id, job.CauseSenderLost); n != 1 || w.count(id, job.CauseLeaseExpired) != 0 || w.platform.total() != 1 {
			t.Errorf("released %d times, %d effects\n%s", n, w.platform.total(), w.story(id))
		}
		if late := w.armed(l); late.Err == nil {
			t.Errorf("the late arm was taken\n%s", w.story(id))
		}
	})
}

// A job whose worker died before waits for the end of its lease: it may be what
// ends servers.
func TestASecondOrphansClaimWaitsForItsLease(t *testing.T) {
	inEach(t, func(t *testing.T, w *world) {
		id := w.submit("poison")
		w.claimAsTheDead()
		s := w.job(id)
		d, err := job.Decide(s.View(w.platform.traits(), 0), job.SenderLost{})
		if err != nil {
			t.Fatal(err)
		}
		w.apply(s, d)
		l := w.claimAsTheDead()
		w.start()
		w.pass(time.Until(l.NextAt) - time.Second)
		if w.platform.sent() != 0 || w.job(id).State != job.Claimed {
			t.Fatalf("%d requests before the lease ended\n%s", w.platform.sent(), w.story(id))
		}
		w.until(id, job.Succeeded, time.Minute)
		if n := w.count(id, job.CauseLeaseExpired); n != 1 {
			t.Errorf("%d leases ran out\n%s", n, w.story(id))
		}
	})
}

// A worker that lives on behind a lost session has its arm refused: one request is sent.
func TestAReleasedClaimIsNotArmed(t *testing.T) {
	inEach(t, func(t *testing.T, w *world) {
		id := w.submit("hidden")
		l := w.claimAsTheDead()
		s := w.job(id)
		d, err := job.Decide(s.View(w.platform.traits(), 0), job.SenderLost{})
		if err != nil {
			t.Fatal(err)
		}
		w.apply(s, d)
		if late := w.armed(l); !errors.Is(late.Err, store.ErrStale) {
			t.Errorf("armed after the release: %v", late.Err)
		}
		w.claimAsTheDead()
		if late := w.armed(l); !errors.Is(late.Err, store.ErrStale) {
			t.Errorf("armed under another's claim: %v", late.Err)
		}
	})
}

// A replay whose arm is refused, because a cancel was asked while it was prepared, ends
// its lease: what comes next need not wait for the lease's end.
func TestARefusedRepeatGivesItsLeaseBack(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.platform.publish = func(int, connector.Commit) job.Outcome { return ended("500 Internal Server Error") }
		id, prepared := w.submit("canceled"), 0
		w.platform.prepare = func() error {
			if prepared++; prepared == 2 {
				s := w.job(id)
				d, err := job.Decide(s.View(w.platform.traits(), 0), job.CancelAsked{})
				if err != nil {
					return err
				}
				w.apply(s, d)
			}
			return nil
		}
		w.start()
		w.pass(10 * time.Second)
		s := w.job(id)
		if !s.ClaimToken.IsZero() || !s.NextAt.Equal(s.Fence) || w.platform.sent() != 1 || prepared != 2 {
			t.Errorf("leased %t until %v, fence at %v; %d requests, prepared %d times\n%s",
				!s.ClaimToken.IsZero(), s.NextAt, s.Fence, w.platform.sent(), prepared, w.story(id))
		}
	}, keyed(false))
}

// Orphans that may not be repeated early do not hide the one behind them, however many.
func TestOrphansThatWaitHideNone(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		const waiting = 120 // more than a page
		for i := range waiting {
			w.submit(fmt.Sprint("too late ", i), trying(time.Minute))
			w.armAsTheDeadFor(30 * time.Minute)
		}
		id := w.submit("orphan")
		w.armAsTheDeadFor(time.Hour)
		w.pass(2 * time.Minute)
		w.start()
		w.until(id, job.Succeeded, 30*time.Second)
		if w.platform.sent() != 1 {
			t.Errorf("%d requests", w.platform.sent())
		}
	}, keyed(true), func(w *world) { w.room = 1000 })
}

// A job whose repeat is an orphan too waits for the fence: it may be what ends servers.
func TestASecondOrphanWaitsForItsFence(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		id := w.submit("poison")
		first := w.armAsTheDead()
		again := w.armAgainAsTheDead(first, time.Minute)
		w.start()
		w.pass(time.Until(again.Snapshot.Fence) - time.Second)
		if n := w.platform.sent(); n != 0 || w.job(id).State != job.Sending {
			t.Errorf("%d requests before the second fence\n%s", n, w.story(id))
		}
		w.until(id, job.Succeeded, time.Minute)
	}, keyed(true))
}

// armAgainAsTheDead makes a sender seem lost, and arms the replay of its job as another
// worker that dies.
func (w *world) armAgainAsTheDead(armed store.Armed, fence time.Duration) store.Armed {
	w.t.Helper()
	s := w.job(armed.Snapshot.ID)
	d, err := job.Decide(s.View(w.platform.traits(), 0), job.SenderLost{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.apply(s, d)
	looks, err := w.store.ClaimLooks(w.t.Context(), store.ClaimParams{Worker: "dead too", Lease: time.Minute, Limit: 1})
	if err != nil || len(looks) != 1 {
		w.t.Fatalf("looks: %d, %v", len(looks), err)
	}
	l, a := looks[0], armed.Attempt
	out, err := w.store.Arm(w.t.Context(), []store.Arm{{
		Job: l.ID, Version: l.Version, Claim: l.ClaimToken, Token: newID(), Worker: "dead too", Class: job.Keyed, Rearm: true,
		EffectKey: a.EffectKey, Digest: digest(a.Frozen), Frozen: a.Frozen, AccountIdentity: a.AccountIdentity,
		SendBy: 10 * time.Second, AnswerBy: 30 * time.Second, Fence: fence, KeepTrying: l.Retry.Keep(),
	}})
	if err != nil || out[0].Err != nil {
		w.t.Fatalf("arm: %v, %v", err, out)
	}
	return out[0]
}

// A sender that lives on behind a lost session is believed: its success ends the job,
// and its doubt takes nothing back.
func TestASenderThatLivesOnIsBelieved(t *testing.T) {
	for _, result := range []job.Result{job.ResultSucceeded, job.ResultUnknown} {
		onBoth(t, func(t *testing.T, w *world) {
			id := w.submit("hidden")
			armed := w.armAsTheDead()
			w.platform.commit(armed.Attempt.EffectKey)
			release := make(chan struct{})
			w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
				<-release
				w.platform.commit(c.EffectKey)
				return job.Outcome{Result: job.ResultSucceeded, ExternalID: "the effect"}
			}
			w.start()
			w.pass(20 * time.Second)
			s := w.job(id)
			if s.State != job.Sending || s.Attempt != 2 {
				t.Fatalf("%s, attempt %d\n%s", s.State, s.Attempt, w.story(id))
			}
			out := job.Outcome{Attempt: 1, Result: result}
			if result == job.ResultSucceeded {
				out.ExternalID = "the effect"
			}
			d, err := job.Decide(s.View(w.platform.traits(), 0), out)
			if err != nil {
				t.Fatal(err)
			}
			w.apply(s, d)
			if got, want := w.job(id).State, map[job.Result]job.State{job.ResultSucceeded: job.Succeeded, job.ResultUnknown: job.Sending}[result]; got != want {
				t.Errorf("%s: %s, want %s\n%s", result, got, want, w.story(id))
			}
			close(release)
			w.until(id, job.Succeeded, time.Minute)
			if w.platform.total() != 1 || w.count(id, job.CauseDuplicateEffect) != 0 {
				t.Errorf("%s: %d effects\n%s", result, w.platform.total(), w.story(id))
			}
		}, keyed(true))
	}
}

// The attempt before a replay may still act: the job's fence is the later of both.
func TestARepeatShortensNoFence(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		id := w.submit("orphan")
		leased := w.armAsTheDeadFor(time.Hour)
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			time.Sleep(time.Until(c.AnswerBy))
			return unknown("no answer")
		}
		w.start()
		w.pass(20 * time.Second)
		s := w.job(id)
		if s.Attempt != 2 || s.Fence.Before(leased.Snapshot.Fence) {
			t.Errorf("attempt %d, its fence %v before the first one's\n%s", s.Attempt, leased.Snapshot.Fence.Sub(s.Fence), w.story(id))
		}
	}, keyed(true))
}

// The replays of one connection are sent one after the other, in the order of their fences, at
// a bounded rate.
func TestOrphansOfAConnectionArePaced(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		const jobs = 5
		var ids []job.ID
		for i := range jobs {
			ids = append(ids, w.submit(string(rune('a'+i))))
			w.armAsTheDead()
		}
		w.start()
		for _, id := range ids {
			w.until(id, job.Succeeded, 30*time.Second)
		}
		var due []time.Duration
		for _, id := range ids {
			for _, e := range w.events(id) {
				if e.Cause == job.CauseArmed && e.Attempt == 2 {
					due = append(due, e.At.Sub(w.lostAt(id)))
				}
			}
		}
		if len(due) != jobs {
			t.Fatalf("%d repeats", len(due))
		}
		for i, d := range due {
			if least := time.Duration(i) * 20 * time.Millisecond; d < least {
				t.Errorf("repeat %d after %v, not before %v", i, d, least)
			}
		}
	}, keyed(true))
}

// lostAt is when a job's sender was taken for lost.
func (w *world) lostAt(id job.ID) time.Time {
	for _, e := range w.events(id) {
		if e.Cause == job.CauseSenderLost {
			return e.At
		}
	}
	return time.Time{}
}
