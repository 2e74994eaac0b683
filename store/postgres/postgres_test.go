//go:build unix

package postgres_test

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/postgres"
	"github.com/fireonce/fireonce/store/storetest"
)

func TestClockConformance(t *testing.T) {
	open := func(t *testing.T, url string, clock store.ClockOptions) store.Store {
		t.Helper()
		s, err := postgres.Open(t.Context(), postgres.Options{URL: url, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	urls := make(map[store.Store]string)
	engine := storetest.Clocked{
		Open: func(t *testing.T, clock store.ClockOptions) store.Store {
			t.Helper()
			url := pgtest.Reused(t, postgres.Migrate)
			s := open(t, url, clock)
			urls[s] = url
			return s
		},
		Restart: func(t *testing.T, s store.Store, clock store.ClockOptions) store.Store {
			t.Helper()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			next := open(t, urls[s], clock)
			urls[next] = urls[s]
			return next
		},
	}
	storetest.RunClock(t, engine)
	storetest.RunClockLimits(t, engine)
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T, now func() time.Time) store.Store {
		t.Helper()
		s, err := postgres.Open(t.Context(), postgres.Options{URL: pgtest.Apart(t, postgres.Migrate), Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
