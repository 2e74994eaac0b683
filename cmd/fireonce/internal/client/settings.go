package client

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector/builtin"
	"github.com/fireonce/fireonce/internal/connector/platform"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: each platform declares its settings flags (internal/connector/builtin). A
// flag that no platform of the connection's declares is refused.

// connectionSettings is the oneof of a connection's settings. Each member has its platform's name.
var connectionSettings = (*connectionsv1.Connection)(nil).ProtoReflect().Descriptor().Oneofs().ByName("settings")

// settingsFlags are the flags for settings, those of the platforms that a predicate selects and
// --setting.
func settingsFlags(selects func(platform.Platform) bool) []cli.Flag {
	out := declaredFlags(selects, func(p platform.Platform) ([]platform.Flag, protoreflect.MessageDescriptor) {
		return p.Settings, memberOf(connectionSettings, p.Name)
	})
	return append(out, textsFlag("setting", "`NAME=VALUE` a setting for a connector of the server's own; may be repeated; never a secret"))
}

func anyPlatform(platform.Platform) bool { return true }

// byLogin reports whether accounts of a platform log in by OAuth.
func byLogin(p platform.Platform) bool { return p.OAuth != nil }

// flagsFit refuses flags for the settings or the credential of another connector.
func flagsFit(cmd *cli.Command, connector string) error {
	p, _ := builtin.Find(connector)
	for _, other := range builtin.Platforms {
		for _, f := range other.Settings {
			if !cmd.IsSet(f.Name) || slices.ContainsFunc(p.Settings, func(own platform.Flag) bool { return own.Name == f.Name }) {
				continue
			}
			return exit.Usagef("--%s goes only with --connector %s", f.Name, strings.Join(withSetting(f.Name), " or "))
		}
	}
	return secretsFit(cmd, connector)
}

// withSetting names the platforms that have a settings flag.
func withSetting(flag string) []string {
	return builtin.Names(func(p platform.Platform) bool {
		return slices.ContainsFunc(p.Settings, func(f platform.Flag) bool { return f.Name == flag })
	})
}

// setSettings sets the settings of a connection from the flags of its connector.
func setSettings(cmd *cli.Command, conn *connectionsv1.Connection) error {
	if err := flagsFit(cmd, conn.GetConnector()); err != nil {
		return err
	}
	p, known := builtin.Find(conn.GetConnector())
	if !known {
		return setCustom(cmd, conn)
	}
	if cmd.IsSet("setting") {
		return exit.Usagef("--setting does not go with --connector %s", p.Name)
	}
	field := connectionSettings.Fields().ByName(protoreflect.Name(p.Name))
	if field == nil {
		return nil // it has none
	}
	return setFields(cmd, p, p.Settings, conn.ProtoReflect().Mutable(field).Message())
}

// setCustom sets the settings of a connector of the server's own. Only the server knows whether
// it has one.
func setCustom(cmd *cli.Command, conn *connectionsv1.Connection) error {
	values, err := namedValues(cmd, "setting")
	if len(values) > 0 {
		conn.Settings = &connectionsv1.Connection_Custom{Custom: &connectionsv1.CustomSettings{Values: values}}
	}
	return err
}
