package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
)

func connectionsCommand() *cli.Command {
	return &cli.Command{
		Name: "connections", Usage: "create, show, list and change connections",
		Commands: []*cli.Command{
			{
				Name: "create", Usage: "create a connection",
				Description: "For a webhook or an http receiver, say whether it drops a key that it has seen before. If it does, an\n" +
					"unknown outcome is settled by sending again under the same key; if not, it is never sent again on\n" +
					"its own. Secrets come from files or the environment, never as arguments: webhook signing secrets\n" +
					"from --secret-file or " + secretVar + ", one whsec_… per line, the newest first; a bearer\n" +
					"token from --token-file or " + tokenVar + "; the password of --user for smtp from\n" +
					"--password-file or " + passwordVar + "; any other kind from --credential-file, the contract's\n" +
					"Credential as JSON, e.g. for bluesky {\"basic\":{\"username\":\"ada.example.org\",\"password\":\"…\"}}.",
				Flags: flags(
					&cli.StringFlag{Name: "connector", Usage: "`NAME`: webhook, http, feed, mastodon, bluesky, x, tiktok, slack, smtp, resend or one of the server's own", Value: "webhook"},
					&cli.StringFlag{Name: "name", Usage: "the `NAME` that people read"},
					&cli.StringFlag{Name: "receiver-dedupes", Usage: "an `ANSWER`: yes or no; for webhook and http; for mastodon unless the server is to be asked"},
					&cli.BoolFlag{Name: "dedupes-in-flight", Usage: "with yes: two requests with one key that it processes concurrently have one effect"},
					&duration.Flag{Name: "key-window", Usage: "with yes: for how long it remembers a key, as a `DURATION`", HideDefault: true},
					&cli.StringSliceFlag{Name: "origin", Usage: "webhook and http: a `URL` without path that jobs may address; may be repeated; needed where secrets are sent as they are"},
					&cli.StringSliceFlag{Name: "path", Usage: "http: a `PATH` that jobs may address, with a slash at its end for what is below it; may be repeated; default any"},
					&cli.StringSliceFlag{Name: "method", Usage: "http: a `METHOD` that jobs may use; may be repeated; default any"},
					&cli.StringSliceFlag{Name: "id-json-pointer", Usage: "http: a `POINTER` at which jobs may find an id in an answer, such as /id; may be repeated; default none"},
					&cli.BoolFlag{Name: "quote-answers", Usage: "webhook and http: quote answers in errors although requests carry a credential, which a receiver may repeat"},
					&cli.StringSliceFlag{Name: "keep-header", Usage: "webhook and http: a header of answers, by `NAME`, that is kept with each attempt; may be repeated"},
					&cli.IntFlag{Name: "keep-body", Usage: "webhook and http: how many `BYTES` of each answer's body are kept with the attempt; at most 16384", DefaultText: "none"},
					&cli.StringFlag{Name: "base-url", Usage: "feed, mastodon and bluesky: where its API lives, a `URL`"},
					&duration.Flag{Name: "read-lag", Usage: "feed: how long after a write a read may still miss it, as a `DURATION`", DefaultText: "the connector's"},
					&cli.StringFlag{Name: "source", Usage: "tiktok, a `WAY`: upload, or pull to have TikTok fetch files from their URLs", DefaultText: "upload"},
					&cli.StringFlag{Name: "channel", Usage: "slack: the `ID` of the conversation that posts go to"},
					&cli.BoolFlag{Name: "long-posts", Usage: "x: the account may post more than 280 characters"},
					&cli.StringFlag{Name: "host", Usage: "smtp: the relay's `NAME` or address"},
					&cli.IntFlag{Name: "port", Usage: "smtp: its `PORT`", DefaultText: "587, with tls 465"},
					&cli.StringFlag{Name: "security", Usage: "smtp, a `MODE`: starttls, tls (from the first byte) or none", Value: "starttls"},
					&cli.StringFlag{Name: "helo-name", Usage: "smtp: the `NAME` that EHLO says", DefaultText: "the server's host name"},
					&cli.StringFlag{Name: "user", Usage: "smtp: the `NAME` to log in with"},
					&cli.StringFlag{Name: "password-file", Usage: "smtp: its password, from a `FILE`; - reads standard input"},
					&cli.StringSliceFlag{Name: "setting", Usage: "a connector of the server's own: `NAME=VALUE`; may be repeated; never a secret"},
					&cli.StringFlag{Name: "secret-file", Usage: "signing secrets, from a `FILE`; - reads standard input"},
					&cli.StringFlag{Name: "token-file", Usage: "a bearer token, from a `FILE`; - reads standard input"},
					&cli.StringFlag{Name: "credential-file", Usage: "a credential of any kind as JSON, from a `FILE`; - reads standard input"},
					&cli.StringFlag{Name: "key", Usage: "the `KEY` by which you find the connection again, and by which a repeat of this call finds it; default: a new one"},
					&cli.StringSliceFlag{Name: "label", Usage: "`NAME=VALUE`, to find it by; may be repeated"},
					&cli.IntFlag{Name: "max-in-flight", Usage: "the `NUMBER` of jobs that are sent at one time", DefaultText: "100"},
					&cli.IntFlag{Name: "max-per-minute", Usage: "the `NUMBER` of starts in a minute", DefaultText: "no limit"},
					&duration.Flag{Name: "cool-down", Usage: "at most one effect per `DURATION`, up to 31d", DefaultText: "no limit"},
				),
				Action: action(createConnection),
			},
			{
				Name: "get", Usage: "show a connection", ArgsUsage: "CONNECTION",
				Description: "CONNECTION is its id, or the key under which it was created, also by a login.",
				Flags:       flags(connectionKeyFlag()), Action: action(getConnection),
			},
			{
				Name: "list", Usage: "list connections, newest first",
				Flags: flags(append(pageFlags("connections"),
					&cli.BoolFlag{Name: "show-deleted", Usage: "deleted ones too"},
					&cli.BoolFlag{Name: "held", Usage: "only those on which jobs wait for a person: paused, or the credential refused"},
					&cli.StringSliceFlag{Name: "state", Usage: "only those in this `STATE`, e.g. auth-hold; may be repeated"},
					&cli.StringSliceFlag{Name: "connector", Usage: "only those of the connector with this `NAME`; may be repeated"},
					&cli.StringSliceFlag{Name: "label", Usage: "only those with `NAME=VALUE`; may be repeated, all must match"},
					&cli.StringFlag{Name: "account", Usage: "only those of this account, as the platform `NAMES` it"},
					&cli.StringFlag{Name: "text", Usage: "only those with this `TEXT` in their name, account or key"},
					&cli.StringFlag{Name: "expires-before", Usage: "only those whose credential ends before this RFC 3339 `TIME`"},
				)...),
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
		if maybeStored(err) {
			fmt.Fprintf(c.cmd.Root().ErrWriter,
				"fireonce: the connection may or may not be stored; repeat the call with --key %s\n", req.GetIdempotencyKey())
		}
		return err
	}
	if conn := resp.GetConnection(); conn.GetCredentialFingerprint() == "" && slices.Contains(tokenNeeded, conn.GetConnector()) {
		fmt.Fprintln(c.cmd.Root().ErrWriter, "fireonce: the connection has no credential yet: its jobs wait until `fireonce connections rotate` or `login` gives it one")
	}
	if c.out.json {
		return c.out.message(resp)
	}
	c.out.connection(resp.GetConnection())
	return nil
}

// tokenNeeded are the connectors that can do nothing without a credential and take a
// connection that has none: it may come later.
var tokenNeeded = []string{"resend", "slack", "x"}

func connectionRequest(cmd *cli.Command) (*fireoncev1.CreateConnectionRequest, error) {
	req, err := newConnection(cmd)
	if err != nil {
		return nil, err
	}
	req.Credential, err = credential(cmd)
	return req, err
}

// newConnection reads what a new connection is to be, but for its credential.
func newConnection(cmd *cli.Command) (*fireoncev1.CreateConnectionRequest, error) {
	conn := &fireoncev1.Connection{
		Connector: cmd.String("connector"), DisplayName: cmd.String("name"),
		Limits: &fireoncev1.ConnectionLimits{
			MaxInFlight: int32(cmd.Int("max-in-flight")), MaxPerMinute: int32(cmd.Int("max-per-minute")),
		},
	}
	if d := cmd.Duration("cool-down"); d != 0 {
		conn.Limits.CoolDown = durationpb.New(d)
	}
	if err := setSettings(cmd, conn); err != nil {
		return nil, err
	}
	var err error
	if conn.Labels, err = labels(cmd); err != nil {
		return nil, err
	}
	key := cmd.String("key")
	if key == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
		key = id.String()
	}
	return &fireoncev1.CreateConnectionRequest{IdempotencyKey: key, Connection: conn}, nil
}

func getConnection(ctx context.Context, c *call) error {
	req, err := ofConnection(c, &fireoncev1.GetConnectionRequest{})
	if err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Connections.GetConnection(ctx, req)
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
	filter, err := connectionFilter(c.cmd)
	if err != nil {
		return err
	}
	filter.ShowDeleted = c.cmd.Bool("show-deleted")
	return pages(ctx, c, func(ctx context.Context, token string) (*fireoncev1.ListConnectionsResponse, error) {
		return c.Connections.ListConnections(ctx, &fireoncev1.ListConnectionsRequest{Filter: filter, PageSize: pageSize(c.cmd), PageToken: token})
	}, func(page *fireoncev1.ListConnectionsResponse) { c.out.connections(page.GetConnections()) })
}
