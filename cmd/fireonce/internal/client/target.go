package client

import (
	"cmp"
	"errors"
	"io/fs"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/profile"
)

// Rules of this file: a flag decides, then the environment, then the profile, then the default. A
// profile that a flag names comes before the environment. A profile's key and certificate are for
// its server alone, and the environment's key is not for a server that only a profile names: an
// exported key goes to no other server.

// Variables of client commands.
const (
	serverVar     = "FIREONCE_SERVER"
	apiKeyVar     = "FIREONCE_API_KEY" //nolint:gosec // the name of a variable
	profileVar    = "FIREONCE_PROFILE"
	caFileVar     = "FIREONCE_CA_FILE"
	clientCertVar = "FIREONCE_CLIENT_CERT"
	clientKeyVar  = "FIREONCE_CLIENT_KEY"
)

// target is the server that a command calls, with its key and files.
type target struct {
	server, key string
	files       certs.Client
	// unfit is the profile that was named but is of another server; empty: none.
	unfit string
	// kept is the profile whose server does not get the environment's key; empty: none.
	kept string
}

// targetOf finds the server of a command.
func targetOf(cmd *cli.Command) (target, error) {
	named := cmp.Or(cmd.String("profile"), os.Getenv(profileVar))
	variable := os.Getenv
	if cmd.IsSet("profile") {
		variable = func(string) string { return "" }
	}
	server, key := cmp.Or(cmd.String("server"), variable(serverVar)), variable(apiKeyVar)
	var p profile.Profile
	if named != "" || server == "" || key == "" {
		var err error
		if named, p, err = profileOf(named); err != nil {
			return target{}, err
		}
	}
	t := target{server: cmp.Or(server, p.Server, DefaultServer), key: key}
	if server == "" && p.Server != "" && key != "" {
		t.key = ""
		if p.APIKey == "" {
			t.kept = named
		}
	}
	if p.Server != "" && !profile.SameServer(t.server, p.Server) {
		t.unfit, p = named, profile.Profile{}
	}
	t.key = cmp.Or(t.key, p.APIKey)
	t.files = certs.Client{
		CA: cmp.Or(cmd.String("ca-file"), variable(caFileVar), p.CAFile),
		Pair: certs.Pair{
			Cert: cmp.Or(cmd.String("client-cert"), variable(clientCertVar), p.ClientCert),
			Key:  cmp.Or(cmd.String("client-key"), variable(clientKeyVar), p.ClientKey),
		},
	}
	return t, nil
}

// profileOf returns the profile of a name; an empty one: that in use, or none.
func profileOf(named string) (string, profile.Profile, error) {
	file, err := profile.Load()
	switch {
	case named == "" && errors.Is(err, fs.ErrPermission):
		return "", profile.Profile{}, nil // the home is another user's, as in a container
	case err != nil:
		return "", profile.Profile{}, err
	}
	name, p, found := file.For(named)
	if !found && name != "" {
		return "", profile.Profile{}, exit.Usagef("no profile %q; `fireonce profiles list` shows those that there are, `fireonce login --profile %s` makes it", name, name)
	}
	return name, p, nil
}

// dial makes clients for the target, and warns when the key is going to cross the network in the
// clear.
func (t target) dial(cmd *cli.Command) (*API, error) {
	api, err := DialTLS(t.server, t.key, t.files)
	if err == nil && t.key != "" && InTheClear(t.server) {
		tell(cmd, "warning: the API key goes to %s in the clear; use https", t.server)
	}
	return api, err
}

// DialFor makes clients for the server and the key of a command.
func DialFor(cmd *cli.Command) (*API, error) {
	t, err := targetOf(cmd)
	if err != nil {
		return nil, err
	}
	api, err := t.dial(cmd)
	if err != nil {
		return nil, err
	}
	if t.unfit != "" && (cmd.IsSet("profile") || os.Getenv(profileVar) != "") {
		tell(cmd, "warning: profile %s is of another server: its API key is not sent to %s", t.unfit, t.server)
	}
	if t.kept != "" {
		tell(cmd, "warning: %s is not sent to %s, the server of profile %s, which has no key; "+
			"set %s, too, or run fireonce login", apiKeyVar, t.server, t.kept, serverVar)
	}
	return api, nil
}

// ServerFlags name the server, its authorities and the client's certificate. DialFor reads them.
func ServerFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "server", Usage: "`URL` where the server is [$" + serverVar + "]; $" + apiKeyVar + " is the key", DefaultText: "the profile's, else " + DefaultServer},
		&cli.StringFlag{Name: "profile", Usage: "`NAME` the server and the key that fireonce login stored under this name [$" + profileVar + "]", DefaultText: "the one in use"},
		textFlag("ca-file", "`FILE` PEM of the authorities that sign the server's certificate, in place of the system's [$"+caFileVar+"]"),
		textFlag("client-cert", "`FILE` PEM of a certificate that is shown to the server [$"+clientCertVar+"]"),
		textFlag("client-key", "`FILE` PEM of its private key [$"+clientKeyVar+"]"),
	}
}
