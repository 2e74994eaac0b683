package metrics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// customers is a process that sends to many destinations.
type customers struct {
	*testing.T
	m    *Metrics
	conn *store.Connection
}

func newCustomers(t *testing.T, most int) customers {
	t.Helper()
	m := New("test", "worker")
	m.NameDestinations(most)
	return customers{t, m, &store.Connection{ID: job.ID{1}, Project: "shop", Connector: "webhook", Key: "hooks"}}
}

// try counts failed tries at a destination, or good ones if n is negative.
func (c customers) try(destination string, n int) {
	e := job.Outcome{Result: job.ResultRejected}
	if n < 0 {
		n, e.Result = -n, job.ResultSucceeded
	}
	for range n {
		c.m.Settled(c.conn, destination, job.Keyed, e)
	}
}

// named returns the served tries, as "destination ok/failed", sorted.
func (c customers) named() (out []string) {
	c.Helper()
	families, err := c.m.registry.Gather()
	if err != nil {
		c.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "fireonce_destination_tries" {
			continue
		}
		values := make(map[string][2]float64)
		for _, s := range f.GetMetric() {
			l := make(map[string]string)
			for _, p := range s.GetLabel() {
				l[p.GetName()] = p.GetValue()
			}
			v := values[l["destination"]]
			v[map[string]int{"ok": 0, "failed": 1}[l["result"]]] = s.GetGauge().GetValue()
			values[l["destination"]] = v
		}
		for name, v := range values {
			out = append(out, fmt.Sprintf("%s %v/%v", name, v[0], v[1]))
		}
	}
	slices.Sort(out)
	return out
}

// open returns the served breakers, as "destination number", sorted, of those that are open.
func (c customers) open() (out []string) {
	c.Helper()
	families, err := c.m.registry.Gather()
	if err != nil {
		c.Fatal(err)
	}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			if n := s.GetGauge().GetValue(); f.GetName() == "fireonce_breakers_open" && n > 0 {
				for _, p := range s.GetLabel() {
					if p.GetName() == "destination" {
						out = append(out, fmt.Sprint(p.GetValue(), " ", n))
					}
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// database has breakers, and one connection.
type database struct {
	Database
	conn  *store.Connection
	stops []store.Stop
	reads int
}

func (d *database) ListStops(context.Context, store.StopQuery) (store.StopPage, error) {
	return store.StopPage{Stops: d.stops}, nil
}

func (d *database) Connection(_ context.Context, ref store.Ref) (store.Connection, error) {
	if d.reads++; ref.ID != d.conn.ID {
		return store.Connection{}, store.ErrNotFound
	}
	return *d.conn, nil
}

// TestOpenBreakersAreNamed: a destination whose breaker is open is named, although it is hardly tried,
// and before those that fail. Without a place it counts with the others.
func TestOpenBreakersAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCustomers(t, 2)
		db := &database{conn: c.conn}
		for _, to := range []string{"a", "b", "c"} {
			db.stops = append(db.stops, store.Stop{Scope: store.StopDestination, Connection: c.conn.ID, Destination: to, Cause: store.StoppedByBreaker})
		}
		db.stops = append(db.stops,
			store.Stop{Scope: store.StopDestination, Destination: "a", Cause: store.StoppedByPerson},
			store.Stop{Scope: store.StopDestination, Connection: job.ID{9}, Destination: "gone", Cause: store.StoppedByBreaker})
		read := func(some bool, want ...string) {
			t.Helper()
			if err := c.m.destinations.read(t.Context(), db, some); err != nil {
				t.Fatal(err)
			}
			if got := c.open(); !slices.Equal(got, want) {
				t.Errorf("open: %q, want %q", got, want)
			}
		}
		c.try("worse", 9)
		c.try("b", 1)
		read(true, "a 1", "b 1", "other 2")
		c.want("named", "a 0/0", "b 0/1", "other 0/9")
		reads := db.reads
		time.Sleep(30 * time.Minute)
		read(true, "a 1", "b 1", "other 2")
		if db.reads > reads+2 {
			t.Errorf("%d connections read again", db.reads-reads)
		}
		read(false)
		c.want("closed, names keep their places", "a 0/0", "b 0/0", "other 0/0")
	})
}

func (c customers) want(what string, want ...string) {
	c.Helper()
	if got := c.named(); !slices.Equal(got, want) {
		c.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestDestinations: the worst are named, with their good tries too, the others are one sum, and a
// try counts for ten minutes.
func TestDestinations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCustomers(t, 2)
		c.want("nothing", "other 0/0")
		c.try("a", 3)
		c.try("a", -1)
		c.try("b", 5)
		c.try("c", 1)
		c.try("good", -7)
		c.want("the two worst", "a 1/3", "b 0/5", "other 7/1")
		if _, _, tried, failing := c.m.destinations.named(time.Now()); tried != 4 || failing != 2 {
			t.Errorf("%d tried, %d failing", tried, failing)
		}
		time.Sleep(9 * time.Minute)
		c.try("good", -1)
		c.want("within the window", "a 1/3", "b 0/5", "other 8/1")
		time.Sleep(time.Minute)
		c.want("after it, names keep their places", "a 0/0", "b 0/0", "other 1/0")
		time.Sleep(time.Hour)
		c.want("for an hour", "other 0/0")
		c.want("and then they are forgotten", "other 0/0")
		if n := len(c.m.destinations.tracked); n != 0 {
			t.Errorf("%d destinations are kept", n)
		}
	})
}

// TestDestinationsKeepTheirPlaces: a worse one gets no place before one is an hour old, so that the
// number of series is bounded, and is in the sum of the others meanwhile.
func TestDestinationsKeepTheirPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCustomers(t, 1)
		names := make(map[string]bool)
		begun := time.Now()
		for time.Since(begun) < 24*time.Hour {
			c.try(fmt.Sprintf("host-%v", time.Since(begun).Round(time.Second)), 1+int(time.Since(begun)/time.Minute))
			for _, n := range c.named() {
				names[n[:strings.Index(n, " ")]] = true
			}
			time.Sleep(time.Minute)
		}
		if n := len(names); n < 20 || n > 24+1 {
			t.Errorf("%d names in a day", n)
		}
	})
}

// TestDestinationsAreBounded: a destination that finds no room counts with the others, and labels
// are short and valid.
func TestDestinationsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCustomers(t, 1)
		for i := range mostTracked + 10 {
			c.try(fmt.Sprintf("%06d", i), 1)
		}
		c.want("no room", "000000 0/1", fmt.Sprintf("other 0/%d", mostTracked+9))
		if n := len(c.m.destinations.tracked); n != mostTracked {
			t.Errorf("%d destinations", n)
		}
		time.Sleep(2 * time.Hour)
		c.try(strings.Repeat("ü", maxLabel)+"\xff", 1)
		c.want("cut", "other 0/0", strings.Repeat("ü", maxLabel/2)+"… 0/1")
		c = newCustomers(t, 1)
		c.try("other", 1)
		c.want("the word", "other (a name) 0/1", "other 0/0")
		c = newCustomers(t, 0)
		c.try("a", 1)
		c.want("none named", "other 0/1")
	})
}

// TestWhatIsATry: a wait and a fault of the content say nothing about the destination.
func TestWhatIsATry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCustomers(t, 1)
		for _, e := range []job.Evidence{
			job.Outcome{Result: job.ResultAccepted}, job.Outcome{Result: job.ResultUnknown}, job.Outcome{Result: job.ResultNotSent},
			job.Deferred{Kind: job.FailTransient}, job.Deferred{Kind: job.FailAuth}, job.Deferred{Kind: job.FailEgressDenied},
			// No tries:
			job.Outcome{Result: job.ResultSucceeded, Polled: true}, job.Outcome{Result: job.ResultRejected, Kind: job.FailRateLimited},
			job.Deferred{Kind: job.FailHeld}, job.Deferred{Kind: job.FailPermanent}, job.Deferred{Kind: job.FailRateLimited}, job.Looked{},
		} {
			c.m.Settled(c.conn, "a", job.Keyed, e)
		}
		c.want("tries", "a 1/5", "other 0/0")
	})
}

// TestZeros: each counter that an alert waits for is there before its first increase, for every
// class.
func TestZeros(t *testing.T) {
	m := New("test", "worker")
	m.Expect("tiktok")
	for name, series := range map[string]int{
		"fireonce_jobs_ended_total": 4 * 4 * 2, "fireonce_duplicates_seen_total": 4, "fireonce_duplicates_prevented_total": 4,
		"fireonce_needs_resolution_total": 4, "fireonce_firings_total": 9,
	} {
		if got := seriesOf(t, m, name); got != series {
			t.Errorf("%s has %d series at the start, not %d", name, got, series)
		}
	}
}

func seriesOf(t *testing.T, m *Metrics, name string) int {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return len(f.GetMetric())
		}
	}
	return 0
}

// TestEnded: a caller's end is not the server's, and a job that goes on needing a person counts once.
func TestEnded(t *testing.T) {
	m := New("test", "worker")
	open, asks, failed := job.Snapshot{}, job.Snapshot{}, job.Snapshot{}
	open.State, asks.State, failed.State = job.Ambiguous, job.NeedsResolution, job.Failed
	open.Class, asks.Class, failed.Class = job.Handle, job.Handle, job.Handle
	m.Wrote("x", &open, &asks, &job.Decision{})
	m.Wrote("x", &asks, &asks, &job.Decision{})
	m.Ended(asks.State, failed)
	m.Wrote("x", &open, &failed, &job.Decision{})
	m.Wrote("x", &failed, &failed, &job.Decision{})
	for c, want := range map[prometheus.Counter]float64{
		m.questions.WithLabelValues("x", "HANDLE"): 1, m.ended.WithLabelValues("HANDLE", "FAILED", "caller"): 1,
		m.ended.WithLabelValues("HANDLE", "FAILED", "server"): 1,
	} {
		if got := valueOf(t, c); got != want {
			t.Errorf("%v: %v, want %v", c.Desc(), got, want)
		}
	}
}

func valueOf(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var out dto.Metric
	if err := c.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetCounter().GetValue()
}
