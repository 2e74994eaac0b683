package client

import (
	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

func mailFlags() []cli.Flag {
	return []cli.Flag{
		textsFlag("to", "an e-mail to this `ADDRESS`, such as 'Ada <ada@example.org>'; may be repeated"),
		textFlag("sender", "the sender's `ADDRESS`"),
		textsFlag("cc", "a copy to this `ADDRESS`; may be repeated"),
		textsFlag("bcc", "a copy to this `ADDRESS` that the others do not see; may be repeated"),
		&cli.StringSliceFlag{Name: "reply-address", Usage: "the `ADDRESS` for answers; may be repeated", DefaultText: "the sender's"},
		textFlag("subject", "the subject, as `TEXT`"),
		textFlag("html", "the body as `HTML`, beside --text or alone"),
		textFlag("html-file", "the same, from a `FILE`; - reads standard input"),
		textsFlag("attachment", "attach the file at this `URL`, which the server fetches when it sends; may be repeated"),
		textsFlag("mail-header", "a `HEADER` to add, as 'NAME: VALUE'; may be repeated"),
		textFlag("in-reply-to", "answer the e-mail with this Message-ID, as '<`ID`>'; --reply-to is for the e-mail of a job"),
		textsFlag("references", "the Message-ID of an earlier e-mail of the thread, as '<`ID`>', the oldest first; may be repeated"),
		textFlag("unsubscribe-url", "the `URL` by which a recipient asks for no more e-mails"),
		textFlag("unsubscribe-mailto", "the same by e-mail, as a `URL` such as mailto:leave@example.org"),
		boolFlag("one-click", "a POST to --unsubscribe-url unsubscribes, without another question (RFC 8058)"),
	}
}

func mailContent(cmd *cli.Command) (*fireoncev1.Payload, error) {
	if !cmd.IsSet("sender") {
		return nil, exit.Usagef("an e-mail needs --sender")
	}
	mail := &fireoncev1.Email{
		Sender: cmd.String("sender"), To: cmd.StringSlice("to"), Cc: cmd.StringSlice("cc"), Bcc: cmd.StringSlice("bcc"),
		ReplyTo: cmd.StringSlice("reply-address"), Subject: cmd.String("subject"),
		InReplyTo: cmd.String("in-reply-to"), References: cmd.StringSlice("references"),
	}
	var err error
	if mail.TextBody, err = contentText(cmd); err != nil {
		return nil, err
	}
	if mail.HtmlBody, err = textOrFile(cmd, "html", "html-file"); err != nil {
		return nil, err
	}
	for _, at := range cmd.StringSlice("attachment") {
		ref, err := mediaAt("attachment", at)
		if err != nil {
			return nil, err
		}
		mail.Attachments = append(mail.Attachments, ref)
	}
	for _, h := range cmd.StringSlice("mail-header") {
		name, value, err := headerOf("mail-header", h)
		if err != nil {
			return nil, err
		}
		mail.Headers = append(mail.Headers, &fireoncev1.EmailHeader{Name: name, Value: value})
	}
	if cmd.IsSet("unsubscribe-url") || cmd.IsSet("unsubscribe-mailto") || cmd.IsSet("one-click") {
		mail.Unsubscribe = &fireoncev1.Unsubscribe{
			Url: cmd.String("unsubscribe-url"), Mailto: cmd.String("unsubscribe-mailto"), OneClick: cmd.Bool("one-click"),
		}
	}
	if mail.InReplyTo != "" && cmd.IsSet("reply-to") {
		return nil, exit.Usagef("give --reply-to, a job, or --in-reply-to, an e-mail of another sender; not both")
	}
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: mail}}, nil
}
