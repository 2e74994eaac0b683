package server

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Rules of this file: reflection needs no key, and an answer is ten thousand times its
// question, so one stream gets few.

// mostQuestions bounds the questions of one stream. A tool that lists and describes
// everything asks a dozen.
const mostQuestions = 30

var errQuestions = fmt.Errorf("a stream answers %d questions; open another one", mostQuestions)

// asks counts the questions of one stream.
type asks int

// more reports whether there may be one more.
func (a *asks) more() bool {
	*a++
	return *a <= mostQuestions
}

// fewQuestions bounds the questions of streams on the main port.
type fewQuestions struct{}

// WrapUnary implements connect.Interceptor.
func (fewQuestions) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc { return next }

// WrapStreamingClient implements connect.Interceptor.
func (fewQuestions) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (fewQuestions) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, &askedConn{StreamingHandlerConn: conn})
	}
}

type askedConn struct {
	connect.StreamingHandlerConn
	asks asks
}

// Receive implements connect.StreamingHandlerConn.
func (c *askedConn) Receive(m any) error {
	if !c.asks.more() {
		return connect.NewError(connect.CodeResourceExhausted, errQuestions)
	}
	return c.StreamingHandlerConn.Receive(m)
}

// boundQuestions bounds the questions of streams on the native port. The contract's streams
// take one message.
func boundQuestions(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, &askedStream{ServerStream: stream})
}

type askedStream struct {
	grpc.ServerStream
	asks asks
}

// RecvMsg implements grpc.ServerStream.
func (s *askedStream) RecvMsg(m any) error {
	if !s.asks.more() {
		return status.Error(codes.ResourceExhausted, errQuestions.Error())
	}
	return s.ServerStream.RecvMsg(m)
}
