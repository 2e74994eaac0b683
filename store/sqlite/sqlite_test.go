package sqlite_test

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/proof/litetest"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlite"
	"github.com/fireonce/fireonce/store/storetest"
)

func TestClockConformance(t *testing.T) {
	open := func(t *testing.T, path string, clock store.ClockOptions) store.Store {
		t.Helper()
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Clock: clock, Readers: 2})
		if err != nil {
			t.Fatal(err)
		}
		sqlite.CheckCache(t, s)
		return s
	}
	paths := make(map[store.Store]string)
	engine := storetest.Clocked{
		Open: func(t *testing.T, clock store.ClockOptions) store.Store {
			t.Helper()
			path := litetest.New(t)
			s := open(t, path, clock)
			paths[s] = path
			return s
		},
		Restart: func(t *testing.T, s store.Store, clock store.ClockOptions) store.Store {
			t.Helper()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			next := open(t, paths[s], clock)
			paths[next] = paths[s]
			return next
		},
	}
	storetest.RunClock(t, engine)
	storetest.RunClockLimits(t, engine)
}

// TestConformance uses a copy of one migrated database for every subtest, because migrating
// takes longer than most of them.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T, now func() time.Time) store.Store {
		t.Helper()
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: litetest.New(t), Now: now, Readers: 2})
		if err != nil {
			t.Fatal(err)
		}
		sqlite.CheckCache(t, s)
		return s
	})
}
