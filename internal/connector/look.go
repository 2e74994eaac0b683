package connector

import (
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// ErrForeign means that a look was made with another account's credential than the send:
// it may not see what the sending account sees.
var ErrForeign = errors.New("the credential belongs to another account than at the send")

// Until returns the fence by the platform's clock, which is now as the look begins. At
// the watermark that clock was at mark. Files may have been uploaded between watermark
// and arm, for job.MaxOpenTimeout at most; a longer time means that a clock was set,
// and Until returns mark plus the time from arm to fence.
func (l Look) Until(mark, now time.Time) time.Time {
	least := mark.Add(l.Fence.Sub(l.First.ArmedAt))
	if l.Now.IsZero() {
		return least
	}
	until := now.Add(l.Fence.Sub(l.Now))
	if until.Before(least) || until.After(least.Add(job.MaxOpenTimeout)) {
		return least
	}
	return until
}
