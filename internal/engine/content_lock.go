package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the store's gate lets one intent of one content be open at
// a time, and alone it is the truth. What is remembered here only spares work
// and time: a job that is known to wait is not prepared, its wait grows, and it
// is woken when the job before it has ended. Whatever is forgotten (a restart,
// another server's jobs) costs a longer wait, nothing else.

const (
	// mostWaiting bounds the jobs that are remembered as waiting.
	mostWaiting = 10_000
	// gatePoll is how often the jobs that others wait for are looked up, for
	// those that ended by another server's hand; gateBatch how many at a time.
	gatePoll  = 5 * time.Second
	gateBatch = 100
	// A waiting job tries by itself after these times, growing with its age.
	gateLeast = 15 * time.Second
	gateMost  = 5 * time.Minute
)

// gates remembers who waits for whom.
type gates struct {
	mu     sync.Mutex
	queues map[job.ID][]job.ID // holder to those who wait for it, first come first
	behind map[job.ID]wait     // by waiter
	local  map[string]job.ID   // content to the job of this process that works on it
	kicked chan job.ID         // holders that may have ended
}

// wait is whom a job waits for, and with what: another payload may wait for
// nobody.
type wait struct {
	holder  job.ID
	payload [sha256.Size]byte
}

func newGates() *gates {
	return &gates{
		queues: make(map[job.ID][]job.ID), behind: make(map[job.ID]wait),
		local: make(map[string]job.ID), kicked: make(chan job.ID, gateBatch),
	}
}

// reserve takes a content for a job of this process, so that its twins are not
// prepared meanwhile. Another job's reservation is given instead of a new one.
func (g *gates) reserve(content string, id job.ID) (holder job.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if other, taken := g.local[content]; taken {
		return other
	}
	g.local[content] = id
	return id
}

// release gives a content up that the job has reserved.
func (g *gates) release(content string, id job.ID) {
	g.mu.Lock()
	if g.local[content] == id {
		delete(g.local, content)
	}
	g.mu.Unlock()
	g.ended(id)
}

// add notes that a job waits for holder.
func (g *gates) add(holder job.ID, waiter *store.Leased) {
	payload := sha256.Sum256(waiter.Payload)
	g.mu.Lock()
	defer g.mu.Unlock()
	before, known := g.behind[waiter.ID]
	if !known && len(g.behind) >= mostWaiting {
		return
	}
	g.behind[waiter.ID] = wait{holder: holder, payload: payload}
	if before.holder != holder {
		g.queues[holder] = append(g.queues[holder], waiter.ID)
	}
}

// holder gives the job that this one, with this payload, is known to wait for.
func (g *gates) holder(waiter *store.Leased) (job.ID, bool) {
	g.mu.Lock()
	w, ok := g.behind[waiter.ID]
	g.mu.Unlock()
	return w.holder, ok && w.payload == sha256.Sum256(waiter.Payload)
}

// ended hints that nobody may have to wait for the job any more.
func (g *gates) ended(id job.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queues[id]) == 0 {
		return
	}
	select {
	case g.kicked <- id:
	default: // the next poll finds it
	}
}

// next takes the first who waits for holder; the others wait for that one now.
func (g *gates) next(holder job.ID) (first job.ID, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	queue := g.queues[holder]
	delete(g.queues, holder)
	for i, w := range queue {
		if g.behind[w].holder != holder {
			continue // it waits for another one meanwhile
		}
		delete(g.behind, w)
		for _, other := range queue[i+1:] {
			if is := g.behind[other]; is.holder == holder {
				g.behind[other] = wait{holder: w, payload: is.payload}
				g.queues[w] = append(g.queues[w], other)
			}
		}
		return w, true
	}
	return job.ID{}, false
}

// holders gives some jobs that others wait for, in the order of their ids. Which
// ones, when there are more, is left to chance: all get their turn.
func (g *gates) holders(most int) []job.ID {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]job.ID, 0, min(most, len(g.queues)))
	for h := range g.queues {
		if len(out) == most {
			break
		}
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) })
	return out
}

// keepGates wakes jobs whose turn has come, until ctx ends.
func (e *Engine) keepGates(ctx context.Context) {
	tick := time.NewTicker(gatePoll)
	defer tick.Stop()
	for ctx.Err() == nil {
		var holders []job.ID
		select {
		case h := <-e.gates.kicked: // known to be over: before those that may be
			holders = []job.ID{h}
		default:
			select {
			case <-ctx.Done():
				return
			case h := <-e.gates.kicked:
				holders = []job.ID{h}
			case <-tick.C:
				holders = e.gates.holders(gateBatch)
			}
		}
		for _, h := range holders {
			e.pass(ctx, h)
		}
	}
}

// pass lets the next job go if the holder is not in its way any more.
func (e *Engine) pass(ctx context.Context, holder job.ID) {
	if e.inTheWay(ctx, holder) {
		return
	}
	for ctx.Err() == nil {
		w, ok := e.gates.next(holder)
		if !ok || e.wake(ctx, w) {
			return
		}
		holder = w
	}
}

// inTheWay tells whether a job has, or is about to write, an open intent.
func (e *Engine) inTheWay(ctx context.Context, holder job.ID) bool {
	s, err := e.Store.Job(ctx, store.Ref{ID: holder})
	if err != nil {
		return !errors.Is(err, store.ErrNotFound)
	}
	return s.State.Gated() || s.State.InFlight()
}

// wake makes a waiting job due. It tells whether the job is on its way; if not,
// it has ended or waits for something else, and the next one may go.
func (e *Engine) wake(ctx context.Context, id job.ID) bool {
	s, err := e.Store.Job(ctx, store.Ref{ID: id})
	if err != nil {
		return false
	}
	ev := job.Freed{Detail: "the job with the same content that this one waited for has ended"}
	d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), ev)
	if err != nil || d.Action != job.ActWrite {
		return s.State.Gated() || s.State.InFlight() || s.State.Runnable() && !s.NextAt.After(s.Now)
	}
	applied, err := e.Store.Apply(ctx, []store.Change{{Job: id, Version: s.Version, Decision: d, Actor: e.Worker}})
	return err == nil && (applied[0].Err == nil || errors.Is(applied[0].Err, store.ErrStale))
}

// waitBehind gives a claim back until another job with the same content has
// ended. A holder that is not known leaves only the growing wait.
func (e *Engine) waitBehind(ctx context.Context, w *tracing.Work, l *store.Leased, holder job.ID) {
	e.giveBack(ctx, w, l, job.Deferred{
		Kind: job.FailHeld, RetryAfter: patience(l, gateLeast, gateMost),
		Message: job.WaitsForContent,
	})
	if !holder.IsZero() {
		e.gates.add(holder, l)
	}
}

// contentOf names a job's content among all of this process, as the store's gate
// does; empty where there is no gate.
func contentOf(l *store.Leased, identity string, p connector.Prepared) string {
	if len(p.Gate) == 0 || l.State != job.Claimed {
		return ""
	}
	account := identity
	if account == "" {
		account = l.Connection.ID.String() + " " + l.HoldKey
	}
	return account + "\x00" + string(p.Gate)
}

// patience is a wait that grows with how long the job has been waiting: half of
// that, between least and most. What waits for a person or for another job's
// end is then asked about, and written down, ever more rarely.
func patience(l *store.Leased, least, most time.Duration) time.Duration {
	since := l.StartDeadline.Add(-l.Window())
	if l.State != job.Claimed {
		since = l.Fence
	}
	if since.IsZero() {
		return least
	}
	return min(max(l.Now.Sub(since)/2, least), most)
}
