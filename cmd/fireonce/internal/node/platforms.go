package node

import (
	"net/url"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector/mastodon"
	"github.com/fireonce/fireonce/internal/connector/resend"
	"github.com/fireonce/fireonce/internal/connector/slack"
	"github.com/fireonce/fireonce/internal/connector/smtp"
	"github.com/fireonce/fireonce/internal/connector/tiktok"
	"github.com/fireonce/fireonce/internal/connector/x"
	"github.com/fireonce/fireonce/internal/failpoint"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// elsewhere are the platforms that are one service at one address, which an operator
// may replace. Where the others are is part of a connection.
var elsewhere = []string{resend.Name, slack.Name, tiktok.Name, x.Name}

// platformURLs reads the flag --platform-url.
func platformURLs(list []string) (map[string]string, error) {
	out := make(map[string]string)
	for _, text := range list {
		name, base, ok := strings.Cut(text, "=")
		if _, twice := out[name]; !ok || twice {
			return nil, exit.Usagef("--platform-url %q: must be NAME=URL, each name once", text)
		}
		out[name] = base
	}
	return out, nil
}

// checkPlatformURLs refuses what could be no base of an API's addresses.
func (c *Config) checkPlatformURLs() error {
	for name, base := range c.PlatformURLs {
		known := false
		for _, n := range elsewhere {
			known = known || n == name
		}
		if !known {
			return exit.Usagef("--platform-url %s: must be one of %s", name, strings.Join(elsewhere, ", "))
		}
		u, err := url.Parse(base)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || strings.ContainsAny(base, "?#"):
			return exit.Usagef("--platform-url %s=%s: must be an address such as https://gateway.example.org/x", name, base)
		case u.Scheme == "http" && c.httpsOnly():
			return exit.Usagef("--platform-url %s=%s: credentials would go in the clear; http needs --allow-http or --dev", name, base)
		}
	}
	return nil
}

// What connectors wait for after an unknown outcome is what they take to be safe.
// Nobody but the crash campaign's own build makes it shorter, and the sandbox, whose
// platforms are fakes.

// wait is how long a connector waits in place of d.
func (c *Config) wait(d time.Duration) time.Duration {
	if c.Sandbox {
		return min(d, sandboxLag)
	}
	return failpoint.Hasten(d)
}

func (c *Config) xSettle() *x.Settle {
	s := x.DefaultSettle
	s.ReadLag, s.Spacing = c.wait(s.ReadLag), c.wait(s.Spacing)
	return &s
}

func (c *Config) slackSettle() *slack.Settle {
	s := slack.DefaultSettle
	s.ReadLag, s.Spacing = c.wait(s.ReadLag), c.wait(s.Spacing)
	return &s
}

func (c *Config) mastodonSettle() *mastodon.Settle {
	s := mastodon.DefaultSettle
	s.ReadLag, s.Spacing = c.wait(s.ReadLag), c.wait(s.Spacing)
	return &s
}

// tiktokConfig leaves the time of an upload as it is: that is work, not waiting.
func (n *Node) tiktokConfig() tiktok.Config {
	out := tiktok.Config{
		Sender: n.sender, HTTPSOnly: n.cfg.httpsOnly(), BaseURL: n.cfg.PlatformURLs[tiktok.Name],
		ReadLag: n.cfg.wait(tiktok.DefaultReadLag), UploadLife: failpoint.Hasten(tiktok.DefaultUploadLife),
	}
	if n.cfg.Sandbox {
		out.StepTime, out.UploadLife = sandboxTimeout, SandboxUploadLife+sandboxLag
	}
	return out
}

func (n *Node) smtpConfig() smtp.Config {
	return smtp.Config{Sender: n.sender, HTTPSOnly: n.cfg.httpsOnly(), BusyWait: n.cfg.wait(smtp.DefaultBusyWait)}
}
