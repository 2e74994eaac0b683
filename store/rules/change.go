package rules

import (
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Changeable is a job as a decision finds it, read from rows that stay locked until the
// decision is written.
type Changeable struct {
	Job      job.Job
	Attempts AttemptViews
	// Owner is the owner of the object that the decision's effect names.
	Owner Owner
	// Deleted reports whether the job's connection is deleted. Only a decision that Restarts
	// needs it.
	Deleted bool
	Now     time.Time
}

// Plan is what a change writes.
type Plan struct {
	// Change is the change to write: a success by a look may have become a question for a
	// person.
	store.Change
	// Next is the job as the change leaves it, without its effect and its ruling, and with
	// its old content.
	Next job.Job
	Settlement
	Ownership
	Follows
}

// Follows lists what a job's move changes outside its own row.
type Follows struct {
	// OpensGate: its open intent ends.
	OpensGate bool
	// Frees: its connection may have one more job under way.
	Frees bool
	// NotifiesReplies: the jobs that wait for it are updated (see ReplyAfter).
	NotifiesReplies bool
	// Wakes: work on it that no claim takes is due at another time than before.
	Wakes bool
}

// NewPlan judges a change.
func NewPlan(c store.Change, j Changeable) (Plan, error) {
	st := j.Job.Status
	if err := check(c, st); err != nil {
		return Plan{}, err
	}
	if Restarts(c, st.State) && j.Deleted {
		return Plan{}, fmt.Errorf("connection %s: %w", j.Job.Connection, store.ErrNotFound)
	}
	if err := absence(c, st, j.Attempts.Fence()); err != nil {
		return Plan{}, err
	}
	p := Plan{Change: c}
	if c.Decision.Effect != nil {
		p.Ownership = own(&p.Change, st.State, j.Owner)
	}
	var err error
	if p.Settlement, err = settlement(p.Change, st.State, j.Attempts.Results()); err != nil {
		return Plan{}, err
	}
	p.Next = j.Job.Decided(p.Decision, j.Now)
	p.Next.StartWindow = p.Next.StartWindow.Truncate(time.Microsecond)
	p.Next.StartDeadline = job.Micros(p.Next.StartDeadline)
	p.Follows = follows(j.Job, p.Next)
	return p, nil
}

func follows(was, is job.Job) Follows {
	from, to := was.State, is.State
	return Follows{
		OpensGate:       from.Gated() && !to.Gated(),
		Frees:           from.InFlight() && !to.InFlight(),
		NotifiesReplies: from.NotifiesReplies(to),
		Wakes:           !to.Runnable() && !is.NextAt.IsZero() && !is.NextAt.Equal(was.NextAt),
	}
}

// Restarts reports whether a change restarts a job that had ended in state from. On a deleted
// connection no change may.
func Restarts(c store.Change, from job.State) bool {
	return from.Terminal() && c.Decision.To.Runnable()
}

// ReplyAfter returns a waiting reply after the job that it waits for has reached a state.
// This is no change of the reply: no version, no event.
func ReplyAfter(reply job.Job, state job.State, now time.Time) job.Job {
	if state == job.Succeeded {
		reply = reply.Released(now)
		reply.StartDeadline = job.Micros(reply.StartDeadline)
		return reply
	}
	reply.PredecessorEnd = state.BadEnd()
	return reply
}

// check refuses what is no decision on the job as it is. Decisions neither lease nor arm:
// Claim and Arm do.
func check(c store.Change, st job.Status) error {
	d, from, to := c.Decision, st.State, c.Decision.To
	switch {
	case st.Version != c.Version:
		return fmt.Errorf("%w: version %d, now %d", store.ErrStale, c.Version, st.Version)
	case d.Action != job.ActWrite:
		return fmt.Errorf("%w: the decision is not to write", store.ErrIllegal)
	case !job.Legal(from, to):
		return fmt.Errorf("%w: from %s to %s", store.ErrIllegal, from, to)
	case from != to && (to == job.Sending || to == job.Claimed):
		return fmt.Errorf("%w: a decision moves no job to %s", store.ErrIllegal, to)
	case d.Cause < job.CauseSubmitted || d.Cause > job.CauseAlreadyPresent:
		return fmt.Errorf("%w: cause %d", store.ErrIllegal, d.Cause)
	case d.Effect != nil && to != job.Succeeded:
		return fmt.Errorf("%w: an effect in state %s", store.ErrIllegal, to)
	case d.Cause == job.CausePredecessorEnded && st.PredecessorEnd == 0:
		return fmt.Errorf("%w: its predecessor goes on", store.ErrStale)
	case d.Reschedule && !to.Runnable():
		return fmt.Errorf("%w: a new time in state %s", store.ErrIllegal, to)
	}
	return checkContent(c, st)
}

// checkContent refuses new content in decisions without any. Two have content: a client's
// update, and a person's RESEND, which has the effect key of the round that it begins.
func checkContent(c store.Change, st job.Status) error {
	d := c.Decision
	switch {
	case c.Content == nil:
		return nil
	case c.Content.OwnEffectKey != "" && d.Cause == job.CauseResolved && d.To == job.Retrying && d.Round > st.Round:
		return nil
	case c.Content.OwnEffectKey == "" && d.Cause == job.CauseUpdated && d.To == st.State &&
		c.Content.Fields()&^st.State.Updatable() == 0 && st.State.Updatable() != 0:
		return nil
	default:
		return fmt.Errorf("%w: new content, of cause %s, from %s to %s", store.ErrIllegal, d.Cause, st.State, d.To)
	}
}

// absence refuses to count an absence that Decide would not count on the job as it is: one of
// a look that began before the fence of the last attempt, or one that has been forgotten. The
// version does not show either, because Release raises fences and forgets absences without a
// new version.
func absence(c store.Change, st job.Status, fence time.Time) error {
	d, look := c.Decision, c.Decision.Observed
	counts := d.Negatives > st.Negatives
	switch {
	case look == nil && counts:
		return fmt.Errorf("%w: counts an absence that is forgotten", store.ErrStale)
	case look == nil || look.BegunAt.IsZero() || !look.BegunAt.Before(fence):
		return nil
	case counts || d.CloseOpen == job.ResultAbsent:
		return fmt.Errorf("%w: the look began before the fence", store.ErrStale)
	}
	return nil
}

// needPerson turns a success by a look into a question for a person, because the object that
// was found is the effect of another job. Where a job in state from cannot wait for a person,
// it becomes a note that changes nothing.
func needPerson(c *store.Change, from job.State, other job.ID) {
	d := &c.Decision
	d.Effect, d.Settle, d.CloseOpen = nil, nil, 0
	note(c, fmt.Sprintf("the object that was found is the effect of job %s already", other))
	d.To = job.NeedsResolution
	if !job.Legal(from, job.NeedsResolution) {
		d.To, d.Delay = from, job.KeepDelay
	}
}

// note adds text to the detail of the change's event.
func note(c *store.Change, text string) {
	if c.Decision.Detail != "" {
		text = c.Decision.Detail + "; " + text
	}
	c.Decision.Detail = text
}

// Settlement is what a change writes to the attempts of its job.
type Settlement struct {
	Settle []job.Settled
	// Close numbers the attempts that get the decision's CloseOpen.
	Close []int
	// Open numbers the attempts that stay open, in rising order.
	Open []int
}

// settlement judges what the decision does to the attempts of a job in state from. results
// are those of the armed attempts, oldest first. A move that means "no effect" needs every
// attempt closed.
func settlement(c store.Change, from job.State, results []job.Result) (Settlement, error) {
	var s Settlement
	d := c.Decision
	results = slices.Clone(results)
	settled := make(map[int]bool, len(d.Settle))
	for _, a := range d.Settle {
		if a.Attempt < 1 || a.Attempt > len(results) {
			return s, fmt.Errorf("%w: settles attempt %d, which was never armed", store.ErrIllegal, a.Attempt)
		}
		if settled[a.Attempt] {
			return s, fmt.Errorf("%w: settles attempt %d twice", store.ErrIllegal, a.Attempt)
		}
		settled[a.Attempt] = true
		if a.MayReplace(results[a.Attempt-1]) {
			results[a.Attempt-1] = a.Result
			s.Settle = append(s.Settle, a)
		}
	}
	for i, r := range results {
		n := i + 1
		if r.Open() && d.CloseOpen != 0 && !settled[n] {
			r = d.CloseOpen
			s.Close = append(s.Close, n)
		}
		if !r.Open() {
			continue
		}
		if d.SaysNoEffect(from) {
			return s, fmt.Errorf("%w: %s while attempt %d is open", store.ErrIllegal, d.To, n)
		}
		s.Open = append(s.Open, n)
	}
	return s, nil
}
