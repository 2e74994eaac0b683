package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - a credential that ends soon is renewed before the arm, and what is used is
//     durable;
//   - a refusal of a credential that can be renewed holds nothing until that was
//     tried: a held job waits for a person;
//   - a job that waits for a platform to renew a login uses up no attempt.

// renewTimeout bounds the wait for a renewal after an answer. It is less than the
// least grace that is left then.
const renewTimeout = 25 * time.Second

// due reports whether a connection's credential may have to be renewed.
func (o *credentials) due(conn *store.Connection) bool {
	return o.Refresh != nil && o.Refresh.Due(*conn)
}

// fresh returns the credential to use in place of one that was opened.
func (o *credentials) fresh(ctx context.Context, conn *store.Connection, cred connector.Credential) (connector.Credential, *job.Deferred) {
	if !o.due(conn) {
		return cred, nil
	}
	fresh, err := o.Refresh.Fresh(ctx, *conn, cred)
	switch {
	case err != nil:
		return cred, refusal(err, job.FailTransient, cred)
	case fresh.Version != cred.Version:
		return fresh.Shared(), nil
	default:
		return cred, nil
	}
}

// renewDeferred tries to renew a credential that was refused before the arm.
func (o *credentials) renewDeferred(ctx context.Context, conn *store.Connection, d job.Deferred) job.Deferred {
	if d.Kind != job.FailAuth || d.CredentialVersion == 0 {
		return d
	}
	switch r := o.renew(ctx, conn, d.CredentialVersion); {
	case r.done:
		return job.Deferred{Kind: job.FailHeld, Message: "the login was renewed"}
	case r.later != "":
		return job.Deferred{Kind: job.FailHeld, RetryAfter: r.after, HoldFor: min(r.after, maxSharedHold), Message: r.later}
	default:
		d.Auth = moreExact(d.Auth, r.ended)
		return d
	}
}

// renewOutcome tries to renew a credential that was refused by a definite answer. If
// there is a newer one, the answer's hold, which is the old one's, holds nothing.
func (o *credentials) renewOutcome(ctx context.Context, conn *store.Connection, out job.Outcome) job.Outcome {
	if out.Kind != job.FailAuth || out.CredentialVersion == 0 {
		return out
	}
	r := o.renew(ctx, conn, out.CredentialVersion)
	if r.later == "" {
		out.Auth = moreExact(out.Auth, r.ended)
		return out
	}
	out.Message, out.RetryAfter = r.later, r.after
	out.Kind = job.FailAmbiguous
	if out.Result == job.ResultRejected || out.Result == job.ResultNotSent {
		out.Kind, out.OwnWait = job.FailRateLimited, true // waits, and costs no try
	}
	return out
}

// expired adds why a credential was refused that is past its end, where no other cause is
// known.
func (o *credentials) expired(conn *store.Connection, ev job.Evidence) job.Evidence {
	if conn.CredentialExpires.IsZero() || conn.CredentialExpires.After(o.Clock.Read().Time) {
		return ev
	}
	switch v := ev.(type) {
	case job.Deferred:
		if v.Kind == job.FailAuth {
			v.Auth = moreExact(v.Auth, job.AuthExpired)
		}
		return v
	case job.Outcome:
		if v.Kind == job.FailAuth {
			v.Auth = moreExact(v.Auth, job.AuthExpired)
		}
		return v
	default:
		return ev
	}
}

// moreExact returns why a credential was refused: known, where the platform has named no
// cause. Its bare refusal may have any cause.
func moreExact(stated, known job.AuthCause) job.AuthCause {
	if known != 0 && stated <= job.AuthRefused {
		return known
	}
	return stated
}

// renewal is the result of asking for a newer credential. The zero renewal is nothing:
// the refusal stands.
type renewal struct {
	done bool // a newer one is durable
	// later is why there is none yet; after is when there may be one.
	later string
	after time.Duration
	ended job.AuthCause // the login has ended, and why
}

// renew asks for a newer version than the one that was refused.
func (o *credentials) renew(ctx context.Context, conn *store.Connection, version int) renewal {
	if o.Refresh == nil {
		return renewal{}
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	renewed, err := o.Refresh.Refused(ctx, *conn, version)
	var r *connector.Refusal
	switch {
	case err == nil:
		return renewal{done: renewed}
	case errors.As(err, &r) && r.Kind == job.FailAuth:
		return renewal{ended: r.Cause()}
	case errors.As(err, &r):
		return renewal{later: r.Msg, after: max(r.RetryAfter, time.Second)}
	default:
		return renewal{later: "the login could not be renewed", after: time.Second}
	}
}
