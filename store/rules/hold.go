package rules

import "time"

// Hold is what is known of a hold key.
type Hold struct {
	// Paused: the connection is. Refused: the credential was.
	Paused, Refused bool
	LimitedUntil    time.Time
}

// Held reports whether nothing may start under the key.
func (h Hold) Held(now time.Time) bool { return h.Stopped() || h.LimitedUntil.After(now) }

// Stopped reports whether nothing may start under the key until somebody does something.
func (h Hold) Stopped() bool { return h.Paused || h.Refused }
