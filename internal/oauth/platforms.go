package oauth

// known is what a platform wants of its apps.
type known struct {
	loginAt, grantAt string
	// perServer: the platform is many servers, and these are paths.
	perServer bool
	scopes    []string
	separator string
	style     string
	clientID  string
	refused   []string
}

// wellKnown are platforms by connector. An operator's file may say otherwise.
var wellKnown = map[string]known{
	// X asks for offline.access if it is to give a refresh token, and says of a code or
	// a token that it does not accept "invalid_request", "Value passed for the … was
	// invalid".
	"x": {
		loginAt: "https://x.com/i/oauth2/authorize", grantAt: "https://api.x.com/2/oauth2/token",
		scopes: []string{"tweet.read", "tweet.write", "users.read", "dm.read", "dm.write", "media.write", "offline.access"},
		style:  StyleHeader, refused: []string{"invalid_request"},
	},
	// TikTok calls the client's id its key, and separates scopes by commas.
	"tiktok": {
		loginAt: "https://www.tiktok.com/v2/auth/authorize/", grantAt: "https://open.tiktokapis.com/v2/oauth/token/",
		scopes:    []string{"user.info.basic", "video.publish", "video.list"},
		separator: ",", style: StyleBody, clientID: "client_key",
	},
	// Slack answers 200 to everything, with words of its own. Tokens of bots; a message
	// to a person opens a conversation, which is im:write.
	"slack": {
		loginAt: "https://slack.com/oauth/v2/authorize", grantAt: "https://slack.com/api/oauth.v2.access",
		scopes:    []string{"chat:write", "channels:history", "groups:history", "im:history", "im:write"},
		separator: ",", style: StyleHeader,
		refused: []string{"invalid_code", "code_already_used", "invalid_refresh_token", "token_revoked", "token_expired", "account_inactive"},
	},
	// Each Mastodon server has apps of its own. Its tokens do not end.
	"mastodon": {
		perServer: true, loginAt: "/oauth/authorize", grantAt: "/oauth/token",
		scopes: []string{"read:accounts", "read:statuses", "write:statuses", "write:media"}, style: StyleBody,
	},
}

// platformNames are what people call the platforms of connectors.
var platformNames = map[string]string{"x": "X", "tiktok": "TikTok", "slack": "Slack", "mastodon": "Mastodon", "bluesky": "Bluesky"}

// PlatformName is what people call the platform of a connector.
func PlatformName(connector string) string {
	if name, ok := platformNames[connector]; ok {
		return name
	}
	return connector
}
