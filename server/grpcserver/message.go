package grpcserver

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/fireonce/fireonce/server"
)

// Rules of this file: messages of the contract's methods are read here, and not by grpc-go, which
// knows one limit for all methods, decompresses before it asks, and decodes what nothing has
// counted.

// frames is the part of grpc-go's stream from which messages are read.
type frames interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
	RecvCompress() string
}

var errNoFrames = errors.New("the transport shows no messages")

// readMessage reads one message into m.
func readMessage(ctx context.Context, message *server.Message, m any) error {
	in, ok := grpc.ServerTransportStreamFromContext(ctx).(frames)
	if !ok {
		return errNoFrames
	}
	var head [server.FrameHeader]byte
	if err := in.ReadMessageHeader(head[:]); err != nil {
		return fromTransport(err)
	}
	return message.Read(ctx, head, in.RecvCompress() == "gzip", &framesBody{in: in, left: server.FrameSize(head)}, m)
}

// framesStep is how much of a message is taken from the transport at a time. The
// transport hands over each DATA frame as an object of its own, so a message that comes
// byte by byte costs fifty times its size until it is copied.
const framesStep = 1 << 10

// framesBody reads the rest of one message.
type framesBody struct {
	in   frames
	left int
}

// Read implements io.Reader.
func (b *framesBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	data, err := b.in.Read(min(len(p), b.left, framesStep))
	if err != nil {
		return 0, fromTransport(err)
	}
	defer data.Free()
	n := 0
	for _, part := range data {
		n += copy(p[n:], part.ReadOnlyData())
	}
	b.left -= n
	return n, nil
}

// fromTransport is the wire error for a message that did not arrive.
func fromTransport(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return connect.NewError(connect.CodeInternal, errNoRequest)
	}
	st := status.Convert(err)
	return connect.NewError(connect.Code(st.Code()), errors.New(st.Message()))
}

var errNoRequest = errors.New("the call ends before its request does")
