// Package commitproxy stands between servers and PostgreSQL and loses answers to
// COMMIT: the transaction is durable, and the connection is gone before its client
// hears of it. It can also cut all connections, and delay or cut at single queries.
package commitproxy

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Kind is what a transaction is for, by the statements in it.
type Kind string

// The kinds of transactions that write.
const (
	Create Kind = "create"
	Arm    Kind = "arm"
	// Success is the outcome of a first attempt that simply succeeded, and Decision any
	// other decision about a job, other outcomes among them.
	Success  Kind = "success"
	Decision Kind = "decision"
	Claim    Kind = "claim"
	Look     Kind = "look"
	// Connection is a change of a connection.
	Connection Kind = "connection"
)

// kinds are recognized by the names of their statements in store/postgres; a transaction
// that has those of several is of the first.
var kinds = []struct {
	kind       Kind
	statements []string
}{
	{Create, []string{"InsertJobs"}},
	{Arm, []string{"ArmJobs"}},
	{Success, []string{"SucceedFirst"}},
	{Decision, []string{"SetStates"}},
	{Claim, []string{"ClaimJobs"}},
	{Look, []string{"LeaseLooks"}},
	{Connection, []string{"SetConnection", "BlankConnection", "StepPauses"}},
}

// Options say what a proxy stands before.
type Options struct {
	// Socket is the path of PostgreSQL's Unix socket.
	Socket string
	// Lose reports whether the answer to a commit is lost. number counts the commits
	// of a kind, from 1. It is called by one goroutine at a time. Nil: none is.
	Lose func(k Kind, number int) bool
	// Query decides about each query: a message, the first one of a connection included,
	// that PostgreSQL answers. number counts them over all connections, from 1. It may
	// be called concurrently. Nil: all pass.
	Query func(number int) Fate
}

// Fate is what a proxy does with a query.
type Fate struct {
	// After delays it.
	After time.Duration
	Cut   Cut
}

// Cut is where a connection ends.
type Cut int

// The places of a cut.
const (
	Nowhere Cut = iota
	// BeforeQuery is before PostgreSQL gets the query, BeforeAnswer once it has run it.
	BeforeQuery
	BeforeAnswer
)

// Proxy is a lossy way to PostgreSQL. It is safe for concurrent use.
type Proxy struct {
	opts     Options
	listener net.Listener
	carrying sync.WaitGroup

	mu      sync.Mutex
	open    map[net.Conn]bool
	queries int
	commits map[Kind]int
	lost    map[Kind]int
}

// Start serves on a loopback port.
func Start(opts Options) (*Proxy, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("commitproxy: %w", err)
	}
	p := &Proxy{
		opts: opts, listener: listener,
		open: make(map[net.Conn]bool), commits: make(map[Kind]int), lost: make(map[Kind]int),
	}
	p.carrying.Go(p.accept)
	return p, nil
}

// URL is the address of a database behind the proxy.
func (p *Proxy) URL(user, database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", user, p.listener.Addr(), database)
}

// Close ends the proxy and every connection.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.Cut()
	p.carrying.Wait()
	return err
}

// Cut ends every connection, in the middle of whatever it does, and returns how many
// there were. New ones may come immediately.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		_ = conn.Close() // carry ends by it
	}
	return len(p.open)
}

// Commits counts the commits of a kind.
func (p *Proxy) Commits(k Kind) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.commits[k]
}

// Lost counts the lost answers to commits of a kind.
func (p *Proxy) Lost(k Kind) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost[k]
}

// LostAll counts all lost answers, by the kind of transaction.
func (p *Proxy) LostAll() map[Kind]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.lost)
}

// String returns what was lost.
func (p *Proxy) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, k := range kinds {
		out = append(out, fmt.Sprintf("%s %d of %d", k.kind, p.lost[k.kind], p.commits[k.kind]))
	}
	return "answers to COMMIT lost: " + strings.Join(out, ", ")
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.note(conn, true)
		p.carrying.Go(func() {
			defer p.note(conn, false)
			defer conn.Close() //nolint:errcheck // its client knows
			p.carry(conn)
		})
	}
}

func (p *Proxy) note(conn net.Conn, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if open {
		p.open[conn] = true
	} else {
		delete(p.open, conn)
	}
}

// carry passes one connection's messages on, until one side ends or a COMMIT's
// answer is lost.
func (p *Proxy) carry(client net.Conn) {
	backend := pgproto3.NewBackend(client, client)
	startup, err := backend.ReceiveStartupMessage()
	if err != nil {
		return
	}
	fate := p.fate()
	if fate.Cut == BeforeQuery {
		return
	}
	server, err := new(net.Dialer).DialContext(context.Background(), "unix", p.opts.Socket)
	if err != nil {
		return
	}
	defer server.Close() //nolint:errcheck // PostgreSQL sees the end
	frontend := pgproto3.NewFrontend(server, server)
	frontend.Send(startup)
	if frontend.Flush() != nil {
		return
	}
	if _, cancels := startup.(*pgproto3.CancelRequest); cancels {
		return
	}
	tx := &transaction{statements: make(map[string]string)}
	tx.cut.Store(fate.Cut == BeforeAnswer)
	var asking sync.WaitGroup
	asking.Go(func() {
		defer server.Close() //nolint:errcheck // as above
		p.ask(backend, frontend, tx)
	})
	defer asking.Wait()
	defer client.Close() //nolint:errcheck // ends the asking
	p.answer(frontend, backend, tx)
}

// Queries counts the queries so far.
func (p *Proxy) Queries() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queries
}

// fate counts a query, and returns what becomes of it once its delay is over.
func (p *Proxy) fate() Fate {
	p.mu.Lock()
	p.queries++
	number := p.queries
	p.mu.Unlock()
	if p.opts.Query == nil {
		return Fate{}
	}
	f := p.opts.Query(number)
	if f.After > 0 {
		time.Sleep(f.After)
	}
	return f
}

// ask passes on what the client sends, until a query is cut.
func (p *Proxy) ask(backend *pgproto3.Backend, frontend *pgproto3.Frontend, tx *transaction) {
	for {
		m, err := backend.Receive()
		if err != nil {
			return
		}
		if asks(m) {
			fate := p.fate()
			if fate.Cut == BeforeQuery {
				return
			}
			tx.cut.Store(fate.Cut == BeforeAnswer)
		}
		tx.asked(m)
		frontend.Send(m)
		if frontend.Flush() != nil {
			return
		}
	}
}

// asks reports whether PostgreSQL answers a message when it has run what came before.
func asks(m pgproto3.FrontendMessage) bool {
	switch m.(type) {
	case *pgproto3.Query, *pgproto3.Sync:
		return true
	default:
		return false
	}
}

// answer passes on what the server sends, until an answer is lost.
func (p *Proxy) answer(frontend *pgproto3.Frontend, backend *pgproto3.Backend, tx *transaction) {
	for {
		m, err := frontend.Receive()
		if err != nil {
			return
		}
		if commits := tx.answered(m); commits != nil && p.loses(commits) {
			return
		}
		if _, ran := m.(*pgproto3.ReadyForQuery); ran && tx.cut.Load() {
			return
		}
		backend.Send(m)
		if backend.Flush() != nil {
			return
		}
	}
}

// loses counts a commit and reports whether its answer is lost.
func (p *Proxy) loses(names []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range kinds {
		if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(k.statements, name) }) {
			continue
		}
		p.commits[k.kind]++
		if p.opts.Lose == nil || !p.opts.Lose(k.kind, p.commits[k.kind]) {
			return false
		}
		p.lost[k.kind]++
		return true
	}
	return false // it only read
}
