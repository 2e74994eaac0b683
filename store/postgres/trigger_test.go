//go:build unix

package postgres

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
)

// twoSteps writes the claim and the arm of a job as one, with other values for some
// columns.
func twoSteps(other map[string]string) string {
	set := map[string]string{
		"state": "3", "version": "version + 2", "position": "position + 2", "attempt": "attempt + 1", "next_at": "now()",
		"claim_token": "NULL", "claimed_at": "now()", "claims": "0", "updated_at": "now()", "ended_at": "NULL",
		"armed_round": "round", "arm_token": "gen_random_uuid()", "armed_by": "'w'", "armed_at": "now()", "send_deadline": "now()",
		"answer_deadline": "now()", "fence_at": "now()", "effect_key": "'key'", "request_digest": "'digest'",
		"credential_version": "0", "account_identity": "''", "watermark": "''", "handle": "''", "frozen": "''", "result": "0",
		"failure_kind": "0", "message": "''", "http_status": "0", "bytes_written": "0", "round_armed_at": "now()", "first_armed_at": "now()",
	}
	maps.Copy(set, other)
	var columns []string
	for column, value := range set {
		columns = append(columns, column+" = "+value)
	}
	return "UPDATE job_state SET " + strings.Join(columns, ", ")
}

// of returns columns that go with a state.
func of(state job.State) map[string]string {
	out := map[string]string{"state": strconv.Itoa(int(state))}
	if state.Terminal() || state == job.NeedsResolution {
		out["next_at"] = "NULL"
	}
	if state.Terminal() {
		out["ended_at"] = "now()"
	}
	if state == job.Claimed {
		out["claim_token"] = "gen_random_uuid()"
	}
	return out
}

// rowIn returns a transaction with one job in a state, whatever led there.
func rowIn(t *testing.T, conn *pgx.Conn, state job.State, other map[string]string) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	row := of(state)
	row["claims"], row["result"] = "1", "2"
	maps.Copy(row, other)
	for _, text := range []string{
		"ALTER TABLE job_state DISABLE TRIGGER job_state_update", twoSteps(row),
		"ALTER TABLE job_state ENABLE TRIGGER job_state_update",
	} {
		if _, err := tx.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	return tx
}

// Of all moves by two versions the database takes those of a claim that arms.
func TestTwoSteps(t *testing.T) {
	f := newFleetApart(t, 1)
	f.submit(1, f.connect())
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for from := job.State(1); from.Valid(); from++ {
		for to := job.State(1); to.Valid(); to++ {
			tx := rowIn(t, conn, from, nil)
			_, err := tx.Exec(t.Context(), twoSteps(of(to)))
			want := slices.ContainsFunc(job.ClaimAndArm, func(pair [2]job.Transition) bool { return pair[0].From == from && pair[1].To == to })
			if got := err == nil; got != want {
				t.Errorf("from %s to %s by two versions: %v", from, to, err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The guards of the claim and of the arm hold when both are one write.
func TestTwoStepsGuards(t *testing.T) {
	f := newFleetApart(t, 1)
	f.submit(1, f.connect())
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for name, tt := range map[string]struct {
		row, update map[string]string
		want        bool
	}{
		"as it should be":     {want: true},
		"waits for a job":     {row: map[string]string{"waits_for": "job_id"}},
		"three versions":      {update: map[string]string{"version": "version + 3"}},
		"one version":         {update: map[string]string{"version": "version + 1"}},
		"no attempt":          {update: map[string]string{"attempt": "attempt"}},
		"two attempts":        {update: map[string]string{"attempt": "attempt + 2"}},
		"no room for a claim": {update: map[string]string{"position": "position + 1"}},
		"no new position":     {update: map[string]string{"position": "position"}},
		"claims are kept":     {update: map[string]string{"claims": "claims"}},
		"never claimed":       {update: map[string]string{"claimed_at": "NULL"}},
		"claimed before":      {update: map[string]string{"claimed_at": "now() - interval '1 second'"}},
		"another connection":  {update: map[string]string{"connection_id": "gen_random_uuid()"}},
		"another job":         {update: map[string]string{"job_id": "gen_random_uuid()"}},
	} {
		tx := rowIn(t, conn, job.Scheduled, tt.row)
		_, err := tx.Exec(t.Context(), twoSteps(tt.update))
		if got := err == nil; got != tt.want {
			t.Errorf("%s: %v", name, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
