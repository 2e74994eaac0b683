package engine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// refresher renews credentials as a test scripts it. What it returns is stored before.
type refresher struct {
	w  *world
	mu sync.Mutex
	// due reports whether a version is to be renewed before its use.
	due func(version int) bool
	// fail, when set, is why there is no newer version.
	fail  func() error
	asked int
}

func (r *refresher) Due(conn store.Connection) bool {
	return r.due != nil && r.due(conn.CredentialVersion)
}

func (r *refresher) Fresh(_ context.Context, _ store.Connection, cred connector.Credential) (connector.Credential, error) {
	if r.due == nil || !r.due(cred.Version) {
		return cred, nil
	}
	if _, err := r.renew(cred.Version); err != nil {
		return cred, err
	}
	cred.Version++
	return cred, nil
}

func (r *refresher) Refused(_ context.Context, _ store.Connection, version int) (bool, error) {
	return r.renew(version)
}

func (r *refresher) renew(version int) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.w.connection().CredentialVersion > version {
		return true, nil
	}
	r.asked++
	if r.fail != nil {
		if err := r.fail(); err != nil {
			return false, err
		}
	}
	r.w.rotate()
	return true, nil
}

func (r *refresher) times() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

func (w *world) refresh(r *refresher) *refresher {
	r.w = w
	w.config.Refresh = r
	return r
}

var classes = []job.Class{job.Keyed, job.Observable, job.Opaque}

// A credential that is due is renewed before the arm: nothing goes out with the old one.
func TestRenewedBeforeArm(t *testing.T) {
	for _, c := range classes {
		t.Run(c.String(), func(t *testing.T) {
			onBoth(t, func(t *testing.T, w *world) {
				first := func(version int) bool { return version == 1 }
				r := w.refresh(&refresher{due: first})
				w.guard(&guarded{atSend: first})
				w.start()
				a, b := w.submit("a"), w.submit("b", func(n *store.NewJob) { n.Spec.Payload = []byte("other") })
				for _, id := range []job.ID{a, b} {
					s := w.until(id, job.Succeeded, time.Minute)
					got := w.attempts(id)
					if s.Attempt != 1 || s.Failures != 0 || got[0].CredentialVersion != 2 {
						t.Errorf("attempt %d, credential %d\n%s", s.Attempt, got[0].CredentialVersion, w.story(id))
					}
				}
				if r.times() != 1 || w.platform.total() != 2 {
					t.Errorf("renewed %d times, %d effects", r.times(), w.platform.total())
				}
			}, class(c))
		})
	}
}

// A refused credential that can be renewed holds nothing.
func TestRenewedAfterRefusal(t *testing.T) {
	first := func(version int) bool { return version == 1 }
	for name, tt := range map[string]struct {
		guard    guarded
		attempts int
	}{
		"when it is opened": {guarded{atOpen: first}, 1},
		"when it is sent":   {guarded{atSend: first}, 2},
	} {
		for _, c := range classes {
			t.Run(name+" "+c.String(), func(t *testing.T) {
				onBoth(t, func(t *testing.T, w *world) {
					g := tt.guard
					r := w.refresh(&refresher{})
					w.guard(&g)
					w.start()
					id := w.submit("k")
					s := w.until(id, job.Succeeded, time.Minute)
					if s.Attempt != tt.attempts || s.Failures != 0 || r.times() != 1 || w.platform.total() != 1 {
						t.Errorf("attempt %d, %d failures, renewed %d times, %d effects\n%s",
							s.Attempt, s.Failures, r.times(), w.platform.total(), w.story(id))
					}
					if conn := w.connection(); !conn.AuthHoldAt.IsZero() || conn.CredentialVersion != 2 {
						t.Errorf("connection %+v", conn)
					}
				}, class(c))
			})
		}
	}
}

// A platform that cannot be reached for a new credential does not hold the account for
// good: the job waits, uses up no attempt, and goes on.
func TestRenewLater(t *testing.T) {
	first := func(version int) bool { return version == 1 }
	for name, g := range map[string]guarded{"when it is opened": {atOpen: first}, "when it is sent": {atSend: first}} {
		for _, c := range classes {
			t.Run(name+" "+c.String(), func(t *testing.T) {
				onBoth(t, func(t *testing.T, w *world) {
					n := 0
					w.refresh(&refresher{fail: func() error {
						if n++; n <= 3 {
							return &connector.Refusal{Kind: job.FailHeld, Msg: "could not be reached", RetryAfter: 30 * time.Second}
						}
						return nil
					}})
					w.guard(&g)
					w.start()
					id := w.submit("k")
					w.pass(80 * time.Second)
					if s := w.job(id); s.State.Terminal() || s.State.InFlight() || s.Failures != 0 {
						t.Errorf("%s, %d failures\n%s", s.State, s.Failures, w.story(id))
					}
					if conn := w.connection(); !conn.AuthHoldAt.IsZero() {
						t.Errorf("held for good: %+v", conn)
					}
					if s := w.until(id, job.Succeeded, time.Minute); s.Failures != 0 || w.platform.total() != 1 {
						t.Errorf("%d failures, %d effects\n%s", s.Failures, w.platform.total(), w.story(id))
					}
				}, class(c))
			})
		}
	}
}

// A login that has ended holds, with the cause that the refresher names.
func TestRenewDead(t *testing.T) {
	always := func(int) bool { return true }
	for name, r := range map[string]*refresher{
		"before the arm": {due: always}, "after a refusal": {},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, w *world) {
				r := &refresher{due: r.due, fail: func() error {
					return &connector.Refusal{Kind: job.FailAuth, Msg: "Reconnect this account"}
				}}
				w.refresh(r)
				w.guard(&guarded{atSend: always})
				w.start()
				id := w.submit("k")
				w.pass(time.Minute)
				conn := w.connection()
				if s := w.job(id); conn.AuthHoldAt.IsZero() || conn.AuthHoldReason != "Reconnect this account" || s.Failures != 0 {
					t.Errorf("connection %+v\n%s", conn, w.story(id))
				}
				w.pass(30 * time.Minute)
				if n := r.times(); n > 2 {
					t.Errorf("asked %d times under a hold", n)
				}
			}, class(job.Opaque))
		})
	}
}
