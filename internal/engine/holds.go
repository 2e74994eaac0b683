package engine

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// maxHolds bounds the holds that are remembered.
const maxHolds = 1024

// holds logs the beginning of each hold, once and not for each of its jobs, and its end.
// A hold that is forgotten (there were too many), or whose beginning another server saw, has no
// line at its end.
type holds struct {
	*Config

	n     atomic.Int64 // of since: no job waits for mu while nothing is held
	mu    sync.Mutex
	since map[heldTarget]time.Time
}

// heldTarget is an account, or a host of a connection.
type heldTarget struct {
	conn job.ID
	key  string
}

// begin notes that a target is held. It reports whether that is new.
func (h *holds) begin(what heldTarget, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.since[what]; known {
		return false
	}
	if h.since == nil || len(h.since) >= maxHolds {
		h.since = make(map[heldTarget]time.Time)
	}
	h.since[what] = now
	h.n.Store(int64(len(h.since)))
	return true
}

// end notes that an arm was allowed that was asked for at a time. It reports whether there was
// a hold before, which is over, and since when.
func (h *holds) end(what heldTarget, asked time.Time) (since time.Time, was bool) {
	if h.n.Load() == 0 {
		return time.Time{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if since, was = h.since[what]; !was || !asked.After(since) {
		return since, false // it may be as old as the hold
	}
	delete(h.since, what)
	h.n.Store(int64(len(h.since)))
	return since, true
}

// begun logs that a decision about a job holds all jobs of its account or host. A hold
// that is over in seconds is not worth a line.
func (h *holds) begun(ctx context.Context, conn *store.Connection, s *job.Snapshot, hold job.HoldUntil) {
	if hold.Auth == 0 && hold.For <= maxSharedHold || !h.begin(heldTarget{s.Connection, s.HoldKey}, h.Clock.Read().Time) {
		return
	}
	attrs := []any{logged(s, conn), "project", s.Project, "connector", conn.Connector}
	if hold.Auth != 0 {
		h.Log.WarnContext(ctx, "a connection is held: its credential is refused; its jobs wait for a new one", append(attrs, "cause", hold.Auth.String())...)
	} else {
		h.Log.InfoContext(ctx, "a connection is held: its platform limits the rate; its jobs wait", append(attrs, "for", hold.For.String())...)
	}
}

// armed logs that a job is sent whose account or host was held. asked is when its arm was
// asked for.
func (h *holds) armed(ctx context.Context, l *store.Leased, asked time.Time) {
	if since, was := h.end(heldTarget{l.Spec.Connection, l.HoldKey}, asked); was {
		h.Log.InfoContext(ctx, "a connection is held no longer: its jobs are sent again", "connection", cmp.Or(l.Connection.Key, l.Spec.Connection.String()),
			"project", l.Project, "connector", l.Connection.Connector, "held_for", h.Clock.Read().Time.Sub(since).Round(time.Second).String())
	}
}
