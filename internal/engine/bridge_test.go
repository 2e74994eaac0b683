package engine_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/postgres"
)

// bridge makes a real PostgreSQL store usable in a synctest bubble. Its sockets must be
// outside: a goroutine that waits for the network never counts as blocked, so time would
// stand still. A goroutine outside runs each call, over channels that were made outside.
// Time stands still exactly as long as the call takes, and the store reads the bubble's
// clock at the call.
type bridge struct {
	store.Store // nil: a method that is not bridged fails at its first call
	outside     store.Store
	slots       chan slot
	now         atomic.Int64
	// watchers are of the bubble; the store's own hints stay outside.
	watchers watchers
}

// slot is one goroutine outside.
type slot struct {
	run  chan func()
	done chan struct{}
}

// slots is how many calls may be under way: more than any test has goroutines that call
// concurrently, so that no call waits for a slot while another holds one.
const slots = 128

// onPostgres opens a fresh database. It must be called outside the bubble.
func onPostgres(t *testing.T) *bridge {
	t.Helper()
	b := &bridge{slots: make(chan slot, slots), watchers: watchers{all: make(map[chan struct{}]bool)}}
	for range slots {
		s := slot{run: make(chan func()), done: make(chan struct{})}
		go func() {
			for fn := range s.run {
				fn()
				s.done <- struct{}{}
			}
		}()
		b.slots <- s
	}
	s, err := postgres.Open(t.Context(), postgres.Options{
		// Each connection costs the server more than all that most tests do with it.
		URL: pgtest.Reused(t, postgres.Migrate) + "&pool_max_conns=2", Now: func() time.Time { return time.UnixMicro(b.now.Load()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.outside = s
	t.Cleanup(func() {
		for range slots {
			close((<-b.slots).run)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// over runs one call outside. The bubble's contexts cannot go there.
func over[T any](ctx context.Context, b *bridge, call func(context.Context) (T, error)) (v T, err error) {
	if err := ctx.Err(); err != nil {
		return v, err
	}
	b.now.Store(time.Now().UnixMicro())
	s := <-b.slots
	s.run <- func() { v, err = call(context.Background()) }
	<-s.done
	b.slots <- s
	return v, err
}

// wrote is over for calls that change something.
func wrote[T any](ctx context.Context, b *bridge, call func(context.Context) (T, error)) (T, error) {
	v, err := over(ctx, b, call)
	b.watchers.wake()
	return v, err
}

func (b *bridge) ContentArms(ctx context.Context, c store.GatedContent) (int64, error) {
	return over(ctx, b, func(ctx context.Context) (int64, error) { return b.outside.ContentArms(ctx, c) })
}

func (b *bridge) Create(ctx context.Context, items []store.NewJob) ([]store.Created, error) {
	return wrote(ctx, b, func(ctx context.Context) ([]store.Created, error) { return b.outside.Create(ctx, items) })
}

func (b *bridge) Job(ctx context.Context, ref store.Ref) (job.Snapshot, error) {
	return over(ctx, b, func(ctx context.Context) (job.Snapshot, error) { return b.outside.Job(ctx, ref) })
}

func (b *bridge) Connection(ctx context.Context, ref store.Ref) (store.Connection, error) {
	return over(ctx, b, func(ctx context.Context) (store.Connection, error) { return b.outside.Connection(ctx, ref) })
}

func (b *bridge) Attempts(ctx context.Context, ref store.Ref, after, limit int) ([]job.Attempt, error) {
	return over(ctx, b, func(ctx context.Context) ([]job.Attempt, error) { return b.outside.Attempts(ctx, ref, after, limit) })
}

func (b *bridge) Observations(ctx context.Context, ref store.Ref, before, limit int) ([]job.Observation, error) {
	return over(ctx, b, func(ctx context.Context) ([]job.Observation, error) {
		return b.outside.Observations(ctx, ref, before, limit)
	})
}

func (b *bridge) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	return over(ctx, b, func(ctx context.Context) (store.EventPage, error) { return b.outside.Events(ctx, q) })
}

func (b *bridge) List(ctx context.Context, q store.JobQuery) (store.JobPage, error) {
	return over(ctx, b, func(ctx context.Context) (store.JobPage, error) { return b.outside.List(ctx, q) })
}

func (b *bridge) Hold(ctx context.Context, connection job.ID, holdKey string) (store.Hold, error) {
	return over(ctx, b, func(ctx context.Context) (store.Hold, error) { return b.outside.Hold(ctx, connection, holdKey) })
}

func (b *bridge) CreateStop(ctx context.Context, n store.NewStop) (stop store.Stop, created bool, err error) {
	stop, err = wrote(ctx, b, func(ctx context.Context) (s store.Stop, err error) {
		s, created, err = b.outside.CreateStop(ctx, n)
		return s, err
	})
	return stop, created, err
}

func (b *bridge) StopsOver(ctx context.Context, targets []store.StopTarget) ([]*store.Stop, error) {
	return over(ctx, b, func(ctx context.Context) ([]*store.Stop, error) { return b.outside.StopsOver(ctx, targets) })
}

func (b *bridge) EndStop(ctx context.Context, project string, id job.ID, actor string) (store.Stop, error) {
	return wrote(ctx, b, func(ctx context.Context) (store.Stop, error) { return b.outside.EndStop(ctx, project, id, actor) })
}

func (b *bridge) TakeProbe(ctx context.Context, p store.Probe) (bool, error) {
	return wrote(ctx, b, func(ctx context.Context) (bool, error) { return b.outside.TakeProbe(ctx, p) })
}

func (b *bridge) EndProbe(ctx context.Context, r store.ProbeResult) (stop store.Stop, counts bool, err error) {
	stop, err = wrote(ctx, b, func(ctx context.Context) (s store.Stop, err error) {
		s, counts, err = b.outside.EndProbe(ctx, r)
		return s, err
	})
	return stop, counts, err
}

func (b *bridge) Quarantine(ctx context.Context, reason string) error {
	_, err := wrote(ctx, b, func(ctx context.Context) (struct{}, error) { return struct{}{}, b.outside.Quarantine(ctx, reason) })
	return err
}

func (b *bridge) Release(ctx context.Context) error {
	_, err := wrote(ctx, b, func(ctx context.Context) (struct{}, error) { return struct{}{}, b.outside.Release(ctx) })
	return err
}

func (b *bridge) Schedule(ctx context.Context, ref store.Ref) (store.Schedule, error) {
	return over(ctx, b, func(ctx context.Context) (store.Schedule, error) { return b.outside.Schedule(ctx, ref) })
}

func (b *bridge) CreateSchedule(ctx context.Context, n store.NewSchedule) (s store.Schedule, created bool, err error) {
	s, err = wrote(ctx, b, func(ctx context.Context) (s store.Schedule, err error) {
		s, created, err = b.outside.CreateSchedule(ctx, n)
		return s, err
	})
	return s, created, err
}

func (b *bridge) Firings(ctx context.Context, q store.FiringQuery) (store.FiringPage, error) {
	return over(ctx, b, func(ctx context.Context) (store.FiringPage, error) { return b.outside.Firings(ctx, q) })
}

func (b *bridge) Fire(ctx context.Context, p store.FireParams) (fired []store.Fired, more bool, err error) {
	fired, err = wrote(ctx, b, func(ctx context.Context) (fired []store.Fired, err error) {
		fired, more, err = b.outside.Fire(ctx, p)
		return fired, err
	})
	return fired, more, err
}

func (b *bridge) NextFiring(ctx context.Context, limit time.Duration, except []job.ID) (time.Duration, error) {
	return over(ctx, b, func(ctx context.Context) (time.Duration, error) { return b.outside.NextFiring(ctx, limit, except) })
}

func (b *bridge) Claim(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	return over(ctx, b, func(ctx context.Context) ([]store.Leased, error) { return b.outside.Claim(ctx, p) })
}

func (b *bridge) ClaimLooks(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	return over(ctx, b, func(ctx context.Context) ([]store.Leased, error) { return b.outside.ClaimLooks(ctx, p) })
}

func (b *bridge) Renew(ctx context.Context, lease time.Duration, refs []store.LeaseRef) ([]bool, error) {
	return over(ctx, b, func(ctx context.Context) ([]bool, error) { return b.outside.Renew(ctx, lease, refs) })
}

func (b *bridge) Arm(ctx context.Context, items []store.Arm) ([]store.Armed, error) {
	return wrote(ctx, b, func(ctx context.Context) ([]store.Armed, error) { return b.outside.Arm(ctx, items) })
}

func (b *bridge) ArmedBy(ctx context.Context, id, token job.ID) (store.Armed, error) {
	return over(ctx, b, func(ctx context.Context) (store.Armed, error) { return b.outside.ArmedBy(ctx, id, token) })
}

func (b *bridge) SaveHandle(ctx context.Context, id job.ID, attempt int, handle string) error {
	_, err := over(ctx, b, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, b.outside.SaveHandle(ctx, id, attempt, handle)
	})
	return err
}

func (b *bridge) Apply(ctx context.Context, items []store.Change) ([]store.Applied, error) {
	return wrote(ctx, b, func(ctx context.Context) ([]store.Applied, error) { return b.outside.Apply(ctx, items) })
}

func (b *bridge) Enlist(ctx context.Context, p store.Process) error {
	_, err := over(ctx, b, func(ctx context.Context) (struct{}, error) { return struct{}{}, b.outside.Enlist(ctx, p) })
	return err
}

func (b *bridge) Orphans(ctx context.Context, after store.Place, limit int) ([]store.Leased, error) {
	return over(ctx, b, func(ctx context.Context) ([]store.Leased, error) { return b.outside.Orphans(ctx, after, limit) })
}

func (b *bridge) Overdue(ctx context.Context, limit int) ([]job.Snapshot, error) {
	return over(ctx, b, func(ctx context.Context) ([]job.Snapshot, error) { return b.outside.Overdue(ctx, limit) })
}

func (b *bridge) Owners(ctx context.Context, id job.ID, attempt int, ids []string) (map[string]job.ID, error) {
	return over(ctx, b, func(ctx context.Context) (map[string]job.ID, error) { return b.outside.Owners(ctx, id, attempt, ids) })
}

func (b *bridge) NextDue(ctx context.Context, limit time.Duration) (time.Duration, error) {
	return over(ctx, b, func(ctx context.Context) (time.Duration, error) { return b.outside.NextDue(ctx, limit) })
}

func (b *bridge) Credential(ctx context.Context, id job.ID) (store.Sealed, error) {
	return over(ctx, b, func(ctx context.Context) (store.Sealed, error) { return b.outside.Credential(ctx, id) })
}

func (b *bridge) CreateConnection(ctx context.Context, c store.NewConnection) (store.Connection, bool, error) {
	type result struct {
		conn    store.Connection
		created bool
	}
	r, err := wrote(ctx, b, func(ctx context.Context) (result, error) {
		conn, created, err := b.outside.CreateConnection(ctx, c)
		return result{conn, created}, err
	})
	return r.conn, r.created, err
}

func (b *bridge) ChangeConnection(ctx context.Context, c store.ConnectionChange) (store.Connection, error) {
	return wrote(ctx, b, func(ctx context.Context) (store.Connection, error) { return b.outside.ChangeConnection(ctx, c) })
}

func (b *bridge) Watch(store.WatchKind) (<-chan struct{}, func()) { return b.watchers.add() }

// Close leaves the store open: it is closed outside.
func (b *bridge) Close() error { return nil }

// watchers send a hint to every watcher after each write.
type watchers struct {
	mu  sync.Mutex
	all map[chan struct{}]bool
}

func (w *watchers) add() (<-chan struct{}, func()) {
	hint := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all[hint] = true
	return hint, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, hint)
	}
}

func (w *watchers) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for hint := range w.all {
		select {
		case hint <- struct{}{}:
		default:
		}
	}
}
