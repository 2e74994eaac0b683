package sqlite

import (
	"cmp"
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
	conn, err := c.getConnection(ctx, c.st.ConnectionID)
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

// space returns the account that an attempt acted on, and the namespace of its objects' ids.
// Attempt 0 is a person's statement about the last attempt; a job without attempts has the
// connection's account.
func (v view) space(ctx context.Context, st sqlitedb.JobState, attempt int64) (account, namespace string, err error) {
	conn, err := v.q.GetConnection(ctx, st.ConnectionID)
	if err != nil {
		return "", "", fmt.Errorf("connection: %w", err)
	}
	account, err = v.attemptAccount(ctx, st.JobID, cmp.Or(attempt, st.Attempt))
	return rules.Account(toID(st.ConnectionID), st.HoldKey, account, conn.AccountIdentity), conn.Connector, err
}

// attemptAccount returns the account that an attempt acted on; empty: unknown.
func (v view) attemptAccount(ctx context.Context, id []byte, number int64) (string, error) {
	a, err := v.attempt(ctx, id, number)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("attempt: %w", err)
	}
	return a.AccountIdentity, nil
}

// Owners implements store.Store.
func (s *Store) Owners(ctx context.Context, id job.ID, attempt int, externalIDs []string) (map[string]job.ID, error) {
	if err := rules.Bounded(len(externalIDs)); err != nil {
		return nil, fmt.Errorf("owners: %w", err)
	}
	return read(ctx, s, "owners", func(ctx context.Context, v view) (map[string]job.ID, error) {
		st, err := v.q.GetState(ctx, fromID(id))
		if err != nil {
			return nil, orNotFound(err)
		}
		account, namespace, err := v.space(ctx, st, int64(attempt))
		if err != nil {
			return nil, err
		}
		out := make(map[string]job.ID)
		for _, x := range externalIDs {
			e, err := v.q.EffectOwner(ctx, sqlitedb.EffectOwnerParams{Account: account, Namespace: namespace, ExternalID: x})
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if owner := rules.Another(toOwner(e), id, x); !owner.Job.IsZero() {
				out[x] = owner.Job
			}
		}
		return out, nil
	})
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
