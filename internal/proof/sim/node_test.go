package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// node is one life of one process.
type node struct {
	w    *simWorld
	name string
	slot int
	born time.Time
	stop context.CancelFunc
	done chan struct{}
	// fires is closed when the node fires no schedules any more.
	fires chan struct{}
	// dead nodes change nothing any more.
	dead        atomic.Bool
	deaf        bool // gets no hints
	stopping    bool
	frozenUntil time.Time
	tokens      atomic.Uint64
	asking      atomic.Bool    // its claim asks for an intent
	read        map[job.ID]int // how many attempts it has read of each job, last
	leased      map[job.ID]int // after how many steps of the clock it leased each job's look, last
	// slept is what the monotonic clock missed; shift how far the wall clock is off.
	slept, shift atomic.Int64
}

// Read is engine.Clock: the time by this node's three clocks.
func (n *node) Read() engine.Reading {
	now, slept := time.Now(), time.Duration(n.slept.Load())
	return engine.Reading{Time: now.Add(-slept), Boot: now.Sub(time.Unix(0, 0)), WallShift: slept + time.Duration(n.shift.Load())}
}

// newToken makes a token that no other node makes. Nothing hangs on what it is.
func (n *node) newToken() (id job.ID) {
	h := fnv.New64a()
	fmt.Fprint(h, n.name)
	binary.BigEndian.PutUint64(id[:8], h.Sum64())
	binary.BigEndian.PutUint64(id[8:], n.tokens.Add(1))
	return id
}

// jitter draws from the time, so that nothing hangs on who asks first.
func (n *node) jitter() float64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d", n.w.seed, n.name, time.Now().UnixNano())
	return float64(h.Sum64()%1000) / 1000
}

// start begins a new life in a slot.
func (w *simWorld) start(slot int) {
	w.lives++
	n := &node{w: w, name: fmt.Sprintf("n%d.%d", slot, w.lives), slot: slot, born: time.Now(), read: make(map[job.ID]int), leased: make(map[job.ID]int), done: make(chan struct{}), fires: make(chan struct{}), deaf: w.upTo(3) == 0}
	registry, err := connector.NewRegistry(simConnector{n})
	if err != nil {
		w.t.Fatal(err)
	}
	e, err := engine.New(engine.Config{
		Store: nodeStore{n}, Connectors: registry, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Worker: n.name,
		Open: func(_ store.Connection, s store.Sealed) (connector.Credential, error) {
			return connector.Credential{Version: s.Version, Data: s.Data}, nil
		},
		Refresh: simRefresher{n},
		Clock:   n, NewID: n.newToken, Jitter: n.jitter, Senders: w.senders, Lookers: w.lookers, Poll: w.poll,
		Grace: simGrace, Drain: w.drain, BreakAfter: w.breakAfter, BreakWithin: engine.DefaultBreakWithin,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	w.nodes[slot] = n
	w.all = append(w.all, n)
	w.note(n.name, "start", job.ID{}, 0, "")
	w.fire(ctx, n, registry)
	go func() {
		defer close(n.done)
		_ = e.Run(ctx) // that its drain ran out is one of the ends that are tried
		_ = n.ask("Exit", job.ID{}, 0, nil, func() error { n.die(); return nil })
	}()
}

// die ends the node's part in the world.
func (n *node) die() {
	if n.dead.Swap(true) {
		return
	}
	n.stop()
	n.w.store.Dismiss(n.name)
	n.w.director.bury(n)
}

// hide lets the others take a node for gone that is alive, for a while.
func (w *simWorld) hide(n *node) {
	w.note(n.name, "session lost", job.ID{}, 0, "")
	w.store.Dismiss(n.name)
	w.director.plan(w.pause(), "session again", func() {
		if !n.dead.Load() {
			_ = w.store.Enlist(context.Background(), store.Process{Worker: n.name})
		}
	})
}

// crash ends a node immediately; another life may follow.
func (w *simWorld) crash(n *node) {
	w.note(n.name, "crash", job.ID{}, 0, "")
	n.die()
	w.succeed(n)
}

// leave ends a node in order: it drains, next to its successor.
func (w *simWorld) leave(n *node) {
	w.note(n.name, "stop", job.ID{}, 0, "")
	n.stopping = true
	n.stop()
	w.succeed(n)
}

func (w *simWorld) succeed(n *node) {
	w.nodes[n.slot] = nil
	wait := w.oneOf(0, time.Duration(w.upTo(int(time.Minute))), time.Duration(w.upTo(int(10*time.Minute))))
	w.director.plan(wait, "restart", func() { w.revive(n.slot) })
}

// revive starts a node where none is.
func (w *simWorld) revive(slot int) {
	if w.nodes[slot] == nil && !w.director.over && !w.down {
		w.start(slot)
	}
}

// trouble strikes a node, or the database's clock, and plans the next stroke.
func (w *simWorld) trouble() {
	if !w.plagued.Load() {
		return
	}
	w.director.plan(time.Duration(w.upTo(int(2*w.calm))), "trouble", w.trouble)
	if w.down {
		return
	}
	n := w.nodes[w.upTo(len(w.nodes))]
	if n == nil {
		return
	}
	f := []fault{faultCrash, faultCrash, faultStop, faultFreeze, faultSleep, faultWall, faultHidden}[w.upTo(7)]
	if w.theme != nil {
		f = append(w.theme.strokes, faultStop)[w.upTo(max(len(w.theme.strokes), 1))]
	} else if w.clockJumps && w.upTo(2) == 0 {
		f = []fault{faultBackJump, faultAheadJump, faultStoreRestart}[w.upTo(3)]
	}
	if w.clockJumps && f == faultSleep {
		f = faultFreeze
	}
	w.stats.faults[f]++
	switch f {
	case faultCrash:
		w.crash(n)
	case faultStop:
		w.leave(n)
	case faultFreeze:
		w.note(n.name, "freeze", job.ID{}, 0, "")
		n.frozenUntil = time.Now().Add(w.pause())
	case faultSleep:
		d := w.pause()
		w.note(n.name, "machine sleeps", job.ID{}, 0, d.String())
		n.frozenUntil = time.Now().Add(d)
		n.slept.Add(int64(d))
	case faultWall:
		w.note(n.name, "wall clock set", job.ID{}, 0, "")
		n.shift.Store(int64(w.oneOf(0, -w.pause(), w.pause(), -12*time.Hour, 500*time.Millisecond, -500*time.Millisecond)))
	case faultHidden:
		w.hide(n)
	case faultBackJump:
		w.note("", "database clock back", job.ID{}, 0, "")
		w.setClock(-w.pause())
	case faultAheadJump:
		w.note("", "database clock ahead", job.ID{}, 0, "")
		w.setClock(w.pause())
	case faultStoreRestart:
		w.note("", "the store's machine restarts", job.ID{}, 0, "")
		w.restartStore()
	default:
	}
}
