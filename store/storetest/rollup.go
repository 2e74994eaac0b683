package storetest

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var rollupTests = []test{
	{"what is counted", rollupCounts},
	{"each event once", rollupOnce},
	{"unknown outcomes and how they were settled", rollupUnknown},
	{"steps of a size", rollupSize},
	{"a lag by bins", rollupLag},
	{"buckets", rollupBuckets},
	{"dimensions and filters", rollupDimensions},
	{"as of", rollupAsOf},
	{"jobs that are removed stay counted", rollupRemoved},
	{"old buckets are removed", rollupOld},
	{"old buckets are removed although events come", rollupOldBusy},
	{"queries that nobody can answer", rollupIllegal},
	{"one server at a time", rollupLease},
}

var roller = job.ID{1}

// roll counts all events that are not counted yet.
func (f *fixture) roll() (events int) {
	f.Helper()
	for {
		r, err := f.s.Roll(f.ctx, store.RollParams{Owner: roller, Lease: lease})
		f.ok(err)
		events += r.Events
		if !r.More {
			return events
		}
	}
}

func (f *fixture) series(q store.SeriesQuery) []store.SeriesRow {
	f.Helper()
	if q.Project == "" {
		q.Project = project
	}
	if q.Width == 0 {
		q.Width = store.Day
	}
	if q.From.IsZero() {
		q.From, q.Before = start.Add(-48*time.Hour), start.Add(48*time.Hour)
	}
	s, err := f.s.Series(f.ctx, q)
	f.ok(err)
	return s.Rows
}

// rolled returns the counts of the one row that there is.
func (f *fixture) rolled() map[store.Measure]int64 {
	f.Helper()
	f.roll()
	rows := f.series(store.SeriesQuery{})
	if len(rows) == 0 {
		return map[store.Measure]int64{}
	}
	f.is(len(rows), 1, "rows")
	return rows[0].Counts
}

func ended(s job.State) store.Measure { return store.CountEnded + store.Measure(s) }

func settled(k store.Known) store.Measure { return store.CountKnown + store.Measure(k) }

func rollupCounts(f *fixture) {
	f.is(f.rolled(), map[store.Measure]int64{}, "nothing")
	for _, state := range job.States {
		if state.Terminal() {
			f.inState(state)
		}
	}
	s := f.sending().Snapshot
	f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient})
	f.clock.advance(time.Minute)
	s = f.arm(f.claim()).Snapshot
	s = f.apply(s, job.Outcome{Attempt: 2, Result: job.ResultRejected, Kind: job.FailPermanent}).Snapshot
	// A job that goes on after its end ends once more.
	f.apply(s, job.RetryAsked{})
	f.clock.advance(time.Minute)
	s = f.arm(f.claim()).Snapshot
	f.apply(s, succeeded(s, ""))
	got := f.rolled()
	// The way to each state is chosen by inState: the arms of these four are counted.
	var armed, first int64
	p, err := f.s.Events(f.ctx, store.EventQuery{Project: project})
	f.ok(err)
	for _, e := range p.Events {
		if e.Cause == job.CauseArmed {
			armed++
			if e.Attempt == 1 {
				first++
			}
		}
	}
	f.is(got, map[store.Measure]int64{
		store.CountScheduled: 5, store.CountStarted: first, store.CountAttempts: armed,
		ended(job.Succeeded): 2, ended(job.Failed): 2, ended(job.Canceled): 1, ended(job.Expired): 1,
	}, "counts")
}

func rollupOnce(f *fixture) {
	for range 3 {
		for range 4 {
			f.submit(at(start.Add(time.Hour)))
		}
		f.is(f.roll(), 4, "events")
		f.is(f.roll(), 0, "events again")
	}
	f.is(f.rolled(), map[store.Measure]int64{store.CountScheduled: 12}, "counts")
	// More connections than one step counts.
	const conns = 70
	for range conns {
		f.submit(on(f.connect(store.Connection{})), at(start.Add(time.Hour)))
	}
	f.is(f.roll(), conns, "events")
	f.is(f.rolled(), map[store.Measure]int64{store.CountScheduled: 12 + conns}, "counts")
}

// rollupSize: a step counts no more events than its size allows, goes on
// where the one before ended, and reports that there is more.
func rollupSize(f *fixture) {
	const jobs = 2*store.RollEvents + store.RollRead + 7
	f.many(jobs)
	for i, want := range []store.Rolled{{Events: store.RollEvents, More: true}, {Events: jobs - store.RollEvents}} {
		got, err := f.s.Roll(f.ctx, store.RollParams{Owner: roller, Lease: lease, Size: i * 1000})
		f.ok(err)
		f.is(got, want, "step %d", i)
	}
	f.is(f.rolled(), map[store.Measure]int64{store.CountScheduled: jobs}, "counts")
}

// rollupUnknown has each outcome unknown for ten seconds.
func rollupUnknown(f *fixture) {
	observable := f.connect(store.Connection{Class: job.Observable, AccountIdentity: "me"})
	wait := func() { f.clock.advance(10 * time.Second) }
	unknown := func(edit ...func(*store.NewJob)) job.Snapshot {
		s := f.sending(edit...).Snapshot
		s = f.apply(s, answer(s, job.ResultUnknown)).Snapshot
		wait()
		return f.job(s.ID)
	}
	found := f.sending(on(observable)).Snapshot
	found = f.apply(found, answer(found, job.ResultUnknown)).Snapshot
	wait()
	f.apply(f.job(found.ID), saw("1"))
	late := unknown(on(observable))
	f.apply(late, succeeded(late, "2"))
	person := unknown()
	f.apply(person, job.Resolved{Ruling: job.RuleNotSent, Actor: "ann", Override: true})
	// A repeat that is unknown again leaves the outcome unknown.
	repeat := f.ambiguous()
	f.is(len(f.events(repeat.ID)) > 0, true, "events")
	since := f.last(repeat.ID).At
	s := f.arm(f.looks()[0]).Snapshot
	f.apply(s, answer(s, job.ResultUnknown))
	f.clock.advance(time.Hour)
	s = f.arm(f.looks()[0]).Snapshot
	s = f.apply(s, succeeded(s, "3")).Snapshot
	f.is(s.State, job.Succeeded, "state")
	took := f.last(repeat.ID).At.Sub(since)

	f.roll()
	row := f.series(store.SeriesQuery{})[0]
	f.is([]int64{row.Counts[store.CountUnknown], row.Counts[settled(store.KnownFound)], row.Counts[settled(store.KnownLate)],
		row.Counts[settled(store.KnownPerson)], row.Counts[settled(store.KnownRepeated)]}, []int64{4, 1, 1, 1, 1}, "unknown outcomes")
	ten := map[int]int64{store.BinOf(10 * time.Second): 1}
	f.is(row.Bins[settled(store.KnownFound)], ten, "time until it was found")
	f.is(row.Bins[settled(store.KnownPerson)], ten, "time until a person decided")
	f.is(row.Bins[settled(store.KnownRepeated)], map[int]int64{store.BinOf(took): 1}, "time until a repeat was confirmed")
}

func rollupLag(f *fixture) {
	for range 3 {
		f.submit()
	}
	want := make(map[int]int64)
	for _, wait := range []time.Duration{0, 5 * time.Second, time.Minute} {
		f.clock.advance(wait)
		a := f.arm(f.claimN(1)[0])
		want[store.BinOf(a.Attempt.ArmedAt.Sub(start))]++
	}
	f.roll()
	f.is(f.series(store.SeriesQuery{})[0].Bins[store.CountStarted], want, "start lags")
}

func rollupBuckets(f *fixture) {
	minute := store.Minute.Start(start)
	f.clock.advance(minute.Add(time.Minute).Sub(start)) // a bucket's first moment
	f.submit(at(start.Add(time.Hour)))
	f.clock.advance(time.Minute - time.Microsecond) // its last one
	f.submit(at(start.Add(time.Hour)))
	f.clock.advance(time.Microsecond)
	f.submit(at(start.Add(time.Hour)))
	f.clock.advance(48 * time.Hour)
	f.inState(job.Canceled)
	f.roll()
	for _, tt := range []struct {
		width        store.Width
		from, before time.Time
		want         []int64
	}{
		{store.Minute, minute, minute.Add(72 * time.Hour), []int64{2, 1, 1}},
		{store.Minute, minute.Add(time.Minute), minute.Add(2 * time.Minute), []int64{2}},
		{store.Minute, minute.Add(2 * time.Minute), minute.Add(3 * time.Minute), []int64{1}},
		{store.Hour, store.Hour.Start(minute), minute.Add(72 * time.Hour), []int64{3, 1}},
		{store.Day, store.Day.Start(minute), minute.Add(72 * time.Hour), []int64{3, 1}},
	} {
		var got []int64
		for _, r := range f.series(store.SeriesQuery{Width: tt.width, From: tt.from, Before: tt.before}) {
			f.is(r.Start, tt.width.Start(r.Start), "start of a bucket")
			got = append(got, r.Counts[store.CountScheduled])
		}
		f.is(got, tt.want, "width %d from %v to %v", tt.width, tt.from, tt.before)
	}
}

func rollupDimensions(f *fixture) {
	a, b := f.connect(store.Connection{Connector: "aa"}), f.connect(store.Connection{Connector: "bb", Class: job.Opaque})
	other := f.connect(store.Connection{Project: "other", Connector: "aa"})
	for i, c := range []store.Connection{a, b, other} {
		for range i + 1 {
			f.submit(func(n *store.NewJob) { n.Spec.Connection, n.Spec.Project, n.Class = c.ID, c.Project, c.Class }, at(start.Add(time.Hour)))
		}
	}
	f.roll()
	type row struct {
		conn      job.ID
		connector string
		class     job.Class
		n         int64
	}
	for _, tt := range []struct {
		name string
		q    store.SeriesQuery
		want []row
	}{
		{"a project", store.SeriesQuery{}, []row{{n: 3}}},
		{"another one", store.SeriesQuery{Project: "other"}, []row{{n: 3}}},
		{"none", store.SeriesQuery{Project: "none"}, nil},
		{"connectors", store.SeriesQuery{ByConnector: true}, []row{{connector: "aa", n: 1}, {connector: "bb", n: 2}}},
		{"classes", store.SeriesQuery{ByClass: true}, []row{{class: job.Keyed, n: 1}, {class: job.Opaque, n: 2}}},
		{"one class", store.SeriesQuery{Classes: []job.Class{job.Opaque}}, []row{{n: 2}}},
		{"one connector", store.SeriesQuery{Connectors: []string{"aa", "cc"}}, []row{{n: 1}}},
		{"a connection", store.SeriesQuery{Connections: []job.ID{b.ID}}, []row{{n: 2}}},
		{"two connections", store.SeriesQuery{Connections: []job.ID{b.ID, a.ID}}, []row{{n: 3}}},
		{"each connection", store.SeriesQuery{Connections: []job.ID{b.ID, a.ID}, ByConnection: true}, []row{{conn: a.ID, n: 1}, {conn: b.ID, n: 2}}},
		{"a connection of another project", store.SeriesQuery{Connections: []job.ID{other.ID}}, nil},
	} {
		var got []row
		for _, r := range f.series(tt.q) {
			got = append(got, row{r.Connection, r.Connector, r.Class, r.Counts[store.CountScheduled]})
		}
		f.is(got, tt.want, "%s", tt.name)
	}
}

func rollupAsOf(f *fixture) {
	asOf := func(want time.Time, what string) {
		f.Helper()
		s, err := f.s.Series(f.ctx, store.SeriesQuery{Project: project, Width: store.Day, From: start, Before: start})
		f.ok(err)
		f.is(s.AsOf, want, "%s", what)
	}
	asOf(start, "nothing has happened")
	f.submit(at(start.Add(time.Hour)))
	f.roll()
	f.clock.advance(time.Minute)
	asOf(start.Add(time.Minute), "all is counted")
	f.submit(at(start.Add(time.Hour)))
	f.clock.advance(time.Minute)
	asOf(start, "the time of the last event that is counted")
	f.roll()
	asOf(start.Add(2*time.Minute), "all is counted again")
}

func rollupRemoved(f *fixture) {
	s := f.sending().Snapshot
	f.apply(s, succeeded(s, "x"))
	want := f.rolled()
	f.clock.advance(3 * time.Hour)
	var removed int
	for p := (store.RetainParams{Owner: roller, Lease: lease, Keep: store.Keep{Jobs: time.Hour, Events: time.Hour}}); ; {
		r, err := f.s.Retain(f.ctx, p)
		f.ok(err)
		removed += r.Jobs
		if p.After = r.Next; r.Done {
			break
		}
	}
	f.is(removed, 1, "jobs removed")
	f.is(f.rolled(), want, "counts")
}

func rollupOld(f *fixture) {
	f.submit(at(start.Add(time.Hour)))
	f.roll()
	rows := func(w store.Width) int {
		return len(f.series(store.SeriesQuery{Width: w, From: start.Add(-48 * time.Hour), Before: start.Add(time.Hour)}))
	}
	kept := func(want ...int) {
		f.Helper()
		f.roll()
		f.is([]int{rows(store.Minute), rows(store.Hour), rows(store.Day)}, want, "buckets")
	}
	kept(1, 1, 1)
	f.clock.advance(store.Minute.Keep())
	kept(1, 1, 1)
	f.clock.advance(time.Minute)
	kept(0, 1, 1)
	f.clock.advance(store.Hour.Keep())
	kept(0, 0, 1)
	f.clock.advance(store.Day.Keep())
	kept(0, 0, 0)
}

// rollupOldBusy: each step finds an event, as on a server that always has new events.
func rollupOldBusy(f *fixture) {
	far := at(start.Add(10 * store.Day.Keep()))
	f.submit(far)
	f.roll()
	f.clock.advance(store.Minute.Keep() + time.Minute)
	var removed int
	for range len(store.Widths) {
		f.submit(far)
		r, err := f.s.Roll(f.ctx, store.RollParams{Owner: roller, Lease: lease})
		f.ok(err)
		f.is(r.Events, 1, "events")
		removed += r.Removed
	}
	f.is(removed, 2, "counts removed: the project's and the connection's")
	rows := f.series(store.SeriesQuery{Width: store.Minute, From: start.Add(-time.Hour), Before: start.Add(time.Hour)})
	f.is(len(rows), 0, "old buckets")
}

func rollupIllegal(f *fixture) {
	for _, q := range []store.SeriesQuery{{}, {Width: 9}, {Width: store.Day, ByConnection: true}} {
		_, err := f.s.Series(f.ctx, q)
		f.fails(err, store.ErrIllegal)
	}
}

// rollupLease: a second server leaves it to the first one, or finds nothing to count.
func rollupLease(f *fixture) {
	f.submit(at(start.Add(time.Hour)))
	f.is(f.roll(), 1, "events")
	_, err := f.s.Roll(f.ctx, store.RollParams{Owner: job.ID{2}, Lease: lease})
	f.ok(err)
	f.submit(at(start.Add(time.Hour)))
	f.clock.advance(2 * lease)
	r, err := f.s.Roll(f.ctx, store.RollParams{Owner: job.ID{2}, Lease: lease})
	f.ok(err)
	f.is(r, store.Rolled{Events: 1}, "the step of a server after the lease of another one")
	f.is(f.rolled(), map[store.Measure]int64{store.CountScheduled: 2}, "counts")
}
