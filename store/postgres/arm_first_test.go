//go:build unix

package postgres

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/store"
)

// Whoever arms waits for a job with no job locked that comes behind it: everybody
// locks in one order.
func TestArmsLockInOrder(t *testing.T) {
	for name, edit := range map[string]func(*store.Arm){
		"an arm with a gate": func(a *store.Arm) { a.Gate, a.AccountIdentity = []byte("content"), "me" },
		"a refused arm":      func(a *store.Arm) { a.Version-- },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 1)
			f.submit(2, f.connect())
			leases := f.claim(2)
			slices.SortFunc(leases, func(x, y store.Leased) int { return bytes.Compare(x.ID[:], y.ID[:]) })
			arms := []store.Arm{intentOf(leases[0], edit), intentOf(leases[1])}
			conn, err := pgx.Connect(t.Context(), f.url)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.Background()) }()
			lock := func(l store.Leased) error {
				_, err := conn.Exec(t.Context(), "SELECT FROM job_state WHERE job_id = $1 FOR NO KEY UPDATE NOWAIT", fromID(l.ID))
				return err
			}
			if _, err := conn.Exec(t.Context(), "BEGIN"); err != nil {
				t.Fatal(err)
			}
			if err := lock(leases[0]); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			var out []store.Armed
			wg.Go(func() {
				var err error
				if out, err = f.stores[0].Arm(context.Background(), arms); err != nil {
					t.Error(err)
				}
			})
			for f.count("SELECT count(*) FROM pg_locks WHERE NOT granted") == 0 {
				if t.Failed() {
					break
				}
			}
			if err := lock(leases[1]); err != nil {
				t.Errorf("the job behind it is locked: %v", err)
			}
			if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			if len(out) != 2 || out[1].Err != nil {
				t.Errorf("the other arm: %+v", out)
			}
			f.consistent()
		})
	}
}
