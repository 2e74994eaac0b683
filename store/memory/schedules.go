package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// schedule is a schedule and its firings' outcomes, oldest first.
type schedule struct {
	store.Schedule
	firings []numbered
	last    int64
	items   []*item
}

// numbered is a firing and its place.
type numbered struct {
	store.Firing
	number int64
}

// CreateSchedule implements store.Store.
func (s *Store) CreateSchedule(ctx context.Context, n store.NewSchedule) (store.Schedule, bool, error) {
	created := false
	out, err := call(ctx, s, "create schedule", func(t *tx) (store.Schedule, error) {
		bound := key{n.Schedule.Project, n.Schedule.Key}
		if c, ok := t.scheduleKeys[bound]; ok {
			return c.Clone(), nil
		}
		next, err := n.Stored(t.now)
		if err != nil {
			return store.Schedule{}, err
		}
		if t.schedules[next.ID] != nil {
			return store.Schedule{}, fmt.Errorf("%w: the id %s is taken", store.ErrIllegal, next.ID)
		}
		if err := store.OneMore(t.holdings(next.Project).Schedules, n.Most); err != nil {
			return store.Schedule{}, err
		}
		c := &schedule{Schedule: next.Clone()}
		t.schedules[next.ID], t.scheduleKeys[bound] = c, c
		created = true
		t.hint[store.WatchSchedules] = true
		return next.Clone(), nil
	})
	return out, created, err
}

// scheduleOf finds a schedule of a project.
func (t *tx) scheduleOf(ref store.Ref) (*schedule, error) {
	c, ok := t.schedules[ref.ID]
	if ref.Key != "" {
		c, ok = t.scheduleKeys[key{ref.Project, ref.Key}]
	}
	if !ok || ref.Project != "" && c.Project != ref.Project {
		return nil, store.ErrNotFound
	}
	return c, nil
}

// Schedule implements store.Store.
func (s *Store) Schedule(ctx context.Context, ref store.Ref) (store.Schedule, error) {
	return call(ctx, s, "schedule", func(t *tx) (store.Schedule, error) {
		c, err := t.scheduleOf(ref)
		if err != nil {
			return store.Schedule{}, err
		}
		return c.Clone(), nil
	})
}

// ListSchedules implements store.Store.
func (s *Store) ListSchedules(ctx context.Context, q store.ScheduleQuery) (store.SchedulePage, error) {
	return call(ctx, s, "list schedules", func(t *tx) (store.SchedulePage, error) {
		var p store.SchedulePage
		var list []*schedule
		for _, c := range t.schedules {
			if c.Project == q.Project {
				list = append(list, c)
			}
		}
		newest := func(a, b *schedule) int {
			return cmp.Or(b.Created.Compare(a.Created), bytes.Compare(b.ID[:], a.ID[:]))
		}
		slices.SortFunc(list, newest)
		if !q.After.IsZero() {
			last, ok := t.schedules[q.After]
			if !ok {
				return p, store.ErrNotFound
			}
			list = slices.DeleteFunc(list, func(c *schedule) bool { return newest(c, last) <= 0 })
		}
		for i, c := range list {
			if i == q.MaxScan() {
				break
			}
			if !q.Selects(c.Schedule) {
				continue
			}
			if len(p.Schedules) == rules.Page(q.Limit) {
				p.Next = p.Schedules[len(p.Schedules)-1].ID
				return p, nil
			}
			listed := c.Clone()
			listed.Template = nil
			p.Schedules = append(p.Schedules, listed)
		}
		if len(list) >= q.MaxScan() {
			p.Next = list[q.MaxScan()-1].ID
		}
		return p, nil
	})
}

// ChangeSchedule implements store.Store.
func (s *Store) ChangeSchedule(ctx context.Context, c store.ScheduleChange) (store.Schedule, error) {
	return call(ctx, s, "change schedule", func(t *tx) (store.Schedule, error) {
		if err := t.refuseQuarantined(); err != nil {
			return store.Schedule{}, err
		}
		was, ok := t.schedules[c.Schedule.ID]
		if !ok || was.Project != c.Schedule.Project {
			return store.Schedule{}, store.ErrNotFound
		}
		if err := store.Settled(was.State, was.HeldUntil, c.Schedule.State); err != nil {
			return store.Schedule{}, err
		}
		return t.changeSchedule(was, c)
	})
}

// holdSchedules begins the lost time of all schedules: active ones are due for a decision
// now.
func (t *tx) holdSchedules() {
	for _, c := range t.schedules {
		if c.State == store.ScheduleDeleted {
			continue
		}
		c.HeldUntil = t.now
		c.Revision++
		if c.Queued && c.State != store.ScheduleActive {
			c.Version++
		}
		if c.State == store.ScheduleActive {
			c.Next, c.PostponedUntil = t.now, time.Time{}
		}
	}
}

func (t *tx) changeSchedule(was *schedule, c store.ScheduleChange) (store.Schedule, error) {
	next, err := c.Changed(was.Schedule, t.now)
	if err != nil {
		return store.Schedule{}, err
	}
	was.Schedule = next.Clone()
	for _, f := range c.Firings {
		f.Decided, f.Nominal = t.now, micros(f.Nominal)
		was.add(f)
	}
	if next.State == store.ScheduleDeleted {
		was.removeItems(t.now)
	}
	t.hint[store.WatchSchedules] = true
	return next.Clone(), nil
}

// add adds a firing, unless its name exists.
func (c *schedule) add(f store.Firing) {
	if _, known := c.firing(f.Name); !known {
		c.last++
		c.firings = append(c.firings, numbered{f, c.last})
	}
}

func (c *schedule) firing(name string) (store.Firing, bool) {
	for _, f := range c.firings {
		if f.Name == name {
			return f.Firing, true
		}
	}
	return store.Firing{}, false
}

// Firings implements store.Store.
func (s *Store) Firings(ctx context.Context, q store.FiringQuery) (store.FiringPage, error) {
	return call(ctx, s, "firings", func(t *tx) (store.FiringPage, error) {
		var p store.FiringPage
		c, err := t.scheduleOf(store.Ref{Project: q.Project, ID: q.Schedule})
		if err != nil {
			return p, err
		}
		before, seen := q.Before, 0
		for _, f := range slices.Backward(c.firings) {
			if q.Before > 0 && f.number >= q.Before {
				continue
			}
			if q.Selects(f.Firing) && len(p.Firings) == rules.Page(q.Limit) || seen == store.MaxFiringScan {
				p.Next = before
				break
			}
			if q.Selects(f.Firing) {
				p.Firings = append(p.Firings, f.Firing)
			}
			before, seen = f.number, seen+1
		}
		return p, nil
	})
}

// NextFiring implements store.Store.
func (s *Store) NextFiring(ctx context.Context, limit time.Duration, except []job.ID) (time.Duration, error) {
	return call(ctx, s, "next firing", func(t *tx) (time.Duration, error) {
		next := limit
		for _, c := range t.schedules {
			if at := c.DecisionTime(); !at.IsZero() && t.refuseClosed() == nil && !slices.Contains(except, c.ID) {
				next = min(next, max(0, at.Sub(t.now)))
			}
		}
		return next, nil
	})
}

// deleteSchedules deletes the schedules of a project, and removeSchedules removes them.
func (t *tx) deleteSchedules(project, actor string) error {
	for _, c := range t.schedules {
		if c.Project != project || c.State == store.ScheduleDeleted {
			continue
		}
		to := c.Clone()
		to.State = store.ScheduleDeleted
		if _, err := t.changeSchedule(c, store.ScheduleChange{Schedule: to, Actor: actor}); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) removeSchedules(project string, out *store.ProjectErasure) {
	for id, c := range t.schedules {
		if c.Project == project {
			out.Schedules++
			out.Firings += len(c.firings)
			delete(t.cooling, id)
			delete(t.schedules, id)
			delete(t.scheduleKeys, key{c.Project, c.Key})
		}
	}
}
