package sim

import (
	"bytes"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: twins are jobs with one content in one account. The platform
// cannot tell their objects apart, and the oracle can: it knows which job's attempt
// made each. The protocol keeps one of them open at a time; so an object may settle
// a twin of its maker's only when one of the two was given up in doubt before: left
// to a person, ruled on, taken for sent, or wanted once more by policy.

// oneOfAContent: at most one job of a content is open at a time, by what the store
// says of the jobs, not by its gates.
func (w *simWorld) oneOfAContent(j *simJob) {
	if j.target.traits.Class != job.Observable || !open(j) {
		return
	}
	mine := w.content(j)
	for _, other := range w.jobs {
		if other != j && other.target == j.target && open(other) && bytes.Equal(w.content(other), mine) {
			w.broke("GATE", j, "%s, and job %d with the same content is %s", j.last.State, other.index, other.last.State)
		}
	}
}

// open reports whether an attempt of the job has no outcome, and it is not given up.
func open(j *simJob) bool {
	return j.last.State == job.Sending || j.last.State == job.Ambiguous || j.last.State == job.Accepted
}

// content is what the job's last attempt posts.
func (w *simWorld) content(j *simJob) []byte {
	attempts := w.store.Inspect(j.id).Attempts
	return attempts[len(attempts)-1].Frozen
}

// swapIsExcused: FALSE_SUCCEEDED, for an object that a twin has made.
func (w *simWorld) swapIsExcused(j *simJob, e *job.Effect, p *simPost) {
	w.stats.swapped++
	last := j.attempts[1].fence
	for _, a := range j.attempts {
		last = later(last, a.fence)
	}
	switch {
	case e.Proof == job.ProofOperator && j.wronged:
	case e.Proof != job.ProofObserved:
		w.broke("FALSE_SUCCEEDED", j, "by %s of %s, which job %d has made", e.Proof, p.id, p.job.index)
	case !p.at.Before(last):
		w.broke("FALSE_SUCCEEDED", j, "by %s, which job %d made %v from the last fence on", p.id, p.job.index, p.at.Sub(last))
	case !j.doubted && !p.job.doubted:
		w.broke("FALSE_SUCCEEDED", j, "by %s, which job %d has made; neither was in doubt", p.id, p.job.index)
	}
}

// swapped reports whether an object settles a twin of the job that made it, as is
// excused. Whether they settle as many as they should is checked at the end.
func (w *simWorld) swapped(j *simJob, p *simPost) bool {
	return j.target.twins && slices.ContainsFunc(w.jobs, func(o *simJob) bool {
		return o != j && o.last.State == job.Succeeded && effectID(o.last) == p.id && (o.doubted || j.doubted)
	})
}

// own counts the effects that a job had and that no twin of it took.
func (w *simWorld) own(j *simJob) int {
	n := 0
	for _, p := range j.posts {
		if !w.swapped(j, p) {
			n++
		}
	}
	return n
}

// objectIsOnes: I10. A second claim to an object is possible where the first was a
// look's, and is written down.
func (w *simWorld) objectIsOnes(j *simJob) {
	id := effectID(j.last)
	if j.last.State != job.Succeeded || id == "" {
		return
	}
	for _, other := range w.jobs {
		if other == j || other.last.State != job.Succeeded || effectID(other.last) != id {
			continue
		}
		excused := (other.doubted || j.doubted) && (other.alarmed || j.alarmed)
		if !excused && !other.wronged && !j.wronged {
			w.broke("I10", j, "%s settles job %d too", id, other.index)
		}
	}
}
