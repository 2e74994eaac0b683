package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/gen/litedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: one created object settles at most one job, as store.Change.Claim
// judges it. An answer that names no object proves the effect, and the job's own row
// tells of it.

// effectClaim is what becomes of the object of a decision's effect, and whose it was.
type effectClaim struct {
	store.Claim
	owner store.Owner
}

// judgeEffect finds what is to be written of the decision's effect. It writes nothing
// yet.
func (c *change) judgeEffect(ctx context.Context) (out effectClaim, err error) {
	e := c.Decision.Effect
	if e == nil {
		return out, nil
	}
	if from := job.State(c.old.State); unnamed(*e) && e.Round == c.Decision.Round && !from.Terminal() {
		c.st.EffectAttempt = someMicros(int64(e.Attempt))
		return out, nil
	}
	row, err := c.effectRow(ctx, *e)
	if err != nil {
		return out, err
	}
	var owner litedb.Effect
	err = sql.ErrNoRows // nobody owns an object without an id
	if row.ExternalID != "" {
		owner, err = c.q.EffectOwner(ctx, litedb.EffectOwnerParams{
			Account: row.Account, Namespace: row.Namespace, ExternalID: row.ExternalID,
		})
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return out, fmt.Errorf("effect's owner: %w", err)
	case toID(owner.JobID) != toID(c.st.JobID):
		out.owner = toOwner(owner)
	}
	out.Claim = c.Claim(job.State(c.old.State), out.owner)
	if e = c.Decision.Effect; e == nil {
		return out, nil
	}
	row.SharedWith = fromOptionalID(e.SharedWith)
	if !out.Owns {
		row.OwnsID = 0
	}
	c.effect, c.st.EffectAttempt = &row, sql.NullInt64{}
	return out, nil
}

// putEffect writes what was judged.
func (c *change) putEffect(ctx context.Context, what effectClaim) error {
	if what.Tells || what.Takes {
		params := litedb.ShareEffectParams{JobID: fromID(what.owner.Job), SharedWith: c.st.JobID}
		if !what.Takes {
			params.Keeps = 1
		}
		if err := c.q.ShareEffect(ctx, params); err != nil {
			return fmt.Errorf("other job's effect: %w", err)
		}
	}
	if what.Tells {
		if err := c.tell(ctx, what); err != nil {
			return fmt.Errorf("other job: %w", err)
		}
	}
	if c.effect == nil {
		return nil
	}
	if err := c.q.PutEffect(ctx, *c.effect); err != nil {
		return fmt.Errorf("effect: %w", err)
	}
	return nil
}

// effectRow names the object: whose account, in which space of ids.
func (c *change) effectRow(ctx context.Context, e job.Effect) (litedb.PutEffectParams, error) {
	conn, err := c.getConnection(ctx, c.st.ConnectionID)
	if err != nil {
		return litedb.PutEffectParams{}, fmt.Errorf("connection: %w", err)
	}
	account := c.account
	if e.Attempt != 0 && int64(e.Attempt) != c.st.Attempt {
		if account, err = c.view().attemptAccount(ctx, c.st.JobID, int64(e.Attempt)); err != nil {
			return litedb.PutEffectParams{}, err
		}
	}
	account = cmp.Or(account, conn.AccountIdentity, accountOf(c.st))
	return newEffectRow(c.st.JobID, account, conn.Connector, e, c.now), nil
}

// space tells whose account an attempt acted on, and in which space of ids its
// objects are. Attempt 0 is a person's word about the last one; a job without any
// has the connection's account.
func (v view) space(ctx context.Context, st litedb.JobState, attempt int64) (account, namespace string, err error) {
	conn, err := v.q.GetConnection(ctx, st.ConnectionID)
	if err != nil {
		return "", "", fmt.Errorf("connection: %w", err)
	}
	account, err = v.attemptAccount(ctx, st.JobID, cmp.Or(attempt, st.Attempt))
	return cmp.Or(account, conn.AccountIdentity, accountOf(st)), conn.Connector, err
}

// attemptAccount tells whose account an attempt acted on; empty: not known.
func (v view) attemptAccount(ctx context.Context, id []byte, number int64) (string, error) {
	a, err := v.q.GetAttempt(ctx, litedb.GetAttemptParams{JobID: id, Number: number})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("attempt: %w", err)
	}
	return a.AccountIdentity, nil
}

// Owners implements store.Store.
func (s *Store) Owners(ctx context.Context, id job.ID, attempt int, externalIDs []string) (map[string]job.ID, error) {
	if err := bounded(len(externalIDs)); err != nil {
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
			e, err := v.q.EffectOwner(ctx, litedb.EffectOwnerParams{Account: account, Namespace: namespace, ExternalID: x})
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if owner := toID(e.JobID); owner != id {
				out[x] = owner
			}
		}
		return out, nil
	})
}

// accountOf stands for the account where its identity is not known.
func accountOf(st litedb.JobState) string {
	return "connection " + toID(st.ConnectionID).String() + " " + st.HoldKey
}

// tell tells the other job's readers that its object is another job's too, or is not
// its own.
func (c *change) tell(ctx context.Context, what effectClaim) error {
	row, err := c.q.GetJob(ctx, fromID(what.owner.Job))
	if err != nil {
		return err
	}
	c.w.cache.drop(what.owner.Job)
	st := row.JobState
	st.Version, st.UpdatedAt = st.Version+1, c.now
	if _, err := c.q.SetState(ctx, setStateParams(st)); err != nil {
		return err
	}
	return c.event(ctx, row.Job.ScheduleID, st, litedb.InsertEventParams{
		FromState: st.State, Cause: int64(job.CauseEffectShared), Detail: what.Told(toID(c.st.JobID)),
	})
}
