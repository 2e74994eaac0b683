package engine

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a job with SkipIfPresent looks for its content before its first arm.
//   - The look is made under the claim, while the content is reserved for the job in this
//     process, and no more than read-only.
//   - Any object with the content will do, also one that is another job's: nobody asks
//     whose it is, and the job owns nothing of it.
//   - What cannot be read, or may be the content or not, arms nothing: the job looks again,
//     until its start window is over.

// A job that could not find out whether its content is there looks again after these
// times, growing with its age.
const (
	presentLeast = 15 * time.Second
	presentMost  = 5 * time.Minute
)

// presence looks whether a job's content is there already. Neither: it is not, or the job
// does not ask.
func (e *Engine) presence(
	ctx context.Context, c connector.Connector, o connector.Opening, l *store.Leased, r *ready,
) (*job.AlreadyPresent, *job.Deferred) {
	if l.SkipIfPresent == 0 || l.Attempt > 0 {
		return nil, nil
	}
	finder, ok := c.(connector.Backdater)
	if !ok || !connector.FindsContent(c, r.traits.Class) {
		return nil, &job.Deferred{
			Kind: job.FailPermanent,
			Message: "skip_if_present: this connection cannot be looked at for content that no job of ours has made; " +
				"nothing was sent",
		}
	}
	mark, err := finder.Backdate(r.mark, l.SkipIfPresent)
	if err != nil {
		return nil, &job.Deferred{Kind: job.FailTransient, Message: "skip_if_present: " + err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, e.Lease)
	defer cancel()
	seen := finder.Observe(ctx, o, connector.Look{
		First: job.Attempt{Frozen: r.prepared.Frozen, Watermark: mark, ArmedAt: l.Now.Add(-l.SkipIfPresent)},
		Fence: l.Now, Now: l.Now, Any: true,
	})
	seen.BegunAt = l.Now
	switch {
	case seen.Verdict == job.SawPresent && seen.ExternalID != "":
		return &job.AlreadyPresent{Observation: seen}, nil
	case seen.Verdict == job.SawAbsent && ctx.Err() == nil:
		return nil, nil
	case seen.Kind == job.FailAuth:
		return nil, &job.Deferred{Kind: job.FailAuth, Auth: seen.Auth, Message: seen.Detail, CredentialVersion: r.credVer}
	default:
		return nil, &job.Deferred{
			Kind: job.FailHeld, RetryAfter: max(seen.RetryAfter, patience(l, presentLeast, presentMost)),
			Message: "it could not be found out whether the content is there already: " + seen.Detail,
		}
	}
}
