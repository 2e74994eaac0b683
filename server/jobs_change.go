package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/store"
)

// jobChange is a change of one job that a client asks for.
type jobChange struct {
	of     jobNamed
	etag   string // empty: not compared
	reason string
	// ask returns the evidence for the job as it is. It is judged before anything else, so that a
	// repeat whose result is in place succeeds.
	ask func(job.Snapshot) job.Evidence
	// check, when set, is what a change must pass and a repeat need not.
	check func(context.Context, job.Snapshot) (checkedChange, error)
}

// checkedChange is the result of a jobChange's checks.
type checkedChange struct {
	// evidence, when set, is judged instead of what was asked.
	evidence job.Evidence
	content  *store.Content
}

// always returns the same evidence, whatever the job is like.
func always(e job.Evidence) func(job.Snapshot) job.Evidence {
	return func(job.Snapshot) job.Evidence { return e }
}

// changeJob makes a change of a job, and converts the result.
func (s *jobService) changeJob(ctx context.Context, w jobChange) (*fireoncev1.Job, error) {
	snap, err := s.change(ctx, w)
	if err != nil {
		return nil, err
	}
	return s.wholeJob(ctx, snap)
}

// change makes a change of a job. The checks come last.
func (s *jobService) change(ctx context.Context, w jobChange) (job.Snapshot, error) {
	who := callerOf(ctx)
	ref, err := jobRef(ctx, w.of)
	if err != nil {
		return job.Snapshot{}, err
	}
	var out job.Snapshot
	_, err = store.DecideAgain(ctx, s.store,
		func([]job.Snapshot) ([]job.Snapshot, error) {
			snap, err := s.store.Job(ctx, ref)
			if err != nil {
				return nil, notFoundAs(fmt.Errorf("read the job: %w", err), jobNotFound(ref))
			}
			out = snap
			return []job.Snapshot{snap}, nil
		},
		func(snap job.Snapshot, c *store.Change) (bool, error) {
			c.Actor = who.actor
			return s.decide(ctx, w, snap, c)
		},
		func(snap job.Snapshot, c *store.Change, a *store.Applied) error {
			if a.Err != nil {
				return s.notWritten(ctx, ref, snap, c, a.Err)
			}
			s.cfg.Metrics.Ended(snap.State, a.Snapshot)
			out = a.Snapshot
			out.Spec = specAfter(snap.Spec, c)
			return nil
		})
	return out, err
}

// decide judges a change of a job. It reports whether the job has to be changed, and fills in
// the change for the store.
func (s *jobService) decide(ctx context.Context, w jobChange, snap job.Snapshot, change *store.Change) (bool, error) {
	view := snap.View(job.Traits{Class: snap.Class}, 0)
	d, err := job.Decide(view, w.ask(snap))
	switch {
	case err == nil && d.Action == job.ActNothing:
		return false, nil
	case checkEtag(w.etag, "job", snap.ID, snap.Version) != nil:
		return false, etagMismatch("job", snap.ID, snap.Version)
	case errors.Is(err, job.ErrOwnEffectKey):
		return false, effectKeyNeeded()
	case err != nil:
		return false, fmt.Errorf("decide: %w", err)
	}
	var c checkedChange
	if w.check != nil {
		if c, err = w.check(ctx, snap); err != nil {
			return false, err
		}
	}
	if c.evidence != nil {
		if d, err = job.Decide(view, c.evidence); err != nil {
			return false, fmt.Errorf("decide: %w", err)
		}
	}
	if err := s.checkRestart(ctx, snap, d); err != nil {
		return false, err
	}
	switch d.Action {
	case job.ActNothing:
		return false, nil
	case job.ActWrite:
		change.Job, change.Version, change.Decision = snap.ID, snap.Version, d
		change.Reason, change.Content = w.reason, c.content
		return true, nil
	default:
		return false, fmt.Errorf("decide: action %d for a client's change", d.Action)
	}
}

// notWritten returns the error of a call whose change the store did not write. The store
// looks at more than the server did before it: an effect key may be taken, and the job, or the
// connection that it would start on again, may have been deleted since.
func (s *jobService) notWritten(ctx context.Context, ref store.Ref, snap job.Snapshot, c *store.Change, why error) error {
	switch {
	case errors.Is(why, store.ErrEffectKeyTaken):
		return effectKeyTaken()
	case errors.Is(why, store.ErrNotFound):
		if err := s.checkRestart(ctx, snap, c.Decision); !errors.Is(err, store.ErrNotFound) && err != nil {
			return err
		}
		return jobNotFound(ref)
	default:
		return fmt.Errorf("write the decision: %w", why)
	}
}

// checkRestart refuses to start an ended job again on a deleted connection.
func (s *jobService) checkRestart(ctx context.Context, snap job.Snapshot, d job.Decision) error {
	if d.Action != job.ActWrite || !snap.State.Terminal() || !d.To.Runnable() {
		return nil
	}
	conn, err := s.store.Connection(ctx, store.Ref{Project: snap.Project, ID: snap.Connection})
	if err != nil {
		return fmt.Errorf("read the connection: %w", err)
	}
	if !conn.Deleted.IsZero() {
		return disabled(&conn, "was deleted")
	}
	return nil
}

// specAfter is a job's spec after a change.
func specAfter(spec job.Spec, c *store.Change) job.Spec {
	if c.Decision.Reschedule && c.Decision.Window > 0 {
		spec.StartWindow = c.Decision.Window
	}
	if c.Content == nil {
		return spec
	}
	return c.Content.Apply(spec)
}

// CancelJob implements the RPC.
func (s *jobService) CancelJob(ctx context.Context, req *fireoncev1.CancelJobRequest) (*fireoncev1.CancelJobResponse, error) {
	snap, err := s.change(ctx, jobChange{
		of: req, etag: req.GetEtag(), ask: always(job.CancelAsked{}), reason: req.GetReason(),
	})
	if err != nil {
		return nil, err
	}
	out, err := s.wholeJob(ctx, snap)
	if err != nil {
		return nil, err
	}
	prevented, err := s.nothingSent(ctx, snap)
	return &fireoncev1.CancelJobResponse{Job: out, Prevented: prevented}, err
}

// nothingSent reports whether a job is canceled and no byte of it was sent.
func (s *jobService) nothingSent(ctx context.Context, snap job.Snapshot) (bool, error) {
	if snap.State != job.Canceled || snap.Attempt == 0 {
		return snap.State == job.Canceled, nil
	}
	attempts, err := s.store.Attempts(ctx, store.Ref{Project: snap.Project, ID: snap.ID}, 0, store.MaxBatch)
	if err != nil {
		return false, fmt.Errorf("read the attempts: %w", err)
	}
	sent := slices.ContainsFunc(attempts, func(a job.Attempt) bool { return a.Result != job.ResultNotSent })
	return !sent && len(attempts) == snap.Attempt, nil
}

// Rules of new times: a requested time is judged first as it was sent, so that a repeat of a move
// that is in place succeeds however late it comes. The time is checked only for a move that is
// still to be made.

// What a client can do about a new time that has passed.
const (
	pastMove  = "the job was not changed: give a later time, or call RunJobNow"
	pastRetry = "the job was not changed: give a later time, or none to start it now"
)

// checkedTime checks a requested time and makes the evidence for it; the zero time, "now", needs
// no check. instead is what a client can do when the time has passed.
func (s *jobService) checkedTime(field string, at time.Time, instead string, evidence func(time.Time) job.Evidence) func(context.Context, job.Snapshot) (checkedChange, error) {
	return func(context.Context, job.Snapshot) (checkedChange, error) {
		at, err := s.checkTime(field, at, instead)
		if err != nil {
			return checkedChange{}, err
		}
		return checkedChange{evidence: evidence(at)}, nil
	}
}

// RescheduleJob implements the RPC.
func (s *jobService) RescheduleJob(ctx context.Context, req *fireoncev1.RescheduleJobRequest) (*fireoncev1.RescheduleJobResponse, error) {
	at, mark, err := s.requestedTime(req)
	if err != nil {
		return nil, err
	}
	window := submit.Duration(req.GetStartWindow())
	move := func(at time.Time) job.Evidence { return job.RescheduleAsked{At: at, Window: window} }
	out, err := s.changeJob(ctx, jobChange{
		of: req, etag: req.GetEtag(), ask: always(move(at)), check: s.checkedTime(timeField(req), at, pastMove, move),
	})
	return &fireoncev1.RescheduleJobResponse{Job: out, LocalTimeMark: mark}, err
}

// RunJobNow implements the RPC.
func (s *jobService) RunJobNow(ctx context.Context, req *fireoncev1.RunJobNowRequest) (*fireoncev1.RunJobNowResponse, error) {
	out, err := s.changeJob(ctx, jobChange{of: req, etag: req.GetEtag(), ask: always(job.RunNowAsked{})})
	return &fireoncev1.RunJobNowResponse{Job: out}, err
}

// RetryJob implements the RPC.
func (s *jobService) RetryJob(ctx context.Context, req *fireoncev1.RetryJobRequest) (*fireoncev1.RetryJobResponse, error) {
	at, err := timeFromWire("next_attempt_time", req.GetNextAttemptTime())
	if err != nil {
		return nil, err
	}
	again := func(at time.Time) job.Evidence { return job.RetryAsked{At: at} }
	out, err := s.changeJob(ctx, jobChange{
		of: req, etag: req.GetEtag(), ask: always(again(at)), check: s.checkedTime("next_attempt_time", at, pastRetry, again),
	})
	return &fireoncev1.RetryJobResponse{Job: out}, err
}

// ResolveJob implements the RPC.
func (s *jobService) ResolveJob(ctx context.Context, req *fireoncev1.ResolveJobRequest) (*fireoncev1.ResolveJobResponse, error) {
	who := callerOf(ctx)
	if err := mayGiveEffectKey(who, req.GetEffectKey()); err != nil {
		return nil, err
	}
	out, err := s.changeJob(ctx, jobChange{
		of: req, etag: req.GetEtag(), reason: req.GetNote(), ask: always(rulingFromWire(who.actor, req)),
		check: func(ctx context.Context, snap job.Snapshot) (checkedChange, error) {
			return s.checkNewEffectKey(ctx, req, snap)
		},
	})
	return &fireoncev1.ResolveJobResponse{Job: out}, err
}

// checkNewEffectKey judges the effect key of a RESEND.
func (s *jobService) checkNewEffectKey(ctx context.Context, req *fireoncev1.ResolveJobRequest, snap job.Snapshot) (checkedChange, error) {
	if req.GetEffectKey() == "" {
		return checkedChange{}, nil
	}
	if req.GetDecision() != fireoncev1.Resolution_DECISION_RESEND || snap.OwnEffectKey == "" || snap.Attempt == 0 || snap.RoundArmed.IsZero() {
		return checkedChange{}, badField("effect_key", "not_allowed",
			"goes only with the RESEND of a job that was given its effect key and has used it")
	}
	ref := store.Ref{Project: snap.Project, ID: snap.Connection}
	conn, err := s.store.Connection(ctx, ref)
	if err != nil {
		return checkedChange{}, notFoundAs(fmt.Errorf("read the connection: %w", err), connectionNotFound(ref))
	}
	return checkedChange{content: &store.Content{
		OwnEffectKey: req.GetEffectKey(),
		EffectKey:    job.EffectKeyDigest(receiverOf(conn.Connector, snap.HoldKey), req.GetEffectKey()),
	}}, nil
}
