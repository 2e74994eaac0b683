package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: every change of a job has three steps: read the job, have job.Decide
// judge the evidence, and write the decision by compare-and-set. A job that moved between the read and the
// write is decided again as it is then, or left to whatever moved it.

// MaxDecisions bounds how often a job is decided again because it moved between the read
// and the write.
const MaxDecisions = 8

// applier writes decisions, as Jobs.Apply does.
type applier interface {
	Apply(ctx context.Context, items []Change) ([]Applied, error)
}

// Decide sets the change to what the evidence means for a job as it was read. It reports
// whether there is anything to write.
func (c *Change) Decide(s *job.Snapshot, traits job.Traits, jitter float64, ev job.Evidence) (write bool, err error) {
	d, err := job.Decide(s.View(traits, jitter), ev)
	c.Job, c.Version, c.Decision = s.ID, s.Version, d
	return err == nil && d.Action == job.ActWrite, err
}

// Decide makes one round: it calls judge for each job, as the caller has read it, and
// writes the changes in one call of Apply. judge fills in the change and reports whether
// it is to be written (see Change.Decide).
// report receives the verdict on each change that was asked for, except ErrStale: those
// jobs moved between the read and the write, and are returned. An error of judge, Apply or
// report ends the round; nothing was written when judge failed.
//
// The jobs are reordered in place.
func Decide[J any](
	ctx context.Context, s applier, jobs []J, judge func(J, *Change) (bool, error), report func(J, *Change, *Applied) error,
) (moved []J, err error) {
	changes, kept := make([]Change, 0, len(jobs)), jobs[:0]
	for _, j := range jobs {
		n := len(changes)
		changes = changes[:n+1]
		write, err := judge(j, &changes[n])
		if err != nil {
			return nil, err
		}
		if !write {
			changes[n] = Change{}
			changes = changes[:n]
			continue
		}
		kept = append(kept, j)
	}
	if len(changes) == 0 {
		return nil, nil
	}
	applied, err := s.Apply(ctx, changes)
	if err != nil {
		return nil, fmt.Errorf("write the decisions: %w", err)
	}
	moved = kept[:0]
	for i := range applied {
		j := kept[i]
		if errors.Is(applied[i].Err, ErrStale) {
			moved = append(moved, j)
			continue
		}
		if err := report(j, &changes[i], &applied[i]); err != nil {
			return nil, err
		}
	}
	return moved, nil
}

// DecideAgain makes rounds of Decide until no job moved between the read and the write. read
// returns the jobs of the first round when moved is nil, and later those of moved that are
// still meant, as they are then. After MaxDecisions rounds it fails with ErrStale, and
// returns the jobs that moved in the last one.
func DecideAgain[J any](
	ctx context.Context, s applier, read func(moved []J) ([]J, error),
	judge func(J, *Change) (bool, error), report func(J, *Change, *Applied) error,
) (moved []J, err error) {
	for range MaxDecisions {
		jobs, err := read(moved)
		if err != nil {
			return nil, err
		}
		if moved, err = Decide(ctx, s, jobs, judge, report); err != nil || len(moved) == 0 {
			return nil, err
		}
	}
	return moved, fmt.Errorf("decided %d times: %w", MaxDecisions, ErrStale)
}

// DecidePages makes rounds of Decide until read returns no job that has to be changed. Each
// round makes the jobs leave what read selects. Jobs for which judge returns false keep their
// place on the page, so they must be few: a page of such jobs alone ends the rounds. After
// MaxDecisions rounds in a row in which nothing was written it fails with ErrStale.
func DecidePages[J any](
	ctx context.Context, s applier, read func() ([]J, error),
	judge func(J, *Change) (bool, error), report func(J, *Change, *Applied) error,
) error {
	for idle := 0; idle < MaxDecisions; {
		jobs, err := read()
		if err != nil {
			return err
		}
		reported, written := false, false
		moved, err := Decide(ctx, s, jobs, judge, func(j J, c *Change, a *Applied) error {
			reported, written = true, written || a.Err == nil
			return report(j, c, a)
		})
		if err != nil || !reported && len(moved) == 0 {
			return err
		}
		if idle++; written {
			idle = 0
		}
	}
	return fmt.Errorf("decided %d times: %w", MaxDecisions, ErrStale)
}
