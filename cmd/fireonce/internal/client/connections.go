package client

import (
	"context"
	"strings"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/builtin"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
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
				Flags: flags(append(append([]cli.Flag{
					&cli.StringFlag{Name: "connector", Usage: "`NAME`: " + strings.Join(builtin.Names(anyPlatform), ", ") + " or one of the server's own", Value: builtin.Platforms[0].Name},
					textFlag("name", "the `NAME` that people read"),
					textFlag("key", "the `KEY` by which you find the connection again, and by which a repeat of this call finds it; default: a new one"),
					textsFlag("label", "`NAME=VALUE`, to find it by; may be repeated"),
				}, append(append(limitFlags("32", "no limit"), retryFlags("5; webhook 12", "30s, 2m, 8m, 32m, 1h; webhook from 2s to 8h", "2h; webhook 1d")...), settingsFlags(anyPlatform)...)...), credentialFlags()...)...),
				Action: action(createConnection),
			},
			{
				Name: "get", Usage: "show a connection", ArgsUsage: "CONNECTION",
				Description: "CONNECTION is its id, or the key under which it was created, also by a login.",
				Flags:       flags(keyFlag("connection")),
				Action: action(func(ctx context.Context, c *call) error {
					return callOn(ctx, c, "connection", c.Connections.GetConnection, &connectionsv1.GetConnectionRequest{}, showConnection)
				}),
			},
			{
				Name: "list", Usage: "list connections, newest first",
				Flags: flags(append(pageFlags("connections"),
					boolFlag("show-deleted", "deleted ones too"),
					boolFlag("held", "only those on which jobs wait for a person: paused, or the credential refused"),
					textsFlag("state", "only those in this `STATE`, e.g. auth-hold; may be repeated"),
					textsFlag("connector", "only those of the connector with this `NAME`; may be repeated"),
					textsFlag("label", "only those with `NAME=VALUE`; may be repeated, all must match"),
					textFlag("account", "only those of this account, as the platform `NAMES` it"),
					textFlag("text", "only those with this `TEXT` in their name, account or key"),
					textFlag("expires-before", "only those whose credential ends before this RFC 3339 `TIME`"),
				)...),
				Action: action(listConnections),
			},
		}, changeCommands(settingsFlags(anyPlatform), credentialFlags())...), loginCommand()),
	}
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
	if p, _ := builtin.Find(conn.GetConnector()); p.LaterSecret && conn.GetCredentialFingerprint() == "" {
		c.tell("the connection has no credential yet: its jobs wait until `fireonce connections rotate` or `login` gives it one")
	}
	return printAnswer(c, resp, nil, showConnection)
}

// limitFlags are the flags for a connection's limits, with what absent ones mean.
func limitFlags(inFlight, others string) []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "max-in-flight", Usage: "the `NUMBER` of jobs that are sent at one time", DefaultText: inFlight},
		&cli.IntFlag{Name: "max-per-minute", Usage: "the `NUMBER` of starts in a minute", DefaultText: others},
		&duration.Flag{Name: "cool-down", Usage: "at most one effect per `DURATION`, up to 31d", DefaultText: others},
	}
}

// retryFlags are the flags of how a job is tried again, with what absent ones mean.
func retryFlags(attempts, waits, keep string) []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "max-attempts", Usage: "the `NUMBER` of attempts proven to have had no effect before a job fails", DefaultText: attempts},
		&cli.StringSliceFlag{
			Name: "retry-delay", Usage: "the `WAIT` after the first, second, ... failure; give one flag for each; the last one repeats", DefaultText: waits,
		},
		&duration.Flag{Name: "keep-trying", Usage: "for how long a job is tried, as a `DURATION` from its first attempt", DefaultText: keep},
	}
}

// jobRetryFlags are those of a job, or of the jobs that a schedule makes.
func jobRetryFlags(absent, timeout string) []cli.Flag {
	return append(retryFlags(absent, absent, absent),
		&duration.Flag{Name: "attempt-timeout", Usage: "how long one request to the target may take, as a `DURATION`", DefaultText: timeout})
}

// retryPolicy reads the flags of how a job is tried again; nil: none is set.
func retryPolicy(cmd *cli.Command) (*fireoncev1.RetryPolicy, error) {
	if !anySet(cmd, retryFlags("", "", "")) {
		return nil, nil
	}
	out := &fireoncev1.RetryPolicy{}
	return out, setFromFlags(cmd, out, "retry-delay", "delays")
}

// changedRetry returns a retry policy with what flags change; the parts that none names stay.
func changedRetry(cmd *cli.Command, from *fireoncev1.RetryPolicy) (*fireoncev1.RetryPolicy, error) {
	given, err := retryPolicy(cmd)
	if err != nil || given == nil {
		return from, err
	}
	out := &fireoncev1.RetryPolicy{}
	if from != nil {
		out = proto.CloneOf(from)
	}
	if len(given.GetDelays()) > 0 {
		out.MinBackoff, out.MaxBackoff, out.Multiplier = nil, nil, 0 // the other way to state waits
	}
	given.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out.ProtoReflect().Set(field, v)
		return true
	})
	return out, nil
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
	conn, limits := &connectionsv1.Connection{Connector: cmd.String("connector"), DisplayName: cmd.String("name")}, &connectionsv1.ConnectionLimits{}
	if err := setFromFlags(cmd, limits); err != nil {
		return nil, err
	}
	if proto.Size(limits) > 0 { // without any, the request is the one that other clients make
		conn.Limits = limits
	}
	if err := setSettings(cmd, conn); err != nil {
		return nil, err
	}
	var err error
	if conn.RetryPolicy, err = retryPolicy(cmd); err != nil {
		return nil, err
	}
	if conn.Labels, err = namedValues(cmd, "label"); err != nil {
		return nil, err
	}
	key, err := keyOrNew(cmd, "key")
	return &connectionsv1.CreateConnectionRequest{IdempotencyKey: key, Connection: conn}, err
}

func listConnections(ctx context.Context, c *call) error {
	filter, err := connectionFilter(c.cmd)
	if err != nil {
		return err
	}
	req := &connectionsv1.ListConnectionsRequest{Filter: filter}
	return pages(ctx, c, c.Connections.ListConnections, req, func(page *connectionsv1.ListConnectionsResponse) {
		c.out.connections(page.GetConnections())
	})
}
