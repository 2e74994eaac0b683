package store

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// LostGrace is added to the time for an answer where Release sets the fence of an attempt
// that this state of the database does not know: the grace that a server adds by default, 30
// s, and as much again for the clock difference of two databases and for the time that a
// release takes to commit.
const LostGrace = time.Minute

// ErrNamespaceFixed: the namespace can no longer change. Engines return it as a
// *NamespaceError.
var ErrNamespaceFixed = errors.New("the namespace is fixed")

// NamespaceError is ErrNamespaceFixed with the namespace that the database has.
type NamespaceError struct{ Have string }

func (e *NamespaceError) Error() string {
	return ErrNamespaceFixed.Error() + ": something was armed under " + e.Have
}

// Is makes the error one of ErrNamespaceFixed.
func (e *NamespaceError) Is(target error) bool { return target == ErrNamespaceFixed }

// Admin has the operations of a database's operator.
type Admin interface {
	// SetNamespace replaces the namespace, which keeps installations apart at receivers that
	// they share (see job.EffectKey). A new database gets one when it is first opened. The
	// same namespace again changes nothing.
	//
	// It fails with a *NamespaceError once an attempt was armed, unless the database is
	// quarantined and copied states that the copy becomes an installation of its own:
	// attempts then keep their keys, and new ones use the new namespace. It fails with
	// job.ErrBadNamespace for a text that is no namespace. A server that has the database
	// open meanwhile arms nothing more until it is restarted.
	SetNamespace(ctx context.Context, namespace string, copied bool) error

	// Quarantine turns claims off until Release. An operator calls it before a copy of the
	// database is taken or used, or because the database is known to be a copy. The
	// incarnation rises, as after a restore that was noticed. ErrIllegal without a reason.
	Quarantine(ctx context.Context, reason string) error

	// Doubtful reads jobs that a lost state of this database may have started: SCHEDULED,
	// RETRYING or CLAIMED, due by now, and with a window that was still open at since. A
	// CLAIMED job was due when it was claimed. The caller of Release reads them batch by
	// batch.
	Doubtful(ctx context.Context, since time.Time, limit int) ([]job.Snapshot, error)

	// Release ends the quarantine, if there is one. The operator who calls it has made sure
	// that no other copy is at work. An attempt that such a copy armed last may still act, so
	// every SENDING or AMBIGUOUS job that may be looked at (every one that is not KEYED) is
	// treated as armed at that moment: the fence of its last attempt and its next look are no
	// earlier than now plus the time for that attempt's answer plus LostGrace, counted
	// absences are forgotten, and a look's lease ends. This is no change of the job: no
	// version, no event. Every schedule that is not deleted gets its HeldUntil in the same
	// transaction, and an ACTIVE one is due.
	Release(ctx context.Context) error

	// Close ends all work. Calls under way may fail with ErrUnavailable.
	Close() error
}
