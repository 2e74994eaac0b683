package client

import (
	"errors"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

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

// flagsOf says which connectors a flag goes with.
var flagsOf = []struct{ flag, connectors string }{
	{"receiver-dedupes", "webhook http mastodon"}, {"key-window", "webhook http"}, {"dedupes-in-flight", "webhook http"}, {"origin", "webhook http"},
	{"path", "http"}, {"method", "http"}, {"id-json-pointer", "http"}, {"quote-answers", "webhook http"},
	{"keep-header", "webhook http"}, {"keep-body", "webhook http"},
	{"base-url", "feed mastodon bluesky"}, {"read-lag", "feed"}, {"source", "tiktok"}, {"channel", "slack"}, {"long-posts", "x"},
	{"host", "smtp"}, {"port", "smtp"}, {"security", "smtp"}, {"helo-name", "smtp"}, {"user", "smtp"},
	{"secret-file", "webhook"}, {"token-file", "http feed mastodon tiktok slack x resend"}, {"password-file", "smtp"},
}

// flagsFit refuses flags of other connectors.
func flagsFit(cmd *cli.Command, connector string) error {
	for _, only := range flagsOf {
		connectors := strings.Fields(only.connectors)
		if !cmd.IsSet(only.flag) || slices.Contains(connectors, connector) || only.flag == "token-file" && !builtIn(connector) {
			continue
		}
		instead := ""
		if strings.HasSuffix(only.flag, "-file") {
			instead = "; any kind of credential may come in --credential-file"
		}
		return exit.Usagef("--%s goes only with --connector %s%s", only.flag, strings.Join(connectors, " or "), instead)
	}
	return nil
}

// setSettings gives a connection the settings of its connector.
func setSettings(cmd *cli.Command, conn *fireoncev1.Connection) error {
	if err := flagsFit(cmd, conn.GetConnector()); err != nil {
		return err
	}
	if !builtIn(conn.GetConnector()) {
		return setCustom(cmd, conn)
	}
	if cmd.IsSet("setting") {
		return exit.Usagef("--setting does not go with --connector %s", conn.GetConnector())
	}
	return settingsOf[conn.GetConnector()](cmd, conn)
}

// builtIn tells whether a connector is part of the program.
func builtIn(connector string) bool { return settingsOf[connector] != nil }

// setCustom gives settings to a connector of the server's own. Whether there is such a
// one, the server knows.
func setCustom(cmd *cli.Command, conn *fireoncev1.Connection) error {
	values := make(map[string]string)
	for _, text := range cmd.StringSlice("setting") {
		name, value, ok := strings.Cut(text, "=")
		if _, twice := values[name]; !ok || twice {
			return exit.Usagef("--setting %q: must be NAME=VALUE, each name once", text)
		}
		values[name] = value
	}
	if len(values) > 0 {
		conn.Settings = &fireoncev1.Connection_Custom{Custom: &fireoncev1.CustomSettings{Values: values}}
	}
	return nil
}

// keepAnswer reads what is kept of answers; nil: nothing but the status.
func keepAnswer(cmd *cli.Command) *fireoncev1.KeepAnswer {
	if !cmd.IsSet("keep-header") && !cmd.IsSet("keep-body") {
		return nil
	}
	return &fireoncev1.KeepAnswer{Headers: cmd.StringSlice("keep-header"), MaxBodyBytes: int32(cmd.Int("keep-body"))}
}

// settingsOf reads the settings that each connector takes.
var settingsOf = map[string]func(*cli.Command, *fireoncev1.Connection) error{
	"webhook": func(cmd *cli.Command, conn *fireoncev1.Connection) error {
		dedupes, window, err := dedupe(cmd)
		conn.Settings = &fireoncev1.Connection_Webhook{Webhook: &fireoncev1.WebhookSettings{
			ReceiverDedupes: dedupes, KeyWindow: window, DedupesInFlight: cmd.Bool("dedupes-in-flight"), Origins: cmd.StringSlice("origin"), QuoteAnswers: cmd.Bool("quote-answers"),
			KeepAnswer: keepAnswer(cmd),
		}}
		return err
	},
	"http": func(cmd *cli.Command, conn *fireoncev1.Connection) error {
		dedupes, window, err := dedupe(cmd)
		if err != nil {
			return err
		}
		methods, err := methodsOf(cmd)
		conn.Settings = &fireoncev1.Connection_Http{Http: &fireoncev1.HttpSettings{
			ReceiverDedupes: dedupes, KeyWindow: window, DedupesInFlight: cmd.Bool("dedupes-in-flight"), Origins: cmd.StringSlice("origin"), Paths: cmd.StringSlice("path"),
			Methods: methods, IdJsonPointers: cmd.StringSlice("id-json-pointer"), QuoteAnswers: cmd.Bool("quote-answers"),
			KeepAnswer: keepAnswer(cmd),
		}}
		return err
	},
	"feed": func(cmd *cli.Command, conn *fireoncev1.Connection) error {
		if !cmd.IsSet("base-url") {
			return exit.Usagef("--connector feed needs --base-url")
		}
		settings := &fireoncev1.FeedSettings{BaseUrl: cmd.String("base-url")}
		if cmd.IsSet("read-lag") {
			settings.ReadLag = durationpb.New(cmd.Duration("read-lag"))
		}
		conn.Settings = &fireoncev1.Connection_Feed{Feed: settings}
		return nil
	},
	"mastodon": func(cmd *cli.Command, conn *fireoncev1.Connection) error {
		settings, err := mastodonSettings(cmd)
		conn.Settings = &fireoncev1.Connection_Mastodon{Mastodon: settings}
		return err
	},
	"bluesky": func(cmd *cli.Command, conn *fireoncev1.Connection) error {
		conn.Settings = &fireoncev1.Connection_Bluesky{Bluesky: &fireoncev1.BlueskySettings{BaseUrl: cmd.String("base-url")}}
		return nil
	},
	"tiktok": func(cmd *cli.Command, conn *fireoncev1.Connection) error {
		source, ok := sources[cmd.String("source")]
		if !ok {
			return exit.Usagef("--source must be upload or pull")
		}
		conn.Settings = &fireoncev1.Connection_Tiktok{Tiktok: &fireoncev1.TikTokSettings{Source: source}}
		return nil
	},
	"slack": func(cmd *cli.Command, conn *fireoncev1.Connection) error {
		if !cmd.IsSet("channel") {
			return exit.Usagef("--connector slack needs --channel: the id of a conversation, such as C0123456789")
		}
		conn.Settings = &fireoncev1.Connection_Slack{Slack: &fireoncev1.SlackSettings{Channel: cmd.String("channel")}}
		return nil
	},
	"x": func(cmd *cli.Command, conn *fireoncev1.Connection) error {
		conn.Settings = &fireoncev1.Connection_X{X: &fireoncev1.XSettings{LongPosts: cmd.Bool("long-posts")}}
		return nil
	},
	"smtp": func(cmd *cli.Command, conn *fireoncev1.Connection) error {
		settings, err := relay(cmd)
		conn.Settings = &fireoncev1.Connection_Smtp{Smtp: settings}
		return err
	},
	"resend": func(*cli.Command, *fireoncev1.Connection) error { return nil }, // it has none
}

// methodsOf reads the methods that jobs may use.
func methodsOf(cmd *cli.Command) (out []fireoncev1.HttpMethod, err error) {
	for _, name := range cmd.StringSlice("method") {
		m, known := fireoncev1.HttpMethod_value[enumName("HTTP_METHOD_", name)]
		if !known || m == 0 {
			return nil, exit.Usagef("--method %q: must be POST, PUT, PATCH, DELETE or GET", name)
		}
		out = append(out, fireoncev1.HttpMethod(m))
	}
	return out, nil
}

// mastodonSettings leaves it to the server what it is, unless its owner says.
func mastodonSettings(cmd *cli.Command) (*fireoncev1.MastodonSettings, error) {
	if !cmd.IsSet("base-url") {
		return nil, exit.Usagef("--connector mastodon needs --base-url")
	}
	settings := &fireoncev1.MastodonSettings{BaseUrl: cmd.String("base-url")}
	if !cmd.IsSet("receiver-dedupes") {
		return settings, nil
	}
	var err error
	if settings.ServerDedupes, err = receiverDedupes(cmd.String("receiver-dedupes")); err != nil {
		return nil, exit.Usagef("%w; without it, the server is asked what it is", err)
	}
	return settings, nil
}

// sources are how a video gets to TikTok.
var sources = map[string]fireoncev1.TikTokSettings_Source{
	"":                     fireoncev1.TikTokSettings_SOURCE_FILE_UPLOAD,
	"upload":               fireoncev1.TikTokSettings_SOURCE_FILE_UPLOAD,
	"SOURCE_FILE_UPLOAD":   fireoncev1.TikTokSettings_SOURCE_FILE_UPLOAD,
	"pull":                 fireoncev1.TikTokSettings_SOURCE_PULL_FROM_URL,
	"SOURCE_PULL_FROM_URL": fireoncev1.TikTokSettings_SOURCE_PULL_FROM_URL,
}

// relay reads where a relay is, and how to come to it.
func relay(cmd *cli.Command) (*fireoncev1.SmtpSettings, error) {
	if !cmd.IsSet("host") {
		return nil, exit.Usagef("--connector smtp needs --host")
	}
	s := &fireoncev1.SmtpSettings{Host: cmd.String("host"), Port: int32(cmd.Int("port")), HeloName: cmd.String("helo-name")}
	security, known := fireoncev1.SmtpSettings_Security_value[enumName("SECURITY_", cmd.String("security"))]
	if !known || security == 0 {
		return nil, exit.Usagef("--security must be starttls, tls or none")
	}
	s.Security = fireoncev1.SmtpSettings_Security(security)
	return s, nil
}

// dedupe reads what only the receiver's owner knows.
func dedupe(cmd *cli.Command) (fireoncev1.ReceiverDedupes, *durationpb.Duration, error) {
	said, err := receiverDedupes(cmd.String("receiver-dedupes"))
	switch {
	case err != nil:
		return 0, nil, exit.Usagef("%w; if you do not know, it is no", err)
	case said == fireoncev1.ReceiverDedupes_RECEIVER_DEDUPES_YES && !cmd.IsSet("key-window"):
		return 0, nil, exit.Usagef("--receiver-dedupes yes needs --key-window: for how long does it remember a key?")
	case said == fireoncev1.ReceiverDedupes_RECEIVER_DEDUPES_YES:
		return said, durationpb.New(cmd.Duration("key-window")), nil
	case cmd.IsSet("key-window"):
		return 0, nil, exit.Usagef("--key-window goes only with --receiver-dedupes yes")
	case cmd.Bool("dedupes-in-flight"):
		return 0, nil, exit.Usagef("--dedupes-in-flight goes only with --receiver-dedupes yes")
	default:
		return said, nil, nil
	}
}

// receiverDedupes reads yes or no.
func receiverDedupes(text string) (fireoncev1.ReceiverDedupes, error) {
	v, known := fireoncev1.ReceiverDedupes_value[enumName("RECEIVER_DEDUPES_", text)]
	if !known || v == 0 {
		return 0, errors.New("--receiver-dedupes must be yes or no")
	}
	return fireoncev1.ReceiverDedupes(v), nil
}

// credential reads the secrets; nil: there are none.
func credential(cmd *cli.Command) (*fireoncev1.Credential, error) {
	if cmd.IsSet("credential-file") {
		if cmd.IsSet("secret-file") || cmd.IsSet("token-file") || cmd.IsSet("password-file") || cmd.IsSet("user") {
			return nil, exit.Usagef("give one file with a credential")
		}
		c := &fireoncev1.Credential{}
		return c, readJSON(cmd, "credential-file", maxSecrets, c, `{"basic": {"username": "…", "password": "…"}} or {"bearerToken": "…"}`)
	}
	if cmd.String("connector") == "smtp" {
		return login(cmd)
	}
	if cmd.String("connector") == "webhook" {
		text, err := secretText(cmd, "secret-file", secretVar)
		list := strings.Fields(text)
		if err != nil || len(list) == 0 {
			return nil, err
		}
		return &fireoncev1.Credential{Kind: &fireoncev1.Credential_WebhookSecrets{
			WebhookSecrets: &fireoncev1.WebhookSecrets{Secrets: list},
		}}, nil
	}
	text, err := secretText(cmd, "token-file", tokenVar)
	if err != nil || strings.TrimSpace(text) == "" {
		return nil, err
	}
	return &fireoncev1.Credential{Kind: &fireoncev1.Credential_BearerToken{BearerToken: &fireoncev1.BearerToken{Token: strings.TrimSpace(text)}}}, nil
}

// login reads a user name and a password; nil: there is none.
func login(cmd *cli.Command) (*fireoncev1.Credential, error) {
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
	return &fireoncev1.Credential{Kind: &fireoncev1.Credential_Basic{
		Basic: &fireoncev1.BasicAuth{Username: user, Password: password},
	}}, nil
}
