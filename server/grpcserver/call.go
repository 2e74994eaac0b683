package grpcserver

import (
	"context"
	"errors"
	"net"

	"connectrpc.com/connect"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/server"
)

// Rules of this file: each method runs within the same steps as on the other listener, in the
// same order: request id, key, size, then the interceptors. grpc-go writes an error of its own as
// soon as a message cannot be decoded, so messages come as bytes and are decoded here.

// listener carries the methods to grpc-go.
type listener struct {
	*server.Transport
	// streaming are the methods that answer with a stream.
	streaming map[string]bool
}

// register serves the methods of a service, each within the steps.
func (l *listener) register(g *grpc.Server, desc grpc.ServiceDesc, handlers any) {
	served := desc
	served.Methods, served.Streams = nil, nil
	for _, m := range desc.Methods {
		spec := connect.Spec{Procedure: "/" + desc.ServiceName + "/" + m.MethodName, StreamType: connect.StreamTypeUnary}
		m.Handler = l.unary(spec, m.Handler)
		served.Methods = append(served.Methods, m)
	}
	for _, st := range desc.Streams {
		spec := connect.Spec{Procedure: "/" + desc.ServiceName + "/" + st.StreamName, StreamType: connect.StreamTypeServer}
		l.streaming[spec.Procedure] = true
		st.Handler = l.stream(spec, st.Handler)
		served.Streams = append(served.Streams, st)
	}
	g.RegisterService(&served, handlers)
}

func (l *listener) unary(spec connect.Spec, handler grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		ctx, err := l.admit(ctx, spec.Procedure)
		if err != nil {
			return nil, toStatus(err)
		}
		message := l.Message(ctx, spec.Procedure)
		defer message.Release()
		read := func(m any) error { return readMessage(ctx, message, m) }
		call := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return l.Call(ctx, spec, req, next)
		}
		var res any
		err = l.Contain(ctx, spec, func() (err error) {
			res, err = handler(srv, ctx, read, call)
			return err
		})
		if err != nil {
			return nil, toStatus(err)
		}
		return res, nil
	}
}

// admit identifies the caller before a byte of the request is read.
func (l *listener) admit(ctx context.Context, procedure string) (context.Context, error) {
	in, _ := ctx.Value(keyInbound).(*inbound)
	if in == nil {
		in = &inbound{} // no tap, no key
	}
	var from net.Addr
	if p, ok := peer.FromContext(ctx); ok {
		from = p.Addr
	}
	ctx, id := l.Identify(ctx, in.requestID, from)
	// Fails only when headers have been sent.
	_ = grpc.SetHeader(ctx, metadata.MD{"x-request-id": {id}})
	ctx, challenge, err := l.Admit(ctx, procedure, in.credentials)
	if challenge != "" {
		_ = grpc.SetHeader(ctx, metadata.MD{"www-authenticate": {challenge}})
	}
	return ctx, err
}

// toStatus makes grpc-go's error of a wire error, with the same details.
func toStatus(err error) error {
	var wire *connect.Error
	if !errors.As(err, &wire) {
		return err
	}
	st := &spb.Status{Code: int32(wire.Code()), Message: wire.Message()}
	for _, d := range wire.Details() {
		st.Details = append(st.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
	}
	return status.ErrorProto(st)
}

// stream serves a stream. The work runs in another goroutine than the caller's: when a send is stuck for
// too long, the return from here ends the stream, with the reason for its reader.
func (l *listener) stream(spec connect.Spec, handler grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, raw grpc.ServerStream) error {
		ctx, err := l.admit(raw.Context(), spec.Procedure)
		if err != nil {
			return toStatus(err)
		}
		p := newPace(l.Limits().MaxDeadline, l.Limits().Write)
		defer p.stop()
		return toStatus(l.Stream(ctx, spec, func(ctx context.Context) error {
			s := &serverStream{ServerStream: raw, listener: l, ctx: context.WithValue(ctx, keyPace, p), procedure: spec.Procedure}
			done := make(chan error, 1)
			go func() { done <- l.Answer(ctx, spec, func() error { return handler(srv, s) }) }()
			select {
			case err := <-done:
				return err
			case <-p.over:
				closeAfterMany(ctx)
				return server.ErrSlowReader(ctx)
			}
		}))
	}
}

// serverStream is a stream within the steps.
type serverStream struct {
	grpc.ServerStream
	listener  *listener
	ctx       context.Context //nolint:containedctx // grpc-go hands the context over in here
	procedure string
}

// Context implements grpc.ServerStream.
func (s *serverStream) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream.
func (s *serverStream) RecvMsg(m any) error {
	message := s.listener.Message(s.ctx, s.procedure)
	defer message.Release() // the stream goes on for long
	if err := readMessage(s.ctx, message, m); err != nil {
		return err
	}
	return s.listener.CheckRules(m)
}

// eventSink sends to a stream's reader.
type eventSink struct {
	out  grpc.ServerStreamingServer[fireoncev1.StreamJobEventsResponse]
	pace *pace
}

// Begin implements server.EventSink.
func (s eventSink) Begin() { s.pace.rest() }

// Send implements server.EventSink.
func (s eventSink) Send(m *fireoncev1.StreamJobEventsResponse) error {
	s.pace.start()
	defer s.pace.rest()
	return s.out.Send(m)
}
