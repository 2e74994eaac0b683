//go:build unix

package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/store"
)

func coolingConnection(c *store.Connection) { c.CoolDown = time.Hour }

// An arm waits for an arm of another server under the same cool-down, and is judged by the
// result of that one.
func TestACoolDownWaitsForAnotherServersArm(t *testing.T) {
	for end, want := range map[string]error{"COMMIT": store.ErrCoolDown, "ROLLBACK": nil} {
		t.Run(end, func(t *testing.T) {
			f := newFleet(t, 1)
			c := f.connect(coolingConnection)
			f.submit(1, c)
			l := f.claim(1)[0]
			conn, err := pgx.Connect(t.Context(), f.url)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.Background()) }()
			if _, err := conn.Exec(t.Context(), "BEGIN"); err != nil {
				t.Fatal(err)
			}
			_, err = conn.Exec(t.Context(), "INSERT INTO cool_downs VALUES ($1, gen_random_uuid(), (SELECT claimed_at FROM job_state WHERE job_id = $2))",
				c.ID, l.ID)
			if err != nil {
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
			if _, err := conn.Exec(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			if !errors.Is(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			f.consistent()
		})
	}
}

// Of jobs that two servers arm concurrently, one passes.
func TestACoolDownLetsOneOfTwoServersPass(t *testing.T) {
	f := newFleet(t, 2)
	f.submit(8, f.connect(coolingConnection))
	leases := f.claim(8)
	var wg sync.WaitGroup
	var passed atomic.Int64
	for i, l := range leases {
		wg.Go(func() {
			switch _, err := armOne(f.stores[i%2], intentOf(l)); {
			case err == nil:
				passed.Add(1)
			case !errors.Is(err, store.ErrCoolDown):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := passed.Load(); len(leases) != 8 || n != 1 {
		t.Errorf("%d of %d jobs were armed", n, len(leases))
	}
	f.consistent()
}
