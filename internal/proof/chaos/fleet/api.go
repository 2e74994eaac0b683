package fleet

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/clients/go/schedulesv1/schedulesv1connect"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1/subscriptionsv1connect"
)

// API is a server's services, over Connect.
type API struct {
	Jobs          fireoncev1connect.JobServiceClient
	Connections   connectionsv1connect.ConnectionServiceClient
	Schedules     schedulesv1connect.ScheduleServiceClient
	Subscriptions subscriptionsv1connect.SubscriptionServiceClient
	Stats         adminv1connect.StatsServiceClient
}

const (
	// maxMessage bounds an answer; a page of 500 jobs is far below.
	maxMessage = 32 << 20
	idleLines  = 64
	idleFor    = 10 * time.Second // many servers come and go in a campaign
)

// Dial makes clients for a server; nothing is sent yet. Each call carries the API key;
// empty: none.
func Dial(server, key string) (*API, error) {
	if u, err := url.Parse(server); err != nil || u.Host == "" {
		return nil, errors.New("not a server's URL: " + server)
	}
	hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: idleLines, IdleConnTimeout: idleFor}}
	return NewAPI(hc, server, key), nil
}

// NewAPI makes clients that call a server by an HTTP client.
func NewAPI(hc *http.Client, server, key string) *API {
	limit, signIn := connect.WithReadMaxBytes(maxMessage), connect.WithInterceptors(bearer(key))
	return &API{
		Jobs:          fireoncev1connect.NewJobServiceClient(hc, server, limit, signIn),
		Connections:   connectionsv1connect.NewConnectionServiceClient(hc, server, limit, signIn),
		Schedules:     schedulesv1connect.NewScheduleServiceClient(hc, server, limit, signIn),
		Subscriptions: subscriptionsv1connect.NewSubscriptionServiceClient(hc, server, limit, signIn),
		Stats:         adminv1connect.NewStatsServiceClient(hc, server, limit, signIn),
	}
}

// bearer adds an API key to every call; empty: none.
type bearer string

// WrapUnary implements connect.Interceptor.
func (b bearer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		b.signs(req.Header())
		return next(ctx, req)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (b bearer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		b.signs(conn.RequestHeader())
		return conn
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (b bearer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

func (b bearer) signs(h http.Header) {
	if b != "" {
		h.Set("Authorization", "Bearer "+string(b))
	}
}

// Final reports whether repeating a call is of no use.
func Final(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeUnknown, connect.CodeInternal, connect.CodeDeadlineExceeded,
		connect.CodeAborted, connect.CodeCanceled, connect.CodeResourceExhausted:
		return false
	default:
		return true
	}
}
