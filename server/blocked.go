package server

import (
	"context"
	"time"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: blocked_reason says what keeps a job back beside its own
// time, the widest cause first: the database, the job it replies to, its last
// attempt's own reason, its connection. It is a help: where it cannot be read
// the answer goes without it, because what the call was for is done.

const (
	// metaKept is how old the server's knowledge of the database may be.
	metaKept = time.Second
	// quarantineWords are for users: the reason itself names machines.
	quarantineWords = "Nothing is being sent: the database may be a copy or an old state. An operator must run `fireonce recover`."
	// clockStands and clockGoesOn say what a doubt of the clock means.
	clockStands = "Nothing is being sent until the time is believed again"
	clockGoesOn = "Jobs are sent by the time that was believed before"
)

// clockWords describe a doubt of the clock; empty: there is none.
func clockWords(d store.ClockDoubt) string {
	switch {
	case d.Why == "":
		return ""
	case d.Stands:
		return clockStands + ": " + d.Why + "."
	default:
		return clockGoesOn + ": " + d.Why + "."
	}
}

// meta describes the database as it was at most metaKept ago.
func (s *Server) meta(ctx context.Context) (store.Meta, error) {
	return s.metas.get(ctx, struct{}{}, s.store.Meta)
}

// shown converts the jobs of one call. It reads each connection once.
type shown struct {
	*Server
	project string
	// database is what it is, asked for when the call began: a submit does not wait
	// for the answer before it is stored. nil: not known.
	database *measured[store.Meta]
	conns    map[job.ID]*store.Connection
}

func (s *Server) shown(ctx context.Context, project string) *shown {
	database, _ := s.metas.entry(ctx, struct{}{}, s.store.Meta)
	return &shown{Server: s, project: project, database: database, conns: make(map[job.ID]*store.Connection)}
}

// shut says why nothing at all is being sent; empty: jobs are.
func (v *shown) shut(ctx context.Context) string {
	if v.database == nil {
		return ""
	}
	switch meta, err := v.database.wait(ctx); {
	case err != nil:
		return ""
	case meta.Quarantined != "":
		return quarantineWords
	case meta.Clock.Stands:
		return clockWords(meta.Clock)
	default:
		return ""
	}
}

// job converts a job without its payload.
func (v *shown) job(ctx context.Context, snap job.Snapshot) *fireoncev1.Job {
	out := jobToWire(snap.Job)
	if snap.State.Runnable() {
		out.BlockedReason = v.blocked(ctx, snap)
	}
	return out
}

// blocked says why a job that waits does.
func (v *shown) blocked(ctx context.Context, snap job.Snapshot) string {
	shut := v.shut(ctx)
	switch {
	case shut != "":
		return shut
	case !snap.WaitsFor.IsZero():
		return "Waits for job " + snap.WaitsFor.String() + ", which it replies to, to succeed."
	case snap.Blocked != "":
		return snap.Blocked
	default:
		return held(v.connection(ctx, snap.Connection), snap.NextAt)
	}
}

// held says what keeps a connection's job back that is due at a time. A pause
// or a refused credential lasts until a person acts. Where a connection is no
// account, each of its hosts is held alone, and its state is not the job's.
func held(c *store.Connection, due time.Time) string {
	switch {
	case !c.PausedAt.IsZero() && c.PausedReason != "":
		return "The connection is paused: " + text(c.PausedReason)
	case !c.PausedAt.IsZero():
		return "The connection is paused."
	case c.AccountIdentity == "":
		return ""
	case !c.AuthHoldAt.IsZero():
		return text(c.AuthHoldReason)
	case c.RateLimitedUntil.After(due):
		return limitedUntil(c.RateLimitedUntil)
	default:
		return ""
	}
}

// limitedUntil says why nothing of a connection starts for a while. Which of the two it
// is, each job that waits says.
func limitedUntil(until time.Time) string {
	return "Nothing starts before " + until.UTC().Format(time.RFC3339) + ": the platform asked to wait, or cannot be asked."
}

// connection reads a connection; one that cannot be read holds nothing.
func (v *shown) connection(ctx context.Context, id job.ID) *store.Connection {
	c, known := v.conns[id]
	if !known {
		read, _ := v.store.Connection(ctx, v.project, id)
		c = &read
		v.conns[id] = c
	}
	return c
}
