package sqlstore

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// StepParts returns the statements of a step, in their order, after those with which an engine
// moves what it stores in its own way.
func StepParts(q *shareddb.Queries, step store.ClockStep) []func(context.Context) error {
	old, now := time.UnixMicro(step.From), time.UnixMicro(step.To)
	over, by := time.UnixMicro(min(step.From, step.To)), time.Duration(step.By)*time.Microsecond
	var parts []func(context.Context) error
	if by != 0 {
		parts = append(parts,
			With(q.StepEarlierAttempts, shareddb.StepEarlierAttemptsParams{By: by, Unknown: store.AgeUnknown, Over: over}),
			With(q.StepWaits, shareddb.StepWaitsParams{
				By: by, Over: over, Microsecond: time.Microsecond, DefaultWindow: job.DefaultWindow.Microseconds(),
			}),
			With(q.StepLeases, by),
			With(q.StepUnasked, by),
			With(q.StepEnds, now),
			With(q.StepHolds, shareddb.StepHoldsParams{By: by, Over: over, Now: now}),
			With(q.StepCoolDowns, by),
			With(q.StepRenewals, shareddb.StepRenewalsParams{By: by, Over: over}),
			With(q.StepProbes, shareddb.StepProbesParams{By: by, Over: over}),
			With(q.StepSubscriptions, by),
			With(q.StepNoticeLease, shareddb.StepNoticeLeaseParams{By: by, Over: over}),
			With(q.StepLogins, shareddb.StepLoginsParams{By: by, Over: over}),
		)
	}
	if by < 0 {
		parts = append(parts,
			With(q.StepSchedules, shareddb.StepSchedulesParams{Now: now, Soon: old.Add(store.BufferedLook)}),
			With(q.StepFirstArms, now),
			With(q.StepPauses, now),
			With(q.StepStops, now),
			With(q.StepUses, now),
		)
	}
	if step.AgesUnknown {
		parts = append(parts, With(q.ForgetEarlierKeyAges, store.AgeUnknown))
	}
	if step.Suspended > 0 {
		parts = append(parts, With(q.StepWindows, shareddb.StepWindowsParams{Stood: step.Suspended, Now: now, Since: now.Add(-step.Suspended)}))
	}
	return parts
}

// With binds a statement to its parameters.
func With[P any](run func(context.Context, P) error, p P) func(context.Context) error {
	return func(ctx context.Context) error { return run(ctx, p) }
}

// InSequence runs steps until one fails.
func InSequence(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}
