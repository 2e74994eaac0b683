package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

const (
	project = "default"
	holdKey = "account-1"
	lease   = time.Minute
	fence   = time.Minute
)

// start is not a whole second, so that lost microseconds show.
var start = time.Date(2030, 1, 2, 3, 4, 5, 678_901_000, time.UTC)

// manual is a clock that the test moves.
type manual struct{ us atomic.Int64 }

func (m *manual) now() time.Time { return time.UnixMicro(m.us.Load()) }

func (m *manual) advance(d time.Duration) { m.us.Add(d.Microseconds()) }

// fixture is one empty store with one connection.
type fixture struct {
	*testing.T
	open  Open
	ctx   context.Context
	s     store.Store
	clock *manual
	conn  store.Connection
	ids   atomic.Uint64
}

func newFixture(t *testing.T, open Open) *fixture {
	f := &fixture{T: t, open: open, ctx: t.Context(), clock: &manual{}}
	f.clock.us.Store(start.UnixMicro())
	f.s = open(t, f.clock.now)
	t.Cleanup(func() { _ = f.s.Close() })
	f.conn = f.connect(store.Connection{Class: job.Keyed, KeyWindow: 24 * time.Hour})
	return f
}

// id makes ids that differ and rise.
func (f *fixture) id() job.ID {
	var id job.ID
	binary.BigEndian.PutUint64(id[:8], uint64(f.clock.us.Load()))
	binary.BigEndian.PutUint64(id[8:], f.ids.Add(1))
	return id
}

// connect stores a connection; unset fields get plain values.
func (f *fixture) connect(c store.Connection) store.Connection {
	f.Helper()
	c.ID = f.id()
	if c.Project == "" {
		c.Project = project
	}
	if c.Connector == "" {
		c.Connector = "fake"
	}
	if c.Class == 0 {
		c.Class = job.Keyed
	}
	out, created, err := f.s.CreateConnection(f.ctx, store.NewConnection{Connection: c})
	f.ok(err)
	f.is(created, true, "created")
	return out
}

// new is a job to store on the fixture's connection, due now.
func (f *fixture) new(edit ...func(*store.NewJob)) store.NewJob {
	id := f.id()
	n := store.NewJob{Actor: "tester", Spec: job.Spec{
		ID: id, Project: project, Key: "key-" + id.String(), Connection: f.conn.ID, HoldKey: holdKey,
		PayloadKind: "webhook", Payload: []byte("payload"), StartWindow: 2 * time.Hour, Delivery: job.OnceOrAsk,
	}}
	for _, e := range edit {
		e(&n)
	}
	return n
}

// on puts a job on another connection.
func on(c store.Connection) func(*store.NewJob) {
	return func(n *store.NewJob) { n.Spec.Connection = c.ID }
}

// at sets a job's requested time.
func at(t time.Time) func(*store.NewJob) { return func(n *store.NewJob) { n.ScheduleTime = t } }

// holding sets a job's hold key.
func holding(key string) func(*store.NewJob) {
	return func(n *store.NewJob) { n.Spec.HoldKey = key }
}

// submit stores one job.
func (f *fixture) submit(edit ...func(*store.NewJob)) job.Snapshot {
	f.Helper()
	return f.create(f.new(edit...))[0].Snapshot
}

func (f *fixture) create(items ...store.NewJob) []store.Created {
	f.Helper()
	out, err := f.s.Create(f.ctx, items)
	f.ok(err)
	f.is(len(out), len(items), "verdicts")
	for _, c := range out {
		f.ok(c.Err)
	}
	return out
}

func (f *fixture) claimN(n int) []store.Leased {
	f.Helper()
	out, err := f.s.Claim(f.ctx, store.ClaimParams{Worker: "worker", Lease: lease, Limit: n})
	f.ok(err)
	return out
}

// claim claims exactly one job.
func (f *fixture) claim() store.Leased {
	f.Helper()
	out := f.claimN(10)
	f.is(len(out), 1, "jobs claimed")
	return out[0]
}

// intent is a good arm of a lease.
func (f *fixture) intent(l store.Leased, edit ...func(*store.Arm)) store.Arm {
	a := store.Arm{
		Job: l.ID, Version: l.Version, Claim: l.ClaimToken, Token: f.id(), Worker: "worker", Class: l.Class,
		EffectKey: l.EffectKey(""), Digest: []byte("digest"), Frozen: []byte("frozen"),
		CredentialVersion: 1, Watermark: "watermark",
		SendBy: 10 * time.Second, AnswerBy: 30 * time.Second, Fence: fence, KeepTrying: l.Retry.Keep(),
	}
	a.Rearm = l.State == job.Ambiguous
	for _, e := range edit {
		e(&a)
	}
	return a
}

func (f *fixture) armOne(a store.Arm) store.Armed {
	f.Helper()
	out, err := f.s.Arm(f.ctx, []store.Arm{a})
	f.ok(err)
	f.is(len(out), 1, "verdicts")
	if out[0].Err == nil {
		out[0].Snapshot = f.whole(out[0].Snapshot)
	}
	return out[0]
}

// whole compares the answer of an arm or a change, whose request is only partly filled, with
// the stored job, and returns the stored job.
func (f *fixture) whole(answer job.Snapshot) job.Snapshot {
	f.Helper()
	stored, err := f.s.Job(f.ctx, store.Ref{ID: answer.ID})
	f.ok(err)
	f.is(
		[]any{answer.Project, answer.Connection, answer.HoldKey, answer.Schedule, answer.StartWindow},
		[]any{stored.Project, stored.Connection, stored.HoldKey, stored.Schedule, stored.StartWindow}, "request in the answer",
	)
	f.is(answer.Of(stored.Spec), stored, "answer beside the stored job")
	return stored
}

// arm arms a lease; the arm must succeed.
func (f *fixture) arm(l store.Leased, edit ...func(*store.Arm)) store.Armed {
	f.Helper()
	a := f.armOne(f.intent(l, edit...))
	f.ok(a.Err)
	return a
}

// sending returns a new job in mid-send.
func (f *fixture) sending(edit ...func(*store.NewJob)) store.Armed {
	f.Helper()
	want := f.submit(edit...)
	for _, l := range f.claimN(store.MaxBatch) {
		if l.ID == want.ID {
			return f.arm(l)
		}
	}
	f.Fatal("the job was not claimed")
	return store.Armed{}
}

// decide judges evidence on a snapshot.
func (f *fixture) decide(s job.Snapshot, e job.Evidence) job.Decision {
	f.Helper()
	d, err := job.Decide(s.View(f.traits(s), 0), e)
	f.ok(err)
	return d
}

func (f *fixture) traits(s job.Snapshot) job.Traits {
	return job.Traits{Class: s.Class, KeyWindow: 24 * time.Hour, DedupesInFlight: true, ReadLag: time.Second, Negatives: 1}
}

func (f *fixture) change(s job.Snapshot, d job.Decision) store.Applied {
	f.Helper()
	out, err := f.s.Apply(f.ctx, []store.Change{{Job: s.ID, Version: s.Version, Decision: d, Actor: "tester", Reason: "why"}})
	f.ok(err)
	f.is(len(out), 1, "verdicts")
	if out[0].Err == nil {
		out[0].Snapshot = f.whole(out[0].Snapshot)
	}
	return out[0]
}

// apply judges evidence and writes the decision, which must succeed.
func (f *fixture) apply(s job.Snapshot, e job.Evidence) store.Applied {
	f.Helper()
	a := f.change(s, f.decide(s, e))
	f.ok(a.Err)
	return a
}

// job reads a job.
func (f *fixture) job(id job.ID) job.Snapshot {
	f.Helper()
	s, err := f.s.Job(f.ctx, store.Ref{Project: project, ID: id})
	f.ok(err)
	return s
}

// attempts reads all attempts.
func (f *fixture) attempts(id job.ID) []job.Attempt {
	f.Helper()
	out, err := f.s.Attempts(f.ctx, store.Ref{ID: id}, 0, 0)
	f.ok(err)
	return out
}

// events reads all events of a job.
func (f *fixture) events(id job.ID) []job.Event {
	f.Helper()
	p, err := f.s.Events(f.ctx, store.EventQuery{Project: project, Job: id})
	f.ok(err)
	return p.Events
}

func (f *fixture) last(id job.ID) job.Event {
	f.Helper()
	all := f.events(id)
	return all[len(all)-1]
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) fails(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("error: got %v, want %v", err, want)
	}
}

func (f *fixture) is(got, want any, what string, args ...any) {
	f.Helper()
	if !reflect.DeepEqual(got, want) {
		f.Fatalf("%s: got %v, want %v", fmt.Sprintf(what, args...), got, want)
	}
}

// unchanged checks that nothing of a job was written.
func (f *fixture) unchanged(before job.Snapshot) {
	f.Helper()
	after := f.job(before.ID)
	after.Now, before.Now = time.Time{}, time.Time{}
	f.is(after, before, "job after a refusal")
}

// answer is an outcome of a snapshot's last attempt.
func answer(s job.Snapshot, r job.Result) job.Outcome {
	return job.Outcome{Attempt: s.Attempt, Result: r, Message: "said the platform"}
}
