package sim

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// fault is one kind of trouble that the simulator makes.
type fault int

const (
	// Of the store.
	faultUnavailable  fault = iota // the call fails and did nothing
	faultLostAfter                 // done, and the answer lost
	faultLostBefore                // not done, and its caller does not learn so
	faultLeftOpen                  // unconfirmed, and decided later
	faultSlowStore                 // the call takes long to arrive
	faultLateAnswer                // its answer takes long
	faultPaused                    // the caller stands still for minutes
	faultNearSend                  // an arm's answer, or who has it, is late by about as long as a send may take
	faultLateOutcome               // what the platform answered comes late, often after the fence
	faultOwners                    // whose the candidates are cannot be asked
	faultBackJump                  // the database's clock is set back
	faultAheadJump                 // and ahead
	faultStoreRestart              // every process ends, and the clock may be set meanwhile
	// Of a node.
	faultCrash
	faultStop   // an orderly end
	faultFreeze // the whole process stands still
	faultSleep  // so does its monotonic clock
	faultWall   // its wall clock is set
	faultHidden // the others cannot see that it is alive
	// Of the platform.
	faultDeadLine      // the line is dead before the first byte
	faultUnreachable   // nothing can be opened
	faultRefusedBefore // refused before the send
	faultAuth          // the credential is refused
	faultAuthLate      // as the request comes
	faultLostRequest
	faultLateRequest // acts late, before the fence
	faultLostAnswer
	faultSlowAnswer
	faultServerError
	faultRejected
	faultProcessing // accepted, and failed later
	faultReadLag
	faultBlindLook
	faultStaleLook // one read of a replica that is behind
	faultPanicBefore
	faultPanicAfter
	// Of people.
	faultAgain // the same key submitted again
	faultCancel
	faultRetry
	faultResolve
	faultReschedule
	faultUpdate
	// Of connections.
	faultRevoked // the platform takes a login no more
	faultRotate  // another credential
	faultPause
	faultResume
	faultLimits
	faultNotRenewed // a renewal that says nothing of the login
	faultLoginDead  // and one that does
	// drawnFaults are those up to here, whose rates each world draws. What follows is for
	// themes alone, so that it changes no draw.
	drawnFaults
	// Of recurring worlds.
	faultKilledDeciding // between the decision about a schedule and its commit
	faultKilledFired    // after the commit
	faultOutage         // no server runs for a while
	faultEarlierStart   // and then with an earlier time
	faultScheduleChange // a change of a schedule was read before another write
	faultSchedulePause
	faultScheduleResume
	faultRespec
	faultTrigger
	faultZones            // a server has other zone data
	faultDoubtfulPresence // a look for the content cannot tell
	faultLatePresence     // its answer is late
	// Of stops.
	faultHalt    // a person stops everything, a project, a connector, a connection or a destination
	faultHaltEnd // and ends that
	// Of worlds with breakers.
	faultIll           // a target that is ill has a request
	faultBreaker       // a breaker opens
	faultBreakerEnd    // a person closes it
	faultKilledProbing // a server is killed when its probe was sent
	faults
)

var faultNames = [faults]string{
	"store unavailable", "answer of a commit lost", "commit lost, unconfirmed", "commit decided late", "slow store",
	"late answer of a store", "paused worker", "pause before the send", "late outcome", "owners unread", "database clock back", "database clock ahead", "restart with another time", "crash", "stop", "freeze",
	"machine asleep", "wall clock set", "session lost", "dead line", "unreachable", "refused before", "credential refused", "credential refused at the send", "lost request",
	"late request", "lost answer", "slow answer", "server error", "rejection", "failed processing", "read lag",
	"blind look", "stale look", "panic before", "panic after the effect", "key again", "cancel", "retry", "resolution",
	"reschedule", "update", "login revoked", "credential replaced", "pause", "resume", "limits", "renewal failed", "login ended",
	"", "killed while it decides", "killed as it fired", "outage", "start with an earlier time", "change over a firing", "schedule paused",
	"schedule resumed", "times changed", "trigger", "other zone data", "doubtful presence", "late presence",
	"halt", "end of a halt", "ill target", "breaker", "end of a breaker", "killed as it probed",
}

// commonly is how often per mille a fault strikes at its strongest, at each place
// where it can.
var commonly = [faults]int{
	faultUnavailable: 120, faultLostAfter: 120, faultLostBefore: 60, faultLeftOpen: 60, faultSlowStore: 60,
	faultLateAnswer: 60, faultPaused: 25, faultNearSend: 250, faultLateOutcome: 250, faultOwners: 300, faultDeadLine: 150, faultUnreachable: 100, faultRefusedBefore: 60,
	faultAuth: 15, faultAuthLate: 30, faultLostRequest: 300, faultLateRequest: 300, faultLostAnswer: 300, faultSlowAnswer: 300,
	faultServerError: 200, faultRejected: 300, faultProcessing: 300, faultReadLag: 800, faultBlindLook: 300,
	faultStaleLook: 200, faultPanicBefore: 20, faultPanicAfter: 60, faultNotRenewed: 300, faultLoginDead: 100,
}

// fate is what becomes of a call to the store.
type fate int

const (
	asItShould fate = iota
	failBefore
	lostAfter
	lostBefore
	leftOpen
)

// drawRates decides how strongly each fault strikes in this world: some not at all.
func (w *simWorld) drawRates() {
	for f := range drawnFaults {
		switch w.upTo(4) {
		case 0:
		case 1:
			w.rates[f] = commonly[f] / 10
		case 2:
			w.rates[f] = commonly[f] / 3
		default:
			w.rates[f] = commonly[f]
		}
	}
	if w.clockJumps { // a jump ahead eats the grace, so nothing may need it then
		w.rates[faultLateRequest], w.rates[faultSleep] = 0, 0
	}
}

// hit draws whether a fault strikes here.
func (w *simWorld) hit(f fault) bool {
	if !w.plagued.Load() || w.rates[f] == 0 || w.upTo(1000) >= w.rates[f] {
		return false
	}
	w.stats.faults[f]++
	node, id, op := "", job.ID{}, ""
	if c := w.director.current; c != nil {
		node, id, op = c.node.name, c.job, c.op
	}
	w.note(node, "fault: "+faultNames[f], id, 0, op)
	return true
}

func (w *simWorld) upTo(n int) int { return w.director.rand.IntN(max(n, 1)) }

func (w *simWorld) oneOf(waits ...time.Duration) time.Duration { return waits[w.upTo(len(waits))] }

// near draws a time up to a limit, often just below it.
func (w *simWorld) near(limit time.Duration) time.Duration {
	if w.upTo(2) == 0 {
		return limit - time.Duration(w.upTo(int(min(limit, time.Second))))
	}
	return time.Duration(w.upTo(int(limit)))
}

// fate draws what becomes of a call.
func (w *simWorld) fate(c *call) fate {
	switch {
	case c.platform:
		return asItShould
	case w.hit(faultUnavailable), c.op == "Owners" && w.hit(faultOwners):
		return failBefore
	case !c.writes:
		return asItShould
	case w.hit(faultLostAfter):
		return lostAfter
	case w.hit(faultLostBefore):
		return lostBefore
	case w.hit(faultLeftOpen):
		return leftOpen
	}
	return asItShould
}

// delayBefore draws how long a call takes to arrive.
func (w *simWorld) delayBefore(c *call) time.Duration {
	switch {
	case c.op == "Exit":
		return 0
	case w.hit(faultPaused):
		return w.pause()
	case c.op == "Publish" && w.hit(faultNearSend):
		return time.Duration(w.upTo(int(12 * time.Second)))
	case !c.platform && w.hit(faultSlowStore):
		return time.Duration(w.upTo(int(20 * time.Second)))
	}
	return 0
}

// delayAfter draws how long its answer waits; negative: it is delivered immediately.
func (w *simWorld) delayAfter(c *call) time.Duration {
	switch {
	case c.op == "Exit":
		return -1
	case w.hit(faultPaused):
		return w.pause()
	case (c.op == "Arm" || c.intends != nil && c.intends.given > 0) && w.hit(faultNearSend):
		return time.Duration(w.upTo(int(10 * time.Second)))
	case c.op == "Publish" && w.hit(faultLateOutcome):
		return w.pause()
	case c.op == "Present" && w.hit(faultLatePresence):
		return time.Duration(w.upTo(int(20 * time.Second)))
	case !c.platform && w.hit(faultLateAnswer):
		return time.Duration(w.upTo(int(20 * time.Second)))
	}
	return time.Duration(w.upTo(2) - 1)
}

// pause draws how long a node stands still: about as long as a send may take, a
// lease, a fence, or far beyond.
func (w *simWorld) pause() time.Duration {
	limit := w.oneOf(10*time.Second, 30*time.Second, time.Minute, 75*time.Second, 5*time.Minute, 15*time.Minute)
	return limit - 2*time.Second + time.Duration(w.upTo(int(4*time.Second)))
}

// answerIn lets the present call's answer come later. What acts late has no caller.
func (w *simWorld) answerIn(d time.Duration) {
	if c := w.director.current; c != nil {
		c.readyAt = time.Now().Add(d)
	}
}

// outsideFreeze is how long a process stands still between the last check and the
// write, where a run asks for it. The protocol assumes that none does.
func (w *simWorld) outsideFreeze() time.Duration {
	if *simOutside != "frozen" || !w.plagued.Load() || w.upTo(10) > 0 {
		return 0
	}
	w.stats.outside++
	return time.Duration(w.upTo(int(10 * time.Minute)))
}

// outsideSlow is how long after the fence a request still acts, the same way.
func (w *simWorld) outsideSlow() time.Duration {
	if *simOutside != "slow" || w.upTo(4) > 0 {
		return 0
	}
	w.stats.outside++
	return time.Duration(w.upTo(int(10 * time.Minute)))
}
