package client

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"github.com/urfave/cli/v3"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// healthPath is the check of gRPC's health protocol, which a server answers by Connect too.
// https://github.com/grpc/grpc/blob/master/doc/health-checking.md
const healthPath = "/grpc.health.v1.Health/Check"

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
