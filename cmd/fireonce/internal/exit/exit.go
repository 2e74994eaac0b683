// Package exit determines the program's exit code and prints errors: the text is for
// people, and the code is for scripts.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// The program's exit codes.
const (
	OK = 0
	// Error: any error without a code of its own; also a watched job that ended
	// without success.
	Error = 1
	// Usage: a wrong flag or argument, or a request that the server refuses as invalid.
	Usage = 2
	// Conflict: the key is bound to another request, the state does not allow the
	// call, or another caller was faster (etag).
	Conflict = 3
	// NotFound: no such job, connection, project or key.
	NotFound = 4
	// Unavailable: the server cannot be reached or did not answer in time. Every
	// call of this program may be repeated unchanged.
	Unavailable = 5
	// Denied: no API key, a wrong one, or one that lacks the scope.
	Denied = 6
	// Signal: added to its number, a second signal during a shutdown.
	Signal = 128
)

// usageError is a mistake of the caller.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// AsUsage marks an error as the caller's mistake.
func AsUsage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

// Usagef returns an error that is the caller's mistake.
func Usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// IsUsage reports whether an error is a mistake on the command line, which --help
// explains. A request that a server refuses as invalid is not.
func IsUsage(err error) bool {
	return errors.As(err, new(*usageError))
}

// Code returns the exit code of an error.
func Code(err error) int {
	if err == nil {
		return OK
	}
	if IsUsage(err) {
		return Usage
	}
	if wire, ok := errors.AsType[*connect.Error](err); ok {
		return wireCode(status(wire))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Unavailable
	}
	return Error
}

// status returns the code of an error. A broken connection has no answer from the server,
// whatever code the library of Connect reports for it.
func status(err *connect.Error) connect.Code {
	broken := errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrUnexpectedEOF)
	if broken && !connect.IsWireError(err) && !errors.Is(err, context.Canceled) {
		return connect.CodeUnavailable
	}
	return err.Code()
}

// Details returns the contract's detail of a server's error, and when to repeat the call; nil: there
// is none. It passes over details newer than this program.
func Details(err error) (detail *fireoncev1.ErrorDetail, retry *errdetails.RetryInfo) {
	var wire *connect.Error
	if !errors.As(err, &wire) {
		return nil, nil
	}
	for _, d := range wire.Details() {
		value, _ := d.Value()
		switch v := value.(type) {
		case *fireoncev1.ErrorDetail:
			detail = v
		case *errdetails.RetryInfo:
			retry = v
		}
	}
	return detail, retry
}

func wireCode(c connect.Code) int {
	switch c {
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return Usage
	case connect.CodeAlreadyExists, connect.CodeFailedPrecondition, connect.CodeAborted:
		return Conflict
	case connect.CodeNotFound:
		return NotFound
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded:
		return Unavailable
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		return Denied
	default:
		return Error
	}
}
