package fireonce

import (
	"context"

	"connectrpc.com/connect"
)

// authorizer sends an API key with every call; empty: none.
type authorizer string

func (a authorizer) bearer() string { return "Bearer " + string(a) }

// WrapUnary implements connect.Interceptor.
func (a authorizer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if a != "" {
			req.Header().Set("Authorization", a.bearer())
		}
		return next(ctx, req)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (a authorizer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		if a != "" {
			conn.RequestHeader().Set("Authorization", a.bearer())
		}
		return conn
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (a authorizer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}
