package rules

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Hold is the state of a hold key.
type Hold struct {
	// Paused: the connection is paused. Refused: its credential was refused.
	Paused, Refused bool
	LimitedUntil    time.Time
}

// Held reports whether no job may start under the key.
func (h Hold) Held(now time.Time) bool { return h.Stopped() || h.LimitedUntil.After(now) }

// Stopped reports whether no job may start under the key until a person or a new credential
// ends the hold.
func (h Hold) Stopped() bool { return h.Paused || h.Refused }

// Until returns when a rate limit ends.
func Until(h job.HoldUntil, now time.Time) time.Time { return soon(now, h.For) }
