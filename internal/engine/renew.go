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
func (e *Engine) due(conn store.Connection) bool { return e.Refresh != nil && e.Refresh.Due(conn) }

// fresh gives the credential to use in place of one that was opened.
func (e *Engine) fresh(ctx context.Context, conn store.Connection, cred connector.Credential) (connector.Credential, *job.Deferred) {
	if !e.due(conn) {
		return cred, nil
	}
	fresh, err := e.Refresh.Fresh(ctx, conn, cred)
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
func (e *Engine) renewDeferred(ctx context.Context, conn store.Connection, d job.Deferred) job.Deferred {
	if d.Kind != job.FailAuth || d.CredentialVersion == 0 {
		return d
	}
	renewed, after, msg := e.renewRefused(ctx, conn, d.CredentialVersion)
	switch {
	case renewed:
		return job.Deferred{Kind: job.FailHeld, Message: "the login was renewed"}
	case msg != "":
		return job.Deferred{Kind: job.FailHeld, RetryAfter: after, HoldFor: min(after, sharedMost), Message: msg}
	default:
		return d
	}
}

// renewOutcome tries to renew a credential that was refused by a definite answer. If
// there is a newer one, the answer's hold, which is the old one's, holds nothing.
func (e *Engine) renewOutcome(conn store.Connection, out job.Outcome) job.Outcome {
	if out.Kind != job.FailAuth || out.CredentialVersion == 0 {
		return out
	}
	_, after, msg := e.renewRefused(e.hard, conn, out.CredentialVersion)
	if msg == "" {
		return out
	}
	out.Message, out.RetryAfter = msg, after
	out.Kind = job.FailAmbiguous
	if out.Result == job.ResultRejected || out.Result == job.ResultNotSent {
		out.Kind = job.FailRateLimited // waits, and costs no try
	}
	return out
}

// renewRefused asks for a newer version than the one that was refused. A message says
// why there is none yet, and after when there may be one.
func (e *Engine) renewRefused(ctx context.Context, conn store.Connection, version int) (renewed bool, after time.Duration, msg string) {
	if e.Refresh == nil {
		return false, 0, ""
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	renewed, err := e.Refresh.Refused(ctx, conn, version)
	var r *connector.Refusal
	switch {
	case err == nil:
		return renewed, 0, ""
	case errors.As(err, &r):
		return false, max(r.RetryAfter, time.Second), r.Msg
	default:
		return false, time.Second, "the login could not be renewed"
	}
}
