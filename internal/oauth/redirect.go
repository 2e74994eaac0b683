package oauth

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Rules of this file (RFC 9700, section 4.4): a code of one platform must not be sent to another
// one. So each app has its own redirect URL, at which no other app's code arrives. Where a platform
// names its issuer, it must be the login's.

const (
	// StartPath is where a browser begins a login that ends at this server's page.
	StartPath = "/oauth/start"
	// TicketParam is the parameter of StartPath that has the ticket.
	TicketParam = "login"
	// CallbackPath is where this server takes logins back, each app's at its name below.
	CallbackPath = "/oauth/callback/"
)

// ErrIssuer means that a code came from another issuer than the login's app has, or without the
// issuer that the app requires.
var ErrIssuer = errors.New("the code came from another issuer")

// StartURL is where a browser begins the login of a ticket.
func (a *Apps) StartURL(ticket string) string {
	return a.PublicURL + StartPath + "?" + url.Values{TicketParam: {ticket}}.Encode()
}

// Callback is the URL at which this server takes the logins of an app back; empty: at
// none.
func (a *Apps) Callback(app App) string {
	if a == nil || a.PublicURL == "" {
		return ""
	}
	return a.PublicURL + CallbackPath + app.Name
}

// Redirect returns the callback of a login: wanted, or this server's if wanted is empty. It reports
// whether the operator allows it.
func (a *Apps) Redirect(app App, wanted string) (string, bool) {
	if wanted == "" {
		return a.Callback(app), a.Callback(app) != ""
	}
	return wanted, slices.Contains(app.RedirectURLs, wanted)
}

// checkRedirects refuses redirect URLs at which the app of a code would be ambiguous.
func (a *Apps) checkRedirects() error {
	sharers := make(map[string][]App)
	for _, name := range a.Names() {
		app := a.byName[name]
		for _, u := range slices.Compact(slices.Sorted(slices.Values(app.RedirectURLs))) {
			if own := a.PublicURL + CallbackPath; a.PublicURL != "" && strings.HasPrefix(u, own) {
				return fmt.Errorf("app %q: redirect_urls: %s is this server's own", name, u)
			}
			sharers[u] = append(sharers[u], app)
		}
	}
	for _, u := range slices.Sorted(maps.Keys(sharers)) {
		apps := sharers[u]
		silent := slices.IndexFunc(apps, func(app App) bool { return app.Issuer == "" })
		if len(apps) > 1 && silent >= 0 {
			return fmt.Errorf("redirect_urls: %s is of the apps %q and %q, so a code of one could be sent to the other's platform; "+
				"give each app a URL of its own, or each an issuer (%q has none)", u, apps[0].Name, apps[1].Name, apps[silent].Name)
		}
	}
	return nil
}

// CheckIssuer judges the parameter iss that came with a code; empty: none came. Where the
// operator has named no issuer, one that comes has to be of the origin that the login was
// sent to. It fails with ErrIssuer.
func (a App) CheckIssuer(iss string) error {
	switch {
	case a.Issuer != "" && iss != a.Issuer:
		return fmt.Errorf("%w: app %q expects %s", ErrIssuer, a.Name, a.Issuer)
	case a.Issuer == "" && iss != "" && originOf(iss) != originOf(a.AuthorizationURL):
		return fmt.Errorf("%w: app %q has no issuer, and the one that came is not of its authorization_url; if it is right, "+
			"name it as the app's issuer", ErrIssuer, a.Name)
	}
	return nil
}

// originOf is the scheme and host of a URL; empty: it has none.
func originOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

// MayReturn reports whether a browser may be sent to a URL with a platform's answer.
func (a *Apps) MayReturn(to string) bool {
	u, err := url.Parse(to)
	if a == nil || err != nil || u.User != nil || u.Opaque != "" || u.Fragment != "" || u.Path != cleanPath(u.Path) || u.RawPath != "" {
		return false
	}
	return slices.ContainsFunc(a.ReturnURLs, func(allowed string) bool {
		base, err := url.Parse(allowed)
		if err != nil || u.Scheme != base.Scheme || u.Host != base.Host {
			return false
		}
		below := strings.TrimSuffix(base.Path, "/")
		return u.Path == below || strings.HasPrefix(u.Path, below+"/")
	})
}

// cleanPath returns a path without dots that lead elsewhere; another one means that
// there were some.
func cleanPath(p string) string {
	for _, part := range strings.Split(p, "/") {
		if part == "." || part == ".." || strings.Contains(part, "\\") {
			return ""
		}
	}
	return p
}
