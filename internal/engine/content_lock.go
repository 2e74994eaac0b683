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
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the store lets one intent of one content be open at a time, and it
// alone decides. What is remembered here only saves work and time: a job that is known to
// wait is not prepared, its wait grows, and it is woken when the job before it has ended.
// What is forgotten (by a restart, or another server's jobs) costs a longer wait, nothing
// else.

const (
	// maxContentWaiters bounds the jobs that are remembered as waiting.
	maxContentWaiters = 10_000
	// holderPoll is how often the jobs that others wait for are read, to find those that
	// another server ended; holderBatch is how many at a time.
	holderPoll  = 5 * time.Second
	holderBatch = 100
	// A waiting job tries by itself after these times, growing with its age.
	contentWaitLeast = 15 * time.Second
	contentWaitMost  = 5 * time.Minute
)

// contentLocks remembers which job waits for which other job with the same content.
type contentLocks struct {
	*Config

	mu     sync.Mutex
	queues map[job.ID][]job.ID // holder to the jobs that wait for it, in the order of arrival
	behind map[job.ID]wait     // by waiter
	local  map[string]job.ID   // content to the job of this process that works on it
	over   chan job.ID         // holders that may have ended
}

// wait is the job that another job waits for, and the waiter's payload: with another
// payload it may wait for none.
type wait struct {
	holder  job.ID
	payload [sha256.Size]byte
}

func newContentLocks(c *Config) *contentLocks {
	return &contentLocks{
		Config: c, queues: make(map[job.ID][]job.ID), behind: make(map[job.ID]wait),
		local: make(map[string]job.ID), over: make(chan job.ID, holderBatch),
	}
}

// reserve takes a content for a job of this process, so that jobs with the same content
// are not prepared meanwhile. It returns the job that has the content: this one, or another
// one that had reserved it before.
func (c *contentLocks) reserve(content string, id job.ID) (holder job.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other, taken := c.local[content]; taken {
		return other
	}
	c.local[content] = id
	return id
}

// release frees a content that the job has reserved.
func (c *contentLocks) release(content string, id job.ID) {
	c.mu.Lock()
	if c.local[content] == id {
		delete(c.local, content)
	}
	c.mu.Unlock()
	c.ended(id)
}

// add notes that a job waits for holder.
func (c *contentLocks) add(holder job.ID, waiter *store.Leased) {
	payload := sha256.Sum256(waiter.Payload)
	c.mu.Lock()
	defer c.mu.Unlock()
	before, known := c.behind[waiter.ID]
	if !known && len(c.behind) >= maxContentWaiters {
		return
	}
	c.behind[waiter.ID] = wait{holder: holder, payload: payload}
	if before.holder != holder {
		c.queues[holder] = append(c.queues[holder], waiter.ID)
	}
}

// holder returns the job that this one, with this payload, is known to wait for.
func (c *contentLocks) holder(waiter *store.Leased) (job.ID, bool) {
	c.mu.Lock()
	w, ok := c.behind[waiter.ID]
	c.mu.Unlock()
	return w.holder, ok && w.payload == sha256.Sum256(waiter.Payload)
}

// ended hints that the jobs that wait for this one may go on.
func (c *contentLocks) ended(id job.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queues[id]) == 0 {
		return
	}
	select {
	case c.over <- id:
	default: // the next poll finds it
	}
}

// next takes the first job that waits for holder; the others wait for that one now.
func (c *contentLocks) next(holder job.ID) (first job.ID, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	queue := c.queues[holder]
	delete(c.queues, holder)
	for i, w := range queue {
		if c.behind[w].holder != holder {
			continue // it waits for another one meanwhile
		}
		delete(c.behind, w)
		for _, other := range queue[i+1:] {
			if is := c.behind[other]; is.holder == holder {
				c.behind[other] = wait{holder: w, payload: is.payload}
				c.queues[w] = append(c.queues[w], other)
			}
		}
		return w, true
	}
	return job.ID{}, false
}

// holders returns some jobs that others wait for, in the order of their ids. When there
// are more than most, the choice is random, so that each is returned after some calls.
func (c *contentLocks) holders(most int) []job.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]job.ID, 0, min(most, len(c.queues)))
	for h := range c.queues {
		if len(out) == most {
			break
		}
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) })
	return out
}

// wakeLoop wakes jobs whose holder has ended, until ctx ends.
func (c *contentLocks) wakeLoop(ctx context.Context) {
	tick := time.NewTicker(holderPoll)
	defer tick.Stop()
	for ctx.Err() == nil {
		var holders []job.ID
		select {
		case h := <-c.over: // known to be over: before those that may be
			holders = []job.ID{h}
		default:
			select {
			case <-ctx.Done():
				return
			case h := <-c.over:
				holders = []job.ID{h}
			case <-tick.C:
				holders = c.holders(holderBatch)
			}
		}
		for _, h := range holders {
			c.wakeNext(ctx, h)
		}
	}
}

// wakeNext wakes the next job if the holder does not block it any more.
func (c *contentLocks) wakeNext(ctx context.Context, holder job.ID) {
	if c.blocks(ctx, holder) {
		return
	}
	for ctx.Err() == nil {
		w, ok := c.next(holder)
		if !ok || c.wake(ctx, w) {
			return
		}
		holder = w
	}
}

// blocks reports whether a job has an open intent, or is about to write one.
func (c *contentLocks) blocks(ctx context.Context, holder job.ID) bool {
	s, err := c.Store.Job(ctx, store.Ref{ID: holder})
	if err != nil {
		return !errors.Is(err, store.ErrNotFound)
	}
	return blocking(s.State)
}

// blocking reports whether a job in a state keeps others with its content from starting.
func blocking(s job.State) bool { return s.Gated() || s.InFlight() }

// wake makes a waiting job due. It reports whether the job is on its way; if not,
// it has ended or waits for something else, and the next one may go.
func (c *contentLocks) wake(ctx context.Context, id job.ID) bool {
	s, err := c.Store.Job(ctx, store.Ref{ID: id})
	if err != nil {
		return false
	}
	ev := job.Freed{Detail: "the job with the same content that this one waited for has ended"}
	asked, written := false, false
	moved, err := store.Decide(ctx, c.Store, []*job.Snapshot{&s},
		func(s *job.Snapshot, change *store.Change) (write bool, err error) {
			change.Actor = c.Worker
			asked, err = change.Decide(s, job.Traits{Class: s.Class}, 0, ev)
			return asked, err
		},
		func(_ *job.Snapshot, _ *store.Change, a *store.Applied) error {
			written = a.Err == nil
			return nil
		})
	if !asked {
		return blocking(s.State) || s.State.Runnable() && !s.NextAt.After(s.Now)
	}
	return err == nil && (written || len(moved) > 0)
}

// contentOf names a job's content among all of this process; empty where there is none.
// Like the store's content lock it separates accounts and not connections: identity is the
// account that the connection or its watermark names. The two names are never compared: this
// one only has to be unique in this process.
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
