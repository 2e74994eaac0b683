package feed

import (
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/platform"
)

// Platform returns the entry of internal/connector/builtin.
func Platform() platform.Platform {
	return platform.Platform{
		Name: Name, Title: "Feed",
		New: func(e platform.Env) (connector.Connector, error) {
			return New(Config{Sender: e.Sender, HTTPSOnly: e.HTTPSOnly}), nil
		},
		Settings: []platform.Flag{
			platform.BaseURL(true),
			{
				Name: "read-lag", Usage: "how long after a write a read may still miss it", Field: "read_lag", DefaultText: "the connector's",
				Label: "Settings", Shown: "read lag %s",
			},
		},
	}
}
