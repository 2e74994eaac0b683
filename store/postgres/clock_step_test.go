package postgres

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/storetest"
)

// A step of a large database takes longer than any other statement may, and is still written.
func TestAStepHasATimeLimitOfItsOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("left out of the ordinary tests")
	}
	f := newFleetApart(t, 0)
	clock := storetest.NewMachine(fleetStart)
	s := f.join(f.url+"&statement_timeout=4000", func(o *Options) { o.Now, o.Clock = nil, store.ClockOptions{Read: clock.Read} })
	c, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	for _, text := range []string{
		"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(5); RETURN NEW; END'",
		"CREATE TRIGGER slow BEFORE UPDATE OF clock_steps ON meta FOR EACH ROW EXECUTE FUNCTION slow()",
	} {
		if _, err := c.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	clock.Set(time.Hour)
	clock.Prove("the test knows it")
	if _, err := s.ClaimLooks(t.Context(), store.ClaimParams{Worker: "nobody", Lease: time.Minute, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Meta(t.Context()); err != nil || m.Clock.Why != "" {
		t.Errorf("doubted: %v, %v", m.Clock, err)
	}
	if n := f.count("SELECT clock_steps FROM meta"); n != 1 {
		t.Errorf("%d steps were written", n)
	}
}

func TestClockColumns(t *testing.T) {
	f := newFleetApart(t, 1)
	var columns []string
	f.sql(`SELECT array_agg(c.table_name || '.' || c.column_name) FROM information_schema.columns AS c
		JOIN information_schema.tables AS t USING (table_schema, table_name)
		WHERE t.table_type = 'BASE TABLE' AND c.table_schema = current_schema() AND c.table_name NOT LIKE 'goose_%'
			AND (c.data_type LIKE 'timestamp%' OR c.column_name = 'bucket_at')`, nil, &columns)
	queries, err := os.ReadFile("queries_clock.sql")
	shared, serr := os.ReadFile("../sqlstore/queries_clock.sql")
	if err = errors.Join(err, serr); err != nil {
		t.Fatal(err)
	}
	storetest.ClockColumns(t, columns, string(queries)+string(shared))
}
