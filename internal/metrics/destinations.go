package metrics

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file (docs/decisions/metrics.md has the reasons):
//   - a destination is a connection with one of its hold keys: an account, or scheme, host and
//     port. Its tries are counted for tryWindow, in this process;
//   - a scrape names at most `most` destinations, those with the most failures, and adds up the
//     others as otherLabel. A name keeps its place for at least nameKept, and so long it is
//     served even with zeros: the number of series that one server makes in a day is bounded;
//   - memory is bounded, too: tries at a destination that finds no room count as others';
//   - a destination whose circuit breaker is open is hardly tried. It is named before those that
//     fail, as the database has it, so that it is still seen.

const (
	// tryWindow is how long a try counts, in steps of tryStep.
	tryWindow = tryStep * trySteps
	tryStep   = time.Minute
	trySteps  = 10
	// nameKept is how long a named destination keeps its place.
	nameKept = time.Hour
	// mostTracked bounds the destinations that are counted one by one.
	mostTracked = 4096
	// maxLabel bounds a label's value, in bytes.
	maxLabel = 128
	// otherLabel is the name of all destinations that are not named.
	otherLabel = "other"

	// DefaultNamed is how many destinations are named unless NameDestinations was called.
	DefaultNamed = 20
	// MostNamed is how many can be.
	MostNamed = 500
)

// destination is where tries go.
type destination struct {
	connection job.ID
	holdKey    string
}

// tries counts by steps of time, in a ring.
type tries struct {
	ok, failed [trySteps]int64
	// step is the number of the newest step that is counted.
	step int64
	// of are the labels: project, connector, connection, destination.
	of [4]string
	// named is when it got its place; zero: it is not named.
	named time.Time
	// open reports that its circuit breaker is open.
	open bool
}

// to moves the window on to a step.
func (t *tries) to(step int64) {
	if step-t.step >= trySteps {
		t.ok, t.failed = [trySteps]int64{}, [trySteps]int64{}
		t.step = step
		return
	}
	for t.step < step {
		t.step++
		t.ok[t.step%trySteps], t.failed[t.step%trySteps] = 0, 0
	}
}

func (t *tries) add(step int64, ok bool) {
	if t.to(step); ok {
		t.ok[t.step%trySteps]++
	} else {
		t.failed[t.step%trySteps]++
	}
}

// sums returns the tries in the window.
func (t *tries) sums() (ok, failed int64) {
	for i := range trySteps {
		ok, failed = ok+t.ok[i], failed+t.failed[i]
	}
	return ok, failed
}

// destinations counts tries by their destination.
type destinations struct {
	mu      sync.Mutex
	most    int
	tracked map[destination]*tries
	other   tries
	// open are the open circuit breakers of destinations that are not tracked.
	open int64
}

func stepOf(at time.Time) int64 { return at.UnixNano() / int64(tryStep) }

func (d *destinations) add(at time.Time, conn *store.Connection, holdKey string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	step, to := stepOf(at), destination{conn.ID, holdKey}
	if t := d.track(step, to, conn); t != nil {
		t.add(step, ok)
		return
	}
	d.other.add(step, ok)
}

// track returns what is counted of a destination; nil: there is no room for it.
func (d *destinations) track(step int64, to destination, conn *store.Connection) *tries {
	if t := d.tracked[to]; t != nil {
		return t
	}
	if len(d.tracked) >= mostTracked {
		d.forget(step)
	}
	if len(d.tracked) >= mostTracked {
		return nil
	}
	t := &tries{step: step, of: [4]string{
		label(conn.Project), label(conn.Connector), label(cmp.Or(conn.Key, conn.ID.String())), label(to.holdKey),
	}}
	d.tracked[to] = t
	return t
}

// forget drops destinations without a try in the window, unless they are named.
func (d *destinations) forget(step int64) {
	for to, t := range d.tracked {
		t.to(step)
		if ok, failed := t.sums(); ok+failed == 0 && t.named.IsZero() && !t.open {
			delete(d.tracked, to)
		}
	}
}

// label returns a text as the value of a label: valid and bounded, and not the word for others.
func label(text string) string {
	text = strings.ToValidUTF8(text, "�")
	if len(text) > maxLabel {
		cut := maxLabel
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	if text == otherLabel {
		return "other (a name)"
	}
	return text
}

// named returns the destinations to name now, and the sums of the others (tries that worked and that
// failed, and open breakers), with the numbers of destinations that were tried, and of those at which
// every try failed.
func (d *destinations) named(at time.Time) (out []*tries, other [3]int64, tried, failing int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	step := stepOf(at)
	d.forget(step)
	d.other.to(step)
	var bad []*tries
	for _, t := range d.tracked {
		ok, failed := t.sums()
		if ok+failed > 0 {
			tried++
		}
		if failed > 0 && ok == 0 {
			failing++
		}
		if failed > 0 || t.open {
			bad = append(bad, t)
		}
	}
	slices.SortFunc(bad, func(a, b *tries) int {
		_, aFailed := a.sums()
		_, bFailed := b.sums()
		return cmp.Or(cmp.Compare(count(b.open), count(a.open)), cmp.Compare(bFailed, aFailed), slices.Compare(a.of[:], b.of[:]))
	})
	worst := bad[:min(len(bad), d.most)]
	places := d.most
	for _, t := range d.tracked {
		if !t.named.IsZero() && at.Sub(t.named) >= nameKept && !slices.Contains(worst, t) {
			t.named = time.Time{}
		}
		if !t.named.IsZero() {
			places--
		}
	}
	for _, t := range worst {
		if t.named.IsZero() && places > 0 {
			t.named = at
			places--
		}
	}
	other[0], other[1] = d.other.sums()
	other[2] = d.open
	for _, t := range d.tracked {
		if !t.named.IsZero() {
			out = append(out, copyOf(t))
			continue
		}
		ok, failed := t.sums()
		other[0], other[1], other[2] = other[0]+ok, other[1]+failed, other[2]+count(t.open)
	}
	return out, other, tried, failing
}

func copyOf(t *tries) *tries { c := *t; return &c }

func count(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// NameDestinations sets how many destinations a scrape names, at most MostNamed; 0: none, and all
// are counted as others. It is called before the first try.
func (m *Metrics) NameDestinations(most int) {
	if m != nil {
		m.destinations.most = min(max(most, 0), MostNamed)
	}
}

// tried counts what a piece of evidence says of its destination.
func (m *Metrics) tried(conn *store.Connection, holdKey string, e job.Evidence) {
	switch e := e.(type) {
	case job.Outcome:
		if e.Polled || e.Kind == job.FailRateLimited {
			return
		}
		m.destinations.add(time.Now(), conn, holdKey, e.Result == job.ResultSucceeded || e.Result == job.ResultAccepted)
	case job.Deferred:
		switch e.Kind {
		case job.FailTransient, job.FailEgressDenied, job.FailAuth:
			m.destinations.add(time.Now(), conn, holdKey, false)
		default: // a wait, or a fault of the job's content
		}
	default:
	}
}

var (
	destinationTries = desc("destination_tries",
		"Tries of the last 10 minutes at the destinations with the most failures, and at all others together.",
		"project", "connector", "connection", "destination", "result")
	breakersOpen = desc("breakers_open",
		"Circuit breakers that are open, of destinations that are named, and of all others together.",
		"project", "connector", "connection", "destination")
	destinationCount = desc("destinations", "Destinations that were tried in the last 10 minutes, and those at which every try failed. Counted up to 4,096.", "state")
)

// Describe implements prometheus.Collector.
func (*destinations) Describe(ch chan<- *prometheus.Desc) {
	ch <- destinationTries
	ch <- breakersOpen
	ch <- destinationCount
}

// Collect implements prometheus.Collector.
func (d *destinations) Collect(ch chan<- prometheus.Metric) {
	named, other, tried, failing := d.named(time.Now())
	gauge := func(d *prometheus.Desc, value int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	seen := make(map[[4]string][3]int64, len(named)+1)
	for _, t := range named {
		// Two may have one name, if it was cut.
		ok, failed := t.sums()
		seen[t.of] = [3]int64{seen[t.of][0] + ok, seen[t.of][1] + failed, seen[t.of][2] + count(t.open)}
	}
	seen[[4]string{otherLabel, otherLabel, otherLabel, otherLabel}] = other
	for of, n := range seen {
		gauge(destinationTries, n[0], append(of[:], "ok")...)
		gauge(destinationTries, n[1], append(of[:], "failed")...)
		gauge(breakersOpen, n[2], of[:]...)
	}
	gauge(destinationCount, int64(tried), "tried")
	gauge(destinationCount, int64(failing), "failing")
}
