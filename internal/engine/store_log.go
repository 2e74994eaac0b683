package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/logthrottle"
	"github.com/fireonce/fireonce/store"
)

const (
	// quarantinePause is how often a quarantined store is asked for work, and
	// clockSuspectPause how often one that does not trust its clock.
	quarantinePause   = 5 * time.Second
	clockSuspectPause = time.Second
)

// storeLog logs the failures of the store: the beginning, a line a minute while they
// last, and the end. A quarantine has a line at its beginning and at its end only: it
// lasts until a person acts.
type storeLog struct {
	*Config
	failures logthrottle.Failures

	mu          sync.Mutex
	quarantined bool
}

func newStoreLog(c *Config) *storeLog {
	return &storeLog{Config: c, failures: logthrottle.Failures{Log: c.Log, Fails: "the store fails", Works: "the store works again"}}
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

// note notes how one call to the store ended. A failure after ctx has ended is the
// shutdown's.
func (s *storeLog) note(ctx context.Context, op string, err error) {
	if err != nil && ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, store.ErrQuarantined):
		if !s.quarantined {
			s.quarantined = true
			s.Log.Error("the database is quarantined: nothing is sent until an operator releases it", "err", err)
		}
	case errors.Is(err, store.ErrClockSuspect): // the store itself logs it
	case err != nil:
		s.Metrics.StoreFailed(op)
		s.failures.Failed(op, err)
		return
	case claims(op) && s.quarantined:
		s.quarantined = false
		s.Log.Info("the quarantine is over: jobs are sent again")
	}
	s.failures.Worked(op)
}

// claims reports whether an operation fails under a quarantine.
func claims(op string) bool { return op == opClaim || op == opClaimLooks }

// pauseAfter returns how long to wait before a failed claim is made again.
func (s *storeLog) pauseAfter(err error) time.Duration {
	switch {
	case errors.Is(err, store.ErrQuarantined):
		return max(s.Poll, quarantinePause)
	case errors.Is(err, store.ErrClockSuspect):
		return max(s.Poll, clockSuspectPause)
	default:
		return s.Poll
	}
}
