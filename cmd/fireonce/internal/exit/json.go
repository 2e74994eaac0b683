package exit

import (
	"encoding/json"
	"errors"
	"io"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/terminal"
)

// Rules of this file: with --json an error is one line of JSON, the last line on standard
// error. Standard output has results only, so that a pipe never reads an error as a result.

// report is an error as --json prints it.
type report struct {
	// ExitCode is the program's exit code.
	ExitCode int `json:"exitCode"`
	// Code is the server's status code in Connect's spelling; empty: the error did not come
	// from a server.
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	// Detail is the ErrorDetail of the contract.
	Detail json.RawMessage `json:"detail,omitempty"`
	// RetryDelay is the time until a repeat is worthwhile, as a google.protobuf.Duration in JSON.
	RetryDelay json.RawMessage `json:"retryDelay,omitempty"`
}

// PrintJSON writes an error for a program.
func PrintJSON(w io.Writer, err error) {
	out := report{ExitCode: Code(err), Message: err.Error()}
	if wire, ok := errors.AsType[*connect.Error](err); ok {
		out.Code, out.Message = status(wire).String(), wire.Message()
	}
	detail, retry := Details(err)
	if detail != nil {
		out.Detail, _ = protojson.Marshal(detail) // none if it cannot be written
	}
	if retry != nil {
		out.RetryDelay, _ = protojson.Marshal(retry.GetRetryDelay())
	}
	line, _ := json.Marshal(out) // cannot fail: protojson wrote the raw part
	_, _ = w.Write(append(terminal.JSON(line), '\n'))
}
