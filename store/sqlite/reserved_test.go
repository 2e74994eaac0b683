package sqlite

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/storetest"
)

// TestStatesAreAddedInPlace adds the states that the contract reserves as a later version will: by
// another trigger, without another table and without a write to a row.
func TestStatesAreAddedInPlace(t *testing.T) {
	g := newGuarded(t)
	table := func() (out string) {
		must(t, g.QueryRow("SELECT rootpage || ' ' || sql FROM sqlite_master WHERE name = 'job_state'").Scan(&out))
		return out
	}
	const toApproval = "UPDATE job_state SET state = 13, listed = 13, version = version + 1, next_at = NULL"
	before := table()
	g.refused(t, "a state before it is added", toApproval)

	moves := "CASE OLD.state"
	for from := job.Scheduled; from <= storetest.AwaitingApproval; from++ {
		moves += fmt.Sprintf(" WHEN %d THEN %d", from, storetest.MovesWithReserved(from))
	}
	table11 := regexp.MustCompile(`(?s)CASE OLD\.state\s.*?END\)`)
	if n := len(table11.FindAllString(g.trigger, -1)); n != 1 {
		t.Fatalf("%d tables of moves in the trigger", n)
	}
	sqlExec(t, g.DB, "DROP TRIGGER job_state_update")
	sqlExec(t, g.DB, table11.ReplaceAllLiteralString(g.trigger, moves+" END)"))

	if after := table(); after != before {
		t.Errorf("another table:\n%s\nafter\n%s", after, before)
	}
	sqlExec(t, g.DB, toApproval)
	g.refused(t, "a claim of an unapproved job",
		"UPDATE job_state SET state = 2, listed = 1, version = version + 1, next_at = 5, claim_token = zeroblob(16)")
	g.refused(t, "its success", "UPDATE job_state SET state = 8, listed = 8, version = version + 1, ended_at = 5")
	g.refused(t, "its deletion", "DELETE FROM job_state")
	sqlExec(t, g.DB, "UPDATE job_state SET state = 1, listed = 1, version = version + 1, next_at = 5")
}
