package server

import (
	"net/http"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"github.com/rs/cors"

	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/clients/go/schedulesv1/schedulesv1connect"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1/subscriptionsv1connect"
	"github.com/fireonce/fireonce/internal/oauth"
	"github.com/fireonce/fireonce/server/wire"
)

const (
	// ReadHeaderTimeout bounds the time until a request's headers are read.
	ReadHeaderTimeout = 10 * time.Second
	// IdleTimeout closes connections that make no call.
	IdleTimeout = 3 * time.Minute
	// maxHeaderBytes bounds a request's headers, its URL included. The longest lawful GET
	// has half of it.
	maxHeaderBytes = 32 << 10
	// MaxProbeMessage bounds a message of health and reflection, which need no key.
	MaxProbeMessage = 4 << 10
	// MaxCallsPerConnection bounds the calls of one HTTP/2 connection at a time, on each listener;
	// http2Window what they may send ahead of the reader, together, on the main one.
	MaxCallsPerConnection = 250
	http2Window           = 256 << 10
	// compressFrom is the size of an answer that is worth compressing. Clients of
	// Connect accept gzip by themselves, and below a few packets it costs more
	// time than it saves.
	compressFrom = 4 << 10
	// corsMaxAge is how long browsers may keep the answer to a preflight.
	corsMaxAge = 2 * time.Hour
)

// TryPath is the path of Config.Try.
const TryPath = "/try"

// services are the names that health and reflection tell about.
var services = []string{
	fireoncev1connect.JobServiceName, schedulesv1connect.ScheduleServiceName, connectionsv1connect.ConnectionServiceName,
	adminv1connect.BulkServiceName, adminv1connect.StatsServiceName, adminv1connect.IncidentServiceName, adminv1connect.AccessServiceName,
	adminv1connect.ServerServiceName, adminv1connect.PauseServiceName, subscriptionsv1connect.SubscriptionServiceName,
}

// HTTPServer makes the server for the address: see NewHTTPServer.
func (s *Server) HTTPServer(addr string) *http.Server { return NewHTTPServer(addr, s.handler) }

// NewHTTPServer makes a server for the address: HTTP/1.1 and HTTP/2 on one port,
// with and without TLS. It has no write timeout, because that would cut event
// streams; each message of a stream has a deadline of its own.
func NewHTTPServer(addr string, handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Addr: addr, Handler: handler, Protocols: protocols,
		ReadHeaderTimeout: ReadHeaderTimeout, IdleTimeout: IdleTimeout, MaxHeaderBytes: maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: MaxCallsPerConnection, MaxReceiveBufferPerConnection: http2Window, MaxReceiveBufferPerStream: http2Window,
		},
	}
}

// routes puts the parts together. From the outside in: headers, time, Host check, CORS,
// request id, the lines of JSON; then, for the API alone, the site, the key before a byte of the body is
// read, the message (http_message.go), and the interceptors.
func (s *Server) routes() (http.Handler, error) {
	options := []connect.HandlerOption{
		connect.WithRecover(s.recovered),
		connect.WithInterceptors(s.cfg.Tracer.Interceptors()...),
		connect.WithInterceptors(
			interceptor(s.logCalls), interceptor(s.requireCaller), interceptor(s.clampDeadline),
			ruleChecker{s}, interceptor(s.mapErrors), connect.UnaryInterceptorFunc(withholding),
		),
		connect.WithConditionalHandlerOptions(func(spec connect.Spec) []connect.HandlerOption {
			return []connect.HandlerOption{connect.WithReadMaxBytes(s.maxRequest(spec.Procedure))}
		}),
		connect.WithCompressMinBytes(compressFrom),
	}
	for _, codec := range wire.Codecs() {
		options = append(options, connect.WithCodec(codec))
	}
	mux := http.NewServeMux()
	api := func(path string, h http.Handler) {
		mux.Handle(path, protected(s.checkSite(s.authenticated(s.withMessage(h)))))
	}
	api(fireoncev1connect.NewJobServiceHandler(s.services.Jobs, options...))
	api(connectionsv1connect.NewConnectionServiceHandler(s.services.Connections, options...))
	api(schedulesv1connect.NewScheduleServiceHandler(s.services.Schedules, options...))
	api(subscriptionsv1connect.NewSubscriptionServiceHandler(s.services.Subscriptions, options...))
	api(adminv1connect.NewBulkServiceHandler(s.services.Bulk, options...))
	api(adminv1connect.NewStatsServiceHandler(s.services.Stats, options...))
	api(adminv1connect.NewIncidentServiceHandler(s.services.Incidents, options...))
	api(adminv1connect.NewAccessServiceHandler(s.services.Access, options...))
	api(adminv1connect.NewServerServiceHandler(s.services.Servers, options...))
	api(adminv1connect.NewPauseServiceHandler(s.services.Pauses, options...))
	small, few := connect.WithReadMaxBytes(MaxProbeMessage), connect.WithInterceptors(questionLimit{})
	probe := func(path string, h http.Handler) { mux.Handle(path, protected(s.checkSite(refuseCompressed(h)))) }
	probe(grpchealth.NewHandler(s.health, small))
	reflector := grpcreflect.NewStaticReflector(append(services, grpchealth.HealthV1ServiceName)...)
	probe(grpcreflect.NewHandlerV1(reflector, small, few))
	probe(grpcreflect.NewHandlerV1Alpha(reflector, small, few))
	dashboard, err := newDashboard(s.cfg)
	if err != nil {
		return nil, err
	}
	mux.Handle("GET /{$}", dashboard.orElse(http.HandlerFunc(s.landing)))
	mux.Handle("/", dashboard.orElse(protected(http.HandlerFunc(s.noSuchPath))))
	if dashboard != nil {
		mux.Handle(SessionPath, protected(s.checkSite(s.sessions)))
	}
	if s.cfg.Try != nil && !s.auth.required {
		mux.Handle(TryPath, protected(s.checkSite(s.cfg.Try)))
	}
	connections := &connectionService{Server: s}
	mux.HandleFunc("GET "+oauth.StartPath, connections.browserHandler(connections.oauthStart))
	mux.HandleFunc("GET "+oauth.CallbackPath+"{app}", connections.browserHandler(connections.oauthCallback))
	mux.HandleFunc("POST "+oauth.CallbackPath+"{app}", connections.browserHandler(connections.oauthCallback))
	mux.Handle("GET "+statusPath, protected(s.checkSite(s.authenticated(http.HandlerFunc(s.status)))))
	return limitHeaders(s.withDeadlines(s.checkHost(s.cors(withRequestID(indentForPeople(s.below(mux))))))), nil
}

// maxRequest is the size of a request that a procedure reads.
func (s *Server) maxRequest(procedure string) int {
	if procedure == fireoncev1connect.JobServiceBatchScheduleJobsProcedure {
		return s.cfg.Limits.Batch
	}
	return s.cfg.Limits.Request
}

// cors lets browsers call from the origins that are listed, and from no other.
func (s *Server) cors(next http.Handler) http.Handler {
	if len(s.cfg.AllowedOrigins) == 0 {
		return next
	}
	return cors.New(cors.Options{
		AllowedOrigins: s.cfg.AllowedOrigins,
		AllowedMethods: []string{http.MethodGet, http.MethodPost},
		AllowedHeaders: []string{
			"Authorization", "Content-Type", "Connect-Protocol-Version", "Connect-Timeout-Ms",
			"Grpc-Timeout", "X-Grpc-Web", "X-User-Agent", requestIDHeader,
			// What OpenTelemetry adds in browsers.
			"Traceparent", "Tracestate", "Baggage",
		},
		ExposedHeaders: []string{"Grpc-Status", "Grpc-Message", "Grpc-Status-Details-Bin", requestIDHeader},
		MaxAge:         int(corsMaxAge.Seconds()),
	}).Handler(next)
}
