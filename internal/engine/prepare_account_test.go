package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// owned is a platform that names the account of a credential when it is asked
// for a watermark, or when a session is opened.
type owned struct {
	*platform
	account string
}

func (o *owned) Check(settings []byte, cred connector.Credential) (connector.Capability, error) {
	c, err := o.platform.Check(settings, cred)
	c.Identity = ""
	return c, err
}

func (o *owned) Watermark(context.Context, connector.Opening) (string, error) { return o.account, nil }

func (*owned) AccountOf(mark string) string { return mark }

func (o *owned) Open(ctx context.Context, opening connector.Opening) (connector.Session, error) {
	s, err := o.platform.Open(ctx, opening)
	return ownedSession{s, o.account}, err
}

type ownedSession struct {
	connector.Session
	account string
}

func (s ownedSession) Account() string { return s.account }

// own puts an owned platform in the place of the world's.
func (w *world) own(account string) *owned {
	w.t.Helper()
	o := &owned{platform: w.platform, account: account}
	registry, err := connector.NewRegistry(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.config.Connectors = registry
	w.config.Open = func(_ store.Connection, s store.Sealed) (connector.Credential, error) {
		return connector.Credential{Version: s.Version, Data: s.Data}, nil
	}
	w.rotate()
	return o
}

// A replay under the same key is harmless only at the account of the attempt before. A
// credential that leads to another account meanwhile holds the connection.
func TestARepeatIsTheSameAccounts(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		o := w.own("ada")
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			if n == 1 {
				w.platform.commit(c.EffectKey)
				o.account = "bob"
				return unknown("connection reset")
			}
			return w.platform.confirm(c)
		}
		w.start()
		id := w.submit("one")
		w.pass(10 * time.Minute)
		s, conn := w.job(id), w.connection()
		if s.State != job.Ambiguous || w.platform.sent() != 1 || !strings.Contains(s.Blocked, "reconnect the account ada") || conn.AuthHoldReason != s.Blocked {
			t.Fatalf("%s, blocked %q, held %q, %d requests\n%s", s.State, s.Blocked, conn.AuthHoldReason, w.platform.sent(), w.story(id))
		}
		o.account = "ada"
		w.rotate()
		w.until(id, job.Succeeded, time.Hour)
		if w.platform.sent() != 2 || w.platform.total() != 1 || w.attempts(id)[1].AccountIdentity != "ada" {
			t.Errorf("%d requests, %d effects\n%s", w.platform.sent(), w.platform.total(), w.story(id))
		}
	})
}

// A connection whose account is known sends for no other account.
func TestAConnectionIsOneAccount(t *testing.T) {
	for _, c := range []job.Class{job.Keyed, job.Observable} {
		t.Run(c.String(), func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				o := w.own("bob")
				ada, conn := "ada", w.connection()
				if _, err := w.store.ChangeConnection(t.Context(), store.ConnectionChange{
					Project: conn.Project, ID: conn.ID, Version: conn.Version, Identity: &ada, Seal: &store.Seal{KeyID: "k"},
				}); err != nil {
					t.Fatal(err)
				}
				w.start()
				id := w.submit("one")
				w.pass(time.Minute)
				if s := w.job(id); s.State.Terminal() || s.Attempt != 0 || !strings.Contains(s.Blocked, "another account") || w.connection().AuthHoldCause != job.AuthOtherAccount {
					t.Fatalf("%s, blocked %q\n%s", s.State, s.Blocked, w.story(id))
				}
				o.account = "ada"
				w.rotate()
				if s := w.until(id, job.Succeeded, time.Hour); s.Failures != 0 || w.platform.total() != 1 {
					t.Errorf("%d failures, %d effects", s.Failures, w.platform.total())
				}
			}, class(c))
		})
	}
}

// A look whose credential is refused holds the account, says nothing about the effect, and
// uses up none of the looks: whatever the job's policy, it waits for the account.
func TestLookRefusedCredential(t *testing.T) {
	for _, p := range []job.Delivery{job.OnceOrAsk, job.AtMostOnce, job.AtLeastOnce} {
		t.Run(p.String(), func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.guard(&guarded{})
				w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
					w.platform.commit(c.EffectKey)
					return unknown("connection reset")
				}
				refused := true
				w.platform.observe = func(connector.Look) job.Observation {
					if refused {
						return job.Observation{Verdict: job.SawInconclusive, Kind: job.FailAuth, Detail: "Reconnect this account"}
					}
					return job.Observation{Verdict: job.SawPresent, ExternalID: "post-1"}
				}
				w.start()
				id := w.submit("one", policy(p))
				w.pass(8 * time.Hour)
				s, conn := w.job(id), w.connection()
				if s.State != job.Ambiguous || s.Blocked != "Reconnect this account" || conn.AuthHoldAt.IsZero() || conn.AuthHoldReason != s.Blocked {
					t.Fatalf("%s, blocked %q, held %q\n%s", s.State, s.Blocked, conn.AuthHoldReason, w.story(id))
				}
				refused = false
				w.rotate()
				s = w.until(id, job.Succeeded, 10*time.Minute)
				if s.Attempt != 1 || s.Effect.ExternalID != "post-1" || s.Effect.Proof != job.ProofObserved || s.Blocked != "" || w.platform.total() != 1 {
					t.Errorf("%d attempts, %+v, blocked %q\n%s", s.Attempt, s.Effect, s.Blocked, w.story(id))
				}
			}, class(job.Observable))
		})
	}
}
