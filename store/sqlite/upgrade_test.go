package sqlite

import (
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// version1 makes a file as a program of schema version 1 left it.
func version1(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/version1.sql")
	must(t, err)
	path := testPath(t)
	db := raw(t, path)
	sqlExec(t, db, string(text))
	must(t, db.Close())
	return path
}

func (s *Store) byKey(t *testing.T, key string) job.Snapshot {
	t.Helper()
	snap, err := s.Job(t.Context(), store.Ref{Project: testProject, Key: key})
	must(t, err)
	return snap
}

// TestUpgrade opens a database of schema version 1: its jobs, its log and its
// file's identity are kept, and what is new works on them.
func TestUpgrade(t *testing.T) {
	path := version1(t)
	_, err := Open(t.Context(), Options{Path: path})
	wantErr(t, err, ErrSchema)
	var now atomic.Int64 // the writer reads it, also when a call has been answered
	now.Store(testStart.Add(10 * time.Second).UnixMicro())
	s := mustOpen(t, Options{Path: path, Now: func() time.Time { return time.UnixMicro(now.Load()).UTC() }})
	m, err := s.Meta(t.Context())
	must(t, err)
	if m.Quarantined == "" || m.Incarnation != 2 {
		t.Errorf("another file than it was: quarantined %q, incarnation %d", m.Quarantined, m.Incarnation)
	}
	must(t, s.Release(t.Context()))

	for key, want := range map[string]job.State{
		"dropped": job.Canceled, "succeeded": job.Succeeded, "ambiguous": job.Ambiguous,
		"claimed": job.Claimed, "scheduled": job.Scheduled,
	} {
		if got := s.byKey(t, key); got.State != want || got.Labels["made"] != "at version 1" {
			t.Errorf("%s: %v, labels %v", key, got.State, got.Labels)
		}
	}
	reply := s.byKey(t, "scheduled")
	if reply.ReplyTo != s.byKey(t, "succeeded").ID || !reply.WaitsFor.IsZero() {
		t.Errorf("replies to %s, waits for %s", reply.ReplyTo, reply.WaitsFor)
	}
	upgradedLog(t, s)

	stats, err := s.Stats(t.Context(), store.StatsQuery{Project: testProject, Window: time.Hour})
	must(t, err)
	if stats.Started != 2 || stats.StartLagP50 != 0 || stats.StartLagP99 != 1500*time.Millisecond {
		t.Errorf("%d starts, late by %v and %v", stats.Started, stats.StartLagP50, stats.StartLagP99)
	}
	for _, order := range []store.Order{store.ByScheduledDesc, store.ByCreatedDesc} {
		p, err := s.List(t.Context(), store.JobQuery{Project: testProject, Order: order, States: job.States})
		must(t, err)
		if len(p.Jobs) != 5 || !slices.IsSortedFunc(p.Jobs, func(a, b job.Snapshot) int { return b.Created.Compare(a.Created) }) {
			t.Errorf("order %d: %d jobs", order, len(p.Jobs))
		}
	}
	now.Store(testStart.Add(2 * time.Hour).UnixMicro())
	got := mustClaim(t, s, 10)
	if len(got) != 1 || got[0].ID != reply.ID || got[0].ReplyTo != "object-1" {
		t.Errorf("claimed: %+v", got)
	}
}

// upgradedLog: the old events are where they were, and new ones come after them,
// of a cause that version 1 did not know.
func upgradedLog(t *testing.T, s *Store) {
	t.Helper()
	_, err := s.Events(t.Context(), store.EventQuery{Project: testProject, After: 2})
	wantErr(t, err, store.ErrCursorExpired)
	before, err := s.Events(t.Context(), store.EventQuery{Project: testProject, After: 3})
	must(t, err)
	if len(before.Events) != 11 || before.End != 14 {
		t.Errorf("%d events up to %d", len(before.Events), before.End)
	}
	claimed := s.byKey(t, "claimed")
	d, err := job.Decide(claimed.View(job.Traits{}, 0), job.Restored{Since: testStart})
	must(t, err)
	out, err := s.Apply(t.Context(), []store.Change{{Job: claimed.ID, Version: claimed.Version, Decision: d}})
	must(t, err)
	must(t, out[0].Err)
	after, err := s.Events(t.Context(), store.EventQuery{Project: testProject, After: before.End})
	must(t, err)
	if len(after.Events) != 1 || after.Events[0].Position != 15 || after.Events[0].Cause != job.CauseRestored {
		t.Errorf("new events: %+v", after.Events)
	}
}

// TestUpgradeKeepsPositions: positions are never used twice, also when the newest
// events are gone.
func TestUpgradeKeepsPositions(t *testing.T) {
	path := version1(t)
	db := raw(t, path)
	sqlExec(t, db, "DELETE FROM events; UPDATE meta SET events_from = 14")
	must(t, db.Close())
	s := mustOpen(t, Options{Path: path, Now: frozen})
	mustCreate(t, s, newJob(mustConnect(t, s)))
	p, err := s.Events(t.Context(), store.EventQuery{Project: testProject, After: 14})
	must(t, err)
	if len(p.Events) != 1 || p.Events[0].Position != 15 {
		t.Errorf("events: %+v", p.Events)
	}
}

// TestUpgradeCountsItems: what waits in queues counts against the quota from version 46 on, also
// what was there before.
func TestUpgradeCountsItems(t *testing.T) {
	newer := testPath(t)
	must(t, Migrate(t.Context(), newer))
	s := mustOpen(t, Options{Path: newer, Now: frozen})
	conn := mustConnect(t, s)
	of, _, err := s.CreateSchedule(t.Context(), store.NewSchedule{Schedule: store.Schedule{
		ID: randomID(), Project: testProject, Key: "s", Connection: conn.ID, State: store.ScheduleActive, Queued: true,
	}})
	must(t, err)
	for i, size := range []int{10, 200, 3000} {
		_, _, err := s.AddItem(t.Context(), store.NewItem{Project: testProject, Item: store.ScheduleItem{
			ID: randomID(), Schedule: of.ID, Key: strconv.Itoa(i), Payload: make([]byte, size),
		}})
		must(t, err)
	}
	must(t, s.Close())

	older := testPath(t)
	db := raw(t, older)
	p, err := provider(db)
	must(t, err)
	_, err = p.UpTo(t.Context(), 45)
	must(t, err)
	sqlExec(t, db, "ATTACH '"+newer+"' AS newer")
	for _, table := range []string{"connections", "schedules", "schedule_items"} {
		var columns string
		must(t, db.QueryRowContext(t.Context(), "SELECT group_concat(name) FROM pragma_table_info('"+table+"', 'main')").Scan(&columns))
		sqlExec(t, db, "INSERT INTO main."+table+" ("+columns+") SELECT "+columns+" FROM newer."+table)
	}
	must(t, db.Close())
	must(t, Migrate(t.Context(), older))
	s = mustOpen(t, Options{Path: older, Now: frozen})
	got, err := s.StoredJobs(t.Context(), testProject)
	must(t, err)
	if got != (store.StoredJobs{Bytes: 3210}) {
		t.Errorf("stored %+v, want 3210 bytes", got)
	}
}
