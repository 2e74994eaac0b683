package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/column"
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
	h, err := t.load(ctx, a.Job)
	if err != nil {
		return store.Armed{}, err
	}
	snap := h.at(t.now)
	j, err := t.armable(ctx, h, &snap)
	if err != nil {
		return store.Armed{}, err
	}
	if err := rules.Arm(a, j); err != nil {
		return store.Armed{}, err
	}
	if err := t.takeGate(ctx, &snap, a); err != nil {
		return store.Armed{}, err
	}
	from := snap.State
	next, attempt := rules.Begin(a, j)
	n, err := t.writeArm(ctx, snap.Status, &next, &attempt, t.noteArm(&next.Job, from))
	if err != nil {
		return store.Armed{}, fmt.Errorf("arm job: %w", err)
	}
	if n != 1 {
		return store.Armed{}, fmt.Errorf("arm job %s: %w: judged on another row than is written", a.Job, store.ErrIllegal)
	}
	if err := t.noteArmed(ctx); err != nil {
		return store.Armed{}, err
	}
	for _, d := range rules.CoolDownsOf(a, j.CoolDowns) {
		err := t.q.SetLastArm(ctx, sqlitedb.SetLastArmParams{Owner: d.Owner, JobID: a.Job, ArmedAt: t.now})
		if err != nil {
			return store.Armed{}, fmt.Errorf("cool-down: %w", err)
		}
	}
	// A repeat moves the job from one list to the other, and releases nothing: its outcome is
	// still unknown.
	if err := t.listJob(ctx, &next.Job, from); err != nil {
		return store.Armed{}, err
	}
	t.w.cache.moved(h.Connection, from, job.Sending)
	return t.armed(h, next, attempt), nil
}

// armed caches a job that was armed and returns the answer.
func (t *tx) armed(h *cachedJob, next job.Snapshot, attempt job.Attempt) store.Armed {
	h.Job, h.account = next.Job, &attempt.AccountIdentity
	h.attempts = append(h.attempts, rules.ViewOf(next, attempt))
	t.w.cache.keep(h)
	return store.Armed{Snapshot: next, Attempt: attempt}
}

// armable returns the job as an intent finds it; snap is the job as it is.
func (t *tx) armable(ctx context.Context, h *cachedJob, snap *job.Snapshot) (rules.Armable, error) {
	j := rules.Armable{
		Snapshot: snap, ClaimedAt: h.claimedAt,
		UnderWay: h.attempts.UnderWay(), RoundDigest: h.attempts.RoundDigest(snap.Round),
	}
	var err error
	if j.Suspension, err = t.suspension(ctx); err != nil {
		return j, err
	}
	row, err := t.runnableRow(ctx, h.Connection, h.HoldKey)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return j, fmt.Errorf("runnable row: %w", err)
	}
	j.Held = rules.Hold{Paused: row.Paused, Refused: !row.AuthHoldAt.IsZero(), LimitedUntil: row.RateLimitedUntil}.Held(snap.Now)
	stops, err := t.stops(ctx, h.Connection, h.HoldKey)
	if err != nil {
		return j, err
	}
	if len(stops) > 0 {
		conn, err := t.getConnection(ctx, h.Connection)
		if err != nil {
			return j, fmt.Errorf("connection: %w", err)
		}
		j.Stop = store.StopOver(stops, store.StopTargetOf(&h.Spec, conn.Connector), snap.Now)
	}
	return j, t.coolDowns(ctx, &j)
}

// stops returns the stops that may be over the jobs of a hold key.
func (t *tx) stops(ctx context.Context, conn job.ID, hold string) ([]store.Stop, error) {
	m, err := t.meta(ctx)
	if err != nil || m.Stops == 0 {
		return nil, named("meta", err)
	}
	return t.shared().StopsFor(ctx, []job.ID{conn}, []string{hold})
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
		row, err := t.q.LastArm(ctx, d.Owner)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cool-down: %w", err)
		}
		last[d.Owner] = store.LastArm{Job: row.JobID, ArmedAt: row.ArmedAt}
	}
	j.Last = func(owner job.ID) store.LastArm { return last[owner] }
	return nil
}

// takeGate takes the gate of an intent that has one.
func (t *tx) takeGate(ctx context.Context, j *job.Snapshot, a store.Arm) error {
	if len(a.Gate) == 0 {
		return nil
	}
	account := rules.Account(j.Connection, j.HoldKey, a.AccountIdentity)
	owner, err := t.q.GateOwner(ctx, sqlitedb.GateOwnerParams{Account: account, Fingerprint: a.Gate})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("gate: %w", err)
	}
	if err := rules.Gate(a, owner); err != nil {
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
		Account: account, Fingerprint: a.Gate, JobID: a.Job, Attempt: j.Attempt + 1,
	}))
}

// writeArm moves a job to SENDING, like next, from a state, a version and a lease, with the
// history of its events. It returns the number of changed rows.
func (t *tx) writeArm(ctx context.Context, was job.Status, next *job.Snapshot, a *job.Attempt, history []byte) (int64, error) {
	return t.q.ArmJob(ctx, sqlitedb.ArmJobParams{
		JobID: next.ID, State: was.State, Was: was.Version, ClaimToken: column.OptionalID(was.ClaimToken), Version: next.Version,
		ClaimedAt: a.ClaimedAt, Class: next.Class, Fence: next.Fence, Worker: next.Worker, Now: a.ArmedAt,
		ArmToken: column.OptionalID(a.ArmToken), SendDeadline: a.SendDeadline, AnswerDeadline: a.AnswerDeadline,
		EffectKey: a.EffectKey, RequestDigest: fromBytes(a.RequestDigest), CredentialVersion: a.CredentialVersion,
		AccountIdentity: a.AccountIdentity, Watermark: a.Watermark, Handle: a.Handle, Span: a.Span.Bytes(),
		Frozen: fromBytes(a.Frozen), StartDeadline: next.StartDeadline, KeepTrying: next.KeepTrying, History: history,
	})
}

// noteArmed records once that an attempt was armed.
func (t *tx) noteArmed(ctx context.Context) error {
	m, err := t.meta(ctx)
	if err == nil && !m.ArmedBefore {
		err = t.q.SetArmed(ctx)
	}
	return named("meta", err)
}
