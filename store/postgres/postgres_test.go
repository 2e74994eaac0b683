//go:build unix

package postgres_test

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/pgtest"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/postgres"
	"github.com/fireonce/fireonce/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T, now func() time.Time) store.Store {
		t.Helper()
		s, err := postgres.Open(t.Context(), postgres.Options{URL: pgtest.New(t), Migrate: true, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
