package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/store"
)

// listed is a fleet that a test lists.
type listed struct {
	store.Fleet
	servers  []store.Server
	err      error
	enlisted []store.Process
}

func (l *listed) Servers(context.Context) ([]store.Server, error) { return l.servers, l.err }

func (l *listed) Enlist(_ context.Context, p store.Process) error {
	l.enlisted = append(l.enlisted, p)
	return nil
}

// TestNeighborsAreMissedOnce: the loss of a server with jobs under way is logged once, and a server
// that ends in order is not.
func TestNeighborsAreMissedOnce(t *testing.T) {
	t.Parallel()
	self := store.Process{Worker: "self", Version: "1.2.3"}
	own := store.Server{Worker: "self", State: store.ServerLive}
	live, drains := store.Server{Worker: "other", State: store.ServerLive, Sending: 10}, store.Server{Worker: "ends", State: store.ServerDraining}
	gone := store.Server{
		Worker: "other", Host: "host-2", PID: 4711, State: store.ServerGone, Claimed: 1, Sending: 10,
		Seen: time.Unix(1_900_000_000, 0).UTC(), Takeover: time.Unix(1_900_000_060, 0).UTC(),
	}
	fleet, log := &listed{}, &bytes.Buffer{}
	look := neighbors{store: fleet, self: func() store.Process { return self }, log: slog.New(slog.NewTextHandler(log, nil))}
	for i, step := range []struct {
		servers []store.Server
		err     error
		lines   int
	}{
		{servers: []store.Server{own, live, drains}},
		{servers: []store.Server{own, live}},
		{servers: []store.Server{gone, own}, lines: 1},
		{servers: []store.Server{gone, own}},
		{err: errors.New("away")},
		{servers: []store.Server{gone, own}},
		{servers: []store.Server{own}},
		{servers: []store.Server{gone, own}, lines: 1},
	} {
		log.Reset()
		fleet.servers, fleet.err = step.servers, step.err
		if got := look.once(t.Context()); got != (step.err == nil) {
			t.Errorf("step %d: %t", i, got)
		}
		if n := strings.Count(log.String(), "\n"); n != step.lines {
			t.Errorf("step %d: %d lines: %s", i, n, log)
		}
	}
	for _, part := range []string{"gone=other", "host=host-2", "pid=4711", "claimed=1", "sending=10", "takeover=2030-03-17T17:47:40"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("no %s in %s", part, log)
		}
	}
	if len(fleet.enlisted) != 0 {
		t.Errorf("enlisted again: %v", fleet.enlisted)
	}
	fleet.servers = []store.Server{live}
	if !look.once(t.Context()) || len(fleet.enlisted) != 1 || fleet.enlisted[0] != self {
		t.Errorf("a server that is not listed enlists: %v", fleet.enlisted)
	}
}
