package memory

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// runnableKey is a hold key of a connection.
type runnableKey struct {
	conn job.ID
	hold string
}

// runnableRow is the state of a hold key.
type runnableRow struct {
	authHoldAt       time.Time
	authHoldReason   string
	authHoldCause    job.AuthCause
	rateLimitedUntil time.Time
	// stoppedUntil is until when first attempts leave repeats a head start.
	stoppedUntil time.Time
	// servedAt is when the row was last served, and turn the number of that service among
	// all: rows that wait longer go first.
	servedAt time.Time
	turn     int64
}

func (t *tx) row(k runnableKey) *runnableRow {
	r, ok := t.rows[k]
	if !ok {
		r = &runnableRow{}
		t.rows[k] = r
	}
	return r
}

// held reports whether a person, a refused credential or a rate limit holds the jobs under a
// key.
func (t *tx) held(k runnableKey) bool {
	r := t.row(k)
	return r.hold(t.conns[k.conn]).Held(t.now)
}

// hold returns what the rules read of a connection's hold key.
func (r *runnableRow) hold(c *connection) rules.Hold {
	return rules.Hold{Paused: !c.PausedAt.IsZero(), Refused: !r.authHoldAt.IsZero(), LimitedUntil: r.rateLimitedUntil}
}

// queue is a runnable row with the jobs that may be claimed under it, now or later, the first
// due first.
type queue struct {
	*runnableRow
	key  runnableKey
	conn *connection
	jobs []*record
	// stops are over the row, and most is how many jobs pass them. passes reports that jobs has only the
	// notices, which pass them.
	stops  store.RowStops
	most   int64
	passes bool
}

// queues returns the runnable rows with jobs, in the order of their keys.
func (t *tx) queues() []*queue {
	byKey := make(map[runnableKey]*queue)
	var out []*queue
	for _, r := range t.active {
		switch {
		case !r.job.State.Runnable():
			continue
		case !r.job.WaitsFor.IsZero():
			continue
		}
		k := runnableKey{r.job.Connection, r.job.HoldKey}
		q, ok := byKey[k]
		if !ok {
			q = &queue{runnableRow: t.row(k), key: k, conn: t.conns[k.conn]}
			byKey[k] = q
			out = append(out, q)
		}
		q.jobs = append(q.jobs, r)
	}
	for _, q := range out {
		slices.SortStableFunc(q.jobs, byDue)
		t.stopQueue(q)
	}
	slices.SortFunc(out, func(a, b *queue) int {
		return cmp.Or(bytes.Compare(a.key.conn[:], b.key.conn[:]), cmp.Compare(a.key.hold, b.key.hold))
	})
	return out
}

// stopQueue finds the stops over a queue, and leaves only the notices in it where they alone pass them,
// if there are any.
func (t *tx) stopQueue(q *queue) {
	target := store.StopTarget{Project: q.conn.Project, Connector: q.conn.Connector, Connection: q.conn.ID, HoldKey: q.key.hold}
	q.stops = store.StopsOverRow(t.stops, target, t.now)
	var only bool
	if q.most, only = q.stops.Lets(store.MaxBatch, t.now); !only {
		return
	}
	notices := slices.DeleteFunc(slices.Clone(q.jobs), func(r *record) bool { return !r.job.IsNotice() })
	if q.passes = len(notices) > 0; q.passes {
		q.jobs = notices
	} else {
		q.most = 0
	}
}

func byDue(a, b *record) int { return a.job.NextAt.Compare(b.job.NextAt) }

// runnableAt returns when a claim may find a job in the queue; false: not before something
// else changes.
func (t *tx) runnableAt(q *queue) (time.Time, bool) {
	switch {
	case len(q.jobs) == 0:
		return time.Time{}, false
	case q.hold(q.conn).Stopped():
		return time.Time{}, false
	case t.bounds(q.conn).Free() <= 0:
		return time.Time{}, false
	}
	at := q.jobs[0].job.NextAt
	switch {
	case q.most == 0:
		at = later(at, q.stops.SetAside(t.now, false))
	case q.passes: // the others are looked at then
		at = earlier(at, q.stops.SetAside(t.now, false))
	}
	for _, other := range []time.Time{q.rateLimitedUntil, q.stoppedUntil, t.pacedUntil(q.conn), q.servedAt} {
		if other.After(at) {
			at = other
		}
	}
	return at, true
}

// bounds returns the connection's bounds and their use.
func (t *tx) bounds(c *connection) rules.Bounds {
	return rules.Bounds{
		MaxInFlight: int64(c.MaxInFlight), Default: int64(t.opts.MaxInFlight), Busy: int64(c.busy), Bucket: c.bucket(),
	}
}

// pacedUntil returns when the connection's token bucket is no longer empty.
func (t *tx) pacedUntil(c *connection) time.Time {
	if b := c.bucket(); rules.Paced(b, t.now.UnixMicro()) {
		return time.UnixMicro(b.At).UTC()
	}
	return time.Time{}
}

// capacity returns how many more jobs of the connection a claim may take.
func (t *tx) capacity(c *connection) int {
	return int(t.bounds(c).Capacity(t.now.UnixMicro()))
}

// hold holds a job's hold key. A refusal of a credential that was replaced meanwhile holds
// nothing.
func (t *tx) hold(j job.Job, h *job.HoldUntil) {
	if h == nil || h.Auth != 0 && h.CredentialVersion != t.conns[j.Connection].CredentialVersion {
		return
	}
	row := t.row(runnableKey{j.Connection, j.HoldKey})
	if h.Auth == 0 {
		if until := rules.Until(*h, t.now); until.After(row.rateLimitedUntil) {
			row.rateLimitedUntil = until
		}
		return
	}
	if row.authHoldAt.IsZero() {
		row.authHoldAt = t.now
	}
	row.authHoldReason, row.authHoldCause = h.Reason, h.Auth
}

// bucket returns the connection's token bucket.
func (c *connection) bucket() store.Bucket {
	return store.Bucket{PerMinute: int64(c.MaxPerMinute), At: c.bucketAt}
}
