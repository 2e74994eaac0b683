package memstore

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: one created object settles at most one job.
//   - An object that a look found and that settles another job already proves
//     nothing for this one: a person decides.
//   - The platform's own answer beats a look, a person's word and an assumption:
//     it takes the object over, and the other job, which stays SUCCEEDED, gets an
//     event that says so.
//   - Whatever else names an object of another job is recorded, but does not own it.

// object is what a platform created: whose account, in which space of ids.
type object struct{ account, namespace, externalID string }

// taking is what becomes of a decision's effect.
type taking struct {
	effect *Effect
	// from is the job that loses its object; gone is one that is removed.
	from, gone job.ID
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
	out := taking{effect: &Effect{
		Effect: *e, Job: c.old.ID, Account: o.account, Namespace: o.namespace, Owns: true,
	}}
	out.effect.At = c.now
	owner, taken := c.owner(o, c.old.ID)
	switch {
	case !taken:
		return out
	case e.Proof == job.ProofObserved:
		c.Doubt(c.old.State, owner)
		return taking{}
	case direct(e.Proof) && !direct(c.effectOf(owner).Proof):
		if _, there := c.jobs[owner]; there {
			out.from = owner
			return out
		}
		out.gone = owner
		c.Note(fmt.Sprintf("the object %s was taken for the effect of job %s, which is removed", e.ExternalID, owner))
		return out
	default:
		out.effect.Owns = false
		c.Note(fmt.Sprintf("the object %s is the effect of job %s already", e.ExternalID, owner))
		return out
	}
}

// effectOf gives the effect of a job, which may be removed.
func (t *tx) effectOf(id job.ID) *Effect {
	if r, ok := t.jobs[id]; ok {
		return r.effect
	}
	return t.removedEffects[id]
}

func direct(p job.Proof) bool { return p == job.ProofResponse || p == job.ProofKeyReplay }

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
	if !what.from.IsZero() {
		c.disown(what.from)
	}
	delete(c.removedEffects, what.gone)
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

// disown tells the other job's readers that its object is not its own.
func (c *change) disown(id job.ID) {
	other := c.jobs[id]
	c.unown(other)
	effect := *other.effect
	effect.Owns = false
	other.effect = &effect
	next := other.job
	next.Version, next.Updated = next.Version+1, c.now
	c.put(other, next)
	c.event(other, job.Event{
		From: next.State, Cause: job.CauseDuplicateEffect,
		Detail: fmt.Sprintf("the platform answered that the object is the effect of job %s", c.old.ID),
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
