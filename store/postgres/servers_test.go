//go:build unix

package postgres

import (
	"runtime"
	"testing"
	"time"

	"github.com/fireonce/fireonce/store"
)

// TestServersOfAFleet: each server lists all of them. One that ends in an orderly way is listed no
// more, and one that leaves a job under way is gone, with what is known of its process. A start
// removes the rows of the former, and not of the latter.
func TestServersOfAFleet(t *testing.T) {
	f := newFleet(t, 3)
	conn := f.connect()
	names := []string{"stays", "sends", "ends"}
	for i, name := range names {
		p := store.Process{Worker: name, Version: "1.2.3", Host: "host-" + name, PID: 100 + i}
		if err := f.stores[i].Enlist(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.stores[1].Create(t.Context(), []store.NewJob{newSpec(conn)}); err != nil {
		t.Fatal(err)
	}
	if leased, err := f.stores[1].Claim(t.Context(), store.ClaimParams{Worker: "sends", Lease: time.Minute, Limit: 1}); err != nil || len(leased) != 1 {
		t.Fatal(leased, err)
	}
	servers := func() map[string]store.Server {
		t.Helper()
		list, err := f.stores[0].Servers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out := make(map[string]store.Server)
		for _, s := range list {
			out[s.Worker] = s
		}
		return out
	}
	live := servers()
	if len(live) != 3 || live["stays"].State != store.ServerLive || live["ends"].Version != "1.2.3" ||
		live["sends"].Host != "host-sends" || live["sends"].PID != 101 || live["sends"].Claimed != 1 || live["sends"].Takeover.IsZero() {
		t.Errorf("three servers: %+v", live)
	}
	for _, s := range f.stores[1:] {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now()
	r := f.stores[0].registry
	r.mu.Lock()
	r.now, r.since = func() time.Time { return at }, at.Add(-settled)
	r.mu.Unlock()
	locks := "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND objsubid = 1 AND granted"
	for f.count(locks) != 1 { // a session ends a moment after its connection
		runtime.Gosched()
	}
	if got := servers(); len(got) != 2 || got["sends"].State != store.ServerLive {
		t.Errorf("missed just now: %+v", got)
	}
	r.mu.Lock()
	at = at.Add(missedFor)
	r.mu.Unlock()
	gone := servers()["sends"]
	if gone.State != store.ServerGone || gone.Host != "host-sends" || gone.PID != 101 || gone.Claimed != 1 || gone.Seen.IsZero() {
		t.Errorf("one that is gone: %+v", gone)
	}
	rows := func() int { return f.count("SELECT count(*) FROM servers") }
	if n := rows(); n != 3 {
		t.Errorf("%d rows before a start", n)
	}
	if err := f.stores[0].Enlist(t.Context(), store.Process{Worker: "stays too"}); err != nil {
		t.Fatal(err)
	}
	if n := rows(); n != 3 || len(servers()) != 3 {
		t.Errorf("%d rows after a start: %+v", n, servers())
	}
}
