// Package oauth logs accounts in by OAuth 2 and keeps their tokens fresh: the apps
// that an operator has registered with platforms, the messages of the protocol, and
// the renewal of tokens before they are used.
//
// A refresh token is often good for one use. So one renewal at a time runs for a connection, over
// all servers; new tokens are durable before the first use; and a renewal whose answer was lost is
// recorded as lost.
package oauth

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/fireonce/fireonce/internal/connector/platform"
	"github.com/fireonce/fireonce/internal/redact"
	"github.com/fireonce/fireonce/internal/textfile"
)

// The values of App.AuthStyle.
const (
	// StyleHeader sends client id and secret as HTTP basic authentication.
	StyleHeader = "header"
	// StyleBody sends them as parameters.
	StyleBody = "body"
)

// App is a client that the operator has registered with a platform. It prints as its
// name.
type App struct {
	// Name is the value of OAuth2Token.app.
	Name string `json:"name"`
	// Connector is the connector whose connections may use the app.
	Connector string `json:"connector"`
	// Server is the base URL of the one server that the app is registered with, for
	// platforms that are many servers; empty otherwise.
	Server       string `json:"server"`
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	// ClientSecretFile and ClientSecretEnv name the file or the variable that holds the secret
	// instead.
	ClientSecretFile string `json:"client_secret_file"`
	ClientSecretEnv  string `json:"client_secret_env"`
	AuthorizationURL string `json:"authorization_url"`
	TokenURL         string `json:"token_url"`
	// Issuer is the issuer identifier that the platform sends with each code, in the parameter iss
	// (RFC 9207). A code without it, or with another one, is refused. Empty: the platform is not
	// known to send it.
	Issuer string `json:"issuer"`
	// Scopes are requested, joined by ScopeSeparator, or by a space if that is empty.
	Scopes         []string `json:"scopes"`
	ScopeSeparator string   `json:"scope_separator"`
	// AuthStyle is StyleHeader or StyleBody.
	AuthStyle string `json:"auth_style"`
	// ClientIDParam is what the platform calls client_id.
	ClientIDParam string `json:"client_id_param"`
	// AuthorizationParams are added to the URL that a person is sent to.
	AuthorizationParams map[string]string `json:"authorization_params"`
	// RefusedCodes are further error codes that mean invalid_grant.
	RefusedCodes []string `json:"refused_codes"`
	// RedirectURLs are callbacks of the operator's own, registered with the platform,
	// that a login may come back to instead of this server's. No two apps share one,
	// unless each of them has an Issuer.
	RedirectURLs []string `json:"redirect_urls"`
}

// String is the app's name.
func (a App) String() string { return "app " + a.Name }

// GoString hides the secret from %#v.
func (a App) GoString() string { return a.String() }

// Format hides the secret from every verb.
func (a App) Format(s fmt.State, _ rune) { redact.Format(s, a.String()) }

// LogValue hides the secret from logs.
func (a App) LogValue() slog.Value { return slog.StringValue(a.String()) }

// MarshalJSON hides the secret from logs in JSON.
func (a App) MarshalJSON() ([]byte, error) { return json.Marshal(a.String()) }

// Apps is an operator's file of apps.
type Apps struct {
	// PublicURL is where browsers reach this server. Empty: no login comes back to this server.
	PublicURL string
	// ReturnURLs are the URLs, with all below them, to which a browser may be sent with a
	// platform's answer.
	ReturnURLs []string
	byName     map[string]App
	platforms  []platform.Platform
}

// NewApps returns no apps, for a server that has no file of them. It knows the platforms.
func NewApps(platforms []platform.Platform) *Apps { return &Apps{platforms: platforms} }

// Title returns what people call the platform of a connector.
func (a *Apps) Title(connector string) string {
	if a != nil {
		if i := slices.IndexFunc(a.platforms, func(p platform.Platform) bool { return p.Name == connector }); i >= 0 {
			return a.platforms[i].Title
		}
	}
	return connector
}

// defaults returns the login of a connector's platform; zero if the platform has none.
func (a *Apps) defaults(connector string) platform.OAuth {
	for _, p := range a.platforms {
		if p.Name == connector && p.OAuth != nil {
			return *p.OAuth
		}
	}
	return platform.OAuth{}
}

// file is the form of the operator's file.
type file struct {
	PublicURL  string   `json:"public_url"`
	ReturnURLs []string `json:"return_urls"`
	Apps       []App    `json:"apps"`
}

// maxFile bounds the operator's file, in bytes, and maxApps the apps in it.
const (
	maxFile = 1 << 20
	maxApps = 1000
)

// LoadApps reads an operator's file. Names of files in it are relative to its folder. An app takes
// from its platform what the file leaves out. insecure allows http URLs. Only its owner may read a
// file that holds a secret; else LoadApps fails with vault.ErrFileMode. No error quotes a secret.
func LoadApps(path string, platforms []platform.Platform, insecure bool) (*Apps, error) {
	text, mode, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("oauth apps: %w", err)
	}
	apps, err := parseApps(text, source{dir: filepath.Dir(path), env: os.LookupEnv, mode: mode}, platforms, insecure)
	if err != nil {
		return nil, fmt.Errorf("oauth apps: %s: %w", path, err)
	}
	return apps, nil
}

func parseApps(text []byte, from source, platforms []platform.Platform, insecure bool) (*Apps, error) {
	var in file
	if len(text) > maxFile {
		return nil, fmt.Errorf("more than %d bytes", maxFile)
	}
	if err := textfile.DecodeJSON(text, &in); err != nil {
		return nil, err
	}
	if len(in.Apps) > maxApps {
		return nil, fmt.Errorf("%d apps, at most %d", len(in.Apps), maxApps)
	}
	out := &Apps{PublicURL: strings.TrimSuffix(in.PublicURL, "/"), ReturnURLs: in.ReturnURLs, byName: make(map[string]App, len(in.Apps)), platforms: platforms}
	if err := out.checkURLs(insecure); err != nil {
		return nil, err
	}
	for i, a := range in.Apps {
		a, err := a.completed(from, out.defaults(a.Connector))
		if err == nil {
			err = a.check(insecure)
		}
		if err != nil {
			return nil, fmt.Errorf("apps[%d] %q: %w", i, a.Name, err)
		}
		if _, taken := out.byName[a.Name]; taken {
			return nil, fmt.Errorf("apps[%d]: the name %q is taken", i, a.Name)
		}
		out.byName[a.Name] = a
	}
	return out, out.checkRedirects()
}

func (a *Apps) checkURLs(insecure bool) error {
	if a.PublicURL != "" {
		if err := checkURL(a.PublicURL, insecure); err != nil {
			return fmt.Errorf("public_url: %w", err)
		}
	}
	for i, u := range a.ReturnURLs {
		if err := checkURL(u, insecure); err != nil {
			return fmt.Errorf("return_urls[%d]: %w", i, err)
		}
	}
	return nil
}

// checkURL accepts only absolute URLs without user, query and fragment.
func checkURL(text string, insecure bool) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return errors.New("no absolute URL")
	case u.Scheme != "https" && (u.Scheme != "http" || !insecure):
		return errors.New("must be an https URL")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("must have no user, query or fragment")
	}
	return nil
}

// completed fills in the secret, and the platform's defaults.
func (a App) completed(from source, d platform.OAuth) (App, error) {
	a, err := a.withSecret(from)
	if err != nil {
		return a, err
	}
	a.Server = strings.TrimSuffix(a.Server, "/")
	if d.PerServer && a.Server == "" {
		return a, errors.New("server is missing: each server of this platform has apps of its own")
	}
	a.AuthorizationURL = cmp.Or(a.AuthorizationURL, a.Server+d.LoginURL)
	a.TokenURL = cmp.Or(a.TokenURL, a.Server+d.ExchangeURL)
	a.ScopeSeparator = cmp.Or(a.ScopeSeparator, d.Separator, " ")
	a.ClientIDParam = cmp.Or(a.ClientIDParam, d.ClientIDParam, "client_id")
	if d.Body {
		a.AuthStyle = cmp.Or(a.AuthStyle, StyleBody)
	}
	a.AuthStyle = cmp.Or(a.AuthStyle, StyleHeader)
	if len(a.Scopes) == 0 {
		a.Scopes = d.Scopes
	}
	a.RefusedCodes = append(slices.Clone(d.Refused), a.RefusedCodes...)
	return a, nil
}

var (
	nameForm  = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	paramForm = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
)

// Compiling the large count takes 2 ms, too long for every start of the program.
var printable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[!-~]{1,1000}$`) })

// own are the parameters that no operator may set: they make a login safe.
var own = []string{"state", "code_challenge", "code_challenge_method", "redirect_uri", "response_type", "client_id", "client_key", "scope"}

func (a App) check(insecure bool) error {
	switch {
	case !nameForm.MatchString(a.Name):
		return errors.New("name must be lower case letters, digits, - and _")
	case !nameForm.MatchString(a.Connector):
		return errors.New("connector is missing")
	case !printable().MatchString(a.ClientID):
		return errors.New("client_id is missing, or has white space")
	case a.ClientSecret != "" && !printable().MatchString(a.ClientSecret):
		return errors.New("the secret is too long, or has white space")
	case a.AuthStyle != StyleHeader && a.AuthStyle != StyleBody:
		return fmt.Errorf("auth_style must be %s or %s", StyleHeader, StyleBody)
	case !paramForm.MatchString(a.ClientIDParam):
		return errors.New("client_id_param is no name")
	}
	for name, u := range map[string]string{"authorization_url": a.AuthorizationURL, "token_url": a.TokenURL} {
		if err := checkURL(u, insecure); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if a.Issuer != "" {
		if err := checkURL(a.Issuer, insecure); err != nil {
			return fmt.Errorf("issuer: %w", err)
		}
	}
	for i, u := range a.RedirectURLs {
		if err := checkURL(u, insecure); err != nil {
			return fmt.Errorf("redirect_urls[%d]: %w", i, err)
		}
	}
	for name := range a.AuthorizationParams {
		if !paramForm.MatchString(name) || slices.Contains(own, name) {
			return fmt.Errorf("authorization_params: %q is not to be set", name)
		}
	}
	return nil
}

// Named returns an app by its name.
func (a *Apps) Named(name string) (App, bool) {
	if a == nil {
		return App{}, false
	}
	app, ok := a.byName[name]
	return app, ok
}

// Find returns an app by its name. It reports whether the connector's connections may use it.
func (a *Apps) Find(name, connector string) (App, bool) {
	app, ok := a.Named(name)
	return app, ok && app.Connector == connector
}

// Serves reports whether a connection's settings name the server that the app is registered
// with. Its tokens go nowhere else. An app without a server serves every connection.
func (a App) Serves(settings []byte) bool {
	return a.Server == "" || strings.TrimSuffix(serverIn(settings), "/") == a.Server
}

// serverIn returns the server that settings name. Every kind of settings that names a server
// does so in field 1. It returns nothing for settings that cannot be read.
func serverIn(settings []byte) string {
	var server string
	for len(settings) > 0 {
		number, kind, n := protowire.ConsumeTag(settings)
		if n < 0 {
			return ""
		}
		settings = settings[n:]
		if number == 1 && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(settings)
			server = string(value)
		}
		if n = protowire.ConsumeFieldValue(number, kind, settings); n < 0 {
			return ""
		}
		settings = settings[n:]
	}
	return server
}

// Names lists the apps' names in order.
func (a *Apps) Names() []string {
	var names []string
	if a != nil {
		for name := range a.byName {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
