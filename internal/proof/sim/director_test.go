package sim

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - every call that a node makes into its world parks here, before it acts and
//     again before its answer is delivered; one director releases them, one at a time;
//   - a hint that a call causes waits until the caller is at rest;
//   - the director moves only when every goroutine is at rest, and what it finds then
//     it sorts by what the calls are, never by who came first;
//   - so a run is a function of its seed, whatever the scheduler does.

// call is one call of a node, parked.
type call struct {
	node *node
	op   string
	job  job.ID
	// n and detail tell calls of one kind about one job apart.
	n      int64
	detail string
	ctx    context.Context
	// act does what was called for. The director runs it.
	act func() error
	// writes is set if the call may change the store.
	writes bool
	// armToken, of Arm and ArmedBy, ties the two together; a claim may have several.
	armToken  job.ID
	armTokens []job.ID
	// intends, of Claim, are its intents.
	intends *intending

	readyAt time.Time
	acted   bool
	// platform calls are given no faults of a store.
	platform bool
	// delivered is run as the answer goes out to a living caller.
	delivered func()
	arrived   time.Time
	err       error
	done      chan struct{}
	poke      func() bool // ends the watch over ctx
}

// group are calls that look alike: they go together.
type group []*call

func (c *call) compare(o *call) int {
	return cmp.Or(
		cmp.Compare(c.node.name, o.node.name), cmp.Compare(c.op, o.op), slices.Compare(c.job[:], o.job[:]),
		cmp.Compare(c.n, o.n), cmp.Compare(c.detail, o.detail),
	)
}

// planned is something that the director does by itself at a time.
type planned struct {
	at   time.Time
	name string
	do   func()
}

// director is the one who decides what happens next.
type director struct {
	rand *rand.Rand
	w    *simWorld

	mu       sync.Mutex
	arrivals []*call
	watches  map[*watch]struct{}
	wake     chan struct{}

	parked []group
	agenda []planned
	limbo  []*undecided
	healed bool
	over   bool
	// instant is when the last step was, still how many were made at that instant.
	instant time.Time
	still   int
	// current is the call that acts.
	current *call
}

// undecided is a write whose caller got ErrUnconfirmed, and that is not
// decided yet.
type undecided struct {
	call *call
	at   time.Time
}

func newDirector(w *simWorld, seed uint64) *director {
	return &director{rand: rand.New(rand.NewPCG(seed, 0x5eed)), w: w, watches: make(map[*watch]struct{}), wake: make(chan struct{}, 1)}
}

// errDead is what a crashed node's calls get. No code reads it.
var errDead = errors.New("the process is dead")

// do parks a call until the director lets its answer go.
func (d *director) do(c call) error {
	if c.node.dead.Load() {
		return errDead
	}
	c.done = make(chan struct{})
	d.mu.Lock()
	d.arrivals = append(d.arrivals, &c)
	d.mu.Unlock()
	d.alarm()
	<-c.done
	return c.err
}

// alarm wakes the director from waiting for time to pass.
func (d *director) alarm() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// plan puts something on the agenda.
func (d *director) plan(in time.Duration, name string, do func()) {
	d.agenda = append(d.agenda, planned{at: time.Now().Add(in), name: name, do: do})
}

// watch is a goroutine's watch over the store.
type watch struct {
	given <-chan struct{}
	heard chan struct{}
}

// watch hands on a watch's hints.
func (d *director) watch(given <-chan struct{}, end func()) (<-chan struct{}, func()) {
	w := &watch{given: given, heard: make(chan struct{}, 1)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watches[w] = struct{}{}
	return w.heard, func() {
		end()
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.watches, w)
	}
}

// hint hands on the hints of the last step. Its caller may have released what a goroutine that
// gets one asks for next: they must not run at one time.
func (d *director) hint() (given bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.watches {
		select {
		case <-w.given:
			given = true
			select {
			case w.heard <- struct{}{}:
			default:
			}
		default:
		}
	}
	return given
}

// run directs until the world is over or a time has come.
func (d *director) run(until time.Time) {
	for !d.over {
		synctest.Wait()
		if d.hint() {
			continue
		}
		d.admit()
		if d.step(time.Now()) {
			continue
		}
		if !time.Now().Before(until) {
			return
		}
		d.rest(until)
	}
}

// admit takes in the calls that arrived.
func (d *director) admit() {
	d.mu.Lock()
	news := d.arrivals
	d.arrivals = nil
	d.mu.Unlock()
	slices.SortStableFunc(news, (*call).compare)
	for i, c := range news {
		if i > 0 && c.compare(news[i-1]) == 0 {
			last := len(d.parked) - 1
			d.parked[last] = append(d.parked[last], c)
			continue
		}
		d.parked = append(d.parked, group{c})
		d.current, c.arrived = c, time.Now()
		c.readyAt = c.arrived.Add(d.w.delayBefore(c))
	}
	d.current = nil
}

// rest waits for the next thing that may happen.
func (d *director) rest(until time.Time) {
	next := until
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	for _, g := range d.parked {
		c := g[0]
		if !d.waitsForLimbo(c) {
			earlier(later(c.readyAt, c.node.frozenUntil))
		}
		if c.ctx != nil && c.poke == nil {
			c.poke = context.AfterFunc(c.ctx, d.alarm)
		}
	}
	for _, p := range d.agenda {
		earlier(p.at)
	}
	for _, u := range d.limbo {
		earlier(u.at)
	}
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.wake:
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// step does one of the things that may happen now; false: there is none.
func (d *director) step(now time.Time) bool {
	type choice struct {
		kind, i int
	}
	var choices []choice
	for i, g := range d.parked {
		c := g[0]
		ready := !c.readyAt.After(now) && !d.waitsForLimbo(c) || c.ctx != nil && c.ctx.Err() != nil
		if ready && !c.node.frozenUntil.After(now) {
			choices = append(choices, choice{0, i})
		}
	}
	for i, p := range d.agenda {
		if !p.at.After(now) {
			choices = append(choices, choice{1, i})
		}
	}
	for i, u := range d.limbo {
		if !u.at.After(now) {
			choices = append(choices, choice{2, i})
		}
	}
	if len(choices) == 0 {
		return false
	}
	d.w.stats.steps++
	d.moves(now)
	switch ch := choices[d.rand.IntN(len(choices))]; ch.kind {
	case 0:
		d.advance(d.parked[ch.i])
	case 1:
		p := d.agenda[ch.i]
		d.agenda = slices.Delete(d.agenda, ch.i, ch.i+1)
		d.w.note("", "plan: "+p.name, job.ID{}, 0, "")
		p.do()
	case 2:
		u := d.limbo[ch.i]
		d.limbo = slices.Delete(d.limbo, ch.i, ch.i+1)
		d.settle(u)
	}
	d.w.check()
	return true
}

// mostStill is how many steps may follow each other in no time at all.
const mostStill = 20_000

// moves: LIVELOCK, when a world works on and its time stands still.
func (d *director) moves(now time.Time) {
	if !now.Equal(d.instant) {
		d.instant, d.still = now, 0
	}
	if d.still++; d.still > mostStill {
		d.w.broke("LIVELOCK", d.w.jobs[0], "%d steps in no time", d.still)
	}
}

// waitsForLimbo reports whether the call asks for an arm that is not decided yet.
func (d *director) waitsForLimbo(c *call) bool {
	return c.op == "ArmedBy" && slices.ContainsFunc(d.limbo, func(u *undecided) bool {
		return u.call.armToken == c.armToken || slices.Contains(u.call.armTokens, c.armToken)
	})
}

// outcomeUnderWay reports whether a living process is sending, or is writing what it
// learnt: either may move a job that waits for a person.
func (d *director) outcomeUnderWay() bool {
	return slices.ContainsFunc(d.parked, func(g group) bool { return g[0].op == "Publish" || g[0].op == "Apply" })
}

// settle decides a write that was left open.
func (d *director) settle(u *undecided) {
	if d.rand.IntN(2) == 0 {
		d.w.trace(u.call, "late commit")
		_ = u.call.act() // its caller is dead
		return
	}
	d.w.trace(u.call, "late rollback")
}

// advance moves a parked group: it acts, fails, or has its answer.
func (d *director) advance(g group) {
	c := g[0]
	d.current = c
	defer func() { d.current = nil }()
	if c.ctx != nil && c.ctx.Err() != nil {
		d.cut(g)
		return
	}
	if c.acted {
		d.trace(c, "answer")
		d.finish(g, nil)
		return
	}
	fate := d.w.fate(c)
	switch fate {
	case failBefore:
		d.trace(c, "fails")
		d.finish(g, store.ErrUnavailable)
		return
	case lostBefore:
		d.trace(c, "not done, unconfirmed")
		d.finish(g, store.ErrUnconfirmed)
		return
	case leftOpen:
		d.trace(c, "undecided, unconfirmed")
		d.leave(c)
		d.finish(g, store.ErrUnconfirmed)
		return
	}
	d.trace(c, "")
	for _, each := range g {
		each.err, each.acted = each.act(), true
	}
	if fate == lostAfter {
		d.trace(c, "answer lost")
		d.finish(g, store.ErrUnconfirmed)
		return
	}
	now, wait := time.Now(), d.w.delayAfter(c)
	if wait >= 0 || c.readyAt.After(now) { // the platform may take its time to answer
		c.readyAt = later(c.readyAt, now).Add(max(wait, 0))
		return
	}
	d.finish(g, nil)
}

func (d *director) trace(c *call, what string) { d.w.trace(c, what) }

// leave puts a write among those that are decided later.
func (d *director) leave(c *call) {
	if c.intends != nil {
		c.armTokens = c.intends.rehearse()
	}
	d.limbo = append(d.limbo, &undecided{call: c, at: time.Now().Add(time.Duration(d.rand.Int64N(int64(20 * time.Second))))})
}

// cut ends a call whose caller waits no longer.
func (d *director) cut(g group) {
	c := g[0]
	err := c.ctx.Err()
	switch {
	case c.writes && c.acted:
		err = errors.Join(store.ErrUnconfirmed, err)
		d.trace(c, "done, nobody waits")
	case c.writes && !d.healed && d.rand.IntN(2) == 0:
		err = errors.Join(store.ErrUnconfirmed, err)
		d.trace(c, "undecided, nobody waits")
		d.leave(c)
	default:
		d.trace(c, "nobody waits")
	}
	d.finish(g, err)
}

// finish lets a group go on, with an error that came in between, or with what
// each call gave.
func (d *director) finish(g group, err error) {
	d.parked = slices.DeleteFunc(d.parked, func(o group) bool { return o[0] == g[0] })
	for _, c := range g {
		if err != nil {
			c.err = err
		}
		if c.poke != nil {
			c.poke()
		}
		if c.err == nil && c.delivered != nil {
			c.delivered()
		}
		close(c.done)
	}
}

// bury ends every call of a node that is dead: its answers are lost. A write
// that was on its way may still be decided.
func (d *director) bury(n *node) {
	for _, g := range slices.Clone(d.parked) {
		c := g[0]
		if c.node != n || c == d.current {
			continue
		}
		if c.writes && !c.acted && !d.healed && d.rand.IntN(3) == 0 {
			d.leave(c)
		}
		d.finish(g, errDead)
	}
}
