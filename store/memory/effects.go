package memory

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: one created object settles at most one job, as store.Change.Claim
// judges it.

// object is what a platform created: whose account, in which space of ids.
type object struct{ account, namespace, externalID string }

// taking is what becomes of a decision's effect.
type taking struct {
	effect *Effect
	store.Claim
	// other is the job that owned the object before; zero: none did.
	other job.ID
}

// judgeEffect tells what to write of the decision's effect, and turns a success by
// a look into a question for a person where it is none.
func (c *change) judgeEffect() taking {
	e := c.Decision.Effect
	if e == nil {
		return taking{}
	}
	o := c.space(c.record, e.Attempt)
	o.externalID = e.ExternalID
	var owner store.Owner
	if other, taken := c.owner(o, c.old.ID); taken {
		was := c.effectOf(other)
		_, there := c.jobs[other]
		owner = store.Owner{Job: other, Proof: was.Proof, Removed: !there, Told: was.Told}
	}
	out := taking{Claim: c.Claim(c.old.State, owner), other: owner.Job}
	if e = c.Decision.Effect; e == nil {
		return taking{}
	}
	out.effect = &Effect{
		Effect: *e, Job: c.old.ID, Account: o.account, Namespace: o.namespace, Owns: out.Owns,
	}
	out.effect.At = c.now
	return out
}

// effectOf gives the effect of a job, which may be removed.
func (t *tx) effectOf(id job.ID) *Effect {
	if r, ok := t.jobs[id]; ok {
		return r.effect
	}
	return t.removedEffects[id]
}

// owner gives the job, other than one, that an object settles. No id is no object.
func (t *tx) owner(o object, but job.ID) (job.ID, bool) {
	owner, ok := t.owners[o]
	return owner, ok && owner != but && o.externalID != ""
}

// takeEffect writes the effect, in the place of an earlier one.
func (c *change) takeEffect(what taking) {
	if what.effect == nil {
		return
	}
	if what.Tells {
		c.tell(what)
	}
	if what.Takes {
		delete(c.removedEffects, what.other)
	}
	c.unown(c.record)
	c.effect = what.effect
	if c.effect.Owns {
		c.owners[c.effect.object()] = c.old.ID
	}
}

// unown ends a job's hold on its object.
func (t *tx) unown(r *record) {
	if r.effect != nil && t.owners[r.effect.object()] == r.job.ID {
		delete(t.owners, r.effect.object())
	}
}

// tell tells the other job's readers that its object is another job's too, or is not
// its own.
func (c *change) tell(what taking) {
	other := c.jobs[what.other]
	effect := *other.effect
	effect.SharedWith, effect.Told = c.old.ID, true
	if what.Takes {
		c.unown(other)
		effect.Owns = false
	}
	other.effect = &effect
	next := other.job
	next.Version, next.Updated = next.Version+1, c.now
	c.put(other, next)
	c.event(other, job.Event{
		From: next.State, Cause: job.CauseEffectShared, Detail: what.Told(c.old.ID),
	})
}

// space tells whose account an attempt acted on, and in which space of ids its
// objects are. Attempt 0 is a person's word about the last one; a job without any
// has the connection's account.
func (t *tx) space(r *record, attempt int) object {
	conn := t.conns[r.job.Connection]
	account := conn.AccountIdentity
	if attempt == 0 {
		attempt = r.job.Attempt
	}
	if attempt > 0 && attempt <= len(r.attempts) && r.attempts[attempt-1].AccountIdentity != "" {
		account = r.attempts[attempt-1].AccountIdentity
	}
	if account == "" {
		account = accountOf(r.job)
	}
	return object{account: account, namespace: conn.Connector}
}

// accountOf stands for the account where its identity is not known.
func accountOf(j job.Job) string { return "connection " + j.Connection.String() + " " + j.HoldKey }

// Owners implements store.Store.
func (s *Store) Owners(ctx context.Context, id job.ID, attempt int, externalIDs []string) (map[string]job.ID, error) {
	return call(ctx, s, "owners", func(t *tx) (map[string]job.ID, error) {
		if len(externalIDs) > store.MaxBatch {
			return nil, fmt.Errorf("%w: %d ids, at most %d", store.ErrIllegal, len(externalIDs), store.MaxBatch)
		}
		r, ok := t.jobs[id]
		if !ok {
			return nil, store.ErrNotFound
		}
		o := t.space(r, attempt)
		out := make(map[string]job.ID)
		for _, o.externalID = range externalIDs {
			if owner, taken := t.owner(o, id); taken {
				out[o.externalID] = owner
			}
		}
		return out, nil
	})
}
