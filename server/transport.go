package server

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/clients/go/schedulesv1/schedulesv1connect"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1/subscriptionsv1connect"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/server/wire"
)

// Rules of this file: what a listener other than Handler needs to answer the same API. The steps are
// those of Handler: headers, host, request id, key, size, then the interceptors. Every check, limit,
// error and log line is the same code.

// Services are the handlers of the API's services.
type Services struct {
	Jobs          fireoncev1connect.JobServiceHandler
	Connections   connectionsv1connect.ConnectionServiceHandler
	Schedules     schedulesv1connect.ScheduleServiceHandler
	Subscriptions subscriptionsv1connect.SubscriptionServiceHandler
	Bulk          adminv1connect.BulkServiceHandler
	Stats         adminv1connect.StatsServiceHandler
	Incidents     adminv1connect.IncidentServiceHandler
	Access        adminv1connect.AccessServiceHandler
	Servers       adminv1connect.ServerServiceHandler
	Pauses        adminv1connect.PauseServiceHandler
}

// Transport serves the API over a transport of its own: grpcserver's.
type Transport struct {
	server  *Server
	jobs    *jobService
	outside interceptor // the interceptors outside of the contract's rules
	errors  interceptor // the one inside
}

// Transport returns what a listener other than Handler is made of. Such a listener bounds the time of
// calls itself, by Limits.
func (s *Server) Transport() *Transport {
	outside := []interceptor{s.logCalls, s.requireCaller}
	if s.cfg.Tracer != nil {
		outside = append([]interceptor{s.traceCalls}, outside...)
	}
	return &Transport{server: s, jobs: &jobService{Server: s}, outside: compose(outside...), errors: s.mapErrors}
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

// Services returns the handlers. Their calls go through Call and Stream.
func (t *Transport) Services() Services { return t.server.services }

// Limits returns the limits of calls, with their defaults.
func (t *Transport) Limits() Limits { return t.server.cfg.Limits }

// Log returns the log of the server.
func (t *Transport) Log() *slog.Logger { return t.server.log }

// Health answers health checks.
func (t *Transport) Health() grpchealth.Checker { return t.server.health }

// Serves reports whether a procedure is one of the contract. Others are health and reflection.
func (t *Transport) Serves(procedure string) bool {
	_, contract := t.server.methods[procedure]
	return contract
}

// CheckHost refuses a host that a server without a key does not answer to.
func (t *Transport) CheckHost(host string) error {
	if t.server.auth.required || hostAllowed(host, t.server.cfg.AllowedHosts) {
		return nil
	}
	return connect.NewError(connect.CodePermissionDenied, errors.New(wrongHost(host)))
}

// CheckHeaders refuses a flood of headers.
func (t *Transport) CheckHeaders(header map[string][]string) error {
	if lines := headerLines(header); lines > maxHeaderLines {
		return connect.NewError(connect.CodeResourceExhausted, errors.New(tooManyHeaders(lines)))
	}
	return nil
}

// Identify returns a context that knows the id and the peer of a call, and the id: the client's
// own where it is fit.
func (t *Transport) Identify(ctx context.Context, id string, peer net.Addr) (context.Context, string) {
	if !validRequestID(id) {
		id = newID().String()
	}
	ctx = context.WithValue(ctx, keyRequestID, id)
	if peer != nil {
		ctx = withPeer(ctx, peer)
	}
	return ctx, id
}

// Credentials are the headers by which a caller is known, and its trace continued.
type Credentials struct {
	Authorization           string
	Traceparent, Tracestate []string
}

// Admit returns a context that knows the caller, before a byte of the request is read. It refuses a
// caller that is not known, or may not make the call; challenge is then the value of the header
// WWW-Authenticate, or empty.
func (t *Transport) Admit(ctx context.Context, procedure string, c Credentials) (_ context.Context, challenge string, _ error) {
	who, refused := t.server.auth.admitted(ctx, c.Authorization, procedure)
	if refused != nil {
		if refused.reason == fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_INVALID {
			challenge = realm
		}
		t.server.logTurnedAway(ctx, procedure, refused)
		return ctx, challenge, refused.wire()
	}
	return tracing.Extract(context.WithValue(ctx, keyCaller, who), c.Traceparent, c.Tracestate), "", nil
}

// Call makes a unary call of an admitted caller: handle is called within the interceptors.
func (t *Transport) Call(ctx context.Context, spec connect.Spec, req any, handle func(ctx context.Context, req any) (any, error)) (res any, err error) {
	err = t.outside(ctx, spec, func(ctx context.Context) error {
		if err := t.server.checkRules(req); err != nil {
			return err
		}
		return t.errors(ctx, spec, func(ctx context.Context) error {
			if res, err = handle(ctx, req); err == nil {
				withhold(callerOf(ctx), spec.Procedure, res)
			}
			return err
		})
	})
	return res, err
}

// Stream makes a streaming call of an admitted caller: serve is called within the interceptors, and
// calls Answer.
func (t *Transport) Stream(ctx context.Context, spec connect.Spec, serve func(context.Context) error) error {
	return t.outside(ctx, spec, serve)
}

// Answer calls the handler of a stream, and returns the wire error of what it fails with.
func (t *Transport) Answer(ctx context.Context, spec connect.Spec, handle func() error) error {
	return t.errors(ctx, spec, func(context.Context) error { return t.Contain(ctx, spec, handle) })
}

// Contain calls fn, and returns an error if it panics.
func (t *Transport) Contain(ctx context.Context, spec connect.Spec, fn func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = t.server.recovered(ctx, spec, http.Header(nil), cause)
		}
	}()
	return fn()
}

// CheckRules refuses a stream's request that breaks the contract's rules. Call does it itself.
func (t *Transport) CheckRules(req any) error { return t.server.checkRules(req) }

// EventSink sends events to a stream's reader.
type EventSink interface {
	// Begin is called when the request has been read: each Send has its own time now.
	Begin()
	// Send sends one message, in bounded time.
	Send(m *fireoncev1.StreamJobEventsResponse) error
}

// StreamJobEvents serves the RPC.
func (t *Transport) StreamJobEvents(ctx context.Context, req *fireoncev1.StreamJobEventsRequest, out EventSink) error {
	return t.jobs.streamJobEvents(ctx, req, out)
}

// ErrSlowReader returns the error that ends a stream whose reader takes nothing.
func ErrSlowReader(ctx context.Context) error { return tooSlow(requestID(ctx)) }

// Message is the message of one call, and the bytes of memory that it holds.
type Message struct {
	server    *Server
	procedure string
	held      *wire.Reservation
}

// Message returns a message that holds nothing yet, of an admitted caller. Release follows.
func (t *Transport) Message(ctx context.Context, procedure string) *Message {
	return t.server.message(ctx, procedure)
}

func (s *Server) message(ctx context.Context, procedure string) *Message {
	return &Message{server: s, procedure: procedure, held: s.budget.Reserve(callerOf(ctx).project, s.maxRequest(procedure))}
}

// Release returns the memory that the message holds.
func (m *Message) Release() { m.held.Release() }

// FrameHeader is the length of what precedes a message in gRPC: a byte of flags and the size.
const FrameHeader = frameHeader

// FrameSize returns the size of the message that a frame's header announces.
func FrameSize(head [FrameHeader]byte) int { return int(binary.BigEndian.Uint32(head[1:])) }

// Read reads the message of a frame, and decodes it into m. body has as many bytes as the header
// announces, and fails with *connect.Error or as the transport does; zip reports whether the headers state
// that compressed messages are gzip.
func (m *Message) Read(ctx context.Context, head [FrameHeader]byte, zip bool, body io.Reader, into any) error {
	decoded, ok := into.(proto.Message)
	if !ok {
		return wire.ErrNoMessage
	}
	data, err := m.readFrame(ctx, head, zip, body)
	defer func() { wire.PutBuffer(data) }()
	if f := new(fault); errors.As(err, &f) {
		m.server.logTurnedAway(ctx, m.procedure, f)
		return f.wire()
	}
	if err != nil {
		return err
	}
	if refused := checkElements(m.server.methods[m.procedure], data, false); refused != nil {
		return refused
	}
	if wire.ReadBinary(data, decoded) != nil {
		return invalid(false, wire.ErrBinary.Found).wire()
	}
	return nil
}

// readFrame reads and decompresses one message, up to its method's limit. What it returns is of
// wire.GetBuffer, also when it fails.
func (m *Message) readFrame(ctx context.Context, head [FrameHeader]byte, zip bool, body io.Reader) ([]byte, error) {
	size, zipped, err := m.server.frameSize(ctx, m.procedure, head, zip) // grpc-go has refused any other compression
	if err != nil {
		return nil, err
	}
	return m.readAll(ctx, wire.GetBuffer(wire.FirstReservation), body, size, zipped, func() {})
}
