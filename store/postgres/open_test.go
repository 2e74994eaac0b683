//go:build unix

package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/storetest"
)

func TestMigrate(t *testing.T) {
	f := newFleet(t, 0)
	f.url = pgtest.New(t)
	if _, err := Open(t.Context(), Options{URL: f.url}); !errors.Is(err, ErrSchema) {
		t.Fatalf("an empty database: %v", err)
	}
	// Many servers start concurrently.
	var wg sync.WaitGroup
	ids := make([]job.ID, 4)
	for i := range ids {
		wg.Go(func() {
			s, err := Open(t.Context(), Options{URL: f.url, Migrate: true})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			m, err := s.Meta(t.Context())
			if err != nil {
				t.Error(err)
			}
			ids[i] = m.StoreID
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id.IsZero() || id != ids[0] {
			t.Errorf("store ids: %v", ids)
		}
	}
	if err := Migrate(t.Context(), f.url); err != nil {
		t.Errorf("migrated again: %v", err)
	}
	if err := f.join(f.url, func(o *Options) { o.Migrate = false }).Close(); err != nil {
		t.Error(err)
	}
	f.sql("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, true) RETURNING 1", nil, new(int))
	for _, migrate := range []bool{false, true} {
		if _, err := Open(t.Context(), Options{URL: f.url, Migrate: migrate}); !errors.Is(err, ErrSchema) {
			t.Errorf("a newer schema: %v", err)
		}
	}
	if err := Migrate(t.Context(), f.url); !errors.Is(err, ErrSchema) {
		t.Errorf("a newer schema migrated: %v", err)
	}
}

// TestSchemaNames compares the numbers in the schema's comments with job's.
func TestSchemaNames(t *testing.T) {
	schema, err := migrations.ReadFile("migrations/00001_schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	storetest.Schema(t, string(schema))
}

func TestSessionSettings(t *testing.T) {
	f := newFleetOn(t, pgtest.NewFrom(t, Migrate), 0)
	s := f.join(f.url + "&statement_timeout=7000&application_name=mine&synchronous_commit=off&TimeZone=Asia/Tokyo")
	want := map[string]string{
		"synchronous_commit": "on", "TimeZone": "UTC", "statement_timeout": "7s", "application_name": "mine",
		"lock_timeout": "10s", "idle_in_transaction_session_timeout": "10s",
	}
	for name, value := range want {
		var got string
		if err := s.pool.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&got); err != nil || got != value {
			t.Errorf("%s is %q, want %q (%v)", name, got, value, err)
		}
	}
	var got string
	plain := f.join(f.url)
	if err := plain.pool.QueryRow(t.Context(), "SHOW application_name").Scan(&got); err != nil || got != "fireonce" {
		t.Errorf("application_name is %q, %v", got, err)
	}
	if n := plain.pool.Config().MaxConns; n != defaultConns {
		t.Errorf("%d connections", n)
	}
	if n := f.join(f.url + "&pool_max_conns=3").pool.Config().MaxConns; n != 3 {
		t.Errorf("%d connections", n)
	}
}

func TestUnsafeServerIsRefused(t *testing.T) {
	c := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"fsync": "off"}})
	url := c.URL(c.NewDatabase(t))
	_, err := Open(t.Context(), Options{URL: url, Migrate: true})
	if !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "fsync") {
		t.Errorf("fsync is off: %v", err)
	}
	if err := Migrate(t.Context(), url); !errors.Is(err, ErrUnsafe) {
		t.Errorf("migrated without fsync: %v", err)
	}
}

func TestNoErrorHasThePassword(t *testing.T) {
	const secret = "hunter2"
	for _, url := range []string{
		"postgres://ann:" + secret + "@127.0.0.1:1/db?connect_timeout=1",
		"postgres://ann:" + secret + "#x@127.0.0.1/db",
		"postgres://ann:x/" + secret + "@127.0.0.1/db",
		"postgres://ann:" + secret + "@127.0.0.1/db?sslmode=nonsense",
		"postgres://ann:" + secret + "%zz@127.0.0.1/db",
		"postgres://ann:" + secret + "@127.0.0.1/db?pool_max_conns=many",
		"host=127.0.0.1 port=1 password=" + secret + " user='ann",
		"host=127.0.0.1 port=" + secret,
	} {
		for _, err := range []error{
			func() error { _, err := Open(t.Context(), Options{URL: url}); return err }(), Migrate(t.Context(), url),
		} {
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("error: %v", err)
			}
		}
	}
}

func TestUnreachable(t *testing.T) {
	if testing.Short() {
		t.Skip("left out of the ordinary tests")
	}
	_, err := Open(t.Context(), Options{URL: "postgres://ann@127.0.0.1:1/db"})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("no server: %v", err)
	}
	f, c, _ := clusterFleet(t)
	s := f.join(f.url)
	conn := f.connect()
	c.Stop(t, pgtest.Fast)
	if _, err := s.Create(t.Context(), []store.NewJob{newSpec(conn)}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a server that was stopped: %v", err)
	}
	c.Start(t)
	s.pool.Reset()
	f.submit(1, conn)
}

// TestTransitions compares the database's copy of the table with job's.
func TestTransitions(t *testing.T) {
	f := newFleet(t, 1)
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	seen := 0
	for from := range job.State(14) {
		for to := range job.State(14) {
			var legal bool
			err := conn.QueryRow(t.Context(), "SELECT legal_transition($1::smallint, $2::smallint)", int16(from), int16(to)).Scan(&legal)
			if err != nil {
				t.Fatal(err)
			}
			if from.Valid() && from == to || from > 11 || to > 11 {
				continue // staying is legal; other numbers are refused by the column
			}
			if want := job.Legal(from, to); legal != want {
				t.Errorf("%v to %v: %v in the database", from, to, legal)
			}
			if legal {
				seen++
			}
		}
	}
	if seen != len(job.Transitions) {
		t.Errorf("%d moves in the database, %d in job", seen, len(job.Transitions))
	}
}
