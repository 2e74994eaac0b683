// Package grpcserver is the API's second listener, for gRPC alone: grpc-go's own transport
// costs less per call than net/http's HTTP/2 (see BenchmarkSubmit of package server). The methods
// are the Connect handlers, and every check, limit, error and log line around them is
// package server's. Only what this transport needs is here.
package grpcserver

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

	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1grpc"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1grpc"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1grpc"
	"github.com/fireonce/fireonce/clients/go/schedulesv1/schedulesv1connect"
	"github.com/fireonce/fireonce/clients/go/schedulesv1/schedulesv1grpc"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1/subscriptionsv1connect"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1/subscriptionsv1grpc"
	"github.com/fireonce/fireonce/server"
)

const (
	// maxHeaderBytes bounds the headers of a call. They stay in memory as long as the
	// call lasts. A key, a request id and what tracing adds need less than 2 KiB.
	maxHeaderBytes = 8 << 10
	// workers are goroutines that serve one call after the other, so that a call finds a
	// stack that has grown already. A call that finds none of them free gets a goroutine
	// of its own.
	workers = 64
	// streamWindow bounds what one call may send ahead of its reader; grpc-go takes no
	// smaller one. connWindow bounds what is on its way: grpc-go returns it when the bytes
	// have arrived, read or not. So a connection holds server.MaxCallsPerConnection times
	// the first at most. Both are fixed: windows that grow by themselves grow to 16 MiB.
	streamWindow = 64 << 10
	connWindow   = 1 << 20
	// pingsAfter is the silence after which a connection is asked for a sign of life,
	// pingAnswer the time for the answer, pingsAtMost how often clients may ask.
	pingsAfter  = 2 * time.Minute
	pingAnswer  = 20 * time.Second
	pingsAtMost = 10 * time.Second
	// MaxProbes bounds the calls of health and reflection that one connection has open at
	// a time, probeTime the time for one. Neither needs a key.
	MaxProbes = 16
	probeTime = 10 * time.Second
)

var errProbes = fmt.Errorf("a connection may have %d calls of health and reflection open at a time", MaxProbes)

// New makes a server that speaks gRPC alone, by grpc-go, with the same methods, checks, limits and
// errors as s.Handler. secure must offer the protocol "h2"; nil: connections have no TLS. At its
// end, s.Shutdown comes first, then GracefulStop.
func New(s *server.Server, secure *tls.Config) *grpc.Server {
	transport := s.Transport()
	l := &listener{Transport: transport, streaming: make(map[string]bool)}
	g := grpc.NewServer(
		grpc.InTapHandle(l.tap),
		grpc.Creds(&credentialsOfConns{secure: secure, log: transport.Log(), logged: &rate.Sometimes{Interval: handshakeLogEvery}}),
		// Of health and reflection: the messages of the contract's methods are read in
		// message.go, each up to its method's own limit.
		grpc.MaxRecvMsgSize(server.MaxProbeMessage),
		grpc.StreamInterceptor(limitQuestions),
		grpc.MaxConcurrentStreams(server.MaxCallsPerConnection),
		grpc.NumStreamWorkers(workers),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ConnectionTimeout(server.ReadHeaderTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: server.IdleTimeout, Time: pingsAfter, Timeout: pingAnswer,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsAtMost, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	)
	services := transport.Services()
	l.register(g, fireoncev1grpc.JobService_ServiceDesc, jobs{JobServiceHandler: services.Jobs, transport: transport})
	l.register(g, connectionsv1grpc.ConnectionService_ServiceDesc, connections{ConnectionServiceHandler: services.Connections})
	l.register(g, schedulesv1grpc.ScheduleService_ServiceDesc, schedules{ScheduleServiceHandler: services.Schedules})
	l.register(g, subscriptionsv1grpc.SubscriptionService_ServiceDesc, subscriptions{SubscriptionServiceHandler: services.Subscriptions})
	l.register(g, adminv1grpc.BulkService_ServiceDesc, bulk{BulkServiceHandler: services.Bulk})
	l.register(g, adminv1grpc.StatsService_ServiceDesc, stats{StatsServiceHandler: services.Stats})
	l.register(g, adminv1grpc.IncidentService_ServiceDesc, incidents{IncidentServiceHandler: services.Incidents})
	l.register(g, adminv1grpc.AccessService_ServiceDesc, access{AccessServiceHandler: services.Access})
	l.register(g, adminv1grpc.ServerService_ServiceDesc, servers{ServerServiceHandler: services.Servers})
	l.register(g, adminv1grpc.PauseService_ServiceDesc, pauses{PauseServiceHandler: services.Pauses})
	grpc_health_v1.RegisterHealthServer(g, health{checker: transport.Health()})
	reflection.Register(g)
	return g
}

// jobs, connections, schedules, subscriptions, bulk, stats, incidents, access, servers and pauses are the handlers, as grpc-go wants
// them. The
// methods are promoted, so one that is added to the contract and forgotten does not compile.
type jobs struct {
	fireoncev1grpc.UnsafeJobServiceServer
	fireoncev1connect.JobServiceHandler
	transport *server.Transport
}

type connections struct {
	connectionsv1grpc.UnsafeConnectionServiceServer
	connectionsv1connect.ConnectionServiceHandler
}

type schedules struct {
	schedulesv1grpc.UnsafeScheduleServiceServer
	schedulesv1connect.ScheduleServiceHandler
}

type subscriptions struct {
	subscriptionsv1grpc.UnsafeSubscriptionServiceServer
	subscriptionsv1connect.SubscriptionServiceHandler
}

type bulk struct {
	adminv1grpc.UnsafeBulkServiceServer
	adminv1connect.BulkServiceHandler
}

type stats struct {
	adminv1grpc.UnsafeStatsServiceServer
	adminv1connect.StatsServiceHandler
}

type incidents struct {
	adminv1grpc.UnsafeIncidentServiceServer
	adminv1connect.IncidentServiceHandler
}

type access struct {
	adminv1grpc.UnsafeAccessServiceServer
	adminv1connect.AccessServiceHandler
}

type servers struct {
	adminv1grpc.UnsafeServerServiceServer
	adminv1connect.ServerServiceHandler
}

type pauses struct {
	adminv1grpc.UnsafePauseServiceServer
	adminv1connect.PauseServiceHandler
}

// StreamJobEvents implements the RPC.
func (j jobs) StreamJobEvents(req *fireoncev1.StreamJobEventsRequest, out grpc.ServerStreamingServer[fireoncev1.StreamJobEventsResponse]) error {
	return j.transport.StreamJobEvents(out.Context(), req, eventSink{out, paceOf(out.Context())})
}

// health answers health checks as the other listener does.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
	checker grpchealth.Checker
}

// Check implements grpc_health_v1.HealthServer.
func (h health) Check(ctx context.Context, req *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	res, err := h.checker.Check(ctx, &grpchealth.CheckRequest{Service: req.GetService()})
	if err != nil {
		return nil, status.Error(codes.Code(connect.CodeOf(err)), err.Error())
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_ServingStatus(res.Status)}, nil
}

// limitQuestions bounds the questions of reflection's streams. The contract's streams take one
// message.
func limitQuestions(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, &countedStream{ServerStream: stream})
}

type countedStream struct {
	grpc.ServerStream
	questions server.QuestionCounter
}

// RecvMsg implements grpc.ServerStream.
func (s *countedStream) RecvMsg(m any) error {
	if err := s.questions.Next(); err != nil {
		return toStatus(err)
	}
	return s.ServerStream.RecvMsg(m)
}

// tap runs first, with the headers of every call. It refuses calls that must not be answered at
// all, and bounds the time of the others, the reading of the request included. It runs on the
// connection's own goroutine, so it does not wait.
func (l *listener) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	if t := first(info.Header, "content-type"); t != "application/grpc" && t != "application/grpc+proto" {
		return nil, status.Error(codes.Unimplemented, fmt.Sprintf("this port speaks gRPC with protobuf, not %q", t))
	}
	if err := l.CheckHeaders(info.Header); err != nil {
		return nil, toStatus(err)
	}
	if err := l.CheckHost(first(info.Header, ":authority")); err != nil {
		return nil, toStatus(err)
	}
	in := &inbound{requestID: first(info.Header, "x-request-id"), credentials: server.Credentials{
		Authorization: first(info.Header, "authorization"),
		Traceparent:   info.Header["traceparent"], Tracestate: info.Header["tracestate"],
	}}
	ctx = context.WithValue(ctx, keyInbound, in)
	if l.streaming[info.FullMethodName] {
		return ctx, nil // its pace bounds it
	}
	limit := l.Limits().MaxDeadline
	if !l.Serves(info.FullMethodName) {
		if limit = probeTime; !enterProbe(ctx) {
			return nil, status.Error(codes.ResourceExhausted, errProbes.Error())
		}
	} else if _, set := ctx.Deadline(); !set {
		limit = l.Limits().DefaultDeadline
	}
	// The end of the stream, however it comes, cancels this context's parent.
	ctx, in.cancel = context.WithTimeout(ctx, limit) //nolint:gosec // canceled at the end of the stream
	return ctx, nil
}

// enterProbe counts a call of health or reflection until its context ends. It reports
// whether its connection may have one more.
func enterProbe(ctx context.Context) bool {
	c := connOf(ctx)
	if c == nil {
		return true
	}
	if c.probes.Add(1) > MaxProbes {
		c.probes.Add(-1)
		return false
	}
	context.AfterFunc(ctx, func() { c.probes.Add(-1) })
	return true
}

type contextKey int

const (
	keyInbound contextKey = iota
	keyPace
)

// inbound has the headers of a call.
type inbound struct {
	requestID   string
	credentials server.Credentials
	cancel      context.CancelFunc // ends the time for the call
}

func first(header map[string][]string, name string) string {
	if v := header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}
