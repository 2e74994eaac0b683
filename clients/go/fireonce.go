// Package fireonce is a client of the scheduling service Fireonce.
//
//	client, err := fireonce.New("http://127.0.0.1:8080", fireonce.Options{APIKey: key})
//	...
//	made, err := client.Jobs.ScheduleJob(ctx, &fireoncev1.ScheduleJobRequest{
//		IdempotencyKey: "order-42-paid", // derived from the order, and the same for each retry
//		Connection:     &fireoncev1.ScheduleJobRequest_ConnectionKey{ConnectionKey: "orders"},
//		Payload:        payload,
//	})
//
// It adds three things to the generated code in fireoncev1: a call is repeated while it is
// unknown whether it arrived, [Detail] returns the typed cause of an error, and
// [Client.Events] follows a project's events across lost connections.
//
// The module has all generated Go code of the contract: fireoncev1 for what schedules jobs,
// schedulesv1, connectionsv1 and adminv1 for the other services ([Service]), each with Connect's
// clients and gRPC's own stubs in packages below, and connectorv1 for connectors. One program may
// use all of them, and the server has them from here. The messages carry the contract's rules: with
// buf.build/go/protovalidate, a program can check a request as the server does before it calls.
package fireonce

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
)

const (
	defaultTimeout  = 10 * time.Second
	defaultPatience = time.Minute
)

// Options configure a [Client]. The zero value calls a server without API keys.
type Options struct {
	// APIKey is sent with every call and stream. Empty: none.
	APIKey string
	// Timeout bounds one try of a call. 0: 10 s. Streams have no timeout.
	Timeout time.Duration
	// Patience bounds how long a call is repeated, and how long a lost stream is reopened
	// without success. 0: 1 min; negative: calls are not repeated.
	Patience time.Duration
	// HTTPClient makes the requests. Nil: http.DefaultClient.
	HTTPClient connect.HTTPClient
	// Connect has further options for the generated clients, for example
	// connect.WithGRPC(). Nil: the Connect protocol with binary messages.
	Connect []connect.ClientOption
}

// Client calls one server. All its methods may be called concurrently.
type Client struct {
	Jobs fireoncev1connect.JobServiceClient

	server   string
	http     connect.HTTPClient
	options  []connect.ClientOption
	patience time.Duration
}

// New returns a client of the server at an http or https URL. It makes no call.
func New(server string, o Options) (*Client, error) {
	at, err := url.Parse(server)
	switch {
	case err != nil:
		return nil, fmt.Errorf("fireonce: the server's address: %w", err)
	case at.Scheme != "http" && at.Scheme != "https" || at.Host == "":
		return nil, fmt.Errorf("fireonce: %q: must be like https://fireonce.example.org", server)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	if o.HTTPClient == nil {
		o.HTTPClient = http.DefaultClient
	}
	options := append([]connect.ClientOption{connect.WithInterceptors(
		repeater{timeout: o.Timeout, patience: o.Patience}, authorizer(o.APIKey),
	)}, o.Connect...)
	c := &Client{server: server, http: o.HTTPClient, options: options, patience: o.Patience}
	c.Jobs = Service(c, fireoncev1connect.NewJobServiceClient)
	return c, nil
}

// Service returns a client of another service of the server, which calls as c does: with its key,
// and again while it is unknown whether a call arrived.
//
//	connections := fireonce.Service(client, connectionsv1connect.NewConnectionServiceClient)
//
// A program that schedules jobs alone has none of the others' code.
func Service[T any](c *Client, newClient func(connect.HTTPClient, string, ...connect.ClientOption) T) T {
	return newClient(c.http, c.server, c.options...)
}

// Detail returns the typed cause of an error: a reason to switch on, values by name, and
// the violations of the request's fields. It returns nil for an error that did not come from
// the service, such as a lost connection.
func Detail(err error) *fireoncev1.ErrorDetail {
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return nil
	}
	for _, d := range ce.Details() {
		if v, err := d.Value(); err == nil {
			if detail, ok := v.(*fireoncev1.ErrorDetail); ok {
				return detail
			}
		}
	}
	return nil
}
