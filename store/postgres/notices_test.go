//go:build unix

package postgres

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

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
			sub, _, err := f.stores[0].CreateSubscription(t.Context(), store.NewSubscription{Subscription: store.Subscription{
				ID: randomID(), Project: "default", Key: "pager", Connection: conn.ID, Spec: []byte("spec"), CreatedBy: "ann",
			}})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := f.stores[0].CreateStop(t.Context(), store.NewStop{Stop: store.Stop{
				ID: randomID(), Scope: store.StopProject, Project: "default", Cause: store.StoppedByPerson, CreatedBy: "ann",
			}}); err != nil {
				t.Fatal(err)
			}
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
