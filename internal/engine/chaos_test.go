package engine_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// dice is a source of faults that can be switched off.
type dice struct {
	mu  sync.Mutex
	r   *rand.Rand
	off bool
}

func (d *dice) one(in int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.off && d.r.IntN(in) == 0
}

func (d *dice) upTo(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(max(1, n))
}

// faulty is a store that fails before a write, or loses its answer after it.
type faulty struct {
	engine.Store
	d *dice
}

func flaky[T any](d *dice, call func() (T, error)) (T, error) {
	var zero T
	switch {
	case d.one(12):
		return zero, store.ErrUnavailable
	case d.one(12):
		if _, err := call(); err != nil {
			return zero, err
		}
		return zero, store.ErrUnconfirmed
	default:
		return call()
	}
}

func (f *faulty) Claim(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	return flaky(f.d, func() ([]store.Leased, error) { return f.Store.Claim(ctx, p) })
}

func (f *faulty) ClaimLooks(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	return flaky(f.d, func() ([]store.Leased, error) { return f.Store.ClaimLooks(ctx, p) })
}

func (f *faulty) Arm(ctx context.Context, items []store.Arm) ([]store.Armed, error) {
	return flaky(f.d, func() ([]store.Armed, error) { return f.Store.Arm(ctx, items) })
}

func (f *faulty) ArmedBy(ctx context.Context, id, token job.ID) (store.Armed, error) {
	if f.d.one(4) {
		return store.Armed{}, store.ErrUnavailable
	}
	return f.Store.ArmedBy(ctx, id, token)
}

func (f *faulty) Apply(ctx context.Context, items []store.Change) ([]store.Applied, error) {
	return flaky(f.d, func() ([]store.Applied, error) { return f.Store.Apply(ctx, items) })
}

func (f *faulty) Job(ctx context.Context, ref store.Ref) (job.Snapshot, error) {
	return flaky(f.d, func() (job.Snapshot, error) { return f.Store.Job(ctx, ref) })
}

func (f *faulty) Renew(ctx context.Context, lease time.Duration, refs []store.LeaseRef) ([]bool, error) {
	return flaky(f.d, func() ([]bool, error) { return f.Store.Renew(ctx, lease, refs) })
}

func (f *faulty) Owners(ctx context.Context, id job.ID, n int, ids []string) (map[string]job.ID, error) {
	if f.d.one(12) {
		return nil, store.ErrUnavailable
	}
	return f.Store.Owners(ctx, id, n, ids)
}

// misbehave scripts a platform that loses requests and answers, answers late,
// refuses, and shows what was written up to 8 s late, but answers looks truthfully.
func (w *world) misbehave(d *dice) {
	pause := func(most time.Duration) { time.Sleep(time.Duration(d.upTo(int(most)))) }
	w.platform.open = func(int) error {
		pause(5 * time.Second)
		switch {
		case d.one(10):
			return &connector.Refusal{Kind: job.FailTransient, Msg: "refused"}
		case d.one(20):
			pause(3 * time.Minute)
		case d.one(30):
			panic("open")
		}
		return nil
	}
	w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
		switch {
		case d.one(8): // lost on its way, or acted on and not answered, before the fence
			if d.one(2) {
				go func() {
					pause(55 * time.Second)
					w.platform.commit(c.EffectKey)
				}()
			}
			pause(time.Until(c.AnswerBy))
			return unknown("reset")
		case d.one(8):
			return rejected([]job.FailureKind{job.FailTransient, job.FailRateLimited, job.FailPermanent}[d.upTo(3)], 429)
		case d.one(10):
			return job.Outcome{Result: job.ResultNotSent, Kind: job.FailTransient, Message: "dead connection"}
		case d.one(15): // acted on, and the process stood still
			out := w.platform.confirm(c)
			pause(4 * time.Minute)
			return out
		case d.one(20):
			w.platform.commit(c.EffectKey)
			panic("publish")
		}
		return w.platform.confirm(c)
	}
	w.platform.line.lag = func() time.Duration { return time.Duration(d.upTo(int(8 * time.Second))) }
	w.platform.observe = func(l connector.Look) job.Observation {
		pause(10 * time.Second)
		if d.one(4) {
			return job.Observation{Verdict: job.SawInconclusive}
		}
		return w.platform.look(context.Background(), l)
	}
}

// How many worlds of each kind are tried, and the seed of the first. Each world's
// name ends in its seed.
var (
	chaosSeeds = flag.Uint64("chaos.seeds", 1, "worlds of each kind")
	chaosFirst = flag.Uint64("chaos.first", 0, "seed of the first world")
)

// Whatever faults the store, the platform and the processes had: once the faults are over,
// each job comes to an end, and the end is true.
func TestEndsAreTrueWhateverHappens(t *testing.T) {
	for _, c := range []struct {
		name  string
		class job.Class
		twins bool // all jobs post the same
	}{
		{"KEYED", job.Keyed, false},
		{"OBSERVABLE", job.Observable, false},
		{"OBSERVABLE twins", job.Observable, true},
		{"OPAQUE", job.Opaque, false},
	} {
		for seed := *chaosFirst; seed < *chaosFirst+*chaosSeeds; seed++ {
			t.Run(fmt.Sprintf("%s/%d", c.name, seed), func(t *testing.T) {
				d := &dice{r: rand.New(rand.NewPCG(seed, uint64(c.class)))}
				in(t, func(t *testing.T, w *world) { w.chaos(d, c.twins) }, class(c.class),
					through(func(s engine.Store) engine.Store { return &faulty{s, d} }))
			})
		}
	}
}

func (w *world) chaos(d *dice, twins bool) {
	w.misbehave(d)
	w.config.Senders, w.config.Lookers = 8, 2
	var ids []job.ID
	for i := range 20 {
		text, within := "the same", 5*time.Minute // twins come close together
		if !twins {
			text, within = fmt.Sprint("text ", i), time.Hour
		}
		ids = append(ids, w.submit(fmt.Sprint("job ", i), at(time.Duration(d.upTo(int(within)))), says(text)))
	}
	for range 6 {
		w.start()
		w.start()
		w.pass(time.Duration(d.upTo(int(20 * time.Minute))))
		if id := ids[d.upTo(len(ids))]; d.one(2) {
			w.cancel(id)
		}
		w.stop()
	}
	d.mu.Lock()
	d.off = true
	d.mu.Unlock()
	w.start()
	w.pass(6 * time.Hour)
	if w.conn.Class == job.Observable {
		w.postsAreTrue(ids)
	}
	for _, id := range ids {
		w.isTold(id)
		if !twins {
			w.isTrue(id)
		}
	}
}

// postsAreTrue compares all jobs with all posts: each post settles one job at
// most, and only jobs that a person is asked about have posts that settle none.
// Twins may settle each other's posts: the posts look the same.
func (w *world) postsAreTrue(ids []job.ID) {
	w.t.Helper()
	owner := map[string]job.ID{}
	asked, again := 0, 0
	for _, id := range ids {
		again += max(0, w.job(id).Attempt-1)
		switch s := w.job(id); s.State {
		case job.NeedsResolution:
			asked++
		case job.Succeeded:
			post := s.Effect.ExternalID
			if other, taken := owner[post]; taken || w.platform.postOf(post) == nil {
				w.t.Errorf("post %q settles two jobs, or does not exist\n%s\n%s", post, w.story(id), w.story(other))
			}
			owner[post] = id
		}
	}
	if free := w.platform.total() - len(owner); free > asked {
		w.t.Errorf("%d posts settle no job, and %d jobs are a person's question", free, asked)
	}
	if asked > 3 { // looks are answered truthfully, so hardly any outcome is in doubt
		w.t.Errorf("%d jobs are a person's question", asked)
	}
	w.t.Logf("%d posts of %d jobs, %d later attempts, %d questions", w.platform.total(), len(ids), again, asked)
}

func (w *world) cancel(id job.ID) {
	s := w.job(id)
	d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), job.CancelAsked{})
	if err != nil || d.Action != job.ActWrite {
		return
	}
	if _, err := w.store.Apply(w.t.Context(), []store.Change{{Job: id, Version: s.Version, Decision: d, Actor: "test"}}); err != nil {
		w.t.Error(err)
	}
}

// isTrue compares a job's end with the platform's own count.
func (w *world) isTrue(id job.ID) {
	w.t.Helper()
	s := w.job(id)
	n := w.effectsOf(id)
	ok := n <= 1
	switch s.State {
	case job.Succeeded:
		ok = n == 1
	case job.Failed, job.Canceled, job.Expired:
		ok = n == 0
	case job.NeedsResolution:
	default:
		ok = false
	}
	if !ok {
		w.t.Errorf("%s with %d effects\n%s", s.State, n, w.story(id))
	}
}

// isTold checks a job's history by the rules of histories.
func (w *world) isTold(id job.ID) {
	w.t.Helper()
	if s := w.job(id); !s.State.Terminal() && s.State != job.NeedsResolution {
		w.t.Errorf("%s at the end\n%s", s.State, w.story(id))
	}
	if n := len(w.events(id)); n > 100 {
		w.t.Errorf("%d events", n)
	}
	for i, e := range w.events(id) {
		if e.Sequence != int64(i+1) {
			w.t.Errorf("event %d has sequence %d", i+1, e.Sequence)
		}
	}
}
