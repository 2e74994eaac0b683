package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: what a job is prepared and looked for with is opened here, the
// connector, the credential, and what the target can do; whatever fails here is
// provably unsent.

// opening finds the connector, opens the credential and checks both.
func (e *Engine) opening(ctx context.Context, l *store.Leased) (connector.Connector, connector.Opening, connector.Capability, *job.Deferred) {
	fail := func(d job.Deferred) (connector.Connector, connector.Opening, connector.Capability, *job.Deferred) {
		return nil, connector.Opening{}, connector.Capability{}, &d
	}
	c, ok := e.Connectors.Get(l.Connection.Connector)
	if !ok {
		return fail(job.Deferred{
			Kind: job.FailHeld, RetryAfter: patience(l, time.Minute, unfitMost),
			Message: fmt.Sprintf("this server has no connector %q", l.Connection.Connector),
		})
	}
	now := e.Clock.Read().Time
	cred, cp, known := e.doors.find(&l.Connection, now)
	if !known {
		var deferred *job.Deferred
		if cred, deferred = e.credential(ctx, l); deferred != nil {
			return fail(*deferred)
		}
	}
	if fresh, deferred := e.fresh(ctx, &l.Connection, cred); deferred != nil {
		return fail(*deferred)
	} else if fresh.Version != cred.Version {
		cred, known = fresh, false
	}
	if !known {
		var deferred *job.Deferred
		var err error
		if cp, err = c.Check(l.Connection.Settings, cred); err != nil {
			return fail(*refusal(err, job.FailPermanent, cred))
		}
		if cp, deferred = e.probe(ctx, c, l, cred, cp); deferred != nil {
			return fail(*deferred)
		}
		if !cp.Unsure {
			e.doors.keep(&l.Connection, cred, cp, now)
		}
	}
	o, cp := openingOf(l, cred, cp)
	return c, o, cp, nil
}

// probe asks the target of a job that was never armed what it can do, where only
// it knows. Later attempts keep the class of the first.
func (e *Engine) probe(
	ctx context.Context, c connector.Connector, l *store.Leased, cred connector.Credential, cp connector.Capability,
) (connector.Capability, *job.Deferred) {
	prober, ok := c.(connector.Prober)
	if !ok || !cp.Unsure || l.Attempt > 0 {
		return cp, nil
	}
	o, _ := openingOf(l, cred, cp)
	traits, err := prober.Probe(ctx, o)
	if err != nil {
		return cp, refusal(err, job.FailTransient, cred)
	}
	cp.Traits, cp.Unsure = traits, false
	return cp, nil
}

// openingOf is what a line for the job is opened with, and what its target can do.
func openingOf(l *store.Leased, cred connector.Credential, cp connector.Capability) (connector.Opening, connector.Capability) {
	if l.Attempt > 0 && cp.Class != l.Class {
		// Frozen at the first arm: a changed setting must not change what was promised.
		cp.Class = l.Class
	}
	return connector.Opening{
		Job: l.ID, Connection: l.Connection.ID, Settings: l.Connection.Settings,
		Class: cp.Class, Credential: cred, Fresh: cp.Class != job.Keyed,
	}, cp
}

// unfitMost is the longest wait for a server that can serve the job: one with
// its connector, or the key of its credential.
const unfitMost = time.Hour

func (e *Engine) credential(ctx context.Context, l *store.Leased) (connector.Credential, *job.Deferred) {
	c := &l.Connection
	if c.CredentialVersion == 0 {
		return connector.Credential{}, nil
	}
	sealed, err := e.Store.Credential(ctx, c.ID)
	if err != nil {
		return connector.Credential{}, &job.Deferred{
			Kind: job.FailHeld, RetryAfter: time.Second, Message: "the credential could not be read",
		}
	}
	cred, err := e.Open(*c, sealed)
	switch {
	case errors.Is(err, store.ErrStale):
		return connector.Credential{}, &job.Deferred{
			Kind: job.FailHeld, RetryAfter: time.Second, Message: "the connection was changed while the job was prepared",
		}
	case err != nil:
		if e.unopened.first(c) {
			e.Log.Error("a credential cannot be opened; its jobs wait", "connection", c.ID.String(), "project", c.Project, "err", err)
		}
		return connector.Credential{}, &job.Deferred{
			Kind: job.FailHeld, RetryAfter: patience(l, time.Minute, unfitMost), Message: seal.Explain(err),
		}
	}
	e.unopened.forget(c)
	cred.Version = sealed.Version
	return cred.Shared(), nil
}

func (e *Engine) watermark(ctx context.Context, c connector.Connector, o connector.Opening) (string, *job.Deferred) {
	observer, ok := c.(connector.Observer)
	if !ok {
		return "", &job.Deferred{Kind: job.FailPermanent, Message: "this connector cannot look at its platform"}
	}
	mark, err := observer.Watermark(ctx, o)
	if err != nil {
		return "", refusal(err, job.FailTransient, o.Credential)
	}
	return mark, nil
}

// sharedMost is the longest hold for what is in every job's way. Each of them waits for
// as long as it was told; the hold makes that no more of them come to be told than can
// be prepared at once, and nobody waits for long when it is over.
const sharedMost = 5 * time.Second

func holdShared(r *connector.Refusal) time.Duration {
	if !r.Shared {
		return 0
	}
	return min(r.RetryAfter, sharedMost)
}

// refusal turns a connector's error into evidence. Errors without a class of
// their own get otherwise. cred is what was used: a refused credential holds
// its target only as long as it is the present one.
func refusal(err error, otherwise job.FailureKind, cred connector.Credential) *job.Deferred {
	var r *connector.Refusal
	var in *connector.InputError
	switch {
	case errors.As(err, &r):
		return &job.Deferred{
			Kind: r.Kind, Message: r.Msg, RetryAfter: r.RetryAfter, HoldFor: holdShared(r), CredentialVersion: cred.Version,
			Auth: r.Cause(),
		}
	case errors.As(err, &in):
		return &job.Deferred{Kind: job.FailPermanent, Message: in.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		return &job.Deferred{Kind: otherwise, Message: "the target could not be reached in time; nothing was sent"}
	default:
		return &job.Deferred{Kind: otherwise, Message: "could not be prepared; nothing was sent"}
	}
}
