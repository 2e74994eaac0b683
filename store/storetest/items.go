package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var itemTests = []test{
	{"add, read and repeat", itemAdd},
	{"what is refused", itemIllegal},
	{"the order of a queue", itemOrder},
	{"room between two", itemRoom},
	{"every move", itemMoves},
	{"a change", itemChange},
	{"a quota", itemQuota},
	{"a quota of bytes", itemBytes},
	{"pages", itemPages},
	{"pages with payloads", itemPayloads},
	{"a firing takes an item", itemTaken},
	{"what a decision has of a queue", itemHead},
	{"a decision that contradicts itself", itemContradiction},
	{"a firing that is there takes nothing", itemRepeat},
	{"an item that is refused", itemRefused},
	{"refusals in a row", itemRefusals},
	{"a decision that is not written", itemRolledBack},
	{"one item is one job, under many callers", itemConcurrent},
	{"changes and firings at once", itemRaces},
	{"a deleted schedule", itemsDeleted},
	{"the day of a schedule", itemDay},
}

// item adds an item to a schedule.
func (f *fixture) item(of store.Schedule, edit ...func(*store.NewItem)) store.ScheduleItem {
	f.Helper()
	i, created, err := f.s.AddItem(f.ctx, f.newItem(of, edit...))
	f.ok(err)
	f.is(created, true, "created")
	return i
}

func (f *fixture) newItem(of store.Schedule, edit ...func(*store.NewItem)) store.NewItem {
	id := f.id()
	n := store.NewItem{Project: of.Project, Item: store.ScheduleItem{
		ID: id, Schedule: of.ID, Key: "item-" + id.String(), Payload: []byte("content " + id.String()), PayloadKind: "webhook", CreatedBy: "ann",
	}}
	for _, e := range edit {
		e(&n)
	}
	return n
}

func (f *fixture) queued() store.Schedule {
	f.Helper()
	return f.schedule(func(s *store.Schedule) { s.Queued = true })
}

func (f *fixture) readItem(of store.Schedule, id job.ID) store.ScheduleItem {
	f.Helper()
	i, err := f.s.Item(f.ctx, store.ItemRef{Project: of.Project, Schedule: of.ID, ID: id})
	f.ok(err)
	return i
}

func (f *fixture) changeItem(i store.ScheduleItem, edit func(*store.ItemChange)) store.ScheduleItem {
	f.Helper()
	c := changeOf(i, edit)
	c.Version = i.Version
	out, err := f.s.ChangeItem(f.ctx, c)
	f.ok(err)
	return out
}

func changeOf(i store.ScheduleItem, edit func(*store.ItemChange)) store.ItemChange {
	c := store.ItemChange{Ref: store.ItemRef{Project: project, Schedule: i.Schedule, ID: i.ID}, Actor: "bob"}
	edit(&c)
	return c
}

func removal(c *store.ItemChange) { c.Remove = true }

// items are the items of a schedule that are in some states, without payloads.
func (f *fixture) items(of store.Schedule, states ...store.ItemState) []store.ScheduleItem {
	f.Helper()
	q := store.ItemQuery{Project: of.Project, Schedule: of.ID, States: states}
	var out []store.ScheduleItem
	for range 100 {
		p, err := f.s.Items(f.ctx, q)
		f.ok(err)
		out = append(out, p.Items...)
		if q.After = p.Next; q.After.IsZero() {
			return out
		}
	}
	f.Fatal("the list has no end")
	return nil
}

func itemIDs(items []store.ScheduleItem) (ids []job.ID) {
	for _, i := range items {
		ids = append(ids, i.ID)
	}
	return ids
}

// take fires the next name with the first item, if there is one.
func (f *fixture) take(d store.DueSchedule) store.FireDecision {
	out := f.beat(d)
	if len(d.Items) == 0 {
		out.Firings[0].Job, out.Firings[0].Firing.Run, out.Firings[0].Firing.Outcome = nil, 0, store.FiringNoContent
		out.Schedule.Run, out.Schedule.Counts = d.Schedule.Run, d.Schedule.Counts
		out.Schedule.Counts.NoContent++
		return out
	}
	f.takes(&out.Firings[0], d.Items[0])
	return out
}

func (f *fixture) takes(one *store.FiringDecision, i store.ScheduleItem) {
	one.Item, one.Job.Spec.Payload, one.Job.Spec.PayloadKind, one.Job.Spec.Labels = i.ID, i.Payload, i.PayloadKind, i.Labels
}

func itemAdd(f *fixture) {
	s := f.queued()
	n := f.newItem(s, func(n *store.NewItem) { n.Item.Labels = map[string]string{"a": "b"} })
	i, created, err := f.s.AddItem(f.ctx, n)
	f.ok(err)
	want := n.Item
	want.Version, want.State, want.Position, want.Created, want.Updated, want.UpdatedBy = 1, store.ItemWaiting, 1, start, start, "ann"
	f.is([]any{i, created}, []any{want, true}, "added")
	for _, ref := range []store.ItemRef{
		{Project: project, Schedule: s.ID, ID: i.ID}, {Schedule: s.ID, ID: i.ID}, {Project: project, Schedule: s.ID, Key: i.Key},
	} {
		got, err := f.s.Item(f.ctx, ref)
		f.ok(err)
		f.is(got, want, "read")
	}
	other := f.queued()
	for _, ref := range []store.ItemRef{
		{Project: "other", Schedule: s.ID, ID: i.ID}, {Project: project, Schedule: other.ID, ID: i.ID},
		{Project: project, Schedule: other.ID, Key: i.Key}, {Project: project, Schedule: s.ID, ID: f.id()},
	} {
		f.fails(second(f.s.Item(f.ctx, ref)), store.ErrNotFound)
	}
	again := n
	again.Item.ID, again.Item.Payload = f.id(), []byte("another")
	repeat := func(what string, want store.ScheduleItem) {
		f.Helper()
		got, created, err := f.s.AddItem(f.ctx, again)
		f.ok(err)
		f.is([]any{got, created}, []any{want, false}, "repeat of %s", what)
	}
	repeat("one that waits", want)
	f.item(other, func(n *store.NewItem) { n.Item.Key = i.Key }) // another schedule's
	gone := f.changeItem(i, removal)
	repeat("one that is removed", gone)
	again = f.newItem(s)
	used := f.item(s, func(n *store.NewItem) { n.Item.Key = again.Item.Key })
	f.changeSchedule(f.readSchedule(other.ID), func(s *store.Schedule) { s.Next = time.Time{} })
	f.ok(f.fired(f.take).Err)
	repeat("one that is used", f.readItem(s, used.ID))
}

func itemIllegal(f *fixture) {
	s := f.queued()
	for name, tt := range map[string]struct {
		edit func(*store.NewItem)
		want error
	}{
		"another project":  {func(n *store.NewItem) { n.Project = "other" }, store.ErrNotFound},
		"another schedule": {func(n *store.NewItem) { n.Item.Schedule = f.id() }, store.ErrNotFound},
		"no key":           {func(n *store.NewItem) { n.Item.Key = "" }, store.ErrIllegal},
		"no id":            {func(n *store.NewItem) { n.Item.ID = job.ID{} }, store.ErrIllegal},
		"a long payload":   {func(n *store.NewItem) { n.Item.Payload = make([]byte, job.MaxPayload+1) }, store.ErrIllegal},
	} {
		if _, created, err := f.s.AddItem(f.ctx, f.newItem(s, tt.edit)); !errors.Is(err, tt.want) || created {
			f.Errorf("%s: %v", name, err)
		}
	}
	f.is(len(f.items(s)), 0, "items")
	gone := f.changeSchedule(s, func(s *store.Schedule) { s.State = store.ScheduleDeleted })
	_, _, err := f.s.AddItem(f.ctx, f.newItem(gone))
	f.fails(err, store.ErrIllegal)
}

// itemOrder: after every sequence of adding, moving, removing and taking, the queue has the
// order of a list with the same changes.
func itemOrder(f *fixture) {
	s := f.queued()
	r := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a test
	var want []job.ID
	for step := range 120 {
		at := 0
		if len(want) > 0 {
			at = r.IntN(len(want))
		}
		switch n := r.IntN(7); {
		case len(want) < 3 || n == 0:
			want = append(want, f.item(s).ID)
		case n == 1:
			want = slices.Insert(want, 0, f.item(s, func(n *store.NewItem) { n.Front = true }).ID)
		case n == 2:
			f.changeItem(f.readItem(s, want[at]), removal)
			want = slices.Delete(want, at, at+1)
		case n == 3:
			f.fired(f.take)
			want = want[1:]
			f.clock.advance(time.Minute)
		default:
			id, to := want[at], store.ItemTarget{}
			rest := slices.Delete(slices.Clone(want), at, at+1)
			place := len(rest)
			switch r.IntN(4) {
			case 0:
				to.Front, place = true, 0
			case 1: // the end
			default:
				place = r.IntN(len(rest))
				to.Before = rest[place]
			}
			want = slices.Insert(rest, place, id)
			moved := f.changeItem(f.readItem(s, id), func(c *store.ItemChange) { c.To = &to })
			f.is(moved.Position, place+1, "step %d: position", step)
		}
		got := f.items(s, store.ItemWaiting)
		f.is(itemIDs(got), want, "step %d: queue", step)
		for i, one := range got {
			f.is(one.Position, i+1, "step %d: position", step)
		}
	}
}

// itemRoom: repeated moves to one place always succeed.
func itemRoom(f *fixture) {
	s := f.queued()
	var want []job.ID
	for range 4 {
		want = append(want, f.item(s).ID)
	}
	versions := f.readItem(s, want[3]).Version
	for range 60 { // the last one goes behind the first
		last := want[2]
		f.changeItem(f.readItem(s, last), func(c *store.ItemChange) { c.To = &store.ItemTarget{Before: want[1]} })
		want = []job.ID{want[0], last, want[1], want[3]}
		f.is(itemIDs(f.items(s, store.ItemWaiting)), want, "queue")
	}
	f.is(f.readItem(s, want[3]).Version, versions, "version of one that others moved around")
	f.is(f.changeItem(f.readItem(s, want[1]), func(c *store.ItemChange) { c.To = &store.ItemTarget{Before: want[1]} }).Position, 2, "before itself")
}

func itemMoves(f *fixture) {
	s := f.queued()
	in := func(state store.ItemState) store.ScheduleItem {
		f.Helper()
		i := f.item(s)
		switch state {
		case store.ItemUsed:
			f.ok(f.fired(f.take).Err)
		case store.ItemRefused:
			f.ok(f.fired(f.refuse).Err)
		case store.ItemRemoved:
			f.changeItem(i, removal)
		case store.ItemWaiting:
		}
		f.clock.advance(time.Minute)
		return f.readItem(s, i.ID)
	}
	for _, from := range store.ItemStates {
		for to, edit := range map[store.ItemState]func(*store.ItemChange){
			store.ItemRemoved: removal,
			store.ItemWaiting: func(c *store.ItemChange) { c.Content = &store.ItemContent{Payload: []byte("x")} },
		} {
			i := in(from)
			f.is(i.State, from, "state")
			got, err := f.s.ChangeItem(f.ctx, changeOf(i, edit))
			switch {
			case from == store.ItemRemoved && to == from:
				f.ok(err)
				f.is(got, i, "removed again")
			case from.Next(to):
				f.ok(err)
				f.is([]any{got.State, got.Version}, []any{to, i.Version + 1}, "changed")
				f.changeItem(got, removal)
			default:
				f.fails(err, store.ErrIllegal)
				f.is(f.readItem(s, i.ID), i, "after a refused change")
			}
		}
		i := in(from)
		_, err := f.s.ChangeItem(f.ctx, changeOf(i, func(c *store.ItemChange) { c.To = &store.ItemTarget{} }))
		f.is(errors.Is(err, store.ErrIllegal), from != store.ItemWaiting, "moved in state %d: %v", from, err)
		if from == store.ItemWaiting {
			f.changeItem(f.readItem(s, i.ID), removal)
		}
	}
}

// refuse refuses the first item.
func (f *fixture) refuse(d store.DueSchedule) store.FireDecision {
	s := d.Schedule
	s.Next = d.Now.Add(time.Minute)
	return store.FireDecision{Schedule: s, RefusedItems: []store.RefusedItem{{Item: d.Items[0].ID, Reason: "too long"}}}
}

func itemChange(f *fixture) {
	s := f.queued()
	first, i := f.item(s), f.item(s)
	f.clock.advance(time.Second)
	content := store.ItemContent{Payload: []byte("new"), PayloadKind: "post", Labels: map[string]string{"x": "y"}}
	next := f.changeItem(i, func(c *store.ItemChange) { c.Content = &content })
	want := i
	want.Payload, want.PayloadKind, want.Labels = content.Payload, "post", content.Labels
	want.Version, want.Updated, want.UpdatedBy = 2, start.Add(time.Second), "bob"
	f.is(next, want, "changed")
	f.is(f.readItem(s, i.ID), want, "read")
	moved := f.changeItem(next, func(c *store.ItemChange) { c.To = &store.ItemTarget{Front: true} })
	want.Version, want.Position = 3, 1
	f.is(moved, want, "moved")
	f.is(f.readItem(s, first.ID).Position, 2, "the other one")
	gone := f.changeItem(moved, removal)
	f.is([]any{gone.State, gone.Payload == nil, gone.Labels == nil, gone.Ended, gone.Position, gone.Version},
		[]any{store.ItemRemoved, true, true, start.Add(time.Second), 0, int64(4)}, "removed")
	f.is(f.readItem(s, i.ID), gone, "read")
	for name, tt := range map[string]struct {
		edit func(*store.ItemChange)
		want error
	}{
		"an old version":   {func(c *store.ItemChange) { c.Version, c.To = 7, &store.ItemTarget{} }, store.ErrStale},
		"nothing":          {func(*store.ItemChange) {}, store.ErrIllegal},
		"two things":       {func(c *store.ItemChange) { c.To, c.Remove = &store.ItemTarget{}, true }, store.ErrIllegal},
		"before no item":   {func(c *store.ItemChange) { c.To = &store.ItemTarget{Before: f.id()} }, store.ErrIllegal},
		"before a removed": {func(c *store.ItemChange) { c.To = &store.ItemTarget{Before: gone.ID} }, store.ErrIllegal},
		"a long payload": {func(c *store.ItemChange) {
			c.Content = &store.ItemContent{Payload: make([]byte, job.MaxPayload+1)}
		}, store.ErrIllegal},
		"another project":  {func(c *store.ItemChange) { c.Ref.Project, c.Remove = "other", true }, store.ErrNotFound},
		"another schedule": {func(c *store.ItemChange) { c.Ref.Schedule, c.Remove = f.queued().ID, true }, store.ErrNotFound},
	} {
		if _, err := f.s.ChangeItem(f.ctx, changeOf(first, tt.edit)); !errors.Is(err, tt.want) {
			f.Errorf("%s: %v", name, err)
		}
	}
	want = first
	f.is(f.readItem(s, first.ID), want, "after refusals")
}

// itemRefusals: what decisions count is kept until a caller changes the schedule.
func itemRefusals(f *fixture) {
	s := f.schedule(func(s *store.Schedule) { s.Queued, s.RefusedInRow = true, 7 })
	f.is(f.readSchedule(s.ID).RefusedInRow, int64(0), "of a new one")
	f.item(s)
	out := f.fired(func(d store.DueSchedule) store.FireDecision {
		f.is(d.Schedule.RefusedInRow, int64(0), "of the one that is decided about")
		out := f.refuse(d)
		out.Schedule.RefusedInRow = 3
		return out
	})
	f.ok(out.Err)
	f.is(out.Schedule.RefusedInRow, int64(3), "as it was written")
	got := f.readSchedule(s.ID)
	f.is(got.RefusedInRow, int64(3), "as it is stored")
	page, err := f.s.ListSchedules(f.ctx, store.ScheduleQuery{Project: project})
	f.ok(err)
	f.is(page.Schedules[0].RefusedInRow, int64(3), "as it is listed")
	f.clock.advance(time.Minute)
	f.fails(f.fired(func(d store.DueSchedule) store.FireDecision {
		out := f.beat(d)
		out.Schedule.RefusedInRow = -1
		return out
	}).Err, store.ErrIllegal)
	f.is(f.changeSchedule(got, func(s *store.Schedule) { s.RefusedInRow = 9 }).RefusedInRow, int64(0), "after a change")
	f.is(f.readSchedule(s.ID).RefusedInRow, int64(0), "as it is stored after a change")
}

func itemQuota(f *fixture) {
	s := f.queued()
	add := func(edit ...func(*store.NewItem)) (store.ScheduleItem, error) {
		n := f.newItem(s, edit...)
		n.Most = 2
		i, _, err := f.s.AddItem(f.ctx, n)
		return i, err
	}
	first, err := add()
	f.ok(err)
	refused, err := add(func(n *store.NewItem) { n.Front = true })
	f.ok(err)
	f.ok(f.fired(f.refuse).Err)
	f.is(f.readItem(s, refused.ID).State, store.ItemRefused, "state")
	_, err = add()
	f.full(err, 2) // a refused one has its content
	_, err = add(func(n *store.NewItem) { n.Item.Key = first.Key })
	f.ok(err) // a repeat
	f.changeItem(f.readItem(s, refused.ID), removal)
	_, err = add()
	f.ok(err)
	f.clock.advance(time.Minute)
	f.ok(f.fired(f.take).Err)
	var mu sync.Mutex
	added := 0
	together(crowd, func(int) {
		_, err := add()
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			added++
		case !errors.Is(err, store.ErrQuota):
			f.Error(err)
		}
	})
	f.is(added, 1, "added")
}

func itemBytes(f *fixture) {
	s := f.queued()
	large := func(n *store.NewItem) { n.Item.Payload = make([]byte, job.MaxPayload) }
	const most = store.MaxItemsBytes / job.MaxPayload
	var last store.ScheduleItem
	for range most {
		last = f.item(s, large)
	}
	_, _, err := f.s.AddItem(f.ctx, f.newItem(s))
	f.fails(err, store.ErrQuota)
	last = f.changeItem(last, func(c *store.ItemChange) { c.Content = &store.ItemContent{Payload: make([]byte, job.MaxPayload-100)} })
	f.item(s, func(n *store.NewItem) { n.Item.Payload = make([]byte, 100) })
	_, err = f.s.ChangeItem(f.ctx, changeOf(last, func(c *store.ItemChange) {
		c.Content = &store.ItemContent{Payload: make([]byte, job.MaxPayload)}
	}))
	f.fails(err, store.ErrQuota)
	f.changeSchedule(f.readSchedule(s.ID), func(s *store.Schedule) { s.State = store.ScheduleDeleted })
	f.is(len(f.items(s, store.ItemRemoved)), most+1, "removed")
}

func itemPages(f *fixture) {
	s := f.queued()
	var waiting, ended []job.ID
	for n := range 11 {
		i := f.item(s)
		switch n % 4 {
		case 0, 1:
			waiting = append(waiting, i.ID)
			continue
		case 2:
			f.changeItem(i, removal)
		case 3:
			f.changeItem(i, func(c *store.ItemChange) { c.To = &store.ItemTarget{Front: true} })
			f.ok(f.fired(f.take).Err)
			f.clock.advance(time.Minute)
		}
		if n%3 == 0 {
			f.clock.advance(time.Second)
		}
		ended = append(ended, i.ID)
	}
	of := make(map[job.ID]store.ScheduleItem)
	for _, id := range append(slices.Clone(waiting), ended...) {
		of[id] = f.readItem(s, id)
	}
	slices.SortFunc(ended, func(a, b job.ID) int {
		if n := of[b].Ended.Compare(of[a].Ended); n != 0 {
			return n
		}
		return slices.Compare(b[:], a[:])
	})
	for _, states := range [][]store.ItemState{nil, {store.ItemWaiting}, {store.ItemUsed}, {store.ItemRemoved, store.ItemWaiting}, {store.ItemRefused}} {
		for _, limit := range []int{0, 1, 2, 5, 6} {
			q := store.ItemQuery{Project: project, Schedule: s.ID, States: states, Limit: limit}
			var got, want []store.ScheduleItem
			for range 30 {
				p, err := f.s.Items(f.ctx, q)
				f.ok(err)
				f.is(p.Waiting, len(waiting), "number that waits")
				f.is(limit == 0 || len(p.Items) <= limit, true, "a page has its limit")
				got = append(got, p.Items...)
				if q.After = p.Next; q.After.IsZero() {
					break
				}
			}
			f.is(q.After.IsZero(), true, "the list ends")
			for _, id := range append(slices.Clone(waiting), ended...) {
				i := of[id]
				if i.Payload = nil; len(states) == 0 || slices.Contains(states, i.State) {
					want = append(want, i)
				}
			}
			f.is(got, want, "items in states %v, %d a page", states, limit)
		}
	}
	for _, q := range []store.ItemQuery{{Project: "other", Schedule: s.ID}, {Project: project, Schedule: f.id()}} {
		f.fails(second(f.s.Items(f.ctx, q)), store.ErrNotFound)
	}
}

func itemPayloads(f *fixture) {
	s := f.queued()
	var want []store.ScheduleItem
	for range store.MaxItemPage/job.MaxPayload + 2 {
		want = append(want, f.item(s, func(n *store.NewItem) { n.Item.Payload = make([]byte, job.MaxPayload-1) }))
	}
	q := store.ItemQuery{Project: project, Schedule: s.ID, Payloads: true}
	p, err := f.s.Items(f.ctx, q)
	f.ok(err)
	f.is(len(p.Items), store.MaxItemPage/job.MaxPayload, "items of a page")
	q.After = p.Next
	rest, err := f.s.Items(f.ctx, q)
	f.ok(err)
	f.is(append(p.Items, rest.Items...), want, "items")
	f.is(rest.Next.IsZero(), true, "the list ends")
}

func itemTaken(f *fixture) {
	s := f.queued()
	first := f.item(s, func(n *store.NewItem) { n.Item.Labels = map[string]string{"a": "b"} })
	next := f.item(s)
	got := f.fired(f.take)
	f.ok(got.Err)
	made := got.Firings[0].Job.Snapshot
	j := f.job(made.ID)
	f.is([]any{string(j.Payload), j.Labels}, []any{string(first.Payload), first.Labels}, "job")
	used := f.readItem(s, first.ID)
	want := first
	want.State, want.Version, want.Position, want.Payload, want.Labels = store.ItemUsed, 2, 0, nil, nil
	want.Firing, want.Job, want.Updated, want.Ended = "i:0", made.ID, start, start
	f.is(used, want, "used")
	f.is(f.readItem(s, next.ID).Position, 1, "the next one")
	f.clock.advance(time.Minute)
	f.ok(f.fired(f.take).Err)
	f.clock.advance(time.Minute)
	empty := f.fired(f.take)
	f.ok(empty.Err)
	f.is([]any{empty.Schedule.Counts.NoContent, f.readSchedule(s.ID).Counts}, []any{int64(1), empty.Schedule.Counts}, "counts")
	f.is(f.firings(s.ID)[0].Outcome, store.FiringNoContent, "outcome")
	f.is(len(f.jobsOf(s.ID)), 2, "jobs")
}

func itemHead(f *fixture) {
	plain := f.schedule()
	f.item(plain)
	f.fired(func(d store.DueSchedule) store.FireDecision {
		f.is([]any{len(d.Items), d.MoreItems}, []any{0, false}, "items of a schedule without a queue")
		d.Schedule.Next = time.Time{}
		return store.FireDecision{Schedule: d.Schedule}
	})
	s := f.queued()
	var want []store.ScheduleItem
	for range store.MaxDueItems + 1 {
		i := f.item(s)
		i.Position = 0
		want = append(want, i)
	}
	look := func(want []store.ScheduleItem, more bool) {
		f.Helper()
		f.fired(func(d store.DueSchedule) store.FireDecision {
			f.is(d.Items, want, "items")
			f.is(d.MoreItems, more, "more")
			d.Schedule.Next = d.Now.Add(time.Second)
			return store.FireDecision{Schedule: d.Schedule}
		})
		f.clock.advance(time.Second)
	}
	look(want[:store.MaxDueItems], true)
	f.changeItem(want[0], removal)
	look(want[1:], false)
	for _, i := range want[2:] {
		f.changeItem(i, removal)
	}
	want = want[1:2]
	for range store.MaxDueItemBytes / job.MaxPayload {
		i := f.item(s, func(n *store.NewItem) { n.Item.Payload = make([]byte, job.MaxPayload) })
		i.Position = 0
		want = append(want, i)
	}
	look(want[:len(want)-1], true)
}

func itemContradiction(f *fixture) {
	s := f.queued()
	used := f.item(s)
	f.ok(f.fired(f.take).Err)
	f.item(s)
	second := f.item(s)
	removed := f.changeItem(f.item(s), removal)
	before := f.readSchedule(s.ID)
	for name, edit := range map[string]func(store.DueSchedule, *store.FireDecision){
		"an item twice": func(due store.DueSchedule, d *store.FireDecision) {
			d.Firings = append(d.Firings, f.making(due, "x"))
			f.takes(&d.Firings[1], due.Items[0])
		},
		"an item without a job": func(due store.DueSchedule, d *store.FireDecision) {
			d.Firings[0].Job, d.Firings[0].Firing.Outcome = nil, store.FiringMissed
		},
		"a used item":    func(_ store.DueSchedule, d *store.FireDecision) { d.Firings[0].Item = used.ID },
		"a removed item": func(_ store.DueSchedule, d *store.FireDecision) { d.Firings[0].Item = removed.ID },
		"no item":        func(_ store.DueSchedule, d *store.FireDecision) { d.Firings[0].Item = f.id() },
		"taken and refused": func(due store.DueSchedule, d *store.FireDecision) {
			d.RefusedItems = []store.RefusedItem{{Item: due.Items[0].ID}}
		},
		"refused twice": func(_ store.DueSchedule, d *store.FireDecision) {
			d.RefusedItems = []store.RefusedItem{{Item: second.ID}, {Item: second.ID}}
		},
	} {
		f.clock.advance(time.Minute)
		got := f.fired(func(due store.DueSchedule) store.FireDecision {
			d := f.take(due)
			edit(due, &d)
			return d
		})
		if !errors.Is(got.Err, store.ErrIllegal) {
			f.Errorf("%s: %v", name, got.Err)
		}
	}
	after := f.readSchedule(s.ID)
	after.PostponedUntil, after.RefusedDecisions = time.Time{}, 0
	f.is(after, before, "schedule")
	f.is([]int{len(f.jobsOf(s.ID)), len(f.items(s, store.ItemWaiting)), len(f.items(s, store.ItemUsed))}, []int{1, 2, 1}, "jobs, waiting, used")
}

// itemRepeat: a firing that was decided before, and one whose key is bound, leave their item.
func itemRepeat(f *fixture) {
	s := f.queued()
	f.item(s)
	f.ok(f.fired(f.take).Err)
	waits := f.item(s)
	f.clock.advance(time.Minute)
	again := func(d store.DueSchedule) store.FireDecision {
		out := f.take(d)
		out.Firings[0].Firing.Name = "i:0"
		return out
	}
	got := f.fired(again)
	f.ok(got.Err)
	f.is(got.Firings[0].Repeat, true, "repeat")
	f.is(f.readItem(s, waits.ID), waits, "after a repeat")
	bound := f.submit(func(n *store.NewJob) { n.Spec.Key = store.FiringKey(s.ID, "i:2") })
	f.clock.advance(time.Minute)
	got = f.fired(f.take)
	f.ok(got.Err)
	f.is(got.Firings[0].Firing.Job, bound.ID, "job")
	f.is(f.readItem(s, waits.ID), waits, "after a bound key")
	f.clock.advance(time.Minute)
	f.ok(f.fired(f.take).Err)
	f.is(f.readItem(s, waits.ID).Firing, "i:3", "firing")
}

func itemRefused(f *fixture) {
	s := f.queued()
	bad, good := f.item(s), f.item(s)
	got := f.fired(func(d store.DueSchedule) store.FireDecision {
		out := f.take(d)
		f.takes(&out.Firings[0], d.Items[1])
		out.RefusedItems = []store.RefusedItem{{Item: d.Items[0].ID, Reason: "too long"}}
		return out
	})
	f.ok(got.Err)
	want := bad
	want.State, want.Version, want.Position, want.Reason, want.Ended = store.ItemRefused, 2, 0, "too long", start
	f.is(f.readItem(s, bad.ID), want, "refused")
	f.is(f.readItem(s, good.ID).State, store.ItemUsed, "the next one")
	gone := f.changeItem(want, removal)
	f.is([]any{gone.State, gone.Payload == nil, gone.Reason, gone.Ended}, []any{store.ItemRemoved, true, "", start}, "removed")
}

// itemRolledBack: an item of a decision that the database refuses keeps waiting.
func itemRolledBack(f *fixture) {
	taken := f.submit()
	s := f.queued()
	i, next := f.item(s), f.item(s)
	f.fails(f.fired(func(d store.DueSchedule) store.FireDecision {
		out := f.take(d)
		out.Firings[0].Job.Spec.ID = taken.ID
		out.RefusedItems = []store.RefusedItem{{Item: next.ID}}
		return out
	}).Err, store.ErrIllegal)
	f.is([]store.ScheduleItem{f.readItem(s, i.ID), f.readItem(s, next.ID)}, []store.ScheduleItem{i, next}, "items")
	f.clock.advance(store.BufferedLook)
	f.ok(f.fired(f.take).Err)
	f.is(f.readItem(s, i.ID).State, store.ItemUsed, "state after the retry")
}

// itemConcurrent: with concurrent decisions by time and by triggers, each item is one job,
// and each job one item.
func itemConcurrent(f *fixture) {
	var all []store.Schedule
	const beats = 4
	for range 2 {
		s := f.queued()
		all = append(all, s)
		for range 3 * crowd {
			f.item(s)
		}
	}
	for beat := range beats {
		together(crowd, func(i int) {
			p := store.FireParams{Decide: f.take}
			if i%2 == 0 {
				of := all[i/2%len(all)]
				p.Only = store.Ref{Project: project, ID: of.ID}
				p.Decide = func(d store.DueSchedule) store.FireDecision {
					out := store.FireDecision{Schedule: d.Schedule, Firings: []store.FiringDecision{
						f.making(d, fmt.Sprint("t:", beat, "-", i)), f.making(d, fmt.Sprint("t:", beat)),
					}}
					for n := range out.Firings {
						f.takes(&out.Firings[n], d.Items[n])
					}
					return out
				}
			}
			out, _, err := f.s.Fire(f.ctx, p)
			if err != nil {
				f.Error(err)
			}
			for _, one := range out {
				if one.Err != nil {
					f.Error(one.Err)
				}
			}
		})
		f.fire(f.take)
		f.clock.advance(time.Minute)
	}
	for _, s := range all {
		f.eachOnce(s, 3*crowd)
	}
}

// eachOnce checks that each item of a schedule was taken by one job, which has its content,
// and that they were taken in their order.
func (f *fixture) eachOnce(s store.Schedule, added int) {
	f.Helper()
	jobs := make(map[job.ID]job.Snapshot)
	for _, j := range f.jobsOf(s.ID) {
		jobs[j.ID] = f.job(j.ID)
	}
	used, waiting := f.items(s, store.ItemUsed), f.items(s, store.ItemWaiting)
	f.is(len(used), len(jobs), "a job for each used item")
	f.is(len(used)+len(waiting)+len(f.items(s, store.ItemRemoved)), added, "items")
	for _, i := range used {
		j, ok := jobs[i.Job]
		f.is(ok, true, "job of item %s is the schedule's, and nobody else's", i.ID)
		f.is(strings.HasSuffix(string(j.Payload), i.ID.String()), true, "job %s has the content of item %s", j.ID, i.ID)
		f.is(j.Key, store.FiringKey(s.ID, i.Firing), "firing")
		delete(jobs, i.Job)
		for _, w := range waiting {
			f.is(slices.Compare(w.ID[:], i.ID[:]) > 0, true, "an item waits that came before one that was taken")
		}
	}
}

// itemRaces: items that are removed, moved and changed while they are taken are taken once,
// or not at all.
func itemRaces(f *fixture) {
	s := f.queued()
	const added = 30
	var ids []job.ID
	for range added {
		ids = append(ids, f.item(s).ID)
	}
	together(crowd, func(i int) {
		for n := range 5 {
			var err error
			ref := store.ItemRef{Project: project, Schedule: s.ID, ID: ids[(i*7+n*3)%added]}
			switch i % 3 {
			case 0:
				_, _, err = f.s.Fire(f.ctx, store.FireParams{Decide: func(d store.DueSchedule) store.FireDecision {
					out := f.take(d)
					out.Schedule.Next = d.Now
					return out
				}})
			case 1:
				_, err = f.s.ChangeItem(f.ctx, store.ItemChange{Ref: ref, Remove: true})
			default:
				_, err = f.s.ChangeItem(f.ctx, store.ItemChange{Ref: ref, To: &store.ItemTarget{Front: n%2 == 0}})
			}
			if err != nil && !errors.Is(err, store.ErrIllegal) {
				f.Error(err)
			}
		}
	})
	jobs := make(map[job.ID]bool)
	for _, j := range f.jobsOf(s.ID) {
		jobs[j.ID] = true
	}
	for _, i := range f.items(s, store.ItemUsed) {
		f.is(jobs[i.Job], true, "job of item %s", i.ID)
		delete(jobs, i.Job)
	}
	f.is(len(jobs), 0, "jobs without an item")
	f.is(len(f.items(s)), added, "items")
}

func itemsDeleted(f *fixture) {
	s := f.queued()
	used, refused, waits := f.item(s), f.item(s), f.item(s)
	f.ok(f.fired(f.take).Err)
	f.clock.advance(time.Minute)
	f.ok(f.fired(f.refuse).Err)
	was := f.readItem(s, used.ID)
	f.clock.advance(time.Second)
	now := start.Add(time.Minute + time.Second)
	f.changeSchedule(f.readSchedule(s.ID), func(s *store.Schedule) { s.State = store.ScheduleDeleted })
	f.is(f.readItem(s, used.ID), was, "the used one")
	for _, i := range []store.ScheduleItem{refused, waits} {
		got := f.readItem(s, i.ID)
		f.is([]any{got.State, got.Payload == nil, got.Reason, got.Updated}, []any{store.ItemRemoved, true, "", now}, "removed")
	}
	f.is([]time.Time{f.readItem(s, refused.ID).Ended, f.readItem(s, waits.ID).Ended}, []time.Time{start.Add(time.Minute), now}, "ended")
}

// itemDay: the count of a day's jobs does not fall.
func itemDay(f *fixture) {
	s := f.schedule()
	fire := func(day string, count int64) error {
		f.Helper()
		got := f.fired(func(d store.DueSchedule) store.FireDecision {
			out := f.beat(d)
			out.Schedule.Day, out.Schedule.DayCount = day, count
			out.Schedule.Counts.SkippedByLimit = count
			return out
		})
		f.clock.advance(time.Minute)
		return got.Err
	}
	f.ok(fire("2030-01-02", 2))
	got := f.readSchedule(s.ID)
	f.is([]any{got.Day, got.DayCount, got.Counts.SkippedByLimit}, []any{"2030-01-02", int64(2), int64(2)}, "day")
	f.fails(fire("2030-01-01", 3), store.ErrIllegal)
	f.fails(fire("2030-01-02", 1), store.ErrIllegal)
	f.ok(fire("2030-01-03", 0))
	kept := f.changeSchedule(f.readSchedule(s.ID), func(s *store.Schedule) { s.Day, s.DayCount, s.Queued = "", 0, true })
	f.is([]any{kept.Day, kept.DayCount, kept.Queued}, []any{"2030-01-03", int64(0), true}, "after a change")
	f.is(f.readSchedule(s.ID), kept, "read")
	p, err := f.s.ListSchedules(f.ctx, store.ScheduleQuery{Project: project})
	f.ok(err)
	kept.Template = nil
	f.is(p.Schedules[0], kept, "listed")
}
