package engine

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a job with SkipIfPresent looks for its content before each arm.
//   - The look is read-only. It is made under the claim, while the content is reserved for
//     the job in this process.
//   - What the look found counts only if no attempt with the content was armed since it
//     began: the intent carries how many there were, and the store refuses it otherwise.
//   - Before the first arm any object with the content counts, also another job's: its owner
//     is not read, and the job does not become its owner.
//   - Before a later arm an object that may be the effect of an earlier attempt does not
//     count. lookFirst judges it as evidence about that attempt.
//   - What cannot be read, or may be the content or not, arms nothing: the job looks again,
//     until its start window is over.

// A job that could not find out whether its content is there looks again after these
// times, growing with its age.
const (
	presentLeast = 15 * time.Second
	presentMost  = 5 * time.Minute
)

// ownMargin is how long before the first attempt's watermark an object must have been made so
// that it certainly is not the job's own. A platform's stamps are not as far out of order.
const ownMargin = 2 * time.Minute

// lookForContent looks whether a job's content is at the platform already. It returns
// nothing if the content is absent, or the job does not ask for the look.
func (a *attempt) lookForContent(ctx context.Context, to *target) (*job.AlreadyPresent, *job.Deferred) {
	l := a.leased
	if l.SkipIfPresent == 0 {
		return nil, nil
	}
	finder, ok := to.connector.(connector.Backdater)
	if !ok || !connector.FindsContent(to.connector, a.traits.Class) {
		return nil, &job.Deferred{
			Kind: job.FailPermanent,
			Message: "skip_if_present: this connection cannot be looked at for content that no job of ours has made; " +
				"this try sent nothing",
		}
	}
	watermark, err := finder.Backdate(a.watermark, l.SkipIfPresent)
	if err != nil {
		return nil, &job.Deferred{Kind: job.FailTransient, Message: "skip_if_present: " + err.Error()}
	}
	if a.looked, err = a.contentArms(ctx); err != nil {
		return nil, &job.Deferred{Kind: job.FailHeld, RetryAfter: time.Second, Message: "the attempts with the same content could not be read"}
	}
	ctx, cancel := context.WithTimeout(ctx, a.e.Lease)
	defer cancel()
	look := connector.Look{
		First: job.Attempt{Frozen: a.prepared.Frozen, Watermark: watermark, ArmedAt: l.Now.Add(-l.SkipIfPresent)},
		Fence: l.Now, Now: l.Now, Any: true,
	}
	observe := func(look connector.Look) job.Observation {
		seen := finder.Observe(ctx, to.opening, look)
		seen.BegunAt = l.Now
		return seen
	}
	seen := observe(look)
	if found(seen) && l.Attempt > 0 {
		seen = a.notOwn(ctx, seen, finder, observe)
	}
	switch {
	case found(seen):
		return &job.AlreadyPresent{Observation: seen}, nil
	case seen.Verdict == job.SawAbsent && ctx.Err() == nil, seen.Verdict == job.SawCandidates && l.ResendRuled():
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

func found(seen job.Observation) bool { return seen.Verdict == job.SawPresent && seen.ExternalID != "" }

// contentArms reads how many attempts with the job's content were armed.
func (a *attempt) contentArms(ctx context.Context) (*int64, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	n, err := a.e.Store.ContentArms(ctx, store.GatedContent{
		Connection: a.leased.Connection.ID, HoldKey: a.leased.HoldKey, AccountIdentity: a.account, Gate: a.prepared.Gate,
	})
	return &n, err
}

// notOwn returns what a look before a later arm saw, if that certainly is no effect of an
// earlier attempt: it is another job's, or was made before the first arm. Otherwise it returns
// candidates.
func (a *attempt) notOwn(
	ctx context.Context, seen job.Observation, finder connector.Backdater, observe func(connector.Look) job.Observation,
) job.Observation {
	inconclusive := job.Observation{Verdict: job.SawInconclusive}
	taken, err := a.ownedByOthers(ctx, []string{seen.ExternalID})
	if err != nil {
		inconclusive.Detail = "other jobs' effects could not be read"
		return inconclusive
	}
	if taken[seen.ExternalID] {
		return seen
	}
	attempts, err := a.e.Store.Attempts(ctx, store.Ref{ID: a.leased.ID}, 0, 1)
	if err != nil || len(attempts) == 0 {
		inconclusive.Detail = "the attempts could not be read"
		return inconclusive
	}
	if look, ok := a.older(finder, &attempts[0]); ok {
		if older := observe(look); found(older) {
			return older
		}
	}
	return job.Observation{
		Verdict: job.SawCandidates, Detail: seen.ExternalID + " may be the effect of an earlier attempt of this job",
	}
}

// older is a look for what was made before the first attempt. It counts from that attempt's
// watermark, by the platform's clock: the store's may have been set since, and then an own
// effect could seem to be older than its arm. It is not ok if nothing so old counts.
func (a *attempt) older(finder connector.Backdater, first *job.Attempt) (look connector.Look, ok bool) {
	age := a.leased.Now.Sub(first.ArmedAt)
	by := a.leased.SkipIfPresent - max(0, age)
	if by <= ownMargin {
		return connector.Look{}, false
	}
	watermark, err := finder.Backdate(first.Watermark, by)
	if err != nil {
		return connector.Look{}, false
	}
	return connector.Look{
		First: job.Attempt{Frozen: a.prepared.Frozen, Watermark: watermark, ArmedAt: first.ArmedAt.Add(-by)},
		Fence: first.ArmedAt.Add(-ownMargin), Any: true,
	}, true
}
