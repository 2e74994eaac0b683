package x

import (
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/platform"
)

// Platform returns the entry of internal/connector/builtin.
func Platform() platform.Platform {
	return platform.Platform{
		Name: Name, Title: "X", New: build, Address: DefaultBaseURL, LaterSecret: true,
		Settings: []platform.Flag{{
			Name: "long-posts", Usage: "the account may post more than 280 characters", Field: "long_posts",
			Label: "Settings", Shown: "posts of more than 280 characters",
		}},
		Post: []platform.Flag{
			{Name: "quote", Usage: "quote the post with this id", Placeholder: "ID", Field: "quote_post_id"},
			{
				Name: "who-may-reply", Usage: "following, mentioned-users, subscribers or verified", Placeholder: "AUDIENCE", Field: "reply_settings",
				DefaultText: "everybody",
			},
		},
		// X issues a refresh token only with offline.access. It refuses a code or a token with
		// "invalid_request", "Value passed for the … was invalid".
		OAuth: &platform.OAuth{
			LoginURL: "https://x.com/i/oauth2/authorize", ExchangeURL: "https://api.x.com/2/oauth2/token",
			Scopes:  []string{"tweet.read", "tweet.write", "users.read", "dm.read", "dm.write", "media.write", "offline.access"},
			Refused: []string{"invalid_request"},
		},
	}
}

func build(e platform.Env) (connector.Connector, error) {
	return New(Config{Sender: e.Sender, Media: e.Media, BaseURL: e.BaseURL, Settle: DefaultSettle.Scaled(e.Wait)}), nil
}
