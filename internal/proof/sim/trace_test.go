package sim

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// simTrace is all that happened in a world: always as a hash, and as text when
// it is to be read.
type simTrace struct {
	w    *simWorld
	sum  hash.Hash64
	buf  []byte
	keep bool
	rows []traceRow
}

type traceRow struct {
	at         time.Duration
	node, what string
	job        int // its index; -1: none
	n          int
	detail     string
}

func newSimTrace(w *simWorld) *simTrace { return &simTrace{w: w, sum: fnv.New64a()} }

func (l *simTrace) add(node, what string, id job.ID, n int, detail string) {
	r := traceRow{at: time.Since(l.w.started), node: node, what: what, job: -1, n: n, detail: detail}
	if j := l.w.byID[id]; j != nil {
		r.job = j.index
	}
	l.buf = binary.AppendVarint(l.buf[:0], int64(r.at))
	l.buf = append(append(append(append(l.buf, node...), 0), what...), 0)
	l.buf = binary.AppendVarint(binary.AppendVarint(l.buf, int64(r.job)), int64(n))
	l.buf = append(l.buf, detail...)
	l.sum.Write(l.buf)
	if l.keep {
		l.rows = append(l.rows, r)
	}
}

// note adds what is no call.
func (w *simWorld) note(node, what string, id job.ID, n int, detail string) {
	w.log.add(node, what, id, n, detail)
}

// trace adds a call.
func (w *simWorld) trace(c *call, what string) {
	id := c.job
	detail := what
	if c.op == "Apply" && what == "" {
		detail = c.detail
	}
	w.log.add(c.node.name, c.op, id, int(c.n), detail)
}

// timeline prints the rows of one job and of everything that is no job's; nil: all.
func (l *simTrace) timeline(of *simJob) string {
	var b strings.Builder
	for _, r := range l.rows {
		if of != nil && r.job >= 0 && r.job != of.index || of != nil && quiet(r) {
			continue
		}
		which := ""
		if r.job >= 0 {
			which = fmt.Sprint("job ", r.job)
		}
		fmt.Fprintf(&b, "%14.6fs %-6s %-7s %-26s %3d %s\n", r.at.Seconds(), r.node, which, r.what, r.n, r.detail)
	}
	return b.String()
}

// quiet reports rows that say nothing about a job: calls and faults of no job's, and
// what was planned.
func quiet(r traceRow) bool {
	if r.job >= 0 {
		return false
	}
	switch r.what {
	case "Claim", "ClaimLooks", "Overdue", "Enlist", "Orphans", "Renew", "Exit":
		return true
	default:
		return strings.HasPrefix(r.what, "plan: ") || strings.HasPrefix(r.what, "fault: ")
	}
}
