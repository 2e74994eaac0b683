//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store"
)

// storm is one worker that does random work on jobs that others work on at the same time.
// Losing a race is a verdict; any other error fails the test.
type storm struct {
	*fleet
	s     *Store
	r     *rand.Rand
	conns []store.Connection
	pool  *storms
}

// storms are the jobs that the workers know of.
type storms struct {
	mu    sync.Mutex
	snaps []job.Snapshot
}

func (p *storms) put(snaps ...job.Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.snaps = append(p.snaps, snaps...)
}

// some returns up to n jobs, in states that may be over; they stay in the pool.
func (p *storms) some(r *rand.Rand, n int) []job.Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []job.Snapshot
	for range min(n, len(p.snaps)) {
		out = append(out, p.snaps[r.IntN(len(p.snaps))])
	}
	return out
}

// Many workers on three servers, with jobs, objects and contents in common.
func TestFleetStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("left out of the ordinary tests")
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			const workers, steps = 6, 40
			f := newFleetApart(t, 3)
			conns := []store.Connection{
				f.connect(func(c *store.Connection) { c.MaxInFlight = 5 }),
				f.connect(func(c *store.Connection) { c.Class, c.AccountIdentity = job.Observable, "me" }),
				f.connect(func(c *store.Connection) { c.Class, c.AccountIdentity, c.MaxInFlight = job.Observable, "me", 9 }),
				f.connect(func(c *store.Connection) { c.Class, c.MaxPerMinute = job.Opaque, 600 }),
			}
			pool := &storms{}
			var wg sync.WaitGroup
			for i := range workers {
				w := &storm{
					fleet: f, s: f.stores[i%len(f.stores)], conns: conns, pool: pool,
					r: rand.New(rand.NewPCG(seed, uint64(i))),
				}
				wg.Go(func() {
					for range steps {
						if err := w.step(); err != nil {
							t.Errorf("worker %d: %v", i, err)
							return
						}
					}
				})
			}
			wg.Wait()
			f.consistent()
			f.drain()
			f.consistent()
			// Sessions report when they end.
			for _, s := range f.stores {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if n := f.count("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
				t.Errorf("%d deadlocks\n%s", n, deadlocksOf(pgtest.Shared(t).Logs()))
			}
		})
	}
}

// deadlocksOf returns what a server's log says of its deadlocks.
func deadlocksOf(log string) string {
	var b strings.Builder
	for at := strings.Index(log, "deadlock detected"); at >= 0; at = strings.Index(log, "deadlock detected") {
		log = log[at:]
		_, _ = fmt.Fprintln(&b, log[:min(len(log), 4000)])
		log = log[1:]
	}
	return b.String()
}

// races are the verdicts of a lost race.
var races = []error{
	store.ErrStale, store.ErrHeld, store.ErrGated, store.ErrIllegal, store.ErrWindowOver,
}

func (w *storm) step() error {
	w.advance(time.Duration(w.r.IntN(400)) * time.Millisecond)
	switch n := w.r.IntN(10); {
	case n < 2:
		return w.create()
	case n < 5:
		return w.work()
	case n < 6:
		return w.look()
	case n < 7:
		return w.succeed()
	default:
		return w.decide()
	}
}

// succeed ends jobs as most do, some of them as they once were or with a reason, in one
// batch.
func (w *storm) succeed() error {
	var items []store.Change
	for _, s := range w.pool.some(w.r, 1+w.r.IntN(8)) {
		if s.State != job.Sending {
			continue
		}
		d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), job.Outcome{Attempt: s.Attempt, Result: job.ResultSucceeded})
		if err != nil {
			return err
		}
		c := store.Change{Job: s.ID, Version: s.Version, Decision: d}
		if w.r.IntN(4) == 0 {
			c.Reason = "to be judged"
		}
		items = append(items, c)
	}
	out, err := w.s.Apply(context.Background(), items)
	if err != nil {
		return fmt.Errorf("succeed: %w", err)
	}
	for _, a := range out {
		if !isOneOf(a.Err, races...) {
			return fmt.Errorf("succeed: %w", a.Err)
		}
	}
	return nil
}

func (w *storm) create() error {
	items := make([]store.NewJob, 1+w.r.IntN(8))
	if w.r.IntN(2) == 0 {
		items = items[:1]
	}
	for i := range items {
		items[i] = newSpec(w.conns[w.r.IntN(len(w.conns))], func(s *job.Spec) {
			s.HoldKey = fmt.Sprint("key ", w.r.IntN(3))
			s.StartWindow = 24 * time.Hour
			if w.r.IntN(4) == 0 {
				for _, other := range w.pool.some(w.r, 1) {
					s.ReplyTo = other.ID
				}
			}
		})
		if w.r.IntN(3) == 0 {
			items[i].ScheduleTime = time.UnixMicro(w.now.Load()).Add(time.Duration(w.r.IntN(5)) * time.Second)
		}
		if w.r.IntN(2) == 0 {
			items[i].Start = &store.ClaimParams{Worker: "w", Lease: time.Minute, Intent: w.intend}
		}
	}
	out, err := w.s.Create(context.Background(), items)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	for _, c := range out {
		if c.Err != nil {
			return fmt.Errorf("create: %w", c.Err)
		}
		w.pool.put(c.Snapshot)
		if l := c.Started; l != nil {
			w.pool.put(l.Snapshot)
			if l.Armed != nil {
				w.pool.put(l.Armed.Snapshot)
			}
		}
	}
	return nil
}

// work claims, renews and arms, or arms some as it claims them.
func (w *storm) work() error {
	p := store.ClaimParams{Worker: "w", Lease: time.Minute, Limit: 1 + w.r.IntN(10)}
	if w.r.IntN(2) == 0 {
		p.Intent = w.intend
	}
	all, err := w.s.Claim(context.Background(), p)
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	var leases []store.Leased
	for _, l := range all {
		switch {
		case l.Armed == nil:
			leases = append(leases, l)
		case l.Armed.Err != nil || l.Armed.Snapshot.State != job.Sending:
			return fmt.Errorf("armed as it was claimed: %+v", l.Armed)
		default:
			w.pool.put(l.Armed.Snapshot)
		}
	}
	return w.armAll(leases)
}

// intend returns an intent, none, or one that the store refuses.
func (w *storm) intend(l store.Leased) *store.Arm {
	a := intentOf(l)
	switch w.r.IntN(12) {
	case 0:
		return nil
	case 1:
		a.Version++
	case 2:
		a.EffectKey = "no text: \x00"
	}
	return &a
}

func (w *storm) look() error {
	leases, err := w.s.ClaimLooks(context.Background(), store.ClaimParams{Worker: "w", Lease: time.Minute, Limit: 5})
	if err != nil {
		return fmt.Errorf("looks: %w", err)
	}
	if w.r.IntN(2) == 0 {
		return w.armAll(leases)
	}
	for _, l := range leases {
		if err := w.change(l.Snapshot); err != nil {
			return err
		}
	}
	return nil
}

func (w *storm) armAll(leases []store.Leased) error {
	var refs []store.LeaseRef
	var items []store.Arm
	for _, l := range leases {
		w.pool.put(l.Snapshot)
		refs = append(refs, store.LeaseRef{Job: l.ID, Token: l.ClaimToken})
		if w.r.IntN(8) == 0 {
			continue // a worker that died
		}
		items = append(items, intentOf(l, func(a *store.Arm) {
			if l.Class == job.Observable {
				a.Gate, a.AccountIdentity = []byte{byte(w.r.IntN(20))}, "me"
			}
		}))
	}
	if _, err := w.s.Renew(context.Background(), time.Minute, refs); err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	out, err := w.s.Arm(context.Background(), items)
	if err != nil {
		return fmt.Errorf("arm: %w", err)
	}
	for _, a := range out {
		if !isOneOf(a.Err, races...) {
			return fmt.Errorf("arm: %w", a.Err)
		}
		if a.Err == nil {
			w.pool.put(a.Snapshot)
		}
	}
	return nil
}

// decide brings some evidence on jobs as they once were, in one batch.
func (w *storm) decide() error {
	for _, s := range w.pool.some(w.r, 1+w.r.IntN(4)) {
		now, err := w.s.Job(context.Background(), store.Ref{ID: s.ID})
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if w.r.IntN(4) > 0 {
			s = now
		}
		if err := w.change(s); err != nil {
			return err
		}
	}
	return nil
}

func (w *storm) change(s job.Snapshot) error {
	var err error
	if s.State == job.Scheduled && w.r.IntN(3) == 0 {
		err = w.move(s)
	} else {
		_, err = apply(w.s, s, w.evidence(s))
	}
	if isOneOf(err, races...) {
		return nil
	}
	var refused *job.StateError
	if errors.As(err, &refused) || errors.Is(err, job.ErrNoSuchAttempt) {
		return nil
	}
	return fmt.Errorf("apply: %w", err)
}

// move returns a job content with another hold key.
func (w *storm) move(s job.Snapshot) error {
	d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), job.UpdateAsked{})
	if err != nil {
		return err
	}
	out, err := w.s.Apply(context.Background(), []store.Change{{
		Job: s.ID, Version: s.Version, Decision: d,
		Content: &store.Content{Payload: []byte("{}"), HoldKey: fmt.Sprint("key ", w.r.IntN(5))},
	}})
	if err != nil {
		return err
	}
	return out[0].Err
}

// evidence makes up what may be learnt about a job.
func (w *storm) evidence(s job.Snapshot) job.Evidence {
	object := fmt.Sprint("object ", w.r.IntN(12))
	if s.Attempt == 0 || w.r.IntN(6) == 0 {
		return []job.Evidence{
			job.CancelAsked{}, job.RunNowAsked{}, job.RetryAsked{}, job.LookDue{}, job.LeaseOver{}, job.FenceOver{},
			job.RescheduleAsked{At: s.Now.Add(time.Second)},
			job.Deferred{Kind: job.FailRateLimited, RetryAfter: time.Second, Message: "slow down"},
			job.Deferred{Kind: job.FailAuth, CredentialVersion: 7, Message: "of an older credential"},
			job.Resolved{Ruling: job.RuleNotSent, Actor: "ann", Override: true},
		}[w.r.IntN(10)]
	}
	switch w.r.IntN(6) {
	case 0:
		return job.Outcome{Attempt: s.Attempt, Result: job.ResultUnknown}
	case 1:
		return job.Outcome{Attempt: s.Attempt, Result: job.ResultNotSent, Kind: job.FailTransient}
	case 2:
		return job.Looked{Observation: job.Observation{Attempt: s.Attempt, Verdict: job.SawPresent, ExternalID: object}}
	case 3:
		return job.Outcome{Attempt: 1 + w.r.IntN(s.Attempt), Result: job.ResultSucceeded}
	default:
		return job.Outcome{Attempt: 1 + w.r.IntN(s.Attempt), Result: job.ResultSucceeded, ExternalID: object}
	}
}

// drain ends all remaining jobs, and so finds jobs that no claim would ever find.
func (f *fleet) drain() {
	f.Helper()
	s := f.stores[0]
	for range 1000 {
		f.advance(10 * time.Minute)
		leases, err := claimOf(s, store.MaxBatch)
		if err != nil {
			f.Fatal(err)
		}
		for _, l := range leases {
			if _, err := apply(s, l.Snapshot, job.CancelAsked{}); err != nil {
				f.Fatal(err)
			}
		}
		late, err := s.Overdue(context.Background(), 0)
		if err != nil {
			f.Fatal(err)
		}
		for _, snap := range late {
			// As the engine's sweep takes them. A bound on jobs in flight may keep one too long.
			var e job.Evidence = job.WindowOver{}
			switch {
			case snap.State == job.Sending:
				e = job.FenceOver{}
			case snap.State.Runnable() && snap.PredecessorEnd != 0:
				e = job.PredecessorEnded{}
			case snap.State == job.Claimed && snap.StartDeadline.After(snap.Now):
				e = job.LeaseOver{}
			}
			if _, err := apply(s, snap, e); err != nil {
				f.Fatal(err)
			}
		}
		if len(leases)+len(late) == 0 &&
			f.count("SELECT count(*) FROM job_state WHERE state IN (1, 2, 3, 6) AND waits_for IS NULL") == 0 {
			return
		}
	}
	f.Errorf("jobs that no claim finds: %d", f.count("SELECT count(*) FROM job_state WHERE state IN (1, 2, 3, 6) AND waits_for IS NULL"))
}
