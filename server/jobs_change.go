package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
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
