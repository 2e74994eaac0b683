package schedule_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/litetest"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/memory"
	"github.com/fireonce/fireonce/store/postgres"
	"github.com/fireonce/fireonce/store/sqlite"
)

const project = "default"

// begin is when every world begins: 9:00 in Vienna.
var begin = time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)

// zones are shared by all tests: reading one takes longer than deciding.
var zones = recur.NewZones("")

func newID() job.ID { return job.ID(uuid.Must(uuid.NewV7())) }

// clock is a clock that only the test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

// now returns the bubble's time if the test has one.
func (c *clock) now() time.Time {
	if c == nil {
		return time.Now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// plug is a connector that accepts every payload without the bytes bad.
type plug struct {
	connector.Connector // what firing must not call
	mu                  sync.Mutex
	prepared            []connector.Request
	fail                error
	hold                string
	// bad is what no payload may contain; nil: every payload is accepted.
	bad []byte
}

func (p *plug) Describe() connector.Description {
	return connector.Description{Name: "plug", Payloads: []string{"webhook"}, Classes: []job.Class{job.Keyed}}
}

func (p *plug) Prepare(r connector.Request) (connector.Prepared, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prepared = append(p.prepared, r)
	if p.bad != nil && bytes.Contains(r.Payload, p.bad) {
		return connector.Prepared{}, &connector.InputError{Reason: connector.BadPayload, Msg: "bad"}
	}
	return connector.Prepared{HoldKey: p.hold}, p.fail
}

// world is a store with a connection, and a scheduler over it.
type world struct {
	*testing.T
	ctx   context.Context
	clock *clock
	store store.Store
	plug  *plug
	conn  store.Connection
	s     *schedule.Scheduler
	again func() store.Store // opens another store on the same database; nil: not possible
}

// in runs a test on the store for simulations.
func in(t *testing.T, test func(w *world)) {
	t.Helper()
	c := &clock{at: begin}
	test(newWorld(t, c, memory.Open(memory.Options{Now: c.now})))
}

// onBoth runs a test on the engines.
func onBoth(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		c := &clock{at: begin}
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: litetest.New(t), Now: c.now, Readers: 2})
		if err != nil {
			t.Fatal(err)
		}
		test(newWorld(t, c, s))
	})
	t.Run("postgres", func(t *testing.T) { test(onPostgres(t)) })
}

func onPostgres(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("left out of the ordinary tests: make test-postgres runs it")
	}
	c, url := &clock{at: begin}, pgtest.Reused(t, postgres.Migrate)
	open := func() store.Store {
		s, err := postgres.Open(t.Context(), postgres.Options{URL: url, Now: c.now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	w := newWorld(t, c, open())
	w.again = func() store.Store {
		s := open()
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	return w
}

func newWorld(t *testing.T, c *clock, s store.Store) *world {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{T: t, ctx: t.Context(), clock: c, store: s, plug: &plug{hold: "account"}}
	var err error
	w.conn, _, err = s.CreateConnection(w.ctx, store.NewConnection{Key: "c", Connection: store.Connection{
		ID: newID(), Project: project, Connector: "plug", Class: job.Keyed, KeyWindow: 24 * time.Hour,
	}})
	w.ok(err)
	w.s = w.scheduler(s)
	return w
}

func (w *world) scheduler(s schedule.Store) *schedule.Scheduler {
	w.Helper()
	registry, err := connector.NewRegistry(w.plug)
	w.ok(err)
	return schedule.New(schedule.Config{Store: s, Connectors: registry, Zones: zones, Namespace: "n", NewID: newID})
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// template returns a webhook with a body.
func template(body string) *schedulesv1.JobTemplate {
	return &schedulesv1.JobTemplate{
		Content: &schedulesv1.JobTemplate_Payload{Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
			Url: "https://example.com/", Content: &fireoncev1.Webhook_BodyText{BodyText: body},
		}}}},
		Labels: map[string]string{"from": "template"}, StartWindow: durationpb.New(time.Hour),
	}
}

// minutely returns a spec that fires each minute, and policies that allow overlaps.
func minutely() (*schedulesv1.ScheduleSpec, *schedulesv1.SchedulePolicies) {
	return &schedulesv1.ScheduleSpec{TimeZone: "Europe/Vienna", CronExpressions: []string{"* * * * *"}},
		&schedulesv1.SchedulePolicies{Overlap: schedulesv1.OverlapPolicy_OVERLAP_POLICY_ALLOW}
}

// schedule stores a schedule that begins now.
func (w *world) schedule(spec *schedulesv1.ScheduleSpec, policies *schedulesv1.SchedulePolicies, edit ...func(*store.Schedule)) store.Schedule {
	w.Helper()
	n := store.NewSchedule{Schedule: store.Schedule{
		ID: newID(), Project: project, Spec: encoded(w.T, spec), Template: encoded(w.T, template("at {{nominal_time}}, run {{run}}")),
		Policies: encoded(w.T, policies), Connection: w.conn.ID, State: store.ScheduleActive,
		PauseAfterFailures: int(policies.GetPauseAfterFailures()),
	}}
	s := &n.Schedule
	s.Key = s.ID.String()
	times, err := schedule.Compile(s.ID, 1, spec, zones)
	w.ok(err)
	s.Cursor, err = firing.Begin(times, w.clock.now())
	w.ok(err)
	s.Next = w.clock.now()
	for _, e := range edit {
		e(s)
	}
	out, _, err := w.store.CreateSchedule(w.ctx, n)
	w.ok(err)
	return out
}

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// once fires all due schedules.
func (w *world) once() (fired int) {
	w.Helper()
	for range 100 {
		n, more, err := w.s.Once(w.ctx)
		w.ok(err)
		if fired += n; !more {
			return fired
		}
	}
	w.Fatal("firing has no end")
	return 0
}

func (w *world) read(s store.Schedule) store.Schedule {
	w.Helper()
	s, err := w.store.Schedule(w.ctx, ref(s))
	w.ok(err)
	return s
}

// change edits a schedule as it is now.
func (w *world) change(s store.Schedule, edit func(*store.Schedule)) store.Schedule {
	w.Helper()
	s = w.read(s)
	edit(&s)
	s, err := w.store.ChangeSchedule(w.ctx, store.ScheduleChange{Schedule: s})
	w.ok(err)
	return s
}

func ref(s store.Schedule) store.Ref { return store.Ref{Project: s.Project, ID: s.ID} }

// ledger returns the firings of a schedule, oldest first.
func (w *world) ledger(s store.Schedule) []store.Firing {
	w.Helper()
	var out []store.Firing
	q := store.FiringQuery{Project: s.Project, Schedule: s.ID, Limit: 500}
	for {
		p, err := w.store.Firings(w.ctx, q)
		w.ok(err)
		out = append(out, p.Firings...)
		if q.Before = p.Next; q.Before == 0 {
			slices.Reverse(out)
			return out
		}
	}
}

// outcomes returns the ledger in short: "FIRED 09:01, …".
func (w *world) outcomes(s store.Schedule) string {
	w.Helper()
	return told(w.ledger(s))
}

func told(firings []store.Firing) string {
	words := map[store.FiringOutcome]string{
		store.FiringFired: "FIRED", store.FiringSkippedByOverlap: "OVERLAP", store.FiringSkippedByPerson: "PERSON",
		store.FiringMissed: "MISSED", store.FiringCoalesced: "COALESCED", store.FiringRefused: "REFUSED", store.FiringHeld: "HELD",
	}
	var out []string
	for _, f := range firings {
		out = append(out, words[f.Outcome]+" "+f.LocalTime[11:16])
	}
	return strings.Join(out, ", ")
}

// jobs returns the jobs of a schedule, newest first.
func (w *world) jobs(s store.Schedule) []job.Snapshot {
	w.Helper()
	p, err := w.store.List(w.ctx, store.JobQuery{Project: s.Project, Schedule: s.ID, Limit: 500})
	w.ok(err)
	return p.Jobs
}

// open returns those of them that have not ended.
func (w *world) open(s store.Schedule) []job.Snapshot {
	w.Helper()
	q := store.JobQuery{Project: s.Project, Schedule: s.ID, Limit: 500}
	for state := job.Scheduled; state <= job.Expired; state++ {
		if !state.Terminal() {
			q.States = append(q.States, state)
		}
	}
	p, err := w.store.List(w.ctx, q)
	w.ok(err)
	return p.Jobs
}

// is fails the test unless got is want.
func is[T comparable](w *world, got, want T, what string) {
	w.Helper()
	if got != want {
		w.Errorf("%s: %v, want %v", what, got, want)
	}
}

func (w *world) fails(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Errorf("error %v, want %v", err, want)
	}
}

type firingBlocked = firing.BlockedError

var firingEnded = firing.ErrEnded

func begins(times *recur.Schedule, at time.Time) (string, error) { return firing.Begin(times, at) }

// inBubble returns a world in a synctest bubble: its clock is the bubble's.
func inBubble(t *testing.T) *world {
	t.Helper()
	return newWorld(t, nil, memory.Open(memory.Options{}))
}

// admitted admits every number of jobs of a backfill.
func admitted(int) error { return nil }
