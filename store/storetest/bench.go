package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

const (
	// benchFree is how many jobs each measured claim takes, of benchConns connections.
	benchFree  = 100
	benchConns = 10
	// benchHeld is how many due jobs wait behind the refused credential.
	benchHeld = 100_000
)

// BenchmarkHeld measures the claim of 100 jobs of ten connections in two stores: one has
// nothing else, the other has a connection whose credential was refused, with 100,000 due
// jobs. The stores alternate, so that other work on the machine affects both. It reports the
// medians and their ratio, the cost of the held jobs: a claim that walked over them would be
// far above 1. open returns an empty store on the real clock, another one with each call.
func BenchmarkHeld(b *testing.B, open func(b *testing.B) store.Store) {
	var stores [2]*bench
	for i := range stores {
		w := &bench{B: b, s: open(b)}
		for range benchConns {
			w.free = append(w.free, w.connect())
		}
		stores[i] = w
	}
	alone, beside := stores[0], stores[1]
	beside.hold()
	b.ResetTimer()
	b.StopTimer()
	for range b.N {
		alone.claim()
		beside.claim()
	}
	b.ReportMetric(float64(alone.median().Microseconds()), "free-µs/claim")
	b.ReportMetric(float64(beside.median().Microseconds()), "held-µs/claim")
	b.ReportMetric(float64(beside.median())/float64(alone.median()), "held/free")
}

type bench struct {
	*testing.B
	s     store.Store
	free  []store.Connection
	times []time.Duration
	// rolling is the time that rolls took, longest that of the longest step.
	rolling, longest time.Duration
}

func (w *bench) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// newID makes ids as a server does: their places in the tables matter here.
func newID() job.ID { return job.ID(uuid.Must(uuid.NewV7())) }

func (w *bench) connect() store.Connection {
	w.Helper()
	c, _, err := w.s.CreateConnection(w.Context(), store.NewConnection{Connection: store.Connection{
		ID: newID(), Project: project, Connector: "fake", Class: job.Keyed, MaxInFlight: benchHeld,
	}})
	w.must(err)
	return c
}

// fill stores n due jobs, spread over connections.
func (w *bench) fill(n int, conns ...store.Connection) {
	w.Helper()
	for done := 0; done < n; {
		items := make([]store.NewJob, min(n-done, store.MaxBatch))
		for i := range items {
			id := newID()
			items[i].Spec = job.Spec{
				ID: id, Project: project, Key: id.String(), Connection: conns[i%len(conns)].ID, HoldKey: holdKey,
				PayloadKind: "webhook", Payload: []byte("payload"), Delivery: job.OnceOrAsk,
			}
		}
		out, err := w.s.Create(w.Context(), items)
		w.must(err)
		for _, c := range out {
			w.must(c.Err)
		}
		done += len(items)
	}
}

// end judges evidence on leased jobs, and so frees their capacity.
func (w *bench) end(leases []store.Leased, e job.Evidence) {
	w.Helper()
	changes := make([]store.Change, len(leases))
	for i, l := range leases {
		d, err := job.Decide(l.View(job.Traits{Class: l.Class}, 0), e)
		w.must(err)
		changes[i] = store.Change{Job: l.ID, Version: l.Version, Decision: d}
	}
	out, err := w.s.Apply(w.Context(), changes)
	w.must(err)
	for _, a := range out {
		w.must(a.Err)
	}
}

// claim measures one claim; everything around it is not timed.
func (w *bench) claim() {
	w.Helper()
	w.fill(benchFree, w.free...)
	w.StartTimer()
	begin := time.Now()
	got, err := w.s.Claim(w.Context(), store.ClaimParams{Worker: "w", Lease: lease, Limit: benchFree})
	w.times = append(w.times, time.Since(begin))
	w.StopTimer()
	w.must(err)
	if len(got) != benchFree {
		w.Fatalf("%d jobs claimed, want %d", len(got), benchFree)
	}
	w.end(got, job.CancelAsked{})
}

func (w *bench) median() time.Duration {
	slices.Sort(w.times)
	return w.times[len(w.times)/2]
}

// hold creates the connection with the backlog, and has its credential refused.
func (w *bench) hold() {
	w.Helper()
	held := w.connect()
	w.fill(1, held)
	got, err := w.s.Claim(w.Context(), store.ClaimParams{Worker: "w", Lease: lease, Limit: 1})
	w.must(err)
	if len(got) != 1 || got[0].Connection.ID != held.ID {
		w.Fatalf("claimed %v", got)
	}
	w.end(got, job.Deferred{Kind: job.FailAuth, Message: "refused"})
	w.fill(benchHeld-1, held)
}
