package resend

import (
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/platform"
)

// Platform returns the entry of internal/connector/builtin.
func Platform() platform.Platform {
	return platform.Platform{
		Name: Name, Title: "Resend", Address: Address, LaterSecret: true,
		New: func(e platform.Env) (connector.Connector, error) {
			return New(Config{Sender: e.Sender, Media: e.Media, HTTPSOnly: e.HTTPSOnly, BaseURL: e.BaseURL})
		},
	}
}
