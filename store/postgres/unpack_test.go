//go:build unix

package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/logpage"
)

// unpack makes a table of all events, so that tests can ask for them: those of the pages, and
// those of histories whose pages are gone. What is in both must be the same.
func (f *fleet) unpack() {
	f.Helper()
	conn, err := pgx.Connect(f.Context(), f.url)
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	f.Cleanup(func() { f.drop("events") })
	events := make(map[int64]job.Event)
	eachRow(f, conn, `SELECT job_id, project, connection_id, schedule_id, version, history FROM job_state UNION ALL
		SELECT h.job_id, s.project, s.connection_id, s.schedule_id, h.last_sequence, h.body
		FROM job_history AS h JOIN job_state AS s ON s.job_id = h.job_id`, func(scan func(...any) error) error {
		var of job.Event
		var schedule *job.ID
		var last int64
		var body []byte
		if err := scan(&of.Job, &of.Project, &of.Connection, &schedule, &last, &body); err != nil {
			return err
		}
		if schedule != nil {
			of.Schedule = *schedule
		}
		history, err := logpage.DecodeHistory(of, last, body)
		for _, e := range history {
			events[e.Position] = e.Event
		}
		return err
	})
	eachRow(f, conn, "SELECT project, body FROM event_pages", func(scan func(...any) error) error {
		var project string
		var body []byte
		if err := scan(&project, &body); err != nil {
			return err
		}
		entries, err := logpage.Decode(project, body)
		for _, e := range entries {
			if h, ok := events[e.Position]; ok && h != e.Event {
				f.Errorf("the page has %+v, the history %+v", e.Event, h)
			}
			events[e.Position] = e.Event
		}
		return err
	})
	eachRow(f, conn, "SELECT position, reason, detail FROM event_texts", func(scan func(...any) error) error {
		var position int64
		var reason, detail string
		err := scan(&position, &reason, &detail)
		e := events[position]
		e.Reason, e.Detail = reason, detail
		events[position] = e
		return err
	})
	rows := make([][]any, 0, len(events))
	for _, e := range events {
		rows = append(rows, []any{
			e.Position, e.Project, e.Job, e.Sequence, int16(e.From), int16(e.To), int16(e.Cause), int64(e.Attempt), e.Actor, e.Detail,
		})
	}
	_, err = conn.Exec(f.Context(), `DROP TABLE IF EXISTS events; CREATE TABLE events (position bigint, project text, job_id uuid, sequence bigint,
		from_state smallint, to_state smallint, cause smallint, attempt bigint, actor text, detail text)`)
	if err == nil {
		_, err = conn.CopyFrom(f.Context(), pgx.Identifier{"events"}, []string{
			"position", "project", "job_id", "sequence", "from_state", "to_state", "cause", "attempt", "actor", "detail",
		}, pgx.CopyFromRows(rows))
	}
	if err != nil {
		f.Fatal(err)
	}
}

// drop drops a table that the test made, before its database goes to another test.
func (f *fleet) drop(table string) {
	ctx := context.WithoutCancel(f.Context())
	conn, err := pgx.Connect(ctx, f.url)
	if err == nil {
		_, err = conn.Exec(ctx, "DROP TABLE IF EXISTS "+table)
		err = errors.Join(err, conn.Close(ctx))
	}
	if err != nil {
		f.Error(err)
	}
}

// eachRow calls got for each row of a query.
func eachRow(f *fleet, conn *pgx.Conn, sql string, got func(scan func(...any) error) error) {
	f.Helper()
	rows, err := conn.Query(f.Context(), sql)
	if err != nil {
		f.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := got(rows.Scan); err != nil {
			f.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		f.Fatal(err)
	}
}
