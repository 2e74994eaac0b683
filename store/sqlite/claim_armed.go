package sqlite

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file: a claim that arms writes the job once, in its state after the arm.
//   - The log and the attempts are the same as after a claim and an arm.
//   - The lease is never visible to another caller. rules.Arm judges the intent like any
//     other; only what the version guarantees is not checked again.
//   - If a guard refuses the arm, the job is only leased. If SQLite refuses more than that,
//     the group runs again, and each step is made and judged by itself.

// intent calls ClaimParams.Intent for a claim; nil: the job is only leased.
func (c *claimer) intent(l store.Leased) *store.Arm {
	if c.p.Intent == nil {
		return nil
	}
	a := c.p.Intent(l)
	if a == nil || !a.Intended(l) {
		return nil
	}
	return a
}

// inSteps leases a job and then arms it, each step with its own verdict: the lease stays if
// the arm is refused.
func (c *claimer) inSteps(ctx context.Context, from job.State, h *cachedJob, a *store.Arm) (*store.Armed, error) {
	if err := c.lease(ctx, from, h); err != nil || a == nil {
		return nil, err
	}
	var out *store.Armed
	// It is one item of several, so that a refusal is undone alone.
	_, fatal := c.runItem(ctx, 2, func() error {
		armed, err := c.arm(ctx, *a)
		if err == nil {
			out = &armed
		}
		return err
	})
	return out, fatal
}

// atOnce claims and arms a job in one write, if every guard of an arm holds; h and snap are
// the job as the claim alone would leave it.
func (c *claimer) atOnce(ctx context.Context, from job.State, h *cachedJob, snap *job.Snapshot, a *store.Arm) (*store.Armed, error) {
	j, err := c.armable(ctx, h, snap)
	if err != nil {
		return nil, err
	}
	if !rules.MayArm(*a, j) {
		return nil, nil
	}
	next, attempt := rules.Begin(*a, j)
	mark, was := c.w.log.mark(), job.Status{State: from, Version: h.Version - 1}
	history := append(c.noteClaim(from, h), c.noteArm(&next.Job, job.Claimed)...)
	n, err := c.writeArm(ctx, was, &next, &attempt, history)
	if err != nil {
		return nil, fmt.Errorf("claim and arm job: %w", err)
	}
	if n != 1 {
		c.w.log.cut(mark)
		return nil, nil
	}
	if err := c.noteArmed(ctx); err != nil {
		return nil, err
	}
	c.w.cache.moved(h.Connection, from, job.Sending)
	armed := c.armed(h, next, attempt)
	return &armed, nil
}
