package engine

import (
	"context"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

const (
	// A look that its connection has no looker for is handed back for as long as
	// it would take to come to its turn, within these bounds.
	handBackLeast = time.Second
	handBackMost  = 2 * time.Minute
	// firstPace is how long a look is thought to take before one has ended.
	firstPace = time.Second
)

// shares keeps one connection from taking every looker: each may have half of
// those that the others leave, and always one. A target that answers nothing
// then delays its own looks, and nobody else's.
type shares struct {
	total int

	mu    sync.Mutex
	busy  int // lookers at work
	conns map[job.ID]*share
}

// share is one connection's part.
type share struct {
	busy int
	// pace is how long its looks take, turn when those that were handed back so
	// far will have had theirs.
	pace time.Duration
	turn time.Time
}

func newShares(total int) *shares { return &shares{total: total, conns: make(map[job.ID]*share)} }

// take takes one looker for the connection, if it may have one more.
func (s *shares) take(conn job.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.conns[conn]
	if c == nil {
		c = &share{pace: firstPace}
		s.conns[conn] = c
	}
	if c.busy >= s.most(c) {
		return false
	}
	c.busy++
	s.busy++
	return true
}

func (s *shares) most(c *share) int { return max(1, (s.total-(s.busy-c.busy))/2) }

// give gives a looker back that was at work for took.
func (s *shares) give(conn job.ID, took time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.conns[conn]
	c.busy--
	s.busy--
	c.pace = (3*c.pace + took) / 4
	if c.busy == 0 && !c.turn.After(now) {
		delete(s.conns, conn)
	}
}

// wait tells how long n more looks of the connection are to be handed back for.
func (s *shares) wait(conn job.ID, n int, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.conns[conn]
	if c == nil {
		return handBackLeast // its last look has ended just now
	}
	if c.turn.Before(now) {
		c.turn = now
	}
	wait := min(max(c.turn.Sub(now), handBackLeast), handBackMost)
	c.turn = now.Add(min(c.turn.Sub(now)+time.Duration(n)*c.pace/time.Duration(s.most(c)), handBackMost))
	return wait
}

// takeLooks leases due looks, at most as many as there are free lookers, and
// starts those that their connection's share allows. It tells how many it
// started, and whether more may be due.
func (e *Engine) takeLooks(ctx context.Context) (started int, more bool) {
	free := e.lookers.acquire(ctx, store.MaxBatch)
	if free == 0 {
		return 0, false
	}
	begun := e.Clock.Read() // before the store's clock is read
	leased, err := e.Store.ClaimLooks(ctx, store.ClaimParams{Worker: e.Worker, Lease: e.Lease, Limit: free})
	e.trouble.store(ctx, opClaimLooks, err)
	if err != nil {
		e.lookers.release(free)
		sleep(ctx, e.afterFailure(err))
		return 0, false
	}
	back := make(map[job.ID][]store.LeaseRef)
	var conns []job.ID // of those, as they came
	for _, l := range leased {
		conn := l.Connection.ID
		if !e.shares.take(conn) {
			if len(back[conn]) == 0 {
				conns = append(conns, conn)
			}
			back[conn] = append(back[conn], store.LeaseRef{Job: l.ID, Token: l.ClaimToken})
			continue
		}
		started++
		e.busy.Go(func() {
			defer e.lookers.release(1)
			defer func() {
				now := e.Clock.Read().Time
				e.shares.give(conn, now.Sub(begun.Time), now)
			}()
			e.look(ctx, &l, begun)
		})
	}
	e.lookers.release(free - started)
	for _, conn := range conns {
		e.handBack(ctx, conn, back[conn])
	}
	return started, len(leased) == free
}

// handBack ends leases early that nobody works under. The job is due again when
// its turn has come; a lease writes no event.
func (e *Engine) handBack(ctx context.Context, conn job.ID, refs []store.LeaseRef) {
	wait := e.shares.wait(conn, len(refs), e.Clock.Read().Time)
	if _, err := e.Store.Renew(ctx, wait, refs); err != nil && ctx.Err() == nil {
		e.Log.Debug("looks could not be handed back; their leases run out", "connection", conn.String(), "err", err)
	}
}
