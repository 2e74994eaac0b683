package server

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
)

// Rules of this file: reflection needs no key, and an answer is ten thousand times its
// question, so one stream gets few.

// maxQuestions bounds the questions of one stream. A tool that lists and describes
// everything asks a dozen.
const maxQuestions = 30

var errQuestions = fmt.Errorf("a stream answers %d questions; open another one", maxQuestions)

// QuestionCounter counts the questions of one stream.
type QuestionCounter int

// Next counts a question, and fails when there are too many.
func (c *QuestionCounter) Next() error {
	if *c++; *c > maxQuestions {
		return connect.NewError(connect.CodeResourceExhausted, errQuestions)
	}
	return nil
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
	questions QuestionCounter
}

// Receive implements connect.StreamingHandlerConn.
func (c *countedConn) Receive(m any) error {
	if err := c.questions.Next(); err != nil {
		return err
	}
	return c.StreamingHandlerConn.Receive(m)
}
