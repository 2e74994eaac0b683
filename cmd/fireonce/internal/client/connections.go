package client

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// secretVar may hold webhook secrets, one per line. Secrets never come as
// arguments: every user of a machine can read those.
const secretVar = "FIREONCE_WEBHOOK_SECRET"

// maxSecrets bounds a file of secrets, in bytes.
const maxSecrets = 4 << 10

func connectionsCommand() *cli.Command {
	return &cli.Command{
		Name: "connections", Usage: "create, show and list connections",
		Commands: []*cli.Command{
			{
				Name: "create", Usage: "create a webhook connection",
				Description: "Says whether the receiver drops a webhook-id that it has seen before. If it does, an unknown\n" +
					"outcome is settled by sending again under the same id; if not, it is never sent again on its own.\n" +
					"Secrets come from --secret-file or " + secretVar + ", one whsec_… per line, the newest first;\n" +
					"without one, webhooks are not signed.",
				Flags: flags(
					&cli.StringFlag{Name: "name", Usage: "what people call it"},
					&cli.StringFlag{Name: "receiver-dedupes", Usage: "`yes` or no", Required: true},
					&cli.DurationFlag{Name: "key-window", Usage: "with yes: for how long it remembers a webhook-id, as a `DURATION`"},
					&cli.StringFlag{Name: "secret-file", Usage: "signing secrets, from a `FILE`; - reads standard input"},
					&cli.StringFlag{Name: "key", Usage: "the idempotency `KEY` of this call; default: a new one"},
					&cli.IntFlag{Name: "max-in-flight", Usage: "jobs that are sent at one time"},
					&cli.IntFlag{Name: "max-per-minute", Usage: "starts in a minute"},
				),
				Action: action(createConnection),
			},
			{
				Name: "get", Usage: "show a connection", ArgsUsage: "CONNECTION_ID",
				Flags: flags(), Action: action(getConnection),
			},
			{
				Name: "list", Usage: "list connections, newest first",
				Flags: flags(
					&cli.IntFlag{Name: "page-size", Usage: "connections in one page, up to 500", Value: 50},
					&cli.StringFlag{Name: "page-token", Usage: "go on where a page ended"},
					&cli.BoolFlag{Name: "show-deleted", Usage: "deleted ones too"},
				),
				Action: action(listConnections),
			},
		},
	}
}

func createConnection(ctx context.Context, c *call) error {
	if err := c.noArgs(); err != nil {
		return err
	}
	req, err := connectionRequest(c.cmd)
	if err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Connections.CreateConnection(ctx, req)
	if err != nil {
		if exit.Code(err) == exit.Unavailable {
			fmt.Fprintf(c.cmd.Root().ErrWriter,
				"fireonce: the connection may or may not be stored; repeat the call with --key %s\n", req.GetIdempotencyKey())
		}
		return err
	}
	if c.out.json {
		return c.out.message(resp)
	}
	c.out.connection(resp.GetConnection())
	return nil
}

func connectionRequest(cmd *cli.Command) (*fireoncev1.CreateConnectionRequest, error) {
	settings := &fireoncev1.WebhookSettings{}
	switch cmd.String("receiver-dedupes") {
	case "yes":
		settings.ReceiverDedupes = fireoncev1.ReceiverDedupes_RECEIVER_DEDUPES_YES
		if !cmd.IsSet("key-window") {
			return nil, exit.Usagef("--receiver-dedupes yes needs --key-window: for how long does it remember a webhook-id?")
		}
		settings.KeyWindow = durationpb.New(cmd.Duration("key-window"))
	case "no":
		settings.ReceiverDedupes = fireoncev1.ReceiverDedupes_RECEIVER_DEDUPES_NO
		if cmd.IsSet("key-window") {
			return nil, exit.Usagef("--key-window goes only with --receiver-dedupes yes")
		}
	default:
		return nil, exit.Usagef("--receiver-dedupes must be yes or no; if you do not know, it is no")
	}
	key := cmd.String("key")
	if key == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
		key = id.String()
	}
	credential, err := secrets(cmd)
	if err != nil {
		return nil, err
	}
	return &fireoncev1.CreateConnectionRequest{
		IdempotencyKey: key,
		Connection: &fireoncev1.Connection{
			Connector: "webhook", DisplayName: cmd.String("name"),
			Settings: &fireoncev1.Connection_Webhook{Webhook: settings},
			Limits: &fireoncev1.ConnectionLimits{
				MaxInFlight: int32(cmd.Int("max-in-flight")), MaxPerMinute: int32(cmd.Int("max-per-minute")),
			},
		},
		Credential: credential,
	}, nil
}

// secrets reads the signing secrets; nil: there are none.
func secrets(cmd *cli.Command) (*fireoncev1.Credential, error) {
	text := os.Getenv(secretVar)
	if name := cmd.String("secret-file"); name != "" {
		data, err := readFile(cmd, name, maxSecrets)
		if err != nil {
			return nil, fmt.Errorf("--secret-file: %w", err)
		}
		text = string(data)
		if strings.TrimSpace(text) == "" {
			return nil, exit.Usagef("--secret-file: no secret in it")
		}
	}
	list := strings.Fields(text)
	if len(list) == 0 {
		return nil, nil //nolint:nilnil // no credential is a legal choice
	}
	return &fireoncev1.Credential{Kind: &fireoncev1.Credential_WebhookSecrets{
		WebhookSecrets: &fireoncev1.WebhookSecrets{Secrets: list},
	}}, nil
}

func getConnection(ctx context.Context, c *call) error {
	if c.cmd.Args().Len() != 1 {
		return exit.Usagef("name one connection by its id")
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Connections.GetConnection(ctx, &fireoncev1.GetConnectionRequest{ConnectionId: c.cmd.Args().First()})
	if err != nil {
		return err
	}
	if c.out.json {
		return c.out.message(resp)
	}
	c.out.connection(resp.GetConnection())
	return nil
}

func listConnections(ctx context.Context, c *call) error {
	if err := c.noArgs(); err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Connections.ListConnections(ctx, &fireoncev1.ListConnectionsRequest{
		PageSize: int32(c.cmd.Int("page-size")), PageToken: c.cmd.String("page-token"),
		ShowDeleted: c.cmd.Bool("show-deleted"),
	})
	if err != nil {
		return err
	}
	if c.out.json {
		return c.out.message(resp)
	}
	c.out.connections(resp.GetConnections())
	if resp.GetNextPageToken() != "" {
		c.out.line("\nThere are more: --page-token %s", resp.GetNextPageToken())
	}
	return nil
}
