package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: a connection's settings and credential are changed with the flags that
// set them on a new one.

func changeCommands(settings, secrets []cli.Flag) []*cli.Command {
	type service = connectionsv1connect.ConnectionServiceClient
	const one, argument = "connection", "CONNECTION"
	f := fieldsOf(&connectionsv1.UpdateConnectionRequest{},
		"name=display_name labels "+below("limits", "max_in_flight max_per_minute cool_down")+" "+below("retry_policy", retryFields)).otherwise("as it was")
	return []*cli.Command{
		{
			Name: "update", Usage: "change name, labels, limits, retries or settings", ArgsUsage: argument,
			Description: "Settings are replaced whole: give all of them, as for a new connection. Jobs with an attempt keep their class.",
			Flags:       flags(slices.Concat(f.flags(), []cli.Flag{noLabelsFlag(), etagFlag(one), keyFlag(one)}, settings)...),
			Action:      action(func(ctx context.Context, c *call) error { return updateConnection(ctx, c, f, settings) }),
		},
		{
			Name: "rotate", Usage: "replace the credential, and let waiting jobs go on", ArgsUsage: argument,
			Description: "Of the same account: the platform is asked where it tells. The old credential is erased. To try one again that\n" +
				"the platform refused, give it again.",
			Flags:  flags(append([]cli.Flag{etagFlag(one), keyFlag(one), &cli.StringFlag{Name: "connector", Usage: "`NAME` the connector", Hidden: true}}, secrets...)...),
			Action: action(rotateCredential),
		},
		asks(one, fieldsOf(&connectionsv1.TestConnectionRequest{}), &cli.Command{Name: "test", Usage: "check settings and credential without any effect"}, testConnection),
		on(one, "reason:TEXT=reason", service.PauseConnection, showConnection, &cli.Command{Name: "pause", Usage: "start no job of it until it is resumed"}),
		on(one, "expire_missed", service.ResumeConnection, showConnection, &cli.Command{Name: "resume", Usage: "end a pause"}),
		on(one, "", service.DeleteConnection, func(c *call, _ *connectionsv1.DeleteConnectionResponse) { c.out.line("The connection is deleted.") },
			&cli.Command{Name: "delete", Usage: "erase the credential; the history of its jobs stays"}),
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

func updateConnection(ctx context.Context, c *call, f fields, settings []cli.Flag) error {
	conn, err := c.readConnection(ctx)
	if err != nil {
		return err
	}
	req := named(&connectionsv1.UpdateConnectionRequest{
		Etag:   cmp.Or(c.cmd.String("etag"), conn.GetEtag()),
		Limits: conn.GetLimits(), RetryPolicy: conn.GetRetryPolicy(), // parts that no flag names stay
	}, "connection_id", conn.GetConnectionId(), "")
	if err := setUpdate(c.cmd, req, f, conn.GetConnector(), settings); err != nil {
		return err
	}
	return callAndPrint(ctx, c, c.Connections.UpdateConnection, req, showConnection)
}

// setUpdate sets the fields and the mask that the flags change.
func setUpdate(cmd *cli.Command, req *connectionsv1.UpdateConnectionRequest, f fields, connector string, settings []cli.Flag) error {
	listWaits(cmd, req.GetRetryPolicy())
	if err := f.set(cmd, req); err != nil {
		return err
	}
	if err := noLabels(cmd, req); err != nil {
		return err
	}
	if anySet(cmd, settings) {
		next := &connectionsv1.Connection{Connector: connector}
		if err := setSettings(cmd, next); err != nil {
			return err
		}
		from, to := next.ProtoReflect(), req.ProtoReflect()
		member := from.WhichOneof(from.Descriptor().Oneofs().ByName("settings"))
		to.Set(to.Descriptor().Fields().ByName(member.Name()), protoreflect.ValueOfMessage(from.Get(member).Message()))
		change(req, string(member.Name()))
	}
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		return exit.Usagef("name what to change: --name, --label, limits, retries or settings")
	}
	return nil
}

// listWaits removes the other way to state waits from a policy, if --retry-delay lists them.
func listWaits(cmd *cli.Command, p *fireoncev1.RetryPolicy) {
	if cmd.IsSet("retry-delay") && p != nil {
		p.MinBackoff, p.MaxBackoff, p.Multiplier = nil, nil, 0
	}
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

func testConnection(ctx context.Context, c *call, req *connectionsv1.TestConnectionRequest) error {
	resp, err := Ask(ctx, c.Connections.TestConnection, req)
	err = printAnswer(c, resp, err, func(c *call, resp *connectionsv1.TestConnectionResponse) {
		c.out.fields(
			"Check", checkLine(resp),
			"Found", resp.GetDetail()+egressHint(resp.GetFailureKind()),
			"Account", resp.GetAccountIdentity(),
		)
	})
	if err == nil && !resp.GetOk() {
		return errors.New("the connection is not in order")
	}
	return err
}

// checkLine returns what a test has shown. Without the platform it has not shown that a request would pass.
func checkLine(resp *connectionsv1.TestConnectionResponse) string {
	switch {
	case !resp.GetOk():
		return "failed"
	case resp.GetPlatformReached():
		return "passed"
	default:
		return "passed, of the form only: the target was not asked"
	}
}

func connectorsCommand() *cli.Command {
	return &cli.Command{
		Name: "connectors", Usage: "list what this server can send to, and what each connector promises",
		Flags: flags(), Action: action(listConnectors),
		Commands: []*cli.Command{
			// For users who expect the word that the other groups have.
			{Name: "list", Usage: "list them, as `connectors` alone does", Flags: flags(), Action: action(listConnectors)},
			{Name: "get", Usage: "show one", ArgsUsage: "NAME", Flags: flags(), Action: action(getConnector)},
		},
	}
}

func listConnectors(ctx context.Context, c *call) error {
	return callAndPrint(ctx, c, c.Connections.ListConnectors, &connectionsv1.ListConnectorsRequest{}, func(c *call, resp *connectionsv1.ListConnectorsResponse) {
		for i, k := range resp.GetConnectors() {
			if i > 0 {
				c.out.line("")
			}
			showConnector(c, k)
		}
	})
}

func getConnector(ctx context.Context, c *call) error {
	if c.cmd.Args().Len() != 1 {
		return exit.Usagef("name one connector")
	}
	all, err := Ask(ctx, c.Connections.ListConnectors, &connectionsv1.ListConnectorsRequest{})
	if err != nil {
		return err
	}
	var names []string
	for _, k := range all.GetConnectors() {
		if k.GetName() == c.cmd.Args().First() {
			return printAnswer(c, k, nil, showConnector)
		}
		names = append(names, k.GetName())
	}
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("no connector %q; the server has %s", c.cmd.Args().First(), inWords(names, "and")))
}

func showConnector(c *call, k *connectionsv1.Connector) {
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
