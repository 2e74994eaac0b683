// Package attack is the hostile clients of a soak: a process of its own that does to
// running servers what clients do that guess keys, hold connections, send requests that
// cost more than they weigh, and use up what their project may have.
//
// It has keys of one project, which is not the honest clients', and reaches nothing but
// the servers' listeners. How much it does is fixed by the kinds below: each has so many
// workers, and each worker pauses between two acts.
package attack

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
)

// Keys are the API keys that the attackers have, all of one project.
type Keys struct {
	// Write has every scope of a client, Read reads jobs, and Revoked was revoked before
	// the servers started.
	Write, Read, Revoked string
}

// Listener is where a server is attacked.
type Listener struct {
	// URL is the API's, GRPC the host and port of the listener for gRPC; empty: none.
	URL, GRPC string
}

// kind is one kind of attack.
type kind struct {
	name    string
	workers int
	// pause is a worker's between two acts.
	pause time.Duration
	// prepare makes what act sends. Each worker calls it before it attacks; nil: nothing
	// is to be made.
	prepare func()
	// act attacks one server, and returns what came of it in a few words, of which there
	// are few different ones. It ends with ctx.
	act func(ctx context.Context, w *worker, at Listener) (outcome string)
}

const floodOfJobs = "flood of jobs"

// kinds lists every kind of attack.
func kinds() []kind {
	all := []kind{
		{name: "guessed keys", workers: 4, pause: 20 * time.Millisecond, act: guess},
		{name: "revoked key", workers: 1, pause: 50 * time.Millisecond, act: useRevoked},
		{name: "scope that is missing", workers: 1, pause: 50 * time.Millisecond, act: exceedScope},
		{name: "slow bodies", workers: 40, pause: time.Second, act: sendSlowly},
		{name: "slow headers", workers: 20, pause: time.Second, act: signInSlowly},
		{name: "idle connections", workers: 5, pause: time.Second, act: holdConnections},
		{name: "unread streams", workers: 20, pause: time.Second, act: readNothing},
		{name: floodOfJobs, workers: 4, pause: 25 * time.Millisecond, act: flood},
		{name: "flood of connections", workers: 1, pause: 200 * time.Millisecond, act: connectMany},
		{name: "huge batches", workers: 1, pause: 2 * time.Second, act: sendHugeBatch},
		{name: "jobs for a tarpit", workers: 1, pause: time.Second, act: feedTarpit},
	}
	return append(all, amplifying()...)
}

// Tally counts acts by kind and outcome.
type Tally map[string]map[string]int

// Acts is how many acts there were.
func (t Tally) Acts() (n int) {
	for _, outcomes := range t {
		for _, times := range outcomes {
			n += times
		}
	}
	return n
}

// Kinds lists the kinds of acts, sorted.
func (t Tally) Kinds() []string { return slices.Sorted(maps.Keys(t)) }

// Refused is how many jobs of floods a quota refused.
func (t Tally) Refused() int { return t[floodOfJobs][connect.CodeResourceExhausted.String()] }

// Silent lists the kinds of attacks that were never made.
func (t Tally) Silent() []string {
	var names []string
	for _, k := range kinds() {
		if len(t[k.name]) == 0 {
			names = append(names, k.name)
		}
	}
	return names
}

// campaign is the attackers at work.
type campaign struct {
	keys   Keys
	tarpit string // URL of a receiver that never answers
	begun  time.Time

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced with each change
	listeners []Listener    // none: nothing is attacked
	tally     Tally
	hook      string // the connection of the attackers' jobs; empty: it is not made yet
}

func newCampaign(keys Keys, tarpit string) *campaign {
	return &campaign{keys: keys, tarpit: tarpit, begun: time.Now(), changed: make(chan struct{}), tally: make(Tally)}
}

// aim sets what is attacked from now on.
func (c *campaign) aim(at []Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = at
	close(c.changed)
	c.changed = make(chan struct{})
}

// target returns a server to attack, and waits for one.
func (c *campaign) target(ctx context.Context, random *rand.Rand) (Listener, bool) {
	for ctx.Err() == nil {
		c.mu.Lock()
		at, changed := c.listeners, c.changed
		c.mu.Unlock()
		if len(at) > 0 {
			return at[random.IntN(len(at))], true
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return Listener{}, false
}

func (c *campaign) count(kind, outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tally[kind] == nil {
		c.tally[kind] = make(map[string]int)
	}
	c.tally[kind][outcome]++
}

// tell writes the tally.
func (c *campaign) tell(out io.Writer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return json.NewEncoder(out).Encode(c.tally)
}

// run has every worker attack until ctx ends.
func (c *campaign) run(ctx context.Context, all []kind) {
	var working sync.WaitGroup
	for i, k := range all {
		for n := range k.workers {
			w := &worker{campaign: c, random: rand.New(rand.NewPCG(uint64(i), uint64(n)))} //nolint:gosec // no secret is made of it
			working.Go(func() { w.works(ctx, k) })
		}
	}
	working.Wait()
}

// worker is one attacker. Only its goroutine uses it.
type worker struct {
	*campaign
	random *rand.Rand
	made   int // acts so far
}

func (w *worker) works(ctx context.Context, k kind) {
	if k.prepare != nil {
		k.prepare()
	}
	for {
		// Workers of one kind do not march in step.
		fleet.Pause(ctx, time.Duration(w.random.Int64N(int64(2*k.pause))))
		at, ok := w.target(ctx, w.random)
		if !ok {
			return
		}
		outcome := k.act(ctx, w, at)
		w.made++
		if ctx.Err() == nil {
			w.count(k.name, outcome)
		}
	}
}
