package fireonce

import (
	"context"
	"math/rand/v2"
	"time"

	"connectrpc.com/connect"
)

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// repeater repeats a call while it is unknown whether the call arrived. The request and its
// idempotency key stay the same, so the server treats the repeats as one call.
type repeater struct{ timeout, patience time.Duration }

// WrapUnary implements connect.Interceptor.
func (r repeater) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		again := req.Spec().IdempotencyLevel != connect.IdempotencyUnknown
		giveUp := time.Now().Add(r.patience)
		for pause := firstPause; ; pause = min(2*pause, maxPause) {
			resp, err := try(ctx, r.timeout, next, req)
			if err == nil || !again || !uncertain(ctx, err) || time.Now().After(giveUp) {
				return resp, err
			}
			if sleep(ctx, spread(pause)) != nil {
				return nil, err // the last error explains more than the end of ctx
			}
		}
	}
}

func try(ctx context.Context, timeout time.Duration, next connect.UnaryFunc, req connect.AnyRequest) (connect.AnyResponse, error) {
	ctx, done := context.WithTimeout(ctx, timeout)
	defer done()
	return next(ctx, req)
}

// uncertain reports whether the call may or may not have arrived. CANCELED is the caller's wish
// only if ctx, the caller's, has ended: connect-go v1.21 says it of a connection that was reset,
// where v1.20 says UNAVAILABLE.
func uncertain(ctx context.Context, err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeUnknown:
		return true
	case connect.CodeCanceled:
		return ctx.Err() == nil
	default:
		return false
	}
}

// WrapStreamingClient implements connect.Interceptor. [Client.Events] reopens streams.
func (r repeater) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (r repeater) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// spread returns a random part of d, so that many clients do not return at the same moment.
func spread(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1) //nolint:gosec // no secret
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
