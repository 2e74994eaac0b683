package store

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Fleet knows the servers that work on a database. It decides nothing: Recovery finds the jobs
// that may be taken over.
type Fleet interface {
	// Enlist announces that a process works here under its worker's name until this Store is
	// closed: no claim or attempt of that worker is an orphan then. It returns when every
	// other server can know. A repeat changes nothing. It fails with ErrUnavailable; the name
	// is then announced as soon as that is possible, and the rest by a repeat.
	Enlist(ctx context.Context, p Process) error

	// Drain records that a worker claims nothing more and will end. It changes nothing else.
	Drain(ctx context.Context, worker string) error

	// Servers returns the live servers, and those that are gone and have jobs under way, in
	// the order of SortServers and at most MaxBatch. A server is gone as for Orphans: where
	// several share a database, from the second call of Orphans or Servers in a row that
	// finds its worker absent, a second or more after the first. A quarantined database and
	// one whose clock is suspect have servers like any other.
	Servers(ctx context.Context) ([]Server, error)
}

// Process describes the process of a server.
type Process struct {
	// Worker is its name in attempts and events, which no other process has.
	Worker string
	// Version is the program's. Host and PID are the machine's name and the process there.
	// All are for people.
	Version, Host string
	PID           int
	// Age is how long it has run.
	Age time.Duration
}

// ServerState is whether a server works.
type ServerState int

// The states of servers.
const (
	_ ServerState = iota
	// ServerLive: it is enlisted.
	ServerLive
	// ServerDraining: it is enlisted, claims nothing more and will end.
	ServerDraining
	// ServerGone: it is enlisted no more, and has jobs under way.
	ServerGone
)

// Server is a server with its jobs under way.
type Server struct {
	// Worker, Version, Host and PID are those of Process; only the worker is always known.
	Worker, Version, Host string
	PID                   int
	State                 ServerState
	// Started is zero if it is not known.
	Started time.Time
	// Claimed and Sending count its jobs that are CLAIMED and SENDING.
	Claimed, Sending int64
	// Seen is the newest claim or arm among these jobs, or else Started. Takeover is the
	// latest end of a lease or a fence among them; zero: there are none.
	Seen, Takeover time.Time
}

// SortServers puts servers that are gone first, and then the oldest.
func SortServers(list []Server) {
	slices.SortFunc(list, func(a, b Server) int {
		return cmp.Or(byGone(a)-byGone(b), a.Started.Compare(b.Started), cmp.Compare(a.Worker, b.Worker))
	})
}

func byGone(s Server) int {
	if s.State == ServerGone {
		return 0
	}
	return 1
}
