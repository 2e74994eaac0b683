package server

import (
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Rules of this file: messages of the contract's methods are read here, and not by
// grpc-go, which knows one limit for all methods, decompresses before it asks, and
// decodes what nobody has counted. The rules are those of http_message.go.

// frames is the part of grpc-go's stream from which messages are read.
type frames interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
	RecvCompress() string
}

var errNoFrames = errors.New("the transport shows no messages")

// read reads one message into m.
func (n *native) read(ctx context.Context, spec connect.Spec, held *reservation, m any) error {
	in, ok := grpc.ServerTransportStreamFromContext(ctx).(frames)
	if !ok {
		return errNoFrames
	}
	into, ok := m.(proto.Message)
	if !ok {
		return errNoMessage
	}
	data, err := n.readMessage(ctx, spec.Procedure, in, held)
	defer func() { putBuffer(data) }()
	if f := new(fault); errors.As(err, &f) {
		n.logTurnedAway(ctx, spec.Procedure, f)
		return f.wire()
	}
	if err != nil {
		return err
	}
	if refused := n.methods[spec.Procedure].checkElements(data, false, requestID(ctx)); refused != nil {
		return refused
	}
	if readBinary(data, into) != nil {
		return invalid(false, errBinary.found).wire()
	}
	return nil
}

// readMessage reads and decompresses one message, up to its method's limit. What it
// returns is of getBuffer, also when it fails.
func (n *native) readMessage(ctx context.Context, procedure string, in frames, held *reservation) ([]byte, error) {
	var head [frameHeader]byte
	if err := in.ReadMessageHeader(head[:]); err != nil {
		return nil, fromTransport(err)
	}
	size, zipped, id := int64(binary.BigEndian.Uint32(head[1:])), head[0] == zippedFlag, requestID(ctx)
	if head[0] > zippedFlag {
		return nil, errorWithoutReason(connect.CodeInvalidArgument, fmt.Sprintf("a request has no frame of the kind %#x", head[0]), id)
	}
	if zipped && in.RecvCompress() != "gzip" {
		return nil, errorWithoutReason(connect.CodeUnimplemented, "the message is compressed, and not with gzip", id)
	}
	if f := n.tooLarge(procedure, size); f != nil {
		return nil, f
	}
	body := io.Reader(&framesBody{in: in, left: int(size)})
	if zipped {
		unzip, _ := unzippers.Get().(*gzip.Reader)
		defer unzippers.Put(unzip)
		if err := unzip.Reset(body); err != nil {
			return nil, notRead(ctx, procedure, held, err)
		}
		body, size = unzip, -1
	}
	out, err := held.readAll(ctx, getBuffer(firstReservation), body, size, func() {})
	if err != nil {
		err = notRead(ctx, procedure, held, err)
	}
	return out, err
}

// notRead is the error for a message that could not be read.
func notRead(ctx context.Context, procedure string, held *reservation, err error) error {
	switch {
	case errors.As(err, new(*fault)), errors.As(err, new(*connect.Error)):
		return err
	case errors.Is(err, errUnlimited):
		return unzipsTooLarge(procedure, int(held.limit))
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return errorWithoutReason(connect.CodeInvalidArgument, "the message is no gzip, or is damaged", requestID(ctx))
	}
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
