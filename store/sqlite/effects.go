package sqlite

import (
	"cmp"
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/column"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file: one created object settles at most one job, as store/rules judges it.
// An answer that names no object proves the effect, and the job's own row holds it.

// objectOf returns the row to write for a decision's effect that names its object, with the
// object's owner if that is another job.
func (c *change) objectOf(ctx context.Context, e job.Effect) (sqlitedb.PutEffectParams, rules.Owner, error) {
	row, err := c.effectRow(ctx, e)
	if err != nil || e.ExternalID == "" {
		return row, rules.Owner{}, err
	}
	owners, err := c.w.sq.OwnedObjects(ctx, shareddb.OwnedObjectsParams{
		Account: row.Account, Namespace: row.Namespace, ExternalIds: []string{e.ExternalID},
	})
	if err != nil || len(owners) == 0 {
		return row, rules.Owner{}, named("effect's owner", err)
	}
	o := owners[0]
	owner := rules.Owner{Job: o.JobID, Proof: o.Proof, Removed: o.JobRemoved, Notified: o.Told}
	return row, rules.Another(owner, c.was.ID, e.ExternalID), nil
}

// inRow reports whether the job's own row can hold the effect of a decision.
func (c *change) inRow(d job.Decision) bool {
	return sqlstore.InOwnRow(*d.Effect) && d.Effect.Round == d.Round && !c.was.State.Terminal()
}

// putEffect writes the judged effect.
func (c *change) putEffect(ctx context.Context) error {
	if c.Notifies || c.Takes {
		err := c.w.sq.ShareEffect(ctx, shareddb.ShareEffectParams{JobID: c.owner.Job, SharedWith: column.OptionalID(c.Job), Takes: c.Takes})
		if err != nil {
			return fmt.Errorf("other job's effect: %w", err)
		}
	}
	if c.Notifies {
		if err := c.notifyOwner(ctx); err != nil {
			return fmt.Errorf("other job: %w", err)
		}
	}
	if c.effect == nil {
		return nil
	}
	return named("effect", c.q.PutEffect(ctx, *c.effect))
}

// effectRow names the object: its account and its namespace of ids.
func (c *change) effectRow(ctx context.Context, e job.Effect) (sqlitedb.PutEffectParams, error) {
	conn, err := c.getConnection(ctx, c.was.Connection)
	if err != nil {
		return sqlitedb.PutEffectParams{}, fmt.Errorf("connection: %w", err)
	}
	attempt, account := cmp.Or(e.Attempt, c.was.Attempt), c.was.account
	if account == nil || attempt != c.was.Attempt {
		space, err := c.w.sq.ObjectSpace(ctx, shareddb.ObjectSpaceParams{JobID: c.was.ID, Attempt: int64(attempt)})
		if err != nil {
			return sqlitedb.PutEffectParams{}, fmt.Errorf("attempt: %w", err)
		}
		account = &space.Acted
	}
	return sqlitedb.PutEffectParams{
		JobID: c.was.ID, Account: rules.Account(conn.ID, c.was.HoldKey, *account, conn.AccountIdentity), Namespace: conn.Connector,
		ExternalID: e.ExternalID, ExternalUrl: e.ExternalURL, Attempt: e.Attempt, Round: e.Round, Proof: e.Proof, At: c.now,
	}, nil
}

// notifyOwner adds an event to the other job: its object is another job's too, or no longer
// its own.
func (c *change) notifyOwner(ctx context.Context) error {
	was, err := c.load(ctx, c.owner.Job)
	if err != nil {
		return err
	}
	c.w.cache.drop(c.owner.Job)
	h := *was
	h.Version, h.Updated = h.Version+1, c.now
	history := c.note(&h.Job, job.Event{From: h.State, Cause: job.CauseEffectShared, Detail: c.Detail(c.Job)})
	_, err = c.tx.setState(ctx, &h, outcome{}, history)
	return err
}
