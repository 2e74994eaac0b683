package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: no intent is written unless every guard of the contract
// holds at one moment. Each guard is one case; those of a kind are in one function.

// Arm implements store.Store.
func (s *Store) Arm(ctx context.Context, items []store.Arm) ([]store.Armed, error) {
	return batch(ctx, s, "arm", items, func(t *tx, a store.Arm) store.Armed {
		out, err := t.arm(a)
		if err != nil {
			return store.Armed{Err: err}
		}
		return out
	})
}

func (t *tx) arm(a store.Arm) (store.Armed, error) {
	r, ok := t.jobs[a.Job]
	if !ok {
		return store.Armed{}, store.ErrNotFound
	}
	for _, guard := range []func(*record, store.Arm) error{t.mayArm, mayRepeat, t.mayPass, t.mayAttempt, t.mayCool} {
		if err := guard(r, a); err != nil {
			return store.Armed{}, err
		}
	}
	attempt := t.newAttempt(r, a)
	next, from := r.job, r.job.State
	if next.Attempt == 0 {
		next.Class = a.Class
		r.lag = t.now.Sub(next.ScheduleTime)
	}
	next.State, next.Version, next.Attempt = job.Sending, next.Version+1, attempt.Number
	next.NextAt, next.ClaimToken, next.Worker = attempt.Fence, job.ID{}, a.Worker
	next.Claims, next.Blocked, next.Updated = 0, "", t.now
	r.attempts = append(r.attempts, attempt)
	t.tokens[a.Token] = true
	t.takeGate(r, a)
	for _, d := range a.Marked(t.coolDowns(r)) {
		t.cooling[d.Owner] = store.CoolMark{Job: a.Job, ArmedAt: t.now}
	}
	t.put(r, next)
	t.event(r, job.Event{From: from, Cause: job.CauseArmed, Attempt: attempt.Number, Actor: a.Worker})
	return armed(t, r, attempt), nil
}

func armed(t *tx, r *record, a Attempt) store.Armed {
	return store.Armed{Snapshot: lean(r.snapshot(t.now)), Attempt: a.public()}
}

// mayArm checks what the job's own row, its hold key and the database say.
func (t *tx) mayArm(r *record, a store.Arm) error {
	j, want := &r.job, job.Claimed
	if a.Rearm {
		want = job.Ambiguous
	}
	switch {
	case j.Version != a.Version:
		return fmt.Errorf("%w: version %d, now %d", store.ErrStale, a.Version, j.Version)
	case j.State != want:
		return fmt.Errorf("%w: arm in state %s", store.ErrIllegal, j.State)
	case j.ClaimToken.IsZero() || j.ClaimToken != a.Claim:
		return fmt.Errorf("%w: the lease is lost", store.ErrStale)
	case !j.NextAt.After(t.now):
		return fmt.Errorf("%w: the lease is over", store.ErrStale)
	case !j.CancelAsked.IsZero():
		return fmt.Errorf("%w: a cancel was asked", store.ErrStale)
	case !j.StartDeadline.After(t.now):
		return store.ErrWindowOver
	case t.held(readyKey{j.Connection, j.HoldKey}):
		return store.ErrHeld
	case t.meta.Quarantined != "":
		return fmt.Errorf("%w: quarantined: %s", store.ErrHeld, t.meta.Quarantined)
	case t.doubt.Stands:
		return fmt.Errorf("%w: %s", store.ErrHeld, t.doubt.Why)
	}
	return nil
}

// mayRepeat keeps a re-arm to the effect key and the bytes of its round: only then
// does the target see a repeat and not a second request.
func mayRepeat(r *record, a store.Arm) error {
	if !a.Rearm {
		return nil
	}
	i := slices.IndexFunc(r.attempts, func(old Attempt) bool { return old.Round == r.job.Round })
	switch {
	case i < 0:
		return fmt.Errorf("%w: re-arm in a round without an attempt", store.ErrIllegal)
	case r.attempts[i].EffectKey != a.EffectKey:
		return fmt.Errorf("%w: re-arm with another effect key", store.ErrIllegal)
	case !bytes.Equal(r.attempts[i].RequestDigest, a.Digest):
		return fmt.Errorf("%w: re-arm with other bytes", store.ErrIllegal)
	}
	return nil
}

// mayAttempt checks the attempt against the earlier ones. A first arm of an effect
// needs each of them closed.
func (t *tx) mayAttempt(r *record, a store.Arm) error {
	for _, old := range r.attempts {
		switch {
		case old.Result == 0:
			return fmt.Errorf("%w: attempt %d is under way", store.ErrIllegal, old.Number)
		case !a.Rearm && old.Result.Open():
			return fmt.Errorf("%w: attempt %d is still open", store.ErrIllegal, old.Number)
		}
	}
	switch {
	case t.tokens[a.Token]:
		return fmt.Errorf("%w: the token is that of another arm", store.ErrIllegal)
	case r.job.Attempt == 0 && !known(a.Class):
		return fmt.Errorf("%w: class %d", store.ErrIllegal, a.Class)
	}
	return nil
}

// coolDowns are those that apply to a job.
func (t *tx) coolDowns(r *record) []store.CoolDown {
	return store.CoolDowns(r.job.Spec, t.conns[r.job.Connection].CoolDown)
}

// mayCool checks that no other job was armed within a cool-down.
func (t *tx) mayCool(r *record, a store.Arm) error {
	return a.Cooled(t.coolDowns(r), func(owner job.ID) store.CoolMark { return t.cooling[owner] }, t.now)
}

// gate is a content on an account.
type gate struct{ account, fingerprint string }

func (t *tx) gateOf(r *record, a store.Arm) gate {
	account := a.AccountIdentity
	if account == "" {
		account = accountOf(r.job)
	}
	return gate{account, string(a.Gate)}
}

// mayPass checks that no other open intent has the same content, and that the job
// has none with another.
func (t *tx) mayPass(r *record, a store.Arm) error {
	if len(a.Gate) == 0 {
		return nil
	}
	g := t.gateOf(r, a)
	owner, shut := t.gates[g]
	switch {
	case shut && owner != a.Job:
		return &store.GatedError{By: owner}
	case r.intent != nil && r.intent.gate() != g:
		return fmt.Errorf("%w: the job has an open intent with other content", store.ErrIllegal)
	}
	return nil
}

func (t *tx) takeGate(r *record, a store.Arm) {
	if len(a.Gate) == 0 {
		return
	}
	g := t.gateOf(r, a)
	t.gates[g] = a.Job
	r.intent = &Intent{Account: g.account, Fingerprint: g.fingerprint, Attempt: r.job.Attempt + 1}
}

// releaseGate ends the job's open intent.
func (t *tx) releaseGate(r *record) {
	if r.intent == nil {
		return
	}
	if g := r.intent.gate(); t.gates[g] == r.job.ID {
		delete(t.gates, g)
	}
	r.intent = nil
}

// newAttempt is the attempt as it is armed. The platform still knows the handle of
// the one that is repeated.
func (t *tx) newAttempt(r *record, a store.Arm) Attempt {
	out := Attempt{
		Attempt: job.Attempt{
			Number: r.job.Attempt + 1, Round: r.job.Round, ArmToken: a.Token, Worker: a.Worker,
			ClaimedAt: r.claimedAt, ArmedAt: t.now,
			SendDeadline: micros(t.now.Add(a.SendBy)), AnswerDeadline: micros(t.now.Add(a.AnswerBy)),
			EffectKey: a.EffectKey, RequestDigest: some(a.Digest), Frozen: some(a.Frozen),
			CredentialVersion: a.CredentialVersion, AccountIdentity: a.AccountIdentity, Watermark: a.Watermark, Span: a.Span,
		},
		Fence: micros(t.now.Add(a.Fence)),
	}
	if a.Rearm {
		out.Handle = r.attempts[len(r.attempts)-1].Handle
	}
	return out
}

// ArmedBy implements store.Store.
func (s *Store) ArmedBy(ctx context.Context, id, token job.ID) (store.Armed, error) {
	return call(ctx, s, "armed by", func(t *tx) (store.Armed, error) {
		if r, ok := t.jobs[id]; ok {
			for _, a := range r.attempts {
				if a.ArmToken == token {
					return armed(t, r, a), nil
				}
			}
		}
		return store.Armed{}, store.ErrNotFound
	})
}

// SaveHandle implements store.Store. Only the attempt that is being sent may save
// one.
func (s *Store) SaveHandle(ctx context.Context, id job.ID, attempt int, handle string) error {
	_, err := call(ctx, s, "save handle", func(t *tx) (struct{}, error) {
		r, ok := t.jobs[id]
		if !ok || attempt < 1 || attempt > len(r.attempts) {
			return struct{}{}, store.ErrNotFound
		}
		a := &r.attempts[attempt-1]
		switch {
		case r.job.State != job.Sending:
			return struct{}{}, store.ErrStale
		case attempt != r.job.Attempt:
			return struct{}{}, store.ErrStale
		case a.Result != 0:
			return struct{}{}, store.ErrStale
		}
		a.Handle = handle
		t.touch(r)
		return struct{}{}, nil
	})
	return err
}
