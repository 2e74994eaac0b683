package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
	"github.com/fireonce/fireonce/store/rules"
)

// maxScan bounds the events that one call reads, whatever its filter selects. The caller
// continues from where it ended.
const maxScan = 4 * store.MaxBatch

// Events implements store.Store.
func (r *Roles) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	if !q.Job.IsZero() {
		return read(ctx, r, "events", func(ctx context.Context, v View) (store.EventPage, error) { return v.jobEvents(ctx, q) })
	}
	return readOne(ctx, r, "events", func(ctx context.Context, v View) (store.EventPage, error) { return v.events(ctx, q) })
}

// ofIncarnation refuses a position of another incarnation.
func ofIncarnation(q store.EventQuery, now int64) error {
	if q.Incarnation != 0 && q.Incarnation != now {
		return fmt.Errorf("%w: of incarnation %d, now %d", store.ErrCursorExpired, q.Incarnation, now)
	}
	return nil
}

func (v View) jobEvents(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	q.After = max(0, q.After)
	p, err := v.LogEnd(ctx)
	if err != nil {
		return p, err
	}
	if err := ofIncarnation(q, p.Incarnation); err != nil {
		return p, err
	}
	j, err := v.Q.EventsOf(ctx, q.Job)
	if err == nil && q.Project != "" && j.Project != q.Project {
		err = store.ErrNotFound
	}
	if err != nil {
		return p, orNotFound(err)
	}
	upTo := q.After + int64(rules.Page(q.Limit))
	rows, err := v.Q.JobHistories(ctx, shareddb.JobHistoriesParams{JobID: q.Job, After: q.After, UpTo: upTo + 1})
	if err != nil {
		return p, fmt.Errorf("history: %w", err)
	}
	p.Next = q.After
	texts := false
	for _, r := range rows {
		of := job.Event{Project: j.Project, Job: q.Job, Connection: j.ConnectionID, Schedule: job.ID(j.ScheduleID)}
		part, err := logpage.DecodeHistory(of, r.LastSequence, r.Body)
		if err != nil {
			return p, fmt.Errorf("history of job %s: %w", q.Job, err)
		}
		for _, e := range part {
			switch {
			case e.Sequence <= q.After:
			case e.Sequence > upTo:
				p.More = true
			default:
				p.Events, p.Next, texts = append(p.Events, e.Event), e.Sequence, texts || e.Texts
			}
		}
	}
	if !texts {
		return p, nil
	}
	found, err := v.Q.JobTexts(ctx, shareddb.JobTextsParams{JobID: q.Job, After: q.After, UpTo: upTo})
	if err != nil {
		return p, fmt.Errorf("texts: %w", err)
	}
	for _, t := range found {
		e := &p.Events[t.Sequence-q.After-1]
		e.Reason, e.Detail = t.Reason, t.Detail
	}
	return p, nil
}

func (v View) events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	most, scan := rules.Page(q.Limit), maxScan
	if len(q.Jobs) == 0 && len(q.Connections) == 0 && q.Schedule.IsZero() && len(q.Labels) == 0 && !q.Ended {
		scan = most // all pass
	}
	entries, p, err := v.Log(ctx, q.Project, q.After, scan)
	if err != nil {
		return p, err
	}
	if err := ofIncarnation(q, p.Incarnation); err != nil {
		return p, err
	}
	if q.After < p.Begin {
		return p, store.ErrCursorExpired
	}
	wanted := slices.DeleteFunc(entries, func(e logpage.Entry) bool { return !q.Selects(e.Event) })
	if wanted, err = v.labeled(ctx, wanted, q.Labels); err != nil {
		return p, err
	}
	if len(wanted) >= most {
		wanted = wanted[:most]
		p.Next = wanted[most-1].Position
	}
	p.More = p.Next < p.End
	p.Events, err = v.withTexts(ctx, wanted)
	return p, err
}

// labeled keeps the events of jobs that have all these labels now.
func (v View) labeled(ctx context.Context, entries []logpage.Entry, labels map[string]string) ([]logpage.Entry, error) {
	if len(labels) == 0 {
		return entries, nil
	}
	has := make(map[job.ID]bool)
	for i := range entries {
		has[entries[i].Job] = false
	}
	rows, err := v.Q.JobNames(ctx, slices.Collect(maps.Keys(has)))
	if err != nil {
		return nil, fmt.Errorf("labels: %w", err)
	}
	for _, r := range rows {
		of, _, err := store.DecodeTerms(r.Labels, nil)
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", r.ID, err)
		}
		has[r.ID] = true
		for name, value := range labels {
			got, there := of[name]
			has[r.ID] = has[r.ID] && there && got == value
		}
	}
	return slices.DeleteFunc(entries, func(e logpage.Entry) bool { return !has[e.Job] }), nil
}

// withTexts returns events with their texts, as long as those are stored.
func (v View) withTexts(ctx context.Context, entries []logpage.Entry) ([]job.Event, error) {
	out := make([]job.Event, len(entries))
	at := make(map[int64]*job.Event)
	for i := range entries {
		out[i] = entries[i].Event
		if entries[i].Texts {
			at[out[i].Position] = &out[i]
		}
	}
	if len(at) == 0 {
		return out, nil
	}
	rows, err := v.Q.TextsAt(ctx, slices.Collect(maps.Keys(at)))
	if err != nil {
		return nil, fmt.Errorf("texts: %w", err)
	}
	for _, r := range rows {
		e := at[r.Position]
		e.Reason, e.Detail = r.Reason, r.Detail
	}
	return out, nil
}
