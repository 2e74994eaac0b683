// Package memory keeps a store in memory. It passes the conformance suite and serves
// simulations: nothing in it is durable, and every run can be repeated exactly.
//
// Rules of this package:
//
//   - No goroutines, no timers, no I/O. One mutex, held for the length of a call and never
//     during a wait.
//   - The same calls in the same order, with the same clock and the same ids, have the same
//     results: nothing depends on the order of a map. Jobs due at one time are in the order
//     of their ids.
//   - A call judges before it writes. When a guard refuses, nothing was changed, so there is
//     nothing to undo.
//   - Each guard is one condition in one place: a harness can remove it, and must then detect
//     what it guards against.
//
// Time is what store.Clock believes when a call begins, in whole microseconds, and all that a
// call does happens at that one time. The clock may jump: then the believed time continues by
// Options.Elapsed, as that of an SQLite file continues by the machine's boot clock.
package memory

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Options configure the sources of a store's time and ids. One goroutine at a time calls the
// functions, and they must not call the store.
type Options struct {
	// Now is the clock, which may be set; nil means time.Now.
	Now func() time.Time
	// Elapsed is a clock that cannot be set; nil means the time between two readings of Now,
	// which is then always right.
	Elapsed func() time.Duration
	// Clock configures how a clock that changes is treated. Its Read replaces both.
	Clock store.ClockOptions
	// NewID makes the tokens of leases, and the store's id; nil means random ids.
	NewID func() job.ID
	// MaxInFlight is the bound for connections that state none; 0 means rules.DefaultMaxInFlight.
	MaxInFlight int
}

// Store is one store in memory. It implements store.Store.
type Store struct {
	opts  Options
	hints store.Hints

	mu     sync.Mutex
	closed bool
	clock  *store.Clock
	saved  store.SavedClock
	steps  int
	// moved is by how much all steps have moved what is stored.
	moved time.Duration
	meta  store.Meta
	// released is when the store was last released from a quarantine.
	released time.Time

	jobs map[job.ID]*record
	// all has the jobs in the order of their creation.
	all []*record
	// active has the jobs with something due, by id.
	active []*record
	keys   map[key]*record
	// waiting has the jobs that wait for another one, by that one's id.
	waiting map[job.ID][]*record
	// tokens has the tokens of all arms.
	tokens map[job.ID]bool
	gates  map[openContent]job.ID
	// contentArms are the arms of gated contents, by rules.ContentBucket.
	contentArms map[int64]int64
	// cooling has the last arms of the connections and schedules with a cool-down.
	cooling map[job.ID]store.LastArm
	// effectKeys has the digests of callers' own effect keys.
	effectKeys map[[32]byte]bool
	owners     map[object]job.ID
	log        []job.Event
	// lags are the delays of jobs' first arms after their times at that moment. They outlive
	// the job, as the log does.
	lags map[job.ID]time.Duration
	// logFrom is where the log begins: events up to there are no longer returned.
	logFrom int64
	// rolled is the position up to which the log is counted in rollups, and rolledAt the time
	// of the last counted event.
	rolled   int64
	rolledAt time.Time
	rollups  map[store.RollKey]int64
	// These outlive removed jobs.
	removedKeys    map[key]removedKey
	removedEffects map[job.ID]*Effect
	// erased has the records of jobs that were erased on request.
	erased map[job.ID]store.ErasedJob
	// journal names the job of each write.
	journal []job.ID

	conns     map[job.ID]*connection
	connOrder []*connection
	connKeys  map[key]*connection
	projects  map[string]*store.Project
	schedules map[job.ID]*schedule
	// scheduleKeys has the keys that are bound to schedules.
	scheduleKeys  map[key]*schedule
	subscriptions map[job.ID]*subscription
	noticePlace   noticePlace
	apiKeys       map[string]*store.APIKey
	stops         []store.Stop
	rows          map[runnableKey]*runnableRow
	logins        map[string]store.Login
	renewals      map[job.ID]store.RenewalRow
	plans         map[job.ID]*plan
	// enlisted has the live workers, and processes what was said of them and of those before.
	enlisted  map[string]bool
	processes map[string]process
	turn      int64
}

var _ store.Store = (*Store)(nil)

// key is an idempotency key of a project.
type key struct{ project, key string }

// Open makes an empty store.
func Open(opts Options) *Store {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Elapsed == nil {
		start := opts.Now()
		opts.Elapsed = func() time.Duration { return opts.Now().Sub(start) }
	}
	if opts.Clock.Read == nil {
		opts.Clock.Read = func() store.ClockReading {
			return store.ClockReading{Wall: opts.Now().UnixMicro(), Boot: opts.Elapsed()}
		}
	}
	if opts.NewID == nil {
		opts.NewID = randomID
	}
	if opts.MaxInFlight <= 0 {
		opts.MaxInFlight = rules.DefaultMaxInFlight
	}
	s := &Store{
		opts: opts, jobs: make(map[job.ID]*record), keys: make(map[key]*record),
		waiting: make(map[job.ID][]*record), tokens: make(map[job.ID]bool),
		gates: make(map[openContent]job.ID), contentArms: make(map[int64]int64), cooling: make(map[job.ID]store.LastArm), effectKeys: make(map[[32]byte]bool), owners: make(map[object]job.ID),
		subscriptions: make(map[job.ID]*subscription), schedules: make(map[job.ID]*schedule), scheduleKeys: make(map[key]*schedule),
		conns: make(map[job.ID]*connection), connKeys: make(map[key]*connection),
		projects: map[string]*store.Project{"default": {ID: "default"}}, apiKeys: make(map[string]*store.APIKey),
		enlisted: make(map[string]bool), processes: make(map[string]process), logins: make(map[string]store.Login), renewals: make(map[job.ID]store.RenewalRow),
		rows: make(map[runnableKey]*runnableRow), removedKeys: make(map[key]removedKey), removedEffects: make(map[job.ID]*Effect),
		lags:    make(map[job.ID]time.Duration),
		erased:  make(map[job.ID]store.ErasedJob),
		rollups: make(map[store.RollKey]int64),
		plans:   make(map[job.ID]*plan),
	}
	s.clock = store.NewClock(opts.Clock, store.Timeline{})
	s.projects["default"].Created = s.present()
	s.meta = store.Meta{
		StoreID: opts.NewID(), Engine: "memory", Created: s.present(), Incarnation: 1, Identity: "this process",
		Namespace: "memory",
	}
	return s
}

func randomID() job.ID {
	var id job.ID
	rand.Read(id[:])
	return id
}

// present returns the time that counts as now.
func (s *Store) present() time.Time {
	return time.UnixMicro(s.moment().Now).UTC()
}

// tx is one call in progress: the store under its lock, and the one time that counts as now
// for the whole call.
type tx struct {
	*Store
	now time.Time
	// suspect describes a clock that is not believed.
	suspect store.SuspectClock
	hint    store.WatchKinds
}

// call runs fn as one transaction.
func call[T any](ctx context.Context, s *Store, name string, fn func(*tx) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, fmt.Errorf("%s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return zero, fmt.Errorf("%s: %w: closed", name, store.ErrUnavailable)
	}
	m := s.moment()
	t := &tx{Store: s, now: time.UnixMicro(m.Now).UTC(), suspect: m.Suspect}
	v, err := fn(t)
	if err != nil {
		return zero, fmt.Errorf("%s: %w", name, err)
	}
	s.hints.Notify(t.hint)
	return v, nil
}

// batch is call for a list of items.
func batch[T, V any](ctx context.Context, s *Store, name string, items []T, fn func(*tx, T) V) ([]V, error) {
	return call(ctx, s, name, func(t *tx) ([]V, error) {
		if len(items) > store.MaxBatch {
			return nil, fmt.Errorf("%w: %d items, at most %d", store.ErrIllegal, len(items), store.MaxBatch)
		}
		out := make([]V, len(items))
		for i, item := range items {
			out[i] = fn(t, item)
		}
		return out, nil
	})
}

// Watch implements store.Store.
func (s *Store) Watch(kind store.WatchKind) (<-chan struct{}, func()) { return s.hints.Watch(kind) }

// Close implements store.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
