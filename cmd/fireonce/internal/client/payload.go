package client

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/encoding/protojson"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// maxPayloadFile bounds a file with a payload in JSON, in bytes: the contract's
// bound on a body, and room for what base64 and names add.
const maxPayloadFile = 1 << 20

// jsonPlace is where the parser of JSON says that it got stuck.
var jsonPlace = regexp.MustCompile(`line \d+:\d+`)

// payloadFlags describe content: a webhook, a post, or any kind as JSON.
func payloadFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "url", Usage: "a webhook: where to POST"},
		&cli.StringFlag{Name: "body", Usage: "with --url: the body, as `TEXT`"},
		&cli.StringFlag{Name: "body-file", Usage: "with --url: the body, from a `FILE`; - reads standard input"},
		&cli.StringFlag{Name: "content-type", Usage: "with --url: the body's `TYPE`; default application/json"},
		&cli.StringSliceFlag{Name: "header", Usage: "with --url: a `NAME: VALUE` to add; may be repeated; never a secret"},
		&cli.StringFlag{Name: "text", Usage: "a post with this `TEXT`"},
		&cli.StringFlag{
			Name:  "payload-file",
			Usage: "content of any kind: the contract's Payload as JSON, from a `FILE`; - reads standard input",
		},
	}
}

func payloadGiven(cmd *cli.Command) bool {
	return cmd.IsSet("url") || cmd.IsSet("text") || cmd.IsSet("payload-file") || cmd.IsSet("body") ||
		cmd.IsSet("body-file") || cmd.IsSet("content-type") || cmd.IsSet("header")
}

func payload(cmd *cli.Command) (*fireoncev1.Payload, error) {
	kinds := 0
	for _, name := range []string{"url", "text", "payload-file"} {
		if cmd.IsSet(name) {
			kinds++
		}
	}
	if kinds != 1 {
		return nil, exit.Usagef("say what to send with one of --url, --text and --payload-file")
	}
	if !cmd.IsSet("url") && (cmd.IsSet("body") || cmd.IsSet("body-file") || cmd.IsSet("content-type") || cmd.IsSet("header")) {
		return nil, exit.Usagef("--body, --body-file, --content-type and --header go with --url")
	}
	switch {
	case cmd.IsSet("text"):
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{
			SocialPost: &fireoncev1.SocialPost{Text: cmd.String("text")},
		}}, nil
	case cmd.IsSet("payload-file"):
		p := &fireoncev1.Payload{}
		return p, readJSON(cmd, "payload-file", maxPayloadFile, p, `{"socialPost": {"text": "…"}}`)
	default:
		hook, err := webhook(cmd)
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: hook}}, err
	}
}

// readJSON reads a message of the contract from the file that a flag names. like is
// what such a message looks like.
func readJSON(cmd *cli.Command, flag string, limit int64, m message, like string) error {
	data, err := readFile(cmd, cmd.String(flag), limit)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	if err := protojson.Unmarshal(data, m); err != nil {
		// The parser's words quote the file, which may hold a secret: its place is enough.
		where := ""
		if found := jsonPlace.FindString(err.Error()); found != "" {
			where = ", from " + found + " on"
		}
		return exit.Usagef("--%s: not a %s of the contract in JSON%s; one looks like %s", flag, m.ProtoReflect().Descriptor().Name(), where, like)
	}
	return nil
}

func webhook(cmd *cli.Command) (*fireoncev1.Webhook, error) {
	hook := &fireoncev1.Webhook{Url: cmd.String("url"), ContentType: cmd.String("content-type")}
	for _, h := range cmd.StringSlice("header") {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, exit.Usagef("--header %q: must be 'NAME: VALUE'", h)
		}
		hook.Headers = append(hook.Headers, &fireoncev1.HttpHeader{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
	switch {
	case cmd.IsSet("body") && cmd.IsSet("body-file"):
		return nil, exit.Usagef("give --body or --body-file, not both")
	case cmd.IsSet("body"):
		hook.Content = &fireoncev1.Webhook_BodyText{BodyText: cmd.String("body")}
	case cmd.IsSet("body-file"):
		body, err := readFile(cmd, cmd.String("body-file"), maxBody)
		if err != nil {
			return nil, fmt.Errorf("--body-file: %w", err)
		}
		hook.Content = &fireoncev1.Webhook_Body{Body: body}
	}
	return hook, nil
}

// secretText reads a secret from the file that a flag names, or else from an
// environment variable.
func secretText(cmd *cli.Command, flag, variable string) (string, error) {
	name := cmd.String(flag)
	if name == "" {
		return os.Getenv(variable), nil
	}
	data, err := readFile(cmd, name, maxSecrets)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	if strings.TrimSpace(string(data)) == "" {
		return "", exit.Usagef("--%s: no secret in it", flag)
	}
	return string(data), nil
}
