package client

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: a connection's settings and credential are changed with the flags that
// set them on a new one.

// ownFlags are the flags of `create` that are neither settings nor a credential.
var ownFlags = []string{"connector", "name", "label", "key", "max-in-flight", "max-per-minute", "cool-down", "max-attempts", "retry-delay", "keep-trying"}

func changeCommands(settings, secrets []cli.Flag) []*cli.Command {
	const one, argument = "connection", "CONNECTION"
	return []*cli.Command{
		{
			Name: "update", Usage: "change name, labels, limits, retries or settings", ArgsUsage: argument,
			Description: "Settings are replaced whole: give all of them, as for a new connection. Jobs with an attempt keep their class.",
			Flags: flags(append([]cli.Flag{
				etagFlag(one), keyFlag(one),
				textFlag("name", "the `NAME` that people read"),
				textsFlag("label", "all its labels: `NAME=VALUE`; may be repeated"),
				boolFlag("no-labels", "take all its labels away"),
			}, append(append(limitFlags("as it was; 0: 32", "as it was; 0: no limit"), retryFlags("as it was", "as they were", "as it was")...), settings...)...)...),
			Action: action(updateConnection(settings)),
		},
		{
			Name: "rotate", Usage: "replace the credential, and let waiting jobs go on", ArgsUsage: argument,
			Description: "Of the same account: the platform is asked where it tells. The old credential is erased. To try one again that\n" +
				"the platform refused, give it again.",
			Flags:  flags(append([]cli.Flag{etagFlag(one), keyFlag(one), &cli.StringFlag{Name: "connector", Usage: "the connector's `NAME`", Hidden: true}}, secrets...)...),
			Action: action(rotateCredential),
		},
		{
			Name: "test", Usage: "check settings and credential without any effect", ArgsUsage: argument,
			Flags: flags(keyFlag(one)), Action: action(testConnection),
		},
		{
			Name: "pause", Usage: "start no job of it until it is resumed", ArgsUsage: argument,
			Flags: flags(keyFlag(one), textFlag("reason", "why, as `TEXT` that is shown")),
			Action: action(func(ctx context.Context, c *call) error {
				return callOn(ctx, c, one, c.Connections.PauseConnection, &connectionsv1.PauseConnectionRequest{}, showConnection)
			}),
		},
		{
			Name: "resume", Usage: "end a pause", ArgsUsage: argument,
			Flags: flags(keyFlag(one), boolFlag("expire-missed", "what fell due in the pause expires instead of running now")),
			Action: action(func(ctx context.Context, c *call) error {
				return callOn(ctx, c, one, c.Connections.ResumeConnection, &connectionsv1.ResumeConnectionRequest{}, showConnection)
			}),
		},
		{
			Name: "delete", Usage: "erase the credential; the history of its jobs stays", ArgsUsage: argument,
			Flags: flags(etagFlag(one), keyFlag(one)),
			Action: action(func(ctx context.Context, c *call) error {
				return callOn(ctx, c, one, c.Connections.DeleteConnection, &connectionsv1.DeleteConnectionRequest{},
					func(c *call, _ *connectionsv1.DeleteConnectionResponse) { c.out.line("The connection is deleted.") })
			}),
		},
	}
}

// readConnection returns the connection that the argument names.
func (c *call) readConnection(ctx context.Context) (*connectionsv1.Connection, error) {
	id, key, err := c.argument("connection")
	if err != nil {
		return nil, err
	}
	return c.connection(ctx, id, key)
}

// connection reads a connection by its id or its key.
func (c *call) connection(ctx context.Context, id, key string) (*connectionsv1.Connection, error) {
	req := named(&connectionsv1.GetConnectionRequest{}, "connection_id", id, key)
	resp, err := Ask(ctx, c.Connections.GetConnection, req)
	return resp.GetConnection(), err
}

// showConnection prints the connection of an answer.
func showConnection[R interface {
	GetConnection() *connectionsv1.Connection
}](c *call, resp R) {
	c.out.connection(resp.GetConnection())
}

func updateConnection(settings []cli.Flag) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		conn, err := c.readConnection(ctx)
		if err != nil {
			return err
		}
		req := named(&connectionsv1.UpdateConnectionRequest{Etag: conn.GetEtag(), UpdateMask: &fieldmaskpb.FieldMask{}},
			"connection_id", conn.GetConnectionId(), "")
		if err := setUpdate(c.cmd, req, conn, settings); err != nil {
			return err
		}
		return callAndPrint(ctx, c, c.Connections.UpdateConnection, req, showConnection)
	}
}

// setUpdate sets the fields and the mask that the flags change.
func setUpdate(cmd *cli.Command, req *connectionsv1.UpdateConnectionRequest, conn *connectionsv1.Connection, settings []cli.Flag) error {
	mask := req.GetUpdateMask()
	if err := setFromFlags(cmd, req, "name", "display_name", "label", "labels"); err != nil {
		return err
	}
	if err := noLabels(cmd, mask); err != nil {
		return err
	}
	if anySet(cmd, limitFlags("", "")) {
		req.Limits = cmp.Or(conn.GetLimits(), &connectionsv1.ConnectionLimits{}) // absent limits stay
		mask.Paths = append(mask.Paths, "limits")
		if err := setFromFlags(cmd, req.GetLimits()); err != nil {
			return err
		}
	}
	if anySet(cmd, retryFlags("", "", "")) {
		mask.Paths = append(mask.Paths, "retry_policy")
		var err error
		if req.RetryPolicy, err = changedRetry(cmd, conn.GetRetryPolicy()); err != nil {
			return err
		}
	}
	if anySet(cmd, settings) {
		next := &connectionsv1.Connection{Connector: conn.GetConnector()}
		if err := setSettings(cmd, next); err != nil {
			return err
		}
		from, to := next.ProtoReflect(), req.ProtoReflect()
		member := from.WhichOneof(from.Descriptor().Oneofs().ByName("settings"))
		to.Set(to.Descriptor().Fields().ByName(member.Name()), protoreflect.ValueOfMessage(from.Get(member).Message()))
		mask.Paths = append(mask.Paths, string(member.Name()))
	}
	if len(mask.GetPaths()) == 0 {
		return exit.Usagef("name what to change: --name, --label, limits, retries or settings")
	}
	return nil
}

func rotateCredential(ctx context.Context, c *call) error {
	conn, err := c.readConnection(ctx)
	if err != nil {
		return err
	}
	// The connector decides how a file is read.
	if err := c.cmd.Set("connector", conn.GetConnector()); err != nil {
		return err
	}
	if err := flagsFit(c.cmd, conn.GetConnector()); err != nil {
		return err
	}
	secret, err := credential(c.cmd)
	if err != nil {
		return err
	}
	if secret == nil {
		return exit.Usagef("give the new credential, in a file or the environment")
	}
	// Without --etag it replaces whatever credential there is by now.
	req := &connectionsv1.RotateCredentialRequest{Credential: secret, Etag: c.cmd.String("etag")}
	return callAndPrint(ctx, c, c.Connections.RotateCredential, named(req, "connection_id", conn.GetConnectionId(), ""), showConnection)
}

func testConnection(ctx context.Context, c *call) error {
	req, err := withName(c, "connection", &connectionsv1.TestConnectionRequest{})
	if err != nil {
		return err
	}
	resp, err := Ask(ctx, c.Connections.TestConnection, req)
	err = printAnswer(c, resp, err, func(c *call, resp *connectionsv1.TestConnectionResponse) {
		c.out.fields(
			"Check", map[bool]string{true: "passed", false: "failed"}[resp.GetOk()],
			"Found", resp.GetDetail()+egressHint(resp.GetFailureKind()),
			"Account", resp.GetAccountIdentity(),
		)
	})
	if err == nil && !resp.GetOk() {
		return errors.New("the connection is not in order")
	}
	return err
}

func connectorsCommand() *cli.Command {
	return &cli.Command{
		Name: "connectors", Usage: "list what this server can send to, and what each connector promises",
		Flags: flags(), Action: action(listConnectors),
		// For users who expect the word that the other groups have.
		Commands: []*cli.Command{{Name: "list", Usage: "list them, as `connectors` alone does", Flags: flags(), Action: action(listConnectors)}},
	}
}

func listConnectors(ctx context.Context, c *call) error {
	return callAndPrint(ctx, c, c.Connections.ListConnectors, &connectionsv1.ListConnectorsRequest{}, showConnectors)
}

func showConnectors(c *call, resp *connectionsv1.ListConnectorsResponse) {
	for i, k := range resp.GetConnectors() {
		if i > 0 {
			c.out.line("")
		}
		var classes []string
		for _, class := range k.GetEffectClasses() {
			classes = append(classes, word(class))
		}
		c.out.fields(
			"Connector", k.GetName(),
			"Promise", k.GetPromise(),
			"Classes", strings.Join(classes, ", "),
			"Payloads", strings.Join(k.GetPayloadKinds(), ", "),
			"Credentials", strings.Join(k.GetCredentialKinds(), ", "),
			"Settings", k.GetSettingsKind(),
		)
	}
}
