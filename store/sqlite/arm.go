package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file: rules.Arm and rules.Gate judge an intent, on rows that only the one
// writer changes. The update names the version and the claim that were judged, and the
// triggers refuse what must never be written.

// Arm implements store.Store.
func (s *Store) Arm(ctx context.Context, items []store.Arm) ([]store.Armed, error) {
	return batch(ctx, s, "arm", items, (*tx).arm, func(err error) store.Armed { return store.Armed{Err: err} })
}

func (t *tx) arm(ctx context.Context, a store.Arm) (store.Armed, error) {
	h, err := t.load(ctx, fromID(a.Job))
	if err != nil {
		return store.Armed{}, err
	}
	snap, err := t.view().completed(ctx, h, nil)
	if err != nil {
		return store.Armed{}, err
	}
	j, err := t.armable(ctx, h, &snap)
	if err != nil {
		return store.Armed{}, err
	}
	if err := rules.Arm(a, j); err != nil {
		return store.Armed{}, err
	}
	if err := t.takeGate(ctx, h.st, a); err != nil {
		return store.Armed{}, err
	}
	from := snap.State
	next, attempt := rules.Begin(a, j)
	if err := t.writeArm(ctx, h, a, next, attempt); err != nil {
		return store.Armed{}, err
	}
	for _, d := range rules.CoolDownsOf(a, j.CoolDowns) {
		err := t.q.SetLastArm(ctx, sqlitedb.SetLastArmParams{Owner: fromID(d.Owner), JobID: h.st.JobID, ArmedAt: t.now})
		if err != nil {
			return store.Armed{}, fmt.Errorf("cool-down: %w", err)
		}
	}
	// A repeat moves the job from one list to the other, and releases nothing: its outcome is
	// still unknown.
	if h.job.ScheduleID != nil {
		if err := t.listJob(ctx, h.job.ScheduleID, h.st.JobID, from, job.Sending); err != nil {
			return store.Armed{}, fmt.Errorf("job of a schedule: %w", err)
		}
	}
	t.w.cache.moved(h.st.ConnectionID, from, job.Sending)
	return t.armed(h, next, attempt), nil
}

// armed caches a job that was armed and returns the answer.
func (t *tx) armed(h *cachedJob, next job.Snapshot, attempt job.Attempt) store.Armed {
	h.account = attempt.AccountIdentity
	h.attempts = append(h.attempts, rules.ViewOf(next, attempt))
	t.w.cache.keep(h)
	return store.Armed{Snapshot: next, Attempt: attempt}
}

// armable returns the job as an intent finds it; snap is the job as it is.
func (t *tx) armable(ctx context.Context, h *cachedJob, snap *job.Snapshot) (rules.Armable, error) {
	j := rules.Armable{
		Snapshot: snap, ClaimedAt: fromNullMicros(h.st.ClaimedAt),
		UnderWay: h.attempts.UnderWay(), RoundDigest: h.attempts.RoundDigest(snap.Round),
	}
	var err error
	if j.Suspension, err = t.suspension(ctx); err != nil {
		return j, err
	}
	row, err := t.runnableRow(ctx, h.st.ConnectionID, h.st.HoldKey)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return j, fmt.Errorf("runnable row: %w", err)
	}
	j.Held = toHold(row).Held(snap.Now)
	return j, t.coolDowns(ctx, &j)
}

// coolDowns adds the cool-downs that apply to a job, and their last arms.
func (t *tx) coolDowns(ctx context.Context, j *rules.Armable) error {
	conn, err := t.getConnection(ctx, j.Spec.Connection)
	if err != nil {
		return fmt.Errorf("connection: %w", err)
	}
	if j.CoolDowns = store.CoolDowns(j.Spec, conn.CoolDown); len(j.CoolDowns) == 0 {
		return nil
	}
	last := make(map[job.ID]store.LastArm, len(j.CoolDowns))
	for _, d := range j.CoolDowns {
		row, err := t.q.LastArm(ctx, fromID(d.Owner))
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cool-down: %w", err)
		}
		last[d.Owner] = store.LastArm{Job: toID(row.JobID), ArmedAt: fromMicros(row.ArmedAt)}
	}
	j.Last = func(owner job.ID) store.LastArm { return last[owner] }
	return nil
}

// takeGate takes the gate of an intent that has one.
func (t *tx) takeGate(ctx context.Context, st sqlitedb.JobState, a store.Arm) error {
	if len(a.Gate) == 0 {
		return nil
	}
	account := rules.Account(toID(st.ConnectionID), st.HoldKey, a.AccountIdentity)
	owner, err := t.q.GateOwner(ctx, sqlitedb.GateOwnerParams{Account: account, Fingerprint: a.Gate})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("gate: %w", err)
	}
	if err := rules.Gate(a, toID(owner)); err != nil {
		return err
	}
	bucket := rules.ContentBucket(account, a.Gate)
	arms, err := t.w.sq.ContentArms(ctx, bucket)
	if err != nil {
		return fmt.Errorf("arms of the content: %w", err)
	}
	if err := rules.LookStands(a, arms); err != nil {
		return err
	}
	if err := t.q.CountContentArm(ctx, bucket); err != nil {
		return fmt.Errorf("arms of the content: %w", err)
	}
	return named("gate", t.q.TakeGate(ctx, sqlitedb.TakeGateParams{
		Account: account, Fingerprint: a.Gate, JobID: st.JobID, Attempt: st.Attempt + 1,
	}))
}

// writeArm moves the job to SENDING, with its attempt.
func (t *tx) writeArm(ctx context.Context, h *cachedJob, a store.Arm, next job.Snapshot, attempt job.Attempt) error {
	st := armedRow(h.st, next)
	p := armParams(a, next, attempt)
	p.State, p.History = h.st.State, t.noteArm(h.job.ScheduleID, &st, job.State(h.st.State))
	n, err := t.q.ArmJob(ctx, p)
	if err != nil {
		return fmt.Errorf("arm job: %w", err)
	}
	if n != 1 {
		return fmt.Errorf("arm job %s: %w: judged on another row than is written", a.Job, store.ErrIllegal)
	}
	h.st = st
	return t.noteArmed(ctx)
}

// noteArmed records once that an attempt was armed.
func (t *tx) noteArmed(ctx context.Context) error {
	m, err := t.meta(ctx)
	if err == nil && m.ArmedBefore == 0 {
		err = t.q.SetArmed(ctx)
	}
	return named("meta", err)
}
