package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: what every engine judges before it writes a change, from
// the rows that it has locked.

// Check refuses what is no decision on the job as it is. Leases and intents are
// not given by decisions: those are Claim's and Arm's.
func (c Change) Check(st job.Status) error {
	d, from, to := c.Decision, st.State, c.Decision.To
	switch {
	case st.Version != c.Version:
		return fmt.Errorf("%w: version %d, now %d", ErrStale, c.Version, st.Version)
	case d.Action != job.ActWrite:
		return fmt.Errorf("%w: the decision is not to write", ErrIllegal)
	case !job.Legal(from, to):
		return fmt.Errorf("%w: from %s to %s", ErrIllegal, from, to)
	case from != to && (to == job.Sending || to == job.Claimed):
		return fmt.Errorf("%w: a decision moves no job to %s", ErrIllegal, to)
	case d.Effect != nil && to != job.Succeeded:
		return fmt.Errorf("%w: an effect in state %s", ErrIllegal, to)
	case d.Cause == job.CausePredecessorEnded && st.PredecessorEnd == 0:
		return fmt.Errorf("%w: its predecessor goes on", ErrStale)
	case d.Reschedule && !to.Runnable():
		return fmt.Errorf("%w: a new time in state %s", ErrIllegal, to)
	}
	return c.checkContent(st)
}

// checkContent refuses new content where a decision brings none: a client's update does,
// and a person's RESEND, which brings the effect key of the round that it begins.
func (c Change) checkContent(st job.Status) error {
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
		return fmt.Errorf("%w: new content, of cause %s, from %s to %s", ErrIllegal, d.Cause, st.State, d.To)
	}
}

// Absence refuses to count an absence that Decide would not count on the job as
// it is: of a look that began before the fence of the last attempt, or one that is
// forgotten by now. The version does not tell: Release raises fences and forgets
// absences without a new one.
func (c Change) Absence(st job.Status, fence time.Time) error {
	d, look := c.Decision, c.Decision.Observed
	counts := d.Negatives > st.Negatives
	switch {
	case look == nil && counts:
		return fmt.Errorf("%w: counts an absence that is forgotten", ErrStale)
	case look == nil || look.BegunAt.IsZero() || !look.BegunAt.Before(fence):
		return nil
	case counts || d.CloseOpen == job.ResultAbsent:
		return fmt.Errorf("%w: the look began before the fence", ErrStale)
	}
	return nil
}

// Doubt turns a success by a look into a question for a person, or, where a job
// in state from cannot wait for one, into a note that changes nothing: the object
// that was found is the effect of another job.
func (c *Change) Doubt(from job.State, other job.ID) {
	d := &c.Decision
	d.Effect, d.Settle, d.CloseOpen = nil, nil, 0
	c.Note(fmt.Sprintf("the object that was found is the effect of job %s already", other))
	d.To = job.NeedsResolution
	if !job.Legal(from, job.NeedsResolution) {
		d.To, d.Delay = from, job.KeepDelay
	}
}

// Note adds to what the change's event says.
func (c *Change) Note(text string) {
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
	// Open numbers those that stay open, in rising order.
	Open []int
}

// Settlement judges what the decision says of the attempts of a job in state
// from; results are those that were armed, oldest first. A move that says "no
// effect" needs every attempt closed.
func (c Change) Settlement(from job.State, results []job.Result) (Settlement, error) {
	var s Settlement
	d := c.Decision
	results = slices.Clone(results)
	settled := make(map[int]bool, len(d.Settle))
	for _, a := range d.Settle {
		if a.Attempt < 1 || a.Attempt > len(results) {
			return s, fmt.Errorf("%w: settles attempt %d, which was never armed", ErrIllegal, a.Attempt)
		}
		if settled[a.Attempt] {
			return s, fmt.Errorf("%w: settles attempt %d twice", ErrIllegal, a.Attempt)
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
			return s, fmt.Errorf("%w: %s while attempt %d is open", ErrIllegal, d.To, n)
		}
		s.Open = append(s.Open, n)
	}
	return s, nil
}
