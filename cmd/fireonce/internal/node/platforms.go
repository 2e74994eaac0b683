package node

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector/builtin"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/platform"
	"github.com/fireonce/fireonce/internal/failpoint"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// movable returns the sorted names of the platforms that are one service at one address, which
// an operator may replace. The addresses of the others are part of their connections.
func movable() []string {
	return slices.Sorted(slices.Values(builtin.Names(func(p platform.Platform) bool { return p.Address != "" })))
}

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

// checkPlatformURLs refuses a URL that cannot be the base of an API.
func (c *Config) checkPlatformURLs() error {
	for name, base := range c.PlatformURLs {
		if known := movable(); !slices.Contains(known, name) {
			return exit.Usagef("--platform-url %s: must be one of %s", name, strings.Join(known, ", "))
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

// platformEnv returns what a platform's connector is made with. The waits of a connector are what
// it takes to be safe on the real platform. Only the crash campaign's build and the sandbox, whose
// platforms are fakes, make them shorter.
func (n *Node) platformEnv(name string, media *kit.Media) platform.Env {
	e := platform.Env{
		Sender: n.sender, Media: media, HTTPSOnly: n.cfg.httpsOnly(), BaseURL: n.cfg.PlatformURLs[name],
		Wait: failpoint.Hasten, Life: failpoint.Hasten,
	}
	if n.cfg.Sandbox {
		e.Wait = func(d time.Duration) time.Duration { return min(d, sandboxLag) }
		e.Life = func(time.Duration) time.Duration { return SandboxUploadLife + sandboxLag }
		e.Step = sandboxTimeout
	}
	return e
}
