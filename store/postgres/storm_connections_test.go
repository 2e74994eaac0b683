//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store"
)

// reviser is a storm's worker that changes connections, too.
type reviser struct {
	*storm
	young *youngConns
}

// youngConns are connections that are made and deleted in the storm.
type youngConns struct {
	mu      sync.Mutex
	list    []store.Connection
	deleted int
	used    int
}

func (y *youngConns) add(c store.Connection) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.list = append(y.list, c)
}

// some returns one of the last few, which others know, too.
func (y *youngConns) some(r *rand.Rand) (store.Connection, bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.list) == 0 {
		return store.Connection{}, false
	}
	return y.list[len(y.list)-1-r.IntN(min(4, len(y.list)))], true
}

// TestConnectionStorm: connections are paused, resumed, given other bounds and other
// credentials, created and deleted, while many workers on three servers work on their jobs.
// No transactions wait for each other forever, and every remaining job can be claimed.
func TestConnectionStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("left out of the ordinary tests")
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			const workers, steps = 6, 60
			f := newFleetApart(t, 3)
			conns := []store.Connection{
				f.connect(func(c *store.Connection) { c.MaxInFlight = 5 }),
				f.connect(func(c *store.Connection) { c.Class, c.AccountIdentity = job.Observable, "me" }),
				f.connect(func(c *store.Connection) { c.Class, c.MaxPerMinute = job.Opaque, 600 }),
			}
			pool, young := &storms{}, &youngConns{}
			var wg sync.WaitGroup
			for i := range workers {
				w := &reviser{&storm{
					fleet: f, s: f.stores[i%len(f.stores)], conns: conns, pool: pool,
					r: rand.New(rand.NewPCG(seed, uint64(i))),
				}, young}
				wg.Go(func() {
					for range steps {
						if err := w.step(); err != nil {
							t.Errorf("worker %d: %v", i, err)
							return
						}
					}
				})
			}
			wg.Wait()
			f.consistent()
			f.connectionsConsistent()
			f.calm()
			f.drain()
			f.consistent()
			t.Logf("%d connections made, %d deleted, %d deletes refused", len(young.list), young.deleted, young.used)
			if young.deleted == 0 {
				t.Error("no delete has come through")
			}
			for _, s := range f.stores {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if n := f.count("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
				t.Errorf("%d deadlocks\n%s", n, deadlocksOf(pgtest.Shared(t).Logs()))
			}
		})
	}
}

func (w *reviser) step() error {
	var err error
	switch w.r.IntN(8) {
	case 0, 1:
		err = w.revise(w.conns[w.r.IntN(len(w.conns))])
	case 2:
		err = w.bear()
	case 3, 4:
		err = w.visit()
	case 5:
		err = w.remove()
	default:
		err = w.storm.step()
	}
	// A job of a connection that was deleted is not started again.
	if errors.Is(err, store.ErrNotFound) || isOneOf(err, races...) {
		return nil
	}
	return err
}

// revise changes a connection as it was a moment ago.
func (w *reviser) revise(c store.Connection) error {
	conn, err := w.s.Connection(context.Background(), store.Ref{Project: c.Project, ID: c.ID})
	if err != nil {
		return fmt.Errorf("read the connection: %w", err)
	}
	change := store.ConnectionChange{Project: conn.Project, ID: conn.ID, Version: conn.Version}
	why := "why"
	switch w.r.IntN(5) {
	case 0:
		change.Pause = &why
	case 1, 2:
		change.Resume = true
	case 3:
		change.Limits = &store.ConnectionLimits{MaxInFlight: 1 + w.r.IntN(8), MaxPerMinute: w.r.IntN(2) * 600}
	default:
		change.Credential = &store.Sealed{Version: conn.CredentialVersion + 1, KeyID: "k", Data: []byte("sealed")}
	}
	if _, err = w.s.ChangeConnection(context.Background(), change); err != nil {
		return fmt.Errorf("change the connection: %w", err)
	}
	return nil
}

// bear creates a connection.
func (w *reviser) bear() error {
	c, _, err := w.s.CreateConnection(context.Background(), store.NewConnection{Connection: store.Connection{
		ID: randomID(), Project: "default", Connector: "fake", Class: job.Keyed,
	}})
	if err != nil {
		return fmt.Errorf("make a connection: %w", err)
	}
	w.young.add(c)
	return nil
}

// visit stores jobs on a connection that may be deleted, in each of the ways to store
// one, and ends them.
func (w *reviser) visit() error {
	conn, ok := w.young.some(w.r)
	if !ok {
		return nil
	}
	n := newSpec(conn, func(s *job.Spec) { s.HoldKey = fmt.Sprint("key ", w.r.IntN(3)) })
	switch w.r.IntN(3) {
	case 0:
		n.Start = &store.ClaimParams{Worker: "w", Lease: time.Minute, Intent: func(l store.Leased) *store.Arm {
			a := intentOf(l)
			return &a
		}}
	case 1:
		for _, other := range w.pool.some(w.r, 1) {
			n.Spec.ReplyTo = other.ID
		}
	}
	out, err := w.s.Create(context.Background(), []store.NewJob{n})
	if err = errors.Join(err, firstError(out)); err != nil {
		return err
	}
	snap, end := out[0].Snapshot, job.Evidence(job.CancelAsked{})
	if l := out[0].Started; l != nil {
		snap = l.Snapshot
		if l.Armed != nil {
			snap, end = l.Armed.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent}
		}
	}
	w.pool.put(snap)
	_, err = apply(w.s, snap, end)
	return err
}

func firstError(out []store.Created) error {
	if len(out) == 0 {
		return nil
	}
	return out[0].Err
}

func (w *reviser) remove() error {
	conn, ok := w.young.some(w.r)
	if !ok {
		return nil
	}
	_, err := w.s.ChangeConnection(context.Background(), store.ConnectionChange{
		Project: conn.Project, ID: conn.ID, Version: conn.Version, Delete: true,
	})
	w.young.mu.Lock()
	defer w.young.mu.Unlock()
	switch {
	case err == nil:
		w.young.deleted++
	case errors.Is(err, store.ErrInUse):
		w.young.used++
		return nil
	}
	return err
}

// connectionsConsistent checks what holds between connections, their jobs and their runnable
// rows after all concurrent work.
func (f *fleet) connectionsConsistent() {
	f.Helper()
	for what, text := range map[string]string{
		"jobs that have not ended on deleted connections": `SELECT count(*) FROM job_state AS s JOIN connections AS c ON c.id = s.connection_id
			WHERE c.deleted_at IS NOT NULL AND s.state NOT IN (8, 9, 10, 11)`,
		"runnable rows of deleted connections": `SELECT count(*) FROM connection_ready AS r JOIN connections AS c ON c.id = r.connection_id
			WHERE c.deleted_at IS NOT NULL`,
		"credentials of deleted connections": `SELECT count(*) FROM connection_credentials AS r JOIN connections AS c ON c.id = r.connection_id
			WHERE c.deleted_at IS NOT NULL`,
		"runnable rows that are paused otherwise than their connection": `SELECT count(*) FROM connection_ready AS r
			JOIN connections AS c ON c.id = r.connection_id WHERE r.paused <> (c.paused_at IS NOT NULL)`,
		"credentials that are not their connection's": `SELECT count(*) FROM connection_credentials AS r
			JOIN connections AS c ON c.id = r.connection_id WHERE r.version <> c.credential_version`,
	} {
		if n := f.count(text); n != 0 {
			f.Errorf("%d %s", n, what)
		}
	}
}

// calm ends pauses and holds.
func (f *fleet) calm() {
	f.Helper()
	page, err := f.stores[0].ListConnections(f.Context(), store.ConnectionQuery{Project: "default"})
	if err != nil {
		f.Fatal(err)
	}
	for _, conn := range page.Connections {
		_, err := f.stores[0].ChangeConnection(f.Context(), store.ConnectionChange{
			Project: conn.Project, ID: conn.ID, Version: conn.Version, Resume: true,
			Credential: &store.Sealed{Version: conn.CredentialVersion + 1, KeyID: "k", Data: []byte("sealed")},
		})
		if err != nil {
			f.Fatal(err)
		}
	}
}
