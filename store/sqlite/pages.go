package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/logpage"
)

// Rules of this file: the log is read by pages. A reader of one project reads no other
// project's pages. The positions of a transaction's pages may interleave, so a reader of all
// projects takes events only as far as no position is missing.

// mostPages bounds the pages that are read at a time.
const mostPages = 256

// entries reads the next events of a project after a position, about most of them; more
// reports whether there may be further ones. An empty project means all projects.
func (v view) entries(ctx context.Context, project string, after int64, most int) (out []logpage.Entry, more bool, err error) {
	if project == "" {
		return v.allEntries(ctx, after, most)
	}
	sizes, err := v.q.PageSizes(ctx, sqlitedb.PageSizesParams{Project: project, After: after, MaxRows: mostPages})
	if err != nil || len(sizes) == 0 {
		return nil, false, err
	}
	n, events := 0, 0
	for ; n < len(sizes) && events < most; n++ {
		events += int(sizes[n].Events)
	}
	pages, err := v.q.ProjectPages(ctx, sqlitedb.ProjectPagesParams{Project: project, After: after, UpTo: sizes[n-1].Position})
	if err != nil {
		return nil, false, err
	}
	for _, p := range pages {
		if out, err = appendPage(out, project, p.Position, p.Body, after); err != nil {
			return nil, false, err
		}
	}
	return out, n < len(sizes) || len(sizes) == mostPages, nil
}

// allEntries reads the next events of all projects.
func (v view) allEntries(ctx context.Context, after int64, most int) (out []logpage.Entry, more bool, err error) {
	for rows := max(1, most/logpage.MaxEvents); ; rows *= 8 {
		pages, err := v.q.PagesAfter(ctx, sqlitedb.PagesAfterParams{After: after, MaxRows: int64(rows)})
		if err != nil {
			return nil, false, err
		}
		out = out[:0]
		for _, p := range pages {
			if out, err = appendPage(out, p.Project, p.Position, p.Body, after); err != nil {
				return nil, false, err
			}
		}
		slices.SortFunc(out, func(x, y logpage.Entry) int { return cmp.Compare(x.Position, y.Position) })
		if len(pages) < rows {
			return out, false, nil
		}
		n := 0
		for n < len(out) && out[n].Position == after+int64(n)+1 {
			n++
		}
		if n > 0 && (n >= most || rows >= mostPages) {
			return out[:n], true, nil
		}
	}
}

// appendPage appends the events of a page after a position.
func appendPage(to []logpage.Entry, project string, position int64, body []byte, after int64) ([]logpage.Entry, error) {
	entries, err := logpage.Decode(project, body)
	if err != nil {
		return nil, fmt.Errorf("page %d of the log: %w", position, err)
	}
	for len(entries) > 0 && entries[0].Position <= after {
		entries = entries[1:]
	}
	return append(to, entries...), nil
}

// worded adds to an event the texts that a person or a target wrote, as long as they are
// stored.
func (v view) worded(ctx context.Context, e job.Event, has bool) (job.Event, error) {
	if !has {
		return e, nil
	}
	text, err := v.q.GetText(ctx, sqlitedb.GetTextParams{JobID: fromID(e.Job), Sequence: e.Sequence})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return e, fmt.Errorf("texts of an event: %w", err)
	}
	e.Reason, e.Detail = text.Reason, text.Detail
	return e, nil
}

// history reads events of a job after a sequence, in their order: at least least of them, if
// there are as many.
func (v view) history(ctx context.Context, id []byte, after int64, least int) ([]logpage.HistoryEvent, error) {
	row, err := v.q.GetHistory(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("history: %w", orNotFound(err))
	}
	of := job.Event{Project: row.Project, Job: toID(id), Connection: toID(row.ConnectionID), Schedule: toID(row.ScheduleID)}
	var out []logpage.HistoryEvent
	add := func(last int64, body []byte) error {
		events, err := logpage.DecodeHistory(of, last, body)
		for _, e := range events {
			if e.Sequence > after {
				out = append(out, e)
			}
		}
		return err
	}
	const rows = 16
	for last, n := after, rows; n == rows && len(out) < least; {
		older, err := v.q.JobHistory(ctx, sqlitedb.JobHistoryParams{JobID: id, After: last, MaxRows: rows})
		if err != nil {
			return nil, fmt.Errorf("older history: %w", err)
		}
		for _, h := range older {
			if err := add(h.LastSequence, h.Body); err != nil {
				return nil, fmt.Errorf("older history of job %s: %w", of.Job, err)
			}
			last = h.LastSequence
		}
		n = len(older)
	}
	if len(out) >= least {
		return out, nil
	}
	if err := add(row.Version, row.History); err != nil {
		return nil, fmt.Errorf("history of job %s: %w", of.Job, err)
	}
	return out, nil
}
