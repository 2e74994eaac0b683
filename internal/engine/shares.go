package engine

import (
	"context"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a target that does not answer holds senders for as long as its jobs'
// timeouts allow, and nothing may take them away. So no connection has more than half of the
// senders, and no project more than three quarters: the rest is left to others, also while
// no other has work. The same holds for the permits to be in flight. A claim takes no job
// whose connection or project has no room, and reads none of their rows.

// owner is whose permits a job takes.
type owner struct {
	project string
	conn    job.ID
}

// share bounds what one connection and one project may have of a number.
type share struct{ conn, project int }

func shareOf(n int) share { return share{conn: max(1, n/2), project: max(1, 3*n/4)} }

// use is the permits that a connection or project has.
type use struct{ senders, inFlight int }

// sendShares counts the permits of each connection and project.
type sendShares struct {
	senders, inFlight share

	mu       sync.Mutex
	conns    map[job.ID]*use
	projects map[string]*use

	// short is set when a claim may have left jobs because a connection or project had no room.
	// Then freed gets a value when one has room again, and while a claim gathers room with
	// every permit that comes back.
	short, gathering bool
	freed            chan struct{}
}

func newSendShares(senders, inFlight int) *sendShares {
	return &sendShares{
		senders: shareOf(senders), inFlight: shareOf(inFlight),
		conns: make(map[job.ID]*use), projects: make(map[string]*use), freed: make(chan struct{}, 1),
	}
}

// left returns how many more permits each may have.
func (s *sendShares) left(c, p use) (ofConn, ofProject int) {
	return min(s.senders.conn-c.senders, s.inFlight.conn-c.inFlight), min(s.senders.project-p.senders, s.inFlight.project-p.inFlight)
}

// tryTake counts a job's permits, if there is room.
func (s *sendShares) tryTake(of owner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, p := s.conns[of.conn], s.projects[of.project]
	if c == nil {
		c = &use{}
	}
	if p == nil {
		p = &use{}
	}
	if ofConn, ofProject := s.left(*c, *p); ofConn <= 0 || ofProject <= 0 {
		return false
	}
	s.add(of)
	return true
}

// take counts the permits of a job that was claimed.
func (s *sendShares) take(of owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(of)
	ofConn, ofProject := s.left(*s.conns[of.conn], *s.projects[of.project])
	s.short = s.short || ofConn <= 0 || ofProject <= 0
}

func (s *sendShares) add(of owner) {
	c, p := s.conns[of.conn], s.projects[of.project]
	if c == nil {
		c = &use{}
		s.conns[of.conn] = c
	}
	if p == nil {
		p = &use{}
		s.projects[of.project] = p
	}
	c.senders, c.inFlight = c.senders+1, c.inFlight+1
	p.senders, p.inFlight = p.senders+1, p.inFlight+1
}

// back counts permits back, and reports whether a claim waits for that.
func (s *sendShares) back(of owner, n use) (wake bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, p := s.conns[of.conn], s.projects[of.project]
	ofConn, ofProject := s.left(*c, *p)
	c.senders, c.inFlight = c.senders-n.senders, c.inFlight-n.inFlight
	p.senders, p.inFlight = p.senders-n.senders, p.inFlight-n.inFlight
	if c.inFlight == 0 {
		delete(s.conns, of.conn)
	}
	if p.inFlight == 0 {
		delete(s.projects, of.project)
	}
	return s.gathering || s.short && (ofConn <= 0 || ofProject <= 0)
}

// wake ends the wait of a claim for room.
func (s *sendShares) wake() {
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

// room returns what the next claim has room for.
func (s *sendShares) room() *store.Room {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &store.Room{
		Connection: s.senders.conn, Project: s.senders.project,
		Connections: make(map[job.ID]int, len(s.conns)), Projects: make(map[string]int, len(s.projects)),
	}
	s.short = false
	for id, u := range s.conns {
		r.Connections[id], _ = s.left(*u, use{})
		s.short = s.short || r.Connections[id] <= 0
	}
	for name, u := range s.projects {
		_, r.Projects[name] = s.left(use{}, *u)
		s.short = s.short || r.Projects[name] <= 0
	}
	return r
}

// gather waits until no connection or project has more than half of its share, but for no longer than
// claimPatience: one claim for many jobs costs little more than for one.
func (s *sendShares) gather(ctx context.Context) {
	s.gathers(true)
	defer s.gathers(false)
	over := time.NewTimer(claimPatience)
	defer over.Stop()
	for !s.roomy() {
		select {
		case <-s.freed:
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (s *sendShares) gathers(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gathering = on
}

func (s *sendShares) roomy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.conns {
		if u.senders > s.senders.conn/2 {
			return false
		}
	}
	for _, u := range s.projects {
		if u.senders > s.senders.project/2 {
			return false
		}
	}
	return true
}
