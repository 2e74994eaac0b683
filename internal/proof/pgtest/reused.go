//go:build unix

package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Reused is like NewFrom for a test that changes nothing but rows. Its database goes from test
// to test: when one ends, so do the sessions of the database, and its rows and sequences become
// again what prepare made. That takes a small part of the processor time of another copy. The
// database of a failed test goes to no other one.
//
// No session ends because its transaction idles: on a machine that starves the test process
// for ten seconds, that would fail a test of something else.
func Reused(tb testing.TB, prepare func(ctx context.Context, url string) error) string {
	tb.Helper()
	c := Shared(tb)
	template := c.template(tb, prepare)
	return reusable.lend(tb, func(ctx context.Context) (*reused, error) { return c.newReused(ctx, template) })
}

// lend lets the test have a database that is free, or one that create makes.
func (p *pool) lend(tb testing.TB, create func(ctx context.Context) (*reused, error)) string {
	tb.Helper()
	d := p.take()
	if d == nil {
		var err error
		if d, err = create(tb.Context()); err != nil {
			tb.Fatal(err)
		}
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the database was %s", d.name)
			return
		}
		if err := d.restore(context.WithoutCancel(tb.Context())); err != nil {
			tb.Errorf("pgtest: %s: restore the rows: %v", d.name, err)
			return
		}
		p.put(d)
	})
	return d.cluster.URL(d.name) + "&idle_in_transaction_session_timeout=0"
}

// reusable has the databases that no test uses. They end with the process.
var reusable pool

type pool struct {
	mu   sync.Mutex
	free []*reused
}

func (p *pool) take() *reused {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return nil
	}
	d := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	return d
}

func (p *pool) put(d *reused) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, d)
}

// reused is a database with a session of the superuser, whose caches stay warm.
type reused struct {
	cluster *Cluster
	name    string
	conn    *pgx.Conn
	reset   string            // deletes all rows
	rows    map[string][]byte // by table, in the form of COPY
}

func (c *Cluster) newReused(ctx context.Context, template string) (*reused, error) {
	name, err := c.createDatabase(ctx, template)
	if err != nil {
		return nil, err
	}
	return c.reuse(ctx, name)
}

// reuse prepares a database for its use by one test after the other.
func (c *Cluster) reuse(ctx context.Context, name string) (d *reused, err error) {
	d = &reused{cluster: c, name: name, rows: make(map[string][]byte)}
	if d.conn, err = pgx.Connect(ctx, c.AdminURL(name)); err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	if err := d.remember(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("pgtest: %w", err), d.conn.Close(ctx))
	}
	return d, nil
}

// remember notes the rows that are there now.
func (d *reused) remember(ctx context.Context) error {
	var reset strings.Builder
	// No trigger and no foreign key is in the way of this session.
	reset.WriteString("SET session_replication_role = replica;")
	tables, err := d.names(ctx, "r")
	if err != nil {
		return err
	}
	for _, table := range tables {
		reset.WriteString("DELETE FROM " + table + ";")
		var rows bytes.Buffer
		if _, err := d.conn.PgConn().CopyTo(ctx, &rows, "COPY "+table+" TO STDOUT"); err != nil {
			return err
		}
		if rows.Len() > 0 {
			d.rows[table] = rows.Bytes()
		}
	}
	sequences, err := d.names(ctx, "S")
	if err != nil {
		return err
	}
	for _, sequence := range sequences {
		var set string
		err := d.conn.QueryRow(ctx, "SELECT format('SELECT setval(%L, %s, %L);', $1::text, last_value, is_called) FROM "+sequence, sequence).Scan(&set)
		if err != nil {
			return err
		}
		reset.WriteString(set)
	}
	d.reset = reset.String()
	return nil
}

// names returns the quoted names of relations of a kind of pg_class.
func (d *reused) names(ctx context.Context, kind string) ([]string, error) {
	found, err := d.conn.Query(ctx, `SELECT format('%I.%I', nspname, relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
		WHERE relkind = $1 AND nspname NOT IN ('pg_catalog', 'information_schema')`, kind)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowTo[string])
}

func (d *reused) restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// A session keeps its locks until its end, which takes a few milliseconds. The server's own
	// wait for it, pg_terminate_backend's, looks only each 100 ms.
	for others := 1; others > 0; {
		if err := d.conn.QueryRow(ctx, `WITH ending AS MATERIALIZED (
				SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
			) SELECT count(*), pg_sleep(CASE WHEN count(*) > 0 THEN 0.002 ELSE 0 END)::text FROM ending`).Scan(&others, nil); err != nil {
			return err
		}
	}
	if _, err := d.conn.PgConn().Exec(ctx, d.reset).ReadAll(); err != nil {
		return err
	}
	for table, rows := range d.rows {
		if _, err := d.conn.PgConn().CopyFrom(ctx, bytes.NewReader(rows), "COPY "+table+" FROM STDIN"); err != nil {
			return err
		}
	}
	return nil
}
