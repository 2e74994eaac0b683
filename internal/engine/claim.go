package engine

import (
	"context"

	"github.com/fireonce/fireonce/internal/sleep"
	"github.com/fireonce/fireonce/store"
)

// claimLoop claims due jobs until ctx ends, never more than there are permits.
func (e *Engine) claimLoop(ctx context.Context) {
	work, stop := e.Store.Watch(store.WatchWork)
	defer stop()
	idle := e.newPacer()
	idle.freed = e.permits.shares.freed
	busy := false
	for ctx.Err() == nil {
		free := e.permits.acquire(ctx, busy)
		if free == 0 {
			return
		}
		room := e.permits.shares.room()
		n, err := e.claim(ctx, free, room)
		if err != nil {
			sleep.For(ctx, e.storeLog.pauseAfter(err))
			continue
		}
		if busy = n == free; busy || n > 0 && room.Unread || room.SetAside {
			continue
		}
		if idle.wait(ctx, work, n > 0) {
			e.permits.shares.gather(ctx)
		}
	}
}

// claim claims jobs for as many permits, and starts their attempts. It returns how many
// jobs it got, and releases the other permits.
func (e *Engine) claim(ctx context.Context, free int, room *store.Room) (int, error) {
	c := e.newClaimAndArm(free)
	leased, err := e.Store.Claim(ctx, store.ClaimParams{Worker: e.Worker, Lease: e.Lease, Limit: free, Room: room, Intent: c.intend})
	e.storeLog.note(ctx, opClaim, err)
	unconfirmed := c.end(leased, err)
	e.permits.release(free - len(leased) - len(unconfirmed))
	for _, a := range unconfirmed {
		e.start(a, func() { a.runUnconfirmed(err) })
	}
	for i := range leased {
		a := c.attempt(&leased[i])
		e.start(a, func() { c.run(ctx, a) })
	}
	return len(leased), err
}

// start runs an attempt in a worker, with a permit that was acquired for it.
func (e *Engine) start(a *attempt, run func()) {
	e.busy.Add(1)
	a.permit = e.permits.grant(owner{a.leased.Owner(), a.leased.Connection.ID}) // before the next claim asks for room
	e.workers.run(func() {
		defer e.busy.Done()
		defer a.permit.release()
		run()
	})
}
