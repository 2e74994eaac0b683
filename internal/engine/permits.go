package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/store"
)

const (
	// inFlightPerSender bounds the jobs whose outcomes are being stored: they wait
	// together for one commit, and the senders need not.
	inFlightPerSender = 4
	// claimPatience is how long a claim waits for more free senders under load.
	claimPatience = 5 * time.Millisecond
)

// sendPermits bounds the jobs under way. Each needs a sender, and a permit to be in
// flight: claimed and not settled. A KEYED job's sender is free for the next job as soon
// as the target has answered. One connection has at most half of either, and one project three
// quarters (shares.go).
type sendPermits struct {
	senders, inFlight permits
	shares            *sendShares
	// sending and held count the permits that jobs have: a claim acquires some before it
	// knows how many jobs it gets.
	sending, held atomic.Int64
}

func newSendPermits(senders int) *sendPermits {
	inFlight := inFlightPerSender * senders
	return &sendPermits{senders: newPermits(senders), inFlight: newPermits(inFlight), shares: newSendShares(senders, inFlight)}
}

// acquire takes permits for the jobs of the next claim; 0: ctx ended. While more jobs
// are due than senders are free (busy), a claim waits a little for more senders: one
// commit for many jobs costs little more than for one.
func (s *sendPermits) acquire(ctx context.Context, busy bool) int {
	least := 1
	if busy {
		least = cap(s.senders) / 2
	}
	senders := s.senders.gather(ctx, store.MaxBatch, least, claimPatience)
	if senders == 0 {
		return 0
	}
	inFlight := s.inFlight.acquire(ctx, senders)
	s.senders.release(senders - inFlight)
	return inFlight
}

// tryAcquire takes one permit if at least half of the senders are free, and the job's connection
// and project have room. It does not wait.
func (s *sendPermits) tryAcquire(of owner) (sendPermit, bool) {
	if len(s.senders) > cap(s.senders)/2 || !s.senders.tryAcquire() {
		return sendPermit{}, false
	}
	if !s.inFlight.tryAcquire() {
		s.senders.release(1)
		return sendPermit{}, false
	}
	if !s.shares.tryTake(of) {
		s.release(1)
		return sendPermit{}, false
	}
	return s.granted(of), true
}

// release returns permits that no job has.
func (s *sendPermits) release(n int) {
	s.senders.release(n)
	s.inFlight.release(n)
}

// grant turns one of the permits that were acquired into a job's.
func (s *sendPermits) grant(of owner) sendPermit {
	s.shares.take(of)
	return s.granted(of)
}

func (s *sendPermits) granted(of owner) sendPermit {
	s.sending.Add(1)
	s.held.Add(1)
	return sendPermit{of: s, owner: of}
}

// sendPermit is one job's permit to be sent and to be in flight. The zero permit is that
// of a replay, which has a looker's instead.
type sendPermit struct {
	of       *sendPermits
	owner    owner
	answered bool
}

// freeSender frees the sender after the answer: what follows is between the job and the
// store.
func (p *sendPermit) freeSender() {
	if p.of != nil && !p.answered {
		p.answered = true
		p.of.back(p.owner, use{senders: 1})
	}
}

// release frees the sender and the permit to be in flight.
func (p *sendPermit) release() {
	if p.of == nil {
		return
	}
	n := use{inFlight: 1}
	if !p.answered {
		p.answered, n.senders = true, 1
	}
	p.of.back(p.owner, n)
}

// back returns what a job has had. A claim that waits for a permit finds the room that comes
// with it, and one that waits for room finds the permits.
func (s *sendPermits) back(of owner, n use) {
	room := s.shares.back(of, n)
	s.sending.Add(int64(-n.senders))
	s.held.Add(int64(-n.inFlight))
	s.inFlight.release(n.inFlight)
	s.senders.release(n.senders)
	if room {
		s.shares.wake()
	}
}

// permits is a counting semaphore.
type permits chan struct{}

func newPermits(n int) permits { return make(permits, n) }

// acquire waits for one permit, then takes those that are free, up to most. It
// returns 0 when ctx ends.
func (p permits) acquire(ctx context.Context, most int) int { return p.gather(ctx, most, 1, 0) }

// gather is acquire that goes on waiting until it has least permits, but for no longer
// than patience.
func (p permits) gather(ctx context.Context, most, least int, patience time.Duration) int {
	select {
	case p <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	n := 1 + p.more(most-1)
	if n >= min(least, most) {
		return n
	}
	over := time.NewTimer(patience)
	defer over.Stop()
	for n < min(least, most) {
		select {
		case p <- struct{}{}:
			n++
		case <-over.C:
			return n
		case <-ctx.Done():
			return n
		}
	}
	return n + p.more(most-n)
}

// more takes free permits, up to most.
func (p permits) more(most int) int {
	for n := range most {
		if !p.tryAcquire() {
			return n
		}
	}
	return max(most, 0)
}

// tryAcquire takes a permit if one is free.
func (p permits) tryAcquire() bool {
	select {
	case p <- struct{}{}:
		return true
	default:
		return false
	}
}

func (p permits) release(n int) {
	for range n {
		<-p
	}
}
