package mastodon

import (
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/platform"
)

// Platform returns the entry of internal/connector/builtin.
func Platform() platform.Platform {
	return platform.Platform{
		Name: Name, Title: "Mastodon", New: build,
		Settings: []platform.Flag{
			platform.BaseURL(true),
			{
				Name: "receiver-dedupes", Usage: "yes or no: does the server ignore repeats of a key? Absent: the server is asked", Placeholder: "ANSWER", Field: "server_dedupes", Words: platform.Dedupes(),
				Hint: "; without it, the server is asked what it is", Label: "Settings", Shown: "receiver dedupes: %s",
			},
		},
		Post: []platform.Flag{
			{Name: "visibility", Usage: "public, unlisted, private or direct", Placeholder: "AUDIENCE", Field: "visibility", DefaultText: "the account's"},
			{Name: "content-warning", Usage: "the text that is shown until the reader opens the post", Placeholder: "TEXT", Field: "content_warning"},
			{Name: "sensitive", Usage: "hide the media until the reader opens them", Field: "sensitive"},
		},
		// Each server has apps of its own. Its tokens do not end.
		OAuth: &platform.OAuth{
			PerServer: true, LoginURL: "/oauth/authorize", ExchangeURL: "/oauth/token", Body: true,
			Scopes: []string{"read:accounts", "read:statuses", "write:statuses", "write:media"},
		},
	}
}

func build(e platform.Env) (connector.Connector, error) {
	return New(Config{Sender: e.Sender, Media: e.Media, HTTPSOnly: e.HTTPSOnly, Settle: DefaultSettle.Scaled(e.Wait)}), nil
}
