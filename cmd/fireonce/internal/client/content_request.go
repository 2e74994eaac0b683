package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

var (
	webhookFields = fieldsOf(&fireoncev1.Webhook{}, "url content-type=content_type header:NAME:VALUE=headers")
	// plainFields are those that only connector http has.
	plainFields = fieldsOf(&fireoncev1.HttpRequest{}, "method id-json-pointer=id_json_pointer").only("connector http: ")
)

func requestFlags() []cli.Flag {
	return slices.Concat(webhookFields.flags(), []cli.Flag{
		textFlag("body", "`TEXT` the body"),
		textFlag("body-file", "`FILE` the body from a file, byte for byte; - reads standard input"),
	}, plainFields.flags())
}

// requestContent makes a webhook, or an HTTP request if a flag is set that only connector http has.
// sendContent converts a webhook where the connection needs a request.
func requestContent(cmd *cli.Command) (*fireoncev1.Payload, error) {
	hook, err := webhook(cmd)
	if err != nil {
		return nil, err
	}
	if !plainFields.given(cmd) {
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: hook}}, nil
	}
	req := plainRequest(hook)
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_HttpRequest{HttpRequest: req}}, plainFields.set(cmd, req)
}

// plainRequest is a webhook's request without its signature.
func plainRequest(hook *fireoncev1.Webhook) *fireoncev1.HttpRequest {
	req := &fireoncev1.HttpRequest{Url: hook.GetUrl(), ContentType: hook.GetContentType(), Headers: hook.GetHeaders()}
	switch body := hook.GetContent().(type) {
	case *fireoncev1.Webhook_Body:
		req.Content = &fireoncev1.HttpRequest_Body{Body: body.Body}
	case *fireoncev1.Webhook_BodyText:
		req.Content = &fireoncev1.HttpRequest_BodyText{BodyText: body.BodyText}
	case *fireoncev1.Webhook_BodyJson:
		req.Content = &fireoncev1.HttpRequest_BodyJson{BodyJson: body.BodyJson}
	}
	return req
}

func webhook(cmd *cli.Command) (*fireoncev1.Webhook, error) {
	hook := &fireoncev1.Webhook{}
	if err := webhookFields.set(cmd, hook); err != nil {
		return nil, err
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

// sendContent makes a call that carries content. The same flags describe a webhook and an HTTP
// request, and only the server knows the connection. If it refuses a webhook, or has another
// request under the key, the content is sent as a plain request. A refused call stored nothing.
func sendContent[Q, R any](
	ctx context.Context, c *call, p *fireoncev1.Payload, method func(context.Context, Q) (R, error), req Q,
) (R, error) {
	resp, err := Ask(ctx, method, req)
	hook := p.GetWebhook()
	if hook == nil || c.cmd.IsSet("payload-file") || !otherContent(err) {
		return resp, err
	}
	p.Kind = &fireoncev1.Payload_HttpRequest{HttpRequest: plainRequest(hook)}
	again, other := Ask(ctx, method, req)
	if otherContent(other) {
		p.Kind = &fireoncev1.Payload_Webhook{Webhook: hook}
		return resp, err
	}
	return again, other
}

// otherContent reports whether a connection does not send a kind of content, or a key is
// bound to a request with other content.
func otherContent(err error) bool {
	d, _ := exit.Details(err)
	fields := d.GetIdempotencyConflict().GetMismatchedFields()
	return d.GetReason() == fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_CONNECTION_MISMATCH || d.GetMetadata()["kind"] == "http_request" || slices.Contains(fields, "payload") ||
		slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, "job_template") })
}

// headerOf reads a header from a flag.
func headerOf(flag, text string) (name, value string, err error) {
	name, value, ok := strings.Cut(text, ":")
	if !ok || strings.TrimSpace(name) == "" {
		return "", "", exit.Usagef("--%s %q: must be 'NAME: VALUE'", flag, text)
	}
	return strings.TrimSpace(name), strings.TrimSpace(value), nil
}
