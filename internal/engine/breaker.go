package engine

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/metrics"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file (docs/decisions/breakers.md has the reasons):
//   - a try counts against a destination if its connector says that the target itself is ill: it
//     cannot be reached, does not answer, or answers 5xx. Every other answer ends the row;
//   - rows are counted in this process, and the breaker is a stop in the database, which all
//     servers see;
//   - a probe is a job that was let through: its connection is opened first, and while that fails
//     it has no intent. What it has shown is written once;
//   - notices count for nothing: they do not open the breakers of the jobs that they are about.

// Limits of Config.BreakAfter and Config.BreakWithin, and their defaults in a server.
const (
	DefaultBreakAfter  = 5
	MaxBreakAfter      = 1000
	DefaultBreakWithin = 10 * time.Minute
	MinBreakWithin     = 10 * time.Second
	MaxBreakWithin     = time.Hour
)

// probeSpan is how long a probe may look and prepare, uploads aside. A server that dies meanwhile
// leaves the breaker to the next probe then.
const probeSpan = 2 * time.Minute

// maxIll bounds the destinations whose tries are counted.
const maxIll = 1024

// breakers counts tries in a row that failed.
type breakers struct {
	*Config

	n   atomic.Int64 // of rows: a success does not wait for mu while nothing fails
	mu  sync.Mutex
	ill map[destination]row
}

// destination is a hold key of a connection. Accounts of two connections have the same hold key, and
// an owner of one may make a path of a host that both call answer 503.
type destination struct {
	conn job.ID
	key  string
}

func destinationOf(l *store.Leased) destination { return destination{l.Spec.Connection, l.HoldKey} }

// row is tries in a row that failed.
type row struct {
	failed int
	since  time.Time
	// first is the job of the first one, and others reports that there are others.
	first  job.ID
	others bool
}

// well ends a destination's row.
func (b *breakers) well(d destination) {
	if b.n.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ill, d)
	b.n.Store(int64(len(b.ill)))
}

// failed counts a try. It reports whether the breaker is to open.
func (b *breakers) failed(d destination, j job.ID, now time.Time) bool {
	if b.BreakAfter == 0 || d.key == "" {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r, known := b.ill[d]
	if !known && len(b.ill) >= maxIll {
		b.forget(now)
		if len(b.ill) >= maxIll {
			return false
		}
	}
	if !known || now.Sub(r.since) > b.BreakWithin {
		r = row{since: now, first: j}
	}
	r.failed++
	r.others = r.others || r.first != j
	if open := r.failed >= b.BreakAfter && r.others; open {
		delete(b.ill, d)
		b.n.Store(int64(len(b.ill)))
		return true
	}
	b.put(d, r)
	return false
}

func (b *breakers) put(d destination, r row) {
	if b.ill == nil {
		b.ill = make(map[destination]row)
	}
	b.ill[d] = r
	b.n.Store(int64(len(b.ill)))
}

// forget drops rows that are too old to grow.
func (b *breakers) forget(now time.Time) {
	for d, r := range b.ill {
		if now.Sub(r.since) > b.BreakWithin {
			delete(b.ill, d)
		}
	}
}

// isDown reports whether an error means that the target itself is ill.
func isDown(err error) bool {
	var r *connector.Refusal
	return errors.As(err, &r) && r.Down
}

// breakerProbe is an attempt's part in a breaker.
type breakerProbe struct {
	breaker job.ID
	// asks reports that the job was sent and that a person may have to decide about it.
	asks bool
}

// takeProbe makes the attempt's job the probe of the breaker that covers it. False: it is not, and
// must not start.
func (a *attempt) takeProbe(ctx context.Context, by *store.Stop) bool {
	if !by.ProbeDue(a.leased.Now) || !a.holdProbe(ctx, by.ID, probeSpan) {
		return false
	}
	a.probe = &breakerProbe{breaker: by.ID}
	return true
}

// holdProbe makes the attempt's job the probe of a breaker for a time, or for longer.
func (a *attempt) holdProbe(ctx context.Context, breaker job.ID, span time.Duration) bool {
	l := a.leased
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	took, err := a.e.Store.TakeProbe(ctx, store.Probe{Breaker: breaker, Token: l.ClaimToken, For: span})
	if err != nil {
		a.e.Log.DebugContext(a.work.Context(), "a probe could not be taken; another one follows", logged(&l.Snapshot, &l.Connection), "err", err)
	}
	return took && err == nil
}

// endProbe writes what the attempt has shown as a probe, if it is one and has not said it before.
func (a *attempt) endProbe(v store.ProbeVerdict, note string) {
	p, l := a.probe, a.leased
	if p == nil {
		return
	}
	a.probe = nil
	ctx, cancel := context.WithTimeout(a.e.hard, storeTimeout)
	defer cancel()
	stop, counts, err := a.e.Store.EndProbe(ctx, store.ProbeResult{Breaker: p.breaker, Token: l.ClaimToken, Verdict: v, Note: note, Asks: p.asks, Actor: a.e.Worker})
	if err != nil {
		a.e.Log.WarnContext(a.work.Context(), "what a probe has shown could not be stored; another one follows", logged(&l.Snapshot, &l.Connection), "err", err)
		return
	}
	if !counts {
		return
	}
	attrs := []any{"project", l.Project, "destination", l.HoldKey, "pause", stop.ID.String()}
	switch v {
	case store.ProbeWell:
		a.e.Metrics.BreakerChanged(metrics.BreakerClosed)
		a.e.Log.InfoContext(a.work.Context(), "a circuit breaker closed: the jobs of its destination start again",
			append(attrs, "open_for", stop.Ended.Sub(stop.Begin).Round(time.Second).String())...)
	case store.ProbeIll:
		a.e.Metrics.BreakerChanged(metrics.ProbeFailed)
		a.e.Log.InfoContext(a.work.Context(), "a probe failed; the circuit breaker stays open",
			append(attrs, "why", note, "failed", stop.Probes, "next_probe", stop.ProbeAt.UTC().Format(time.RFC3339))...)
	case store.ProbeUndecided:
	}
}

// sawRefusal notes that the attempt could not be prepared.
func (a *attempt) sawRefusal(ctx context.Context) {
	if a.down && ctx.Err() == nil {
		a.sawIll("it cannot be reached")
	}
}

// sawOpen holds the probe until the answer is there: the target takes connections. If a person may
// have to decide about a job that is sent, it does so for ProbeAsksWait at least, because this server
// may end before it writes what came of it. False: the attempt must not go on.
func (a *attempt) sawOpen(ctx context.Context) bool {
	if a.probe == nil {
		return true
	}
	_, answerBy := a.sendTimes()
	span := answerBy + 2*storeTimeout
	if a.traits.Class != job.Keyed {
		span = max(span, store.ProbeAsksWait)
	}
	return a.holdProbe(ctx, a.probe.breaker, span)
}

// sawOutcome notes what an outcome says of the target.
func (a *attempt) sawOutcome(o *job.Outcome) {
	if a.probe != nil {
		a.probe.asks = o.Result == job.ResultUnknown && a.traits.Class != job.Keyed
	}
	switch {
	case o.Kind == job.FailRateLimited || o.Kind == job.FailAuth:
		a.sawWell()
	case o.Down && o.HTTPStatus > 0:
		a.sawIll("it answered " + strconv.Itoa(o.HTTPStatus))
	case o.Down:
		a.sawIll("it gave no answer")
	case o.HTTPStatus > 0, o.Result == job.ResultSucceeded, o.Result == job.ResultAccepted, o.Result == job.ResultRejected:
		a.sawWell()
	default: // it was not sent, or it is not known why there is no outcome
	}
}

func (a *attempt) sawWell() {
	if !a.leased.IsNotice() {
		a.e.breakers.well(destinationOf(a.leased))
	}
	a.endProbe(store.ProbeWell, "")
}

// sawIll counts a try that failed, and opens the breaker if there were enough.
func (a *attempt) sawIll(why string) {
	e, l := a.e, a.leased
	if a.probe != nil {
		a.endProbe(store.ProbeIll, "The last probe failed: "+why+".")
		return
	}
	if l.IsNotice() || !e.breakers.failed(destinationOf(l), l.ID, e.Clock.Read().Time) {
		return
	}
	ctx, cancel := context.WithTimeout(e.hard, storeTimeout)
	defer cancel()
	stop, opened, err := e.Store.CreateStop(ctx, store.NewStop{Stop: store.Stop{
		ID: e.NewID(), Scope: store.StopDestination, Project: l.Project, Connection: l.Spec.Connection, Destination: l.HoldKey, Cause: store.StoppedByBreaker,
		Note: strconv.Itoa(e.BreakAfter) + " tries in a row failed; of the last one, " + why + ".", CreatedBy: e.Worker,
	}})
	switch {
	case err != nil:
		e.Log.WarnContext(a.work.Context(), "a circuit breaker could not be opened", logged(&l.Snapshot, &l.Connection), "err", err)
	case opened:
		e.Metrics.BreakerChanged(metrics.BreakerOpened)
		e.Log.WarnContext(a.work.Context(), "a circuit breaker opened: the jobs of its destination wait for a probe that succeeds",
			"project", l.Project, "destination", l.HoldKey, "connection", cmp.Or(l.Connection.Key, l.Spec.Connection.String()), "pause", stop.ID.String(),
			"why", stop.Note, "next_probe", stop.ProbeAt.UTC().Format(time.RFC3339))
	}
}
