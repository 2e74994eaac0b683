package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/store"
)

// lease renews one claim while its job is prepared. Its context ends when the
// claim is lost, so that nobody prepares for nothing.
type lease struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	lost   atomic.Bool
}

// keepLease starts renewing. A claim that is renewed too late is lost; the
// guards of Arm find that out in any case, this only saves work.
func (e *Engine) keepLease(ctx context.Context, l store.Leased) *lease {
	k := &lease{done: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancel(ctx)
	ref := []store.LeaseRef{{Job: l.ID, Token: l.ClaimToken}}
	go func() {
		defer close(k.done)
		tick := time.NewTicker(e.Lease / 3)
		defer tick.Stop()
		for {
			select {
			case <-k.ctx.Done():
				return
			case <-tick.C:
			}
			if k.ctx.Err() != nil {
				return // both were ready
			}
			held, err := e.Store.Renew(k.ctx, e.Lease, ref)
			if err == nil && !held[0] {
				k.lost.Store(true)
				k.cancel()
				return
			}
		}
	}()
	return k
}

// stop ends renewing and tells whether the claim was lost.
func (k *lease) stop() bool {
	k.cancel()
	<-k.done
	return k.lost.Load()
}
