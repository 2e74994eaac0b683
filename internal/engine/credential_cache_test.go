package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// rotating is a store whose connections' credential is replaced by the test.
type rotating struct {
	engine.Store
	// claimed is the version in claims, newest the one that is stored.
	claimed, newest atomic.Int64
	read            atomic.Int64
}

func (r *rotating) Claim(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	return claimAs(ctx, r.Store, p, func(c *store.Connection) { c.CredentialVersion = int(r.claimed.Load()) })
}

// claimAs claims jobs whose connections are as they are edited.
func claimAs(ctx context.Context, s engine.Store, p store.ClaimParams, edit func(*store.Connection)) ([]store.Leased, error) {
	intend := p.Intent
	p.Intent = func(l store.Leased) *store.Arm {
		edit(&l.Connection)
		return intend(l)
	}
	leased, err := s.Claim(ctx, p)
	for i := range leased {
		edit(&leased[i].Connection)
	}
	return leased, err
}

func (r *rotating) Credential(context.Context, job.ID) (store.Sealed, error) {
	r.read.Add(1)
	return store.Sealed{Version: int(r.newest.Load())}, nil
}

func (r *rotating) rotate(claimed, newest int64) {
	r.claimed.Store(claimed)
	r.newest.Store(newest)
}

// TestACredentialIsReadOnceForItsVersion: many jobs share one read. A replaced credential
// is used from the claim on that names it, and one that was replaced after the claim is not
// taken for the older version.
func TestACredentialIsReadOnceForItsVersion(t *testing.T) {
	r := &rotating{}
	in(t, func(t *testing.T, w *world) {
		w.config.Open = func(_ store.Connection, s store.Sealed) (connector.Credential, error) {
			return connector.Credential{Version: s.Version}, nil
		}
		w.start()
		var n int
		send := func(wantVersion int, wantRead int64) {
			t.Helper()
			n++
			id := w.submit(fmt.Sprint("job ", n))
			w.until(id, job.Succeeded, time.Second)
			if got := w.attempts(id)[0].CredentialVersion; got != wantVersion {
				t.Errorf("job %d: sent with version %d of the credential, want %d", n, got, wantVersion)
			}
			if got := r.read.Load(); got != wantRead {
				t.Errorf("job %d: read %d times, want %d", n, got, wantRead)
			}
		}
		r.rotate(1, 1)
		send(1, 1)
		send(1, 1)
		r.rotate(2, 2)
		send(2, 2)
		send(2, 2)
		r.rotate(2, 3) // after the claim
		w.pass(time.Minute)
		send(3, 3)
		send(3, 4) // version 3 is not cached as version 2
		r.rotate(3, 3)
		send(3, 5)
		send(3, 5)
		w.pass(time.Minute)
		send(3, 6) // nothing is cached for long
	}, through(func(s engine.Store) engine.Store { r.Store = s; return r }))
}

// TestAnotherCheckForOtherSettings: what the connector said of a connection is not
// used for its changed settings.
func TestAnotherCheckForOtherSettings(t *testing.T) {
	var d changed
	checks := &checking{}
	in(t, func(t *testing.T, w *world) {
		checks.platform = w.platform
		registry, err := connector.NewRegistry(checks)
		if err != nil {
			t.Fatal(err)
		}
		w.config.Connectors = registry
		w.start()
		for i, settings := range []string{"a", "a", "b", "b"} {
			d.settings = settings
			w.until(w.submit(fmt.Sprint("job ", i)), job.Succeeded, time.Second)
		}
		if got := checks.seen; len(got) != 2 || got[0] != "a" || got[1] != "b" {
			t.Errorf("checked %q", got)
		}
	}, through(func(s engine.Store) engine.Store { d.Store = s; return &d }))
}

// changed is a store whose connections have other settings than were stored.
type changed struct {
	engine.Store
	settings string
}

func (c *changed) Claim(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	return claimAs(ctx, c.Store, p, func(conn *store.Connection) { conn.Settings = []byte(c.settings) })
}

// checking notes the settings that were checked.
type checking struct {
	*platform
	seen []string
}

func (c *checking) Check(settings []byte, cred connector.Credential) (connector.Capability, error) {
	c.seen = append(c.seen, string(settings))
	return c.platform.Check(settings, cred)
}
