package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/store"
)

// lease renews one claim while its job is prepared. Its context ends when the
// claim is lost, so that nobody prepares for nothing. Most jobs are prepared long
// before the first renewal: until then a lease is a timer and no more.
type lease struct {
	ctx    context.Context
	cancel context.CancelFunc
	e      *Engine
	refs   [1]store.LeaseRef
	timer  *time.Timer
	// turn is held while the lease is renewed. A channel, because it is waited for
	// as long as the store takes.
	turn chan struct{}
	lost atomic.Bool
}

// keepLease starts renewing. A claim that is renewed too late is lost; the
// guards of Arm find that out in any case, this only saves work.
func (e *Engine) keepLease(ctx context.Context, l *store.Leased) *lease {
	k := &lease{e: e, refs: [1]store.LeaseRef{{Job: l.ID, Token: l.ClaimToken}}, turn: make(chan struct{}, 1)}
	k.ctx, k.cancel = context.WithCancel(ctx)
	k.turn <- struct{}{} // the timer must not fire before it is known
	k.timer = time.AfterFunc(e.Lease/3, k.renew)
	<-k.turn
	return k
}

// renew moves the lease's end, and comes again.
func (k *lease) renew() {
	k.turn <- struct{}{}
	defer func() { <-k.turn }()
	if k.ctx.Err() != nil {
		return
	}
	begun := time.Now()
	held, err := k.e.Store.Renew(k.ctx, k.e.Lease, k.refs[:])
	if err == nil && !held[0] {
		k.lost.Store(true)
		k.cancel()
	}
	if k.ctx.Err() == nil {
		k.timer.Reset(max(0, k.e.Lease/3-time.Since(begun)))
	}
}

// stop ends renewing and tells whether the claim was lost.
func (k *lease) stop() bool {
	k.cancel()
	k.turn <- struct{}{}
	k.timer.Stop()
	<-k.turn
	return k.lost.Load()
}
