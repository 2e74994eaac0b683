//go:build unix

package postgres

import (
	"runtime"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// TestOrphansOfAServer: a job that a live server is sending is no orphan, nor after the
// server has replaced a session that was cut. After the server has ended it is one, from the
// second search on.
func TestOrphansOfAServer(t *testing.T) {
	f := newFleet(t, 2)
	conn := f.connect()
	sender, other := f.stores[0], f.stores[1]
	if err := sender.Enlist(t.Context(), store.Process{Worker: "sender"}); err != nil {
		t.Fatal(err)
	}
	if err := other.Enlist(t.Context(), store.Process{Worker: "other"}); err != nil {
		t.Fatal(err)
	}
	if _, err := sender.Create(t.Context(), []store.NewJob{newSpec(conn)}); err != nil {
		t.Fatal(err)
	}
	leased, err := sender.Claim(t.Context(), store.ClaimParams{Worker: "sender", Lease: time.Minute, Limit: 1})
	if err != nil || len(leased) != 1 {
		t.Fatal(leased, err)
	}
	l := leased[0]
	armed, err := sender.Arm(t.Context(), []store.Arm{{
		Job: l.ID, Version: l.Version, Claim: l.ClaimToken, Token: randomID(), Worker: "sender", Class: job.Keyed,
		EffectKey: l.EffectKey(""), Digest: []byte("digest"), Frozen: []byte("frozen"),
		SendBy: time.Second, AnswerBy: time.Minute, Fence: time.Hour,
	}})
	if err != nil || armed[0].Err != nil {
		t.Fatal(armed, err)
	}
	orphans := func() int {
		t.Helper()
		got, err := other.Orphans(t.Context(), store.Place{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return len(got)
	}
	// locks counts the workers' locks that sessions hold which are not among these.
	locks := func(but []int32) int {
		t.Helper()
		return f.count(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND objsubid = 1 AND granted
			AND pid <> ALL ($1)`, but)
	}
	r := other.registry
	at := time.Now()
	r.mu.Lock()
	r.now, r.since = func() time.Time { return at }, at
	r.mu.Unlock()
	advance := func(d time.Duration) {
		r.mu.Lock()
		defer r.mu.Unlock()
		at = at.Add(d)
	}
	advance(settled)
	first := orphans()
	advance(missedFor)
	if first+orphans() != 0 {
		t.Error("an orphan of a server that is there")
	}
	var sessions []int32
	f.sql("SELECT array_agg(pid) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND objsubid = 1", nil, &sessions)
	if len(sessions) != 2 {
		t.Fatalf("%d sessions with a lock, want 2", len(sessions))
	}
	f.count("SELECT count(pg_terminate_backend(pid)) FROM unnest($1::int[]) AS pid", sessions)
	for locks(sessions) != 2 { // each has another session
		runtime.Gosched()
	}
	orphans() // what was seen in between counts no more
	advance(missedFor)
	if orphans() != 0 {
		t.Error("an orphan of a server that has another session")
	}
	if err := sender.Close(); err != nil {
		t.Fatal(err)
	}
	for locks([]int32{0}) != 1 { // its session ends a moment later
		runtime.Gosched()
	}
	advance(settled - missedFor - time.Nanosecond)
	if orphans() != 0 {
		t.Error("an orphan while the others may be coming back, too")
	}
	advance(time.Nanosecond)
	for range 2 {
		if orphans() != 0 {
			t.Error("an orphan as soon as its server is missed")
		}
	}
	advance(missedFor)
	if orphans() != 1 {
		t.Error("no orphan of a server that has ended")
	}
}

// TestNobodyIsMissedTooSoon: an absence counts only after this process's own session has
// lasted, and its locks are seen.
func TestNobodyIsMissedTooSoon(t *testing.T) {
	at := time.Unix(1_900_000_000, 0)
	r := newWorkerRegistry()
	r.now = func() time.Time { return at }
	r.add("own")
	gone := func(after time.Duration, absent ...string) bool {
		at = at.Add(after)
		return len(r.missed(absent)) > 0
	}
	if gone(0, "other") || gone(time.Hour, "other") {
		t.Error("missed by a process without a session")
	}
	r.began(0)
	if gone(0, "other") || gone(settled-time.Nanosecond, "other") {
		t.Error("missed while others may be coming back")
	}
	if gone(time.Nanosecond, "other") || gone(missedFor-time.Nanosecond, "other") || !gone(time.Nanosecond, "other") || !gone(0, "other") {
		t.Errorf("missed for %v is gone, and not before", missedFor)
	}
	if gone(time.Hour, "own", "other") || gone(0, "other") {
		t.Error("missed by a process whose own locks are gone")
	}
	r.ended()
	for range 2 {
		if gone(time.Hour, "other") {
			t.Error("missed after the session ended")
		}
	}
}
