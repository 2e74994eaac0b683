package engine

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: a job with SkipIfPresent looks for its content before its first arm.
//   - The look is read-only. It is made under the claim, while the content is reserved for
//     the job in this process.
//   - Any object with the content counts, also another job's: its owner is not read, and
//     the job does not become its owner.
//   - What cannot be read, or may be the content or not, arms nothing: the job looks again,
//     until its start window is over.

// A job that could not find out whether its content is there looks again after these
// times, growing with its age.
const (
	presentLeast = 15 * time.Second
	presentMost  = 5 * time.Minute
)

// lookForContent looks whether a job's content is at the platform already. It returns
// nothing if the content is absent, or the job does not ask for the look.
func (a *attempt) lookForContent(ctx context.Context, to *target) (*job.AlreadyPresent, *job.Deferred) {
	l := a.leased
	if l.SkipIfPresent == 0 || l.Attempt > 0 {
		return nil, nil
	}
	finder, ok := to.connector.(connector.Backdater)
	if !ok || !connector.FindsContent(to.connector, a.traits.Class) {
		return nil, &job.Deferred{
			Kind: job.FailPermanent,
			Message: "skip_if_present: this connection cannot be looked at for content that no job of ours has made; " +
				"nothing was sent",
		}
	}
	watermark, err := finder.Backdate(a.watermark, l.SkipIfPresent)
	if err != nil {
		return nil, &job.Deferred{Kind: job.FailTransient, Message: "skip_if_present: " + err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, a.e.Lease)
	defer cancel()
	seen := finder.Observe(ctx, to.opening, connector.Look{
		First: job.Attempt{Frozen: a.prepared.Frozen, Watermark: watermark, ArmedAt: l.Now.Add(-l.SkipIfPresent)},
		Fence: l.Now, Now: l.Now, Any: true,
	})
	seen.BegunAt = l.Now
	switch {
	case seen.Verdict == job.SawPresent && seen.ExternalID != "":
		return &job.AlreadyPresent{Observation: seen}, nil
	case seen.Verdict == job.SawAbsent && ctx.Err() == nil:
		return nil, nil
	case seen.Kind == job.FailAuth:
		return nil, &job.Deferred{Kind: job.FailAuth, Auth: seen.Auth, Message: seen.Detail, CredentialVersion: a.credentialVersion}
	default:
		return nil, &job.Deferred{
			Kind: job.FailHeld, RetryAfter: max(seen.RetryAfter, patience(l, presentLeast, presentMost)),
			Message: "it could not be found out whether the content is there already: " + seen.Detail,
		}
	}
}
