package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
)

// Rules of this file: the log is read by pages. A reader of one project reads no other
// project's pages. The positions of a transaction's pages may interleave, so a reader of all
// projects takes events only as far as no position is missing.

// mostPages bounds the pages that are read at a time.
const mostPages = 256

// LogEnd implements sqlstore.Reading. The end is the position of the newest event, even if all
// were dropped.
func (v view) LogEnd(ctx context.Context) (store.EventPage, error) {
	m, err := v.q.GetMeta(ctx)
	if err != nil {
		return store.EventPage{}, err
	}
	last, err := v.q.LastPosition(ctx)
	return store.EventPage{Begin: m.EventsFrom, End: max(last, m.EventsFrom), Incarnation: m.Incarnation}, err
}

// Log implements sqlstore.Reading. There is one writer, so the order of the positions is the
// order of the commits. Events that the log no longer returns are not read.
func (v view) Log(ctx context.Context, project string, after int64, most int) ([]logpage.Entry, store.EventPage, error) {
	p, err := v.LogEnd(ctx)
	if err != nil {
		return nil, p, err
	}
	p.Next = max(after, p.End)
	entries, more, err := v.entries(ctx, project, max(after, p.Begin), most)
	if n := min(most, len(entries)); more || n < len(entries) {
		entries = entries[:n]
		p.Next = entries[n-1].Position
	}
	p.More = p.Next < p.End
	return entries, p, err
}

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
