package webhook

import (
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/platform"
)

// Platform returns the entry of internal/connector/builtin.
func Platform() platform.Platform {
	return platform.Platform{
		Name: Name, Title: "Webhook", Settings: platform.ReceiverFlags(), Secret: platform.Signing,
		New: func(e platform.Env) (connector.Connector, error) {
			return New(Config{Sender: e.Sender, HTTPSOnly: e.HTTPSOnly}), nil
		},
	}
}
