package rules

import (
	"cmp"
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: one created object settles at most one job.
//   - An object that a look found and that settles another job already proves nothing for
//     this one: a person decides.
//   - The platform's own answer beats a look, a person's word and an assumption: this job
//     takes the object over, and the other job, which stays SUCCEEDED, gets an event about
//     it.
//   - An answer that names the object of another answer is recorded, and owns nothing. One of
//     the two jobs may have no effect, so the owner gets an event, once: a platform that
//     always answers with one id must not fill one job's history. A job that took the object
//     over has not had that event yet.
//   - Any other evidence that names an object of another job is recorded, but does not own
//     it.

// Owner is the job that owns the object of a change's effect. The zero Owner: no job, or the
// change's own job.
type Owner struct {
	Job   job.ID
	Proof job.Proof
	// Removed reports that the job is removed, and only its object is kept.
	Removed bool
	// Notified reports whether the job already has its event of cause EFFECT_SHARED.
	Notified bool
}

// Ownership is the verdict on who owns the object of a change's effect.
type Ownership struct {
	// Owns reports that the change's job owns it.
	Owns bool
	// Takes reports that its owner loses it.
	Takes bool
	// Notifies reports that its owner gets an event of cause EFFECT_SHARED.
	Notifies bool
}

// own judges the change's effect by the owner of its object. It records the owner in the
// effect, and removes an effect that proves nothing.
func own(c *store.Change, from job.State, owner Owner) Ownership {
	if owner.Job.IsZero() {
		return Ownership{Owns: true}
	}
	e := *c.Decision.Effect
	if e.Proof == job.ProofObserved {
		needPerson(c, from, owner.Job)
		return Ownership{}
	}
	e.SharedWith = owner.Job
	c.Decision.Effect = &e
	if !e.Proof.Direct() || owner.Proof.Direct() {
		note(c, fmt.Sprintf("the object %s is the effect of job %s already", e.ExternalID, owner.Job))
		return Ownership{Notifies: e.Proof.Direct() && !owner.Removed && !owner.Notified}
	}
	text := fmt.Sprintf("the object %s was taken for the effect of job %s", e.ExternalID, owner.Job)
	if owner.Removed {
		text += ", which is removed"
	}
	note(c, text)
	return Ownership{Owns: true, Takes: true, Notifies: !owner.Removed}
}

// Detail returns the detail of the owner's event; by is the change's job.
func (o Ownership) Detail(by job.ID) string {
	if o.Takes {
		return fmt.Sprintf("the platform answered that the object is the effect of job %s; whether this job has one is not known", by)
	}
	return fmt.Sprintf("the platform answered with the same object for job %s; one of the two jobs may have no effect", by)
}

// Account returns the account that an object or an open intent belongs to: the first known
// identity, or a substitute where none is known.
func Account(conn job.ID, hold string, identities ...string) string {
	return cmp.Or(cmp.Or(identities...), "connection "+conn.String()+" "+hold)
}

// Another returns the owner of an object for judging a change of a job. It is zero for the
// job's own object and for an empty id.
func Another(owner Owner, self job.ID, externalID string) Owner {
	if owner.Job == self || externalID == "" {
		return Owner{}
	}
	return owner
}
