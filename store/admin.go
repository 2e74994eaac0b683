package store

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// LostGrace is added to the time for an answer where Release makes up the fence of
// an attempt that nobody remembers: the grace that a server adds by default, 30 s,
// and as much for clocks of two databases that differ and for a release that takes
// its time to commit.
const LostGrace = time.Minute

// ErrNamespaceFixed: the namespace may not change any more. Engines return it as a
// *NamespaceError.
var ErrNamespaceFixed = errors.New("the namespace is fixed")

// NamespaceError is ErrNamespaceFixed with the namespace that the database has.
type NamespaceError struct{ Have string }

func (e *NamespaceError) Error() string {
	return ErrNamespaceFixed.Error() + ": something was armed under " + e.Have
}

// Is makes the error one of ErrNamespaceFixed.
func (e *NamespaceError) Is(target error) bool { return target == ErrNamespaceFixed }

// Admin is what the operator of a database does with it.
type Admin interface {
	// SetNamespace replaces the namespace, which keeps installations apart at receivers that
	// they share (see job.EffectKey). A new database gets one when it is first opened. It
	// fails with a *NamespaceError once something was armed, unless the database is quarantined and copied says that the
	// copy becomes an installation of its own: attempts then keep their keys, and new ones
	// go under the new namespace. The same namespace again changes nothing.
	// job.ErrBadNamespace for a text that is none. A server that has the database open
	// meanwhile arms nothing more until it is started again.
	SetNamespace(ctx context.Context, namespace string, copied bool) error

	// Quarantine turns claims off until Release: an operator's act, before a copy
	// of the database is taken or put to use, or because it is known to be one.
	// The incarnation rises, as after a restore that was noticed. ErrIllegal
	// without a reason.
	Quarantine(ctx context.Context, reason string) error

	// Doubtful reads jobs that may have been started by a state of this database
	// that was lost: SCHEDULED, RETRYING or CLAIMED, due by now, and their window
	// not over at since; a CLAIMED job was due when it was claimed. It serves
	// the caller of Release, batch by batch.
	Doubtful(ctx context.Context, since time.Time, limit int) ([]job.Snapshot, error)

	// Release ends the quarantine, if there is one: an operator's act, who has
	// made sure that no other copy is at work. What such a copy armed last may
	// still act, so every SENDING or AMBIGUOUS job that may be looked at (any that
	// is not KEYED) is treated as armed at that moment: the fence of its last
	// attempt is no earlier than now plus the time for that attempt's answer plus
	// LostGrace, nor is its next look, absences that were counted are forgotten,
	// and a look's lease ends. That is no change of the job: no version, no event.
	// Every schedule that is not deleted gets its HeldUntil, in the same transaction, and an
	// ACTIVE one is due.
	Release(ctx context.Context) error

	// Close ends all work; calls under way may fail with ErrUnavailable.
	Close() error
}
