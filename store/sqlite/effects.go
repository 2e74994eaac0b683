package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/gen/litedb"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: one created object settles at most one job.
//   - An object that a look found and that settles another job already proves
//     nothing for this one: a person decides.
//   - The platform's own answer beats a look, a person's word and an assumption:
//     it takes the object over, and the other job, which stays SUCCEEDED, gets an
//     event that says so.
//   - Whatever else names an object of another job is recorded, but does not own it.
//   - An answer that names no object proves the effect, and the job's own row tells of it.

// judgeEffect finds what is to be written of the decision's effect, and from
// which job its object is to be taken. It writes nothing yet.
func (c *change) judgeEffect(ctx context.Context) (stolen job.ID, err error) {
	e := c.Decision.Effect
	if e == nil {
		return stolen, nil
	}
	if from := job.State(c.old.State); unnamed(*e) && e.Round == c.Decision.Round && !from.Terminal() {
		c.st.EffectAttempt = someMicros(int64(e.Attempt))
		return stolen, nil
	}
	row, err := c.effectRow(ctx, *e)
	if err != nil {
		return stolen, err
	}
	var owner litedb.Effect
	err = sql.ErrNoRows // nobody owns an object without an id
	if row.ExternalID != "" {
		owner, err = c.q.EffectOwner(ctx, litedb.EffectOwnerParams{
			Account: row.Account, Namespace: row.Namespace, ExternalID: row.ExternalID,
		})
	}
	other := toID(owner.JobID)
	switch {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return stolen, fmt.Errorf("effect's owner: %w", err)
	case other == toID(c.st.JobID):
	case e.Proof == job.ProofObserved:
		c.Doubt(job.State(c.old.State), other)
		return stolen, nil
	case direct(e.Proof) && !direct(job.Proof(owner.Proof)) && owner.JobRemoved == 1:
		c.Note(fmt.Sprintf("the object %s was taken for the effect of job %s, which is removed", e.ExternalID, other))
		c.orphan = owner.JobID
	case direct(e.Proof) && !direct(job.Proof(owner.Proof)):
		stolen = other
	default:
		row.OwnsID = 0
		c.Note(fmt.Sprintf("the object %s is the effect of job %s already", e.ExternalID, other))
	}
	c.effect, c.st.EffectAttempt = &row, sql.NullInt64{}
	return stolen, nil
}

// putEffect writes what was judged.
func (c *change) putEffect(ctx context.Context, stolen job.ID) error {
	if !stolen.IsZero() {
		if err := c.disown(ctx, fromID(stolen)); err != nil {
			return err
		}
	}
	if c.orphan != nil {
		if err := c.q.DisownEffect(ctx, c.orphan); err != nil {
			return fmt.Errorf("removed job's effect: %w", err)
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

func direct(p job.Proof) bool { return p == job.ProofResponse || p == job.ProofKeyReplay }

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

// disown tells the other job's readers that its object is not its own.
func (c *change) disown(ctx context.Context, id []byte) error {
	row, err := c.q.GetJob(ctx, id)
	if err != nil {
		return fmt.Errorf("other job: %w", err)
	}
	c.w.cache.drop(toID(id))
	if err := c.q.DisownEffect(ctx, id); err != nil {
		return fmt.Errorf("other job: %w", err)
	}
	st := row.JobState
	st.Version, st.UpdatedAt = st.Version+1, c.now
	if _, err := c.q.SetState(ctx, setStateParams(st)); err != nil {
		return fmt.Errorf("other job: %w", err)
	}
	return c.event(ctx, row.Job.ScheduleID, st, litedb.InsertEventParams{
		FromState: st.State, Cause: int64(job.CauseDuplicateEffect),
		Detail: fmt.Sprintf("the platform answered that the object is the effect of job %s", toID(c.st.JobID)),
	})
}
