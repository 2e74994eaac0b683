//go:build unix

package postgres

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/store"
)

// A transaction that arms waits for a job while it holds no lock of a job behind it: all
// transactions lock in one order.
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
				_, err := conn.Exec(t.Context(), "SELECT FROM job_state WHERE job_id = $1 FOR NO KEY UPDATE NOWAIT", l.ID)
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

// An arm that waited for a job judges its new state.
func TestArmOfAChangedJob(t *testing.T) {
	for name, tt := range map[string]struct {
		change string
		want   error
	}{
		"renewed":      {"next_at = next_at + interval '1 minute'", nil},
		"lease over":   {"next_at = now() - interval '100 years'", store.ErrStale},
		"window over":  {"start_deadline = now() - interval '100 years'", store.ErrWindowOver},
		"cancel asked": {"cancel_asked_at = now()", store.ErrStale},
		"leased again": {"claim_token = gen_random_uuid()", store.ErrStale},
		"moved on":     {"version = version + 1, position = position + 1, state = 6, claim_token = NULL", store.ErrStale},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 1)
			f.submit(1, f.connect())
			l := f.claim(1)[0]
			conn, err := pgx.Connect(t.Context(), f.url)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.Background()) }()
			if _, err := conn.Exec(t.Context(), "BEGIN; UPDATE job_state SET "+tt.change+" WHERE job_id = '"+l.ID.String()+"'"); err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			var got error
			wg.Go(func() { _, got = armOne(f.stores[0], intentOf(l)) })
			for f.count("SELECT count(*) FROM pg_locks WHERE NOT granted") == 0 {
				if t.Failed() {
					break
				}
			}
			if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			if !errors.Is(got, tt.want) {
				t.Errorf("armed: %v, want %v", got, tt.want)
			}
			if n := f.count("SELECT count(*) FROM every_attempt"); (n == 1) != (got == nil) {
				t.Errorf("%d attempts", n)
			}
		})
	}
}
