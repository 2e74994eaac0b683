package node

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/server"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/listen"
)

// Rules of this file: with --dev a first effect is one call. The server then has a receiver of its own, which
// acts once for each key, and a connection to it. Both need Dev, and exist only where nothing but this machine can
// call: without an API key, and so on loopback, and without TLS.

const (
	// tryKey is the key of the connection.
	tryKey = "try"
	// tryTime bounds the call that makes it.
	tryTime = 10 * time.Second
	// tryKeyWindow is less than the receiver remembers while it runs.
	tryKeyWindow = 24 * time.Hour
)

// tries reports whether the receiver is served.
func (c *Config) tries() bool { return c.Dev && c.Try != nil && !c.keyRequired() && !c.TLS.on() }

// receiver returns what is served at server.TryPath; nil: nothing.
func (c *Config) receiver() http.Handler {
	if !c.tries() {
		return nil
	}
	return listen.NewInbox(c.Try)
}

// offerTry makes the connection, unless it is there, and returns the call to print. A database that has another
// connection under its key keeps that one.
func (n *Node) offerTry(ctx context.Context) string {
	if !n.cfg.tries() {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	connections := connectionsv1connect.NewConnectionServiceClient(&http.Client{Transport: transport}, n.URL())
	_, err := connections.CreateConnection(ctx, &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: tryKey,
		Connection: &connectionsv1.Connection{
			Connector: "webhook", DisplayName: "For trying: the receiver of serve --dev",
			Settings: &connectionsv1.Connection_Webhook{Webhook: &connectionsv1.WebhookSettings{
				ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(tryKeyWindow),
			}},
		},
	})
	if err != nil {
		n.cfg.Log.Warn("dev: there is no connection to try", "key", tryKey, "err", err)
		return ""
	}
	return fmt.Sprintf(`try it: curl %s%s -H 'Content-Type: application/json' -d '{"idempotencyKey": "hello-1", `+
		`"connectionKey": %q, "payload": {"webhook": {"url": "%s%s", "bodyJson": {"hello": "world"}}}}'`,
		n.URL(), fireoncev1connect.JobServiceScheduleJobProcedure, tryKey, n.URL(), server.TryPath)
}
