package engine_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/litetest"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlite"
)

// world is a real engine over a real store, SQLite unless a test says otherwise,
// and a scripted platform, in a synctest bubble: hours pass in milliseconds, and
// nothing sleeps for real.
type world struct {
	room     int // how many jobs of the connection may be under way; 0: as by default
	t        *testing.T
	path     string
	store    store.Store
	platform *platform
	conn     store.Connection
	config   engine.Config
	running  []*running
	// punctual makes the engine get the store's own hints, and no more.
	punctual bool
}

type running struct {
	stop context.CancelFunc
	done chan error
}

type option func(*world)

// class makes the world's connection of the given class.
func class(c job.Class) option { return func(w *world) { w.platform.class = c } }

// punctual is for tests of when an engine asks its store for work. They take minutes.
func punctual(w *world) { w.punctual = true }

// through puts a store of the test's own before the real one.
func through(wrap func(engine.Store) engine.Store) option {
	return func(w *world) { w.config.Store = wrap(w.config.Store) }
}

func newWorld(t *testing.T, opts ...option) *world {
	t.Helper()
	path := litetest.New(t)
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Now: time.Now, WatchEvery: time.Hour, Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	at := func(w *world) { w.path = path }
	return worldOver(t, s, append([]option{at}, opts...)...)
}

// worldOver makes a world over a store.
func worldOver(t *testing.T, s store.Store, opts ...option) *world {
	t.Helper()
	p := &platform{class: job.Keyed, effects: map[string]int{}}
	registry, err := connector.NewRegistry(p)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: s, platform: p, config: engine.Config{
		Store: s, Connectors: registry, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Worker: "test", NewID: newID, Clock: wallClock{}, Poll: store.HintAhead,
		Open: func(store.Connection, store.Sealed) (connector.Credential, error) { return connector.Credential{}, nil },
	}}
	for _, o := range opts {
		o(w)
	}
	if !w.punctual {
		w.config.Store = newPatient(w.config.Store)
	}
	w.conn, _, err = w.store.CreateConnection(t.Context(), store.NewConnection{
		Key: "connection",
		Connection: store.Connection{
			ID: newID(), Project: "default", Connector: "scripted", Class: p.class, KeyWindow: 24 * time.Hour, MaxInFlight: w.room,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// in runs a test in a bubble and closes everything at the end.
func in(t *testing.T, test func(t *testing.T, w *world), opts ...option) {
	t.Helper()
	if os.Getenv("FIREONCE_TEST_ENGINE") == "postgres" {
		t.Skip("this test is on SQLite: the other run has it")
	}
	bubble(t, newWorld, test, opts...)
}

// onBoth runs a test on each engine. `make test-postgres` runs those on PostgreSQL, where each takes
// many times as long.
func onBoth(t *testing.T, test func(t *testing.T, w *world), opts ...option) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { in(t, test, opts...) })
	t.Run("postgres", func(t *testing.T) {
		if testing.Short() {
			t.Skip("left out of the ordinary tests")
		}
		b := onPostgres(t)
		bubble(t, func(t *testing.T, opts ...option) *world { return worldOver(t, b, opts...) }, test, opts...)
	})
}

func bubble(t *testing.T, open func(*testing.T, ...option) *world, test func(t *testing.T, w *world), opts ...option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := open(t, opts...)
		defer func() {
			w.stop()
			if err := w.store.Close(); err != nil {
				t.Error(err)
			}
		}()
		test(t, w)
	})
}

// start runs an engine; more than one may run.
func (w *world) start() {
	w.t.Helper()
	e, err := engine.New(w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- e.Run(ctx) }()
	w.running = append(w.running, r)
}

// stop shuts every engine down and waits.
func (w *world) stop() []error {
	w.platform.release()
	var errs []error
	for _, r := range w.running {
		r.stop()
		errs = append(errs, <-r.done)
	}
	w.running = nil
	return errs
}

type change func(*store.NewJob)

func at(d time.Duration) change {
	return func(n *store.NewJob) { n.ScheduleTime = job.Micros(time.Now().Add(d)) }
}
func policy(p job.Delivery) change { return func(n *store.NewJob) { n.Spec.Delivery = p } }

// trying sets how long a job is tried.
func trying(d time.Duration) change { return func(n *store.NewJob) { n.Spec.Retry.KeepTrying = d } }

func window(d time.Duration) change {
	return func(n *store.NewJob) { n.Spec.StartWindow = d }
}

// submit stores a job.
func (w *world) submit(key string, changes ...change) job.ID {
	w.t.Helper()
	n := store.NewJob{Class: w.conn.Class, Actor: "test", Spec: job.Spec{
		ID: newID(), Project: w.conn.Project, Key: key, Connection: w.conn.ID, HoldKey: "account",
		PayloadKind: "scripted", Payload: []byte("hello"), StartWindow: job.DefaultWindow, Delivery: job.OnceOrAsk,
	}}
	for _, c := range changes {
		c(&n)
	}
	created, err := w.store.Create(w.t.Context(), []store.NewJob{n})
	if err != nil {
		w.t.Fatal(err)
	}
	if created[0].Err != nil {
		w.t.Fatal(created[0].Err)
	}
	return created[0].Snapshot.ID
}

// firstKey is the effect key of a job's first round.
func (w *world) firstKey(id job.ID) string {
	w.t.Helper()
	s := w.job(id)
	return job.EffectKey("", s.Project, s.Key, 1)
}

func (w *world) job(id job.ID) job.Snapshot {
	w.t.Helper()
	s, err := w.store.Job(w.t.Context(), store.Ref{Project: "default", ID: id})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// until lets time pass until the job is in the state, at most limit.
func (w *world) until(id job.ID, want job.State, limit time.Duration) job.Snapshot {
	w.t.Helper()
	end := time.Now().Add(limit)
	hint, stop := w.store.Watch(store.WatchEvents)
	defer stop()
	for {
		s := w.job(id)
		if s.State == want {
			return s
		}
		left := time.Until(end)
		if left <= 0 {
			w.t.Fatalf("after %v the job is %s, not %s\n%s", limit, s.State, want, w.story(id))
		}
		timer := time.NewTimer(left)
		select {
		case <-hint:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	time.Sleep(d) // the bubble's time
	synctest.Wait()
}

func (w *world) events(id job.ID) []job.Event {
	w.t.Helper()
	page, err := w.store.Events(w.t.Context(), store.EventQuery{Project: "default", Job: id, Limit: store.MaxBatch})
	if err != nil {
		w.t.Fatal(err)
	}
	return page.Events
}

// count counts the job's events of one cause.
func (w *world) count(id job.ID, cause job.Cause) int {
	n := 0
	for _, e := range w.events(id) {
		if e.Cause == cause {
			n++
		}
	}
	return n
}

// story is the job's history, for failures.
func (w *world) story(id job.ID) string {
	out := ""
	for _, e := range w.events(id) {
		out += fmt.Sprintf("%s %3d %s -> %s %s attempt %d %s\n",
			e.At.Format("15:04:05.000"), e.Sequence, e.From, e.To, e.Cause, e.Attempt, e.Detail)
	}
	return out
}

func (w *world) attempts(id job.ID) []job.Attempt {
	w.t.Helper()
	a, err := w.store.Attempts(w.t.Context(), store.Ref{Project: "default", ID: id}, 0, job.MaxAttempts)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) apply(s job.Snapshot, d job.Decision) {
	w.t.Helper()
	applied, err := w.store.Apply(w.t.Context(), []store.Change{{Job: s.ID, Version: s.Version, Decision: d, Actor: "test"}})
	if err != nil || applied[0].Err != nil {
		w.t.Fatal(err, applied)
	}
}

func newID() job.ID { return job.ID(uuid.Must(uuid.NewV7())) }

// wallClock is a clock whose three readings agree.
type wallClock struct{}

func (wallClock) Read() engine.Reading {
	now := time.Now()
	return engine.Reading{Time: now, Boot: now.Sub(time.Unix(0, 0))}
}

// platform is a connector whose every step a test scripts. It counts requests
// and effects itself: the oracle is not the store.
type platform struct {
	// probe, when set, makes a platform that has to be asked what it can do.
	probe func() error
	// settle, when set, is why the settle times are not known.
	settle func() error
	// told, when set, is what the connector says of the platform now.
	told   func() job.Traits
	class  job.Class
	window time.Duration // how long it remembers keys; 0: a day

	mu       sync.Mutex
	requests int
	effects  map[string]int
	bytes    map[string]string // first request's bytes per key
	replies  []string          // what each prepared request replies to
	line     timeline
	opened   int
	closed   int
	held     chan struct{}

	// publish answers request number n (from 1); nil: success.
	publish func(n int, c connector.Commit) job.Outcome
	open    func(n int) error
	idle    func() bool // whether a connection is idle; nil: none ever is
	prepare func() error
	observe func(l connector.Look) job.Observation
	mark    func() (string, error)
	// backdate makes an older watermark of one; nil: one from before everything.
	backdate func(mark string, by time.Duration) (string, error)
	poll     func(handle string) job.Outcome
}

func (p *platform) Describe() connector.Description {
	return connector.Description{Name: "scripted", Payloads: []string{"scripted"}, Classes: []job.Class{p.class}}
}

func (p *platform) traits() job.Traits {
	if p.told != nil {
		return p.told()
	}
	t := job.Traits{Class: p.class}
	switch p.class {
	case job.Keyed:
		if t.KeyWindow = p.window; p.window == 0 {
			t.KeyWindow = 24 * time.Hour
		}
	case job.Observable:
		t.ReadLag, t.Negatives, t.Spacing = 10*time.Second, 2, time.Minute
	}
	return t
}

func (p *platform) Traits([]byte) (job.Traits, error) {
	if p.settle != nil {
		if err := p.settle(); err != nil {
			return job.Traits{}, err
		}
	}
	return p.traits(), nil
}

func (p *platform) Check([]byte, connector.Credential) (connector.Capability, error) {
	if p.probe != nil { // until it is asked, it counts as one that does not dedupe
		unsure := &platform{class: job.Observable}
		return connector.Capability{Traits: unsure.traits(), Unsure: true, Identity: "me"}, nil
	}
	return connector.Capability{Traits: p.traits(), Identity: "me"}, nil
}

func (p *platform) Probe(context.Context, connector.Opening) (job.Traits, error) {
	if err := p.probe(); err != nil {
		return job.Traits{}, err
	}
	return p.traits(), nil
}

func (p *platform) Prepare(r connector.Request) (connector.Prepared, error) {
	if p.prepare != nil {
		if err := p.prepare(); err != nil {
			return connector.Prepared{}, err
		}
	}
	text := append([]byte(nil), r.Payload...)
	if r.ReplyTo != "" {
		text = append(text, " to "+r.ReplyTo...)
	}
	out := connector.Prepared{HoldKey: "account", Frozen: append([]byte(r.EffectKey+":"), text...)}
	if p.class == job.Observable {
		out.Gate = digest(text)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replies = append(p.replies, r.ReplyTo)
	return out, nil
}

func (p *platform) Open(_ context.Context, o connector.Opening) (connector.Session, error) {
	p.mu.Lock()
	p.opened++
	n := p.opened
	p.mu.Unlock()
	if p.open != nil {
		if err := p.open(n); err != nil {
			return nil, err
		}
	}
	return &session{p: p, bytes: string(o.Prepared.Frozen)}, nil
}

func (p *platform) HasIdle() bool { return p.idle != nil && p.idle() }

func (p *platform) OpenIdle(o connector.Opening) connector.Session {
	if !p.HasIdle() {
		return nil
	}
	return &session{p: p, bytes: string(o.Prepared.Frozen)}
}

func (p *platform) Watermark(context.Context, connector.Opening) (string, error) {
	if p.mark != nil {
		return p.mark()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.line.newest(), nil
}

func (p *platform) Backdate(mark string, by time.Duration) (string, error) {
	if p.backdate != nil {
		return p.backdate(mark, by)
	}
	return "", nil // the beginning
}

func (p *platform) Observe(ctx context.Context, _ connector.Opening, l connector.Look) job.Observation {
	if p.observe == nil {
		return p.look(ctx, l)
	}
	return p.observe(l)
}

func (p *platform) Poll(_ context.Context, _ connector.Opening, handle string) job.Outcome {
	return p.poll(handle)
}

type session struct {
	p     *platform
	bytes string
}

func (s *session) Close() {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.p.closed++
}

func (s *session) Publish(c connector.Commit) job.Outcome {
	if err := c.MaySend(); err != nil {
		return job.Outcome{Result: job.ResultNotSent, Kind: job.FailTransient, Message: err.Error()}
	}
	s.p.mu.Lock()
	s.p.requests++
	n := s.p.requests
	if s.p.bytes == nil {
		s.p.bytes = map[string]string{}
	}
	if first, again := s.p.bytes[c.EffectKey]; again && first != s.bytes && s.p.class == job.Keyed {
		panic("a replay with other bytes")
	}
	s.p.bytes[c.EffectKey] = s.bytes
	s.p.mu.Unlock()
	if s.p.publish == nil {
		return s.p.confirm(c)
	}
	return s.p.publish(n, c)
}

// commit makes the effect and returns its id; a KEYED platform makes it once per key.
func (p *platform) commit(key string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.class == job.Keyed && p.effects[key] > 0 {
		return ""
	}
	p.effects[key]++
	if p.class != job.Observable {
		return ""
	}
	return p.line.add(key, textOf(p.bytes[key])).id
}

// confirm makes the effect and answers that it did.
func (p *platform) confirm(c connector.Commit) job.Outcome {
	return job.Outcome{Result: job.ResultSucceeded, HTTPStatus: 200, ExternalID: p.commit(c.EffectKey)}
}

// total counts effects.
func (p *platform) total() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, k := range p.effects {
		n += k
	}
	return n
}

func (p *platform) sent() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// hold makes its callers wait until release.
func (p *platform) hold() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(chan struct{})
	}
	return p.held
}

func (p *platform) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}
