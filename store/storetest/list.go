package storetest

import (
	"cmp"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var listTests = []test{
	{"orders, ties and pages", listOrders},
	{"filters", listFilters},
	{"payloads are left out", listPayload},
	{"the position", listPosition},
	{"projects", listProjects},
}

// listed is one way through all jobs: its order, and the place in it.
var listed = []struct {
	name  string
	order store.Order
	place func(job.Snapshot) time.Time
	desc  bool
}{
	{"scheduled, latest first", store.ByScheduledDesc, func(s job.Snapshot) time.Time { return s.ScheduleTime }, true},
	{"scheduled, earliest first", store.ByScheduledAsc, func(s job.Snapshot) time.Time { return s.ScheduleTime }, false},
	{"created, newest first", store.ByCreatedDesc, func(s job.Snapshot) time.Time { return s.Created }, true},
	{"created, oldest first", store.ByCreatedAsc, func(s job.Snapshot) time.Time { return s.Created }, false},
}

func listOrders(f *fixture) {
	var all []job.Snapshot
	// Groups of jobs share their times, so pages end within ties.
	for i := range 4 {
		for range 5 {
			all = append(all, f.submit(at(start.Add(time.Duration((i*7)%4)*time.Hour))))
		}
		f.clock.advance(time.Second)
	}
	// The jobs of two states alternate in every order; a list of both states is the same as
	// without.
	for i := 0; i < len(all); i += 3 {
		f.apply(all[i], job.CancelAsked{})
	}
	for _, states := range [][]job.State{nil, {job.Scheduled, job.Canceled, job.Sending}} {
		listInOrder(f, all, states)
	}
}

// listInOrder reads all jobs in every order, by pages of every size.
func listInOrder(f *fixture, all []job.Snapshot, states []job.State) {
	f.Helper()
	for _, l := range listed {
		want := slices.Clone(all)
		slices.SortFunc(want, func(a, b job.Snapshot) int {
			c := cmp.Or(l.place(a).Compare(l.place(b)), slices.Compare(a.ID[:], b.ID[:]))
			if l.desc {
				return -c
			}
			return c
		})
		for _, size := range []int{1, 3, 7, 20, 500} {
			q := store.JobQuery{Project: project, Order: l.order, Limit: size, States: states}
			var got []job.ID
			for {
				p, err := f.s.List(f.ctx, q)
				f.ok(err)
				for _, s := range p.Jobs {
					got = append(got, s.ID)
				}
				f.is(p.More, len(got) < len(all), "%s by %d: more after %d", l.name, size, len(got))
				if !p.More {
					break
				}
				f.is(len(p.Jobs), size, "%s: page size", l.name)
				last := p.Jobs[len(p.Jobs)-1]
				q.AfterTime, q.AfterID = l.place(last), last.ID
			}
			f.is(got, ids(want), "%s by %d", l.name, size)
		}
	}
}

func ids(list []job.Snapshot) []job.ID {
	var out []job.ID
	for _, s := range list {
		out = append(out, s.ID)
	}
	return out
}

func listFilters(f *fixture) {
	other := f.connect(store.Connection{})
	schedule := f.id()
	labelled := func(l map[string]string) func(*store.NewJob) {
		return func(n *store.NewJob) { n.Spec.Labels = l }
	}
	a := f.submit(at(start.Add(1*time.Hour)), labelled(map[string]string{"team": "red", "we\"ird.$": "x"}))
	b := f.submit(at(start.Add(2*time.Hour)), on(other), labelled(map[string]string{"team": "red", "size": "1"}))
	c := f.submit(at(start.Add(3*time.Hour)), func(n *store.NewJob) { n.Spec.Schedule = schedule })
	d := f.submit(at(start.Add(4*time.Hour)), labelled(map[string]string{"team": "blue"}))
	f.apply(d, job.CancelAsked{})
	for _, tt := range []struct {
		name string
		q    store.JobQuery
		want []job.Snapshot
	}{
		{"all", store.JobQuery{}, []job.Snapshot{a, b, c, d}},
		{"one state", store.JobQuery{States: []job.State{job.Canceled}}, []job.Snapshot{d}},
		{"two states", store.JobQuery{States: []job.State{job.Canceled, job.Scheduled}}, []job.Snapshot{a, b, c, d}},
		{"no such state", store.JobQuery{States: []job.State{job.Sending}}, nil},
		{"connection", store.JobQuery{Connections: []job.ID{other.ID}}, []job.Snapshot{b}},
		{"connections", store.JobQuery{Connections: []job.ID{other.ID, f.conn.ID}}, []job.Snapshot{a, b, c, d}},
		{"jobs", store.JobQuery{Jobs: []job.ID{d.ID, a.ID, f.id()}}, []job.Snapshot{a, d}},
		{"schedule", store.JobQuery{Schedule: schedule}, []job.Snapshot{c}},
		{"from", store.JobQuery{ScheduleTimeFrom: b.ScheduleTime}, []job.Snapshot{b, c, d}},
		{"before", store.JobQuery{ScheduleTimeBefore: b.ScheduleTime}, []job.Snapshot{a}},
		{"from and before", store.JobQuery{ScheduleTimeFrom: b.ScheduleTime, ScheduleTimeBefore: d.ScheduleTime}, []job.Snapshot{b, c}},
		{"label", store.JobQuery{Labels: map[string]string{"team": "red"}}, []job.Snapshot{a, b}},
		{"labels", store.JobQuery{Labels: map[string]string{"team": "red", "size": "1"}}, []job.Snapshot{b}},
		{"odd label", store.JobQuery{Labels: map[string]string{"we\"ird.$": "x"}}, []job.Snapshot{a}},
		{"label with another value", store.JobQuery{Labels: map[string]string{"team": "re"}}, nil},
		{"label and connection", store.JobQuery{Labels: map[string]string{"team": "red"}, Connections: []job.ID{f.conn.ID}}, []job.Snapshot{a}},
	} {
		tt.q.Project, tt.q.Order = project, store.ByScheduledAsc
		p, err := f.s.List(f.ctx, tt.q)
		f.ok(err)
		f.is(ids(p.Jobs), ids(tt.want), "%s", tt.name)
	}
}

func listPayload(f *fixture) {
	want := f.submit()
	want = f.apply(want, job.CancelAsked{}).Snapshot
	p, err := f.s.List(f.ctx, store.JobQuery{Project: project})
	f.ok(err)
	want.Payload = nil
	f.is(p.Jobs, []job.Snapshot{want}, "jobs")
}

func listPosition(f *fixture) {
	f.submit()
	f.submit()
	p, err := f.s.List(f.ctx, store.JobQuery{Project: project, Limit: 1})
	f.ok(err)
	later := f.submit()
	events, err := f.s.Events(f.ctx, store.EventQuery{Project: project, After: p.Position})
	f.ok(err)
	f.is(len(events.Events), 1, "events after the list")
	f.is(events.Events[0].Job, later.ID, "job of the event after the list")
}

func listProjects(f *fixture) {
	other := f.connect(store.Connection{Project: "other"})
	f.submit()
	theirs := f.submit(on(other), func(n *store.NewJob) { n.Spec.Project = "other" })
	for _, l := range listed {
		p, err := f.s.List(f.ctx, store.JobQuery{Project: "other", Order: l.order})
		f.ok(err)
		f.is(ids(p.Jobs), []job.ID{theirs.ID}, "%s", l.name)
	}
}
