// Package rules judges for every storage engine what may be written: which intents, which
// decisions, who owns an object, what a new job looks like, how much a claim may take, what
// is due. No engine judges these by itself. An engine reads and locks rows, builds a small
// view of them, calls this package, and writes the result under a compare-and-set on the
// version, the claim token and the state.
//
// # Rules of this package
//
//   - Functions of values and a time: no SQL, no I/O, no clock, no lock, no memory between
//     calls. The same view has the same answer in every engine.
//   - A refusal is one of the contract's errors, with the words that users read. Where
//     several apply, the first in the contract's order is returned.
//   - What only a database can know stays there: which rows are due, and that a key, a token
//     or an object is unique. Its triggers refuse what must never be written, and do not
//     depend on this package.
package rules

import (
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Suspension is why a database starts nothing; the zero Suspension: it starts jobs.
type Suspension struct {
	// Quarantined is Meta.Quarantined.
	Quarantined string
	Clock       store.SuspectClock
}

// Refuse returns the error of the calls that lead to sending, and of those that end or remove
// something because its time is over.
func (s Suspension) Refuse() error {
	if err := s.RefuseQuarantined(); err != nil {
		return err
	}
	return s.Clock.Refuse()
}

// RefuseQuarantined returns the error of calls that another copy of the database may be
// making too.
func (s Suspension) RefuseQuarantined() error {
	if s.Quarantined != "" {
		return fmt.Errorf("%w: %s", store.ErrQuarantined, s.Quarantined)
	}
	return nil
}

// Suspended reports whether no job may start.
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

// soon returns the time that is d from now, in whole microseconds.
func soon(now time.Time, d time.Duration) time.Time { return job.Micros(now.Add(d)) }

// some returns nil for no bytes.
func some(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
