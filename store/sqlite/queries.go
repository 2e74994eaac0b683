package sqlite

import (
	"strings"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: no query that changes cached rows runs without dropping them from the
// cache. The exceptions are queries whose callers update the cached rows, and those after
// which all of the cache is dropped; TestEveryWriteIsKnownToTheCache lists both.

// drop removes from the cache what a query with these arguments changes.
type drop func(c *cache, args []any)

// last is the position of a query's last argument.
const last = -1

// drops has the queries by name.
var drops = map[string]drop{
	"CreateMeta": dropMeta, "SetNamespace": dropMeta, "SetOpened": dropMeta, "Release": dropMeta,
	"SetOpenStops": dropMeta, "Quarantine": dropMeta, "RaiseEventsFrom": dropMeta, "SetDroppedTo": dropMeta, "SetArmed": dropMeta,

	"InsertConnection": dropConnection(0), "SetConnection": dropConnection(last), "BlankConnection": dropConnection(last),

	"MakeRunnable": dropRunnable(0), "Served": dropRunnable(0), "Recount": dropRunnable(0), "SetAside": dropRunnable(1),
	"WakeRunnable": dropRunnable(0), "WakeNotice": dropRunnable(1), "EndSetAside": dropAllRunnable,

	"HoldAuth": dropHold(3), "HoldRate": dropHold(2), "SetRunnableOf": dropHolds, "DropRunnableOf": dropHolds,

	"Saturate": dropRunnableOf, "Unsaturate": dropRunnableOf, "Pace": dropRunnableOf,

	"SetContent": dropJob, "SetStart": dropJob, "SaveHandle": dropJob, "NotifyReply": dropReply,
	"SetPredecessorEnd": dropJobs, "WakeLooks": dropJobs, "WakeStopped": dropJobs, "EndClaimLeases": dropJobs, "EndLookLeases": dropJobs,
	"RaiseFences": dropJobs, "LeaseLooks": dropJobs, "BeginWindow": dropJob,
}

// dropOf returns what a query drops, by the name that begins its text; nil: nothing.
func dropOf(query string) drop {
	_, rest, _ := strings.Cut(query, "-- name: ")
	name, _, _ := strings.Cut(rest, " ")
	return drops[name]
}

func dropMeta(c *cache, _ []any) { c.meta = nil }

// dropConnection drops the connection whose id is an argument.
func dropConnection(at int) drop {
	return func(c *cache, args []any) { delete(c.conns, idAt(args, at)) }
}

// dropRunnable drops the runnable row whose connection is an argument, and its hold key the
// next one.
func dropRunnable(at int) drop {
	return func(c *cache, args []any) {
		hold, _ := args[at+1].(string)
		c.forgetRunnable(idAt(args, at), hold)
	}
}

// dropRunnableOf drops the runnable rows of the connection that is the last argument.
func dropRunnableOf(c *cache, args []any) { c.forgetRunnableOf(idAt(args, last)) }

// dropAllRunnable drops all runnable rows.
func dropAllRunnable(c *cache, _ []any) {
	clear(c.runnable)
	clear(c.loose)
	c.readyRows = 0
}

// dropHold drops a runnable row, and its connection, which has its holds.
func dropHold(at int) drop {
	return func(c *cache, args []any) {
		dropRunnable(at)(c, args)
		dropConnection(at)(c, args)
	}
}

// dropHolds drops the runnable rows of the connection that is the last argument, and it.
func dropHolds(c *cache, args []any) {
	dropRunnableOf(c, args)
	dropConnection(last)(c, args)
}

func dropJob(c *cache, args []any) { c.drop(idAt(args, last)) }

// dropReply drops a job, and whether any job waits.
func dropReply(c *cache, args []any) {
	dropJob(c, args)
	c.waiting = nil
}

// dropJobs drops all jobs, because any of them may be changed.
func dropJobs(c *cache, _ []any) { c.forgetJobs() }

func idAt(args []any, at int) job.ID {
	if at == last {
		at = len(args) - 1
	}
	id, _ := args[at].([]byte)
	return toID(id)
}
