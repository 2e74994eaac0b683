package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file:
//   - a transaction that writes an item holds the lock of its schedule, as Fire does, so the
//     queue that it has read does not change until its end.

// AddItem implements store.Store.
func (s *Store) AddItem(ctx context.Context, n store.NewItem) (store.ScheduleItem, bool, error) {
	created := false
	out, err := write(ctx, s, "add item", func(ctx context.Context, t *tx) (store.ScheduleItem, error) {
		created = false
		of, err := t.lockSchedule(ctx, n.Project, n.Item.Schedule)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		row, err := t.q.ItemByKey(ctx, pgdb.ItemByKeyParams{ScheduleID: of.ID, IdemKey: n.Item.Key})
		if err == nil {
			return placed(ctx, t.q, row)
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return store.ScheduleItem{}, err
		}
		if store.ScheduleState(of.State) == store.ScheduleDeleted {
			return store.ScheduleItem{}, fmt.Errorf("%w: the schedule is deleted", store.ErrIllegal)
		}
		item, err := n.Stored(t.now)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		queue, err := queueOf(ctx, t.q, of.ID)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		if err := queue.Fits(item, n.Most); err != nil {
			return store.ScheduleItem{}, err
		}
		place, _, err := queue.Put(item.ID, store.ItemTarget{Front: n.Front})
		if err != nil {
			return store.ScheduleItem{}, err
		}
		item.Position = queue.Moved(store.QueuedItem{ID: item.ID, Place: place, Waiting: true}).Position(item.ID)
		created = true
		return item, t.q.InsertItem(ctx, pgdb.InsertItemParams{
			Project: of.Project, ID: fromID(item.ID), ScheduleID: of.ID, IdemKey: item.Key,
			Fingerprint: item.Fingerprint.Bytes(), Version: item.Version, State: int16(item.State), Place: place,
			Payload: fromBytes(item.Payload), PayloadKind: item.PayloadKind, Labels: store.EncodeLabels(item.Labels),
			CreatedAt: item.Created, UpdatedAt: item.Updated, CreatedBy: item.CreatedBy, UpdatedBy: item.UpdatedBy,
		})
	})
	return out, created && err == nil, err
}

// lockSchedule locks a schedule of a project.
func (t *tx) lockSchedule(ctx context.Context, project string, id job.ID) (pgdb.Schedule, error) {
	of, err := t.q.LockSchedule(ctx, fromID(id))
	if err == nil && project != "" && of.Project != project {
		err = store.ErrNotFound
	}
	return of, err
}

// hasSchedule returns ErrNotFound unless a project has a schedule.
func (v view) hasSchedule(ctx context.Context, project string, id job.ID) error {
	of, err := v.q.ListedSchedules(ctx, []pgtype.UUID{fromID(id)})
	if err == nil && (len(of) == 0 || project != "" && of[0].Project != project) {
		err = store.ErrNotFound
	}
	return err
}

// queueOf reads the items of a schedule that have content.
func queueOf(ctx context.Context, q *pgdb.Queries, schedule pgtype.UUID) (store.Queue, error) {
	rows, err := q.QueueOf(ctx, schedule)
	return store.Converted(rows, named("queue", err), func(r pgdb.QueueOfRow) store.QueuedItem {
		return store.QueuedItem{ID: toID(r.ID), Place: r.Place, Size: r.Size, Waiting: r.State == int16(store.ItemWaiting)}
	})
}

// placed returns an item with its position.
func placed(ctx context.Context, q *pgdb.Queries, row pgdb.ScheduleItem) (store.ScheduleItem, error) {
	item, err := toItem(row)
	if err != nil || item.State != store.ItemWaiting {
		return item, err
	}
	queue, err := queueOf(ctx, q, row.ScheduleID)
	item.Position = queue.Position(item.ID)
	return item, err
}

// Item implements store.Store.
func (s *Store) Item(ctx context.Context, ref store.ItemRef) (store.ScheduleItem, error) {
	return read(ctx, s, "item", func(ctx context.Context, v view) (store.ScheduleItem, error) {
		if err := v.hasSchedule(ctx, ref.Project, ref.Schedule); err != nil {
			return store.ScheduleItem{}, err
		}
		var row pgdb.ScheduleItem
		var err error
		if ref.Key != "" {
			row, err = v.q.ItemByKey(ctx, pgdb.ItemByKeyParams{ScheduleID: fromID(ref.Schedule), IdemKey: ref.Key})
		} else {
			row, err = v.q.GetItem(ctx, pgdb.GetItemParams{ID: fromID(ref.ID), ScheduleID: fromID(ref.Schedule)})
		}
		if err != nil {
			return store.ScheduleItem{}, err
		}
		return placed(ctx, v.q, row)
	})
}

// Items implements store.Store.
func (s *Store) Items(ctx context.Context, q store.ItemQuery) (store.ItemPage, error) {
	return read(ctx, s, "items", func(ctx context.Context, v view) (store.ItemPage, error) {
		var p store.ItemPage
		if err := v.hasSchedule(ctx, q.Project, q.Schedule); err != nil {
			return p, err
		}
		queue, err := queueOf(ctx, v.q, fromID(q.Schedule))
		if err != nil {
			return p, err
		}
		l := store.NewItemList(q, rules.Page(q.Limit), queue)
		for more := l.Open(); more; {
			after := pgdb.EndedItemsParams{ScheduleID: fromID(q.Schedule), AfterTime: endOfTime, AfterID: fromID(l.Place().ID), MaxRows: store.MaxBatch}
			if at := l.Place().At; at != 0 {
				after.AfterTime = time.UnixMicro(at)
			}
			rows, err := v.q.EndedItems(ctx, after)
			if err != nil {
				return p, err
			}
			for _, r := range rows {
				place := store.ItemPlace{Ended: true, At: r.EndedAt.UnixMicro(), ID: toID(r.ID)}
				if !l.Add(place, store.ItemState(r.State), r.Size) {
					break
				}
			}
			more = len(rows) == store.MaxBatch && l.Open()
		}
		p.Waiting, p.Next = l.Waiting(), l.Next()
		found, err := v.listedItems(ctx, l.IDs(), q.Payloads)
		for _, id := range l.IDs() {
			item := found[id]
			item.Position = queue.Position(id)
			p.Items = append(p.Items, item)
		}
		return p, err
	})
}

// listedItems reads items, with or without their payloads.
func (v view) listedItems(ctx context.Context, ids []job.ID, payloads bool) (map[job.ID]store.ScheduleItem, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var rows []pgdb.ScheduleItem
	var err error
	if payloads {
		rows, err = v.q.ItemsByID(ctx, fromIDs(ids))
	} else {
		var listed []pgdb.ListedItemsRow
		listed, err = v.q.ListedItems(ctx, fromIDs(ids))
		for _, r := range listed {
			rows = append(rows, pgdb.ScheduleItem(r))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("items: %w", err)
	}
	out := make(map[job.ID]store.ScheduleItem, len(rows))
	for _, r := range rows {
		if out[toID(r.ID)], err = toItem(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ChangeItem implements store.Store.
func (s *Store) ChangeItem(ctx context.Context, c store.ItemChange) (store.ScheduleItem, error) {
	return write(ctx, s, "change item", func(ctx context.Context, t *tx) (store.ScheduleItem, error) {
		of, err := t.lockSchedule(ctx, c.Ref.Project, c.Ref.Schedule)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		row, err := t.q.GetItem(ctx, pgdb.GetItemParams{ID: fromID(c.Ref.ID), ScheduleID: of.ID})
		if err != nil {
			return store.ScheduleItem{}, err
		}
		was, err := toItem(row)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		next, changed, err := c.Changed(was, t.now)
		if err != nil || !changed {
			return next, err
		}
		queue, err := queueOf(ctx, t.q, of.ID)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		place, queue, others, err := c.Placed(queue, next, row.Place)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		next.Position = queue.Position(next.ID)
		return next, t.setItem(ctx, of.Project, next, place, others)
	})
}

// setItem writes a changed item, and the places of others.
func (t *tx) setItem(ctx context.Context, project string, i store.ScheduleItem, place int64, others []store.QueuedItem) error {
	if i.State == store.ItemWaiting {
		p := pgdb.PlaceItemsParams{Ids: []pgtype.UUID{fromID(i.ID)}, Places: []int64{place}}
		for _, o := range others {
			p.Ids, p.Places = append(p.Ids, fromID(o.ID)), append(p.Places, o.Place)
		}
		if err := t.q.PlaceItems(ctx, p); err != nil {
			return fmt.Errorf("places: %w", err)
		}
	}
	n, err := t.q.SetItem(ctx, pgdb.SetItemParams{
		Project: project, Version: i.Version, State: int16(i.State), Payload: fromBytes(i.Payload),
		PayloadKind: i.PayloadKind, Labels: store.EncodeLabels(i.Labels), Reason: i.Reason, UpdatedAt: i.Updated,
		EndedAt: fromTime(i.Ended), UpdatedBy: i.UpdatedBy, ID: fromID(i.ID), WasVersion: i.Version - 1,
	})
	if err == nil && n != 1 {
		err = store.ErrStale
	}
	return named("item", err)
}

// dueItems reads the first items of queues.
func (f *firer) dueItems(ctx context.Context, due map[job.ID]*store.DueSchedule) error {
	var schedules []pgtype.UUID
	for _, r := range f.rounds {
		if r.Due.Schedule.Queued {
			schedules = append(schedules, fromID(r.Due.Schedule.ID))
		}
	}
	if len(schedules) == 0 {
		return nil
	}
	heads, err := f.q.QueueHeads(ctx, pgdb.QueueHeadsParams{Schedules: schedules, MaxRows: store.MaxDueItems + 1})
	if err != nil {
		return fmt.Errorf("queues: %w", err)
	}
	queues := make(map[job.ID]store.Queue, len(schedules))
	for _, h := range heads {
		of := toID(h.ScheduleID)
		queues[of] = append(queues[of], store.QueuedItem{ID: toID(h.ID), Place: h.Place, Size: h.Size, Waiting: true})
	}
	var ids []job.ID
	for of, queue := range queues {
		n, more := queue.First()
		queues[of], due[of].MoreItems = queue[:n], more
		for _, one := range queue[:n] {
			ids = append(ids, one.ID)
		}
	}
	found, err := f.view().listedItems(ctx, ids, true)
	if err != nil {
		return err
	}
	for of, queue := range queues {
		for _, one := range queue {
			due[of].Items = append(due[of].Items, found[one.ID])
		}
	}
	return nil
}

// addEnds adds the items that leave the queue.
func addEnds(p *pgdb.EndItemsParams, ends []store.ItemEnd) {
	for _, e := range ends {
		p.Ids, p.States = append(p.Ids, fromID(e.ID)), append(p.States, int16(e.State))
		p.FiringNames, p.Jobs = append(p.FiringNames, e.Firing), append(p.Jobs, optionalID(e.Job))
		p.Reasons = append(p.Reasons, e.Reason)
	}
}

// endItems takes items out of the queue.
func (f *firer) endItems(ctx context.Context, p pgdb.EndItemsParams) {
	if len(p.Ids) == 0 {
		return
	}
	f.queue(ctx, func(ctx context.Context, db pgdb.DBTX) error {
		n, err := pgdb.New(db).EndItems(ctx, p)
		if err == nil && int(n) != len(p.Ids) {
			err = fmt.Errorf("%w: %d of %d items waited", store.ErrIllegal, n, len(p.Ids))
		}
		return named("items", err)
	})
}

func toItem(r pgdb.ScheduleItem) (store.ScheduleItem, error) {
	i := store.ScheduleItem{
		ID: toID(r.ID), Schedule: toID(r.ScheduleID), Key: r.IdemKey, Version: r.Version,
		State: store.ItemState(r.State), Payload: toBytes(r.Payload), PayloadKind: r.PayloadKind,
		Firing: r.FiringName, Job: toID(r.JobID), Reason: r.Reason, Created: r.CreatedAt.UTC(),
		Updated: r.UpdatedAt.UTC(), Ended: toTime(r.EndedAt), CreatedBy: r.CreatedBy, UpdatedBy: r.UpdatedBy,
	}
	var err error
	if i.Labels, i.Fingerprint, err = store.DecodeTerms(r.Labels, r.Fingerprint); err != nil {
		return i, fmt.Errorf("item %s: %w", i.ID, err)
	}
	return i, nil
}
