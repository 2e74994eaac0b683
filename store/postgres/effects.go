package postgres

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/pgdb"
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
//
// Who owns an object is asked before the jobs are locked, because an owner that
// may be robbed has to be locked with them, and again afterwards. An owner that
// only turns up then, or when the effects are written, has the transaction run
// again.

// objectKey names an object that a platform made.
type objectKey struct{ account, namespace, externalID string }

// objectOwner tells whose an object is; a zero job: nobody's but the asker's.
type objectOwner struct {
	key   objectKey
	job   job.ID
	proof job.Proof
	// removed says that the job is gone, and only its claim on the object is left.
	removed bool
}

// owners asks, for each change that brings an effect, whose the object is.
func (b *applying) owners(ctx context.Context, changes []store.Change) (map[job.ID]objectOwner, error) {
	var p pgdb.EffectOwnersParams
	ids := make(map[job.ID]string)
	for _, c := range changes {
		e := c.Decision.Effect
		if e == nil || e.ExternalID == "" {
			continue
		}
		if _, twice := ids[c.Job]; twice {
			continue
		}
		ids[c.Job] = e.ExternalID
		p.Jobs = append(p.Jobs, fromID(c.Job))
		p.Attempts = append(p.Attempts, int64(e.Attempt))
		p.ExternalIds = append(p.ExternalIds, e.ExternalID)
	}
	if len(p.Jobs) == 0 {
		return nil, nil
	}
	rows, err := b.q.EffectOwners(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("effects' owners: %w", err)
	}
	out := make(map[job.ID]objectOwner, len(rows))
	for _, r := range rows {
		id := toID(r.JobID)
		o := objectOwner{key: objectKey{r.Account, r.Namespace, ids[id]}}
		if other := toID(r.Owner); other != id {
			o.job, o.proof, o.removed = other, job.Proof(r.Proof), r.OwnerRemoved
		}
		out[id] = o
	}
	return out, nil
}

// touchedBy gives what a change has to do with: its job, the object that it
// brings, and the job that may lose it.
func touchedBy(c store.Change, owners map[job.ID]objectOwner) []any {
	out := []any{c.Job}
	if c.Decision.Effect == nil {
		return out
	}
	o, ok := owners[c.Job]
	if !ok {
		return out
	}
	if o.key.externalID != "" {
		out = append(out, o.key)
	}
	if !o.job.IsZero() && !o.removed {
		out = append(out, o.job)
	}
	return out
}

// plannedEffect is an effect to write.
type plannedEffect struct {
	job.Effect
	owns bool
	from *lockedJob // that loses the object; nil: none
	// gone is the removed job that loses it; zero: none.
	gone job.ID
}

// planEffect judges the change's effect and, where a look found the object of
// another job, the change itself.
func (b *applying) planEffect(p *planned, owners map[job.ID]objectOwner) error {
	e := p.Decision.Effect
	if e == nil {
		return nil
	}
	o, known := owners[p.Job]
	if e.ExternalID != "" && (!known || o.key.externalID != e.ExternalID) {
		return errRestart
	}
	effect := &plannedEffect{Effect: *e, owns: true}
	effect.At = b.now
	switch {
	case o.job.IsZero():
	case e.Proof == job.ProofObserved:
		p.Doubt(p.old.State, o.job)
		return nil
	case e.Proof.Direct() && !o.proof.Direct() && o.removed:
		effect.gone = o.job
		p.Note(fmt.Sprintf("the object %s was taken for the effect of job %s, which is removed", e.ExternalID, o.job))
	case e.Proof.Direct() && !o.proof.Direct():
		if effect.from = b.locked[o.job]; effect.from == nil {
			return errRestart
		}
	default:
		effect.owns = false
		p.Note(fmt.Sprintf("the object %s is the effect of job %s already", e.ExternalID, o.job))
	}
	p.effect = effect
	return nil
}

// writeEffects writes the effects; whoever loses an object loses it first.
func (b *applying) writeEffects(ctx context.Context, plans []*planned) {
	effects := pgdb.InsertEffectsParams{Now: b.now}
	var robbed, replaced []job.ID
	for _, p := range plans {
		if p.effect == nil {
			continue
		}
		if !unnamed(p.effect.Effect) {
			addEffect(&effects, p.Job, p.effect.owns, p.effect.Effect)
		}
		if p.effect.from != nil {
			robbed = append(robbed, p.effect.from.ID)
		}
		if !p.effect.gone.IsZero() {
			robbed = append(robbed, p.effect.gone)
		}
		if p.old.State == job.Succeeded {
			replaced = append(replaced, p.Job)
		}
	}
	if of := fromIDs(robbed); len(of) > 0 {
		b.exec(ctx, "other jobs' effects", func(ctx context.Context, q *pgdb.Queries) error { return q.DisownEffects(ctx, of) })
	}
	if of := fromIDs(replaced); len(of) > 0 {
		b.exec(ctx, "effects", func(ctx context.Context, q *pgdb.Queries) error { return q.DropEffects(ctx, of) })
	}
	if len(effects.Jobs) > 0 {
		b.exec(ctx, "effects", func(ctx context.Context, q *pgdb.Queries) error { return q.InsertEffects(ctx, effects) })
	}
}

// rowEffect is the effect that the job's own row tells of after the change.
func (p *planned) rowEffect() *job.Effect {
	switch {
	case p.effect == nil:
		return p.old.effect
	case unnamed(p.effect.Effect):
		return &p.effect.Effect
	default:
		return nil
	}
}
