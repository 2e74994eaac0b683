package connector

import (
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// InputReason is the kind of mistake in a user's input.
type InputReason int

const (
	// BadPayload: the payload's content.
	BadPayload InputReason = iota + 1
	// PayloadMismatch: a kind of payload that this connector does not send.
	PayloadMismatch
	// BadHeader: a header that users may not set.
	BadHeader
	// BadSettings: the connection's settings.
	BadSettings
	// BadCredential: the kind or form of the credential.
	BadCredential
)

// InputError describes what is wrong with a payload, settings or credential, in
// words fit for a user. It never quotes a secret.
type InputError struct {
	Reason InputReason
	Field  string // path in the request, e.g. "payload.webhook.headers[2].name"
	Msg    string
}

func (e *InputError) Error() string {
	if e.Field == "" {
		return e.Msg
	}
	return e.Field + ": " + e.Msg
}

// ErrNotAllowed is the cause of a *Refusal of kind FailAuth whose credential is valid,
// but does not allow the request.
var ErrNotAllowed = errors.New("the credential is not for this")

// Refusal is a failure of Open: provably nothing was sent.
type Refusal struct {
	Kind       job.FailureKind
	Msg        string
	RetryAfter time.Duration
	Err        error
	// Auth is why, for FailAuth; zero: job.AuthRefused, or job.AuthPermission with
	// ErrNotAllowed.
	Auth job.AuthCause
	// Shared is set if a HELD refusal blocks every job of the connection, and not this
	// one alone.
	Shared bool
	// Down is set if the target itself is ill: its name has no address, it takes no connection, or
	// the TLS handshake fails. No policy of ours and no time of the caller's is the reason.
	Down bool
}

func (e *Refusal) Error() string {
	if e.Err == nil {
		return e.Msg
	}
	return e.Msg + ": " + e.Err.Error()
}

func (e *Refusal) Unwrap() error { return e.Err }

// Cause returns the reason of a refusal of kind FailAuth.
func (e *Refusal) Cause() job.AuthCause {
	switch {
	case e.Kind != job.FailAuth:
		return 0
	case e.Auth != 0:
		return e.Auth
	case errors.Is(e.Err, ErrNotAllowed):
		return job.AuthPermission
	default:
		return job.AuthRefused
	}
}
