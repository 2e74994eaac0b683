package sqlite

import (
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// guarded is a database with one job, to be written to with raw SQL.
type guarded struct {
	*sql.DB
	trigger string
}

func newGuarded(t *testing.T) guarded {
	path := testPath(t)
	s := mustOpen(t, Options{Path: path, Now: frozen})
	mustCreate(t, s, newJob(mustConnect(t, s)))
	must(t, s.Close())
	g := guarded{DB: raw(t, path)}
	must(t, g.QueryRow("SELECT sql FROM sqlite_master WHERE name = 'job_state_update'").Scan(&g.trigger))
	return g
}

// set puts the job into a state behind the trigger's back.
func (g guarded) set(t *testing.T, state job.State, version, attempt int64) {
	t.Helper()
	sqlExec(t, g.DB, "DROP TRIGGER job_state_update")
	sqlExec(t, g.DB, "UPDATE job_state SET result = 3 WHERE attempt > 0")
	sqlExec(t, g.DB, moveTo, int64(state), version, attempt)
	sqlExec(t, g.DB, "UPDATE job_state SET result = 3")
	sqlExec(t, g.DB, "DELETE FROM attempts")
	sqlExec(t, g.DB, g.trigger)
}

// known writes the result of the newest attempt behind the trigger's back.
func (g guarded) known(t *testing.T, result job.Result) {
	t.Helper()
	sqlExec(t, g.DB, "DROP TRIGGER job_state_update")
	sqlExec(t, g.DB, "UPDATE job_state SET result = ?", int64(result))
	sqlExec(t, g.DB, g.trigger)
}

// refused checks that a statement is refused.
func (g guarded) refused(t *testing.T, what, text string, args ...any) {
	t.Helper()
	_, err := g.Exec(text, args...)
	if err == nil {
		t.Errorf("%s was taken", what)
		return
	}
	wantErr(t, translate(err), store.ErrIllegal)
}

// moveTo writes a whole, consistent state. A new attempt is live.
const moveTo = `UPDATE job_state SET state = ?1, version = ?2, attempt = ?3,
	armed_round = 1, arm_token = CASE WHEN attempt = ?3 THEN coalesce(arm_token, zeroblob(16)) ELSE randomblob(16) END,
	armed_by = 'w', armed_at = 1, send_deadline = 2, answer_deadline = 3, fence_at = 5, effect_key = 'k', request_digest = x'01',
	credential_version = 1, account_identity = '', watermark = '', handle = '', kind = 0, message = '', http_status = 0,
	bytes_written = 0, frozen = x'', result = CASE WHEN attempt = ?3 THEN coalesce(result, 3) ELSE 0 END,
	next_at = CASE WHEN ?1 IN (7, 8, 9, 10, 11) THEN NULL ELSE 5 END,
	listed = CASE WHEN ?1 IN (2, 3) THEN 1 ELSE ?1 END,
	claim_token = CASE WHEN ?1 = 2 THEN zeroblob(16) END,
	ended_at = CASE WHEN ?1 IN (8, 9, 10, 11) THEN 5 END`

func TestTriggerEveryMove(t *testing.T) {
	g := newGuarded(t)
	for _, from := range job.States {
		for _, to := range append(slices.Clone(job.States), 0, 12) {
			g.set(t, from, 5, 1)
			attempt := 1
			if to == job.Sending && from != to {
				attempt = 2
			}
			_, err := g.Exec(moveTo, int64(to), 6, attempt)
			if job.Legal(from, to) {
				if err != nil {
					t.Errorf("%v to %v: %v", from, to, err)
				}
				continue
			}
			wantErr(t, translate(err), store.ErrIllegal)
		}
	}
}

func TestTriggerCounters(t *testing.T) {
	g := newGuarded(t)
	for _, tt := range []struct {
		name             string
		from, to         job.State
		version, attempt int64 // from 5 and 1
		ok               bool
	}{
		{"a change of state raises the version", job.Claimed, job.Failed, 5, 1, false},
		{"by one only", job.Claimed, job.Failed, 7, 1, false},
		{"never lower", job.Claimed, job.Failed, 4, 1, false},
		{"a lease raises nothing", job.Ambiguous, job.Ambiguous, 5, 1, true},
		{"a same-state event raises it by one", job.Ambiguous, job.Ambiguous, 6, 1, true},
		{"not by two", job.Ambiguous, job.Ambiguous, 7, 1, false},
		{"not down", job.Ambiguous, job.Ambiguous, 4, 1, false},
		{"an attempt is never lowered", job.Claimed, job.Failed, 6, 0, false},
		{"nor raised but by an arm", job.Claimed, job.Failed, 6, 2, false},
		{"an arm raises it by one", job.Claimed, job.Sending, 6, 2, true},
		{"not by two", job.Claimed, job.Sending, 6, 3, false},
		{"no arm without an attempt", job.Claimed, job.Sending, 6, 1, false},
		{"no attempt in mid-send", job.Sending, job.Sending, 6, 2, false},
	} {
		g.set(t, tt.from, 5, 1)
		_, err := g.Exec(moveTo, int64(tt.to), tt.version, tt.attempt)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	g.set(t, job.Sending, 5, 1)
	for text, ok := range map[string]bool{
		"next_at = next_at - 1":                        false,
		"next_at = next_at + 1":                        true, // when a quarantine ends
		"next_at = next_at + 1, version = version + 1": false,
	} {
		if _, err := g.Exec("UPDATE job_state SET " + text); (err == nil) != ok {
			t.Errorf("a fence and %s: %v", text, err)
		}
	}
	if _, err := g.Exec("UPDATE job_state SET connection_id = zeroblob(16)"); err == nil {
		t.Error("a job was moved to another connection")
	}
}

// twoSteps writes what a claim and an arm leave, with other values for some columns.
func twoSteps(to job.State, other map[string]string) string {
	set := map[string]string{
		"state": fmt.Sprint(int(to)), "version": "version + 2", "attempt": "attempt + 1", "next_at": "5",
		"claim_token": "NULL", "claimed_at": "5", "updated_at": "5", "claims": "0", "ended_at": "NULL",
		"arm_token": "randomblob(16)", "result": "0",
	}
	if !to.InFlight() {
		set["listed"] = set["state"]
	}
	if to.Terminal() || to == job.NeedsResolution {
		set["next_at"] = "NULL"
	}
	if to.Terminal() {
		set["ended_at"] = "5"
	}
	if to == job.Claimed {
		set["claim_token"] = "zeroblob(16)"
	}
	maps.Copy(set, other)
	var columns []string
	for column, value := range set {
		columns = append(columns, column+" = "+value)
	}
	return "UPDATE job_state SET " + strings.Join(columns, ", ")
}

// Of all moves by two versions the database takes those of a claim that arms.
func TestTriggerTwoSteps(t *testing.T) {
	g := newGuarded(t)
	for _, from := range job.States {
		for _, to := range job.States {
			g.set(t, from, 5, 1)
			_, err := g.Exec(twoSteps(to, nil))
			want := slices.ContainsFunc(job.ClaimAndArm, func(pair [2]job.Transition) bool { return pair[0].From == from && pair[1].To == to })
			if got := err == nil; got != want {
				t.Errorf("from %v to %v by two versions: %v", from, to, err)
			}
		}
	}
}

// The guards of the claim and of the arm hold when both are one write.
func TestTriggerTwoStepsGuards(t *testing.T) {
	g := newGuarded(t)
	for name, tt := range map[string]struct {
		row    string
		update map[string]string
		ok     bool
	}{
		"as it should be":    {ok: true},
		"waits for a job":    {row: "waits_for = job_id"},
		"three versions":     {update: map[string]string{"version": "version + 3"}},
		"one version":        {update: map[string]string{"version": "version + 1"}},
		"no attempt":         {update: map[string]string{"attempt": "attempt"}},
		"two attempts":       {update: map[string]string{"attempt": "attempt + 2"}},
		"claims are kept":    {row: "claims = 1", update: map[string]string{"claims": "claims"}},
		"has an outcome":     {update: map[string]string{"result": "1"}},
		"never claimed":      {update: map[string]string{"claimed_at": "NULL"}},
		"claimed before":     {update: map[string]string{"claimed_at": "4"}},
		"another connection": {update: map[string]string{"connection_id": "zeroblob(16)"}},
		"another job":        {update: map[string]string{"job_id": "zeroblob(16)"}},
	} {
		g.set(t, job.Scheduled, 5, 1)
		sqlExec(t, g.DB, "UPDATE job_state SET claims = 0, waits_for = NULL, claimed_at = NULL")
		if tt.row != "" {
			sqlExec(t, g.DB, "UPDATE job_state SET "+tt.row)
		}
		_, err := g.Exec(twoSteps(job.Sending, tt.update))
		if got := err == nil; got != tt.ok {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !tt.ok {
			wantErr(t, translate(err), store.ErrIllegal)
		}
	}
}

func TestTriggerDelete(t *testing.T) {
	g := newGuarded(t)
	for _, state := range job.States {
		g.set(t, state, 5, 1)
		tx, err := g.Begin()
		must(t, err)
		_, err = tx.Exec("DELETE FROM job_state")
		if (err == nil) != state.Terminal() {
			t.Errorf("deleting a job that is %v: %v", state, err)
		}
		must(t, tx.Rollback())
	}
}

// arm is the statement of an arm under an effect key.
const arm = `UPDATE job_state SET state = 3, listed = 5, version = version + 1, attempt = attempt + 1, next_at = 9, claim_token = NULL,
	arm_token = randomblob(16), result = 0, handle = '', effect_key = ?`

// The attempt before the one that begins is kept, whatever statement begins it, and no
// attempt that may still act is overwritten.
func TestTriggerArchive(t *testing.T) {
	g := newGuarded(t)
	g.set(t, job.Ambiguous, 5, 1)
	g.known(t, 0)
	g.refused(t, "a second live intent", arm, "k")
	g.known(t, job.ResultUnknown)
	g.refused(t, "another effect key beside an unknown one", arm, "other")
	sqlExec(t, g.DB, arm, "k")
	var n, result int
	var key string
	must(t, g.QueryRow("SELECT number, result, effect_key FROM attempts").Scan(&n, &result, &key))
	if n != 1 || result != 4 || key != "k" {
		t.Errorf("kept: attempt %d, result %d, key %q", n, result, key)
	}
	sqlExec(t, g.DB, "UPDATE job_state SET result = 2")
	sqlExec(t, g.DB, "UPDATE job_state SET state = 5, listed = 5, version = version + 1")
	g.refused(t, "another effect key beside an unknown earlier one", arm, "other")
	sqlExec(t, g.DB, "UPDATE attempts SET result = 7")
	g.refused(t, "the token of an earlier attempt", strings.Replace(arm, "randomblob(16)", "(SELECT arm_token FROM attempts)", 1), "other")
	g.refused(t, "the token of the attempt before", strings.Replace(arm, "randomblob(16)", "arm_token", 1), "other")
	sqlExec(t, g.DB, arm, "other")
}

// What is known of an attempt stays, of the newest and of an earlier one.
func TestTriggerResults(t *testing.T) {
	g := newGuarded(t)
	g.set(t, job.Ambiguous, 5, 1)
	g.known(t, job.ResultUnknown)
	sqlExec(t, g.DB, arm, "k")
	for _, table := range []string{"attempts", "job_state"} {
		update := "UPDATE " + table + " SET "
		sqlExec(t, g.DB, update+"result = 2")
		g.refused(t, "doubt over a refusal", update+"result = 4")
		sqlExec(t, g.DB, update+"result = 4, handle = 'h'")
		g.refused(t, "no result", update+"result = 0")
		g.refused(t, "an earlier fence", update+"fence_at = fence_at - 1")
		sqlExec(t, g.DB, update+"fence_at = fence_at + 1")
		sqlExec(t, g.DB, update+"result = 1")
		g.refused(t, "a refusal over a success", update+"result = 2")
	}
	for _, set := range []string{"arm_token = zeroblob(16)", "effect_key = 'other'", "request_digest = x'02'"} {
		g.refused(t, "another intent", "UPDATE job_state SET "+set)
	}
}

func TestTriggerInsert(t *testing.T) {
	g := newGuarded(t)
	for _, change := range []string{"state = 2, claim_token = zeroblob(16)", "version = 2", "attempt = 1"} {
		sqlExec(t, g.DB, "CREATE TEMP TABLE copy AS SELECT * FROM job_state")
		sqlExec(t, g.DB, "CREATE TEMP TABLE changed AS SELECT * FROM job_state")
		sqlExec(t, g.DB, "UPDATE changed SET "+change)
		sqlExec(t, g.DB, "DROP TRIGGER IF EXISTS job_state_delete")
		sqlExec(t, g.DB, "DELETE FROM job_state")
		_, err := g.Exec("INSERT INTO job_state SELECT * FROM changed")
		if err == nil || !strings.Contains(err.Error(), "a job starts as SCHEDULED") {
			t.Errorf("a job was born with %s: %v", change, err)
		}
		sqlExec(t, g.DB, "INSERT INTO job_state SELECT * FROM copy")
		sqlExec(t, g.DB, "DROP TABLE copy")
		sqlExec(t, g.DB, "DROP TABLE changed")
	}
}
