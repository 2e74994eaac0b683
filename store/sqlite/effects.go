package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/rules"
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
	owner, err := c.q.EffectOwner(ctx, sqlitedb.EffectOwnerParams{
		Account: row.Account, Namespace: row.Namespace, ExternalID: row.ExternalID,
	})
	if errors.Is(err, sql.ErrNoRows) {
		return row, rules.Owner{}, nil
	}
	if err != nil {
		return row, rules.Owner{}, fmt.Errorf("effect's owner: %w", err)
	}
	return row, rules.Another(toOwner(owner), toID(c.st.JobID), e.ExternalID), nil
}

// inRow reports whether the job's own row can hold the effect of a decision.
func (c *change) inRow(d job.Decision) bool {
	return unnamed(*d.Effect) && d.Effect.Round == d.Round && !job.State(c.old.State).Terminal()
}

// putEffect writes the judged effect.
func (c *change) putEffect(ctx context.Context) error {
	if c.Notifies || c.Takes {
		params := sqlitedb.ShareEffectParams{JobID: fromID(c.owner.Job), SharedWith: c.st.JobID}
		if !c.Takes {
			params.Keeps = 1
		}
		if err := c.q.ShareEffect(ctx, params); err != nil {
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
	conn, err := c.getConnection(ctx, toID(c.st.ConnectionID))
	if err != nil {
		return sqlitedb.PutEffectParams{}, fmt.Errorf("connection: %w", err)
	}
	account := c.account
	if e.Attempt != 0 && int64(e.Attempt) != c.st.Attempt {
		if account, err = c.view().attemptAccount(ctx, c.st.JobID, int64(e.Attempt)); err != nil {
			return sqlitedb.PutEffectParams{}, err
		}
	}
	account = rules.Account(toID(c.st.ConnectionID), c.st.HoldKey, account, conn.AccountIdentity)
	return newEffectRow(c.st.JobID, account, conn.Connector, e, c.now), nil
}

// attemptAccount returns the account that an attempt acted on; empty: unknown.
func (v view) attemptAccount(ctx context.Context, id []byte, number int64) (string, error) {
	a, err := v.attempt(ctx, id, number)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("attempt: %w", err)
	}
	return a.AccountIdentity, nil
}

// notifyOwner adds an event to the other job: its object is another job's too, or no longer
// its own.
func (c *change) notifyOwner(ctx context.Context) error {
	row, err := c.q.GetJob(ctx, fromID(c.owner.Job))
	if err != nil {
		return err
	}
	c.w.cache.drop(c.owner.Job)
	st := row.JobState
	st.Version, st.UpdatedAt = st.Version+1, c.now
	history := c.note(row.Job.ScheduleID, &st, job.Event{
		From: job.State(st.State), Cause: job.CauseEffectShared, Detail: c.Detail(toID(c.st.JobID)),
	})
	_, err = c.q.SetState(ctx, setStateParams(st, history))
	return err
}
