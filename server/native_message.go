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
// decodes what nobody has counted. The rules are those of message.go.

// frames is the part of grpc-go's stream from which messages are read.
type frames interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
	RecvCompress() string
}

var errNoFrames = errors.New("the transport shows no messages")

// read reads one message into m.
func (n *native) read(ctx context.Context, spec connect.Spec, held *holding, m any) error {
	in, ok := grpc.ServerTransportStreamFromContext(ctx).(frames)
	if !ok {
		return errNoFrames
	}
	into, ok := m.(proto.Message)
	if !ok {
		return errNoMessage
	}
	data, err := n.readMessage(ctx, spec.Procedure, in, held)
	if f := new(fault); errors.As(err, &f) {
		n.logTurnedAway(ctx, spec.Procedure, f)
		return f.wire()
	}
	if err != nil {
		return err
	}
	defer data.Free()
	message := data.ReadOnlyData()
	if refused := n.methods[spec.Procedure].count(message, false, requestID(ctx)); refused != nil {
		return refused
	}
	if err := proto.Unmarshal(message, into); err != nil {
		return plain(connect.CodeInvalidArgument, "unmarshal message: "+err.Error(), requestID(ctx))
	}
	return nil
}

// readMessage reads and decompresses one message, up to its method's limit.
func (n *native) readMessage(ctx context.Context, procedure string, in frames, held *holding) (mem.Buffer, error) {
	var head [frameHeader]byte
	if err := in.ReadMessageHeader(head[:]); err != nil {
		return nil, fromTransport(err)
	}
	size, id := int64(binary.BigEndian.Uint32(head[1:])), requestID(ctx)
	if head[0] > zippedFlag {
		return nil, plain(connect.CodeInvalidArgument, fmt.Sprintf("a request has no frame of the kind %#x", head[0]), id)
	}
	if f := n.tooLarge(procedure, size); f != nil {
		return nil, f
	}
	if err := held.growTo(ctx, size, true); err != nil {
		return nil, err
	}
	data, err := in.Read(int(size))
	if err != nil {
		return nil, fromTransport(err)
	}
	defer data.Free()
	if head[0] != zippedFlag {
		return data.MaterializeToBuffer(mem.DefaultBufferPool()), nil
	}
	if in.RecvCompress() != "gzip" {
		return nil, plain(connect.CodeUnimplemented, "the message is compressed, and not with gzip", id)
	}
	return n.unzip(ctx, procedure, data, held)
}

// unzip decompresses a message.
func (*native) unzip(ctx context.Context, procedure string, data mem.BufferSlice, held *holding) (mem.Buffer, error) {
	unzip, _ := unzippers.Get().(*gzip.Reader)
	defer unzippers.Put(unzip)
	in := data.Reader()
	defer func() { _ = in.Close() }()
	damaged := plain(connect.CodeInvalidArgument, "the message is no gzip, or is damaged", requestID(ctx))
	if unzip.Reset(in) != nil {
		return nil, damaged
	}
	out, err := held.readAll(ctx, getBuffer(firstStep), unzip, -1, func() {})
	if err == nil {
		return mem.NewBuffer(&out, ownBuffers{}), nil
	}
	putBuffer(out)
	switch f := new(fault); {
	case errors.As(err, &f):
		return nil, f
	case errors.Is(err, errUnlimited):
		return nil, unzipsTooLarge(procedure, int(held.limit))
	case ctx.Err() != nil:
		return nil, ctx.Err()
	default:
		return nil, damaged
	}
}

// ownBuffers takes our own buffers back from grpc-go's.
type ownBuffers struct{}

// Get implements mem.BufferPool.
func (ownBuffers) Get(size int) *[]byte {
	b := getBuffer(size)[:size]
	return &b
}

// Put implements mem.BufferPool.
func (ownBuffers) Put(b *[]byte) { putBuffer(*b) }

// fromTransport is the wire error for a message that did not arrive.
func fromTransport(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return connect.NewError(connect.CodeInternal, errNoRequest)
	}
	st := status.Convert(err)
	return connect.NewError(connect.Code(st.Code()), errors.New(st.Message()))
}

var errNoRequest = errors.New("the call ends before its request does")
