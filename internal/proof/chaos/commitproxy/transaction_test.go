package commitproxy

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// TestACommitHasItsOwnStatements: those that ran before it without a transaction, and
// those of one that was rolled back, are not its own.
func TestACommitHasItsOwnStatements(t *testing.T) {
	tx := &transaction{statements: make(map[string]string)}
	query := func(sql, tag string, status byte) []string {
		tx.asked(&pgproto3.Query{String: sql})
		committed := tx.answered(&pgproto3.CommandComplete{CommandTag: []byte(tag)})
		if early := tx.answered(&pgproto3.ReadyForQuery{TxStatus: status}); early != nil {
			t.Errorf("%s: %v without a COMMIT", sql, early)
		}
		return committed
	}
	query("-- name: InsertJobs :exec", "INSERT 0 1", 'I')
	query("begin", "BEGIN", 'T')
	query("-- name: ClaimJobs :exec", "UPDATE 1", 'T')
	query("rollback", "ROLLBACK", 'I')
	query("begin", "BEGIN", 'T')
	tx.asked(&pgproto3.Parse{Name: "s1", Query: "-- name: SettleAttempts :exec"})
	tx.asked(&pgproto3.Bind{PreparedStatement: "s1"})
	tx.answered(&pgproto3.ReadyForQuery{TxStatus: 'T'})
	if got := query("commit", "COMMIT", 'I'); !slices.Equal(got, []string{"SettleAttempts"}) {
		t.Errorf("%v", got)
	}
	query("begin", "BEGIN", 'T')
	if got := query("commit", "COMMIT", 'I'); len(got) != 0 {
		t.Errorf("an empty transaction is of %v", got)
	}
}
