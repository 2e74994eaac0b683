package exit

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"syscall"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/terminal"
)

// Print writes an error for a person: what happened, then reason and fields. It removes
// terminal control characters from the server's texts.
func Print(w io.Writer, err error) {
	var wire *connect.Error
	if !errors.As(err, &wire) {
		fmt.Fprintf(w, "fireonce: %s\n", terminal.Lines(err.Error()))
		return
	}
	detail, retry := Details(err)
	message := wire.Message()
	if len(detail.GetViolations()) > 1 { // they repeat it
		message = "the request is not valid"
	}
	if detail.GetStateConflict() != nil {
		message, _, _ = strings.Cut(message, "; allowed: ") // its states follow
	}
	fmt.Fprintf(w, "fireonce: %s: %s\n", status(wire), terminal.Plain(message))
	printDetail(w, message, detail)
	if retry != nil {
		fmt.Fprintf(w, "  repeat in %s\n", duration.Format(retry.GetRetryDelay().AsDuration()))
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		fmt.Fprintln(w, "  is `fireonce serve` running there? --server or FIREONCE_SERVER names another address")
	}
	if wire.Code() == connect.CodeUnauthenticated {
		fmt.Fprintln(w, "  set FIREONCE_API_KEY to a key that this server knows, or store one with `fireonce login`")
	}
}

// printDetail writes what the message does not have.
func printDetail(w io.Writer, message string, d *fireoncev1.ErrorDetail) {
	if d.GetReason() != fireoncev1.ErrorReason_ERROR_REASON_UNSPECIFIED {
		fmt.Fprintf(w, "  reason: %s\n", strings.TrimPrefix(d.GetReason().String(), "ERROR_REASON_"))
	}
	if found := d.GetViolations(); len(found) > 1 {
		for _, v := range found {
			field := v.GetField()
			if field != "" { // else it is about the whole
				field += ": "
			}
			fmt.Fprintf(w, "  %s\n", terminal.Plain(field+v.GetMessage()))
		}
	}
	if c := d.GetIdempotencyConflict(); c != nil {
		fmt.Fprintf(w, "  fields that differ: %s\n", terminal.Plain(strings.Join(c.GetMismatchedFields(), ", ")))
		if c.GetJobId() != "" {
			fmt.Fprintf(w, "  the key belongs to job %s, %s\n", terminal.Plain(c.GetJobId()), state(c.GetState()))
		}
		if c.GetConnectionId() != "" {
			fmt.Fprintf(w, "  the key belongs to connection %s\n", terminal.Plain(c.GetConnectionId()))
		}
		return
	}
	if c := d.GetStateConflict(); c != nil && !slices.Contains(c.GetAllowedStates(), c.GetCurrentState()) {
		allowed := make([]string, 0, len(c.GetAllowedStates()))
		for _, s := range c.GetAllowedStates() {
			allowed = append(allowed, state(s))
		}
		fmt.Fprintf(w, "  possible in: %s\n", strings.Join(allowed, ", "))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(d.GetMetadata())) {
		if value := d.GetMetadata()[name]; value != "" && strings.Contains(message, value) {
			continue
		}
		fmt.Fprintf(w, "  %s\n", terminal.Plain(name+": "+d.GetMetadata()[name]))
	}
}

func state(s fireoncev1.JobState) string {
	return strings.TrimPrefix(s.String(), "JOB_STATE_")
}
