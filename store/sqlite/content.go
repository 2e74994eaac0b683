package sqlite

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/litedb"
	"github.com/fireonce/fireonce/store"
)

// content writes what a decision changes of the request itself: the content, and
// the start window. A job whose hold key changes leaves its ready row here, and
// comes to the new one with its state.
func (c *change) content(ctx context.Context) error {
	to := c.Content
	if to == nil && c.Decision.Window <= 0 {
		return nil
	}
	if to != nil && to.Labels != nil {
		labels, err := fromLabels(to.Labels)
		if err != nil {
			return fmt.Errorf("%w: %w", store.ErrIllegal, err)
		}
		c.job.Labels = labels
	}
	if to != nil && to.Payload != nil {
		before := len(c.job.Payload)
		c.job.Payload = fromBytes(to.Payload)
		if err := c.w.usage.add(ctx, c.tx, c.job.Project, 0, int64(len(c.job.Payload)-before)); err != nil {
			return err
		}
		c.job.HoldKey, c.st.HoldKey = to.HoldKey, to.HoldKey
	}
	err := c.q.SetContent(ctx, litedb.SetContentParams{
		Payload: c.job.Payload, HoldKey: c.job.HoldKey, Labels: c.job.Labels,
		StartWindow: c.job.StartWindow, ID: c.job.ID,
	})
	if err != nil {
		return fmt.Errorf("content: %w", err)
	}
	return nil
}

// leaveRow makes the old ready row forget a job that has moved to another one.
func (c *change) leaveRow(ctx context.Context) error {
	if c.old.HoldKey == c.st.HoldKey {
		return nil
	}
	err := c.q.Recount(ctx, litedb.RecountParams{ConnectionID: c.old.ConnectionID, HoldKey: c.old.HoldKey})
	if err != nil {
		return fmt.Errorf("ready row: %w", err)
	}
	return nil
}
