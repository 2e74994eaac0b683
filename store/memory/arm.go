package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file: rules.Arm and rules.Gate judge an intent. This file refuses what a
// database's own constraints refuse: a token twice, and a second open intent of a job.

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
	view := r.view(t.now)
	j := t.armable(r, &view)
	if err := rules.Arm(a, j); err != nil {
		return store.Armed{}, err
	}
	if err := t.mayPass(r, a); err != nil {
		return store.Armed{}, err
	}
	if t.tokens[a.Token] {
		return store.Armed{}, fmt.Errorf("%w: the token is that of another arm", store.ErrIllegal)
	}
	from := r.job.State
	next, begun := rules.Begin(a, j)
	begun.RequestDigest, begun.Frozen = slices.Clone(begun.RequestDigest), slices.Clone(begun.Frozen)
	attempt := Attempt{Attempt: begun, Fence: next.Fence}
	if attempt.Number == 1 {
		t.lags[r.job.ID] = t.now.Sub(next.ScheduleTime)
	}
	if len(r.attempts) == 0 {
		r.firstArmed = t.now
	}
	r.attempts = append(r.attempts, attempt)
	t.tokens[a.Token] = true
	t.takeGate(r, a)
	for _, d := range rules.CoolDownsOf(a, j.CoolDowns) {
		t.cooling[d.Owner] = store.LastArm{Job: a.Job, ArmedAt: t.now}
	}
	t.put(r, next.Job)
	t.event(r, job.Event{From: from, Cause: job.CauseArmed, Attempt: attempt.Number, Actor: a.Worker})
	return armed(t, r, attempt), nil
}

func armed(t *tx, r *record, a Attempt) store.Armed {
	return store.Armed{Snapshot: lean(r.snapshot(t.now)), Attempt: a.public()}
}

// armable returns the job as an intent finds it; view is the job as it is.
func (t *tx) armable(r *record, view *job.Snapshot) rules.Armable {
	attempts := r.attemptViews()
	return rules.Armable{
		Snapshot: view, ClaimedAt: r.claimedAt, Held: t.held(runnableKey{r.job.Connection, r.job.HoldKey}), Suspension: t.suspension(),
		Stop:     t.stopOver(&r.job.Spec),
		UnderWay: attempts.UnderWay(), RoundDigest: attempts.RoundDigest(r.job.Round),
		CoolDowns: store.CoolDowns(r.job.Spec, t.conns[r.job.Connection].CoolDown),
		Last:      func(owner job.ID) store.LastArm { return t.cooling[owner] },
	}
}

// openContent is a content on an account.
type openContent struct{ account, fingerprint string }

func (t *tx) gateOf(r *record, a store.Arm) openContent {
	return openContent{rules.Account(r.job.Connection, r.job.HoldKey, a.AccountIdentity), string(a.Gate)}
}

// mayPass checks that no other open intent has the same content, that the job's look for it
// stands, and that the job has no intent with another content.
func (t *tx) mayPass(r *record, a store.Arm) error {
	if len(a.Gate) == 0 {
		return nil
	}
	g := t.gateOf(r, a)
	if err := rules.Gate(a, t.gates[g]); err != nil {
		return err
	}
	if err := rules.LookStands(a, t.contentArms[rules.ContentBucket(g.account, a.Gate)]); err != nil {
		return err
	}
	if r.intent != nil && r.intent.gate() != g {
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
	t.contentArms[rules.ContentBucket(g.account, a.Gate)]++
	r.intent = &Intent{Account: g.account, Fingerprint: g.fingerprint, Attempt: r.job.Attempt + 1}
}

// closeIntent ends the job's open intent.
func (t *tx) closeIntent(r *record) {
	if r.intent == nil {
		return
	}
	if g := r.intent.gate(); t.gates[g] == r.job.ID {
		delete(t.gates, g)
	}
	r.intent = nil
}

// ContentArms implements store.Store.
func (s *Store) ContentArms(ctx context.Context, c store.GatedContent) (int64, error) {
	return call(ctx, s, "content arms", func(t *tx) (int64, error) { return t.contentArms[rules.BucketOf(c)], nil })
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

// SaveHandle implements store.Store. Only the attempt that is being sent may save a handle.
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
