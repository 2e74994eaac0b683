package sim

import (
	"context"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: targets are ill for a while, and servers open their circuit breakers. When a
// job may pass one, and when its next probe is due, is reckoned here from docs/decisions/breakers.md.
// A breaker holds back claims and arms, one job at a time passes as its probe, and it holds back
// nothing else: no look is put off. When a target is well again, everything goes out.

// illness is what is wrong with a target.
type illness int

const (
	well         illness = iota
	refuses              // no connection can be opened
	answers503           // and may have acted
	givesNoReply         // and may act
	illnesses
)

// Times of breakers, as documented.
const (
	probeFirst     = 10 * time.Second
	probeMost      = time.Minute
	probeOfAPerson = 10 * time.Minute
	breakerEnds    = time.Hour
	breakerRecalls = 10 * time.Minute
)

// simBreaker is the breaker of a connection, as its calls have made it.
type simBreaker struct {
	id     job.ID
	conn   job.ID
	target *target
	open   bool
	ended  time.Time
	// due is when the next probe is due; while one is under way, until when its result counts.
	due    time.Time
	prober job.ID
	// took is when its job became the probe, and held when it took more time for the answer.
	took, held time.Time
	// passed is the job that was armed as the probe, and which attempt of it; nil: none was.
	passed  *simJob
	attempt int
	failed  int
}

// isOpen reports whether it holds jobs back.
func (b *simBreaker) isOpen(now time.Time) bool {
	return b != nil && b.open && now.Before(b.due.Add(breakerEnds))
}

// probing reports whether a job with a claim token is its probe.
func (b *simBreaker) probing(token job.ID, now time.Time) bool {
	return !token.IsZero() && b.prober == token && now.Before(b.due)
}

// probeAfter returns the wait after some probes that failed.
func probeAfter(failed int) time.Duration {
	wait := probeFirst
	for range failed {
		wait = min(2*wait, probeMost)
	}
	return wait
}

func (w *simWorld) breakerOf(conn job.ID) *simBreaker {
	i := slices.IndexFunc(w.breakers, func(b *simBreaker) bool { return b.conn == conn })
	if i < 0 {
		return nil
	}
	return w.breakers[i]
}

// breaks notes a violation of a breaker.
func (w *simWorld) breaks(name string, b *simBreaker, format string, args ...any) {
	j := w.jobs[0]
	if i := slices.IndexFunc(w.jobs, func(j *simJob) bool { return j.connection() == b.conn }); i >= 0 {
		j = w.jobs[i]
	}
	w.broke(name, j, format, args...)
}

// breakerOpened: TWO_BREAKERS and PROBE_TIME, when a server has opened one.
func (w *simWorld) breakerOpened(s store.Stop, created bool) {
	now := time.Now()
	b := w.breakerOf(s.Connection)
	if b == nil {
		t := w.targets[slices.IndexFunc(w.targets, func(t *target) bool {
			return t.account.conn == s.Connection || t.account.second == s.Connection
		})]
		b = &simBreaker{conn: s.Connection, target: t}
		w.breakers = append(w.breakers, b)
	}
	if was := b.isOpen(now); was == created {
		w.breaks("TWO_BREAKERS", b, "made a breaker: %t; one was open: %t", created, was)
	}
	if !created {
		return
	}
	w.stats.faults[faultBreaker]++
	last := b.ended
	if b.open { // no job was there to be its probe
		last = b.due.Add(breakerEnds)
	}
	failed := 0
	if b.id != (job.ID{}) && now.Before(last.Add(breakerRecalls)) {
		failed = b.failed + 1
	}
	*b = simBreaker{id: s.ID, conn: b.conn, target: b.target, open: true, failed: failed}
	w.probeIsDue(b, s, now.Add(probeAfter(failed)))
}

// probeIsDue: PROBE_TIME, when the next probe is to be at another time than reckoned.
func (w *simWorld) probeIsDue(b *simBreaker, s store.Stop, want time.Time) {
	b.due = job.Micros(want)
	if got := s.ProbeAt; !got.Equal(b.due) {
		w.breaks("PROBE_TIME", b, "the next probe is due at %v, and should be at %v, after %d that failed", got, b.due, b.failed)
	}
}

// probeTaken: TWO_PROBES, when a job became the probe.
func (w *simWorld) probeTaken(p store.Probe, took bool) {
	i := slices.IndexFunc(w.breakers, func(b *simBreaker) bool { return b.id == p.Breaker })
	if i < 0 || !took {
		return
	}
	b, now := w.breakers[i], time.Now()
	mine := b.probing(p.Token, now)
	if !b.isOpen(now) || !mine && now.Before(b.due) {
		w.breaks("TWO_PROBES", b, "a job became the probe %v before one is due, open: %t", b.due.Sub(now), b.isOpen(now))
	}
	if !mine {
		b.prober, b.took, b.passed = p.Token, now, nil
		w.stats.probes++
	}
	b.held, b.due = now, job.Micros(now.Add(p.For))
}

// probeEnded: PROBE_TIME, and CLOSED when the target has not answered the probe.
func (w *simWorld) probeEnded(r store.ProbeResult, s store.Stop, counts bool) {
	i := slices.IndexFunc(w.breakers, func(b *simBreaker) bool { return b.id == r.Breaker })
	if i < 0 || !counts {
		return
	}
	b, now := w.breakers[i], time.Now()
	if !b.isOpen(now) || !b.probing(r.Token, now) {
		w.breaks("TWO_PROBES", b, "the result of another job counts, open: %t", b.isOpen(now))
	}
	b.prober = job.ID{}
	switch r.Verdict {
	case store.ProbeWell:
		if b.target.answered.Before(b.took) {
			w.breaks("CLOSED", b, "it was closed by a probe, and the target answered none since %v", b.took)
		}
		w.stats.closed++
		b.open, b.ended = false, now
		return
	case store.ProbeIll:
		b.failed++
	case store.ProbeUndecided:
	}
	wait := probeAfter(b.failed)
	if w.mayAsk(b) {
		wait = probeOfAPerson
		w.stats.asked++
	}
	w.probeIsDue(b, s, now.Add(wait))
}

// mayAsk reports whether a person may have to decide about the probe: its request has left, no answer
// is known, and its receiver knows no key.
func (w *simWorld) mayAsk(b *simBreaker) bool {
	j := b.passed
	if j == nil || b.target.traits.Class == job.Keyed {
		return false
	}
	a := j.attempts[b.attempt]
	return a != nil && a.unknown
}

// passesBreakers: BREAKER, of a new intent.
func (w *simWorld) passesBreakers(j *simJob, number int) {
	token := j.under
	j.under = job.ID{}
	b, now := w.breakerOf(j.connection()), time.Now()
	if !b.isOpen(now) {
		return
	}
	if !b.probing(token, now) {
		w.broke("BREAKER", j, "attempt %d armed under a breaker, and the job is not its probe", number)
	}
	b.passed, b.attempt = j, number
}

// leavesAsProbe: ASKED_TOO_OFTEN, when two probes in less than ten minutes may each need a person.
func (w *simWorld) leavesAsProbe(j *simJob, number int) {
	b := w.breakerOf(j.connection())
	if !b.isOpen(time.Now()) || b.passed != j || b.attempt != number || b.target.traits.Class == job.Keyed {
		return
	}
	a := j.attempts[number]
	for _, other := range w.jobs {
		for n := range other.attempts {
			if m := other.attempts[n]; m != a && m.unknown && m.probeOf == b.id && b.took.Before(m.held.Add(probeOfAPerson-time.Microsecond)) { // the store's times are cut to whole ones
				w.broke("ASKED_TOO_OFTEN", j, "attempt %d is a probe %v after another one of which nothing is known", number, b.took.Sub(m.held))
			}
		}
	}
	a.probeOf, a.held, a.unknown = b.id, b.held, true // until its answer is known
}

// killedProbing lets a server die when its probe was sent, before it learns what came of it.
func (w *simWorld) killedProbing(n *node, j *simJob, number int) {
	a := j.attempts[number]
	if a != nil && a.probeOf != (job.ID{}) && !n.dead.Load() && w.hit(faultKilledProbing) {
		w.crash(n)
	}
}

// looksPass: LOOKS_STOPPED, when a look or a poll is put off by a stop, which concerns repeats alone.
func (w *simWorld) looksPass(j *simJob, e job.Event, s job.Snapshot) {
	if e.Cause != job.CauseNotStarted || e.Detail != job.Stopped {
		return
	}
	if e.From == job.Accepted || e.From == job.Ambiguous && s.Class != job.Keyed {
		w.broke("LOOKS_STOPPED", j, "%s, of class %s, and put off at version %d", e.From, s.Class, e.Sequence)
	}
}

// claimedUnderBreaker: BREAKER, when a claim takes a job and no probe is due.
func (w *simWorld) claimedUnderBreaker(j *simJob) {
	if b, now := w.breakerOf(j.connection()), time.Now(); b.isOpen(now) && now.Before(b.due) {
		w.broke("BREAKER", j, "claimed under a breaker %v before its next probe", b.due.Sub(now))
	}
}

// refusal is what a target that takes no connection refuses with.
func (t *target) refusal() error {
	return &connector.Refusal{Kind: job.FailTransient, Msg: "no connection", Down: true}
}

// isIll answers a request as an ill target does; false: it is well.
func (s *simSession) isIll(a *simAttempt, answer, latest time.Duration, commit func() job.Outcome, out *job.Outcome) bool {
	w := s.w
	switch s.target.ill {
	case refuses: // it took this connection before
		*out = simUnknown("connection reset")
	case answers503:
		if w.upTo(3) == 0 {
			commit()
		}
		*out = simUnknown("503")
		out.HTTPStatus, out.PeerEnded = 503, true
	case givesNoReply:
		if latest > 0 && w.upTo(3) == 0 {
			s.commitLater(w.near(latest), commit, a)
		}
		w.answerIn(answer)
		*out = simUnknown("no answer")
	default:
		return false
	}
	out.Down = true
	w.stats.faults[faultIll]++
	return true
}

// sicken makes a target ill, and plans when it is well again, and when it is ill next.
func (w *simWorld) sicken(t *target) {
	if !w.plagued.Load() {
		return
	}
	t.ill = 1 + illness(w.upTo(int(illnesses)-1))
	w.note("", "ill", job.ID{}, int(t.ill), t.name)
	w.director.plan(w.oneOf(time.Minute, 10*time.Minute, time.Hour)+time.Duration(w.upTo(int(10*time.Minute))), "well", func() {
		if w.plagued.Load() {
			t.ill = well
			w.note("", "well", job.ID{}, 0, t.name)
			w.director.plan(time.Duration(w.upTo(int(20*time.Minute))), "ill again", func() { w.sicken(t) })
		}
	})
}

// closeBreaker lets a person close a breaker now and then.
func (w *simWorld) closeBreaker() {
	if !w.plagued.Load() {
		return
	}
	w.director.plan(time.Duration(w.upTo(int(time.Hour))), "close a breaker", w.closeBreaker)
	for _, b := range w.breakers {
		if now := time.Now(); b.isOpen(now) {
			w.stats.faults[faultBreakerEnd]++
			w.note("client", faultNames[faultBreakerEnd], job.ID{}, 0, b.target.name)
			if _, err := w.store.EndStop(context.Background(), "", b.id, "a person"); err != nil {
				w.t.Error(err)
			}
			b.open, b.ended, b.prober = false, now, job.ID{}
			return
		}
	}
}

// illToTheEnd has every target ill while nothing else is wrong, and then all well: what a breaker does
// not hold back goes on meanwhile.
func (w *simWorld) illToTheEnd() {
	for _, t := range w.targets {
		t.ill = 1 + illness(w.upTo(int(illnesses)-1))
	}
	for end := time.Now().Add(w.oneOf(20*time.Minute, 2*time.Hour, 5*time.Hour)); time.Now().Before(end) && !w.director.over; {
		w.director.run(time.Now().Add(10 * time.Minute))
		w.looksGoOn()
	}
	for _, t := range w.targets {
		t.ill = well
	}
	w.note("", "all are well", job.ID{}, 0, "")
	w.healed = time.Now()
}

// looksGoOn: LOOKS_STOPPED, when what a breaker does not concern waits for long: a job whose fence has
// passed, and a look or a poll that is due.
func (w *simWorld) looksGoOn() {
	late := w.dbNow().Add(-simPatience)
	if time.Since(w.healed) < simPatience || w.director.over {
		return
	}
	for _, j := range w.jobs {
		s := w.store.Inspect(j.id).Snapshot
		repeated := s.State == job.Ambiguous && j.target.traits.Class == job.Keyed
		if waits := s.State == job.Sending || s.State == job.Accepted || s.State == job.Ambiguous; waits && !repeated && s.NextAt.Before(late) {
			w.broke("LOOKS_STOPPED", j, "%s, and due since %v", s.State, s.NextAt)
		}
		looked := s.State == job.Ambiguous && j.target.traits.Class == job.Observable
		if last := later(later(j.looked, w.healed), s.Fence); looked && last.Before(late) {
			w.broke("LOOKS_STOPPED", j, "%s, and not looked at since %v", s.State, last)
		}
	}
}

// breakersEnd: OPEN_TOO_LONG, when every target has been well for long and every job has ended.
func (w *simWorld) breakersEnd() {
	if w.director.over || len(w.breakers) == 0 {
		return
	}
	w.director.run(time.Now().Add(breakerEnds + probeOfAPerson))
	for _, b := range w.breakers {
		over, err := w.store.StopsOver(context.Background(), []store.StopTarget{{Project: "default", Connector: "scripted", Connection: b.conn, HoldKey: "account"}})
		if err != nil {
			w.t.Error(err)
			return
		}
		if over[0] != nil {
			w.breaks("OPEN_TOO_LONG", b, "a breaker is open, and its target has been well since %v", w.healed)
		}
	}
}

// breakerThemes are those of worlds with breakers: each of them has one.
var breakerThemes = []theme{
	{
		name: "breakers of receivers that know keys", class: job.Keyed, strokes: []fault{faultCrash, faultStop}, nodes: 2,
		rates: map[fault]int{faultLostAnswer: 100, faultSlowAnswer: 200, faultRejected: 50, faultLeftOpen: 50, faultLostAfter: 50},
		set:   func(w *simWorld) { w.calm, w.close = 10*time.Minute, true },
	},
	{
		name: "breakers of receivers that know none", class: job.Opaque, strokes: []fault{faultCrash, faultFreeze}, nodes: 2,
		rates: map[fault]int{faultLostAnswer: 30, faultSlowAnswer: 300, faultRejected: 100, faultLateOutcome: 100, faultLeftOpen: 50, faultKilledProbing: 200},
		set:   func(w *simWorld) { w.calm, w.close = 10*time.Minute, true },
	},
	{
		name: "breakers, and looks", class: job.Observable, strokes: []fault{faultCrash, faultHidden}, nodes: 2,
		rates: map[fault]int{faultLostAnswer: 100, faultReadLag: 300, faultBlindLook: 100, faultLateOutcome: 100, faultSlowStore: 50},
		set:   func(w *simWorld) { w.calm, w.close = 10*time.Minute, true },
	},
	{
		name: "breakers, and a store that is slow", strokes: []fault{faultStop}, nodes: 3,
		rates: map[fault]int{faultSlowStore: 100, faultLateAnswer: 100, faultUnavailable: 50, faultLostBefore: 50, faultLeftOpen: 100, faultPaused: 20, faultNearSend: 100},
		set:   func(w *simWorld) { w.calm, w.close = 20*time.Minute, true },
	},
}
