package sim

import (
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/memory"
)

// Rules of this file: what docs/protocol.md and the contract say of connections.
// A pause, a refused credential and a rate limit stop every start and cost nothing;
// a hold is about the present credential, and only after its renewal was refused; a
// connection's limits hold; what is sent is what was asked for last.

// connectionRules holds one event against the rules of its job's connection.
func (w *simWorld) connectionRules(j *simJob, e job.Event, r memory.Record) {
	if e.Cause == job.CauseClaimed {
		w.takes(j, e)
	}
	if r.Snapshot.Failures > j.last.Failures {
		w.costs(j, e)
	}
	if e.Cause == job.CauseUpdated && e.From != job.Scheduled && e.From != job.Retrying {
		w.broke("CONTENT", j, "changed while it was %s", e.From)
	}
	w.answerHolds(j, e)
	w.holdIsTrue(j.target, j)
}

func (j *simJob) connection() job.ID { return j.spec.Spec.Connection }

// startIsFree: HELD and STOPPED, for claims and arms alike.
func (w *simWorld) startIsFree(j *simJob, what string, is moment) {
	if w.stopped(j) {
		w.broke("STOPPED", j, "%s under a stop", what)
	}
	a := &j.target.account
	why := ""
	switch conn := w.connection(j.target); {
	case !a.paused.IsZero():
		why = "in a pause"
	case !conn.AuthHoldAt.IsZero():
		why = "while its credential is refused"
	case a.limited[j.connection()].after(is.add(time.Microsecond)): // the store's times are cut to whole ones
		why = "before the platform wants to hear again"
	}
	if why != "" {
		w.broke("HELD", j, "%s %s", what, why)
	}
}

// takes notes a claim: HELD, PACE, and what the job may be sent with.
func (w *simWorld) takes(j *simJob, e job.Event) {
	a := &j.target.account
	now := written(e.At)
	w.startIsFree(j, "claimed", now)
	w.claimedUnderBreaker(j)
	j.leased, j.claimed = a.present().version, true
	w.haltSoon(j)
	most := a.limits.MaxPerMinute
	if most == 0 {
		return
	}
	a.starts = append(a.starts, now)
	minute, once := 0, 0
	for _, start := range a.starts {
		if start.after(now.add(time.Microsecond - time.Minute)) { // the store's times are cut to whole ones
			minute++
		}
		if start.stored.Equal(now.stored) && start.true.Equal(now.true) { // a clock that is set back shows a time again
			once++
		}
	}
	if minute > most || once > max(1, most/10) {
		w.broke("PACE", j, "%d starts in a minute and %d at once, of %d in a minute", minute, once, most)
	}
}

// fewInFlight: FLIGHT, when a claim has added to what is under way.
func (w *simWorld) fewInFlight(j *simJob) {
	if !j.claimed {
		return
	}
	j.claimed = false
	most := j.target.account.limits.MaxInFlight
	n := 0
	for _, other := range w.jobs {
		if other.target == j.target && other.last.State.InFlight() {
			n++
		}
	}
	if most > 0 && n > most {
		w.broke("FLIGHT", j, "%d jobs are under way, at most %d are wanted", n, most)
	}
}

// armIsFitting: HELD, CREDENTIAL, CLASS and CONTENT, of a new intent.
func (w *simWorld) armIsFitting(j *simJob, r memory.Record, i int) {
	a, t := r.Attempts[i], j.target
	w.startIsFree(j, "armed", written(a.ArmedAt))
	first := j.last.State != job.Ambiguous
	switch present := t.account.present().version; {
	case a.CredentialVersion > present:
		w.broke("CREDENTIAL", j, "attempt %d armed with version %d, which is not stored", a.Number, a.CredentialVersion)
	case first && a.CredentialVersion < j.leased:
		w.broke("CREDENTIAL", j, "attempt %d armed with version %d; it was claimed under %d", a.Number, a.CredentialVersion, j.leased)
	}
	if r.Snapshot.Class != t.traits.Class {
		w.broke("CLASS", j, "attempt %d armed as %s, and the target is %s", a.Number, r.Snapshot.Class, t.traits.Class)
	}
	text, _, _ := strings.Cut(textOfFrozen(t, a.Frozen), " to ")
	if text != j.text {
		w.broke("CONTENT", j, "attempt %d sends %q; asked for was %q", a.Number, text, j.text)
	}
}

// costs: BURNT, when a job has a failure more. What refuses a credential or asks to
// wait takes none; what else a worker meets before the arm takes one each.
func (w *simWorld) costs(j *simJob, e job.Event) {
	switch {
	case e.From == job.Claimed && e.Cause == job.CauseNotStarted:
		w.looks.Lock()
		j.met[e.Actor]--
		short := j.met[e.Actor] < 0
		w.looks.Unlock()
		if short {
			w.broke("BURNT", j, "a failure at version %d, and nothing that costs one was met", e.Sequence)
		}
	case e.From == job.Sending && e.Cause == job.CauseAnswered:
		if a := j.attempts[e.Attempt]; a != nil && a.free {
			w.broke("BURNT", j, "attempt %d costs a failure, and was told to wait, or to log in anew", e.Attempt)
		}
	default:
	}
}

// meets notes that a worker met something before an arm that costs a try.
func (w *simWorld) meets(n *node, j *simJob) {
	w.looks.Lock()
	defer w.looks.Unlock()
	j.met[n.name]++
}

// answerHolds follows what was stored of an answer: LIMIT and HOLD_MISSING.
func (w *simWorld) answerHolds(j *simJob, e job.Event) {
	a := j.attempts[e.Attempt]
	if e.From != job.Sending || e.Cause != job.CauseAnswered || a == nil || !a.free {
		return
	}
	t := j.target
	if a.refusedVersion == nil {
		limited := t.account.limited
		limited[j.connection()] = laterOf(limited[j.connection()], written(e.At).add(a.wait))
		return
	}
	if t.account.renewable || a.refusedVersion != t.account.present() {
		return
	}
	if w.connection(t).AuthHoldAt.IsZero() {
		w.broke("HOLD_MISSING", j, "the platform refused version %d to attempt %d, and nothing is held", a.refusedVersion.version, e.Attempt)
	}
}

// holdIsTrue: HOLD_STALE and HELD_EARLY, whenever a hold may have come.
func (w *simWorld) holdIsTrue(t *target, j *simJob) {
	if w.connection(t).AuthHoldAt.IsZero() {
		return
	}
	switch c := t.account.present(); {
	case !c.refused && !c.login.dead:
		w.broke("HOLD_STALE", j, "%s is held, and version %d was never refused", t.name, c.version)
	case t.account.renewable && !c.login.dead:
		w.broke("HELD_EARLY", j, "%s is held, and its login may be renewed", t.name)
	}
}

// missedHasEnded: MISSED, before a pause ends whose missed jobs are not wanted.
func (w *simWorld) missedHasEnded(t *target) {
	for _, j := range w.jobs {
		s := w.store.Inspect(j.id).Snapshot
		if j.target != t || !s.State.Runnable() || !s.WaitsFor.IsZero() {
			continue
		}
		if now := s.Now; !s.NextAt.Before(t.account.paused) && !s.NextAt.After(now) && s.StartDeadline.After(now) {
			w.broke("MISSED", j, "%s, though it fell due in the pause", s.State)
		}
	}
}

// simPatience is how long a job that may start may wait for that once faults are over:
// for a node that stands still yet, the longest poll, and others before it.
const simPatience = 45 * time.Minute

// hadNoStart: STARVED, when a job has expired that nothing held back any more.
func (w *simWorld) hadNoStart(j *simJob, before job.Snapshot) {
	t := j.target
	may := later(w.healed, before.NextAt)
	switch conn := w.connection(t); {
	case w.healed.IsZero() || w.clockJumps || t.twins:
	case t.ill != well: // it may wait for a breaker that stays open until the target is well
	case w.isPaced(j): // it may wait for the end of a cool-down, or a look
	case j.missed: // it fell due in a pause, and was not wanted any more when the pause ended
	case before.State != job.Scheduled || before.Failures > 0 || !before.WaitsFor.IsZero():
	case !t.account.paused.IsZero(), !conn.AuthHoldAt.IsZero(), conn.MaxPerMinute > 0:
	case before.StartDeadline.Sub(later(may, t.account.limited[j.connection()].stored)) > simPatience:
		w.broke("STARVED", j, "it could have started for %v", before.StartDeadline.Sub(may))
	}
}
