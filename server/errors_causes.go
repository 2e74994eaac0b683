package server

import (
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/logthrottle"
	"github.com/fireonce/fireonce/store"
)

// causes decides which causes of failed calls are logged. While the store cannot be reached every
// call fails for that reason, and has its own line with its code anyway.
type causes struct{ unreachable logthrottle.Throttle }

// logs reports whether the cause of a failed call is logged now.
func (c *causes) logs(err error, now time.Time) bool {
	return !errors.Is(err, store.ErrUnavailable) || c.unreachable.Allow(now)
}
