package client

import (
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
	// maxSecrets bounds a file of secrets, in bytes.
	maxSecrets = 16 << 10
)

// setSettings gives a connection the settings of its connector.
func setSettings(cmd *cli.Command, conn *fireoncev1.Connection) error {
	for _, only := range []struct{ flag, connectors string }{
		{"receiver-dedupes", "webhook http"}, {"key-window", "webhook http"},
		{"base-url", "feed"}, {"read-lag", "feed"}, {"secret-file", "webhook"}, {"token-file", "http feed tiktok"},
		{"source", "tiktok"},
	} {
		if cmd.IsSet(only.flag) && !strings.Contains(only.connectors, conn.GetConnector()) {
			return exit.Usagef("--%s goes only with --connector %s", only.flag, strings.ReplaceAll(only.connectors, " ", " or "))
		}
	}
	switch conn.GetConnector() {
	case "webhook", "http":
		dedupes, window, err := dedupe(cmd)
		if err != nil {
			return err
		}
		if conn.GetConnector() == "http" {
			conn.Settings = &fireoncev1.Connection_Http{Http: &fireoncev1.HttpSettings{ReceiverDedupes: dedupes, KeyWindow: window}}
		} else {
			conn.Settings = &fireoncev1.Connection_Webhook{Webhook: &fireoncev1.WebhookSettings{ReceiverDedupes: dedupes, KeyWindow: window}}
		}
	case "feed":
		if !cmd.IsSet("base-url") {
			return exit.Usagef("--connector feed needs --base-url")
		}
		settings := &fireoncev1.FeedSettings{BaseUrl: cmd.String("base-url")}
		if cmd.IsSet("read-lag") {
			settings.ReadLag = durationpb.New(cmd.Duration("read-lag"))
		}
		conn.Settings = &fireoncev1.Connection_Feed{Feed: settings}
	case "tiktok":
		source, ok := sources[cmd.String("source")]
		if !ok {
			return exit.Usagef("--source must be upload or pull")
		}
		conn.Settings = &fireoncev1.Connection_Tiktok{Tiktok: &fireoncev1.TikTokSettings{Source: source}}
	default:
		return exit.Usagef("--connector %q: must be webhook, http, feed or tiktok", conn.GetConnector())
	}
	return nil
}

// sources are how a video gets to TikTok.
var sources = map[string]fireoncev1.TikTokSettings_Source{
	"":       fireoncev1.TikTokSettings_SOURCE_FILE_UPLOAD,
	"upload": fireoncev1.TikTokSettings_SOURCE_FILE_UPLOAD,
	"pull":   fireoncev1.TikTokSettings_SOURCE_PULL_FROM_URL,
}

// dedupe reads what only the receiver's owner knows.
func dedupe(cmd *cli.Command) (fireoncev1.ReceiverDedupes, *durationpb.Duration, error) {
	switch cmd.String("receiver-dedupes") {
	case "yes":
		if !cmd.IsSet("key-window") {
			return 0, nil, exit.Usagef("--receiver-dedupes yes needs --key-window: for how long does it remember a key?")
		}
		return fireoncev1.ReceiverDedupes_RECEIVER_DEDUPES_YES, durationpb.New(cmd.Duration("key-window")), nil
	case "no":
		if cmd.IsSet("key-window") {
			return 0, nil, exit.Usagef("--key-window goes only with --receiver-dedupes yes")
		}
		return fireoncev1.ReceiverDedupes_RECEIVER_DEDUPES_NO, nil, nil
	default:
		return 0, nil, exit.Usagef("--receiver-dedupes must be yes or no; if you do not know, it is no")
	}
}

// credential reads the secrets; nil: there are none.
func credential(cmd *cli.Command) (*fireoncev1.Credential, error) {
	if cmd.IsSet("credential-file") {
		if cmd.IsSet("secret-file") || cmd.IsSet("token-file") {
			return nil, exit.Usagef("give one file with a credential")
		}
		c := &fireoncev1.Credential{}
		return c, readJSON(cmd, "credential-file", maxSecrets, c)
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
	return &fireoncev1.Credential{Kind: &fireoncev1.Credential_BearerToken{BearerToken: strings.TrimSpace(text)}}, nil
}
