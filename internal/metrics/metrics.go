// Package metrics counts a server's work and measures its database, for GET /metrics and
// GET /status. docs/metrics.md is the contract: every name, its type, its labels and its
// meaning; a test compares it with the served metrics.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - the program, or its operator's configuration, bounds the values of each label: a label is
//     never a project, a connection, a host or a job. destinations.go has the one exception,
//     and its bound;
//   - counters count in this process, and only what is durable;
//   - methods of a nil *Metrics do nothing, so that callers need no check.

// lagBuckets are upper bounds of start lags, in seconds.
var lagBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}

// callBuckets are upper bounds of the time that a call takes, in seconds.
var callBuckets = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// Metrics holds the metrics of one process. All methods may be called concurrently.
type Metrics struct {
	registry *prometheus.Registry

	attempts, outcomes, looks  *prometheus.CounterVec
	effects, prevented, doubly *prometheus.CounterVec
	ended, calls, failures     *prometheus.CounterVec
	deferrals, questions       *prometheus.CounterVec
	firings, breakers          *prometheus.CounterVec
	takenUp                    prometheus.Counter
	startLag, took             prometheus.Histogram

	guarantee    guarantee
	vitals       vitals
	destinations destinations
}

// New returns the metrics of a process of a version that starts now. worker is the name of the
// process in attempts and events.
func New(version, worker string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fireonce_" + name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "fireonce_" + name, Help: help, Buckets: buckets})
		m.registry.MustRegister(h)
		return h
	}
	m.attempts = counter("attempts_total", "Attempts whose intent became durable.", "connector", "class")
	m.outcomes = counter("outcomes_total", "Outcomes of attempts that were stored.", "connector", "class", "result")
	m.looks = counter("looks_total", "Looks and polls at platforms that were stored, by what they saw.", "connector", "verdict")
	m.effects = counter("effects_total", "Jobs whose effect was proven, by the proof.", "connector", "class", "proof")
	m.prevented = counter("duplicates_prevented_total",
		"Jobs whose answer was lost and whose effect was found, or confirmed under the same key, instead of being made twice.", "connector", "class")
	m.doubly = counter("duplicates_seen_total", "Second effects of a job that were seen.", "connector", "class")
	m.deferrals = counter("deferrals_total", "Tries that ended before anything was sent, by their reason.", "connector", "kind")
	m.questions = counter("needs_resolution_total", "Jobs that came to need a person's decision.", "connector", "class")
	m.ended = counter("jobs_ended_total", "Jobs that ended, by their final state, and by what ended them: the server's work, or a caller.", "class", "state", "by")
	m.firings = counter("firings_total", "Firings of schedules that were decided, by their outcome.", "outcome")
	m.calls = counter("calls_total", "Calls of the API that ended.", "procedure", "code")
	m.failures = counter("store_failures_total", "Calls of the engine to the store that failed.", "operation")
	m.breakers = counter("breaker_changes_total", "Circuit breakers that this server opened and closed, and their probes that failed.", "change")
	for _, change := range []string{BreakerOpened, BreakerClosed, ProbeFailed} {
		m.breakers.WithLabelValues(change)
	}
	m.startLag = histogram("start_lag_seconds", "Time from a job's scheduled time to the intent of its first attempt.", lagBuckets)
	m.took = histogram("call_duration_seconds", "Time that unary calls of the API took.", callBuckets)
	m.takenUp = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "fireonce_taken_up_jobs_total", Help: "Jobs that were taken up from servers that are gone.",
	})
	m.registry.MustRegister(
		m.takenUp, &m.guarantee, &m.vitals, &m.destinations,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fireonce_info", Help: "1; the labels say what runs.", ConstLabels: prometheus.Labels{"version": version, "worker": worker},
		}, func() float64 { return 1 }),
	)
	m.guarantee.begin(time.Now())
	m.destinations.most, m.destinations.tracked = DefaultNamed, make(map[destination]*tries)
	m.vitals.breakers = &m.destinations
	m.zero()
	return m
}

// scrapes bounds the scrapes that are answered concurrently.
const scrapes = 4

// Handler answers GET /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		Registry: m.registry, MaxRequestsInFlight: scrapes, ErrorHandling: promhttp.ContinueOnError,
		// Compressing costs more time than a local scrape saves.
		DisableCompression: true,
	})
}

// Gauge adds a gauge that read returns at each scrape. name is without the prefix. read must
// not block.
func (m *Metrics) Gauge(name, help string, labels map[string]string, read func() float64) {
	if m == nil {
		return
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "fireonce_" + name, Help: help, ConstLabels: labels}, read))
}

// What ended a job.
const (
	byServer = "server"
	byCaller = "caller"
)

// zero starts the counters at zero whose first increase may raise an alert: for a series that
// appears with the value 1, an alert sees no increase.
func (m *Metrics) zero() {
	for _, class := range job.Classes {
		for _, state := range job.States {
			if state.Terminal() {
				m.ended.WithLabelValues(class.String(), state.String(), byServer)
				m.ended.WithLabelValues(class.String(), state.String(), byCaller)
			}
		}
	}
	for _, name := range firingOutcomes {
		m.firings.WithLabelValues(name)
	}
}

// Expect does for the connectors what New does for the other counters.
func (m *Metrics) Expect(connectors ...string) {
	if m == nil {
		return
	}
	for _, c := range connectors {
		for _, class := range job.Classes {
			m.doubly.WithLabelValues(c, class.String())
			m.prevented.WithLabelValues(c, class.String())
			m.questions.WithLabelValues(c, class.String())
		}
	}
}

// firingOutcomes are the contract's names of the outcomes in the ledger of firings.
var firingOutcomes = map[store.FiringOutcome]string{
	store.FiringFired: "FIRED", store.FiringSkippedByOverlap: "SKIPPED_BY_OVERLAP", store.FiringSkippedByPerson: "SKIPPED_BY_PERSON",
	store.FiringMissed: "MISSED", store.FiringCoalesced: "COALESCED", store.FiringRefused: "REFUSED", store.FiringHeld: "HELD",
	store.FiringNoContent: "NO_CONTENT", store.FiringSkippedByLimit: "SKIPPED_BY_LIMIT",
}

// Fired counts the firings of a decision that was written.
func (m *Metrics) Fired(f store.Fired) {
	if m == nil || f.Err != nil {
		return
	}
	for _, one := range f.Firings {
		if name, known := firingOutcomes[one.Firing.Outcome]; known && !one.Repeat {
			m.firings.WithLabelValues(name).Inc()
		}
	}
}

// Armed counts an attempt of a job whose intent is durable, and the lag of a first one.
func (m *Metrics) Armed(connector string, class job.Class, number int, lag time.Duration) {
	if m == nil {
		return
	}
	m.attempts.WithLabelValues(connector, class.String()).Inc()
	if number == 1 {
		m.startLag.Observe(max(0, lag.Seconds()))
	}
}

// What changes of a breaker are counted as.
const (
	BreakerOpened = "opened"
	BreakerClosed = "closed"
	ProbeFailed   = "probe_failed"
)

// BreakerChanged counts a change of a breaker.
func (m *Metrics) BreakerChanged(change string) {
	if m != nil {
		m.breakers.WithLabelValues(change).Inc()
	}
}

// Settled counts evidence about a job of a connection that is stored, or that no longer changes
// anything.
func (m *Metrics) Settled(conn *store.Connection, holdKey string, class job.Class, e job.Evidence) {
	if m == nil {
		return
	}
	m.tried(conn, holdKey, e)
	connector := conn.Connector
	switch e := e.(type) {
	case job.Deferred:
		m.deferrals.WithLabelValues(connector, e.Kind.String()).Inc()
	case job.Outcome:
		if e.Polled {
			m.looks.WithLabelValues(connector, "POLLED").Inc()
			return
		}
		m.outcomes.WithLabelValues(connector, class.String(), e.Result.String()).Inc()
	case job.Looked:
		m.looks.WithLabelValues(connector, e.Verdict.String()).Inc()
	case job.AlreadyPresent:
		m.looks.WithLabelValues(connector, e.Verdict.String()).Inc()
	}
}

// Wrote counts the changes of a job by a durable decision. Notices are not counted, here and in
// Ended: the alerts that read this are about jobs, and their notices would be about notices.
// connector may be empty if the
// decision cannot record an effect.
func (m *Metrics) Wrote(connector string, before, after *job.Snapshot, d *job.Decision) {
	if m == nil || after.IsNotice() {
		return
	}
	m.endedBy(byServer, before.State, after)
	class := after.Class.String()
	if after.State == job.NeedsResolution && before.State != job.NeedsResolution {
		m.questions.WithLabelValues(connector, class).Inc()
	}
	if d.Cause == job.CauseDuplicateEffect {
		m.doubly.WithLabelValues(connector, class).Inc()
		m.guarantee.duplicates.Add(1)
	}
	if d.Effect == nil || before.Effect != nil {
		return
	}
	m.effects.WithLabelValues(connector, class, d.Effect.Proof.String()).Inc()
	switch d.Effect.Proof {
	case job.ProofObserved, job.ProofKeyReplay:
		m.prevented.WithLabelValues(connector, class).Inc()
		m.guarantee.effects.Add(1)
	case job.ProofResponse:
		m.guarantee.effects.Add(1)
	case job.ProofOperator, job.ProofAssumed: // the effect was not observed
	}
}

// Ended counts a job that a caller's request changed, and that was in another state before, if it
// has ended.
func (m *Metrics) Ended(before job.State, after job.Snapshot) {
	if m != nil {
		m.endedBy(byCaller, before, &after)
	}
}

func (m *Metrics) endedBy(who string, before job.State, after *job.Snapshot) {
	if after.State != before && after.State.Terminal() && !after.IsNotice() {
		m.ended.WithLabelValues(after.Class.String(), after.State.String(), who).Inc()
	}
}

// TakenUp counts jobs that were taken over from a server that is gone.
func (m *Metrics) TakenUp(jobs int) {
	if m != nil {
		m.takenUp.Add(float64(jobs))
	}
}

// StoreFailed counts a call to the store that failed.
func (m *Metrics) StoreFailed(operation string) {
	if m != nil {
		m.failures.WithLabelValues(operation).Inc()
	}
}

// Called counts a call of the API; streamed calls have no duration.
func (m *Metrics) Called(procedure, code string, unary bool, took time.Duration) {
	if m == nil {
		return
	}
	m.calls.WithLabelValues(procedure, code).Inc()
	if unary {
		m.took.Observe(took.Seconds())
	}
}

// Watch makes scrapes measure the database. It is called once, when the store is open.
func (m *Metrics) Watch(s Database) {
	if m != nil {
		m.vitals.watch(s)
	}
}
