package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"github.com/urfave/cli/v3"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// healthPath is the check of gRPC's health protocol, which a server answers by Connect too.
// https://github.com/grpc/grpc/blob/master/doc/health-checking.md
const healthPath = "/grpc.health.v1.Health/Check"

// Namespace returns the namespace of the server's database, from its page /status.
func (a *API) Namespace(ctx context.Context) (string, error) {
	ctx, cancel := unary(ctx)
	defer cancel()
	at := strings.TrimSuffix(a.Server, "/") + "/status"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return "", err
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return "", connect.NewError(connect.CodeUnavailable, err)
	}
	defer func() { _ = resp.Body.Close() }()
	var status struct {
		Namespace string `json:"namespace"`
	}
	switch err := json.NewDecoder(io.LimitReader(resp.Body, maxMessage)).Decode(&status); {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return "", connect.NewError(connect.CodePermissionDenied, fmt.Errorf("%s: %s", at, resp.Status))
	case resp.StatusCode != http.StatusOK || err != nil || status.Namespace == "":
		return "", connect.NewError(connect.CodeUnavailable, fmt.Errorf("%s has no namespace: %s", at, resp.Status))
	default:
		return status.Namespace, nil
	}
}

func healthCommand() *cli.Command {
	return &cli.Command{
		Name: "health", Usage: "ask whether a server takes calls; exit code 5 if not",
		Description: "For a container's health check and for scripts. It needs no API key. A server is not ready while it\n" +
			"starts, while its database cannot be reached, and while it shuts down.",
		Flags:  flags(),
		Action: action(health),
	}
}

// health asks by gRPC's health protocol, as load balancers and orchestrators do.
func health(ctx context.Context, c *call) error {
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Health.CallUnary(ctx, connect.NewRequest(&grpc_health_v1.HealthCheckRequest{}))
	if err != nil {
		return err
	}
	if c.out.json {
		if err := c.out.message(resp.Msg); err != nil {
			return err
		}
	}
	if status := resp.Msg.GetStatus(); status != grpc_health_v1.HealthCheckResponse_SERVING {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the server at %s takes no calls: %s", c.Server, status))
	}
	if !c.out.json {
		fmt.Fprintln(c.out.w, "SERVING")
	}
	return nil
}
