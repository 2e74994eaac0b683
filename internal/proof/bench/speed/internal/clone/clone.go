// Package clone fills Fireonce's tables with many jobs that are like one that the
// service made itself. The database writes them by itself, which is a hundred
// times faster than to submit and work them.
//
// It knows few names of the schema: every row that has the model's job_id is
// written again and again with other ids. Columns that must differ are named in
// [expression]. The log's pages, in which events of many jobs are one value, are made here;
// the history in a copy's own row stays its model's.
package clone

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/logpage"
)

// chunk is how many jobs one transaction writes: readers of all projects read a transaction of
// the log whole. A position can hold a
// million events of a transaction.
const chunk = 2000

// transaction is the part of a position that all events of a transaction share.
const transaction = "(pg_current_xact_id()::text::bigint + (SELECT xid_offset FROM meta))"

// eventsEach is more than the events of a model.
const eventsEach = 16

// Options say what copies are like.
type Options struct {
	// Jobs are to be written.
	Jobs int
	// Offset is how many copies there are already, of whatever model.
	Offset int
	// Step is added to times from one copy to the next: up to Jobs times it.
	Step time.Duration
	// Shift is added to the times of all copies.
	Shift time.Duration
	// Only names the columns with times that move; empty: all of them.
	Only []string
}

// Due are the columns that say when a job is due.
var Due = []string{"schedule_time", "next_at", "start_deadline"}

// Execer is a connection as the superuser: triggers and references are left out
// for this session.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Fill writes copies of a job. The caller analyses the tables afterwards.
func Fill(ctx context.Context, db Execer, model job.ID, o Options) error {
	tables, err := tablesOf(ctx, db)
	if err != nil {
		return err
	}
	events, err := history(ctx, db, model)
	if err != nil {
		return fmt.Errorf("history of the model: %w", err)
	}
	if _, err := db.Exec(ctx, "SET session_replication_role = replica"); err != nil {
		return err
	}
	for from := 0; from < o.Jobs; from += chunk {
		to := min(o.Jobs, from+chunk)
		if err := fill(ctx, db, tables, events, model, o, from, to); err != nil {
			return fmt.Errorf("copy jobs %d to %d: %w", from, to, err)
		}
	}
	_, err = db.Exec(ctx, "RESET session_replication_role")
	return err
}

// fill writes copies from..to-1 in a transaction.
func fill(
	ctx context.Context, db Execer, tables []table, events []logpage.HistoryEvent, model job.ID, o Options, from, to int,
) error {
	var all strings.Builder
	all.WriteString("BEGIN;")
	for _, t := range tables {
		all.WriteString(t.copies(model, o, from, to))
	}
	if _, err := db.Exec(ctx, all.String()); err != nil {
		return err
	}
	rows, err := db.Query(ctx, "SELECT "+transaction+" << 20")
	if err != nil {
		return err
	}
	base, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	if err := pages(ctx, db, events, o, from, to, base); err != nil {
		return err
	}
	_, err = db.Exec(ctx, "COMMIT")
	return err
}

// WithoutIndexes drops the indexes that guard nothing, calls fill, and makes them
// again: that is faster than to keep them.
func WithoutIndexes(ctx context.Context, db Execer, fill func() error) error {
	rows, err := db.Query(ctx, `SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid)
		FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND NOT i.indisunique`)
	if err != nil {
		return err
	}
	var name, definition string
	var drop, create []string
	if _, err := pgx.ForEachRow(rows, []any{&name, &definition}, func() error {
		drop, create = append(drop, "DROP INDEX "+name), append(create, definition)
		return nil
	}); err != nil {
		return err
	}
	for _, sql := range drop {
		if _, err := db.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := fill(); err != nil {
		return err
	}
	if _, err := db.Exec(ctx, "SET maintenance_work_mem = '256MB'"); err != nil {
		return err
	}
	for _, sql := range create {
		if _, err := db.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// table is one that has jobs' rows.
type table struct {
	name    string
	key     string // the column with the job's id
	columns []column
}

type column struct {
	name, kind string
	nullable   bool
}

// tablesOf finds the tables with a job's rows: jobs itself first.
func tablesOf(ctx context.Context, db Execer) ([]table, error) {
	rows, err := db.Query(ctx, `SELECT table_name::text, column_name::text, data_type::text, is_nullable = 'YES'
		FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
		WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND is_generated = 'NEVER' AND is_identity = 'NO'
		ORDER BY table_name, ordinal_position`)
	if err != nil {
		return nil, err
	}
	var all []table
	var name string
	var c column
	if _, err := pgx.ForEachRow(rows, []any{&name, &c.name, &c.kind, &c.nullable}, func() error {
		if len(all) == 0 || all[len(all)-1].name != name {
			all = append(all, table{name: name})
		}
		t := &all[len(all)-1]
		t.columns = append(t.columns, c)
		if c.name == "job_id" || name == "jobs" && c.name == "id" {
			t.key = c.name
		}
		return nil
	}); err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(t table) bool { return t.key == "" })
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no table with a column job_id")
	}
	return all, nil
}

// copies is the statement that writes copies from..to-1 of the model's rows.
func (t table) copies(model job.ID, o Options, from, to int) string {
	names := make([]string, len(t.columns))
	values := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i], values[i] = c.name, t.expression(c, o, from)
	}
	return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s AS m, generate_series(%d, %d) AS i WHERE m.%s = '%s';\n",
		t.name, strings.Join(names, ", "), strings.Join(values, ", "), t.name,
		o.Offset+from, o.Offset+to-1, t.key, model)
}

// expression is what a copy has in a column. The model's row is m, the copy's
// number i.
func (t table) expression(c column, o Options, from int) string {
	own := "m." + c.name
	first := o.Offset + from
	switch {
	case c.name == t.key:
		return copyID
	case c.name == "idem_key":
		return own + " || '-' || i"
	case c.name == "digest": // another one for each copy; no request uses a copy's key
		return "sha256(" + own + " || convert_to(i::text, 'UTF8'))"
	case c.name == "arm_token":
		return "md5('arm' || i || " + own + ")::uuid"
	case c.name == "position":
		order := "0"
		for _, by := range []string{"sequence", "version"} {
			if t.has(by) {
				order = "m." + by
			}
		}
		return fmt.Sprintf("(%s << 20) + (i - %d) * %d + %s", transaction, first, eventsEach, order)
	case c.name == "external_id":
		return "CASE WHEN " + own + " = '' THEN '' ELSE " + own + " || '-' || i END"
	case c.kind == "timestamp with time zone" && o.moves(c.name):
		return fmt.Sprintf("%s + interval '%d microseconds' + (i - %d) * interval '%d microseconds'",
			own, o.Shift.Microseconds(), o.Offset, o.Step.Microseconds())
	default:
		return own
	}
}

func (t table) has(name string) bool {
	return slices.ContainsFunc(t.columns, func(c column) bool { return c.name == name })
}

func (o Options) moves(column string) bool {
	return o.Step != 0 && (len(o.Only) == 0 || slices.Contains(o.Only, column))
}

// copyID makes the id of copy i: a UUID of version 7 whose times are those of
// years ago, one millisecond after the other, so that copies lie in the tables in
// their order and before whatever is made now.
const copyID = `(lpad(to_hex(1600000000000 + i), 12, '0') || '7' || substr(md5(i::text), 1, 3) || '8' || substr(md5(i::text), 4, 15))::uuid`
