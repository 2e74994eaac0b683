package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var createTests = []test{
	{"stores what was asked for", createStores},
	{"no time means now", createNow},
	{"times are cut to microseconds", createMicros},
	{"a key binds once", createOnce},
	{"a bound key gives the job as it is now", createBoundNow},
	{"one key twice in a batch", createTwiceInBatch},
	{"a thousand callers, one job", createConcurrent},
	{"keys belong to projects", createProjects},
	{"an unknown connection fails its item only", createNoConnection},
	{"a taken id fails its item only", createTakenID},
	{"a batch has a limit", createLimit},
	{"the first event", createEvent},
}

func createStores(f *fixture) {
	var fp job.Fingerprint
	fp.Set("payload", []byte("x"))
	n := f.new(at(start.Add(time.Hour)))
	n.Spec.Labels = map[string]string{"team": "red", "quo\"te": "ä'"}
	n.Spec.Retry = job.RetryPolicy{
		MaxAttempts: 7, MinBackoff: time.Second, MaxBackoff: time.Minute, Multiplier: 1.5, KeepTrying: time.Hour, AttemptTimeout: 9 * time.Second,
	}
	n.Spec.Delivery, n.Spec.TimeZone = job.AtLeastOnce, "Europe/Vienna"
	n.Spec.WaitWindow = 5 * time.Hour
	n.Spec.ReplyTo, n.Spec.Schedule, n.Spec.Fingerprint = f.submit().ID, f.id(), fp
	got := f.create(n)[0]
	f.is(got.Created, true, "created")
	want := n.Spec
	want.Created = start
	f.is(got.Snapshot.Spec, want, "spec")
	f.is(got.Snapshot.Status, job.Status{
		State: job.Scheduled, Version: 1, Round: 1, ScheduleTime: start.Add(time.Hour),
		StartDeadline: start.Add(6 * time.Hour), NextAt: start.Add(time.Hour), Class: job.Keyed, Updated: start,
		WaitsFor: n.Spec.ReplyTo,
	}, "status")
	f.is(got.Snapshot.Now, start, "now")
	f.is(f.job(n.Spec.ID), got.Snapshot, "job read back")
}

func createNow(f *fixture) {
	n := f.new()
	n.Spec.StartWindow = 0
	got := f.create(n)[0].Snapshot
	f.is(got.ScheduleTime, start, "canonical time")
	f.is(got.StartDeadline, start.Add(job.DefaultWindow), "deadline of the default window")
	f.is(f.claim().ID, n.Spec.ID, "claimed at once")
}

func createMicros(f *fixture) {
	got := f.submit(at(start.Add(time.Hour + 1999*time.Nanosecond)))
	f.is(got.ScheduleTime, start.Add(time.Hour+time.Microsecond), "canonical time")
}

func createOnce(f *fixture) {
	n := f.new(at(start.Add(time.Hour)))
	first := f.create(n)[0]
	f.clock.advance(time.Second)
	again := n
	again.Spec.ID = f.id()
	again.Spec.Payload = []byte("other")
	again.ScheduleTime = start.Add(2 * time.Hour)
	got := f.create(again)[0]
	f.is(got.Created, false, "created again")
	f.is(got.Snapshot.ID, n.Spec.ID, "bound job")
	f.is(got.Snapshot.ScheduleTime, first.Snapshot.ScheduleTime, "canonical time")
	f.is(got.Snapshot.Payload, n.Spec.Payload, "payload")
	_, err := f.s.Job(f.ctx, store.Ref{Project: project, ID: again.Spec.ID})
	f.fails(err, store.ErrNotFound)
}

func createBoundNow(f *fixture) {
	n := f.new()
	f.create(n)
	f.arm(f.claim())
	got := f.create(n)[0]
	f.is(got.Created, false, "created")
	f.is(got.Snapshot, f.job(n.Spec.ID), "bound job")
	f.is(got.Snapshot.Open, []int{1}, "open attempts")
}

func createTwiceInBatch(f *fixture) {
	a, b := f.new(), f.new()
	b.Spec.Key = a.Spec.Key
	got := f.create(a, b)
	f.is([]bool{got[0].Created, got[1].Created}, []bool{true, false}, "created")
	f.is(got[1].Snapshot.ID, a.Spec.ID, "bound job")
}

func createConcurrent(f *fixture) {
	const callers = 1000
	n := f.new()
	ids := make([]job.ID, callers)
	for i := range ids {
		ids[i] = f.id()
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	won, bound := 0, make(map[job.ID]int)
	for i := range callers {
		wg.Go(func() {
			mine := n
			mine.Spec.ID = ids[i]
			out, err := f.s.Create(f.ctx, []store.NewJob{mine})
			if err != nil || out[0].Err != nil {
				f.Error(err, out)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			bound[out[0].Snapshot.ID]++
			if out[0].Created {
				won++
			}
		})
	}
	wg.Wait()
	f.is(won, 1, "calls that created")
	f.is(len(bound), 1, "jobs that answers name")
	page, err := f.s.List(f.ctx, store.JobQuery{Project: project})
	f.ok(err)
	f.is(len(page.Jobs), 1, "jobs stored")
}

func createProjects(f *fixture) {
	other := f.connect(store.Connection{Project: "other"})
	a, b := f.new(), f.new(on(other))
	b.Spec.Key, b.Spec.Project = a.Spec.Key, "other"
	got := f.create(a, b)
	f.is([]bool{got[0].Created, got[1].Created}, []bool{true, true}, "created")
	stray := f.new(on(other))
	out, err := f.s.Create(f.ctx, []store.NewJob{stray})
	f.ok(err)
	f.fails(out[0].Err, store.ErrNotFound)
}

func createNoConnection(f *fixture) {
	items := []store.NewJob{f.new(), f.new(on(store.Connection{ID: f.id()})), f.new()}
	out, err := f.s.Create(f.ctx, items)
	f.ok(err)
	f.fails(out[1].Err, store.ErrNotFound)
	f.is(out[1].Created, false, "bad item created")
	f.ok(out[0].Err)
	f.ok(out[2].Err)
	// Nothing of the bad item was written: its key is still free.
	items[1].Spec.Connection = f.conn.ID
	f.is(f.create(items[1])[0].Created, true, "repaired item created")
}

func createTakenID(f *fixture) {
	a, b, c := f.new(), f.new(), f.new()
	b.Spec.ID = a.Spec.ID
	out, err := f.s.Create(f.ctx, []store.NewJob{a, b, c})
	f.ok(err)
	f.is([]bool{out[0].Created, out[1].Created, out[2].Created}, []bool{true, false, true}, "created")
	f.fails(out[1].Err, store.ErrIllegal)
	_, err = f.s.Job(f.ctx, store.Ref{Project: project, Key: b.Spec.Key})
	f.fails(err, store.ErrNotFound)
}

func createLimit(f *fixture) {
	n := f.new()
	_, err := f.s.Create(f.ctx, slices.Repeat([]store.NewJob{n}, store.MaxBatch+1))
	f.fails(err, store.ErrIllegal)
	out, err := f.s.Create(f.ctx, slices.Repeat([]store.NewJob{n}, store.MaxBatch))
	f.ok(err)
	f.is(len(out), store.MaxBatch, "verdicts")
}

func createEvent(f *fixture) {
	n := f.new()
	n.Spec.Schedule = f.id()
	f.create(n)
	got := f.events(n.Spec.ID)
	f.is(len(got), 1, "events")
	f.is(got[0].Position > 0, true, "position %d", got[0].Position)
	f.is(got, []job.Event{{
		Position: got[0].Position, Project: project, Job: n.Spec.ID, Connection: f.conn.ID, Schedule: n.Spec.Schedule,
		Sequence: 1, To: job.Scheduled, Cause: job.CauseSubmitted, Actor: "tester", At: start,
	}}, "events")
}
