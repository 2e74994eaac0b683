package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/metrics"
	"github.com/fireonce/fireonce/store"
)

const (
	// quarantinePause is how often a quarantined store is asked for work, or one that does
	// not believe its clock.
	quarantinePause = 5 * time.Second
	doubtPause      = time.Second
	// troubleEvery is how often a failure that lasts is told again.
	troubleEvery = time.Minute
)

// trouble tells operators of a store that fails: when that begins, once a
// minute while it lasts, and when it ends. A quarantine is told at its begin
// and its end only: it lasts until a person acts.
type trouble struct {
	log     *slog.Logger
	metrics *metrics.Metrics

	mu          sync.Mutex
	failing     map[string]bool // operations whose last call failed
	since, told time.Time
	quarantined bool
}

// store notes how one call to the store ended.
func (t *trouble) store(ctx context.Context, op string, err error) {
	if err != nil && ctx.Err() != nil {
		return // a shutdown
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case errors.Is(err, store.ErrQuarantined):
		if !t.quarantined {
			t.quarantined = true
			t.log.Error("the database is quarantined: nothing is sent until an operator releases it", "err", err)
		}
	case errors.Is(err, store.ErrClockSuspect): // the store itself tells of its doubts
	case err != nil:
		t.metrics.StoreFailed(op)
		t.failed(op, err)
		return
	case claims(op) && t.quarantined:
		t.quarantined = false
		t.log.Info("the quarantine is over: jobs are sent again")
	}
	t.worked(op)
}

// claims tells whether an operation gives nothing under a quarantine.
func claims(op string) bool { return op == opClaim || op == opClaimLooks }

func (t *trouble) failed(op string, err error) {
	now := time.Now()
	if t.failing == nil {
		t.failing = make(map[string]bool)
	}
	if len(t.failing) == 0 {
		t.since, t.told = now, time.Time{}
	}
	t.failing[op] = true
	if now.Sub(t.told) < troubleEvery {
		return
	}
	t.told = now
	t.log.Error("the store fails", "op", op, "err", err, "for", now.Sub(t.since).Round(time.Second).String())
}

func (t *trouble) worked(op string) {
	if !t.failing[op] {
		return
	}
	delete(t.failing, op)
	if len(t.failing) == 0 {
		t.log.Info("the store works again", "failed_for", time.Since(t.since).Round(time.Second).String())
	}
}

// Names of operations in the log.
const (
	opClaim      = "claim"
	opClaimLooks = "claim looks"
	opSweep      = "sweep"
	opOrphans    = "orphans"
	opApply      = "apply"
	opNextDue    = "next due"
)

// afterFailure is how long to wait before a failed call is made again.
func (e *Engine) afterFailure(err error) time.Duration {
	switch {
	case errors.Is(err, store.ErrQuarantined):
		return max(e.Poll, quarantinePause)
	case errors.Is(err, store.ErrClockSuspect):
		return max(e.Poll, doubtPause)
	default:
		return e.Poll
	}
}
