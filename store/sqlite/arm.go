package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/gen/litedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: no intent is written unless every guard of the contract
// holds at one moment. The checks here give each refusal its name; the update
// itself and the triggers repeat those that matter for safety.

// Arm implements store.Store.
func (s *Store) Arm(ctx context.Context, items []store.Arm) ([]store.Armed, error) {
	if err := bounded(len(items)); err != nil {
		return nil, fmt.Errorf("arm: %w", err)
	}
	return write(ctx, s, "arm", func(ctx context.Context, t *tx) ([]store.Armed, error) {
		meta, err := t.meta(ctx)
		if err != nil {
			return nil, fmt.Errorf("meta: %w", err)
		}
		out := make([]store.Armed, len(items))
		for i, a := range items {
			verdict, fatal := t.item(ctx, len(items), func() (err error) {
				out[i], err = t.arm(ctx, a, meta.Quarantined)
				return err
			})
			if fatal != nil {
				return nil, fatal
			}
			if verdict != nil {
				out[i] = store.Armed{Err: verdict}
			}
		}
		return out, nil
	})
}

func (t *tx) arm(ctx context.Context, a store.Arm, quarantined string) (store.Armed, error) {
	h, err := t.load(ctx, fromID(a.Job))
	if err != nil {
		return store.Armed{}, err
	}
	st := h.st
	if err := t.mayArm(ctx, st, a); err != nil {
		return store.Armed{}, err
	}
	if quarantined != "" {
		return store.Armed{}, fmt.Errorf("%w: quarantined: %s", store.ErrHeld, quarantined)
	}
	if t.doubt.Stands {
		return store.Armed{}, fmt.Errorf("%w: %s", store.ErrHeld, t.doubt.Why)
	}
	attempt := newAttemptRow(a, st, st.Attempt+1, st.Round, t.now)
	if a.Rearm {
		if err := t.sameBytes(ctx, st, a); err != nil {
			return store.Armed{}, err
		}
		// The platform still knows the handle of the attempt that is repeated.
		last, err := t.q.GetAttempt(ctx, litedb.GetAttemptParams{JobID: st.JobID, Number: st.Attempt})
		if err != nil {
			return store.Armed{}, fmt.Errorf("last attempt: %w", err)
		}
		attempt.Handle = last.Handle
	}
	downs, err := t.cooled(ctx, h, a)
	if err != nil {
		return store.Armed{}, err
	}
	if err := t.takeGate(ctx, st, a); err != nil {
		return store.Armed{}, err
	}
	from := st.State
	if err := t.writeArm(ctx, &st, a, attempt); err != nil {
		return store.Armed{}, err
	}
	for _, d := range a.Marked(downs) {
		err := t.q.SetCoolDownMark(ctx, litedb.SetCoolDownMarkParams{Owner: fromID(d.Owner), JobID: st.JobID, ArmedAt: t.now})
		if err != nil {
			return store.Armed{}, fmt.Errorf("cool-down: %w", err)
		}
	}
	// A repeat goes from one list to the other, and releases nothing: its outcome is as unknown.
	if h.job.ScheduleID != nil {
		if err := t.listJob(ctx, h.job.ScheduleID, st.JobID, job.State(from), job.Sending); err != nil {
			return store.Armed{}, fmt.Errorf("job of a schedule: %w", err)
		}
	}
	t.w.cache.moved(st.ConnectionID, job.State(from), job.Sending)
	h.st = st
	return t.armed(ctx, h, a, attempt, job.State(from))
}

// armed remembers a job that was armed, appends the event and gives the answer.
func (t *tx) armed(ctx context.Context, h *held, a store.Arm, attempt litedb.Attempt, from job.State) (store.Armed, error) {
	h.account = attempt.AccountIdentity
	h.marks = append(h.marks, litedb.AttemptMarksRow{
		Number: attempt.Number, Round: attempt.Round, ArmedAt: attempt.ArmedAt, FenceAt: attempt.FenceAt, Handle: attempt.Handle,
		EffectKey: attempt.EffectKey,
	})
	t.w.cache.keep(h)
	err := t.event(ctx, h.job.ScheduleID, h.st, litedb.InsertEventParams{
		FromState: int64(from), Cause: int64(job.CauseArmed), Attempt: attempt.Number, Actor: a.Worker,
	})
	if err != nil {
		return store.Armed{}, err
	}
	snap, err := t.view().completed(ctx, h, nil)
	if err != nil {
		return store.Armed{}, err
	}
	armed, err := toAttempt(attempt)
	return store.Armed{Snapshot: snap, Attempt: armed}, err
}

// mayArm checks what the job's own row and its hold key say.
func (t *tx) mayArm(ctx context.Context, st litedb.JobState, a store.Arm) error {
	want := job.Claimed
	if a.Rearm {
		want = job.Ambiguous
	}
	switch {
	case st.Version != a.Version:
		return fmt.Errorf("%w: version %d, now %d", store.ErrStale, a.Version, st.Version)
	case job.State(st.State) != want:
		return fmt.Errorf("%w: arm in state %s", store.ErrIllegal, job.State(st.State))
	case st.ClaimToken == nil || toID(st.ClaimToken) != a.Claim || st.NextAt.Int64 <= t.now:
		return fmt.Errorf("%w: the lease is lost", store.ErrStale)
	case st.CancelAskedAt.Valid:
		return fmt.Errorf("%w: a cancel was asked", store.ErrStale)
	case st.StartDeadline <= t.now:
		return store.ErrWindowOver
	}
	ready, err := t.readyRow(ctx, st.ConnectionID, st.HoldKey)
	if err != nil {
		return fmt.Errorf("ready row: %w", err)
	}
	if ready.Paused == 1 || ready.AuthHoldAt.Valid || ready.RateLimitedUntil > t.now {
		return store.ErrHeld
	}
	return nil
}

// sameBytes keeps a re-arm to the effect key and the bytes of its round: only
// then does the target see a repeat and not a second request.
func (t *tx) sameBytes(ctx context.Context, st litedb.JobState, a store.Arm) error {
	first, err := t.q.RoundsFirst(ctx, litedb.RoundsFirstParams{JobID: st.JobID, Round: st.Round})
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: re-arm in a round without an attempt", store.ErrIllegal)
	}
	if err != nil {
		return fmt.Errorf("first attempt: %w", err)
	}
	if first.EffectKey != a.EffectKey || !bytes.Equal(first.RequestDigest, a.Digest) {
		return fmt.Errorf("%w: re-arm with another effect key or other bytes", store.ErrIllegal)
	}
	return nil
}

// cooled gives the cool-downs that apply to a job, if none of them refuses the arm.
func (t *tx) cooled(ctx context.Context, h *held, a store.Arm) ([]store.CoolDown, error) {
	conn, err := t.getConnection(ctx, h.st.ConnectionID)
	if err != nil {
		return nil, fmt.Errorf("connection: %w", err)
	}
	downs := store.CoolDowns(job.Spec{
		Connection: toID(conn.ID), Schedule: toID(h.job.ScheduleID), CoolDown: fromDuration(h.job.CoolDown),
	}, fromDuration(conn.CoolDown))
	marks := make(map[job.ID]store.CoolMark, len(downs))
	for _, d := range downs {
		row, err := t.q.CoolDownMark(ctx, fromID(d.Owner))
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cool-down: %w", err)
		}
		marks[d.Owner] = store.CoolMark{Job: toID(row.JobID), ArmedAt: fromMicros(row.ArmedAt)}
	}
	return downs, a.Cooled(downs, func(owner job.ID) store.CoolMark { return marks[owner] }, fromMicros(t.now))
}

func (t *tx) takeGate(ctx context.Context, st litedb.JobState, a store.Arm) error {
	if len(a.Gate) == 0 {
		return nil
	}
	account := a.AccountIdentity
	if account == "" {
		account = accountOf(st)
	}
	owner, err := t.q.GateOwner(ctx, litedb.GateOwnerParams{Account: account, Fingerprint: a.Gate})
	if err == nil && toID(owner) != a.Job {
		return &store.GatedError{By: toID(owner)}
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("gate: %w", err)
	}
	err = t.q.TakeGate(ctx, litedb.TakeGateParams{
		Account: account, Fingerprint: a.Gate, JobID: st.JobID, Attempt: st.Attempt + 1,
	})
	if err != nil {
		return fmt.Errorf("gate: %w", err)
	}
	return nil
}

// writeArm moves the job to SENDING and writes the attempt.
func (t *tx) writeArm(ctx context.Context, st *litedb.JobState, a store.Arm, attempt litedb.Attempt) error {
	n, err := t.q.ArmJob(ctx, litedb.ArmJobParams{
		Class: int64(a.Class), Fence: someMicros(attempt.FenceAt), Worker: a.Worker, Now: t.now,
		JobID: st.JobID, Version: a.Version, ClaimToken: fromID(a.Claim), Rearm: toBool(a.Rearm),
	})
	if err != nil {
		return fmt.Errorf("arm job: %w", err)
	}
	if n != 1 {
		return fmt.Errorf("%w: an earlier attempt is still open", store.ErrIllegal)
	}
	return t.begin(ctx, st, a, attempt)
}

// begin writes the attempt of a job that was armed, and leaves the state row as it is
// now.
func (t *tx) begin(ctx context.Context, st *litedb.JobState, a store.Arm, attempt litedb.Attempt) error {
	if err := t.q.InsertAttempt(ctx, insertAttemptParams(attempt)); err != nil {
		return fmt.Errorf("attempt: %w", err)
	}
	if st.Attempt == 0 {
		st.Class = int64(a.Class)
		if err := t.q.InsertStart(ctx, startParams(*st, attempt)); err != nil {
			return fmt.Errorf("start: %w", err)
		}
	}
	st.State, st.Version, st.Attempt = int64(job.Sending), st.Version+1, attempt.Number
	st.NextAt, st.ClaimToken, st.Worker = someMicros(attempt.FenceAt), nil, a.Worker
	st.Claims, st.Blocked, st.UpdatedAt = 0, "", t.now
	return nil
}

// ArmedBy implements store.Store. It waits its turn behind the writes that came
// before it, so the arm that it asks about is decided.
func (s *Store) ArmedBy(ctx context.Context, id, token job.ID) (store.Armed, error) {
	return write(ctx, s, "armed by", func(ctx context.Context, t *tx) (store.Armed, error) {
		a, err := t.q.AttemptByToken(ctx, litedb.AttemptByTokenParams{JobID: fromID(id), ArmToken: fromID(token)})
		if err != nil {
			return store.Armed{}, orNotFound(err)
		}
		snap, err := t.view().snapshot(ctx, fromID(id))
		if err != nil {
			return store.Armed{}, err
		}
		attempt, err := toAttempt(a)
		return store.Armed{Snapshot: snap, Attempt: attempt}, err
	})
}

// SaveHandle implements store.Store. Only the attempt that is being sent may
// save one.
func (s *Store) SaveHandle(ctx context.Context, id job.ID, attempt int, handle string) error {
	_, err := write(ctx, s, "save handle", func(ctx context.Context, t *tx) (struct{}, error) {
		n, err := t.q.SaveHandle(ctx, litedb.SaveHandleParams{Handle: handle, JobID: fromID(id), Number: int64(attempt)})
		t.w.cache.drop(id)
		if err != nil || n == 1 {
			return struct{}{}, err
		}
		if _, err := t.q.GetAttempt(ctx, litedb.GetAttemptParams{JobID: fromID(id), Number: int64(attempt)}); err != nil {
			return struct{}{}, orNotFound(err)
		}
		return struct{}{}, store.ErrStale
	})
	return err
}
