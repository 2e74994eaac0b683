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

// maxQuestions bounds the questions of one stream. A tool that lists and describes
// everything asks a dozen.
const maxQuestions = 30

var errQuestions = fmt.Errorf("a stream answers %d questions; open another one", maxQuestions)

// questionCounter counts the questions of one stream.
type questionCounter int

// more reports whether there may be one more.
func (a *questionCounter) more() bool {
	*a++
	return *a <= maxQuestions
}

// questionLimit bounds the questions of streams on the main port.
type questionLimit struct{}

// WrapUnary implements connect.Interceptor.
func (questionLimit) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc { return next }

// WrapStreamingClient implements connect.Interceptor.
func (questionLimit) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (questionLimit) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, &countedConn{StreamingHandlerConn: conn})
	}
}

type countedConn struct {
	connect.StreamingHandlerConn
	asks questionCounter
}

// Receive implements connect.StreamingHandlerConn.
func (c *countedConn) Receive(m any) error {
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
	asks questionCounter
}

// RecvMsg implements grpc.ServerStream.
func (s *askedStream) RecvMsg(m any) error {
	if !s.asks.more() {
		return status.Error(codes.ResourceExhausted, errQuestions.Error())
	}
	return s.ServerStream.RecvMsg(m)
}
