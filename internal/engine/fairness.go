package engine

import (
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/job"
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
// those that the others leave, and always one. A target that does not answer
// then delays its own looks, and no other's.
type fairShares struct {
	total int

	mu    sync.Mutex
	busy  int // lookers at work
	conns map[job.ID]*fairShare
}

// fairShare is one connection's part.
type fairShare struct {
	busy int
	// pace is how long its looks take. next is when those that were handed back so far
	// will have been made.
	pace time.Duration
	next time.Time
}

func newFairShares(total int) *fairShares {
	return &fairShares{total: total, conns: make(map[job.ID]*fairShare)}
}

// take takes one looker for the connection, if it may have one more.
func (s *fairShares) take(conn job.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.conns[conn]
	if c == nil {
		c = &fairShare{pace: firstPace}
		s.conns[conn] = c
	}
	if c.busy >= s.most(c) {
		return false
	}
	c.busy++
	s.busy++
	return true
}

func (s *fairShares) most(c *fairShare) int { return max(1, (s.total-(s.busy-c.busy))/2) }

// release returns a looker that was at work for took.
func (s *fairShares) release(conn job.ID, took time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.conns[conn]
	c.busy--
	s.busy--
	c.pace = (3*c.pace + took) / 4
	if c.busy == 0 && !c.next.After(now) {
		delete(s.conns, conn)
	}
}

// wait returns for how long n more looks of the connection are to be handed back.
func (s *fairShares) wait(conn job.ID, n int, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.conns[conn]
	if c == nil {
		return handBackLeast // its last look has ended just now
	}
	if c.next.Before(now) {
		c.next = now
	}
	wait := min(max(c.next.Sub(now), handBackLeast), handBackMost)
	c.next = now.Add(min(c.next.Sub(now)+time.Duration(n)*c.pace/time.Duration(s.most(c)), handBackMost))
	return wait
}
