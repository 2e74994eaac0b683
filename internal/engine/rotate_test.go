package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// guarded is a platform that checks credentials: it refuses a version when a session is
// opened, or when the request comes.
type guarded struct {
	*platform
	atOpen, atSend func(version int) bool
	why            job.AuthCause // the cause of the platform's refusal
}

func (g *guarded) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	if v := o.Credential.Version; g.atOpen != nil && g.atOpen(v) {
		return nil, &connector.Refusal{Kind: job.FailAuth, Auth: g.why, Msg: "Reconnect this account"}
	}
	s, err := g.platform.Open(ctx, o)
	return &guardedSession{s, g, o.Credential.Version}, err
}

type guardedSession struct {
	connector.Session
	g       *guarded
	version int
}

func (s *guardedSession) Publish(c connector.Commit) job.Outcome {
	if s.g.atSend == nil || !s.g.atSend(s.version) {
		return s.Session.Publish(c)
	}
	s.g.mu.Lock()
	s.g.requests++
	s.g.mu.Unlock()
	return job.Outcome{
		Result: job.ResultRejected, Kind: job.FailAuth, Auth: s.g.why, HTTPStatus: 401, Message: "Reconnect this account",
		CredentialVersion: s.version,
	}
}

// guard puts a guarded platform in the place of the world's, with its first credential.
func (w *world) guard(g *guarded) {
	w.t.Helper()
	g.platform = w.platform
	registry, err := connector.NewRegistry(g)
	if err != nil {
		w.t.Fatal(err)
	}
	w.config.Connectors = registry
	w.config.Open = func(_ store.Connection, s store.Sealed) (connector.Credential, error) {
		return connector.Credential{Version: s.Version, Data: s.Data}, nil
	}
	w.rotate()
}

// rotate replaces the connection's credential by the next one.
func (w *world) rotate() {
	w.t.Helper()
	conn := w.connection()
	_, err := w.store.ChangeConnection(w.t.Context(), store.ConnectionChange{
		Project: conn.Project, ID: conn.ID, Version: conn.Version,
		Credential: &store.Sealed{Version: conn.CredentialVersion + 1, KeyID: "k", Data: []byte("sealed")},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) connection() store.Connection {
	w.t.Helper()
	conn, err := w.store.Connection(w.t.Context(), store.Ref{ID: w.conn.ID})
	if err != nil {
		w.t.Fatal(err)
	}
	return conn
}

// TestRotationGoesOn: a credential is refused, jobs wait without using up attempts, a new
// one comes, and each job has one effect.
func TestRotationGoesOn(t *testing.T) {
	first := func(version int) bool { return version == 1 }
	for name, tt := range map[string]struct {
		guard    guarded
		attempts int // of the job that was refused
	}{
		"refused when it is opened": {guarded{atOpen: first}, 1},
		"refused when it is sent":   {guarded{atSend: first}, 2},
	} {
		for _, c := range []job.Class{job.Keyed, job.Observable, job.Opaque} {
			t.Run(name+" "+c.String(), func(t *testing.T) {
				onBoth(t, func(t *testing.T, w *world) {
					g := tt.guard
					w.guard(&g)
					w.start()
					refused := w.submit("first")
					w.pass(time.Minute)
					held := w.connection()
					if held.AuthHoldAt.IsZero() || held.AuthHoldReason != "Reconnect this account" {
						t.Fatalf("connection %+v\n%s", held, w.story(refused))
					}
					later := w.submit("second")
					sent := w.platform.sent()
					w.pass(time.Hour)
					if w.platform.sent() != sent || w.platform.total() != 0 {
						t.Errorf("%d requests, %d effects under a hold", w.platform.sent(), w.platform.total())
					}
					w.rotate()
					for _, id := range []job.ID{refused, later} {
						if s := w.until(id, job.Succeeded, time.Minute); s.Failures != 0 {
							t.Errorf("%d failures\n%s", s.Failures, w.story(id))
						}
					}
					got := w.attempts(refused)
					if len(got) != tt.attempts || got[len(got)-1].CredentialVersion != 2 || w.platform.total() != 2 {
						t.Errorf("%d attempts, %d effects\n%s", len(got), w.platform.total(), w.story(refused))
					}
				}, class(c))
			})
		}
	}
}

// TestLateRefusal: a request that went out under the old credential is refused after
// the rotation. That holds nothing, and the job goes on with the new one.
func TestLateRefusal(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		held := w.platform.hold()
		w.guard(&guarded{atSend: func(version int) bool {
			if version == 1 {
				<-held
			}
			return version == 1
		}})
		w.start()
		id := w.submit("k")
		w.until(id, job.Sending, time.Minute)
		w.rotate()
		w.platform.release()
		if s := w.until(id, job.Succeeded, time.Minute); s.Attempt != 2 || s.Failures != 0 {
			t.Errorf("attempt %d, %d failures\n%s", s.Attempt, s.Failures, w.story(id))
		}
		if conn := w.connection(); !conn.AuthHoldAt.IsZero() {
			t.Errorf("held: %+v", conn)
		}
	}, class(job.Opaque))
}

// TestPauseStopsStarts: what was claimed when the pause came is not sent, and costs
// nothing.
func TestPauseStopsStarts(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		opening := make(chan struct{})
		paused := w.platform.hold()
		w.platform.open = func(n int) error {
			if n == 1 {
				close(opening)
				<-paused
			}
			return nil
		}
		w.start()
		id := w.submit("k")
		<-opening
		why := ""
		conn := w.connection()
		change := store.ConnectionChange{Project: conn.Project, ID: conn.ID, Version: conn.Version, Pause: &why}
		after, err := w.store.ChangeConnection(t.Context(), change)
		if err != nil {
			t.Fatal(err)
		}
		w.platform.release()
		w.pass(time.Hour)
		if s := w.job(id); s.State != job.Scheduled || w.platform.sent() != 0 {
			t.Errorf("%s, %d requests\n%s", s.State, w.platform.sent(), w.story(id))
		}
		change.Version, change.Pause, change.Resume = after.Version, nil, true
		if _, err := w.store.ChangeConnection(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		if s := w.until(id, job.Succeeded, time.Minute); s.Attempt != 1 || s.Failures != 0 {
			t.Errorf("attempt %d\n%s", s.Attempt, w.story(id))
		}
	}, class(job.Opaque))
}
