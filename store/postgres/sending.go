package postgres

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file: a job that comes alone, is due, and has its intent at hand is
// written as SENDING, in one statement and one round trip.
//   - The log and the attempts tell of it what they tell of any other: submitted,
//     claimed, armed.
//   - It must not go before others: its ready row, which is there already, has nothing
//     due, and is served. What is read of the row is no lock: a job that becomes due
//     in this moment may be overtaken. A hold may not, and the statement asks for it.
//   - What it replies to is read by the usual way alone, and so is an effect key of the
//     caller's own and a cool-down written: the statement has no place for it.
//   - It is never runnable. So nobody is woken for it, and its ready row is not written.

// send stores the batch, if it is one job that is sent at once.
func (b *submissions) send(ctx context.Context) (bool, error) {
	if len(b.items) != 1 || len(b.jobs) != 1 || b.starts() == nil || b.items[0].Start.Intend == nil {
		return false, nil
	}
	n := &b.jobs[0]
	if !fitsSending(n.snapshot.Spec) {
		return false, nil
	}
	c, err := b.starter()
	if err != nil {
		return false, err
	}
	r := b.asked.start[0]
	due := r.NextAt != nil && !r.NextAt.After(b.now)
	if t := c.turns[n.snapshot.Connection]; t == nil || t.room <= 1 || !r.Served || r.ServedFrom.After(b.now) || due {
		return false, nil
	}
	l := b.leasedNew(n.snapshot, c.conns[n.snapshot.Connection])
	a := b.items[0].Start.Intend(l)
	if a == nil || !a.Intended(l) {
		return false, nil
	}
	// Whether the hold key is held the statement asks.
	j := rules.Armable{Snapshot: &l.Snapshot, ClaimedAt: b.now, Still: b.still()}
	if !rules.MayArm(*a, j) {
		return false, nil
	}
	in := &intent{Arm: *a}
	in.next, in.attempt = rules.Begin(*a, j)
	l.Armed = &store.Armed{Snapshot: in.next, Attempt: in.attempt}
	b.out[0] = store.Created{Snapshot: n.snapshot, Created: true, Started: &l}
	return true, b.writeSending(ctx, n.snapshot, in)
}

// fitsSending reports whether the statement has a place for all of a request.
func fitsSending(s job.Spec) bool {
	return s.ReplyTo.IsZero() && s.WaitWindow == 0 && s.OwnEffectKey == "" && s.CoolDown == 0 && s.SkipIfPresent == 0
}

// leasedNew gives a new job as a claim would leave it.
func (b *submissions) leasedNew(s job.Snapshot, conn store.Connection) store.Leased {
	p := b.items[0].Start
	s.Job = rules.Claimed(s.Job, p, randomID(), b.now)
	return store.Leased{Snapshot: s, Connection: conn}
}

// writeSending queues the statement.
func (b *submissions) writeSending(ctx context.Context, s job.Snapshot, in *intent) error {
	labels, err := fromLabels(s.Labels)
	if err != nil {
		return fmt.Errorf("%w: labels: %w", store.ErrIllegal, err)
	}
	before := b.base + b.ordinal
	for range 3 {
		if in.position, err = b.next(); err != nil {
			return err
		}
	}
	a := in.attempt
	p := pgdb.InsertSendingParams{
		ID: fromID(s.ID), Project: s.Project, IdemKey: s.Key, ConnectionID: fromID(s.Connection), PayloadKind: s.PayloadKind,
		StartWindow: micros(s.StartWindow), MaxAttempts: int64(s.Retry.MaxAttempts), MinBackoff: micros(s.Retry.MinBackoff),
		MaxBackoff: micros(s.Retry.MaxBackoff), AttemptTimeout: micros(s.Retry.AttemptTimeout), Policy: int16(s.Policy),
		Labels: labels, TimeZone: s.TimeZone, ScheduleID: optionalID(s.Schedule), Fingerprint: s.Fingerprint.Bytes(),
		Payload: fromBytes(s.Payload), HoldKey: s.HoldKey, Base: before, ScheduleTime: s.ScheduleTime,
		StartDeadline: s.StartDeadline, Class: int16(in.next.Class), Actor: b.items[0].Actor, Worker: in.Worker,
		ArmToken: fromID(a.ArmToken), SendDeadline: a.SendDeadline, AnswerDeadline: a.AnswerDeadline, Fence: in.next.Fence,
		EffectKey: a.EffectKey, RequestDigest: fromBytes(a.RequestDigest), CredentialVersion: int64(a.CredentialVersion),
		AccountIdentity: a.AccountIdentity, Watermark: a.Watermark, Frozen: fromBytes(a.Frozen), Now: b.now,
		Trace: optionalText(s.Trace), Span: a.Span.Bytes(),
		Causes: []int16{int16(job.CauseSubmitted), int16(job.CauseClaimed), int16(job.CauseArmed)},
	}
	b.queue(ctx, func(ctx context.Context, db pgdb.DBTX) error {
		return named("a job that is sent", pgdb.New(db).InsertSending(ctx, p))
	})
	b.addRecipients(ctx)
	return nil
}
