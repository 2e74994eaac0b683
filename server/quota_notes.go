package server

import (
	"log/slog"
	"time"

	"github.com/fireonce/fireonce/internal/cache"
)

// Rules of this file: a quota that is used up has a line in the log now and then, and not one for
// each refused call.

const (
	// usedUpEvery is the time between two lines about one quota that is used up, nearEvery
	// about one that is nearly used up.
	usedUpEvery, nearEvery = time.Minute, time.Hour
	// maxQuotaLogKeys bounds the lines that are remembered.
	maxQuotaLogKeys = 10_000
)

// quotaLog writes lines about quotas, now and then.
type quotaLog struct {
	log *slog.Logger
	now func() time.Time
	// last has the last line about each.
	last *cache.TTL[quotaLogKey, quotaLogEntry]
}

// quotaLogKey is the subject of a line.
type quotaLogKey struct{ kind, about string }

// quotaLogEntry is the last line about a key, and how many were left out since.
type quotaLogEntry struct {
	at      time.Time
	skipped int
}

func newQuotaLog(log *slog.Logger, now func() time.Time) *quotaLog {
	return &quotaLog{log: log, now: now, last: cache.New[quotaLogKey, quotaLogEntry](cache.Options{Max: maxQuotaLogKeys})}
}

// due reports whether a line is to be written, and how many were left out before.
func (n *quotaLog) due(what quotaLogKey, every time.Duration) (skipped int, due bool) {
	n.last.Update(what, func(last quotaLogEntry, _ bool) quotaLogEntry {
		now := n.now() // in here, so that concurrent calls store their times in order
		if age := now.Sub(last.at); !last.at.IsZero() && age >= 0 && age < every {
			last.skipped++
			return last
		}
		skipped, due = last.skipped, true
		return quotaLogEntry{at: now}
	})
	return skipped, due
}

// usedUp logs that a project or a peer has used up a quota.
func (n *quotaLog) usedUp(who string, name Quota, used, limit int64) {
	if skipped, due := n.due(quotaLogKey{"met " + string(name), who}, usedUpEvery); due {
		n.log.Warn("a quota is used up", "quota", name, holderOf(name), who, "used", used, "limit", limit, "refused_before", skipped)
	}
}

// nearlyUsedUp logs that a project has nearly used up a quota.
func (n *quotaLog) nearlyUsedUp(who string, name Quota, used, limit int64) {
	if _, due := n.due(quotaLogKey{"near " + string(name), who}, nearEvery); due {
		n.log.Warn("a quota is nearly used up", "quota", name, holderOf(name), who, "used", used, "limit", limit)
	}
}

func holderOf(name Quota) string {
	if name.ofPeer() {
		return "peer"
	}
	return "project"
}
