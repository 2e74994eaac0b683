package server

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/store"
)

// outageEvery is how often the cause of calls that fail for want of the store
// is logged: every one of them fails for the same reason, and each has its own
// line with its code anyway.
const outageEvery = time.Minute

// outage bounds what an outage of the store writes to the log.
type outage struct{ told atomic.Int64 }

// worthALine reports whether the cause of a failed call is to be logged now.
func (o *outage) worthALine(err error, now time.Time) bool {
	if !errors.Is(err, store.ErrUnavailable) {
		return true
	}
	last := o.told.Load()
	return now.UnixNano()-last >= int64(outageEvery) && o.told.CompareAndSwap(last, now.UnixNano())
}
