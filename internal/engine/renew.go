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
//     tried: whoever is held waits for a person;
//   - who waits for a platform to renew a login burns nothing.

// renewTimeout bounds the wait for a renewal after an answer. It is less than the
// least grace that is left then.
const renewTimeout = 25 * time.Second

// due tells whether a connection's credential may have to be renewed.
func (e *Engine) due(conn *store.Connection) bool { return e.Refresh != nil && e.Refresh.Due(*conn) }

// fresh gives the credential to use in place of one that was opened.
func (e *Engine) fresh(ctx context.Context, conn *store.Connection, cred connector.Credential) (connector.Credential, *job.Deferred) {
	if !e.due(conn) {
		return cred, nil
	}
	fresh, err := e.Refresh.Fresh(ctx, *conn, cred)
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
func (e *Engine) renewDeferred(ctx context.Context, conn *store.Connection, d job.Deferred) job.Deferred {
	if d.Kind != job.FailAuth || d.CredentialVersion == 0 {
		return d
	}
	switch r := e.renewRefused(ctx, conn, d.CredentialVersion); {
	case r.done:
		return job.Deferred{Kind: job.FailHeld, Message: "the login was renewed"}
	case r.later != "":
		return job.Deferred{Kind: job.FailHeld, RetryAfter: r.after, HoldFor: min(r.after, sharedMost), Message: r.later}
	default:
		d.Auth = moreExact(d.Auth, r.ended)
		return d
	}
}

// renewOutcome tries to renew a credential that was refused by a definite answer. If
// there is a newer one, the answer's hold, which is the old one's, holds nothing.
func (e *Engine) renewOutcome(conn *store.Connection, out job.Outcome) job.Outcome {
	if out.Kind != job.FailAuth || out.CredentialVersion == 0 {
		return out
	}
	r := e.renewRefused(e.hard, conn, out.CredentialVersion)
	if r.later == "" {
		out.Auth = moreExact(out.Auth, r.ended)
		return out
	}
	out.Message, out.RetryAfter = r.later, r.after
	out.Kind = job.FailAmbiguous
	if out.Result == job.ResultRejected || out.Result == job.ResultNotSent {
		out.Kind = job.FailRateLimited // waits, and costs no try
	}
	return out
}

// moreExact gives why a credential was refused, when another one knows more than who
// was refused: that one word of the platform may have any cause.
func moreExact(said, known job.AuthCause) job.AuthCause {
	if known != 0 && said <= job.AuthRefused {
		return known
	}
	return said
}

// renewal is what came of asking for a newer credential. The zero renewal is nothing:
// the refusal stands.
type renewal struct {
	done bool // a newer one is durable
	// later says why there is none yet, and after when there may be one.
	later string
	after time.Duration
	ended job.AuthCause // the login has ended, and why
}

// renewRefused asks for a newer version than the one that was refused.
func (e *Engine) renewRefused(ctx context.Context, conn *store.Connection, version int) renewal {
	if e.Refresh == nil {
		return renewal{}
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	renewed, err := e.Refresh.Refused(ctx, *conn, version)
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
