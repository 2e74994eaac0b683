package exit

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
)

// Print writes an error for a person: what happened, then reason and fields.
func Print(w io.Writer, err error) {
	var wire *connect.Error
	if !errors.As(err, &wire) {
		fmt.Fprintf(w, "fireonce: %v\n", err)
		return
	}
	details := wire.Details()
	if slices.ContainsFunc(details, isViolations) {
		// The message only says what the violations below say too.
		fmt.Fprintf(w, "fireonce: %s\n", wire.Code())
	} else {
		fmt.Fprintf(w, "fireonce: %s: %s\n", wire.Code(), wire.Message())
	}
	for _, d := range details {
		value, err := d.Value()
		if err != nil {
			continue // a detail newer than this program
		}
		switch v := value.(type) {
		case *fireoncev1.ErrorDetail:
			printDetail(w, v)
		case *validate.Violations:
			for _, violation := range v.GetViolations() {
				field := ""
				if path := protovalidate.FieldPathString(violation.GetField()); path != "" { // else it is about the whole
					field = path + ": "
				}
				fmt.Fprintf(w, "  %s%s\n", field, violation.GetMessage())
			}
		case *errdetails.RetryInfo:
			fmt.Fprintf(w, "  repeat in %v\n", v.GetRetryDelay().AsDuration())
		}
	}
	if wire.Code() == connect.CodeUnauthenticated {
		fmt.Fprintln(w, "  set FIREONCE_API_KEY to a key that this server knows")
	}
}

func isViolations(d *connect.ErrorDetail) bool {
	return d.Type() == string((*validate.Violations)(nil).ProtoReflect().Descriptor().FullName())
}

func printDetail(w io.Writer, d *fireoncev1.ErrorDetail) {
	if d.GetReason() != fireoncev1.ErrorReason_ERROR_REASON_UNSPECIFIED {
		fmt.Fprintf(w, "  reason: %s\n", strings.TrimPrefix(d.GetReason().String(), "ERROR_REASON_"))
	}
	if c := d.GetIdempotencyConflict(); c != nil {
		fmt.Fprintf(w, "  fields that differ: %s\n", strings.Join(c.GetMismatchedFields(), ", "))
		if c.GetJobId() != "" {
			fmt.Fprintf(w, "  the key belongs to job %s, %s\n", c.GetJobId(), state(c.GetState()))
		}
		if c.GetConnectionId() != "" {
			fmt.Fprintf(w, "  the key belongs to connection %s\n", c.GetConnectionId())
		}
		return
	}
	if c := d.GetStateConflict(); c != nil && !slices.Contains(c.GetAllowedStates(), c.GetCurrentState()) {
		allowed := make([]string, 0, len(c.GetAllowedStates()))
		for _, s := range c.GetAllowedStates() {
			allowed = append(allowed, state(s))
		}
		fmt.Fprintf(w, "  state: %s; possible in: %s\n", state(c.GetCurrentState()), strings.Join(allowed, ", "))
		return
	}
	names := make([]string, 0, len(d.GetMetadata()))
	for name := range d.GetMetadata() {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(w, "  %s: %s\n", name, d.GetMetadata()[name])
	}
}

func state(s fireoncev1.JobState) string {
	return strings.TrimPrefix(s.String(), "JOB_STATE_")
}
