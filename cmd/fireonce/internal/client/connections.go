package client

import (
	"context"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/internal/connector/builtin"
	"github.com/fireonce/fireonce/internal/connector/platform"
)

func connectionsCommand() *cli.Command {
	return &cli.Command{
		Name: "connections", Usage: "create, show, list and change connections",
		Commands: append(append([]*cli.Command{
			{
				Name: "create", Usage: "create a connection",
				Description: "For a webhook or an http receiver, say whether it drops a key that it has seen before. If it does, an\n" +
					"unknown outcome is settled by sending again under the same key; if not, it is never sent again on\n" +
					"its own. Secrets come from files or the environment, never as arguments: webhook signing secrets\n" +
					"from --secret-file or " + secretVar + ", one whsec_… per line, the newest first; a bearer\n" +
					"token from --token-file or " + tokenVar + "; the password of --user from\n" +
					"--password-file or " + passwordVar + "; any other kind from --credential-file, the contract's\n" +
					"Credential as JSON, e.g. for bluesky {\"basic\":{\"username\":\"ada.example.org\",\"password\":\"…\"}}.",
				Flags:  flags(slices.Concat(newConnectionFlags(anyPlatform, builtin.Platforms[0].Name), credentialFlags())...),
				Action: action(createConnection),
			},
			on("connection", "", connectionsv1connect.ConnectionServiceClient.GetConnection, showConnection, &cli.Command{
				Name: "get", Usage: "show a connection",
				Description: "CONNECTION is its id, or the key under which it was created, also by a login.",
			}),
			listConnectionsCommand(),
		}, changeCommands(settingsFlags(anyPlatform), credentialFlags())...), loginCommand()),
	}
}

// retryFields has the words of a RetryPolicy's flags.
const retryFields = "max_attempts retry-delay:WAIT=delays keep_trying"

// newConnectionFields are those of a new connection, beside its connector and what that needs.
var newConnectionFields = fieldsOf(&connectionsv1.Connection{},
	"name=display_name labels "+below("limits", "max_in_flight max_per_minute cool_down")+" "+below("retry_policy", retryFields))

// newConnectionFlags are the flags of a new connection of one of the platforms, without its credential, and
// with the default of --connector.
func newConnectionFlags(selects func(platform.Platform) bool, connector string) []cli.Flag {
	return slices.Concat([]cli.Flag{
		&cli.StringFlag{Name: "connector", Usage: "`NAME` what it sends by: " + strings.Join(builtin.Names(selects), ", ") + " or one of the server's own", Value: connector},
		&cli.StringFlag{Name: "key", Usage: "`KEY` the key by which you find the connection again, and by which a repeat of this call finds it", DefaultText: "a new one"},
	}, settingsFlags(selects), newConnectionFields.flags())
}

func listConnectionsCommand() *cli.Command {
	return asks("", fieldsOf(&connectionsv1.ListConnectionsRequest{}, connectionFilter), &cli.Command{
		Name: "list", Usage: "list connections, newest first",
		Flags: append(pageFlags("connections"), boolFlag("held", "only those on which jobs wait for a person: paused, or the credential refused")),
	}, func(ctx context.Context, c *call, req *connectionsv1.ListConnectionsRequest) error {
		if c.cmd.Bool("held") {
			if err := heldOnly(c.cmd, req); err != nil {
				return err
			}
		}
		return pages(ctx, c, c.Connections.ListConnections, req, func(page *connectionsv1.ListConnectionsResponse) {
			c.out.connections(page.GetConnections())
		})
	})
}

func createConnection(ctx context.Context, c *call) error {
	req, err := connectionRequest(c.cmd)
	if err != nil {
		return err
	}
	resp, err := Ask(ctx, c.Connections.CreateConnection, req)
	if err != nil {
		return c.tellRepeat(err, "connection", "key", req.GetIdempotencyKey())
	}
	conn := resp.GetConnection()
	if !c.cmd.IsSet("key") {
		c.tell("warning: without --key only its id names the connection, and a repeat of this call makes another one")
	}
	if p, _ := builtin.Find(conn.GetConnector()); p.LaterSecret && conn.GetCredentialFingerprint() == "" {
		c.tell("the connection has no credential yet: its jobs wait until `fireonce connections rotate` or `login` gives it one")
	}
	return printAnswer(c, resp, nil, showConnection)
}

func connectionRequest(cmd *cli.Command) (*connectionsv1.CreateConnectionRequest, error) {
	req, err := newConnection(cmd)
	if err != nil {
		return nil, err
	}
	req.Credential, err = credential(cmd)
	return req, err
}

// newConnection reads a new connection from the flags, without its credential.
func newConnection(cmd *cli.Command) (*connectionsv1.CreateConnectionRequest, error) {
	conn := &connectionsv1.Connection{Connector: cmd.String("connector")}
	if err := newConnectionFields.set(cmd, conn); err != nil {
		return nil, err
	}
	if err := setSettings(cmd, conn); err != nil {
		return nil, err
	}
	key, err := keyOrNew(cmd, "key")
	return &connectionsv1.CreateConnectionRequest{IdempotencyKey: key, Connection: conn}, err
}
