package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file:
//   - a rollup is a function of the event log alone, and each event counts once: engines
//     store the counts and the position in the log in one transaction;
//   - an event counts in the bucket of its own time, even if it comes after its job's end;
//   - rollups have numbers, connections and connectors, and nothing that a client wrote.

// Width is the length of a bucket of time. The numbers are stored.
type Width uint8

const (
	// Minute buckets are kept for KeepMinutes; the other widths have bounds of their own.
	Minute Width = iota + 1
	// Hour buckets begin at whole hours, UTC.
	Hour
	// Day buckets begin at midnight, UTC.
	Day
)

// Widths are all widths, the shortest first.
var Widths = []Width{Minute, Hour, Day}

// Length returns how long a bucket is.
func (w Width) Length() time.Duration {
	switch w {
	case Minute:
		return time.Minute
	case Hour:
		return time.Hour
	case Day:
		return 24 * time.Hour
	default:
		return 0
	}
}

// Keep returns how long buckets of the width are kept.
func (w Width) Keep() time.Duration {
	switch w {
	case Minute:
		return 3 * 24 * time.Hour
	case Hour:
		return 93 * 24 * time.Hour
	default:
		return 3 * 366 * 24 * time.Hour
	}
}

// Start returns when the bucket of a moment begins.
func (w Width) Start(at time.Time) time.Time { return at.UTC().Truncate(w.Length()) }

// Measure is what a count counts. The numbers are stored.
type Measure uint8

const (
	// CountScheduled: jobs that were stored.
	CountScheduled Measure = 1
	// CountStarted: first attempts, by the lag of their arm behind the job's time.
	CountStarted Measure = 2
	// CountAttempts: attempts that were armed.
	CountAttempts Measure = 3
	// CountEnded plus a terminal job.State: jobs that ended so. One that goes on after its
	// end, by RetryJob or late evidence, counts once for each end.
	CountEnded Measure = 10
	// CountUnknown: outcomes that became unknown. A repeat under the same key does not make
	// an outcome unknown again.
	CountUnknown Measure = 30
	// CountKnown plus a Known: unknown outcomes that were settled, by how long they were
	// unknown.
	CountKnown Measure = 40
)

// Known is how an unknown outcome was settled. The numbers are stored.
type Known uint8

const (
	// KnownFound: a look or a poll found the effect, or its handle.
	KnownFound Known = iota + 1
	// KnownRepeated: a repeat under the same key was confirmed.
	KnownRepeated
	// KnownLate: an answer that came late confirmed the effect.
	KnownLate
	// KnownAbsent: it is proven that there is no effect.
	KnownAbsent
	// KnownPerson: a person decided.
	KnownPerson
	// KnownPolicy: the job's delivery decided.
	KnownPolicy
)

// Knowns are all ways.
var Knowns = []Known{KnownFound, KnownRepeated, KnownLate, KnownAbsent, KnownPerson, KnownPolicy}

// Bins of a histogram: four for each doubling, from a millisecond on. Bin n has the durations
// above BinBound(n-1), up to BinBound(n). The last bin has all longer durations.
const (
	LastBin = 128
	// NoBin is the bin of an event without a known duration.
	NoBin = -1
)

var binBounds = func() (bounds [LastBin]time.Duration) {
	for n := range bounds {
		bounds[n] = time.Duration(math.Round(1000*math.Exp2(float64(n)/4))) * time.Microsecond
	}
	return bounds
}()

// BinBound returns the longest duration of a bin.
func BinBound(n int) time.Duration {
	if n >= LastBin {
		return math.MaxInt64
	}
	return binBounds[max(n, 0)]
}

// BinOf returns the bin of a duration.
func BinOf(d time.Duration) int {
	n, _ := slices.BinarySearch(binBounds[:], d)
	return n
}

// RollKey names one count.
type RollKey struct {
	Project string
	// Connection is zero in the counts of the whole project. Each event counts there, and for
	// its connection.
	Connection job.ID
	Width      Width
	// Start is the bucket's, in microseconds since 1970.
	Start     int64
	Connector string
	Class     job.Class
	Measure   Measure
	Bin       int
}

// Compare orders keys as engines index them.
func (k RollKey) Compare(o RollKey) int {
	return cmp.Or(
		cmp.Compare(k.Project, o.Project), bytes.Compare(k.Connection[:], o.Connection[:]), cmp.Compare(k.Width, o.Width),
		cmp.Compare(k.Start, o.Start), cmp.Compare(k.Connector, o.Connector), cmp.Compare(k.Class, o.Class),
		cmp.Compare(k.Measure, o.Measure), cmp.Compare(k.Bin, o.Bin),
	)
}

// RollCount is one count.
type RollCount struct {
	RollKey
	Count int64
}

// RollEvent is an event as a roll reads it.
type RollEvent struct {
	job.Event
	Connector string
	Class     job.Class
	// Lag is that of a first attempt's arm; negative if it is not known.
	Lag time.Duration
}

// Moved reports whether the event can count at all: the state changed, and not only by a
// claim. Of other events an engine needs only the position.
func Moved(from, to job.State) bool { return from != to && to != job.Claimed }

func unknown(s job.State) bool { return s == job.Ambiguous || s == job.NeedsResolution }

// AsksPast reports whether what this event counts as depends on the earlier events of the
// job.
func (e *RollEvent) AsksPast() bool {
	repeat := e.From == job.Sending && e.Attempt > 1
	return Moved(e.From, e.To) && (unknown(e.From) && !unknown(e.To) && e.To != job.Sending || repeat)
}

// PastEvent is an earlier event of a job.
type PastEvent struct {
	Job      job.ID
	Sequence int64
	To       job.State
	At       time.Time
}

// MaxPast bounds the earlier events of a job that are read, newest first.
const MaxPast = 200

// unknownSince returns when the outcome that is unknown after these events of a job, in their
// order, became so; zero: it is known.
func unknownSince(past []PastEvent) (since time.Time) {
	for _, p := range past {
		switch {
		case unknown(p.To) && since.IsZero():
			since = p.At
		case unknown(p.To), p.To == job.Sending: // a repeat changes nothing
		default:
			since = time.Time{}
		}
	}
	return since
}

// Roll adds up events.
type Roll struct {
	counts map[RollKey]int64
	// last is the time of the last event.
	last time.Time
}

// NewRoll returns an empty Roll.
func NewRoll() *Roll { return &Roll{counts: make(map[RollKey]int64)} }

// Len returns the number of counts.
func (r *Roll) Len() int { return len(r.counts) }

// Last returns the time of the last event that was added.
func (r *Roll) Last() time.Time { return r.last }

// Counts returns the counts in order.
func (r *Roll) Counts() []RollCount {
	out := make([]RollCount, 0, len(r.counts))
	for k, n := range r.counts {
		out = append(out, RollCount{k, n})
	}
	slices.SortFunc(out, func(a, b RollCount) int { return a.Compare(b.RollKey) })
	return out
}

// Add counts an event. past has the earlier events of its job, in their order, if the event
// needs them.
func (r *Roll) Add(e RollEvent, past []PastEvent) {
	r.last = e.At
	if !Moved(e.From, e.To) {
		return
	}
	switch {
	case e.From == 0:
		r.count(&e, CountScheduled, NoBin)
	case e.To == job.Sending:
		r.count(&e, CountAttempts, NoBin)
		if e.Attempt == 1 {
			bin := NoBin
			if e.Lag >= 0 {
				bin = BinOf(e.Lag)
			}
			r.count(&e, CountStarted, bin)
		}
	case e.To.Terminal():
		r.count(&e, CountEnded+Measure(e.To), NoBin)
	}
	var since time.Time
	if e.AsksPast() {
		since = unknownSince(past)
	}
	switch {
	case unknown(e.To) && !unknown(e.From) && since.IsZero():
		r.count(&e, CountUnknown, NoBin)
	case !unknown(e.To) && e.To != job.Sending && !since.IsZero():
		r.count(&e, CountKnown+Measure(knownBy(&e)), BinOf(e.At.Sub(since)))
	}
}

// knownBy returns how the event settled an unknown outcome.
func knownBy(e *RollEvent) Known {
	there := e.To == job.Succeeded || e.To == job.Accepted
	switch {
	case e.Cause == job.CauseResolved:
		return KnownPerson
	case e.Cause == job.CausePolicy:
		return KnownPolicy
	case !there:
		return KnownAbsent
	case e.Cause == job.CauseAnswered:
		return KnownRepeated
	case e.Cause == job.CauseLateEvidence:
		return KnownLate
	default:
		return KnownFound
	}
}

func (r *Roll) count(e *RollEvent, m Measure, bin int) {
	k := RollKey{Project: e.Project, Connector: e.Connector, Class: e.Class, Measure: m, Bin: bin}
	for _, k.Width = range Widths {
		k.Start = k.Width.Start(e.At).UnixMicro()
		for _, k.Connection = range []job.ID{{}, e.Connection} {
			r.counts[k]++
		}
	}
}

// Bounds of the smallest step of a roll: the events that it counts, the number of counts
// after which it stops, and the old counts that it removes. A job that is worked on a
// connection of its own makes twelve counts. Jobs of one connection share theirs, so a larger
// step writes less for each.
const (
	RollEvents  = 4 * MaxBatch
	RollCounts  = 4 * MaxBatch
	RollRemoves = MaxBatch
	// RollRead is how many events are read at a time, until the step has enough.
	RollRead = 2 * MaxBatch
	// MaxRollSize is how many times as large a step may be.
	MaxRollSize = 16
)

// RollParams requests one step.
type RollParams struct {
	// Owner identifies the caller. For Lease from this step on, only Owner rolls.
	Owner job.ID
	Lease time.Duration
	// Size is the size of this step as a multiple of the smallest one, up to MaxRollSize.
	// Zero is one.
	Size int
}

// Bounds returns how many events the step counts, and the number of counts after which it
// stops.
func (p RollParams) Bounds() (events, counts int) {
	size := min(max(p.Size, 1), MaxRollSize)
	return size * RollEvents, size * RollCounts
}

// Rolled is the result of one step.
type Rolled struct {
	// Events were counted, and Removed old counts removed. Each step does both, so that a
	// server that always has new events removes old counts too.
	Events, Removed int
	// More reports that there is more to do.
	More bool
	// Busy reports that another server rolls, and nothing was done.
	Busy bool
}

// SeriesQuery selects counts of one project.
type SeriesQuery struct {
	Project string
	Width   Width
	// From and Before are starts of buckets: the first one, and the one after the last.
	From, Before time.Time
	// Connections, when set, limits the counts to their jobs. ByConnection, ByConnector and
	// ByClass split the rows of a bucket; ByConnection needs Connections.
	Connections                        []job.ID
	Connectors                         []string
	Classes                            []job.Class
	ByConnection, ByConnector, ByClass bool
}

// Check refuses a query that no engine can answer.
func (q SeriesQuery) Check() error {
	if q.Width.Length() == 0 || q.ByConnection && len(q.Connections) == 0 {
		return fmt.Errorf("%w: series of width %d by connection %t of %d connections", ErrIllegal, q.Width, q.ByConnection, len(q.Connections))
	}
	return nil
}

// Series are counts over time.
type Series struct {
	Now time.Time
	// AsOf is the time up to which events have been counted: now if every readable event is
	// counted, otherwise the time of the last counted one.
	AsOf time.Time
	// Rows are in the order of their starts, then of connection, connector and class. Rows
	// without a count are left out.
	Rows []SeriesRow
}

// SeriesRow is one bucket, or a part of it by the query's splits.
type SeriesRow struct {
	Start      time.Time
	Connection job.ID
	Connector  string
	Class      job.Class
	Counts     map[Measure]int64
	// Bins are histograms, by measure: counts by bin.
	Bins map[Measure]map[int]int64
}

// SeriesSum adds up counts to rows.
type SeriesSum struct {
	q    SeriesQuery
	rows map[seriesKey]*SeriesRow
}

type seriesKey struct {
	start      int64
	connection job.ID
	connector  string
	class      job.Class
}

// NewSeriesSum returns an empty SeriesSum.
func NewSeriesSum(q SeriesQuery) *SeriesSum {
	return &SeriesSum{q: q, rows: make(map[seriesKey]*SeriesRow)}
}

// Add adds a count of the query's project, width and connections. It counts if the rest of
// the query selects it.
func (s *SeriesSum) Add(c RollCount) {
	if len(s.q.Connectors) > 0 && !slices.Contains(s.q.Connectors, c.Connector) ||
		len(s.q.Classes) > 0 && !slices.Contains(s.q.Classes, c.Class) {
		return
	}
	k := seriesKey{start: c.Start}
	if s.q.ByConnection {
		k.connection = c.Connection
	}
	if s.q.ByConnector {
		k.connector = c.Connector
	}
	if s.q.ByClass {
		k.class = c.Class
	}
	row := s.rows[k]
	if row == nil {
		row = &SeriesRow{
			Start: time.UnixMicro(k.start).UTC(), Connection: k.connection, Connector: k.connector, Class: k.class,
			Counts: make(map[Measure]int64), Bins: make(map[Measure]map[int]int64),
		}
		s.rows[k] = row
	}
	row.Counts[c.Measure] += c.Count
	if c.Bin != NoBin {
		if row.Bins[c.Measure] == nil {
			row.Bins[c.Measure] = make(map[int]int64)
		}
		row.Bins[c.Measure][c.Bin] += c.Count
	}
}

// Rows returns the rows in their order.
func (s *SeriesSum) Rows() []SeriesRow {
	out := make([]SeriesRow, 0, len(s.rows))
	for _, r := range s.rows {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b SeriesRow) int {
		return cmp.Or(a.Start.Compare(b.Start), bytes.Compare(a.Connection[:], b.Connection[:]),
			cmp.Compare(a.Connector, b.Connector), cmp.Compare(a.Class, b.Class))
	})
	return out
}

// Rollups count the events of the log in buckets of time.
type Rollups interface {
	// Roll does one short step: it counts the next events of the log in the buckets of their
	// times and moves its position in the log in the same transaction, so that each event
	// counts once. When all events are counted it removes buckets that are older than
	// Width.Keep, but not while the clock is suspect. It begins where the log begins.
	Roll(ctx context.Context, p RollParams) (Rolled, error)
}
