package client

import (
	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

var mailFields = fieldsOf(&fireoncev1.Email{}, "to:ADDRESS=to sender:ADDRESS=sender cc:ADDRESS=cc bcc:ADDRESS=bcc "+
	"reply-address=reply_to subject:TEXT=subject attachment:URL=attachments mail-header:NAME:VALUE=headers in-reply-to:ID=in_reply_to "+
	"references:ID=references unsubscribe-url=unsubscribe.url unsubscribe-mailto:URL=unsubscribe.mailto unsubscribe.one_click")

func mailFlags() []cli.Flag {
	return append(mailFields.flags(),
		textFlag("html", "`HTML` the body as HTML, beside --text or alone"),
		textFlag("html-file", "`FILE` the same from a file; - reads standard input"),
	)
}

func mailContent(cmd *cli.Command) (*fireoncev1.Payload, error) {
	if !cmd.IsSet("sender") {
		return nil, exit.Usagef("an e-mail needs --sender")
	}
	mail := &fireoncev1.Email{}
	err := mailFields.set(cmd, mail)
	if err != nil {
		return nil, err
	}
	if mail.TextBody, err = contentText(cmd); err != nil {
		return nil, err
	}
	if mail.HtmlBody, err = textOrFile(cmd, "html", "html-file"); err != nil {
		return nil, err
	}
	if mail.GetInReplyTo() != "" && cmd.IsSet("reply-to") {
		return nil, exit.Usagef("give --reply-to, a job, or --in-reply-to, an e-mail of another sender; not both")
	}
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: mail}}, nil
}
