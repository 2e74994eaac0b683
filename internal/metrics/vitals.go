package metrics

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the database is measured only when a caller asks. One measurement at a
// time serves all callers, for at least keepLeast and for keepTimes as long as it took. So
// measuring takes less than 1/keepTimes of one connection's time, however large the database is
// and however often it is scraped. No caller waits long: while a measurement is under way or
// fails, callers get the last one, with its age.

const (
	keepLeast = 5 * time.Second
	keepTimes = 200
	keepMost  = 5 * time.Minute
	// vitalsTimeout bounds a measurement, vitalsPatience a caller's wait for it.
	vitalsTimeout  = 10 * time.Second
	vitalsPatience = 2 * time.Second
)

// vitals keeps the last measurement.
type vitals struct {
	mu    sync.Mutex
	store Database
	// breakers gets the circuit breakers that are open.
	breakers *destinations
	last     Reading
	// next is when the last measurement may be replaced.
	next time.Time
	// pending is closed when the measurement under way has ended; nil: none is under way.
	pending chan struct{}
	err     error
}

// Reading is a measurement of the database.
type Reading struct {
	store.Vitals
	Meta store.Meta
	// At is when it began, and Took how long it took. Zero: there is none yet.
	At   time.Time
	Took time.Duration
}

var errNoStore = errors.New("the database is not open yet")

// Database is what is measured.
type Database interface {
	store.Monitoring
	ListStops(ctx context.Context, q store.StopQuery) (store.StopPage, error)
	Connection(ctx context.Context, ref store.Ref) (store.Connection, error)
}

func (v *vitals) watch(s Database) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.store = s
}

// Vitals returns the last measurement of the database, or makes one. If the last attempt
// failed, it returns the error together with the last successful measurement, if there is one.
func (m *Metrics) Vitals(ctx context.Context) (Reading, error) {
	if m == nil {
		return Reading{}, errNoStore
	}
	return m.vitals.read(ctx)
}

func (v *vitals) read(ctx context.Context) (Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, vitalsPatience)
	defer cancel()
	late := false
	if pending := v.begin(); pending != nil { //nolint:contextcheck // a measurement serves all callers, and outlives the first of them
		select {
		case <-pending:
		case <-ctx.Done():
			late = true
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if late {
		return v.last, errSlow
	}
	return v.last, v.err
}

var errSlow = errors.New("the database takes long to answer")

// begin starts a measurement if one is due. It returns nil if none is under way.
func (v *vitals) begin() chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch now := time.Now(); {
	case v.store == nil:
		v.err = errNoStore
		return nil
	case v.pending != nil || now.Before(v.next):
		return v.pending
	default:
		v.pending = make(chan struct{})
		go v.measure(v.store)
		return v.pending
	}
}

// measure measures once, for all callers.
func (v *vitals) measure(s Database) {
	ctx, cancel := context.WithTimeout(context.Background(), vitalsTimeout)
	defer cancel()
	begun := time.Now()
	vital, err := s.Vitals(ctx)
	var meta store.Meta
	if err == nil {
		meta, err = s.Meta(ctx)
	}
	if err == nil {
		err = v.breakers.read(ctx, s, meta.Stops > 0)
	}
	took := time.Since(begun)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err = err; err == nil {
		v.last = Reading{Vitals: vital, Meta: meta, At: begun, Took: took}
	}
	v.next = time.Now().Add(min(max(keepLeast, keepTimes*took), keepMost))
	close(v.pending)
	v.pending = nil
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("fireonce_"+name, help, labels, nil)
}

var (
	vitalsUp   = desc("vitals_up", "1 if the last measurement of the database worked, 0 if not.")
	vitalsAge  = desc("vitals_age_seconds", "Age of the measurement that the following numbers are from.")
	vitalsTook = desc("vitals_duration_seconds", "Time that it took.")
	jobs       = desc("jobs", "Jobs that have not ended, by phase. Counted up to 100,000 (waiting) or 10,000.", "phase")
	dueJobs    = desc("due_jobs", "Jobs that should be running but no worker has taken. Counted up to 10,000.")
	dueAge     = desc("due_oldest_age_seconds", "How long the one that waits longest has been due; 0: there is none.")
	unknownAge = desc("unknown_oldest_age_seconds", "How long the outcome that has been unknown for longest has been so; 0: there is none.")
	askedAge   = desc("needs_resolution_oldest_age_seconds", "How long the job that has waited for a person's decision for longest has done so; 0: none does.")
	conns      = desc("connections", "Connections. Counted up to 100,000 for each connector.", "connector")
	expiring   = desc("credentials_expiring", "Credentials that end within a week and that nothing renews. Counted up to 10,000.", "connector")
	schedules  = desc("schedules", "Schedules that have not ended, paused ones too. Counted up to 100,000.")
	paused     = desc("schedules_paused", "Schedules that paused themselves, by the cause. Counted up to 10,000.", "cause")
	held       = desc("connections_held", "Connections whose jobs are held back. Counted up to 10,000.", "connector", "cause")
	firingAge  = desc("schedules_due_oldest_age_seconds", "How long the schedule that waits longest has been due; 0: there is none.")
	refusedNow = desc("schedules_refused", "Schedules of which at least two decisions in a row were refused; they do not fire. Counted up to 10,000.")
	subs       = desc("subscriptions", "Subscriptions that are not deleted, those for callbacks included. Counted up to 100,000.")
	subsFail   = desc("subscriptions_failing", "Active subscriptions with a notice that could not be sent and is sent again. Counted up to 10,000.")
	subsPaused = desc("subscriptions_paused", "Subscriptions that paused themselves: a notice could not be sent. Counted up to 10,000.")
	noticeAge  = desc("notices_due_oldest_age_seconds", "How long the subscription that waits longest for its next notice to be made has been due; 0: none waits.")
	eventLag   = desc("event_lag_seconds", "How far the end of the event log is behind: streams cannot read newer events.")
	pauses     = desc("pauses", "Pauses that have not ended, announced ones included.")
	quarantine = desc("quarantined", "1 if the database is quarantined and nothing is sent.")
	clockDoubt = desc("clock_doubted", "1 if the clock is doubted.")
	stands     = desc("clock_stands", "1 if the clock is doubted and nothing is sent.")

	vitalDescs = []*prometheus.Desc{
		vitalsUp, vitalsAge, vitalsTook, jobs, dueJobs, dueAge, unknownAge, askedAge, conns, expiring, schedules, paused, held, firingAge, refusedNow,
		subs, subsFail, subsPaused, noticeAge, eventLag, quarantine, pauses, clockDoubt, stands,
	}
)

// Describe implements prometheus.Collector.
func (*vitals) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range vitalDescs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (v *vitals) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	r, err := v.read(context.Background())
	gauge(vitalsUp, flag(err == nil))
	if r.At.IsZero() {
		return
	}
	gauge(vitalsAge, time.Since(r.At).Seconds())
	gauge(vitalsTook, r.Took.Seconds())
	for _, p := range []struct {
		name string
		n    int64
	}{
		{"waiting", r.Waiting}, {"in_flight", r.InFlight}, {"accepted", r.Accepted},
		{"ambiguous", r.Ambiguous}, {"needs_resolution", r.NeedsResolution},
	} {
		gauge(jobs, float64(p.n), p.name)
	}
	gauge(dueJobs, float64(r.Due))
	gauge(dueAge, r.OldestDue.Seconds())
	gauge(unknownAge, r.OldestUnknown.Seconds())
	gauge(askedAge, r.OldestQuestion.Seconds())
	for connector, n := range r.Connections {
		gauge(conns, float64(n), connector)
		gauge(expiring, float64(r.Expiring[connector]), connector)
	}
	gauge(schedules, float64(r.Schedules))
	for _, p := range []struct {
		cause store.PauseCause
		name  string
	}{{store.PausedByFailures, "failures"}, {store.PausedByAuthHold, "credential"}, {store.PausedByRefusal, "refusal"}} {
		gauge(paused, float64(r.PausedSchedules[p.cause]), p.name)
	}
	for by, n := range r.Holds {
		gauge(held, float64(n), by.Connector, string(by.Cause))
	}
	gauge(firingAge, r.OldestFiring.Seconds())
	gauge(refusedNow, float64(r.RefusedSchedules))
	gauge(subs, float64(r.Subscriptions))
	gauge(subsFail, float64(r.FailingSubscriptions))
	gauge(subsPaused, float64(r.PausedSubscriptions))
	gauge(noticeAge, r.OldestNotice.Seconds())
	gauge(eventLag, r.Meta.EventLag.Seconds())
	gauge(quarantine, flag(r.Meta.Quarantined != ""))
	gauge(pauses, float64(r.Meta.Stops))
	gauge(clockDoubt, flag(r.Meta.Clock.Why != ""))
	gauge(stands, flag(r.Meta.Clock.Suspends))
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
