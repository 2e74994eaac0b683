package sim

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// The simulator: real engines over an in-memory store and a platform that is
// scripted, hours in milliseconds. One seed decides everything: the scenario, the
// faults, who goes first. The same seed makes the same world again, step by step.
var (
	simSeeds   = flag.Uint64("sim.seeds", 20, "how many worlds to try")
	simFirst   = flag.Uint64("sim.first", 1, "the seed of the first one")
	simSeed    = flag.Uint64("sim.seed", 0, "the seed of the only one, whose whole timeline is printed")
	simMinutes = flag.Float64("sim.minutes", 0, "try worlds for so many minutes, however many they are")
	simOutside = flag.String("sim.outside", "", "leave the assumptions: frozen, a process that stands still before the write; slow, a platform that acts after the fence; second effects are counted")
)

// simKind is a kind of worlds: a seed is another world in each.
type simKind struct {
	test string
	// liveness is set if the faults end, and that each job comes to an end then.
	liveness bool
	// recurring worlds have schedules, cool-downs, looks for the content, and times in
	// which every server is down. Their themes and faults are their own.
	recurring bool
	// breakers worlds have targets that are ill for long, and circuit breakers. Their themes are
	// their own.
	breakers bool
}

var (
	safetyWorlds    = simKind{test: "TestSimSafety"}
	livenessWorlds  = simKind{test: "TestSimLiveness", liveness: true}
	recurringWorlds = simKind{test: "TestSimSchedules", liveness: true, recurring: true}
	breakerWorlds   = simKind{test: "TestSimBreakers", liveness: true, breakers: true}
)

// Whatever the store, the platform, the processes and their clocks do, and as long
// as they do it: no invariant is broken at any step.
func TestSimSafety(t *testing.T) { simulate(t, safetyWorlds) }

// The same, and once the faults are over each job comes to an end, and the end is
// true.
func TestSimLiveness(t *testing.T) { simulate(t, livenessWorlds) }

// The same with schedules that fire meanwhile: one job for each nominal time, and no time is
// lost.
func TestSimSchedules(t *testing.T) { simulate(t, recurringWorlds) }

// The same with targets that are ill for long: a circuit breaker lets one job at a time through, and
// holds back no look, no answer and, when its target is well, no job.
func TestSimBreakers(t *testing.T) { simulate(t, breakerWorlds) }

// pinned are worlds that once broke a check, and why. They are played whole, whatever
// seeds a run asks for.
var pinned = []struct {
	seed uint64
	kind simKind
	why  string
}{
	{1171, livenessWorlds, "an answer is 15 minutes late: it moves a job that waits for a person, after every job had come to rest"},
	{701618, safetyWorlds, "a twin's object is made at the very instant of the other one's fence: it cannot be that one's"},
	{702453, livenessWorlds, "a pause ends as the faults do, and what was missed in it expires then: it did not starve"},
	{721224, safetyWorlds, "the database's clock leaps over a fence while a handle's commit is under way: a poll must not prove that it had no effect"},
	{731610, safetyWorlds, "the commit of a repeat's intent takes seconds, and the key is forgotten before the repeat ends"},
	{20261124193000277, safetyWorlds, "a predecessor ends after the wait of its reply is over: the reply gets no start window"},
	{20261124200000500, recurringWorlds, "a reply is submitted after its predecessor ended: it never waited"},
	{20261124200000709, safetyWorlds, "a start comes a minute after another one, less a part of a microsecond: the database's clock was set between them"},
	{20261124220007034, livenessWorlds, "the database's clock is set back, and two starts that lie apart have one time"},
	{20261124230003095, recurringWorlds, "a job waits for a retry when an earlier time is believed: the age of its key is not known either"},
	{20261125010000642, safetyWorlds, "the loss of a sender is decided in the start window, and a slow store writes it after its end"},
	{20261124193000243, recurringWorlds, "a predecessor ends in the moment in which a doubted time is believed: its reply gets a start window then"},
}

func TestSimPinned(t *testing.T) {
	for _, p := range pinned {
		t.Run(fmt.Sprint(p.kind.test, p.seed), func(t *testing.T) {
			w := inSimWorld(t, p.seed, p.kind, true)
			if w.report(t); w.broken != nil {
				t.Log("pinned because: " + p.why)
			}
		})
	}
}

func simulate(t *testing.T, kind simKind) {
	if *simSeed != 0 {
		w := inSimWorld(t, *simSeed, kind, true)
		t.Logf("seed %d:\n%s", *simSeed, w.log.timeline(nil))
		w.report(t)
		return
	}
	var total simStats
	began := time.Now()
	for seed := *simFirst; ; seed++ {
		if *simMinutes > 0 && time.Since(began).Minutes() >= *simMinutes || *simMinutes == 0 && seed >= *simFirst+*simSeeds {
			break
		}
		w := inSimWorld(t, seed, kind, false)
		total.add(w.stats)
		if w.broken != nil {
			again := inSimWorld(t, seed, kind, true)
			again.report(t)
			return
		}
	}
	t.Log(total.line(time.Since(began)))
	total.wholeSpace(t, kind)
}

// inSimWorld runs one world.
func inSimWorld(t *testing.T, seed uint64, kind simKind, keep bool) (w *simWorld) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w = newSimWorld(t, seed, kind)
		w.log.keep = keep
		w.run()
	})
	return w
}

// report fails the test if the world broke an invariant.
func (w *simWorld) report(t *testing.T) {
	t.Helper()
	v := w.broken
	if v == nil {
		return
	}
	t.Errorf("SIM VIOLATION %s: seed %d: job %d (%s, %s): %s\nreplay: make sim SEED=%d, or go test ./internal/proof/sim -run %s -sim.seed=%d -v\n%s",
		v.name, w.seed, v.job.index, v.job.target.traits.Class, v.job.spec.Spec.Delivery, v.what, w.seed, w.kind.test, w.seed, w.log.timeline(v.job))
}

// The whole trace of a world is the same whenever its seed is played.
func TestSimReplaysExactly(t *testing.T) {
	for seed := *simFirst; seed < *simFirst+min(*simSeeds, 12); seed++ {
		for _, kind := range []simKind{safetyWorlds, livenessWorlds, recurringWorlds, breakerWorlds} {
			one, two := inSimWorld(t, seed, kind, true), inSimWorld(t, seed, kind, true)
			if one.log.sum.Sum64() == two.log.sum.Sum64() {
				continue
			}
			for i := range min(len(one.log.rows), len(two.log.rows)) {
				if one.log.rows[i] != two.log.rows[i] {
					t.Fatalf("seed %d differs at step %d of %d:\n%+v\n%+v", seed, i, len(one.log.rows), one.log.rows[i], two.log.rows[i])
				}
			}
			t.Fatalf("seed %d: %d and %d steps", seed, len(one.log.rows), len(two.log.rows))
		}
	}
}

// simStats counts what was tried.
type simStats struct {
	worlds, jobs, lives                            int
	steps, arms, requests, effects, deduped, looks int
	intents, fused                                 int // offered with a claim, and written with one
	stopped                                        int // sends that the last check stopped
	second                                         int // effects above what was wanted
	outside, breaches                              int // runs that leave the assumptions, and what broke there
	alarms, swapped, renewals                      int
	lost, early, both                              int // senders that were taken for gone, repeats before their fence, and while they still send
	held                                           int // windows that began again, because a stop holds them
	released                                       int // claims of servers that were taken for gone
	fired, caughtUp, skipped, cooled, present      int // firings with a job, caught up, without one; arms in a cool-down; contents that were there
	presentLater, lookedAgain                      int // of the contents that were there, before a later attempt; arms refused because another came after the look
	shifted, repeated, stood                       int // times of schedules across a change of the clocks, and starts with an earlier time
	probes, closed, asked                          int // of breakers, closed by probes, and of probes about which a person may be asked
	simulated                                      time.Duration
	faults                                         [faults]int
	ends                                           [job.Expired + 1]int
}

func (s *simStats) add(o simStats) {
	s.worlds += o.worlds
	s.jobs += o.jobs
	s.lives += o.lives
	s.steps += o.steps
	s.arms += o.arms
	s.requests += o.requests
	s.effects += o.effects
	s.deduped += o.deduped
	s.looks += o.looks
	s.intents += o.intents
	s.fused += o.fused
	s.stopped += o.stopped
	s.second += o.second
	s.outside += o.outside
	s.breaches += o.breaches
	s.alarms += o.alarms
	s.swapped += o.swapped
	s.renewals += o.renewals
	s.lost += o.lost
	s.early += o.early
	s.both += o.both
	s.released += o.released
	s.held += o.held
	s.fired += o.fired
	s.caughtUp += o.caughtUp
	s.skipped += o.skipped
	s.cooled += o.cooled
	s.present += o.present
	s.presentLater += o.presentLater
	s.lookedAgain += o.lookedAgain
	s.shifted += o.shifted
	s.repeated += o.repeated
	s.stood += o.stood
	s.probes += o.probes
	s.closed += o.closed
	s.asked += o.asked
	s.simulated += o.simulated
	for i, n := range o.faults {
		s.faults[i] += n
	}
	for i, n := range o.ends {
		s.ends[i] += n
	}
}

// line returns what was tried, in one line.
func (s *simStats) line(took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "SIM worlds %d, simulated hours %.0f, jobs %d, steps %d, arms %d (%d by their claim, of %d intents), requests %d, effects %d, looks %d, replays deduped %d, sends stopped %d, second effects %d, twins' objects swapped %d, alarms %d, logins renewed %d, claims released %d, senders lost %d, repeats before the fence %d, while the first still sends %d, windows held %d",
		s.worlds, s.simulated.Hours(), s.jobs, s.steps, s.arms, s.fused, s.intents, s.requests, s.effects, s.looks, s.deduped, s.stopped, s.second, s.swapped, s.alarms, s.renewals, s.released, s.lost, s.early, s.both, s.held)
	if s.outside > 0 {
		fmt.Fprintf(&b, ", outside the assumptions %d times, %d checks broken", s.outside, s.breaches)
	}
	if s.fired > 0 {
		fmt.Fprintf(&b, ", firings with a job %d (%d caught up), without %d, shifted %d, repeated %d, arms refused in a cool-down %d, contents there %d (%d before a later attempt), arms refused after a look %d, starts with an earlier time %d",
			s.fired, s.caughtUp, s.skipped, s.shifted, s.repeated, s.cooled, s.present, s.presentLater, s.lookedAgain, s.stood)
	}
	if s.probes > 0 {
		fmt.Fprintf(&b, ", probes of breakers %d (%d may ask a person), closed by them %d", s.probes, s.asked, s.closed)
	}
	b.WriteString("; faults:")
	all := 0
	for f, n := range s.faults {
		if faultNames[f] == "" || n == 0 && fault(f) > drawnFaults {
			continue
		}
		fmt.Fprintf(&b, " %s %d,", faultNames[f], n)
		all += n
	}
	fmt.Fprintf(&b, " in all %d; ends:", all)
	for st, n := range s.ends {
		if n > 0 {
			fmt.Fprintf(&b, " %s %d", job.State(st), n)
		}
	}
	fmt.Fprintf(&b, "; %.1f s", took.Seconds())
	return b.String()
}

// wholeSpace fails when, in a long run, something never came.
func (s *simStats) wholeSpace(t *testing.T, kind simKind) {
	const long = 400 // worlds
	if s.worlds < long {
		return
	}
	first, last := fault(0), drawnFaults
	if kind.breakers {
		first, last = faultIll, faults
		if min(s.probes, s.closed, s.asked) == 0 {
			t.Errorf("something never came in %d worlds: %+v", s.worlds, s)
		}
	} else if kind.recurring {
		first, last = drawnFaults+1, faultHalt
		if min(s.caughtUp, s.skipped, s.cooled, s.present, s.presentLater, s.lookedAgain, s.shifted, s.repeated, s.stood) == 0 {
			t.Errorf("something never came in %d worlds: %+v", s.worlds, s)
		}
	} else if s.released == 0 {
		t.Errorf("no claim of a server that was gone was released in %d worlds", s.worlds)
	} else if s.early == 0 || s.both == 0 && s.worlds > 5*long {
		t.Errorf("%d repeats before a fence, %d of them while the first still sends, in %d worlds", s.early, s.both, s.worlds)
	}
	for f := first; f < last; f++ {
		if s.faults[f] == 0 {
			t.Errorf("no fault of the kind %q in %d worlds", faultNames[f], s.worlds)
		}
	}
}
