//go:build unix

package postgres_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/postgres"
	"github.com/fireonce/fireonce/store/storetest"
)

// TestErasedRows: no row of any table has a word of what was erased.
func TestErasedRows(t *testing.T) {
	urls := make(map[store.Store]string)
	open := func(t *testing.T, now func() time.Time) store.Store {
		t.Helper()
		url := pgtest.NewFrom(t, postgres.Migrate)
		s, err := postgres.Open(t.Context(), postgres.Options{URL: url, Migrate: true, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		urls[s] = url
		return s
	}
	storetest.RunErased(t, open, func(t *testing.T, s store.Store) (places []string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), urls[s])
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.Background()) }()
		rows, err := conn.Query(t.Context(), `SELECT table_name FROM information_schema.tables
			WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'`)
		if err != nil {
			t.Fatal(err)
		}
		tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(tables) < 20 {
			t.Fatalf("%d tables, %v", len(tables), err)
		}
		for _, table := range tables {
			var n int
			// The text of a row has bytes in hexadecimal.
			query := fmt.Sprintf("SELECT count(*) FROM %s AS r WHERE r::text LIKE $1 OR r::text LIKE $2", pgx.Identifier{table}.Sanitize())
			err := conn.QueryRow(t.Context(), query, "%"+storetest.Marker+"%", "%"+hex.EncodeToString([]byte(storetest.Marker))+"%").Scan(&n)
			if err != nil {
				t.Fatal(err)
			}
			if n > 0 {
				places = append(places, fmt.Sprintf("%d rows of %s", n, table))
			}
		}
		return places
	})
}
