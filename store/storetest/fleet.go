package storetest

import (
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var fleetTests = []test{
	{"a server with its process", serversEnlisted},
	{"a repeat changes nothing", serversRepeated},
	{"one that drains", serversDraining},
	{"its jobs under way, and no others", serversWork},
	{"one that is gone, while it has jobs under way", serversGone},
	{"gone ones first, then the oldest", serversSorted},
	{"in quarantine, too", serversQuarantined},
}

// servers returns the servers after one that is absent may count as gone (see orphans), without
// the one that searches.
func (f *fixture) servers() []store.Server {
	f.Helper()
	f.orphans()
	got, err := f.s.Servers(f.ctx)
	f.ok(err)
	return slices.DeleteFunc(got, func(s store.Server) bool { return s.Worker == "who asks" })
}

// enlisted is a server whose process began before it enlists.
func (f *fixture) enlisted(worker string, age time.Duration) store.Server {
	f.Helper()
	began := f.clock.now().Add(-age).UTC()
	f.ok(f.s.Enlist(f.ctx, store.Process{Worker: worker, Version: "1.2.3", Host: "host-1", PID: 4711, Age: age}))
	return store.Server{
		Worker: worker, Version: "1.2.3", Host: "host-1", PID: 4711, State: store.ServerLive, Started: began, Seen: began,
	}
}

func serversEnlisted(f *fixture) {
	want := f.enlisted("worker", 3*time.Second)
	f.is(f.servers(), []store.Server{want}, "servers")
}

func serversRepeated(f *fixture) {
	want := f.enlisted("worker", time.Second)
	f.clock.advance(time.Minute)
	f.ok(f.s.Enlist(f.ctx, store.Process{Worker: "worker", Version: "9", Host: "other", PID: 1}))
	f.is(f.servers(), []store.Server{want}, "servers")
}

func serversDraining(f *fixture) {
	want, other := f.enlisted("worker", time.Second), f.enlisted("other", 0)
	f.ok(f.s.Drain(f.ctx, "worker"))
	f.ok(f.s.Drain(f.ctx, "worker"))
	f.ok(f.s.Drain(f.ctx, "nobody"))
	f.ok(f.s.Enlist(f.ctx, store.Process{Worker: "worker"}))
	want.State = store.ServerDraining
	f.is(f.servers(), []store.Server{want, other}, "servers")
}

func serversWork(f *fixture) {
	want := f.enlisted("worker", time.Second)
	for _, state := range job.States {
		f := newFixture(f.T, f.open)
		own := f.enlisted("worker", time.Second)
		f.clock.advance(time.Second)
		f.inState(state)
		got := f.servers()
		f.is(len(got), 1, "servers")
		busy := map[job.State][2]int64{job.Claimed: {1, 0}, job.Sending: {0, 1}}[state]
		f.is([2]int64{got[0].Claimed, got[0].Sending}, busy, "jobs under way in %s", state)
		f.is(got[0].Takeover.IsZero(), busy == [2]int64{}, "a take-over in %s", state)
		f.is(got[0].Seen.After(own.Seen), busy != [2]int64{}, "seen in %s", state)
	}
	f.clock.advance(time.Second)
	s := f.sending(holding("a")).Snapshot
	f.clock.advance(time.Second)
	f.submit(holding("b"))
	last := f.job(f.claim().ID)
	want.Claimed, want.Sending, want.Seen, want.Takeover = 1, 1, last.Updated, last.NextAt
	if s.NextAt.After(want.Takeover) {
		want.Takeover = s.NextAt
	}
	f.is(f.servers(), []store.Server{want}, "servers")
}

func serversGone(f *fixture) {
	other := f.enlisted("other", 0)
	var last job.Snapshot
	for _, key := range []string{"a", "b"} {
		f.clock.advance(time.Second)
		last = f.sending(holding(key)).Snapshot
	}
	want := store.Server{Worker: "worker", State: store.ServerGone, Sending: 2, Seen: last.Updated, Takeover: last.Fence}
	f.is(f.servers(), []store.Server{want, other}, "servers")
	f.clock.advance(2 * fence)
	for _, id := range f.overdue() {
		f.apply(f.job(id), job.FenceOver{})
	}
	f.is(f.servers(), []store.Server{other}, "servers, once nothing is under way at the one that is gone")
}

func serversSorted(f *fixture) {
	second := f.enlisted("a", time.Second)
	first := f.enlisted("b", time.Minute)
	last := f.enlisted("c", 0)
	f.sending()
	got := f.servers()
	f.is(len(got), 4, "servers")
	f.is(got[0].Worker, "worker", "the one that is gone")
	f.is(got[1:], []store.Server{first, second, last}, "the others")
}

func serversQuarantined(f *fixture) {
	want := f.enlisted("other", 0)
	f.sending()
	f.ok(f.s.Quarantine(f.ctx, "a copy"))
	f.ok(f.s.Drain(f.ctx, "other"))
	want.State = store.ServerDraining
	got := f.servers()
	f.is([]any{len(got), got[0].Worker, got[1]}, []any{2, "worker", want}, "servers")
}
