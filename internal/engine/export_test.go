package engine

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// LookTo is the moment at which a look at the attempts ends.
func LookTo(grace time.Duration, l store.Leased, attempts []job.Attempt) time.Time {
	return lookTo(&l, attempts, grace)
}

// Settle settles evidence about a leased job.
func (e *Engine) Settle(l *store.Leased, ev job.Evidence) {
	(&task{e: e, leased: l}).settleLeased(ev)
}

// ReleaseZeroPermit releases the permit of a replay, which is none.
func ReleaseZeroPermit() {
	var p sendPermit
	p.freeSender()
	p.release()
}
