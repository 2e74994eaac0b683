// Package rules judges for every engine of storage what may be written: which intents,
// which decisions, whose an object is, what a new job looks like, how much a claim may
// take, what is due. It is the one judge. An engine reads and locks rows, makes a small
// view of them, asks here, and writes what it is told under a compare-and-set on the
// version, the claim token and the state.
//
// # Rules of this package
//
//   - Functions of values and a time: no SQL, no I/O, no clock, no lock, and nothing is
//     remembered. The same view has the same answer in every engine.
//   - A refusal is one of the contract's errors, with the words that users read. Where
//     several hold, the first in the contract's order is returned.
//   - What only a database can know stays there: which rows are due, that a key, a token
//     or an object is unique. Its triggers refuse what must never be, whoever asks, and
//     know nothing of this package.
package rules

import (
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Still is why nothing of a database may start; the zero Still: no reason.
type Suspension struct {
	// Quarantined is Meta.Quarantined.
	Quarantined string
	Clock       store.SuspectClock
}

// Refuse returns the error of the calls that lead to sending, and of those that end or
// remove something because its time is over.
func (s Suspension) Refuse() error {
	if err := s.RefuseQuarantined(); err != nil {
		return err
	}
	return s.Clock.Refuse()
}

// RefuseQuarantined returns the error of what another copy of the database may be doing.
func (s Suspension) RefuseQuarantined() error {
	if s.Quarantined != "" {
		return fmt.Errorf("%w: %s", store.ErrQuarantined, s.Quarantined)
	}
	return nil
}

// Stands reports whether nothing may start.
func (s Suspension) Suspended() bool { return s.Quarantined != "" || s.Clock.Suspends }

// hold is Refuse for an intent, whose caller waits as for any hold.
func (s Suspension) hold() error {
	switch {
	case s.Quarantined != "":
		return fmt.Errorf("%w: quarantined: %s", store.ErrHeld, s.Quarantined)
	case s.Clock.Suspends:
		return fmt.Errorf("%w: %s", store.ErrHeld, s.Clock.Why)
	}
	return nil
}

// soon is the time that is d from now, in whole microseconds.
func soon(now time.Time, d time.Duration) time.Time { return job.Micros(now.Add(d)) }

// some is nil for no bytes.
func some(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
