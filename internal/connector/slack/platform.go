package slack

import (
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/platform"
)

// Platform returns the entry of internal/connector/builtin.
func Platform() platform.Platform {
	return platform.Platform{
		Name: Name, Title: "Slack", New: build, Address: DefaultBaseURL, LaterSecret: true,
		Settings: []platform.Flag{{
			Name: "channel", Usage: "the id of the conversation that posts go to", Placeholder: "ID", Field: "channel", Required: true,
			Hint: ": the id of a conversation, such as C0123456789", Label: "Channel",
		}},
		Post: []platform.Flag{{Name: "channel", Usage: "the conversation, by its id", Placeholder: "ID", Field: "channel", DefaultText: "the connection's"}},
		// Slack answers 200 to everything, with codes of its own. The tokens are a bot's; a
		// message to a person opens a conversation, which is im:write.
		OAuth: &platform.OAuth{
			LoginURL: "https://slack.com/oauth/v2/authorize", ExchangeURL: "https://slack.com/api/oauth.v2.access",
			Scopes: []string{"chat:write", "channels:history", "groups:history", "im:history", "im:write"}, Separator: ",",
			Refused: []string{"invalid_code", "code_already_used", "invalid_refresh_token", "token_revoked", "token_expired", "account_inactive"},
		},
	}
}

func build(e platform.Env) (connector.Connector, error) {
	return New(Config{Sender: e.Sender, BaseURL: e.BaseURL, Settle: DefaultSettle.Scaled(e.Wait)}), nil
}
