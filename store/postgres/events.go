package postgres

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
)

// Rules of this file:
//   - a position is above the positions of all transactions with a lower id, so readers of
//     the whole log stop at the horizon, before the oldest transaction in progress, in the
//     same statement;
//   - the log's end, and the position from which a reader continues, is always an event's
//     position and never the horizon itself. The server reuses ids of transactions that left
//     nothing durable after a crash: a reader that had continued from such an id would miss
//     the events of its next use. An event that was read is durable, and the ids after a
//     crash are above its own;
//   - the lock of a job's row orders its events, so they need no horizon.

// LogEnd implements sqlstore.Reading.
func (v view) LogEnd(ctx context.Context) (store.EventPage, error) {
	r, err := v.q.LogEnd(ctx)
	if err != nil {
		return store.EventPage{}, fmt.Errorf("end of the log: %w", err)
	}
	return store.EventPage{End: max(r.Last, r.EventsFrom), Begin: r.EventsFrom, Incarnation: r.Incarnation}, nil
}

// Log implements sqlstore.Reading.
func (v view) Log(ctx context.Context, project string, after int64, most int) ([]logpage.Entry, store.EventPage, error) {
	var rows []pgdb.PagesAfterRow
	var err error
	if project != "" {
		rows, err = v.q.PagesAfter(ctx, pgdb.PagesAfterParams{Project: project, After: after, Scan: int32(most)})
	} else {
		var all []pgdb.TransactionsAfterRow
		all, err = v.q.TransactionsAfter(ctx, pgdb.TransactionsAfterParams{After: after, Scan: int32(most)})
		for _, r := range all {
			rows = append(rows, pgdb.PagesAfterRow(r))
		}
	}
	if err != nil {
		return nil, store.EventPage{}, err
	}
	if len(rows) == 0 {
		return nil, store.EventPage{}, fmt.Errorf("%w: meta is missing", store.ErrUnavailable)
	}
	first := rows[0]
	out := store.EventPage{Begin: first.EventsFrom, End: max(first.Last, first.EventsFrom), Incarnation: first.Incarnation}
	var entries []logpage.Entry
	read := int64(0)
	for _, r := range rows {
		if r.Body == nil {
			continue
		}
		page, err := logpage.Decode(r.Project, r.Body)
		if err != nil {
			return nil, out, fmt.Errorf("events of project %s: %w", r.Project, err)
		}
		entries, read = append(entries, page...), read+r.Events
	}
	entries = sorted(entries, after)
	out.Next = max(after, out.End)
	if read >= int64(most) && len(entries) > 0 { // there may be more
		entries = entries[:min(most, len(entries))]
		out.Next = entries[len(entries)-1].Position
	}
	out.More = out.Next < out.End
	return entries, out, nil
}
