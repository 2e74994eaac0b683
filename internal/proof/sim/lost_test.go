package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/memory"
)

// Rules of this file: what follows from a sender that seems to be gone is held against
// the fences of the attempts, as docs/protocol.md has them.

// senderIsLost notes an attempt that was taken up before its fence: EARLY, if that moved
// the fence, or said more of the attempt than that it is unknown.
func (w *simWorld) senderIsLost(j *simJob, e job.Event, r memory.Record) {
	if e.Cause == job.CausePolicy {
		w.policyIsNotEarly(j, r)
	}
	if e.Cause != job.CauseSenderLost {
		return
	}
	if e.From == job.Claimed {
		w.claimIsLost(j, e)
		return
	}
	w.stats.lost++
	if e.Attempt < 1 {
		w.broke("I1", j, "a sender was lost before the first attempt: %s -> %s", e.From, e.To)
		return
	}
	s := r.Snapshot
	switch {
	case e.From != job.Sending || e.To != job.Ambiguous || r.Attempts[e.Attempt-1].Result != job.ResultUnknown:
		w.broke("EARLY", j, "attempt %d lost its sender: %s -> %s, and it is %s", e.Attempt, e.From, e.To, r.Attempts[e.Attempt-1].Result)
	case !s.Fence.Equal(j.last.Fence):
		w.broke("EARLY", j, "attempt %d lost its sender, and its fence moved by %v", e.Attempt, s.Fence.Sub(j.last.Fence))
	case !j.target.traits.DedupesInFlight || len(s.Open) != 1:
		w.broke("EARLY", j, "attempt %d lost its sender before its fence, and may not be repeated before it", e.Attempt)
	case !s.CancelAsked.IsZero() || !j.decidedLost(e).Before(s.StartDeadline):
		w.broke("EARLY", j, "attempt %d lost its sender before its fence, and the job is not to be repeated any more", e.Attempt)
	}
	j.lost[e.Attempt] = true
	if s.NextAt.Before(s.Fence) {
		w.repeatsArePaced(j, e, s)
	}
}

// noteLost notes when the loss of a sender was decided. The store may write the decision
// seconds later, after the start window: that is no repeat, and the next decision sees the
// window's end.
func (w *simWorld) noteLost(items []store.Change, ago time.Duration) {
	for _, it := range items {
		j := w.byID[it.Job]
		if it.Decision.Cause != job.CauseSenderLost || j == nil {
			continue
		}
		if j.lostAt == nil {
			j.lostAt = make(map[int64]time.Time)
		}
		if _, known := j.lostAt[it.Version]; !known {
			j.lostAt[it.Version] = w.store.Inspect(it.Job).Snapshot.Now.Add(-ago)
		}
	}
}

// decidedLost returns when the event was decided, as far as that is known, or written.
func (j *simJob) decidedLost(e job.Event) time.Time {
	if at, known := j.lostAt[e.Sequence-1]; known {
		return at
	}
	return e.At
}

// claimIsLost: EARLY, when a claim was taken up that may not be before its lease ends.
func (w *simWorld) claimIsLost(j *simJob, e job.Event) {
	w.stats.released++
	if was := j.last; was.State != job.Claimed || was.Claims > 0 || e.To != job.Scheduled && e.To != job.Retrying {
		w.broke("EARLY", j, "a claim lost its server: %s -> %s, after %d claims that died", e.From, e.To, was.Claims)
	}
}

// isUnderItsLease: LEASE, when an intent was written under another claim than the job had.
func (w *simWorld) isUnderItsLease(before job.Snapshot, a store.Arm) {
	if before.ClaimToken != a.Claim || a.Claim.IsZero() {
		w.broke("LEASE", w.byID[a.Job], "armed by %s under a claim that the job, %s, does not have", a.Worker, before.State)
	}
}

// repeatsArePaced: PACED, when one write lets repeats of one connection be due together.
func (w *simWorld) repeatsArePaced(j *simJob, e job.Event, s job.Snapshot) {
	write := fmt.Sprint(e.Actor, j.target.name, e.At.UnixMicro())
	for _, due := range w.paced[write] {
		if apart := s.NextAt.Sub(due).Abs(); apart < 20*time.Millisecond {
			w.broke("PACED", j, "two repeats of a connection are due within %v", apart)
		}
	}
	w.paced[write] = append(w.paced[write], s.NextAt)
}

// unfenced returns the attempts whose senders were lost, and which may still act for
// all that is known.
func (w *simWorld) unfenced(j *simJob, r memory.Record) (open []int) {
	for n := range j.lost {
		switch r.Attempts[n-1].Result {
		case job.ResultRejected, job.ResultNotSent, job.ResultAbsent:
			continue
		default:
		}
		if time.Until(j.attempts[n].fence) > 0 && n > j.ruled && !w.clockJumps {
			open = append(open, n)
		}
	}
	slices.Sort(open)
	return open
}

// countEarly counts the repeats before the fence of an attempt whose sender was lost.
func (w *simWorld) countEarly(j *simJob, r memory.Record) {
	for _, n := range w.unfenced(j, r) {
		w.stats.early++
		if w.sends(n, j) {
			w.stats.both++
		}
	}
}

// sends reports whether a living process is still sending the attempt.
func (w *simWorld) sends(attempt int, j *simJob) bool {
	for _, g := range w.director.parked {
		if c := g[0]; c.op == "Publish" && c.job == j.id && c.n == int64(attempt) {
			return true
		}
	}
	return false
}

// policyIsNotEarly: EARLY, when a policy is applied before the fence of an attempt whose
// sender was lost: it may have its answer yet.
func (w *simWorld) policyIsNotEarly(j *simJob, r memory.Record) {
	for _, n := range w.unfenced(j, r) {
		w.broke("EARLY", j, "the policy was applied %v before the fence of attempt %d, whose sender was lost", time.Until(j.attempts[n].fence), n)
		return
	}
}
