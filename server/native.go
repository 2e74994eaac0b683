package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress, as on the other listener
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
)

// Rules of this file: the second way in, for clients of gRPC that call much.
// grpc-go's own transport costs less per call than net/http's HTTP/2 (see
// BenchmarkSubmit). It is the same API: the generated methods are those of the Connect
// handlers, and every check, limit, word and log line around them is the same
// code. What only this transport needs is here and in native_call.go.

const (
	// nativeHeaderBytes bounds the headers of a call. They stay in memory as long as the
	// call lasts. A key, a request id and what tracing adds need less than 2 KiB.
	nativeHeaderBytes = 8 << 10
	// nativeWorkers are goroutines that serve one call after the other, so that a
	// call finds a stack that has grown already. What finds none of them free gets a
	// goroutine of its own.
	nativeWorkers = 64
	// nativeStreamWindow bounds what one call may send ahead of its reader; grpc-go takes
	// no smaller one. nativeConnWindow bounds what is on its way: grpc-go gives it back
	// when the bytes have arrived, read or not. So a connection holds http2Streams times
	// the first at most. Both are fixed: windows that grow by themselves grow to 16 MiB.
	nativeStreamWindow = 64 << 10
	nativeConnWindow   = 1 << 20
	// pingsAfter is the silence after which a connection is asked for a sign of
	// life, pingAnswer the time for it, pingsAtMost how often clients may ask.
	pingsAfter  = 2 * time.Minute
	pingAnswer  = 20 * time.Second
	pingsAtMost = 10 * time.Second
	// connProbes bounds the calls of health and reflection that one connection has open at
	// a time, probeTime the time for one. Neither needs a key.
	connProbes = 16
	probeTime  = 10 * time.Second
)

var errProbes = fmt.Errorf("a connection may have %d calls of health and reflection open at a time", connProbes)

// GRPCServer makes a server that speaks gRPC alone, by grpc-go, with the same
// methods, checks, limits and errors as Handler. secure must offer the protocol "h2";
// nil: connections have no TLS. Its end: Shutdown of the Server first, then GracefulStop.
func (s *Server) GRPCServer(secure *tls.Config) *grpc.Server {
	n := newNative(s)
	g := grpc.NewServer(
		grpc.InTapHandle(n.tap),
		grpc.Creds(&nativeConns{secure: secure, log: s.log, told: &rate.Sometimes{Interval: handshakesTold}}),
		// Of health and reflection: the messages of the contract's methods are read in
		// native_message.go, each up to its method's own limit.
		grpc.MaxRecvMsgSize(maxProbeMessage),
		grpc.StreamInterceptor(boundQuestions),
		grpc.MaxConcurrentStreams(http2Streams),
		grpc.NumStreamWorkers(nativeWorkers),
		grpc.StaticStreamWindowSize(nativeStreamWindow),
		grpc.StaticConnWindowSize(nativeConnWindow),
		grpc.MaxHeaderListSize(nativeHeaderBytes),
		grpc.ConnectionTimeout(readHeaderTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: idleTimeout, Time: pingsAfter, Timeout: pingAnswer,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsAtMost, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	)
	n.register(g, fireoncev1.JobService_ServiceDesc, nativeJobs{jobService: &jobService{Server: s}})
	n.register(g, fireoncev1.ConnectionService_ServiceDesc, nativeConnections{connectionService: &connectionService{Server: s}})
	n.register(g, fireoncev1.ScheduleService_ServiceDesc, nativeSchedules{scheduleService: &scheduleService{Server: s}})
	n.register(g, fireoncev1.StatsService_ServiceDesc, nativeStats{statsService: newStatsService(s)})
	n.register(g, fireoncev1.AccessService_ServiceDesc, nativeAccess{accessService: &accessService{Server: s}})
	grpc_health_v1.RegisterHealthServer(g, nativeHealth{health: s.health})
	reflection.Register(g)
	return g
}

// nativeJobs, nativeConnections, nativeSchedules, nativeStats and nativeAccess are the
// handlers, as grpc-go wants them: the methods are promoted, so one that is added to the contract
// and forgotten here does not compile.
type nativeJobs struct {
	fireoncev1.UnsafeJobServiceServer
	*jobService
}

type nativeConnections struct {
	fireoncev1.UnsafeConnectionServiceServer
	*connectionService
}

type nativeSchedules struct {
	fireoncev1.UnsafeScheduleServiceServer
	*scheduleService
}

type nativeStats struct {
	fireoncev1.UnsafeStatsServiceServer
	*statsService
}

type nativeAccess struct {
	fireoncev1.UnsafeAccessServiceServer
	*accessService
}

// StreamJobEvents implements the RPC.
func (j nativeJobs) StreamJobEvents(req *fireoncev1.StreamJobEventsRequest, out grpc.ServerStreamingServer[fireoncev1.StreamJobEventsResponse]) error {
	return j.streamJobEvents(out.Context(), req, nativeSink{out, paceOf(out.Context())})
}

// nativeHealth answers health checks as the other listener does.
type nativeHealth struct {
	grpc_health_v1.UnimplementedHealthServer
	health *health
}

// Check implements grpc_health_v1.HealthServer.
func (h nativeHealth) Check(ctx context.Context, req *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	res, err := h.health.Check(ctx, &grpchealth.CheckRequest{Service: req.GetService()})
	if err != nil {
		return nil, status.Error(codes.Code(connect.CodeOf(err)), err.Error())
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_ServingStatus(res.Status)}, nil
}

// tap sees the headers of every call before anything else does. It turns away
// what must not be answered at all, and bounds the time of the rest, the
// reading of the request included. It runs on the connection's own goroutine, so
// it does not wait.
func (n *native) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	if host := first(info.Header, ":authority"); !n.auth.required && !hostAllowed(host, n.cfg.AllowedHosts) {
		return nil, status.Error(codes.PermissionDenied, wrongHost(host))
	}
	if t := first(info.Header, "content-type"); t != "application/grpc" && t != "application/grpc+proto" {
		return nil, status.Error(codes.Unimplemented, fmt.Sprintf("this port speaks gRPC with protobuf, not %q", t))
	}
	if lines := headerLines(info.Header); lines > maxHeaderLines {
		return nil, status.Error(codes.ResourceExhausted, tooManyHeaders(lines))
	}
	in := &inbound{requestID: first(info.Header, "x-request-id"), authorization: first(info.Header, "authorization"),
		traceparent: info.Header["traceparent"], tracestate: info.Header["tracestate"]}
	ctx = context.WithValue(ctx, keyInbound, in)
	if n.lasting[info.FullMethodName] {
		return ctx, nil // its pace bounds it
	}
	limit := n.cfg.Limits.MaxDeadline
	if _, contract := n.methods[info.FullMethodName]; !contract {
		if limit = probeTime; !enterProbe(ctx) {
			return nil, status.Error(codes.ResourceExhausted, errProbes.Error())
		}
	} else if _, set := ctx.Deadline(); !set {
		limit = n.cfg.Limits.DefaultDeadline
	}
	// The end of the stream, however it comes, cancels this context's parent.
	ctx, in.cancel = context.WithTimeout(ctx, limit) //nolint:gosec // as said: the end of the stream
	return ctx, nil
}

// enterProbe counts a call of health or reflection until its context ends. It reports
// whether its connection may have one more.
func enterProbe(ctx context.Context) bool {
	c := connOf(ctx)
	if c == nil {
		return true
	}
	if c.probes.Add(1) > connProbes {
		c.probes.Add(-1)
		return false
	}
	context.AfterFunc(ctx, func() { c.probes.Add(-1) })
	return true
}

// inbound is what the headers of a call say.
type inbound struct {
	requestID, authorization string
	traceparent, tracestate  []string
	cancel                   context.CancelFunc // ends the time for the call
}

func first(header map[string][]string, name string) string {
	if v := header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}
