package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// item is an item of a schedule and its place.
type item struct {
	store.ScheduleItem
	place int64
}

// queue returns the items that have content, in their order.
func (c *schedule) queue() store.Queue {
	var queue store.Queue
	for _, i := range c.items {
		if i.State == store.ItemWaiting || i.State == store.ItemRefused {
			queue = append(queue, store.QueuedItem{
				ID: i.ID, Place: i.place, Size: int64(len(i.Payload)), Waiting: i.State == store.ItemWaiting,
			})
		}
	}
	slices.SortFunc(queue, store.QueuedItem.Compare)
	return queue
}

func (c *schedule) item(id job.ID, key string) (*item, error) {
	for _, i := range c.items {
		if key != "" && i.Key == key || key == "" && i.ID == id {
			return i, nil
		}
	}
	return nil, store.ErrNotFound
}

// placed returns an item with its position.
func (c *schedule) placed(i *item) store.ScheduleItem {
	out := i.Clone()
	out.Position = c.queue().Position(i.ID)
	return out
}

// AddItem implements store.Store.
func (s *Store) AddItem(ctx context.Context, n store.NewItem) (store.ScheduleItem, bool, error) {
	created := false
	out, err := call(ctx, s, "add item", func(t *tx) (store.ScheduleItem, error) {
		c, err := t.scheduleOf(store.Ref{Project: n.Project, ID: n.Item.Schedule})
		if err != nil {
			return store.ScheduleItem{}, err
		}
		if n.Item.Key != "" {
			if known, err := c.item(job.ID{}, n.Item.Key); err == nil {
				return c.placed(known), nil
			}
		}
		if c.State == store.ScheduleDeleted {
			return store.ScheduleItem{}, fmt.Errorf("%w: the schedule is deleted", store.ErrIllegal)
		}
		next, err := n.Stored(t.now)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		queue := c.queue()
		if err := queue.Fits(next, n.Most); err != nil {
			return store.ScheduleItem{}, err
		}
		place, _, err := queue.Put(next.ID, store.ItemTarget{Front: n.Front})
		if err != nil {
			return store.ScheduleItem{}, err
		}
		for _, other := range t.schedules {
			if _, err := other.item(next.ID, ""); err == nil {
				return store.ScheduleItem{}, fmt.Errorf("%w: the id %s is taken", store.ErrIllegal, next.ID)
			}
		}
		added := &item{next.Clone(), place}
		c.items = append(c.items, added)
		created = true
		return c.placed(added), nil
	})
	return out, created && err == nil, err
}

// Item implements store.Store.
func (s *Store) Item(ctx context.Context, ref store.ItemRef) (store.ScheduleItem, error) {
	return call(ctx, s, "item", func(t *tx) (store.ScheduleItem, error) {
		c, err := t.scheduleOf(store.Ref{Project: ref.Project, ID: ref.Schedule})
		if err != nil {
			return store.ScheduleItem{}, err
		}
		i, err := c.item(ref.ID, ref.Key)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		return c.placed(i), nil
	})
}

// Items implements store.Store.
func (s *Store) Items(ctx context.Context, q store.ItemQuery) (store.ItemPage, error) {
	return call(ctx, s, "items", func(t *tx) (store.ItemPage, error) {
		var p store.ItemPage
		c, err := t.scheduleOf(store.Ref{Project: q.Project, ID: q.Schedule})
		if err != nil {
			return p, err
		}
		l := store.NewItemList(q, rules.Page(q.Limit), c.queue())
		if l.Open() {
			c.listEnded(l)
		}
		p.Waiting, p.Next = l.Waiting(), l.Next()
		for _, id := range l.IDs() {
			i, err := c.item(id, "")
			if err != nil {
				return p, err
			}
			out := c.placed(i)
			if !q.Payloads {
				out.Payload = nil
			}
			p.Items = append(p.Items, out)
		}
		return p, nil
	})
}

// listEnded lists the items that have left, the last to leave first.
func (c *schedule) listEnded(l *store.ItemList) {
	var ended []*item
	for _, i := range c.items {
		if i.State != store.ItemWaiting {
			ended = append(ended, i)
		}
	}
	newest := func(at int64, id job.ID, i *item) int {
		return cmp.Or(cmp.Compare(i.Ended.UnixMicro(), at), slices.Compare(i.ID[:], id[:]))
	}
	slices.SortFunc(ended, func(a, b *item) int { return newest(a.Ended.UnixMicro(), a.ID, b) })
	after := l.Place()
	for _, i := range ended {
		if after.At != 0 && newest(after.At, after.ID, i) >= 0 {
			continue
		}
		if !l.Add(store.ItemPlace{Ended: true, At: i.Ended.UnixMicro(), ID: i.ID}, i.State, int64(len(i.Payload))) {
			return
		}
	}
}

// ChangeItem implements store.Store.
func (s *Store) ChangeItem(ctx context.Context, ch store.ItemChange) (store.ScheduleItem, error) {
	return call(ctx, s, "change item", func(t *tx) (store.ScheduleItem, error) {
		c, err := t.scheduleOf(store.Ref{Project: ch.Ref.Project, ID: ch.Ref.Schedule})
		if err != nil {
			return store.ScheduleItem{}, err
		}
		i, err := c.item(ch.Ref.ID, "")
		if err != nil {
			return store.ScheduleItem{}, err
		}
		next, changed, err := ch.Changed(i.ScheduleItem, t.now)
		if err != nil || !changed {
			return next.Clone(), err
		}
		place, _, others, err := ch.Placed(c.queue(), next, i.place)
		if err != nil {
			return store.ScheduleItem{}, err
		}
		for _, o := range others {
			moved, err := c.item(o.ID, "")
			if err != nil {
				return store.ScheduleItem{}, err
			}
			moved.place = o.Place
		}
		i.ScheduleItem, i.place = next.Clone(), place
		return c.placed(i), nil
	})
}

// head reads the first items of the queue.
func (c *schedule) head(d *store.DueSchedule) {
	queue := slices.DeleteFunc(c.queue(), func(one store.QueuedItem) bool { return !one.Waiting })
	n, more := queue.First()
	d.MoreItems = more
	for _, one := range queue[:n] {
		if i, err := c.item(one.ID, ""); err == nil {
			d.Items = append(d.Items, i.Clone())
		}
	}
}

// end takes an item out of the queue.
func (c *schedule) end(e store.ItemEnd, now time.Time) {
	if i, err := c.item(e.ID, ""); err == nil {
		i.ScheduleItem = e.Ended(i.ScheduleItem, now)
	}
}

// removeItems removes the items of a schedule that is deleted.
func (c *schedule) removeItems(now time.Time) {
	for _, one := range c.queue() {
		c.end(store.ItemEnd{ID: one.ID, State: store.ItemRemoved}, now)
	}
}
