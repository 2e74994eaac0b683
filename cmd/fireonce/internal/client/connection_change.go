package client

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: a connection's settings and credential are changed with the flags that
// set them on a new one.

// ownFlags are the flags of `create` that are neither settings nor a credential.
var ownFlags = []string{"connector", "name", "label", "key", "max-in-flight", "max-per-minute", "cool-down"}

// changeable adds the commands that change a connection.
func changeable(connections *cli.Command) *cli.Command {
	connections.Commands = append(connections.Commands, changeCommands(settingsFlags(anyPlatform), credentialFlags())...)
	connections.Commands = append(connections.Commands, loginCommand())
	return connections
}

func changeCommands(settings, secrets []cli.Flag) []*cli.Command {
	const one = "CONNECTION"
	etag := func() cli.Flag {
		return &cli.StringFlag{Name: "etag", Usage: "the connection as you saw it, by its `ETAG`; default: as it is now"}
	}
	return []*cli.Command{
		{
			Name: "update", Usage: "change name, labels, limits or settings", ArgsUsage: one,
			Description: "Settings are replaced whole: give all of them, as for a new connection. Jobs with an attempt keep their class.",
			Flags: flags(append([]cli.Flag{
				etag(), connectionKeyFlag(),
				&cli.StringFlag{Name: "name", Usage: "the `NAME` that people read"},
				&cli.StringSliceFlag{Name: "label", Usage: "all its labels: `NAME=VALUE`; may be repeated"},
				&cli.BoolFlag{Name: "no-labels", Usage: "take all its labels away"},
				&cli.IntFlag{Name: "max-in-flight", Usage: "the `NUMBER` of jobs that are sent at one time; 0: 32", HideDefault: true},
				&cli.IntFlag{Name: "max-per-minute", Usage: "the `NUMBER` of starts in a minute; 0: no limit", HideDefault: true},
				&duration.Flag{Name: "cool-down", Usage: "at most one effect per `DURATION`, up to 31d; 0: no limit", HideDefault: true},
			}, settings...)...),
			Action: action(updateConnection(settings)),
		},
		{
			Name: "rotate", Usage: "replace the credential, and let waiting jobs go on", ArgsUsage: one,
			Description: "Of the same account: the platform is asked where it tells. The old credential is erased. To try one again that\n" +
				"the platform refused, give it again.",
			Flags:  flags(append([]cli.Flag{etag(), connectionKeyFlag(), &cli.StringFlag{Name: "connector", Usage: "the connector's `NAME`", Hidden: true}}, secrets...)...),
			Action: action(rotateCredential),
		},
		{
			Name: "test", Usage: "check settings and credential without any effect", ArgsUsage: one,
			Flags: flags(connectionKeyFlag()), Action: action(testConnection),
		},
		{
			Name: "pause", Usage: "start no job of it until it is resumed", ArgsUsage: one,
			Flags:  flags(connectionKeyFlag(), &cli.StringFlag{Name: "reason", Usage: "why, as `TEXT` that is shown"}),
			Action: action(pauseConnection),
		},
		{
			Name: "resume", Usage: "end a pause", ArgsUsage: one,
			Flags:  flags(connectionKeyFlag(), &cli.BoolFlag{Name: "expire-missed", Usage: "what fell due in the pause expires instead of running now"}),
			Action: action(resumeConnection),
		},
		{
			Name: "delete", Usage: "erase the credential; the history of its jobs stays", ArgsUsage: one,
			Flags: flags(etag(), connectionKeyFlag()), Action: action(deleteConnection),
		},
	}
}

// readConnection returns the connection that the argument names.
func (c *call) readConnection(ctx context.Context) (*fireoncev1.Connection, error) {
	req, err := ofConnection(c, &fireoncev1.GetConnectionRequest{})
	if err != nil {
		return nil, err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Connections.GetConnection(ctx, req)
	return resp.GetConnection(), err
}

// amended prints the answer of a call that changed a connection.
func (c *call) amended(resp message, conn *fireoncev1.Connection) error {
	if c.out.json {
		return c.out.message(resp)
	}
	c.out.connection(conn)
	return nil
}

func updateConnection(settings []cli.Flag) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		conn, err := c.readConnection(ctx)
		if err != nil {
			return err
		}
		req := &fireoncev1.UpdateConnectionRequest{
			Connection: &fireoncev1.UpdateConnectionRequest_ConnectionId{ConnectionId: conn.GetConnectionId()}, Etag: conn.GetEtag(), UpdateMask: &fieldmaskpb.FieldMask{},
		}
		if etag := c.cmd.String("etag"); etag != "" {
			req.Etag = etag
		}
		if err := setUpdate(c.cmd, req, conn, settings); err != nil {
			return err
		}
		ctx, cancel := unary(ctx)
		defer cancel()
		resp, err := c.Connections.UpdateConnection(ctx, req)
		if err != nil {
			return err
		}
		return c.amended(resp, resp.GetConnection())
	}
}

// setUpdate sets the fields and the mask that the flags change.
func setUpdate(cmd *cli.Command, req *fireoncev1.UpdateConnectionRequest, conn *fireoncev1.Connection, settings []cli.Flag) error {
	mask := req.GetUpdateMask()
	if cmd.IsSet("name") {
		req.DisplayName, mask.Paths = cmd.String("name"), append(mask.Paths, "display_name")
	}
	if cmd.IsSet("label") || cmd.Bool("no-labels") {
		var err error
		if req.Labels, err = labels(cmd); err != nil {
			return err
		}
		if cmd.Bool("no-labels") && len(req.GetLabels()) > 0 {
			return exit.Usagef("give --label or --no-labels, not both")
		}
		mask.Paths = append(mask.Paths, "labels")
	}
	if cmd.IsSet("max-in-flight") || cmd.IsSet("max-per-minute") || cmd.IsSet("cool-down") {
		// Absent limits stay.
		req.Limits = &fireoncev1.ConnectionLimits{
			MaxInFlight: conn.GetLimits().GetMaxInFlight(), MaxPerMinute: conn.GetLimits().GetMaxPerMinute(),
			CoolDown: conn.GetLimits().GetCoolDown(),
		}
		if cmd.IsSet("max-in-flight") {
			req.Limits.MaxInFlight = int32(cmd.Int("max-in-flight"))
		}
		if cmd.IsSet("max-per-minute") {
			req.Limits.MaxPerMinute = int32(cmd.Int("max-per-minute"))
		}
		if cmd.IsSet("cool-down") {
			req.Limits.CoolDown = durationpb.New(cmd.Duration("cool-down"))
		}
		mask.Paths = append(mask.Paths, "limits")
	}
	if slices.ContainsFunc(settings, func(f cli.Flag) bool { return cmd.IsSet(f.Names()[0]) }) {
		next := &fireoncev1.Connection{Connector: conn.GetConnector()}
		if err := setSettings(cmd, next); err != nil {
			return err
		}
		from, to := next.ProtoReflect(), req.ProtoReflect()
		member := from.WhichOneof(from.Descriptor().Oneofs().ByName("settings"))
		to.Set(to.Descriptor().Fields().ByName(member.Name()), protoreflect.ValueOfMessage(from.Get(member).Message()))
		mask.Paths = append(mask.Paths, string(member.Name()))
	}
	if len(mask.GetPaths()) == 0 {
		return exit.Usagef("name what to change: --name, --label, limits or settings")
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
	ctx, cancel := unary(ctx)
	defer cancel()
	// Without --etag it replaces whatever credential there is by now.
	resp, err := c.Connections.RotateCredential(ctx, &fireoncev1.RotateCredentialRequest{
		Connection: &fireoncev1.RotateCredentialRequest_ConnectionId{ConnectionId: conn.GetConnectionId()}, Credential: secret, Etag: c.cmd.String("etag"),
	})
	if err != nil {
		return err
	}
	return c.amended(resp, resp.GetConnection())
}

func testConnection(ctx context.Context, c *call) error {
	req, err := ofConnection(c, &fireoncev1.TestConnectionRequest{})
	if err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Connections.TestConnection(ctx, req)
	if err != nil {
		return err
	}
	if c.out.json {
		err = c.out.message(resp)
	} else {
		c.out.fields(
			"Check", map[bool]string{true: "passed", false: "failed"}[resp.GetOk()],
			"Found", resp.GetDetail()+egressHint(resp.GetFailureKind()),
			"Account", resp.GetAccountIdentity(),
		)
	}
	if err == nil && !resp.GetOk() {
		return errors.New("the connection is not in order")
	}
	return err
}

func pauseConnection(ctx context.Context, c *call) error {
	req, err := ofConnection(c, &fireoncev1.PauseConnectionRequest{Reason: c.cmd.String("reason")})
	if err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Connections.PauseConnection(ctx, req)
	if err != nil {
		return err
	}
	return c.amended(resp, resp.GetConnection())
}

func resumeConnection(ctx context.Context, c *call) error {
	req, err := ofConnection(c, &fireoncev1.ResumeConnectionRequest{ExpireMissed: c.cmd.Bool("expire-missed")})
	if err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Connections.ResumeConnection(ctx, req)
	if err != nil {
		return err
	}
	return c.amended(resp, resp.GetConnection())
}

func deleteConnection(ctx context.Context, c *call) error {
	req, err := ofConnection(c, &fireoncev1.DeleteConnectionRequest{Etag: c.cmd.String("etag")})
	if err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Connections.DeleteConnection(ctx, req)
	if err != nil {
		return err
	}
	if c.out.json {
		return c.out.message(resp)
	}
	c.out.line("The connection is deleted.")
	return nil
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
	if err := c.noArgs(); err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Connections.ListConnectors(ctx, &fireoncev1.ListConnectorsRequest{})
	if err != nil {
		return err
	}
	if c.out.json {
		return c.out.message(resp)
	}
	for i, k := range resp.GetConnectors() {
		if i > 0 {
			c.out.line("")
		}
		var classes []string
		for _, class := range k.GetEffectClasses() {
			classes = append(classes, words(class.String(), "EFFECT_CLASS_"))
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
	return nil
}
