package exit

import (
	"encoding/json"
	"errors"
	"io"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/encoding/protojson"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

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
	var wire *connect.Error
	if errors.As(err, &wire) {
		out.Code, out.Message = status(wire).String(), wire.Message()
		for _, d := range wire.Details() {
			out.add(d)
		}
	}
	line, _ := json.Marshal(out) // cannot fail: protojson wrote the raw part
	_, _ = w.Write(append(terminal.JSON(line), '\n'))
}

func (r *report) add(d *connect.ErrorDetail) {
	value, err := d.Value()
	if err != nil {
		return // a detail newer than this program
	}
	switch v := value.(type) {
	case *fireoncev1.ErrorDetail:
		if raw, err := protojson.Marshal(v); err == nil {
			r.Detail = raw
		}
	case *errdetails.RetryInfo:
		if raw, err := protojson.Marshal(v.GetRetryDelay()); err == nil {
			r.RetryDelay = raw
		}
	}
}
