package memory

import (
	"cmp"
	"context"
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file: one created object settles at most one job, as store/rules judges it.

// object is an object that a platform created: its account, its namespace of ids, and its id.
type object struct{ account, namespace, externalID string }

// ownerOf returns the owner of the object that a decision's effect names, if it is another
// job.
func (t *tx) ownerOf(r *record, e *job.Effect) rules.Owner {
	if e == nil {
		return rules.Owner{}
	}
	o := t.space(r, e.Attempt)
	o.externalID = e.ExternalID
	return t.owner(o, r.job.ID)
}

// effectRow returns the row to write for the change's effect; nil: none.
func (c *change) effectRow() *Effect {
	e := c.Decision.Effect
	if e == nil {
		return nil
	}
	o := c.space(c.record, e.Attempt)
	out := &Effect{Effect: *e, Job: c.old.ID, Account: o.account, Namespace: o.namespace, Owns: c.Owns}
	out.At = c.now
	return out
}

// effectOf returns the effect of a job, which may be removed.
func (t *tx) effectOf(id job.ID) *Effect {
	if r, ok := t.jobs[id]; ok {
		return r.effect
	}
	return t.removedEffects[id]
}

// owner returns the job that an object settles, other than one job.
func (t *tx) owner(o object, but job.ID) rules.Owner {
	id, ok := t.owners[o]
	if !ok {
		return rules.Owner{}
	}
	e := t.effectOf(id)
	_, there := t.jobs[id]
	return rules.Another(rules.Owner{Job: id, Proof: e.Proof, Removed: !there, Notified: e.Notified}, but, o.externalID)
}

// takeEffect writes the effect in place of an earlier one.
func (c *change) takeEffect() {
	effect := c.effectRow()
	if effect == nil {
		return
	}
	if c.Notifies {
		c.notifyOwner()
	}
	if c.Takes {
		delete(c.removedEffects, c.owner.Job)
	}
	c.unown(c.record)
	c.effect = effect
	if c.effect.Owns {
		c.owners[c.effect.object()] = c.old.ID
	}
}

// unown ends a job's ownership of its object.
func (t *tx) unown(r *record) {
	if r.effect != nil && t.owners[r.effect.object()] == r.job.ID {
		delete(t.owners, r.effect.object())
	}
}

// notifyOwner adds an event to the other job: its object is another job's too, or no longer
// its own.
func (c *change) notifyOwner() {
	other := c.jobs[c.owner.Job]
	effect := *other.effect
	effect.SharedWith, effect.Notified = c.old.ID, true
	if c.Takes {
		c.unown(other)
		effect.Owns = false
	}
	other.effect = &effect
	next := other.job
	next.Version, next.Updated = next.Version+1, c.now
	c.put(other, next)
	c.event(other, job.Event{
		From: next.State, Cause: job.CauseEffectShared, Detail: c.Detail(c.old.ID),
	})
}

// space returns the account that an attempt acted on, and the namespace of its objects' ids.
// Attempt 0 is a person's statement about the last attempt; a job without attempts has the
// connection's account.
func (t *tx) space(r *record, attempt int) object {
	conn := t.conns[r.job.Connection]
	acted := ""
	if n := cmp.Or(attempt, r.job.Attempt); n > 0 && n <= len(r.attempts) {
		acted = r.attempts[n-1].AccountIdentity
	}
	return object{
		account:   rules.Account(r.job.Connection, r.job.HoldKey, acted, conn.AccountIdentity),
		namespace: conn.Connector,
	}
}

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
			if owner := t.owner(o, id); !owner.Job.IsZero() {
				out[o.externalID] = owner.Job
			}
		}
		return out, nil
	})
}
