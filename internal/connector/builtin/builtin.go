// Package builtin is the list of the platforms that are part of the program. The server, the
// command line and OAuth read it; nothing else names a platform. docs/adding-a-platform.md adds
// one. Their fakes are in the package fakes below, which a server that runs in earnest does not
// import.
package builtin

import (
	"github.com/fireonce/fireonce/internal/connector/bluesky"
	"github.com/fireonce/fireonce/internal/connector/feed"
	"github.com/fireonce/fireonce/internal/connector/httpapi"
	"github.com/fireonce/fireonce/internal/connector/mastodon"
	"github.com/fireonce/fireonce/internal/connector/platform"
	"github.com/fireonce/fireonce/internal/connector/resend"
	"github.com/fireonce/fireonce/internal/connector/slack"
	"github.com/fireonce/fireonce/internal/connector/smtp"
	"github.com/fireonce/fireonce/internal/connector/tiktok"
	"github.com/fireonce/fireonce/internal/connector/webhook"
	"github.com/fireonce/fireonce/internal/connector/x"
)

// Platforms are the built-in platforms, in the order in which help texts name them.
var Platforms = []platform.Platform{
	webhook.Platform(),
	httpapi.Platform(),
	feed.Platform(),
	mastodon.Platform(),
	bluesky.Platform(),
	x.Platform(),
	tiktok.Platform(),
	slack.Platform(),
	smtp.Platform(),
	resend.Platform(),
}

// Find returns the platform with a name.
func Find(name string) (platform.Platform, bool) {
	for _, p := range Platforms {
		if p.Name == name {
			return p, true
		}
	}
	return platform.Platform{}, false
}

// Names returns the names of the platforms that a predicate selects, in the list's order.
func Names(selects func(platform.Platform) bool) []string {
	var out []string
	for _, p := range Platforms {
		if selects(p) {
			out = append(out, p.Name)
		}
	}
	return out
}
