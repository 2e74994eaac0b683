package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/storetest"
)

// TestStatesAreAddedInPlace adds the states that the contract reserves as a later version will: by
// another body of one function, without another table and without a write to a row.
func TestStatesAreAddedInPlace(t *testing.T) {
	f := newFleet(t, 1)
	f.submit(1, f.connect())
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	exec := func(statement string) error {
		_, err := conn.Exec(t.Context(), statement)
		return err
	}
	// table identifies the table's file and its only row.
	table := func() (out string) {
		err := conn.QueryRow(t.Context(), "SELECT pg_relation_filenode('job_state') || ' ' || ctid || ' ' || xmin FROM job_state").Scan(&out)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	const toApproval = "UPDATE job_state SET state = 13, version = version + 1, position = position + 1, next_at = NULL"
	before := table()
	if exec(toApproval) == nil {
		t.Error("a state before it is added")
	}

	moves := make([]string, 0, storetest.AwaitingApproval+1)
	for from := job.State(0); from <= storetest.AwaitingApproval; from++ {
		moves = append(moves, fmt.Sprint(storetest.MovesWithReserved(from)))
	}
	err = exec(`CREATE OR REPLACE FUNCTION legal_transition(from_state smallint, to_state smallint) RETURNS boolean
		LANGUAGE sql IMMUTABLE PARALLEL SAFE
		RETURN coalesce(('[0:13]={` + strings.Join(moves, ",") + `}'::integer[])[from_state] >> to_state & 1 = 1, false)`)
	if err != nil {
		t.Fatal(err)
	}
	if after := table(); after != before {
		t.Errorf("the table is %s, and was %s", after, before)
	}
	if err := exec(toApproval); err != nil {
		t.Fatal(err)
	}
	for what, statement := range map[string]string{
		"a claim of an unapproved job": `UPDATE job_state SET state = 2, version = version + 1, position = position + 1,
			next_at = now(), claim_token = '\x00'`,
		"its success":  "UPDATE job_state SET state = 8, version = version + 1, position = position + 1, ended_at = now()",
		"its deletion": "DELETE FROM job_state",
	} {
		if exec(statement) == nil {
			t.Errorf("%s was taken", what)
		}
	}
	if err := exec("UPDATE job_state SET state = 1, version = version + 1, position = position + 1, next_at = now()"); err != nil {
		t.Error(err)
	}
}
