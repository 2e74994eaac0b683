package sqlite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/storetest"
)

// moveSchedule writes a whole, consistent state of the only schedule.
const moveSchedule = `UPDATE schedules SET state = ?1, version = version + ?2, revision = revision + ?3, next_at = NULL,
	pause_cause = CASE WHEN ?1 = 2 THEN 1 ELSE 0 END, paused_at = CASE WHEN ?1 = 2 THEN 5 END,
	deleted_at = CASE WHEN ?1 = 4 THEN 5 END, template = CASE WHEN ?1 = 4 THEN x'' ELSE template END`

// The database itself refuses what store.ScheduleState.Next does, and a write that does not
// raise the revision.
func TestTriggerSchedules(t *testing.T) {
	path := testPath(t)
	s := mustOpen(t, Options{Path: path, Now: frozen})
	conn := mustConnect(t, s)
	_, _, err := s.CreateSchedule(t.Context(), store.NewSchedule{Schedule: store.Schedule{
		ID: job.ID{1}, Project: testProject, Key: "k", Connection: conn.ID, State: store.ScheduleActive, Template: []byte("t"),
	}})
	must(t, err)
	must(t, s.Close())
	db := raw(t, path)
	var trigger string
	must(t, db.QueryRow("SELECT sql FROM sqlite_master WHERE name = 'schedules_update'").Scan(&trigger))
	set := func(state store.ScheduleState) {
		t.Helper()
		sqlExec(t, db, "DROP TRIGGER schedules_update")
		sqlExec(t, db, moveSchedule, int64(state), 1, 1)
		sqlExec(t, db, trigger)
	}
	for _, from := range store.ScheduleStates {
		for _, to := range store.ScheduleStates {
			set(from)
			_, err := db.Exec(moveSchedule, int64(to), 1, 1)
			if from.Next(to) != (err == nil) {
				t.Errorf("from %d to %d: %v", from, to, err)
			}
			if err != nil {
				wantErr(t, translate(err), store.ErrIllegal)
			}
		}
	}
	set(store.ScheduleActive)
	for what, text := range map[string]string{
		"a move without a version":     "state = 3, revision = revision + 1",
		"a cursor without a revision":  "cursor_at = 'x'",
		"a run without a revision":     "run = run + 1",
		"two revisions":                "revision = revision + 2",
		"another project":              "project = 'x', revision = revision + 1",
		"another key":                  "idem_key = 'x', revision = revision + 1",
		"a generation that falls":      "generation = 0, revision = revision + 1",
		"a firing that waits in pause": "state = 2, pause_cause = 1, paused_at = 1, buffered = 'x', version = version + 1, revision = revision + 1",
		"a long cursor":                "cursor_at = '" + strings.Repeat("x", store.MaxCursor+1) + "', revision = revision + 1",
	} {
		if _, err := db.Exec("UPDATE schedules SET " + text); err == nil {
			t.Errorf("%s was taken", what)
		}
	}
	sqlExec(t, db, "UPDATE schedules SET next_at = 7") // the end of a job
	sqlExec(t, db, `INSERT INTO firings SELECT id, 'n', 1, 1, '', 0, 1, 5, '', NULL, NULL, 0, 1 FROM schedules`)
	if _, err := db.Exec("UPDATE firings SET outcome = 6"); err == nil {
		t.Error("a firing was changed")
	}
}

// A call of Fire reads the schedules that are due, and no other.
func TestDuePlan(t *testing.T) {
	path := testPath(t)
	must(t, Migrate(t.Context(), path))
	db := raw(t, path)
	plan := planOf(t, db, "due", `SELECT id FROM schedules WHERE next_at IS NOT NULL AND coalesce(postponed_until, next_at) <= +CAST(? AS INTEGER)
		ORDER BY coalesce(postponed_until, next_at) LIMIT ?`, []any{1, 1})
	if got := strings.Join(plan, " | "); !strings.Contains(got, "SEARCH schedules USING INDEX schedules_due (<expr><?)") || strings.Contains(got, "ORDER BY") {
		t.Error(got)
	}
	// One entry of an index, however many jobs are open.
	plan = planOf(t, db, "open", `SELECT s.job_id, s.state FROM schedule_jobs AS o JOIN job_state AS s ON s.job_id = o.job_id
		WHERE o.schedule_id = ? AND o.unresolved = ? ORDER BY o.job_id DESC LIMIT 1`, []any{1, 1})
	if got := strings.Join(plan, " | "); got != "SEARCH o USING PRIMARY KEY (schedule_id=? AND unresolved=?) | SEARCH s USING INDEX sqlite_autoindex_job_state_1 (job_id=?)" {
		t.Error(got)
	}
}

// A job without a schedule costs schedules nothing, and a schedule's jobs are listed until
// they end.
func TestScheduleJobs(t *testing.T) {
	path := testPath(t)
	s := mustOpen(t, Options{Path: path, Now: frozen})
	conn := mustConnect(t, s)
	of := newJob(conn)
	of.Spec.Schedule = job.ID{7}
	mustCreate(t, s, newJob(conn), of)
	var list []string
	count := func() string {
		var n int
		must(t, raw(t, path).QueryRow("SELECT count(*) FROM schedule_jobs").Scan(&n))
		return fmt.Sprint(n)
	}
	list = append(list, count())
	for _, l := range mustClaim(t, s, 2) {
		out, err := s.Apply(t.Context(), []store.Change{success(t, mustArm(t, s, l)[0].Snapshot)})
		must(t, err)
		must(t, out[0].Err)
	}
	list = append(list, count())
	if got := strings.Join(list, " "); got != "1 0" {
		t.Errorf("jobs of schedules that have not ended: %s", got)
	}
}

// BenchmarkFire: see storetest.
func BenchmarkFire(b *testing.B) {
	storetest.BenchmarkFire(b, func(b *testing.B) store.Store { return mustOpen(b, Options{Path: testPath(b)}) })
}
