package postgres

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
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
	auth      []pgdb.HoldAuthParams
	// schedules are those of the jobs whose changes may release a firing.
	schedules []job.ID
	rate      map[runnableKey]pgdb.HoldRateParams
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
	if plans, err = b.takeEffectKeys(ctx, plans); err != nil {
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
	b.writeContent(ctx, plans)
	if err := b.writeStates(ctx, plans); err != nil {
		return err
	}
	if err := b.flush(ctx); err != nil {
		return err
	}
	return b.answer(ctx, plans)
}

// takeEffectKeys takes the effect keys that changes bring, and drops the changes whose effect
// key is used.
func (b *changeApplier) takeEffectKeys(ctx context.Context, plans []*plannedChange) ([]*plannedChange, error) {
	var p pgdb.TakeEffectKeysParams
	for _, c := range plans {
		if c.Content != nil && c.Content.OwnEffectKey != "" {
			p.Digests, p.Jobs = append(p.Digests, c.Content.EffectKey[:]), append(p.Jobs, c.Job)
		}
	}
	if len(p.Jobs) == 0 {
		return plans, nil
	}
	rows, err := b.q.TakeEffectKeys(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("effect keys: %w", err)
	}
	return slices.DeleteFunc(plans, func(c *plannedChange) bool {
		taken := c.Content != nil && c.Content.OwnEffectKey != "" && !slices.Contains(rows, c.Job)
		if taken {
			b.out[c.index].Err = store.ErrEffectKeyTaken
		}
		return taken
	}), nil
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
	settled := pgdb.SettleAttemptsParams{Now: b.now}
	var kept pgdb.CountAnswersParams
	closed := pgdb.CloseAttemptsParams{Now: b.now}
	for _, p := range plans {
		for _, s := range p.Settle {
			addKept(&kept, p.Job, s)
			if s.Attempt == p.old.Attempt {
				p.newest = outcome{Settled: s, settles: true}
				continue
			}
			addSettled(&settled, p.Job, s)
		}
		for _, n := range p.Close {
			if n == p.old.Attempt {
				p.newest.Result = p.Decision.CloseOpen
				continue
			}
			closed.Jobs = append(closed.Jobs, p.Job)
			closed.Numbers = append(closed.Numbers, int64(n))
			closed.Results = append(closed.Results, int16(p.Decision.CloseOpen))
		}
	}
	b.execRows(ctx, len(kept.Jobs), statement("kept answers", (*pgdb.Queries).CountAnswers, kept))
	b.execRows(ctx, len(settled.Jobs), statement("settle", (*pgdb.Queries).SettleAttempts, settled))
	b.execRows(ctx, len(closed.Jobs), statement("close attempts", (*pgdb.Queries).CloseAttempts, closed))
}

// record stores the looks and the rulings that led to the decisions.
func (b *changeApplier) record(ctx context.Context, plans []*plannedChange) error {
	var looks pgdb.InsertObservationsParams
	rulings := pgdb.InsertResolutionsParams{Now: b.now}
	byJob := make(map[job.ID]*plannedChange)
	for _, p := range plans {
		if p.Decision.Observed != nil {
			addObservation(&looks, p.Job, *p.Decision.Observed)
		}
		if p.Decision.Ruling != nil {
			addResolution(&rulings, p.Job, *p.Decision.Ruling)
			byJob[p.Job] = p
		}
	}
	b.execRows(ctx, len(looks.Jobs), statement("observations", (*pgdb.Queries).InsertObservations, looks))
	if len(rulings.Jobs) == 0 {
		return nil
	}
	rows, err := b.q.InsertResolutions(ctx, rulings)
	if err != nil {
		return fmt.Errorf("resolutions: %w", err)
	}
	for _, r := range rows {
		byJob[r.JobID].ruling = r.ID
	}
	return nil
}

// writeContent writes the changes of the requests themselves.
func (b *changeApplier) writeContent(ctx context.Context, plans []*plannedChange) {
	var params pgdb.SetContentsParams
	for _, p := range plans {
		if p.Content != nil {
			addContent(&params, p.Job, *p.Content)
		}
	}
	if len(params.Jobs) > 0 {
		b.exec(ctx, statement("content", (*pgdb.Queries).SetContents, params))
		b.writeRecipients(ctx, plans)
	}
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
	if h.Auth != 0 {
		b.auth = append(b.auth, pgdb.HoldAuthParams{
			Now: b.now, Reason: h.Reason, Cause: int16(h.Auth), ConnectionID: is.conn, HoldKey: is.hold,
			CredentialVersion: int64(h.CredentialVersion),
		})
		return
	}
	if b.rate == nil {
		b.rate = make(map[runnableKey]pgdb.HoldRateParams)
	}
	if until := rules.Until(*h, b.now); until.After(b.rate[is].Until) {
		b.rate[is] = pgdb.HoldRateParams{
			Until: until, Reason: h.Reason, ConnectionID: is.conn, HoldKey: is.hold,
		}
	}
}

// notifyReplies updates the jobs that wait for a job that has ended, or that goes on after
// its end. If it has SUCCEEDED, they may start. The states are written already: a reply that
// is submitted from now on waits for this transaction, and an earlier one was seen.
func (b *changeApplier) notifyReplies(ctx context.Context, plans []*plannedChange) {
	moved := make(map[job.ID]*plannedChange, len(plans))
	for _, p := range plans {
		moved[p.Job] = p
	}
	var replies pgdb.NotifyRepliesParams
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
		addReply(&replies, reply)
		switch {
		case !reply.State.Runnable():
		case reply.WaitsFor.IsZero():
			b.runnable.due(runnableKey{reply.Connection, reply.HoldKey}, reply.NextAt)
		case reply.PredecessorEnd != 0:
			b.hint[store.WatchWork] = true
		}
	}
	b.execRows(ctx, len(replies.Jobs), statement("replies", (*pgdb.Queries).NotifyReplies, replies))
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
	return b.fill(ctx, referring, func(id job.ID, s job.Snapshot) {
		at[id].Snapshot.Effect, at[id].Snapshot.Resolution = s.Effect, s.Resolution
	})
}

// writeRecipients stores the recipients of new payloads.
func (b *changeApplier) writeRecipients(ctx context.Context, plans []*plannedChange) {
	var old []job.ID
	var p pgdb.AddRecipientsParams
	for _, c := range plans {
		if c.Content == nil || c.Content.Payload == nil {
			continue
		}
		old = append(old, c.Job)
		for _, who := range c.Content.Recipients {
			p.Ids, p.Projects, p.Recipients = append(p.Ids, c.Job), append(p.Projects, c.job.Project), append(p.Recipients, who)
		}
	}
	b.execRows(ctx, len(old), statement("recipients", (*pgdb.Queries).RemoveRecipients, old))
	b.execRows(ctx, len(p.Ids), statement("recipients", (*pgdb.Queries).AddRecipients, p))
}
