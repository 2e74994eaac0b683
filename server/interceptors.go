package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1/schedulesv1connect"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the interceptors, from the outside in: panics, span, log,
// caller, deadline, the contract's rules, errors, content that is withheld. The first two are
// libraries' own.

// interceptor is an interceptor that treats unary calls and streams alike: it does
// something around the call.
type interceptor func(ctx context.Context, spec connect.Spec, next func(context.Context) error) error

// WrapUnary implements connect.Interceptor.
func (a interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (res connect.AnyResponse, err error) {
		err = a(ctx, req.Spec(), func(ctx context.Context) error {
			res, err = next(ctx, req)
			return err
		})
		if err != nil {
			return nil, err
		}
		return res, nil
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (a interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return a(ctx, conn.Spec(), func(ctx context.Context) error { return next(ctx, conn) })
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// recovered answers for a handler that panicked.
func (s *Server) recovered(ctx context.Context, spec connect.Spec, _ http.Header, cause any) error {
	s.log.ErrorContext(ctx, "panic", "request_id", requestID(ctx), "procedure", spec.Procedure,
		"cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
	wire, _ := toWire(fmt.Errorf("panic: %v", cause), requestID(ctx))
	return wire
}

// traceCalls makes the spans of calls on listeners other than Handler, where a library makes them.
func (s *Server) traceCalls(ctx context.Context, spec connect.Spec, next func(context.Context) error) error {
	ctx, end := s.cfg.Tracer.Call(ctx, spec.Procedure)
	err := next(ctx)
	end(err)
	return err
}

// logCalls writes one line per call: its procedure, duration and code, and nothing that the
// client sent.
func (s *Server) logCalls(ctx context.Context, spec connect.Spec, next func(context.Context) error) error {
	begun := time.Now()
	err := next(ctx)
	took, level, code := time.Since(begun), slog.LevelDebug, "ok"
	if err != nil {
		level, code = slog.LevelInfo, connect.CodeOf(err).String()
	}
	s.cfg.Metrics.Called(spec.Procedure, code, spec.StreamType == connect.StreamTypeUnary, took)
	if clientLeft(ctx, spec, err) {
		level = slog.LevelDebug
	}
	if !s.log.Enabled(ctx, level) {
		return err
	}
	s.log.LogAttrs(ctx, level, "call", slog.String("request_id", requestID(ctx)),
		slog.String("procedure", spec.Procedure), slog.String("code", code),
		slog.Duration("took", took))
	return err
}

// clientLeft reports whether a stream ended because its client has left: that is how a watch
// ends, and no failure.
func clientLeft(ctx context.Context, spec connect.Spec, err error) bool {
	return err != nil && spec.StreamType != connect.StreamTypeUnary && errors.Is(ctx.Err(), context.Canceled)
}

// requireCaller is the second lock behind authenticated, which has checked the key and the scope
// before the body was read. A route that was added without authenticated fails here, and so does
// an RPC that was added without its row in accessOf.
func (s *Server) requireCaller(ctx context.Context, spec connect.Spec, next func(context.Context) error) error {
	who := callerOf(ctx)
	if who.project == "" {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_INVALID, "no API key").wire()
	}
	if _, known := accessOf[spec.Procedure]; !known {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_SCOPE_MISSING, "no API key may call "+spec.Procedure).wire()
	}
	if refused := permit(who, spec.Procedure); refused != nil {
		return refused.wire()
	}
	return next(ctx)
}

// clampDeadline sets a deadline for every unary call, and bounds the steps in which it computes times. A stream has its own
// deadline.
func (s *Server) clampDeadline(ctx context.Context, spec connect.Spec, next func(context.Context) error) error {
	if spec.StreamType != connect.StreamTypeUnary {
		return next(ctx)
	}
	limit := s.cfg.Limits.MaxDeadline
	if _, set := ctx.Deadline(); !set {
		limit = s.cfg.Limits.DefaultDeadline
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if strings.HasPrefix(spec.Procedure, "/"+schedulesv1connect.ScheduleServiceName+"/") {
		ctx = recur.WithMeter(ctx, int64(s.cfg.Limits.Steps))
	}
	return next(ctx)
}

// mapErrors converts the errors of handlers to wire errors, and logs causes that a wire error
// must not contain.
func (s *Server) mapErrors(ctx context.Context, spec connect.Spec, next func(context.Context) error) error {
	err := next(ctx)
	if err == nil {
		return nil
	}
	wire, hidden := toWire(inRequest(err, spec.Procedure), requestID(ctx))
	if hidden != nil && s.causes.logs(err, s.cfg.Now()) {
		level := slog.LevelError
		if errors.Is(err, store.ErrBadText) { // the request's fault
			level = slog.LevelInfo
		}
		s.log.Log(ctx, level, "call failed", "request_id", requestID(ctx),
			"procedure", spec.Procedure, "cause", hidden.Error())
	}
	return wire
}
