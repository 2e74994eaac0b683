//go:build unix

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/storetest"
)

// plan makes a schedule that is due.
func (f *fleet) plan(conn store.Connection) job.ID {
	f.Helper()
	id := randomID()
	_, _, err := f.stores[0].CreateSchedule(f.Context(), store.NewSchedule{Schedule: store.Schedule{
		ID: id, Project: "default", Key: id.String(), Connection: conn.ID, State: store.ScheduleActive, Template: []byte("t"),
		Cursor: "0", Next: time.UnixMicro(f.now.Load()),
	}})
	if err != nil {
		f.Fatal(err)
	}
	return id
}

// nextFiring fires the next name, or buffers it where a job of the schedule is open, mostly.
func nextFiring(d store.DueSchedule) store.FireDecision {
	s := d.Schedule
	n, _ := strconv.Atoi(s.Cursor)
	s.Next = d.Now.Add(time.Second)
	name := fmt.Sprint("i:", n)
	blocked := len(d.Open) > 0 && s.Revision%3 != 0
	switch {
	case blocked && s.Buffered != nil:
		return store.FireDecision{Schedule: s}
	case blocked:
		s.Buffered = &store.Firing{Name: name, Nominal: d.Now, Origin: store.FiredByTime, Blocking: d.Open[0].ID}
		s.Cursor = strconv.Itoa(n + 1)
		return store.FireDecision{Schedule: s}
	case s.Buffered != nil:
		name, s.Buffered = s.Buffered.Name, nil
	default:
		s.Cursor = strconv.Itoa(n + 1)
	}
	s.Run++
	id := randomID()
	j := store.NewJob{Spec: job.Spec{ID: id, Connection: s.Connection, HoldKey: "account", PayloadKind: "webhook", Payload: []byte("{}")}}
	return store.FireDecision{Schedule: s, Firings: []store.FiringDecision{{Job: &j, Firing: store.Firing{
		Name: name, Nominal: d.Now, Origin: store.FiredByTime, Outcome: store.FiringFired, Run: s.Run,
	}}}}
}

// firedOnce checks what holds of schedules, firings and jobs after all concurrent work.
func (f *fleet) firedOnce() {
	f.Helper()
	for what, text := range map[string]string{
		"jobs of schedules without a firing": `SELECT count(*) FROM jobs AS j WHERE j.schedule_id IS NOT NULL
			AND NOT EXISTS (SELECT 1 FROM firings AS f WHERE f.schedule_id = j.schedule_id AND f.job_id = j.id)`,
		"firings without a job": `SELECT count(*) FROM firings AS f WHERE f.outcome = 1 AND NOT EXISTS (SELECT 1 FROM jobs AS j WHERE j.id = f.job_id)`,
		"jobs of one name":      `SELECT count(*) FROM (SELECT 1 FROM jobs WHERE schedule_id IS NOT NULL GROUP BY idem_key HAVING count(*) > 1) AS twice`,
		"schedules whose runs are not their firings": `SELECT count(*) FROM schedules AS s
			WHERE s.run <> (SELECT count(*) FROM firings AS f WHERE f.schedule_id = s.id AND f.outcome = 1 AND f.name LIKE 'i:%')`,
		"schedules whose cursor is not behind their firings": `SELECT count(*) FROM schedules AS s
			WHERE s.cursor_at <> '' AND s.cursor_at::bigint <> s.run + (s.buffered <> '')::integer`,
	} {
		if n := f.count(text); n != 0 {
			f.Errorf("%d %s", n, what)
		}
	}
}

// planner is a storm's worker that fires and changes schedules, too.
type planner struct {
	*storm
	ids []job.ID
}

func (w *planner) step() error {
	var err error
	switch w.r.IntN(6) {
	case 0, 1:
		var out []store.Fired
		out, _, err = w.s.Fire(context.Background(), store.FireParams{Limit: 1 + w.r.IntN(4), Decide: nextFiring})
		for _, one := range out {
			if one.Err != nil {
				w.Errorf("schedule %s: %v", one.Schedule.ID, one.Err)
			}
		}
	case 2:
		err = w.end()
	case 3:
		err = w.revise()
	case 4:
		name := fmt.Sprint("t:", w.r.IntN(5))
		_, _, err = w.s.Fire(context.Background(), store.FireParams{
			Only: store.Ref{Project: "default", ID: w.ids[w.r.IntN(len(w.ids))]},
			Decide: func(d store.DueSchedule) store.FireDecision {
				out := nextFiring(d)
				out.Schedule = d.Schedule
				if len(out.Firings) > 0 {
					out.Firings[0].Firing.Name = name
				}
				return out
			},
		})
	default:
		err = w.storm.step()
	}
	if errors.Is(err, store.ErrNotFound) || isOneOf(err, races...) {
		return nil
	}
	return err
}

// end ends jobs of a schedule.
func (w *planner) end() error {
	p, err := w.s.List(context.Background(), store.JobQuery{Project: "default", Schedule: w.ids[w.r.IntN(len(w.ids))], Limit: 10})
	if err != nil {
		return err
	}
	for _, s := range p.Jobs {
		if s.State.Terminal() {
			continue
		}
		if _, err := apply(w.s, s, job.CancelAsked{}); err != nil && !isOneOf(err, races...) {
			return err
		}
	}
	return nil
}

// revise pauses a schedule, or resumes it.
func (w *planner) revise() error {
	s, err := w.s.Schedule(context.Background(), store.Ref{ID: w.ids[w.r.IntN(len(w.ids))]})
	if err != nil {
		return err
	}
	if s.State == store.ScheduleActive && s.Buffered == nil {
		s.State, s.PauseCause, s.Next = store.SchedulePaused, store.PausedByPerson, time.Time{}
	} else {
		s.State, s.PauseCause, s.Next = store.ScheduleActive, 0, time.UnixMicro(w.now.Load())
	}
	_, err = w.s.ChangeSchedule(context.Background(), store.ScheduleChange{Schedule: s})
	return err
}

// TestScheduleStorm: schedules fire, are triggered, paused and resumed on three servers,
// while their jobs and others are worked on. Each name is one job, and no transactions wait
// for each other forever.
func TestScheduleStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("left out of the ordinary tests")
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			const workers, steps = 6, 60
			f := newFleetApart(t, 3)
			conns := []store.Connection{
				f.connect(func(c *store.Connection) { c.MaxInFlight = 5 }),
				f.connect(func(c *store.Connection) { c.Class, c.AccountIdentity = job.Observable, "me" }),
			}
			var ids []job.ID
			for i := range 5 {
				ids = append(ids, f.plan(conns[i%2]))
			}
			pool := &storms{}
			var wg sync.WaitGroup
			for i := range workers {
				w := &planner{&storm{
					fleet: f, s: f.stores[i%len(f.stores)], conns: conns, pool: pool, r: rand.New(rand.NewPCG(seed, uint64(i))),
				}, ids}
				wg.Go(func() {
					for range steps {
						if err := w.step(); err != nil {
							t.Errorf("worker %d: %v", i, err)
							return
						}
					}
				})
			}
			wg.Wait()
			f.consistent()
			f.firedOnce()
			if n := f.count("SELECT count(*) FROM firings"); n < 10 {
				t.Errorf("only %d firings", n)
			}
			for _, s := range f.stores {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if n := f.count("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
				t.Errorf("%d deadlocks\n%s", n, deadlocksOf(pgtest.Shared(t).Logs()))
			}
		})
	}
}

// A result waits for no decision about its schedule, and the schedule is left due soon.
func TestApplyDoesNotWaitForFire(t *testing.T) {
	f := newFleet(t, 2)
	id := f.plan(f.connect())
	out, _, err := f.stores[0].Fire(t.Context(), store.FireParams{Decide: nextFiring})
	if err != nil || len(out) != 1 || out[0].Err != nil {
		t.Fatal(out, err)
	}
	s := out[0].Schedule
	s.Buffered = &store.Firing{Name: "b", Nominal: fleetStart, Origin: store.FiredByTime}
	if _, err := f.stores[0].ChangeSchedule(t.Context(), store.ScheduleChange{Schedule: s}); err != nil {
		t.Fatal(err)
	}
	r := f.rival()
	r.must("SELECT FROM schedules FOR UPDATE")
	if _, err := apply(f.stores[1], out[0].Firings[0].Job.Snapshot, job.CancelAsked{}); err != nil {
		t.Fatal(err)
	}
	r.must("ROLLBACK")
	left, err := f.stores[0].Schedule(t.Context(), store.Ref{ID: id})
	if err != nil || left.Next.After(fleetStart.Add(store.BufferedLook)) {
		t.Error(left.Next, err)
	}
}

// The database itself refuses what store.ScheduleState.Next does.
func TestScheduleTriggers(t *testing.T) {
	f := newFleetApart(t, 1)
	f.plan(f.connect())
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	move := func(to store.ScheduleState) string {
		return fmt.Sprintf(`UPDATE schedules SET state = %[1]d, version = version + 1, revision = revision + 1, next_at = NULL,
			pause_cause = CASE WHEN %[1]d = 2 THEN 1 ELSE 0 END, paused_at = CASE WHEN %[1]d = 2 THEN now() END,
			deleted_at = CASE WHEN %[1]d = 4 THEN now() END, template = CASE WHEN %[1]d = 4 THEN ''::bytea ELSE template END`, to)
	}
	try := func(want bool, what string, before ...string) {
		t.Helper()
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.Background()) }()
		for i, text := range before {
			_, err := tx.Exec(t.Context(), text)
			last := i == len(before)-1
			if last && (err == nil) != want || !last && err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if err != nil {
				return
			}
		}
	}
	for _, from := range store.ScheduleStates {
		for _, to := range store.ScheduleStates {
			try(from.Next(to), fmt.Sprintf("from %d to %d", from, to), "ALTER TABLE schedules DISABLE TRIGGER schedules_update",
				move(from), "ALTER TABLE schedules ENABLE TRIGGER schedules_update", move(to))
		}
	}
	for what, text := range map[string]string{
		"a move without a version":     "state = 3, next_at = NULL, revision = revision + 1",
		"a cursor without a revision":  "cursor_at = 'x'",
		"a run without a revision":     "run = run + 1",
		"two revisions":                "revision = revision + 2",
		"another project":              "project = 'x', revision = revision + 1",
		"another key":                  "idem_key = 'x', revision = revision + 1",
		"a generation that falls":      "generation = 0, revision = revision + 1",
		"something due after the end":  "state = 3, version = version + 1, revision = revision + 1",
		"a long cursor":                "cursor_at = '" + strings.Repeat("x", store.MaxCursor+1) + "', revision = revision + 1",
		"a version without a revision": "version = version + 1",
	} {
		try(false, what, "UPDATE schedules SET "+text)
	}
	try(true, "the end of a job", "UPDATE schedules SET next_at = now()")
}

// TestWakesABusySchedule: a job ends while a decision that has seen it open is being made.
// The schedule is due once that is written, and watchers are notified.
func TestWakesABusySchedule(t *testing.T) {
	f := newFleet(t, 2)
	id := f.plan(f.connect())
	ref := store.Ref{Project: "default", ID: id}
	fire := func(decide func(store.DueSchedule) store.FireDecision) store.Fired {
		t.Helper()
		out, _, err := f.stores[0].Fire(t.Context(), store.FireParams{Only: ref, Decide: decide})
		if err != nil || len(out) != 1 || out[0].Err != nil {
			t.Fatal(out, err)
		}
		return out[0]
	}
	blocking := fire(nextFiring).Firings[0].Job.Snapshot
	hints, stop := f.stores[1].Watch(store.WatchSchedules)
	defer stop()
	fire(func(d store.DueSchedule) store.FireDecision {
		if len(d.Open) != 1 || d.Open[0].ID != blocking.ID {
			t.Errorf("open jobs %v", d.Open)
		}
		decision, err := job.Decide(blocking.View(job.Traits{Class: job.Keyed}, 0), job.CancelAsked{})
		if err != nil {
			t.Error(err)
		}
		out, err := f.stores[1].Apply(t.Context(), []store.Change{{Job: blocking.ID, Version: blocking.Version, Decision: decision}})
		if err != nil || out[0].Err != nil {
			t.Error(out, err)
		}
		s := d.Schedule
		s.Next = time.Time{}
		s.Buffered = &store.Firing{Name: "i:1", Nominal: d.Now, Origin: store.FiredByTime, Blocking: blocking.ID}
		return store.FireDecision{Schedule: s}
	})
	deadline := time.After(time.Minute)
	for {
		s, err := f.stores[1].Schedule(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if s.Buffered == nil {
			t.Fatal("nothing is buffered")
		}
		if !s.Next.After(time.UnixMicro(f.now.Load())) {
			return
		}
		select {
		case <-hints:
		case <-deadline:
			t.Fatalf("due at %s, after the end of what it waits for", s.Next)
		}
	}
}

// fillSchedule makes jobs of a schedule that wait, copies of one of its.
var fillSchedule = []string{
	"ALTER TABLE jobs DISABLE TRIGGER USER",
	"ALTER TABLE job_state DISABLE TRIGGER USER",
	"CREATE TEMPORARY TABLE filled AS SELECT gen_random_uuid() AS id FROM generate_series(1, 100000)",
	`INSERT INTO jobs SELECT r.* FROM filled AS f, (SELECT to_jsonb(j) AS row FROM jobs AS j WHERE schedule_id IS NOT NULL LIMIT 1) AS one,
		jsonb_populate_record(NULL::jobs, one.row || jsonb_build_object('id', f.id, 'idem_key', f.id)) AS r`,
	`INSERT INTO job_state SELECT r.* FROM filled AS f, (SELECT to_jsonb(j) AS row FROM job_state AS j WHERE schedule_id IS NOT NULL LIMIT 1) AS one,
		jsonb_populate_record(NULL::job_state, one.row || jsonb_build_object('job_id', f.id)) AS r`,
}

// TestOpenJobsAreBounded: beside 100,000 open jobs of a schedule, a call of Fire reads a few
// pages to know what is in the way.
func TestOpenJobsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it stores 100,000 jobs")
	}
	f := newFleetApart(t, 1)
	id := f.plan(f.connect())
	if _, _, err := f.stores[0].Fire(t.Context(), store.FireParams{Limit: 1, Decide: nextFiring}); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	exec := func(text string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), text, args...); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range sessionSettings {
		exec(fmt.Sprintf("SET %s = '%s'", name, value))
	}
	exec("SET statement_timeout = 0")
	// PostgreSQL may take statistics while there is one job, and none for a while.
	exec("ALTER TABLE job_state SET (autovacuum_enabled = false)")
	exec("ANALYZE job_state")
	for _, text := range fillSchedule {
		exec(text)
	}
	text := generatedQueries(t)["OpenJobs"]
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			exec("VACUUM ANALYZE job_state")
		}
		var plan string
		err := conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "+strings.ReplaceAll(text, "$1::uuid[]", "ARRAY['"+id.String()+"']::uuid[]")).Scan(&plan)
		if err != nil {
			t.Fatal(err)
		}
		var read []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
				Rows int `json:"Actual Rows"`
			}
		}
		if err := json.Unmarshal([]byte(plan), &read); err != nil {
			t.Fatal(err)
		}
		if p := read[0].Plan; p.Rows != 1 || p.Hit+p.Read > 40 {
			t.Errorf("analyzed %t: %d rows, %d pages\n%s", analyzed, p.Rows, p.Hit+p.Read, plan)
		}
	}
}

// A call of Fire reads the schedules that are due, and no other.
func TestDuePlan(t *testing.T) {
	f := newFleet(t, 1)
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for name, value := range sessionSettings {
		if _, err := conn.Exec(t.Context(), fmt.Sprintf("SET %s = '%s'", name, value)); err != nil {
			t.Fatal(err)
		}
	}
	queries := generatedQueries(t)
	for name, index := range map[string]string{
		"LockDueSchedules": "schedules_due", "NextSchedule": "schedules_due", "OpenJobs": "job_state_under_way",
	} {
		if plan := planOf(t, conn, name, queries[name]); !strings.Contains(plan, index) {
			t.Errorf("%s does not use %s:\n%s", name, index, plan)
		}
	}
}

// BenchmarkFire: see storetest.
func BenchmarkFire(b *testing.B) { storetest.BenchmarkFire(b, openBench) }
