package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a job's target is opened here, which is the connector, the
// credential, and what the platform can do. Whatever fails here is provably unsent.

const (
	// maxUnfitWait is the longest wait for a server that can serve the job: one with its
	// connector, or the key of its credential.
	maxUnfitWait = time.Hour
	// maxSharedHold is the longest hold for what stands in the way of every job. Each of
	// them waits for as long as its own refusal asks. The hold keeps more jobs from running
	// into it than can be prepared concurrently, and is short, so that no job waits long
	// after the end.
	maxSharedHold = 5 * time.Second
)

// credentials opens the targets of jobs.
type credentials struct {
	*Config
	cache credentialCache
	// unopened has the connections whose credential did not open, so that each is logged
	// once and not with each of its jobs.
	unopened *cache.TTL[job.ID, bool]
}

// maxUnopened bounds the connections that are remembered as not opened.
const maxUnopened = 1024

func newCredentials(c *Config) *credentials {
	return &credentials{
		Config: c, cache: newCredentialCache(c.Clock),
		unopened: cache.New[job.ID, bool](cache.Options{Max: maxUnopened}),
	}
}

// target is where a job is sent.
type target struct {
	connector connector.Connector
	// opening is what a session is opened with.
	opening connector.Opening
	// capability is what the platform can do for the job.
	capability connector.Capability
}

// newTarget returns the target of a job.
func newTarget(c connector.Connector, l *store.Leased, cred connector.Credential, capability connector.Capability) target {
	if l.Attempt > 0 && capability.Class != l.Class {
		// Frozen at the first arm: a changed setting must not change what was promised.
		capability.Class = l.Class
	}
	return target{c, connector.Opening{
		Job: l.ID, Connection: l.Connection.ID, Settings: l.Connection.Settings,
		Class: capability.Class, Credential: cred, Fresh: capability.Class != job.Keyed,
	}, capability}
}

// open finds the connector of a job, opens the credential and checks both.
func (o *credentials) open(ctx context.Context, l *store.Leased) (target, *job.Deferred) {
	c, ok := o.Connectors.Get(l.Connection.Connector)
	if !ok {
		return target{}, &job.Deferred{
			Kind: job.FailHeld, RetryAfter: patience(l, time.Minute, maxUnfitWait),
			Message: fmt.Sprintf("this server has no connector %q", l.Connection.Connector),
		}
	}
	cred, capability, known := o.cache.get(&l.Connection)
	var refused *job.Deferred
	if !known {
		if cred, refused = o.unseal(ctx, l); refused != nil {
			return target{}, refused
		}
	}
	fresh, refused := o.fresh(ctx, &l.Connection, cred)
	if refused != nil {
		return target{}, refused
	}
	if fresh.Version != cred.Version {
		cred, known = fresh, false
	}
	if !known {
		var err error
		if capability, err = c.Check(l.Connection.Settings, cred); err != nil {
			return target{}, refusal(err, job.FailPermanent, cred)
		}
		if capability, refused = probe(ctx, c, l, cred, capability); refused != nil {
			return target{}, refused
		}
		if !capability.Unsure {
			o.cache.put(&l.Connection, cred, capability)
		}
	}
	to := newTarget(c, l, cred, capability)
	to.opening.Steady = o.steady
	return to, nil
}

// steady reads the store's steady clock.
func (o *credentials) steady(ctx context.Context) (time.Time, error) {
	m, err := o.Store.Meta(ctx)
	return m.Steady, err
}

// known returns what is known of a connection without I/O. A connection without a
// credential is always known, unless its target has to be asked what it can do.
func (o *credentials) known(conn *store.Connection, c connector.Connector) (connector.Credential, connector.Capability, bool) {
	cred, capability, known := o.cache.get(conn)
	if known && o.due(conn) {
		return cred, capability, false
	}
	if known || conn.CredentialVersion != 0 {
		return cred, capability, known
	}
	capability, err := c.Check(conn.Settings, cred)
	if err != nil || capability.Unsure {
		return cred, capability, false // prepare asks the target
	}
	o.cache.put(conn, cred, capability)
	return cred, capability, true
}

// probe asks the target of a job that was never armed what it can do, where only
// the target knows. Later attempts keep the class of the first.
func probe(
	ctx context.Context, c connector.Connector, l *store.Leased, cred connector.Credential, capability connector.Capability,
) (connector.Capability, *job.Deferred) {
	prober, ok := c.(connector.Prober)
	if !ok || !capability.Unsure || l.Attempt > 0 {
		return capability, nil
	}
	traits, err := prober.Probe(ctx, newTarget(c, l, cred, capability).opening)
	if err != nil {
		return capability, refusal(err, job.FailTransient, cred)
	}
	capability.Traits, capability.Unsure = traits, false
	return capability, nil
}

// unseal reads the credential of a job and opens it.
func (o *credentials) unseal(ctx context.Context, l *store.Leased) (connector.Credential, *job.Deferred) {
	c := &l.Connection
	if c.CredentialVersion == 0 {
		return connector.Credential{}, nil
	}
	sealed, err := o.Store.Credential(ctx, c.ID)
	if err != nil {
		return connector.Credential{}, &job.Deferred{
			Kind: job.FailHeld, RetryAfter: time.Second, Message: "the credential could not be read",
		}
	}
	cred, err := o.Open(*c, sealed)
	switch {
	case errors.Is(err, store.ErrStale):
		return connector.Credential{}, &job.Deferred{
			Kind: job.FailHeld, RetryAfter: time.Second, Message: "the connection was changed while the job was prepared",
		}
	case err != nil:
		first := false
		o.unopened.GetOrPut(c.ID, func() bool { first = true; return true })
		if first {
			o.Log.Error("a credential cannot be opened; its jobs wait", "connection", cmp.Or(c.Key, c.ID.String()), "project", c.Project, "err", err)
		}
		return connector.Credential{}, &job.Deferred{
			Kind: job.FailHeld, RetryAfter: patience(l, time.Minute, maxUnfitWait), Message: seal.Explain(err),
		}
	}
	o.unopened.Delete(c.ID)
	cred.Version = sealed.Version
	return cred.Shared(), nil
}

// holdShared returns the hold for a refusal that concerns every job; 0: it does not.
func holdShared(r *connector.Refusal) time.Duration {
	if !r.Shared {
		return 0
	}
	return min(r.RetryAfter, maxSharedHold)
}

// refusal turns a connector's error into evidence. Errors without a kind of
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
		return &job.Deferred{Kind: otherwise, Message: "the target could not be reached in time; this try sent nothing"}
	default:
		return &job.Deferred{Kind: otherwise, Message: "could not be prepared; this try sent nothing"}
	}
}
