package postgres

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/column"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file: one created object settles at most one job, as store/rules judges it.
//
// The owner of an object is read before the jobs are locked, because an owner that may get an
// event has to be locked with them, and again afterwards. If another owner appears then, or
// when the effects are written, the transaction runs again.

// objectKey names an object that a platform created.
type objectKey struct{ account, namespace, externalID string }

// objectOwner is the owner of an object.
type objectOwner struct {
	key objectKey
	rules.Owner
}

// owners returns, for each change that brings an effect, the owner of its object.
func (b *changeApplier) owners(ctx context.Context, changes []store.Change) (map[job.ID]objectOwner, error) {
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
		p.Jobs = append(p.Jobs, c.Job)
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
		id := r.JobID
		o := objectOwner{key: objectKey{r.Account, r.Namespace, ids[id]}}
		owner := rules.Owner{Job: job.ID(r.Owner), Proof: job.Proof(r.Proof), Removed: r.OwnerRemoved, Notified: r.OwnerTold}
		o.Owner = rules.Another(owner, id, o.key.externalID)
		out[id] = o
	}
	return out, nil
}

// touchedBy returns what a change depends on: its job, the object that it brings, and the job
// that may lose the object.
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
	if !o.Job.IsZero() && !o.Removed {
		out = append(out, o.Job)
	}
	return out
}

// plannedEffect is an effect to write.
type plannedEffect struct {
	job.Effect
	// owner is the job that owned the object before; zero: none. notified is its locked row,
	// if it gets an event.
	owner    job.ID
	notified *lockedJob
}

// ownerOf returns the owner of the object that a change brings, as it was read.
func ownerOf(c store.Change, owners map[job.ID]objectOwner) (rules.Owner, error) {
	e := c.Decision.Effect
	if e == nil {
		return rules.Owner{}, nil
	}
	o, known := owners[c.Job]
	if e.ExternalID != "" && (!known || o.key.externalID != e.ExternalID) {
		return rules.Owner{}, errRestart
	}
	return o.Owner, nil
}

// planEffect records the effect row to write for a change.
func (b *changeApplier) planEffect(p *plannedChange, owner rules.Owner) error {
	e := p.Decision.Effect
	if e == nil {
		return nil
	}
	effect := &plannedEffect{Effect: *e, owner: owner.Job}
	effect.At = b.now
	if p.Notifies {
		if effect.notified = b.locked[owner.Job]; effect.notified == nil {
			return errRestart
		}
	}
	p.effect = effect
	return nil
}

// writeEffects writes the effects; a job that loses an object loses it first.
func (b *changeApplier) writeEffects(ctx context.Context, plans []*plannedChange) {
	effects := pgdb.InsertEffectsParams{Now: b.now}
	var replaced []job.ID
	for _, p := range plans {
		if p.effect == nil {
			continue
		}
		if !sqlstore.InOwnRow(p.effect.Effect) {
			addEffect(&effects, p.Job, p.Owns, p.effect.Effect)
		}
		if p.Notifies || p.Takes {
			b.exec(ctx, shared("other job's effect", (*shareddb.Queries).ShareEffect, shareddb.ShareEffectParams{
				JobID: p.effect.owner, SharedWith: column.OptionalID(p.Job), Takes: p.Takes,
			}))
		}
		if p.old.State == job.Succeeded {
			replaced = append(replaced, p.Job)
		}
	}
	b.execRows(ctx, len(replaced), statement("effects", (*pgdb.Queries).DropEffects, replaced))
	b.execRows(ctx, len(effects.Jobs), statement("effects", (*pgdb.Queries).InsertEffects, effects))
}

// rowEffect returns the effect in the job's own row after the change.
func (p *plannedChange) rowEffect() *job.Effect {
	switch {
	case p.effect == nil:
		return p.old.effect
	case sqlstore.InOwnRow(p.effect.Effect):
		return &p.effect.Effect
	default:
		return nil
	}
}
