package sqlite

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/store"
)

// content writes the parts of the request that a decision changes: the content, and the start
// window. A job whose hold key changes leaves its old runnable row here, and joins the new
// one with its state.
func (c *change) content(ctx context.Context) error {
	to := c.Content
	if to == nil && c.Decision.Window <= 0 {
		return nil
	}
	if to != nil && to.Labels != nil {
		c.job.Labels = store.EncodeLabels(to.Labels)
	}
	if to != nil {
		c.terms(*to)
	}
	if to != nil && to.Payload != nil {
		before := len(c.job.Payload)
		c.job.Payload = fromBytes(to.Payload)
		if err := c.w.usage.add(ctx, c.tx, c.job.Project, 0, int64(len(c.job.Payload)-before)); err != nil {
			return err
		}
		c.job.HoldKey, c.st.HoldKey = to.HoldKey, to.HoldKey
		if err := c.q.RemoveRecipients(ctx, c.job.ID); err != nil {
			return fmt.Errorf("recipients: %w", err)
		}
		if err := c.addRecipients(ctx, c.job, to.Recipients); err != nil {
			return err
		}
	}
	if to != nil && to.OwnEffectKey != "" {
		took, err := c.q.TakeEffectKey(ctx, sqlitedb.TakeEffectKeyParams{Digest: to.EffectKey[:], JobID: c.job.ID})
		if err != nil {
			return fmt.Errorf("effect key: %w", err)
		}
		if took == 0 {
			return fmt.Errorf("job %s: %w", toID(c.job.ID), store.ErrEffectKeyTaken) // judged before
		}
		c.job.OwnEffectKey = to.OwnEffectKey
	}
	return named("content", c.q.SetContent(ctx, sqlitedb.SetContentParams{
		Payload: c.job.Payload, HoldKey: c.job.HoldKey, Labels: c.job.Labels,
		StartWindow: c.job.StartWindow, OwnEffectKey: c.job.OwnEffectKey, ID: c.job.ID,
		Policy: c.job.Policy, MaxAttempts: c.job.MaxAttempts, MinBackoff: c.job.MinBackoff, MaxBackoff: c.job.MaxBackoff,
		AttemptTimeout: c.job.AttemptTimeout, TimeZone: c.job.TimeZone,
	}))
}

// terms changes policies and the time zone of the row.
func (c *change) terms(to store.Content) {
	if to.Policy != 0 {
		c.job.Policy = int64(to.Policy)
	}
	if r := to.Retry; r != nil {
		c.job.MaxAttempts = int64(r.MaxAttempts)
		c.job.MinBackoff, c.job.MaxBackoff = micros(r.MinBackoff), micros(r.MaxBackoff)
	}
	if to.AttemptTimeout != nil {
		c.job.AttemptTimeout = micros(*to.AttemptTimeout)
	}
	if to.TimeZone != nil {
		c.job.TimeZone = *to.TimeZone
	}
}

// freeEffectKey refuses a used effect key before the first write.
func (t *tx) freeEffectKey(ctx context.Context, digest [32]byte) error {
	if digest == ([32]byte{}) {
		return nil
	}
	taken, err := t.q.EffectKeyTaken(ctx, digest[:])
	if err == nil && taken == 1 {
		err = store.ErrEffectKeyTaken
	}
	return err
}

// leaveRow removes a job that has moved to another runnable row from the old one.
func (c *change) leaveRow(ctx context.Context) error {
	if c.old.HoldKey == c.st.HoldKey {
		return nil
	}
	return named("runnable row", c.q.Recount(ctx, sqlitedb.RecountParams{ConnectionID: c.old.ConnectionID, HoldKey: c.old.HoldKey}))
}
