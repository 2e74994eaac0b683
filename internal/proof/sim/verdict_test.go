package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/memory"
)

// Rules of this file: what a job's end says is held against the platform's own
// count, and against what was asked for. A protocol that ends a job at the first
// failure would break no other check.

// mayHave is how many effects are wanted: one, or one for each round where the
// policy, or a person who is wrong, takes that risk.
func (j *simJob) mayHave() int {
	if len(j.attempts) == 0 {
		return 0
	}
	switch {
	case j.wronged:
		return len(j.attempts)
	case j.spec.Spec.Delivery == job.AtLeastOnce:
		return j.attempts[len(j.attempts)].round
	default:
		return 1
	}
}

// tellable: the job's end says something about its own effect.
func (w *simWorld) tellable(j *simJob) bool {
	return !j.wronged
}

// endIsTrue holds a job's end against the platform's own count.
func (w *simWorld) endIsTrue(j *simJob) {
	s := j.last
	switch s.State {
	case job.Succeeded:
		w.successIsTrue(j, s.Effect)
	case job.Failed, job.Canceled, job.Expired:
		if !w.tellable(j) {
			return
		}
		counts := func(n int) bool { return j.spec.Spec.Delivery != job.AtLeastOnce || j.attempts[n].round == s.Round }
		for _, p := range j.posts {
			if counts(p.attempt) && !w.swapped(j, p) {
				w.broke("FALSE_"+s.State.String(), j, "attempt %d had an effect", p.attempt)
			}
		}
		for n := 1; n <= len(j.attempts); n++ {
			if j.attempts[n].pending && counts(n) {
				w.broke("FALSE_"+s.State.String(), j, "attempt %d will have an effect", n)
			}
		}
	default:
	}
}

// successIsTrue: the effect is there, and is the job's own.
func (w *simWorld) successIsTrue(j *simJob, e *job.Effect) {
	if e == nil {
		w.broke("FALSE_SUCCEEDED", j, "without an effect")
		return
	}
	if e.Proof == job.ProofAssumed && j.spec.Spec.Delivery == job.AtMostOnce || e.Proof == job.ProofOperator && j.wronged {
		return
	}
	fits := func(p *simPost) bool { return e.ExternalID == "" || p.id == e.ExternalID }
	if i := slices.IndexFunc(j.posts, fits); i >= 0 {
		w.proofFits(j, e, j.posts[i])
		return
	}
	if i := slices.IndexFunc(j.target.posts, fits); i >= 0 && j.target.twins {
		w.swapIsExcused(j, e, j.target.posts[i])
		return
	}
	w.broke("FALSE_SUCCEEDED", j, "no effect with the id %q, by %s", e.ExternalID, e.Proof)
}

// proofFits: an answer is about the attempt that was answered, and a look about the
// time in which the job's attempts could act.
func (w *simWorld) proofFits(j *simJob, e *job.Effect, p *simPost) {
	if e.Proof == job.ProofResponse && e.ExternalID != "" && j.target.traits.Class != job.Keyed && e.Attempt != p.attempt {
		w.broke("FALSE_SUCCEEDED", j, "attempt %d is said to have made %s, which is attempt %d's", e.Attempt, p.id, p.attempt)
	}
}

// startIsWanted: nothing starts before its time, after its window, after a cancel.
func (w *simWorld) startIsWanted(j *simJob, r memory.Record) {
	s, a := r.Snapshot, r.Attempts[len(r.Attempts)-1]
	end := j.last.StartDeadline // the arm has moved it
	switch {
	case !s.CancelAsked.IsZero():
		w.broke("UNWANTED", j, "attempt %d armed after a cancel", a.Number)
	case w.clockJumps:
		w.isNotEarly(j, r)
	case !end.After(a.ArmedAt):
		w.broke("UNWANTED", j, "attempt %d armed %v after the window", a.Number, a.ArmedAt.Sub(end))
	case s.KeepTrying != s.Retry.Keep() || s.StartDeadline.After(a.ArmedAt.Add(s.KeepTrying)):
		w.broke("UNWANTED", j, "attempt %d: it is tried for %v, until %v after the arm", a.Number, s.KeepTrying, s.StartDeadline.Sub(a.ArmedAt))
	case !hurried(r.Events) && a.ArmedAt.Before(s.ScheduleTime):
		w.broke("UNWANTED", j, "attempt %d armed %v before its time", a.Number, s.ScheduleTime.Sub(a.ArmedAt))
	}
}

// hurried reports whether a person started the job before its time, after its time was
// last set.
func hurried(events []job.Event) bool {
	for _, e := range slices.Backward(events) {
		switch e.Cause {
		case job.CauseRescheduled:
			return false
		case job.CauseRunNow, job.CauseRetryRequested, job.CauseResolved:
			return true
		default:
		}
	}
	return false
}

// endHasAReason: an end, or a question for a person, that is no success has a cause
// outside of the protocol.
func (w *simWorld) endHasAReason(j *simJob, before job.Snapshot, r memory.Record) {
	s := r.Snapshot
	why := ""
	switch s.State {
	case job.Canceled:
		left := r.Events[len(r.Events)-1].Cause == job.CausePredecessorEnded
		switch parent := w.byID[s.ReplyTo]; {
		case left && (parent == nil || parent.last.State.BadEnd() == 0):
			why = "the job that it replies to goes on"
		case r.Events[len(r.Events)-1].Cause == job.CauseAlreadyPresent:
			why = w.wasPresent(j)
		case !left && !j.canceled && j.ruling != job.RuleCancel:
			why = "nobody has asked for it"
		}
	case job.Expired:
		if before.KeepTrying > 0 && !j.missed {
			w.broke("UNWANTED", j, "EXPIRED although it has begun")
		}
		if !w.clockJumps && !j.missed && w.dbNow().Before(s.StartDeadline) {
			why = "its start window is open"
		} else {
			why = w.leftInTime(j, before)
		}
		w.hadNoStart(j, before)
	case job.Failed:
		if !j.permanent && j.ruling != job.RuleNotSent && j.spec.Spec.ReplyTo.IsZero() && !w.spent(j, r) {
			why = "nothing said so for good, and its attempts are not used up"
		}
	case job.NeedsResolution:
		why = w.gaveUp(j, before, r)
	default:
	}
	if why != "" {
		w.broke("GIVEN_UP", j, "%s: %s", s.State, why)
	}
}

// refused notes that the platform has refused a job, of what kind, and for how long it asks to
// wait.
func (w *simWorld) refused(id job.ID, kind job.FailureKind, asked time.Duration) {
	w.byID[id].asked = asked
	if kind == job.FailPermanent {
		w.byID[id].permanent = true
	}
}

// denies notes that the platform has refused an attempt.
func (w *simWorld) denies(j *simJob, attempt int) {
	if a := j.attempts[attempt]; a != nil {
		a.refused = true
	}
}

// saw notes that a look saw more than one object.
func (w *simWorld) saw(j *simJob) {
	w.looks.Lock()
	defer w.looks.Unlock()
	j.several = true
}

// spent reports whether as many tries came to nothing as the job may have, or as many
// leases ran out as it may cost.
func (w *simWorld) spent(j *simJob, r memory.Record) bool {
	tries, leases := 0, 0
	for _, e := range r.Events {
		switch e.Cause {
		case job.CauseRetryRequested, job.CauseResolved:
			tries, leases = 0, 0
		case job.CauseLeaseExpired:
			leases++
		case job.CauseSenderLost:
			if e.From == job.Claimed {
				leases++
			}
		case job.CauseAnswered, job.CauseNotStarted, job.CauseLooked, job.CausePolled, job.CauseLateEvidence:
			if e.From != e.To {
				tries++
			}
		default:
		}
	}
	budget := j.spec.Spec.Retry.MaxAttempts
	if budget == 0 {
		budget = 5
	}
	s := r.Snapshot
	next := max(s.Retry.Backoff(max(1, s.Failures, s.Misses), 0), j.asked)
	late := s.KeepTrying > 0 && w.dbNow().Add(next).After(s.StartDeadline)
	if w.clockJumps && s.LastError != nil { // its end is measured on a clock that has changed since
		late = strings.Contains(s.LastError.Message, "time to keep trying")
	}
	return tries >= budget || leases >= 5 || late
}

// gaveUp returns why a person had not to be asked yet; empty: there was a reason.
func (w *simWorld) gaveUp(j *simJob, before job.Snapshot, r memory.Record) string {
	t, s := j.target.traits, r.Snapshot
	looks := 0
	for _, e := range r.Events {
		if e.From == job.Ambiguous && e.From == e.To || e.From == job.Sending {
			looks++
		}
	}
	switch {
	case looks >= 50, len(j.attempts) == 0:
		return ""
	case t.Class == job.Observable && !j.several && !j.target.twins:
		return "the platform can tell, and was not asked often enough"
	case t.Class == job.Keyed && before.State == job.Ambiguous && s.CancelAsked.IsZero() && !w.clockJumps:
		age := time.Since(w.firstOf(j, j.attempts[len(j.attempts)].round).armed)
		last := j.attempts[len(j.attempts)]
		// What the protocol may use of a key's time: half, less what a repeat takes.
		if may := (t.KeyWindow - last.fence.Sub(last.armed)) / 2; age < may-time.Second && w.dbNow().Before(s.StartDeadline) {
			return "the key is remembered, and the window open"
		}
	}
	return ""
}
