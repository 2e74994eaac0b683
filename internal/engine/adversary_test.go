package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// timeout sets how long a request waits for its answer.
func timeout(d time.Duration) change {
	return func(n *store.NewJob) { n.Spec.Retry.AttemptTimeout = d }
}

// A target that answers replays slowly occupies every looker. Other jobs must still be
// swept.
func TestBusyLookersDelayNoSweep(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			switch n {
			case 1:
				return unknown("reset")
			case 2: // the only looker hangs in this replay
				time.Sleep(time.Until(c.AnswerBy))
				return unknown("no answer")
			default:
				w.platform.commit(c.EffectKey)
				return job.Outcome{Result: job.ResultSucceeded}
			}
		}
		w.config.Lookers = 1
		orphan := w.submit("orphan")
		if _, err := w.store.Claim(t.Context(), store.ClaimParams{Worker: "dead", Lease: time.Minute, Limit: 1}); err != nil {
			t.Fatal(err)
		}
		w.start()
		slow := w.submit("slow", timeout(5*time.Minute))
		w.until(orphan, job.Succeeded, 2*time.Minute)
		w.until(slow, job.Succeeded, time.Hour)
	})
}

// A credential that is refused before the arm holds its target: the job waits
// for a new one, and is not prepared again and again.
func TestACredentialRefusedBeforeTheArmHoldsTheTarget(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.platform.open = func(int) error {
			return &connector.Refusal{Kind: job.FailAuth, Msg: "reconnect this account"}
		}
		w.connectWithCredential()
		w.start()
		id := w.submit("refused")
		w.pass(time.Hour)
		if w.platform.opened != 1 || len(w.events(id)) > 3 {
			t.Errorf("prepared %d times, %d events", w.platform.opened, len(w.events(id)))
		}
		w.until(id, job.Expired, 2*time.Hour)
	})
}

// connectWithCredential adds a second connection to the world, with a credential.
func (w *world) connectWithCredential() {
	w.t.Helper()
	var err error
	w.conn, _, err = w.store.CreateConnection(w.t.Context(), store.NewConnection{
		Key: "with credential",
		Connection: store.Connection{
			ID: newID(), Project: "default", Connector: "scripted", Class: w.platform.class,
			KeyWindow: 24 * time.Hour, CredentialVersion: 1,
		},
		Sealed: &store.Sealed{KeyID: "key", Data: []byte("sealed"), Fingerprint: "fp"},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// paused is a store whose connections were paused after the first send.
type paused struct{ engine.Store }

func (p paused) ClaimLooks(ctx context.Context, c store.ClaimParams) ([]store.Leased, error) {
	leased, err := p.Store.ClaimLooks(ctx, c)
	for i := range leased {
		leased[i].Connection.PausedAt = time.Now()
	}
	return leased, err
}

func (p paused) Arm(ctx context.Context, items []store.Arm) ([]store.Armed, error) {
	if items[0].Rearm {
		return []store.Armed{{Err: store.ErrHeld}}, nil
	}
	return p.Store.Arm(ctx, items)
}

// A paused target whose outcome is unknown is left alone, not dialled each second.
func TestAPausedTargetIsLeftAlone(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.platform.publish = func(int, connector.Commit) job.Outcome { return unknown("reset") }
		w.start()
		id := w.submit("paused")
		w.until(id, job.NeedsResolution, 3*time.Hour)
		if w.platform.opened > 150 || w.platform.sent() != 1 {
			t.Errorf("prepared %d times in two hours, sent %d, %d events", w.platform.opened, w.platform.sent(), len(w.events(id)))
		}
	}, through(func(s engine.Store) engine.Store { return paused{s} }))
}

// An arm that is certainly not durable does not count as a worker crash, however often it
// happens.
func TestArmsThatWereNeverDurableCostNothing(t *testing.T) {
	l := &lossy{}
	l.refuseArm.Store(6)
	in(t, func(t *testing.T, w *world) {
		w.start()
		id := w.submit("slow-disk")
		s := w.until(id, job.Succeeded, time.Hour)
		if s.Failures != 0 || w.platform.sent() != 1 {
			t.Errorf("failures %d, %d requests", s.Failures, w.platform.sent())
		}
	}, losing(l))
}

// A send window that is shorter than any commit is a failure of the job, not of the
// store: it uses up the attempts, and is not tried without end.
func TestATimeoutThatNoArmCanMeetUsesUpTheAttempts(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.start()
		id := w.submit("hasty", timeout(time.Microsecond))
		s := w.until(id, job.Failed, 90*time.Minute)
		if s.Failures != job.DefaultMaxAttempts || w.platform.sent() != 0 {
			t.Errorf("failures %d, %d requests", s.Failures, w.platform.sent())
		}
	}, losing(&lossy{armTakes: time.Millisecond}))
}

// A replay that took too long to prepare is not sent: the receiver may have
// forgotten the key meanwhile.
func TestAReplayIsNotSentPastHalfTheKeyWindow(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.platform.window = 2 * time.Minute // a replay may take one of them
		var first, last time.Time
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			last = time.Now()
			if n == 1 {
				first = last
				time.Sleep(25 * time.Second)
				return unknown("reset")
			}
			return job.Outcome{Result: job.ResultSucceeded}
		}
		w.platform.open = func(n int) error {
			if n > 1 {
				time.Sleep(19 * time.Second)
			}
			return nil
		}
		w.start()
		id := w.submit("slow")
		w.until(id, job.NeedsResolution, 5*time.Minute)
		if age := last.Sub(first); age > 30*time.Second {
			t.Errorf("replayed a key of %v", age)
		}
	})
}

// A replay that is sent in time may act until its own fence. The receiver must
// remember the key until then.
func TestAReplayMayNotOutlastTheKey(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		const toAct = time.Minute // answer timeout and grace
		w.platform.window = 80 * time.Second
		var first time.Time
		w.platform.publish = func(n int, _ connector.Commit) job.Outcome {
			if n == 1 {
				first = time.Now()
				time.Sleep(22 * time.Second)
			} else if end := time.Since(first) + toAct; end > w.platform.window {
				t.Errorf("a repeat may act up to %v after the first request", end)
			}
			return unknown("reset")
		}
		w.start()
		id := w.submit("short memory")
		w.until(id, job.NeedsResolution, 5*time.Minute)
	})
}

// slowRepeats is a store whose commits of a replay's intent take seconds.
type slowRepeats struct{ engine.Store }

func (s slowRepeats) Arm(ctx context.Context, items []store.Arm) ([]store.Armed, error) {
	if items[0].Rearm {
		time.Sleep(7 * time.Second)
	}
	return s.Store.Arm(ctx, items)
}

// A replay whose intent took long to store is not sent: the receiver may forget the key
// while the replay acts.
func TestAReplayWhoseArmIsSlowIsNotSent(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.platform.window = 100 * time.Second // a replay may take 90 of them: 5 are left for its start
		w.platform.publish = func(int, connector.Commit) job.Outcome { return ended("reset") }
		w.start()
		id := w.submit("short memory", timeout(time.Minute))
		w.until(id, job.NeedsResolution, 5*time.Minute)
		a := w.attempts(id)
		if w.platform.sent() != 1 || len(a) != 2 || a[1].Result != job.ResultNotSent {
			t.Errorf("%d requests, %d attempts\n%s", w.platform.sent(), len(a), w.story(id))
		}
	}, through(func(s engine.Store) engine.Store { return slowRepeats{s} }))
}
