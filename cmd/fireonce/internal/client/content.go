package client

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
	"github.com/fireonce/fireonce/internal/textfile"
)

// Rules of this file: flags describe what a job sends. A flag belongs to one kind of content, and
// selects that kind; --text belongs to several. Flags of two kinds are refused here. The server
// refuses a kind that the connection does not send.

// maxPayloadFile bounds a file with a payload in JSON, in bytes: the contract's bound on a body,
// and a margin for base64 and names.
const maxPayloadFile = 1 << 20

// contentKind is a kind of content that flags can describe.
type contentKind struct {
	name string
	// needs is the flag without which there is no such content; empty: one of its flags.
	needs string
	// category heads its flags in help texts.
	category string
	flags    []cli.Flag
	make     func(*cli.Command) (*fireoncev1.Payload, error)
}

// contentKinds are made for each command: a flag keeps its value.
func contentKinds() []contentKind {
	return []contentKind{
		{"a request", "url", "Content: a webhook or an HTTP request", requestFlags(), requestContent},
		{"an e-mail", "to", "Content: an e-mail", mailFlags(), mailContent},
		{"a direct message", "recipient", "Content: a direct message", messageFields.flags(), messageContent},
		{"a post", "", "Content: a post", postFlags(), postContent},
	}
}

// payloadFlags describe content: a request, an e-mail, a message, a post, or any kind as JSON.
func payloadFlags() []cli.Flag {
	out := inCategory("Content",
		textFlag("text", "`TEXT` the text of a post, or with --to or --recipient of an e-mail or a message"),
		textFlag("text-file", "`FILE` the same from a file; - reads standard input"),
		textFlag("payload-file", "`FILE` content of any kind from a file: the contract's Payload as JSON; - reads standard input"),
	)
	for _, kind := range contentKinds() {
		out = append(out, inCategory(kind.category, kind.flags...)...)
	}
	return out
}

func payloadGiven(cmd *cli.Command) bool { return anySet(cmd, payloadFlags()) }

// payload reads the content.
func payload(cmd *cli.Command) (*fireoncev1.Payload, error) {
	kind, flag, err := kindGiven(cmd)
	if err != nil {
		return nil, err
	}
	text := cmd.IsSet("text") || cmd.IsSet("text-file")
	switch {
	case cmd.IsSet("payload-file") && (kind != nil || text):
		return nil, exit.Usagef("--payload-file says all of the content: give no other flag for it")
	case cmd.IsSet("payload-file"):
		p := &fireoncev1.Payload{}
		return p, readJSON(cmd, "payload-file", maxPayloadFile, p, `{"socialPost": {"text": "…"}}`)
	case kind == nil && text:
		return postContent(cmd)
	case kind == nil:
		return nil, contentMissing(cmd)
	case kind.needs == "to" && !cmd.IsSet("to") && (cmd.IsSet("cc") || cmd.IsSet("bcc")): // enough for an e-mail
	case kind.needs != "" && !cmd.IsSet(kind.needs):
		return nil, exit.Usagef("--%s is for %s: give --%s, too", flag, kind.name, kind.needs)
	}
	return kind.make(cmd)
}

// contentMissing returns an error if no flag has content.
func contentMissing(cmd *cli.Command) error {
	if payloadGiven(cmd) {
		return nil
	}
	return exit.Usagef("say what to send: --url for a request, --text or --media for a post, --to for an e-mail, --recipient for a message, or --payload-file")
}

// kindGiven returns the kind of content that the flags select, and the first such flag; nil: no
// flag selects one.
func kindGiven(cmd *cli.Command) (given *contentKind, flag string, err error) {
	for _, kind := range contentKinds() {
		i := slices.IndexFunc(kind.flags, func(f cli.Flag) bool { return cmd.IsSet(f.Names()[0]) })
		if i < 0 {
			continue
		}
		name := kind.flags[i].Names()[0]
		if given != nil {
			return nil, "", exit.Usagef("--%s is for %s, --%s for %s: give one kind of content", flag, given.name, name, kind.name)
		}
		given, flag = &kind, name
	}
	return given, flag, nil
}

// contentText reads --text or --text-file.
func contentText(cmd *cli.Command) (string, error) {
	return textOrFile(cmd, "text", "text-file")
}

// textOrFile reads a text from one flag, or from the file that the other one names.
func textOrFile(cmd *cli.Command, flag, fileFlag string) (string, error) {
	switch {
	case cmd.IsSet(flag) && cmd.IsSet(fileFlag):
		return "", exit.Usagef("give --%s or --%s, not both", flag, fileFlag)
	case !cmd.IsSet(fileFlag):
		return cmd.String(flag), nil
	}
	raw, err := readText(cmd, cmd.String(fileFlag), maxBody)
	if err != nil {
		return "", exit.Usagef("--%s: %w", fileFlag, err)
	}
	if err := textfile.CheckUTF8(raw); err != nil {
		return "", exit.Usagef("--%s: %w", fileFlag, err)
	}
	return strings.TrimSuffix(string(raw), "\n"), nil
}
