package server

import (
	"context"
	"errors"
	"fmt"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// maxDecisions bounds how often a change is decided again because the job changed between read
// and write.
const maxDecisions = 8

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

// change reads, decides and writes, and repeats that while the job changes between. A change that
// is in place already succeeds before its etag is compared. The etag is compared before the state
// is judged, because the client judged by another state. The checks come last.
func (s *jobService) change(ctx context.Context, w jobChange) (job.Snapshot, error) {
	who := callerOf(ctx)
	ref, err := jobRef(ctx, w.of)
	if err != nil {
		return job.Snapshot{}, err
	}
	for range maxDecisions {
		snap, err := s.store.Job(ctx, ref)
		if err != nil {
			return snap, notFoundAs(fmt.Errorf("read the job: %w", err), jobNotFound(ref))
		}
		c, err := s.decide(ctx, w, snap)
		if err != nil || c == nil {
			return snap, err
		}
		c.Actor = who.actor
		applied, err := s.store.Apply(ctx, []store.Change{*c})
		if err != nil {
			return snap, fmt.Errorf("write the decision: %w", err)
		}
		switch err := applied[0].Err; {
		case err == nil:
			after := applied[0].Snapshot
			s.cfg.Metrics.Ended(snap.State, after)
			after.Spec = specAfter(snap.Spec, *c)
			return after, nil
		case errors.Is(err, store.ErrEffectKeyTaken):
			return snap, effectKeyTaken()
		case !errors.Is(err, store.ErrStale) && !errors.Is(err, store.ErrNotFound):
			return snap, fmt.Errorf("write the decision: %w", err)
		}
	}
	return job.Snapshot{}, fmt.Errorf("decided %d times: %w", maxDecisions, store.ErrStale)
}

// decide judges a change of a job; nil: nothing has to change.
func (s *jobService) decide(ctx context.Context, w jobChange, snap job.Snapshot) (*store.Change, error) {
	view := snap.View(job.Traits{Class: snap.Class}, 0)
	d, err := job.Decide(view, w.ask(snap))
	switch {
	case err == nil && d.Action == job.ActNothing:
		return nil, nil
	case w.etag != "" && w.etag != etagOf(snap.ID, snap.Version):
		return nil, etagMismatch(snap.ID, snap.Version)
	case errors.Is(err, job.ErrOwnEffectKey):
		return nil, effectKeyNeeded()
	case err != nil:
		return nil, fmt.Errorf("decide: %w", err)
	}
	var c checkedChange
	if w.check != nil {
		if c, err = w.check(ctx, snap); err != nil {
			return nil, err
		}
	}
	if c.evidence != nil {
		if d, err = job.Decide(view, c.evidence); err != nil {
			return nil, fmt.Errorf("decide: %w", err)
		}
	}
	if err := s.checkRestart(ctx, snap, d); err != nil {
		return nil, err
	}
	switch d.Action {
	case job.ActNothing:
		return nil, nil
	case job.ActWrite:
		return &store.Change{Job: snap.ID, Version: snap.Version, Decision: d, Reason: w.reason, Content: c.content}, nil
	default:
		return nil, fmt.Errorf("decide: action %d for a client's wish", d.Action)
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
func specAfter(spec job.Spec, c store.Change) job.Spec {
	if c.Decision.Reschedule && c.Decision.Window > 0 {
		spec.StartWindow = c.Decision.Window
	}
	if c.Content == nil {
		return spec
	}
	return c.Content.Apply(spec)
}

func etagMismatch(id job.ID, version int64) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH,
		fmt.Sprintf("job %s has changed since it was read; its etag is now %s", id, etagOf(id, version)),
		"job_id", id.String(), "etag", etagOf(id, version))
}
