//go:build unix

package postgres

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// A notice that is made while a claim sets its row aside by a stop of the project is claimed by the
// next claim, in either order in which both get the row's lock.
func TestNoticeWhileItsRowIsSetAside(t *testing.T) {
	for name, noticeFirst := range map[string]bool{"the notice first": true, "the claim first": false} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 2)
			conn := f.connect()
			f.submit(1, conn)
			sub := f.subscribe(conn)
			f.pauseProject()
			holder, err := pgx.Connect(t.Context(), f.url)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = holder.Close(context.Background()) }()
			if _, err := holder.Exec(t.Context(), "BEGIN; SELECT FROM connection_ready FOR UPDATE"); err != nil {
				t.Fatal(err)
			}
			n := newSpec(conn)
			calls := []func() error{func() error {
				_, err := f.stores[0].StepSubscription(context.Background(), store.SubscriptionStep{
					Subscription: sub, Notice: &store.Notice{Kind: store.NoticeEvents, Events: 1}, Job: &n,
				})
				return err
			}, func() error {
				out, err := claimOf(f.stores[1], 1)
				if len(out) > 0 {
					t.Errorf("job %s was claimed in the stop", out[0].ID)
				}
				return err
			}}
			if !noticeFirst {
				calls[0], calls[1] = calls[1], calls[0]
			}
			var wg sync.WaitGroup
			for i, call := range calls {
				wg.Go(func() {
					if err := call(); err != nil {
						t.Error(err)
					}
				})
				for f.count("SELECT count(*) FROM pg_locks WHERE NOT granted") <= i {
					if t.Failed() {
						break
					}
				}
			}
			if _, err := holder.Exec(t.Context(), "ROLLBACK"); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			if l := f.claim(1)[0]; l.ID != n.Spec.ID {
				t.Errorf("claimed %s, want the notice", l.ID)
			}
			f.consistent()
		})
	}
}

// Of several servers that claim notices in a stop of their project, each notice is claimed by one.
func TestFleetClaimsNotices(t *testing.T) {
	const claimers, notices = 3, 20
	f := newFleet(t, 2)
	conn := f.connect(func(c *store.Connection) { c.MaxInFlight = notices })
	f.submit(5, conn)
	f.pauseProject()
	want := make(map[job.ID]bool)
	for range notices {
		n := newSpec(conn)
		if _, err := f.stores[0].StepSubscription(t.Context(), store.SubscriptionStep{
			Subscription: f.subscribe(conn), Notice: &store.Notice{Kind: store.NoticeEvents, Events: 1}, Job: &n,
		}); err != nil {
			t.Fatal(err)
		}
		want[n.Spec.ID] = true
	}
	var mu sync.Mutex
	claimed := make(map[job.ID]int)
	var wg sync.WaitGroup
	for i := range claimers * len(f.stores) {
		wg.Go(func() {
			for all := false; !all && !t.Failed(); {
				got, err := claimOf(f.stores[i%len(f.stores)], 3)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				for _, l := range got {
					claimed[l.ID]++
				}
				all = len(claimed) >= notices
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for id, n := range claimed {
		if n != 1 || !want[id] {
			t.Errorf("job %s was claimed %d times; it is a notice: %t", id, n, want[id])
		}
	}
	f.consistent()
}

func (f *fleet) subscribe(conn store.Connection) store.Subscription {
	f.Helper()
	id := randomID()
	s, _, err := f.stores[0].CreateSubscription(f.Context(), store.NewSubscription{Subscription: store.Subscription{
		ID: id, Project: "default", Key: "pager " + id.String(), Connection: conn.ID, Spec: []byte("spec"), CreatedBy: "ann",
	}})
	if err != nil {
		f.Fatal(err)
	}
	return s
}

func (f *fleet) pauseProject() {
	f.Helper()
	if _, _, err := f.stores[0].CreateStop(f.Context(), store.NewStop{Stop: store.Stop{
		ID: randomID(), Scope: store.StopProject, Project: "default", Cause: store.StoppedByPerson, CreatedBy: "ann",
	}}); err != nil {
		f.Fatal(err)
	}
}
