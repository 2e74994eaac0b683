package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Bounds of a schedule's queue.
const (
	// MaxItems bounds the items of a schedule that have content: those that wait, and those
	// that were refused.
	MaxItems = 1000
	// MaxItemsBytes bounds the payloads of these items.
	MaxItemsBytes = 32 << 20
	// MaxItemPage bounds the payloads of one page of items, in bytes. The first always fits.
	MaxItemPage = 2 << 20
	// MaxItemScan bounds the items that one Items looks at.
	MaxItemScan = 10_000
	// MaxDueItems bounds DueSchedule.Items, and MaxDueItemBytes their payloads, in bytes; the
	// first always fits.
	MaxDueItems     = MaxFiringJobs
	MaxDueItemBytes = 1 << 20
	// placeGap is the distance from an item at an end of the queue to its neighbor.
	placeGap = 1 << 20
	// QueueShift is the distance by which items move to make room before them.
	QueueShift = 2 * placeGap
)

// ScheduleItems keeps the queues of schedules: content that waits until a firing takes it. An
// item becomes at most one job. FiringDecision.Item takes one, in the transaction of Fire
// that makes its job.
//
// An item that leaves the queue does not come back: its key stays, its content does not,
// unless it is REFUSED. Deleting a schedule removes its items.
type ScheduleItems interface {
	// AddItem stores an item at an end of the queue. A bound key returns the bound item with
	// created=false, in any state, and the caller compares the fingerprints.
	//
	//   - ErrNotFound: no such schedule in the project.
	//   - ErrIllegal: it is deleted, or the item is out of bounds.
	//   - ErrQuota: NewItem.Most, MaxItems or MaxItemsBytes. Never for a bound key.
	AddItem(ctx context.Context, n NewItem) (item ScheduleItem, created bool, err error)
	// Item reads an item with its payload, by key if the reference has one. ErrNotFound.
	Item(ctx context.Context, ref ItemRef) (ScheduleItem, error)
	// Items reads a page: first the waiting items in the order of the queue, and then the
	// others, the last to leave first. It looks at MaxItemScan items at most. ErrNotFound: no
	// such schedule in the project.
	Items(ctx context.Context, q ItemQuery) (ItemPage, error)
	// ChangeItem changes the content of an item, moves it, or removes it.
	//
	//   - ErrNotFound: no such item in the schedule, or schedule in the project.
	//   - ErrStale: another version than the one that was read.
	//   - ErrIllegal: the item is not WAITING, or it is USED and is to be removed; the item
	//     to move it before does not wait; the content is out of bounds. Removing a REMOVED
	//     item changes nothing.
	//   - ErrQuota: MaxItemsBytes.
	ChangeItem(ctx context.Context, c ItemChange) (ScheduleItem, error)
}

// ItemState is the state of an item. The numbers are the contract's, and the engines' queries
// use them.
type ItemState int

// The states of an item.
const (
	// ItemWaiting: the item is in the queue.
	ItemWaiting ItemState = iota + 1
	// ItemUsed: the item became the job of a firing.
	ItemUsed
	// ItemRemoved: a caller removed the item, or its schedule was deleted.
	ItemRemoved
	// ItemRefused: the item cannot become a job, because its content is bad. It keeps the
	// content until it is removed.
	ItemRefused
)

// ItemStates are all states.
var ItemStates = []ItemState{ItemWaiting, ItemUsed, ItemRemoved, ItemRefused}

// Next reports whether an item may go from a state to another one. The engines' triggers have
// a copy of this rule.
func (s ItemState) Next(to ItemState) bool {
	switch s {
	case ItemWaiting:
		return to >= ItemWaiting && to <= ItemRefused
	case ItemRefused:
		return to == ItemRemoved
	default:
		return false
	}
}

// ScheduleItem is content for one firing of a schedule.
type ScheduleItem struct {
	ID, Schedule job.ID
	// Key is unique in the schedule, forever.
	Key         string
	Fingerprint job.Fingerprint
	// Version rises by one with each change of the item, but not with those around it.
	Version int64
	State   ItemState
	// Position is its rank among the waiting items, from 1; 0: it does not wait, or is one of
	// DueSchedule.Items, which are in their order.
	Position int
	// Payload, at most job.MaxPayload bytes, and Labels are kept while the item is WAITING or
	// REFUSED.
	Payload     []byte
	PayloadKind string
	Labels      map[string]string
	// Firing and Job used the item: ItemUsed only.
	Firing string
	Job    job.ID
	// Reason is why it was refused.
	Reason string

	Created, Updated time.Time
	// Ended is when it left the queue.
	Ended                time.Time
	CreatedBy, UpdatedBy string
}

// Clone returns a copy that shares no memory.
func (i ScheduleItem) Clone() ScheduleItem {
	i.Payload, i.Labels = slices.Clone(i.Payload), maps.Clone(i.Labels)
	return i
}

// ItemRef names one item, by Key when it is set.
type ItemRef struct {
	// Project is the schedule's project.
	Project  string
	Schedule job.ID
	ID       job.ID
	Key      string
}

// NewItem is an item to store.
type NewItem struct {
	// Project is the schedule's project.
	Project string
	// Item has an id, a schedule, a key, a fingerprint, content and its creator. The store
	// sets the rest.
	Item ScheduleItem
	// Front puts it before all other items instead of behind them.
	Front bool
	// Most, when positive, bounds the items that have content, below MaxItems.
	Most int64
}

// Stored returns the item as it is first stored, or ErrIllegal.
func (n NewItem) Stored(now time.Time) (ScheduleItem, error) {
	i := n.Item
	i.Version, i.State, i.Firing, i.Job, i.Reason = 1, ItemWaiting, "", job.ID{}, ""
	i.Created, i.Updated, i.Ended, i.UpdatedBy = now, now, time.Time{}, i.CreatedBy
	fp, err := job.ParseFingerprint(i.Fingerprint.Bytes())
	switch {
	case err != nil:
		return i, fmt.Errorf("%w: %w", ErrIllegal, err)
	case i.Key == "" || i.ID.IsZero():
		return i, fmt.Errorf("%w: an item without key or id", ErrIllegal)
	}
	i.Fingerprint = fp
	return i.normal()
}

func (i ScheduleItem) normal() (ScheduleItem, error) {
	if len(i.Labels) == 0 {
		i.Labels = nil
	}
	i.Payload = noneIfEmpty(i.Payload)
	if len(i.Payload) > job.MaxPayload {
		return i, fmt.Errorf("%w: an item with a payload of %d bytes", ErrIllegal, len(i.Payload))
	}
	return i, nil
}

// ItemChange is one change of an item by a caller. One of Content, To and Remove is set.
type ItemChange struct {
	Ref ItemRef // with an id
	// Version is the one that was read; 0: any.
	Version int64
	// Content replaces the item's.
	Content *ItemContent
	// To is where the item goes in the queue.
	To *ItemTarget
	// Remove removes it from the queue for good.
	Remove bool
	Actor  string
}

// ItemContent is the part of an item that becomes a job.
type ItemContent struct {
	Payload     []byte
	PayloadKind string
	Labels      map[string]string
}

// ItemTarget is a place in the queue. The zero ItemTarget is the end.
type ItemTarget struct {
	// Before is a waiting item.
	Before job.ID
	// Front is before all others.
	Front bool
}

// Placed returns where a changed item is in the queue of its schedule, the queue after the
// change, and the other items that have to move.
func (c ItemChange) Placed(queue Queue, next ScheduleItem, was int64) (place int64, after Queue, others []QueuedItem, err error) {
	place = was
	if c.Content != nil {
		if err := queue.Fits(next, 0); err != nil {
			return 0, nil, nil, err
		}
	}
	if c.To != nil {
		if place, others, err = queue.Put(next.ID, *c.To); err != nil {
			return 0, nil, nil, err
		}
	}
	moved := append(slices.Clone(others), QueuedItem{
		ID: next.ID, Place: place, Size: int64(len(next.Payload)), Waiting: next.State == ItemWaiting,
	})
	return place, queue.Moved(moved...), others, nil
}

// Changed returns the item as a change leaves it at now, or the error of ChangeItem. changed
// is false where nothing has to be written. Queue decides about the item's place.
func (c ItemChange) Changed(was ScheduleItem, now time.Time) (next ScheduleItem, changed bool, err error) {
	next = was
	asked := 0
	for _, one := range []bool{c.Content != nil, c.To != nil, c.Remove} {
		if one {
			asked++
		}
	}
	switch {
	case asked != 1:
		return was, false, fmt.Errorf("%w: %d changes of an item in one", ErrIllegal, asked)
	case c.Remove && was.State == ItemRemoved:
		return was, false, nil
	case c.Version != 0 && c.Version != was.Version:
		return was, false, fmt.Errorf("%w: version %d, now %d", ErrStale, c.Version, was.Version)
	case c.Remove && !was.State.Next(ItemRemoved), !c.Remove && was.State != ItemWaiting:
		return was, false, fmt.Errorf("%w: an item in state %d has no such change", ErrIllegal, was.State)
	case c.Remove:
		next = next.ended(ItemEnd{State: ItemRemoved}, now)
	case c.Content != nil:
		next.Payload, next.PayloadKind, next.Labels = c.Content.Payload, c.Content.PayloadKind, c.Content.Labels
		if next, err = next.normal(); err != nil {
			return was, false, err
		}
	}
	next.Version, next.Updated = was.Version+1, now
	if c.Actor != "" {
		next.UpdatedBy = c.Actor
	}
	return next, true, nil
}

// ItemEnd is how an item leaves the queue.
type ItemEnd struct {
	ID    job.ID
	State ItemState
	// Firing and Job belong to ItemUsed, Reason to ItemRefused.
	Firing string
	Job    job.ID
	Reason string
	// Freed is the size of the payload that is removed, in bytes.
	Freed int64
}

// Ended returns an item as its end leaves it at now.
func (e ItemEnd) Ended(was ScheduleItem, now time.Time) ScheduleItem {
	next := was.ended(e, now)
	next.Version, next.Updated = was.Version+1, now
	return next
}

func (i ScheduleItem) ended(e ItemEnd, now time.Time) ScheduleItem {
	i.State, i.Firing, i.Job, i.Reason, i.Position = e.State, e.Firing, e.Job, e.Reason, 0
	if i.Ended.IsZero() {
		i.Ended = now
	}
	if e.State != ItemRefused {
		i.Payload, i.Labels = nil, nil
	}
	return i
}

// Queue has the items of a schedule that have content, in their order. It is for engines,
// which do not modify it while they use it.
type Queue []QueuedItem

// QueuedItem is an item in its place.
type QueuedItem struct {
	ID job.ID
	// Place orders waiting items; it has no other meaning.
	Place int64
	// Size is the size of the payload, in bytes.
	Size    int64
	Waiting bool
}

// Fits returns a *QuotaError if the queue cannot take an item, which may be in it already.
// most is NewItem.Most.
func (q Queue) Fits(i ScheduleItem, most int64) error {
	if most <= 0 || most > MaxItems {
		most = MaxItems
	}
	count, size, known := int64(0), int64(len(i.Payload)), false
	for _, one := range q {
		if one.ID == i.ID {
			known = true
			continue
		}
		count, size = count+1, size+one.Size
	}
	switch {
	case !known && count >= most:
		return &QuotaError{Used: count, Limit: most}
	case size > MaxItemsBytes:
		return &QuotaError{Used: size, Limit: MaxItemsBytes}
	}
	return nil
}

// Size returns the bytes of the queue's payloads.
func (q Queue) Size() (bytes int64) {
	for _, one := range q {
		bytes += one.Size
	}
	return bytes
}

// Put returns where an item goes, and the other items that have to move by QueueShift: all
// from one place on. ErrIllegal: the item to put it before is not in the queue.
func (q Queue) Put(id job.ID, to ItemTarget) (place int64, others []QueuedItem, err error) {
	queue := q.waiting(id)
	at := len(queue)
	switch {
	case to.Before == id && !id.IsZero():
		at = slices.IndexFunc(q.waiting(job.ID{}), func(one QueuedItem) bool { return one.ID == id })
	case !to.Before.IsZero():
		at = slices.IndexFunc(queue, func(one QueuedItem) bool { return one.ID == to.Before })
	case to.Front:
		at = 0
	}
	switch {
	case at < 0:
		return 0, nil, fmt.Errorf("%w: item %s does not wait", ErrIllegal, to.Before)
	case len(queue) == 0:
		return 0, nil, nil
	case at == 0:
		return queue[0].Place - placeGap, nil, nil
	case at == len(queue):
		return queue[at-1].Place + placeGap, nil, nil
	}
	if before, after := queue[at-1].Place, queue[at].Place; after-before > 1 {
		return before + (after-before)/2, nil, nil
	}
	// No gap is left: all items behind it move on.
	others = queue[at:]
	for i := range others {
		others[i].Place += QueueShift
	}
	return queue[at-1].Place + placeGap, others, nil
}

// waiting returns the waiting items except one.
func (q Queue) waiting(without job.ID) Queue {
	return slices.DeleteFunc(slices.Clone(q), func(one QueuedItem) bool { return !one.Waiting || one.ID == without })
}

// Position returns the rank of an item among the waiting ones, from 1; 0: it does not wait.
func (q Queue) Position(id job.ID) int {
	return 1 + slices.IndexFunc(q.waiting(job.ID{}), func(one QueuedItem) bool { return one.ID == id })
}

// Moved returns the queue with items in new places.
func (q Queue) Moved(items ...QueuedItem) Queue {
	out := slices.DeleteFunc(slices.Clone(q), func(one QueuedItem) bool {
		return slices.ContainsFunc(items, func(i QueuedItem) bool { return i.ID == one.ID })
	})
	out = append(out, items...)
	slices.SortFunc(out, QueuedItem.Compare)
	return out
}

// Compare orders a queue.
func (i QueuedItem) Compare(other QueuedItem) int {
	return ItemPlace{At: i.Place, ID: i.ID}.compare(ItemPlace{At: other.Place, ID: other.ID})
}

// First returns how many of the first items a decision gets, by the sizes of their payloads.
func (q Queue) First() (n int, more bool) {
	size := int64(0)
	for i, one := range q {
		if size += one.Size; i == MaxDueItems || i > 0 && size > MaxDueItemBytes {
			return i, true
		}
	}
	return len(q), false
}

// ItemQuery selects items of one schedule.
type ItemQuery struct {
	Project  string
	Schedule job.ID
	// States, when not empty, are the states to read.
	States []ItemState
	// Payloads reads payloads too.
	Payloads bool
	// After is where the page before ended; zero: from the top.
	After ItemPlace
	Limit int
}

// ItemPlace is a position in the order of Items.
type ItemPlace struct {
	// Ended: the position is among the items that have left, behind those that wait.
	Ended bool `json:",omitempty"`
	// At is the item's place in the queue, or when it left, in microseconds. With Ended, 0 is
	// before all items that have left.
	At int64
	ID job.ID
}

// IsZero reports whether it is the top.
func (p ItemPlace) IsZero() bool { return p == ItemPlace{} }

func (p ItemPlace) compare(other ItemPlace) int {
	switch {
	case p.At < other.At:
		return -1
	case p.At > other.At:
		return 1
	default:
		return slices.Compare(p.ID[:], other.ID[:])
	}
}

// ItemPage is one page of items. It may have fewer items than the limit, or none, even if
// more follow.
type ItemPage struct {
	Items []ScheduleItem
	// Next is where to read on after; zero: there are no more.
	Next ItemPlace
	// Waiting is the number of waiting items.
	Waiting int
}

// ItemList builds a page of items, for engines. It adds waiting items by itself, and an
// engine adds those that have left, in their order.
type ItemList struct {
	q           ItemQuery
	limit, left int
	waiting     int
	at          ItemPlace
	ids         []job.ID
	bytes       int64
	// full: another item follows that does not fit on the page.
	full bool
}

// NewItemList begins a page of at most limit items of a queue.
func NewItemList(q ItemQuery, limit int, queue Queue) *ItemList {
	l := &ItemList{q: q, limit: limit, left: MaxItemScan, at: q.After}
	queue = queue.waiting(job.ID{})
	l.waiting = len(queue)
	if !q.After.Ended {
		for _, one := range queue {
			place := ItemPlace{At: one.Place, ID: one.ID}
			if q.After.IsZero() || q.After.compare(place) < 0 {
				if !l.Add(place, ItemWaiting, one.Size) {
					break
				}
			}
		}
		if !l.full {
			l.at = ItemPlace{Ended: true}
		}
	}
	return l
}

// Open reports whether the engine has to add items that have left, those after Place.
func (l *ItemList) Open() bool {
	asked := len(l.q.States) == 0 || slices.ContainsFunc(l.q.States, func(s ItemState) bool { return s != ItemWaiting })
	return asked && !l.full && l.left > 0
}

// Place returns the position that the page has reached.
func (l *ItemList) Place() ItemPlace { return l.at }

// Add adds the next item in the order of Items, and reports whether the page may take another
// one.
func (l *ItemList) Add(place ItemPlace, state ItemState, size int64) bool {
	if l.left == 0 {
		return false
	}
	if len(l.q.States) == 0 || slices.Contains(l.q.States, state) {
		if l.q.Payloads {
			l.bytes += size
		}
		if l.full = len(l.ids) == l.limit || len(l.ids) > 0 && l.bytes > MaxItemPage; l.full {
			return false
		}
		l.ids = append(l.ids, place.ID)
	}
	if l.at = place; place.Ended {
		l.left--
	}
	return true
}

// IDs returns the items of the page.
func (l *ItemList) IDs() []job.ID { return l.ids }

// Waiting returns the number of waiting items.
func (l *ItemList) Waiting() int { return l.waiting }

// Next returns where the next page begins; zero: there is none.
func (l *ItemList) Next() ItemPlace {
	if !l.full && l.left > 0 {
		return ItemPlace{}
	}
	return l.at
}
