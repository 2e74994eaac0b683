package node

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/fireonce/fireonce/internal/sleep"
	"github.com/fireonce/fireonce/store"
)

const (
	// neighborsEvery is the pause between two looks at the other servers.
	neighborsEvery = 2 * time.Second
	// drainWithin bounds the note that this server is shutting down.
	drainWithin = time.Second
)

// process describes this process to the other servers.
func (n *Node) process() store.Process {
	return store.Process{
		Worker: n.worker, Version: n.cfg.Version, Host: hostname(), PID: os.Getpid(), Age: time.Since(n.began),
	}
}

// watchNeighbors logs which servers died at work, until ctx ends. An SQLite file has no other
// server: there one look shows what the process before this one left.
func (n *Node) watchNeighbors(ctx context.Context) {
	look := neighbors{store: n.store, self: n.process, log: n.cfg.Log}
	for {
		seen := look.once(ctx)
		if seen && n.meta.Engine == "sqlite" || !sleep.For(ctx, neighborsEvery) {
			return
		}
	}
}

// drain records for people that this server claims nothing more, so a failure
// changes nothing.
func (n *Node) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), drainWithin)
	defer cancel()
	_ = n.store.Drain(ctx, n.worker)
}

// neighbors are the servers on the database as one of them sees them.
type neighbors struct {
	store store.Fleet
	self  func() store.Process
	log   *slog.Logger
	// gone are the servers whose loss was logged, as long as they have jobs under way.
	gone map[string]bool
}

// once logs each server that is gone and has jobs under way, the first time that it is seen so. A
// server that ends in an orderly way leaves none. It reports whether the servers could be read.
func (l *neighbors) once(ctx context.Context) bool {
	servers, err := l.store.Servers(ctx)
	if err != nil {
		return false // the engine logs that the database is away
	}
	self, listed, gone := l.self(), false, make(map[string]bool)
	for _, s := range servers {
		listed = listed || s.Worker == self.Worker
		if s.State != store.ServerGone {
			continue
		}
		gone[s.Worker] = true
		if !l.gone[s.Worker] {
			l.log.Warn("a server is gone, and left jobs under way: others take them over, OPAQUE ones when takeover comes at the latest",
				"gone", s.Worker, "host", s.Host, "pid", s.PID, "claimed", s.Claimed, "sending", s.Sending,
				"last_seen", s.Seen, "takeover", s.Takeover)
		}
	}
	l.gone = gone
	if !listed {
		// Another server's start has removed what was known of this one, while its session was
		// lost, or this one's start could not write it.
		return l.store.Enlist(ctx, self) == nil
	}
	return true
}
