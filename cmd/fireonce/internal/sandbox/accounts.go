package sandbox

import (
	"context"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/node"
	"github.com/fireonce/fireonce/internal/connector/builtin/fakes"
	"github.com/fireonce/fireonce/internal/connector/platform/fake"
)

// connect makes the connections, each under the name of its fake. A repeat finds them.
func connect(ctx context.Context, api *client.API, s *Sandbox) error {
	for _, one := range s.sites {
		connection, credential := one.Connection(one.base)
		connection.DisplayName = "Sandbox: " + one.Title
		if _, err := api.Connections.CreateConnection(ctx, &fireoncev1.CreateConnectionRequest{
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

// sites makes the fakes, in the order of the page and of their ports.
func sites() []*site {
	var out []*site
	for _, f := range fakes.Fakes {
		out = append(out, newSite(f))
	}
	return out
}

func newSite(f fake.Fake) *site {
	s := &site{Fake: f, faults: overHTTP}
	if f.New == nil { // the relay, which starts at its port
		s.faults, s.made.List = overSMTP, func() []fake.Thing { return nil }
		return s
	}
	s.made = f.New(fake.Host{Now: s.now, Refuse: s.refusal, LimitFor: limitFor, Work: sandboxWork, UploadLife: node.SandboxUploadLife})
	return s
}
