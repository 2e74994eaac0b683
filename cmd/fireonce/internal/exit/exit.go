// Package exit says with which code the program ends, and prints errors so that
// a person sees what is wrong and a script can tell it from the code.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"connectrpc.com/connect"
)

// The program's exit codes.
const (
	OK = 0
	// Error: anything that has no code of its own; also a watched job that ended
	// without success.
	Error = 1
	// Usage: a wrong flag or argument, or a request that the server calls invalid.
	Usage = 2
	// Conflict: the key is bound to another request, the state does not allow the
	// call, or somebody else was faster (etag).
	Conflict = 3
	// NotFound: no such job, connection, project or key.
	NotFound = 4
	// Unavailable: the server cannot be reached or did not answer in time. Every
	// call of this program may be repeated unchanged.
	Unavailable = 5
	// Denied: no API key, a wrong one, or one that lacks the scope.
	Denied = 6
	// Signal plus its number: a second signal during a shutdown.
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

// Usagef makes an error that is the caller's mistake.
func Usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// IsUsage reports whether an error is a mistake on the command line, which --help
// explains. What a server calls invalid is none.
func IsUsage(err error) bool {
	var usage *usageError
	return errors.As(err, &usage)
}

// Code returns the exit code of an error.
func Code(err error) int {
	if err == nil {
		return OK
	}
	if IsUsage(err) {
		return Usage
	}
	var wire *connect.Error
	if errors.As(err, &wire) {
		return wireCode(status(wire))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Unavailable
	}
	return Error
}

// status is the code of an error. Where the connection broke there is no answer, whatever the
// library of Connect makes of that.
func status(err *connect.Error) connect.Code {
	broken := errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrUnexpectedEOF)
	if broken && !connect.IsWireError(err) && !errors.Is(err, context.Canceled) {
		return connect.CodeUnavailable
	}
	return err.Code()
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
