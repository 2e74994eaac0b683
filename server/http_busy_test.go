package server

import (
	"context"
	"errors"
	"net/http"
	"testing"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/inflight"
)

// TestBusyMayBeRepeated: on both listeners a request that finds no memory in time is refused as one
// that may be repeated.
func TestBusyMayBeRepeated(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"all protocols": (&message{request: r}).readError(inflight.ErrBusy),
		"gRPC":          (&Message{}).readError(context.Background(), inflight.ErrBusy),
	} {
		f := new(fault)
		if !errors.As(err, &f) || f.reason != fireoncev1.ErrorReason_ERROR_REASON_SERVER_BUSY || retryIn[f.reason] == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
