package smtp

import (
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/platform"
)

// Platform returns the entry of internal/connector/builtin.
func Platform() platform.Platform {
	return platform.Platform{
		Name: Name, Title: "SMTP", Secret: platform.Login,
		New: func(e platform.Env) (connector.Connector, error) {
			return New(Config{Sender: e.Sender, Media: e.Media, HTTPSOnly: e.HTTPSOnly, BusyWait: e.Wait(DefaultBusyWait)}), nil
		},
		Settings: []platform.Flag{
			{Name: "host", Usage: "the relay's name or address", Field: "host", Required: true, Label: "Relay"},
			{Name: "port", Usage: "the relay's port", Placeholder: "PORT", Field: "port", DefaultText: "587, with tls 465", Label: "Relay", Shown: platform.ShownPort},
			{Name: "security", Usage: "starttls, tls (from the first byte) or none", Placeholder: "MODE", Field: "security", Default: "starttls", Label: "Relay"},
			{Name: "helo-name", Usage: "the name that EHLO says", Field: "helo_name", DefaultText: "the server's host name"},
		},
	}
}
