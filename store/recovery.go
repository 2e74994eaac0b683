package store

import (
	"context"

	"github.com/fireonce/fireonce/internal/job"
)

// Recovery finds jobs that are left behind: by their worker, or by the time. It changes
// none: the caller decides about each, and writes that with Jobs.Apply.
type Recovery interface {
	// Overdue reads jobs whose time is over: CLAIMED past the lease, SENDING past
	// the fence, SCHEDULED, RETRYING or CLAIMED past the start deadline, held or
	// not. It changes nothing; the caller decides and applies. A quarantined
	// database gives only what is past its fence: of a job that it believes unsent
	// nobody may say that it expired without an effect.
	Overdue(ctx context.Context, limit int) ([]job.Snapshot, error)

	// Enlist says that a server works here under a worker's name until this Store is
	// closed: no claim or attempt of that worker is an orphan then. It returns when every other
	// server can know; a repeat changes nothing. Fails with ErrUnavailable; the name is
	// then made known as soon as that is possible.
	Enlist(ctx context.Context, worker string) error

	// Orphans reads jobs of workers that are enlisted neither here nor by any other server
	// that is alive: those that are CLAIMED, no claim of theirs having died before, and
	// KEYED ones that are SENDING with no cancel asked. The earliest end of a lease or a
	// fence (NextAt) comes first; the page begins after a place in that order, the zero
	// Place being the start. It changes and leases
	// nothing. Where several servers share a database, a worker's absence is a hint and no
	// proof: its session may be lost while it goes on sending. It counts from the second
	// call in a row that finds it absent, a second or more after the first. A quarantined database has no orphans, nor has
	// one whose clock is doubted.
	Orphans(ctx context.Context, after Place, limit int) ([]Leased, error)
}
