package client

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector/builtin"
	"github.com/fireonce/fireonce/internal/connector/platform"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Secrets never come as arguments: every user of a machine can read those.
const (
	// secretVar may hold webhook secrets, one per line.
	secretVar = "FIREONCE_WEBHOOK_SECRET"
	// tokenVar may hold a bearer token.
	tokenVar = "FIREONCE_BEARER_TOKEN"
	// passwordVar may hold the password of a login.
	passwordVar = "FIREONCE_PASSWORD"
	// maxSecrets bounds a file of secrets, in bytes.
	maxSecrets = 16 << 10
)

// secretFlags are the flags that name a credential, and the kind of credential that each needs.
var secretFlags = []struct {
	name, placeholder string
	secret            platform.Secret
	usage             string
}{
	{"user", "NAME", platform.Login, "the name to log in with"},
	{"password-file", "FILE", platform.Login, "the password of --user, from a file; - reads standard input"},
	{"secret-file", "FILE", platform.Signing, "signing secrets from a file, one a line; - reads standard input"},
	{"token-file", "FILE", platform.Token, "a bearer token from a file; - reads standard input"},
}

// credentialFlags are the flags for a connection's credential.
func credentialFlags() []cli.Flag {
	var out []cli.Flag
	for _, f := range secretFlags {
		usage := f.usage
		if f.secret != platform.Token { // which most connectors take, also those of the server's own
			usage = inWords(withSecret(f.secret), "and") + ": " + usage
		}
		out = append(out, &cli.StringFlag{Name: f.name, Usage: "`" + f.placeholder + "` " + usage})
	}
	return append(out, textFlag("credential-file", "`FILE` a credential of any kind, as JSON from a file; - reads standard input"))
}

// withSecret names the platforms whose credential is of a kind.
func withSecret(s platform.Secret) []string {
	return builtin.Names(func(p platform.Platform) bool { return p.Secret == s })
}

// secretsFit refuses flags for the credential of another connector.
func secretsFit(cmd *cli.Command, connector string) error {
	_, builtIn := builtin.Find(connector)
	for _, f := range secretFlags {
		fits := withSecret(f.secret)
		if !cmd.IsSet(f.name) || slices.Contains(fits, connector) || f.secret == platform.Token && !builtIn {
			continue
		}
		return exit.Usagef("--%s goes only with --connector %s; any kind of credential may come in --credential-file", f.name, strings.Join(fits, " or "))
	}
	return nil
}

// credential reads the credential from files and variables. It returns nil if there is none.
func credential(cmd *cli.Command) (*connectionsv1.Credential, error) {
	if cmd.IsSet("credential-file") {
		if cmd.IsSet("secret-file") || cmd.IsSet("token-file") || cmd.IsSet("password-file") || cmd.IsSet("user") {
			return nil, exit.Usagef("give one file with a credential")
		}
		c := &connectionsv1.Credential{}
		return c, readJSON(cmd, "credential-file", maxSecrets, c, `{"basic": {"username": "…", "password": "…"}} or {"bearerToken": "…"}`)
	}
	p, _ := builtin.Find(cmd.String("connector"))
	switch p.Secret {
	case platform.Login:
		return login(cmd)
	case platform.Signing:
		text, err := secretText(cmd, "secret-file", secretVar)
		list := strings.Fields(text)
		if err != nil || len(list) == 0 {
			return nil, err
		}
		return &connectionsv1.Credential{Kind: &connectionsv1.Credential_WebhookSecrets{
			WebhookSecrets: &connectionsv1.WebhookSecrets{Secrets: list},
		}}, nil
	default: // the variable may hold a token for any other connector
	}
	text, err := secretText(cmd, "token-file", tokenVar)
	if err != nil || strings.TrimSpace(text) == "" {
		return nil, err
	}
	return &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: strings.TrimSpace(text)}}}, nil
}

// login reads a user name and a password. It returns nil if there is no user name.
func login(cmd *cli.Command) (*connectionsv1.Credential, error) {
	user := cmd.String("user")
	if user == "" {
		if cmd.IsSet("password-file") {
			return nil, exit.Usagef("--password-file goes only with --user")
		}
		return nil, nil
	}
	password, err := secretText(cmd, "password-file", passwordVar)
	if err != nil {
		return nil, err
	}
	password = strings.TrimRight(password, "\r\n")
	if password == "" {
		return nil, exit.Usagef("--user needs --password-file or %s", passwordVar)
	}
	return &connectionsv1.Credential{Kind: &connectionsv1.Credential_Basic{
		Basic: &connectionsv1.BasicAuth{Username: user, Password: password},
	}}, nil
}
