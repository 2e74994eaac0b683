package schedule_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/litetest"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlite"
)

// The simulator of schedules runs schedulers over a real store. It kills them between a decision
// and its commit, or after the commit. It has outages, also across transitions of the zone, a
// clock that is set, pauses, skips, changed specs, triggers, backfills and quarantines. One seed
// determines a run. The name of each check states what it checks.
var (
	simSeeds = flag.Uint64("sim.seeds", 10, "how many worlds to try")
	simFirst = flag.Uint64("sim.first", 1, "the seed of the first one")
)

func TestSim(t *testing.T) {
	otherZones := recur.NewZones(fixedZone(t, "Europe/Vienna", "America/New_York"))
	var total simCounts
	for seed := *simFirst; seed < *simFirst+*simSeeds; seed++ {
		w := newSim(t, seed, otherZones)
		w.run()
		if w.broken != "" {
			t.Fatalf("SIM VIOLATION %s: seed %d: %s\n%s", w.broken, seed, w.why, strings.Join(w.trace[max(0, len(w.trace)-40):], "\n"))
		}
		total.add(w.counts)
	}
	t.Logf("%+v", total)
	if *simSeeds >= 40 && (total.Fired == 0 || total.CaughtUp == 0 || total.Held == 0 || total.Overlapped == 0 || total.Skipped == 0 ||
		total.Missed == 0 || total.Coalesced == 0 || total.Killed == 0 || total.Released == 0 || total.Stale == 0 || total.MadeUp == 0 || total.Settled == 0) {
		t.Errorf("some kind of event never came: %+v", total)
	}
}

type simCounts struct {
	Fired, CaughtUp, Held, Overlapped, Skipped, Missed, Coalesced, Killed, Released, Stale, Triggered, MadeUp, Settled int
}

func (c *simCounts) add(o simCounts) {
	c.Fired += o.Fired
	c.CaughtUp += o.CaughtUp
	c.Held += o.Held
	c.Overlapped += o.Overlapped
	c.Skipped += o.Skipped
	c.Missed += o.Missed
	c.Coalesced += o.Coalesced
	c.Killed += o.Killed
	c.Released += o.Released
	c.Settled += o.Settled
	c.Stale += o.Stale
	c.Triggered += o.Triggered
	c.MadeUp += o.MadeUp
}

// sim is one world.
type sim struct {
	*world
	r         *rand.Rand
	nodes     []*schedule.Scheduler
	doomed    *doomed
	schedules []*simSchedule
	released  time.Time // when the last quarantine ended
	closed    bool
	looked    time.Time // when a server looked last
	disagree  bool      // the nodes have different zone data
	trace     []string
	broken    string
	why       string
	counts    simCounts
}

// simSchedule is what a client knows about a schedule.
type simSchedule struct {
	id       job.ID
	policies firing.Policies
	window   time.Duration // for catching up
	spec     *schedulesv1.ScheduleSpec
	gen      int64
	// segments are the stretches of time in which it should fire: each from the instant at which
	// its cursor began, under a generation, up to a pause or a change.
	segments []*segment
	skipped  map[string]bool
	buffered map[string]bool   // firings that were ever buffered
	seen     map[string]bool   // firings that were checked
	fired    map[string]job.ID // by trigger
}

type segment struct {
	times  *recur.Schedule
	from   time.Time
	to     recur.Cursor // behind the times that have come
	passed bool
}

// doomed is a store whose caller is killed in a call of Fire.
type doomed struct {
	store.Store
	before, after int // the calls of Decide after which it is killed; after: once it is committed
}

var errKilled = errors.New("killed")

func (d *doomed) Fire(ctx context.Context, p store.FireParams) ([]store.Fired, bool, error) {
	before, after := d.before, d.after
	d.before, d.after = 0, 0
	if before > 0 {
		var kill context.CancelFunc
		ctx, kill = context.WithCancel(ctx)
		defer kill()
		decide, n := p.Decide, 0
		p.Decide = func(due store.DueSchedule) store.FireDecision {
			out := decide(due)
			if n++; n == before {
				kill()
			}
			return out
		}
	}
	out, more, err := d.Store.Fire(ctx, p)
	if err == nil && after > 0 {
		return nil, false, errKilled
	}
	return out, more, err
}

func newSim(t *testing.T, seed uint64, other *recur.Zones) *sim {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 11))
	starts := []time.Time{
		begin, time.Date(2027, 3, 27, 20, 0, 0, 0, time.UTC), time.Date(2027, 10, 30, 20, 0, 0, 0, time.UTC), time.Date(2027, 3, 14, 3, 0, 0, 0, time.UTC),
	}
	c := &clock{at: starts[r.IntN(len(starts))].Add(time.Duration(r.IntN(7200)) * time.Second)}
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: litetest.New(t), Now: c.now, Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := &sim{world: newWorld(t, c, s), r: r, looked: c.now(), disagree: r.IntN(4) == 0, doomed: &doomed{Store: s}}
	registry, err := connector.NewRegistry(w.plug)
	w.ok(err)
	for i := range 2 {
		z := zones
		if i == 1 && w.disagree {
			z = other
		}
		w.nodes = append(w.nodes, schedule.New(schedule.Config{Store: w.doomed, Connectors: registry, Zones: z, Namespace: "n", NewID: newID}))
	}
	for range 1 + r.IntN(3) {
		w.create()
	}
	return w
}

func (w *sim) oneOf(d ...time.Duration) time.Duration { return d[w.r.IntN(len(d))] }

func (w *sim) note(format string, args ...any) {
	w.trace = append(w.trace, w.clock.now().Format("01-02 15:04:05 ")+fmt.Sprintf(format, args...))
}

// violates records the first violation.
func (w *sim) violates(name, format string, args ...any) {
	if w.broken == "" {
		w.broken, w.why = name, fmt.Sprintf(format, args...)
	}
}

func (w *sim) newSpec() *schedulesv1.ScheduleSpec {
	crons := []string{"*/20 * * * *", "0 * * * *", "30 2,9 * * *", "15,45 */3 * * *", "0 9 * * *"}
	if w.disagree {
		crons = []string{"30 2,9 * * *", "0 9,10,11,12,13 * * *"} // whose names do not depend on the zone
	}
	return &schedulesv1.ScheduleSpec{
		TimeZone: []string{"Europe/Vienna", "America/New_York"}[w.r.IntN(2)], CronExpressions: []string{crons[w.r.IntN(len(crons))]},
	}
}

func (w *sim) create() {
	c := &simSchedule{skipped: make(map[string]bool), buffered: make(map[string]bool), seen: make(map[string]bool), fired: make(map[string]job.ID), gen: 1}
	c.spec = w.newSpec()
	p := &schedulesv1.SchedulePolicies{
		Overlap: schedulesv1.OverlapPolicy(1 + w.r.IntN(3)), CatchUp: schedulesv1.CatchUpPolicy(1 + w.r.IntN(3)),
	}
	c.window = w.oneOf(time.Hour, 12*time.Hour)
	p.CatchUpWindow = durationpb.New(c.window)
	s := w.schedule(c.spec, p)
	c.id, c.policies = s.ID, schedule.PoliciesOf(p, c.spec).Filled()
	c.begin(w)
	w.schedules = append(w.schedules, c)
	w.note("schedule %d: %s %s, overlap %d, catch-up %d", len(w.schedules), c.spec.GetTimeZone(), c.spec.GetCronExpressions()[0], p.GetOverlap(), p.GetCatchUp())
}

// begin begins a segment, and returns its cursor.
func (c *simSchedule) begin(w *sim) string {
	times, err := schedule.Compile(c.id, c.gen, c.spec, zones)
	w.ok(err)
	c.segments = append(c.segments, &segment{times: times, from: w.clock.now(), to: times.After(w.clock.now())})
	cursor, err := firing.Begin(times, w.clock.now())
	w.ok(err)
	return cursor
}

func (w *sim) run() {
	for range 70 {
		if w.step(); w.broken != "" {
			return
		}
	}
	// At the end no job blocks a firing any more, and each server fires.
	w.release()
	for range 10 {
		w.endJobs(1)
		w.fire(w.nodes[0])
		w.clock.advance(store.BufferedLook + time.Second)
	}
	w.endJobs(1)
	w.fire(w.nodes[0])
	for _, c := range w.schedules {
		s := w.sched(c)
		if s.State == store.ScheduleActive && s.Buffered != nil && s.Next.After(w.clock.now()) && len(w.open(c)) == 0 {
			w.violates("Stuck", "%s waits, and nothing is in its way", s.Buffered.Name)
		}
	}
}

func (w *sim) step() {
	c := w.schedules[w.r.IntN(len(w.schedules))]
	switch k := w.r.IntN(20); {
	case k < 6:
		if w.clock.now().Sub(w.looked) > 2*24*time.Hour {
			// More than a ledger takes of one outage would be counted, and not written down.
			w.release()
			w.fire(w.nodes[0])
		}
		w.clock.advance(time.Duration(w.r.Int64N(int64(w.oneOf(time.Minute, 10*time.Minute, time.Hour, 9*time.Hour, 30*time.Hour)))))
	case k < 11:
		w.fire(w.nodes[w.r.IntN(2)])
	case k == 11:
		w.endJobs(w.r.Float64())
	case k == 12:
		w.pause(c)
	case k == 13:
		w.resume(c)
	case k == 14:
		w.skip(c)
	case k == 15:
		w.trigger(c)
	case k == 16:
		w.backfill(c)
	case k == 17:
		w.respec(c)
	case k == 18 && !w.closed:
		w.ok(w.store.Quarantine(w.ctx, "restored"))
		w.closed = true
		w.note("quarantine")
	case k == 18 || k == 19 && w.closed:
		w.release()
	default:
		// A person reads; a firing comes before what the person writes.
		stale, changes := w.settled(c)
		if !changes {
			break
		}
		w.clock.advance(time.Hour)
		w.fire(w.nodes[0])
		now := w.sched(c)
		stale.DisplayName = "changed"
		if _, err := w.store.ChangeSchedule(w.ctx, store.ScheduleChange{Schedule: stale}); now.Revision == stale.Revision {
			w.ok(err)
		} else if w.counts.Stale++; !errors.Is(err, store.ErrStale) {
			w.violates("Stale", "a change of revision %d was written over %d: %v", stale.Revision, now.Revision, err)
		}
	}
	w.check()
}

func (w *sim) release() {
	if !w.closed {
		return
	}
	w.ok(w.store.Release(w.ctx))
	w.closed, w.released = false, w.clock.now()
	w.note("release")
}

func (w *sim) sched(c *simSchedule) store.Schedule {
	w.Helper()
	s, err := w.store.Schedule(w.ctx, store.Ref{Project: project, ID: c.id})
	w.ok(err)
	return s
}

// settled returns a schedule that can be changed: after a restore, a decision comes first.
func (w *sim) settled(c *simSchedule) (s store.Schedule, changes bool) {
	w.Helper()
	if s = w.sched(c); w.closed {
		s.DisplayName = "changed"
		if _, err := w.store.ChangeSchedule(w.ctx, store.ScheduleChange{Schedule: s}); !errors.Is(err, store.ErrQuarantined) {
			w.violates("Undecided", "a change of a restored schedule: %v", err)
		}
		return s, false
	}
	if s.State != store.ScheduleActive || s.HeldUntil.IsZero() {
		return s, true
	}
	early := s
	early.DisplayName = "changed"
	if _, err := w.store.ChangeSchedule(w.ctx, store.ScheduleChange{Schedule: early}); !errors.Is(err, store.ErrUndecided) {
		w.violates("Undecided", "a change before the decision about the lost time: %v", err)
		return s, false
	}
	open := len(w.open(c))
	w.ok(w.nodes[0].Settle(w.ctx, store.Ref{Project: project, ID: c.id}))
	w.counts.Settled++
	w.judge(c, open)
	return w.sched(c), w.broken == ""
}

// fire makes a server fire due schedules. It may be killed, and then another server does.
func (w *sim) fire(n *schedule.Scheduler) {
	switch w.r.IntN(5) {
	case 0:
		w.doomed.before = 1 + w.r.IntN(2)
	case 1:
		w.doomed.after = 1
	}
	for range 50 {
		open := make(map[*simSchedule]int)
		for _, c := range w.schedules {
			open[c] = len(w.open(c))
		}
		_, more, err := n.Once(w.ctx)
		switch {
		case errors.Is(err, store.ErrQuarantined):
			return
		case errors.Is(err, errKilled), errors.Is(err, context.Canceled):
			w.counts.Killed++
			w.note("killed: %v", err)
			more = true
		default:
			w.ok(err)
		}
		for _, c := range w.schedules {
			w.judge(c, open[c])
		}
		if !more || w.broken != "" {
			w.looked = w.clock.now()
			break
		}
	}
	if w.broken == "" && !w.disagree {
		for _, c := range w.schedules {
			w.judgeCursor(c)
		}
	}
}

func (w *sim) open(c *simSchedule) []job.Snapshot {
	return w.world.open(store.Schedule{Project: project, ID: c.id})
}

func (w *sim) endJobs(part float64) {
	for _, c := range w.schedules {
		for _, j := range w.open(c) {
			if w.r.Float64() >= part {
				continue
			}
			d, err := job.Decide(j.View(job.Traits{Class: job.Keyed, KeyWindow: time.Hour}, 0), job.CancelAsked{})
			w.ok(err)
			out, err := w.store.Apply(w.ctx, []store.Change{{Job: j.ID, Version: j.Version, Decision: d, Actor: "t"}})
			w.ok(err)
			w.ok(out[0].Err)
		}
	}
}

func (w *sim) pause(c *simSchedule) {
	s, changes := w.settled(c)
	if !changes || s.State != store.ScheduleActive {
		return
	}
	var dropped []store.Firing
	if b := s.Buffered; b != nil {
		row := *b
		row.Outcome, row.Reason = store.FiringMissed, "paused"
		s.Counts.Missed++
		dropped = append(dropped, row)
	}
	s.State, s.PauseCause, s.Next, s.Buffered = store.SchedulePaused, store.PausedByPerson, time.Time{}, nil
	_, err := w.store.ChangeSchedule(w.ctx, store.ScheduleChange{Schedule: s, Firings: dropped})
	w.ok(err)
	c.last().passed = true
	w.note("pause")
}

func (c *simSchedule) last() *segment { return c.segments[len(c.segments)-1] }

func (w *sim) resume(c *simSchedule) {
	s, changes := w.settled(c)
	if !changes || s.State != store.SchedulePaused {
		return
	}
	s.State, s.PauseCause, s.Note, s.Next, s.Cursor = store.ScheduleActive, 0, "", w.clock.now(), c.begin(w)
	s.HeldUntil = time.Time{}
	_, err := w.store.ChangeSchedule(w.ctx, store.ScheduleChange{Schedule: s})
	w.ok(err)
	w.note("resume")
}

// respec changes when a schedule fires.
func (w *sim) respec(c *simSchedule) {
	s, changes := w.settled(c)
	if !changes || s.State != store.ScheduleActive {
		return
	}
	c.last().passed = true
	c.spec = w.newSpec()
	c.gen++
	s.Spec, s.Generation, s.Cursor, s.Next, s.Skips = encoded(w.T, c.spec), c.gen, c.begin(w), w.clock.now(), nil
	_, err := w.store.ChangeSchedule(w.ctx, store.ScheduleChange{Schedule: s})
	w.ok(err)
	w.note("generation %d: %s %s", c.gen, c.spec.GetTimeZone(), c.spec.GetCronExpressions()[0])
}

func (w *sim) skip(c *simSchedule) {
	s, changes := w.settled(c)
	next, err := w.nodes[0].Upcoming(context.Background(), s, w.clock.now(), 1)
	w.ok(err)
	if !changes || s.State != store.ScheduleActive || len(next) == 0 || next[0].Skipped {
		return
	}
	s.Skips = append(s.Skips, next[0].Name)
	_, err = w.store.ChangeSchedule(w.ctx, store.ScheduleChange{Schedule: s})
	w.ok(err)
	c.skipped[next[0].Name] = true
	w.note("skip %s", next[0].Name)
}

func (w *sim) trigger(c *simSchedule) {
	key := fmt.Sprint("k", w.r.IntN(5))
	f, created, err := w.nodes[w.r.IntN(2)].Trigger(w.ctx, store.Ref{Project: project, ID: c.id}, key, w.r.IntN(2) == 0)
	was, known := c.fired[key]
	blocked, _ := errors.AsType[*firing.BlockedError](err)
	switch {
	case errors.Is(err, store.ErrQuarantined) && w.closed:
	case blocked != nil && !known:
	case err != nil:
		w.violates("Trigger", "%s: %v", key, err)
	case known && (created || f.Job != was):
		w.violates("Trigger", "%s made job %s, and now %s", key, was, f.Job)
	default:
		w.counts.Triggered++
		c.fired[key] = f.Job
	}
}

func (w *sim) backfill(c *simSchedule) {
	until := w.clock.now()
	from := until.Add(-w.oneOf(time.Hour, 6*time.Hour, 24*time.Hour))
	ref := store.Ref{Project: project, ID: c.id}
	before := w.ledger(store.Schedule{Project: project, ID: c.id})
	has := make(map[int64]bool)
	for _, f := range before {
		if f.Outcome == store.FiringFired && f.Origin != store.FiredByTrigger {
			has[f.Nominal.Unix()] = true
		}
	}
	b, err := w.nodes[0].Backfill(w.ctx, ref, from, until, admitted)
	blocked, _ := errors.AsType[*firing.BlockedError](err)
	if errors.Is(err, schedule.ErrUndecided) || blocked != nil && w.sched(c).CatchUp.Began.After(time.Time{}) || errors.Is(err, store.ErrQuarantined) && w.closed {
		return
	}
	w.ok(err)
	for _, f := range b.Firings {
		w.counts.MadeUp++
		if has[f.Nominal.Unix()] {
			w.violates("Backfill", "%s at %s has a job already", f.Name, f.Nominal)
		}
		has[f.Nominal.Unix()] = true
	}
}

// judge checks the firings since its last call.
func (w *sim) judge(c *simSchedule, open int) {
	s := w.sched(c)
	if s.State == store.SchedulePaused && s.PauseCause != store.PausedByPerson {
		w.violates("Paused", "cause %d: %s", s.PauseCause, s.Note)
	}
	wasBuffered := c.buffered
	fired := 0
	for _, f := range w.ledger(s) {
		if c.seen[f.Name] {
			continue
		}
		c.seen[f.Name] = true
		w.note("  %s %s %d", f.Name, told([]store.Firing{f}), f.Origin)
		w.tally(f)
		if f.Origin == store.FiredByTrigger || f.Origin == store.FiredByBackfill {
			continue
		}
		lost := !f.Nominal.After(w.released)
		if f.Outcome != store.FiringFired {
			if f.Outcome == store.FiringHeld && !lost {
				w.violates("Held", "%s is held, and the release was at %s", f.Name, w.released)
			}
			continue
		}
		fired++
		late := f.Decided.Sub(f.Nominal)
		switch waited := wasBuffered[f.Name]; {
		case lost:
			w.violates("Held", "%s may have been fired before the release at %s", f.Name, w.released)
		case c.skipped[f.Name] && !waited:
			w.violates("Skipped", "%s was skipped", f.Name)
		case waited:
			w.counts.Released++
		case late > time.Minute && f.Origin != store.FiredByCatchUp:
			w.violates("Late", "%s is %s late, and not caught up", f.Name, late)
		case f.Origin == store.FiredByCatchUp && (c.policies.CatchUp == firing.CatchUpNone || late > c.window):
			w.violates("CatchUp", "%s is caught up %s late, catch-up %d", f.Name, late, c.policies.CatchUp)
		}
	}
	if c.policies.Overlap != firing.Allow && (fired > 1 || fired == 1 && open > 0) {
		w.violates("Overlap", "%d firings made jobs beside %d, overlap %d", fired, open, c.policies.Overlap)
	}
	if s.Buffered != nil {
		c.buffered[s.Buffered.Name] = true
	}
}

func (w *sim) tally(f store.Firing) {
	switch f.Outcome {
	case store.FiringFired:
		if w.counts.Fired++; f.Origin == store.FiredByCatchUp {
			w.counts.CaughtUp++
		}
	case store.FiringHeld:
		w.counts.Held++
	case store.FiringSkippedByOverlap:
		w.counts.Overlapped++
	case store.FiringSkippedByPerson:
		w.counts.Skipped++
	case store.FiringMissed:
		w.counts.Missed++
	case store.FiringCoalesced:
		w.counts.Coalesced++
	default:
	}
}

// judgeCursor checks that after a server has fired, no due firing is left undecided, and each time
// that has come since the segment began is in the ledger or waits.
func (w *sim) judgeCursor(c *simSchedule) {
	s := w.sched(c)
	if s.State != store.ScheduleActive {
		return
	}
	seg := c.last()
	cursor, err := firing.At(seg.times, s.Cursor)
	w.ok(err)
	beat, _, ok := seg.times.Next(cursor)
	one := c.policies.CatchUp == firing.CatchUpAll && c.policies.Overlap == firing.BufferOne // one after the other
	if ok && !beat.Fire.After(w.clock.now()) && !one {
		w.violates("Cursor", "%s has come, and the cursor is before it", beat.Name)
	}
	there := make(map[int64]bool)
	for _, f := range w.ledger(s) {
		if f.Origin != store.FiredByTrigger && f.Origin != store.FiredByBackfill {
			there[f.Nominal.Unix()] = true
		}
	}
	if s.Buffered != nil {
		there[s.Buffered.Nominal.Unix()] = true
	}
	for at := seg.times.After(seg.from); ; {
		b, next, ok := seg.times.Next(at)
		if !ok || b.Fire.After(w.clock.now()) || one && beat.Name == b.Name {
			return
		}
		if !there[b.Instant.Unix()] {
			w.violates("Lost", "%s at %s has no firing", b.Name, b.Instant)
			return
		}
		at = next
	}
}

// check compares the jobs with the ledger, and the ledger with the counters.
func (w *sim) check() {
	for _, c := range w.schedules {
		s := w.sched(c)
		var got store.ScheduleCounts
		owner := make(map[job.ID]string)
		named := make(map[string]bool)
		for _, f := range w.ledger(s) {
			if named[f.Name] {
				w.violates("Once", "%s is in the ledger twice", f.Name)
			}
			named[f.Name] = true
			switch f.Outcome {
			case store.FiringFired:
				got.Fired++
				if other := owner[f.Job]; other != "" || f.Job.IsZero() {
					w.violates("Once", "%s and %s are one job", f.Name, other)
				}
				owner[f.Job] = f.Name
			case store.FiringSkippedByOverlap:
				got.SkippedByOverlap++
			case store.FiringSkippedByPerson:
				got.SkippedByPerson++
			case store.FiringMissed:
				got.Missed++
			case store.FiringCoalesced:
				got.Coalesced++
			case store.FiringHeld:
				got.Held++
			default:
				w.violates("Counts", "%s has outcome %d", f.Name, f.Outcome)
			}
		}
		if got != s.Counts || got.Fired != s.Run {
			w.violates("Counts", "the ledger has %+v, the schedule %+v and %d runs", got, s.Counts, s.Run)
		}
		keys := make(map[string]bool)
		for _, j := range w.allJobsOf(c) {
			if owner[j.ID] == "" || keys[j.Key] {
				w.violates("Once", "job %s under %s is of no firing, or its time has two", j.ID, j.Key)
			}
			keys[j.Key] = true
		}
		if len(keys) != len(owner) {
			w.violates("Once", "%d jobs of %d firings", len(keys), len(owner))
		}
	}
}

func (w *sim) allJobsOf(c *simSchedule) (all []job.Snapshot) {
	q := store.JobQuery{Project: project, Schedule: c.id, Limit: 500}
	for {
		p, err := w.store.List(w.ctx, q)
		w.ok(err)
		all = append(all, p.Jobs...)
		if len(p.Jobs) < 500 {
			return all
		}
		w.Fatal("more jobs than a page has")
	}
}

// fixedZone returns a directory of zone data in which zones have one offset forever, as on a server
// whose data is years old.
func fixedZone(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	block := func(version byte) []byte {
		b := append([]byte("TZif"), version)
		b = append(b, make([]byte, 15)...)
		for _, n := range []uint32{0, 0, 0, 0, 1, 4} { // one type, whose name has four bytes
			b = binary.BigEndian.AppendUint32(b, n)
		}
		b = binary.BigEndian.AppendUint32(b, 3600)
		return append(b, 0, 0, 'C', 'E', 'T', 0)
	}
	data := slices.Concat(block('2'), block('2'), []byte("\nCET-1\n"))
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
