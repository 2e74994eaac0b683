package bluesky

import (
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/platform"
)

// Platform returns the entry of internal/connector/builtin.
func Platform() platform.Platform {
	return platform.Platform{
		Name: Name, Title: "Bluesky", Settings: []platform.Flag{platform.BaseURL(false)}, Secret: platform.Other,
		Post: []platform.Flag{{Name: "no-card", Usage: "no card of the first link below the text", Field: "no_card"}},
		New: func(e platform.Env) (connector.Connector, error) {
			return New(Config{Sender: e.Sender, Media: e.Media, HTTPSOnly: e.HTTPSOnly}), nil
		},
	}
}
