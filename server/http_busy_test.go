package server

import (
	"errors"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/inflight"
)

// TestBusyMayBeRepeated: on both listeners a request that finds no memory in time is refused as one
// that may be repeated.
func TestBusyMayBeRepeated(t *testing.T) {
	for name, err := range map[string]error{
		"all protocols": (&message{}).readError(t.Context(), inflight.ErrBusy),
		"gRPC":          (&Message{}).readError(t.Context(), inflight.ErrBusy),
	} {
		f := new(fault)
		if !errors.As(err, &f) || f.reason != fireoncev1.ErrorReason_ERROR_REASON_SERVER_BUSY || retryIn[f.reason] == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
