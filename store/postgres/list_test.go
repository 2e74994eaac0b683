//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// TestLabelsPatience: an index of labels that takes too long names too many jobs, and the
// transaction continues as if it had not been read.
func TestLabelsPatience(t *testing.T) {
	f := newFleet(t, 1)
	_, err := read(t.Context(), f.stores[0], "test", func(ctx context.Context, v view) (struct{}, error) {
		for text, want := range map[string]int{
			"SELECT count(*) FROM (SELECT 1 AS id FROM pg_sleep(60)) AS d": store.SearchCandidates + 1,
			`SELECT count(*) FROM jobs AS j WHERE j.labels @> '{"a":"b"}'`: 0,
		} {
			if n, err := (sharedView{v}).CountByLabels(ctx, text, nil); err != nil || n != want {
				t.Errorf("%s names %d jobs: %v, want %d", text, n, err, want)
			}
			var timeout, bitmaps string
			if err := v.conn.QueryRow(ctx, "SELECT current_setting('statement_timeout'), current_setting('enable_bitmapscan')").Scan(&timeout, &bitmaps); err != nil {
				return struct{}{}, err
			}
			if timeout != sessionSettings["statement_timeout"] || bitmaps != "on" {
				t.Errorf("settings afterwards: %s, %s", timeout, bitmaps)
			}
		}
		return struct{}{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var errRecorded = errors.New("recorded")

// statementLog takes down the statements that shared bodies put together, and ends them there.
type statementLog struct {
	sharedView
	shareddb.DBTX
	// named is how many jobs an index names.
	named  int
	counts []string
	text   string
}

func (r *statementLog) LogEnd(context.Context) (store.EventPage, error) {
	return store.EventPage{}, nil
}
func (r *statementLog) BoundPlans(context.Context) error { return nil }

func (r *statementLog) CountByLabels(_ context.Context, count string, _ []any) (int, error) {
	r.counts = append(r.counts, count)
	return r.named, nil
}

func (r *statementLog) QueryRow(_ context.Context, text string, _ ...any) pgx.Row {
	r.counts = append(r.counts, text)
	return r
}

func (r *statementLog) Scan(dest ...any) error {
	if n, ok := dest[0].(*int); ok {
		*n = r.named
	}
	return nil
}

func (r *statementLog) Query(_ context.Context, text string, _ ...any) (pgx.Rows, error) {
	r.text = text
	return nil, errRecorded
}

func (r *statementLog) roles() *sqlstore.Roles {
	roles := sqlstore.New(sqlstore.Engine{Read: func(ctx context.Context, _ string, fn func(context.Context, sqlstore.View) error) error {
		return fn(ctx, sqlstore.View{Q: shareddb.New(r), DB: r, Now: time.Unix(1, 0), Reading: r})
	}})
	return &roles
}

// listStatements are the statements of lists by each filter and in each order, and of counts.
func listStatements(t *testing.T) map[string]string {
	t.Helper()
	out := make(map[string]string)
	record := func(name string, named int, call func(*sqlstore.Roles) error) *statementLog {
		t.Helper()
		r := &statementLog{named: named}
		if err := call(r.roles()); !errors.Is(err, errRecorded) || !strings.HasPrefix(r.text, "WITH ") && name != "stats" {
			t.Fatalf("%s: %v, %q", name, err, r.text)
		}
		out[name] = r.text
		return r
	}
	for name, q := range lists() {
		list := func(s *sqlstore.Roles) error { _, err := s.List(t.Context(), q); return err }
		count := func(s *sqlstore.Roles) error { _, err := s.Count(t.Context(), q, store.ByClass); return err }
		r := record("list "+name, store.SearchCandidates+1, list)
		for i, text := range r.counts {
			out[fmt.Sprintf("list %s, index %d", name, i)] = text
		}
		record("count "+name, store.SearchCandidates+1, count)
		if len(r.counts) > 0 {
			record("list "+name+", named", 0, list)
			record("count "+name+", named", 0, count)
		}
	}
	record("stats", 0, func(s *sqlstore.Roles) error {
		_, err := s.Stats(t.Context(), store.StatsQuery{Project: "p"})
		return err
	})
	return out
}
