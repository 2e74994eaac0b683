package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/contract"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server/wire"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a handler fails with a *fault, or with an error of the store, of job or of
// connector. toWire makes the wire error of each. An error in neither table is INTERNAL: its
// cause is logged, and the client gets the request id by which the log has it.

// errorDomain is google.rpc.ErrorInfo's domain: the service's name, whatever its version.
const errorDomain = "fireonce.github.io"

// reasonCodes is the whole table from reasons to status codes.
var reasonCodes = map[fireoncev1.ErrorReason]connect.Code{
	fireoncev1.ErrorReason_ERROR_REASON_TIME_IN_PAST:                connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_TIME_TOO_FAR:                connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_TOO_LARGE:           connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_CONNECTION_MISMATCH: connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_HEADER_NOT_ALLOWED:          connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID:          connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_CURSOR_INVALID:              connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_KEY_RESERVED:                connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_BATCH_TOO_LARGE:             connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID:             connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_CONNECTOR_UNKNOWN:           connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_SETTINGS_INVALID:            connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_MISMATCH:         connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_OAUTH_APP_UNKNOWN:           connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_REDIRECT_NOT_ALLOWED:        connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_ELEMENTS:           connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID:             connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_OAUTH_LOGIN_NOT_FOUND:       connect.CodeNotFound,
	fireoncev1.ErrorReason_ERROR_REASON_API_KEY_NOT_FOUND:           connect.CodeNotFound,
	fireoncev1.ErrorReason_ERROR_REASON_PROJECT_NOT_FOUND:           connect.CodeNotFound,
	fireoncev1.ErrorReason_ERROR_REASON_INCIDENT_NOT_FOUND:          connect.CodeNotFound,
	fireoncev1.ErrorReason_ERROR_REASON_PLAN_NOT_FOUND:              connect.CodeNotFound,
	fireoncev1.ErrorReason_ERROR_REASON_PLAN_OVER:                   connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_OPERATOR_REQUIRED:           connect.CodePermissionDenied,
	fireoncev1.ErrorReason_ERROR_REASON_SEALING_KEY_OUTDATED:        connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_UNSEALABLE:       connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_OAUTH_MISMATCH:              connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_OAUTH_REFUSED:               connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_OAUTH_UNFINISHED:            connect.CodeAborted,
	fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED:      connect.CodeAlreadyExists,
	fireoncev1.ErrorReason_ERROR_REASON_API_KEY_NAME_TAKEN:          connect.CodeAlreadyExists,
	fireoncev1.ErrorReason_ERROR_REASON_EFFECT_KEY_TAKEN:            connect.CodeAlreadyExists,
	fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND:               connect.CodeNotFound,
	fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_NOT_FOUND:          connect.CodeNotFound,
	fireoncev1.ErrorReason_ERROR_REASON_SUBSCRIPTION_NOT_FOUND:      connect.CodeNotFound,
	fireoncev1.ErrorReason_ERROR_REASON_NOTICE_NOT_FOUND:            connect.CodeNotFound,
	fireoncev1.ErrorReason_ERROR_REASON_SUBSCRIPTION_STATE:          connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_SUBSCRIPTION_CONNECTION:     connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND:        connect.CodeNotFound,
	fireoncev1.ErrorReason_ERROR_REASON_PAUSE_NOT_FOUND:             connect.CodeNotFound,
	fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_SPEC_INVALID:       connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_BACKFILL_RANGE:              connect.CodeInvalidArgument,
	fireoncev1.ErrorReason_ERROR_REASON_FIRING_NOT_FOUND:            connect.CodeNotFound,
	fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_ITEM_NOT_FOUND:     connect.CodeNotFound,
	fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_ITEM_STATE:         connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_STATE:              connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_FIRING_BLOCKED:              connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_FIRING_DECIDED:              connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_JOB_STATE:                   connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_REPLIES:            connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_DISABLED:         connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_IN_USE:           connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_IDENTITY_MISMATCH:           connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_QUARANTINED:                 connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_CLOCK_DOUBTED:               connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_RESEND_TOO_EARLY:            connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_RETENTION_NOT_REACHED:       connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_JOB_HAS_REPLIES:             connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_PROJECT_IN_USE:              connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_PREDECESSOR_ENDED:           connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_ATTEMPTS_EXHAUSTED:          connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_ATTEMPT_UNDER_WAY:           connect.CodeFailedPrecondition,
	fireoncev1.ErrorReason_ERROR_REASON_PLATFORM_UNAVAILABLE:        connect.CodeUnavailable,
	fireoncev1.ErrorReason_ERROR_REASON_CONNECTOR_UNAVAILABLE:       connect.CodeUnavailable,
	fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH:               connect.CodeAborted,
	fireoncev1.ErrorReason_ERROR_REASON_CURSOR_EXPIRED:              connect.CodeOutOfRange,
	fireoncev1.ErrorReason_ERROR_REASON_QUOTA_EXCEEDED:              connect.CodeResourceExhausted,
	fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_STREAMS:            connect.CodeResourceExhausted,
	fireoncev1.ErrorReason_ERROR_REASON_REQUEST_TOO_LARGE:           connect.CodeResourceExhausted,
	fireoncev1.ErrorReason_ERROR_REASON_SERVER_BUSY:                 connect.CodeResourceExhausted,
	fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_CALLS:              connect.CodeResourceExhausted,
	fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE:           connect.CodeUnavailable,
	fireoncev1.ErrorReason_ERROR_REASON_SHUTTING_DOWN:               connect.CodeUnavailable,
	fireoncev1.ErrorReason_ERROR_REASON_SCOPE_MISSING:               connect.CodePermissionDenied,
	fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_INVALID:          connect.CodeUnauthenticated,
}

// sentinels is the table from the store's errors to reasons. Where the same
// error means different things, the handler has decided which before.
var sentinels = []struct {
	err    error
	reason fireoncev1.ErrorReason
	msg    string
}{
	{store.ErrUnavailable, fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE, "the store cannot be reached; repeat the call"},
	{store.ErrUnconfirmed, fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE, "the store did not confirm the write; repeat the call unchanged"},
	{store.ErrStale, fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH, "the job keeps changing; read it again"},
	{store.ErrCursorExpired, fireoncev1.ErrorReason_ERROR_REASON_CURSOR_EXPIRED, "the cursor is older than the events that are kept; call ListJobs and stream from its events_cursor"},
	{store.ErrQuarantined, fireoncev1.ErrorReason_ERROR_REASON_QUARANTINED, "the database may be a copy or an old state; an operator must release it"},
	{store.ErrBadText, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID, "a text has a character that cannot be stored, such as NUL"},
	{store.ErrClockSuspect, fireoncev1.ErrorReason_ERROR_REASON_CLOCK_DOUBTED, "the time of the database is in doubt; repeat the call later"},
}

// inputReasons is the table from a connector's verdict on input to reasons.
var inputReasons = map[connector.InputReason]fireoncev1.ErrorReason{
	connector.BadPayload:      fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID,
	connector.PayloadMismatch: fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_CONNECTION_MISMATCH,
	connector.BadHeader:       fireoncev1.ErrorReason_ERROR_REASON_HEADER_NOT_ALLOWED,
	connector.BadSettings:     fireoncev1.ErrorReason_ERROR_REASON_SETTINGS_INVALID,
	connector.BadCredential:   fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_MISMATCH,
}

// retryIn is the time after which a refused call is worth repeating.
var retryIn = map[fireoncev1.ErrorReason]time.Duration{
	fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE: time.Second,
	fireoncev1.ErrorReason_ERROR_REASON_SHUTTING_DOWN:     time.Second,
	fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_STREAMS:  5 * time.Second,
	fireoncev1.ErrorReason_ERROR_REASON_QUOTA_EXCEEDED:    5 * time.Second,
	fireoncev1.ErrorReason_ERROR_REASON_SERVER_BUSY:       time.Second,

	fireoncev1.ErrorReason_ERROR_REASON_CONNECTOR_UNAVAILABLE: 5 * time.Second,
}

// fault is an error that a client gets to see, every word of it.
type fault struct {
	reason     fireoncev1.ErrorReason
	msg        string
	metadata   map[string]string
	violations []*fireoncev1.FieldViolation
	conflict   *fireoncev1.IdempotencyConflict
	state      *fireoncev1.StateConflict
	// retry, when set, replaces the reason's time in retryIn.
	retry time.Duration
}

// retryNever: to repeat the call is of no use.
const retryNever time.Duration = -1

func (f *fault) Error() string { return f.msg }

// refuse makes a fault. values are names and values that msg contains. "field" is the path
// of the field that the fault is about, and becomes a violation of it.
func refuse(reason fireoncev1.ErrorReason, msg string, values ...string) *fault {
	f := &fault{reason: reason, msg: msg}
	for i := 0; i+1 < len(values); i += 2 {
		if values[i] == "field" {
			f.violations = append(f.violations, &fireoncev1.FieldViolation{
				Field: values[i+1], Rule: ruleName(reason), Message: withoutField(msg, values[i+1]),
			})
			continue
		}
		if f.metadata == nil {
			f.metadata = make(map[string]string, len(values)/2)
		}
		f.metadata[values[i]] = values[i+1]
	}
	return f
}

// withoutField is an error's message without the name of its field.
func withoutField(msg, field string) string {
	return strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(msg, field), ":"), " ")
}

// shortName is a reason without its prefix.
func shortName(reason fireoncev1.ErrorReason) string {
	return strings.TrimPrefix(reason.String(), "ERROR_REASON_")
}

// ruleName is the rule of a violation that has no other name than its reason.
func ruleName(reason fireoncev1.ErrorReason) string { return strings.ToLower(shortName(reason)) }

// badField refuses a value that no rule of the contract could describe. rule is a name for
// what it must be.
func badField(field, rule, msg string) *fault {
	return invalid(false, &fireoncev1.FieldViolation{Field: field, Rule: rule, Message: msg})
}

// notFoundAs returns f in the place of the store's ErrNotFound.
func notFoundAs(err error, f *fault) error {
	if errors.Is(err, store.ErrNotFound) {
		return f
	}
	return err
}

// toWire makes the error that is sent. The second result is a cause that must be logged, because
// the wire error does not contain it.
func toWire(err error, requestID string) (_ *connect.Error, hidden error) {
	var f *fault
	var state *job.StateError
	var input *connector.InputError
	var away *connector.Refusal
	switch already := new(connect.Error); {
	case errors.As(err, &already):
		return already, nil
	case errors.As(err, &f):
		return f.wire(), nil
	case errors.As(err, &state):
		return stateFault(state).wire(), nil
	case errors.As(err, &input):
		return inputFault(input).wire(), nil
	case errors.As(err, &away): // a connector of the operator's own, which cannot be asked now
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_CONNECTOR_UNAVAILABLE, away.Msg).wire(), err
	case errors.Is(err, context.DeadlineExceeded):
		return errorWithoutReason(connect.CodeDeadlineExceeded, "the call's time ran out; it may be repeated unchanged", requestID), nil
	case errors.Is(err, context.Canceled):
		return errorWithoutReason(connect.CodeCanceled, "the call was cancelled", requestID), nil
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return refuse(s.reason, s.msg).wire(), err
		}
	}
	return errorWithoutReason(connect.CodeInternal, "internal error; the server's log has it under request "+requestID, requestID), err
}

func (f *fault) code() connect.Code {
	if code, known := reasonCodes[f.reason]; known {
		return code
	}
	return connect.CodeInvalidArgument
}

func (f *fault) detail() *fireoncev1.ErrorDetail {
	detail := &fireoncev1.ErrorDetail{Reason: f.reason, Metadata: f.metadata, Violations: f.violations}
	switch {
	case f.conflict != nil:
		detail.Context = &fireoncev1.ErrorDetail_IdempotencyConflict{IdempotencyConflict: f.conflict}
	case f.state != nil:
		detail.Context = &fireoncev1.ErrorDetail_StateConflict{StateConflict: f.state}
	}
	return detail
}

func (f *fault) wire() *connect.Error {
	details := []proto.Message{
		f.detail(), &errdetails.ErrorInfo{Reason: shortName(f.reason), Domain: errorDomain, Metadata: f.metadata},
	}
	wait := retryIn[f.reason]
	if f.retry != 0 {
		wait = f.retry
	}
	if wait > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	return withDetails(connect.NewError(f.code(), errors.New(f.msg)), details...)
}

// errorWithoutReason makes an error for which the contract has no reason, or, where the request itself
// is wrong as a whole, REQUEST_INVALID.
func errorWithoutReason(code connect.Code, msg, requestID string) *connect.Error {
	if code == connect.CodeInvalidArgument {
		return badField("", wire.RuleEncoding, msg).wire()
	}
	meta := map[string]string{"request_id": requestID}
	return withDetails(connect.NewError(code, errors.New(msg)),
		&fireoncev1.ErrorDetail{Metadata: meta},
		&errdetails.ErrorInfo{Reason: strings.ToUpper(code.String()), Domain: errorDomain, Metadata: meta})
}

func withDetails(e *connect.Error, details ...proto.Message) *connect.Error {
	for _, d := range details {
		// Cannot fail: all of these types are linked in.
		if detail, err := connect.NewErrorDetail(d); err == nil {
			e.AddDetail(detail)
		}
	}
	return e
}

func stateFault(e *job.StateError) *fault {
	switch e.Cause {
	case job.FenceStands:
		f := refuse(fireoncev1.ErrorReason_ERROR_REASON_RESEND_TOO_EARLY, e.Why)
		f.retry = e.FenceLeft
		return f
	case job.PredecessorStands:
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_PREDECESSOR_ENDED, e.Why, "job_id", e.Predecessor.String())
	case job.NoAttemptLeft:
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_ATTEMPTS_EXHAUSTED, e.Why, "limit", strconv.Itoa(job.MaxAttempts))
	case job.AttemptStands:
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_ATTEMPT_UNDER_WAY, e.Why)
	}
	f := refuse(fireoncev1.ErrorReason_ERROR_REASON_JOB_STATE, e.Error(), "state", e.Current.String())
	f.state = &fireoncev1.StateConflict{CurrentState: stateToWire(e.Current)}
	for _, s := range e.Allowed {
		f.state.AllowedStates = append(f.state.AllowedStates, stateToWire(s))
	}
	for _, field := range e.Fields.Names() {
		f.violations = append(f.violations, &fireoncev1.FieldViolation{
			Field: field, Rule: ruleName(f.reason), Message: "cannot change while the job is " + e.Current.String(),
		})
	}
	return f
}

func inputFault(e *connector.InputError) *fault {
	reason, ok := inputReasons[e.Reason]
	if !ok {
		reason = fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID
	}
	return refuse(reason, e.Error(), "field", e.Field)
}

// settingsPaths has where the requests of an RPC have a connection's settings, of which a
// connector speaks as "settings". An RPC that is not here has none.
var settingsPaths = map[string]string{
	connectionsv1connect.ConnectionServiceCreateConnectionProcedure: "connection.",
	connectionsv1connect.ConnectionServiceUpdateConnectionProcedure: "",
	connectionsv1connect.ConnectionServiceStartOAuthProcedure:       "create.connection.",
}

// inRequest returns an error with the paths that its fields have in an RPC's request. A path that
// leads out of the request is cut there: an error about stored data, or about a connector itself,
// is about the request as a whole.
func inRequest(err error, procedure string) error {
	rpcs, failed := wire.Methods()
	rpc, known := rpcs[procedure]
	wrong, f := new(connector.InputError), new(fault)
	switch {
	case failed != nil, !known, errors.As(err, new(*connect.Error)):
		return err
	case errors.As(err, &f):
	case errors.As(err, &wrong):
		f = inputFault(settingsIn(*wrong, procedure))
	default:
		return err
	}
	return f.withPaths(func(path string) string { return contract.PathIn(rpc.Input, path) })
}

// withPaths is a copy of a fault whose fields have other paths.
func (f *fault) withPaths(rename func(path string) string) *fault {
	out := *f
	out.violations = convertAll(f.violations, func(v *fireoncev1.FieldViolation) *fireoncev1.FieldViolation {
		return &fireoncev1.FieldViolation{Field: rename(v.GetField()), Rule: v.GetRule(), Message: v.GetMessage()}
	})
	return &out
}

// under is a path of a message that is itself at a path; empty: the whole message.
func under(at, path string) string {
	if at == "" || path == "" {
		return at + path
	}
	return at + "." + path
}

// settingsIn returns a connector's error about settings with the path that they have in an RPC's
// request.
func settingsIn(wrong connector.InputError, procedure string) *connector.InputError {
	rest, ok := strings.CutPrefix(wrong.Field, "settings")
	if !ok {
		return &wrong
	}
	at, has := settingsPaths[procedure]
	if wrong.Field = strings.TrimSuffix(at+strings.TrimPrefix(rest, "."), "."); !has {
		wrong.Field = ""
	}
	return &wrong
}

// keyReused names the fields that differ, and no values.
func keyReused(c *fireoncev1.IdempotencyConflict) *fault {
	f := refuse(fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED,
		fmt.Sprintf("the idempotency key is bound to another request, which differs in %s",
			strings.Join(c.GetMismatchedFields(), ", ")),
		"fields", strings.Join(c.GetMismatchedFields(), ","))
	f.conflict = c
	return f
}

// keyOfRemoved refuses a repeat whose job has ended and was removed, while its key is still kept:
// a new job would be a second effect.
func keyOfRemoved(id job.ID) *fault {
	f := refuse(fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED,
		fmt.Sprintf("the idempotency key is bound to job %s, which has ended and was removed; nothing new is scheduled", id),
		"job_id", id.String())
	f.conflict = &fireoncev1.IdempotencyConflict{Holder: &fireoncev1.IdempotencyConflict_JobId{JobId: idToWire(id)}}
	return f
}

func connectorUnknown(name string, known []string) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_CONNECTOR_UNKNOWN,
		fmt.Sprintf("no connector %q; this server has: %s", name, strings.Join(known, ", ")),
		"connector", name, "connectors", strings.Join(known, ","))
}
