package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// mostHeld bounds the holds that are remembered.
const mostHeld = 1024

// holds remembers what is held, so that the beginning of each hold is a line of the log and
// not each of its jobs, and its end another. What is forgotten (too many holds), and
// what another server saw begin, has no line at its end.
type holds struct {
	n     atomic.Int64 // of since: nobody waits for mu while nothing is held
	mu    sync.Mutex
	since map[held]time.Time
}

// held is an account, or a host of a connection.
type held struct {
	conn job.ID
	key  string
}

// begin notes that something is held. It reports whether that is news.
func (h *holds) begin(what held, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.since[what]; known {
		return false
	}
	if h.since == nil || len(h.since) >= mostHeld {
		h.since = make(map[held]time.Time)
	}
	h.since[what] = now
	h.n.Store(int64(len(h.since)))
	return true
}

// end notes that an arm was allowed that was asked for at a time. It reports whether there was
// a hold before, which is over, and since when.
func (h *holds) end(what held, asked time.Time) (since time.Time, was bool) {
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

// tellHold writes down that a decision about a job holds all jobs of its account or host. What
// is over in seconds is not worth a line.
func (e *Engine) tellHold(ctx context.Context, connector string, s *job.Snapshot, h job.HoldUntil) {
	if h.Auth == 0 && h.For <= sharedMost || !e.holds.begin(held{s.Connection, s.HoldKey}, e.Clock.Read().Time) {
		return
	}
	attrs := []any{"connection", s.Connection.String(), "project", s.Project, "connector", connector, "job", s.ID.String()}
	if h.Auth != 0 {
		e.Log.WarnContext(ctx, "a connection is held: its credential is refused; its jobs wait for a new one", append(attrs, "cause", h.Auth.String())...)
	} else {
		e.Log.InfoContext(ctx, "a connection is held: its platform limits the rate; its jobs wait", append(attrs, "for", h.For.String())...)
	}
}

// tellHoldOver writes down that a job is sent whose account or host was held. asked is when its
// arm was asked for.
func (e *Engine) tellHoldOver(ctx context.Context, l *store.Leased, asked time.Time) {
	if since, was := e.holds.end(held{l.Spec.Connection, l.HoldKey}, asked); was {
		e.Log.InfoContext(ctx, "a connection is held no longer: its jobs are sent again", "connection", l.Spec.Connection.String(),
			"project", l.Project, "connector", l.Connection.Connector, "held_for", e.Clock.Read().Time.Sub(since).Round(time.Second).String())
	}
}
