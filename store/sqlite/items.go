package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - content that an item loses is overwritten, as in an erasure: after a job is erased, its
//     content must not be readable from the item that had it.

// AddItem implements store.Store.
func (s *Store) AddItem(ctx context.Context, n store.NewItem) (store.ScheduleItem, bool, error) {
	created := false
	out, err := write(ctx, s, "add item", func(ctx context.Context, t *tx) (store.ScheduleItem, error) {
		created = false
		of, err := t.view().scheduleOf(ctx, n.Project, n.Item.Schedule)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		row, err := t.q.ItemByKey(ctx, sqlitedb.ItemByKeyParams{ScheduleID: of.ID, IdemKey: n.Item.Key})
		if err == nil {
			return t.view().placed(ctx, row)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return store.ScheduleItem{}, err
		}
		if store.ScheduleState(of.State) == store.ScheduleDeleted {
			return store.ScheduleItem{}, fmt.Errorf("%w: the schedule is deleted", store.ErrIllegal)
		}
		item, err := n.Stored(fromMicros(t.now))
		if err != nil {
			return store.ScheduleItem{}, err
		}
		queue, err := t.view().queue(ctx, of.ID)
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
		if err := t.q.InsertItem(ctx, sqlitedb.InsertItemParams(fromItem(item, place))); err != nil {
			return store.ScheduleItem{}, err
		}
		return item, t.w.usage.add(ctx, t, of.Project, 0, int64(len(item.Payload)))
	})
	return out, created && err == nil, err
}

// scheduleOf reads a schedule of a project.
func (v view) scheduleOf(ctx context.Context, project string, id job.ID) (sqlitedb.ListedScheduleRow, error) {
	of, err := v.q.ListedSchedule(ctx, fromID(id))
	if err == nil && project != "" && of.Project != project {
		err = store.ErrNotFound
	}
	return of, orNotFound(err)
}

// queue reads the items of a schedule that have content.
func (v view) queue(ctx context.Context, schedule []byte) (store.Queue, error) {
	rows, err := v.q.QueueOf(ctx, schedule)
	return store.Converted(rows, named("queue", err), func(r sqlitedb.QueueOfRow) store.QueuedItem {
		return store.QueuedItem{ID: toID(r.ID), Place: r.Place, Size: r.Size, Waiting: r.State == int64(store.ItemWaiting)}
	})
}

// placed returns an item with its position.
func (v view) placed(ctx context.Context, row sqlitedb.ScheduleItem) (store.ScheduleItem, error) {
	item, err := toItem(row)
	if err != nil || item.State != store.ItemWaiting {
		return item, err
	}
	queue, err := v.queue(ctx, row.ScheduleID)
	item.Position = queue.Position(item.ID)
	return item, err
}

// Item implements store.Store.
func (s *Store) Item(ctx context.Context, ref store.ItemRef) (store.ScheduleItem, error) {
	return read(ctx, s, "item", func(ctx context.Context, v view) (store.ScheduleItem, error) {
		row, err := v.item(ctx, ref)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		return v.placed(ctx, row)
	})
}

func (v view) item(ctx context.Context, ref store.ItemRef) (sqlitedb.ScheduleItem, error) {
	if _, err := v.scheduleOf(ctx, ref.Project, ref.Schedule); err != nil {
		return sqlitedb.ScheduleItem{}, err
	}
	var row sqlitedb.ScheduleItem
	var err error
	if ref.Key != "" {
		row, err = v.q.ItemByKey(ctx, sqlitedb.ItemByKeyParams{ScheduleID: fromID(ref.Schedule), IdemKey: ref.Key})
	} else {
		row, err = v.q.GetItem(ctx, sqlitedb.GetItemParams{ID: fromID(ref.ID), ScheduleID: fromID(ref.Schedule)})
	}
	return row, orNotFound(err)
}

// Items implements store.Store.
func (s *Store) Items(ctx context.Context, q store.ItemQuery) (store.ItemPage, error) {
	return read(ctx, s, "items", func(ctx context.Context, v view) (store.ItemPage, error) {
		var p store.ItemPage
		of, err := v.scheduleOf(ctx, q.Project, q.Schedule)
		if err != nil {
			return p, err
		}
		queue, err := v.queue(ctx, of.ID)
		if err != nil {
			return p, err
		}
		l := store.NewItemList(q, int(page(q.Limit)), queue)
		for more := l.Open(); more; {
			after := l.Place()
			if after.At == 0 {
				after.At = math.MaxInt64
			}
			rows, err := v.q.EndedItems(ctx, sqlitedb.EndedItemsParams{
				ScheduleID: of.ID, AfterTime: someMicros(after.At), AfterID: fromID(after.ID), MaxRows: store.MaxBatch,
			})
			if err != nil {
				return p, err
			}
			for _, r := range rows {
				if !l.Add(store.ItemPlace{Ended: true, At: r.EndedAt.Int64, ID: toID(r.ID)}, store.ItemState(r.State), r.Size) {
					break
				}
			}
			more = len(rows) == store.MaxBatch && l.Open()
		}
		p.Waiting, p.Next = l.Waiting(), l.Next()
		for _, id := range l.IDs() {
			item, err := v.listedItem(ctx, of.ID, fromID(id), q.Payloads)
			if err != nil {
				return p, err
			}
			item.Position = queue.Position(id)
			p.Items = append(p.Items, item)
		}
		return p, nil
	})
}

func (v view) listedItem(ctx context.Context, schedule, id []byte, payload bool) (store.ScheduleItem, error) {
	if payload {
		row, err := v.q.GetItem(ctx, sqlitedb.GetItemParams{ID: id, ScheduleID: schedule})
		if err != nil {
			return store.ScheduleItem{}, err
		}
		return toItem(row)
	}
	r, err := v.q.ListedItem(ctx, id)
	if err != nil {
		return store.ScheduleItem{}, err
	}
	return toItem(sqlitedb.ScheduleItem(r))
}

// ChangeItem implements store.Store.
func (s *Store) ChangeItem(ctx context.Context, c store.ItemChange) (store.ScheduleItem, error) {
	return write(ctx, s, "change item", func(ctx context.Context, t *tx) (store.ScheduleItem, error) {
		row, err := t.view().item(ctx, store.ItemRef{Project: c.Ref.Project, Schedule: c.Ref.Schedule, ID: c.Ref.ID})
		if err != nil {
			return store.ScheduleItem{}, err
		}
		was, err := toItem(row)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		next, changed, err := c.Changed(was, fromMicros(t.now))
		if err != nil || !changed {
			return next, err
		}
		queue, err := t.view().queue(ctx, row.ScheduleID)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		place, queue, others, err := c.Placed(queue, next, row.Place)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		for _, o := range others {
			if err := t.q.PlaceItem(ctx, sqlitedb.PlaceItemParams{Place: o.Place, ID: fromID(o.ID)}); err != nil {
				return store.ScheduleItem{}, fmt.Errorf("place: %w", err)
			}
		}
		next.Position = queue.Position(next.ID)
		err = t.wiping(ctx, func() error { return one(t.q.SetItem(ctx, setItemParams(fromItem(next, place)))) })
		if err != nil {
			return store.ScheduleItem{}, err
		}
		return next, t.countItem(ctx, row.ScheduleID, int64(len(next.Payload)-len(was.Payload)))
	})
}

// countItem counts the bytes by which the items of a schedule grow.
func (t *tx) countItem(ctx context.Context, schedule []byte, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	of, err := t.q.ListedSchedule(ctx, schedule)
	if err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	return t.w.usage.add(ctx, t, of.Project, 0, bytes)
}

// wiping runs fn while SQLite overwrites what is deleted.
func (t *tx) wiping(ctx context.Context, fn func() error) error {
	if t.overwrites {
		return fn()
	}
	return t.overwriting(ctx, fn)
}

// dueItems reads the first items of a queue.
func (f *firer) dueItems(ctx context.Context, d *store.DueSchedule) error {
	id := fromID(d.Schedule.ID)
	rows, err := f.q.QueueHead(ctx, sqlitedb.QueueHeadParams{ScheduleID: id, MaxRows: store.MaxDueItems + 1})
	if err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	queue := make(store.Queue, len(rows))
	for i, r := range rows {
		queue[i] = store.QueuedItem{ID: toID(r.ID), Place: r.Place, Size: r.Size, Waiting: true}
	}
	n, more := queue.First()
	d.MoreItems = more
	for _, r := range rows[:n] {
		item, err := f.view().listedItem(ctx, id, r.ID, true)
		if err != nil {
			return fmt.Errorf("item: %w", err)
		}
		d.Items = append(d.Items, item)
	}
	return nil
}

// endItems takes items out of the queue.
func (f *firer) endItems(ctx context.Context, project string, ends []store.ItemEnd) error {
	if len(ends) == 0 {
		return nil
	}
	return f.wiping(ctx, func() error {
		freed := int64(0)
		for _, e := range ends {
			freed += e.Freed
			n, err := f.q.EndItem(ctx, sqlitedb.EndItemParams{
				State: int64(e.State), FiringName: e.Firing, JobID: fromOptionalID(e.Job), Reason: e.Reason,
				EndedAt: f.now, ID: fromID(e.ID),
			})
			if err == nil && n != 1 {
				err = fmt.Errorf("%w: it does not wait", store.ErrIllegal)
			}
			if err != nil {
				return fmt.Errorf("item %s: %w", e.ID, err)
			}
		}
		return f.w.usage.add(ctx, f.tx, project, 0, -freed)
	})
}

func toItem(r sqlitedb.ScheduleItem) (store.ScheduleItem, error) {
	i := store.ScheduleItem{
		ID: toID(r.ID), Schedule: toID(r.ScheduleID), Key: r.IdemKey, Version: r.Version, State: store.ItemState(r.State),
		Payload: toBytes(r.Payload), PayloadKind: r.PayloadKind, Firing: r.FiringName, Job: toID(r.JobID), Reason: r.Reason,
		Created: fromMicros(r.CreatedAt), Updated: fromMicros(r.UpdatedAt), Ended: fromNullMicros(r.EndedAt),
		CreatedBy: r.CreatedBy, UpdatedBy: r.UpdatedBy,
	}
	var err error
	if i.Labels, i.Fingerprint, err = store.DecodeTerms(r.Labels, r.Fingerprint); err != nil {
		return i, fmt.Errorf("item %s: %w", i.ID, err)
	}
	return i, nil
}

func fromItem(i store.ScheduleItem, place int64) sqlitedb.ScheduleItem {
	return sqlitedb.ScheduleItem{
		ID: fromID(i.ID), ScheduleID: fromID(i.Schedule), IdemKey: i.Key, Fingerprint: i.Fingerprint.Bytes(),
		Version: i.Version, State: int64(i.State), Place: place, Payload: fromBytes(i.Payload),
		PayloadKind: i.PayloadKind, Labels: store.EncodeLabels(i.Labels), FiringName: i.Firing,
		JobID: fromOptionalID(i.Job), Reason: i.Reason, CreatedAt: i.Created.UnixMicro(),
		UpdatedAt: i.Updated.UnixMicro(), EndedAt: toMicros(i.Ended), CreatedBy: i.CreatedBy, UpdatedBy: i.UpdatedBy,
	}
}

func setItemParams(r sqlitedb.ScheduleItem) sqlitedb.SetItemParams {
	return sqlitedb.SetItemParams{
		Version: r.Version, State: r.State, Place: r.Place, Payload: r.Payload, PayloadKind: r.PayloadKind, Labels: r.Labels,
		FiringName: r.FiringName, JobID: r.JobID, Reason: r.Reason, UpdatedAt: r.UpdatedAt, EndedAt: r.EndedAt,
		UpdatedBy: r.UpdatedBy, ID: r.ID,
	}
}
