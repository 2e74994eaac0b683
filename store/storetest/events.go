package storetest

import (
	"sync"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var eventTests = []test{
	{"one per write, without gaps", eventsOfLife},
	{"filters", eventFilters},
	{"ends and labels", eventEnds},
	{"pages", eventPages},
	{"a filter that lets nothing through still moves on", eventMoves},
	{"versions and sequences under concurrent writers", eventsConcurrent},
}

func eventsOfLife(f *fixture) {
	a := f.sending()
	s := f.apply(a.Snapshot, answer(a.Snapshot, job.ResultSucceeded)).Snapshot
	want := []struct {
		from, to job.State
		cause    job.Cause
		attempt  int
		actor    string
	}{
		{0, job.Scheduled, job.CauseSubmitted, 0, "tester"},
		{job.Scheduled, job.Claimed, job.CauseClaimed, 0, "worker"},
		{job.Claimed, job.Sending, job.CauseArmed, 1, "worker"},
		{job.Sending, job.Succeeded, job.CauseAnswered, 1, "tester"},
	}
	got := f.events(s.ID)
	f.is(len(got), len(want), "events")
	for i, w := range want {
		f.is(got[i].Sequence, int64(i+1), "sequence")
		f.is([]job.State{got[i].From, got[i].To}, []job.State{w.from, w.to}, "states of event %d", i+1)
		f.is(got[i].Cause, w.cause, "cause of event %d", i+1)
		f.is(got[i].Attempt, w.attempt, "attempt of event %d", i+1)
		f.is(got[i].Actor, w.actor, "actor of event %d", i+1)
	}
	f.is(got[3].Reason, "why", "reason")
	f.is(s.Version, int64(4), "version")
	f.is(f.job(s.ID).Version, int64(4), "stored version")
}

func eventFilters(f *fixture) {
	other := f.connect(store.Connection{})
	foreign := f.connect(store.Connection{Project: "other"})
	schedule := f.id()
	a := f.submit()
	b := f.submit(on(other))
	c := f.submit(func(n *store.NewJob) { n.Spec.Schedule = schedule })
	d := f.submit(on(foreign), func(n *store.NewJob) { n.Spec.Project = "other" })
	for _, tt := range []struct {
		name string
		q    store.EventQuery
		want []job.ID
	}{
		{"project", store.EventQuery{Project: project}, []job.ID{a.ID, b.ID, c.ID}},
		{"other project", store.EventQuery{Project: "other"}, []job.ID{d.ID}},
		{"jobs", store.EventQuery{Project: project, Jobs: []job.ID{c.ID, a.ID, d.ID}}, []job.ID{a.ID, c.ID}},
		{"connection", store.EventQuery{Project: project, Connections: []job.ID{other.ID}}, []job.ID{b.ID}},
		{"schedule", store.EventQuery{Project: project, Schedule: schedule}, []job.ID{c.ID}},
		{"job and schedule", store.EventQuery{Project: project, Jobs: []job.ID{a.ID}, Schedule: schedule}, nil},
	} {
		p, err := f.s.Events(f.ctx, tt.q)
		f.ok(err)
		var got []job.ID
		for _, e := range p.Events {
			got = append(got, e.Job)
		}
		f.is(got, tt.want, "%s", tt.name)
		f.is(p.More, false, "%s: more", tt.name)
		f.is(p.Next, p.End, "%s: next", tt.name)
	}
}

func eventEnds(f *fixture) {
	labeled := func(labels map[string]string) func(*store.NewJob) {
		return func(n *store.NewJob) { n.Spec.Labels = labels }
	}
	a := f.submit(labeled(map[string]string{"user": "42", "plan": "free"}))
	b := f.submit(labeled(map[string]string{"user": "42"}))
	c := f.submit(labeled(map[string]string{"user": ""}))
	f.apply(c, job.CancelAsked{})
	s := f.apply(a, job.CancelAsked{}).Snapshot
	f.is(s.State, job.Canceled, "state")
	free := map[string]string{"user": "42", "plan": "free"}
	for _, tt := range []struct {
		name string
		q    store.EventQuery
		want []job.ID
	}{
		{"ended", store.EventQuery{Ended: true}, []job.ID{c.ID, a.ID}},
		{"a label", store.EventQuery{Labels: map[string]string{"user": "42"}}, []job.ID{a.ID, b.ID, a.ID}},
		{"labels", store.EventQuery{Labels: free}, []job.ID{a.ID, a.ID}},
		{"an empty label", store.EventQuery{Labels: map[string]string{"user": ""}, Ended: true}, []job.ID{c.ID}},
		{"no such label", store.EventQuery{Labels: map[string]string{"plan": ""}}, nil},
		{"ended, a label and jobs", store.EventQuery{Ended: true, Labels: free, Jobs: []job.ID{a.ID, b.ID}}, []job.ID{a.ID}},
	} {
		tt.q.Project = project
		for _, limit := range []int{0, 1} {
			var got []job.ID
			q := tt.q
			q.Limit = limit
			for more := true; more; {
				p, err := f.s.Events(f.ctx, q)
				f.ok(err)
				for _, e := range p.Events {
					got = append(got, e.Job)
				}
				q.After, more = p.Next, p.More
			}
			f.is(got, tt.want, "%s, limit %d", tt.name, limit)
		}
	}
}

func eventPages(f *fixture) {
	var want []job.ID
	for range 7 {
		want = append(want, f.submit().ID)
	}
	q := store.EventQuery{Project: project, Limit: 3}
	var got []job.ID
	var position int64
	for _, size := range []int{3, 3, 1} {
		p, err := f.s.Events(f.ctx, q)
		f.ok(err)
		f.is(len(p.Events), size, "page")
		for _, e := range p.Events {
			if e.Position <= position {
				f.Fatalf("position %d after %d", e.Position, position)
			}
			position = e.Position
			got = append(got, e.Job)
		}
		f.is(p.More, len(got) < len(want), "more after %d", len(got))
		f.is(p.Next, position, "next")
		q.After = p.Next
	}
	f.is(got, want, "events in the log's order")
	p, err := f.s.Events(f.ctx, q)
	f.ok(err)
	f.is(len(p.Events), 0, "events after the end")
	f.is(p.Next, p.End, "next at the end")

	one := want[0]
	f.apply(f.job(one), job.CancelAsked{})
	p, err = f.s.Events(f.ctx, store.EventQuery{Project: project, Job: one, Limit: 1})
	f.ok(err)
	f.is([]any{len(p.Events), p.Next, p.More}, []any{1, int64(1), true}, "a job's first page")
	p, err = f.s.Events(f.ctx, store.EventQuery{Project: project, Job: one, After: p.Next, Limit: 1})
	f.ok(err)
	f.is([]any{len(p.Events), p.Events[0].Sequence, p.Next, p.More}, []any{1, int64(2), int64(2), false}, "a job's second page")
}

func eventMoves(f *fixture) {
	for range 3 {
		f.submit()
	}
	p, err := f.s.Events(f.ctx, store.EventQuery{Project: project, Jobs: []job.ID{f.id()}})
	f.ok(err)
	f.is(len(p.Events), 0, "events")
	f.is(p.Next, p.End, "next")
	f.is(p.More, false, "more")
	late := f.submit()
	p, err = f.s.Events(f.ctx, store.EventQuery{Project: project, After: p.Next})
	f.ok(err)
	f.is(len(p.Events), 1, "events after the next")
	f.is(p.Events[0].Job, late.ID, "job")
}

// eventsConcurrent lets many callers write to one job. Each reads, decides, and
// tries again when it was too late.
func eventsConcurrent(f *fixture) {
	const writers, each = 8, 10
	s := f.submit()
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for done := 0; done < each; {
				now, err := f.s.Job(f.ctx, store.Ref{ID: s.ID})
				if err != nil {
					f.Error(err)
					return
				}
				d := job.Decision{To: job.Scheduled, Cause: job.CauseUpdated, Round: 1, Delay: job.KeepDelay}
				out, err := f.s.Apply(f.ctx, []store.Change{{Job: s.ID, Version: now.Version, Decision: d}})
				switch {
				case err != nil:
					f.Error(err)
					return
				case out[0].Err == nil:
					done++
				}
			}
		})
	}
	wg.Wait()
	got := f.job(s.ID)
	f.is(got.Version, int64(1+writers*each), "version")
	for i, e := range f.events(s.ID) {
		f.is(e.Sequence, int64(i+1), "sequence")
	}
	f.is(len(f.events(s.ID)), 1+writers*each, "events")
}
