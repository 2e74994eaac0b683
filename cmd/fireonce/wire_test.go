//go:build failpoints

package main

import (
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fireonce/fireonce/internal/pgtest"
)

// kind is what a transaction is for, by the statements in it.
type kind string

// kinds are told by the names of their statements in store/postgres.
var kinds = []struct {
	kind      kind
	statement string
}{
	{"create", "InsertJobs"}, {"arm", "InsertAttempts"}, {"settle", "SettleAttempts"},
	{"claim", "ClaimJobs"}, {"look", "LeaseLooks"}, {"apply", "SetStates"},
}

var statementName = regexp.MustCompile(`-- name: (\w+)`)

// wire stands between servers and PostgreSQL. It loses answers to COMMIT: the
// server has committed, and the connection is gone before the client hears of it.
type wire struct {
	url    string
	socket string
	lose   func(k kind, number int) bool // number counts the commits of a kind, from 1

	mu      sync.Mutex
	commits map[kind]int
	lost    map[kind]int
}

// startWire makes a lossy way to a database of a cluster.
func startWire(t *testing.T, c *pgtest.Cluster, database string, lose func(kind, int) bool) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{
		url:    fmt.Sprintf("postgres://fireonce@%s/%s?sslmode=disable", listener.Addr(), database),
		socket: c.Socket(), lose: lose, commits: make(map[kind]int), lost: make(map[kind]int),
	}
	var carrying sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		carrying.Wait() // the servers have ended, and so their connections
	})
	carrying.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			carrying.Go(func() {
				defer conn.Close()
				w.carry(conn)
			})
		}
	})
	return w
}

// carry passes one connection's messages on, until one side ends or a COMMIT's
// answer is lost.
func (w *wire) carry(client net.Conn) {
	backend := pgproto3.NewBackend(client, client)
	startup, err := backend.ReceiveStartupMessage()
	if err != nil {
		return
	}
	server, err := net.Dial("unix", w.socket)
	if err != nil {
		return
	}
	defer server.Close()
	frontend := pgproto3.NewFrontend(server, server)
	frontend.Send(startup)
	if frontend.Flush() != nil {
		return
	}
	if _, cancels := startup.(*pgproto3.CancelRequest); cancels {
		return
	}
	tx := &transaction{statements: make(map[string]string)}
	var asking sync.WaitGroup
	asking.Go(func() {
		defer server.Close()
		for {
			m, err := backend.Receive()
			if err != nil {
				return
			}
			tx.asked(m)
			frontend.Send(m)
			if frontend.Flush() != nil {
				return
			}
		}
	})
	defer asking.Wait()
	defer client.Close()
	for {
		m, err := frontend.Receive()
		if err != nil {
			return
		}
		if done, ok := m.(*pgproto3.CommandComplete); ok {
			switch string(done.CommandTag) {
			case "COMMIT":
				if w.loses(tx.end()) {
					return
				}
			case "ROLLBACK":
				tx.end()
			}
		}
		backend.Send(m)
		if backend.Flush() != nil {
			return
		}
	}
}

// loses counts a commit and says whether its answer is lost.
func (w *wire) loses(names []string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range kinds {
		for _, name := range names {
			if name != k.statement {
				continue
			}
			w.commits[k.kind]++
			if !w.lose(k.kind, w.commits[k.kind]) {
				return false
			}
			w.lost[k.kind]++
			return true
		}
	}
	return false // it only read
}

// String says what was lost.
func (w *wire) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, k := range kinds {
		out = append(out, fmt.Sprintf("%s %d of %d", k.kind, w.lost[k.kind], w.commits[k.kind]))
	}
	return "answers to COMMIT lost: " + strings.Join(out, ", ")
}

// losses counts the lost answers of a kind.
func (w *wire) losses(k kind) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost[k]
}

// transaction knows the statements of the transaction under way on a connection.
type transaction struct {
	statements map[string]string // prepared ones: our name by theirs

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

func (t *transaction) end() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := t.names
	t.names = nil
	return names
}

// TestLostCommits: the servers' transactions commit, and nobody tells them.
func TestLostCommits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lose func(kind, int) bool
		hits []kind
	}{
		// A claim that nobody knows of ends with its lease, and five in a row end the
		// job; looks are claims too.
		"every third": {func(k kind, n int) bool { return n%3 == 0 && (n < 13 || k != "claim" && k != "look") },
			[]kind{"create", "claim", "arm", "settle"}},
		"arms and results": {func(k kind, n int) bool { return (k == "arm" || k == "settle") && n%2 == 0 },
			[]kind{"arm", "settle"}},
	} {
		for _, class := range classes {
			t.Run(name+"/"+className(class), func(t *testing.T) {
				t.Parallel()
				c := pgtest.Shared(t)
				w := startWire(t, c, c.NewDatabase(t), tt.lose)
				f := newCrash(t, onPostgres, w.url, class, startTarget(t, class, lostFor(class)))
				f.jobs = scaled(12)
				f.run()
				t.Log(w)
				for _, k := range tt.hits {
					if w.losses(k) == 0 {
						t.Errorf("no answer to the COMMIT of a %s was lost", k)
					}
				}
			})
		}
	}
}
