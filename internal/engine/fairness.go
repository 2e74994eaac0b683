package engine

import (
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

const (
	// A look that its connection has no looker for is handed back for as long as
	// the looks before it take, within these bounds.
	handBackLeast = time.Second
	handBackMost  = 2 * time.Minute
	// firstPace is how long a look is assumed to take before one has ended.
	firstPace = time.Second
)

// fairShares keeps one connection from taking every looker: each may have half of
// those that the others leave, and always one, and a project three quarters of all. A target
// that does not answer then delays its own looks, and no other's.
type fairShares struct {
	total int

	mu       sync.Mutex
	busy     int // lookers at work
	conns    map[job.ID]*fairShare
	projects map[string]*fairShare
}

// fairShare is one connection's or project's part.
type fairShare struct {
	busy int
	// pace is how long its looks take. next is when those that were handed back so far
	// will have been made.
	pace time.Duration
	next time.Time
}

func newFairShares(total int) *fairShares {
	return &fairShares{total: total, conns: make(map[job.ID]*fairShare), projects: make(map[string]*fairShare)}
}

func shareIn[K comparable](of map[K]*fairShare, key K) *fairShare {
	c := of[key]
	if c == nil {
		c = &fairShare{pace: firstPace}
		of[key] = c
	}
	return c
}

// take takes one looker for a job, if its connection and project may have one more.
func (s *fairShares) take(of owner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, p := shareIn(s.conns, of.conn), shareIn(s.projects, of.project)
	if c.busy >= s.most(c) || p.busy >= s.mostOfProject() {
		return false // wait follows
	}
	c.busy++
	p.busy++
	s.busy++
	return true
}

func (s *fairShares) most(c *fairShare) int { return max(1, (s.total-(s.busy-c.busy))/2) }

func (s *fairShares) mostOfProject() int { return shareOf(s.total).project }

// release returns a looker that was at work for took.
func (s *fairShares) release(of owner, took time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	for _, c := range []*fairShare{s.conns[of.conn], s.projects[of.project]} {
		c.busy--
		c.pace = (3*c.pace + took) / 4
	}
	forget(s.conns, now)
	forget(s.projects, now)
}

func (c *fairShare) idle(now time.Time) bool { return c.busy == 0 && !c.next.After(now) }

// forget drops a few shares whose looks were all handed back and are over, or were made by
// another server.
func forget[K comparable](of map[K]*fairShare, now time.Time) {
	looked := 0
	for key, c := range of {
		if looked++; looked > store.MaxBatch {
			return
		}
		if c.idle(now) {
			delete(of, key)
		}
	}
}

// wait returns for how long n more looks of the connection are to be handed back.
func (s *fairShares) wait(of owner, n int, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := handBackLeast
	if c := s.conns[of.conn]; c != nil && c.busy >= s.most(c) {
		wait = c.wait(n, s.most(c), now)
	}
	if p := s.projects[of.project]; p != nil && p.busy >= s.mostOfProject() {
		wait = max(wait, p.wait(n, s.mostOfProject(), now))
	}
	return wait
}

// wait returns when n more looks are due that most lookers make at a time.
func (c *fairShare) wait(n, most int, now time.Time) time.Duration {
	if c.next.Before(now) {
		c.next = now
	}
	wait := min(max(c.next.Sub(now), handBackLeast), handBackMost)
	c.next = now.Add(min(c.next.Sub(now)+time.Duration(n)*c.pace/time.Duration(most), handBackMost))
	return wait
}
