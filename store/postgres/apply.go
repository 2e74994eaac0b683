package postgres

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/column"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file:
//   - every change is judged in Go, on rows that are locked; nothing is written for a refused
//     one. What the database still refuses fails the batch, which the coalescer splits;
//   - changes that share a job or an object are written one after the other, in the order of
//     the batch: of two changes of one version of a job the second is stale;
//   - a job that ends, or goes on after an end, changes the jobs that wait for it. They are
//     locked with the others; if another one came meanwhile, the transaction runs again;
//   - runnable rows are written last, once for the whole batch (see runnable.go).

// Apply implements store.Store.
func (s *Store) Apply(ctx context.Context, items []store.Change) ([]store.Applied, error) {
	return s.work.changes.do(ctx, items)
}

// applyBatch writes changes of several callers in one transaction. Common successes need no
// judge (see succeed.go), unless something turns out otherwise.
func (s *Store) applyBatch(ctx context.Context, items []store.Change) ([]store.Applied, error) {
	var l *lockedRows
	jobs, notified := touched(items)
	// The owner of an object is only known in the transaction, and has to be locked with the
	// others.
	named := slices.ContainsFunc(items, namesObject)
	common, others := commonSuccesses(items)
	if named {
		common = nil
	}
	return writeAfter(ctx, s, "apply", func(ctx context.Context, t *tx) {
		if l = new(lockedRows); !named && len(common) == 0 {
			t.queueLocks(ctx, l, jobs, notified)
		}
	}, func(ctx context.Context, t *tx) ([]store.Applied, error) {
		b := &changeApplier{
			tx: t, items: slices.Clone(items), out: make([]store.Applied, len(items)), runnable: make(runnableRows),
		}
		if len(common) > 0 {
			successes := common
			common = nil // a transaction that begins again judges all changes
			return b.out, b.applyCommon(ctx, l, successes, others)
		}
		ids := slices.Clone(jobs)
		owners, err := b.owners(ctx, items)
		if err != nil {
			return nil, err
		}
		for _, o := range owners {
			if !o.Job.IsZero() && !o.Removed {
				ids = append(ids, o.Job)
			}
		}
		if named {
			t.queueLocks(ctx, l, ids, notified)
			if err := t.flush(ctx); err != nil {
				return nil, err
			}
		}
		if b.locked, err = t.locked(l, ids); err != nil {
			return nil, err
		}
		b.shareClaimLocks(ctx)
		if err := b.judge(ctx, every(len(items)), owners); err != nil {
			return nil, err
		}
		return b.out, b.finish(ctx)
	})
}

// judge writes changes whose jobs are locked.
func (b *changeApplier) judge(ctx context.Context, which []int, owners map[job.ID]objectOwner) error {
	if err := b.keepConnections(ctx, which); err != nil {
		return err
	}
	all := independentBatches(len(which), func(n int) []any { return touchedBy(b.items[which[n]], owners) })
	for n, part := range all {
		if n > 0 {
			again, err := b.reread(ctx, slices.Collect(maps.Keys(b.locked)))
			if err != nil {
				return err
			}
			b.locked = again
		}
		for n := range part {
			part[n] = which[part[n]]
		}
		if err := b.writeIndependent(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// changeApplier is a batch of changes in progress.
type changeApplier struct {
	*tx
	items  []store.Change
	out    []store.Applied
	locked map[job.ID]*lockedJob
	// deleted are connections on which no job may restart.
	deleted map[job.ID]bool

	// runnable has the changes of runnable rows, which are written at the end.
	runnable runnableRows
	freed    []job.ID
	// saturated reports that a row of a freed connection may be saturated.
	saturated bool
	left      []runnableKey
	holds     []heldRow
	// schedules are those of the jobs whose changes may release a firing.
	schedules []job.ID
}

// namesObject reports whether a change brings an object that may be another job's.
func namesObject(c store.Change) bool {
	return c.Decision.Effect != nil && c.Decision.Effect.ExternalID != ""
}

// touched returns the jobs of a batch, and those whose moves other jobs may wait for.
func touched(items []store.Change) (ids, notified []job.ID) {
	for _, c := range items {
		ids = append(ids, c.Job)
		if c.Decision.To.Terminal() || c.Decision.Cause == job.CauseRetryRequested {
			notified = append(notified, c.Job)
		}
	}
	return ids, notified
}

// plannedChange is a change that will be written: the job before and after it.
type plannedChange struct {
	rules.Plan
	index  int
	old    *lockedJob
	job    job.Job
	ruling int64
	effect *plannedEffect
	newest outcome
}

// outcome is a change's result for the job's newest attempt, or 0 without one. If it does not
// settle the attempt, it only closes it.
type outcome struct {
	job.Settled
	settles bool
}

// writeIndependent writes changes that share no job and no object.
func (b *changeApplier) writeIndependent(ctx context.Context, part []int) error {
	changes := make([]store.Change, len(part))
	for n, i := range part {
		changes[n] = b.items[i]
	}
	owners, err := b.owners(ctx, changes)
	if err != nil {
		return err
	}
	var plans []*plannedChange
	for n, i := range part {
		p, err := b.plan(changes[n], owners)
		switch {
		case rules.Verdict(err):
			b.out[i].Err = err
		case err != nil:
			return err
		default:
			p.index = i
			plans = append(plans, p)
		}
	}
	if plans, err = b.writeContent(ctx, plans); err != nil {
		return err
	}
	if len(plans) == 0 {
		return nil
	}
	if err := b.record(ctx, plans); err != nil {
		return err
	}
	b.writeEffects(ctx, plans)
	b.settle(ctx, plans)
	if err := b.writeStates(ctx, plans); err != nil {
		return err
	}
	if err := b.flush(ctx); err != nil {
		return err
	}
	return b.answer(ctx, plans)
}

// writeContent writes the changes of the requests themselves, in the order of the effect keys,
// and drops those whose effect key is used.
func (b *changeApplier) writeContent(ctx context.Context, plans []*plannedChange) ([]*plannedChange, error) {
	key := func(p *plannedChange) (key [32]byte) {
		if p.Content != nil {
			key = p.Content.EffectKey
		}
		return key
	}
	slices.SortStableFunc(plans, func(x, y *plannedChange) int { a, b := key(x), key(y); return bytes.Compare(a[:], b[:]) })
	var left []*plannedChange
	for _, p := range plans {
		if p.Content != nil {
			err := b.shared().SetContent(ctx, p.Job, *p.Content)
			if err != nil && !rules.Verdict(err) {
				return nil, err
			}
			if b.out[p.index].Err = err; err != nil {
				continue
			}
		}
		left = append(left, p)
	}
	return left, nil
}

// plan judges one change.
func (b *changeApplier) plan(c store.Change, owners map[job.ID]objectOwner) (*plannedChange, error) {
	old, ok := b.locked[c.Job]
	if !ok {
		return nil, store.ErrNotFound
	}
	owner, err := ownerOf(c, owners)
	if err != nil {
		return nil, err
	}
	plan, err := rules.NewPlan(c, rules.Changeable{
		Job: old.Job, Attempts: old.attempts, Owner: owner, Deleted: b.deleted[old.Connection], Now: b.now,
	})
	if err != nil {
		return nil, err
	}
	p := &plannedChange{Plan: plan, old: old, job: plan.Next, ruling: old.resolution}
	if err := b.planEffect(p, owner); err != nil {
		return nil, err
	}
	if p.Content != nil && p.Content.Payload != nil {
		p.job.HoldKey = p.Content.HoldKey
	}
	return p, nil
}

// settle writes the results of earlier attempts. The newest one's is written with the state.
func (b *changeApplier) settle(ctx context.Context, plans []*plannedChange) {
	var kept pgdb.CountAnswersParams
	for _, p := range plans {
		for _, s := range p.Settle {
			addKept(&kept, p.Job, s)
			if s.Attempt == p.old.Attempt {
				p.newest = outcome{Settled: s, settles: true}
			}
		}
	}
	b.execRows(ctx, len(kept.Jobs), statement("kept answers", (*pgdb.Queries).CountAnswers, kept))
	for _, p := range plans {
		for _, s := range p.Settle {
			if s.Attempt != p.old.Attempt {
				b.exec(ctx, shared("settle", (*shareddb.Queries).SettleAttempt, sqlstore.Settle(p.Job, s, b.now)))
			}
		}
		for _, n := range p.Close {
			if n == p.old.Attempt {
				p.newest.Result = p.Decision.CloseOpen
				continue
			}
			closed := shareddb.CloseAttemptParams{Result: p.Decision.CloseOpen, Now: b.now, JobID: p.Job, Number: int64(n)}
			b.exec(ctx, shared("close attempts", (*shareddb.Queries).CloseAttempt, closed))
		}
	}
}

// record stores the looks and the rulings that led to the decisions.
func (b *changeApplier) record(ctx context.Context, plans []*plannedChange) (err error) {
	for _, p := range plans {
		if p.Decision.Ruling != nil {
			if p.ruling, err = b.shared().AddRuling(ctx, p.Job, *p.Decision.Ruling); err != nil {
				return err
			}
		}
	}
	for _, p := range plans {
		if o := p.Decision.Observed; o != nil {
			b.exec(ctx, shared("observation", (*shareddb.Queries).InsertObservation, sqlstore.Observed(p.Job, o)))
		}
	}
	return nil
}

// writeStates writes the state rows and the events, and records what runnable rows need.
func (b *changeApplier) writeStates(ctx context.Context, plans []*plannedChange) error {
	states := pgdb.SetStatesParams{Now: b.now}
	add := func(j job.Job, ruling int64, effect *job.Effect, newest outcome, e job.Event) error {
		history, err := b.note(eventOf(&j, e))
		if err != nil {
			return err
		}
		addState(&states, j, ruling, effect, newest, b.last(), history)
		return nil
	}
	for _, p := range plans {
		err := add(p.job, p.ruling, p.rowEffect(), p.newest, job.Event{
			From: p.old.State, Cause: p.Decision.Cause, Attempt: p.Decision.Attempt,
			Actor: p.Actor, Reason: p.Reason, Detail: p.Decision.Detail,
		})
		if err != nil {
			return err
		}
		if p.effect != nil && p.Notifies {
			other := p.effect.notified
			notified := other.Job
			notified.Version, notified.Updated = notified.Version+1, b.now
			err := add(notified, other.resolution, other.effect, outcome{}, job.Event{
				From: other.State, Cause: job.CauseEffectShared, Detail: p.Detail(p.Job),
			})
			if err != nil {
				return err
			}
		}
		b.noteRunnable(p)
		b.noteSchedule(p)
	}
	b.ends(&states, plans)
	b.queue(ctx, func(ctx context.Context, db pgdb.DBTX) error {
		r, err := pgdb.New(db).SetStates(ctx, states)
		if err != nil {
			return fmt.Errorf("states: %w", err)
		}
		if r.Newcomers {
			return errRestart
		}
		b.saturated = b.saturated || r.Saturated
		return nil
	})
	b.notifyReplies(ctx, plans)
	return nil
}

// ends adds the jobs whose gates open, those whose moves waiting jobs need, together with
// these waiting jobs, and the connections that have capacity again.
func (b *changeApplier) ends(states *pgdb.SetStatesParams, plans []*plannedChange) {
	var gates, notified, waiting, freed []job.ID
	for _, p := range plans {
		if p.OpensGate {
			gates = append(gates, p.Job)
		}
		if p.NotifiesReplies {
			notified = append(notified, p.Job)
		}
		if p.Frees {
			freed = append(freed, p.job.Connection)
		}
	}
	for id, j := range b.locked {
		if !j.WaitsFor.IsZero() && slices.Contains(notified, j.WaitsFor) {
			waiting = append(waiting, id)
		}
	}
	b.freed = append(b.freed, freed...)
	states.Gates, states.Notified = gates, notified
	states.Waiting = sqlstore.Listed(waiting)
	states.Freed = distinct(freed)
}

// noteRunnable records what a change means for the runnable rows and for waiting workers.
func (b *changeApplier) noteRunnable(p *plannedChange) {
	to := p.job.State
	was, is := runnableKey{p.old.Connection, p.old.HoldKey}, runnableKey{p.job.Connection, p.job.HoldKey}
	if was != is {
		b.left = append(b.left, was)
		b.runnable.touch(was)
	}
	switch {
	case to.Runnable():
		if p.job.WaitsFor.IsZero() {
			b.runnable.due(is, p.job.NextAt)
		}
	case p.Wakes:
		b.hint[store.WatchWork] = true
	}
	h := p.Decision.Hold
	if h == nil {
		return
	}
	b.runnable.touch(is)
	if !slices.ContainsFunc(b.holds, func(o heldRow) bool {
		return o.runnableKey == is && o.Auth == h.Auth && o.CredentialVersion == h.CredentialVersion && o.For >= h.For
	}) {
		b.holds = append(b.holds, heldRow{is, *h})
	}
}

// heldRow is a hold of a runnable row.
type heldRow struct {
	runnableKey
	job.HoldUntil
}

// notifyReplies updates the jobs that wait for a job that has ended, or that goes on after
// its end. If it has SUCCEEDED, they may start. The states are written already: a reply that
// is submitted from now on waits for this transaction, and an earlier one was seen.
func (b *changeApplier) notifyReplies(ctx context.Context, plans []*plannedChange) {
	moved := make(map[job.ID]*plannedChange, len(plans))
	for _, p := range plans {
		moved[p.Job] = p
	}
	for _, id := range slices.SortedFunc(maps.Keys(b.locked), func(x, y job.ID) int { return bytes.Compare(x[:], y[:]) }) {
		reply := b.locked[id].Job
		if p, ok := moved[id]; ok {
			reply = p.job
		}
		p, ok := moved[reply.WaitsFor]
		if !ok || !p.NotifiesReplies {
			continue
		}
		reply = rules.ReplyAfter(reply, p.job.State, b.now)
		b.exec(ctx, shared("replies", (*shareddb.Queries).NotifyReply, shareddb.NotifyReplyParams{
			JobID: reply.ID, WaitsFor: column.OptionalID(reply.WaitsFor), PredecessorEnd: reply.PredecessorEnd, StartDeadline: reply.StartDeadline,
		}))
		switch {
		case !reply.State.Runnable():
		case reply.WaitsFor.IsZero():
			b.runnable.due(runnableKey{reply.Connection, reply.HoldKey}, reply.NextAt)
		case reply.PredecessorEnd != 0:
			b.hint[store.WatchWork] = true
		}
	}
}

// answer records the jobs as they are after their changes. It reads the effects and the
// rulings that rows only refer to.
func (b *changeApplier) answer(ctx context.Context, plans []*plannedChange) error {
	at := make(map[job.ID]*store.Applied, len(plans))
	var referring []job.ID
	for _, p := range plans {
		out := &b.out[p.index]
		out.Snapshot, at[p.Job] = p.old.changed(p, b.now), out
		if p.job.State == job.Succeeded && p.effect != nil {
			effect := p.effect.Effect
			out.Snapshot.Effect = &effect
		}
		if p.ruling != 0 || p.job.State == job.Succeeded && p.effect == nil {
			referring = append(referring, p.Job)
		}
		if p.effect != nil && p.Notifies {
			out.Owner, out.TakenOver = p.effect.owner, p.Takes
		}
	}
	snaps, err := b.shared().SnapshotsByID(ctx, referring, false)
	for id, s := range snaps {
		at[id].Snapshot.Effect, at[id].Snapshot.Resolution = s.Effect, s.Resolution
	}
	return err
}
