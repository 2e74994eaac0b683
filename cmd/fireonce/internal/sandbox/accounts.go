package sandbox

import (
	"context"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
)

// connect makes the connections, each under the name of its fake. A repeat finds them.
func connect(ctx context.Context, api *client.API, s *Sandbox) error {
	for _, one := range s.sites {
		connection, credential := one.Connection(one.base)
		connection.DisplayName = "Sandbox: " + one.Title
		if _, err := api.Connections.CreateConnection(ctx, &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: one.Name, Connection: connection, Credential: credential,
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sandbox) site(name string) *site {
	for _, one := range s.sites {
		if one.Name == name {
			return one
		}
	}
	return nil
}
