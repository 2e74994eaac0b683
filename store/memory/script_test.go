package memory_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 678_901_000, time.UTC)

// manual is a clock that the test moves. An engine's own goroutines may read it meanwhile,
// even after the call that began them was answered.
type manual struct{ us atomic.Int64 }

func newManual() *manual {
	m := &manual{}
	m.us.Store(start.UnixMicro())
	return m
}

func (m *manual) now() time.Time { return time.UnixMicro(m.us.Load()).UTC() }

func (m *manual) advance(d time.Duration) { m.us.Add(d.Microseconds()) }

// script is a random use of a store. Its next step depends on its seed and on the store's
// answers, so two stores with the same answers are used alike.
type script struct {
	t     *testing.T
	rand  *rand.Rand
	s     store.Store
	clock *manual
	ids   uint64
	conns []store.Connection
	jobs  []job.ID
	// leases may be over, or lost to another worker.
	leases []store.Leased
	shut   bool
	// said has the store's answers, in the order of the calls.
	said []string
}

// run uses a store for a number of steps and returns its answers.
func (p *script) run(open func(now func() time.Time) store.Store, seed uint64, steps int) []string {
	p.t.Helper()
	p.rand, p.clock = rand.New(rand.NewPCG(seed, 0)), newManual()
	p.s = open(p.clock.now)
	defer func() { _ = p.s.Close() }()
	for i, class := range []job.Class{job.Keyed, job.Handle, job.Observable, job.Opaque} {
		conn, created, err := p.s.CreateConnection(p.ctx(), store.NewConnection{Connection: store.Connection{
			ID: p.id(), Project: "default", Connector: "fake", Class: class, KeyWindow: 24 * time.Hour,
			AccountIdentity: []string{"", "me", "me", "you"}[i],
		}})
		p.note("connect", err, conn, created)
		p.conns = append(p.conns, conn)
	}
	for range steps {
		acts := []func(){
			p.create, p.create, p.claim, p.claim, p.look, p.arm, p.arm, p.arm, p.outcome, p.outcome, p.outcome,
			p.ask, p.force, p.renew, p.saveHandle, p.quarantine, p.pass, p.revise,
		}
		p.sweep() // so that nothing is claimed past its window: engines share such claims out differently
		acts[p.rand.IntN(len(acts))]()
		if p.shut && p.rand.IntN(4) == 0 {
			p.quarantine()
		}
	}
	p.readAll()
	return p.said
}

func (p *script) ctx() context.Context { return p.t.Context() }

func (p *script) id() job.ID {
	var id job.ID
	p.ids++
	binary.BigEndian.PutUint64(id[:8], p.rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], p.ids)
	return id
}

// note records an answer. Of an error it records the contract's part; the text is the
// engine's own.
func (p *script) note(what string, err error, answers ...any) {
	p.t.Helper()
	text, jerr := json.Marshal(answers)
	if jerr != nil {
		p.t.Fatal(jerr)
	}
	for _, known := range []error{
		store.ErrNotFound, store.ErrStale, store.ErrIllegal, store.ErrCursorExpired, store.ErrReplyTo,
		store.ErrQuarantined, store.ErrWindowOver, store.ErrHeld, store.ErrGated, store.ErrInUse,
	} {
		if errors.Is(err, known) {
			err = known
		}
	}
	p.said = append(p.said, fmt.Sprintf("%s: %v: %s", what, err, text))
}

// plain removes from a job what each store makes by chance.
func plain(s job.Snapshot) job.Snapshot {
	if !s.ClaimToken.IsZero() {
		s.ClaimToken = job.ID{1}
	}
	return s
}

// answered is plain, for the answer of an arm or a change, which need not have all of the
// request.
func answered(s job.Snapshot) job.Snapshot {
	return plain(s.Of(job.Spec{ID: s.ID, Project: s.Project, Connection: s.Connection, Schedule: s.Schedule}))
}

// current removes a rate limit that is over, because engines may still have it.
func (p *script) current(c store.Connection) store.Connection {
	if !c.RateLimitedUntil.After(p.clock.now()) {
		c.RateLimitedUntil = time.Time{}
	}
	return c
}

func pick[T any](p *script, list []T) (T, bool) {
	var none T
	if len(list) == 0 {
		return none, false
	}
	return list[p.rand.IntN(len(list))], true
}

func (p *script) pickJob() (job.Snapshot, bool) {
	id, ok := pick(p, p.jobs)
	if !ok {
		return job.Snapshot{}, false
	}
	s, err := p.s.Job(p.ctx(), store.Ref{ID: id})
	p.note("job", err, plain(s))
	return s, err == nil
}

func (p *script) create() {
	conn, _ := pick(p, p.conns)
	n := store.NewJob{Actor: "a", Spec: job.Spec{
		ID: p.id(), Project: "default", Key: fmt.Sprintf("key-%d", p.rand.IntN(60)), Connection: conn.ID,
		HoldKey: "hold", PayloadKind: "webhook", Payload: []byte("x"),
		StartWindow: time.Duration(1+p.rand.IntN(5)) * time.Hour, Delivery: job.Delivery(p.rand.IntN(4)),
		Retry: job.RetryPolicy{MaxAttempts: p.rand.IntN(5)},
	}}
	if p.rand.IntN(3) == 0 {
		n.ScheduleTime = p.clock.now().Add(time.Duration(p.rand.IntN(200)-20) * time.Minute)
	}
	if p.rand.IntN(4) == 0 {
		n.Spec.ReplyTo, _ = pick(p, append(p.jobs, n.Spec.ID))
	}
	out, err := p.s.Create(p.ctx(), []store.NewJob{n})
	for _, c := range out {
		p.note("create", c.Err, plain(c.Snapshot), c.Created)
		if c.Created {
			p.jobs = append(p.jobs, n.Spec.ID)
		}
	}
	p.note("creates", err)
}

// revise changes a connection, mostly without an effect, and reads what its pause has missed.
func (p *script) revise() {
	old, _ := pick(p, p.conns)
	conn, err := p.s.Connection(p.ctx(), store.Ref{ID: old.ID})
	p.note("connection", err, p.current(conn))
	c := store.ConnectionChange{Project: "default", ID: conn.ID, Version: conn.Version}
	word := fmt.Sprint(p.rand.IntN(100))
	switch p.rand.IntN(12) {
	case 0, 1:
		c.Pause = &word
	case 2, 3, 4:
		c.Resume = true
	case 5, 6:
		c.Credential = &store.Sealed{Version: conn.CredentialVersion + p.rand.IntN(2), KeyID: "k", Data: []byte(word), Fingerprint: word}
	case 7:
		c.Limits = &store.ConnectionLimits{MaxInFlight: 500 + p.rand.IntN(2)}
	case 8:
		c.Target = &store.ConnectionTarget{Settings: []byte(word), Class: job.Class(p.rand.IntN(6)), KeyWindow: time.Hour}
	case 9:
		c.DisplayName, c.Version = &word, conn.Version-int64(p.rand.IntN(2))
	case 10:
		c.Identity = &word
	default:
		c.Delete = p.rand.IntN(4) == 0
	}
	after, err := p.s.ChangeConnection(p.ctx(), c)
	p.note("change", err, p.current(after))
	missed, err := p.s.Missed(p.ctx(), "default", conn.ID, 0)
	slices.SortFunc(missed, func(a, b job.Snapshot) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	for _, s := range missed {
		p.note("missed", nil, plain(s))
	}
	p.note("missed", err, len(missed))
	sealed, err := p.s.Credential(p.ctx(), conn.ID)
	p.note("credential", err, sealed)
	if len(missed) > 0 && p.rand.IntN(2) == 0 {
		p.judge(missed[0], job.Missed{Since: conn.PausedAt}, nil)
	}
}

// keep records leases. The order in which runnable rows are served is the engine's own, so
// each claim takes all due jobs.
func (p *script) keep(what string, got []store.Leased, err error) {
	slices.SortFunc(got, func(a, b store.Leased) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	for _, l := range got {
		p.note(what, nil, plain(l.Snapshot), p.current(l.Connection), l.ReplyTo)
	}
	p.note(what, err, len(got))
	p.leases = append(p.leases, got...)
}

func (p *script) claim() {
	got, err := p.s.Claim(p.ctx(), store.ClaimParams{Worker: "w", Lease: time.Minute})
	p.keep("claim", got, err)
}

func (p *script) look() {
	got, err := p.s.ClaimLooks(p.ctx(), store.ClaimParams{Worker: "l", Lease: time.Minute, Limit: 3})
	p.keep("look", got, err)
}

func (p *script) arm() {
	// Mostly a fresh one, sometimes one that was used or is over.
	l, ok := pick(p, p.leases[max(0, len(p.leases)-1-p.rand.IntN(8)):])
	if !ok {
		return
	}
	a := store.Arm{
		Job: l.ID, Version: l.Version, Claim: l.ClaimToken, Token: p.id(), Worker: "w", Class: l.Class,
		Rearm: l.State == job.Ambiguous, EffectKey: l.EffectKey(""), Digest: []byte("d"), Frozen: []byte("f"),
		SendBy: 10 * time.Second, AnswerBy: 30 * time.Second, Fence: time.Minute,
	}
	switch p.rand.IntN(16) {
	case 0:
		a.Digest = []byte("other")
	case 1:
		a.EffectKey += "x"
	case 2:
		a.Claim = p.id()
	case 3:
		a.Class = job.Class(p.rand.IntN(6))
	case 4, 5, 6:
		a.AccountIdentity = "me"
	}
	if l.Class == job.Observable {
		a.Gate = []byte{byte(p.rand.IntN(3))}
	}
	out, err := p.s.Arm(p.ctx(), []store.Arm{a})
	p.note("arms", err)
	p.note("arm", out[0].Err, answered(out[0].Snapshot), out[0].Attempt)
	var gated *store.GatedError
	if errors.As(out[0].Err, &gated) {
		p.note("gated", nil, gated.By)
	}
	by, err := p.s.ArmedBy(p.ctx(), l.ID, a.Token)
	p.note("armed by", err, answered(by.Snapshot), by.Attempt)
}

// judge writes Decide's decision on evidence.
func (p *script) judge(s job.Snapshot, e job.Evidence, content *store.Content) {
	traits := job.Traits{Class: s.Class, KeyWindow: 24 * time.Hour, ReadLag: time.Second, Negatives: 2, Spacing: time.Second}
	d, err := job.Decide(s.View(traits, 0), e)
	if err != nil || d.Action != job.ActWrite {
		return
	}
	p.apply(fmt.Sprintf("%T", e), store.Change{Job: s.ID, Version: s.Version, Decision: d, Actor: "a", Reason: "r", Content: content})
}

func (p *script) apply(what string, c store.Change) {
	out, err := p.s.Apply(p.ctx(), []store.Change{c})
	p.note("applies", err)
	p.note(what, out[0].Err, answered(out[0].Snapshot), out[0].Owner, out[0].TakenOver)
}

func (p *script) outcome() {
	s, ok := p.pickJob()
	if !ok || s.Attempt == 0 {
		return
	}
	attempt, object := 1+p.rand.IntN(s.Attempt), string(rune('a'+p.rand.IntN(6)))
	if p.rand.IntN(2) == 0 {
		p.judge(s, job.Looked{Observation: job.Observation{
			Attempt: attempt, Verdict: job.Verdict(1 + p.rand.IntN(5)), ExternalID: object, Handle: "h", BegunAt: p.clock.now(), EndedAt: p.clock.now(),
		}}, nil)
		return
	}
	p.judge(s, job.Outcome{
		Attempt: attempt, Result: job.Result(1 + p.rand.IntN(5)), Kind: job.FailureKind(1 + p.rand.IntN(4)), Message: "m",
		BytesWritten: p.rand.Int64N(9), RetryAfter: time.Minute, ExternalID: object, Handle: []string{"", "h"}[p.rand.IntN(2)],
		Polled: p.rand.IntN(3) == 0, CredentialVersion: p.rand.IntN(2),
	}, nil)
}

// ask makes a request of a client, a person or a worker.
func (p *script) ask() {
	s, ok := p.pickJob()
	if !ok {
		return
	}
	content := store.Content{Payload: []byte("new"), HoldKey: []string{"hold", "other"}[p.rand.IntN(2)], Labels: map[string]string{"a": "b"}}
	switch p.rand.IntN(9) {
	case 0:
		p.judge(s, job.CancelAsked{}, nil)
	case 1:
		p.judge(s, job.RetryAsked{At: p.clock.now().Add(time.Minute)}, nil)
	case 2:
		p.judge(s, job.RescheduleAsked{At: p.clock.now().Add(time.Hour), Window: time.Hour}, nil)
	case 3:
		p.judge(s, job.RunNowAsked{}, nil)
	case 4:
		p.judge(s, job.UpdateAsked{}, &content)
	case 5:
		p.judge(s, job.Deferred{Kind: job.FailureKind(1 + p.rand.IntN(5)), Message: "m", RetryAfter: time.Minute}, nil)
	case 6:
		p.judge(s, job.LookDue{}, nil)
	case 7:
		p.judge(s, job.Restored{Since: start}, nil)
	default:
		p.judge(s, job.Resolved{Ruling: job.Ruling(1 + p.rand.IntN(4)), Actor: "ann", ExternalID: "a", Override: true}, nil)
	}
}

// force writes a decision that Decide has not judged: the store decides whether it is legal.
func (p *script) force() {
	s, ok := p.pickJob()
	if !ok {
		return
	}
	d := job.Decision{
		To: job.State(p.rand.IntN(13)), Cause: job.Cause(p.rand.IntN(22)), Round: s.Round, Failures: p.rand.IntN(4) - 1,
		Delay: time.Duration(p.rand.IntN(3)-1) * time.Minute, Cancel: p.rand.IntN(4) == 0,
	}
	if p.rand.IntN(2) == 0 {
		d.CloseOpen = job.ResultAbsent
	}
	if p.rand.IntN(2) == 0 {
		d.Settle = []job.Settled{{Attempt: p.rand.IntN(3), Result: job.Result(1 + p.rand.IntN(7))}}
	}
	if p.rand.IntN(3) == 0 {
		d.Effect = &job.Effect{Attempt: s.Attempt, Round: s.Round, ExternalID: "a", Proof: job.Proof(1 + p.rand.IntN(5))}
	}
	p.apply("force", store.Change{Job: s.ID, Version: s.Version - int64(p.rand.IntN(5)/4), Decision: d})
}

func (p *script) renew() {
	if l, ok := pick(p, p.leases); ok {
		out, err := p.s.Renew(p.ctx(), time.Minute, []store.LeaseRef{{Job: l.ID, Token: l.ClaimToken}})
		p.note("renew", err, out)
	}
}

func (p *script) saveHandle() {
	if s, ok := p.pickJob(); ok {
		p.note("save handle", p.s.SaveHandle(p.ctx(), s.ID, s.Attempt-p.rand.IntN(2), "saved"))
	}
}

func (p *script) quarantine() {
	switch {
	case p.shut:
		p.note("release", p.s.Release(p.ctx()))
		p.shut = false
	case p.rand.IntN(6) == 0:
		p.note("quarantine", p.s.Quarantine(p.ctx(), "why"))
		p.shut = true
	}
}

func (p *script) pass() {
	steps := []time.Duration{
		time.Microsecond, time.Second, time.Second, 10 * time.Second, 30 * time.Second, 30 * time.Second, time.Minute, 20 * time.Minute,
	}
	step, _ := pick(p, steps)
	p.clock.advance(step)
}

func (p *script) sweep() {
	got, err := p.s.Overdue(p.ctx(), 0)
	p.note("overdue", err, len(got))
	for _, s := range got {
		switch {
		case s.State == job.Sending:
			p.judge(s, job.FenceOver{}, nil)
		case !s.StartDeadline.After(s.Now):
			p.judge(s, job.WindowOver{}, nil)
		default:
			p.judge(s, job.LeaseOver{}, nil)
		}
	}
}

// placeless removes from events the order in which one claim's jobs were written.
func placeless(events []job.Event) []job.Event {
	for i := range events {
		events[i].Position = 0
	}
	slices.SortFunc(events, func(a, b job.Event) int {
		return cmp.Or(bytes.Compare(a.Job[:], b.Job[:]), cmp.Compare(a.Sequence, b.Sequence))
	})
	return events
}

// readAll calls every reading method.
func (p *script) readAll() {
	for _, id := range p.jobs {
		ref := store.Ref{Project: "default", ID: id}
		s, err := p.s.Job(p.ctx(), ref)
		p.note("job", err, plain(s))
		names, err := p.s.JobNames(p.ctx(), "default", []job.ID{id})
		p.note("names", err, names[id])
		attempts, err := p.s.Attempts(p.ctx(), ref, 0, 0)
		p.note("attempts", err, attempts)
		looks, err := p.s.Observations(p.ctx(), ref, 0, 0)
		p.note("observations", err, len(looks))
		for _, o := range looks {
			p.note("observation", nil, o)
		}
		owners, err := p.s.Owners(p.ctx(), id, s.Attempt, []string{"a", "b", "c", "d", "e", "f"})
		p.note("owners", err, owners)
		own, err := p.s.Events(p.ctx(), store.EventQuery{Project: "default", Job: id, After: 1, Limit: 3})
		p.note("job's events", err, own.Next, own.More, own.End, placeless(own.Events))
	}
	for _, order := range []store.Order{store.ByScheduledDesc, store.ByScheduledAsc, store.ByCreatedDesc, store.ByCreatedAsc} {
		list, err := p.s.List(p.ctx(), store.JobQuery{Project: "default", Order: order})
		for i := range list.Jobs {
			list.Jobs[i] = plain(list.Jobs[i])
		}
		p.note("list", err, list)
	}
	events, err := p.s.Events(p.ctx(), store.EventQuery{Project: "default"})
	p.note("events", err, events.Next, events.More, events.End, placeless(events.Events))
	stats, err := p.s.Stats(p.ctx(), store.StatsQuery{Project: "default", Window: 3 * time.Hour})
	p.note("stats", err, stats)
	doubtful, err := p.s.Doubtful(p.ctx(), start, 0)
	for i := range doubtful {
		doubtful[i] = plain(doubtful[i])
	}
	p.note("doubtful", err, doubtful)
	conns, err := p.s.ListConnections(p.ctx(), store.ConnectionQuery{Project: "default", Deleted: true})
	for i, c := range conns.Connections {
		conns.Connections[i] = p.current(c)
	}
	p.note("connections", err, conns)
}
