package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/column"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file:
//   - a transaction that writes an item holds the lock of its schedule, as Fire does, so the
//     queue that it has read does not change until its end;
//   - content that an item loses is overwritten, as in an erasure: after a job is erased, its
//     content must not be readable from the item that had it.

// AddItem implements store.Store.
func (r *Roles) AddItem(ctx context.Context, n store.NewItem) (store.ScheduleItem, bool, error) {
	out, err := write(ctx, r, "add item", func(ctx context.Context, t Tx) (stored[store.ScheduleItem], error) {
		var out stored[store.ScheduleItem]
		of, err := t.lockSchedule(ctx, n.Project, n.Item.Schedule)
		if err != nil {
			return out, err
		}
		row, err := t.Q.ItemByKey(ctx, shareddb.ItemByKeyParams{ScheduleID: of.ID, IdemKey: n.Item.Key})
		if err == nil {
			out.value, err = t.placed(ctx, row)
			return out, err
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return out, err
		}
		if of.State == store.ScheduleDeleted {
			return out, fmt.Errorf("%w: the schedule is deleted", store.ErrIllegal)
		}
		item, err := n.Stored(t.Now)
		if err != nil {
			return out, err
		}
		queue, err := t.queueOf(ctx, of.ID)
		if err != nil {
			return out, err
		}
		if err := queue.Fits(item, n.Most); err != nil {
			return out, err
		}
		place, _, err := queue.Put(item.ID, store.ItemTarget{Front: n.Front})
		if err != nil {
			return out, err
		}
		item.Position = queue.Moved(store.QueuedItem{ID: item.ID, Place: place, Waiting: true}).Position(item.ID)
		err = t.Q.InsertItem(ctx, shareddb.InsertItemParams{
			ID: item.ID, ScheduleID: of.ID, IdemKey: item.Key, Fingerprint: item.Fingerprint.Bytes(), Place: place,
			Payload: filled(item.Payload), PayloadKind: item.PayloadKind, Labels: labelsOf(item.Labels), Now: t.Now,
			CreatedBy: item.CreatedBy,
		})
		if err != nil {
			return out, err
		}
		return stored[store.ScheduleItem]{item, true}, t.CountUse(ctx, of.Project, 0, int64(len(item.Payload)))
	})
	return out.value, out.created, err
}

// queueOf reads the items of a schedule that have content.
func (v View) queueOf(ctx context.Context, schedule job.ID) (store.Queue, error) {
	rows, err := v.Q.QueueOf(ctx, schedule)
	return store.Converted(rows, named("queue", err), func(r shareddb.QueueOfRow) store.QueuedItem {
		return store.QueuedItem{ID: r.ID, Place: r.Place, Size: r.Size, Waiting: r.State == store.ItemWaiting}
	})
}

// placed returns an item with its position.
func (v View) placed(ctx context.Context, row shareddb.ScheduleItem) (store.ScheduleItem, error) {
	item, err := toItem(row)
	if err != nil || item.State != store.ItemWaiting {
		return item, err
	}
	queue, err := v.queueOf(ctx, row.ScheduleID)
	item.Position = queue.Position(item.ID)
	return item, err
}

// Item implements store.Store.
func (r *Roles) Item(ctx context.Context, ref store.ItemRef) (store.ScheduleItem, error) {
	return read(ctx, r, "item", func(ctx context.Context, v View) (store.ScheduleItem, error) {
		if err := v.hasSchedule(ctx, ref.Project, ref.Schedule); err != nil {
			return store.ScheduleItem{}, err
		}
		var row shareddb.ScheduleItem
		var err error
		if ref.Key != "" {
			row, err = v.Q.ItemByKey(ctx, shareddb.ItemByKeyParams{ScheduleID: ref.Schedule, IdemKey: ref.Key})
		} else {
			row, err = v.Q.GetItem(ctx, shareddb.GetItemParams{ID: ref.ID, ScheduleID: ref.Schedule})
		}
		if err != nil {
			return store.ScheduleItem{}, orNotFound(err)
		}
		return v.placed(ctx, row)
	})
}

// Items implements store.Store.
func (r *Roles) Items(ctx context.Context, q store.ItemQuery) (store.ItemPage, error) {
	return read(ctx, r, "items", func(ctx context.Context, v View) (store.ItemPage, error) {
		var p store.ItemPage
		if err := v.hasSchedule(ctx, q.Project, q.Schedule); err != nil {
			return p, err
		}
		queue, err := v.queueOf(ctx, q.Schedule)
		if err != nil {
			return p, err
		}
		l := store.NewItemList(q, rules.Page(q.Limit), queue)
		for more := l.Open(); more; {
			after := shareddb.EndedItemsParams{ScheduleID: q.Schedule, AfterTime: endOfTime, AfterID: l.Place().ID, MaxRows: store.MaxBatch}
			if at := l.Place().At; at != 0 {
				after.AfterTime = time.UnixMicro(at)
			}
			rows, err := v.Q.EndedItems(ctx, after)
			if err != nil {
				return p, err
			}
			for _, r := range rows {
				if !l.Add(store.ItemPlace{Ended: true, At: r.EndedAt.UnixMicro(), ID: r.ID}, r.State, r.Size) {
					break
				}
			}
			more = len(rows) == store.MaxBatch && l.Open()
		}
		p.Waiting, p.Next = l.Waiting(), l.Next()
		found, err := v.itemsByID(ctx, l.IDs(), q.Payloads)
		for _, id := range l.IDs() {
			item := found[id]
			item.Position = queue.Position(id)
			p.Items = append(p.Items, item)
		}
		return p, err
	})
}

// endOfTime is later than any time that is stored.
var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// itemsByID reads items, with or without their payloads.
func (v View) itemsByID(ctx context.Context, ids []job.ID, payloads bool) (map[job.ID]store.ScheduleItem, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := v.Q.ItemsByID(ctx, shareddb.ItemsByIDParams{Ids: ids, Payloads: payloads})
	if err != nil {
		return nil, fmt.Errorf("items: %w", err)
	}
	out := make(map[job.ID]store.ScheduleItem, len(rows))
	for _, r := range rows {
		if out[r.ID], err = toItem(shareddb.ScheduleItem(r)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ChangeItem implements store.Store.
func (r *Roles) ChangeItem(ctx context.Context, c store.ItemChange) (store.ScheduleItem, error) {
	return write(ctx, r, "change item", func(ctx context.Context, t Tx) (store.ScheduleItem, error) {
		of, err := t.lockSchedule(ctx, c.Ref.Project, c.Ref.Schedule)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		row, err := t.Q.GetItem(ctx, shareddb.GetItemParams{ID: c.Ref.ID, ScheduleID: of.ID})
		if err != nil {
			return store.ScheduleItem{}, orNotFound(err)
		}
		was, err := toItem(row)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		next, changed, err := c.Changed(was, t.Now)
		if err != nil || !changed {
			return next, err
		}
		queue, err := t.queueOf(ctx, of.ID)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		place, after, others, err := c.Placed(queue, next, row.Place)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		if len(others) > 0 {
			err := t.Q.ShiftItems(ctx, shareddb.ShiftItemsParams{
				Shift: store.QueueShift, ScheduleID: of.ID, FirstPlace: others[0].Place - store.QueueShift, FirstID: others[0].ID,
			})
			if err != nil {
				return store.ScheduleItem{}, fmt.Errorf("places: %w", err)
			}
		}
		next.Position = after.Position(next.ID)
		err = t.Overwriting(ctx, func() error {
			return stale(t.Q.SetItem(ctx, shareddb.SetItemParams{
				Version: next.Version, State: next.State, Place: place, Payload: filled(next.Payload),
				PayloadKind: next.PayloadKind, Labels: labelsOf(next.Labels), Reason: next.Reason, UpdatedAt: next.Updated,
				EndedAt: next.Ended, UpdatedBy: next.UpdatedBy, ID: next.ID,
			}))
		})
		if err != nil {
			return store.ScheduleItem{}, fmt.Errorf("item: %w", err)
		}
		return next, t.CountUse(ctx, of.Project, 0, int64(len(next.Payload)-len(was.Payload)))
	})
}

func toItem(r shareddb.ScheduleItem) (store.ScheduleItem, error) {
	i := store.ScheduleItem{
		ID: r.ID, Schedule: r.ScheduleID, Key: r.IdemKey, Version: r.Version, State: r.State, Payload: bytesOf(r.Payload),
		PayloadKind: r.PayloadKind, Firing: r.FiringName, Job: job.ID(r.JobID), Reason: r.Reason, Created: r.CreatedAt,
		Updated: r.UpdatedAt, Ended: r.EndedAt, CreatedBy: r.CreatedBy, UpdatedBy: r.UpdatedBy,
	}
	var err error
	if i.Labels, i.Fingerprint, err = store.DecodeTerms(r.Labels, r.Fingerprint); err != nil {
		return i, fmt.Errorf("item %s: %w", i.ID, err)
	}
	return i, nil
}

func labelsOf(labels map[string]string) column.Labels {
	return column.Labels(store.EncodeLabels(labels))
}
