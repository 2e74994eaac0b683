package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
	"github.com/fireonce/fireonce/internal/proof/pgtest"

	"github.com/fireonce/fireonce/internal/proof/bench/duplicates/internal/tally"
)

// settings hold for every system.
type settings struct {
	jobs, kills, senders int
	timeout, limit       time.Duration
	seed                 uint64
	faults               platform.Faults
}

// maxTries is how often a job is tried where that can be set: the default of
// River and of asynq.
const maxTries = 25

// environment is what a system finds in place.
type environment struct {
	settings
	dir      string // its own
	binary   string // fireonce
	cluster  *pgtest.Cluster
	redis    string // the server program; empty: there is none
	platform string // base URL
	subjects []string
}

// system is one way of getting jobs done. Its workers run in a process of their
// own that is killed at any time. All jobs are stored before a worker is killed
// for the first time.
type system interface {
	// prepare makes what the workers need, before the first is started.
	prepare(ctx context.Context) error
	// command is a worker's process. Its first line says that it is ready.
	command() *exec.Cmd
	// ready is called after each start, with that line.
	ready(ctx context.Context, line string) error
	// atRest counts the jobs that nothing more will be done for.
	atRest(ctx context.Context) (int, error)
	// verdicts returns what the system believes of its jobs, by subject.
	verdicts(ctx context.Context) (map[string]tally.Verdict, error)
	// close removes what prepare made, after the last worker.
	close() error
}

// entry is a line of the table.
type entry struct {
	name string
	// face is the kind of receiver, or feed.
	face string
	make func(h *environment, face string) system
	// ours: it is judged, too.
	ours bool
}

// entries are what can be run, those that wait longest first.
func entries() []entry {
	var all []entry
	for _, peer := range []struct {
		name string
		make func(h *environment, face string) system
	}{
		{"River", newRiver}, {"asynq", newAsynq}, {"claim with TTL", newReset}, {"retry 3 times", newNaive},
	} {
		all = append(all,
			entry{name: peer.name, face: platform.FaceOpaque, make: peer.make},
			entry{name: peer.name + " + key", face: platform.FaceKeyed, make: peer.make})
	}
	return append(all,
		entry{name: "Fireonce OPAQUE", face: platform.FaceOpaque, make: newFireonce, ours: true},
		entry{name: "Fireonce OBSERVABLE", face: platform.FaceFeed, make: newFireonce, ours: true},
		entry{name: "Fireonce KEYED", face: platform.FaceKeyed, make: newFireonce, ours: true})
}

// subjects name the jobs: the same for all systems, so that all meet the same
// faults.
func subjects(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("order-%05d", i)
	}
	return out
}

// hook is where a receiver of a kind takes requests.
func (h *environment) hook(face string) string { return h.platform + "/hook/" + face + "/orders" }

// database makes an empty database and returns its URL.
func (h *environment) database(ctx context.Context) (string, error) {
	name, err := h.cluster.CreateDatabase(ctx)
	if err != nil {
		return "", err
	}
	return h.cluster.URL(name), nil
}
