package commitproxy

import (
	"regexp"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgproto3"
)

var statementName = regexp.MustCompile(`-- name: (\w+)`)

// transaction knows the statements of the transaction under way on a connection.
type transaction struct {
	statements map[string]string // prepared ones: our name by theirs

	// cut reports that the connection ends once the query under way has run.
	cut atomic.Bool

	mu    sync.Mutex
	names []string
}

func (t *transaction) asked(m pgproto3.FrontendMessage) {
	switch m := m.(type) {
	case *pgproto3.Parse:
		t.statements[m.Name] = nameOf(m.Query)
	case *pgproto3.Bind:
		t.add(t.statements[m.PreparedStatement])
	case *pgproto3.Query:
		t.add(nameOf(m.String))
	}
}

func nameOf(sql string) string {
	if found := statementName.FindStringSubmatch(sql); found != nil {
		return found[1]
	}
	return ""
}

func (t *transaction) add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if name != "" {
		t.names = append(t.names, name)
	}
}

// idle is what PostgreSQL says when no transaction is under way.
const idle = 'I'

// answered follows what the server says. At a COMMIT it returns the names of the
// transaction's statements. What runs without one is over when the server is idle,
// and is no part of the next.
func (t *transaction) answered(m pgproto3.BackendMessage) (committed []string) {
	switch m := m.(type) {
	case *pgproto3.CommandComplete:
		switch string(m.CommandTag) {
		case "COMMIT":
			return t.end()
		case "ROLLBACK":
			t.end()
		}
	case *pgproto3.ReadyForQuery:
		if m.TxStatus == idle {
			t.end()
		}
	}
	return nil
}

func (t *transaction) end() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := t.names
	t.names = nil
	return names
}
