package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var searchTests = []test{
	{"filters of random jobs", searchRandom},
	{"a walk of several steps", searchWalk},
	{"jobs that were left behind", searchLeftBehind},
	{"groups", searchGroups},
	{"counts of jobs under way", searchUnderWay},
	{"recipients of a new payload", searchRecipients},
}

// naive is a filter as plain code, on jobs as Job returns them.
type naive struct {
	now time.Time
	// since is when each job came into its state.
	since map[job.ID]time.Time
}

func (n naive) selects(q store.JobQuery, s job.Snapshot, recipients []string) bool { //nolint:cyclop // one filter after the other
	within := func(at, from, before time.Time) bool {
		return (from.IsZero() || !at.IsZero() && !at.Before(from)) && (before.IsZero() || !at.IsZero() && at.Before(before))
	}
	one := func(ok bool, set bool) bool { return ok || !set }
	kind := job.FailureKind(0)
	if s.LastError != nil {
		kind = s.LastError.Kind
	}
	labels := true
	for k, v := range q.Labels {
		labels = labels && s.Labels[k] == v
	}
	return s.Project == q.Project && labels &&
		one(slices.Contains(q.States, s.State), len(q.States) > 0) &&
		one(slices.Contains(q.Connections, s.Connection), len(q.Connections) > 0) &&
		one(slices.Contains(q.Jobs, s.ID), len(q.Jobs) > 0) &&
		one(slices.Contains(q.ErrorKinds, kind), len(q.ErrorKinds) > 0) &&
		one(slices.Contains(q.Classes, s.Class), len(q.Classes) > 0) &&
		one(slices.Contains(q.Destinations, s.HoldKey), len(q.Destinations) > 0) &&
		strings.HasPrefix(s.Key, q.KeyPrefix) && strings.Contains(s.Key, q.KeyText) &&
		one(s.Effect != nil && s.Effect.ExternalID == q.ExternalID, q.ExternalID != "") &&
		one(slices.Contains(recipients, q.Recipient), q.Recipient != "") &&
		within(s.ScheduleTime, q.ScheduleTimeFrom, q.ScheduleTimeBefore) &&
		within(s.Created, q.CreatedFrom, q.CreatedBefore) && within(s.Ended, q.EndedFrom, q.EndedBefore) &&
		one(n.now.Sub(n.since[s.ID]) >= q.InState, q.InState > 0) &&
		one(s.State != job.Canceled || s.LeftBehind(), q.OnlyLeftBehind)
}

// searchRandom compares lists and counts with the naive filter, for random filters over
// random jobs in every state.
func searchRandom(f *fixture) { //nolint:cyclop,funlen // one filter after the other
	r := rand.New(rand.NewPCG(7, 11)) //nolint:gosec // repeatable
	conns := []store.Connection{f.conn, f.connect(store.Connection{Class: job.Observable, AccountIdentity: "me"}), f.connect(store.Connection{Class: job.Opaque})}
	who := make(map[job.ID][]string)
	var all []job.ID
	for i := range 60 {
		state := job.States[r.IntN(len(job.States))]
		if state.InFlight() {
			state = job.Scheduled // the others claim on their way
		}
		s := f.inState(state)
		all = append(all, s.ID)
		for range r.IntN(2) {
			to := []string{"ann@example.com", "bob@example.com"}[:1+r.IntN(2)]
			n := f.new(on(conns[i%3]), at(start.Add(time.Duration(100+r.IntN(20))*time.Hour)), func(n *store.NewJob) {
				n.Class, n.Recipients = conns[i%3].Class, to
				n.Spec.Key = fmt.Sprintf("shop-%d:order-%d%%_:%s", r.IntN(3), r.IntN(9), n.Spec.ID)
				n.Spec.Labels = map[string]string{"team": []string{"red", "blue"}[r.IntN(2)]}
				n.Spec.HoldKey = []string{holdKey, "https://other.example"}[i%2]
			})
			s := f.create(n)[0].Snapshot
			who[s.ID] = to
			all = append(all, s.ID)
		}
		f.clock.advance(time.Duration(r.IntN(300)) * time.Second)
	}
	for _, class := range conns[1:2] {
		for i := range 3 {
			s := f.observable(class)
			f.apply(s, saw(fmt.Sprintf("object-%d", i)))
			all = append(all, s.ID)
		}
	}
	f.clock.advance(time.Minute)
	now := f.job(all[0]).Now
	jobs := make([]job.Snapshot, len(all))
	plain := naive{now, make(map[job.ID]time.Time)}
	for i, id := range all {
		jobs[i] = f.job(id)
		plain.since[id] = jobs[i].Created
		for _, e := range f.events(id) {
			if e.From != e.To {
				plain.since[id] = e.At
			}
		}
	}
	some := func() bool { return r.IntN(5) == 0 }
	moment := func(ahead bool) time.Time {
		at := start.Add(time.Duration(r.Int64N(int64(now.Sub(start)) + 1)))
		if ahead && r.IntN(2) == 0 {
			at = start.Add(time.Duration(100+r.IntN(20)) * time.Hour)
		}
		return job.Micros(at)
	}
	found, queries := 0, 400
	if testing.Short() {
		queries = 100
	}
	for range queries {
		q := store.JobQuery{Project: project, Order: store.Order(r.IntN(4)), Limit: 1 + r.IntN(20)}
		if some() {
			q.States = []job.State{job.States[r.IntN(11)], job.States[r.IntN(11)]}
		}
		if some() {
			q.Connections = []job.ID{conns[r.IntN(3)].ID, conns[r.IntN(3)].ID}
		}
		if some() {
			q.Jobs = []job.ID{all[r.IntN(len(all))], all[r.IntN(len(all))], all[r.IntN(len(all))]}
		}
		if some() {
			q.ErrorKinds = []job.FailureKind{job.FailureKind(1 + r.IntN(10)), job.FailPermanent}
		}
		if some() {
			q.Classes = []job.Class{job.Class(1 + r.IntN(4))}
		}
		if some() {
			q.Destinations = []string{"https://other.example", []string{holdKey, "https://none.example"}[r.IntN(2)]}
		}
		if some() {
			q.KeyPrefix = []string{"shop-1", "shop-1:order-4%_", "key-", "Shop", "shop-1:order-%"}[r.IntN(5)]
		}
		if some() {
			q.KeyText = []string{"order-4%_", "order-4%%", ":order", "y-0"}[r.IntN(4)]
		}
		if some() {
			q.ExternalID = fmt.Sprintf("object-%d", r.IntN(4))
		}
		if some() {
			q.Recipient = []string{"ann@example.com", "bob@example.com", "eve@example.com"}[r.IntN(3)]
		}
		if some() {
			q.Labels = map[string]string{"team": []string{"red", "green"}[r.IntN(2)]}
		}
		if some() {
			q.ScheduleTimeFrom = moment(true)
		}
		if some() {
			q.ScheduleTimeBefore = moment(true)
		}
		if some() {
			q.CreatedFrom, q.CreatedBefore = moment(false), moment(false)
		}
		if some() {
			q.EndedFrom = moment(false)
		}
		if some() {
			q.EndedBefore = moment(false)
		}
		if some() {
			q.InState = now.Sub(moment(false)) + time.Microsecond
		}
		q.OnlyLeftBehind = some()
		want := make(map[job.State]int64)
		for _, s := range q.CountedStates() {
			want[s] = 0
		}
		var ids []job.ID
		for _, s := range jobs {
			if plain.selects(q, s, who[s.ID]) {
				ids = append(ids, s.ID)
				want[s.State]++
			}
		}
		found += len(ids)
		f.is(f.allPages(q), sorted(ids), "jobs of %+v", q)
		counts, err := f.s.Count(f.ctx, q, store.ByNothing)
		f.ok(err)
		got := make(map[job.State]int64)
		for s, n := range counts.States {
			got[s] = n.Count
			f.is(n.Capped, false, "capped")
		}
		f.is(got, want, "counts of %+v", q)
	}
	if found < queries {
		f.Fatalf("only %d jobs were found: the filters are too narrow to test anything", found)
	}
}

// searchLeftBehind: of many canceled jobs only those that were left behind fill a page, in
// each order, for every filter of states.
func searchLeftBehind(f *fixture) {
	end := f.sending().Snapshot
	left, unwanted := f.submit(replying(end.ID)), f.submit(replying(end.ID))
	f.failed(end)
	f.left(left.ID)
	f.apply(f.left(unwanted.ID), job.CancelAsked{})
	for range 30 {
		f.apply(f.submit(), job.CancelAsked{})
	}
	open, sending := f.submit(at(start.Add(time.Hour))), f.sending().Snapshot
	for _, tt := range []struct {
		states []job.State
		want   []job.ID
	}{
		{[]job.State{job.Scheduled, job.Claimed, job.Sending, job.Canceled}, []job.ID{left.ID, open.ID, sending.ID}},
		{[]job.State{job.Sending}, []job.ID{sending.ID}},
		{[]job.State{job.Canceled}, []job.ID{left.ID}},
		{[]job.State{job.Failed, job.Canceled, job.Sending}, []job.ID{end.ID, left.ID, sending.ID}},
		{nil, []job.ID{end.ID, left.ID, open.ID, sending.ID}},
	} {
		for order := store.ByScheduledDesc; order <= store.ByCreatedAsc; order++ {
			p, err := f.s.List(f.ctx, store.JobQuery{Project: project, States: tt.states, OnlyLeftBehind: true, Order: order, Limit: 5})
			f.ok(err)
			ids := make([]job.ID, len(p.Jobs))
			for i, s := range p.Jobs {
				ids[i] = s.ID
			}
			f.is(sorted(ids), sorted(slices.Clone(tt.want)), "jobs in %v, order %d", tt.states, order)
			f.is(p.More, false, "jobs in %v, order %d: more", tt.states, order)
		}
	}
}

func sorted(ids []job.ID) []job.ID {
	slices.SortFunc(ids, func(a, b job.ID) int { return slices.Compare(a[:], b[:]) })
	return ids
}

// allPages reads all pages of a list, which are in order, and returns the jobs by id.
func (f *fixture) allPages(q store.JobQuery) []job.ID {
	f.Helper()
	var got []job.ID
	var last store.Place
	for {
		p, err := f.s.List(f.ctx, q)
		f.ok(err)
		for _, s := range p.Jobs {
			here := store.Place{At: s.ScheduleTime, ID: s.ID}
			if q.Order.ByCreated() {
				here.At = s.Created
			}
			if !last.At.IsZero() && q.Order.Compare(last, here) >= 0 {
				f.Fatalf("%v comes behind %v", here, last)
			}
			last, got = here, append(got, s.ID)
		}
		if !p.More {
			return sorted(got)
		}
		q.AfterTime, q.AfterID = p.Next.At, p.Next.ID
	}
}

// searchWalk has one page look at more jobs than the first step of a walk does, and finds
// jobs of two states among them.
func searchWalk(f *fixture) {
	f.many(store.WalkSteps[0] + 2*store.MaxBatch)
	var want []job.ID
	for i := range 3 {
		s := f.submit(at(start.Add(time.Duration(i*700+5)*time.Second)), func(n *store.NewJob) { n.Spec.Key = "x-needle-" + n.Spec.ID.String() })
		if i == 1 {
			f.apply(s, job.CancelAsked{})
		}
		want = append(want, s.ID)
	}
	for _, order := range []store.Order{store.ByScheduledDesc, store.ByScheduledAsc, store.ByCreatedDesc, store.ByCreatedAsc} {
		for _, limit := range []int{1, 2, 50} {
			q := store.JobQuery{Project: project, Order: order, Limit: limit, KeyText: "needle"}
			f.is(f.allPages(q), sorted(slices.Clone(want)), "order %d by %d", order, limit)
		}
	}
}

// many stores jobs for the seconds of some hours.
func (f *fixture) many(n int) {
	f.Helper()
	for i := 0; i < n; {
		var items []store.NewJob
		for range min(store.MaxBatch, n-i) {
			i++
			items = append(items, f.new(at(start.Add(time.Duration(i)*time.Second))))
		}
		f.create(items...)
	}
}

// searchRecipients: a new payload has new recipients; new labels leave them.
func searchRecipients(f *fixture) {
	s := f.submit(at(start.Add(time.Hour)), func(n *store.NewJob) { n.Recipients = []string{"ann", "bob"} })
	found := func(want map[string]int) {
		f.Helper()
		for who, n := range want {
			p, err := f.s.List(f.ctx, store.JobQuery{Project: project, Recipient: who})
			f.ok(err)
			f.is(len(p.Jobs), n, "jobs to %s", who)
			p, err = f.s.List(f.ctx, store.JobQuery{Project: "other", Recipient: who})
			f.ok(err)
			f.is(len(p.Jobs), 0, "jobs to %s in another project", who)
		}
	}
	found(map[string]int{"ann": 1, "bob": 1, "eve": 0})
	update := func(c store.Content) {
		f.Helper()
		s = f.job(s.ID)
		out, err := f.s.Apply(f.ctx, []store.Change{{Job: s.ID, Version: s.Version, Decision: f.decide(s, job.UpdateAsked{}), Content: &c}})
		f.ok(err)
		f.ok(out[0].Err)
	}
	update(store.Content{Labels: map[string]string{"a": "b"}})
	found(map[string]int{"ann": 1, "bob": 1, "eve": 0})
	update(store.Content{Payload: []byte("new"), HoldKey: holdKey, Recipients: []string{"bob", "eve"}})
	found(map[string]int{"ann": 0, "bob": 1, "eve": 1})
}

// searchUnderWay: a job under way counts in its own state and in no other, although an engine
// may list it under its earlier state.
func searchUnderWay(f *fixture) {
	f.sending()
	f.submit()
	f.claim()
	for range 3 {
		f.submit(at(start.Add(time.Hour)))
	}
	for _, q := range []store.JobQuery{{Project: project}, {Project: project, ScheduleTimeBefore: start.Add(2 * time.Hour)}} {
		c, err := f.s.Count(f.ctx, q, store.ByNothing)
		f.ok(err)
		for state, n := range map[job.State]int64{job.Scheduled: 3, job.Claimed: 1, job.Sending: 1, job.Succeeded: 0} {
			f.is(c.States[state], store.StateCount{Count: n}, "%v", state)
		}
	}
	c, err := f.s.Count(f.ctx, store.JobQuery{Project: "other"}, store.ByNothing)
	f.ok(err)
	f.is(c.States[job.Scheduled], store.StateCount{}, "another project's")
}

func searchGroups(f *fixture) {
	other := f.connect(store.Connection{Class: job.Opaque})
	for range 2 {
		f.submit(at(start.Add(time.Hour)))
	}
	for range 3 {
		f.submit(at(start.Add(time.Hour)), on(other), func(n *store.NewJob) { n.Class = job.Opaque })
	}
	s := f.sending().Snapshot
	f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent})
	for by, want := range map[store.GroupBy][]store.JobGroup{
		store.ByNothing:    nil,
		store.ByConnection: {{Connection: f.conn.ID, Count: 3}, {Connection: other.ID, Count: 3}},
		store.ByClass:      {{Class: job.Keyed, Count: 3}, {Class: job.Opaque, Count: 3}},
		store.ByErrorKind:  {{Count: 5}, {ErrorKind: job.FailPermanent, Count: 1}},
	} {
		for _, q := range []store.JobQuery{{Project: project}, {Project: project, CreatedFrom: start}} {
			c, err := f.s.Count(f.ctx, q, by)
			f.ok(err)
			f.is(c.Groups, want, "groups by %d", by)
			f.is(c.States[job.Scheduled], store.StateCount{Count: 5}, "scheduled")
			f.is(c.States[job.Failed], store.StateCount{Count: 1}, "failed")
			f.is(len(c.States), len(job.States), "states")
		}
	}
	_, err := f.s.Count(f.ctx, store.JobQuery{Project: project}, 9)
	f.fails(err, store.ErrIllegal)
}
