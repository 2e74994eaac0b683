package webhook

import (
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/platform"
)

// callbackURL is where callbacks and notices go.
var callbackURL = platform.Flag{
	Name: "callback-url", Usage: "the `URL` to which callbacks of jobs and notices of subscriptions go", Field: "callback_url", Label: "Callbacks to",
}

// Platform returns the entry of internal/connector/builtin.
func Platform() platform.Platform {
	return platform.Platform{
		Name: Name, Title: "Webhook", Settings: append(platform.ReceiverFlags(), callbackURL), Secret: platform.Signing,
		New: func(e platform.Env) (connector.Connector, error) {
			return New(Config{Sender: e.Sender, HTTPSOnly: e.HTTPSOnly}), nil
		},
	}
}
