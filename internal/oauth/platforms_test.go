package oauth

import (
	"slices"
	"testing"
)

// TestScopesAreEnough: a login asks for all that its connector does with the token, by
// the platforms' pages in docs/platforms. What is missing there no second login gives.
func TestScopesAreEnough(t *testing.T) {
	for connector, needed := range map[string][]string{
		"x":        {"tweet.read", "tweet.write", "users.read", "media.write", "dm.read", "dm.write", "offline.access"},
		"tiktok":   {"user.info.basic", "video.publish", "video.list"},
		"slack":    {"chat:write", "channels:history", "groups:history", "im:history", "im:write"},
		"mastodon": {"read:accounts", "read:statuses", "write:statuses", "write:media"},
	} {
		for _, scope := range needed {
			if !slices.Contains(wellKnown[connector].scopes, scope) {
				t.Errorf("%s: no %s", connector, scope)
			}
		}
	}
	if len(wellKnown) != 4 {
		t.Errorf("%d platforms", len(wellKnown))
	}
}
