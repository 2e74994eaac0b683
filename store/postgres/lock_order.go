package postgres

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
)

// The lock order of this package. A transaction takes its locks in this order, and several of
// one kind sorted as named:
//
//  1. advisory locks (quota.go), the row of retention, the row of meta, schedules, each
//     before its items, which no transaction writes without it;
//  2. jobs, the rows of job_state, by id;
//  3. claim locks, the rows of connection_claims, by connection;
//  4. connections to be kept, FOR KEY SHARE, by id (KeepConnections);
//  5. keys by project and key, then callers' effect keys by digest, last arms of cool-downs
//     by owner, arms of contents by bucket, gates by account and fingerprint, effects by their object;
//  6. connections that get a new runnable row, FOR KEY SHARE, by id (KeepForNewRows);
//  7. stops, by id, FOR SHARE by a claim that sets rows aside by them; runnable rows, the rows of
//     connection_ready, by connection and hold key;
//  8. the row of meta, by the first arm that the database ever has (pages.go).
//
// No transaction waits for another lock after a runnable row. A change of a connection is
// apart: it takes the connection's claim lock and its row, both FOR UPDATE, then its runnable
// rows, then its credentials. No other transaction locks a connection's row against FOR KEY
// SHARE, and this one takes nothing of 2 and 5. So no transaction waits in 4 or 6 for one
// that may wait for locks of 2 to 5, and 4 and 6 may be on both sides of 5. An erasure blanks
// deleted connections, which does not conflict with FOR KEY SHARE, and then removes their
// credentials.
//
// The locks of triggers and foreign keys are part of the order:
//   - A new runnable row locks its connection at the end of its statement, behind other
//     runnable rows. The transaction has that lock from 6, except if the row existed then and
//     a delete of the connection removed it before MakeRunnable. Then the trigger waits for
//     changes that find the connection deleted, and that wait for no runnable row: a deleted
//     connection has none.
//   - Rows that belong to a job (observations, resolutions, open_intents, replies) lock the
//     row of jobs FOR KEY SHARE. Only retention locks that row more strongly, and it holds
//     the job's state FOR UPDATE then, which transactions that add to the job or reply to it
//     hold too.
//   - A lease for renewal (oauth_renewals) locks its connection, and nothing after it. A
//     change of a connection takes no such lease. Credentials are written by their
//     connection's change, and resealed by connection and version, which locks nothing else.
//
// A change of a job makes its schedule due, and locks it with SKIP LOCKED. A schedule that is
// locked is made due by a transaction of its own (waker.go).
//
// Two kinds of locks are outside of the order because no transaction waits for them: locks
// with SKIP LOCKED, and rows that follow another lock (attempts, pages, gates that a job has,
// claim locks that a claim holds already). A step of the clock locks the table meta first,
// and so runs alone.
//
// A statement that locks many rows sorts them itself (ORDER BY below the lock or the insert),
// or is an UPDATE of items that come sorted: the planner is restricted to nested loops
// (config.go), and every plan of theirs follows the items or the primary key.
//
// The end of a stop locks the stop, jobs with SKIP LOCKED, runnable rows of jobs that it makes
// due, and then all rows that were set aside.
//
// The order is broken in three rare cases. The end of a stop locks runnable rows in two
// statements, each in order. A batch that names one job, one gate or one object
// twice is written in several independent batches, and a later one may take effect keys,
// gates and objects that come before those of an earlier one. An object of a removed job can
// be taken with no lock of a job. If transactions wait for each other in a circle, the server
// ends one of them with 40P01. It runs again, as after a serialization failure (see
// repeatable), and after maxTries its caller gets store.ErrUnavailable. Nothing is written
// then.

// compareKeys orders runnable rows in the lock order.
func compareKeys(a, b runnableKey) int {
	return cmp.Or(bytes.Compare(a.conn[:], b.conn[:]), cmp.Compare(a.hold, b.hold))
}

// sortedKeys returns the keys in the lock order, each once.
func sortedKeys(keys []runnableKey) []runnableKey {
	slices.SortFunc(keys, compareKeys)
	return slices.Compact(keys)
}

// distinct returns the ids in the lock order, each once.
func distinct(ids []job.ID) []job.ID {
	slices.SortFunc(ids, func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(ids)
}
