package rules

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

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

// Holds reports whether what a decision says of a hold key holds it: the refusal of a
// credential that was replaced meanwhile holds nothing.
func Holds(h job.HoldUntil, credentialVersion int) bool {
	return h.Auth == 0 || h.CredentialVersion == credentialVersion
}

// Until is when a rate limit ends.
func Until(h job.HoldUntil, now time.Time) time.Time { return soon(now, h.For) }
