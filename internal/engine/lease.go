package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/store"
)

// lease renews one claim while its job is prepared. Its context ends when the
// claim is lost, so that the preparation stops. Most jobs are prepared long
// before the first renewal: until then a lease is a timer and no more.
type lease struct {
	ctx    context.Context
	cancel context.CancelFunc
	cfg    *Config
	refs   [1]store.LeaseRef
	timer  *time.Timer
	// renewing is held while the lease is renewed. It is a channel because that lasts as
	// long as the store takes.
	renewing chan struct{}
	lost     atomic.Bool
}

// keepLease starts renewing. A claim that is renewed too late is lost; the
// guards of Arm find that out in any case, this only saves work.
func (t *task) keepLease(ctx context.Context) *lease {
	k := &lease{cfg: &t.e.Config, refs: [1]store.LeaseRef{{Job: t.leased.ID, Token: t.leased.ClaimToken}}, renewing: make(chan struct{}, 1)}
	k.ctx, k.cancel = context.WithCancel(ctx)
	k.renewing <- struct{}{} // the timer must not fire before it is known
	k.timer = time.AfterFunc(k.cfg.Lease/3, k.renew)
	<-k.renewing
	return k
}

// renew moves the lease's end, and schedules the next renewal.
func (k *lease) renew() {
	k.renewing <- struct{}{}
	defer func() { <-k.renewing }()
	if k.ctx.Err() != nil {
		return
	}
	begun := time.Now()
	held, err := k.cfg.Store.Renew(k.ctx, k.cfg.Lease, k.refs[:])
	if err == nil && !held[0] {
		k.lost.Store(true)
		k.cancel()
	}
	if k.ctx.Err() == nil {
		k.timer.Reset(max(0, k.cfg.Lease/3-time.Since(begun)))
	}
}

// stop ends renewing and reports whether the claim was lost.
func (k *lease) stop() bool {
	k.cancel()
	k.renewing <- struct{}{}
	k.timer.Stop()
	<-k.renewing
	return k.lost.Load()
}
