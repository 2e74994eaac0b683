// Package nemesis does to servers and their database what machines, operators and
// networks do: it kills, freezes, stops and starts them, sets their clocks, and
// loses the answers that they get. What it does when is a plan, made of a seed.
package nemesis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/failpoint"
)

// Kind is one kind of fault.
type Kind string

// The kinds of faults. A plan has each of them that the database allows.
const (
	Kill        Kind = "kill"         // SIGKILL at a random moment
	KillAll     Kind = "kill all"     // SIGKILL of every server, together
	Die         Kind = "die"          // SIGKILL by the server's own hand at a named place
	Freeze      Kind = "freeze"       // SIGSTOP for a while, up to beyond lease and fence
	Stop        Kind = "stop"         // SIGTERM under load
	Clock       Kind = "clock"        // the wall clock of one server is set
	CrashDB     Kind = "crash db"     // PostgreSQL stops immediately and recovers
	Cut         Kind = "cut"          // all connections to PostgreSQL end together
	BadStart    Kind = "bad start"    // SIGKILL, and a start while PostgreSQL answers slowly and lines are cut
	LoseCommits Kind = "lose commits" // a window of time: answers to COMMIT are swallowed for a while
)

// Kinds lists every kind.
var Kinds = []Kind{Kill, KillAll, Die, Freeze, Stop, Clock, CrashDB, Cut, BadStart, LoseCommits}

// Fault is one fault of a plan.
type Fault struct {
	Kind   Kind
	Server int
	// Place and Nth say where a server dies, and at which time that it comes there.
	Place string
	Nth   int
	// For is how long the fault lasts: how long the server is away or frozen, the
	// database down, answers lost.
	For time.Duration
	// Offset is how far the clock is off from then on.
	Offset time.Duration
	// Then is the pause before the next fault begins.
	Then time.Duration
}

// Name is what a fault is called, and counted under unless it has several strengths.
func (f Fault) Name() string {
	if f.Kind == Die {
		return fmt.Sprintf("%s at %s", f.Kind, f.Place)
	}
	return string(f.Kind)
}

// alone reports whether no other server runs meanwhile: one of them makes the notices, the one that
// has lived longest, and it is to come to the place.
func (f Fault) alone() bool { return f.Kind == Die && slices.Contains(failpoint.Notices, f.Place) }

// World is what a plan is for.
type World struct {
	Servers int
	// Postgres has the faults of a database that is a process of its own.
	Postgres bool
	// Recurring is set if schedules fire, which have places of their own.
	Recurring bool
	// Told is set if there are subscriptions, which have, too.
	Told bool
	// Lease and Fence are the servers': a freeze lasts for a part of both together,
	// or longer.
	Lease, Fence time.Duration
}

// hits bounds how many jobs pass a place before the server dies there. At the places
// that only an unknown outcome or a notice leads to it dies the first time.
const hits = 8

// firings bounds how many decisions about schedules a server makes before it dies in one: three
// servers share a few in a second.
const firings = 3

// Plan returns n faults. They come in rounds that have each kind and each place at
// least once, in a new order each time, so that also a short plan has seen most.
func Plan(seed uint64, n int, w World) []Fault {
	random := rand.New(rand.NewPCG(seed, 0x6e656d65736973)) //nolint:gosec // repeatable is what it must be
	var plan []Fault
	for len(plan) < n {
		round := w.round()
		random.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		for _, f := range round {
			plan = append(plan, w.draw(random, f))
		}
	}
	return plan[:n]
}

// round is what a plan has in each of its parts.
func (w World) round() []Fault {
	var out []Fault
	add := func(k Kind, times int) {
		for range times {
			out = append(out, Fault{Kind: k})
		}
	}
	for _, place := range failpoint.All {
		out = append(out, Fault{Kind: Die, Place: place})
	}
	if w.Recurring {
		for _, place := range failpoint.Schedules {
			out = append(out, Fault{Kind: Die, Place: place})
		}
	}
	if w.Told {
		for _, place := range failpoint.Notices {
			out = append(out, Fault{Kind: Die, Place: place})
		}
	}
	add(Kill, 5)
	add(Freeze, 2)
	add(Stop, 2)
	add(Clock, 2)
	if w.Servers > 1 {
		add(KillAll, 1)
	}
	if w.Postgres {
		add(CrashDB, 1)
		add(Cut, 2)
		add(BadStart, 2)
		add(LoseCommits, 2)
	}
	return out
}

// draw fills in what is random about a fault.
func (w World) draw(random *rand.Rand, f Fault) Fault {
	between := func(from, to time.Duration) time.Duration { return from + time.Duration(random.Int64N(int64(to-from))) }
	f.Server = random.IntN(w.Servers)
	f.Then = between(200*time.Millisecond, 1200*time.Millisecond)
	switch f.Kind {
	case Kill, KillAll, Stop, BadStart:
		f.For = between(0, time.Second)
	case Die:
		f.Nth = 1 + random.IntN(hits)
		if slices.Contains(failpoint.Schedules, f.Place) {
			f.Nth = 1 + f.Nth%firings
		}
		if f.Place == failpoint.Swept || f.Place == failpoint.LookTaken || slices.Contains(failpoint.Notices, f.Place) {
			f.Nth = 1
		}
	case Freeze:
		whole := w.Lease + w.Fence
		f.For = between(whole/5, whole*5/4)
	case Clock:
		f.Offset = between(-10*time.Second, 10*time.Second)
	case CrashDB:
		f.For = between(0, 1500*time.Millisecond)
	case LoseCommits:
		f.For = between(time.Second, 3*time.Second)
	case Cut:
	}
	return f
}
