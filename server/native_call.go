package server

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/tracing"
)

// Rules of this file: around each method of the native listener goes what goes
// around it on the other one, in the same order: request id, key, size, then the
// interceptors. grpc-go writes an error of its own as soon as a message cannot
// be taken apart, so messages come as bytes and are taken apart here.

// native carries the methods to grpc-go.
type native struct {
	*Server
	around interceptor // the interceptors outside of the contract's rules
	errors interceptor // the one inside
	// lasting are the methods that answer with a stream.
	lasting map[string]bool
}

func newNative(s *Server) *native {
	// Without clampDeadline: tap has done that.
	outside := []interceptor{s.logCalls(), s.requireCaller()}
	if s.cfg.Tracer != nil {
		outside = append([]interceptor{s.traceCalls()}, outside...)
	}
	return &native{Server: s, lasting: make(map[string]bool), around: compose(outside...), errors: s.mapErrors()}
}

// compose makes one interceptor of several, the outermost first.
func compose(all ...interceptor) interceptor {
	return func(ctx context.Context, spec connect.Spec, next func(context.Context) error) error {
		if len(all) == 0 {
			return next(ctx)
		}
		return all[0](ctx, spec, func(ctx context.Context) error { return compose(all[1:]...)(ctx, spec, next) })
	}
}

// register serves the methods of a service, each in its surroundings.
func (n *native) register(g *grpc.Server, desc grpc.ServiceDesc, handlers any) {
	served := desc
	served.Methods, served.Streams = nil, nil
	for _, m := range desc.Methods {
		spec := connect.Spec{Procedure: "/" + desc.ServiceName + "/" + m.MethodName, StreamType: connect.StreamTypeUnary}
		m.Handler = n.unary(spec, m.Handler)
		served.Methods = append(served.Methods, m)
	}
	for _, st := range desc.Streams {
		spec := connect.Spec{Procedure: "/" + desc.ServiceName + "/" + st.StreamName, StreamType: connect.StreamTypeServer}
		n.lasting[spec.Procedure] = true
		st.Handler = n.stream(spec, st.Handler)
		served.Streams = append(served.Streams, st)
	}
	g.RegisterService(&served, handlers)
}

func (n *native) unary(spec connect.Spec, handler grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		ctx, err := n.admit(ctx, spec)
		if err != nil {
			return nil, toStatus(err)
		}
		held := n.budget.reserve(callerOf(ctx).project, n.maxRequest(spec.Procedure))
		defer held.Release()
		read := func(m any) error { return n.read(ctx, spec, held, m) }
		call := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (res any, err error) {
			err = n.around(ctx, spec, func(ctx context.Context) error {
				if err := n.checkRules(req); err != nil {
					return err
				}
				return n.errors(ctx, spec, func(ctx context.Context) error {
					if res, err = next(ctx, req); err == nil {
						withhold(callerOf(ctx), spec.Procedure, res)
					}
					return err
				})
			})
			return res, err
		}
		var res any
		err = n.contained(ctx, spec, func() (err error) {
			res, err = handler(srv, ctx, read, call)
			return err
		})
		if err != nil {
			return nil, toStatus(err)
		}
		return res, nil
	}
}

// contained answers for what panics.
func (n *native) contained(ctx context.Context, spec connect.Spec, fn func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = n.recovered(ctx, spec, http.Header(nil), cause)
		}
	}()
	return fn()
}

// admit is what comes before a byte of the request is looked at.
func (n *native) admit(ctx context.Context, spec connect.Spec) (context.Context, error) {
	in, _ := ctx.Value(keyInbound).(*inbound)
	if in == nil {
		in = &inbound{} // no tap, no key
	}
	id := in.requestID
	if !validRequestID(id) {
		id = newID().String()
	}
	ctx = context.WithValue(ctx, keyRequestID, id)
	if p, ok := peer.FromContext(ctx); ok {
		ctx = withPeer(ctx, p.Addr)
	}
	// Fails only when headers have been sent.
	_ = grpc.SetHeader(ctx, metadata.MD{"x-request-id": {id}})
	who, refused := n.auth.admitted(ctx, in.authorization, spec.Procedure)
	if refused != nil {
		if refused.reason == fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_INVALID {
			_ = grpc.SetHeader(ctx, metadata.MD{"www-authenticate": {realm}})
		}
		n.logTurnedAway(ctx, spec.Procedure, refused)
		return ctx, refused.wire()
	}
	return tracing.Extract(context.WithValue(ctx, keyCaller, who), in.traceparent, in.tracestate), nil
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

// stream serves a stream. The work is done beside the caller's goroutine: when
// a send is stuck for too long, the return from here is what ends it, and what
// tells the reader why.
func (n *native) stream(spec connect.Spec, handler grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, raw grpc.ServerStream) error {
		ctx, err := n.admit(raw.Context(), spec)
		if err != nil {
			return toStatus(err)
		}
		p := newPace(n.cfg.Limits.MaxDeadline, n.cfg.Limits.Write)
		defer p.stop()
		return toStatus(n.around(ctx, spec, func(ctx context.Context) error {
			s := &nativeStream{ServerStream: raw, native: n, ctx: context.WithValue(ctx, keyPace, p), spec: spec}
			done := make(chan error, 1)
			go func() {
				done <- n.errors(ctx, spec, func(context.Context) error {
					return n.contained(ctx, spec, func() error { return handler(srv, s) })
				})
			}()
			select {
			case err := <-done:
				return err
			case <-p.over:
				closeAfterMany(ctx)
				return tooSlow(requestID(ctx))
			}
		}))
	}
}

// nativeStream is a stream in its surroundings.
type nativeStream struct {
	grpc.ServerStream
	*native
	ctx  context.Context //nolint:containedctx // grpc-go hands the context over in here
	spec connect.Spec
}

// Context implements grpc.ServerStream.
func (s *nativeStream) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream.
func (s *nativeStream) RecvMsg(m any) error {
	held := s.budget.reserve(callerOf(s.ctx).project, s.maxRequest(s.spec.Procedure))
	defer held.Release() // the stream goes on for long
	if err := s.read(s.ctx, s.spec, held, m); err != nil {
		return err
	}
	return s.checkRules(m)
}

// nativeSink sends to a stream's reader.
type nativeSink struct {
	out  grpc.ServerStreamingServer[fireoncev1.StreamJobEventsResponse]
	pace *pace
}

func (s nativeSink) begin() { s.pace.rest() }

func (s nativeSink) send(m *fireoncev1.StreamJobEventsResponse) error {
	s.pace.start()
	defer s.pace.rest()
	return s.out.Send(m)
}
