package store

import (
	"context"

	"github.com/fireonce/fireonce/internal/job"
)

// Recovery finds jobs that their worker abandoned, or whose time has passed. It changes none:
// the caller decides about each, and writes the decision with Jobs.Apply.
type Recovery interface {
	// Overdue reads jobs whose time is over: CLAIMED past the lease, SENDING past the fence,
	// SCHEDULED, RETRYING or CLAIMED past the start deadline, held or not. A quarantined
	// database returns only jobs past their fence: a job that it believes unsent may have
	// been sent, so it must not expire as one without an effect. Jobs whose window is over have
	// Snapshot.WindowHeld if it begins again.
	Overdue(ctx context.Context, limit int) ([]job.Snapshot, error)

	// Orphans reads jobs of workers that are enlisted neither here nor by any other live
	// server: CLAIMED jobs none of whose earlier claims died, and KEYED jobs that are SENDING
	// and have no cancel request. They are in the order of the end of their lease or fence
	// (NextAt), earliest first. The page begins after a place in that order; the zero Place
	// is the start. Orphans changes and leases nothing.
	//
	// Where several servers share a database, a worker's absence is a hint and no proof: its
	// session may be lost while it keeps sending. An absence counts from the second call in a
	// row that finds it, a second or more after the first. A quarantined database has no
	// orphans, nor has one whose clock is suspect.
	Orphans(ctx context.Context, after Place, limit int) ([]Leased, error)
}
