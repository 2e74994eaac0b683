package postgres

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
)

// The lock order of this package. A transaction takes its locks in this order, and
// several of one kind sorted as named:
//
//  1. advisory locks (quota.go), the row of retention, the row of meta, schedules, each
//     before its items, which nobody writes without it;
//  2. jobs, the rows of job_state, by id;
//  3. turns, the rows of connection_claims, by connection;
//  4. connections to be kept, FOR KEY SHARE, by id (KeepConnections);
//  5. keys by project and key, then callers' effect keys by digest, marks of cool-downs by
//     owner, gates by account and fingerprint, effects by their object;
//  6. connections that get a new ready row, FOR KEY SHARE, by id (KeepForNewRows);
//  7. ready rows, the rows of connection_ready, by connection and hold key;
//  8. the row of meta, by the first arm that the database ever has (pages.go).
//
// Nothing else is waited for behind a ready row. A change of a connection is apart: it takes
// the connection's turn and its row, both FOR UPDATE, then its ready rows, then its
// credentials. No other transaction locks a connection's row against FOR KEY SHARE, and
// this one takes nothing of 2 and 5. So nobody waits in 4 or 6 for a transaction that
// may wait for locks of 2 to 5, and 4 and 6 may be on both sides of 5.
//
// What triggers and foreign keys lock is part of the order:
//   - A new ready row locks its connection at the end of its statement, behind other
//     ready rows. The transaction has that lock from 6. It has not if the row was there
//     by then and a delete of the connection took it away before MakeRunnable. Then the
//     trigger waits for changes that find the connection deleted, and wait for no ready
//     row: a deleted connection has none.
//   - What belongs to a job (observations, resolutions, open_intents, replies) locks the
//     row of jobs FOR KEY SHARE. Only retention takes that row otherwise, and it has the
//     job's state FOR UPDATE then, which those who add to the job or reply to it hold, too.
//   - A turn for renewal (oauth_renewals) locks its connection, and nothing after it. A
//     change of a connection takes no such turn. Credentials are written by their
//     connection's change, and sealed again by connection and version, which locks
//     nothing else.
//
// A change of a job makes its schedule due, and takes it with SKIP LOCKED. One that it does
// not get is made due by a transaction of its own (waker.go).
//
// Outside of the order is only what is never waited for: locks with SKIP LOCKED, and rows
// that follow another lock (attempts, pages, gates that a job has, turns that a claim
// has already). A step of the clock locks the table meta first, and so is alone.
//
// A statement that locks many rows sorts them itself (ORDER BY below the lock or the
// insert), or is an UPDATE of items that come sorted: the planner is kept to nested
// loops (config.go), and every plan of theirs follows the items or the primary key.
//
// The order is not kept in two rare cases. A batch that names one job, one gate or one
// object twice is written in waves, and a later wave may take effect keys, gates and objects that
// come before those of an earlier one. An object of a job that was removed can be taken with
// no lock of a job. If transactions wait for each other in a circle all the same, the
// server ends one of them with 40P01. It runs again, as after a serialization failure
// (see repeatable), and after maxTries its caller has store.ErrUnavailable. Nothing is
// written then.

// compareKeys orders ready rows as their locks are taken.
func compareKeys(a, b runnableKey) int {
	return cmp.Or(bytes.Compare(a.conn[:], b.conn[:]), cmp.Compare(a.hold, b.hold))
}

// sortedKeys sorts keys in the order of the locks and leaves each once.
func sortedKeys(keys []runnableKey) []runnableKey {
	slices.SortFunc(keys, compareKeys)
	return slices.Compact(keys)
}

// distinct sorts ids in the order of the locks and leaves each once.
func distinct(ids []job.ID) []job.ID {
	slices.SortFunc(ids, func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(ids)
}
