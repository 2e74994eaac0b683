package server

import (
	"log/slog"
	"sync"
	"time"
)

// Rules of this file: what an operator should see of quotas has a line in the log, and
// not one for each call that is refused.

const (
	// metEvery is the time between two lines about one quota that is met, nearEvery about
	// one that is nearly so.
	metEvery, nearEvery = time.Minute, time.Hour
	// mostNotes bounds what is remembered of lines.
	mostNotes = 10_000
)

// quotaNotes writes lines about quotas, now and then.
type quotaNotes struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	last map[note]noted
}

// note is what a line is about.
type note struct{ kind, about string }

// noted is the last line of a note, and how many were left out since.
type noted struct {
	at      time.Time
	skipped int
}

func newQuotaNotes(log *slog.Logger, now func() time.Time) *quotaNotes {
	return &quotaNotes{log: log, now: now, last: make(map[note]noted)}
}

// due reports whether a line is to be written, and how many were left out before.
func (n *quotaNotes) due(what note, every time.Duration) (skipped int, due bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now, last := n.now(), n.last[what]
	if age := now.Sub(last.at); !last.at.IsZero() && age >= 0 && age < every {
		last.skipped++
		n.last[what] = last
		return 0, false
	}
	if len(n.last) >= mostNotes {
		clear(n.last)
	}
	n.last[what] = noted{at: now}
	return last.skipped, true
}

// met says that a project or a peer has used up a quota.
func (n *quotaNotes) met(who string, name Quota, used, limit int64) {
	if skipped, due := n.due(note{"met " + string(name), who}, metEvery); due {
		n.log.Warn("a quota is used up", "quota", name, whose(name), who, "used", used, "limit", limit, "refused_before", skipped)
	}
}

// near says that a project has nearly used up a quota.
func (n *quotaNotes) near(who string, name Quota, used, limit int64) {
	if _, due := n.due(note{"near " + string(name), who}, nearEvery); due {
		n.log.Warn("a quota is nearly used up", "quota", name, whose(name), who, "used", used, "limit", limit)
	}
}

func whose(name Quota) string {
	if name.ofPeer() {
		return "peer"
	}
	return "project"
}
