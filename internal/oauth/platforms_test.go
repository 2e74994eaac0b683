package oauth

import (
	"slices"
	"testing"

	"github.com/fireonce/fireonce/internal/connector/builtin"
	"github.com/fireonce/fireonce/internal/connector/platform"
)

// TestScopesAreEnough: a login asks for all that its connector does with the token, by the
// platforms' pages in docs/platforms. A later login adds no scope.
func TestScopesAreEnough(t *testing.T) {
	for connector, needed := range map[string][]string{
		"x":        {"tweet.read", "tweet.write", "users.read", "media.write", "dm.read", "dm.write", "offline.access"},
		"tiktok":   {"user.info.basic", "video.publish", "video.list"},
		"slack":    {"chat:write", "channels:history", "groups:history", "im:history", "im:write"},
		"mastodon": {"read:accounts", "read:statuses", "write:statuses", "write:media"},
	} {
		p, _ := builtin.Find(connector)
		for _, scope := range needed {
			if !slices.Contains(p.OAuth.Scopes, scope) {
				t.Errorf("%s: no %s", connector, scope)
			}
		}
	}
	if known := builtin.Names(func(p platform.Platform) bool { return p.OAuth != nil }); len(known) != 4 {
		t.Errorf("logins to %q", known)
	}
}
