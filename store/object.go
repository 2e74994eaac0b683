package store

import (
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: one created object settles at most one job.
//   - An object that a look found and that settles another job already proves
//     nothing for this one: a person decides.
//   - The platform's own answer beats a look, a person's word and an assumption:
//     it takes the object over, and the other job, which stays SUCCEEDED, gets an
//     event that says so.
//   - An answer that names the object of another answer is recorded, and owns nothing.
//     One of the two jobs may have no effect, so the owner gets an event, once: a
//     platform that always answers with one id must not fill one job's history. A job
//     that took the object over has not had that event yet.
//   - Whatever else names an object of another job is recorded, but does not own it.

// Owner is the job that owns the object which a change brings. The zero Owner is none
// but the change's own job.
type Owner struct {
	Job   job.ID
	Proof job.Proof
	// Removed says that the job is removed, and only its object is kept.
	Removed bool
	// Told reports whether the job got its event of cause EFFECT_SHARED before.
	Told bool
}

// Claim is what becomes of the object that a change's effect names.
type Claim struct {
	// Owns says that the change's job owns it.
	Owns bool
	// Takes says that its owner loses it.
	Takes bool
	// Tells says that its owner gets an event of cause EFFECT_SHARED.
	Tells bool
}

// Claim judges the change's effect by the owner of its object. It notes the owner on
// the effect, and takes the effect away where it proves nothing.
func (c *Change) Claim(from job.State, owner Owner) Claim {
	if owner.Job.IsZero() {
		return Claim{Owns: true}
	}
	e := *c.Decision.Effect
	if e.Proof == job.ProofObserved {
		c.Doubt(from, owner.Job)
		return Claim{}
	}
	e.SharedWith = owner.Job
	c.Decision.Effect = &e
	if !e.Proof.Direct() || owner.Proof.Direct() {
		c.Note(fmt.Sprintf("the object %s is the effect of job %s already", e.ExternalID, owner.Job))
		return Claim{Tells: e.Proof.Direct() && !owner.Removed && !owner.Told}
	}
	note := fmt.Sprintf("the object %s was taken for the effect of job %s", e.ExternalID, owner.Job)
	if owner.Removed {
		note += ", which is removed"
	}
	c.Note(note)
	return Claim{Owns: true, Takes: true, Tells: !owner.Removed}
}

// Told is what the event of the owner says; by is the change's job.
func (c Claim) Told(by job.ID) string {
	if c.Takes {
		return fmt.Sprintf("the platform answered that the object is the effect of job %s; whether this job has one is not known", by)
	}
	return fmt.Sprintf("the platform answered with the same object for job %s; one of the two jobs may have no effect", by)
}
